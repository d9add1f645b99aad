"""Chat models: their interface, messages, requests and errors, and the models themselves."""

from __future__ import annotations
