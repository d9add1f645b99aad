"""Synthesis: typed answers from more text than fits in one request, with the response modes of LlamaIndex."""

from __future__ import annotations

from .questions import SynthesisPrompts
from .synthesizer import PartAnswered, ResponseMode, Synthesizer

__all__ = ["PartAnswered", "ResponseMode", "SynthesisPrompts", "Synthesizer"]
