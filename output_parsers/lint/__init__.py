"""Says what a provider's strict mode cannot say of a type, and what is done about it."""

from __future__ import annotations

from ..strict.codec import Finding
from ..strict.patch import lint

__all__ = ["Finding", "lint"]
