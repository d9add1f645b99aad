"""Suspend a service call until its tool calls are approved, and store its state as text."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from output_parsers.result.errors import shorten

from ..interface.memory_ids import memory_id_data
from ..models.errors import AiServiceError, SuspendedCallError
from ..models.messages import Message, ToolCall, ToolMessage, message_from_dict, message_to_dict
from ..models.requests import ChatOptions
from ..tools.tool import Denied
from .output_format import INSTRUCTIONS_MARK
from .plan import Invocation

T = TypeVar("T")
# True or False for all pending tool calls, or a decision for each of them, by its id.
Approvals: TypeAlias = bool | Mapping[str, bool | Denied]
_MARK = re.compile("\ue000[0-9a-f]+\ue001")


class SuspendedCall(NamedTuple):
    """A service call that is suspended until its tool calls are approved, in a form that can be stored.

    ``to_json`` and ``from_json`` convert it to and from text.

    Attributes:
        qualname: The name of the method, ``Service.method``.
        messages: The messages of the request.
        tool_messages: The messages since then; the last one has the calls that wait.
        pending: The ids of the calls that must be approved.
        external: The ids of the calls whose result is wanted.
        inner: The calls of services used as tools that wait, by the id of the tool call that made each. Then
            nothing else waits, and the other tools have run.
        finished: The results of these other tools.
        memory_id: The argument that is the memory id.
        rounds: How many rounds of tools were completed.
        options: The options of the request, without extra headers.
        interceptor_data: JSON that interceptors need when the call is resumed.
        model: The name of the model that wrote the calls; "" if it is not known.
        user_name: The argument that is the name of the user.
        earlier_messages: Tool messages from before the answer was requested again; ``messages`` contains them
            too.
        id: A random text that no other state has; "" if an older version wrote the state.
        expires_at: The time in seconds since 1970 after which the state cannot be resumed; None for no limit.
        signed_text: The text of a state whose signature was not checked; "" for other states.
    """

    qualname: str
    messages: tuple[Message, ...]
    tool_messages: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    memory_id: Any = None
    rounds: int = 0
    options: ChatOptions = ChatOptions()
    interceptor_data: Mapping[str, Any] = MappingProxyType({})
    model: str = ""
    user_name: Any = None
    earlier_messages: tuple[Message, ...] = ()
    id: str = ""
    expires_at: float | None = None
    signed_text: str = ""
    external: tuple[str, ...] = ()
    inner: Mapping[str, SuspendedCall] = MappingProxyType({})
    finished: tuple[ToolMessage, ...] = ()

    def to_json(self, *, key: str | bytes | None = None, expires_after: float | None = None) -> str:
        """Convert a service call that waits for approval to JSON text, so that another process can resume it.

        Args:
            key: A secret of the program with which the text is signed (HMAC with SHA-256). ``from_json`` then
                needs the same key, and refuses a text that was changed. The text is not encrypted.
            expires_after: The seconds from now after which the state cannot be resumed. The default is the
                ``expires_at`` of the state. Without a signature, whoever has the text can change it.

        Raises:
            TypeError: The memory id or the user name cannot be written as JSON.
            ValueError: The key is empty, ``expires_after`` is not greater than 0, or the state is one whose
                signature was not checked. Without arguments, the text of the latter is returned unchanged.
        """
        if self.signed_text:
            as_signed = SuspendedCall.from_json(self.signed_text, verify=False)
            if key is not None or expires_after is not None or self != as_signed:
                raise ValueError("the state was signed elsewhere and cannot be changed; call to_json()")
            return self.signed_text
        if expires_after is not None and not expires_after > 0:
            raise ValueError(f"expires_after is {expires_after!r}; it must be greater than 0")
        data = _state_to_dict(self)
        if expires_after is not None:
            data["expires_at"] = time.time() + expires_after
        text = json.dumps(data, ensure_ascii=False, default=_mapping_to_dict)
        if key is None:
            return text
        data = json.loads(text)  # as the reader will see it, with lists and with text keys
        return json.dumps({**data, "signature": _signature(data, _secret(key))}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, *, key: str | bytes | None = None, verify: bool = True) -> SuspendedCall:
        """Restore a service call that waits for approval from its JSON text.

        Text from an older version, with fewer keys, is accepted.

        Args:
            text: The text that ``to_json`` returned.
            key: The key with which the text was signed.
            verify: False to read a signed text without its key, for the method of a remote client. Such a
                state can only be sent back to the service that signed it.

        Raises:
            SuspendedCallError: The text is not a suspended call, its signature is missing or wrong, it is
                signed and no key is given, or it has expired.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; pass the str that to_json returned")
        if key is not None and not verify:
            raise ValueError("a key was passed, but verify is False; pass one of them")
        secret = None if key is None else _secret(key)
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise TypeError(f"$ must be dict, found {shorten(repr(data), 60)}")
            if verify:
                _check_signature(data, secret)
            elif not isinstance(data.pop("signature", None), str):
                raise SuspendedCallError("the suspended call is not signed; do not pass verify=False")
            state = _state_from_dict(data)
        except SuspendedCallError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SuspendedCallError(f"{_NOT_A_STATE}: {error}") from error
        check_expiry(state)
        return state if verify else state._replace(signed_text=text)


