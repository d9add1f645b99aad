"""Skills: folders with instructions, files and scripts, which a model loads when it needs them."""

from __future__ import annotations

from .skills import ScriptSettings, Skill, Skills

__all__ = ["ScriptSettings", "Skill", "Skills"]
