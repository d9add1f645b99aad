"""Images, audio and files as values, as arguments of methods, and as parts of messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from aiservices import (
    Capabilities,
    DefinitionError,
    ScriptedChatModel,
    SystemMessage,
    UserMessage,
    create,
    preview,
    system_message,
    user_message,
)
from aiservices.models.media import Audio, File, Image, Media, interleave
from aiservices.models.messages import Message, message_from_dict, messages_from_json, messages_to_json
from aiservices.structured_model import structured

PNG = b"\x89PNG\r\n\x1a\n" + bytes(4)
JPEG = b"\xff\xd8\xff\xe0"
WAV = b"RIFF\x00\x00\x00\x00WAVE"
PDF = b"%PDF-1.7"
CAT, DOG = Image.from_bytes(PNG), Image.from_bytes(JPEG)
VOICE, PAPER = Audio.from_bytes(WAV), File.from_bytes(PDF, name="paper.pdf")


# --- the values ---


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"\x00\x00\x00\x1cftypavif", "image/avif"),
        (WAV, "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"OggS", "audio/ogg"),
        (PDF, "application/pdf"),
    ],
)
def test_the_media_type_is_detected_from_the_first_bytes(data: bytes, media_type: str) -> None:
    assert File.from_bytes(data).media_type == media_type


def test_the_content_of_an_image_decides_its_type_before_the_extension(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(JPEG)
    assert Image.from_path(path) == Image(JPEG, "image/jpeg", None, "cat.png")
    assert Image.from_path(str(path), "image/webp").media_type == "image/webp"


def test_the_extension_of_a_file_decides_its_type_before_the_content(tmp_path: Path) -> None:
    path = tmp_path / "table.CSV"
    path.write_bytes(b"ID3,age\n1,2\n")
    assert File.from_path(path) == File(b"ID3,age\n1,2\n", "text/csv", None, "table.CSV")


def test_a_media_type_argument_is_normalized() -> None:
    assert Audio.from_bytes(b"x", "Audio/X-WAV; codecs=1").media_type == "audio/wav"
    assert Image.from_bytes(b"x", "image/jpg").media_type == "image/jpeg"


def test_a_url_is_not_fetched_and_a_data_url_is_decoded() -> None:
    assert Image.from_url("https://a.example/b/cat.PNG?size=1") == Image(
        None, "image/png", "https://a.example/b/cat.PNG?size=1", "cat.PNG"
    )
    assert Image.from_url("https://a.example").media_type is None
    assert Image.from_url(CAT.address) == CAT
    assert File.from_url("data:text/plain,a%20b") == File(b"a b", "text/plain")


def test_the_text_of_media_contains_neither_data_nor_secrets() -> None:
    assert str(Image.from_bytes(bytes(12 * 1024), "image/png")) == "[image/png, 12 KB]"
    assert str(Image.from_bytes(bytes(3_000_000), "image/png")) == "[image/png, 2.9 MB]"
    assert repr(CAT) == "<Image image/png, 12 bytes>"
    assert str(Image.from_url("https://a.example/x?key=1")) == "[an image, https://a.example/x]"


def test_with_detail_returns_a_copy() -> None:
    assert CAT.with_detail("low") == replace(CAT, detail="low")
    assert CAT.detail is None


def test_a_file_without_a_name_gets_one_with_the_right_extension() -> None:
    assert (PAPER.file_name, File.from_bytes(PDF).file_name) == ("paper.pdf", "file.pdf")
    assert File.from_bytes(b"x", "application/x-own").file_name == "file"


WRONG_MEDIA: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (
        lambda folder: Image.from_path("no/cat.png"),
        FileNotFoundError,
        "an image cannot be read: there is no file 'no/cat.png'",
    ),
    (
        lambda folder: File.from_path(folder / "a.qqq"),
        ValueError,
        "the media type of a.qqq is unknown; pass media_type",
    ),
    (
        lambda folder: Image.from_bytes(b"abc"),
        ValueError,
        "the media type of an image is unknown; pass media_type",
    ),
    (
        lambda folder: Image.from_path(folder / "a.pdf"),
        ValueError,
        "a.pdf is application/pdf, which is not an image",
    ),
    (lambda folder: Audio.from_bytes(PNG), ValueError, "it is image/png, which is not audio"),
    (
        lambda folder: File.from_path(folder / "a.pdf", max_bytes=7),
        ValueError,
        "a.pdf has 8 bytes; the limit is 7",
    ),
    (
        lambda folder: Image.from_bytes(PNG, max_bytes=3),
        ValueError,
        "an image has 12 bytes; the limit is 3",
    ),
    (
        lambda folder: Image.from_url("cat.png"),
        ValueError,
        "the url of an image must begin with http:// or https://, or be a data URL",
    ),
    (
        lambda folder: Image(),
        ValueError,
        "create an image with Image.from_path, Image.from_bytes or Image.from_url",
    ),
    (
        lambda folder: Image.from_bytes("cat"),  # type: ignore[arg-type]
        TypeError,
        "the data of an image is str; it must be bytes",
    ),
]


@pytest.mark.parametrize(("make", "error_type", "message"), WRONG_MEDIA)
def test_wrong_media_raise_an_error_with_the_reason(
    make: Callable[[Path], object], error_type: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.qqq").write_bytes(b"abc")
    (tmp_path / "a.pdf").write_bytes(PDF)
    with pytest.raises(error_type) as caught:
        make(tmp_path)
    assert str(caught.value) == message


# --- the message of a call ---


def user_message_of(interface: Any, *args: Any, **kwargs: Any) -> UserMessage:
    """Return the user message that a call of the method ``look`` sends."""
    model = ScriptedChatModel(["fine"])
    create(interface, model).look(*args, **kwargs)
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    return message


def test_media_come_after_the_text_in_the_order_of_their_parameters() -> None:
    class Looker(Protocol):
        @user_message("What is it, {{name}}?")
        def look(self, first: Image, name: str, paper: File, *more: Image) -> str: ...

    message = user_message_of(Looker, CAT, "Ada", PAPER, DOG, CAT)
    assert message == UserMessage("What is it, Ada?", contents=(CAT, PAPER, DOG, CAT))
    assert message.parts == ("What is it, Ada?", CAT, PAPER, DOG, CAT)


def test_media_are_sent_where_the_template_names_them() -> None:
    class Looker(Protocol):
        @user_message("Compare {{b}}\nwith {{ a }}, {{how}}.")
        def look(self, a: Image, b: Image, how: str, voice: Audio) -> str: ...

    message = user_message_of(Looker, CAT, DOG, "briefly", VOICE)
    assert message.text == "Compare \nwith , briefly."
    assert message.contents == ("Compare ", DOG, "\nwith ", CAT, ", briefly.", VOICE)
    assert message.parts == ("Compare ", DOG, "with ", CAT, ", briefly.", VOICE)


def test_a_template_can_loop_over_media_and_read_their_attributes() -> None:
    class Looker(Protocol):
        @user_message(
            "{% for image in images %}{{loop.index}} ({{image.media_type}}): {{image}}\n{% endfor %}"
            "{% if paper %}And {{paper}}{% endif %}{{images | length}} in all: {{images}}"
        )
        def look(self, images: list[Image], paper: File | None = None) -> str: ...

    assert user_message_of(Looker, [CAT, DOG]).parts == (
        "1 (image/png): ",
        CAT,
        "2 (image/jpeg): ",
        DOG,
        "2 in all: ",
        CAT,
        DOG,
    )
    assert user_message_of(Looker, [], PAPER).parts == ("And ", PAPER, "0 in all: ")


def test_items_of_a_list_that_the_template_does_not_name_follow_the_text() -> None:
    class Looker(Protocol):
        @user_message("First {{images[0]}}, now what follows.")
        def look(self, images: list[Image]) -> str: ...

    assert user_message_of(Looker, [CAT, DOG]).parts == ("First ", CAT, ", now what follows.", DOG)


def test_none_and_an_empty_list_add_no_media() -> None:
    class Looker(Protocol):
        @user_message("Look: {{image}}!")
        def look(self, image: Image | None = None, *more: Image) -> str: ...

    assert user_message_of(Looker) == UserMessage("Look: !")
    assert user_message_of(Looker, None, CAT).parts == ("Look: !", CAT)


def test_media_and_one_text_need_no_template() -> None:
    class Looker(Protocol):
        def look(self, question: str, image: Image) -> str: ...

    assert user_message_of(Looker, "What is it?", CAT) == UserMessage("What is it?", contents=(CAT,))


def test_media_without_text_are_the_whole_message() -> None:
    class Looker(Protocol):
        def look(self, image: Image) -> str: ...

    message = user_message_of(Looker, CAT)
    assert (message, message.parts) == (UserMessage("", contents=(CAT,)), (CAT,))


def test_it_is_the_only_argument_or_the_only_one_that_is_not_media() -> None:
    class Alone(Protocol):
        @user_message("See {{it}}.")
        def look(self, image: Image) -> str: ...

    class Beside(Protocol):
        @user_message("Answer {{it}}.")
        def look(self, image: Image, question: str) -> str: ...

    assert user_message_of(Alone, CAT).parts == ("See ", CAT, ".")
    assert user_message_of(Beside, CAT, "why").parts == ("Answer why.", CAT)


def test_the_contents_of_a_user_message_come_before_other_media() -> None:
    class Looker(Protocol):
        def look(self, message: UserMessage, image: Image | None = None) -> str: ...

    message = UserMessage("See  and tell.", contents=("See ", CAT, " and tell."))
    assert user_message_of(Looker, message).parts == ("See ", CAT, " and tell.")
    assert user_message_of(Looker, message, DOG).parts == ("See ", CAT, " and tell.", DOG)


def test_text_of_a_user_cannot_place_media() -> None:
    class Looker(Protocol):
        @user_message("{{text}} {{image}}")
        def look(self, text: str, image: Image) -> str: ...

    text = "{{image}} \ue000:0\ue001 \ue0000\ue001 \ufffc [image/png, 12 bytes]"
    assert user_message_of(Looker, text, CAT).parts == (f"{text} ", CAT)


def test_format_instructions_keep_their_place_between_media() -> None:
    class Looker(Protocol):
        @user_message("In {{image}}: {{format_instructions}} Of {{other}} nothing.")
        def look(self, image: Image, other: Image) -> int: ...

        @user_message("In {{image}} how many?")
        def count(self, image: Image) -> int: ...

    service = create(Looker, ScriptedChatModel(["1", "2"], capabilities=Capabilities()))
    (first,) = preview(service.look, CAT, DOG).messages
    (second,) = preview(service.count, CAT).messages
    assert isinstance(first, UserMessage)
    assert isinstance(second, UserMessage)
    before, cat, between, dog, after = first.parts
    assert (before, cat, dog, after) == ("In ", CAT, DOG, " nothing.")
    assert str(between).startswith(": ")
    assert str(between).endswith(" Of ")
    assert len(str(between)) > len(":  Of ")
    assert second.parts[:2] == ("In ", CAT)
    assert str(second.parts[2]).startswith(" how many?\n\n")


def test_a_system_message_function_can_read_the_attributes_of_media() -> None:
    def system(image: Image) -> str:
        return f"You are shown {image.media_type}."

    class Looker(Protocol):
        @system_message(system)
        def look(self, image: Image) -> str: ...

    model = ScriptedChatModel(["fine"])
    create(Looker, model).look(CAT)
    assert model.requests[0].messages == (
        SystemMessage("You are shown image/png."),
        UserMessage("", contents=(CAT,)),
    )


def test_messages_with_contents_go_to_a_structured_model() -> None:
    model = ScriptedChatModel(["4"])
    assert structured(model, int).invoke(UserMessage("How many legs?", contents=(CAT,))) == 4
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    assert message.contents == (CAT,)


def test_a_preview_shows_the_type_and_size_of_media() -> None:
    class Looker(Protocol):
        @user_message("See {{image}}\nand tell.")
        def look(self, image: Image, paper: File) -> str: ...

    text = preview(create(Looker, ScriptedChatModel([])).look, CAT, PAPER)
    assert str(text).partition("[user]\n")[2] == (
        "See \n[image/png, 12 bytes]\nand tell.\n[application/pdf, 8 bytes]"
    )


@pytest.mark.parametrize("wrong", ["cat.png", PNG, {"image": CAT}, 3])
def test_an_argument_that_is_not_media_is_a_type_error(wrong: Any) -> None:
    class Looker(Protocol):
        def look(self, image: Image) -> str: ...

    with pytest.raises(TypeError) as caught:
        create(Looker, ScriptedChatModel([])).look(wrong)
    assert str(caught.value) == (
        f"Looker.look: the parameter image takes an Image, Audio or File, not {type(wrong).__name__}; "
        "make one with Image.from_path, from_bytes or from_url"
    )


def test_none_for_media_that_are_not_optional_is_a_type_error() -> None:
    class Viewer(Protocol):
        @user_message("What is in {{pic}}?")
        def seen(self, pic: Image) -> str: ...

    model = ScriptedChatModel(["a cat"])
    with pytest.raises(TypeError) as caught:
        create(Viewer, model).seen(cast(Image, None))
    assert str(caught.value) == "Viewer.seen: pic is None; if it is optional, add | None to its annotation"
    assert model.requests == []


def test_media_inside_a_value_are_an_error() -> None:
    class Looker(Protocol):
        @user_message("See {{things}}")
        def look(self, things: dict[str, Any]) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Looker, ScriptedChatModel([])).look({"cat": CAT})
    assert str(caught.value) == (
        "Looker.look: the prompt cannot be rendered: "
        "an image is not text; pass it as a parameter of type Image"
    )


# --- problems of a declaration ---


def problems(interface: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        create(interface, ScriptedChatModel([]))
    return [str(problem) for problem in caught.value.problems]


def test_a_parameter_for_media_or_something_else_is_a_problem() -> None:
    class Looker(Protocol):
        @user_message("Look")
        def look(self, a: Image | str, b: dict[str, Image], c: list[Image | int] | None) -> str: ...

    message = "takes media and something else; it can take an Image, Audio or File, a list of them, or None"
    assert problems(Looker) == [f"Looker.look: the parameter {name} {message}" for name in "abc"]


def test_keyword_media_are_a_problem() -> None:
    class Looker(Protocol):
        @user_message("Look")
        def look(self, **images: Image) -> str: ...

    assert problems(Looker) == [
        "Looker.look: the parameter **images takes media by any name; declare each one, or take *images"
    ]


def test_a_system_message_cannot_contain_media() -> None:
    class Looker(Protocol):
        @system_message("You see {{image}} and {{it}}.")
        def look(self, image: Image) -> str: ...

    assert problems(Looker) == [
        "Looker.look: the system message uses {{image}}, but a media parameter is not for the prompt",
        "Looker.look: the system message uses {{it}}, which stands for the only argument; there are 0",
    ]


def test_a_misspelt_image_is_a_problem_with_a_suggestion() -> None:
    class Looker(Protocol):
        @user_message("See {{imge}}")
        def look(self, image: Image) -> str: ...

    assert problems(Looker) == [
        "Looker.look: the prompt uses {{imge}}, but the parameters are: image; did you mean image?"
    ]


def test_several_texts_with_media_need_a_template() -> None:
    class Looker(Protocol):
        def look(self, image: Image, a: str, b: str) -> str: ...

    assert problems(Looker) == [
        "Looker.look: it has no prompt and several arguments (a, b); write the prompt with @user_message"
    ]


# --- texts that interceptors changed ---


def test_media_keep_their_place_when_the_text_is_changed() -> None:
    message = UserMessage("Compare  with , please.", contents=("Compare ", CAT, " with ", DOG, ", please."))

    def parts(text: str) -> tuple[str | Media, ...]:
        return replace(message, text=text).parts

    assert parts("Compare  with , please.\n\nIn JSON.")[1::2] == (CAT, DOG)
    assert parts("Context. Compare  with , please.") == (
        "Context. Compare ",
        CAT,
        " with ",
        DOG,
        ", please.",
    )
    assert parts("Compare  strictly with , please.") == (
        "Compare ",
        CAT,
        " strictly with ",
        DOG,
        ", please.",
    )
    assert parts("Context. Compare  with , please.\n\nIn JSON.")[::2] == (
        "Context. Compare ",
        " with ",
        ", please.\n\nIn JSON.",
    )
    assert parts("pare  with , pl") == ("pare ", CAT, " with ", DOG, ", pl")
    assert parts("Something else") == ("Something else", CAT, DOG)
    assert parts("") == (CAT, DOG)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
images = st.builds(
    Image, st.binary(max_size=9), st.sampled_from(["image/png", "image/gif"]), detail=st.just("low")
)
addresses = st.builds(File, url=texts.map(quote).map("https://a.example/{}".format), name=st.none() | texts)
sounds = st.builds(Audio, st.binary(max_size=9), st.just("audio/wav"), name=st.none() | texts)
contents = st.lists(texts | images | addresses | sounds, max_size=5).map(tuple)


@given(texts, contents)
def test_interleaving_loses_neither_text_nor_media(text: str, parts: tuple[str | Media, ...]) -> None:
    pieces = list(interleave(text, parts))
    assert "".join(part for part in pieces if isinstance(part, str)) == text
    assert _media(pieces) == _media(parts)


@given(contents)
def test_contents_with_the_text_are_the_parts(parts: tuple[str | Media, ...]) -> None:
    text = "".join(part for part in parts if isinstance(part, str))
    message = UserMessage(text, contents=parts)
    trimmed = [part.strip("\n") if isinstance(part, str) else part for part in _joined(parts)]
    expected = [part for part in trimmed if not isinstance(part, str) or part.strip()]
    assert message.parts == tuple(expected)


def _media(parts: Any) -> list[Media]:
    return [part for part in parts if not isinstance(part, str)]


def _joined(parts: tuple[str | Media, ...]) -> Iterator[str | Media]:
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            yield text
            yield part
            text = ""
    yield text


# --- JSON ---


@given(st.lists(st.builds(UserMessage, texts, st.none() | texts, contents), max_size=3))
def test_messages_with_media_survive_a_round_trip_through_json(messages: list[Message]) -> None:
    assert messages_from_json(messages_to_json(messages)) == messages


def test_the_json_of_a_message_without_contents_has_no_contents() -> None:
    assert json.loads(messages_to_json([UserMessage("Hi")])) == [{"type": "user", "text": "Hi"}]


def test_media_are_written_in_base_64() -> None:
    message = UserMessage(
        "See", "Ada", ("See", CAT.with_detail("high"), PAPER, Image.from_url("https://a.b/c.png"))
    )
    assert json.loads(messages_to_json([message])) == [
        {
            "type": "user",
            "text": "See",
            "name": "Ada",
            "contents": [
                "See",
                {"type": "image", "media_type": "image/png", "data": CAT.base64, "detail": "high"},
                {
                    "type": "file",
                    "media_type": "application/pdf",
                    "data": "JVBERi0xLjc=",
                    "name": "paper.pdf",
                },
                {"type": "image", "media_type": "image/png", "url": "https://a.b/c.png", "name": "c.png"},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "film"}, "unknown type of content in a message: 'film'"),
        (3, "unknown type of content in a message: None"),
        ({"type": "image", "data": "?"}, None),
        ({"type": "image", "url": "https://a.b", "colour": 1}, None),
        ({"type": "image"}, "create an image with Image.from_path, Image.from_bytes or Image.from_url"),
    ],
)
def test_wrong_contents_are_a_value_error(part: Any, message: str | None) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # some messages are from the standard library
        message_from_dict({"type": "user", "text": "", "contents": [part]})
    assert message is None or str(caught.value) == message
