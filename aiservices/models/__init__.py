"""Chat models of several providers, with the classes for messages, requests, replies and errors."""

from __future__ import annotations

# The function that creates a model of each built-in provider, as "module:attribute". The package adds them,
# because some of them belong to higher layers than this one.
BUILT_IN: dict[str, str] = {}
