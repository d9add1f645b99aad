"""Methods that return the images in a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from fastapi.testclient import TestClient
from tool_calling import tool_calls_reply

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    Capabilities,
    ChatReply,
    DefinitionError,
    FallbackChatModel,
    Image,
    ImageFormat,
    Message,
    ModelServerError,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    SuspendedCall,
    UserMessage,
    create,
    example,
    preview,
    resume,
    tool,
)
from aiservices.integrations.fastapi import app, client
from aiservices.testing import FakeChatModel

CAT, DOG = Image.from_bytes(b"\x89PNG\r\n\x1a\n cat"), Image.from_bytes(b"\x89PNG\r\n\x1a\n dog")
CAPABILITIES = Capabilities(image_output=True, tools=True, json_schema=True)


class Painter(Protocol):
    def paint(self, what: str) -> Image: ...

    async def apaint(self, what: str) -> Image: ...

    def several(self, what: str) -> list[Image]: ...

    def told(self, what: str) -> Result[Image]: ...

    def message(self, what: str) -> AiMessage: ...


def shown(*images: Image, text: str = "") -> ChatReply:
    return ChatReply(AiMessage(text, contents=images))


def scripted(*replies: Any) -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=CAPABILITIES)


def test_the_image_of_the_reply_is_the_value() -> None:
    model = scripted(*[shown(CAT, text="Here.")] * 3, shown(CAT, DOG), shown(CAT))
    painter = create(Painter, model)
    assert painter.paint("a cat") == CAT
    assert asyncio.run(painter.apaint("a cat")) == CAT
    result = painter.told("a cat")
    assert (result.value, result.text, result.reasons) == (CAT, "Here.", ("the model answers with images",))
    assert painter.several("pets") == [CAT, DOG]
    assert painter.message("a cat").images == (CAT,)
    formats = [type(request.response_format) for request in model.requests]
    assert formats == [ImageFormat] * 4 + [type(None)]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [(shown(text="I cannot."), "$: expected one image, found no image"), (shown(CAT, DOG), "found 2 images")],
)
def test_a_reply_without_exactly_one_image_is_asked_for_again(reply: ChatReply, problem: str) -> None:
    model = scripted(reply, shown(CAT))
    assert create(Painter, model).paint("a cat") == CAT
    assert problem in model.requests[1].messages[-1].text
    with pytest.raises(ServiceOutputError, match="expected one image"):
        create(Painter, scripted(reply), retry=None).paint("a cat")


def test_a_list_needs_an_image() -> None:
    with pytest.raises(ServiceOutputError, match="expected at least one image, found no image"):
        create(Painter, scripted("Nothing."), retry=None).several("pets")


def test_only_models_that_make_images_are_asked() -> None:
    text, first, second = ScriptedChatModel([]), scripted(ModelServerError("no")), scripted(shown(CAT))
    assert create(Painter, FallbackChatModel(text, first, second)).several("a cat") == [CAT]
    assert (len(text.requests), len(second.requests)) == (0, 1)


ADVICE = "a model writes text, so it cannot write an object of Image; use str, for example for a URL"


def test_other_models_and_shapes_are_refused() -> None:
    class Wrong(Protocol):
        def streamed(self, what: str) -> Stream[Image]: ...

        def each(self, what: str) -> Iterator[Image]: ...

        @example("a cat", returns=CAT)
        def shown(self, what: str) -> Image: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, scripted())
    assert [str(problem) for problem in caught.value.problems] == [
        f"Wrong.streamed: it returns Image; {ADVICE}",
        f"Wrong.each: it returns Image; {ADVICE}",
        "Wrong.shown: its example does not fit: the method returns the reply itself, for which there are no "
        "examples",
    ]
    with pytest.raises(DefinitionError) as caught:
        create(Painter, ScriptedChatModel([]))
    assert str(caught.value.problems[0]) == (
        f"Painter.paint: it returns Image; {ADVICE}, or a model that makes images"
    )


def test_tools_run_before_the_image() -> None:
    @tool
    def colour() -> str:
        return "blue"

    model = scripted(tool_calls_reply(("colour", "{}")), shown(CAT))
    assert create(Painter, model, tools=[colour]).paint("a cat") == CAT


def test_the_conversation_of_a_suspended_call_keeps_its_images() -> None:
    @tool(needs_approval=True)
    def publish() -> str:
        return "published"

    class Editor(Protocol):
        def edit(self, message: UserMessage) -> Image: ...

    drawn = ChatReply(AiMessage("", tool_calls_reply(("publish", "{}")).message.tool_calls, contents=(CAT,)))
    editor = create(Editor, model := scripted(drawn, shown(DOG)), tools=[publish])
    with pytest.raises(ApprovalRequiredError) as caught:
        editor.edit(UserMessage("Draw a cat and publish it."))
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(editor.edit, state, True) == DOG
    sent = [message for message in model.requests[1].messages if isinstance(message, AiMessage)]
    assert [message.images for message in sent] == [(CAT,)]


def test_fake_models_make_images() -> None:
    painter = create(Painter, "fake")
    assert painter.paint("a cat").media_type == "image/png"
    assert len(painter.several("pets")) == 1
    model = FakeChatModel(values={"Painter.several": [CAT, DOG], Image: DOG})
    painter = create(Painter, model)
    assert (painter.several("pets"), painter.paint("a dog")) == ([CAT, DOG], DOG)
    with pytest.raises(DefinitionError):
        create(Painter, FakeChatModel(values={"Painter.paint": "a cat"})).paint("a cat")


def test_previews_show_images_of_earlier_answers() -> None:
    from typing import Annotated

    from aiservices import History

    class Chat(Protocol):
        def ask(self, past: Annotated[list[Message], History], text: str) -> str: ...

    past = [UserMessage("a cat"), AiMessage("Here.", contents=(CAT,))]
    assert "[assistant]\nHere.\n[image/png, 12 bytes]" in str(
        preview(create(Chat, "fake").ask, past, "Make it blue.")
    )


def test_images_are_served_over_http(serve: Callable[[Any], str]) -> None:
    painter = create(Painter, FakeChatModel(values={Image: CAT}))
    response = TestClient(app(painter), base_url="http://localhost").post("/paint", json={"what": "a cat"})
    assert response.json()["media_type"] == "image/png"
    remote = client(Painter, serve(app(painter)))
    assert remote.paint("a cat") == CAT
    assert remote.several("cats") == [CAT]
    assert remote.told("a cat").value == CAT
    assert asyncio.run(remote.apaint("a cat")) == CAT
    assert remote.message("a cat").text != ""
