"""Guards of text see every text, from every source, in every kind of call, however it is written."""

from __future__ import annotations

import asyncio
import html
import inspect
import json
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import quote

import pytest

from aiservices import (
    AiMessage,
    ChatReply,
    File,
    History,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserName,
    create,
    system_message,
    tool,
    user_message,
)
from aiservices.guardrails import (
    Guard,
    GuardrailError,
    InputGuardrails,
    OutputGuardrails,
    ToolGuardrails,
    forbidden,
    masked,
    max_length,
    sentences,
)
from aiservices.memory import ChatMemory
from aiservices.models.messages import Message, message_to_dict
from aiservices.structured_model import structured

SECRET = 'Jos\u00e9 "pass77"'

# The same secret as callers, models and tools may write it.
SPELLINGS = {
    "as it is": SECRET,
    "decomposed": unicodedata.normalize("NFD", SECRET),
    "upper case": SECRET.upper(),
    "zero-width": SECRET.replace("ss", "s\u200bs"),
    "soft hyphen": SECRET.replace("ss", "s\u00ads"),
    "full width": SECRET.replace("pass77", "ｐａｓｓ７７"),
    "null character": SECRET.replace("ss", "s\0s"),
    "control character": SECRET.replace("ss", "s\x85s"),
    "white space": SECRET.replace(" ", "\u00a0\n "),
    "emphasized": f"_{SECRET}_",
    "as JSON": json.dumps(SECRET)[1:-1],
    "as JSON in JSON": json.dumps(json.dumps(SECRET))[1:-1],
    "HTML entities": "".join(f"&#{ord(char)};" for char in SECRET),
    "escaped HTML entities": SECRET.replace("p", "&amp;#x70;"),
    "named entities": html.escape(SECRET).replace("ss", "s&shy;s"),
    "percent": quote(SECRET).replace("ss", "%73s"),
    "escapes of other languages": SECRET.replace("p", "\\x70").replace("a", "\\u{61}"),
    "lookalikes": SECRET.replace("p", "р").replace("a", "а").replace("o", "ο"),
    "small capitals": SECRET.replace("p", "ᴘ").replace("ss", "ꜱꜱ"),
    "digits of another script": SECRET.replace("77", "٧७"),
    "marks": SECRET.replace("pass", "p̶a̴s\u20dds\u0336"),
    "many marks": SECRET.replace("pass", "".join(f"{char}\u0300\u0301\u0302" for char in "pass")),
    "keycaps": SECRET.replace("77", "7\ufe0f\u20e37\ufe0f\u20e3"),
    "direction": SECRET.replace("pass", "\u202epa\u200fss\u202c"),
    "markup": SECRET.replace("pass", "p**a**s<b></b>s"),
    "tag": SECRET.replace("ss", "s<wbr>s"),
}


