"""``Decision[list[…]]``: a yes or no, with its probability, for each member of an Enum."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, assert_type

import pytest
from fastapi.testclient import TestClient
from loopback import Loopback, Reply

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionChatModel,
    DefinitionError,
    FallbackChatModel,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    TokenLogprob,
    create,
    preview,
    user_message,
)
from aiservices.integrations.fastapi import app, client
from aiservices.rows import map_rows
from aiservices.testing import Case, FakeChatModel, brier, calibrate, evaluate, log_loss


class Topic(Enum):
    PRICE = "price"
    """Costs, discounts and refunds."""
    DELIVERY = "delivery"
    QUALITY = "quality"


@dataclass
class Review:
    topics: Annotated[Decision[list[Topic]], "Which topics does the review mention?"]
    positive: bool


class Desk(Protocol):
    @user_message("Which topics does this review mention?\n\n{{text}}")
    def topics(self, text: str) -> Decision[list[Topic]]: ...
    @user_message("Read this review.\n\n{{text}}")
    def review(self, text: str) -> Result[Review]: ...


class Watch(Protocol):
    @user_message("Read this review.\n\n{{text}}")
    def watch(self, text: str) -> Stream[Review]: ...


LOGPROBS = Capabilities(json_schema=True, logprobs=20)


def reply(*tokens: str | float) -> ChatReply:
    """Make a reply of tokens; a number is a bool with this probability of true."""
    made = []
    for one in tokens:
        if isinstance(one, str):
            made.append(TokenLogprob(one.encode(), 0.0))
            continue
        both = [(b"true", math.log(one)), (b"false", math.log(1 - one))]
        both.sort(key=lambda pair: -pair[1])
        made.append(TokenLogprob(*both[0], tuple(both)))
    text = b"".join(one.token for one in made).decode()
    return ChatReply(AiMessage(text), logprobs=tuple(made), model="m-1")


def topics(price: float, delivery: float, quality: float) -> ChatReply:
    return reply('{"price": ', price, ', "delivery": ', delivery, ', "quality": ', quality, "}")


def desk(*replies: ChatReply, **settings: Any) -> Desk:
    return create(Desk, ScriptedChatModel(replies, capabilities=LOGPROBS), **settings)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


def test_each_member_has_its_own_probability() -> None:
    decision = desk(topics(0.9, 0.2, 0.95)).topics("Too dear, but solid.")
    assert_type(decision.value, list[Topic])
    assert_type(decision.probabilities, Mapping[Topic, float])
    assert decision.value == [Topic.PRICE, Topic.QUALITY]
    assert decision.probabilities == pytest.approx(
        {Topic.PRICE: 0.9, Topic.DELIVERY: 0.2, Topic.QUALITY: 0.95}
    )
    assert (round(decision.probability, 9), decision.source, round(decision.seen, 9)) == (0.8, "logprobs", 1)
    assert (decision.at(0.8 - 1e-9), decision.at(0.81)) == (decision.value, None)
    assert pickle.loads(pickle.dumps(decision)) == decision


def test_the_request_has_a_bool_for_each_member() -> None:
    shown = preview(create(Desk, ScriptedChatModel([], capabilities=LOGPROBS)).topics, "x")
    assert shown.schema is not None
    assert list(shown.schema["properties"]) == ["price", "delivery", "quality"]
    assert shown.schema["properties"]["price"] == {
        "type": "boolean",
        "description": "Costs, discounts and refunds.",
    }


def test_a_list_may_be_a_field() -> None:
    answer = reply(
        '{"topics": {"price": ', 0.3, ', "delivery": ', 0.9, ', "quality": ', 0.1, '}, "positive": ', 0.6, "}"
    )
    result = desk(answer).review("x")
    assert result.value.topics.value == [Topic.DELIVERY]
    assert {path: round(shares[True], 9) for path, shares in result.probabilities.items()} == {
        "$.topics.price": 0.3,
        "$.topics.delivery": 0.9,
        "$.topics.quality": 0.1,
        "$.positive": 0.6,
    }
    assert result.to_dict()["value"]["topics"]["value"] == ["delivery"]


def test_all_members_need_probabilities() -> None:
    answer = topics(0.9, 0.2, 0.95)
    tokens = answer.logprobs or ()
    text = answer.text.replace("false", "False")
    damaged = ChatReply(AiMessage(text), logprobs=tokens, model="m-1")
    with pytest.raises(ServiceOutputError, match="its probabilities cannot be read"):
        desk(damaged, retry=None).topics("x")


def test_a_list_from_the_model_is_not_an_answer() -> None:
    answer = ChatReply(AiMessage('["price"]'), logprobs=(TokenLogprob(b'["price"]', 0.0),))
    service = desk(answer, topics(0.9, 0.2, 0.95))
    assert service.topics("x").value == [Topic.PRICE, Topic.QUALITY]  # the second attempt


def test_a_decision_endpoint_gets_a_question_for_each_member(server: Loopback) -> None:
    answers = [
        {"type": "predicate", "name": f"q{number}", "probability": share}
        for number, share in enumerate((0.9, 0.2, 0.95, 0.7), 1)
    ]
    body = {"id": "d", "model": "luna", "answers": answers, "usage": {"input_tokens": 9}}
    server.reply(lambda request: Reply(200, json.dumps(body).encode()))
    model = DecisionChatModel("luna", provider="openai-decisions", base_url=server.base_url, api_key="k")
    review = create(Desk, model).review("x")
    assert review.value.topics.value == [Topic.PRICE, Topic.QUALITY]
    assert (review.value.topics.probability, review.value.topics.source) == (0.8, "decisions")
    sent = [question["instructions"] for question in server.requests[0].json["questions"]]
    assert "Does this apply: price (Costs, discounts and refunds.)?" in sent[0]
    assert "Which topics does the review mention?\nDoes this apply: delivery?" in sent[1]
    assert "[question $.topics.price, yes_no]" in str(preview(create(Desk, model).review, "x"))


def test_numbers_and_odd_texts_may_be_asked_for(server: Loopback) -> None:
    class Odd(Protocol):
        @user_message("Which?\n\n{{text}}")
        def which(self, text: str) -> Decision[set[Literal[1, 2]]]: ...
        @user_message("Which?\n\n{{text}}")
        def odd(self, text: str) -> Decision[list[Literal['say "yes"', "ναι", "a.b", "A.B", ""]]]: ...

    model = DecisionChatModel("luna", provider="openai-decisions", base_url=server.base_url, api_key="k")

    def answer(request: Any) -> Reply:
        names = [question["name"] for question in request.json["questions"]]
        answers = [{"type": "predicate", "name": name, "probability": 0.9} for name in names]
        return Reply(200, json.dumps({"model": "luna", "answers": answers}).encode())

    server.reply(answer)
    for count, method in ((2, "which"), (5, "odd")):
        decision = getattr(create(Odd, model), method)("")
        assert len(decision.value) == len(decision.probabilities) == count
        assert getattr(create(Odd, FakeChatModel()), method)("").probability == pytest.approx(0.9)


def test_votes_are_counted_for_each_member() -> None:
    samples = [json.dumps({"price": True, "delivery": number > 1, "quality": False}) for number in range(3)]
    model = ScriptedChatModel(samples, capabilities=Capabilities(json_mode=True))
    decision = create(Desk, model, votes=3).topics("x")
    assert decision.value == [Topic.PRICE]
    assert (decision.source, decision.probabilities) == (
        "votes(3)",
        {Topic.PRICE: 3.5 / 4, Topic.DELIVERY: 1.5 / 4, Topic.QUALITY: 0.5 / 4},
    )


def test_fakes_give_lists() -> None:
    given = Decision([Topic.PRICE], {Topic.PRICE: 0.8, Topic.DELIVERY: 0.1, Topic.QUALITY: 0.3})
    service = create(Desk, FakeChatModel(values={Decision[list[Topic]]: given}))
    assert service.topics("x").probabilities == pytest.approx(given.probabilities)
    made = create(Desk, FakeChatModel()).review("x").value.topics
    assert made.probability == pytest.approx(0.9)


def test_a_stream_ends_with_the_list() -> None:
    stream = create(Watch, FakeChatModel()).watch("x")
    last = list(stream)[-1].to_python()
    assert stream.result().value.topics.probability == pytest.approx(0.9)
    assert set(last) == {"topics", "positive"}


def test_lists_keep_their_probabilities_over_http() -> None:
    service = create(Desk, FakeChatModel())
    http = TestClient(app(service, interface=Desk))
    remote: Any = client(Desk, "http://testserver", http=http)
    local = service.topics("x")
    assert repr(remote.topics("x")) == repr(local)
    assert repr(remote.review("x").value) == repr(service.review("x").value)
    assert http.post("/topics", json={"text": "x"}).json()["value"] == [topic.value for topic in local.value]
    paths = http.get("/openapi.json").json()["paths"]
    schema = paths["/topics"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["properties"]["value"]["type"] == "array"


def test_the_journal_keeps_lists(tmp_path: Path) -> None:
    to = tmp_path / "out.jsonl"
    service = desk(topics(0.9, 0.2, 0.95), thresholds={"topics": 0.75})
    (first,) = map_rows(service.topics, [{"text": "a"}], journal=to)
    (second,) = map_rows(service.topics, [{"text": "a"}], journal=to)
    assert (first.cached, second.cached) == (False, True)
    assert repr(first.value) == repr(second.value)
    assert first.value.at() == second.value.at() == [Topic.PRICE, Topic.QUALITY]
    assert second.probabilities == first.probabilities


def test_unsure_lists_are_reviewed(tmp_path: Path) -> None:
    to, review = tmp_path / "out.csv", tmp_path / "review.csv"
    table = [{"text": "a"}, {"text": "b"}]
    service = desk(topics(0.9, 0.2, 0.95), topics(0.6, 0.1, 0.95), thresholds={"topics": 0.75})
    rows = map_rows(service.topics, table, to=to, review=review, max_concurrency=1)
    assert rows.summary.unsure == 1
    head, line = review.read_text().splitlines()
    assert line.split(",", 1)[1] == 'b,"[""price"", ""quality""]",0.6000,'
    review.write_text(f'{head}\n{line}"[""delivery""]"\n')
    again = map_rows(service.topics, table, to=to, reviewed=review)
    assert [(row.value.value, row.reviewed) for row in again] == [
        ([Topic.PRICE, Topic.QUALITY], False),
        ([Topic.DELIVERY], True),
    ]


def test_the_next_model_is_asked_if_one_member_is_unsure() -> None:
    first = ScriptedChatModel([topics(0.9, 0.4, 0.95)], capabilities=LOGPROBS, name="small")
    second = ScriptedChatModel([topics(0.9, 0.9, 0.95)], capabilities=LOGPROBS, name="large")
    service = create(Desk, FallbackChatModel(first, second, unsure=0.8))
    assert service.topics("x").value == list(Topic)


@pytest.mark.parametrize(("key", "expected"), [("topics", []), ("topics.price", [Topic.PRICE])])
def test_thresholds_are_for_the_list_or_for_a_member(key: str, expected: list[Topic]) -> None:
    decision = desk(topics(0.4, 0.2, 0.1), thresholds={key: 0.3}).topics("x")
    assert decision.value == expected
    if key == "topics":
        assert decision.at() == []


def sampled(request: ChatRequest) -> ChatReply:
    """Answer by the number at the end of the prompt."""
    share = float(request.messages[-1].text.split()[-1])
    return topics(share, 0.02, 0.98)


def test_each_member_is_calibrated(tmp_path: Path) -> None:
    model = ScriptedChatModel(sampled, capabilities=LOGPROBS)
    cases = [
        Case(
            {"text": f"{0.02 + number % 97 / 100:.2f}"},
            [Topic.QUALITY, *([Topic.PRICE] * (number % 97 > 20))],
        )
        for number in range(300)
    ]
    result = calibrate(create(Desk, model).topics, cases, error=0.1)
    assert [entry.path for entry in result.calibration.entries] == ["$.price", "$.delivery", "$.quality"]
    result.write(tmp_path / "desk.json")
    decision = create(Desk, model, calibration=str(tmp_path / "desk.json")).topics("0.40")
    assert (decision.calibrated, decision.value) == (True, [Topic.PRICE, Topic.QUALITY])
    highest = max(entry.threshold["value"] for entry in result.calibration.entries if entry.threshold)
    assert (decision.at() is None) == (decision.probability < highest)


def test_an_evaluation_scores_each_member() -> None:
    cases: list[Case[Any]] = [Case({"text": "x"}, [Topic.PRICE]), Case({"text": "y"}, [])]
    service = desk(topics(0.9, 0.2, 0.1), topics(0.5, 0.2, 0.1))
    report = evaluate(service.topics, cases, [brier(), log_loss()], max_concurrency=1)
    assert report.summary("brier").value == pytest.approx(((0.01 + 0.04 + 0.01) + (0.25 + 0.04 + 0.01)) / 6)
    assert report.reliability is not None
    assert len(report.reliability.samples) == 6


def test_other_lists_are_refused_with_what_to_write() -> None:
    class Wrong(Protocol):
        @user_message("{{text}}")
        def words(self, text: str) -> Decision[list[str]]: ...

    with pytest.raises(DefinitionError, match=r"needs an Enum or a Literal, as in Decision\[list\[Topic\]\]"):
        create(Wrong, FakeChatModel())
