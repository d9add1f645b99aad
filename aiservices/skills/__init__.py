"""Skills: folders with instructions, files and scripts, which a model loads when it needs them."""

from __future__ import annotations

from .provider import Skills
from .scripts import ScriptSettings
from .skill import Skill

__all__ = ["ScriptSettings", "Skill", "Skills"]
