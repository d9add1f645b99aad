"""Makes up values of a type, with the text that a model writes for each."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from output_parsers.encoding import EncodedNode
from output_parsers.envelope import EnvelopeNode
from output_parsers.errors import OutputParsingError
from output_parsers.parser import TypeParser
from output_parsers.reading import written
from output_parsers.same import same
from output_parsers.schema import schema_of

from .schema_values import PLAIN, Texts, json_for
from .source import Dice, Source

__all__ = ["Written", "value_of", "written_by"]

T = TypeVar("T")
_TRIES = 200
_TRIES_EACH = 3
# No schema says that the keys of dict[int, …] are numbers, or of which form a text is that a validator takes.
_FORMS = (None, "integer", "fraction", "date", "date-time", "time", "uuid", "uri", "email")
_TEXTS: WeakKeyDictionary[TypeParser[Any], Texts] = WeakKeyDictionary()


class Written(NamedTuple):
    """A value, and the text that is read as it."""

    value: Any
    text: str


def value_of(parser: TypeParser[T], source: Source) -> T:
    """A value that the parser reads. Raises LookupError when none was found that it accepts."""
    value: T = written_by(parser, source).value
    return value


def written_by(parser: TypeParser[Any], source: Source) -> Written:
    """A value by the choices of the source, and its text in the form that the parser asks for.

    Raises LookupError when none was found that it accepts.
    """
    plain = _plain(parser)
    texts = _texts_for(parser, plain)
    said = ""
    for _ in range(_TRIES):
        try:
            return _tried(parser, plain, source, texts)
        except (OutputParsingError, ValueError) as error:
            said = str(error)
            source.reject()
    raise LookupError(
        f"no value of {parser.name} was found in {_TRIES} attempts, the last of which gave: {said}; "
        "name one in FakeChatModel(values={…})"
    )


def _tried(parser: TypeParser[Any], plain: TypeParser[Any], source: Source, texts: Texts) -> Written:
    """A value and its text. Raises OutputParsingError or ValueError where what was drawn is no value."""
    drawn = json_for(schema_of(plain.node), source, texts)
    text = drawn if plain.plain_text and isinstance(drawn, str) else written(drawn)
    value = plain.parse(text)
    try:
        return Written(value, parser.write(value))
    except ValueError:  # a parser of the user's reads, and does not write
        if not same(parser.parse(text), value):
            raise
        return Written(value, text)


def _texts_for(parser: TypeParser[Any], plain: TypeParser[Any]) -> Texts:
    """The form of texts that the type accepts: found once, by dice, so that all sources get the same."""
    known = _TEXTS.get(parser)
    if known is None:
        known = _TEXTS[parser] = next(
            (
                texts
                for others, keys in product(_FORMS, _FORMS)
                if _takes(parser, plain, texts := Texts(keys, others))
            ),
            PLAIN,
        )
    return known


def _takes(parser: TypeParser[Any], plain: TypeParser[Any], texts: Texts) -> bool:
    for number in range(_TRIES_EACH):
        try:
            _tried(parser, plain, Dice(str(number)), texts)
        except (OutputParsingError, ValueError):
            continue
        return True
    return False


def _plain(parser: TypeParser[Any]) -> TypeParser[Any]:
    """The parser of the same value without its envelope and its encoding, whose schema says more of it."""
    node = parser.node
    while isinstance(node, (EncodedNode, EnvelopeNode)):
        node = node.inner
    return parser if node is parser.node else TypeParser(parser.target, node)
