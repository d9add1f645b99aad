"""The embedded model: llama.cpp in this process, with every reply constrained to its type."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
