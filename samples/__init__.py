"""Samples of the library, one file each: ``python -m samples.sentiment``, and ``python -m samples.tour`` for all."""
