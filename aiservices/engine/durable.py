"""Durable calls: what a call has done is recorded, so that it continues after its process was killed.

``Durable`` opens the journal of a call. Its ``DurableCall`` performs the effects of the call: those with a
recorded outcome are not performed again. Records have stable keys and not numbers in a sequence: requests are
counted by method, and tool calls have the round and the id of the call, so that tools may run in any order.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import count, takewhile
from typing import Literal, TypeVar

from output_parsers.result.reading import JsonObject

from ..interface.decorators import CallId
from ..interface.parameters import memory_id_data
from ..journal import (
    CONTINUABLE,
    CallCancelledError,
    CallChangedError,
    CallIdError,
    Entry,
    Journal,
    JournalError,
    Loaded,
    Status,
    StoredCall,
)
from ..journal.store import ANSWER, START
from ..models.arguments import check_settings, checks_arguments, is_positive
from ..models.base import PickledByArguments
from ..models.errors import DefinitionProblem
from ..models.messages import (
    ChatReply,
    Message,
    ToolCall,
    message_from_dict,
    message_to_dict,
    reply_to_json,
    whole_reply_deltas,
)
from ..models.requests import ChatOptions, request_hash
from ..tools.tool import ToolRun
from ..tools.toolbox import Toolbox
from .approval import (
    DECIDED_KEY,
    DURABLE_KEY,
    AlreadyResumedError,
    ApprovalRequiredError,
    Decisions,
    ExternalResultError,
    SuspendedCall,
    decisions_to_json,
    resumed_invocation,
    suspendable_method,
    waiting_calls,
)
from .budget import active_accounts
from .effects import CallModel, Effect, Emit, Flow, Gather, GatherFlows, Outcome, Run
from .flows import map_effects
from .interceptor import BaseInterceptor, InterceptorKind, Proceed
from .outcomes import (
    answer_from_json,
    answer_to_json,
    failed_request_to_json,
    reply_of,
    to_text,
    tool_run_from_json,
    tool_run_to_json,
)
from .output_format import INSTRUCTIONS_MARK
from .plan import CallPlan, Invocation
from .recorder import RequestRecorder
from .results import Answer
from .streams import AttemptStarted, ReplyReceived, ToolFinished, ToolStarted
from .tool_execution import FINAL_ERRORS, UndoableCall, record_undoable, undo_after

T = TypeVar("T")
# The first replaces the mark of the instructions, which each process chooses; both are written as in JSON.
_MARK, _OWN_MARK = json.dumps("\ue000\ue001")[1:-1], json.dumps(INSTRUCTIONS_MARK)[1:-1]
_MAX_ID = 256  # characters
_LEFT = "left"


@checks_arguments
class Durable(PickledByArguments, BaseInterceptor):
    """Interceptor that records what a call does, so that it can continue after its process was killed.

    The id of a call is the argument of its ``Annotated[str, CallId]`` parameter::

        class Desk(Protocol):
            @user_message("Refund the order {{order}}.")
            def refund(self, order: str, call_id: Annotated[str, CallId]) -> Receipt: ...

        desk = create(Desk, model, tools=[pay], interceptors=[Durable(Journal("calls.db"))])
        desk.refund("17", call_id="refund-17")

    The same call with the same id continues after a kill: requests with a recorded reply are not sent again,
    and tools with a recorded result do not run again. After the end, it returns the stored answer. A call
    that failed is tried again from its last tool on. Calls without an id (None) are not recorded.

    A tool that began and has no recorded result may have run. One with ``@tool(idempotent=True)`` runs again;
    for others, the call raises an ApprovalRequiredError that has them in ``in_doubt``. ``resume`` continues
    it: with the result of each tool that ran, and True for each that did not.

    Place it first, or after InputGuardrails, so that it does not store what they remove.

    Args:
        journal: Where the calls are recorded.
        on_change: "raise" a CallChangedError if the prompt, the model, the options, the tools or the schema
            are not those with which the call was begun; or "continue" with what was recorded.
        expires_after: The seconds after its beginning when an unfinished call can no longer be continued.
    """

    position_name = InterceptorKind.DURABLE

    def __init__(
        self,
        journal: Journal,
        *,
        on_change: Literal["raise", "continue"] = "raise",
        expires_after: float | None = None,
    ) -> None:
        advice = 'pass a Journal, such as Journal("calls.db")'
        check_settings(
            "Durable",
            ("journal", journal, isinstance(journal, Journal), advice),
            ("on_change", on_change, on_change in ("raise", "continue"), "it must be raise or continue"),
            (
                "expires_after",
                expires_after,
                expires_after is None or is_positive(expires_after),
                "it must be greater than 0",
            ),
        )
        self.journal = journal
        self.on_change = on_change
        self.expires_after = expires_after
        self._digests: dict[int, tuple[object, str]] = {}

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        call_id = call_id_of(invocation)
        if call_id is None or invocation.state.recording is not None:
            return (yield from proceed(invocation))
        start = _start_text(invocation, self._digests)
        new = _new_call(call_id, invocation)
        statuses = ("suspended", *CONTINUABLE) if invocation.is_resumed else CONTINUABLE
        loaded: Loaded = yield from self._do(partial(self.journal.lease, new, start, statuses))
        is_new = loaded.entries[0].data is start
        if is_new and not invocation.is_resumed:
            entries = RecordedEntries(self.journal, loaded.call, {}, "")
            return (yield from self._run(DurableCall(loaded.call, entries, invocation), proceed))
        try:
            self._check(loaded, new, start, invocation)
            answer = self._stored_answer(loaded, invocation)
            call = None
            if answer is None:
                call = open_call(self.journal, loaded, invocation, is_new=is_new)
        except ExternalResultError:  # decided by a program without the tools, so wait for another one
            last = Entry(_decided_keys(one.key for one in loaded.entries)[-1], "")
            yield from self._do(partial(self.journal.append, loaded.call, (last,), status="suspended"))
            raise
        except BaseException:
            if loaded.call.status == "running":  # then this process owns it
                give_up = partial(self.journal.release, loaded.call)
                if any(one.key == "failed" for one in loaded.entries):
                    give_up = partial(self.journal.append, loaded.call, (), status="failed")
                yield from self._do(give_up)
            raise
        if answer is not None:
            yield from _show(answer, invocation)
            return answer
        assert call is not None
        return (yield from self._run(call, proceed))

    def _do(self, function: Callable[[], T]) -> Flow[T]:
        """Call the journal, in a thread if it may take long."""
        if not self.journal.store.blocks:
            return function()
        outcome: T = yield Run(function, in_thread=True, deadline=math.inf)
        return outcome

    def _run(self, call: DurableCall, proceed: Proceed) -> Flow[Answer]:
        invocation, data = call.invocation, {"call": call.stored.id, "segment": call.segment}
        invocation.state.interceptor_data[DURABLE_KEY] = data
        invocation.state.recording = call
        try:
            yield from call.entries.flush()
            answer: Answer = yield from map_effects(proceed(invocation), call.perform)
            yield from call.finish(answer)
            return answer
        except ApprovalRequiredError as error:
            yield from call.suspend(error)
            raise
        except JournalError:
            raise
        except Exception as error:
            call.undone_runs = yield from undo_after(error, invocation)
            yield from call.fail(error)
            raise
        finally:
            # Also if it was cancelled, or the reader of a stream is gone; nothing can be awaited then.
            if not call.entries.is_over:
                with suppress(JournalError):
                    self.journal.release(call.stored)

    def _check(self, loaded: Loaded, new: StoredCall, start: str, invocation: Invocation) -> None:
        """Raise an error if a stored call is another call, was changed, is cancelled or is too old."""
        call = loaded.call
        name = f"{invocation.qualname}: the call id {call.id!r}"
        if call.format != new.format:
            raise JournalError(
                f"{name} was recorded in the format {call.format}; this version has {new.format}"
            )
        if call.method != new.method:
            raise CallChangedError(
                f"{name} belongs to a call of {call.method}; use another id", ["the method"]
            )
        if call.user != new.user:
            raise CallChangedError(f"{name} belongs to another user; use another id", ["the user"])
        if call.status == "cancelled":
            raise CallCancelledError(f"{name} belongs to a call that was cancelled")
        age = time.time() - call.created_at
        if call.status != "completed" and self.expires_after is not None and age > self.expires_after:
            raise CallCancelledError(
                f"{name} belongs to a call that was begun {age:.0f} s ago and has expired"
            )
        if self.on_change == "continue" or invocation.is_resumed:
            return
        if loaded.entries[0].data == start:
            return
        changes = list(_changes(entries_of(loaded)[START], json.loads(start)))
        if changes:
            raise CallChangedError(
                f"{name} was begun with other values: {', '.join(changes)} changed. Use another id, delete "
                'the call from the journal, or pass Durable(on_change="continue")',
                changes,
            )

    def _stored_answer(self, loaded: Loaded, invocation: Invocation) -> Answer | None:
        call = loaded.call
        if call.status == "suspended":
            raise suspension_of(loaded)
        if call.status != "completed":
            return None
        entries = entries_of(loaded)
        if invocation.is_resumed:
            _check_decisions(invocation, entries)
        data = entries[ANSWER]
        name = f"{invocation.qualname}: the answer of the call {call.id!r}"
        if "problem" in data:
            raise JournalError(f"{name} was returned before and is not stored: {data['problem']}")
        try:
            return answer_from_json(data, invocation)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise JournalError(f"{name} cannot be read: {error}") from error


def entries_of(loaded: Loaded) -> JsonObject:
    """Return the data of the entries of a call by their keys; raise JournalError if they are damaged."""
    data = {}
    try:
        for entry in loaded.entries:
            data[entry.key] = json.loads(entry.data)
        for key in (START, ANSWER) if loaded.call.status == "completed" else (START,):
            if not isinstance(data.get(key), dict):
                raise ValueError(f"the entry {key} is {data.get(key)!r}")
    except ValueError as error:
        raise JournalError(f"the call {loaded.call.id!r} is damaged in the journal: {error}") from error
    return data


def is_durable(interceptors: Iterable[object]) -> bool:
    """Return True if one of the interceptors is a Durable."""
    return any(isinstance(one, Durable) for one in interceptors)


def call_id_of(invocation: Invocation) -> str | None:
    """Return the id under which a call is recorded, or None. Raises CallIdError for a wrong id."""
    state = invocation.state
    data = state.interceptor_data.get(DURABLE_KEY)
    if data is not None and invocation.is_resumed and not state.call_id:
        return str(data["call"]) if "call" in data else None
    call_id: object = state.call_id
    if call_id is None:
        call_id = invocation.arguments.get(invocation.plan.role_names.get(CallId, ""))
    if call_id is None:
        return None
    problem = None
    if not isinstance(call_id, str):
        problem = f"is {type(call_id).__name__}; it must be a str"
    elif not call_id.strip():
        problem = f"is {call_id!r}; pass one that no other call has"
    elif not call_id.isprintable():
        problem = f"is {call_id!r}, which has control characters"
    elif len(call_id) > _MAX_ID:
        problem = f"has {len(call_id)} characters; it may have at most {_MAX_ID}"
    if problem:
        raise CallIdError([DefinitionProblem(invocation.qualname, f"the call id {problem}")])
    return str(call_id)


# --- The identity of a call ---


def _new_call(call_id: str, invocation: Invocation) -> StoredCall:
    now = time.time()
    user = "" if invocation.user_name is None else str(invocation.user_name)
    user = user.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return StoredCall(call_id, "running", invocation.qualname, user, now, now)


def _start_text(invocation: Invocation, digests: dict[int, tuple[object, str]]) -> str:
    """Return JSON text of what determines a call. The part that all calls of a method share is cached."""
    plan, request, toolbox = invocation.plan, invocation.request, invocation.toolbox
    if toolbox is plan.toolbox and request.options is plan.options:
        cached = digests.get(id(plan.routes))
        if cached is None or cached[0] is not plan.routes:
            text = _fixed_part(program_of(plan, toolbox), plan.options)
            digests[id(plan.routes)] = cached = (plan.routes, text)
        fixed = cached[1]
    else:
        fixed = _fixed_part(program_of(plan, toolbox), request.options)
    messages = to_text([message_to_dict(message) for message in request.messages])
    memory_id = invocation.memory_id
    own = "null" if memory_id is None else to_text(memory_id_data(memory_id))
    return f'{fixed}, "messages": {messages.replace(_OWN_MARK, _MARK)}, "memory_id": {own}}}'


def messages_of_start(start: Mapping[str, object]) -> tuple[Message, ...]:
    """Return the messages with which a stored call began."""
    text = to_text(start["messages"]).replace(_MARK, _OWN_MARK)
    return tuple([message_from_dict(message) for message in json.loads(text)])


def program_of(plan: CallPlan, toolbox: Toolbox | None) -> JsonObject:
    """Return the parts of a program that are compared for a call: its models, its schema and its tools."""
    parser, tools = plan.output_format.parser, {} if toolbox is None else toolbox.tools
    return {
        "models": [route.model.name for route in plan.routes],
        "schema": _digest(None if parser is None else parser.schema),
        "tools": {name: _digest([one.description, one.arguments.schema]) for name, one in tools.items()},
    }


def _fixed_part(program: JsonObject, options: ChatOptions) -> str:
    data = program | {
        "options": {
            name: getattr(options, name)
            for name in options.__dataclass_fields__
            if name not in ("timeout", "extra_headers") and getattr(options, name) is not None
        }
    }
    return json.dumps(data, default=str)[:-1]


def _digest(data: object) -> str:
    text = json.dumps(data, sort_keys=True, default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_MESSAGE_NAMES = {"system": "the system message", "user": "the user message"}


def _changes(stored: JsonObject, current: JsonObject) -> Iterable[str]:
    """Yield the names of the differences between the beginnings of two calls."""
    before, now = stored.get("messages", []), current["messages"]
    if len(before) != len(now):
        yield "the number of messages"
    for old, new in zip(before, now, strict=False):
        if old != new:
            yield _MESSAGE_NAMES.get(new["type"], "a message")
    names = {"models": "the model", "schema": "the schema", "memory_id": "the memory id"}
    for key, name in names.items():
        if stored.get(key) != current[key]:
            yield name
    for key, noun in (("tools", "the tool"), ("options", "the option")):
        old_items, new_items = stored.get(key, {}), current[key]
        for name in dict.fromkeys((*old_items, *new_items)):
            if old_items.get(name) != new_items.get(name):
                yield f"{noun} {name}"


# --- Approvals ---


def suspension_of(loaded: Loaded) -> ApprovalRequiredError:
    """Return the error of a suspended call, with its state and what it waits for."""
    texts = [one.data for one in loaded.entries if one.key.startswith("suspended:")]
    state = SuspendedCall.from_json(texts[-1])
    waiting = waiting_calls(state)
    return ApprovalRequiredError(state.qualname, waiting.approvals, state, waiting.results, waiting.in_doubt)


def _outer_keys(key: str) -> Iterable[str]:
    """Yield the keys of the tool calls inside of which something was recorded."""
    parts = key.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


def _decided_keys(keys: Iterable[str]) -> list[str]:
    return sorted([key for key in keys if key.startswith("decided:")], key=lambda key: int(key[8:]))


def _check_decisions(
    invocation: Invocation, entries: JsonObject, *, is_new: bool = False
) -> tuple[str, object]:
    """Return the key and the data of decisions.

    Raises AlreadyResumedError if others were recorded before, or if the call has started over since then.
    After its call was deleted from the journal, the state alone is enough.
    """
    state = invocation.state
    segment = state.interceptor_data[DURABLE_KEY]["segment"]
    key, suspended = f"decided:{segment}", entries.get(f"suspended:{segment}")
    is_same = is_new or key in entries
    if suspended is not None:
        is_same = suspended["id"] == state.suspended_id
    earlier = state.interceptor_data.get(DECIDED_KEY, ())
    decisions = {call_id: one for call_id, one in invocation.approvals.items() if call_id not in earlier}
    data = decisions_to_json(decisions)
    if not is_same or entries.get(key, data) != data:
        raise AlreadyResumedError(invocation.qualname, state.suspended_id)
    return key, data


# --- A call that is recorded ---


class RecordedEntries:
    """The entries of a call, or of a call that a tool makes, with those that are written next.

    Attributes:
        data: The data of all entries by their keys; shared with the calls inside.
        prefix: The beginning of the keys of this call.
        is_over: True once it is recorded how the call ended.
    """

    def __init__(self, journal: Journal, stored: StoredCall, data: JsonObject, prefix: str) -> None:
        self.data = data
        self.prefix = prefix
        self.is_over = False
        self._journal = journal
        self._stored = stored
        self._unstored: list[Entry] = []
        self._replies: list[tuple[str, ChatReply]] = []

    def inside(self, path: str) -> RecordedEntries:
        """Return the entries of a call that a tool makes."""
        return RecordedEntries(self._journal, self._stored, self.data, f"{path}/")

    def own(self) -> JsonObject:
        """Return the entries of the call and of the calls inside it, by their keys without the prefix."""
        prefix, data = self.prefix, list(self.data.items())  # because other threads add to it
        return {key.removeprefix(prefix): value for key, value in data if key.startswith(prefix)}

    def add(self, key: str, data: object) -> None:
        """Add an entry, which is written with the next step."""
        self.data[key] = data
        self._unstored.append(Entry(key, to_text(data), time.time()))

    def add_reply(self, key: str, reply: ChatReply) -> None:
        """Add a reply, which is written with the next step, but not if the answer follows."""
        self._replies.append((key, reply))

    def forget(self) -> None:
        """Delete all entries of the call except how it started, so that it starts over."""
        self._replies = []
        self._unstored = []
        self._delete(self.prefix + key for key in self.own() if self.prefix + key != START)

    def forget_failure(self) -> None:
        """Delete the requests since the last tool of a call that failed, so that they are sent again."""
        keys = takewhile(
            lambda key: not key.rpartition("/")[2].startswith("tool:"), reversed(list(self.data))
        )
        self._delete(key for key in keys if key == "failed" or "request:" in key)

    def _delete(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            del self.data[key]
            self._unstored.append(Entry(key, ""))

    def flush(self) -> Flow[None]:
        """Write what was recorded since the last step."""
        if self._unstored or self._replies:
            yield from self.write()

    def write(self, status: Status | None = None) -> Flow[None]:
        """Write what was recorded since the last step, and how the call ended."""
        if status != "completed":
            replies, self._replies = self._replies, []
            for key, reply in replies:
                self.add(key, {"reply": reply_to_json(reply)})
        entries, self._unstored = tuple(self._unstored), []
        write = partial(self._journal.append, self._stored, entries, status=status)
        if self._journal.store.blocks:
            yield Run(write, in_thread=True, deadline=math.inf)
        else:
            write()
        self.is_over = status is not None


def _check_left(call: DurableCall) -> None:
    """Raise JournalError if a call would start over, and run tools again that were not undone."""
    data = call.entries.data
    left = [
        name
        for key, names in data.items()
        if key.rpartition("/")[2] == _LEFT and not any(outer in data for outer in _outer_keys(key))
        for name in names
    ]
    if left:
        raise JournalError(
            f"{call.invocation.qualname}: the call {call.stored.id!r} failed, tools were undone, "
            f"and these were not: {', '.join(dict.fromkeys(left))}. Starting over would run them again. "
            "Delete the call from the journal to start over; a tool with compensate= is undone, and one "
            "with idempotent=True may run again"
        )


def _after_undoing(call: DurableCall) -> bool:
    """If tools were undone, forget what was recorded, or name the tools that must not run again.

    Returns True if tools were undone.
    """
    runs = (*call.undone_runs, *call.invocation.state.tool_runs)
    if not (call.undone_runs or any(run.undone for run in runs)):
        return False
    left = {run.name for run in runs if run.undo_error is not None} | _tools_left(call)
    if left:
        call.entries.add(f"{call.entries.prefix}{_LEFT}", sorted(left))
    else:
        call.entries.forget()
    return True


def _tools_left(call: DurableCall) -> set[str]:
    """Return the names of tools that may have run, must not run again, and cannot be undone."""
    toolbox, entries = call.invocation.known_toolbox, call.entries
    tools = {} if toolbox is None else toolbox.tools
    names = set()
    for key, data in entries.own().items():
        if key.startswith("begun:"):
            results = [entries.data.get(f"{entries.prefix}tool:{key[6:]}")]
        elif "/begun:" in key:  # a failed inner call has recorded its remaining tools itself
            outer = _outer_keys(entries.prefix + key)
            results = [entries.data[one] for one in outer if one in entries.data][:1]
        else:
            continue
        for result in results:
            tool = None if result is None else tools.get(result.get("message", {}).get("name"))
            has_run = result is None or "error" not in result
            if has_run and (tool is None or tool.compensate is None):
                names.add(data["tool"])
    return names


class DurableCall(RequestRecorder[str]):
    """Records the effects of a service call, and takes those that are recorded from the journal.

    Attributes:
        stored: The call in the journal.
        entries: What is recorded of it.
        path: The beginning of all keys: the id of the call, and for a call that a tool makes, the tool call.
        segment: The number of times that the call was resumed. Requests are counted from there.
        invocation: The call; after a suspension as it continues.
        undone_runs: The tool calls that were undone because the call failed.
    """

    def __init__(
        self,
        stored: StoredCall,
        entries: RecordedEntries,
        invocation: Invocation,
        path: str = "",
        segment: int = 0,
    ) -> None:
        self.stored = stored
        self.path = path or stored.id
        self.segment = segment
        self.invocation = invocation
        self.undone_runs: tuple[ToolRun, ...] = ()
        self.entries = entries
        self._requests: dict[str, int] = {}
        self._calls: dict[str, count[int]] = {}
        self._nested = 0  # effects during which the order of requests is not fixed
        self._is_announced = False  # by an AttemptStarted
        self._is_new = not entries.data  # nothing was recorded by an earlier run
        # True until an effect is performed that was not recorded; then events are new
        self._is_replaying = len(entries.data) > 1

    # --- Calls that tools make ---

    def inner(self, invocation: Invocation, tool_call: ToolCall | None) -> DurableCall | None:
        """Return the record of a call that a tool of this call makes; None if it has an id of its own."""
        state = invocation.state
        data = state.interceptor_data.get(DURABLE_KEY)
        has_own_id = "call" in data if data is not None else call_id_of(invocation) is not None
        if has_own_id:
            return None
        if data is not None:  # it waited for an approval
            path, segment = data["path"], data["segment"] + invocation.is_resumed
        else:
            messages = [message_to_dict(message) for message in invocation.request.messages]
            name = f"{invocation.qualname}:{_digest(to_text(messages).replace(_OWN_MARK, _MARK))}"
            tool = "" if tool_call is None else self._key("tool", tool_call.id)
            number = next(self._calls.setdefault(f"{tool}/{name}", count()))  # tools may run in threads
            path, segment = f"{tool}/{name}:{number}", 0
        state.interceptor_data[DURABLE_KEY] = {"path": path, "segment": segment}
        entries = self.entries.inside(path)
        inner = DurableCall(self.stored, entries, invocation, path, segment)
        inner._is_new = self._is_new
        inner._is_replaying = not self._is_new and bool(entries.own())
        return inner

    def run(self, flow: Flow[T]) -> Flow[T]:
        """Run the flow of a call that a tool makes."""
        try:
            result = yield from map_effects(flow, self.perform)
        except ApprovalRequiredError:
            yield from self.entries.flush()
            raise
        except JournalError:
            raise
        except Exception:
            if _after_undoing(self):
                yield from self.entries.flush()
            raise
        yield from self.entries.flush()
        return result

    @staticmethod
    def continues_after(error: BaseException) -> bool:
        """Return True if a call that ends with an error is not recorded as failed, so that it continues.

        It was cancelled or interrupted, or the journal cannot be written, or belongs to another process now.
        """
        is_unwritten = isinstance(error, JournalError) and not isinstance(error, CallCancelledError)
        return is_unwritten or not isinstance(error, Exception)

    def begin(self, name: str, data: object) -> Flow[object]:
        """Record that work begins that must be done once, with JSON data about it.

        Returns the data of an earlier run that began the work and was killed, or None.
        """
        key = self._key(name)
        earlier: object = self.entries.data.get(key)
        if earlier is None:
            self.entries.add(key, data)
            yield from self.entries.flush()
        return earlier

    # --- Effects ---

    def perform(self, effect: Effect) -> Flow[Outcome]:
        """Perform one step of the call, or take its outcome from the journal."""
        if isinstance(effect, Emit):
            if isinstance(effect.event, AttemptStarted):
                self._is_announced = True
            return (yield effect if self._is_new else self._event(effect))
        if isinstance(effect, CallModel):
            yield from self.entries.flush()
            try:
                return (yield from self.request(effect))
            finally:
                self._nested -= bool(effect.policy.filters)
        if isinstance(effect, GatherFlows):  # its effects write first
            self._nested += 1
            try:
                return (yield effect)
            finally:
                self._nested -= 1
        if isinstance(effect, Run) and effect.tool is not None:
            return (yield from self._run_tool(effect))
        yield from self.entries.flush()
        if isinstance(effect, Gather) and any(isinstance(one, CallModel) for one in effect.effects):
            return (yield from self.gather(effect))
        return (yield effect)

    def _event(self, effect: Emit) -> Emit:
        """Mark an event that listeners have received from the run that recorded it."""
        event = effect.event
        if isinstance(event, AttemptStarted):
            qualname = "" if event.request is None else event.request.qualname
            key = self._key("request", qualname, self._requests.get(qualname, 0))
            replayed = key in self.entries.data and not self._nested
        elif isinstance(event, ToolStarted):
            replayed = self._key("tool", event.call.id) in self.entries.data
        elif isinstance(event, ToolFinished):
            replayed = event.run.replayed
        elif isinstance(event, ReplyReceived):
            replayed = event.reply.replayed
        else:
            replayed = self._is_replaying
        return replace(effect, replayed=True) if replayed else effect

    def _key(self, kind: str, *parts: object) -> str:
        number = self.invocation.state.tool_rounds if kind in ("tool", "begun") else self.segment
        return self.entries.prefix + ":".join(map(str, (kind, number, *parts)))

    # --- Requests ---

    def identify(self, effect: CallModel) -> str:
        kind = effect.request.qualname
        if self._nested:  # flows that run at the same time have no fixed order
            kind = request_hash(effect.model.name, "", effect.request)
        elif not self._is_announced:  # a side question
            kind += "?"
        self._is_announced = False
        number = self._requests.get(kind, 0)
        self._requests[kind] = number + 1
        self._nested += bool(effect.policy.filters)  # which may send requests, until the reply is complete
        return self._key("request", kind, number)

    def recall(self, key: str, effect: CallModel) -> ChatReply | None:
        data = self.entries.data.get(key)
        if data is None:
            return None
        for account in active_accounts.get():
            account.add_request(-1)  # the request was counted, but is not sent
        return reply_of(data)

    def before_sending(self, requests: Mapping[str, CallModel]) -> None:
        self._is_replaying = False

    def to_send(self, effect: CallModel) -> CallModel:
        # A tool must not start before the reply that calls it is recorded.
        return effect if effect.policy.early is None else effect._replace(early=None)

    def record(self, key: str, effect: CallModel, reply: ChatReply) -> None:
        self.entries.add_reply(key, reply)

    def record_error(self, key: str, error: Exception) -> None:
        self.entries.add(key, failed_request_to_json(error))

    # --- Tools ---

    def is_done(self, call: ToolCall) -> bool:
        """Return True if the result of a tool call is recorded, so that it need not be approved again."""
        return self._key("tool", call.id) in self.entries.data

    def is_in_doubt(self, call: ToolCall, *, is_decided: bool) -> bool:
        """Return True if a tool call began and may have run.

        ``is_decided`` is True if the call was decided after its last suspension.
        """
        begun = self.entries.data.get(self._key("begun", call.id))
        if begun is None or self.is_done(call):
            return False
        return not is_decided or bool(begun["segment"] == self.segment)

    def _run_tool(self, effect: Run) -> Flow[ToolRun]:
        prepared, call = effect.tool, effect.tool.call
        key = self._key("tool", call.id)
        recorded = self.entries.data.get(key)
        if recorded is not None:
            replayed = tool_run_from_json(recorded, prepared)
            if prepared.tool.compensate is not None and replayed.error is None:
                record_undoable(UndoableCall(prepared, replayed.result))
            return replayed
        self._is_replaying = False
        method = suspendable_method(prepared.tool)
        is_service = method is not None and method.call_plan is not None  # its own steps are recorded
        if not (prepared.tool.idempotent or is_service):
            self.entries.add(
                self._key("begun", call.id),
                {"segment": self.segment, "tool": call.name},
            )
        yield from self.entries.flush()
        run: ToolRun = yield effect
        is_unfinished = is_service and isinstance(run.error, FINAL_ERRORS)
        if is_unfinished or isinstance(run.error, (ApprovalRequiredError, JournalError)):
            return run  # it has no result yet
        self.entries.add(key, tool_run_to_json(run, prepared.tool))
        yield from self.entries.flush()
        return run

    def suspend(self, error: ApprovalRequiredError) -> Flow[None]:
        """Record that the call waits for approvals or results."""
        self.entries.add(f"suspended:{self.segment}", json.loads(error.state.to_json()))
        yield from self.entries.write("suspended")

    def fail(self, error: Exception) -> Flow[None]:
        """Record that the call failed. If its tools were undone, it starts over the next time."""
        _after_undoing(self)
        self.entries.add("failed", {"error": f"{type(error).__name__}: {error}"})
        yield from self.entries.write("failed")

    def finish(self, answer: Answer) -> Flow[None]:
        """Record the answer."""
        try:
            data = answer_to_json(answer, self.invocation)
        except Exception as error:  # the writer of a type may raise anything, and the caller gets the answer
            data = {"problem": str(error)}
        self.entries.add(ANSWER, data)
        yield from self.entries.write("completed")


def open_call(journal: Journal, loaded: Loaded, invocation: Invocation, *, is_new: bool) -> DurableCall:
    """Return the record of a call that this process owns, and prepare the call to continue.

    ``is_new`` is True if it has just been created.
    """
    data = entries_of(loaded)
    entries = RecordedEntries(journal, loaded.call, data, "")
    call = DurableCall(loaded.call, entries, invocation)
    if loaded.call.status == "running" and "failed" in data:
        _check_left(call)
        entries.forget_failure()
    decided = len(_decided_keys(data))
    if invocation.is_resumed:
        suspended = invocation.state.interceptor_data.get(DURABLE_KEY, {})
        _take_decisions(call, suspended.get("segment", 0), decided, is_new=is_new)
    elif decided:
        _continue_resumed(call, decided)
    return call


def _take_decisions(call: DurableCall, segment: int, decided: int, *, is_new: bool) -> None:
    """Record the decisions with which ``resume`` was called, or raise AlreadyResumedError."""
    if segment < decided - 1:
        raise AlreadyResumedError(call.invocation.qualname, call.invocation.state.suspended_id)
    call.entries.add(*_check_decisions(call.invocation, call.entries.data, is_new=is_new))
    call.segment = segment + 1


def _continue_resumed(call: DurableCall, decided: int) -> None:
    """Continue after the last suspension, with the decisions that were recorded."""
    invocation, state = call.invocation, call.invocation.state
    decisions = Decisions.of(call.entries.data[f"decided:{decided - 1}"])
    suspended = SuspendedCall.from_json(to_text(call.entries.data[f"suspended:{decided - 1}"]))
    resumed = resumed_invocation(
        invocation.plan,
        suspended._replace(expires_at=None),
        decisions.approvals,
        state.budget,
        decisions.results,
        invocation.toolbox,
    )
    for name in ("route", "tool_messages", "tool_rounds", "tool_calls", "resumed_messages"):
        setattr(state, name, getattr(resumed.state, name))
    state.earlier_requests = resumed.state.earlier_requests
    state.interceptor_data, state.suspended_id = resumed.state.interceptor_data, suspended.id
    call.segment = decided
    call.invocation = replace(invocation, request=resumed.request, approvals=resumed.approvals)


def _show(answer: Answer, invocation: Invocation) -> Flow[None]:
    """Show a stored answer in a stream, as if the model had written it at once."""
    output_format = invocation.plan.output_format
    model = invocation.routes[0].model.name
    if answer.tool_run is None and answer.strategy is output_format.strategy:
        yield Emit(AttemptStarted(1, model, output_format), replayed=True)
        for delta in whole_reply_deltas(answer.reply):
            yield Emit(delta, replayed=True)
