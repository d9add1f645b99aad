"""Methods that return decisions, or whose results have probabilities, from the declaration to the request."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest
from loopback import Loopback, ReceivedRequest, Reply

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionChatModel,
    DefinitionError,
    Description,
    FallbackChatModel,
    FinishReason,
    LocalChatModel,
    ModelServerError,
    OpenAiChatModel,
    ProbabilitiesUnavailableError,
    ResponseCache,
    Result,
    Retry,
    Scale,
    ScriptedChatModel,
    ServiceOutputError,
    SharedBudget,
    Stream,
    ToolCall,
    create,
    options,
    preview,
    tool,
    user_message,
)
from aiservices.models.errors import AttemptPurpose
from aiservices.testing import FakeChatModel


class Team(Enum):
    BILLING = "billing"
    """Invoices and payments."""
    SUPPORT = "support"


class Severity(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Triage:
    team: Annotated[Decision[Team], Description("Which team should handle it?")]
    urgent: bool
    severity: Scale[Severity]


class Desk(Protocol):
    @user_message("Is this message spam?\n\n{{message}}")
    def is_spam(self, message: str) -> Decision[bool]: ...
    @user_message("Triage the ticket.\n\n{{ticket}}")
    def triage(self, ticket: str) -> Result[Triage]: ...
    @user_message("Triage the ticket.\n\n{{ticket}}")
    async def later(self, ticket: str) -> Triage: ...


class Asked(Protocol):
    @user_message("Is this spam?\n\n{{text}}")
    def spam(self, text: str) -> Result[Decision[bool]]: ...


class Watch(Protocol):
    @user_message("Triage the ticket.\n\n{{ticket}}")
    def watch(self, ticket: str) -> Stream[Triage]: ...


class Plain(Protocol):
    @user_message("Is this good?\n\n{{text}}")
    def good(self, text: str) -> Result[bool]: ...
    @options(probabilities=True)
    @user_message("Is this good?\n\n{{text}}")
    def sure(self, text: str) -> Result[bool]: ...


def completion(*parts: str | dict[str, float], logprobs: bool = True) -> Reply:
    """Make a reply of the chat completions API; each part is a token."""
    content, text = [], ""
    for part in parts:
        shares = {part: 1.0} if isinstance(part, str) else part
        top = [{"token": token, "bytes": None, "logprob": math.log(share)} for token, share in shares.items()]
        content.append({**top[0], "top_logprobs": top})
        text += next(iter(shares))
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}}
    choice |= {"finish_reason": "stop", "logprobs": {"content": content} if logprobs else None}
    return Reply(200, json.dumps({"model": "m", "choices": [choice]}).encode())


SPAM = completion('{"value": ', {"true": 0.8, "false": 0.2}, "}")
REFUSED = Reply(400, b'{"error": {"message": "\'logprobs\' is not supported with this model"}}')


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


def model_at(server: Loopback, reply: Callable[[ReceivedRequest], Reply]) -> OpenAiChatModel:
    server.reply(reply)
    return OpenAiChatModel("m", base_url=server.base_url, api_key="k")


def test_a_decision_is_read_from_the_tokens_of_the_reply(server: Loopback) -> None:
    decision = create(Desk, model_at(server, lambda request: SPAM)).is_spam("Buy now")
    assert (decision.value, decision.source, decision.calibrated) == (True, "logprobs", False)
    assert {value: round(share, 9) for value, share in decision.probabilities.items()} == {
        True: 0.8,
        False: 0.2,
    }
    sent = server.requests[0].json
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20)


def test_other_requests_do_not_change(server: Loopback) -> None:
    result = create(Plain, model_at(server, lambda request: SPAM)).good("x")
    assert (result.value, dict(result.probabilities)) == (True, {})
    assert "logprobs" not in server.requests[0].json


@pytest.mark.parametrize("way", ["method", "service", "model"])
def test_probabilities_of_any_type_are_requested_by_an_option(server: Loopback, way: str) -> None:
    wanted = ChatOptions(probabilities=True)
    model = model_at(server, lambda request: SPAM)
    if way == "method":
        result = create(Plain, model).sure("x")
    else:
        result = create(Plain, model, options=wanted).good("x")
    assert {path: list(shares) for path, shares in result.probabilities.items()} == {"$": [True, False]}


def test_a_refusal_of_log_probabilities_is_remembered(server: Loopback) -> None:
    def reply(request: ReceivedRequest) -> Reply:
        return REFUSED if "logprobs" in request.json else completion('{"value": true}', logprobs=False)

    service = create(Plain, model_at(server, reply), budget=Budget(max_attempts=1))
    first, second = service.sure("x"), service.sure("y")
    assert ["logprobs" in request.json for request in server.requests] == [True, False, False]
    purposes = [attempt.purpose for attempt in first.attempts]
    assert purposes == [AttemptPurpose.REFUSED, AttemptPurpose.ANSWER]  # a refusal is not an attempt
    for result in (first, second):
        assert (result.value, dict(result.probabilities)) == (True, {})
        assert result.reasons[-1] == "no probabilities: the reply has none"


def test_a_decision_needs_log_probabilities(server: Loopback) -> None:
    service = create(Desk, model_at(server, lambda request: REFUSED))
    with pytest.raises(ProbabilitiesUnavailableError, match=r"refused logprobs.*use a model with log prob"):
        service.is_spam("x")
    with pytest.raises(ProbabilitiesUnavailableError):
        service.is_spam("y")
    assert len(server.requests) == 1  # the refusal is remembered


def test_missing_log_probabilities_count_as_a_refusal(server: Loopback) -> None:
    silent = completion('{"value": true}', logprobs=False)
    service = create(Desk, model_at(server, lambda request: silent))
    with pytest.raises(ProbabilitiesUnavailableError, match="sent no log probabilities") as caught:
        service.is_spam("x")
    assert [attempt.text for attempt in caught.value.attempts] == ['{"value": true}']  # it was paid for
    with pytest.raises(ProbabilitiesUnavailableError):
        service.is_spam("y")
    assert len(server.requests) == 1


def test_the_next_model_is_asked_for_a_decision(server: Loopback) -> None:
    first = model_at(server, lambda request: REFUSED)
    model = FallbackChatModel(first, FakeChatModel(values={Decision[bool]: Decision(False)}))
    decision = create(Desk, model).is_spam("x")
    assert (decision.value, decision.probability) == (False, 0.9)


def test_models_without_probabilities_are_refused_by_create() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Desk, "anthropic:claude")
    assert [problem.location for problem in caught.value.problems] == [
        "Desk.is_spam",
        "Desk.triage",
        "Desk.later",
    ]
    assert caught.value.problems[0].message == (
        "Decision[bool] needs probabilities, and anthropic:claude gives none; use a model with log "
        "probabilities (OpenAI's models that do not reason, vLLM, llama.cpp, the embedded model), a decision "
        "endpoint, or several samples, as in create(…, votes=5), which a stream cannot have"
    )
    assert create(Asked, "anthropic:claude", votes=5)


def test_a_reply_whose_probabilities_cannot_be_read_is_requested_again(server: Loopback) -> None:
    replies = iter([completion("{value: ", "true", "}"), SPAM])
    service = create(Desk, model_at(server, lambda request: next(replies)), retry=Retry(max_attempts=2))
    assert service.is_spam("x").value is True
    assert "its probabilities cannot be read" in server.requests[1].json["messages"][-1]["content"]


def test_a_decision_cannot_be_read_from_a_damaged_reply(server: Loopback) -> None:
    service = create(Desk, model_at(server, lambda request: completion("{value: true}")), retry=None)
    with pytest.raises(ServiceOutputError, match="its probabilities cannot be read"):
        service.is_spam("x")


def test_wrong_fields_are_requested_again_with_the_whole_record() -> None:
    def reply(request: ChatRequest) -> ChatReply:
        severity = "LOW" if len(request.messages) > 1 else "none"
        text = json.dumps({"team": "support", "urgent": True, "severity": severity})
        shares = {"$.team": (("support", 0.8), ("billing", 0.2)), "$.severity": (("LOW", 0.9), ("HIGH", 0.1))}
        return ChatReply(AiMessage(text), probabilities=shares)

    result = create(Desk, ScriptedChatModel(reply), retry=Retry(mode="fields")).triage("x")
    assert (result.value.team.probability, result.value.severity.probability) == (0.8, 0.9)


def test_records_streams_and_async_methods_have_decisions() -> None:
    value = Triage(
        Decision(Team.SUPPORT), True, Scale(Severity.HIGH, {Severity.LOW: 0.3, Severity.HIGH: 0.7})
    )
    model = FakeChatModel(values={Triage: value})
    service = create(Desk, model)
    result = service.triage("x")
    stream = create(Watch, model).watch("x")
    snapshots = list(stream)
    assert snapshots[-1].to_python()["team"] == "support"
    for got in (result.value, stream.result().value, asyncio.run(service.later("x"))):
        assert (got.team.value, got.team.probability, got.severity.probability) == (Team.SUPPORT, 0.9, 0.7)
    assert {path: max(shares.values()) for path, shares in result.probabilities.items()} == {
        "$.team": 0.9,
        "$.urgent": 0.9,
        "$.severity": 0.7,
    }
    assert json.loads(result.to_json())["value"]["team"]["probabilities"][0]["value"] == "billing"


def test_items_of_a_stream_cannot_be_decisions() -> None:
    class Items(Protocol):
        @user_message("{{text}}")
        def all(self, text: str) -> Iterator[Decision[bool]]: ...

    with pytest.raises(DefinitionError, match="cannot be an item of a stream"):
        create(Items, FakeChatModel())


# the next model when the first is unsure


def answering(name: str, value: bool, probability: float) -> ScriptedChatModel:
    shares = ((value, probability), (not value, 1 - probability))
    text = json.dumps({"value": value})
    reply = ChatReply(AiMessage(text), probabilities={"$.value": shares}, model=name)
    return ScriptedChatModel([reply], name=name)


@pytest.mark.parametrize(("unsure", "expected"), [(None, True), (0.7, True), (0.8, True), (0.9, False)])
def test_the_next_model_is_asked_below_a_probability(unsure: float | None, expected: bool) -> None:
    model = FallbackChatModel(answering("small", True, 0.8), answering("large", False, 0.95), unsure=unsure)
    result = create(Plain, model).good("x")
    assert result.value is expected
    assert [attempt.model for attempt in result.attempts] == (["small"] if expected else ["small", "large"])
    if not expected:
        assert result.reasons[0] == "small was unsure: $ had the probability 0.80, below 0.9"


def test_unsure_answers_pass_through_the_models_in_order_and_the_last_is_used() -> None:
    models = [answering(name, True, 0.8) for name in ("small", "medium", "large")]
    result = create(Plain, FallbackChatModel(*models, unsure=0.9)).good("x")
    assert [attempt.model for attempt in result.attempts] == ["small", "medium", "large"]
    assert result.value is True
    assert result.reasons[:2] == (
        "small was unsure: $ had the probability 0.80, below 0.9",
        "medium was unsure: $ had the probability 0.80, below 0.9",
    )


def test_the_result_of_a_tool_is_an_answer_without_probabilities() -> None:
    @tool(return_behavior="immediate")
    def lookup() -> bool:
        """Look the answer up."""
        return True

    reply = ChatReply(AiMessage("", (ToolCall("1", "lookup", "{}"),)), FinishReason.TOOL_CALLS)
    model = FallbackChatModel(ScriptedChatModel([reply], name="small"), FakeChatModel(), unsure=0.9)
    result = create(Plain, model, tools=[lookup]).good("x")
    assert (result.value, result.probabilities, len(result.attempts)) == (True, {}, 1)


def test_an_unsure_answer_is_used_if_the_next_model_fails() -> None:
    broken = ScriptedChatModel([ModelServerError("down")], name="large")
    model = FallbackChatModel(answering("small", True, 0.8), broken, unsure=0.9)
    result = create(Plain, model, budget=Budget(max_attempts=2)).good("x")
    assert result.value is True
    assert result.reasons[-1] == "the next model failed: down"


def test_an_unsure_answer_is_used_if_the_budget_is_used_up() -> None:
    model = FallbackChatModel(answering("small", True, 0.8), answering("large", False, 0.95), unsure=0.9)
    assert create(Plain, model, budget=Budget(max_attempts=1)).good("x").value is True


def test_the_threshold_of_an_answer_decides_whether_the_next_model_is_asked() -> None:
    def service(threshold: float) -> Desk:
        model = FallbackChatModel(
            answering("small", True, 0.8), answering("large", False, 0.95), unsure="threshold"
        )
        return create(Desk, model, thresholds={"is_spam": threshold})

    assert service(0.8).is_spam("x").value is True
    assert service(0.81).is_spam("x").value is False
    model = FallbackChatModel(
        answering("small", True, 0.8), answering("large", False, 0.95), unsure="threshold"
    )
    result = create(Asked, model, thresholds={"spam": 0.81}).spam("x")
    assert result.reasons[0] == "small was unsure: $ had the probability 0.80, below 0.81"


def test_without_thresholds_nothing_is_known_to_be_unsure() -> None:
    model = FallbackChatModel(answering("small", True, 0.8), FakeChatModel(), unsure="threshold")
    with pytest.raises(DefinitionError, match=r'\(unsure="threshold"\) needs create\(calibration=…\) or'):
        create(Desk, model)


@pytest.mark.parametrize("unsure", [0, 1.5, "0.9"])
def test_the_probability_must_be_one(unsure: Any) -> None:
    with pytest.raises(DefinitionError, match="it must be a probability above 0, at most 1, or"):
        FallbackChatModel("fake", "fake", unsure=unsure)


# votes


def sampled(*answers: str) -> ScriptedChatModel:
    replies = iter(answers)
    return ScriptedChatModel(
        lambda request: next(replies), capabilities=Capabilities(json_mode=True), name="samples"
    )


def test_votes_are_shares_of_samples() -> None:
    model = sampled(*['{"value": true}'] * 3, '{"value": false}', "no idea")
    decision = create(Desk, model, votes=5).is_spam("x")
    assert (decision.value, decision.source, decision.seen) == (True, "votes(4)", 1.0)
    assert decision.probability == (3 + 0.5) / 5
    assert [request.options.temperature for request in model.requests] == [1.0] * 5


def test_a_shared_budget_counts_each_sample_that_is_sent(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "replies.db")
    service = create(Desk, sampled(*['{"value": true}'] * 5), votes=5, interceptors=[cache])
    counts = []
    for _ in range(2):
        with SharedBudget() as spent:
            service.is_spam("x")
        counts.append(spent.requests)
    assert counts == [5, 0]  # the second call is answered from the cache


def test_samples_are_read_as_leniently_as_other_replies() -> None:
    texts = ["true.", "**true**", "Yes", "false", "```json\ntrue\n```"]
    decision = create(Desk, plain_samples(*texts), votes=5).is_spam("x")
    assert (decision.value, decision.source) == (True, "votes(5)")
    assert decision.probability == (4 + 0.5) / 6
    record = 'Sure!\n{team: "billing", urgent: yes, severity: "low",}'
    result = create(Desk, plain_samples(*[record] * 3), votes=3).triage("x")
    assert (result.value.team.value, result.value.team.source) == (Team.BILLING, "votes(3)")
    assert result.coercions
    envelopes = create(Desk, sampled("true.", '{"value": true}', "no"), votes=3).is_spam("x")
    assert (envelopes.value, envelopes.source) == (True, "votes(3)")


def test_votes_that_cannot_be_counted_are_an_error_of_the_service() -> None:
    with pytest.raises(ServiceOutputError, match="no idea"):
        create(Desk, plain_samples(*["no idea"] * 9), votes=3).is_spam("x")


def plain_samples(*answers: str) -> ScriptedChatModel:
    """A model that has neither JSON mode nor tools."""
    return ScriptedChatModel(list(answers), capabilities=Capabilities())


def test_the_sample_that_most_agree_with_is_the_answer() -> None:
    texts = [
        json.dumps({"team": team, "urgent": urgent, "severity": "LOW"})
        for team, urgent in (("billing", True), ("support", False), ("support", True))
    ]
    result = create(Desk, sampled(*texts), votes=3).triage("x")
    assert (result.value.team.value, result.value.urgent) == (Team.SUPPORT, True)
    assert result.reasons[-1].startswith("3 votes, because: Desk.triage returns a Decision")
    assert len(result.attempts) == 3


def test_models_with_log_probabilities_are_asked_once(server: Loopback) -> None:
    decision = create(Desk, model_at(server, lambda request: SPAM), votes=5).is_spam("x")
    assert (decision.source, len(server.requests)) == ("logprobs", 1)


def test_votes_replace_refused_log_probabilities(server: Loopback) -> None:
    def reply(request: ReceivedRequest) -> Reply:
        return REFUSED if "logprobs" in request.json else completion('{"value": true}', logprobs=False)

    decision = create(Desk, model_at(server, reply), votes=3).is_spam("x")
    assert (decision.source, decision.probability) == ("votes(3)", 3.5 / 4)


def test_answers_by_a_tool_have_votes_too() -> None:
    call = ToolCall("c", "Triage", '{"team": "support", "urgent": true, "severity": "LOW"}')
    reply = ChatReply(AiMessage("", (call,)))
    model = ScriptedChatModel([reply] * 3, capabilities=Capabilities(tools=True))
    result = create(Desk, model, votes=3).triage("x")
    assert (result.value.team.probability, result.value.team.source) == (3.5 / 4, "votes(3)")


def test_a_stream_has_no_votes() -> None:
    with pytest.raises(DefinitionError, match="Triage needs probabilities"):
        create(Watch, sampled(), votes=3)


@pytest.mark.parametrize("votes", [1, 0, 2.5, "5"])
def test_the_number_of_votes_is_checked(votes: Any) -> None:
    with pytest.raises(DefinitionError, match="it must be a number from 2 to 100"):
        create(Desk, sampled(), votes=votes)


# decision endpoints


def endpoint(server: Loopback, *answers: dict[str, Any]) -> DecisionChatModel:
    body = {"id": "d", "model": "gpt-6-luna", "answers": list(answers), "usage": {"input_tokens": 9}}
    server.reply(lambda request: Reply(200, json.dumps(body).encode()))
    return DecisionChatModel("gpt-6-luna", provider="openai-decisions", base_url=server.base_url, api_key="k")


def test_a_decision_endpoint_gets_the_question_and_the_data_apart(server: Loopback) -> None:
    service = create(Desk, endpoint(server, {"type": "predicate", "name": "q1", "probability": 0.97}))
    decision = service.is_spam("Buy now")
    assert (decision.value, decision.probability, decision.source) == (True, 0.97, "decisions")
    sent = server.requests[0].json
    assert sent["input"] == [{"role": "user", "content": "Buy now"}]
    assert sent["questions"][0]["instructions"].endswith("Is this message spam?")
    assert "[question $, yes_no]\nIs this message spam?" in str(preview(service.is_spam, "x"))


def test_a_record_is_one_request_with_a_question_for_each_field(server: Loopback) -> None:
    answers = (
        {
            "type": "choice",
            "name": "q1",
            "choice": "billing",
            "probabilities": [
                {"value": "billing", "probability": 0.7},
                {"value": "support", "probability": 0.3},
            ],
        },
        {"type": "predicate", "name": "q2", "probability": 0.1},
        {
            "type": "score",
            "name": "q3",
            "score": 0.8,
            "probabilities": [
                {"value": 0, "label": "LOW", "probability": 0.2},
                {"value": 1, "label": "HIGH", "probability": 0.8},
            ],
        },
    )
    result = create(Desk, endpoint(server, *answers)).triage("I was charged twice")
    assert (result.value.team.value, result.value.urgent) == (Team.BILLING, False)
    assert (result.value.severity.mean, result.strategy) == (1.8, "decision")
    assert len(server.requests) == 1
    questions = server.requests[0].json["questions"]
    assert questions[0]["instructions"] == "Which team should handle it?"
    assert questions[0]["choices"][0] == {"value": "billing", "description": "Invoices and payments."}
    assert questions[1]["instructions"].endswith("Triage the ticket.\nAnswer for: urgent")


class Mixed(Protocol):
    @user_message("Summarize.\n\n{{text}}")
    def summary(self, text: str) -> str: ...
    @user_message("Is {{text}} good?")
    def unclear(self, text: str) -> bool: ...


def test_an_endpoint_that_cannot_answer_a_method_is_refused_by_create(server: Loopback) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Mixed, endpoint(server))
    first, second = caught.value.problems
    assert (first.location, "writes no text" in first.message) == ("Mixed.summary", True)
    assert "$ has no question: write it in the prompt in a paragraph of its own" in second.message


def test_the_next_model_answers_what_an_endpoint_cannot(server: Loopback) -> None:
    service = create(Mixed, FallbackChatModel(endpoint(server), ScriptedChatModel(["A text.", "true"])))
    assert service.summary("x") == "A text."
    assert service.unclear("x") is True
    assert server.requests == []


def test_a_skipped_endpoint_is_named_in_previews_and_results(server: Loopback) -> None:
    class Summaries(Protocol):
        @user_message("Summarize.\n\n{{text}}")
        def summary(self, text: str) -> Result[str]: ...

    service = create(Summaries, FallbackChatModel(endpoint(server), ScriptedChatModel(["A text."])))
    reason = "openai-decisions:gpt-6-luna is a decision endpoint, which writes no text"
    note = f"{reason}; it is not used for this method"
    assert service.summary("x").reasons[0] == note
    assert preview(service.summary, "x").reasons[0] == note


@pytest.mark.local_model
def test_the_embedded_model_gives_probabilities() -> None:
    desk = create(Desk, LocalChatModel("smollm2"))
    first, second = desk.is_spam("You won!"), desk.is_spam("You won!")
    assert first.source == "logprobs"
    assert sum(first.probabilities.values()) == pytest.approx(1)
    assert first.seen > 0.5
    assert first.probabilities[True] == pytest.approx(second.probabilities[True], abs=0.05)


@pytest.mark.local_model
def test_the_embedded_model_tells_apart_options_with_the_same_first_token() -> None:
    class Router(Protocol):
        @user_message("Which team should handle this ticket?\n\n{{ticket}}")
        def team(self, ticket: str) -> Result[Decision[Literal["support", "bills", "billing", "bug"]]]: ...

    service = create(Router, LocalChatModel("smollm2"))
    result = service.team("I was charged twice and the app crashes.")
    shares = result.value.probabilities
    assert len(result.attempts) > 1
    assert shares["bills"] < shares["billing"] / 2  # without further requests, both have half of "b"
    assert sum(shares.values()) == pytest.approx(1)
