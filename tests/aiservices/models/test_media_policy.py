"""What callers may pass as images, sounds and files, at all entry points."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from fastapi.testclient import TestClient

from aiservices import (
    DefinitionError,
    File,
    History,
    Image,
    MediaNotAllowedError,
    MediaPolicy,
    Message,
    ScriptedChatModel,
    UserMessage,
    create,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.integrations.fastapi import app
from aiservices.structured_model import structured

PNG = b"\x89PNG\r\n\x1a\n cat"
METADATA = "http://169.254.169.254/latest/meta-data.png"


class Reader(Protocol):
    @user_message("{{picture}}")
    def look(self, picture: Image) -> str: ...

    @user_message("{{pictures}}")
    def look_at_all(self, pictures: list[Image]) -> str: ...

    @user_message("{{text}}")
    def talk(self, history: Annotated[list[Message], History], text: str) -> str: ...


def model() -> ScriptedChatModel:
    return ScriptedChatModel(lambda request: "fine")


def serve(policy: MediaPolicy) -> Callable[[Any], str]:
    client = TestClient(app(create(Reader, model()), media=policy))

    def look(url: str) -> str:
        response = client.post("/look", json={"picture": {"url": url}})
        if response.status_code == 422:
            problem = response.json()["problems"][0]
            assert problem["path"] == "$.picture"
            raise MediaNotAllowedError(problem["message"])
        assert response.status_code == 200
        text: str = response.json()
        return text

    return look


ENTRY_POINTS: dict[str, Callable[[MediaPolicy], Callable[[str], Any]]] = {
    "create": lambda policy: lambda url: create(Reader, model(), media=policy).look(Image.from_url(url)),
    "create, lists": lambda policy: (
        lambda url: create(Reader, model(), media=policy).look_at_all(
            [Image.from_bytes(PNG), Image.from_url(url)]
        )
    ),
    "create, history": lambda policy: (
        lambda url: create(Reader, model(), media=policy).talk(
            [UserMessage("see", contents=(Image.from_url(url),))], "what is it?"
        )
    ),
    "structured": lambda policy: (
        lambda url: structured(model(), str, media=policy).invoke(
            [UserMessage("see", contents=(Image.from_url(url),))]
        )
    ),
    "agent": lambda policy: (
        lambda url: ReActAgent("a", "s", model(), media=policy).reply(
            UserMessage("see", contents=(Image.from_url(url),))
        )
    ),
    "http": serve,
}


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_each_entry_point_follows_the_policy(name: str) -> None:
    look = ENTRY_POINTS[name](MediaPolicy(hosts=["images.example.com", "*.cdn.example", "bücher.example"]))
    for allowed in (
        "https://images.example.com/a.png",
        "https://IMAGES.example.com.:8443/a.png?x=1",
        "http://a.b.cdn.example/a.png",
        "https://xn--bcher-kva.example/a.png",
        "data:image/png;base64,iVBORw0KGgo=",
    ):
        assert look(allowed)
    for refused in (
        METADATA,
        "http://localhost/a.png",
        "http://[::1]/a.png",
        "https://cdn.example/a.png",
        "https://images.example.com.evil.example/a.png",
        "https://evilcdn.example/a.png",
        "https://evil.example/images.example.com/a.png",
    ):
        with pytest.raises(MediaNotAllowedError, match="is not allowed here"):
            look(refused)


def test_without_hosts_only_data_is_allowed_and_the_star_allows_all_hosts() -> None:
    with pytest.raises(MediaNotAllowedError) as caught:
        create(Reader, model(), media=MediaPolicy()).look(Image.from_url(METADATA))
    assert str(caught.value) == (
        "Reader.look: an Image from 169.254.169.254 is not allowed here; pass its data"
    )
    assert create(Reader, model(), media=MediaPolicy()).look(Image.from_bytes(PNG)) == "fine"
    assert create(Reader, model(), media=MediaPolicy(hosts=["*"])).look(Image.from_url(METADATA)) == "fine"
    assert create(Reader, model()).look(Image.from_url(METADATA)) == "fine"


def test_size_and_type_are_limited() -> None:
    policy = MediaPolicy(hosts=["*"], max_bytes=20, media_types=["image/png", "application/*"])
    policy.check(Image.from_bytes(PNG))
    policy.check(File.from_bytes(b"%PDF-1.7"))
    cases = [
        (Image.from_bytes(PNG * 2), "an Image of 24 bytes is not allowed here; the limit is 20"),
        (
            Image.from_bytes(b"GIF89a"),
            "an Image of the type image/gif is not allowed; pass image/png, application/*",
        ),
        (
            File.from_url("https://a.example/x"),
            "a File of the type unknown is not allowed; pass image/png, application/*",
        ),
    ]
    for media, message in cases:
        with pytest.raises(MediaNotAllowedError) as caught:
            policy.check(media)
        assert str(caught.value) == message


@pytest.mark.parametrize("settings", [{"hosts": "a.example"}, {"max_bytes": 0}, {"media_types": "image/*"}])
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=next(iter(settings))):
        MediaPolicy(**settings)


def test_urls_that_carry_secrets_or_forge_lines_are_refused_everywhere() -> None:
    client = TestClient(app(create(Reader, model())))
    urls = [
        "https://me:pass@a.example/x.png",
        "https://me@a.example/x.png",
        "https://a.example/x.png\r\nX-Forged: 1",
        "https://a.example/\tx.png",
        "https://a.example\x00/x.png",
        "https://a.example/\u2028x.png",
        "https://evil.example\\.a.example/x.png",
        "https://a.example%0d%0a/x.png",
        "https://a example/x.png",
        "https://a.example:port/x.png",
        "https:///x.png",
        "https://[::1/x.png",
        "file:///etc/passwd",
        "ftp://a.example/x.png",
    ]
    for url in urls:
        with pytest.raises(ValueError, match="url of an image") as caught:
            Image.from_url(url)
        assert "pass@" not in str(caught.value)
        response = client.post("/look", json={"picture": {"url": url}})
        assert response.status_code == 422, url
    assert Image.from_url("https://a.example/my cat.png").url == "https://a.example/my cat.png"


def test_the_content_of_a_file_is_checked_not_its_name(tmp_path: Path) -> None:
    cases = [
        ("empty.png", b"", "empty.png is empty"),
        ("text.png", b"hello", "text.png is not image/png: its content is something else"),
        ("page.jpg", b"<html>", "page.jpg is not image/jpeg: its content is something else"),
        ("paper.png", b"%PDF-1.7", "paper.png is application/pdf, which is not an image"),
    ]
    for name, data, message in cases:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=name) as caught:
            Image.from_path(tmp_path / name)
        assert str(caught.value) == message
    (tmp_path / "paper.pdf").write_bytes(PNG)
    with pytest.raises(ValueError, match=r"paper\.pdf is not application/pdf: its content is image/png"):
        File.from_path(tmp_path / "paper.pdf")
    with pytest.raises(ValueError, match=r"it is not image/png: its content is application/pdf"):
        Image.from_bytes(b"%PDF-1.7", "image/png")
    with pytest.raises(ValueError, match="an image is empty"):
        Image.from_bytes(b"", "image/png")


def test_a_caller_over_http_cannot_declare_another_type_than_the_content_has() -> None:
    client = TestClient(app(create(Reader, model())))
    for data in ("", "aGVsbG8=", "JVBERi0xLjc="):
        response = client.post("/look", json={"picture": {"data": data, "media_type": "image/png"}})
        assert response.status_code == 422, json.dumps(response.json())
