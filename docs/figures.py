"""Puts the figures of the benchmarks beside the page that includes their text."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_FIGURES = Path(__file__).parents[1] / "benchmarks" / "figures"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add each figure under the address that the text names it by."""
    for path in sorted(_FIGURES.glob("*.svg")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    return files
