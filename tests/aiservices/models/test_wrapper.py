"""A model around another model gives the same outcome and counts the same in all four kinds of calls."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from loopback import Loopback, answer, stream_reply
from opentelemetry import context as otel_context
from recorded_spans import Recorded

from aiservices import (
    AiMessage,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    FallbackChatModel,
    InvalidReplyError,
    LimitedChatModel,
    Limits,
    ModelError,
    OpenAiChatModel,
    ReplyDelta,
    ScriptedChatModel,
    Usage,
)
from aiservices.integrations.otel.instrument import Signals, TracedModel
from aiservices.models.fallback import members_of
from aiservices.models.limits import Limiter
from aiservices.models.wrapper import FlowChatModel, RequestFlow, Wait, WrappingChatModel
from aiservices.rows.engines.permissions import PermissionAddress, PermittedChatModel
from aiservices.testing import CassetteChatModel

REQUEST = ChatRequest.of("Hello")
REPLY = ChatReply(AiMessage("one two"), usage=Usage(3, 2), model="inner")
NO_LOOP: Any = None
BLOCKING, ASYNC, STREAM, ASYNC_STREAM = KINDS = "complete", "acomplete", "stream", "astream"
STREAMS = STREAM, ASYNC_STREAM


class Inner:
    """A model that answers, or fails before or after the first part of its reply, or never ends."""

    name = "inner"
    capabilities = Capabilities()
    endpoint = "http://inner"

    def __init__(self, case: str) -> None:
        self.case = case
        self.requests = self.open = 0
        self.closed: list[str] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests += 1
        if self.case.startswith("error"):
            raise ModelError("broken", status=500)
        return REPLY

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        reply = self.complete(request)
        if self.case == "cancelled":
            await asyncio.sleep(60)
        return reply

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.requests += 1
        self.open += 1
        try:
            if self.case == "error before":
                raise ModelError("broken", status=500)
            yield ReplyDelta("one ")
            if self.case == "error after":
                raise ModelError("broken", status=500)
            yield ReplyDelta("two")
            if self.case != "incomplete":
                yield ReplyDelta(reply=REPLY)
        finally:
            self.open -= 1

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        deltas = self.stream(request)
        try:
            for delta in deltas:
                yield delta
                if self.case == "cancelled":
                    await asyncio.sleep(60)
        finally:
            deltas.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        self.closed.append("close")

    async def aclose(self) -> None:
        self.closed.append("aclose")


# --- Each wrapper, and what it has counted after a call ---


class Wrapped(NamedTuple):
    model: ChatModel
    counts: Callable[[], Any]


def fallback(inner: Inner, folder: Path) -> Wrapped:
    model = FallbackChatModel(inner, rest_after=1)
    (rest,) = model.rests.values()
    return Wrapped(model, lambda: "rests" if not rest.admits() else "answers")


def limited(inner: Inner, folder: Path) -> Wrapped:
    model = LimitedChatModel(inner, Limits(tokens_per_minute=1e9))
    model._limiter = limiter = Limiter()
    limiter.add_bounds(Limits(tokens_per_minute=1e9))
    return Wrapped(
        model,
        lambda: (
            limiter.sent,
            limiter.refused,
            limiter.in_flight,
            limiter._capacity._accepted,
            limiter._mean_output,
        ),
    )


class Permissions:
    """Permits all requests, and records what is reported about them."""

    address = PermissionAddress("", 0, "", 60.0)

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def ask(self, model: ChatModel, request: ChatRequest, wait: float) -> int:
        return 1

    def tell(self, what: str, number: int, **details: Any) -> None:
        self.notes.append((what, details.get("usage")))


def permitted(inner: Inner, folder: Path) -> Wrapped:
    client: Any = Permissions()
    # A blocking call would wait for the event loop of a worker, which test_permissions.py has.
    return Wrapped(PermittedChatModel(inner, client, NO_LOOP), lambda: client.notes)


def traced(inner: Inner, folder: Path) -> Wrapped:
    recorded = Recorded()
    signals = Signals(recorded.tracer_provider, recorded.meter_provider, None, None, None)
    model = TracedModel(inner, signals, otel_context.get_current(), {})

    def counts() -> Any:
        model.end()
        (span,) = recorded.spans
        names = ("error.type", "gen_ai.usage.output_tokens", "gen_ai.response.model")
        return {name: span.attributes[name] for name in names if span.attributes and name in span.attributes}

    return Wrapped(model, counts)


def cassette(inner: Inner, folder: Path) -> Wrapped:
    path = folder / "cassette.json"

    def counts() -> Any:
        if not path.exists():
            return []
        exchanges = json.loads(path.read_text())["exchanges"]
        return [(one.get("error", {}).get("message"), "reply" in one) for one in exchanges]

    return Wrapped(CassetteChatModel(path, inner, mode="all"), counts)


WRAPPERS = (fallback, limited, permitted, traced, cassette)
USED = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
    "cache_write_tokens": 0,
}
# What each wrapper counts, by the case: the same for every kind of call.
COUNTS: dict[str, dict[str, Any]] = {
    "value": {
        "fallback": "answers",
        "limited": (1, 0, 0, 1, 2.0),
        "permitted": [("done", USED)],
        "traced": {"gen_ai.usage.output_tokens": 2, "gen_ai.response.model": "inner"},
        "cassette": [(None, True)],
    },
    "error before": {
        "fallback": "rests",
        "limited": (1, 0, 0, 0, 0.0),
        "permitted": [("failed", None)],
        "traced": {"error.type": "aiservices.models.errors.ModelError"},
        "cassette": [("broken", False)],
    },
    "cancelled": {
        "fallback": "answers",
        "limited": (1, 0, 0, 0, 0.0),
        "permitted": [("failed", None)],
        "traced": {},
        "cassette": [],
    },
}
COUNTS["error after"] = COUNTS["error before"]
COUNTS["incomplete"] = COUNTS["error before"] | {
    "traced": {"error.type": "aiservices.models.errors.InvalidReplyError"},
    "cassette": [("the stream of inner ended before the reply was complete", False)],
}
# The part that was shown before is recorded.
COUNTS["closed early"] = COUNTS["cancelled"] | {"cassette": [(None, False)]}
COUNTS["cancelled stream"] = COUNTS["closed early"]
CASES = ("value", "error before", "error after", "incomplete", "closed early", "cancelled")


def outcome(model: ChatModel, kind: str, case: str) -> Any:
    """Call a model, and return the reply or the error, and in streams also the text that was shown."""
    if kind == BLOCKING:
        return caught(lambda: model.complete(REQUEST))
    if kind == STREAM:
        return streamed(model.stream(REQUEST), case)
    return asyncio.run(async_outcome(model, kind, case))


def caught(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ModelError as error:
        return type(error), str(error)


def streamed(deltas: Any, case: str) -> Any:
    assert isinstance(deltas, Generator)
    texts, reply = [], None
    try:
        for delta in deltas:
            texts.append(delta.text)
            reply = delta.reply
            if case == "closed early":
                deltas.close()
    except ModelError as error:
        return "".join(texts), (type(error), str(error))
    return "".join(texts), reply


async def async_outcome(model: ChatModel, kind: str, case: str) -> Any:
    if case == "cancelled":
        task = asyncio.create_task(async_outcome(model, kind, ""))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"
    if kind == ASYNC:
        try:
            return await model.acomplete(REQUEST)
        except ModelError as error:
            return type(error), str(error)
    deltas: Any = model.astream(REQUEST)
    assert isinstance(deltas, AsyncGenerator)
    texts, reply = [], None
    try:
        async for delta in deltas:
            texts.append(delta.text)
            reply = delta.reply
            if case == "closed early":
                await deltas.aclose()
    except ModelError as error:
        return "".join(texts), (type(error), str(error))
    return "".join(texts), reply


def expected(kind: str, case: str) -> Any:
    if case == "cancelled":
        return "cancelled"
    failure = (ModelError, "broken")
    if kind not in STREAMS:
        return failure if case.startswith("error") else REPLY
    return {
        "value": ("one two", REPLY),
        "error before": ("", failure),
        "error after": ("one ", failure),
        "incomplete": (
            "one two",
            (InvalidReplyError, "the stream of inner ended before the reply was complete"),
        ),
        "closed early": ("one ", None),
    }[case]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_all_kinds_of_calls_have_the_same_outcome_and_count_the_same(
    wrapper: Callable[[Inner, Path], Wrapped], case: str, tmp_path: Path
) -> None:
    kinds = {"incomplete": STREAMS, "closed early": STREAMS, "cancelled": (ASYNC, ASYNC_STREAM)}.get(
        case, KINDS
    )
    for kind in kinds:
        if wrapper is permitted and kind in (BLOCKING, STREAM):
            continue
        inner = Inner(case)
        model, counts = wrapper(inner, tmp_path)
        assert outcome(model, kind, case) == expected(kind, case), kind
        is_cut = case == "cancelled" and kind == ASYNC_STREAM
        assert counts() == COUNTS["cancelled stream" if is_cut else case][wrapper.__name__], kind
        assert (inner.requests, inner.open) == (1, 0), kind


# --- What a wrapper passes on ---


@pytest.mark.parametrize("wrapper", [limited, permitted, traced], ids=lambda wrapper: wrapper.__name__)
def test_a_wrapper_has_the_attributes_of_its_model(
    wrapper: Callable[[Inner, Path], Wrapped], tmp_path: Path
) -> None:
    inner: Any = Inner("value")
    inner.account, inner.default_options, inner.max_concurrency = "a", "o", 1
    model: Any = wrapper(inner, tmp_path).model
    names = ("name", "capabilities", "endpoint", "account", "default_options", "max_concurrency")
    assert [getattr(model, name) for name in names] == [getattr(inner, name) for name in names]
    assert model.wrapped_model is inner
    assert not hasattr(model, "nothing")


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_closing_a_wrapper_closes_its_model(
    wrapper: Callable[[Inner, Path], Wrapped], tmp_path: Path
) -> None:
    inner = Inner("value")
    model: Any = wrapper(inner, tmp_path).model
    with model:
        pass
    asyncio.run(_enter(model))
    assert inner.closed == ["close", "aclose"]


async def _enter(model: Any) -> None:
    async with model:
        pass


class Weights(ScriptedChatModel):
    """A model that can be closed only without waiting."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_model_without_an_async_close_is_closed_in_async_code_too() -> None:
    weights = Weights([])
    asyncio.run(LimitedChatModel(weights).aclose())
    assert weights.is_closed


