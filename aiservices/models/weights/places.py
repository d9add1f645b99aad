"""Where weights lie on this machine, and the stamp that says that a file was checked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from .known import Weights

__all__ = ["is_ready", "models_folder", "place_of", "remove_stamp", "stamp"]


def models_folder() -> Path:
    """The folder of all weights: under ``AISERVICES_CACHE``, else under the user's cache folder."""
    chosen = os.environ.get("AISERVICES_CACHE")
    return (Path(chosen).expanduser() if chosen else _user_cache()) / "aiservices" / "models"


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache"


def place_of(weights: Weights) -> Path:
    """The path that the weights have when they are pulled."""
    return models_folder() / weights.file_name


def is_ready(weights: Weights) -> bool:
    """Whether the file is there with the size that it had when its whole SHA-256 was checked.

    Reading a gigabyte at every start would cost seconds, so only ``pull`` reads the file again.
    """
    path = place_of(weights)
    try:
        said = json.loads(_stamp_of(path).read_text("utf-8"))
        return bool(said == {"sha256": weights.sha256, "bytes": path.stat().st_size})
    except (OSError, ValueError):
        return False


def stamp(path: Path, sha256: str) -> None:
    """Record that the file at ``path`` was read whole and has this SHA-256."""
    said = json.dumps({"sha256": sha256, "bytes": path.stat().st_size})
    fresh = _stamp_of(path).with_suffix(".new")
    fresh.write_text(said, "utf-8")
    os.replace(fresh, _stamp_of(path))


def remove_stamp(path: Path) -> None:
    """Forget that the file at ``path`` was checked."""
    _stamp_of(path).unlink(missing_ok=True)


def _stamp_of(path: Path) -> Path:
    return path.with_name(path.name + ".checked")