class AlreadyResumedError(AiServiceError):
    """Raised when a suspended service call is resumed a second time; its tools do not run again.

    ``ChatMemory`` records in its store which states were resumed, and so do the routes that serve a method
    over HTTP. Without them nothing records it.

    Attributes:
        id: The id of the state.
    """

    def __init__(self, qualname: str, state_id: str) -> None:
        super().__init__(
            f"{qualname}: the suspended call {state_id} was resumed before; its tools do not run again"
        )
        self.id = state_id


class ApprovalRequiredError(AiServiceError):
    """Raised when a model's reply calls a tool that waits for an approval or for a result from outside.

    No tool of that reply has run yet. If the tool is called by a service that is itself used as a tool, the
    call around it waits, too: its error has the same calls, with ids such as "outer/inner", and the other
    tools of its own reply have run.

    Attributes:
        calls: The calls that must be approved.
        external_calls: The calls of external tools, whose results are wanted.
        state: The call so far. ``resume(method, state, approvals, results={id: value})`` continues it, in
            another process too.
    """

    def __init__(
        self,
        qualname: str,
        calls: tuple[ToolCall, ...],
        state: SuspendedCall,
        external_calls: tuple[ToolCall, ...] = (),
    ) -> None:
        wanted = (("approval required for", calls), ("result required of", external_calls))
        texts = [f"{text} {', '.join(map(_call_text, some))}" for text, some in wanted if some]
        super().__init__(f"{qualname}: {'; '.join(texts)}; continue with resume")
        self.calls = calls
        self.external_calls = external_calls
        self.state = state


def _call_text(call: ToolCall) -> str:
    return f"{call.name}({call.arguments})"


def suspend(
    invocation: Invocation,
    messages_sent: int,
    pending: Sequence[ToolCall] = (),
    external: Sequence[ToolCall] = (),
    inner: Mapping[str, SuspendedCall] = MappingProxyType({}),
    finished: Sequence[ToolMessage] = (),
) -> SuspendedCall:
    """Create the saved state from which a service call resumes after its tool calls were approved.

    ``messages_sent`` is how many of its tool messages the request already contains. The other arguments are
    attributes of the state; ``external`` are the calls whose results are wanted.
    """
    state = invocation.state
    return SuspendedCall(
        qualname=invocation.plan.qualname,
        messages=invocation.request.messages,
        tool_messages=tuple(state.tool_messages[messages_sent:]),
        pending=tuple(call.id for call in pending),
        memory_id=invocation.memory_id,
        rounds=state.tool_rounds - 1,
        options=replace(invocation.request.options, extra_headers=None),  # headers may contain a key
        interceptor_data=dict(state.interceptor_data),
        model="" if state.route is None else state.route.model.name,
        user_name=invocation.user_name,
        earlier_messages=tuple(state.tool_messages[:messages_sent]),
        id=os.urandom(16).hex(),
        external=tuple(call.id for call in external),
        inner=dict(inner),
        finished=tuple(finished),
    )


_NOT_A_STATE = "the text is not a suspended call that to_json wrote"


def _state_to_dict(state: SuspendedCall) -> dict[str, Any]:
    # The JSON keys are a stored format: they stay as they are when fields are renamed.
    data = {
        "place": INSTRUCTIONS_MARK,
        "where": state.qualname,
        "messages": [message_to_dict(message) for message in state.messages],
        "exchanged": [message_to_dict(message) for message in state.tool_messages],
        "pending": list(state.pending),
        "external": list(state.external),
        "memory_id": memory_id_data(state.memory_id),
        "rounds": state.rounds,
        "options": {name: value for name, value in asdict(state.options).items() if value is not None},
        "kept": dict(state.interceptor_data),
        "model": state.model,
        "user_name": state.user_name,
        "before": [message_to_dict(message) for message in state.earlier_messages],
        "id": state.id,
        "expires_at": state.expires_at,
    }
    if state.inner or state.finished:
        data["inner"] = {
            # A state that another service signed stays the text that it wrote.
            call_id: inner.to_json() if inner.signed_text else _state_to_dict(inner)
            for call_id, inner in state.inner.items()
        }
        data["finished"] = [message_to_dict(message) for message in state.finished]
    return data


