"""Refuse requests to real models in tests without permission."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from ..models.request_checks import REQUEST_CHECKS


class RealModelCallError(RuntimeError):
    """Raised if a test calls a real model without permission; nothing has been sent then."""


class RealCallGuard:
    """Checks that the tests of one pytest run call real models only with permission.

    Args:
        real_models: True to permit all tests to call real models.
        hosts: The host names to which all tests may send model requests.
        local_permitted: True if all tests may run the embedded model (llama.cpp in this process).

    Attributes:
        all_permitted: True if the running test may call any model.
        test: The id of the running test; "" if no test is running.
    """

    def __init__(self, *, real_models: bool, hosts: Collection[str], local_permitted: bool) -> None:
        self.all_permitted = self._real_models = real_models
        self.test = ""
        self._hosts = hosts
        self._local_permitted = local_permitted

    def start(self) -> None:
        """Check all requests to models from now on."""
        REQUEST_CHECKS.append(self._check)

    def end(self) -> None:
        REQUEST_CHECKS.remove(self._check)

    def enter_test(self, test: str, *, is_permitted: bool) -> None:
        """Start a test, which may call any model if ``is_permitted`` is True."""
        self.test, self.all_permitted = test, is_permitted or self._real_models

    def leave_test(self) -> None:
        self.test, self.all_permitted = "", self._real_models

    def _check(self, model: str, address: str | None) -> None:
        """Raise RealModelCallError unless the test may send requests to the model at the given URL."""
        if self.all_permitted:
            return
        host = urlsplit(address or "").hostname or ""
        if self._local_permitted if address is None else _is_loopback(host) or host in self._hosts:
            return
        place = "" if address is None else f" at {address if host else 'no address'}"
        raise RealModelCallError(
            f"{self.test or 'code outside of tests'} tried to call a real model: {model}{place}. "
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
