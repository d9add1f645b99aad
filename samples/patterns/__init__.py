"""Services that work together, one pattern in each file: ``python -m samples.patterns.loop [MODEL]``."""
