"""What providers enforce of a JSON Schema, each as its own documents say."""

from __future__ import annotations

from ..strict.profiles import ANTHROPIC, GEMINI, LLAMA_CPP, OPENAI, PROFILES, VLLM, Limits, Profile

__all__ = ["ANTHROPIC", "GEMINI", "LLAMA_CPP", "OPENAI", "PROFILES", "VLLM", "Limits", "Profile"]
