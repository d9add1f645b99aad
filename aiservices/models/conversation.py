"""Write the messages of a conversation for one API, whose rules are data.

A conversation may come from another provider, from a memory window that cut it, or from a program. So the
same preparation runs for all APIs and all sources: names, arguments and ids of tool calls, results of tools,
empty answers, and the order of the messages become what the API accepts.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from operator import is_
from typing import Literal, NamedTuple

from pydantic_core import from_json, to_json

from .media import Media
from .messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_SHORT = 16  # characters; a shorter id cannot contain a part of the id that it replaces
_NO_RESULT = "(no result: the call was not finished)"
_NO_BEGINNING = "(The beginning of the conversation is left out.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRules:
    """The requirements of an API for the messages of a request.

    Attributes:
        tool_names: The names of tools that it accepts, as a regular expression.
        call_ids: The ids of tool calls that it accepts, as a regular expression.
        call_id_length: The length of an id that replaces another one.
        system: Where system messages may be: "anywhere", "one" at the start, or "apart" from the other
            messages (those at the start); "before answers" is the same, but also between the user and an
            answer or the end. Others are sent as messages of the user.
        answers_with_state: True if an answer without text and calls is accepted with its provider state.
        answer_images: Where images that a model made may be: in its "own" messages (with their provider
            state), in "any" message of a model, or in "none". Others are sent as a message of the user.
        result_media: True if results of tools may have images and files, else the user sends them.
        starts_with_user: True if the first message after the system messages must be the user's.
        merges_users: True if two messages of users in a row are refused, so that they are sent as one.
        joins_answers: True if two messages of the model in a row with tool calls are refused, so that they
            are sent as one.
    """

    tool_names: str = "[a-zA-Z0-9_-]{1,64}"
    call_ids: str = "(?s).+"
    call_id_length: int = 64
    system: Literal["anywhere", "one", "apart", "before answers"] = "anywhere"
    answers_with_state: bool = True
    answer_images: Literal["own", "any", "none"] = "none"
    result_media: bool = True
    starts_with_user: bool = False
    merges_users: bool = False
    joins_answers: bool = False

    def tool_name(self, name: str) -> str:
        """Return the name of a tool in a form that the API accepts; different long names stay different."""
        if re.fullmatch(self.tool_names, name):
            return name
        safe = _NOT_IN_NAMES.sub("_", name) or "unnamed"
        if not re.fullmatch(self.tool_names, safe[:64]):  # it begins with a digit or a hyphen
            safe = f"_{safe}"
        return safe if len(safe) <= 64 else f"{safe[:55]}_{_checksum(name)}"

    def call_id(self, call_id: str) -> str:
        """Return the id of a tool call in a form that the API accepts; different ids stay different."""
        if re.fullmatch(self.call_ids, call_id):
            return call_id
        if self.call_id_length < _SHORT:
            digest = blake2b(call_id.encode(errors="surrogatepass"), digest_size=8)
            return digest.hexdigest()[: self.call_id_length]
        safe = _NOT_IN_NAMES.sub("_", call_id)[: self.call_id_length - 9]
        return f"{safe}_{_checksum(call_id)}"


def safe_name(name: str) -> str:
    """Return the name of a JSON Schema in a form that providers accept."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "answer"


def _checksum(text: str) -> str:
    return f"{crc32(text.encode(errors='surrogatepass')):08x}"


def arguments_object(arguments: str) -> dict[str, object]:
    """Parse the arguments of a tool call as a JSON object.

    Other text, which a model may write, is put into an object.
    """
    try:
        value = from_json(arguments or "{}", allow_inf_nan=False)
    except ValueError:
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def arguments_text(arguments: str) -> str:
    """Return the arguments of a tool call as the text of a JSON object, unchanged if they are one."""
    value = arguments_object(arguments)
    is_unchanged = arguments and not (value.keys() == {"arguments"} and value["arguments"] == arguments)
    return arguments if is_unchanged and arguments.lstrip()[:1] == "{" else to_json(value).decode()


def system_count(messages: Sequence[Message]) -> int:
    """Return how many system messages are at the start of a conversation."""
    for index, message in enumerate(messages):
        if not isinstance(message, SystemMessage):
            return index
    return len(messages)


# --- Preparation ---


def is_empty(message: AiMessage) -> bool:
    """Return True if an answer has no text, no tool calls and no images."""
    is_blank = not message.text or message.text.isspace()
    return is_blank and not message.tool_calls and not message.contents


