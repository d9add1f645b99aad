"""What connects services to other systems, each in a module that is imported for itself."""

from __future__ import annotations
