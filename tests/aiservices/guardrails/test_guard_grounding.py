"""``grounded`` asks a model whether the sources support an answer, within the budget of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    DefinitionError,
    ModelServerError,
    Result,
    ScriptedChatModel,
    Usage,
    create,
)
from aiservices.guardrails import (
    GuardrailError,
    OutputGuardrails,
    Verdict,
    grounded,
    max_length,
    passed,
    refused,
    retry,
    sentences,
)
from aiservices.interceptors import Flow, Invocation, Run
from aiservices.models.base import DecisionLimits
from aiservices.retrieval import Content, RetrievalAugmentor

YES, NO = '{"value": true}', '{"value": false}'


class Desk(Protocol):
    def answer(self, question: str) -> Result[str]: ...

    def told(self, question: str) -> Iterator[str]: ...


class AsyncDesk(Protocol):
    async def answer(self, question: str) -> Result[str]: ...


class Shelf:
    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def retrieve(self, query: Any, /) -> list[Content]:
        return [Content(text) for text in self.texts]


def desk_of(model: Any, guard: Any, *texts: str, interface: Any = Desk, **settings: Any) -> Any:
    chunks = settings.pop("chunks", None)
    augmentor = RetrievalAugmentor(Shelf(*(texts or ("We open at nine.", "We close at six."))))
    return create(
        interface, model, interceptors=[augmentor, OutputGuardrails(guard, chunks=chunks)], **settings
    )


def test_the_judge_gets_the_sources_and_the_answer() -> None:
    judge = ScriptedChatModel([YES], name="judge")
    result = desk_of(ScriptedChatModel(["At nine."]), grounded(judge)).answer("When?")
    assert result.value == "At nine."
    prompt = judge.requests[0].messages[-1].text
    assert "\n\nSources:\n[1] We open at nine.\n\n[2] We close at six.\n\nAnswer:\nAt nine." in prompt
    assert [(attempt.model, attempt.purpose.value) for attempt in result.attempts] == [
        ("scripted", "answer"),
        ("judge", "side question"),
    ]
    assert result.usage == sum((attempt.reply.usage for attempt in result.attempts), Usage())


def test_an_unsupported_answer_is_requested_again() -> None:
    model = ScriptedChatModel(["At ten.", "At nine."])
    result = desk_of(model, grounded(ScriptedChatModel([NO, YES]))).answer("When?")
    assert (result.value, len(result.attempts)) == ("At nine.", 4)
    assert [message.text for message in model.requests[1].messages[1:]] == [
        "At ten.",
        "The sources do not support your answer. State only what they say, and say so if they do not answer "
        "the question.",
    ]


def test_the_verdict_may_be_another_one() -> None:
    desk = desk_of(ScriptedChatModel(["At ten."]), grounded(ScriptedChatModel([NO]), otherwise=refused))
    with pytest.raises(GuardrailError, match="the output guard grounded refused: The sources do not support"):
        desk.answer("When?")


def test_an_answer_without_sources_is_refused_without_asking() -> None:
    def answering(**settings: Any) -> Any:
        guards = [OutputGuardrails(grounded(ScriptedChatModel([]), **settings))]
        return create(Desk, ScriptedChatModel(["At ten."]), interceptors=guards)

    with pytest.raises(GuardrailError) as caught:
        answering().answer("When?")
    assert str(caught.value) == (
        "Desk.answer: the output guard grounded refused: no sources were retrieved, so nothing supports the "
        "answer"
    )
    assert answering(without_sources="pass").answer("When?").value == "At ten."


@pytest.mark.parametrize("most", [1, 2])
def test_questions_of_a_guard_are_not_attempts_at_the_answer(most: int) -> None:
    answers, verdicts = ["At ten.", "At nine."][-most:], [NO, YES][-most:]
    budget = Budget(max_attempts=most, first_wait=0)
    model = ScriptedChatModel(answers)
    desk = desk_of(model, grounded(ScriptedChatModel(verdicts), otherwise=retry), budget=budget)
    assert desk.answer("When?").value == "At nine."


def test_the_judge_may_fail_and_recover_after_a_stream_has_shown_a_part() -> None:
    judge = ScriptedChatModel([YES, ModelServerError("503", retryable=True), YES, NO])
    budget = Budget(first_wait=0)
    model = ScriptedChatModel(["At nine. Until six. On Mars."])
    desk = desk_of(model, grounded(judge), budget=budget, chunks=sentences())
    shown: list[str] = []
    with pytest.raises(GuardrailError) as caught:
        shown.extend(desk.told("When?"))
    assert shown == ["At nine. ", "Until six. "]
    assert [attempt.purpose.value for attempt in caught.value.attempts] == ["side question"] * 4 + ["answer"]


def test_a_judge_that_fails_ends_the_call() -> None:
    desk = desk_of(ScriptedChatModel(["At nine."]), grounded(ScriptedChatModel([ModelServerError("500")])))
    with pytest.raises(GuardrailError) as caught:
        desk.answer("When?")
    assert str(caught.value) == "Desk.answer: the output guard grounded failed: ModelServerError: 500"
    assert isinstance(caught.value.__cause__, ModelServerError)
    assert [attempt.purpose.value for attempt in caught.value.attempts] == ["answer", "side question"]


def test_the_tokens_of_the_judge_count() -> None:
    model, judge = ScriptedChatModel(["At nine."]), ScriptedChatModel([NO])
    desk = desk_of(model, grounded(judge), budget=Budget(tokens=50))
    with pytest.raises(GuardrailError, match=r"budget exceeded: .* of 50 tokens used"):
        desk.answer("When?")
    assert (len(model.requests), len(judge.requests)) == (1, 1)


def test_later_guards_still_get_the_text_of_the_answer() -> None:
    guard = OutputGuardrails(grounded(ScriptedChatModel([YES])), max_length(3))
    desk = create(Desk, ScriptedChatModel(["At nine."]), interceptors=[RetrievalAugmentor(Shelf("x")), guard])
    with pytest.raises(GuardrailError, match="the text has 8 characters; at most 3 are allowed"):
        desk.answer("When?")


def test_the_judge_may_be_a_decision_endpoint() -> None:
    limits = Capabilities(decisions=DecisionLimits())
    judge = ScriptedChatModel([YES], capabilities=limits)
    assert desk_of(ScriptedChatModel(["At nine."]), grounded(judge)).answer("When?").value == "At nine."
    response_format: Any = judge.requests[0].response_format
    assert type(response_format).__name__ == "DecisionFormat"


def test_async_calls_ask_the_judge_too() -> None:
    model, judge = ScriptedChatModel(["At ten.", "At nine."]), ScriptedChatModel([NO, YES])
    desk = desk_of(model, grounded(judge), interface=AsyncDesk)
    assert asyncio.run(desk.answer("When?")).value == "At nine."


def test_a_guard_may_yield_effects() -> None:
    class Checked:
        def __call__(self, text: str, invocation: Invocation) -> Flow[Verdict]:
            length: int = yield Run(lambda: len(text))
            return passed() if length < 5 else refused(f"{length} characters")

    desk = create(Desk, ScriptedChatModel(["tea", "coffee"]), interceptors=[OutputGuardrails(Checked())])
    assert desk.answer("x").reply.message == AiMessage("tea")
    with pytest.raises(GuardrailError, match="the output guard Checked refused: 6 characters"):
        desk.answer("x")


def test_a_wrong_setting_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="without_sources is 'skip'; it must be one of refuse, pass"):
        grounded(ScriptedChatModel([]), without_sources="skip")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="the model 'nothing:x' is unknown"):
        grounded("nothing:x")