def with_unique_ids(answer: AiMessage, used_ids: set[str]) -> AiMessage:
    """Return an answer whose tool calls have ids that are not in ``used_ids``, and add them there.

    Some servers send no ids, or the same ids in every reply. The provider state of a changed answer no longer
    fits it.
    """
    calls = []
    for call in answer.tool_calls:
        call_id, number = call.id, len(used_ids)
        while not call_id or call_id in used_ids:
            number += 1
            call_id = f"call_{number}"
        used_ids.add(call_id)
        calls.append(call if call_id == call.id else replace(call, id=call_id))
    unique = tuple(calls)
    return answer if unique == answer.tool_calls else replace(answer, tool_calls=unique)


class _Round:
    """Answers of the model with their tool calls, the results, and the messages after them.

    Attributes:
        answers: The answers; more than one if no result is between them.
        results: The results of their tool calls.
        others: The other messages up to the next answer that calls tools.
        waiting: The calls without a result, each with the id that its result has.
    """

    def __init__(self) -> None:
        self.answers: list[AiMessage] = []
        self.results: list[ToolMessage] = []
        self.others: list[Message] = []
        self.waiting: list[tuple[str, ToolCall]] = []

    def add_answer(self, answer: AiMessage, used_ids: set[str]) -> None:
        """Add an answer with tool calls; calls with the id of another call get an id of their own."""
        unique = with_unique_ids(answer, used_ids)
        self.answers.append(unique)
        self.waiting += [
            (call.id, new) for call, new in zip(answer.tool_calls, unique.tool_calls, strict=True)
        ]

    def add(self, message: Message) -> None:
        """Add a message after the answers; a result of a tool that was not called becomes the user's."""
        if not isinstance(message, ToolMessage):
            self.others.append(message)
            return
        # a provider without ids knows a call by its name
        by_id = (pair for pair in self.waiting if pair[0] == message.call_id)
        by_name = (pair for pair in self.waiting if pair[1].name == message.name)
        pair = next(by_id, None) or next(by_name, None)
        if pair is None:
            text = f"The result of the tool {message.name}:\n{message.text}"
            self.others.append(_user_message([text, *_media(message)]))
            return
        self.waiting.remove(pair)
        call_id = pair[1].id
        self.results.append(message if message.call_id == call_id else replace(message, call_id=call_id))

    def messages(self, rules: ConversationRules, provider: str, *, is_last: bool) -> Iterator[Message]:
        """Yield the messages of the round in the order that APIs require."""
        if rules.joins_answers and len(self.answers) > 1:
            self.answers = [reduce(AiMessage.plus, self.answers)]
        yield from self.answers
        # the calls of the very last message may wait for the next request
        if not is_last or self.results or self.others:
            for _, call in self.waiting:
                self.results.append(ToolMessage(call.id, call.name, _NO_RESULT, failed=True))
        yield from self.results
        if parts := self._user_parts(rules, provider):
            yield _user_message(parts)
        for message in self.others:
            if not isinstance(message, AiMessage):
                yield message
                continue
            if not _is_left_out(message, rules, provider):
                yield message
            if images := _answer_images(message, rules, provider):
                yield _user_message(images)

    def _user_parts(self, rules: ConversationRules, provider: str) -> list[str | Media]:
        """Return the images and files of answers and results that the user must send."""
        parts = [part for answer in self.answers for part in _answer_images(answer, rules, provider)]
        for result in () if rules.result_media else self.results:
            if media := _media(result):
                parts += [f"From the result of the tool {result.name}:", *media]
        return parts


def _media(message: ToolMessage) -> list[Media]:
    return [part for part in message.contents if not isinstance(part, str)]


def _answer_images(message: AiMessage, rules: ConversationRules, provider: str) -> list[str | Media]:
    """Return the images of an answer that the user must send, because the API takes none in answers."""
    if not message.contents or rules.answer_images == "any":
        return []
    if rules.answer_images == "own" and message.parts_for(provider) is not None:
        return []
    return ["From your answer:", *message.images] if message.images else []


def _user_message(parts: Sequence[str | Media]) -> UserMessage:
    text = "".join([part for part in parts if isinstance(part, str)])
    return UserMessage(text, contents=tuple(parts) if any(part != text for part in parts) else ())


def _is_left_out(message: AiMessage, rules: ConversationRules, provider: str) -> bool:
    has_state = rules.answers_with_state and message.parts_for(provider) is not None
    # images that the user sends leave an answer without content
    has_images = message.contents and rules.answer_images == "any"
    return is_empty(replace(message, contents=())) and not has_state and not has_images


