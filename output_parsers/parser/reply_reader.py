"""Read the value in a reply that is not exact JSON: JSON inside other text, broken JSON, or prose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product, starmap
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from ..backslashes import LOST_BACKSLASH, with_lost_backslashes
from ..json.calls import WrittenCalls, call_of, calls_in_channels, find_calls, has_raw_strings, may_have_calls
from ..json.spelling import OTHER_SIGNS, respelled
from ..lazy_regex import lazy_regex
from ..prose.announcements import without_small_talk
from ..prose.decimal_signs import DecimalSigns
from ..prose.harmless import calls_example, takes_back
from ..prose.roles import Role, role_of
from ..result.errors import OutputParsingError, Problem
from ..result.reading import (
    Coercion,
    Cursor,
    Json,
    Leniency,
    Reading,
    ValidationFailure,
    external_cause,
    strict_equal,
)
from ..types.choices import ChoiceNode
from ..types.constraints import unwrapped
from ..types.containers import ListNode, UnionNode
from ..types.node import Node, described_hint, schema_of
from ..types.records import (
    ENVELOPE_KEYS,
    LIST_KEYS,
    SCALAR_KEYS,
    UNKNOWN_KEY_RULE,
    ObjectNode,
    normalize_key,
)
from ..types.scalars import NoneNode
from ..types.target import Target
from .extract import (
    FRAGMENT_MESSAGE,
    TEXT_AROUND_JSON,
    Candidate,
    ReplyText,
    find_single_json,
    not_the_answer,
    strip_reasoning,
)
from .fast_path import NOT_EXACT, FastReader, never_exact
from .reasoning import find_answer, may_have_reasoning

T = TypeVar("T")
# What a model says before it calls a tool.
_INTENTION = lazy_regex(
    r"\s*(?:i['’]ll|i will|let me|i['’]m going to) (?:now )?(?:call|use|invoke) (?:the|a|your) "
    r"(?:[\w`'\"-]+ )?(?:tool|function)"
    r"(?: (?:now|for (?:this|that|it)|to (?:do (?:this|that|so)|answer|extract (?:it|this|that))))?[.:]\s*"
)
_WRITTEN_CALL = "tool call in text"
_COMPARED = 20  # items of two arrays
_EXPLANATIONS = ("explanation", "reason", "reasoning", "rationale", "justification", "analysis")
_JSON_LANGUAGES = ("", "json", "jsonl", "json5", "jsonc", "text", "txt")
_GOES_ON = lazy_regex(r"\s(?:\.{3}|…|\[(?:…|\.{3})\])\s*\Z")
_LONGEST_ELLIPSIS = 40  # characters
# Characters that cannot be seen; joiners (U+200C, U+200D) belong to words and emoji.
_WITHOUT_WIDTH = lazy_regex("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e]")
# A word of a name in camel case or snake case.
_WORD_OF_NAME = lazy_regex(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+")
_TEXT_AROUND = (Coercion("$", TEXT_AROUND_JSON, "", ""),)
_BACKSLASH = Coercion("$", LOST_BACKSLASH, "", "")

# A rating or verdict as judges are often asked to write it: [[7]], [[B]], [RESULT] 7.
_MARKED = lazy_regex(r"(?:(\[\[)|\[(?i:result)\]:?\s+)([^\[\]{}\"',]{1,60})(?(1)\]\])")


class _Fit(NamedTuple, Generic[T]):
    """A JSON value of a reply that fits the type: the value, its JSON, and the conversions it needed."""

    value: T
    data: Json
    coercions: list[Coercion]


class ReplyReader(Generic[T]):
    """Reads the replies that exact parsing of the whole text did not accept.

    Args:
        node: The node of the expected reply, with its envelope if there is one.
        value_node: The node of the value.
        field: The key of the envelope, or None.
        target: The type.
        is_plain_text: True if the whole reply is the value.
    """

    def __init__(
        self, node: Node[T], value_node: Node[T], field: str | None, target: Target, *, is_plain_text: bool
    ) -> None:
        self._node = node
        self._value_node = value_node
        self._field = field
        self._target = target
        self._accepts_prose = node.prose
        self._is_plain_text = is_plain_text
        choices = unwrapped(value_node)  # an envelope may be missing
        self._choices = choices if isinstance(choices, ChoiceNode) else None
        self._words: frozenset[str] | None = None

    def read(self, text: str, leniency: Leniency, read_exact: FastReader) -> Reading[T]:
        """Read a reply that ``read_exact`` did not accept as a whole.

        Raises OutputParsingError if the text does not fit, and no other error.
        """
        restored = text if leniency is Leniency.NONE else self._with_lost_backslashes(text)
        if restored != text:
            try:
                reading = self.read(restored, leniency, read_exact)
            except OutputParsingError as error:
                raise OutputParsingError(text, error.problems) from error.__cause__
            return replace(reading, coercions=(*reading.coercions, _BACKSLASH))
        # The commonest deviation is a fence or a sentence around exact JSON. A tag may belong to reasoning,
        # which must be removed first.
        is_fast = read_exact is not never_exact and not self._accepts_prose
        cursor = Cursor(leniency, declaration=self._target.description or "")
        try:
            if is_fast and leniency is not Leniency.NONE and not may_have_reasoning(text):
                value = read_exact(find_single_json(text, self.own_words))
                if value is not NOT_EXACT:
                    return Reading(value, _TEXT_AROUND)
            value = self._read_reply(text, cursor, read_exact)
        except ValidationFailure as failure:
            other = None if leniency is Leniency.NONE else self._read_respelled(text, leniency, read_exact)
            if other is not None:
                return other
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        except RecursionError:
            problem = Problem("$", "it is nested too deeply")
            raise OutputParsingError(text, [problem]) from None
        return Reading(value, tuple(cursor.coercions))

    def _read_respelled(self, text: str, leniency: Leniency, read_exact: FastReader) -> Reading[T] | None:
        """Read a reply as JSON whose signs are spelled in another way; return None if it is not such JSON."""
        try:
            json = respelled(strip_reasoning(text, Cursor(leniency)).without_wrapping().text)
        except ValidationFailure:  # the reply ends inside its reasoning
            return None
        if json is None:
            return None
        try:
            reading = self.read(json, leniency, read_exact)
        except OutputParsingError as error:
            raise OutputParsingError(text, error.problems) from error.__cause__
        return replace(reading, coercions=(*reading.coercions, Coercion("$", OTHER_SIGNS, "", "")))

    def _with_lost_backslashes(self, text: str) -> str:
        is_in_prose = self._is_plain_text or (self._accepts_prose and '"' not in text)  # such as \\boxed{B}
        if is_in_prose or "\\" not in text:
            return text
        is_python = self._accepts_calls and has_raw_strings(find_answer(text).text)
        return text if is_python else with_lost_backslashes(text)

    def _read_reply(self, text: str, cursor: Cursor, read_exact: FastReader) -> T:
        """Parse the value in a model's reply: as valid JSON, as JSON inside other text, or as prose."""
        node = self._node
        calls = self.find_calls(text)
        if calls is not None:
            return self._read_only_value(calls, cursor)
        reply = strip_reasoning(text, cursor, self.own_words)
        if self._is_plain_text:  # text keeps its white space, unless reasoning was removed
            return self._read_text(reply, cursor) if reply.rules else node.read_text(text, cursor)
        if not reply.text:
            raise cursor.failure(f"expected {node.kind}; the reply is empty", text)
        marked = _MARKED.fullmatch(reply.text) if self._accepts_prose and "[" not in node.brackets else None
        if marked is not None:
            cursor.record_dropped("brackets around or before the value")
            reply = reply._replace(text=marked[2])
        # A reply that is exactly the text of a choice is not read as JSON: "true" may be a member of an enum.
        if self._is_text_choice(reply):
            return self._read_text(reply, cursor)
        # read() has already tried other texts
        is_fast = read_exact is not never_exact and not self._accepts_prose
        if is_fast and may_have_reasoning(text):
            value = self._read_exact_after_tag(reply, cursor, read_exact)
            if value is not NOT_EXACT:
                exact: T = value
                return exact
        whole = reply.read_whole()
        if whole is not None:
            return self._read_only_value(whole, cursor)
        if reply.looks_like_json:
            return self._read_json(reply, cursor)
        return self._read_without_wrapping(reply, cursor)

    @cached_property
    def _accepts_calls(self) -> bool:
        """True for a record and for a list of records, which tools with their names may return."""
        return _is_record(self._value_node if self._item is None else self._item)

    @cached_property
    def _item(self) -> Node[Any] | None:
        """The node of the items of a list, also of one with constraints or null; None for other types."""
        node = unwrapped(self._value_node)
        if isinstance(node, UnionNode):
            options = [option for option in node.options if not isinstance(option, NoneNode)]
            node = unwrapped(options[0]) if len(options) == 1 else node
        return node.item if isinstance(node, ListNode) else None

    def find_calls(self, text: str) -> Candidate | None:
        """Find the tool calls in a reply that wrote them as text; the value is a call or a list of them.

        Raises ValidationFailure if the words around them may deny them.
        """
        if not (self._accepts_calls and may_have_calls(text)):
            return None
        written = calls_in_reply(text)
        if written is None:
            return None
        text, start, end, calls = written.text, written.start, written.end, written.calls
        before = text[:start].casefold()
        if _INTENTION.fullmatch(before) and takes_back(before) is None and not calls_example(before):
            text, start, end = text[start:], 0, end - start
        verdict = role_of(text, start, end, own_words=self.own_words)
        if verdict.role in (Role.OTHER, Role.UNCLEAR):
            raise ValidationFailure(not_the_answer(verdict.words))
        return Candidate(calls if len(calls) > 1 else calls[0], (_WRITTEN_CALL,))

    def _is_text_choice(self, reply: ReplyText) -> bool:
        return self._choices is not None and self._choices.has_text_choice(reply.text)

    def _read_without_wrapping(self, reply: ReplyText, cursor: Cursor) -> T:
        """Parse a reply that does not look like JSON, perhaps inside a fence or quotes."""
        inner = reply.without_wrapping()
        has_wrapping = inner.text != reply.text and (self._accepts_prose or inner.text[:1] == '"')
        if has_wrapping and not self._is_text_choice(inner):
            whole = inner.read_whole()
            if whole is not None:  # JSON in a fence has the same meaning as without the fence
                return self._read_only_value(whole, cursor)
        return self._read_text(inner, cursor) if self._accepts_prose else self._read_json(reply, cursor)

    def _read_exact_after_tag(self, reply: ReplyText, cursor: Cursor, read_exact: FastReader) -> Any:
        """Parse a reply's only JSON value without repairs, ignoring the text around the value.

        Returns NOT_EXACT if that fails.
        """
        rules = reply.rules
        value = read_exact(reply.text) if rules else NOT_EXACT
        if value is NOT_EXACT:
            rules = (*rules, TEXT_AROUND_JSON)
            value = read_exact(find_single_json(reply.text, self.own_words))
        if value is not NOT_EXACT:
            for rule in rules:
                cursor.record_dropped(rule)
        return value

    def own_words(self) -> frozenset[str]:
        """Return the words of the type, which may occur next to JSON: ``Invoice: {...}``."""
        if self._words is None:
            hint = described_hint(self._node.hint(), self._target.description)
            words = {match[0].casefold() for match in _WORD_OF_NAME.finditer(f"{self._target.name} {hint}")}
            self._words = frozenset(words | {f"{word}s" for word in words})
        return self._words

    def _read_text(self, reply: ReplyText, cursor: Cursor) -> T:
        for rule in reply.rules:
            cursor.record_dropped(rule)
        text = reply.text
        if self._accepts_prose and not (self._node.any_text or isinstance(self._value_node, ListNode)):
            text = _WITHOUT_WIDTH.sub("", text)
            if _GOES_ON.search(text, max(0, len(text) - _LONGEST_ELLIPSIS)):
                raise cursor.failure(f"expected {self._node.kind}; the text goes on after it", text)
        if not (self._node.any_text or isinstance(self._value_node, ListNode)):
            bare = without_small_talk(text)
            if bare != text:
                cursor.record_dropped("words around the answer left out")
                text = bare
        cursor.signs = DecimalSigns(text)
        return self._node.read_text(text, cursor)

    def _read_only_value(self, candidate: Candidate, cursor: Cursor) -> T:
        """Read the only JSON value in a reply.

        One record is accepted in place of a list of records, an object whose only value is the list, and a
        list of one record in place of a record.
        """
        value, node, item = candidate.value, self._value_node, self._item
        if isinstance(value, dict) and item is not None and self._field not in value:
            inner = next(iter(value.values())) if len(value) == 1 else None
            if self._is_item(value):
                cursor.record_dropped("one object in place of an array")
                candidate = candidate._replace(value=[value])
            elif isinstance(inner, list) and isinstance(item, ObjectNode):
                cursor.record_dropped("object around an array")
                candidate = candidate._replace(value=inner)
        elif _is_one_object(value) and _is_record(node):
            cursor.record_dropped("brackets around an object")
            candidate = candidate._replace(value=value[0])
        elif isinstance(node, ObjectNode) and self._field is None and isinstance(value, dict):
            candidate = candidate._replace(value=_without_type_name(value, node, cursor))
        return self._read_candidate(candidate, cursor)

    def _is_item(self, data: dict[str, Json]) -> bool:
        """Return True if an object is one item of the list: a record, or a call that returns one."""
        item = self._item
        is_record = isinstance(item, ObjectNode) and any(item.field_for_key(key)[1] for key in data)
        return is_record or (self._accepts_calls and call_of(data) is not None)

    def _read_candidate(self, candidate: Candidate, cursor: Cursor) -> T:
        for rule in candidate.rules:
            cursor.record_dropped(rule)
        cursor.signs = DecimalSigns(candidate.value)
        data, data_cursor = candidate.value, cursor
        if isinstance(data, dict) and self._field not in data and not self._accepts_objects:
            bare = _without_explanation(data)
            if len(bare) == 1:
                data, data_cursor = self._open_envelope(bare, cursor)
        value = self._node.read(data, data_cursor)
        if candidate.has_extra_closer and any(step.rule == UNKNOWN_KEY_RULE for step in cursor.coercions):
            # an opening bracket may be missing inside the value, so that keys of an inner object seem unknown
            raise cursor.failure("the JSON is broken: it closes more brackets than it opens", candidate.value)
        return value

    def _open_envelope(self, data: dict[str, Json], cursor: Cursor) -> tuple[Json, Cursor]:
        """Unwrap a reply such as ``{"value": 42}`` if the type does not accept JSON objects itself.

        A scalar may also have the name of what is usually asked for, as in ``{"sentiment":
        "neutral"}``. Models copy this form from earlier answers in the conversation, which may have had
        an envelope. Any other object is returned unchanged.
        """
        ((key, inner),) = data.items()
        name = normalize_key(key)
        kinds = self._value_node.json_types
        fits = type(inner) not in (dict, list) and (kinds is None or type(inner) in {*kinds, str})
        is_scalar = fits and self._accepts_prose and not self._node.any_text
        is_key = (
            name in ENVELOPE_KEYS
            or (isinstance(inner, list) and name in LIST_KEYS)
            or (is_scalar and name in SCALAR_KEYS)
        )
        is_text = isinstance(inner, str) and not self._accepts_prose
        if not is_key or is_text:
            return data, cursor
        cursor.child(key).record_dropped("value in an envelope")
        return inner, cursor.child(key)

    @cached_property
    def _accepts_objects(self) -> bool:
        """True if the type may accept a JSON object, judging by its JSON Schema."""
        return _allows_objects(schema_of(self._value_node))

    def _read_json(self, reply: ReplyText, cursor: Cursor) -> T:
        """Find all JSON values in a reply, and return the only one that fits the type."""
        candidates = reply.find_candidates()
        if len(candidates) == 1 and not candidates[0].is_fragment:
            return self._read_only_value(candidates[0], cursor)
        if not candidates:
            if reply.looks_like_json:
                raise cursor.failure(reply.broken_json_message(), reply.text)
            return self._read_text(reply.without_wrapping(), cursor)
        return self._read_only(_without_other_code(candidates), cursor)

    def _read_only(self, candidates: Sequence[Candidate], cursor: Cursor) -> T:
        """Return the only JSON value in a reply that fits the type, as a value of the type.

        Equal values count as one. Raises ValidationFailure if different values fit the type, or if another
        one that does not fit has the same keys. If no candidate fits, the failure with the fewest problems is
        raised.
        """
        fits: list[_Fit[T]] = []
        others: list[Json] = []
        nearest: ValidationFailure | None = None
        before = len(cursor.coercions)
        for candidate in candidates:
            try:
                value = self._read_candidate(candidate, cursor)
            except ValidationFailure as failure:
                others.append(candidate.value)
                if nearest is None or len(failure.problems) < len(nearest.problems):
                    nearest = failure
            else:
                if candidate.is_fragment:
                    raise _Fragment(Problem("$", FRAGMENT_MESSAGE))
                if candidate.objection:
                    raise _Fragment(not_the_answer(candidate.objection))
                fits.append(_Fit(value, candidate.value, cursor.coercions[before:]))
            # The next candidate must not see what this one recorded.
            del cursor.coercions[before:]
        if not fits:
            assert nearest is not None, "there is at least one candidate"
            if any(candidate.is_fragment for candidate in candidates):
                raise _Fragment(Problem("$", FRAGMENT_MESSAGE))
            raise nearest
        first = fits[0]
        _refuse_other_answers(fits, others, nearest)
        cursor.coercions.extend(first.coercions)
        return first.value


