"""A hook of mkdocs that adds the figures of the benchmarks to the site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_FIGURES = Path(__file__).parents[1] / "benchmarks" / "figures"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add each figure at the address to which the benchmarks page links."""
    for path in sorted(_FIGURES.glob("*.svg")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    return files
