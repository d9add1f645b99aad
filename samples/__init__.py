"""Samples of the library, one file each (``python -m samples.sentiment``); ``samples.tour`` runs them all."""
