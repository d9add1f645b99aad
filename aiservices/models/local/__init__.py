"""The embedded model: a chat model that runs inside this process with llama.cpp."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
