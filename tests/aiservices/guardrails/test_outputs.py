"""Output guards get the text or value of an answer, and their verdicts change or reject the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pytest
from hypothesis import given, strategies as st

from aiservices import (
    AiMessage,
    Budget,
    ChatReply,
    DefinitionError,
    OutputParsingError,
    ReplyDelta,
    Result,
    Retry,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.guardrails import (
    Guard,
    GuardrailError,
    GuardrailRan,
    OutputGuardrails,
    Passed,
    Reprompt,
    Rewritten,
    ensure,
    forbidden,
    masked,
    passed,
    refused,
    reprompt,
    retry,
    rewritten,
)
from aiservices.interceptors import Answer, Emit, Flow, Invocation, Proceed
from output_parsers.parser.reasoning import may_have_reasoning


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...


class Counter(Protocol):
    def count(self, text: str) -> Result[int]: ...


@dataclass
class Person:
    name: str
    age: int


class Census(Protocol):
    def person(self, text: str) -> Result[Person]: ...


def saying(verdict: Any) -> Any:
    def says(subject: Any, invocation: Invocation) -> Any:
        return verdict

    return says


def rejecting(*verdicts: Any) -> Any:
    left = [*verdicts]

    def rejects(subject: Any, invocation: Invocation) -> Any:
        return left.pop(0) if left else passed()

    return rejects


def failing(interface: Any, replies: list[Any], *guards: Any, budget: Budget | None = None) -> GuardrailError:
    (name,) = (name for name in vars(interface) if not name.startswith("_"))
    service = create(interface, ScriptedChatModel(replies), interceptors=[*guards], budget=budget)
    with pytest.raises(GuardrailError) as caught:
        getattr(service, name)("x")
    return caught.value


def test_an_error_has_the_guard_the_reason_and_the_attempts() -> None:
    error = failing(Chat, ["a b"], OutputGuardrails(saying(refused("too short"))))
    assert (str(error), error.guard, error.stage, error.reason, error.qualname) == (
        "Chat.chat: the output guard says refused: too short",
        "says",
        "output",
        "too short",
        "Chat.chat",
    )
    assert [attempt.text for attempt in error.attempts] == ["a b"]


@pytest.mark.parametrize("most", [1, 2, 3, 6])
@pytest.mark.parametrize("again", [retry, reprompt])
def test_max_attempts_counts_the_first_answer(most: int, again: Any) -> None:
    guards = OutputGuardrails(saying(again("no good")), max_attempts=most)
    error = failing(Chat, ["a"] * 9, guards, budget=Budget(max_attempts=9))
    answers = "its only answer" if most == 1 else f"all {most} answers"
    assert (str(error), len(error.attempts), error.reason) == (
        f"Chat.chat: the output guard says rejected {answers}: no good",
        most,
        "no good",
    )


def test_the_last_attempt_can_pass() -> None:
    guards = OutputGuardrails(rejecting(retry("1"), retry("2")), max_attempts=3)
    result = create(Chat, ScriptedChatModel(["a", "b", "c"]), interceptors=[guards]).chat("x")
    assert (result.value, [attempt.text for attempt in result.attempts]) == ("c", ["a", "b", "c"])


def test_the_budget_limits_the_requests() -> None:
    guards = OutputGuardrails(saying(retry("no good")))
    error = failing(Chat, ["a"] * 9, guards, budget=Budget(max_attempts=2))
    assert (str(error), len(error.attempts)) == (
        "Chat.chat: the output guard says rejected all 2 answers: no good; "
        "no further request: budget exceeded: 2 of 2 attempts used; raise Budget(max_attempts=…)",
        2,
    )


def test_more_attempts_than_the_budget_permits_are_a_definition_error() -> None:
    guards = OutputGuardrails(saying(passed()), max_attempts=10)
    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([]), interceptors=[guards])
    assert str(caught.value) == (
        "Chat: OutputGuardrails(max_attempts=10) exceeds the budget of 3 requests; "
        "pass budget=Budget(max_attempts=10), or a smaller number to OutputGuardrails"
    )


def test_unreadable_and_rejected_answers_share_the_budget() -> None:
    guards = OutputGuardrails(saying(retry("no good")), max_attempts=3)
    error = failing(Counter, ["many", "7", "7"], guards, budget=Budget(max_attempts=3))
    assert [attempt.text for attempt in error.attempts] == ["many", "7", "7"]


def test_the_model_is_not_asked_again_after_text_was_yielded() -> None:
    class Writer(Protocol):
        def write(self, text: str) -> Iterator[str]: ...

    def greeting(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield Emit(ReplyDelta("so: "))
        return (yield from proceed(invocation))

    guards = OutputGuardrails(saying(retry("no good")))
    writer = create(Writer, ScriptedChatModel(["a", "b"]), interceptors=[greeting, guards])
    with pytest.raises(GuardrailError) as caught:
        list(writer.write("x"))
    assert str(caught.value).endswith(": no good; no further request: a stream has already handed out text")


def test_the_model_gets_each_rejected_answer_and_the_reason() -> None:
    model = ScriptedChatModel(["a", "b", "c"])
    guards = OutputGuardrails(rejecting(reprompt("not a"), reprompt("not b")))
    create(Chat, model, interceptors=[guards]).chat("x")
    assert model.requests[2].messages == (
        UserMessage("x"),
        AiMessage("a"),
        UserMessage("not a"),
        AiMessage("b"),
        UserMessage("not b"),
    )


def test_an_answer_without_text_is_not_shown_to_the_model() -> None:
    model = ScriptedChatModel(["", "b"])
    create(Chat, model, interceptors=[OutputGuardrails(rejecting(reprompt("say something")))]).chat("x")
    assert model.requests[1].messages == (UserMessage("x"), UserMessage("say something"))


def test_each_guard_gets_what_the_guard_before_returned() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten(text + "!")

    guards = OutputGuardrails(note, note, note)
    result = create(Chat, ScriptedChatModel(["a"]), interceptors=[guards]).chat("x")
    assert (result.value, result.text, seen) == ("a!!!", "a!!!", ["a", "a!", "a!!"])


def test_all_guards_check_a_new_answer() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return passed()

    guards = OutputGuardrails(note, rejecting(retry("no")))
    create(Chat, ScriptedChatModel(["a", "b"]), interceptors=[guards]).chat("x")
    assert seen == ["a", "b"]


def test_a_model_sees_its_own_answer_and_not_the_text_of_a_guard() -> None:
    model = ScriptedChatModel(["a SECRET", "b"])
    guards = OutputGuardrails(masked("SECRET"), rejecting(reprompt("again")))
    create(Chat, model, interceptors=[guards]).chat("x")
    assert model.requests[1].messages[1] == AiMessage("a SECRET")


def test_a_rewritten_text_is_parsed_again() -> None:
    seen: list[str] = []

    def more(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten(text.replace("4", "5"))

    model = ScriptedChatModel(['{"value": 42}'])
    result = create(Counter, model, interceptors=[OutputGuardrails(more)]).count("x")
    assert (result.value, result.text, seen) == (52, '{"value": 52}', ["42"])


def test_the_text_of_an_output_tool_call_is_its_arguments() -> None:
    class Tooled(Protocol):
        def count(self, text: str) -> Result[int]: ...

    reply = ChatReply(AiMessage("", (ToolCall("1", "int", '{"value": 42}'),)))
    guards = OutputGuardrails(rejecting(reprompt("more"), rewritten('{"value": 43}')))
    model = ScriptedChatModel([reply, reply])
    result = create(Tooled, model, strategy="output_tool", interceptors=[guards]).count("x")
    assert (result.value, result.reply.message.tool_calls) == (43, (ToolCall("1", "int", '{"value": 43}'),))
    assert model.requests[1].messages[1:] == (reply.message, ToolMessage("1", "int", "more"))


def test_rewriting_a_text_into_another_type_is_an_error_of_the_guard() -> None:
    error = failing(Counter, ["42"], OutputGuardrails(saying(rewritten("many"))))
    assert (str(error), type(error.__cause__)) == (
        "Counter.count: the output guard says failed: OutputParsingError: cannot read the text: $: "
        "expected an integer, found \"many\" (the text: 'many')",
        OutputParsingError,
    )


def test_a_text_is_rewritten_as_a_text() -> None:
    error = failing(Counter, ["42"], OutputGuardrails(saying(rewritten(43))))
    assert str(error) == "Counter.count: the output guard says failed: TypeError: it rewrote a text as int"


def test_a_guard_can_check_and_rewrite_the_value() -> None:
    def older(person: Person, invocation: Invocation) -> Any:
        return rewritten(replace(person, age=person.age + 1))

    guards = OutputGuardrails(older, older, on="value")
    result = create(Census, ScriptedChatModel(['{"name": "Ann", "age": 30}']), interceptors=[guards]).person(
        "x"
    )
    assert (result.value, result.text) == (Person("Ann", 32), '{"name": "Ann", "age": 32}')


def test_a_value_is_rewritten_as_a_value_of_the_type() -> None:
    error = failing(
        Census, ['{"name": "Ann", "age": 30}'], OutputGuardrails(saying(rewritten("Ann")), on="value")
    )
    assert str(error) == (
        "Census.person: the output guard says failed: ValueError: 'Ann' is not a value of the method's type"
    )


def test_a_guard_object_chooses_its_own_subject() -> None:
    seen: list[Any] = []

    def note(subject: Any, invocation: Invocation) -> Any:
        seen.append(subject)
        return passed()

    guards = OutputGuardrails(Guard(note, on="value"), note, Guard(note, on="text"))
    create(Counter, ScriptedChatModel(['{"value": 42}']), interceptors=[guards]).count("x")
    assert seen == [42, "42", "42"]


def test_the_text_follows_a_rewritten_value() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten(text.replace("43", "44"))

    more = Guard(lambda value, invocation: rewritten(value + 1), "more", "value")
    result = create(
        Counter,
        ScriptedChatModel(['```json\n{"value": 42}\n```']),
        interceptors=[OutputGuardrails(more, note)],
    ).count("x")
    assert (result.value, seen) == (44, ["43"])


def test_guards_see_a_repaired_answer_completely() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return reprompt("an older one") if len(seen) == 1 else passed()

    model = ScriptedChatModel(['{"name": "Ann", "age": "old"}', '{"age": 31}', '{"name": "Bo", "age": 77}'])
    service = create(Census, model, retry=Retry(mode="fields"), interceptors=[OutputGuardrails(note)])
    assert service.person("x").value == Person("Bo", 77)
    assert seen == ["Ann", "Bo"]
    assert model.requests[2].messages == (
        UserMessage("x"),
        AiMessage('{"name": "Ann", "age": 31}'),
        UserMessage("an older one"),
    )


def test_the_text_of_a_changed_answer_is_its_value() -> None:
    def louder(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        return replace(answer, value=answer.value.upper())

    error = failing(Chat, ["a secret"], OutputGuardrails(forbidden(re.compile("SECRET"))), louder)
    assert error.reason == "the text contains a match of 'SECRET', which is forbidden"


def test_an_answer_of_an_interceptor_is_guarded_too() -> None:
    def answering(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer(7, ChatReply(AiMessage("7")), ())
        yield

    guards = OutputGuardrails(masked("7", by="8"))
    result = create(Counter, ScriptedChatModel([]), interceptors=[guards, answering]).count("x")
    assert result.value == 8


def test_guards_see_the_value_as_text_if_the_reply_differs_from_it() -> None:
    def otherwise(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield from proceed(invocation)
        return Answer(7, ChatReply(AiMessage("as many as there are dwarfs")), ())

    model = ScriptedChatModel(["1", "2"])
    guards = OutputGuardrails(rejecting(reprompt("more"), rewritten("8")))
    assert create(Counter, model, interceptors=[guards, otherwise]).count("x").value == 8
    assert model.requests[1].messages == (
        UserMessage("x"),
        AiMessage('{"value": 7}'),
        UserMessage("more"),
    )


def test_a_method_that_returns_the_reply_is_guarded() -> None:
    class Raw(Protocol):
        def reply(self, text: str) -> ChatReply: ...

    original = ChatReply(AiMessage("a SECRET", reasoning="SECRET"), raw=b'{"SECRET": 1}')
    guards = OutputGuardrails(masked("SECRET"))
    reply = create(Raw, ScriptedChatModel([original]), interceptors=[guards]).reply("x")
    assert reply == ChatReply(AiMessage("a ***"))


def test_the_value_may_be_the_reply_itself() -> None:
    class Raw(Protocol):
        def reply(self, text: str) -> AiMessage: ...

    def shorter(value: AiMessage, invocation: Invocation) -> Any:
        return rewritten(AiMessage(value.text[:1])) if value.text else rewritten("nothing")

    service = create(
        Raw, ScriptedChatModel(["abc", ""]), interceptors=[OutputGuardrails(shorter, on="value")]
    )
    assert service.reply("x") == AiMessage("a")
    with pytest.raises(GuardrailError, match="ValueError: 'nothing' is not a value of the method's type"):
        service.reply("x")


def test_a_reply_of_an_interceptor_is_rewritten_as_a_reply() -> None:
    class Raw(Protocol):
        def reply(self, text: str) -> AiMessage: ...

    def answering(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        message = AiMessage("a SECRET")
        return Answer(message, ChatReply(message), ())
        yield

    guards = OutputGuardrails(masked("SECRET"))
    assert create(Raw, ScriptedChatModel([]), interceptors=[guards, answering]).reply("x") == AiMessage(
        "a ***"
    )


class Grade:
    """A type that only a custom parser can read."""

    def __init__(self, said: str) -> None:
        self.said = said

    def __str__(self) -> str:
        return f"the grade {self.said}"


class GradeParser:
    schema = None

    def format_instructions(self) -> str:
        return "Give a grade."

    def parse(self, text: str) -> Grade:
        return Grade(text)


class Teacher(Protocol):
    def grade(self, text: str) -> Grade: ...


def graded(*guards: Any) -> Grade:
    def mine(target: Any, parsers: Any) -> Any:
        return GradeParser() if target.type is Grade else None

    model = ScriptedChatModel(["A", "A"])
    return create(Teacher, model, parsers=[mine], interceptors=[OutputGuardrails(*guards)]).grade("x")


def test_values_of_a_custom_parser_are_guarded_too() -> None:
    better = Guard(lambda value, invocation: rewritten(Grade(value.said + "+")), "better", "value")
    assert graded(masked("A", by="B")).said == "B"
    assert graded(better, better).said == "A++"
    with pytest.raises(GuardrailError, match="ValueError: 'A' is not a value of the method's type"):
        graded(Guard(saying(rewritten("A")), "says", "value"))


def test_coercions_stay_when_a_value_is_rewritten() -> None:
    more = Guard(lambda value, invocation: rewritten(value + 1), "more", "value")
    model = ScriptedChatModel(['```json\n{"value": 42}\n```'])
    result = create(Counter, model, interceptors=[OutputGuardrails(more)]).count("x")
    assert (result.value, len(result.coercions)) == (43, 1)


@pytest.mark.parametrize("on", ["text", "value"])
def test_an_exception_of_a_guard_is_a_guardrail_error(on: Literal["text", "value"]) -> None:
    def broken(subject: Any, invocation: Invocation) -> Any:
        return subject / 0

    error = failing(Chat, ["a"], OutputGuardrails(broken, on=on))
    assert (str(error), type(error.__cause__)) == (
        "Chat.chat: the output guard broken failed: TypeError: unsupported operand type(s) for /: "
        "'str' and 'int'",
        TypeError,
    )


def test_an_error_has_the_text_that_the_guard_checked() -> None:
    assert failing(Chat, ["a secret"], OutputGuardrails(saying(refused("no")))).text == "a secret"
    assert failing(Chat, ["a secret"] * 3, OutputGuardrails(saying(retry("no")))).text == "a secret"
    assert failing(Chat, ["a secret"], OutputGuardrails(saying(None))).text == "a secret"


def test_a_guard_must_return_a_verdict() -> None:
    error = failing(Chat, ["a"], OutputGuardrails(saying(None)))
    assert error.reason == (
        "TypeError: it must return passed(), rewritten(…), retry(…), reprompt(…) or refused(…), "
        "but it returned None"
    )


def test_all_problems_of_the_guards_are_reported_together() -> None:
    with pytest.raises(DefinitionError) as caught:
        OutputGuardrails("SECRET", on="x", max_attempts=0)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "3 problems:\n"
        "  - OutputGuardrails: guards must be functions of (subject, invocation), but number 1 is 'SECRET'\n"
        "  - OutputGuardrails: on is 'x'; it must be one of text, value\n"
        "  - OutputGuardrails: max_attempts is 0; it must be at least 1"
    )
    with pytest.raises(DefinitionError, match='Guard: on is \'mood\'; it must be "text" or "value"'):
        Guard(print, on="mood")  # type: ignore[arg-type]
    for wrong in (lambda text: passed(), Guard(lambda a, b, c: passed())):  # type: ignore[misc]
        with pytest.raises(DefinitionError) as caught:
            OutputGuardrails(wrong)  # type: ignore[arg-type]
        message = "guard number 1 is <lambda>, which cannot be called with (subject, invocation): "
        assert str(caught.value).startswith(f"OutputGuardrails: {message}")
    with pytest.raises(DefinitionError, match="OutputGuardrails: no guard was passed; pass functions"):
        OutputGuardrails()


def test_listeners_get_each_verdict_and_streams_do_not() -> None:
    events: list[Any] = []
    guards = OutputGuardrails(ensure(lambda n: n > 1, "more"), masked("2", by="3"))
    service = create(Counter, ScriptedChatModel(["1", "2"]), interceptors=[guards], listeners=[events.append])
    service.count("x")
    assert [event for event in events if isinstance(event, GuardrailRan)] == [
        GuardrailRan("ensure", "output", Reprompt("more", "more")),
        GuardrailRan("ensure", "output", Passed()),
        GuardrailRan("masked", "output", Rewritten("3")),
    ]


def test_two_output_guardrails_count_their_own_attempts() -> None:
    inner = OutputGuardrails(rejecting(reprompt("i")), max_attempts=2)
    outer = OutputGuardrails(rejecting(reprompt("o")), max_attempts=2)
    model = ScriptedChatModel(["a", "b", "c"])
    assert create(Chat, model, interceptors=[outer, inner]).chat("x").value == "c"
    assert model.requests[2].messages == (UserMessage("x"), AiMessage("b"), UserMessage("o"))


TEXTS = st.text().filter(lambda text: not may_have_reasoning(text))


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4), TEXTS)
def test_rejected_answers_are_neither_the_value_nor_in_the_messages(rejected: list[str], good: str) -> None:
    kept: list[Answer] = []

    def keeping(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        kept.append((yield from proceed(invocation)))
        return kept[0]

    guards = OutputGuardrails(rejecting(*[reprompt("no")] * len(rejected)), max_attempts=9)
    model = ScriptedChatModel([*rejected, good])
    service = create(Chat, model, interceptors=[keeping, guards], budget=Budget(max_attempts=9))
    assert service.chat("x").value == good
    assert (kept[0].messages, len(model.requests)) == ((AiMessage(good),), len(rejected) + 1)
