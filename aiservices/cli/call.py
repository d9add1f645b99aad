"""The command ``call``, which calls a service method and prints the answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from rich.live import Live
from rich.text import Text

from output_parsers import ItemError
from output_parsers.parser.registry import DEFAULT_REGISTRY

from ..engine.events import CallCompleted
from ..engine.results import Result
from ..integrations.fastapi.codec import codec_for, write_result
from ..integrations.fastapi.contract import Method, contract_of
from ..service.compile import ReturnShape
from ..service.methods import result_of
from .console import print_text, stdout_console
from .errors import UsageError
from .services import find_target, make_service, selected_methods
from .values import display_text, read_arguments

T = TypeVar("T")
_NO_DETAILS = (
    "the details of the call are unknown: the program created the service, and the method does not return a "
    "Result"
)


def call(
    target_name: str, model: str | None, argument_texts: Sequence[str], *, verbose: bool, as_json: bool
) -> None:
    """Call a service method with arguments from the command line, and print the answer.

    With ``verbose`` it also prints the call's details. Raises UsageError, DefinitionError, and the errors of
    the call.
    """
    target = find_target(target_name)
    details = _CallDetails()
    service = make_service(target, model, [details])
    names = selected_methods(target, service)
    if len(names) > 1:
        raise UsageError(
            f"{target_name} has several methods; name one as {target_name}.METHOD: {', '.join(names)}"
        )
    method = contract_of(target.interface_of(service)).methods[names[0]]
    args, kwargs = method.bind_arguments(read_arguments(argument_texts, method))
    # One event loop for the call and its stream: connections belong to the loop that opened them.
    with asyncio.Runner() as runner:
        printer = _AnswerPrinter(method, details, runner, verbose, as_json)
        printer.print_answer(getattr(service, names[0])(*args, **kwargs))
    if verbose and not as_json:
        printer.print_details()


class _CallDetails:
    """A listener that stores the result of a service call, so that the call's details can be printed later.

    It receives no events from a service that the user's program created. Details of such a service's methods
    are available only if they return a Result or a Stream.
    """

    def __init__(self) -> None:
        self.result: Result[Any] | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, CallCompleted):
            self.result = result_of(event.answer, event.invocation)

    def as_json(self) -> dict[str, Any] | None:
        return None if self.result is None else _details_json(self.result)


class _AnswerPrinter(NamedTuple):
    """Prints the answer of a service method call.

    Attributes:
        method: The method, with the codec of its values.
        details: The details of the call.
        runner: Runs the coroutines of an async method.
        verbose: True to print the details.
        as_json: True to print JSON.
    """

    method: Method
    details: _CallDetails
    runner: asyncio.Runner
    verbose: bool
    as_json: bool

    def print_answer(self, returned: Any) -> None:
        """Print the return value of a service method, which may be a value, a stream or an iterator."""
        shape, is_async = self.method.returns.shape, self.method.returns.is_async
        # print_text flushes, so that the reader of a pipe gets each item as soon as it arrives.
        if shape is ReturnShape.ITEMS:
            for item in self._iterate(returned):
                self._print_item(item)
            if self.as_json and self.verbose:
                print(json.dumps({"account": self.details.as_json()}))
        elif shape is ReturnShape.TEXT_STREAM:
            pieces = []
            for piece in self._iterate(returned):
                pieces.append(piece)
                if not self.as_json:
                    print_text(piece, end="")
            if self.as_json:
                self._print_value("".join(pieces))
            else:
                print()
        elif shape is ReturnShape.STREAM:
            show_live(self._iterate(returned))
            result = self.runner.run(returned.result()) if is_async else returned.result()
            self.details.result = result
            self._print_value(result.value)
        else:
            value = self.runner.run(returned) if is_async else returned
            if shape is ReturnShape.RESULT:
                self.details.result, value = value, value.value
            if self.as_json or self.method.returns.output_type not in (None, NoneType):
                self._print_value(value)
            elif self.details.result is not None and shape is ReturnShape.RESULT:
                print_text(self.details.result.text)

    def print_details(self) -> None:
        """Print the details of a service call, such as model requests and tokens, to standard error."""
        details = self.details.as_json()
        print_text(_NO_DETAILS if details is None else _details_text(details), file=sys.stderr)

    def _iterate(self, returned: Any) -> Iterator[Any]:
        return iterate(self.runner, returned) if self.method.returns.is_async else iter(returned)

    def _print_value(self, value: object) -> None:
        codec = self.method.value_codec
        if not self.as_json:
            print_text(display_text(value, codec))
        elif self.verbose:
            print(f'{{"value": {codec.write(value)}, "account": {json.dumps(self.details.as_json())}}}')
        else:
            print(codec.write(value))

    def _print_item(self, item: object) -> None:
        codec = self.method.value_codec
        if not isinstance(item, ItemError):
            print_text(codec.write(item) if self.as_json else display_text(item, codec, indent=None))
            return
        message = f"item {item.index} does not fit: {'; '.join(map(str, item.problems))}: {item.text}"
        # An invalid item does not end the iterator. It is reported like an error, and the next item follows.
        if self.as_json:
            print(json.dumps({"error": {"type": "ItemError", "message": message}}), flush=True)
        print_text(message, file=sys.stderr)


def iterate(runner: asyncio.Runner, items: AsyncIterable[T]) -> Iterator[T]:
    """Yield the items of an async iterable to synchronous code."""
    iterator = aiter(items)
    while True:
        try:
            item = runner.run(_next(iterator))
        except StopAsyncIteration:
            return
        yield item


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)  # Runner.run accepts only coroutines, which anext() need not return


def show_live(snapshots: Iterable[Any]) -> None:
    """Show a stream's growing value on the terminal, and erase it when the stream ends."""
    console = stdout_console()
    # Without a terminal only the final value is printed, but the stream must be read to its end.
    if not console.is_terminal:
        for _ in snapshots:
            pass
        return
    with Live(console=console, transient=True) as live:
        for snapshot in snapshots:
            text = json.dumps(snapshot.to_python(), indent=2, ensure_ascii=False, default=str)
            # Live can erase only what is on the screen: show the last lines that fit.
            live.update(Text("\n".join(text.splitlines()[1 - console.height :])))


