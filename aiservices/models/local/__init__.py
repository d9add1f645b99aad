"""The embedded chat model, which runs llama.cpp inside this process."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