def _state_from_dict(data: dict[str, object]) -> SuspendedCall:
    mark = _get(data, "place", str)
    if not _MARK.fullmatch(mark):
        raise TypeError(f"$.place is {shorten(repr(mark), 60)}, which to_json does not write")
    # The mark of the process that wrote the state is replaced by that of this one.
    data = json.loads(json.dumps(data, ensure_ascii=False).replace(mark, INSTRUCTIONS_MARK))
    return SuspendedCall(
        _get(data, "where", str),
        _messages(data, "messages"),
        _messages(data, "exchanged"),
        _texts(data, "pending"),
        _get(data, "memory_id", object),
        _rounds(data),
        _options(_get(data, "options", dict)),
        _get(data, "kept", dict),
        _get({"model": "", **data}, "model", str),
        data.get("user_name"),
        _messages({"before": [], **data}, "before"),
        _get({"id": "", **data}, "id", str),
        None if data.get("expires_at") is None else float(_get(data, "expires_at", (int, float))),
        external=_texts({"external": [], **data}, "external"),
        inner=_inner_states(_get({"inner": {}, **data}, "inner", dict)),
        finished=_tool_messages({"finished": [], **data}, "finished"),
    )


def _inner_states(data: dict[str, Any]) -> Mapping[str, SuspendedCall]:
    states = {}
    for call_id, item in data.items():
        try:
            if isinstance(item, str):
                states[call_id] = SuspendedCall.from_json(item, verify=False)
            elif isinstance(item, dict):
                states[call_id] = _state_from_dict(item)
            else:
                raise TypeError(f"it must be dict, found {shorten(repr(item), 60)}")
        except SuspendedCallError:  # also a ValueError
            raise
        except (TypeError, ValueError) as error:
            raise TypeError(f"$.inner.{call_id}: {error}") from error
    return states


def _tool_messages(data: Mapping[str, object], name: str) -> tuple[ToolMessage, ...]:
    messages = []
    for index, message in enumerate(_messages(data, name)):
        if not isinstance(message, ToolMessage):
            raise TypeError(f"$.{name}[{index}] is not the result of a tool")
        messages.append(message)
    return tuple(messages)


def _secret(key: str | bytes) -> bytes:
    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise ValueError("the key is empty; pass a secret, for example 32 random bytes")
    return secret


def _signature(data: Mapping[str, object], secret: bytes) -> str:
    """Return an HMAC-SHA256 signature for the JSON data of a suspended service call.

    It does not depend on the order of keys and on blanks, which a database may change.
    """
    import hmac  # late, because few programs sign states

    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode(), "sha256").hex()


def _check_signature(data: dict[str, object], secret: bytes | None) -> None:
    """Verify and remove the HMAC signature in the JSON data of a suspended service call.

    Raises SuspendedCallError if it is wrong.
    """
    signature = data.pop("signature", None)
    if secret is None:
        if signature is not None:
            raise SuspendedCallError("the suspended call is signed; pass the key to from_json")
        return
    from hmac import compare_digest

    expected = _signature(data, secret)
    if signature is None:
        raise SuspendedCallError("the suspended call is not signed; pass the key to to_json as well")
    if not isinstance(signature, str) or not compare_digest(signature.encode(), expected.encode()):
        raise SuspendedCallError(
            "the signature of the suspended call is wrong: it was changed, or signed with another key"
        )


def check_expiry(state: SuspendedCall) -> None:
    """Raise SuspendedCallError if a service call has waited for approval longer than allowed."""
    if state.expires_at is not None and not time.time() < state.expires_at:
        raise SuspendedCallError(f"the suspended call of {state.qualname} has expired; make the call again")


def _get(data: Mapping[str, object], name: str, kind: type[T] | tuple[type[T], ...]) -> T:
    if name not in data:
        raise TypeError(f"$.{name} is missing")
    value = data[name]
    # True is an int for isinstance, but not in JSON
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(one.__name__ for one in kinds)
        raise TypeError(f"$.{name} must be {names}, found {shorten(repr(value), 60)}")
    return value


def _messages(data: Mapping[str, object], name: str) -> tuple[Message, ...]:
    messages = []
    for index, item in enumerate(_get(data, name, list)):
        try:
            messages.append(message_from_dict(item))
        except (ValueError, TypeError) as error:
            raise TypeError(f"$.{name}[{index}]: {error}") from error
    return tuple(messages)


def _texts(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    items = _get(data, name, list)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise TypeError(f"$.{name}[{index}] must be str, found {shorten(repr(item), 60)}")
    return tuple(items)


def _rounds(data: Mapping[str, object]) -> int:
    rounds = _get(data, "rounds", int)
    if rounds < 0:
        raise TypeError(f"$.rounds must not be negative, found {rounds}")
    return rounds


def _mapping_to_dict(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _options(data: dict[str, Any]) -> ChatOptions:
    stop = data.get("stop")
    if "extra_headers" in data:  # to_json does not write them
        raise TypeError("$.options.extra_headers: a suspended call has no headers")
    try:
        # not tuple("END"), which would make a stop text of each character
        options = ChatOptions(**{**data, "stop": tuple(stop) if isinstance(stop, list) else stop})
        problems = options.problems("$.options")
    except TypeError as error:
        raise TypeError(f"$.options: {error}") from error
    if problems:
        raise TypeError(str(problems[0]))
    return options
