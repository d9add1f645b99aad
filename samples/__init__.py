"""Samples of the library, one file each: ``python -m samples.sentiment``; ``python -m samples.tour`` has all."""
