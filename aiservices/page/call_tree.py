"""Record service calls as a tree for people to read, as text or as an HTML page."""

from __future__ import annotations

import json
import os
import re
import time
from asyncio import CancelledError
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from threading import RLock
from typing import Literal, TypeAlias

from output_parsers.result.errors import OutputParsingError, shorten

from ..atomic_file import write_atomically
from ..engine.approval import ApprovalRequiredError
from ..engine.plan import Invocation
from ..engine.streams import (
    AnswerRejected,
    AttemptStarted,
    CallClosed,
    CallCompleted,
    CallFailed,
    CallStarted,
    ReplyFailed,
    ReplyReceived,
    ToolFinished,
    ToolStarted,
    ToolUndone,
)
from ..models.errors import ServiceOutputError
from ..models.messages import AiMessage, ChatReply, Message, SystemMessage, ToolMessage, Usage, UserMessage
from ..models.requests import ChatRequest
from ..tools.tool import ToolRun

StepState: TypeAlias = Literal["running", "done", "rejected", "failed", "waiting", "stopped"]
STATIC = files("aiservices.page") / "static"
ROLES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}
_LINE_LENGTH = 100  # characters of a text in ``str(tree)``
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_SHOW_STEPS = """
const tree = new CallTree();
tree.update(JSON.parse(document.getElementById("steps").textContent));
document.querySelector("main").append(tree.element);
"""


@dataclass(slots=True)
class Step:
    """A step in a call tree: a service call, a model request, a tool call or another event.

    Attributes:
        id: The position in the list of all steps.
        parent: The id of the step that contains it; None at the top.
        kind: The kind of step.
        name: The name of the method, model, tool or event.
        start: Seconds since the first step.
        state: How the step ended; "waiting" if a call was suspended, "stopped" if its caller left.
        seconds: Wall time; None while it runs.
        usage: The tokens of a request, or of all requests inside a call; None if unknown.
        cost: The cost of these tokens; None if a price is unknown.
        texts: Pairs of label and text: messages, replies, arguments, results and errors.
    """

    id: int
    parent: int | None
    kind: Literal["call", "request", "tool", "event"]
    name: str
    start: float
    state: StepState = "running"
    seconds: float | None = None
    usage: Usage | None = None
    cost: float | None = 0.0
    texts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def facts(self) -> list[str]:
        """The step's state, duration, tokens and cost as strings, leaving out unknown facts."""
        facts: list[str] = [] if self.state == "done" else [self.state]
        if self.seconds is not None and self.kind != "event":
            is_short = self.seconds < 0.9995
            facts.append(f"{self.seconds * 1000:.0f} ms" if is_short else f"{self.seconds:.2f} s")
        if self.usage is not None:
            facts.append(f"{self.usage.input_tokens} + {self.usage.output_tokens} tokens")
        if self.cost:
            facts.append(f"cost {self.cost:.6f}")
        return facts

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Add a reply's tokens and cost to the step."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def to_json(self) -> str:
        """Return the data of the step that the page shows, as JSON text that is safe inside HTML."""
        names = ("id", "parent", "kind", "name", "start", "state", "seconds", "facts", "texts")
        return json.dumps({name: getattr(self, name) for name in names}).replace("<", "\\u003c")


