"""Make the cited values of a fake answer: values of the right type that occur in the texts of the call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from output_parsers.mentions import dates_in, durations_in, numbers_in, times_in
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Cursor, Json, Leniency, ValidationFailure, dump_json
from output_parsers.types.cited import Cited, cited_from
from output_parsers.types.evidence import Sources
from output_parsers.types.node import Node

from .values import Choices

_ATTEMPTS = 40  # the number of values of a text that are tried for each part


class _Collected:
    """Collects the cited values of an answer while it is read."""

    def __init__(self) -> None:
        self.values: list[tuple[Cited[object], Node[object] | None, str]] = []

    def verify(self, cited: Cited[object], node: Node[object] | None, cursor: Cursor) -> None:
        self.values.append((cited, node, cursor.path))

    def resolve(self) -> None:
        """Do nothing."""


def with_quotes(parser: TypeParser[object], text: str, sources: Sources, choices: Choices) -> str:
    """Return an answer in which each cited value occurs in the texts of the call, with its quote.

    Raises LookupError if no text has a value of the type.
    """
    collected = _Collected()
    with cited_from(collected):
        value = parser.parse(text)
    for cited, node, path in collected.values:
        citation = next(_citations(cited, node, sources, choices), None)
        if citation is None:
            raise LookupError(
                f"the texts of the call have no value for {path}; pass the answer by FakeChatModel(values=…)"
            )
        cited._set(value=citation.value, quote=citation.quote)
    return parser.write(value)


def nothing_of(parser: TypeParser[object]) -> str:
    """Return the answer of a type without information: null, or a record or a list without values."""
    for text in ("null", "{}", "[]"):
        try:
            return parser.write(parser.parse(text))
        except ValueError:  # also an OutputParsingError
            continue
    raise LookupError(
        "the answer about a part of a document must have values; pass it by FakeChatModel(values=…)"
    )


def with_short_lists(parser: TypeParser[object], text: str) -> str:
    """Return an answer with at most one item in each list: two might be one item with other values."""
    shortened = dump_json(_shortened(json.loads(text)))
    try:
        parser.parse(shortened)
    except OutputParsingError:
        return text
    return shortened


def _shortened(data: Json) -> Json:
    if isinstance(data, dict):
        return {key: _shortened(one) for key, one in data.items()}
    return [_shortened(one) for one in data[:1]] if isinstance(data, list) else data


def about_part(parser: TypeParser[object], text: str, sources: Sources) -> str:
    """Return what an answer about a document says about a part: the values whose quotes are in the part.

    An item of a list is in the part with all its quotes. Values without quotes are in the first part.
    """
    collected = _Collected()
    with cited_from(collected):
        parser.parse(text)
    in_part = {path: _is_cited(cited, node, sources) for cited, node, path in collected.values}
    data = json.loads(text, parse_float=Decimal)
    answer = dump_json(_data_about_part(data, Cursor(), in_part, has_others=not sources.is_continued))
    try:
        with cited_from(sources):
            parser.parse(answer)
    except OutputParsingError:
        return nothing_of(parser)
    return answer


def _is_cited(cited: Cited[object], node: Node[object] | None, sources: Sources) -> bool:
    try:
        sources.verify(cited, node, Cursor())
    except ValidationFailure:
        return False
    return True


def _data_about_part(data: Json, cursor: Cursor, in_part: Mapping[str, bool], *, has_others: bool) -> Json:
    path = cursor.path
    if path in in_part:
        return data if in_part[path] else None
    if isinstance(data, dict):
        if not (has_others or path == "$" or any(_is_inside(quoted, path) for quoted in in_part)):
            return None
        return {
            key: _data_about_part(one, cursor.child(key), in_part, has_others=has_others)
            for key, one in data.items()
        }
    if not isinstance(data, list):
        return data if has_others else None
    paths = [cursor.child(index).path for index in range(len(data))]
    return [
        item
        for path, item in zip(paths, data, strict=True)
        if _is_in_part(path, in_part, has_others=has_others)
    ]


def _is_in_part(path: str, in_part: Mapping[str, bool], *, has_others: bool) -> bool:
    quotes = [flag for quoted, flag in in_part.items() if _is_inside(quoted, path)]
    return all(quotes) if quotes else has_others


def _is_inside(path: str, outer: str) -> bool:
    """Return True if a path, ``$.party.name``, is another one, ``$.party``, or begins with all its steps."""
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in ("", ".", "[")


def _citations(
    cited: Cited[object], node: Node[object] | None, sources: Sources, choices: Choices
) -> Iterator[Cited[object]]:
    """Yield the values of a type, with quotes, that the texts have."""
    for text, number in sources.texts:
        words = [match.span() for match in re.finditer(r"\w\S*\w", text)]
        if node is None:
            for _ in words[:1]:
                start, end = choices.one_of(words)
                yield type(cited)(number or text[start:end])  # it is a Quote
        if node is None or not words:
            continue
        for quote, data in _answers(node.write(cited.value), text, choices):
            try:
                value = node.read(data, Cursor(Leniency.SAFE))
                sources.verify(Cited(value, number or quote), node, Cursor())
            except ValidationFailure:
                continue
            yield Cited(value, number or quote)


def _answers(data: Json, text: str, choices: Choices) -> Iterator[tuple[str, Json]]:
    """Yield JSON like the given JSON whose parts occur in a text, each with the quote."""
    mentioned = [*_mentions(text)]
    for _ in range(_ATTEMPTS):
        if isinstance(data, (dict, list)):
            yield text.strip(), _replaced(data, [one for one, _ in mentioned], choices)
            continue
        same = [one for one in mentioned if _is_alike(one[0], data)]
        value, quote = choices.one_of(same or mentioned)
        yield quote, value if same else data
    yield choices.one_of(mentioned)[1], data  # an option, which need not be in the quote


def _replaced(data: Json, values: list[Json], choices: Choices) -> Json:
    if isinstance(data, dict):
        return {key: _replaced(one, values, choices) for key, one in data.items()}
    if isinstance(data, list):
        return [_replaced(one, values, choices) for one in data]
    alike = [one for one in values if _is_alike(one, data)]
    return choices.one_of(alike) if alike else data


def _is_alike(value: Json, data: Json) -> bool:
    """Return True if two JSON values have the same type, and one is a date or a duration if the other is."""
    if isinstance(data, bool) or isinstance(value, str) is not isinstance(data, str):
        return False
    if isinstance(data, str):
        return _form(value) == _form(data)
    return isinstance(data, (int, Decimal)) and (not isinstance(data, int) or isinstance(value, int))


def _form(text: str) -> str:
    form = re.match(r"\d{4}-\d\d-\d\d(?:T\d)?|\d\d:\d\d|P[T\d]", text)
    return "" if form is None else re.sub(r"\d", "0", form[0])


def _mentions(text: str) -> Iterator[tuple[Json, str]]:
    """Yield the values that a text mentions, as JSON, with their words."""
    for number in numbers_in(text):
        for value in number.values:
            yield int(value) if value == int(value) else value, text[number.start : number.end]
    for mentions in (dates_in, times_in):
        for one in mentions(text):
            for moment in one.values:
                yield moment.isoformat(), text[one.start : one.end]
    for duration in durations_in(text):
        for length in duration.values:
            yield f"PT{int(length.total_seconds())}S", text[duration.start : duration.end]
    for word in re.finditer(r"\w\S*\w", text):
        yield word[0], word[0]
