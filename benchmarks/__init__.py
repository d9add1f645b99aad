"""Benchmarks of time, instructions and accuracy, run by ``python -m benchmarks``."""
