"""Encodes a whole JSON Schema for a profile, and gives up where it cannot be kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

from ..errors import REFUSALS
from ..node import JsonSchema
from ..profiles import Profile
from ..reading import Json, Place
from .boxes import BoxCode
from .build import Builder, Thrift
from .code import Code, RefCode, walk
from .document import Document
from .finding import EncodingFault, Finding
from .kinds import same_json
from .leaves import NeverCode
from .limits import exceeded
from .notes import Notes, Where
from .overlap import is_plain
from .quick import says
from .undo import Spot, Undone
from .unions import told_apart

__all__ = ["Encoding", "encode", "encode_at", "taken_apart"]

Result = TypeVar("Result")

# What is saved first where a schema is too large: long enums, then what lies deep.
_THRIFTS = [
    Thrift(),
    *(Thrift(most) for most in (250, 50, 10)),
    *(Thrift(50, deepest) for deepest in (9, 7, 5, 3)),
]


class Encoding(NamedTuple):
    """A schema as a profile can say it, and the way of its values there and back.

    ``identity`` says that decoding changes nothing, for any value; ``fits`` is False where strict mode has
    to be given up: then the schema is the one that was given, and nothing is encoded. ``decode`` and
    ``encode`` raise EncodingFault for a value that does not fit; ``undo`` decodes what it can, and tells the
    rest.
    """

    schema: JsonSchema
    identity: bool
    decode: Callable[[Json], Json]
    encode: Callable[[Json], Json]
    findings: tuple[Finding, ...]
    fits: bool
    undo: Callable[[Json, Place], Undone]


def encode(schema: JsonSchema, profile: Profile) -> Encoding:
    """The encoding of a JSON Schema of any draft; what it says of itself by ``$schema``, else 2020-12."""
    return encode_at(schema, profile, Where("#", named=False))


def encode_at(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema whose findings are told from a place on."""
    if says(schema, profile):
        return _as_it_stands(schema, profile, at)
    return taken_apart(schema, profile, at)


def _as_it_stands(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema that a profile can say: it is taken apart when a value is to be checked."""

    @cache
    def made() -> Encoding:
        return taken_apart(schema, profile, at)

    return Encoding(
        schema,
        True,
        lambda value: made().decode(value),
        lambda value: made().encode(value),
        (),
        True,
        lambda value, at: made().undo(value, at),
    )


def taken_apart(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema that may say more than the profile can."""
    notes = Notes()
    for thrift in _THRIFTS:
        encoding, notes, too_large = _attempt(schema, profile, at, thrift)
        if encoding is not None:
            return encoding
        if not too_large:
            break
    return Encoding(schema, True, _as_it_is, _as_it_is, notes.findings, False, _nothing_undone)


def _attempt(
    schema: JsonSchema, profile: Profile, at: Where, thrift: Thrift
) -> tuple[Encoding | None, Notes, bool]:
    """The encoding if there is one, what was found, and whether it failed for its size alone."""
    builder = Builder(profile, Document(schema), thrift)
    try:
        root = _rooted(builder, builder.root(at), at)
    except RecursionError:
        builder.notes.give_up(at, "nesting beyond all measure")
        return None, builder.notes, False
    except (ValueError, *REFUSALS) as error:  # whoever wrote a schema may have written something else
        builder.notes.give_up(at, f"what is no JSON Schema ({type(error).__name__}: {error})")
        return None, builder.notes, False
    if not all(finding.lossless for finding in builder.notes.findings):
        return None, builder.notes, False
    sent = _sent(root)
    faults = exceeded(sent, profile.limits)
    for name, limit, count in faults:
        builder.notes.give_up(at, f"{count} {_MEASURES[name]}, where {profile.name} takes {limit}")
    if faults:
        return None, builder.notes, True
    found = builder.notes.findings
    whole = Encoding(sent, is_plain(root), _decoder(root), _encoder(root), found, True, _undoer(root))
    return whole, builder.notes, False


_MEASURES = {
    "depth": "levels of objects",
    "properties": "properties",
    "enum_values": "enum values",
    "text": "characters of names and values",
    "optional": "optional properties",
    "unions": "unions",
}


def _rooted(builder: Builder, root: Code, at: Where) -> Code:
    if isinstance(root, NeverCode):
        builder.notes.give_up(at, "a schema that nothing fits")
        return root
    apart = told_apart(root)
    if apart is None:
        builder.notes.give_up(at, "unions in which branches cannot be told apart")
    for union in apart or ():
        done = "branches that look alike are sent in objects of their own"
        builder.notes.note(union.at or at, "a union", done)
    target = root.target if isinstance(root, RefCode) else root
    shown = target.bare_schema()
    if builder.profile.object_root and shown.get("type") != "object":
        builder.notes.note(at, "a root that is no object", "sent in an object under 'value'")
        return BoxCode(root)
    if "anyOf" in shown and not builder.profile.any_of_root:
        return BoxCode(root)
    return target


def _sent(root: Code) -> JsonSchema:
    schema = root.schema()
    definitions = {
        code.definition.name: code.target_schema() for code in walk(root) if isinstance(code, RefCode)
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _undoer(root: Code) -> Callable[[Json, Place], Undone]:
    def undo(value: Json, at: Place) -> Undone:
        spot = Spot(at, Place(path=at.path), {})
        undone = root.undo(value, spot)
        return Undone(undone, spot.steps)

    return undo


def _decoder(root: Code) -> Callable[[Json], Json]:
    undo = _undoer(root)

    def decode(value: Json) -> Json:
        undone = _within_depth(undo, value)
        if undone.steps:
            step = next((step for step in undone.steps if step.heavy), undone.steps[0])
            problem = step.problem
            raise EncodingFault(problem.path, str(problem).removeprefix(f"{problem.path}: "))
        return undone.value

    return decode


def _encoder(root: Code) -> Callable[[Json], Json]:
    decode = _decoder(root)

    def encode(value: Json) -> Json:
        encoded = _within_depth(root.encode, value)
        back = decode(encoded)
        # what is left out may come back as null, where the schema says that this is the same
        if not same_json(back, value) and not same_json(_within_depth(root.encode, back), encoded):
            raise EncodingFault("$", "it does not come back as it was")
        return encoded

    return encode


def _within_depth(bring: Callable[[Json, Place], Result], value: Json) -> Result:
    try:
        return bring(value, Place())
    except RecursionError as error:
        raise EncodingFault("$", "it is nested too deeply") from error


def _as_it_is(value: Json) -> Json:
    return value


def _nothing_undone(value: Json, at: Place) -> Undone:
    return Undone(value, ())
