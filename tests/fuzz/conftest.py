"""The modules of the fuzzing import each other as they do where they are run by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
