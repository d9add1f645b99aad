"""The texts in JSON data, without the words of the program, such as field names, enum values and dates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from output_parsers.json_schema.document import referenced_part
from output_parsers.result.reading import Json

_NOT_TEXT = frozenset(("date", "date-time", "time", "duration", "uuid", "binary"))
_ANY: Mapping[str, object] = {}


def texts_of(data: Json, schema: Mapping[str, object]) -> list[str]:
    """Return the texts in JSON data of a schema, each once.

    A text is a string that the schema does not list, and that is not a date or another value with a format.
    Keys are texts if they are not properties of the schema.
    """
    texts: dict[str, None] = {}

    def collect(text: str) -> str:
        texts[text] = None
        return text

    map_texts(data, schema, collect)
    return list(texts)


def map_texts(data: Json, schema: Mapping[str, object], function: Callable[[str], str]) -> Json:
    """Return the JSON data with ``function`` applied to each text; ``texts_of`` says what a text is.

    Raises ValueError if two keys of an object become the same.
    """
    return _Mapper(schema, function).map(data, (schema,))


class _Mapper:
    def __init__(self, root: Mapping[str, object], function: Callable[[str], str]) -> None:
        self._root = root
        self._function = function

    def map(self, data: Json, schemas: Sequence[object]) -> Json:
        if not isinstance(data, (str, list, dict)):
            return data
        options = list(self._options(schemas, set())) or [_ANY]
        if isinstance(data, str):
            return self._function(data) if any(map(_allows_text, options)) else data
        if isinstance(data, list):
            return [self.map(item, _item_schemas(options, index)) for index, item in enumerate(data)]
        mapped = {}
        for key, value in data.items():
            properties = [one["properties"][key] for one in options if key in one.get("properties", ())]
            if properties:
                mapped[key] = self.map(value, properties)
            else:
                mapped[self._function(key)] = self.map(value, _value_schemas(options))
        if len(mapped) < len(data):
            raise ValueError("two keys of an object are the same after they were rewritten")
        return mapped

    def _options(self, schemas: Sequence[object], visited: set[str]) -> Iterator[Mapping[str, Json]]:
        """Yield the schemas that data may have, with references and unions resolved."""
        for schema in schemas:
            if not isinstance(schema, Mapping):
                continue
            reference = schema.get("$ref")
            if isinstance(reference, str):
                if reference not in visited:
                    visited.add(reference)
                    yield from self._options((referenced_part(self._root, reference),), visited)
                continue
            members = [one for keyword in ("anyOf", "oneOf", "allOf") for one in schema.get(keyword, ())]
            if members:
                yield from self._options(members, visited)
            else:
                yield schema


def _allows_text(schema: Mapping[str, object]) -> bool:
    types = schema.get("type", "string")
    return (
        ("string" in types if isinstance(types, list) else types == "string")
        and "enum" not in schema
        and "const" not in schema
        and "contentEncoding" not in schema
        and schema.get("format") not in _NOT_TEXT
    )


def _item_schemas(options: Sequence[Mapping[str, Json]], index: int) -> list[object]:
    schemas = []
    for option in options:
        items: Sequence[object] = option.get("prefixItems", ())
        schemas.append(items[index] if index < len(items) else option.get("items", _ANY))
    return schemas


def _value_schemas(options: Sequence[Mapping[str, Json]]) -> list[object]:
    schemas = [one["additionalProperties"] for one in options if "additionalProperties" in one]
    schemas += [schema for one in options for schema in one.get("patternProperties", {}).values()]
    return [schema for schema in schemas if isinstance(schema, Mapping)] or [_ANY]
