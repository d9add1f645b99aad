"""Chat models: the protocol in ``base``, and the models that speak it."""

from __future__ import annotations
