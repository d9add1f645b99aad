"""Typed answers from more text than a model is shown at once: the response modes of LlamaIndex."""

from __future__ import annotations

from .questions import SynthesisPrompts
from .synthesizer import Mode, PartAnswered, Synthesizer

__all__ = ["Mode", "PartAnswered", "SynthesisPrompts", "Synthesizer"]
