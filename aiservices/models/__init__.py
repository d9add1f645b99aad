"""Chat models of several providers, with the classes for messages, requests, replies and errors."""

from __future__ import annotations
