"""Chat models of several providers: their interface, messages, requests, errors and implementations."""

from __future__ import annotations
