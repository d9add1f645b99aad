"""Values as JSON text on their way to another machine and back, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

from typing_extensions import TypedDict

from output_parsers.custom import OutputParser
from output_parsers.errors import OutputParsingError, Problem
from output_parsers.node import JsonSchema
from output_parsers.parser import TypeParser
from output_parsers.reading import Leniency
from output_parsers.registry import ParserRegistry
from output_parsers.target import type_name

__all__ = ["Codec", "codec_for", "record_of"]

T = TypeVar("T")
_FIELD = "value"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?"
_TIMES = {"time": f"^{_CLOCK}$", "date-time": rf"^\d{{4}}-\d{{2}}-\d{{2}}T{_CLOCK}$"}
_OPENING = f'{{"{_FIELD}": '


class Codec(Generic[T]):
    """One type as JSON text: what ``write`` gives, ``read`` gives back as the same value.

    ``name`` is the type as its user would write it, ``schema`` its JSON Schema.
    """

    def __init__(self, parser: TypeParser[T]) -> None:
        self.parser = parser
        self.name = parser.name
        # A text alone would be any text: in an envelope everything is JSON, strings in quotes.
        self._enveloped = parser.enveloped(_FIELD)

    @cached_property
    def schema(self) -> JsonSchema:
        """The JSON Schema (draft 2020-12), with ``$defs`` for what stands in it twice."""
        inside = (self._enveloped.schema or {}).get("properties", {}).get(_FIELD)
        exact: JsonSchema = _exact(self.parser.schema or inside)
        return exact

    def write(self, value: T) -> str:
        """The JSON text of a value. Raises ValueError when it is none of the type, or JSON cannot say it."""
        return self._enveloped.write(value)[len(_OPENING) : -1]

    def read(self, text: str) -> T:
        """The value of a JSON text. Raises OutputParsingError for all but exact JSON of the type."""
        try:
            return self._enveloped.parse(f"{_OPENING}{text}}}", Leniency.NONE)
        except OutputParsingError as error:
            raise OutputParsingError(text, [_outside(problem) for problem in error.problems]) from error


def _exact(schema: Any) -> Any:
    """A schema without the formats that demand an offset from UTC of a time: one of ours may have none."""
    if isinstance(schema, list):
        return [_exact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and schema.get("format") in _TIMES:
        rest = {key: value for key, value in schema.items() if key != "format"}
        return {**rest, "pattern": _TIMES[schema["format"]]}
    return {key: _exact(part) for key, part in schema.items()}


def _outside(problem: Problem) -> Problem:
    """A problem with the path that it has without the envelope."""
    path = problem.path.replace(f"$.{_FIELD}", "$", 1)
    return Problem(path, problem.message, problem.found)


def codec_for(form: Any, registry: ParserRegistry, namespace: Mapping[str, Any] | None = None) -> Codec[Any]:
    """The codec of a type. Raises UnsupportedTypeError when nothing reads it."""
    parser: OutputParser[Any] = registry.parser_for(form, namespace=namespace)
    known = parser if isinstance(parser, TypeParser) else TypeParser.around(parser, type_name(form))
    return Codec(known)


def record_of(name: str, fields: dict[str, Any]) -> Any:
    """The type of a dict with these fields."""
    return TypedDict(name, fields)  # type: ignore[operator]  # they are known when an interface is planned
