"""Models that answer with images: requests, replies, streams, and conversations that contain them."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Annotated, Any, Protocol

import pytest
from loopback import DONE, Loopback, Reply, answer, delta, event, json_reply, sse

from aiservices import (
    AiMessage,
    AnthropicChatModel,
    AsyncStream,
    BadRequestError,
    Budget,
    Capabilities,
    ChatRequest,
    GeminiChatModel,
    Image,
    ImageFormat,
    InvalidReplyError,
    MemoryId,
    OpenAiChatModel,
    OpenAiResponsesModel,
    Result,
    ToolCall,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore, SqliteChatMemoryStore
from aiservices.models.messages import message_from_dict, message_to_dict

PNG = b"\x89PNG\r\n\x1a\n cat"
JPEG = b"\xff\xd8\xff dog"
DATA = b64encode(PNG).decode()
CAT = Image.from_bytes(PNG)
DOG = Image.from_bytes(JPEG)
MAKES_IMAGES = Capabilities(image_output=True)


class Painter(Protocol):
    def paint(self, what: str) -> Image: ...

    def told(self, what: str) -> Result[list[Image]]: ...

    def text(self, what: str) -> Result[str]: ...


class Editor(Protocol):
    def edit(self, who: Annotated[str, MemoryId], what: str) -> Image: ...


# --- Gemini ---


def inline(data: bytes, media_type: str = "image/png", **members: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": b64encode(data).decode()}, **members}


def generated(*parts: Any) -> Reply:
    content = [{"text": part} if isinstance(part, str) else part for part in parts]
    return json_reply({"candidates": [{"content": {"parts": content}, "finishReason": "STOP"}]})


def gemini(server: Loopback, name: str = "gemini-2.5-flash-image") -> GeminiChatModel:
    return GeminiChatModel(name, base_url=server.base_url, api_key="key")


def test_gemini_answers_with_an_image(loopback: Loopback) -> None:
    loopback.reply(generated("Here it is.", inline(PNG)))
    painter = create(Painter, gemini(loopback))
    assert painter.paint("a cat") == CAT
    assert loopback.requests[0].json == {
        "contents": [{"role": "user", "parts": [{"text": "a cat"}]}],
        "generationConfig": {"responseModalities": ["TEXT", "IMAGE"]},
    }
    result = painter.told("a cat")
    assert (result.value, result.text, result.reply.message.images) == ([CAT], "Here it is.", (CAT,))


def test_gemini_keeps_the_order_of_texts_and_images(loopback: Loopback) -> None:
    loopback.reply(generated("1.", inline(PNG), "2.", inline(JPEG, "image/jpeg")))
    message = create(Painter, gemini(loopback)).text("a recipe").reply.message
    assert (message.text, message.parts) == ("1.2.", ("1.", CAT, "2.", DOG))


def test_drafts_in_the_thoughts_of_gemini_are_no_answer(loopback: Loopback) -> None:
    draft = inline(JPEG, "image/jpeg", thought=True)
    loopback.reply(generated({"text": "Hm.", "thought": True}, draft, inline(PNG, thoughtSignature="c2ln")))
    memory = ChatMemory()
    editor = create(Editor, gemini(loopback, "gemini-3-pro-image-preview"), interceptors=[memory])
    assert editor.edit("ann", "a cat") == CAT
    assert editor.edit("ann", "blue") == CAT
    # the signature is sent back with the image, and the image is stored once
    assert loopback.requests[1].json["contents"][1] == {
        "role": "model",
        "parts": [{"text": "Hm.", "thought": True}, inline(PNG, thoughtSignature="c2ln")],
    }
    stored = json.dumps([message_to_dict(message) for message in memory.messages("ann")])
    assert stored.count(DATA) == 2  # one in each of two answers


def test_gemini_gets_its_images_back_without_a_signature(loopback: Loopback) -> None:
    loopback.reply(generated("Here.", inline(PNG)))
    editor = create(Editor, gemini(loopback), interceptors=[ChatMemory()])
    editor.edit("ann", "a cat")
    editor.edit("ann", "blue")
    assert loopback.requests[1].json["contents"][1] == {
        "role": "model",
        "parts": [{"text": "Here."}, inline(PNG)],
    }


def test_gemini_streams_an_image(loopback: Loopback) -> None:
    class Streaming(Protocol):
        def text(self, what: str) -> AsyncStream[str]: ...

    first = {"candidates": [{"content": {"parts": [{"text": "Here"}]}}]}
    last = {"candidates": [{"content": {"parts": [inline(PNG)]}, "finishReason": "STOP"}]}
    loopback.reply(sse(event(first), event(last)))
    request = ChatRequest((UserMessage("a cat"),), response_format=ImageFormat())
    (reply,) = [one.reply for one in gemini(loopback).stream(request) if one.reply is not None]
    assert (reply.text, reply.message.images) == ("Here", (CAT,))


@pytest.mark.parametrize("data", ["???", "aGVsbG8"])
def test_an_image_that_is_not_base64_is_an_unreadable_reply(loopback: Loopback, data: str) -> None:
    loopback.reply(generated({"inlineData": {"mimeType": "image/png", "data": data}}))
    with pytest.raises(InvalidReplyError, match="it has an image or a file that cannot be read"):
        create(Painter, gemini(loopback), budget=Budget(max_attempts=1)).paint("a cat")


# --- the Responses API ---


def responses(server: Loopback) -> OpenAiResponsesModel:
    return OpenAiResponsesModel("gpt-5", base_url=server.base_url, api_key="key", capabilities=MAKES_IMAGES)


CALL = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "output_format": "png"}


def response(*output: Any) -> dict[str, Any]:
    return {"id": "r", "model": "gpt-5", "status": "completed", "output": list(output)}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def test_the_responses_api_answers_with_an_image(loopback: Loopback) -> None:
    loopback.reply(json_reply(response({**CALL, "result": DATA}, said("Here."))))
    result = create(Painter, responses(loopback)).told("a cat")
    assert (result.value, result.text) == ([CAT], "Here.")
    assert [run.name for run in result.server_tool_runs] == ["image_generation"]
    body = loopback.requests[0].json
    assert (body["tools"], "text" in body) == ([{"type": "image_generation"}], False)


def test_settings_of_the_image_tool_are_kept(loopback: Loopback) -> None:
    from aiservices import ChatOptions

    loopback.reply(json_reply(response({**CALL, "result": DATA})))
    tool = {"type": "image_generation", "size": "1024x1024"}
    create(Painter, responses(loopback), options=ChatOptions(server_tools=(tool,))).paint("a cat")
    assert loopback.requests[0].json["tools"] == [tool]


def test_the_responses_api_gets_its_image_back(loopback: Loopback) -> None:
    call = {**CALL, "result": DATA}
    loopback.reply(json_reply(response(call)))
    memory = ChatMemory()
    editor = create(Editor, responses(loopback), interceptors=[memory])
    editor.edit("ann", "a cat")
    editor.edit("ann", "blue")
    assert call in loopback.requests[1].json["input"]
    stored = json.dumps([message_to_dict(message) for message in memory.messages("ann")])
    assert stored.count(DATA) == 2


def test_the_responses_api_streams_an_image(loopback: Loopback) -> None:
    call = {**CALL, "result": DATA}
    loopback.reply(
        sse(
            event({"type": "response.output_item.done", "output_index": 0, "item": call}),
            event({"type": "response.completed", "response": response(call)}),
        )
    )
    request = ChatRequest((UserMessage("a cat"),), response_format=ImageFormat())
    (reply,) = [one.reply for one in responses(loopback).stream(request) if one.reply is not None]
    assert reply.message.images == (CAT,)


def test_models_of_openai_make_images_with_the_responses_api() -> None:
    made = OpenAiResponsesModel("gpt-5").capabilities.image_output
    other = OpenAiResponsesModel("m", base_url="http://localhost:1/v1").capabilities.image_output
    assert (made, other, OpenAiChatModel("gpt-5").capabilities.image_output) == (True, False, False)


# --- OpenRouter and other gateways ---


def gateway(server: Loopback) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=server.base_url, api_key="key", capabilities=MAKES_IMAGES)


IMAGES = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}]


def test_a_gateway_answers_with_an_image(loopback: Loopback) -> None:
    loopback.reply(answer("Here.", images=IMAGES))
    result = create(Painter, gateway(loopback)).told("a cat")
    assert (result.value, result.text) == ([CAT], "Here.")
    body = loopback.requests[0].json
    assert (body["modalities"], "response_format" in body) == (["image", "text"], False)


def test_a_gateway_streams_an_image(loopback: Loopback) -> None:
    loopback.reply(sse(delta(content="Here."), delta(images=IMAGES), delta("stop"), DONE))
    request = ChatRequest((UserMessage("a cat"),), response_format=ImageFormat())
    (reply,) = [one.reply for one in gateway(loopback).stream(request) if one.reply is not None]
    assert (reply.text, reply.message.images) == ("Here.", (CAT,))


def test_a_gateway_gets_its_images_in_a_message_of_the_user(loopback: Loopback) -> None:
    loopback.reply(answer("Here.", images=IMAGES))
    editor = create(Editor, gateway(loopback), interceptors=[ChatMemory()])
    editor.edit("ann", "a cat")
    editor.edit("ann", "blue")
    assert loopback.requests[1].json["messages"][1:] == [
        {"role": "assistant", "content": "Here."},
        {"role": "user", "content": [{"type": "text", "text": "From your answer:"}, IMAGES[0]]},
        {"role": "user", "content": "blue"},
    ]


def test_an_image_that_cannot_be_read_is_an_unreadable_reply(loopback: Loopback) -> None:
    loopback.reply(answer("", images=[{"image_url": {"url": "file:///etc/passwd"}}]))
    with pytest.raises(InvalidReplyError, match="it has an image that cannot be read"):
        create(Painter, gateway(loopback), budget=Budget(max_attempts=1)).paint("a cat")


def test_openrouter_names_its_models_that_make_images() -> None:
    names = ("google/gemini-2.5-flash-image", "openai/gpt-5")
    models = [OpenAiChatModel(name, provider="openrouter") for name in names]
    assert [model.capabilities.image_output for model in models] == [True, False]


# --- all of them ---


def test_a_model_without_images_does_not_send_the_request(loopback: Loopback) -> None:
    model = AnthropicChatModel("claude-sonnet-4-5", base_url=loopback.base_url, api_key="key")
    request = ChatRequest((UserMessage("a cat"),), response_format=ImageFormat())
    with pytest.raises(BadRequestError, match="the model does not answer with images"):
        model.complete(request)
    assert loopback.requests == []


def test_messages_with_images_are_stored(tmp_path: Any) -> None:
    message = AiMessage("Here.", (ToolCall("c", "f", "{}"),), contents=("Here.", CAT))
    assert message_from_dict(json.loads(json.dumps(message_to_dict(message)))) == message
    for store in (InMemoryChatMemoryStore(), SqliteChatMemoryStore(tmp_path / "memory.db")):
        store.append("a", [UserMessage("Hi"), message], expected=0)
        assert store.load("a").messages[-1] == message


def test_continued_messages_keep_their_images() -> None:
    joined = AiMessage("a", contents=(CAT,)).plus(AiMessage("b", contents=("b", DOG)))
    assert (joined.text, joined.parts) == ("ab", ("a", CAT, "b", DOG))
    assert AiMessage("a").plus(AiMessage("b")).contents == ()