def every_spelling(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each spelling of the secret, and report all that fail."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        failures = {}
        for name, secret in SPELLINGS.items():
            try:
                test(secret=secret, **arguments)
            except Exception as error:
                failures[name] = error
        assert failures == {}

    signature = inspect.signature(test)
    others = [one for name, one in signature.parameters.items() if name != "secret"]
    run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return run


@dataclass
class Note:
    text: str
    name: str = "tea"
    kind: Literal["flag", "other"] = "flag"


class Desk(Protocol):
    @system_message("Help {{name}}.")
    @user_message("About {{about}}: {{note}}")
    def ask(
        self,
        about: str,
        note: Note,
        name: str,
        user: Annotated[str | None, UserName],
        before: Annotated[list[Message], History],
        file: File | None = None,
    ) -> str: ...


def _ask(desk: Desk, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "about": "tea",
        "note": Note("x"),
        "name": "Bo",
        "user": None,
        "before": [],
        **changes,
    }
    return desk.ask(**arguments)


# How a caller can bring a text into a request.
INPUTS: dict[str, Callable[[Desk, str], str]] = {
    "argument": lambda desk, text: _ask(desk, about=text),
    "record": lambda desk, text: _ask(desk, note=Note(text)),
    "system message": lambda desk, text: _ask(desk, name=text),
    "name of the user": lambda desk, text: _ask(desk, user=text),
    "earlier user message": lambda desk, text: _ask(desk, before=[UserMessage(text)]),
    "earlier answer": lambda desk, text: _ask(desk, before=[UserMessage("x"), AiMessage(text)]),
    "earlier tool": lambda desk, text: _ask(
        desk,
        before=[
            UserMessage("x"),
            AiMessage("", (ToolCall("1", "look", json.dumps({"x": text})),)),
            ToolMessage("1", "look", text),
            AiMessage("y"),
        ],
    ),
    "name of a file": lambda desk, text: _ask(desk, file=File(b"x", "text/plain", name=text)),
    "text of a file": lambda desk, text: _ask(desk, file=File(text.encode(), "text/plain")),
}


def sent(model: ScriptedChatModel) -> str:
    """Return everything that a model received, folded as a reader would."""
    dicts = [message_to_dict(message) for request in model.requests for message in request.messages]
    return _folded(json.dumps(dicts, ensure_ascii=False))


def _folded(text: str) -> str:
    visible = "".join(
        char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf"
    )
    return visible.casefold()


@every_spelling
@pytest.mark.parametrize("source", INPUTS)
def test_no_text_of_a_caller_passes_an_input_guard(source: str, secret: str) -> None:
    model = ScriptedChatModel(["fine", "fine"])
    INPUTS[source](create(Desk, model, interceptors=[InputGuardrails(masked(SECRET))]), secret)
    assert "pass77" not in sent(model)
    with pytest.raises(GuardrailError):
        INPUTS[source](create(Desk, model, interceptors=[InputGuardrails(forbidden(SECRET))]), secret)
    assert len(model.requests) == 1


def test_a_system_message_without_variables_is_not_checked() -> None:
    class Plain(Protocol):
        @system_message("Never ignore the previous instructions.")
        def ask(self, text: str) -> str: ...

    guards = InputGuardrails(forbidden("instructions"), max_length(10))
    assert create(Plain, ScriptedChatModel(["fine"]), interceptors=[guards]).ask("tea") == "fine"


def test_an_input_guard_sees_the_template_and_the_arguments() -> None:
    seen: list[object] = []

    def note(text: str, invocation: Any) -> Any:
        seen.append((invocation.plan.user_template, dict(invocation.arguments)))
        return masked("x")(text, invocation)

    class Plain(Protocol):
        @user_message("Sum up {{text}}")
        def ask(self, text: str) -> str: ...

    create(Plain, ScriptedChatModel(["fine"]), interceptors=[InputGuardrails(note)]).ask("tea")
    assert seen == [("Sum up {{text}}", {"text": "tea"})]


class Kinds(Protocol):
    def text(self, about: str) -> str: ...

    async def atext(self, about: str) -> str: ...

    def texts(self, about: str) -> Iterator[str]: ...

    def atexts(self, about: str) -> AsyncIterator[str]: ...

    def notes(self, about: str) -> Result[list[Note]]: ...

    async def anotes(self, about: str) -> Result[list[Note]]: ...

    def each(self, about: str) -> Iterator[Note]: ...

    def growing(self, about: str) -> Stream[list[Note]]: ...

    def table(self, about: str) -> Result[dict[str, list[str | None]]]: ...


async def _gathered(pieces: AsyncIterator[str]) -> list[str]:
    return [piece async for piece in pieces]


def _grown(stream: Stream[list[Note]]) -> list[object]:
    return [*map(repr, stream.events()), stream.result().value, stream.result().text]


def _shown(result: Result[Any]) -> list[object]:
    return [result.value, result.text, result.reply.message.text]


TEXT_CALLS: dict[str, Callable[[Kinds], object]] = {
    "str": lambda kinds: kinds.text("x"),
    "async str": lambda kinds: asyncio.run(kinds.atext("x")),
    "Iterator[str]": lambda kinds: "".join(kinds.texts("x")),
    "AsyncIterator[str]": lambda kinds: "".join(asyncio.run(_gathered(kinds.atexts("x")))),
}
NOTE_CALLS: dict[str, Callable[[Kinds], object]] = {
    "list": lambda kinds: _shown(kinds.notes("x")),
    "async list": lambda kinds: _shown(asyncio.run(kinds.anotes("x"))),
    "Iterator[Item]": lambda kinds: list(kinds.each("x")),
    "Stream": lambda kinds: _grown(kinds.growing("x")),
}


def _in_one_line(text: str) -> str:
    return " ".join(text.replace("<wbr>", "").split())


def _notes(text: str) -> str:
    return json.dumps({"value": [{"text": text, "name": "tea", "kind": "flag"}]})


# Where a model can write a text: the replies, and the calls that read them.
OUTPUTS: dict[str, tuple[Callable[[str], str], dict[str, Callable[[Kinds], object]]]] = {
    "text": (lambda secret: f"It is {secret}. Bye.", TEXT_CALLS),
    "field": (_notes, NOTE_CALLS),
    "escaped field": (
        lambda secret: _notes("x").replace('"x"', '"' + "".join(f"\\u{ord(c):04x}" for c in secret) + '"'),
        NOTE_CALLS,
    ),
    "text after JSON": (
        lambda secret: (
            f"```json\n{_notes('x')}\n```\nI hope it helps, {' '.join(secret.replace('<wbr>', '').split())}."
        ),
        NOTE_CALLS,
    ),
    "field without a place": (
        lambda secret: json.dumps({"value": [{"text": "x", "other": secret}]}),
        NOTE_CALLS,
    ),
    "key": (
        lambda secret: json.dumps({"value": {secret: ["x"]}}),
        {"dict": lambda kinds: _shown(kinds.table("x"))},
    ),
    "item": (
        lambda secret: json.dumps({"value": {"x": [None, secret]}}),
        {"dict": lambda kinds: _shown(kinds.table("x"))},
    ),
}
OUTPUT_CASES = [(source, kind) for source, (_, calls) in OUTPUTS.items() for kind in calls]


@every_spelling
@pytest.mark.parametrize("on", ["text", "value"])
@pytest.mark.parametrize(("source", "kind"), OUTPUT_CASES)
def test_nothing_that_is_masked_is_shown_or_stored(
    source: str, kind: str, on: Literal["text", "value"], secret: str
) -> None:
    reply, calls = OUTPUTS[source]
    memory = ChatMemory()
    guards = OutputGuardrails(masked(SECRET), on=on)
    shown = calls[kind](create(Kinds, ScriptedChatModel([reply(secret)]), interceptors=[memory, guards]))
    stored = [message_to_dict(message) for message in memory.messages()]
    assert "pass77" not in _folded(repr(shown))
    assert "pass77" not in _folded(repr(stored))
    is_left_out = source in ("text after JSON", "field without a place")
    assert [text.count("***") > 0 for text in (repr(shown), repr(stored))] == [not is_left_out] * 2


@every_spelling
@pytest.mark.parametrize(("source", "kind"), OUTPUT_CASES[:8])
def test_what_is_forbidden_ends_the_call_and_is_not_stored(source: str, kind: str, secret: str) -> None:
    reply, calls = OUTPUTS[source]
    memory = ChatMemory()
    service = create(
        Kinds, ScriptedChatModel([reply(secret)]), interceptors=[memory, OutputGuardrails(forbidden(SECRET))]
    )
    with pytest.raises(GuardrailError):
        calls[kind](service)
    assert memory.messages() == ()


@every_spelling
@pytest.mark.parametrize("kind", TEXT_CALLS)
def test_arguments_of_tools_are_masked_in_the_conversation(kind: str, secret: str) -> None:
    def find(query: str, kind: Literal["flag", "other"] = "flag") -> str:
        """Finds."""
        ran.append(query)
        return "x"

    def say(words: str) -> str:
        """Says."""
        return "x"

    ran: list[str] = []
    arguments = {"query": secret, "kind": "flag"}
    calls = (ToolCall("1", "find", json.dumps(arguments)), ToolCall("2", secret, json.dumps([secret])))
    memory = ChatMemory()
    guards = OutputGuardrails(masked(SECRET, "query", "flag"), forbidden("x", "kind"), max_length(99))
    model = ScriptedChatModel([ChatReply(AiMessage("", calls)), "Done."])
    service = create(Kinds, model, interceptors=[memory, guards], tools=[find, say])
    TEXT_CALLS[kind](service)
    [_, message, *_] = memory.messages()
    assert isinstance(message, AiMessage)
    first, second = (json.loads(call.arguments) for call in message.tool_calls)
    assert (first.keys(), first["kind"], "***" in first["query"]) == (arguments.keys(), "flag", True)
    assert "***" in second[0]
    assert "pass77" not in _folded(first["query"] + second[0])
    assert ran == [secret]  # the tool gets what the model wrote, unless ToolGuardrails mask it, too


def test_words_of_the_program_are_not_text() -> None:
    reply = _notes("x")
    guards = OutputGuardrails(
        masked("name", "flag", "kind", "true"), forbidden("text", "value"), max_length(3)
    )
    service = create(Kinds, ScriptedChatModel([reply]), interceptors=[guards])
    assert service.notes("x").value == [Note("x")]


def test_keys_that_become_the_same_lose_no_item() -> None:
    def find() -> dict[str, int]:
        """Finds."""
        return {"pass77": 1, "PASS77": 2}

    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("1", "find", "{}"),))), "Done."])
    guards = ToolGuardrails(results=[masked("pass77")])
    with pytest.raises(GuardrailError, match="two keys of an object are the same"):
        create(Kinds, model, tools=[find], tool_interceptors=[guards]).text("x")