def test_models_that_cannot_be_closed_are_left_as_they_are() -> None:
    model = FallbackChatModel(ScriptedChatModel([]))
    model.close()
    asyncio.run(model.aclose())


class Shouting(WrappingChatModel):
    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        yield ReplyDelta("WAIT ")
        return ChatReply(AiMessage("WAIT"))


def test_a_wrapper_is_not_left_out_when_the_model_inside_has_members() -> None:
    """A service sends requests to the members of a FallbackChatModel itself."""
    shouting = Shouting(FallbackChatModel(Inner("value"), Inner("value")))
    assert members_of(shouting) == (shouting,)


def test_a_wrapper_can_be_pickled() -> None:
    model = pickle.loads(pickle.dumps(LimitedChatModel(ScriptedChatModel(["a"]), Limits())))
    assert model.complete(REQUEST).text == "a"


# --- Flows ---


def test_parts_that_a_flow_yields_are_shown_in_streams_only() -> None:
    model = Shouting(Inner("value"))
    assert model.complete(REQUEST).text == "WAIT"
    assert [(delta.text, delta.reply is None) for delta in model.stream(REQUEST)] == [
        ("WAIT ", True),
        ("", False),
    ]


class Waiting(FlowChatModel):
    name = "waiting"
    capabilities = Capabilities()

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        async def later() -> str:
            return "async"

        kind = yield Wait(lambda: "blocking", later)
        return ChatReply(AiMessage(f"{kind} {streamed}"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (BLOCKING, "blocking False"),
        (ASYNC, "async False"),
        (STREAM, "blocking True"),
        (ASYNC_STREAM, "async True"),
    ],
)
def test_a_reply_that_no_model_wrote_is_shown_at_once(kind: str, text: str) -> None:
    result = outcome(Waiting(), kind, "value")
    assert (result[0] if kind in STREAMS else result.text) == text


# --- Headers of responses ---

EXHAUSTED = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrapper", ["limited", "permitted"])
def test_headers_that_report_an_exhausted_limit_are_read_in_all_kinds_of_calls(
    wrapper: str, kind: str, loopback: Loopback
) -> None:
    notes: list[Any] = []

    class Notes(Permissions):
        def tell(self, what: str, number: int, **details: Any) -> None:
            if what == "headers":
                notes.append(details["headers"])

    class NotingLimiter(Limiter):
        def read_headers(self, headers: Any) -> None:
            notes.append({name: headers[name] for name in EXHAUSTED})

    inner = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    client: Any = Notes()
    model: Any = LimitedChatModel(inner, Limits())
    model._limiter = NotingLimiter()
    if wrapper == "permitted":
        if kind in (BLOCKING, STREAM):
            return
        model = PermittedChatModel(inner, client, NO_LOOP)
    reply = stream_reply(["Hi"]) if kind in STREAMS else answer("Hi")
    loopback.reply(replace(reply, headers={**reply.headers, **EXHAUSTED}))
    outcome(model, kind, "value")
    assert notes == [EXHAUSTED]
