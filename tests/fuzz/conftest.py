"""Make the modules of this folder importable by their names, as they are when atheris runs them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
