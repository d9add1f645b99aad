"""Find the parser for a Python type, and convert a model's reply to a value of the type.

``parser_for``, ``parse`` and ``read`` use the default ParserRegistry. A custom registry can add parsers for
further types. A ``TypeParser`` also writes values as text from which it reads the same values again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeGuard, TypeVar, cast

from typing_extensions import TypeForm

from ..backslashes import LOST_BACKSLASH, with_lost_backslashes
from ..lazy_regex import lazy_regex
from ..prose.announcements import without_small_talk
from ..prose.numbers import NumberStyle
from ..result.errors import OutputParsingError, Problem, UnsupportedTypeError
from ..result.reading import (
    Coercion,
    Cursor,
    Json,
    Leniency,
    Reading,
    ValidationFailure,
    dump_json,
    external_cause,
    first_difference,
    strict_equal,
)
from ..types.choices import ChoiceNode, choice_node
from ..types.cited import CITED_NODES, cited_node
from ..types.constraints import is_read_by_metadata, pydantic_node, unwrapped, with_constraints
from ..types.containers import ListNode, UnionNode, mapping_node, sequence_node, union_node
from ..types.decisions import DecisionNode, decision_node
from ..types.node import (
    CustomNode,
    JsonSchema,
    Node,
    OutputParser,
    RecursiveNode,
    described_hint,
    json_node_of,
    schema_of,
    walk,
    with_description,
)
from ..types.records import (
    ASKED_KEYS,
    ENVELOPE_KEYS,
    LIST_KEYS,
    UNKNOWN_KEY_RULE,
    EnvelopeNode,
    ObjectNode,
    normalize_key,
    object_node,
)
from ..types.scalars import NoneNode, TextNode, scalar_node
from ..types.target import Target, type_name
from ..types.validation import runs_validators
from .extract import (
    FRAGMENT_MESSAGE,
    TEXT_AROUND_JSON,
    Candidate,
    ReplyText,
    find_single_json,
    not_the_answer,
    strip_reasoning,
)
from .fast_path import NOT_EXACT, compile_fast_reader
from .reasoning import may_have_reasoning

T = TypeVar("T")
_JSON_LANGUAGES = ("", "json", "jsonl", "json5", "jsonc", "text", "txt")
_GOES_ON = lazy_regex(r"\s(?:\.{3}|…|\[(?:…|\.{3})\])\s*\Z")
_LONGEST_ELLIPSIS = 40  # characters
# Characters that cannot be seen; joiners (U+200C, U+200D) belong to words and emoji.
_WITHOUT_WIDTH = lazy_regex("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e]")
# A word of a name in camel case or snake case.
_WORD_OF_NAME = lazy_regex(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+")
_TEXT_AROUND = (Coercion("$", TEXT_AROUND_JSON, "", ""),)
_BACKSLASH = Coercion("$", LOST_BACKSLASH, "", "")

# A rating or verdict as judges are often asked to write it: [[7]], [[B]].
_MARKED = lazy_regex(r"\[\[([^\[\]{}\"',]{1,60})\]\]")


class TypeParser(Generic[T]):
    """Converts a model's reply to a value of one Python type.

    It is an OutputParser that also has a ``hint`` for prompts, records coercions (``read``), and writes
    values (``write``). ``parser_for`` creates it.

    Attributes:
        leniency: How far replies may deviate from the exact format, unless a method is called with another
            leniency.
        node: The root of this parser's tree, in which each item type, field and so on has its own parser.
            It includes the envelope if there is one.
    """

    def __init__(
        self, target: Target, node: Node[T], *, field: str | None = None, leniency: Leniency = Leniency.SAFE
    ) -> None:
        self.leniency = leniency
        self._target = target
        self._value_node: Node[T] = node
        self.node: Node[T] = node if field is None else EnvelopeNode(field, node)
        self._field = field
        self._accepts_prose = self.node.prose
        self._read_exact: Callable[[str], Any] = self._first_read_exact
        self._words: frozenset[str] | None = None

    @staticmethod
    def wrap(parser: OutputParser[T], name: str = "value") -> TypeParser[T]:
        """Return a TypeParser that parses replies with a user-written OutputParser.

        ``name`` is the name of the type in error messages.
        """
        return TypeParser(Target(Any), CustomNode(name, parser))

    @cached_property
    def name(self) -> str:
        """The name of the type, as it is written in source code."""
        return self._target.name

    @property
    def target(self) -> Target:
        """The Python type that this parser reads, with the metadata from ``Annotated``."""
        return self._target

    @cached_property
    def plain_text(self) -> bool:
        """True if the type is plain text, so that the model's whole reply is the value."""
        return isinstance(unwrapped(self.node), TextNode)

    @cached_property
    def has_decisions(self) -> bool:
        """True if a part of the type is a Decision, which gets its probabilities after it was read."""
        return any(isinstance(node, DecisionNode) for node in walk(self.node))

    @property
    def has_details(self) -> bool:
        """True if other programs get more than the JSON of a reply: the details of decisions or quotes."""
        return self.has_decisions or self.has_citations

    @cached_property
    def has_citations(self) -> bool:
        """True if a part of the type is Cited, whose quote is verified in the texts of the call."""
        return any(isinstance(node, CITED_NODES) for node in walk(self.node))

    @cached_property
    def _choices(self) -> ChoiceNode[Any] | None:
        node = unwrapped(self._value_node)  # an envelope may be missing
        return node if isinstance(node, ChoiceNode) else None

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema that the model's reply must follow; None if the reply is plain text."""
        return None if self.plain_text else self._schema

    @cached_property
    def _schema(self) -> JsonSchema:
        return with_description(schema_of(self.node), self._target.description)

    @property
    def hint(self) -> str:
        """A short description of the expected reply for prompts, in a notation similar to TypeScript."""
        return described_hint(self.node.hint(), self._target.description)

    def format_instructions(self) -> str:
        """Return prompt instructions that tell the model in which format to reply.

        Return "" for plain text, because then any reply is valid.
        """
        if self.plain_text:
            return ""
        schema = self.schema or {}
        if "type" in schema and schema["type"] in ("object", "array"):
            return f"Reply with JSON only, in this form:\n{self.hint}"
        if self._accepts_prose:
            return f"Reply with the value only, in this form: {self.hint}"
        return f"Reply with JSON only, in one of these forms:\n{self.hint}"

    def with_envelope(self, field: str = "value") -> TypeParser[T]:
        """Return a parser that expects the value in a JSON object with one key, such as ``{"value": 42}``.

        Some providers accept only an object as the root of a schema.
        """
        return TypeParser(self._target, self._value_node, field=field, leniency=self.leniency)

    def with_leniency(self, leniency: Leniency) -> Self:
        """Return a parser for the same type that tolerates fewer or more mistakes in replies."""
        if leniency is self.leniency:
            return self
        parser = copy.copy(self)
        parser.leniency = leniency
        parser._read_exact = parser._first_read_exact
        return parser

    def parse(self, text: str, leniency: Leniency | None = None) -> T:
        """Parse text as a value of the type.

        Raises OutputParsingError if the text does not fit, and no other error.
        """
        try:
            value = self._read_exact(text)
        except ValidationFailure as failure:  # of a validator of the user
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        if value is NOT_EXACT:
            return self._read_leniently(text, leniency).value
        exact: T = value
        return exact

    def read(self, text: str, leniency: Leniency | None = None) -> Reading[T]:
        """Parse text as a value of the type, and also return the repairs and conversions that were needed.

        Raises OutputParsingError if the text does not fit, and no other error.
        """
        try:
            value = self._read_exact(text)
        except ValidationFailure as failure:
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        return self._read_leniently(text, leniency) if value is NOT_EXACT else Reading(value)

    @cached_property
    def fast_reader(self) -> Callable[[str], Any] | None:
        """A function that parses valid JSON quickly, without repairs; None if the type does not support it.

        For any other text the function returns ``NOT_EXACT``. It raises ValidationFailure if a validator of
        the user refuses the value, and ValidatorError if the validator is wrong.
        """
        if self.plain_text:
            return None
        return compile_fast_reader(self._target.annotated, self._value_node, field=self._field)

    @cached_property
    def fast_list_reader(self) -> Callable[[str], Any] | None:
        """A ``fast_reader`` of a list of such values; None if the type has none, or runs validators."""
        if self._field is not None or runs_validators(self.node):
            return None
        items = ListNode(self._value_node, list, exact=True)
        return compile_fast_reader(list[self._target.annotated], items)  # type: ignore[name-defined]

    @cached_property
    def json_parser(self) -> TypeParser[Json] | None:
        """A parser of the same texts that returns JSON and runs no validators; None if the type has none."""
        if not runs_validators(self.node):
            return None
        parser: TypeParser[Any] = copy.copy(self)
        built: dict[Node[Any], Node[Json]] = {}
        parser.node = json_node_of(self.node, built)
        parser._value_node = json_node_of(self._value_node, built)
        parser._read_exact = _never_exact
        return parser

    # Compiling the fast reader takes long, so it waits for the first text. It then replaces this method, so
    # that later calls do not pay for the check.
    def _first_read_exact(self, text: str) -> Any:
        is_text = type(self.node) is TextNode
        self._read_exact = _read_text_without_reasoning if is_text else self.fast_reader or _never_exact
        return self._read_exact(text)

    def _read_leniently(self, text: str, leniency: Leniency | None) -> Reading[T]:
        leniency = self.leniency if leniency is None else leniency
        restored = text if leniency is Leniency.NONE else self._with_lost_backslashes(text)
        if restored != text:
            try:
                reading = self._read_leniently(restored, leniency)
            except OutputParsingError as error:
                raise OutputParsingError(text, error.problems) from error.__cause__
            return replace(reading, coercions=(*reading.coercions, _BACKSLASH))
        # The commonest deviation is a fence or a sentence around exact JSON. A tag may belong to reasoning,
        # which must be removed first.
        is_fast = self._read_exact is not _never_exact and not self._accepts_prose
        cursor = Cursor(leniency, declaration=self._target.description or "")
        try:
            if is_fast and leniency is not Leniency.NONE and not may_have_reasoning(text):
                value = self._read_exact(find_single_json(text, self.own_words))
                if value is not NOT_EXACT:
                    return Reading(value, _TEXT_AROUND)
            value = self._read_reply(text, cursor)
        except ValidationFailure as failure:
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        except RecursionError:
            problem = Problem("$", "it is nested too deeply")
            raise OutputParsingError(text, [problem]) from None
        return Reading(value, tuple(cursor.coercions))

    def _with_lost_backslashes(self, text: str) -> str:
        is_in_prose = self.plain_text or (self._accepts_prose and '"' not in text)  # such as \\boxed{B}
        return text if is_in_prose or "\\" not in text else with_lost_backslashes(text)

    def _read_reply(self, text: str, cursor: Cursor) -> T:
        """Parse the value in a model's reply: as valid JSON, as JSON inside other text, or as prose."""
        node = self.node
        reply = strip_reasoning(text, cursor, self.own_words)
        if self.plain_text:  # text keeps its white space, unless reasoning was removed
            return self._read_text(reply, cursor) if reply.rules else node.read_text(text, cursor)
        if not reply.text:
            raise cursor.failure(f"expected {node.kind}; the reply is empty", text)
        marked = _MARKED.fullmatch(reply.text) if self._accepts_prose and "[" not in node.brackets else None
        if marked is not None:
            cursor.record_dropped("brackets around the value")
            reply = reply._replace(text=marked[1])
        # A reply that is exactly the text of a choice is not read as JSON: "true" may be a member of an enum.
        if self._is_text_choice(reply):
            return self._read_text(reply, cursor)
        # _read_leniently has already tried other texts
        if not self._accepts_prose and may_have_reasoning(text):
            value = self._read_exact_after_tag(reply, cursor)
            if value is not NOT_EXACT:
                exact: T = value
                return exact
        whole = reply.read_whole()
        if whole is not None:
            return self._read_only_value(whole, cursor)
        if reply.looks_like_json:
            return self._read_json(reply, cursor)
        return self._read_without_wrapping(reply, cursor)

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

    def _read_exact_after_tag(self, reply: ReplyText, cursor: Cursor) -> Any:
        """Parse a reply's only JSON value without repairs, ignoring the text around the value.

        Returns NOT_EXACT if that fails.
        """
        rules = reply.rules
        value = self._read_exact(reply.text) if rules else NOT_EXACT
        if value is NOT_EXACT:
            rules = (*rules, TEXT_AROUND_JSON)
            value = self._read_exact(find_single_json(reply.text, self.own_words))
        if value is not NOT_EXACT:
            for rule in rules:
                cursor.record_dropped(rule)
        return value

    def own_words(self) -> frozenset[str]:
        """Return the words of the type, which may stand beside JSON: ``Invoice: {...}``."""
        if self._words is None:
            words = {match[0].casefold() for match in _WORD_OF_NAME.finditer(f"{self.name} {self.hint}")}
            self._words = frozenset(words | {f"{word}s" for word in words})
        return self._words

    def _read_text(self, reply: ReplyText, cursor: Cursor) -> T:
        for rule in reply.rules:
            cursor.record_dropped(rule)
        text = reply.text
        if self._accepts_prose and not (self.node.any_text or isinstance(self._value_node, ListNode)):
            text = _WITHOUT_WIDTH.sub("", text)
            if _GOES_ON.search(text, max(0, len(text) - _LONGEST_ELLIPSIS)):
                raise cursor.failure(f"expected {self.node.kind}; the text goes on after it", text)
        if not (self.node.any_text or isinstance(self._value_node, ListNode)):
            bare = without_small_talk(text)
            if bare != text:
                cursor.record_dropped("words around the answer left out")
                text = bare
        return self.node.read_text(text, cursor)

    def _read_only_value(self, candidate: Candidate, cursor: Cursor) -> T:
        """Read the only JSON value in a reply.

        One record is accepted in place of a list of records, an object whose only value is the list, and a
        list of one record in place of a record.
        """
        value, node = candidate.value, self._value_node
        item = node.item if isinstance(node, ListNode) else None
        if isinstance(value, dict) and isinstance(item, ObjectNode) and self._field not in value:
            inner = next(iter(value.values())) if len(value) == 1 else None
            if any(item.field_for_key(key)[1] for key in value):
                cursor.record_dropped("one object in place of an array")
                candidate = candidate._replace(value=[value])
            elif isinstance(inner, list):
                cursor.record_dropped("object around an array")
                candidate = candidate._replace(value=inner)
        elif _is_one_object(value) and _is_record(node):
            cursor.record_dropped("brackets around an object")
            candidate = candidate._replace(value=value[0])
        elif isinstance(node, ObjectNode) and self._field is None and isinstance(value, dict):
            candidate = candidate._replace(value=_without_type_name(value, node, cursor))
        return self._read_candidate(candidate, cursor)

    def _read_candidate(self, candidate: Candidate, cursor: Cursor) -> T:
        for rule in candidate.rules:
            cursor.record_dropped(rule)
        data, data_cursor = candidate.value, cursor
        if isinstance(data, dict) and len(data) == 1 and self._field not in data:
            data, data_cursor = self._open_envelope(data, cursor)
        value = self.node.read(data, data_cursor)
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
        is_scalar = fits and self._accepts_prose and not self.node.any_text
        is_key = (
            name in ENVELOPE_KEYS
            or (isinstance(inner, list) and name in LIST_KEYS)
            or (is_scalar and name in ASKED_KEYS)
        )
        is_text = isinstance(inner, str) and not self._accepts_prose
        if not is_key or self._accepts_objects or is_text:
            return data, cursor
        cursor.child(key).record_dropped("value in an envelope")
        return inner, cursor.child(key)

    @cached_property
    def _accepts_objects(self) -> bool:
        """True if the type may accept a JSON object, judging by its JSON Schema."""
        return _allows_objects(schema_of(self._value_node))

    def _read_json(self, reply: ReplyText, cursor: Cursor) -> T:
        """Find all JSON values in a reply, and return the only one that fits the type.

        A value in a Markdown fence wins over values outside the fence.
        """
        candidates = reply.find_candidates()
        if len(candidates) == 1 and not candidates[0].is_fragment:
            return self._read_only_value(candidates[0], cursor)
        if not candidates:
            if reply.looks_like_json:
                raise cursor.failure(reply.broken_json_message(), reply.text)
            return self._read_text(reply.without_wrapping(), cursor)
        candidates, fenced = _without_other_code(candidates)
        if 0 < len(fenced) < len(candidates):  # a fence marks the answer; JSON outside the fence explains it
            try:
                value = self._read_only(fenced, cursor)
            except (_DifferentAnswers, _Fragment):
                raise
            except ValidationFailure:
                candidates = [candidate for candidate in candidates if not candidate.fenced]
            else:
                corrections = _corrections(candidates, fenced)
                if corrections:  # this raises an error if a correction differs from the value
                    self._read_only([*fenced, *corrections], Cursor(cursor.leniency))
                return value
        return self._read_only(candidates, cursor)

    def _read_only(self, candidates: Sequence[Candidate], cursor: Cursor) -> T:
        """Return the only JSON value in a reply that fits the type, as a value of the type.

        Equal values count as one. Raises ValidationFailure if different values fit the type. If no
        candidate fits, the failure with the fewest problems is raised.
        """
        fits: list[tuple[T, list[Coercion]]] = []
        nearest: ValidationFailure | None = None
        before = len(cursor.coercions)
        for candidate in candidates:
            try:
                value = self._read_candidate(candidate, cursor)
            except ValidationFailure as failure:
                if nearest is None or len(failure.problems) < len(nearest.problems):
                    nearest = failure
            else:
                if candidate.is_fragment:
                    raise _Fragment(Problem("$", FRAGMENT_MESSAGE))
                if candidate.objection:
                    raise _Fragment(not_the_answer(candidate.objection))
                fits.append((value, cursor.coercions[before:]))
            # The next candidate must not see what this one recorded.
            del cursor.coercions[before:]
        if not fits:
            assert nearest is not None, "there is at least one candidate"
            if any(candidate.is_fragment for candidate in candidates):
                raise _Fragment(Problem("$", FRAGMENT_MESSAGE))
            raise nearest
        value, coercions = fits[0]
        for other, _ in fits[1:]:
            if not strict_equal(other, value):
                message = f"the reply holds {len(fits)} different answers that fit"
                raise _DifferentAnswers(Problem("$", message))
        cursor.coercions.extend(coercions)
        return value

    def write(self, value: T) -> str:
        """Write a value as text that the parser converts back to the same value.

        Raises ValueError if the value is not of this type, or if JSON cannot express it.
        """
        try:
            try:
                data = self.node.write(value)
            except ValueError as error:
                if repr(value) in str(error):
                    raise
                raise ValueError(f"{value!r} cannot be written as {self.name}: {error}") from error
            return self._checked_text(value, data)
        except RecursionError as error:
            raise ValueError(f"expected {self.node.kind}, nested less deeply") from error

    def _checked_text(self, value: T, data: Json) -> str:
        """Write a value as text, and check that reading the text gives the same value.

        Raises ValueError if no text passes the check.
        """
        accepts_bare_text = isinstance(data, str) and self._field is None and self._accepts_prose
        texts: list[str] = [data] if accepts_bare_text else []
        if not self.plain_text:
            texts.append(dump_json(data))
        # Validators, custom parsers and similar choices may turn the text into another value, so it is read.
        message = f"expected {self.node.kind}, found {value!r}"
        for text in texts:
            try:
                again = self.parse(text, Leniency.SAFE)
            except OutputParsingError as error:
                message = f"{value!r} is not read as {self.name}: {'; '.join(map(str, error.problems))}"
            else:
                if strict_equal(again, value):
                    return text
                message = _difference_message(value, again)
        raise ValueError(message)