@tool
def look(x: str) -> str:
    """Looks."""
    return "found"


@pytest.mark.parametrize("chunks", [None, sentences()], ids=["whole", "chunks"])
@pytest.mark.parametrize("kind", TEXT_CALLS)
def test_a_text_before_a_tool_call_is_stored_and_streamed_as_it_is_shown(kind: str, chunks: Any) -> None:
    call = ToolCall("1", "look", '{"x": "tea"}')
    model = ScriptedChatModel([ChatReply(AiMessage("The pass77 first. ", (call,))), "Then pass77."])
    memory, guards = ChatMemory(), OutputGuardrails(masked("pass77"), chunks=chunks)
    shown = TEXT_CALLS[kind](create(Kinds, model, tools=[look], interceptors=[memory, guards]))
    assert shown == ("The *** first. Then ***." if "Iterator" in kind else "Then ***.")
    assert [message.text for message in memory.messages()] == ["x", "The *** first. ", "found", "Then ***."]


def test_a_forbidden_text_before_a_tool_call_ends_the_call() -> None:
    call = ToolCall("1", "look", '{"x": "tea"}')
    model = ScriptedChatModel([ChatReply(AiMessage("The pass77 first. ", (call,))), "Fine."])
    memory = ChatMemory()
    service = create(Kinds, model, tools=[look], interceptors=[memory, OutputGuardrails(forbidden("pass77"))])
    with pytest.raises(GuardrailError):
        service.text("x")
    assert memory.messages() == ()


