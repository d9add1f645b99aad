"""Refuses requests to real models in tests that did not ask for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from ipaddress import ip_address
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit


class RealModelCallError(RuntimeError):
    """A test without leave was about to ask a real model. Nothing was sent."""


class Leave(Protocol):
    """What may be asked now: anything if ``permitted``, else ``hosts``, and the embedded model if ``local``.

    ``test`` is the test that runs, "" outside of tests.
    """

    @property
    def permitted(self) -> bool: ...
    @property
    def test(self) -> str: ...
    @property
    def hosts(self) -> Collection[str]: ...
    @property
    def local(self) -> bool: ...


class Guard:
    """Stands before what sends requests, until ``undo``."""

    def __init__(self, leave: Leave) -> None:
        self._leave = leave
        self._undo: list[Callable[[], None]] = []

    def over(self, module: ModuleType) -> None:
        """Stand before what a module of ``GUARDED`` sends with."""
        GUARDED[module.__name__](self, module)

    def undo(self) -> None:
        """Leave everything as it was."""
        while self._undo:
            self._undo.pop()()

    def put(self, cls: type, name: str, guarded: Callable[..., Any]) -> None:
        """Put a function in the place of a method, for a while."""
        before = getattr(cls, name)
        setattr(cls, name, wraps(before)(guarded))
        self._undo.append(lambda: setattr(cls, name, before))

    def check(self, name: str, place: str) -> None:
        """Raise RealModelCallError unless the model at this address may be asked."""
        host = urlsplit(place).hostname or ""
        if not (self._leave.permitted or _is_loopback(host) or host in self._leave.hosts):
            self._refuse(f"{name} at {place if host else 'no address'}")

    def check_local(self, name: str) -> None:
        """Raise RealModelCallError unless the embedded model may be run."""
        if not (self._leave.permitted or self._leave.local):
            self._refuse(name)

    def _refuse(self, what: str) -> None:
        raise RealModelCallError(
            f"{self._leave.test or 'what runs outside of tests'} was about to ask a real model: {what}. "
            "Nothing was sent. Give the service a FakeChatModel, a ScriptedChatModel or a cassette; or "
            "permit it with @pytest.mark.real_model, for all tests with --real-models, or for a host of "
            "yours with aiservices_permitted_hosts in the settings of pytest"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _over_connections(*names: str) -> Callable[[Guard, Any], None]:
    """All that goes out over HTTP asks for a connection first: chats, embeddings, moderations."""

    def over(guard: Guard, module: Any) -> None:
        for name in names:
            _guard_class(guard, getattr(module, name))

    return over


def _guard_class(guard: Guard, cls: Any) -> None:
    blocking, of_this_loop = cls.blocking, cls.of_this_loop

    def guarded(self: Any) -> Any:
        guard.check(self._name, self._place.shown)
        return blocking(self)

    async def aguarded(self: Any) -> Any:
        guard.check(self._name, self._place.shown)
        return await of_this_loop(self)

    guard.put(cls, "blocking", guarded)
    guard.put(cls, "of_this_loop", aguarded)


def _over_local(guard: Guard, module: Any) -> None:
    job = module.LocalChatModel._job

    def guarded(self: Any, request: Any) -> Any:
        guard.check_local(self.name)
        return job(self, request)

    guard.put(module.LocalChatModel, "_job", guarded)


GUARDED: dict[str, Callable[[Guard, Any], None]] = {
    "aiservices.models.openai.client": _over_connections("Channels", "Clients"),
    "aiservices.models.local.model": _over_local,
}
