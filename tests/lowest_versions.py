"""Print the lowest versions of the base dependencies that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]

if __name__ == "__main__":
    for dependency in PROJECT["dependencies"]:
        name, bound, version = dependency.partition(">=")
        if bound:
            print(f"{name}=={version}")
