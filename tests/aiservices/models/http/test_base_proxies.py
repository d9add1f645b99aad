"""Proxies that the environment sets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from traceback import format_exception
from typing import Any

import pytest
from faulty_server import BODY, FaultyServer, http_response, open_tunnel, send

from aiservices.models.errors import ModelConnectionError, ModelError

MakeCaller = Callable[[str], Any]


def at(server: FaultyServer, user: str = "") -> str:
    return f"http://{user}127.0.0.1:{server.port}"


def head(request: bytes) -> dict[str, str]:
    """Return the headers of a request by name, and its first line with the name ""."""
    first, *lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return {"": first, **{name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}}


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_receives_the_whole_address_of_a_plain_http_request(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with FaultyServer(send(http_response())) as proxy:
        monkeypatch.setenv(variable, at(proxy, "us%40er:s3cret%3Aword@"))
        client = make_caller("http://model.test/v1?a=b")
        assert [client.ask(), client.ask()] == ["Hi", "Hi"]
        assert proxy.opened == 1
        for request in proxy.requests:
            sent = head(request)
            assert sent[""] == "POST http://model.test/v1/chat/completions?a=b HTTP/1.1"
            assert sent["host"] == "model.test"
            assert sent["authorization"] == "Bearer sk-test-0123456789"
            assert sent["proxy-authorization"] == f"Basic {b64encode(b'us@er:s3cret:word').decode()}"
        client.close()


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_only_tunnels_https_requests(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, trusted: Any, variable: str
) -> None:
    with (
        FaultyServer(send(http_response()), context=trusted.server("model.test")) as server,
        FaultyServer(open_tunnel(server.port)) as proxy,
    ):
        monkeypatch.setenv(variable, at(proxy, "user:s3cret%3Aword@"))
        client = make_caller("https://model.test/v1")
        assert [client.ask(), client.ask(), client.ask()] == ["Hi"] * 3
        (connect,) = map(head, proxy.requests)
        assert connect[""].startswith("CONNECT model.test:443 HTTP/1.")
        assert connect["proxy-authorization"] == f"Basic {b64encode(b'user:s3cret:word').decode()}"
        assert "authorization" not in connect
        seen = [head(request) for request in server.requests]
        assert [sent[""] for sent in seen] == ["POST /v1/chat/completions HTTP/1.1"] * 3
        assert not any("proxy-authorization" in sent for sent in seen)
        client.close()


def test_a_proxy_without_a_scheme_is_an_http_proxy(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(send(http_response())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        assert make_caller("http://model.test/v1").ask() == "Hi"


@pytest.mark.parametrize("exception", ["127.0.0.1", "127.0.0.1:{port}", "*", "a.test, 127.0.0.1"])
def test_hosts_in_no_proxy_are_reached_directly(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, exception: str
) -> None:
    with (
        FaultyServer(send(http_response())) as server,
        FaultyServer(send(http_response(BODY, "502 Bad Gateway"))) as proxy,
    ):
        monkeypatch.setenv("ALL_PROXY", at(proxy))
        monkeypatch.setenv("NO_PROXY", exception.format(port=server.port))
        assert make_caller(server.base_url).ask() == "Hi"
        assert proxy.requests == []


def test_loopback_addresses_go_through_the_proxy_unless_no_proxy_names_them(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(send(http_response())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", at(proxy))
        monkeypatch.setenv("NO_PROXY", "localhost,.test")
        assert make_caller("http://127.0.0.1:1/v1").ask() == "Hi"
        assert len(proxy.requests) == 1


@pytest.mark.parametrize("name", ["::1", "[::1]"])
def test_no_proxy_accepts_ipv6_addresses_with_or_without_brackets(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with FaultyServer(send(http_response())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", at(proxy))
        monkeypatch.setenv("NO_PROXY", name)
        with pytest.raises(ModelConnectionError):
            make_caller("http://[::1]:1/v1").ask()
        assert proxy.requests == []


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "403 Forbidden"])
def test_a_refused_tunnel_is_reported_with_its_status_and_without_secrets(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    with FaultyServer(send(http_response(b"", status))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", at(proxy, "user:s3cret%3Aword@"))
        with pytest.raises(ModelConnectionError) as caught:
            make_caller("https://model.test/v1").ask()
        message = str(caught.value)
        assert message.startswith(
            "openai:m at https://model.test/v1: the proxy failed (Tunnel connection failed: " + status[:3]
        )
        assert message.endswith("; check HTTPS_PROXY, HTTP_PROXY and NO_PROXY")
        assert "s3cret" not in "".join(format_exception(caught.value))
        assert proxy.settled(0)


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway"])
def test_the_status_of_a_proxy_that_refuses_plain_http_is_raised(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    with FaultyServer(send(http_response(b"", status))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", at(proxy, "user:s3cret%3Aword@"))
        with pytest.raises(ModelError) as caught:
            make_caller("http://model.test/v1").ask()
        assert str(caught.value).startswith(f"openai:m at http://model.test/v1: {status[:3]} ")


def test_an_unreachable_proxy_is_an_error(make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer(send(http_response())) as gone:
        there = at(gone, "user:s3cret@")
    monkeypatch.setenv("ALL_PROXY", there)
    for url in ("http://model.test/v1", "https://model.test/v1"):
        with pytest.raises(ModelConnectionError) as caught:
            make_caller(url).ask()
        assert str(caught.value).startswith(f"openai:m at {url}: the proxy failed (")
        assert "s3cret" not in "".join(format_exception(caught.value))


@pytest.mark.parametrize("kind", ["socks5", "socks5h", "socks4"])
def test_other_proxies_are_rejected(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"{kind}://user:s3cret@127.0.0.1:1")
    with pytest.raises(ModelConnectionError) as caught:
        make_caller("https://model.test/v1").ask()
    assert str(caught.value) == (
        f"openai:m: the environment sets a {kind.upper()} proxy, which is not supported; "
        "set an HTTP proxy, exclude the host with NO_PROXY, or pass a client of the SDK that uses the proxy"
    )
