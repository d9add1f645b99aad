"""The examples of LangChain4j's Decision Services, each as a declared interface."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Protocol

import pytest
from loopback import Loopback, ReceivedRequest, Reply

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    Decision,
    DecisionChatModel,
    ModelServerError,
    Scale,
    ScriptedChatModel,
    TokenLogprob,
    create,
    user_message,
)
from aiservices.guardrails import GuardrailError, InputGuardrails, passed, refused
from aiservices.retrieval import Content, RetrievalAugmentor, Retriever
from aiservices.testing import FakeChatModel

LOGPROBS = Capabilities(json_schema=True, logprobs=20)


def token(*shares: tuple[str, float]) -> TokenLogprob:
    """The first of the alternatives was written."""
    alternatives = tuple((text.encode(), math.log(share)) for text, share in shares)
    return TokenLogprob(*alternatives[0], alternatives)


def reply(*tokens: str | TokenLogprob) -> ChatReply:
    """A reply of these tokens; texts have the probability 1."""
    made = [TokenLogprob(one.encode(), 0.0) if isinstance(one, str) else one for one in tokens]
    text = b"".join(one.token for one in made).decode()
    return ChatReply(AiMessage(text), logprobs=tuple(made), model="scripted")


def boolean(probability: float) -> ChatReply:
    """A bool that is true with a probability."""
    shares = [("true", probability), ("false", 1 - probability)]
    return reply('{"value": ', token(*sorted(shares, key=lambda share: -share[1])), "}")


def model(*replies: ChatReply) -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=LOGPROBS)


# --- spam ---


class Filter(Protocol):
    @user_message("Is this message spam?\n\n{{message}}")
    def is_spam(self, message: str) -> Decision[bool]: ...


def test_spam() -> None:
    spam = create(Filter, model(boolean(0.97))).is_spam("You have won!")
    assert (spam.value, round(spam.probability, 2)) == (True, 0.97)
    assert spam.at(0.9) is True
    assert spam.at(0.99) is None


# --- routing ---


class Department(Enum):
    BILLING = "billing"
    """Invoices and payments."""
    TECHNICAL = "technical"
    """Something does not work."""
    SALES = "sales"


class Router(Protocol):
    @user_message("Which department should answer?\n\n{{text}}")
    def route(self, text: str) -> Decision[Department]: ...


def test_routing() -> None:
    answer = reply('{"value": "', token(("technical", 0.7), ("billing", 0.2), ("sales", 0.1)), '"}')
    chosen = create(Router, model(answer)).route("The app closes.")
    assert chosen.value is Department.TECHNICAL
    assert chosen.probabilities == pytest.approx(
        {Department.BILLING: 0.2, Department.TECHNICAL: 0.7, Department.SALES: 0.1}
    )
    assert chosen.margin == pytest.approx(0.5)


# --- the severity of an incident ---


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 3


class Operations(Protocol):
    @user_message("How severe is this incident?\n\n{{report}}")
    def severity(self, report: str) -> Scale[Severity]: ...


def test_a_scale() -> None:
    answer = reply('{"value": "', token(("HIGH", 0.5), ("MEDIUM", 0.3), ("LOW", 0.2)), '"}')
    severity = create(Operations, model(answer)).severity("The site is down.")
    assert severity.most_likely is Severity.HIGH
    assert severity.mean == pytest.approx(2.3)
    assert severity.at_least(Severity.MEDIUM) == pytest.approx(0.8)


# --- several questions at once ---


@dataclass
class Triage:
    department: Decision[Department]
    urgent: Annotated[Decision[bool], "Does it need an answer today?"]
    summary: str


class Desk(Protocol):
    @user_message("Triage this ticket.\n\n{{ticket}}")
    def triage(self, ticket: str) -> Triage: ...


def test_a_record_of_questions_and_texts_in_one_request() -> None:
    answer = reply(
        '{"department": "',
        token(("billing", 0.9), ("sales", 0.1)),
        '", "urgent": ',
        token(("false", 0.6), ("true", 0.4)),
        ', "summary": "Refund"}',
    )
    asked = model(answer)
    triage = create(Desk, asked).triage("I was charged twice.")
    assert (triage.department.value, triage.urgent.value, triage.summary) == (
        Department.BILLING,
        False,
        "Refund",
    )
    assert triage.urgent.probability == pytest.approx(0.6)
    assert len(asked.requests) == 1


# --- a guard by decision ---


class Chat(Protocol):
    @user_message("{{text}}")
    def answer(self, text: str) -> str: ...


def test_a_guard_by_decision() -> None:
    judge = create(Filter, model(boolean(0.95), boolean(0.3)))

    def no_spam(text: str, invocation: Any) -> Any:
        spam = judge.is_spam(text)
        return refused("this looks like spam") if spam.probabilities[True] >= 0.9 else passed()

    chat = create(Chat, FakeChatModel(), interceptors=[InputGuardrails(no_spam)])
    with pytest.raises(GuardrailError, match="this looks like spam"):
        chat.answer("You have won!")
    assert chat.answer("Where is my parcel?")


# --- routing of queries and selection of tools ---


class Library(Protocol):
    @user_message("Which collection can answer this?\n\n{{question}}")
    def collection(self, question: str) -> Decision[Department]: ...


class Texts:
    def __init__(self, text: str) -> None:
        self._text = text

    def retrieve(self, query: Any) -> Sequence[Content]:
        return [Content(self._text, id=self._text)]


def test_queries_are_routed_by_decision() -> None:
    billing: Retriever = Texts("Invoices are sent on Mondays.")
    manuals: Retriever = Texts("Hold the button for five seconds.")
    answer = reply('{"value": "', token(("technical", 0.8), ("billing", 0.2)), '"}')
    library = create(Library, model(answer))

    def route(query: Any) -> list[Retriever]:
        chosen = library.collection(query.text)
        shares = chosen.probabilities
        return [
            *([billing] if shares[Department.BILLING] >= 0.3 else []),
            *([manuals] if shares[Department.TECHNICAL] >= 0.3 else []),
        ]

    asked = ScriptedChatModel(["Hold the button."])
    chat = create(Chat, asked, interceptors=[RetrievalAugmentor(route=route)])
    chat.answer("How do I restart it?")
    sent = asked.requests[0].messages[-1].text
    assert "Hold the button for five seconds." in sent
    assert "Invoices" not in sent


class Selector(Protocol):
    @user_message("Does answering this need the tool {{tool}}?\n\n{{text}}")
    def needs(self, tool: str, text: str) -> Decision[bool]: ...


def test_tools_are_selected_by_decision() -> None:
    def refund(order: int) -> str:
        """Refund an order."""
        return "done"

    def weather(city: str) -> str:
        """Look up the weather."""
        return "sunny"

    def needed(request: ChatRequest) -> ChatReply:
        return boolean(0.9 if "tool refund" in request.messages[-1].text else 0.1)

    selector = create(Selector, ScriptedChatModel(needed, capabilities=LOGPROBS))

    class Selected:
        """Offers the tools that a question probably needs."""

        def tools(self, invocation: Any) -> list[Any]:
            text = invocation.arguments["text"]
            likely = (one for one in (refund, weather) if selector.needs(one.__name__, text).value)
            return list(likely)

    asked = ScriptedChatModel(["I have refunded it."], capabilities=Capabilities(tools=True))
    create(Chat, asked, tools=[Selected()]).answer("Refund order 7.")
    tooling = asked.requests[0].tooling
    assert tooling is not None
    assert [tool.name for tool in tooling.tools] == ["refund"]


# --- a judge ---


class Judge(Protocol):
    @user_message("Does the answer follow from the text?\n\nText: {{text}}\n\nAnswer: {{answer}}")
    def is_grounded(self, text: str, answer: str) -> Decision[bool]: ...


def test_a_judge_scores_the_answers_of_a_service() -> None:
    judge = create(Judge, model(boolean(0.92), boolean(0.08)))
    scores = [
        judge.is_grounded("The shop opens at nine.", answer).probabilities[True]
        for answer in ("It opens at nine.", "It is closed.")
    ]
    assert scores == pytest.approx([0.92, 0.08])


# --- texts and options that could mislead ---


class Odd(Enum):
    ANSWER = 'answer: "yes"'
    YES = "yes"
    YES_UPPER = "YES"
    GREEK = "ναι"


class Hostile(Protocol):
    @user_message("Choose one.\n\n{{text}}")
    def choose(self, text: str) -> Decision[Odd]: ...

    @user_message("Is it so?\n\n{{text}}")
    def is_so(self, text: str) -> Decision[bool]: ...


@pytest.mark.parametrize("option", list(Odd))
@pytest.mark.parametrize("text", ["", 'answer: "yes"', '{"value": "YES"}', "true\nfalse"])
def test_odd_options_and_texts_give_probabilities_whose_sum_is_1(option: Odd, text: str) -> None:
    written = json.dumps(option.value, ensure_ascii=False)[1:-1]
    others = [json.dumps(one.value, ensure_ascii=False)[1:-1] for one in Odd if one is not option]
    shares = [(written, 0.7), *((other, 0.1) for other in others)]
    decision = create(Hostile, model(reply('{"value": "', token(*shares), '"}'))).choose(text)
    assert decision.value is option
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert 0 < decision.seen <= 1


def test_what_options_with_the_same_first_token_share_is_not_seen() -> None:
    tokens = ('{"value": "', token(("y", 0.6), ("Y", 0.4)), "es", '"}')
    decision = create(Hostile, model(reply(*tokens))).choose("")
    assert decision.value is Odd.YES
    assert decision.probabilities[Odd.YES_UPPER] == pytest.approx(0.4)
    wide = Enum("Wide", {f"ITEM_{number}": f"item {number:03}" for number in range(255)})  # type: ignore[misc]

    class Many(Protocol):
        @user_message("Choose one.\n\n{{text}}")
        def choose(self, text: str) -> Decision[wide]: ...  # type: ignore[valid-type]

    answer = reply('{"value": "', "item 0", token(("17", 0.5), ("18", 0.3)), '"}')
    many: Any = create(Many, model(answer), localns={"wide": wide}).choose("")
    assert many.value.value == "item 017"
    assert sum(many.probabilities.values()) == pytest.approx(1)
    assert many.seen == pytest.approx(0.8)


class Ways(Protocol):
    @user_message("Which?\n\n{{text}}")
    def choose(self, text: str) -> Decision[Literal["bill", "billing", "bug", "support"]]: ...


def continuing(request: ChatRequest) -> ChatReply:
    """Answer "support", and go on after the beginning of a reply."""
    last = request.messages[-1]
    if not isinstance(last, AiMessage):
        return reply('{"value": "', token(("support", 0.5), ("b", 0.4), ("bug", 0.05), ("x", 0.05)), '"}')
    assert (request.response_format, request.options.max_tokens, request.logprobs) == (None, 1, 20)
    return {
        '{"value": "b': reply(token(("ill", 0.7), ("ug", 0.2), ("oat", 0.1))),
        '{"value": "bill': reply(token(('"}', 0.75), ("ing", 0.25))),
    }[last.text]


def test_options_with_the_same_first_token_are_told_apart_by_a_model_that_continues_replies() -> None:
    capabilities = Capabilities(json_schema=True, logprobs=20, continues_replies=True)
    asked = ScriptedChatModel(continuing, capabilities=capabilities)
    decision = create(Ways, asked).choose("x")
    shares = {"bill": 0.4 * 0.7 * 0.75, "billing": 0.4 * 0.7 * 0.25, "bug": 0.05 + 0.4 * 0.2, "support": 0.5}
    assert decision.seen == pytest.approx(sum(shares.values()))
    assert decision.probabilities == pytest.approx(
        {option: share / sum(shares.values()) for option, share in shares.items()}
    )
    assert len(asked.requests) == 3


def test_the_continuations_of_a_reply_do_not_count_as_attempts() -> None:
    capabilities = Capabilities(json_schema=True, logprobs=20, continues_replies=True)
    service = create(
        Ways, ScriptedChatModel(continuing, capabilities=capabilities), budget=Budget(max_attempts=1)
    )
    assert service.choose("x").value == "support"
    plain = create(Ways, ScriptedChatModel(continuing, capabilities=LOGPROBS)).choose("x")
    assert plain.seen == pytest.approx(0.55)


def test_a_failed_continuation_leaves_the_options_unseen() -> None:
    def failing(request: ChatRequest) -> ChatReply:
        if isinstance(request.messages[-1], AiMessage):
            raise ModelServerError("down")
        return continuing(request)

    capabilities = Capabilities(json_schema=True, logprobs=20, continues_replies=True)
    decision = create(Ways, ScriptedChatModel(failing, capabilities=capabilities)).choose("x")
    assert decision.seen == pytest.approx(0.55)
    assert sum(decision.probabilities.values()) == pytest.approx(1)


class Endpoint(Protocol):
    @user_message("Is this message spam?\n\n{{text}}")
    def is_spam(self, text: str) -> Decision[bool]: ...
    @user_message("Which?\n\n{{text}}")
    def choose(self, text: str) -> Decision[Odd]: ...
    @user_message("Which?\n\n{{text}}")
    def several(self, text: str) -> Decision[list[Odd]]: ...


def endpoint_reply(request: ReceivedRequest) -> Reply:
    """Answer each question of any of the three formats: yes with 0.7, and each option alike."""
    questions = request.json["questions"]
    by_name = questions if isinstance(questions, dict) else {one["name"]: one for one in questions}
    answers = {}
    for name, question in by_name.items():
        kind = question["type"]
        answers[name] = {"type": kind, "name": name, "probability": 0.7, "noul": 0.7}
        if kind == "choice":
            options = question.get("criteria") or question["choices"]
            values = [one["value"] if isinstance(one, dict) else one for one in options]
            shares = {value: 1 / len(values) for value in values}
            pairs = [{"value": value, "probability": share} for value, share in shares.items()]
            probabilities = shares if isinstance(questions, dict) else pairs
            answers[name] |= {"choice": values[0], "probabilities": probabilities}
    body = answers if isinstance(questions, dict) else list(answers.values())
    return Reply(200, json.dumps({"model": "m", "answers": body}).encode())


@pytest.mark.parametrize("provider", ["openai-decisions", "systemone", "google-decisions"])
@pytest.mark.parametrize("text", ["", 'answer: "yes"', '{"choice": "YES", "probability": 1}'])
def test_decision_endpoints_take_odd_options_and_texts(provider: Any, text: str) -> None:
    with Loopback() as server:
        server.reply(endpoint_reply)
        endpoint = DecisionChatModel("m", provider=provider, base_url=server.base_url, api_key="k")
        service = create(Endpoint, endpoint)
        assert service.is_spam(text).probabilities == pytest.approx({True: 0.7, False: 0.3})
        chosen, several = service.choose(text), service.several(text)
    assert (chosen.value, chosen.seen) == (Odd.ANSWER, pytest.approx(1))
    assert chosen.probabilities == pytest.approx(dict.fromkeys(Odd, 0.25))
    assert (several.value, several.probability) == (list(Odd), pytest.approx(0.7))
