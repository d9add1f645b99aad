"""Other ways to run ``map_rows``: on the batch services of providers, which cost half and take hours."""

from .batch import BatchEngine

__all__ = ["BatchEngine"]
