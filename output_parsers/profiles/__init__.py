"""The JSON Schema features that each provider's strict mode supports.

A ``Profile`` such as ``OPENAI`` is given to ``output_parsers.lint.lint``.
"""

from __future__ import annotations

from ..strict.profiles import ANTHROPIC, GEMINI, LLAMA_CPP, OPENAI, PROFILES, VLLM, Limits, Profile

__all__ = ["ANTHROPIC", "GEMINI", "LLAMA_CPP", "OPENAI", "PROFILES", "VLLM", "Limits", "Profile"]
