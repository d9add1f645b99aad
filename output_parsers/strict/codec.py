"""The base class of codecs, which convert JSON values to and from a provider's strict mode.

A strict mode accepts only a part of JSON Schema. A codec belongs to one part of a schema: it knows the schema
that is sent instead, and it translates values. A dict, for example, becomes a list of pairs::

    schema:         {"type": "object", "additionalProperties": {"type": "integer"}}
    schema sent:    {"type": "array", "items": {"type": "object", "properties": {"key": ..., "value": ...}}}
    model writes:   [{"key": "a", "value": 1}]
    decoded value:  {"a": 1}

"Encoded" means the form that the model writes, "plain" the form of the original schema. Decoding never stops
at the first mistake: it leaves what it cannot decode unchanged and records a ``Deviation``. This file also
contains what all codecs share: the ``DecodeCursor``, references to definitions, and the ``Finding`` records
that tell a user what was changed in a schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ..json.scanner import read_exact
from ..result.errors import Problem
from ..result.reading import Cursor, Json, JsonSyntaxError, describe_value
from ..types.node import JsonSchema, with_description
from ..types.records import normalize_key
from .schema_queries import json_equal

ABSENT: Json = object()  # the value of a deviation if the reply has no value there
MORE_THAN_ONE_WAY = "it can be read in more than one way"


class Codec(ABC):
    """Converts values between one part of a JSON Schema and its version for a provider's strict mode.

    Attributes:
        is_identity: True if this codec itself leaves values unchanged; its ``parts`` may still change them.
        description: The description that is sent with the schema.
        title: The title that is sent with the schema of an object.
    """

    is_identity: bool = True
    description: str | None = None
    title: str | None = None

    @property
    def parts(self) -> Sequence[Codec]:
        """The codecs for nested values, such as the items of a list."""
        return ()

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """The JSON types that a value can have in the strict-mode JSON Schema."""

    @abstractmethod
    def bare_schema(self) -> JsonSchema:
        """Return the strict-mode JSON Schema without its description."""

    @abstractmethod
    def encode(self, value: Json, cursor: Cursor) -> Json:
        """Convert a value from the form of the original JSON Schema to the strict-mode form.

        Raises EncodingError if the value does not fit.
        """

    @abstractmethod
    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        """Convert a value that the model wrote in strict mode back to the form of the original JSON Schema.

        A part that cannot be decoded stays unchanged and is recorded as a deviation.
        """

    def schema(self) -> JsonSchema:
        """Return the strict-mode JSON Schema to send to the provider."""
        schema = self.bare_schema()
        if self.title and schema.get("type") == "object":
            schema = {"type": "object", "title": self.title, **schema}
        return with_description(schema, self.description)


class Definition:
    """A named definition in a JSON Schema (under ``$defs``), to which other parts refer.

    References to it may exist before its codec is built.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.codec: Codec | None = None


