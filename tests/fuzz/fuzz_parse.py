"""Run the fuzzing with atheris, as described in README.md."""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["output_parsers"]):
    from promises import fuzz_one

if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()
