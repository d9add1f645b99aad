"""An unreadable answer is requested again with a list of its problems, within the budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer, error, stream_reply

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    AsyncStream,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    ContentFilterError,
    DefinitionError,
    FinishError,
    FinishReason,
    Image,
    ModelError,
    ModelServerError,
    OpenAiChatModel,
    OutputParsingError,
    Problem,
    RefusalError,
    Result,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    Stream,
    SuspendedCall,
    SuspendedCallError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    TruncatedError,
    Usage,
    UserMessage,
    create,
    resume,
    system_message,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.structured_model import structured
from aiservices.synthesis import Synthesizer

PLAIN = Capabilities(json_schema=True)
TOOLS = Capabilities(tools=True)
AT_ONCE = Budget(max_attempts=3, first_wait=0)
ANN = '{"name": "Ann", "age": 31}'
OLD = '{"name": "Ann", "age": "old"}'
PROBLEM = Problem("$.age", "expected an integer", '"old"')
PROBLEMS_MESSAGE = (
    "That answer cannot be read:\n"
    '- $.age: expected an integer, found "old"\n'
    "Answer again in full and fix these problems."
)


@dataclass
class Person:
    name: str
    age: int


class People(Protocol):
    def person(self, text: str) -> Person: ...

    def told(self, text: str) -> Result[Person]: ...

    async def aperson(self, text: str) -> Person: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def agrow(self, text: str) -> AsyncStream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def aeach(self, text: str) -> AsyncIterator[Person]: ...


def scripted(*replies: str | ChatReply | Exception, capabilities: Capabilities = PLAIN) -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=capabilities)


def people(model: Any, retry: Retry | None = Retry(), budget: Budget = AT_ONCE) -> People:  # noqa: B008
    return create(People, model, retry=retry, budget=budget)


async def collected(items: AsyncIterator[Person]) -> list[Person]:
    return [item async for item in items]


async def result_of(stream: AsyncStream[Person]) -> Result[Person]:
    return await stream.result()


ONE: dict[str, Callable[[People], Person]] = {
    "blocking": lambda service: service.person("x"),
    "async": lambda service: asyncio.run(service.aperson("x")),
    "stream": lambda service: service.grow("x").result().value,
    "async stream": lambda service: asyncio.run(result_of(service.agrow("x"))).value,
}
every_kind = pytest.mark.parametrize("kind", ONE)


def used(text: str, *tokens: int) -> ChatReply:
    return ChatReply(AiMessage(text), usage=Usage(*tokens))


def calling(arguments: str, name: str = "Person", number: str = "c1") -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall(number, name, arguments),)), FinishReason.TOOL_CALLS)


# feedback for the model


@every_kind
def test_the_model_sees_its_answer_and_what_is_wrong_with_it(kind: str) -> None:
    model = scripted(OLD, ANN)
    assert ONE[kind](people(model)) == Person("Ann", 31)
    assert [request.messages for request in model.requests] == [
        (UserMessage("x"),),
        (UserMessage("x"), AiMessage(OLD), UserMessage(PROBLEMS_MESSAGE)),
    ]


def test_nothing_else_of_the_request_changes() -> None:
    model = scripted(OLD, ANN)
    people(model).person("x")
    first, second = model.requests
    assert second == ChatRequest(second.messages, first.options, first.response_format, first.tooling)


def test_all_problems_are_reported_together() -> None:
    model = scripted('{"age": "old"}', ANN)
    people(model).person("x")
    with pytest.raises(ServiceOutputError) as caught:
        people(scripted('{"age": "old"}'), retry=None).person("x")
    lines = [f"- {problem}" for problem in caught.value.problems]
    assert len(lines) == 2
    assert model.requests[1].messages[-1].text.splitlines()[1:-1] == lines


def test_the_model_gets_twenty_problems_and_the_number_of_others() -> None:
    class Numbers(Protocol):
        def numbers(self, text: str) -> list[int]: ...

    model = scripted('{"value": [' + ", ".join(['"x"'] * 23) + "]}", '{"value": [1]}')
    assert create(Numbers, model, budget=AT_ONCE).numbers("x") == [1]
    lines = model.requests[1].messages[-1].text.splitlines()
    assert (len(lines), lines[1], lines[20], lines[21]) == (
        23,
        '- $.value[0]: expected an integer, found "x"',
        '- $.value[19]: expected an integer, found "x"',
        "- and 3 more",
    )


def test_the_model_sees_only_its_last_answer() -> None:
    model = scripted("a", OLD, ANN)
    people(model).person("x")
    assert model.requests[2].messages == (UserMessage("x"), AiMessage(OLD), UserMessage(PROBLEMS_MESSAGE))


def test_an_empty_answer_is_not_shown() -> None:
    model = scripted("", ANN)
    people(model).person("x")
    first, told = model.requests[1].messages
    assert (first, type(told)) == (UserMessage("x"), UserMessage)


def test_a_call_of_a_tool_is_answered_as_tools_are() -> None:
    model = scripted(calling(OLD), calling(ANN), capabilities=TOOLS)
    assert people(model).person("x") == Person("Ann", 31)
    assert model.requests[1].messages == (
        UserMessage("x"),
        AiMessage("", (ToolCall("c1", "Person", OLD),)),
        ToolMessage("c1", "Person", PROBLEMS_MESSAGE),
    )


@pytest.mark.parametrize(
    ("text", "shown"), [("", ()), ("Let me look.", (AiMessage("Let me look."),))], ids=["alone", "with text"]
)
def test_a_call_of_a_tool_that_was_not_offered_is_not_shown(text: str, shown: tuple[AiMessage, ...]) -> None:
    class Chat(Protocol):
        def reply(self, text: str) -> str: ...

    model = scripted(ChatReply(AiMessage(text, (ToolCall("c1", "search", "{}"),))), "Hello!")
    assert create(Chat, model, budget=AT_ONCE).reply("x") == "Hello!"
    problem = UserMessage(
        "That answer cannot be read:\n"
        "- $: expected the answer as text; the model called search, which was not offered\n"
        "Answer again in full and fix these problems."
    )
    assert model.requests[1].messages == (UserMessage("x"), *shown, problem)


def test_every_call_of_an_answer_is_answered() -> None:
    calls = (ToolCall("c1", "Person", ANN), ToolCall("c2", "search", "{}"))
    model = scripted(ChatReply(AiMessage("", calls)), calling(ANN), capabilities=TOOLS)
    people(model).person("x")
    told = (
        "That answer cannot be read:\n"
        "- $: expected a call of Person and no other; the model called search\n"
        "Answer again in full and fix these problems."
    )
    assert model.requests[1].messages == (
        UserMessage("x"),
        AiMessage("", calls),
        ToolMessage("c1", "Person", told),
        ToolMessage("c2", "search", told),
    )


def test_text_instead_of_a_call_is_answered_by_the_user() -> None:
    model = scripted("I do not know.", calling(ANN), capabilities=TOOLS)
    people(model).person("x")
    first, second, third = model.requests[1].messages
    assert (first, second, type(third)) == (UserMessage("x"), AiMessage("I do not know."), UserMessage)


def test_the_instructions_are_sent_once() -> None:
    model = scripted(OLD, ANN, capabilities=Capabilities())
    people(model).person("x")
    instructions = model.requests[0].messages[0].text.removeprefix("x\n\n")
    assert "Reply" in instructions or "JSON" in instructions
    said = "".join(message.text for message in model.requests[1].messages)
    assert said.count(instructions) == 1


def test_what_an_argument_holds_stays_as_it_is_when_the_answer_is_asked_for_again() -> None:
    model = scripted('{"name": "{{text}}"}', ANN)
    people(model).person("{{ 7 * 7 }}")
    first, second, _ = model.requests[1].messages
    assert (first.text, second.text) == ("{{ 7 * 7 }}", '{"name": "{{text}}"}')


def test_system_message_and_template_are_sent_again_unchanged() -> None:
    class Clerk(Protocol):
        @system_message("You keep the books.")
        @user_message("Who is {{name}}?")
        def person(self, name: str) -> Person: ...

    model = scripted(OLD, ANN)
    create(Clerk, model, budget=AT_ONCE).person("Ann")
    assert model.requests[1].messages == (
        SystemMessage("You keep the books."),
        UserMessage("Who is Ann?"),
        AiMessage(OLD),
        UserMessage(PROBLEMS_MESSAGE),
    )


# how often


def test_answers_are_asked_for_as_often_as_the_budget_permits() -> None:
    model = scripted(*[OLD] * 9)
    with pytest.raises(ServiceOutputError):
        people(model, budget=Budget(max_attempts=4)).person("x")
    assert len(model.requests) == 4


@every_kind
@pytest.mark.parametrize(("most", "asked"), [(1, 1), (2, 2), (3, 3), (None, 3)])
def test_max_attempts_and_the_budget_both_bound_the_answers(kind: str, most: int | None, asked: int) -> None:
    model = scripted(*[OLD] * 9)
    with pytest.raises(ServiceOutputError) as caught:
        ONE[kind](people(model, Retry(most)))
    assert (len(model.requests), len(caught.value.attempts)) == (asked, asked)


EXCEEDS = (
    "Retry(max_attempts=6) exceeds the budget of 3 requests; "
    "pass budget=Budget(max_attempts=6), or a smaller number to Retry"
)


@pytest.mark.parametrize("settings", [{"retry": Retry(6)}, {"interceptors": [Retry(6)]}])
def test_a_retry_that_the_budget_does_not_allow_is_reported(settings: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as of_create:
        create(People, scripted(), **settings)
    with pytest.raises(DefinitionError) as of_structured:
        structured(scripted(), Person, **settings)
    with pytest.raises(DefinitionError) as of_agent:
        ReActAgent("Friday", "Be brief.", scripted(), **settings)
    assert str(of_create.value) == f"People: {EXCEEDS}"
    assert str(of_structured.value) == f"structured: {EXCEEDS}"
    assert str(of_agent.value) == f"Friday.reply: {EXCEEDS}"


def test_a_retry_that_the_budget_of_a_synthesizer_does_not_allow_is_reported() -> None:
    with pytest.raises(DefinitionError) as caught:
        Synthesizer(scripted(), "refine", str, retry=Retry(6))
    assert str(caught.value) == f"Synthesis[str]: {EXCEEDS}"


def test_a_budget_for_all_answers_of_a_retry_is_accepted() -> None:
    model = scripted(*[OLD] * 5, ANN)
    assert people(model, Retry(6), Budget(max_attempts=6)).person("x") == Person("Ann", 31)


def test_without_retry_nothing_is_asked_again() -> None:
    model = scripted(OLD, ANN)
    with pytest.raises(ServiceOutputError):
        people(model, None).person("x")
    assert len(model.requests) == 1


def test_max_attempts_counts_answers_and_not_requests_that_failed() -> None:
    passing = ModelServerError("500", status=500, retryable=True)
    model = scripted(passing, OLD, passing, ANN)
    assert people(model, Retry(2), Budget(max_attempts=9, first_wait=0)).person("x") == Person("Ann", 31)


def test_failed_requests_and_bad_answers_share_one_budget() -> None:
    passing = ModelServerError("500", status=500, retryable=True)
    model = scripted(passing, OLD, passing, ANN)
    with pytest.raises(ModelServerError) as caught:
        people(model).person("x")
    assert (len(model.requests), len(caught.value.attempts)) == (3, 3)


@pytest.mark.parametrize("most", [0, -1])
def test_less_than_one_answer_cannot_be_asked_for(most: int) -> None:
    with pytest.raises(DefinitionError) as caught:
        Retry(most)
    assert str(caught.value) == f"Retry: max_attempts is {most}; it must be at least 1"


def test_an_unknown_mode_is_reported_with_all_other_problems() -> None:
    with pytest.raises(DefinitionError) as caught:
        Retry(0, mode="parts")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "2 problems:\n"
        "  - Retry: max_attempts is 0; it must be at least 1\n"
        '  - Retry: mode is \'parts\'; it must be "whole" or "fields"'
    )


def test_tokens_that_are_used_up_end_the_asking() -> None:
    model = scripted(used(OLD, 6, 4), ANN)
    with pytest.raises(ServiceOutputError) as caught:
        people(model, budget=Budget(tokens=10)).person("x")
    assert (len(model.requests), caught.value.usage) == (1, Usage(6, 4))
    assert str(caught.value).endswith(
        "; no further request: budget exceeded: 10 of 10 tokens used; raise Budget(tokens=…)"
    )


# how errors are reported


def test_the_result_has_all_attempts_and_the_usage_of_all() -> None:
    model = scripted(used(OLD, 5, 7), used(ANN, 50, 70))
    result = people(model).told("x")
    assert (result.value, result.text, result.usage, result.coercions) == (
        Person("Ann", 31),
        ANN,
        Usage(55, 77),
        (),
    )
    assert [(attempt.text, attempt.strategy, type(attempt.error)) for attempt in result.attempts] == [
        (OLD, Strategy.JSON_SCHEMA, OutputParsingError),
        (ANN, Strategy.JSON_SCHEMA, type(None)),
    ]


@every_kind
def test_the_error_has_all_attempts_and_the_usage_of_all(kind: str) -> None:
    model = scripted(used("a", 1, 1), used("b", 2, 2), used(OLD, 3, 3))
    with pytest.raises(ServiceOutputError) as caught:
        ONE[kind](people(model))
    found = caught.value
    assert (found.text, found.problems, found.usage, [attempt.text for attempt in found.attempts]) == (
        OLD,
        (PROBLEM,),
        Usage(6, 6),
        ["a", "b", OLD],
    )
    assert found.__cause__ is None


def test_the_error_names_its_method_once() -> None:
    with pytest.raises(ServiceOutputError) as caught:
        people(scripted(OLD, OLD, OLD)).person("x")
    assert (str(caught.value).count("People.person: "), caught.value.qualname) == (1, "People.person")


# errors without another request


@every_kind
@pytest.mark.parametrize(
    ("reply", "kind_of_error"),
    [
        (ChatReply(AiMessage(OLD), refusal="No."), RefusalError),
        (ChatReply(AiMessage(OLD), FinishReason.LENGTH), TruncatedError),
        (ChatReply(AiMessage(OLD), FinishReason.CONTENT_FILTER), ContentFilterError),
    ],
)
def test_an_answer_that_was_not_finished_is_not_asked_for_again(
    kind: str, reply: ChatReply, kind_of_error: type[FinishError]
) -> None:
    model = scripted(reply, ANN)
    with pytest.raises(kind_of_error) as caught:
        ONE[kind](people(model))
    assert (len(model.requests), [attempt.reply for attempt in caught.value.attempts]) == (1, [reply])


@every_kind
def test_a_model_error_that_will_not_pass_is_not_asked_again(kind: str) -> None:
    model = scripted(ModelError("no"), ANN)
    with pytest.raises(ModelError):
        ONE[kind](people(model))
    assert len(model.requests) == 1


def test_no_answer_is_requested_again_after_an_item_was_yielded() -> None:
    model = scripted(f'{{"value": [{ANN}, {OLD}]}}', f'{{"value": [{ANN}]}}')
    given: list[Person] = []
    with pytest.raises(ServiceOutputError) as caught:
        given.extend(people(model).each("x"))
    assert (len(model.requests), caught.value.text) == (1, OLD)


def test_no_answer_is_requested_again_after_an_item_was_yielded_in_async_calls() -> None:
    model = scripted(f'{{"value": [{ANN}, {OLD}]}}', f'{{"value": [{ANN}]}}')
    with pytest.raises(ServiceOutputError) as caught:
        asyncio.run(collected(people(model).aeach("x")))
    assert (len(model.requests), caught.value.text) == (1, OLD)


def test_a_list_that_breaks_off_after_an_item_is_not_asked_for_again() -> None:
    model = scripted(f'{{"value": [{ANN}, ', f'{{"value": [{ANN}]}}')
    given: list[Person] = []
    with pytest.raises(ServiceOutputError):
        given.extend(people(model).each("x"))
    assert (given, len(model.requests)) == ([Person("Ann", 31)], 1)


def test_a_list_is_asked_for_again_while_no_item_was_yielded() -> None:
    model = scripted("There are none.", f'{{"value": [{ANN}]}}')
    assert (list(people(model).each("x")), len(model.requests)) == ([Person("Ann", 31)], 2)


def test_a_list_whose_first_item_does_not_fit_is_asked_for_again() -> None:
    model = scripted(f'{{"value": [{OLD}, {ANN}]}}', f'{{"value": [{ANN}]}}')
    assert (list(people(model).each("x")), len(model.requests)) == ([Person("Ann", 31)], 2)


def test_a_list_whose_first_item_does_not_fit_is_asked_for_again_in_async_calls() -> None:
    model = scripted(f'{{"value": [{OLD}, {ANN}]}}', f'{{"value": [{ANN}]}}')
    assert (asyncio.run(collected(people(model).aeach("x"))), len(model.requests)) == ([Person("Ann", 31)], 2)


# with other interceptors


def test_other_interceptors_see_only_the_answer_that_was_accepted() -> None:
    seen: list[Any] = []

    def watching(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        seen.append((answer.value, invocation.request.messages))
        return answer

    model = scripted(OLD, ANN)
    create(People, model, interceptors=[watching], budget=AT_ONCE).person("x")
    assert seen == [(Person("Ann", 31), (UserMessage("x"),))]


def test_a_retry_may_be_put_anywhere_as_an_interceptor() -> None:
    model = scripted(OLD, ANN)
    service = create(People, model, interceptors=[Retry(2)], retry=None, budget=AT_ONCE)
    assert service.person("x") == Person("Ann", 31)


def test_an_interceptor_may_reject_or_give_an_answer_before_any_request() -> None:
    """It may have an answer of its own, for example from a store. Its max_attempts is not that of a Retry."""

    class Stored:
        max_attempts = 9

        def __init__(self) -> None:
            self.is_used = False

        def __call__(self, invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
            if self.is_used:
                return (yield from proceed(invocation))
            self.is_used = True
            if invocation.plan.output_type is str:
                return Answer("", ChatReply(AiMessage("")), (), Strategy.TEXT, (), ())
            problem = Problem("$.age", "expected an integer")
            raise ServiceOutputError("People.person", OLD, (problem,), ())

    for mode in ("whole", "fields"):
        model = scripted(ANN)
        retry = Retry(mode=mode)  # type: ignore[arg-type]
        service = create(People, model, interceptors=[retry, Stored()], budget=AT_ONCE)
        assert service.person("x") == Person("Ann", 31)
        assert model.requests[0].messages[-1] == UserMessage(
            "That answer cannot be read:\n- $.age: expected an integer\n"
            "Answer again in full and fix these problems."
        )
    talk = create(Talk, scripted("hi"), interceptors=[Retry(on_empty=True), Stored()], budget=AT_ONCE)
    assert talk.chat("x").value == "hi"


def test_two_retries_multiply_only_within_the_budget() -> None:
    model = scripted(*[OLD] * 99)
    with pytest.raises(ServiceOutputError):
        create(People, model, interceptors=[Retry()], budget=Budget(max_attempts=5)).person("x")
    assert len(model.requests) == 5


def test_an_interceptor_inside_has_its_changes_made_to_each_attempt() -> None:
    def louder(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return (yield from proceed(replace(invocation, request=invocation.request.plus(UserMessage("!")))))

    model = scripted(OLD, ANN)
    create(People, model, interceptors=[Retry(), louder], retry=None, budget=AT_ONCE).person("x")
    assert model.requests[1].messages == (
        UserMessage("x"),
        AiMessage(OLD),
        UserMessage(PROBLEMS_MESSAGE),
        UserMessage("!"),
    )


def test_a_retry_has_no_state_of_a_call() -> None:
    service = people(scripted(OLD, ANN, OLD, ANN), Retry(2))
    assert [service.person("x"), service.person("x")] == [Person("Ann", 31)] * 2


# the parts of an answer only


def test_only_the_fields_that_do_not_fit_are_asked_for_again() -> None:
    model = scripted(OLD, '{"age": 31}')
    result = people(model, Retry(mode="fields")).told("x")
    assert (result.value, len(result.attempts)) == (Person("Ann", 31), 2)
    assert [(coercion.path, coercion.rule) for coercion in result.coercions] == [("$.age", "requested again")]
    assert model.requests[1].messages == (
        UserMessage("x"),
        AiMessage(OLD),
        UserMessage(
            "That answer cannot be read:\n"
            '- $.age: expected an integer, found "old"\n'
            "Write only these parts again and fix the problems."
        ),
    )


def test_an_answer_that_is_none_is_asked_for_in_full_though_only_fields_were_wanted() -> None:
    model = scripted("I do not know.", ANN)
    assert people(model, Retry(mode="fields")).person("x") == Person("Ann", 31)
    assert model.requests[1].messages[-1].text.endswith("Answer again in full and fix these problems.")


def test_fields_are_asked_for_within_the_budget_too() -> None:
    model = scripted(OLD, *['{"age": "old"}'] * 9)
    with pytest.raises(ServiceOutputError) as caught:
        people(model, Retry(mode="fields")).person("x")
    assert (len(model.requests), len(caught.value.attempts)) == (3, 3)


@every_kind
def test_fields_are_asked_for_again_in_every_kind_of_call(kind: str) -> None:
    model = scripted(OLD, '{"age": 31}')
    assert ONE[kind](people(model, Retry(mode="fields"))) == Person("Ann", 31)


# over HTTP


def over_http(loopback: Loopback) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=PLAIN)


@every_kind
@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_a_server_that_never_gives_a_fitting_answer_gets_exactly_the_budget(
    loopback: Loopback, kind: str, attempts: int
) -> None:
    loopback.reply(stream_reply([OLD]) if "stream" in kind else answer(OLD))
    model = over_http(loopback)
    with pytest.raises(ServiceOutputError) as caught:
        ONE[kind](people(model, budget=Budget(max_attempts=attempts, first_wait=0)))
    model.close()
    assert (len(loopback.requests), len(caught.value.attempts)) == (attempts, attempts)


@every_kind
@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_a_server_that_fails_for_ever_gets_exactly_the_budget(
    loopback: Loopback, kind: str, attempts: int
) -> None:
    loopback.reply(error(500, "boom"))
    model = over_http(loopback)
    with pytest.raises(ModelServerError) as caught:
        ONE[kind](people(model, budget=Budget(max_attempts=attempts, first_wait=0)))
    model.close()
    assert (len(loopback.requests), len(caught.value.attempts)) == (attempts, attempts)


def test_the_server_sees_the_answer_and_the_problems(loopback: Loopback) -> None:
    loopback.reply(answer(OLD), answer(ANN))
    with over_http(loopback) as model:
        people(model).person("x")
    assert loopback.requests[1].json["messages"] == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": OLD},
        {"role": "user", "content": PROBLEMS_MESSAGE},
    ]


@pytest.mark.parametrize("is_suspended", [False, True])
def test_a_second_rejected_answer_replaces_the_first_one_also_after_an_approval(is_suspended: bool) -> None:
    class Shop(Protocol):
        @user_message("How many?")
        def count(self) -> int: ...

    @tool(needs_approval=is_suspended)
    def look() -> str:
        return "three"

    calls = [ChatReply(AiMessage("", (ToolCall(name, "look", "{}"),))) for name in ("c1", "c2", "c3")]
    model = ScriptedChatModel([calls[0], "many", calls[1], calls[2], "lots", '{"value": 3}'])
    shop = create(Shop, model, tools=[look])
    call = shop.count
    while True:
        try:
            assert call() == 3
            break
        except ApprovalRequiredError as error:
            state = SuspendedCall.from_json(error.state.to_json())
            call = partial(resume, shop.count, state, True)
    messages = model.requests[-1].messages
    assert [message.text for message in messages[:8]] == [
        "How many?",
        "",
        "three",
        "",
        "three",
        "",
        "three",
        "lots",
    ]
    assert 'found "lots"' in messages[8].text


@pytest.mark.parametrize("kept", [5, [1], [-1, 0], [1.5, 0], ["1", "0"]])
def test_damaged_counts_of_a_suspended_call_are_an_error(kept: object) -> None:
    class Shop(Protocol):
        @user_message("How many?")
        def count(self) -> int: ...

    @tool(needs_approval=True)
    def look() -> str:
        return "three"

    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("c1", "look", "{}"),)))])
    shop = create(Shop, model, tools=[look])
    with pytest.raises(ApprovalRequiredError) as caught:
        shop.count()
    state = caught.value.state._replace(interceptor_data={"retry": kept})
    with pytest.raises(SuspendedCallError, match="is not what was stored there"):
        resume(shop.count, state, True)


class Talk(Protocol):
    def chat(self, text: str) -> Result[str]: ...

    def message(self, text: str) -> AiMessage: ...

    async def achat(self, text: str) -> Result[str]: ...

    def grow(self, text: str) -> Stream[str]: ...

    def agrow(self, text: str) -> AsyncStream[str]: ...


EMPTY_MESSAGE = (
    "That answer cannot be read:\n- $: the answer is empty\nAnswer again in full and fix these problems."
)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_text_is_requested_again_if_that_is_wanted(empty: str) -> None:
    async def streamed(service: Talk) -> Any:
        return await service.agrow("x").result()

    kinds: list[Callable[[Talk], Any]] = [
        lambda service: service.chat("x"),
        lambda service: asyncio.run(service.achat("x")),
    ]
    if not empty:  # a stream has shown the line break
        kinds += [lambda service: service.grow("x").result(), lambda service: asyncio.run(streamed(service))]
    for call in kinds:
        model = scripted(empty, "hi")
        result = call(create(Talk, model, retry=Retry(on_empty=True)))
        assert (result.value, len(result.attempts)) == ("hi", 2)
        assert result.attempts[0].error.problems == (Problem("$", "the answer is empty"),)
        assert model.requests[1].messages[-1] == UserMessage(EMPTY_MESSAGE)
    model = scripted(empty, "hi")
    assert create(Talk, model, retry=Retry(on_empty=True)).message("x") == AiMessage("hi")


def test_an_empty_text_is_a_value_by_default() -> None:
    assert create(Talk, scripted("")).chat("x").value == ""


def test_an_image_or_the_result_of_a_tool_is_an_answer_although_its_text_is_empty() -> None:
    @tool(return_behavior="immediate")
    def read() -> str:
        return ""

    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
    drawn = scripted(ChatReply(AiMessage("", contents=(image,))))
    assert create(Talk, drawn, retry=Retry(on_empty=True)).message("x").contents == (image,)

    class Reader(Protocol):
        def chat(self, text: str) -> str: ...

    called = scripted(ChatReply(AiMessage("", (ToolCall("c1", "read", "{}"),))), capabilities=TOOLS)
    assert create(Reader, called, retry=Retry(on_empty=True), tools=[read]).chat("x") == ""


def test_only_empty_texts_are_an_error_after_all_attempts() -> None:
    service = create(Talk, scripted("", "", ""), retry=Retry(on_empty=True))
    with pytest.raises(ServiceOutputError, match="the answer is empty") as caught:
        service.chat("x")
    assert len(caught.value.attempts) == 3


def test_an_empty_reply_without_a_value_is_requested_again() -> None:
    assert people(scripted("", ANN)).person("x") == Person("Ann", 31)


def test_a_wrong_setting_for_empty_texts_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="on_empty is 1; it must be True or False"):
        Retry(on_empty=1)  # type: ignore[arg-type]