# --- The details of a call ---


def _details_json(result: Result[object]) -> dict[str, object]:
    """Return a service call's details as JSON data, in the same format as the HTTP API.

    The details are attempts, tokens, coercions and tool runs.
    """
    # The text stands in for the value, which is printed already and may have any type.
    text_result = Result(
        result.reply.text,
        result.reply,
        result.strategy,
        result.coercions,
        result.attempts,
        result.seconds,
        result.reasons,
        result.tool_runs,
        result.sources,
    )
    written = write_result(text_result, codec_for(str, DEFAULT_REGISTRY))
    details: dict[str, object] = json.loads(written)["account"]
    return details


def _details_text(details: dict[str, Any]) -> str:
    """Describe a service call as text, with one line for each model request, reply repair and tool call."""
    lines = [f"strategy: {details['strategy']} ({'; '.join(details['reasons'])})"]
    for number, attempt in enumerate(details["attempts"], 1):
        error = f", {attempt['error']}" if attempt["error"] else ""
        lines.append(
            f"attempt {number}: {attempt['model']}, {attempt['seconds']:.2f} s, "
            f"{_tokens(attempt['usage'])}{error}"
        )
    for step in details["coercions"]:
        change = f": {step['before']} → {step['after']}" if step["before"] or step["after"] else ""
        lines.append(f"coercion: {step['path']}: {step['rule']}{change}")
    lines += [
        f"tool: {run['name']}({run['arguments']}) → {run['text']}, {run['seconds']:.2f} s"
        for run in details["tool_runs"]
    ]
    lines.append(f"total: {details['seconds']:.2f} s, {_tokens(details['usage'])}")
    return "\n".join(lines)


def _tokens(usage: dict[str, int] | None) -> str:
    return "tokens unknown" if usage is None else f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
