"""Sample programs, each in one file. Run one with ``python -m samples.sentiment``, for example."""