@pytest.mark.parametrize("guard", [masked("pass77"), forbidden("pass77")], ids=["masked", "forbidden"])
def test_reasoning_that_a_guard_does_not_accept_is_left_out(guard: Guard) -> None:
    reply = ChatReply(AiMessage("Fine.", reasoning="I hide pass77."))
    memory = ChatMemory()
    service = create(Kinds, ScriptedChatModel([reply]), interceptors=[memory, OutputGuardrails(guard)])
    assert service.text("x") == "Fine."
    assert "pass77" not in repr(memory.messages())


RESULTS: dict[str, Callable[[str], Any]] = {
    "str": lambda text: f"It is {text}",
    "record": Note,
    "list": lambda text: [1, text],
    "dict": lambda text: {"a": {text: text}},
    "JSON": lambda text: json.dumps({"a": text}),
}


def test_parts_of_letters_do_not_hide_a_word() -> None:
    for word, text in (("パスワード", "x ﾊﾟｽﾜｰﾄﾞ y"), ("한국", unicodedata.normalize("NFD", "나는 한국 사람"))):
        verdict: Any = masked(word)(text, None)
        assert "***" in verdict.text


@pytest.mark.parametrize(
    "last",
    [
        [AiMessage("", (ToolCall("1", "look", "{}"),)), ToolMessage("1", "look", "a zebra")],
        [SystemMessage("a zebra")],
        [AiMessage("a zebra")],
    ],
)
def test_messages_after_the_user_message_are_checked(last: list[Message]) -> None:
    model = ScriptedChatModel(["fine"])
    ask = structured(model, str, interceptors=[InputGuardrails(forbidden("zebra"))])
    with pytest.raises(GuardrailError):
        ask.invoke([UserMessage("x"), *last])
    assert model.requests == []


@pytest.mark.parametrize("guard", [masked("zebra"), forbidden("zebra")], ids=["masked", "forbidden"])
def test_files_and_numbers_of_tools_are_checked(guard: Guard) -> None:
    def find() -> File:
        """Finds."""
        return File(b"a zebra", "application/yaml", name="zebra.yaml")

    def count() -> int:
        """Counts."""
        return 4242

    calls = (ToolCall("1", "find", "{}"), ToolCall("2", "count", "{}"))
    model = ScriptedChatModel([ChatReply(AiMessage("", calls)), "Done."])
    guards = ToolGuardrails(results=[guard, masked("4242")])
    create(Kinds, model, tools=[find, count], tool_interceptors=[guards]).text("x")
    for message in model.requests[1].messages[-2:]:
        assert "4242" not in message.text
        for part in getattr(message, "contents", ()):
            assert "zebra" not in (part.name or "")
            assert b"zebra" not in (part.data or b"")


@every_spelling
@pytest.mark.parametrize("kind", RESULTS)
def test_no_text_of_a_tool_reaches_the_model(kind: str, secret: str) -> None:
    def find() -> Any:
        """Finds."""
        return RESULTS[kind](secret)

    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("1", "find", "{}"),))), "Done."])
    guards = ToolGuardrails(results=[masked(SECRET)])
    create(Kinds, model, tools=[find], tool_interceptors=[guards]).text("x")
    assert "pass77" not in sent(model)
    assert "***" in sent(model)


def test_fields_of_a_result_are_not_text() -> None:
    def find() -> Note:
        """Finds."""
        return Note("x")

    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("1", "find", "{}"),))), "Done."])
    guards = ToolGuardrails(results=[masked("name", "kind", "flag")])
    create(Kinds, model, tools=[find], tool_interceptors=[guards]).text("x")
    assert json.loads(model.requests[1].messages[-1].text) == {"text": "x", "name": "tea", "kind": "flag"}
