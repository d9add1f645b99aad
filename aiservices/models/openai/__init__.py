"""Chat models for OpenAI, Azure OpenAI, Ollama and servers with the same API."""

from __future__ import annotations

from .model import OpenAiChatModel, OpenAiResponsesModel

__all__ = ["OpenAiChatModel", "OpenAiResponsesModel"]
