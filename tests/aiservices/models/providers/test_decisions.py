"""Tests of DecisionChatModel against a local server that answers like three kinds of decision endpoints."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import openai
import pytest
from loopback import Loopback, ReceivedRequest, Reply, error, json_reply, raw_reply
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter

from aiservices import (
    AuthenticationError,
    BadRequestError,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DecisionChatModel,
    DefinitionError,
    File,
    FinishReason,
    Image,
    InvalidReplyError,
    JsonObjectFormat,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    ReplyDelta,
    Tooling,
    Usage,
    UserMessage,
)
from aiservices.models.base import Capabilities, DecisionLimits
from aiservices.models.messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage
from aiservices.models.registry import find_model
from aiservices.models.requests import AnswerOption, DecisionFormat, Question

Provider: TypeAlias = Literal["openai-decisions", "google-decisions", "systemone"]

KEY = "decision-secret"
PROVIDERS: tuple[Provider, ...] = ("openai-decisions", "google-decisions", "systemone")
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
DATA_URL = "data:image/png;base64,iVBORw0KGgo="


def yes_no(path: str = "$.urgent", no: str = "", yes: str = "", member: str | None = None) -> Question:
    options = (AnswerOption(False, no), AnswerOption(True, yes))
    return Question(path, tuple(path.split(".")[1:]), "yes_no", "Is it urgent?", options, member)


def choice(*values: Any, path: str = "$.team") -> Question:
    options = tuple(value if isinstance(value, AnswerOption) else AnswerOption(value) for value in values)
    return Question(path, tuple(path.split(".")[1:]), "choice", "Which team?", options)


def scale(*values: Any, path: str = "$.severity") -> Question:
    return choice(*values, path=path)._replace(kind="scale", text="How bad?")


ALL_KINDS = (
    yes_no(no="It can wait.", yes="It needs attention today."),
    choice(AnswerOption("billing", "Payments"), "support", None),
    scale(AnswerOption(1, "Cosmetic"), 2, 3),
)


def asking(*questions: Question, messages: Sequence[Message] | str = "My payout failed.") -> ChatRequest:
    text = (UserMessage(messages),) if isinstance(messages, str) else tuple(messages)
    return ChatRequest(text, response_format=DecisionFormat(questions))


def model_at(server: Loopback, provider: Provider = "systemone", **settings: Any) -> DecisionChatModel:
    return DecisionChatModel("m-1", provider=provider, base_url=server.base_url, api_key=KEY, **settings)


USAGE: dict[Provider, dict[str, Any]] = {
    "openai-decisions": {
        "input_tokens": 50,
        "output_tokens": 2,
        "total_tokens": 52,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 7},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
    "google-decisions": {"total_input_tokens": 50, "total_output_tokens": 0, "total_cached_tokens": 30},
    "systemone": {"input_tokens": 50, "output_tokens": 2},
}


def predicate(probability: Any, number: int = 1) -> dict[str, Any]:
    return {"type": "predicate", "name": f"q{number}", "probability": probability}


def openai_choice(*pairs: tuple[Any, float], number: int = 1) -> dict[str, Any]:
    probabilities = [{"value": value, "probability": probability} for value, probability in pairs]
    best = max(pairs, key=lambda pair: pair[1])[0]
    name = f"q{number}"
    return {"type": "choice", "name": name, "choice": best, "confidence": 0.5, "probabilities": probabilities}


def noul(probability: Any) -> dict[str, Any]:
    return {"type": "noul", "noul": probability}


def chosen(**probabilities: Any) -> dict[str, Any]:
    best = max(probabilities, key=lambda label: str(probabilities[label]))
    return {"type": "choice", "choice": best, "confidence": 0.5, "probabilities": probabilities}


def replied(provider: Provider, *answers: dict[str, Any]) -> Reply:
    """Return the reply with these answers, in the order of the questions."""
    found: Any = list(answers)
    if provider != "openai-decisions":
        found = {f"q{number}": answer for number, answer in enumerate(answers, 1)}
    model = {} if provider == "google-decisions" else {"model": "m-1-2026"}
    return json_reply({"answers": found, **model, "usage": USAGE[provider]})


OPENAI_REPLY = replied(
    "openai-decisions",
    predicate(0.9),
    openai_choice(("billing", 0.7), ("support", 0.1), ("none of these", 0.2), number=2),
    {
        "type": "score",
        "name": "q3",
        "score": 1.5,
        "confidence": 0.4,
        "probabilities": [
            {"value": 0, "label": "1", "probability": 0.1},
            {"value": 1, "label": "2", "probability": 0.3},
            {"value": 2, "label": "3", "probability": 0.6},
        ],
    },
)
SYSTEM_ONE_ANSWERS = (
    {**noul(0.9), "confidence": 0.9},
    {
        "type": "choice",
        "choice": "billing",
        "confidence": 0.7,
        "probabilities": {"none of these": 0.2, "support": 0.1, "billing": 0.7},
    },
    {
        "type": "score",
        "score": 1.5,
        "confidence": 0.6,
        "legend": {"0": "1: Cosmetic", "1": "2", "2": "3"},
        "probabilities": {"0": 0.1, "1": 0.3, "2": 0.6},
    },
)
REPLIES: dict[Provider, Reply] = {
    "openai-decisions": OPENAI_REPLY,
    "google-decisions": replied("google-decisions", *SYSTEM_ONE_ANSWERS),
    "systemone": replied("systemone", *SYSTEM_ONE_ANSWERS),
}
ANSWER = {"urgent": True, "team": "billing", "severity": 3}
PROBABILITIES = {
    "$.urgent": ((False, pytest.approx(0.1)), (True, pytest.approx(0.9))),
    "$.team": (("billing", pytest.approx(0.7)), ("support", pytest.approx(0.1)), (None, pytest.approx(0.2))),
    "$.severity": ((1, pytest.approx(0.1)), (2, pytest.approx(0.3)), (3, pytest.approx(0.6))),
}


# --- requests and replies of the three formats


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_three_formats_give_equal_answers(loopback: Loopback, provider: Provider) -> None:
    loopback.reply(REPLIES[provider])
    reply = model_at(loopback, provider).complete(asking(*ALL_KINDS))
    assert json.loads(reply.text) == ANSWER
    assert dict(reply.probabilities) == PROBABILITIES
    assert (reply.refusal, reply.finish_reason, reply.raw) == (
        None,
        FinishReason.STOP,
        REPLIES[provider].body,
    )
    usage = {
        "openai-decisions": Usage(50, 2, 30, cache_write_tokens=7),
        "google-decisions": Usage(50, 0, 30),
        "systemone": Usage(50, 2),
    }
    assert reply.usage == usage[provider]


def test_asynchronous_calls_give_the_same_answers(loopback: Loopback) -> None:
    loopback.reply(*REPLIES.values())

    async def answers() -> list[Any]:
        replies = [await model_at(loopback, provider).acomplete(asking(*ALL_KINDS)) for provider in REPLIES]
        return [json.loads(reply.text) for reply in replies]

    assert asyncio.run(answers()) == [ANSWER] * 3


def test_the_request_to_openai(loopback: Loopback) -> None:
    loopback.reply(OPENAI_REPLY)
    system, state = SystemMessage("You triage tickets."), UserMessage("My payout failed.")
    earlier = (UserMessage("Hi"), AiMessage("Hello."))
    model_at(loopback, "openai-decisions").complete(asking(*ALL_KINDS, messages=[system, *earlier, state]))
    (request,) = loopback.requests
    assert request.path == "/v1/decisions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "m-1",
        "input": [
            {"role": "developer", "content": "You triage tickets."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "My payout failed."},
        ],
        "questions": [
            {
                "type": "predicate",
                "name": "q1",
                "instructions": "The answer to this question is yes: Is it urgent?\n"
                "Yes: It needs attention today.\nNo: It can wait.",
            },
            {
                "type": "choice",
                "name": "q2",
                "instructions": "Which team?",
                "choices": [
                    {"value": "billing", "description": "Payments"},
                    {"value": "support"},
                    {"value": "none of these"},
                ],
            },
            {
                "type": "score",
                "name": "q3",
                "instructions": "How bad?",
                "levels": [{"label": "1", "description": "Cosmetic"}, {"label": "2"}, {"label": "3"}],
            },
        ],
    }


def test_the_request_to_a_system_one_server(loopback: Loopback) -> None:
    loopback.reply(REPLIES["systemone"])
    messages = [SystemMessage("You triage tickets."), UserMessage("My payout failed.")]
    model_at(loopback).complete(asking(*ALL_KINDS, messages=messages))
    (request,) = loopback.requests
    assert request.path == "/v1/systemone"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "m-1",
        "state": "My payout failed.",
        "questions": {
            "q1": {
                "type": "noul",
                "instructions": "You triage tickets.\n\nIs it urgent?",
                "criteria": {"true": "It needs attention today.", "false": "It can wait."},
            },
            "q2": {
                "type": "choice",
                "instructions": "You triage tickets.\n\nWhich team?",
                "criteria": {"billing": "Payments", "support": None, "none of these": None},
            },
            "q3": {
                "type": "score",
                "instructions": "You triage tickets.\n\nHow bad?",
                "criteria": ["1: Cosmetic", "2", "3"],
            },
        },
    }


def test_the_request_to_gemini(loopback: Loopback) -> None:
    loopback.reply(REPLIES["google-decisions"])
    model_at(loopback, "google-decisions").complete(asking(*ALL_KINDS))
    (request,) = loopback.requests
    assert request.path == "/v1/decisions"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.json == {
        "model": "m-1",
        "input": "My payout failed.",
        "questions": {
            "q1": {
                "type": "noul",
                "instructions": "Is it urgent?",
                "criteria": {
                    "true_description": "It needs attention today.",
                    "false_description": "It can wait.",
                },
            },
            "q2": {
                "type": "choice",
                "instructions": "Which team?",
                "criteria": {"billing": "Payments", "support": "", "none of these": ""},
            },
            "q3": {
                "type": "score",
                "instructions": "How bad?",
                "criteria": ["1: Cosmetic", "2", "3"],
            },
        },
    }


def test_a_yes_no_question_without_descriptions_has_no_criteria(loopback: Loopback) -> None:
    loopback.reply(replied("openai-decisions", predicate(0.2)), replied("systemone", noul(0.2)))
    for provider in ("openai-decisions", "systemone"):
        reply = model_at(loopback, provider).complete(asking(yes_no()))
        assert json.loads(reply.text) == {"urgent": False}
    first, second = (request.json["questions"] for request in loopback.requests)
    assert first[0]["instructions"] == "The answer to this question is yes: Is it urgent?"
    assert second == {"q1": {"type": "noul", "instructions": "Is it urgent?"}}


def test_a_conversation_with_tools_keeps_its_roles(loopback: Loopback) -> None:
    call = ToolCall("c1", "lookup", '{"id": 7}')
    messages = [UserMessage("Who?", "Ann"), AiMessage("", (call,)), ToolMessage("c1", "lookup", "a customer")]
    loopback.reply(
        replied("openai-decisions", predicate(0.2)),
        replied("systemone", noul(0.2)),
        replied("google-decisions", noul(0.2)),
    )
    for provider in ("openai-decisions", "systemone", "google-decisions"):
        model_at(loopback, provider).complete(asking(yes_no(), messages=messages))
    first, second, third = (request.json for request in loopback.requests)
    assert first["input"] == [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Ann:"}, {"type": "input_text", "text": "Who?"}],
        },
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a customer"},
    ]
    assert second["state"] == [
        {"role": "user", "content": "Ann:\nWho?"},
        {"role": "assistant", "content": 'lookup({"id": 7})'},
        {"role": "tool", "content": "a customer"},
    ]
    texts = ["user:", "Ann:", "Who?", "assistant:", 'lookup({"id": 7})', "tool:", "a customer"]
    assert third["input"] == [{"type": "text", "text": text} for text in texts]


def test_images_are_sent_in_the_form_of_each_api(loopback: Loopback) -> None:
    loopback.reply(
        replied("openai-decisions", predicate(0.2)),
        replied("google-decisions", noul(0.2)),
        replied("systemone", noul(0.2)),
    )
    state = [UserMessage("Look:", contents=("Look:", PICTURE.with_detail("low")))]
    for provider in PROVIDERS:
        model_at(loopback, provider).complete(asking(yes_no(), messages=state))
    first, second, third = (request.json for request in loopback.requests)
    assert first["input"][0]["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
    ]
    assert second["input"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"},
    ]
    assert (third["state"], third["images"]) == ("Look:\n[image 1]", [DATA_URL])


def test_gemini_takes_files_and_urls(loopback: Loopback) -> None:
    loopback.reply(replied("google-decisions", noul(0.2)))
    files = (File.from_bytes(b"%PDF-1"), Image.from_url("https://example.com/a.png"))
    model_at(loopback, "google-decisions").complete(
        asking(yes_no(), messages=[UserMessage("", contents=files)])
    )
    assert loopback.requests[0].json["input"] == [
        {"type": "document", "data": "JVBERi0x", "mime_type": "application/pdf"},
        {"type": "image", "uri": "https://example.com/a.png", "mime_type": "image/png"},
    ]


@pytest.mark.parametrize(
    ("provider", "media", "message"),
    [
        ("openai-decisions", File.from_bytes(b"%PDF-1"), "takes text and images only"),
        ("systemone", File.from_bytes(b"%PDF-1"), "takes text and images only"),
        ("systemone", Image.from_url("https://example.com/a.png"), "do not fetch images"),
    ],
)
def test_media_that_the_endpoint_does_not_take_are_an_error(
    loopback: Loopback, provider: Provider, media: Any, message: str
) -> None:
    request = asking(yes_no(), messages=[UserMessage("", contents=(media,))])
    with pytest.raises(BadRequestError, match=message):
        model_at(loopback, provider).complete(request)
    assert not loopback.requests


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_empty_text_is_sent_as_it_is(loopback: Loopback, provider: Provider) -> None:
    loopback.reply(replied(provider, predicate(0.2) if provider == "openai-decisions" else noul(0.2)))
    model_at(loopback, provider).complete(asking(yes_no(), messages=""))
    body = loopback.requests[0].json
    state = body.get("state", body.get("input"))
    assert state == ([{"role": "user", "content": ""}] if provider == "openai-decisions" else "")


@pytest.mark.parametrize(
    "text", ["«Wo ist mein Geld?» “…”", "支払いが失敗した", 'a "quoted" \\ text', "👩‍👧 \u200fדחוף"]
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_texts_and_options_in_any_script_arrive(loopback: Loopback, provider: Provider, text: str) -> None:
    answer = chosen(**{text: 0.75, "other": 0.25})
    if provider == "openai-decisions":
        answer = openai_choice((text, 0.75), ("other", 0.25))
    loopback.reply(replied(provider, answer))
    reply = model_at(loopback, provider).complete(asking(choice(text, "other"), messages=text))
    assert json.loads(reply.text) == {"team": text}
    body = loopback.requests[0].json
    state = (
        body["input"][0]["content"]
        if provider == "openai-decisions"
        else body.get("state", body.get("input"))
    )
    assert state == text


# --- labels of options


def labels_sent(server: Loopback) -> list[Any]:
    questions = server.requests[-1].json["questions"]
    if isinstance(questions, list):
        return [option["value"] for option in questions[0]["choices"]]
    return list(questions["q1"]["criteria"])


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (("none of these", None), ["none of these", "none of these (2)"]),
        (
            ("None of These", "None of these (2)", None),
            ["None of These", "None of these (2)", "none of these (3)"],
        ),
        (("true", True, False), ["true", "true (2)", "false"]),
        (("1", 1, 1.5), ["1", "1 (2)", "1.5"]),
        (("yes", "Yes", "YES"), ["yes", "Yes", "YES"]),
        (("", " ", "a\nb", "a b", " a b"), ["empty text", "empty text (2)", "a b (2)", "a b", "a b (3)"]),
    ],
)
def test_options_have_different_labels(
    loopback: Loopback, values: tuple[Any, ...], labels: list[str]
) -> None:
    other = 0.4 / (len(values) - 1)
    for best in labels:
        loopback.reply(
            replied("systemone", chosen(**{label: 0.6 if label == best else other for label in labels}))
        )
    for value in values:
        reply = model_at(loopback).complete(asking(choice(*values)))
        assert labels_sent(loopback) == labels
        answer = json.loads(reply.text)["team"]
        assert (type(answer), answer) == (type(value), value)


def test_openai_gets_booleans_as_booleans(loopback: Loopback) -> None:
    shares = (("true", 0.1), (True, 0.2), (False, 0.1), ("1", 0.5), ("1 (2)", 0.1))
    loopback.reply(replied("openai-decisions", openai_choice(*shares)))
    reply = model_at(loopback, "openai-decisions").complete(asking(choice("true", True, False, 1, "1 (2)")))
    assert labels_sent(loopback) == ["true", True, False, "1", "1 (2)"]
    assert [type(value) for value, _ in reply.probabilities["$.team"]] == [str, bool, bool, int, str]
    assert json.loads(reply.text)["team"] == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_255_options_are_accepted_even_if_their_probabilities_are_rounded(
    loopback: Loopback, provider: Provider
) -> None:
    names = [f"option {number}" for number in range(255)]
    shares = [0.25, *[0.0] * 254]  # the others have less than half a percent each
    answer = chosen(**dict(zip(names, shares, strict=True)))
    if provider == "openai-decisions":
        answer = openai_choice(*zip(names, shares, strict=True))
    loopback.reply(replied(provider, answer))
    reply = model_at(loopback, provider).complete(asking(choice(*names)))
    assert json.loads(reply.text) == {"team": "option 0"}
    assert len(labels_sent(loopback)) == 255
    assert sum(share for _, share in reply.probabilities["$.team"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            choice(*map(str, range(256))),
            "the question $.team has 256 options; the decision endpoint accepts 255",
        ),
        (scale(*range(11)), "the question $.severity has 11 levels; the decision endpoint accepts 10"),
        (choice("one"), "the question $.team needs at least two options"),
    ],
)
def test_a_question_beyond_the_limits_is_an_error(
    loopback: Loopback, question: Question, message: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        model_at(loopback).complete(asking(yes_no(), question))
    assert message in str(caught.value)
    assert not loopback.requests


# --- checks of replies


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.7, 0.19, 0.1), (0.707, 0.192, 0.101)),
        ((0.51, 0.41, 0.1), (0.5, 0.402, 0.098)),
        ((1.0000001, 0.0, 0.0), (1.0, 0.0, 0.0)),
    ],
)
def test_rounded_probabilities_are_rescaled(
    loopback: Loopback, shares: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    loopback.reply(replied("systemone", chosen(**dict(zip("abc", shares, strict=True)))))
    reply = model_at(loopback).complete(asking(choice("a", "b", "c")))
    assert [share for _, share in reply.probabilities["$.team"]] == pytest.approx(expected, abs=0.001)


ABC = choice("a", "b", "c")


@pytest.mark.parametrize(
    ("question", "answers", "message"),
    [
        (ABC, [chosen(a=0.6, b=0.3, c=0.05)], "the probabilities of the answers to $.team sum to 0.95"),
        (ABC, [chosen(a=0.9, b=0.9, c=0.9)], "sum to 2.7"),
        (ABC, [chosen(a=0.0, b=0.0, c=0.0)], "sum to 0"),
        (ABC, [chosen(a=0.6, b=0.4)], 'the answer to $.team has no probability of "c"'),
        (ABC, [chosen(a=0.6, b=0.2, C=0.2)], 'has no probability of "c"'),
        (ABC, [chosen(a=0.6, b=0.2, c=0.2, d=0.0)], "has 4 probabilities of 3 options"),
        (ABC, [chosen(a=1.2, b=-0.1, c=-0.1)], "a probability in the answer to $.team is 1.2"),
        (ABC, [chosen(a="0.6", b=0.2, c=0.2)], "is '0.6'"),
        (ABC, [chosen(a=True, b=0.0, c=0.0)], "is True"),
        (ABC, [chosen(a=float("nan"), b=0.0, c=0.0)], "is nan"),
        (ABC, [noul(0.5)], "it has an unexpected shape"),
        (ABC, [], "it has 0 answers to 1 questions"),
        (yes_no(), [noul(0.5), noul(0.5)], "it has 2 answers to 1 questions"),
        (yes_no(), [noul(1.5)], "a probability in the answer to $.urgent is 1.5"),
        (yes_no(), [noul(None)], "is None"),
        (yes_no(), [chosen(a=0.5, b=0.5)], "it has an unexpected shape"),
        (scale(1, 2), [{"type": "score", "probabilities": {"0": 1.0}}], 'has no probability of "1"'),
    ],
)
def test_an_answer_that_does_not_fit_the_question_is_an_error(
    loopback: Loopback, question: Question, answers: list[Any], message: str
) -> None:
    loopback.reply(replied("systemone", *answers))
    with pytest.raises(InvalidReplyError) as caught:
        model_at(loopback).complete(asking(question))
    assert message in str(caught.value)
    assert "the reply is not a valid decision reply" in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([predicate(0.5, number=2)], "answer 1 belongs to the question 'q2'"),
        ([openai_choice(("a", 0.5), ("b", 0.5))], "it has an unexpected shape"),
        ([], "it has 0 answers to 1 questions"),
    ],
)
def test_answers_of_openai_are_checked(loopback: Loopback, answers: list[Any], message: str) -> None:
    loopback.reply(replied("openai-decisions", *answers))
    with pytest.raises(InvalidReplyError) as caught:
        model_at(loopback, "openai-decisions").complete(asking(yes_no()))
    assert message in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"answers": null}', b'{"answers": ["q1"]}'])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_of_another_kind_is_an_error(loopback: Loopback, provider: Provider, body: bytes) -> None:
    loopback.reply(raw_reply(body))
    with pytest.raises(InvalidReplyError, match="not a valid decision reply"):
        model_at(loopback, provider).complete(asking(yes_no()))


def test_a_missing_answer_names_the_question(loopback: Loopback) -> None:
    loopback.reply(json_reply({"answers": {"q1": noul(0.5), "q3": noul(0.5)}}))
    with pytest.raises(InvalidReplyError, match=r"it has no answer to \$\.other"):
        model_at(loopback).complete(asking(yes_no(), yes_no("$.other")))


def test_a_refused_question_is_a_refusal_unless_null_answers_it(loopback: Loopback) -> None:
    refused = {"type": "refusal", "name": None}
    loopback.reply(replied("openai-decisions", refused, predicate(0.9, 2)))
    model = model_at(loopback, "openai-decisions")
    reply = model.complete(asking(ABC, yes_no()))
    assert reply.refusal == "the model refused to answer $.team"
    assert list(reply.probabilities) == ["$.urgent"]
    reply = model.complete(asking(choice("a", None), yes_no()))
    assert (reply.refusal, json.loads(reply.text)) == (None, {"team": None, "urgent": True})


def test_a_blocked_input_of_gemini_has_no_answers(loopback: Loopback) -> None:
    loopback.reply(json_reply({"prompt_feedback": {"block_reason": "safety"}}))
    reply = model_at(loopback, "google-decisions").complete(asking(yes_no()))
    assert (reply.finish_reason, reply.stop_reason, reply.text) == (FinishReason.CONTENT_FILTER, "safety", "")


# --- several requests


def nouls(request: ReceivedRequest) -> Reply:
    answers = {name: noul(0.9) for name in request.json["questions"]}
    return json_reply({"answers": answers, "model": "m-1-2026", "usage": USAGE["systemone"]})


MEMBERS = [yes_no(f"$.tags[{tag}]", member=tag)._replace(keys=("tags",)) for tag in "abcde"]


def check_joined(server: Loopback, reply: ChatReply) -> None:
    assert [list(request.json["questions"]) for request in server.requests] == [
        ["q1", "q2"],
        ["q1", "q2"],
        ["q1"],
    ]
    assert json.loads(reply.text) == {"tags": ["a", "b", "c", "d", "e"]}
    assert list(reply.probabilities) == [question.path for question in MEMBERS]
    assert (reply.usage, reply.model) == (Usage(150, 6), "m-1-2026")
    assert reply.raw is not None
    assert [list(body["answers"]) for body in json.loads(reply.raw)] == [["q1", "q2"], ["q1", "q2"], ["q1"]]
    assert reply.notes == ("temperature was left out: a decision endpoint writes no text",)


LIMITED = {"limits": DecisionLimits(questions=2), "options": ChatOptions(temperature=0.0)}


def test_more_questions_than_the_limit_are_sent_in_several_requests(loopback: Loopback) -> None:
    loopback.reply(nouls)
    check_joined(loopback, model_at(loopback, **LIMITED).complete(asking(*MEMBERS)))


def test_more_questions_than_the_limit_are_sent_in_several_asynchronous_requests(loopback: Loopback) -> None:
    loopback.reply(nouls)
    check_joined(loopback, asyncio.run(model_at(loopback, **LIMITED).acomplete(asking(*MEMBERS))))


def test_the_same_request_is_prepared_once(loopback: Loopback) -> None:
    loopback.reply(nouls)
    model, request = model_at(loopback, **LIMITED), asking(*MEMBERS)
    model.complete(request)
    prepared = len(model._prepared.cached)
    model.complete(request)
    assert (prepared, len(model._prepared.cached)) == (3, 3)


def test_an_error_in_one_of_several_requests_ends_the_call(loopback: Loopback) -> None:
    loopback.reply(nouls, error(429, "Slow down."))
    with pytest.raises(RateLimitError):
        model_at(loopback, **LIMITED).complete(asking(*MEMBERS))
    assert len(loopback.requests) == 2


def test_all_questions_are_checked_before_the_first_of_several_requests(loopback: Loopback) -> None:
    with pytest.raises(
        BadRequestError, match=r"systemone:m-1 at .*: the question \$\.team needs at least two"
    ):
        model_at(loopback, **LIMITED).complete(asking(*MEMBERS, choice("one")))
    assert not loopback.requests


def test_refusals_in_several_requests_are_joined(loopback: Loopback) -> None:
    refused = {"type": "refusal", "name": "q1"}
    loopback.reply(replied("openai-decisions", predicate(0.9)), replied("openai-decisions", refused))
    model = model_at(loopback, "openai-decisions", limits=DecisionLimits(questions=1))
    reply = model.complete(asking(yes_no(), yes_no("$.other")))
    assert (reply.refusal, list(reply.probabilities)) == ("the model refused to answer $.other", ["$.urgent"])


def test_the_deadline_is_that_of_all_requests(loopback: Loopback) -> None:
    def slow(request: ReceivedRequest) -> Reply:
        time.sleep(0.2)
        return nouls(request)

    loopback.reply(slow)
    request = ChatRequest(
        (UserMessage("x"),), response_format=DecisionFormat(tuple(MEMBERS)), deadline=time.monotonic() + 0.3
    )
    with pytest.raises(ModelTimeoutError):  # each request alone has enough time
        model_at(loopback, **LIMITED).complete(request)


# --- errors


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "expected", "retryable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (403, AuthenticationError, False),
        (404, ModelNotFoundError, False),
        (413, BadRequestError, False),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (501, ModelServerError, False),
        (504, ModelServerError, True),
        (529, ModelServerError, True),
    ],
)
def test_each_status_has_its_error(
    loopback: Loopback,
    provider: Provider,
    status: int,
    expected: type[ModelError],
    retryable: bool,
    is_async: bool,
) -> None:
    loopback.reply(error(status, "It did not work.", headers={"retry-after": "2"}))
    model = model_at(loopback, provider)

    def complete() -> object:
        return (
            asyncio.run(model.acomplete(asking(yes_no()))) if is_async else model.complete(asking(yes_no()))
        )

    with pytest.raises(expected, match="It did not work") as caught:
        complete()
    raised = caught.value
    assert (raised.status, raised.retryable, raised.retry_after) == (status, retryable, 2.0)
    assert KEY not in str(raised)


def test_the_field_of_a_422_is_in_the_message(loopback: Loopback) -> None:
    detail = [{"loc": ["body", "questions", "q1", "criteria"], "msg": "Field required", "type": "missing"}]
    loopback.reply(json_reply({"detail": detail}, status=422, headers={"x-typesafe-request-id": "r-7"}))
    with pytest.raises(BadRequestError, match=r"criteria.*Field required") as caught:
        model_at(loopback).complete(asking(yes_no()))
    assert caught.value.request_id == "r-7"


def test_a_server_whose_model_is_no_decision_model_says_so_with_status_200(loopback: Loopback) -> None:
    message = "This model is not a decision model"
    loopback.reply(json_reply({"error": {"code": 501, "message": message, "type": "not_supported_error"}}))
    with pytest.raises(ModelServerError, match=message) as caught:
        model_at(loopback).complete(asking(yes_no()))
    assert (caught.value.status, caught.value.retryable) == (501, False)


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest.of("Hi"),
        ChatRequest.of("Hi", response_format=JsonObjectFormat()),
        ChatRequest((UserMessage("Hi"),), response_format=DecisionFormat((yes_no(),)), tooling=Tooling(())),
    ],
    ids=["text", "JSON", "tools"],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_other_requests_are_refused(loopback: Loopback, provider: Provider, request_: ChatRequest) -> None:
    with pytest.raises(BadRequestError, match="a decision endpoint only answers questions"):
        model_at(loopback, provider).complete(request_)
    assert not loopback.requests


# --- streams, options and names


def test_a_stream_has_the_whole_reply(loopback: Loopback) -> None:
    loopback.reply(REPLIES["systemone"])
    text, last = model_at(loopback).stream(asking(*ALL_KINDS))
    assert (json.loads(text.text), text.reply) == (ANSWER, None)
    assert last.reply is not None
    assert dict(last.reply.probabilities) == PROBABILITIES


def test_an_asynchronous_stream_has_the_whole_reply(loopback: Loopback) -> None:
    loopback.reply(REPLIES["systemone"])

    async def deltas() -> list[ReplyDelta]:
        return [delta async for delta in model_at(loopback).astream(asking(*ALL_KINDS))]

    text, last = asyncio.run(deltas())
    assert last.reply is not None
    assert (json.loads(text.text), last.reply.text) == (ANSWER, text.text)


def test_options_without_a_meaning_are_left_out(loopback: Loopback) -> None:
    loopback.reply(replied("openai-decisions", predicate(0.2)))
    options = ChatOptions(
        model="m-2",
        temperature=0.5,
        max_tokens=9,
        extra_body={"prompt_cache_key": "desk"},
        extra_headers={"x-team": "desk"},
    )
    reply = model_at(loopback, "openai-decisions", options=options).complete(asking(yes_no()))
    assert reply.notes == (
        "temperature was left out: a decision endpoint writes no text",
        "max_tokens was left out: a decision endpoint writes no text",
    )
    (request,) = loopback.requests
    assert sorted(request.json) == ["input", "model", "prompt_cache_key", "questions"]
    assert (request.json["model"], request.headers["x-team"]) == ("m-2", "desk")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_function_returns_the_key_of_each_request(loopback: Loopback, provider: Provider) -> None:
    keys = iter(["first-key", "second-key"])
    loopback.reply(REPLIES[provider])
    model = DecisionChatModel("m", provider=provider, base_url=loopback.base_url, api_key=lambda: next(keys))
    for _ in range(2):
        model.complete(asking(*ALL_KINDS))
    header, prefix = (
        ("x-goog-api-key", "") if provider == "google-decisions" else ("authorization", "Bearer ")
    )
    sent = [request.headers[header] for request in loopback.requests]
    assert sent == [f"{prefix}first-key", f"{prefix}second-key"]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("openai-decisions:gpt-6-luna", DecisionLimits()),
        ("google-decisions:gemini-decision-1", DecisionLimits(questions=1000, levels=255)),
        ("systemone:jev-1.13.0", DecisionLimits()),
    ],
)
def test_models_have_names(name: str, limits: DecisionLimits) -> None:
    model = find_model(name)
    assert isinstance(model, DecisionChatModel)
    assert (model.name, model.capabilities) == (name, Capabilities(decisions=limits))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_name_without_a_model_is_an_error(provider: Provider) -> None:
    with pytest.raises(DefinitionError, match=f'"{provider}:" does not name a model'):
        find_model(f"{provider}:")


def test_a_wrong_provider_or_address_is_an_error() -> None:
    make: Callable[..., object] = DecisionChatModel
    with pytest.raises(DefinitionError, match="provider is 'openai'; it must be one of openai-decisions"):
        make("m", provider="openai")
    with pytest.raises(DefinitionError, match="base_url must begin with http"):
        make("m", provider="systemone", base_url="localhost:8080")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_missing_key_is_named_at_the_first_request(
    monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    variables = [
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "TYPESAFE_API_KEY",
        "TYPESAFE_BASE_URL",
    ]
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(AuthenticationError, match=r"set (OPENAI|GEMINI|TYPESAFE)_API_KEY"):
        DecisionChatModel("m", provider=provider).complete(asking(yes_no()))


# --- System One servers


@pytest.mark.parametrize(
    ("base_url", "url", "limits"),
    [
        (None, "https://api.typesafe.ai/v1/systemone", DecisionLimits()),
        (
            "https://api.perplexity.ai",
            "https://api.perplexity.ai/v1/decisions",
            DecisionLimits(questions=128),
        ),
        (
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/alpha/decisions",
            DecisionLimits(questions=200),
        ),
        (
            "https://api.fireworks.ai/inference/v1",
            "https://api.fireworks.ai/inference/v1/systemone",
            DecisionLimits(options=208),
        ),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/systemone", DecisionLimits()),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/systemone", DecisionLimits()),
        ("http://127.0.0.1:1/gate/v1", "http://127.0.0.1:1/gate/v1/systemone", DecisionLimits()),
        ("http://127.0.0.1:30000/v1/decisions", "http://127.0.0.1:30000/v1/decisions", DecisionLimits()),
    ],
)
def test_the_address_of_a_system_one_server_is_complete(
    monkeypatch: pytest.MonkeyPatch, base_url: str | None, url: str, limits: DecisionLimits
) -> None:
    monkeypatch.delenv("TYPESAFE_BASE_URL", raising=False)
    model = DecisionChatModel("m", provider="systemone", base_url=base_url)
    assert (model.endpoint, model.capabilities.decisions) == (url, limits)


def test_the_key_of_typesafe_is_not_sent_to_other_servers(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "typesafe-key")
    loopback.reply(replied("systemone", noul(0.2)))
    DecisionChatModel("m", provider="systemone", base_url=loopback.base_url).complete(asking(yes_no()))
    monkeypatch.setenv("TYPESAFE_BASE_URL", loopback.base_url)
    DecisionChatModel("m", provider="systemone").complete(asking(yes_no()))
    keys = [request.headers.get("authorization") for request in loopback.requests]
    assert keys == [None, "Bearer typesafe-key"]


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        (
            "https://openrouter.ai",
            {"state": ["Look:\n[image 1]", {"type": "image_url", "image_url": {"url": DATA_URL}}]},
        ),
        ("http://localhost:11434", {"state": "Look:\n[image 1]", "images": ["iVBORw0KGgo="]}),
        ("http://localhost:8080", {"state": "Look:\n[image 1]", "images": [DATA_URL]}),
    ],
)
def test_images_have_the_form_of_the_server(base_url: str, expected: dict[str, Any]) -> None:
    model = DecisionChatModel("m", provider="systemone", base_url=base_url, api_key=KEY)
    _, members = model._decisions._members([yes_no()])
    messages = [UserMessage("Look:", contents=("Look:", PICTURE))]
    written = {name: members[name](messages) for name in ("state", "images")}
    assert {name: value for name, value in written.items() if value is not None} == expected


def test_typesafe_takes_no_images() -> None:
    request = asking(yes_no(), messages=[UserMessage("", contents=(PICTURE,))])
    with pytest.raises(BadRequestError, match="this System One server takes text only"):
        DecisionChatModel(
            "m", provider="systemone", base_url="https://api.typesafe.ai", api_key=KEY
        ).complete(request)


# --- the SDKs of the providers


def read_whole(value: Any) -> Any:
    """Return validated JSON with the lists that pydantic validates as they are read."""
    if isinstance(value, Mapping):
        return {name: read_whole(member) for name, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [read_whole(item) for item in value]
    return value


def test_the_sdk_of_openai_sends_and_reads_the_same(loopback: Loopback) -> None:
    loopback.reply(OPENAI_REPLY)
    messages = [SystemMessage("Triage."), UserMessage("Look:", contents=("Look:", PICTURE))]
    model_at(loopback, "openai-decisions").complete(asking(*ALL_KINDS, messages=messages))
    body = loopback.requests[0].json
    adapter = TypeAdapter(DecisionCreateParams)  # lives on, since lists are checked as they are read
    assert read_whole(adapter.validate_python(body)) == body  # without members that the type does not have
    with openai.OpenAI(base_url=loopback.base_url, api_key=KEY) as client:
        decision = client.decisions.create(**body)
    ours, theirs = loopback.requests
    assert (theirs.path, theirs.json) == (ours.path, ours.json)
    assert decision.answers[0].to_dict() == predicate(0.9)
    assert decision.usage.input_tokens_details.cached_tokens == 30


def test_the_sdk_of_google_sends_and_reads_the_same(loopback: Loopback) -> None:
    genai = pytest.importorskip("google.genai", minversion="3.2")
    loopback.reply(REPLIES["google-decisions"])
    messages = [UserMessage("Look:", contents=("Look:", PICTURE))]
    model_at(loopback, "google-decisions").complete(asking(*ALL_KINDS, messages=messages))
    body = loopback.requests[0].json
    root = loopback.base_url.removesuffix("/v1")
    with genai.Client(api_key=KEY, http_options={"base_url": root, "api_version": "v1"}) as client:
        answers = client.decisions.create(**body)
    ours, theirs = loopback.requests
    assert (theirs.path, theirs.json) == (ours.path, ours.json)
    assert theirs.headers["x-goog-api-key"] == ours.headers["x-goog-api-key"]
    assert answers.answers["q1"].noul == 0.9
    assert answers.usage.total_cached_tokens == 30