def prepare(messages: Sequence[Message], rules: ConversationRules, provider: str) -> list[Message]:
    """Return the messages of a conversation as the rules of an API require them.

    ``provider`` is the API with its address, whose own messages may have provider state.
    """
    used_ids: set[str] = set()
    rounds = [_Round()]
    for message in messages:
        if not isinstance(message, AiMessage) or not message.tool_calls:
            rounds[-1].add(message)
            continue
        last = rounds[-1]
        if not last.waiting or last.results or last.others:
            rounds.append(_Round())
        rounds[-1].add_answer(message, used_ids)
    prepared: list[Message] = []
    for one in rounds:
        prepared += one.messages(rules, provider, is_last=one is rounds[-1])
    return _in_order(prepared, rules)


def _in_order(
    messages: Sequence[Message], rules: ConversationRules, *, has_begun: bool = False
) -> list[Message]:
    """Return messages in an order that the API accepts for system and user messages.

    With ``has_begun``, they continue a conversation.
    """
    begin = 0 if has_begun or rules.system in ("apart", "before answers") else system_count(messages)
    system = [message for message in messages[:begin] if message.text.strip()]
    if rules.system == "one" and len(system) > 1:
        system = [SystemMessage("\n\n".join([message.text for message in system]))]
    placed = _with_user_texts(messages[begin:], rules)
    if rules.starts_with_user and not has_begun and placed and not isinstance(placed[0], UserMessage):
        placed.insert(0, UserMessage(_NO_BEGINNING))
    return system + (_with_users_merged(placed) if rules.merges_users else placed)


def _with_user_texts(messages: Sequence[Message], rules: ConversationRules) -> list[Message]:
    """Return messages in which unsupported system messages are sent as user messages."""
    return [
        UserMessage(message.text)
        if isinstance(message, SystemMessage) and not _takes_system(messages, index, rules)
        else message
        for index, message in enumerate(messages)
    ]


