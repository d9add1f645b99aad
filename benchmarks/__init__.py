"""What the library costs, measured beside what it is built on: ``python -m benchmarks``."""
