"""The embedded model, which runs on llama.cpp in this process."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
