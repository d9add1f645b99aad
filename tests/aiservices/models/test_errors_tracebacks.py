"""The traceback of an error shows the user's program and the message, and no frames of the library."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from datetime import date
from typing import Annotated, Any, Protocol

import pytest
from pydantic import AfterValidator, BaseModel

from aiservices import (
    AiServiceError,
    AsyncStream,
    AuthenticationError,
    Budget,
    OpenAiChatModel,
    ScriptedChatModel,
    Stream,
    create,
)
from aiservices.guardrails import InputGuardrails
from aiservices.structured_model import structured
from output_parsers import OutputParsingError, ValidatorError, parse


class Counter(Protocol):
    def count(self, text: str) -> int: ...


class AsyncCounter(Protocol):
    async def count(self, text: str) -> int: ...


class StreamedCounter(Protocol):
    def count(self, text: str) -> Stream[int]: ...


class AsyncStreamedCounter(Protocol):
    def count(self, text: str) -> AsyncStream[int]: ...


class Lister(Protocol):
    def count(self, text: str) -> Iterator[int]: ...


def model() -> ScriptedChatModel:
    return ScriptedChatModel(["many"] * 3)


async def astreamed() -> None:
    async for _ in create(AsyncStreamedCounter, model()).count("x"):
        pass


CALLS: dict[str, Callable[[], object]] = {
    "blocking": lambda: create(Counter, model()).count("x"),
    "async": lambda: asyncio.run(create(AsyncCounter, model()).count("x")),  # type: ignore[arg-type]
    "stream": lambda: list(create(StreamedCounter, model()).count("x")),
    "events": lambda: list(create(StreamedCounter, model()).count("x").events()),
    "result": lambda: create(StreamedCounter, model()).count("x").result(),
    "async stream": lambda: asyncio.run(astreamed()),
    "items": lambda: list(create(Lister, model()).count("x")),
}


def shown(call: Callable[[], object]) -> tuple[list[str], str]:
    """Return the frames of other files, in all chained exceptions, and the last line of the traceback."""
    with pytest.raises(AiServiceError) as caught:
        call()
    text = "".join(traceback.format_exception(caught.value))
    files = [line for line in text.splitlines() if line.startswith("  File ")]
    others = [line for line in files if __file__ not in line and "/asyncio/" not in line]
    assert text.count("Traceback (most recent call last)") == 1
    return others, text.rstrip().splitlines()[-1]


@pytest.mark.parametrize("kind", CALLS)
def test_an_unreadable_reply_is_one_exception_that_ends_with_its_message(kind: str) -> None:
    frames, last = shown(CALLS[kind])
    assert frames == []
    assert last.startswith("aiservices.models.errors.ServiceOutputError: ")
    assert last.endswith("(the reply: 'many')")


def test_all_frames_are_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISERVICES_DEBUG", "1")
    frames, _ = shown(CALLS["blocking"])
    assert any("pipeline.py" in frame for frame in frames)
    monkeypatch.setenv("AISERVICES_DEBUG", "0")
    assert shown(CALLS["blocking"])[0] == []


def test_other_callables_show_their_own_frames_at_most() -> None:
    frames, _ = shown(lambda: structured(model(), int).invoke("x"))
    assert len(frames) <= 3


def test_a_wrong_declaration_is_shown_without_frames_of_the_library() -> None:
    frames, last = shown(lambda: create(Counter, "opnai:gpt-5"))
    assert frames == []
    assert last.startswith(
        "aiservices.models.errors.DefinitionError: Counter: the model 'opnai:gpt-5' is unknown"
    )


def test_an_error_of_the_model_has_the_name_of_the_method() -> None:
    with pytest.raises(AuthenticationError) as caught:
        create(Counter, ScriptedChatModel([AuthenticationError("401", status=401)])).count("x")
    assert (str(caught.value), caught.value.qualname) == ("401", "Counter.count")
    assert not hasattr(caught.value, "__notes__")


def test_the_frames_of_a_guard_that_failed_are_shown() -> None:
    def broken(text: str, invocation: Any) -> Any:
        raise ZeroDivisionError(text)

    with pytest.raises(AiServiceError) as caught:
        create(Counter, model(), interceptors=[InputGuardrails(broken)]).count("x")
    text = "".join(traceback.format_exception(caught.value))
    files = [line for line in text.splitlines() if line.startswith("  File ")]
    assert [line.rpartition(" in ")[2] for line in files] == [
        "broken",
        "test_the_frames_of_a_guard_that_failed_are_shown",
    ]


def test_a_failed_connection_is_shown_without_the_http_client() -> None:
    refused = OpenAiChatModel("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    with pytest.raises(AiServiceError) as caught:
        create(Counter, refused, budget=Budget(max_attempts=1)).count("x")
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert len(traceback.format_exception(caught.value)) <= 6


def test_an_exception_of_a_validator_is_the_cause() -> None:
    def check(value: int) -> int:
        raise ValueError(f"{value} is too many")

    with pytest.raises(OutputParsingError) as caught:
        parse(Annotated[int, AfterValidator(check)], "3")
    cause = caught.value.__cause__
    assert repr(cause) == "ValueError('3 is too many')"
    assert cause is not None
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["check"]


def test_a_text_that_cannot_be_parsed_is_one_exception() -> None:
    with pytest.raises(OutputParsingError) as caught:
        parse(int, "many")
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_an_exception_that_is_its_own_cause_is_shown_once() -> None:
    def check(value: int) -> int:
        error = KeyError("odd")
        error.__cause__ = error
        raise error

    class Checked(BaseModel):
        number: Annotated[int, AfterValidator(check)]

    with pytest.raises(ValidatorError):
        parse(Checked, '{"number": 3}')
    with pytest.raises(OutputParsingError) as caught:
        parse(date, "04.05.2026")  # ambiguous: the reader of dates raises an error from itself
    assert caught.value.__cause__ is None