class RefCodec(Codec):
    """The codec for a ``$ref`` to a named definition of the JSON Schema."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @property
    def parts(self) -> Sequence[Codec]:
        return (self._defined(),)

    @property
    def target(self) -> Codec:
        """The codec of the definition at the end of a chain of references."""
        codec: Codec = self
        while isinstance(codec, RefCodec):
            codec = codec._defined()
        return codec

    @property
    def kinds(self) -> frozenset[str]:
        return self.target.kinds

    def target_schema(self) -> JsonSchema:
        """Return the strict-mode JSON Schema of the definition that this ``$ref`` leads to."""
        return self._defined().schema()

    def bare_schema(self) -> JsonSchema:
        return {"$ref": f"#/$defs/{self.definition.name}"}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        return self.target.encode(value, cursor)

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        return self.target.decode(value, cursor)

    def _defined(self) -> Codec:
        assert self.definition.codec is not None, "a definition is used before its codec is built"
        return self.definition.codec


def walk(codec: Codec) -> Iterator[Codec]:
    """Yield a codec and all codecs inside it, each of them once."""
    # by identity and without recursion: the codecs of a recursive type contain one another
    seen: set[int] = set()
    pending = [codec]
    while pending:
        current = pending.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            pending.extend(current.parts)


class EncodingError(ValueError):
    """Raised if a JSON value cannot be converted to or from the strict-mode schema sent to the provider.

    Attributes:
        path: The JSON path of the value (``$`` is the root).
        message: What is wrong with it.
    """

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


# --- Decoding ---


class DeviationKind(Enum):
    """The kinds of differences between a reply and the JSON Schema that was sent to the provider."""

    # "3" where an integer is expected: the node of the type decides whether that is acceptable
    MISMATCH = "left to the node of the type"
    # a key in another spelling, JSON inside a string
    COERCED = "decoded, and recorded as a coercion"
    # {"a": 1} where a list of pairs is expected: models know the plain form from many other texts
    UNENCODED = "written without the encoding, and recorded as a coercion"
    # a string where a list of pairs is expected
    UNKNOWN_FORM = "neither encoded nor plain: left unchanged, because the node of the type may accept it"
    # the same key twice in a list of pairs
    ERROR = "cannot be decoded"
    AMBIGUOUS = "can be decoded in more than one way"


class Deviation(NamedTuple):
    """One difference between a model's reply and the JSON Schema that was sent to the provider.

    Attributes:
        kind: How it is handled.
        plain: The position in the decoded value.
        encoded: The position in the value that the model wrote.
        message: What was expected.
        value: The value that was found instead, or ``ABSENT``.
        changes_shape: True if the value has another structure than expected, not just another spelling.
        rule: The rule under which a coercion is recorded.
        before: The value before the coercion.
        after: The value after the coercion.
    """

    kind: DeviationKind
    plain: Cursor
    encoded: Cursor
    message: str
    value: Json
    changes_shape: bool
    rule: str = "encoding left out"
    before: Json = None
    after: Json = None

    @property
    def problem(self) -> Problem:
        """Convert a difference between a reply and its JSON Schema to a Problem, for error messages."""
        value = "" if self.value is ABSENT else describe_value(self.value)
        return Problem(self.encoded.path, self.message, value)

    def record(self) -> None:
        """Record a mistake in the reply as a repair, if the mistake was repaired.

        Raises ValidationFailure if the leniency does not allow the repair.
        """
        # a dropped key has no value afterwards, so it is recorded without one
        if self.kind is DeviationKind.COERCED and self.rule != "unknown key left out":
            self.plain.record(self.rule, self.before, self.after)
        elif self.kind in (DeviationKind.COERCED, DeviationKind.UNENCODED, DeviationKind.UNKNOWN_FORM):
            self.plain.record_dropped(self.rule)


class DecodeResult(NamedTuple):
    """A reply that was converted back from strict mode, with its differences from the schema that was sent.

    Attributes:
        value: The plain value. It contains unchanged the parts that could not be decoded.
        deviations: All deviations, in the order in which they were met.
    """

    value: Json
    deviations: Sequence[Deviation]

    def of_kind(self, *kinds: DeviationKind) -> list[Deviation]:
        """Return only the differences of the given kinds between a reply and its JSON Schema."""
        return [deviation for deviation in self.deviations if deviation.kind in kinds]

    def problems(self, reader_problems: Sequence[Problem]) -> list[Problem]:
        """Return all problems found while converting a reply from strict mode and validating it."""
        if not self.deviations:
            return list(dict.fromkeys(reader_problems))
        errors = self.of_kind(DeviationKind.ERROR, DeviationKind.AMBIGUOUS)
        # an unknown form is an error only if the node of the type cannot read it either
        rejected = [
            deviation
            for deviation in self.of_kind(DeviationKind.UNKNOWN_FORM)
            if any(_is_within(problem.path, deviation.plain.path) for problem in reader_problems)
        ]
        error_paths = {error.plain.path for error in errors}
        rejected_paths = [deviation.plain.path for deviation in rejected]
        # a problem at the path of an error, or inside a rejected part, is a consequence of it
        others = [
            problem
            for problem in reader_problems
            if problem.path not in error_paths
            and not any(_is_within(problem.path, path) for path in rejected_paths)
        ]
        return list(dict.fromkeys([*(deviation.problem for deviation in (*errors, *rejected)), *others]))


def _is_within(path: str, ancestor: str) -> bool:
    return path == ancestor or (path.startswith(ancestor) and path[len(ancestor)] in ".[")


class DecodeCursor:
    """The current position while a strict-mode reply is converted back, and the differences found so far.

    Attributes:
        plain: The position in the decoded value.
        encoded: The position in the value that the model wrote.
        union_cache: The results of unions by value, so that no value is tried twice.
        deviations: The deviations so far; child cursors share this list.
    """

    __slots__ = ("deviations", "encoded", "plain", "union_cache")

    # Two positions: problems are reported where the model wrote the value (in the encoded form), coercions
    # where the user finds it (in the plain form).

    def __init__(self, plain: Cursor, encoded: Cursor, union_cache: dict[Any, Any]) -> None:
        self.plain = plain
        self.encoded = encoded
        self.union_cache = union_cache
        self.deviations: list[Deviation] = []

    def child(self, key: str | int) -> DecodeCursor:
        """Return the cursor for a nested field or item of the reply and of the converted value."""
        return self.encoded_child(key, self.plain.child(key))

    def encoded_child(self, key: str | int, plain: Cursor | None = None) -> DecodeCursor:
        """Return a cursor for a nested value that exists only in the reply, not in the converted value.

        ``plain`` is its position in the plain value; the default is the position of this cursor.
        """
        child = DecodeCursor(
            self.plain if plain is None else plain, self.encoded.child(key), self.union_cache
        )
        child.deviations = self.deviations
        return child

    def trial(self) -> DecodeCursor:
        """Return a copy of this cursor with which a value can be decoded without recording anything."""
        return DecodeCursor(self.plain, self.encoded, self.union_cache)

    def mismatch(self, message: str, value: Json, *, changes_shape: bool = False) -> None:
        """Record that a value in the reply has the wrong type; the later validation decides."""
        changes_shape = changes_shape or isinstance(value, (dict, list))
        self._add(DeviationKind.MISMATCH, message, value, changes_shape)

    def unencoded(self, message: str, value: Json) -> None:
        """Record that a value fits the original JSON Schema instead of the schema that was sent."""
        self._add(DeviationKind.UNENCODED, message, value, changes_shape=False)

    def fail(self, message: str, value: Json, kind: DeviationKind = DeviationKind.ERROR) -> None:
        """Record that a value in the reply cannot be converted back from strict mode."""
        self._add(kind, message, value, changes_shape=True)

    def violation(self, message: str, value: Json) -> None:
        """Record that a value breaks a rule that a JSON Schema cannot express.

        The model meant this branch of a union, even if another one could read the value.
        """
        self._add(DeviationKind.ERROR, message, value, changes_shape=False)

    def coerced(self, rule: str, before: Json, after: Json) -> None:
        """Record that a value was repaired while the reply was converted back from strict mode."""
        kind = DeviationKind.COERCED
        self.deviations.append(
            Deviation(kind, self.plain, self.encoded, rule, before, False, rule, before, after)
        )

    def _add(self, kind: DeviationKind, message: str, value: Json, changes_shape: bool) -> None:
        self.deviations.append(Deviation(kind, self.plain, self.encoded, message, value, changes_shape))

    def parse_json_string(self, value: Json, bracket: str) -> Json:
        """Parse a string that contains a JSON object or array; return any other value unchanged.

        Models often write a nested object as a string: ``"{\\"a\\": 1}"``.
        """
        if not isinstance(value, str) or not value.lstrip().startswith(bracket):
            return value
        # exact JSON only: a string that merely looks like JSON may be meant as text
        try:
            inner = read_exact(value.strip())
        except JsonSyntaxError:
            return value
        self.coerced("JSON inside a string", value, inner)
        return inner


def match_keys(
    value: dict[str, Json], names: Sequence[str], cursor: DecodeCursor, *, closed: bool = False
) -> dict[str, Json]:
    """Return the expected key for each key of an object in a reply, ignoring case and punctuation.

    Other members are dropped. With ``closed`` they are errors.
    """
    members = {name: value[name] for name in names if name in value}
    for key, member in value.items():
        if key in names:
            continue
        candidates = [name for name in names if normalize_key(name) == normalize_key(key)]
        child = cursor.encoded_child(key)
        if not candidates and closed:  # an item of a tuple must not disappear
            child.fail("no item of this name is expected", member)
        elif not candidates:
            child.coerced("unknown key left out", member, "")
        elif len(candidates) > 1 or candidates[0] in members:
            child.fail(f"another key refers to {candidates[0]!r} too", key)
        else:
            child.coerced("key in another form", key, candidates[0])
            members[candidates[0]] = member
    return members


def decode_with_fewest_deviations(
    decoders: Sequence[Callable[[DecodeCursor], Json]], value: Json, cursor: DecodeCursor
) -> Json:
    """Decode a value with several functions, and return the result with the fewest corrections.

    Two best results that differ are recorded as an ambiguity.
    """
    attempts: list[tuple[tuple[int, int], list[Deviation], Json]] = []
    for decoder in decoders:
        trial = cursor.trial()
        result = decoder(trial)
        shape_changes = sum(deviation.changes_shape for deviation in trial.deviations)
        # one part of another shape is worse than any number of other deviations
        rank = (shape_changes, len(trial.deviations) - shape_changes)
        attempts.append((rank, trial.deviations, result))
    best_rank = min(rank for rank, _, _ in attempts)
    best = [(deviations, result) for rank, deviations, result in attempts if rank == best_rank]
    if best_rank[0]:  # no branch fits: the model most likely meant the branch whose mistakes are deepest
        best.sort(key=lambda attempt: _depth_of_mistakes(attempt[0]), reverse=True)
    deviations, result = best[0]
    cursor.deviations.extend(deviations)
    if not all(json_equal(result, other) for _, other in best[1:]):
        if best_rank[0]:
            if not any(deviation.kind is DeviationKind.ERROR for deviation in deviations):
                cursor.fail("it does not fit any branch", value)
        else:
            message = "it is not clear which branch is meant" if any(best_rank) else MORE_THAN_ONE_WAY
            cursor.fail(message, value, DeviationKind.AMBIGUOUS)
    return result


def _depth_of_mistakes(deviations: list[Deviation]) -> int:
    return max(len(deviation.encoded.path) for deviation in deviations if deviation.changes_shape)


# --- Findings ---

ENFORCED_LATER = "not sent; enforced when read"
NOT_STRICT = "strict mode is given up"


class Finding(NamedTuple):
    """A JSON Schema feature that a provider does not support, and how it is replaced.

    Attributes:
        path: The field of a Python type (``Person.tags``), or a JSON pointer into a schema.
        feature: What the schema uses there, for example ``"uniqueItems"``.
        action: What is done about it, for example ``"not sent; enforced when read"``.
        lossless: False if strict mode cannot be used for the whole schema.
    """

    path: str
    feature: str
    action: str
    lossless: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.feature}: {self.action}"


class SchemaLocation(NamedTuple):
    """The path to one part of a JSON Schema or Python type, for use in error messages.

    Attributes:
        path: The path as a user would write it.
        of_type: True if the schema comes from a Python type, whose objects are named after their classes.
        depth: The number of objects around this position.
    """

    path: str
    of_type: bool
    depth: int = 0

    def property(self, key: str, title: object) -> SchemaLocation:
        """Return the path of an object's property in the JSON Schema, for messages."""
        if self.of_type:
            # an object without a title is an added envelope, which users do not know
            path = f"{title}.{key}" if isinstance(title, str) else self.path
            return SchemaLocation(path, True, self.depth + 1)
        step = key.replace("~", "~0").replace("/", "~1")
        return SchemaLocation(f"{self.path}/properties/{step}", False, self.depth + 1)

    def subschema(self, *steps: str | int) -> SchemaLocation:
        """Return the path of a nested schema in the JSON Schema, for messages.

        For a Python type it is the same location, because only fields have names.
        """
        if self.of_type:
            return self
        return self._replace(path="/".join([self.path, *map(str, steps)]))

    def deeper(self) -> SchemaLocation:
        """Return this path in a JSON Schema with its nesting depth increased by one."""
        return self._replace(depth=self.depth + 1)


class FindingLog:
    """Collects the JSON Schema features that a provider does not support, each only once."""

    def __init__(self) -> None:
        self._findings: dict[Finding, None] = {}

    def add(self, location: SchemaLocation, feature: str, action: str) -> None:
        """Record an unsupported JSON Schema feature that can be replaced without loss."""
        self._findings.setdefault(Finding(location.path, feature, action))

    def give_up(self, location: SchemaLocation, feature: str) -> None:
        """Record an unsupported JSON Schema feature that rules out the provider's strict mode."""
        self._findings.setdefault(Finding(location.path, feature, NOT_STRICT, lossless=False))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The JSON Schema features found so far that the provider does not support."""
        return tuple(self._findings)