def _difference_message(value: object, again: object) -> str:
    """Return an error message for a value that changes when it is written as text and parsed again."""
    path, part, other = first_difference(value, again)
    if path == "$":
        return f"{value!r} is read as {again!r}"
    return f"{path} cannot be written so that it is read back: {part!r} becomes {other!r}"


def _is_one_object(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)


def _is_record(node: Node[Any]) -> bool:
    """Return True if every value of a type, except null, is written as an object."""
    if isinstance(node, UnionNode):
        return all(isinstance(option, (ObjectNode, NoneNode)) for option in node.options)
    return isinstance(node, ObjectNode)


def _without_type_name(data: dict[str, Json], node: ObjectNode, cursor: Cursor) -> Json:
    """Unwrap ``{"Person": {...}}``; other objects are returned unchanged."""
    ((key, inner), *others) = data.items() if data else (("", None),)
    is_named = not others and normalize_key(key) == normalize_key(node.name)
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


def _never_exact(text: str) -> Any:
    return NOT_EXACT


def _read_text_without_reasoning(text: str) -> Any:
    return NOT_EXACT if may_have_reasoning(text) else text


class _Fragment(ValidationFailure):
    """Raised if a JSON value in a reply fits the type but seems to be a fragment of larger, broken JSON."""


class _DifferentAnswers(ValidationFailure):
    """Raised if several different JSON values in a reply fit the type."""


