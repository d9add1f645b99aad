"""A service as a dependency of FastAPI: made once, when the program starts, and replaced in tests."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Provider", "provide"]

S = TypeVar("S")


class Provider(Generic[S]):
    """Gives one service to all requests: ``Annotated[Service, Depends(provider)]``."""

    def __init__(self, service: S) -> None:
        self.service = service

    async def __call__(self) -> S:  # async, for FastAPI runs what blocks in a thread
        return self.service


def provide(service: S) -> Provider[S]:
    """A dependency that gives a service, made by ``create`` or by hand.

    >>> sentiment = provide(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> Analyzer = Annotated[SentimentAnalyzer, Depends(sentiment)]  # doctest: +SKIP

    ``create`` tells all faults when the module is loaded, and no request waits for it. In tests
    ``app.dependency_overrides[sentiment] = lambda: FakeAnalyzer()`` puts another one in its place.
    """
    return Provider(service)
