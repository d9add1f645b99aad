"""A cassette records the replies of a model, and replays them without calling the model."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer

from aiservices import (
    AiMessage,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionError,
    File,
    FinishReason,
    Image,
    ModelServerError,
    OpenAiChatModel,
    RateLimitError,
    ReplyDelta,
    ScriptedChatModel,
    TokenLogprob,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    create,
    options,
    user_message,
)
from aiservices.models.messages import ToolCallDelta
from aiservices.testing import CassetteChatModel, CassetteError, CassetteMode
from aiservices.testing.cassette import REMOVED, without_secrets


class Shop(Protocol):
    @user_message("How many of {{article}}?")
    def stock(self, article: str) -> int: ...
    def story(self, about: str) -> Iterator[str]: ...
    async def later(self, about: str) -> str: ...
    def astory(self, about: str) -> AsyncIterator[str]: ...


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "shop.json"


def silent() -> ScriptedChatModel:
    """A model that must not be called."""
    return ScriptedChatModel([])


def test_a_recorded_exchange_is_replayed_without_calling_the_model(path: Path) -> None:
    model = ScriptedChatModel(['{"value": 3}', '{"value": 4}'])
    recording = create(Shop, CassetteChatModel(path, model))
    assert [recording.stock("lamp"), recording.stock("desk")] == [3, 4]
    played = create(Shop, CassetteChatModel(path, silent()))
    assert [played.stock("desk"), played.stock("lamp")] == [4, 3]


def test_a_cassette_needs_no_model_to_play(path: Path) -> None:
    can = Capabilities(tools=True)
    model = ScriptedChatModel(
        [ChatReply(AiMessage("", (ToolCall("c1", "int", '{"value": 3}'),)), FinishReason.TOOL_CALLS)],
        capabilities=can,
        name="openai:some",
    )
    assert create(Shop, CassetteChatModel(path, model)).stock("lamp") == 3
    player = CassetteChatModel(path, mode="none")
    assert (player.name, player.capabilities) == ("openai:some", can)
    assert create(Shop, player).stock("lamp") == 3
    assert player.unplayed == 0


def test_a_replayed_reply_equals_the_recorded_one(path: Path) -> None:
    reply = ChatReply(
        AiMessage("hm", (ToolCall("c1", "t", "{}"),), reasoning="well"),
        FinishReason.LENGTH,
        Usage(1, 2, 3, 4),
        "gpt-1",
        refusal="no",
    )
    request = ChatRequest.of("?")
    assert CassetteChatModel(path, ScriptedChatModel([reply])).complete(request) == reply
    assert CassetteChatModel(path, mode="none").complete(request) == reply


def test_a_lone_surrogate_is_recorded_and_replayed_unchanged(path: Path) -> None:
    recording = CassetteChatModel(path, ScriptedChatModel(["half \ud83d of \U0001f600"]))
    request = ChatRequest.of("\udc00?")
    assert recording.complete(request).text == "half \ud83d of \U0001f600"
    assert CassetteChatModel(path, silent()).complete(request).text == "half \ud83d of \U0001f600"


def test_recording_continues_after_a_failed_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = CassetteChatModel(path, ScriptedChatModel(["a", "b"]))

    def full(path: Path, text: str) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr("aiservices.testing.cassette.write_atomically", full)
        with pytest.raises(OSError, match="no space"):
            recording.complete(ChatRequest.of("1"))
    recording.complete(ChatRequest.of("2"))
    assert CassetteChatModel(path, silent()).unplayed == 2


def test_streams_and_async_calls_are_recorded_and_replayed_in_their_pieces(path: Path) -> None:
    def answers(service: Shop) -> tuple[list[str], str, list[str]]:
        async def awaited() -> tuple[str, list[str]]:
            return await service.later("a"), [piece async for piece in service.astory("b")]

        return (list(service.story("c")), *asyncio.run(awaited()))

    replies = ["once upon a time", "later", "there was one"]
    first = answers(create(Shop, CassetteChatModel(path, ScriptedChatModel(replies))))
    assert first == (["once ", "upon ", "a ", "time"], "later", ["there ", "was ", "one"])
    assert answers(create(Shop, CassetteChatModel(path, silent(), mode="none"))) == first


def test_tool_calls_and_reasoning_are_replayed_in_their_pieces(path: Path) -> None:
    call = ToolCall("c1", "list_int", '{"value": [1, 2]}')
    reply = ChatReply(AiMessage("", (call,)), FinishReason.TOOL_CALLS)

    class Thinking(ScriptedChatModel):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            yield ReplyDelta(reasoning="hm ")
            yield from super().stream(request)

    model = Thinking([reply], capabilities=Capabilities(tools=True))
    request = ChatRequest.of("?")
    first = list(CassetteChatModel(path, model).stream(request))
    assert list(CassetteChatModel(path, mode="none").stream(request)) == first
    assert [delta.reasoning for delta in first] == ["hm ", "", "", "", ""]
    assert [call.arguments for delta in first for call in delta.tool_calls] == ['{"value": ', "[1, ", "2]}"]


def test_a_whole_reply_can_be_replayed_as_a_stream_and_a_stream_as_a_whole(path: Path) -> None:
    one, two = ChatRequest.of("one"), ChatRequest.of("two")
    recorder = CassetteChatModel(path, ScriptedChatModel(["a b", "c d"]))
    recorder.complete(one)
    list(recorder.stream(two))
    player = CassetteChatModel(path, mode="none")
    assert [delta.text for delta in player.stream(one)] == ["a b", ""]
    assert player.complete(two).text == "c d"


def test_a_stream_that_was_closed_early_is_replayed_up_to_that_point(path: Path) -> None:
    stories = create(Shop, CassetteChatModel(path, ScriptedChatModel(["once upon a time"]))).story("c")
    assert [next(stories), next(stories)] == ["once ", "upon "]
    stories.close()  # type: ignore[attr-defined]
    again = create(Shop, CassetteChatModel(path, mode="none")).story("c")
    assert [next(again), next(again)] == ["once ", "upon "]
    with pytest.raises(CassetteError) as caught:
        next(again)
    assert str(caught.value) == (
        f"{path}: the stream of this request was closed before its end when it was recorded, so its whole "
        "reply is unknown; record it again"
    )


def test_equal_requests_get_their_replies_in_order_and_no_more_than_were_recorded(path: Path) -> None:
    request = ChatRequest.of("dice")
    recorder = CassetteChatModel(path, ScriptedChatModel(["1", "6"]))
    assert [recorder.complete(request).text for _ in range(2)] == ["1", "6"]
    player = CassetteChatModel(path, mode="none")
    assert [player.complete(request).text for _ in range(2)] == ["1", "6"]
    with pytest.raises(CassetteError) as caught:
        player.complete(request)
    assert str(caught.value) == (
        f"{path}: this request was recorded 2 times, but is made more often now; record new requests with "
        'the mode "new" (pytest --cassettes=new), or all of them with "all"'
    )


def test_an_unrecorded_request_is_an_error_that_shows_the_difference(path: Path) -> None:
    recorder = CassetteChatModel(path, ScriptedChatModel(['{"value": 3}', "x"]))
    create(Shop, recorder).stock("lamp")
    recorder.complete(ChatRequest.of("something else altogether"))
    with pytest.raises(CassetteError) as caught:
        create(Shop, CassetteChatModel(path, silent(), mode="none")).stock("desk")
    message = str(caught.value).splitlines()
    assert message[:2] == [
        f'{path} has no reply to this request; record new requests with the mode "new" (pytest '
        '--cassettes=new), or all of them with "all".',
        "The most similar recorded request is exchange 1 of 2:",
    ]
    assert [line for line in message[2:] if line[0] in "+-"] == [
        "--- recorded",
        "+++ requested",
        '-      "text": "How many of lamp?",',
        '+      "text": "How many of desk?",',
    ]


def test_a_long_difference_is_cut(path: Path) -> None:
    CassetteChatModel(path, ScriptedChatModel(["x"])).complete(ChatRequest.of("short"))
    long = ChatRequest(tuple(UserMessage(str(number)) for number in range(90)))
    with pytest.raises(CassetteError, match=r"\n… and \d+ more lines$"):
        CassetteChatModel(path, mode="none").complete(long)


def test_without_a_file_nothing_is_replayed(path: Path) -> None:
    with pytest.raises(CassetteError) as caught:
        CassetteChatModel(path, ScriptedChatModel(["x"]), mode="none").complete(ChatRequest.of("?"))
    assert str(caught.value) == (
        f"{path} does not exist, and the mode none records nothing; "
        'record it with the mode "once" (pytest --cassettes=once)'
    )


@pytest.mark.parametrize(
    ("mode", "texts", "recorded"),
    [("new", ["old", "third"], ["old", "third"]), ("all", ["first", "second"], ["first", "second"])],
)
def test_the_mode_selects_what_is_recorded(
    path: Path, mode: str, texts: list[str], recorded: list[str]
) -> None:
    CassetteChatModel(path, ScriptedChatModel(["old"])).complete(ChatRequest.of("a"))
    model = ScriptedChatModel(["third"] if mode == "new" else ["first", "second"])
    cassette = CassetteChatModel(path, model, mode=mode)
    assert [cassette.complete(ChatRequest.of(text)).text for text in "ab"] == texts
    assert [one["reply"]["message"]["text"] for one in exchanges(path)] == recorded


def exchanges(path: Path) -> list[Any]:
    candidates: list[Any] = json.loads(path.read_text("utf-8"))["exchanges"]
    return candidates


def test_a_model_is_needed_to_record(path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        CassetteChatModel(path, mode=CassetteMode.NEW)
    assert str(caught.value) == (
        f'CassetteChatModel: to record to {path}, pass the model to record; mode="none" needs no model'
    )


def test_an_unknown_mode_is_a_definition_error(path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        CassetteChatModel(path, silent(), mode="never")
    assert str(caught.value) == "CassetteChatModel: mode is 'never'; it must be one of none, once, new, all"


def test_models_that_share_a_file_get_their_own_replies(path: Path) -> None:
    models = [ScriptedChatModel([name], name=name) for name in ("one", "two")]
    first = CassetteChatModel(path, models[0])
    both = [first, first.also(models[1])]
    assert [model.complete(ChatRequest.of("?")).text for model in both] == ["one", "two"]
    with pytest.raises(DefinitionError) as caught:
        CassetteChatModel(path, mode="none")
    assert str(caught.value) == (
        f"CassetteChatModel: {path} has recordings of several models (one, two); pass the one to replay"
    )
    again = [
        CassetteChatModel(path, ScriptedChatModel([], name=name), mode="none") for name in ("two", "one")
    ]
    assert [model.complete(ChatRequest.of("?")).text for model in again] == ["two", "one"]


def test_errors_of_the_provider_are_replayed_without_a_wait(path: Path) -> None:
    script = [RateLimitError("slow down", status=429, retryable=True, retry_after=0.01), '{"value": 3}']
    assert create(Shop, CassetteChatModel(path, ScriptedChatModel(script))).stock("lamp") == 3
    assert create(Shop, CassetteChatModel(path, mode="none")).stock("lamp") == 3
    with pytest.raises(RateLimitError) as caught:
        CassetteChatModel(path, silent(), mode="new").complete(request_of(path))
    error = caught.value
    assert (str(error), error.status, error.retryable, error.retry_after) == ("slow down", 429, True, 0.0)


def request_of(path: Path) -> ChatRequest:
    """Return the first request that the cassette recorded."""
    model = ScriptedChatModel(['{"value": 1}'])
    create(Shop, model).stock("lamp")
    return model.requests[0]


def test_an_error_in_the_middle_of_a_stream_is_replayed_after_its_pieces(path: Path) -> None:
    class Breaking(ScriptedChatModel):
        def stream(self, request: ChatRequest) -> Iterator[Any]:
            yield from list(super().stream(request))[:1]
            raise ModelServerError("gone", status=500)

    for script in (["a b"], None):
        model = CassetteChatModel(path, script and Breaking(script), mode="once" if script else "none")
        deltas = model.stream(ChatRequest.of("?"))
        assert next(deltas).text == "a "
        with pytest.raises(ModelServerError, match=r"^gone$"):
            next(deltas)


def test_no_key_is_recorded_wherever_it_occurs(
    path: Path, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-proj-0123456789abcdefABCDEF"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("MY_SECRET_KEY", "orange-tree-7")

    class Leaking(Protocol):
        @options(
            extra_headers={"Authorization": f"Bearer {key}"},
            extra_body={"api_key": "abc", "user": "Ann", "nested": {"password": "p"}},
        )
        def ask(self, text: str) -> str: ...

    loopback.reply(answer(f"your key is {key}"))
    model = OpenAiChatModel("gpt", base_url=loopback.base_url)
    cassette = CassetteChatModel(path, model, redact=lambda text: text.replace("Ann", "somebody"))
    create(Leaking, cassette).ask(f"{key} at https://me:pw@host/x with orange-tree-7, says Ann")
    text = path.read_text("utf-8")
    assert key not in text
    request = exchanges(path)[0]["request"]
    assert request["messages"][0]["text"] == (
        f"{REMOVED} at https://{REMOVED}@host/x with {REMOVED}, says somebody"
    )
    body = {"api_key": REMOVED, "user": "somebody", "nested": {"password": REMOVED}}
    assert request["options"] == {"extra_body": body}
    assert exchanges(path)[0]["reply"]["message"]["text"] == f"your key is {REMOVED}"


@pytest.mark.parametrize(
    ("text", "without_key"),
    [
        ("a sk-proj-abcdefgh12345678 b", f"a {REMOVED} b"),
        ("Authorization: Bearer abcdefgh12345678==", f"Authorization: Bearer {REMOVED}"),
        ("https://me:pw@host/a", f"https://{REMOVED}@host/a"),
        ("https://host/a?sig=ab%2F&x=1", f"https://host/a?sig={REMOVED}&x=1"),
        ("https://host/a?x=1&access_token=abc", f"https://host/a?x=1&access_token={REMOVED}"),
        ("it is sk-learn-compatible-estimators", "it is sk-learn-compatible-estimators"),
        ("Bearer of bad news", "Bearer of bad news"),
        ("ann@example.com at https://host/a@b", "ann@example.com at https://host/a@b"),
    ],
)
def test_text_that_looks_like_a_key_is_removed(text: str, without_key: str) -> None:
    assert without_secrets([text], str) == [without_key]


def test_words_that_only_resemble_secrets_are_recorded() -> None:
    data = {"max_tokens": 5, "tokens": "many", "author": "Ann", "keyboard": "qwerty", "text": "the sk-ill"}
    assert without_secrets(data, str) == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_keys_are_removed_from_base64_of_each_encoding(encoding: str) -> None:
    text = base64.b64encode("the key is sk-abcdef0123456789abcdef".encode(encoding)).decode()
    cleaned = base64.b64encode(f"the key is {REMOVED}".encode()).decode()
    assert without_secrets([text, f"{text}=", text[:-1]], str) == [cleaned, f"{text}=", text[:-1]]


def test_timeouts_and_headers_are_not_compared(path: Path) -> None:
    def dateless(text: str) -> str:
        return text.partition(" on ")[0]

    recorder = CassetteChatModel(path, ScriptedChatModel(["x"]), redact=dateless)
    recorder.complete(ChatRequest.of("news on Monday", options=ChatOptions(timeout=3)))
    player = CassetteChatModel(path, mode="none", redact=dateless)
    request = ChatRequest.of("news on Friday", options=ChatOptions(timeout=9), deadline=5.0)
    assert player.complete(request).text == "x"


def test_many_threads_record_and_replay_each_exchange_once(path: Path) -> None:
    requests = [ChatRequest.of(str(number)) for number in range(60)]
    model = ScriptedChatModel(lambda request: f"reply to {request.messages[0].text}")
    expected = [f"reply to {number}" for number in range(60)]
    for mode in ("once", "none"):
        cassette = CassetteChatModel(path, model, mode=mode)
        with ThreadPoolExecutor(8) as pool:
            assert [reply.text for reply in pool.map(cassette.complete, requests)] == expected
    assert len(exchanges(path)) == 60
    assert len(model.requests) == 60
    assert list(path.parent.iterdir()) == [path]


def test_concurrent_tasks_are_recorded_in_the_order_of_their_requests(path: Path) -> None:
    class Slow(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(0.03 - 0.01 * int(request.messages[0].text))
            return self.complete(request)

    async def answers(model: CassetteChatModel) -> list[str]:
        replies = [model.acomplete(ChatRequest.of(str(number))) for number in range(3)]
        return [reply.text for reply in await asyncio.gather(*replies)]

    model = Slow(lambda request: f"r{request.messages[0].text}")
    assert asyncio.run(answers(CassetteChatModel(path, model))) == ["r0", "r1", "r2"]
    assert [one["reply"]["message"]["text"] for one in exchanges(path)] == ["r0", "r1", "r2"]
    assert asyncio.run(answers(CassetteChatModel(path, mode="none"))) == ["r0", "r1", "r2"]


def test_the_file_is_readable_text(path: Path) -> None:
    CassetteChatModel(path, ScriptedChatModel(["grün"])).complete(ChatRequest.of("Farbe?"))
    assert (
        path.read_text("utf-8")
        == """\
{
  "format": 1,
  "models": {
    "scripted": {
      "json_schema": true,
      "strict_schema": true,
      "requires_strict": false,
      "json_mode": true,
      "constrained": false,
      "tools": true,
      "schema_with_tools": true,
      "profile": "openai",
      "logprobs": 20,
      "max_concurrency": null
    }
  },
  "exchanges": [
    {
      "request": {
        "model": "scripted",
        "messages": [
          {
            "type": "user",
            "text": "Farbe?"
          }
        ]
      },
      "reply": {
        "message": {
          "type": "ai",
          "text": "grün"
        },
        "finish_reason": "stop",
        "model": "scripted",
        "usage": {
          "input_tokens": 1,
          "output_tokens": 1,
          "cached_tokens": 0,
          "reasoning_tokens": 0,
          "cache_write_tokens": 0
        }
      }
    }
  ]
}
"""
    )


def test_probabilities_are_recorded(path: Path) -> None:
    token = TokenLogprob("é".encode()[:1], -0.5, ((b"a", -1.0), (b"\xff", -2.0)))
    reply = ChatReply(AiMessage("true"), logprobs=(token,), probabilities={"$": ((True, 0.9), (False, 0.1))})
    request = replace(ChatRequest.of("Good?"), logprobs=20)
    recorded = CassetteChatModel(path, ScriptedChatModel([reply])).complete(request)
    replayed = CassetteChatModel(path).complete(request)
    for one in (recorded, replayed):
        assert (one.logprobs, one.probabilities) == (reply.logprobs, reply.probabilities)


def one_exchange(**fields: object) -> str:
    return json.dumps({"format": 1, "models": {}, "exchanges": [{"request": {}, **fields}]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 1}',
        '{"format": 1, "models": {}, "exchanges": [{}]}',
        '{"format": 1, "models": {"m": {"colour": 1}}, "exchanges": []}',
        "[" * 100_000,
        '{"format": 1, "models": {}, "exchanges": ' + "[" * 100_000,
        one_exchange(request=5),
        one_exchange(pieces=[5]),
        one_exchange(pieces=5),
        one_exchange(reply={}),
        one_exchange(reply=[]),
        one_exchange(error={"type": "RateLimitError"}),
    ],
)
def test_a_file_that_is_not_a_cassette_is_an_error(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(CassetteError) as caught:
        CassetteChatModel(path, mode="none")
    message = str(caught.value)
    assert message.startswith(f"{path} is not a cassette: ")
    assert message.endswith("; delete it and record it again")


def test_a_file_that_is_not_text_is_an_error(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff")
    with pytest.raises(CassetteError, match="cannot be read: 'utf-8' codec can't decode byte 0xff"):
        CassetteChatModel(path, mode="none")


def test_a_cassette_is_created_for_its_owner_only_and_keeps_other_permissions(path: Path) -> None:
    for text, mode in (("a", 0o600), ("b", 0o640)):
        model = CassetteChatModel(path, ScriptedChatModel(["x"]), mode="all")
        model.complete(ChatRequest.of(text))
        assert path.stat().st_mode & 0o777 == mode
        path.chmod(0o640)


def test_an_unknown_format_version_is_an_error(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"format": 2}')
    with pytest.raises(CassetteError) as caught:
        CassetteChatModel(path, mode="none")
    assert str(caught.value) == f"{path} has the format 2; this version reads 1"


def test_two_cassettes_that_record_to_one_file_do_not_overwrite_each_other(path: Path) -> None:
    one, two = (CassetteChatModel(path, ScriptedChatModel(["x"])) for _ in range(2))
    one.complete(ChatRequest.of("a"))
    with pytest.raises(CassetteError) as caught:
        two.complete(ChatRequest.of("b"))
    assert str(caught.value) == (
        f"{path} was changed by another program or cassette during the recording; give each test its own "
        "file, and use cassette.also(model) for models that share a file"
    )
    assert len(exchanges(path)) == 1


KEY = "hunter2-hunter2"  # redact knows it; the name of a field says what the others are


def clean(text: str) -> str:
    return text.replace(KEY, "(mine)")


ARGUMENTS = {"x": KEY, "api_key": "abc-def", KEY: {"password": "abc-def"}}
PLACES: dict[str, ChatReply] = {
    "text": ChatReply(AiMessage(f"It is {KEY}.")),
    "JSON": ChatReply(AiMessage(f'{{"a": ["{KEY}"], "{KEY}": 1, "api_key": "abc-def"}}')),
    "arguments": ChatReply(
        AiMessage(
            "",
            (ToolCall("1", "look", json.dumps(ARGUMENTS)),),
        )
    ),
    "reasoning": ChatReply(AiMessage("fine", reasoning=f"I hide {KEY}.")),
}


SECRET_FILE = json.dumps({"password": "abc-def", "k": f"is {KEY}"})
FILES = (
    File(f"The key is {KEY}.".encode(), "text/plain"),
    File(SECRET_FILE.encode(), "application/json"),
    File(SECRET_FILE.encode("utf-16"), "text/plain"),
    Image(b"GIF89a" + bytes(range(256)), "image/gif"),
)


class Pieces(ScriptedChatModel):
    """Streams its replies character by character."""

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        reply = self.complete(request)
        yield from (ReplyDelta(char) for char in reply.text)
        yield from (ReplyDelta(reasoning=char) for char in reply.message.reasoning or "")
        for index, call in enumerate(reply.message.tool_calls):
            yield from (
                ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, char),)) for char in call.arguments
            )
            yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, "", call),))
        yield ReplyDelta(reply=reply)


@pytest.mark.parametrize("kind", ["complete", "stream"])
@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_recorded_at_any_place(path: Path, place: str, kind: str) -> None:
    request = ChatRequest(
        (
            UserMessage(f"a {KEY}", KEY, FILES),
            AiMessage(KEY, (ToolCall("1", KEY, json.dumps({"token": "abc-def", "k": KEY})),)),
            ToolMessage("1", KEY, json.dumps([{"secret": "abc-def"}, KEY])),
        ),
        ChatOptions(extra_body={"user": KEY, "nested": ({"password": "abc-def"}, KEY)}),
    )
    for model in (Pieces([PLACES[place]]), None):
        cassette = CassetteChatModel(path, model, redact=clean)
        if kind == "stream":
            *_, last = cassette.stream(request)
            assert last.reply is not None
        else:
            cassette.complete(request)
        written = path.read_text("utf-8")
        decoded = [base64.b64decode(data) for data in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", written)]
        assert "GIF89a" in str(decoded)  # files that are not text stay as they are
        for text in (written, str(decoded), str(decoded).replace("\\x00", "")):
            assert KEY not in text
            assert "abc-def" not in text
