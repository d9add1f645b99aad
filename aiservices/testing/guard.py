"""Block requests to real models in tests without permission, by patching the classes that send requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from ipaddress import ip_address
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit


class RealModelCallError(RuntimeError):
    """Raised if a test calls a real model without permission; nothing has been sent then."""


class Permissions(Protocol):
    """The models and hosts that the running test is allowed to call."""

    @property
    def all_permitted(self) -> bool:
        """True if the test is allowed to call any model."""
        ...

    @property
    def test(self) -> str:
        """The id of the running test; "" if no test is running."""
        ...

    @property
    def hosts(self) -> Collection[str]:
        """The host names to which all tests may send model requests."""
        ...

    @property
    def local_permitted(self) -> bool:
        """True if all tests may run the embedded model (llama.cpp in this process)."""
        ...


class RealCallGuard:
    """Patches the classes that send model requests, so that each request of a test is checked."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._undo: list[Callable[[], None]] = []

    def protect(self, module: ModuleType) -> None:
        """Patch a module's classes that send requests, so that tests cannot call real models."""
        PATCHES[module.__name__](self, module)

    def undo(self) -> None:
        """Restore the original methods of all classes that were patched to block model requests."""
        # In reverse order: a method may have been patched twice.
        while self._undo:
            self._undo.pop()()

    def patch(self, cls: type, name: str, replacement: Callable[..., Any]) -> None:
        """Replace a class's method until it is restored, to block requests to real models."""
        original = getattr(cls, name)
        setattr(cls, name, wraps(original)(replacement))
        self._undo.append(lambda: setattr(cls, name, original))

    def check(self, model: str, address: str) -> None:
        """Raise RealModelCallError unless the test may send requests to the model at the given URL."""
        host = urlsplit(address).hostname or ""
        permissions = self._permissions
        if not (permissions.all_permitted or _is_loopback(host) or host in permissions.hosts):
            self._refuse(f"{model} at {address if host else 'no address'}")

    def check_local(self, model: str) -> None:
        """Raise RealModelCallError unless the test may run the embedded model (llama.cpp in this process)."""
        if not (self._permissions.all_permitted or self._permissions.local_permitted):
            self._refuse(model)

    def _refuse(self, model: str) -> None:
        raise RealModelCallError(
            f"{self._permissions.test or 'code outside of tests'} tried to call a real model: {model}. "
            "Nothing was sent. Give the service a FakeChatModel, a ScriptedChatModel or a cassette; or "
            "permit the call: with @pytest.mark.real_model for a test, with --real-models for all tests, or "
            "with aiservices_permitted_hosts in the pytest settings for a host"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _patch_clients(*class_names: str) -> Callable[[RealCallGuard, Any], None]:
    # Every HTTP request (chat, embedding, moderation) first gets its client from one of these classes.
    def patch(guard: RealCallGuard, module: object) -> None:
        for name in class_names:
            _patch_client_class(guard, getattr(module, name))

    return patch


def _patch_client_class(guard: RealCallGuard, cls: Any) -> None:
    sync_client, async_client = cls.sync_client, cls.async_client

    # Wrapping the method that gets a client, not the request, catches every kind of call in one place.
    def guarded(self: Any) -> Any:
        guard.check(self.model_name, self.address)
        return sync_client(self)

    async def aguarded(self: Any) -> Any:
        guard.check(self.model_name, self.address)
        return await async_client(self)

    guard.patch(cls, "sync_client", guarded)
    guard.patch(cls, "async_client", aguarded)


def _patch_local_model(guard: RealCallGuard, module: Any) -> None:
    job = module.LocalChatModel._job

    def guarded(self: Any, request: object) -> Any:
        guard.check_local(self.name)
        return job(self, request)

    guard.patch(module.LocalChatModel, "_job", guarded)


PATCHES: dict[str, Callable[[RealCallGuard, Any], None]] = {
    "aiservices.models.http.model": _patch_clients("HttpClients"),
    "aiservices.models.openai.client": _patch_clients("SdkClients"),
    "aiservices.models.local": _patch_local_model,
}
