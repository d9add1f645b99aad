"""The OpenTelemetry spans of every kind of call, and their attributes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import pytest
from loopback import MAX_WAIT, Loopback, answer, json_reply
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from recorded_spans import Recorded

from aiservices import (
    AnthropicChatModel,
    ApprovalRequiredError,
    AsyncStream,
    BedrockChatModel,
    Budget,
    Capabilities,
    ChatModel,
    ChatOptions,
    Decision,
    GeminiChatModel,
    MemoryId,
    ModelServerError,
    RateLimitError,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ToolCall,
    create,
    options,
    tool,
)
from aiservices.guardrails import GuardrailError, InputGuardrails, passed, refused
from aiservices.integrations.otel import OpenTelemetry
from aiservices.memory import ChatMemory
from aiservices.models.errors import ModelTimeoutError
from aiservices.models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta, Usage
from aiservices.models.openai import OpenAiChatModel
from aiservices.moderation import Moderation, ModerationError, ModerationResult
from aiservices.testing import Case, calibrate

ONE = '{"value": 1}'
DOWN = ModelServerError("500 of the secret", status=500, retryable=True)
BUSY = RateLimitError("429", status=429, retryable=True, retry_after=0.001)


def calling(*names: str) -> ChatReply:
    calls = tuple(ToolCall(f"c{place}", name, '{"of": 2}') for place, name in enumerate(names))
    return ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS)


def half(of: int) -> int:
    """Half of a number."""
    return of // 2


class Counter(Protocol):
    def count(self, text: str) -> int: ...

    async def acount(self, text: str) -> int: ...

    def grow(self, text: str) -> Stream[int]: ...

    def agrow(self, text: str) -> AsyncStream[int]: ...

    def each(self, text: str) -> Iterator[int]: ...

    def words(self, text: str) -> Iterator[str]: ...


class Teller(Protocol):
    def tell(self, text: str) -> str: ...


async def result_of(stream: AsyncStream[int]) -> int:
    return (await stream.result()).value


KINDS: dict[str, Callable[[Counter], Any]] = {
    "count": lambda service: service.count("x"),
    "acount": lambda service: asyncio.run(service.acount("x")),
    "grow": lambda service: service.grow("x").result().value,
    "agrow": lambda service: asyncio.run(result_of(service.agrow("x"))),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def counter(
    recorded: Recorded, *script: Any, before: Any = (), content: bool = False, **settings: Any
) -> Counter:
    interceptors = [recorded.telemetry(content=content), *before]
    settings = {"budget": Budget(max_attempts=9, first_wait=0), **settings}
    return create(Counter, ScriptedChatModel(script), interceptors=interceptors, **settings)


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


def events(span: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, dict(event.attributes)) for event in span.events]


@every_kind
def test_each_request_and_each_tool_has_a_span_below_that_of_the_call(recorded: Recorded, kind: str) -> None:
    service = counter(recorded, DOWN, calling("half"), "many", ONE, tools=[half])
    assert KINDS[kind](service) == 1
    assert recorded.tree == (
        f"invoke_agent Counter.{kind}\n"
        "  chat scripted ! ModelServerError\n"
        "  chat scripted\n"
        "  execute_tool half\n"
        "  chat scripted\n"
        "  chat scripted"
    )


@every_kind
def test_spans_have_the_attributes_of_the_conventions(recorded: Recorded, kind: str) -> None:
    usage = Usage(12, 3, cached_tokens=4, reasoning_tokens=2)
    reply = ChatReply(AiMessage(ONE), usage=usage, model="scripted-1", id="r1")
    service = counter(recorded, calling("half"), reply, tools=[half])
    KINDS[kind](service)
    call, first, run, second = recorded.spans
    assert [span.kind for span in recorded.spans] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
    ]
    assert {span.status.status_code for span in recorded.spans} == {StatusCode.UNSET}
    tokens = {
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    request_values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.name": f"Counter.{kind}",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.output.type": "json",
    }
    streamed = {"gen_ai.request.stream": True} if kind in ("grow", "agrow") else {}
    assert attributes(call) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": f"Counter.{kind}",
        "gen_ai.provider.name": "scripted",
        "aiservices.attempts": 2,
        "aiservices.strategy": "json_schema",
        "aiservices.coercions": 0,
        **tokens,
    }
    assert timeless(first) == {
        **request_values,
        **streamed,
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }
    assert attributes(run) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": f"Counter.{kind}",
        "gen_ai.tool.name": "half",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Half of a number.",
        "gen_ai.tool.call.id": "c0",
    }
    assert timeless(second) == {
        **request_values,
        **streamed,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "scripted-1",
        **tokens,
    }


def timeless(span: Any) -> dict[str, Any]:
    """Return span attributes without the time to the first chunk, which differs between runs."""
    values = attributes(span)
    first = values.pop("gen_ai.response.time_to_first_chunk", None)
    assert (first is not None and first >= 0) == values.get("gen_ai.request.stream", False)
    return values


def test_a_method_without_tools_is_a_workflow(recorded: Recorded) -> None:
    counter(recorded, ONE).count("x")
    assert recorded.tree == "invoke_workflow Counter.count\n  chat scripted"
    assert attributes(recorded.spans[0]) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "Counter.count",
        "aiservices.attempts": 1,
        "aiservices.strategy": "json_schema",
        "aiservices.coercions": 0,
    }


class Triage(NamedTuple):
    spam: Decision[bool]
    urgent: Decision[bool]


class Judge(Protocol):
    def is_spam(self, text: str) -> Decision[bool]: ...

    def triage(self, text: str) -> Result[Triage]: ...

    async def each(self, text: str) -> list[Decision[bool]]: ...


def judged(path: str, text: str, *shares: float) -> ChatReply:
    """Return a reply whose answers, at paths with a number or name for each, are true with a probability."""
    names = ("spam", "urgent") if "name" in path else range(len(shares))
    probabilities = {
        path.format(name=name, number=name): ((True, share), (False, 1 - share))
        for name, share in zip(names, shares, strict=True)
    }
    return ChatReply(AiMessage(text), probabilities=probabilities, model="stub-1")


def decision_of(span: Any) -> dict[str, Any]:
    prefix = "aiservices.decision."
    return {
        name.removeprefix(prefix): value
        for name, value in attributes(span).items()
        if name.startswith(prefix)
    }


def judge(recorded: Recorded, reply: ChatReply | str, **settings: Any) -> Judge:
    return create(
        Judge,
        ScriptedChatModel([reply] * 9, name="stub"),
        interceptors=[recorded.telemetry()],
        **settings,
    )


def test_the_span_of_a_decision_has_its_source_and_probability(recorded: Recorded) -> None:
    judge(recorded, judged("$.value", '{"value": true}', 0.75)).is_spam("x")
    expected = {"source": "decisions", "probability": 0.75, "calibrated": False, "count": 1}
    assert decision_of(recorded.spans[0]) == expected


def test_of_several_decisions_the_span_has_the_least_certain_one(recorded: Recorded) -> None:
    reply = judged("$.{name}", '{"spam": true, "urgent": true}', 0.9, 0.625)
    judge(recorded, reply).triage("x")
    reply = judged("$.value[{number}]", '{"value": [true, true, true]}', 0.75, 0.9, 0.8)
    asyncio.run(judge(recorded, reply).each("x"))
    found = [decision_of(span) for span in recorded.spans[::2]]
    assert [(one["probability"], one["count"]) for one in found] == [(0.625, 2), (0.75, 3)]


def test_the_span_says_that_a_decision_was_calibrated(recorded: Recorded) -> None:
    reply = judged("$.value", '{"value": true}', 0.75)
    cases = [Case({"text": "x"}, right) for right in (True, False)]
    calibration = calibrate(judge(Recorded(), reply).is_spam, cases).calibration
    judge(recorded, reply, calibration=calibration).is_spam("x")
    assert decision_of(recorded.spans[0])["calibrated"] is True


def test_the_votes_for_a_decision_are_its_source(recorded: Recorded) -> None:
    model = ScriptedChatModel(["true"] * 3, name="stub", capabilities=Capabilities())
    create(Judge, model, votes=3, interceptors=[recorded.telemetry()]).is_spam("x")
    decision = decision_of(recorded.spans[0])
    assert (decision["source"], decision["count"]) == ("votes(3)", 1)


def test_an_answer_without_a_decision_has_no_attributes_of_one(recorded: Recorded) -> None:
    counter(recorded, ONE).count("x")
    assert decision_of(recorded.spans[0]) == {}


@pytest.mark.parametrize("endpoint", ["http://host:99999", "http://[bad", "http://host:abc", "a queue"])
def test_an_endpoint_that_is_not_a_url_is_left_out(recorded: Recorded, endpoint: str) -> None:
    model: Any = ScriptedChatModel([ONE])
    model.endpoint = endpoint
    assert create(Counter, model, interceptors=[recorded.telemetry()]).count("x") == 1
    assert "server.address" not in attributes(recorded.named("chat scripted"))


def test_a_request_has_its_options_and_its_server(recorded: Recorded, loopback: Loopback) -> None:
    class Asked(Protocol):
        @options(temperature=0.5, top_p=0.9, max_tokens=9, stop=("a", "b"), seed=7, reasoning_effort="low")
        def chat(self, text: str) -> str: ...

    loopback.reply(answer("Hi", usage={"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}))
    with OpenAiChatModel("test-model", base_url=loopback.base_url, api_key="secret") as model:
        create(Asked, model, interceptors=[recorded.telemetry()]).chat("Hello")
    assert attributes(recorded.named("chat test-model")) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.name": "Asked.chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "test-model",
        "server.address": "127.0.0.1",
        "server.port": loopback.port,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ("a", "b"),
        "gen_ai.request.seed": 7,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "test-model-1",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 1,
    }


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("azure:d-1", "azure.ai.openai", "d-1"),
        ("openai-responses:gpt-x", "openai", "gpt-x"),
        ("ollama:qwen:4b", "ollama", "qwen:4b"),
        ("anthropic:claude-x", "anthropic", "claude-x"),
        ("gemini:g", "gcp.gemini", "g"),
        ("google:g", "gcp.gemini", "g"),
        ("google-vertex:g", "gcp.vertex_ai", "g"),
        ("bedrock:us.amazon.nova:0", "aws.bedrock", "us.amazon.nova:0"),
        ("mistral:m", "mistral_ai", "m"),
        ("moonshot:m", "moonshot_ai", "m"),
        ("xai:g", "x_ai", "g"),
        ("groq:l", "groq", "l"),
        ("scripted", "scripted", "scripted"),
    ],
)
def test_a_provider_has_the_name_of_the_conventions(
    recorded: Recorded, name: str, provider: str, model: str
) -> None:
    chat_model = ScriptedChatModel([ONE], name=name)
    create(Counter, chat_model, interceptors=[recorded.telemetry()]).count("x")
    values = attributes(recorded.named(f"chat {model}"))
    assert (values["gen_ai.provider.name"], values["gen_ai.request.model"]) == (provider, model)


CLAUDE_REPLY = {
    "type": "message",
    "id": "r1",
    "model": "m-1",
    "content": [{"type": "text", "text": "one"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "output_tokens": 4,
    },
}
GEMINI_REPLY = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "one"}]}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 5,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 1,
    },
    "modelVersion": "m-1",
    "responseId": "r1",
}
BEDROCK_REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "one"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 2, "outputTokens": 4},
}
WRITTEN = {"gen_ai.usage.cache_write.input_tokens": 2}
THOUGHT = {"gen_ai.usage.reasoning.output_tokens": 1}
ANSWERED = {"gen_ai.response.id": "r1", "gen_ai.response.model": "m-1"}


@pytest.mark.parametrize(
    ("make", "reply", "provider", "others"),
    [
        (lambda url: AnthropicChatModel("m", base_url=url, api_key="k"), CLAUDE_REPLY, "anthropic", WRITTEN),
        (lambda url: GeminiChatModel("m", base_url=url, api_key="k"), GEMINI_REPLY, "gcp.gemini", THOUGHT),
        (
            lambda url: GeminiChatModel("m", base_url=url, token=lambda: "t"),
            GEMINI_REPLY,
            "gcp.vertex_ai",
            THOUGHT,
        ),
        (lambda url: BedrockChatModel("m", base_url=url, api_key="k"), BEDROCK_REPLY, "aws.bedrock", WRITTEN),
    ],
    ids=["anthropic", "gemini", "vertex", "bedrock"],
)
def test_spans_of_native_providers_have_their_name_and_all_kinds_of_tokens(
    recorded: Recorded,
    loopback: Loopback,
    make: Callable[[str], ChatModel],
    reply: dict[str, Any],
    provider: str,
    others: dict[str, int],
) -> None:
    loopback.reply(json_reply(reply))
    create(Teller, make(loopback.base_url), interceptors=[recorded.telemetry()]).tell("x")
    # Bedrock's replies have neither an id nor the name of the model
    answered = {"gen_ai.response.model": "m"} if provider == "aws.bedrock" else ANSWERED
    assert attributes(recorded.named("chat m")) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.name": "Teller.tell",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": "m",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "server.address": "127.0.0.1",
        "server.port": loopback.port,
        **others,
        **answered,
    }


def test_the_request_model_is_the_one_in_the_options(recorded: Recorded) -> None:
    model = ScriptedChatModel([ONE], name="openai:small")
    chosen = ChatOptions(model="large")
    create(Counter, model, options=chosen, interceptors=[recorded.telemetry()]).count("x")
    assert attributes(recorded.named("chat large"))["gen_ai.request.model"] == "large"


@every_kind
def test_an_error_has_its_type_but_no_message(recorded: Recorded, kind: str) -> None:
    with pytest.raises(ServiceOutputError):
        KINDS[kind](counter(recorded, DOWN, "the secret", retry=None))
    assert recorded.tree == (
        f"invoke_workflow Counter.{kind} ! ServiceOutputError\n"
        "  chat scripted ! ModelServerError\n"
        "  chat scripted"
    )
    call, first, _ = recorded.spans
    assert attributes(call)["error.type"] == "aiservices.models.errors.ServiceOutputError"
    assert attributes(first)["http.response.status_code"] == 500
    assert [span.status.status_code.name for span in recorded.spans] == ["ERROR", "ERROR", "UNSET"]
    assert "secret" not in " ".join(span.to_json() for span in recorded.spans)


def test_guards_backoff_and_rejected_answers_are_events(recorded: Recorded) -> None:
    def fine(text: str, invocation: Any) -> Any:
        return passed()

    counter(recorded, BUSY, "many", ONE, before=[InputGuardrails(fine)]).count("x")
    assert events(recorded.spans[0]) == [
        ("aiservices.guardrail", {"name": "fine", "stage": "input", "verdict": "Passed"}),
        ("aiservices.backoff", {"seconds": pytest.approx(0.001)}),
        ("aiservices.answer_rejected", {"count": 1}),
    ]


@pytest.mark.parametrize("kind", ["count", "acount", "agrow"])
def test_spans_of_guards_are_children_of_the_call(recorded: Recorded, kind: str) -> None:
    def check(text: str, invocation: Any) -> Any:
        with recorded.tracer.start_as_current_span("in the guard"):
            return passed()

    KINDS[kind](counter(recorded, ONE, before=[InputGuardrails(check)]))
    assert recorded.tree == f"invoke_workflow Counter.{kind}\n  in the guard\n  chat scripted"


def test_spans_of_async_guards_are_children_of_the_call(recorded: Recorded) -> None:
    class Waiting(Protocol):
        async def count(self, text: str) -> int: ...

    async def check(text: str, invocation: Any) -> Any:
        await asyncio.sleep(0)
        with recorded.tracer.start_as_current_span("in the guard"):
            return passed()

    interceptors = [recorded.telemetry(), InputGuardrails(check)]
    assert asyncio.run(create(Waiting, ScriptedChatModel([ONE]), interceptors=interceptors).count("x")) == 1
    assert recorded.tree == "invoke_workflow Waiting.count\n  in the guard\n  chat scripted"


def test_concurrent_calls_have_separate_spans(recorded: Recorded) -> None:
    service = counter(recorded, *[ONE] * 20)

    async def page(number: int) -> None:
        with recorded.tracer.start_as_current_span(f"page {number}"):
            await service.acount("x")

    async def all_pages() -> None:
        await asyncio.gather(*map(page, range(20)))

    asyncio.run(all_pages())
    below = "\n  invoke_workflow Counter.acount\n    chat scripted"
    assert recorded.tree == "\n".join(f"page {number}{below}" for number in range(20))


def test_a_blocked_call_has_a_failed_span(recorded: Recorded) -> None:
    guards = InputGuardrails(lambda text, invocation: refused("no"))
    with pytest.raises(GuardrailError):
        counter(recorded, ONE, before=[guards]).count("x")
    assert recorded.tree == "invoke_workflow Counter.count ! GuardrailError"


class Flagging:
    def __init__(self, *, flagged: bool) -> None:
        self.flagged = flagged

    def moderate(self, texts: Any, /) -> list[ModerationResult]:
        return [ModerationResult(flagged=self.flagged) for _ in texts]


def test_a_request_that_runs_at_the_same_time_as_a_moderation_has_a_span(recorded: Recorded) -> None:
    counter(recorded, ONE, before=[Moderation(Flagging(flagged=False))]).count("x")
    assert recorded.tree == "invoke_workflow Counter.count\n  chat scripted"
    assert ("aiservices.moderation", {"stage": "input", "flagged": 0}) in events(recorded.spans[0])


def test_an_answered_request_of_a_failed_call_has_not_failed(recorded: Recorded) -> None:
    with pytest.raises(ModerationError):
        counter(recorded, ONE, before=[Moderation(Flagging(flagged=True))]).count("x")
    assert recorded.tree == "invoke_workflow Counter.count ! ModerationError\n  chat scripted"


@pytest.mark.parametrize("flagged", [False, True])
def test_a_stream_that_waits_for_a_moderation_has_a_span(recorded: Recorded, *, flagged: bool) -> None:
    service = counter(recorded, "a b c", before=[Moderation(Flagging(flagged=flagged))])
    if flagged:
        with pytest.raises(ModerationError):
            list(service.words("x"))
    else:
        assert list(service.words("x")) == ["a ", "b ", "c"]
    failed = " ! ModerationError" if flagged else ""
    assert recorded.tree == f"invoke_workflow Counter.words{failed}\n  chat scripted"


def test_spans_have_the_id_of_the_conversation(recorded: Recorded) -> None:
    class Chat(Protocol):
        def chat(self, who: Annotated[str, MemoryId], text: str) -> str: ...

    interceptors = [recorded.telemetry(), ChatMemory()]
    create(Chat, ScriptedChatModel(["Hi"]), interceptors=interceptors).chat("ann", "Hello")
    assert [attributes(span)["gen_ai.conversation.id"] for span in recorded.spans] == ["ann"] * 4


def test_a_call_that_waits_for_approval_has_not_failed(recorded: Recorded) -> None:
    @tool(needs_approval=True)
    def half(of: int) -> int:
        """Half of a number."""
        return of // 2

    with pytest.raises(ApprovalRequiredError):
        counter(recorded, calling("half"), tools=[half]).count("x")
    assert recorded.tree == "invoke_agent Counter.count\n  chat scripted"
    assert events(recorded.spans[0]) == [("aiservices.approval_required", {"tools": ("half",)})]


def test_a_tool_that_fails_has_the_type_of_its_error(recorded: Recorded) -> None:
    def half(of: int) -> int:
        """Half of a number."""
        raise KeyError("secret")

    assert counter(recorded, calling("half", "no_such"), ONE, tools=[half]).count("x") == 1
    assert sorted(recorded.tree.splitlines()[1:]) == [
        "  chat scripted",
        "  chat scripted",
        "  execute_tool half ! KeyError",
        "  execute_tool unknown_tool ! ToolError",
    ]


def test_a_tool_of_a_provider_is_described(recorded: Recorded) -> None:
    class Provider:
        def tools(self, invocation: object = None) -> list[Any]:
            return [half]

    assert counter(recorded, calling("half"), ONE, tools=[Provider()]).count("x") == 1
    (run,) = [span for span in recorded.spans if span.name == "execute_tool half"]
    assert attributes(run)["gen_ai.tool.description"] == "Half of a number."


@dataclass
class Working:
    """Two tools that finish only if they run at the same time. Each of them opens a span."""

    recorded: Recorded
    together: threading.Barrier

    def left(self, of: int) -> int:
        """One side."""
        return self._work("in left")

    def right(self, of: int) -> int:
        """The other side."""
        return self._work("in right")

    def _work(self, name: str) -> int:
        with self.recorded.tracer.start_as_current_span(name):
            self.together.wait(MAX_WAIT)
            return 1


@every_kind
def test_spans_of_parallel_tools_are_children_of_the_right_tool(recorded: Recorded, kind: str) -> None:
    work = Working(recorded, threading.Barrier(2))
    service = counter(recorded, calling("left", "right"), ONE, tools=[work.left, work.right])
    KINDS[kind](service)
    assert parents(recorded, "in left", "in right") == ["execute_tool left", "execute_tool right"]


def parents(recorded: Recorded, *names: str) -> list[str]:
    by_id = {span.context.span_id: span.name for span in recorded.spans}
    spans = map(recorded.named, names)
    return ["" if span.parent is None else by_id[span.parent.span_id] for span in spans]


def test_spans_of_async_tools_are_children_of_the_right_tool(recorded: Recorded) -> None:
    arrived = asyncio.Event()

    async def left(of: int) -> int:
        """One side."""
        with recorded.tracer.start_as_current_span("in left"):
            await asyncio.wait_for(arrived.wait(), MAX_WAIT)
        return 1

    async def right(of: int) -> int:
        """The other side."""
        with recorded.tracer.start_as_current_span("in right"):
            arrived.set()
        return 1

    class Waiting(Protocol):
        async def count(self, text: str) -> int: ...

    model = ScriptedChatModel([calling("left", "right"), ONE])
    service = create(Waiting, model, interceptors=[recorded.telemetry()], tools=[left, right])
    assert asyncio.run(service.count("x")) == 1
    assert parents(recorded, "in left", "in right") == ["execute_tool left", "execute_tool right"]


def test_the_span_of_a_service_used_as_a_tool_is_a_child_of_the_tool(recorded: Recorded) -> None:
    inner = counter(recorded, ONE)

    def half(of: int) -> int:
        """Half of a number."""
        return inner.count("half")

    with recorded.tracer.start_as_current_span("page"):
        counter(recorded, calling("half"), ONE, tools=[half]).count("x")
    assert recorded.tree == (
        "page\n"
        "  invoke_agent Counter.count\n"
        "    chat scripted\n"
        "    execute_tool half\n"
        "      invoke_workflow Counter.count\n"
        "        chat scripted\n"
        "    chat scripted"
    )


class Wired(ScriptedChatModel):
    """A model that opens spans of its own, as an instrumented HTTP client does."""

    def __init__(self, recorded: Recorded, script: Any) -> None:
        super().__init__(script)
        self._recorded = recorded

    def complete(self, request: Any) -> ChatReply:
        with self._recorded.tracer.start_as_current_span("POST"):
            return super().complete(request)


@every_kind
def test_spans_of_a_model_are_children_of_the_request(recorded: Recorded, kind: str) -> None:
    model = Wired(recorded, [ONE])
    KINDS[kind](create(Counter, model, interceptors=[recorded.telemetry()]))
    assert recorded.tree == f"invoke_workflow Counter.{kind}\n  chat scripted\n    POST"


def test_spans_of_the_reader_of_a_stream_are_not_children_of_the_request(recorded: Recorded) -> None:
    service = counter(recorded, "a b c", "d e f")
    with recorded.tracer.start_as_current_span("page"):
        for _pair in zip(service.words("x"), service.words("y"), strict=True):
            recorded.tracer.start_span("between").end()
    assert recorded.tree == (
        "page\n"
        "  invoke_workflow Counter.words\n"
        "    chat scripted\n"
        "  invoke_workflow Counter.words\n"
        "    chat scripted\n"
        "  between\n"
        "  between\n"
        "  between"
    )
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_stream_that_is_closed_early_has_not_failed(recorded: Recorded) -> None:
    words = counter(recorded, "a b c").words("x")
    assert next(words) == "a "
    words.close()  # type: ignore[attr-defined]
    assert recorded.tree == "invoke_workflow Counter.words\n  chat scripted"
    assert [attributes(span)["aiservices.closed_early"] for span in recorded.spans] == [True, True]


def test_an_invalid_item_fails_the_call_and_its_request(recorded: Recorded) -> None:
    with pytest.raises(ServiceOutputError):
        list(counter(recorded, '{"value": [1, "x", 3]}', retry=None).each("x"))
    assert recorded.tree == (
        "invoke_workflow Counter.each ! ServiceOutputError\n  chat scripted ! ServiceOutputError"
    )


class Slow(ScriptedChatModel):
    async def acomplete(self, request: Any) -> ChatReply:
        await asyncio.sleep(MAX_WAIT)
        raise AssertionError

    def stream(self, request: Any) -> Iterator[ReplyDelta]:
        while True:
            yield ReplyDelta("1")


@pytest.mark.parametrize("kind", ["acount", "grow"])
def test_a_request_that_took_too_long_has_a_timeout_error(recorded: Recorded, kind: str) -> None:
    budget = Budget(max_attempts=1, seconds=0.05)
    service = create(Counter, Slow([]), interceptors=[recorded.telemetry()], budget=budget)
    with pytest.raises(Exception):  # noqa: B017, PT011  # other tests check its class
        KINDS[kind](service)
    span_attributes = attributes(recorded.named("chat scripted"))
    assert span_attributes["error.type"] == f"{ModelTimeoutError.__module__}.ModelTimeoutError"


def test_the_spans_of_a_cancelled_call_are_ended(recorded: Recorded) -> None:
    async def cancel() -> None:
        service = create(Counter, Slow([]), interceptors=[recorded.telemetry()])
        task = asyncio.ensure_future(service.acount("x"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert recorded.tree == (
        "invoke_workflow Counter.acount ! CancelledError\n  chat scripted ! CancelledError"
    )


def test_without_an_sdk_nothing_is_written_and_nothing_changes() -> None:
    service = create(Counter, ScriptedChatModel([DOWN, ONE]), interceptors=[OpenTelemetry()])
    assert service.count("x") == 1
