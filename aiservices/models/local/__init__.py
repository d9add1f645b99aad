"""The embedded model: llama.cpp inside the process, with every reply constrained to its type."""

from __future__ import annotations

from .model import LocalChatModel

__all__ = ["LocalChatModel"]
