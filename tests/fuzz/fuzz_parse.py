"""Runs the fuzzing with atheris, which README.md tells how to install: ``python tests/fuzz/fuzz_parse.py``."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["output_parsers"]):
    from promises import fuzz_one

if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()
