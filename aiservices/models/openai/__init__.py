"""Chat models of OpenAI, Azure OpenAI, Ollama and compatible servers."""

from __future__ import annotations

from .model import OpenAiChatModel, OpenAiResponsesModel

__all__ = ["OpenAiChatModel", "OpenAiResponsesModel"]
