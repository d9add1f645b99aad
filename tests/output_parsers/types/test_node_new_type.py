"""A built-in return type is one class and one line of registration."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

import pytest

from aiservices.rows.fields import answer_columns
from aiservices.testing.values import SeededChoices, value_for
from output_parsers.parser import type_parser
from output_parsers.parser.type_parser import TypeParser, parser_for
from output_parsers.result.reading import Cursor, Json
from output_parsers.streaming import PartialReader
from output_parsers.types import scalars
from output_parsers.types.node import Definitions, JsonSchema, Node


class NetworkNode(Node[IPv4Network]):
    kind = "a network"
    json_types = frozenset((str,))
    storage_kind = "text"
    examples = ("10.0.0.0/8", "192.168.1.0/24")

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string", "format": "ipv4network"}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return '"network"'

    def read(self, data: Json, cursor: Cursor) -> IPv4Network:
        try:
            return IPv4Network(data)
        except ValueError as error:
            raise cursor.failure(f"expected {self.kind}", data) from error


@dataclass
class Route:
    network: IPv4Network
    gateways: list[IPv4Network | None]
    metric: int | IPv4Network


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scalars._SCALARS, IPv4Network, lambda _: NetworkNode())
    monkeypatch.setattr(type_parser.DEFAULT_REGISTRY, "_cache", {})


def route_parser() -> TypeParser[Route]:
    return parser_for(Route)


TEXT = '{"network": "10.0.0.0/8", "gateways": ["10.1.0.0/16", null], "metric": 3}'
ROUTE = Route(IPv4Network("10.0.0.0/8"), [IPv4Network("10.1.0.0/16"), None], 3)


def test_a_new_type_is_read_and_written_inside_records_lists_and_unions() -> None:
    parser = route_parser()
    assert parser.parse(TEXT) == ROUTE
    assert parser.parse(parser.write(ROUTE)) == ROUTE


def test_streams_show_a_value_of_a_new_type_only_when_it_is_complete() -> None:
    reader = PartialReader(route_parser())
    values: list[Any] = []
    for part in TEXT.partition("/8"):
        reader.feed(part)
        values.append(reader.snapshot().value)
    assert ["network" in value for value in values[:2]] == [False, False]
    assert values[2] == ROUTE


def test_tables_store_a_new_type_by_its_kind() -> None:
    pytest.importorskip("pyarrow")
    columns = {column.name: column.shape.arrow(set()) for column in answer_columns(Route).columns}
    types = {name: str(tp) for name, tp in columns.items()}
    assert types == {"network": "string", "gateways": "list<item: string>", "metric": "string"}


def test_fakes_make_up_values_of_a_new_type_from_its_examples() -> None:
    value = value_for(route_parser(), SeededChoices("route"))
    assert str(value.network) in NetworkNode.examples