def _refuse_other_answers(
    fits: list[_Fit[Any]], others: list[Json], failure: ValidationFailure | None
) -> None:
    """Raise ValidationFailure if JSON that fits has different values, or other JSON may be the answer."""
    if not all(strict_equal(other.value, fits[0].value) for other in fits[1:]):
        message = f"the reply holds {len(fits)} different answers that fit"
        raise _DifferentAnswers(Problem("$", message))
    if failure is not None and any(starmap(_is_alike, product([one.data for one in fits], others))):
        raise _DifferentAnswers(*failure.problems)


def calls_in_reply(text: str) -> WrittenCalls | None:
    """Find the tool calls in a reply in a channel or after its reasoning; None if there are none."""
    return find_calls(calls_in_channels(text) or find_answer(text).text)


def _is_alike(value: Json, other: Json) -> bool:
    """Return True if objects share a key or arrays the kind of an item, so that either may be the answer."""
    if isinstance(value, dict) and isinstance(other, dict):
        return not value.keys().isdisjoint(other)
    if isinstance(value, list) and isinstance(other, list):
        return any(starmap(_is_alike, product(value[:_COMPARED], other[:_COMPARED])))
    return type(value) is type(other)


def _without_explanation(data: dict[str, Json]) -> dict[str, Json]:
    """Return ``{"answer": 42}`` for ``{"answer": 42, "explanation": "…"}``, if that denies nothing."""
    bare = {key: value for key, value in data.items() if normalize_key(key) not in _EXPLANATIONS}
    others = [value for key, value in data.items() if key not in bare]
    is_harmless = all(isinstance(value, str) and takes_back(value) is None for value in others)
    return bare if others and is_harmless else data


