"""The embedded chat model, which runs inside this process with llama.cpp."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
