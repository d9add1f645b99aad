"""The certificates that models trust over TLS, and the errors for all others."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty_server import (
    Action,
    EagerServer,
    FaultyServer,
    http_response,
    send,
    send_and_close,
    send_and_reset,
)

from aiservices.models.errors import ModelConnectionError, ModelTimeoutError
from aiservices.models.http.base import certificates
from aiservices.models.requests import ChatOptions, ChatRequest

MakeCaller = Callable[[str], Any]


def connection_error(make_caller: MakeCaller, server: FaultyServer, base_url: str | None = None) -> str:
    """Return the message of the error for a server that must not receive any request."""
    base_url = base_url or server.base_url
    client = make_caller(base_url)
    with pytest.raises(ModelConnectionError) as caught:
        client.ask()
    assert server.requests == []
    assert server.settled(0)
    return str(caught.value).removeprefix(f"openai:m at {base_url}: ")


def test_a_certificate_of_a_trusted_authority_is_accepted(make_caller: MakeCaller, trusted: Any) -> None:
    with FaultyServer(send(http_response()), context=trusted.server()) as server:
        client = make_caller(server.base_url)
        assert [client.ask() for _ in range(3)] == ["Hi"] * 3
        assert server.opened == 1
        client.close()


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ({"self_signed": True}, "self-signed certificate"),
        ({"days": -1}, "certificate has expired"),
        (
            {"host": "127.0.0.2"},
            "certificate is not valid for '127.0.0.1'.",
        ),
    ],
    ids=["self-signed", "expired", "of another host"],
)
def test_other_certificates_are_rejected(
    make_caller: MakeCaller, trusted: Any, certificate: dict[str, Any], reason: str
) -> None:
    with FaultyServer(send(http_response()), context=trusted.server(**certificate)) as server:
        message = connection_error(make_caller, server)
    assert message.startswith("its certificate is not trusted (")
    assert message.endswith(f"{reason}); check base_url and the certificates")


def test_a_host_name_must_be_that_of_the_certificate(make_caller: MakeCaller, trusted: Any) -> None:
    with FaultyServer(send(http_response()), context=trusted.server("elsewhere.test")) as server:
        message = connection_error(make_caller, server, f"https://localhost:{server.port}/v1")
    assert message.startswith("its certificate is not trusted (")
    assert "certificate is not valid for 'localhost'." in message


def test_an_untrusted_authority_is_rejected(make_caller: MakeCaller, authority: Any) -> None:
    with FaultyServer(send(http_response()), context=authority.server()) as server:
        message = connection_error(make_caller, server)
    assert message == (
        "its certificate is not trusted (unable to get local issuer certificate); "
        "check base_url and the certificates"
    )


def test_certificates_that_cannot_be_read_are_an_error_that_names_the_setting(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for file in ("/no/such/file.pem", str(empty)):
        monkeypatch.setenv("SSL_CERT_FILE", file)
        certificates.cache_clear()
        with pytest.raises(ModelConnectionError) as caught:
            make_caller("https://127.0.0.1:1/v1").ask()
        assert str(caught.value).startswith(
            "openai:m: the certificates that SSL_CERT_FILE and SSL_CERT_DIR name cannot be read: "
        )
    certificates.cache_clear()


def test_plain_http_where_tls_was_requested_is_a_clear_error(make_caller: MakeCaller) -> None:
    with EagerServer(send_and_close(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")) as server:
        message = connection_error(make_caller, server, f"https://127.0.0.1:{server.port}/v1")
    assert message == "the server does not speak TLS; check https in base_url"


def test_tls_where_plain_http_was_requested_is_a_clear_error(make_caller: MakeCaller, trusted: Any) -> None:
    with FaultyServer(send(http_response()), context=trusted.server()) as server:
        message = connection_error(make_caller, server, f"http://127.0.0.1:{server.port}/v1")
    assert message.startswith("the connection ")


# Python 3.11 does not close the socket if the reset arrives before the handshake begins
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize(
    "act",
    [send_and_reset(), send_and_close(), send_and_close(b"\x15\x03\x03\x00\x02\x02\x28")],
    ids=["RST", "FIN", "alert"],
)
def test_a_handshake_that_breaks_is_an_error_that_may_be_tried_again(
    make_caller: MakeCaller, act: Action
) -> None:
    with EagerServer(act) as server:
        message = connection_error(make_caller, server, f"https://127.0.0.1:{server.port}/v1")
    assert message.startswith("the connection ")
    gc.collect()  # the socket, while its warning is ignored


def test_a_handshake_that_never_ends_is_a_timeout(make_caller: MakeCaller) -> None:
    with EagerServer(send()) as server:
        client = make_caller(f"https://127.0.0.1:{server.port}/v1")
        with pytest.raises(ModelTimeoutError):
            client.ask(ChatRequest.of("Hello", options=ChatOptions(timeout=0.1)))