class _Call:
    """A service call in the call tree, with the state needed to add its later events."""

    def __init__(self, step: Step, outer: _Call | None) -> None:
        self.step, self.outer = step, outer
        self.last_event: object = None
        self.messages: tuple[Message, ...] = ()  # the messages of the last request and its reply
        self.requests: list[tuple[ChatRequest | None, Step]] = []  # requests that have no reply yet
        self.last_request: Step | None = None  # the last request that has a reply
        self.tools: dict[str, Step] = {}  # by the ids of their calls

    def pop_request(self, request: ChatRequest | None) -> Step | None:
        """Remove the step of a request that has ended from the open steps, and return it."""
        for index, (started, step) in enumerate(self.requests):
            if started is request:
                del self.requests[index]
                return step
        return None

    def new_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages of a request after those that the last request of the call had, too."""
        pairs = zip(self.messages, messages, strict=False)
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.messages = messages
        return messages[equal:]


class CallTree:
    """A listener that records service calls as a tree, with messages, tools, times, tokens and cost.

    As a listener of a ``SharedBudget``, it records all calls in the ``with`` block, including calls made by
    tools::

        tree = CallTree()
        with SharedBudget(listeners=[tree]):
            write_article("bread")
        print(tree)
        tree.write_html("article.html")

    ``create(…, listeners=[tree, InnerCalls(tree)])`` records the calls of one service. A tree may be printed
    or written while calls are running, and calls may run in several threads. Costs need the prices of a
    ``Budget`` or ``SharedBudget``. The tree keeps all messages.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a stream may be closed by the garbage collector at any time
        self._started_at = 0.0
        self._steps: list[Step] = []
        self._calls: dict[str, _Call] = {}  # by the ids of their invocations

    def __call__(self, event: object) -> None:
        """Add an event of a service call to the tree."""
        invocation = getattr(event, "invocation", None)
        if not isinstance(invocation, Invocation):
            return
        with self._lock:
            call = self._calls.get(invocation.id) or self._start_call(invocation)
            if event is not call.last_event:  # it comes twice if two services have this listener
                call.last_event = event
                self._record(event, call, invocation)

    def __str__(self) -> str:
        """Return the tree as text, with one line for each step and the beginning of each message."""
        with self._lock:
            steps: dict[int | None, list[Step]] = {}
            for step in self._steps:
                steps.setdefault(step.parent, []).append(step)
            return "\n".join(_lines(steps, None, ""))

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree as one HTML file with the complete messages, and return its path."""
        text = str(self)
        with self._lock:
            names = dict.fromkeys(step.name for step in self._steps if step.parent is None)
            steps = [step.to_json() for step in self._steps]
        page = _page(", ".join(names) or "No calls", text, steps)
        file = Path(path)
        write_atomically(file, page.encode("utf-8", "replace").decode())  # a text may have a lone surrogate
        return file

    # Methods for subclasses.

    def _step_changed(self, step: Step) -> None:
        """Do nothing; called with each added or changed step, so that a subclass can show the step."""

    def _error_text(self, error: BaseException) -> str:
        """Return the text that the call tree shows for an error."""
        return f"{type(error).__name__}: {error}".removesuffix(": ")

    # The events.

    def _start_call(self, invocation: Invocation) -> _Call:
        parent, tool_call = invocation.parent, invocation.parent_tool_call
        outer = None if parent is None else self._calls.get(parent.id)
        above = None
        if outer is not None:
            above = outer.step if tool_call is None else outer.tools.get(tool_call.id, outer.step)
        name = f"{invocation.qualname}, resumed" if invocation.is_resumed else invocation.qualname
        call = _Call(self._add("call", name, above), outer)
        self._calls[invocation.id] = call
        return call

    def _record(self, event: object, call: _Call, invocation: Invocation) -> None:
        match event:
            case CallStarted():
                pass  # the step was already added
            case AttemptStarted() | ReplyReceived() | ReplyFailed():
                self._record_request(event, call, invocation)
            case AnswerRejected(error):
                self._reject(call, error)
            case ToolStarted() | ToolFinished() | ToolUndone():
                self._record_tool(event, call)
            case CallCompleted() | CallClosed() | CallFailed():
                self._record_end(event, call)
            case _:
                step = self._add("event", type(event).__name__, call.step)
                self._end(step, "done", 0.0, ("", _display_text(event)))

    def _record_request(
        self, event: AttemptStarted | ReplyReceived | ReplyFailed, call: _Call, invocation: Invocation
    ) -> None:
        match event:
            case AttemptStarted(number, model, request=request):
                step = self._add("request", f"request {number} to {model} ({event.strategy})", call.step)
                call.requests.append((request, step))
                messages = () if request is None else request.messages
                new = call.new_messages(messages)
                if len(new) < len(messages):
                    step.texts.append(("earlier messages", str(len(messages) - len(new))))
                self._add_texts(step, *[(ROLES[type(one)], _text_of(one)) for one in new])
            case ReplyReceived(model, reply, seconds, request=request):
                step = call.pop_request(request) or self._add("request", f"request to {model}", call.step)
                self._add_reply(step, call, invocation, model, reply)
                self._end(step, "done", seconds)
            case ReplyFailed(model, error, seconds, reply=partial, request=request):
                step = call.pop_request(request) or self._add("request", f"request to {model}", call.step)
                if partial is not None:
                    self._add_reply(step, call, invocation, model, partial)
                self._end(step, "failed", seconds, ("error", self._reason(error)))

    def _record_tool(self, event: ToolStarted | ToolFinished | ToolUndone, call: _Call) -> None:
        match event:
            case ToolStarted(tool_call):
                call.tools[tool_call.id] = self._add("tool", f"tool {tool_call.name}", call.step)
                self._add_texts(call.tools[tool_call.id], ("arguments", tool_call.arguments))
            case ToolFinished(run):
                state: StepState = "done" if run.error is None else "failed"
                self._end(self._tool_step(call, run), state, run.seconds, *self._result_texts(run))
            case ToolUndone(run):
                undone = "" if run.undo_error is None else self._error_text(run.undo_error)
                label = "undone" if run.undone else "not undone"
                self._add_texts(self._tool_step(call, run), (label, undone))

    def _record_end(self, event: CallCompleted | CallClosed | CallFailed, call: _Call) -> None:
        match event:
            case CallCompleted(_, answer):
                self._end_call(call, "done", ("answer", _display_text(answer.value)))
            case CallClosed():
                self._end_call(call, "stopped")
            case CallFailed(_, ApprovalRequiredError() as error):
                waiting = (*error.calls, *error.external_calls)
                names = "\n".join(f"{one.name}({one.arguments})" for one in waiting)
                self._end_call(call, "waiting", ("waits for", names))
            case CallFailed(_, failure):
                if isinstance(failure, ServiceOutputError):
                    self._reject(call, failure)
                is_cancelled = isinstance(failure, CancelledError)
                self._end_call(
                    call, "stopped" if is_cancelled else "failed", ("error", self._reason(failure))
                )

    def _add_reply(
        self, step: Step, call: _Call, invocation: Invocation, model: str, reply: ChatReply
    ) -> None:
        price = invocation.state.price_of(reply.model, model)
        cost = None if price is None or reply.usage is None else price.of(reply.usage)
        step.add(reply.usage, cost)
        enclosing: _Call | None = call
        while enclosing is not None:
            enclosing.step.add(reply.usage, cost)
            self._step_changed(enclosing.step)
            enclosing = enclosing.outer
        call.last_request, call.messages = step, (*call.messages, reply.message)
        if reply.message.reasoning:
            step.texts.append(("reasoning", reply.message.reasoning))
        step.texts.append(("cached reply" if reply.cached else "reply", _text_of(reply.message)))
        if reply.refusal is not None:
            step.texts.append(("refusal", reply.refusal))

    def _reject(self, call: _Call, error: ServiceOutputError) -> None:
        step = call.last_request
        if step is not None and step.state == "done" and step.seconds is not None:
            self._end(step, "rejected", step.seconds, ("problems", self._reason(error)))

    def _tool_step(self, call: _Call, run: ToolRun) -> Step:
        step = call.tools.get(run.call.id)
        return self._add("tool", f"tool {run.name}", call.step) if step is None else step

    def _result_texts(self, run: ToolRun) -> list[tuple[str, str]]:
        text = "\n".join((run.text, *map(str, run.contents)))
        texts = [("result", text)] if text else []
        return texts if run.error is None else [*texts, ("error", self._reason(run.error))]

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, OutputParsingError):  # the reply is shown next to it
            return "\n".join(map(str, error.problems))
        return self._error_text(error)

    # The steps.

    def _add(self, kind: Literal["call", "request", "tool", "event"], name: str, above: Step | None) -> Step:
        now = time.monotonic()
        if not self._steps:
            self._started_at = now
        step = Step(len(self._steps), None if above is None else above.id, kind, name, now - self._started_at)
        self._steps.append(step)
        self._step_changed(step)
        return step

    def _add_texts(self, step: Step, *texts: tuple[str, str]) -> None:
        step.texts += texts
        self._step_changed(step)

    def _end(self, step: Step, state: StepState, seconds: float, *texts: tuple[str, str]) -> None:
        step.state, step.seconds = state, seconds
        self._add_texts(step, *texts)

    def _end_call(self, call: _Call, state: StepState, *texts: tuple[str, str]) -> None:
        now = time.monotonic() - self._started_at
        within = [step for _, step in call.requests] + list(call.tools.values())
        for step in within:
            if step.state == "running":
                self._end(step, "waiting" if state == "waiting" else "stopped", now - step.start)
        self._end(call.step, state, now - call.step.start, *texts)
        call.messages, call.requests = (), []


def _lines(steps: Mapping[int | None, Sequence[Step]], parent: int | None, indent: str) -> Iterator[str]:
    """Yield the lines of text for all steps below a parent step.

    ``steps`` is a dict from parents to their steps.
    """
    for step in steps.get(parent, ()):
        yield f"{step.start:8.3f} s  {indent}{': '.join(filter(None, (step.name, ', '.join(step.facts))))}"
        for label, text in step.texts:
            yield f"{'':12}{indent}  {label}: {shorten(' '.join(text.split()), _LINE_LENGTH)}".rstrip()
        yield from _lines(steps, step.id, indent + "    ")


def _display_text(value: object) -> str:
    """Return a string unchanged, and the ``repr`` of any other value."""
    if isinstance(value, str):
        return str.__str__(value)  # the text of an enum member, not its name
    try:
        return repr(value)
    except Exception as error:  # of a class of the user
        return f"{type(value).__name__} cannot be shown: {error!r}"


def _text_of(message: Message) -> str:
    """Return a message's text, including descriptions of its media and its tool calls."""
    parts: Sequence[object] = (message.text,)
    if not isinstance(message, SystemMessage) and message.contents:
        parts = message.parts
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    texts = [*map(str, parts), *[f"{call.name}({call.arguments})" for call in calls]]
    return "\n".join([text for text in texts if text])


def _page(title: str, text: str, steps: Sequence[str]) -> str:
    """Return an HTML page that shows the steps of a call tree, with the playground's scripts and styles.

    Without JavaScript the page shows the tree as text. Its content security policy forbids connections and
    the conversion of text to HTML.
    """
    scripts = [(STATIC / name).read_text("utf-8") for name in ("dom.js", "call_tree.js")]
    script = "".join(_IMPORT.sub("", one) for one in scripts) + _SHOW_STEPS
    style = (STATIC / "page.css").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<main class="calls-only">
<h1>{escape(title)}</h1>
<noscript><pre>{escape(text)}</pre></noscript>
</main>
<script type="application/json" id="steps">[{", ".join(steps)}]</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
