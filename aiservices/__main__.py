"""Run the command-line program with ``python -m aiservices``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
