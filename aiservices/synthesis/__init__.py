"""Create typed answers from text that is too long for one model request, as LlamaIndex does."""

from __future__ import annotations

from .synthesizer import PartAnswered, ResponseMode, SynthesisPrompts, Synthesizer

__all__ = ["PartAnswered", "ResponseMode", "SynthesisPrompts", "Synthesizer"]
