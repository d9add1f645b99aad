"""Reads a whole reply as one type: the parser that the registry makes for every type that is built in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar

from ..result.errors import OutputParsingError, Problem
from ..result.reading import (
    Coercion,
    Cursor,
    Json,
    Leniency,
    Reading,
    ValidationFailure,
    dump_json,
    first_difference,
    strict_equal,
)
from ..types.choices import ChoiceNode
from ..types.constraints import ConstrainedNode
from ..types.node import CustomNode, JsonSchema, Node, OutputParser, described, schema_of
from ..types.records import EnvelopeNode
from ..types.scalars import TextNode
from ..types.target import Target
from .extract import TEXT_AROUND_JSON, Candidate, ReplyText, find_single_json, strip_reasoning
from .fast_path import NOT_EXACT, compile_fast_reader

T = TypeVar("T")
_AROUND = (Coercion("$", TEXT_AROUND_JSON, "", ""),)


class TypeParser(Generic[T]):
    """Text from a model → a value of one type. An OutputParser with more to it."""

    def __init__(self, target: Target, node: Node[T], *, field: str | None = None) -> None:
        self.name = target.name
        self._target = target
        self._node: Node[T] = node
        self._read_node: Node[T] = node if field is None else EnvelopeNode(field, node)
        self._field = field
        self._prose = self._read_node.prose
        self._exact: Callable[[str], Any] = self._first_exact

    @staticmethod
    def around(parser: OutputParser[T], name: str = "value") -> TypeParser[T]:
        """A TypeParser that leaves the reading of the value itself to a user's parser."""
        return TypeParser(Target(Any), CustomNode(name, parser))

    @property
    def target(self) -> Target:
        """The type that is read."""
        return self._target

    @property
    def node(self) -> Node[T]:
        """The node that reads the reply, the envelope included where there is one."""
        return self._read_node

    @cached_property
    def plain_text(self) -> bool:
        """Whether the reply itself is the value, so that no structure is asked for."""
        return isinstance(self._bare, TextNode)

    @cached_property
    def _bare(self) -> Node[Any]:
        node: Node[Any] = self._read_node
        while isinstance(node, ConstrainedNode):
            node = node.inner
        return node

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema of what a model is to write; None when plain text is wanted."""
        return None if self.plain_text else self._schema

    @cached_property
    def _schema(self) -> JsonSchema:
        return described(schema_of(self._read_node), self._target.description)

    @property
    def hint(self) -> str:
        """The form of the value in few words, in the manner of TypeScript."""
        return self._read_node.hint()

    def format_instructions(self) -> str:
        """What a prompt must say so that a model writes this type; "" when anything goes."""
        if self.plain_text:
            return ""
        schema = self.schema or {}
        if "type" in schema and schema["type"] in ("object", "array"):
            return f"Reply with JSON only, in this form:\n{self.hint}"
        if self._read_node.prose:
            return f"Reply with the value only, in this form: {self.hint}"
        return f"Reply with JSON only, in one of these forms:\n{self.hint}"

    def enveloped(self, field: str = "value") -> TypeParser[T]:
        """The parser of the same value inside an object under one key, as providers demand of a root."""
        return TypeParser(self._target, self._node, field=field)

    def parse(self, text: str, leniency: Leniency = Leniency.SAFE) -> T:
        """The value. Raises OutputParsingError, and nothing else, when the text is unfit."""
        value = self._exact(text)
        if value is NOT_EXACT:
            value = self._exact_inside(text, leniency)
            if value is NOT_EXACT:
                return self._read_aligned(text, leniency).value
        exact: T = value
        return exact

    def read(self, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
        """The value with the steps away from the exact text that reading it took."""
        value = self._exact(text)
        if value is not NOT_EXACT:
            return Reading(value)
        value = self._exact_inside(text, leniency)
        if value is not NOT_EXACT:
            return Reading(value, _AROUND)
        return self._read_aligned(text, leniency)

    def _first_exact(self, text: str) -> Any:
        """As the clean reader, which it puts in its own place: made when it is asked, for it takes long."""
        self._exact = self.clean or _never_clean
        return self._exact(text)

    def _exact_inside(self, text: str, leniency: Leniency) -> Any:
        """The value of the only JSON in a reply, where it is exact and no tag may be one of reasoning."""
        if self._prose or "<" in text or leniency is Leniency.NONE:
            return NOT_EXACT
        return self._exact(find_single_json(text))

    def write(self, value: T) -> str:
        """The text that a model should write for a value: ``read`` gives the value back.

        Raises ValueError where no text does: the value is none of this type, or JSON cannot say it.
        """
        try:
            return self._written(value)
        except RecursionError as error:
            raise ValueError(f"expected {self._read_node.kind}, nested less deeply") from error

    def _written(self, value: T) -> str:
        found = self._read_node.write(value)
        texts = [found] if isinstance(found, str) and self._field is None and self._read_node.prose else []
        if not self.plain_text:
            texts.append(dump_json(found))
        said = f"expected {self._read_node.kind}, found {value!r}"
        for text in texts:
            try:
                again = self.parse(text)
            except OutputParsingError as error:
                said = f"{value!r} is not read as {self.name}: {'; '.join(map(str, error.problems))}"
            else:
                if strict_equal(again, value):
                    return text
                said = _unlike(value, again)
        raise ValueError(said)

    def _read_aligned(self, text: str, leniency: Leniency) -> Reading[T]:
        place = Cursor(leniency)
        try:
            value = self._aligned(text, place)
        except ValidationFailure as misfit:
            raise OutputParsingError(text, misfit.problems) from misfit
        except RecursionError as error:
            problem = Problem("$", "it is nested too deeply")
            raise OutputParsingError(text, [problem]) from error
        return Reading(value, tuple(place.coercions))

    @cached_property
    def clean(self) -> Callable[[str], Any] | None:
        """What reads exact JSON in one step, or gives ``NOT_EXACT``; None where there is no such way."""
        return (
            None if self.plain_text else compile_fast_reader(self._target.annotated, self._node, field=self._field)
        )

    def _aligned(self, text: str, at: Cursor) -> T:
        node = self._read_node
        reply = strip_reasoning(text, at)
        if self.plain_text:
            return node.read_text(_took(reply, at) if reply.steps else text, at)
        if not reply.text:
            raise at.failure(f"expected {node.kind}; the reply is empty", text)
        if self._shows(reply):
            return node.read_text(_took(reply, at), at)
        if "<" in text and not node.prose:  # all others were tried before
            inside = self._clean_inside(reply, at)
            if inside is not NOT_EXACT:
                exact: T = inside
                return exact
        whole = reply.whole()
        if whole is not None:
            return _only(at, [(whole.steps, _reading(node, whole.value, at))])
        if reply.looks_like_json:
            return self._from_json(reply, at)
        prose = reply.prose()
        if prose.text != reply.text and (node.prose or prose.text[:1] == '"') and not self._shows(prose):
            whole = prose.whole()
            if whole is not None:  # JSON in a fence is what it is without one
                return _only(at, [(whole.steps, _reading(node, whole.value, at))])
        return self._from_prose(reply, at) if node.prose else self._from_json(reply, at)

    def _clean_inside(self, reply: ReplyText, at: Cursor) -> Any:
        """The value of the only JSON in a reply that held a tag, where it is exact; else NOT_EXACT."""
        steps = reply.steps
        value = self._exact(reply.text) if steps else NOT_EXACT
        if value is NOT_EXACT:
            steps = (*steps, TEXT_AROUND_JSON)
            value = self._exact(find_single_json(reply.text))
        if value is not NOT_EXACT:
            for step in steps:
                at.record_dropped(step)
        return value

    def _shows(self, reply: ReplyText) -> bool:
        """Whether the reply is a choice just as a prompt shows it, be it JSON too."""
        return isinstance(self._bare, ChoiceNode) and self._bare.shows(reply.text)

    def _from_prose(self, reply: ReplyText, at: Cursor) -> T:
        node, prose = self._read_node, reply.prose()
        return _only(at, [(prose.steps, lambda: node.read_text(prose.text, at))])

    def _from_json(self, reply: ReplyText, at: Cursor) -> T:
        node = self._read_node
        found = reply.candidates()
        if not found:
            if reply.looks_like_json:
                raise at.failure(reply.fault(), reply.text)
            return self._from_prose(reply, at)
        fenced = [candidate for candidate in found if candidate.fenced]
        if 0 < len(fenced) < len(found):  # a fence marks the answer; what stands outside speaks of it
            try:
                value = _only(at, _readings(node, fenced, at))
            except _Undecided:
                raise
            except ValidationFailure:
                found = [candidate for candidate in found if not candidate.fenced]
            else:
                corrections = _corrections(found, fenced)
                if corrections:
                    _only(Cursor(at.leniency), _readings(node, [*fenced, *corrections], at))
                return value
        return _only(at, _readings(node, found, at))


def _unlike(value: Any, again: Any) -> str:
    """What of a value is not read back as it was written, by its path where that is a part of it."""
    path, part, other = first_difference(value, again)
    if path == "$":
        return f"{value!r} is read as {again!r}"
    return f"{path} cannot be written so that it is read back: {part!r} becomes {other!r}"


def _never_clean(text: str) -> Any:
    return NOT_EXACT


class _Undecided(ValidationFailure):
    """Several answers fit, and they differ."""


def _corrections(found: list[Candidate], fenced: list[Candidate]) -> list[Candidate]:
    """What stands after the last fence and may replace what is in it: not an object without a key of it."""
    after = found[max(index for index, candidate in enumerate(found) if candidate.fenced) + 1 :]
    keys = {key for candidate in fenced if isinstance(candidate.value, dict) for key in candidate.value}
    return [c for c in after if not (keys and isinstance(c.value, dict)) or not keys.isdisjoint(c.value)]


def _readings(
    node: Node[T], found: Iterable[Candidate], at: Cursor
) -> list[tuple[tuple[str, ...], Callable[[], T]]]:
    return [(candidate.steps, _reading(node, candidate.value, at)) for candidate in found]


def _reading(node: Node[T], value: Json, at: Cursor) -> Callable[[], T]:
    return lambda: node.read(value, at)


def _took(reply: ReplyText, at: Cursor) -> str:
    for step in reply.steps:
        at.record_dropped(step)
    return reply.text


def _only(at: Cursor, readings: Iterable[tuple[tuple[str, ...], Callable[[], T]]]) -> T:
    """The one value that the readings give; equal values are one, different ones are an error."""
    fits: list[tuple[T, list[Any]]] = []
    nearest: ValidationFailure | None = None
    for steps, read in readings:
        before = len(at.coercions)
        try:
            for step in steps:
                at.record_dropped(step)
            value = read()
        except ValidationFailure as misfit:
            if nearest is None or len(misfit.problems) < len(nearest.problems):
                nearest = misfit
        else:
            fits.append((value, at.coercions[before:]))
        del at.coercions[before:]
    if not fits:
        assert nearest is not None, "there is at least one reading"
        raise nearest
    value, steps_taken = fits[0]
    for other, _ in fits[1:]:
        if not strict_equal(other, value):
            raise _Undecided(Problem("$", f"the reply holds {len(fits)} different answers that fit"))
    at.coercions.extend(steps_taken)
    return value
