"""The URLs, headers and bodies that are sent equal those of the openai SDK, or there is a clear error."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest
from faulty_server import EagerServer, FaultyServer, http_response, send
from growth import growing
from loopback import MAX_WAIT

from aiservices.models.errors import InvalidReplyError, ModelConnectionError, ModelTimeoutError
from aiservices.models.http import curl
from aiservices.models.http.base import decode_body
from aiservices.models.requests import ChatOptions, ChatRequest

MakeCaller = Callable[[str], Any]


def head(request: bytes) -> tuple[str, dict[str, list[str]]]:
    """Return the target of a request and the values of each header."""
    first, *lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(name.lower(), []).append(value.strip())
    return first.split(" ")[1], headers


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:{port}", "/chat/completions"),
        ("http://127.0.0.1:{port}/v1///", "/v1/chat/completions"),
        ("http://127.0.0.1:{port}/v1?api-version=1&x=%20", "/v1/chat/completions?api-version=1&x=%20"),
        ("http://127.0.0.1:{port}/a%2Fb/ü", "/a%2Fb/%C3%BC/chat/completions"),
        ("http://127.0.0.1:{port}/v1#part", "/v1/chat/completions"),
        ("http://localhost:{port}/v1", "/v1/chat/completions"),
    ],
)
def test_paths_are_appended_to_the_base_url(make_caller: MakeCaller, url: str, target: str) -> None:
    with FaultyServer(send(http_response())) as server:
        url = url.format(port=server.port)
        assert make_caller(url).ask() == "Hi"
        assert head(server.requests[0])[0] == target


def test_a_name_and_a_password_in_the_url_are_sent_as_the_sdk_sends_them(make_caller: MakeCaller) -> None:
    with FaultyServer(send(http_response())) as server:
        url = f"http://us%40er:p%3Aw@127.0.0.1:{server.port}/v1"
        assert make_caller(url).ask() == "Hi"
        with openai.OpenAI(base_url=url, api_key="k") as client:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        ours, theirs = (head(request)[1] for request in server.requests)
        assert ours["authorization"] == theirs["authorization"]
        assert ours["host"] == theirs["host"]


def test_an_ipv6_address_is_reached(make_caller: MakeCaller) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    with (
        FaultyServer(send(http_response())) as server,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        six.listen()
        answering = threading.Thread(target=_answer_once, args=(six,))
        answering.start()
        assert make_caller(f"http://[::1]:{six.getsockname()[1]}/v1").ask() == "Hi"
        answering.join(MAX_WAIT)
        assert server.requests == []


def _answer_once(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(http_response(headers="connection: close\r\n"))


def test_an_international_host_is_reached_by_its_ascii_name(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(send(http_response())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert make_caller("http://mödel.test:81/v1").ask() == "Hi"
        assert head(proxy.requests[0])[0] == "http://xn--mdel-5qa.test:81/v1/chat/completions"
        assert head(proxy.requests[0])[1]["host"] == ["xn--mdel-5qa.test:81"]


def test_an_invalid_host_name_is_an_error(make_caller: MakeCaller) -> None:
    with pytest.raises(ModelConnectionError) as caught:
        make_caller(f"http://{'ö' * 80}.test/v1").ask()
    assert str(caught.value) == "openai:m: the host in base_url is not a valid name"


@pytest.mark.parametrize(
    "location", ["http://[::1/x", "http://127.0.0.1:99999/x", "http://127.0.0.1:abc/", "http://", "//"]
)
def test_a_redirect_to_an_invalid_address_is_an_error(make_caller: MakeCaller, location: str) -> None:
    with FaultyServer(send(http_response(b"", "307 R", f"location: {location}\r\n"))) as server:
        with pytest.raises(InvalidReplyError) as caught:
            make_caller(server.base_url).ask()
        assert str(caught.value).startswith(f"openai:m at {server.base_url}: 307 ")
        assert len(server.requests) == 1


def test_a_redirect_with_spaces_is_followed(make_caller: MakeCaller) -> None:
    there = send(http_response(b"", "307 R", "location: /v2 x?y=a b\r\n"))
    with FaultyServer(there, send(http_response())) as server:
        assert make_caller(server.base_url).ask() == "Hi"
        assert server.paths() == ["/v1/chat/completions", "/v2%20x?y=a%20b"]


def test_headers_of_a_call_replace_others_whatever_their_case(make_caller: MakeCaller) -> None:
    mine = {"Authorization": "Bearer mine", "User-Agent": "me", "X-Mine": "1", "aCCept": "x/y"}
    with FaultyServer(send(http_response())) as server:
        client = make_caller(server.base_url)
        client.ask(ChatRequest.of("x", options=ChatOptions(extra_headers=mine)))
        headers = head(server.requests[0])[1]
        assert {name: headers[name.lower()] for name in mine} == {k: [v] for k, v in mine.items()}
        assert headers["content-type"] == ["application/json"]
        client.ask()
        assert head(server.requests[1])[1]["authorization"] == ["Bearer sk-test-0123456789"]


def test_the_environment_sets_the_same_headers_as_in_the_sdk(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-A: 1:2\nnothing\r\n x-b :  3  \nAuthorization: Bearer other\nX-Empty:"
    )
    names = ("openai-organization", "openai-project", "x-a", "x-b", "x-empty", "authorization")
    with FaultyServer(send(http_response())) as server:
        assert make_caller(server.base_url).ask() == "Hi"
        with openai.OpenAI(base_url=server.base_url, api_key="sk-test-0123456789") as client:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        ours, theirs = (head(request)[1] for request in server.requests)
        assert [ours.get(name) for name in names] == [theirs.get(name) for name in names]


def test_a_server_that_does_not_read_a_large_body_is_a_timeout(make_caller: MakeCaller) -> None:
    over = threading.Event()
    request = ChatRequest.of("x" * 16_000_000, options=ChatOptions(timeout=0.2))
    with EagerServer(lambda _: over.wait(MAX_WAIT)) as server:
        client = make_caller(server.base_url)
        try:
            with pytest.raises(ModelTimeoutError) as caught:
                client.ask(request)
        finally:
            over.set()
        assert " no reply within 0.2 s; " in str(caught.value)
        assert client.settled(server)


def test_a_large_body_arrives_whole(make_caller: MakeCaller) -> None:
    with FaultyServer(send(http_response())) as server:
        client = make_caller(server.base_url)
        assert [client.ask(ChatRequest.of("x" * 3_000_000 + "ü")) for _ in range(2)] == ["Hi", "Hi"]
        assert {len(request.partition(b"\r\n\r\n")[2]) for request in server.requests} == {3_000_000 + 57}
        assert server.opened == 1
        assert "transfer-encoding" not in head(server.requests[0])[1]


def test_a_large_body_is_sent_again_to_the_address_of_a_redirect(make_caller: MakeCaller) -> None:
    there = send(http_response(b"", "308 R", "location: /v2\r\n"))
    with FaultyServer(there, send(http_response())) as server:
        assert make_caller(server.base_url).ask(ChatRequest.of("x" * 1_000_000)) == "Hi"
        first, second = (request.partition(b"\r\n\r\n")[2] for request in server.requests)
        assert first == second


def test_sending_may_take_longer_than_connecting(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_late(connection: socket.socket) -> None:
        time.sleep(0.3)
        size = 0
        while size < 16_000_000:
            size += len(connection.recv(65536))
        connection.sendall(http_response())

    monkeypatch.setattr(curl, "CONNECT_SECONDS", 0.1)
    with EagerServer(read_late) as server:
        patient = ChatRequest.of("x" * 16_000_000, options=ChatOptions())
        assert make_caller(server.base_url).ask(patient) == "Hi"


def test_the_time_to_decompress_grows_with_the_number_of_members() -> None:
    def decompress(text: str) -> bytes:
        return decode_body(200, "gzip", text.encode("latin-1"))

    members = [gzip.compress(content, mtime=0).decode("latin-1") for content in (b"", b"a")]
    assert growing(decompress, members, short=200_000) == {}
