"""The embedded model: llama.cpp inside the process, with every reply constrained to its type."""

from .chat import LocalChatModel

__all__ = ["LocalChatModel"]