def _without_other_code(candidates: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Leave out fences in other languages if there are fences in JSON; also return those in fences."""
    fenced = [candidate for candidate in candidates if candidate.fenced]
    in_json = [candidate for candidate in fenced if candidate.language.startswith("json")]
    if not in_json or all(candidate.language in _JSON_LANGUAGES for candidate in fenced):
        return candidates, fenced
    return [one for one in candidates if one in in_json or not one.fenced], in_json


def _corrections(candidates: list[Candidate], fenced: list[Candidate]) -> list[Candidate]:
    """Return the JSON values after the last code block; they may correct the answer in the code block.

    An object that shares no key with the objects in the block is not a correction.
    """
    last_fenced = max(index for index, candidate in enumerate(candidates) if candidate.fenced)
    keys = {key for candidate in fenced if isinstance(candidate.value, dict) for key in candidate.value}
    return [
        candidate
        for candidate in candidates[last_fenced + 1 :]
        if not (keys and isinstance(candidate.value, dict)) or not keys.isdisjoint(candidate.value)
    ]


# --- Finding the parser for a type ---


def parser_for(output_type: TypeForm[T]) -> TypeParser[T]:
    """Return the parser for a Python type.

    The parser is created once for each ``output_type``.

    Raises UnsupportedTypeError if the type, or a part of it, has no parser.
    """
    return cast(TypeParser[T], DEFAULT_REGISTRY.parser_for(output_type))


def parse(output_type: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> T:
    """Parse text as a value of a Python type.

    ``output_type`` is the type, and ``leniency`` says which lenient steps are allowed.

    Raises OutputParsingError if the text does not fit the type, and UnsupportedTypeError if the type has no
    parser. Example::

        parse(list[int], "Sure! [1, 2, 3]")  # [1, 2, 3]
    """
    return parser_for(output_type).parse(text, leniency)


def read(output_type: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
    """Parse text as a value of a Python type, and also return the repairs and conversions that were needed.

    ``output_type`` and ``leniency`` mean the same as in ``parse``, which raises the same errors.
    """
    return parser_for(output_type).read(text, leniency)


class ParserFactory(Protocol):
    """A user-written function that returns parsers for some Python types.

    It gets a type as a Target and the registry, from which it may request parsers for parts of the type. It
    returns None for a type that it does not support. An exception that it raises is not caught.
    """

    def __call__(self, target: Target, parsers: ParserRegistry, /) -> OutputParser[Any] | None: ...


# The groups of built-in types, in the order in which they are tried; for the message of UnsupportedTypeError.
_BUILT_IN = (
    "scalars",
    "dates and times",
    "choices",
    "decisions",
    "citations",
    "sequences",
    "mappings",
    "unions",
    "records",
    "pydantic",
)


class ParserRegistry:
    """Creates and caches the parsers for Python types.

    The user's factories are tried first, then the built-in types. A registry never changes;
    ``with_factories`` returns a new one.

    Args:
        factories: Functions that make parsers for further types.
        number_style: The sign that is the decimal point of numbers in text, where the type declares none.
        cites_lines: True if the model writes the numbers of lines for the quotes of Cited values.
    """

    def __init__(
        self,
        factories: tuple[ParserFactory, ...] = (),
        number_style: NumberStyle | None = None,
        *,
        cites_lines: bool = False,
    ) -> None:
        self._factories = factories
        self.cites_lines = cites_lines
        self.number_style = number_style  # of numbers whose type does not declare one
        self._cache: dict[Any, OutputParser[Any]] = {}

    def with_factories(self, *more: ParserFactory) -> ParserRegistry:
        """Return a copy of this parser registry that tries the given parser factories first."""
        return ParserRegistry((*more, *self._factories), self.number_style, cites_lines=self.cites_lines)

    def citing_lines(self) -> ParserRegistry:
        """Return a copy of this parser registry for models that cite numbered lines instead of words."""
        return ParserRegistry(self._factories, self.number_style, cites_lines=True)

    def parser_for(
        self,
        output_type: TypeForm[T],
        *,
        after: ParserFactory | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> OutputParser[T]:
        """Return the parser for a Python type.

        Raises UnsupportedTypeError if the type has no parser.

        ``after`` skips the factories up to and including this one, so that a factory can build on the parser
        that the type would have without it. ``namespace`` maps local names in string annotations to types.
        """
        cacheable = after is None and not namespace and _is_hashable(output_type)
        # int | str equals str | int, but a prompt shows their members in order: the key must differ.
        key = (output_type, repr(output_type))
        if cacheable and key in self._cache:
            return self._cache[key]
        target = Target.of(output_type, namespace=namespace)
        parser = self._custom_parser(target, after)
        if parser is None:
            parser = TypeParser(target, _NodeBuilder(self, after).build(target))
        if cacheable:
            self._cache[key] = parser
        return parser

    def _custom_parser(self, target: Target, after: ParserFactory | None) -> OutputParser[Any] | None:
        """Return the user's own parser for a type, or None.

        It comes from the metadata of the type or from a parser factory.
        """
        for item in target.metadata:
            if _is_parser(item):
                return item
        factories = self._factories
        if after is not None and after in factories:
            factories = factories[factories.index(after) + 1 :]
        for factory in factories:
            parser = factory(target, self)
            if parser is not None:
                return parser
        return None


class _NodeBuilder:
    """Builds a type's parser as a tree: for ``list[Person]``, a list parser that contains an item parser."""

    def __init__(self, registry: ParserRegistry, after: ParserFactory | None) -> None:
        self._registry = registry
        self._after = after
        # The types that are being built. A type that contains itself gets a RecursiveNode at its inner
        # occurrence.
        self._unfinished: dict[Any, RecursiveNode[Any]] = {}
        # The nodes of record classes: a class is built once, however often it occurs in the type.
        self._records: dict[Any, Node[Any]] = {}
        # All nodes, so that a type that occurs often is built once. Types are told apart by identity, because
        # int | str equals str | int. The targets keep the types alive, so that no identity is reused.
        self._nodes: dict[Any, tuple[Target, Node[Any]]] = {}

    def build(self, target: Target) -> Node[Any]:
        identity = (id(target.type), *map(id, target.metadata), target.alias, target.enclosing_aliases)
        if identity in self._nodes:
            return self._nodes[identity][1]
        node = self._build(target)
        if not isinstance(node, RecursiveNode):
            self._nodes[identity] = target, node
        return node

    def _build(self, target: Target) -> Node[Any]:
        if not _is_hashable(target.type):  # so it is not a type
            return self._require(target, None)
        key = (target.type, target.metadata) if _is_hashable(target.metadata) else None
        if key is not None and key in self._unfinished:
            self._unfinished[key].name = target.name
            return self._unfinished[key]
        custom = self._registry._custom_parser(target, self._after) if target.outer else None
        if custom is not None:
            return CustomNode(type_name(target.type), custom)
        if is_read_by_metadata(target):
            return self._require(target, pydantic_node(target))
        unfinished: RecursiveNode[Any] = RecursiveNode("")  # named if the type contains itself
        if key is not None:
            self._unfinished[key] = unfinished
        try:
            node = with_constraints(target, self._build_built_in(target, unfinished))
            unfinished.node = node
        finally:
            if key is not None:
                del self._unfinished[key]
        return node

    def _build_built_in(self, target: Target, unfinished: RecursiveNode[Any]) -> Node[Any]:
        if target.type in self._records:
            return self._records[target.type]

        # A record is registered before its fields are built, because they may refer to it.
        def register(node: Node[object]) -> None:
            unfinished.node = node
            self._records[target.type] = node

        node = (
            scalar_node(target, self._registry.number_style)
            or choice_node(target)
            or decision_node(target, self.build)
            or cited_node(target, self.build, by_lines=self._registry.cites_lines)
            or sequence_node(target, self.build)
            or mapping_node(target, self.build)
            or union_node(target, self.build)
            or object_node(target, self.build, register)
            or pydantic_node(replace(target, metadata=()))  # build() adds the constraints
        )
        return self._require(target, node)

    def _require(self, target: Target, node: Node[object] | None) -> Node[Any]:
        if node is None:
            tried = [*map(_factory_name, self._registry._factories), *_BUILT_IN]
            reason = ""
            if any(
                base.__module__.startswith("pydantic.v1.") for base in getattr(target.type, "__mro__", ())
            ):
                reason = "it is a model of pydantic.v1; derive it from pydantic.BaseModel"
            raise UnsupportedTypeError(type_name(target.type), target.path, tried, reason)
        return node


def _is_parser(value: object) -> TypeGuard[OutputParser[Any]]:
    names = ("parse", "format_instructions", "schema")
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _factory_name(factory: Callable[..., Any]) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


DEFAULT_REGISTRY = ParserRegistry()