def _is_one_object(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)


def _is_record(node: Node[object]) -> bool:
    """Return True if every value of a type, except null, is written as an object."""
    if isinstance(node, UnionNode):
        return all(isinstance(option, (ObjectNode, NoneNode)) for option in node.options)
    return isinstance(node, ObjectNode)


def _without_type_name(data: dict[str, Json], node: ObjectNode, cursor: Cursor) -> Json:
    """Unwrap ``{"Person": {...}}``; other objects are returned unchanged."""
    if len(data) != 1:
        return data
    ((key, inner),) = data.items()
    is_named = normalize_key(key) == normalize_key(node.name)
    if not is_named or not isinstance(inner, dict) or node.field_for_key(key)[0] is not None:
        return data
    cursor.record_dropped("object in an envelope")
    return inner


def _allows_objects(schema: object) -> bool:
    """Return True if a JSON Schema may accept an object; every ``$ref`` is ignored."""
    if not isinstance(schema, dict):
        return True
    if "anyOf" in schema:
        return any(map(_allows_objects, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return any(isinstance(value, dict) for value in schema.get("enum", [schema.get("const")]))
    return "object" in schema.get("type", "object")


class _Fragment(ValidationFailure):
    """Raised if a JSON value in a reply fits the type but seems to be a fragment of larger, broken JSON."""


class _DifferentAnswers(ValidationFailure):
    """Raised if several different JSON values in a reply fit the type."""


def _without_other_code(candidates: list[Candidate]) -> list[Candidate]:
    """Leave out fences in other languages if there are fences in JSON."""
    fenced = [candidate for candidate in candidates if candidate.fenced]
    has_json = any(candidate.language.startswith("json") for candidate in fenced)
    if not has_json or all(candidate.language in _JSON_LANGUAGES for candidate in fenced):
        return candidates
    return [one for one in candidates if one.language.startswith("json") or not one.fenced]
