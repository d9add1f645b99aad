"""Chat models: their interface, messages, requests and errors, and the implementations."""

from __future__ import annotations