def _with_users_merged(messages: list[Message]) -> list[Message]:
    """Return messages in which consecutive user messages are merged."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            merged[-1] = _merged(last, message)
        else:
            merged.append(message)
    return merged


def _takes_system(messages: Sequence[Message], index: int, rules: ConversationRules) -> bool:
    if rules.system != "before answers":
        return rules.system == "anywhere"
    is_before_answer = index + 1 == len(messages) or isinstance(messages[index + 1], AiMessage)
    return is_before_answer and index > 0 and not isinstance(messages[index - 1], AiMessage)


def _merged(first: UserMessage, second: UserMessage) -> UserMessage:
    name = first.name if first.name == second.name else None
    parts: list[str | Media] = []
    for message in (first, second):
        if message.name != name:
            parts.append(f"{message.name}:")
        parts += message.parts
    if all(isinstance(part, str) for part in parts):
        return UserMessage("\n\n".join(map(str, parts)), name)
    return replace(_user_message(parts), name=name)


def _has_paired_calls(messages: Sequence[Message], rules: ConversationRules, used_ids: set[str]) -> bool:
    """Return True if each tool call has its own id and its result directly after it.

    An answer without content, or with images that the user must send, is False, too. The ids of the calls are
    added to ``used_ids``.
    """
    waiting: set[str] = set()  # the ids of calls without a result
    for message in messages:
        if type(message) is ToolMessage:
            if message.call_id not in waiting or (message.contents and not rules.result_media):
                return False
            waiting.discard(message.call_id)
        elif waiting:
            return False
        elif type(message) is AiMessage:
            ids = _call_ids(message, rules)
            if ids is None or not used_ids.isdisjoint(ids):
                return False
            waiting = ids
            used_ids |= ids
    return "" not in used_ids and (not waiting or type(messages[-1]) is AiMessage)


def _call_ids(message: AiMessage, rules: ConversationRules) -> set[str] | None:
    """Return the ids of the calls of an answer; None if the answer cannot be sent as it is."""
    ids = {call.id for call in message.tool_calls}
    if len(ids) < len(message.tool_calls) or (not ids and is_empty(message)):
        return None
    return None if message.contents and rules.answer_images != "any" else ids


# --- Writing ---

_LONG = 16  # messages
_MAX_BEGINNINGS = 32  # conversations
_MAX_CACHED_SIZE = 1 << 20  # bytes


class _Beginning(NamedTuple):
    """The beginning of a conversation that was written for an earlier request.

    Attributes:
        messages: The messages.
        used_ids: The ids of their tool calls.
        written: Their JSON, without the end of the last message.
        role: The role of the last message; None if nothing is written.
    """

    messages: Sequence[Message]
    used_ids: set[str]
    written: bytes
    role: str | None


_NOTHING = _Beginning((), set(), b"", None)


def _is_same(beginning: Sequence[Message], messages: Sequence[Message]) -> bool:
    # equal answers may have different provider states
    return all(map(is_, beginning, messages)) or all(
        one is other or (one == other and not isinstance(one, AiMessage))
        for one, other in zip(beginning, messages, strict=False)
    )


class ConversationWriter:
    """Writes conversations as JSON arrays in the format of one API.

    Each message keeps the JSON that was written for it, and the writer keeps the beginnings of the last long
    conversations. So a round of tools costs the same in a long conversation as in a short one.

    Args:
        rules: What the API requires of the messages.
        provider: The API with its address; its messages may have provider state.
        encode: Returns the role of a message and the JSON values that it becomes.
        variant: Distinguishes encoders of the same API that write messages differently.
        content: The member with the values of a message, if the messages of an API are lists of blocks; the
            values of neighbours with the same role are then joined. Without it, the values are the messages.
    """

    def __init__(
        self,
        rules: ConversationRules,
        provider: str,
        encode: Callable[[Message], tuple[str, Sequence[object]]],
        *,
        variant: str = "",
        content: str = "",
    ) -> None:
        self._rules = rules
        self._provider = provider
        self._encode = encode
        self._key = f"{provider} {variant} {rules!r}"
        self._content = to_json(content) if content else b""
        self._end = b"]}" if content else b""
        self._checks_order = rules.system != "anywhere" or rules.starts_with_user or rules.merges_users
        self._beginnings: dict[int, _Beginning] = {}  # by the identity of the last message

    def __call__(self, messages: Sequence[Message]) -> bytes:
        """Return the JSON array of the messages of a conversation."""
        beginning, new = _NOTHING, messages
        if len(messages) != 1 or type(messages[0]) is not UserMessage:
            beginning, new = self._split(messages)
        pieces, last_role = [beginning.written], beginning.role
        for message in new:
            _, role, values = self.encode(message)
            if not values:
                continue
            if last_role is not None:
                pieces.append(b"," if role == last_role or not self._content else b"]},")
            if role != last_role and self._content:
                pieces.append(b'{"role":"%s",%s:[' % (role.encode(), self._content))
            last_role = role
            pieces.append(values)
        written = b"".join(pieces)
        if beginning is not _NOTHING:
            self._keep(_Beginning(messages, beginning.used_ids, written, last_role))
        return b"[%s%s]" % (written, self._end if written else b"")

    def follows_rules(
        self, messages: Sequence[Message], used_ids: set[str], *, has_begun: bool = False
    ) -> bool:
        """Return True if messages can be sent as they are, which is the usual case.

        With ``has_begun``, an answer of the model continues a conversation.
        """
        if self._checks_order:
            ordered = _in_order(messages, self._rules, has_begun=has_begun)
            if len(ordered) != len(messages) or not all(map(is_, ordered, messages)):
                return False
        return _has_paired_calls(messages, self._rules, used_ids)

    def encode(self, message: Message) -> tuple[str, str, bytes]:
        """Return a key, the role and the joined JSON values of a message, which caches all but large ones."""
        cached: tuple[str, str, bytes] | None = getattr(message, "encoded", None)
        if cached is not None and cached[0] == self._key:
            return cached
        role, values = self._encode(message)
        entry = self._key, role, to_json(values)[1:-1]
        if len(entry[2]) < _MAX_CACHED_SIZE:
            object.__setattr__(message, "encoded", entry)
        return entry

    def _split(self, messages: Sequence[Message]) -> tuple[_Beginning, Sequence[Message]]:
        """Return the cached beginning, and the prepared messages after it.

        The beginning is ``_NOTHING`` for a conversation that is not cached.
        """
        is_long = len(messages) >= _LONG
        beginning = (is_long and self._beginning(messages)) or _Beginning((), set(), b"", None)
        new = messages[len(beginning.messages) :]
        if self.follows_rules(new, beginning.used_ids, has_begun=bool(beginning.messages)):
            return beginning if is_long else _NOTHING, new
        return _NOTHING, prepare(messages, self._rules, self._provider)

    def _keep(self, beginning: _Beginning) -> None:
        """Cache the beginning of a conversation for the next request, unless calls may wait for results."""
        if len(beginning.written) < _MAX_CACHED_SIZE and not isinstance(beginning.messages[-1], AiMessage):
            for oldest in list(self._beginnings)[: 1 - _MAX_BEGINNINGS]:
                self._beginnings.pop(oldest, None)
            self._beginnings[id(beginning.messages[-1])] = beginning

    def _beginning(self, messages: Sequence[Message]) -> _Beginning | None:
        """Remove and return the longest cached beginning of a conversation."""
        for index in range(len(messages) - 1, max(len(messages) - _LONG, 0), -1):
            if type(messages[index]) is AiMessage and id(messages[index - 1]) in self._beginnings:
                beginning = self._beginnings.pop(id(messages[index - 1]), None)
                if beginning and len(beginning.messages) == index and _is_same(beginning.messages, messages):
                    return beginning
        return None
