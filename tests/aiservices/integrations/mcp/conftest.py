"""Fixtures that serve applications on the loopback interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from served import serve_applications


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Return a function that serves an application until the test ends and returns its URL."""
    yield from serve_applications()
