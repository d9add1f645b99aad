"""Memory ids: the types that they may have, and the texts under which conversations are stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict

from aiservices.interface.parameters import (
    memory_id_data,
    memory_id_from_data,
    memory_id_problem,
    memory_id_text,
    memory_id_type_problem,
)
from aiservices.models.errors import MemoryIdError

ID = UUID("12345678-1234-5678-1234-567812345678")


@dataclass(frozen=True)
class Data:
    tenant: str
    user: int
    device: UUID


class Named(NamedTuple):
    tenant: str
    user: int
    device: UUID


class Model(BaseModel):
    model_config = ConfigDict(frozen=True)
    tenant: str
    user: int
    device: UUID


@attrs.frozen
class Attrs:
    tenant: str
    user: int
    device: UUID


class Struct(msgspec.Struct, frozen=True):
    tenant: str
    user: int
    device: UUID


RECORDS: list[Any] = [Data, Named, Model, Attrs, Struct]
TEXT = '{"device":"12345678-1234-5678-1234-567812345678","tenant":"é","user":7}'


@pytest.mark.parametrize("cls", RECORDS)
def test_records_are_stored_as_canonical_json(cls: Any) -> None:
    memory_id = cls(tenant="é", user=7, device=ID)
    assert (memory_id_type_problem(cls), memory_id_problem(memory_id)) == (None, None)
    assert memory_id_text(memory_id) == TEXT
    data = memory_id_data(memory_id)
    assert data == {"tenant": "é", "user": 7, "device": str(ID)}
    assert memory_id_from_data(data, cls | None) == memory_id


class Colour(StrEnum):
    RED = "red"


def test_plain_ids_are_stored_as_their_text() -> None:
    assert [memory_id_text(one) for one in ("a", 7, ID, Colour.RED)] == ["a", "int:7", str(ID), "red"]
    assert memory_id_from_data(str(ID), UUID) == ID
    assert memory_id_from_data(str(ID), str | UUID) == str(ID)
    assert [memory_id_from_data(one, int | None) for one in (7, None)] == [7, None]


def test_a_text_that_looks_like_a_record_has_another_conversation() -> None:
    record = memory_id_text(Data("é", 7, ID))
    assert memory_id_text(record) != record
    assert memory_id_text(memory_id_text(record)) != memory_id_text(record)


class One(NamedTuple):
    name: str


@given(st.lists(st.text(max_size=6) | st.builds(One, st.text(max_size=6)), max_size=6, unique_by=repr))
def test_different_ids_have_different_conversations(memory_ids: list[Any]) -> None:
    texts = [memory_id_text(one) for one in memory_ids]
    texts += [
        memory_id_text(text) for text in texts if text.startswith(("{", '"')) and text not in memory_ids
    ]
    assert len(set(texts)) == len(texts)


@dataclass
class Thawed:
    tenant: str


@dataclass(frozen=True)
class Empty: ...


@dataclass(frozen=True)
class Deep:
    inner: Data


@dataclass(frozen=True)
class Optional:
    tenant: str | None


class Open(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")
    tenant: str


class Flag(NamedTuple):
    flag: bool


EXPECTED = "cannot be one; use a str, an int, a UUID, or a frozen record of them"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (float, f"float {EXPECTED}"),
        (tuple[str, str], f"tuple {EXPECTED}"),
        (dict[str, str], f"dict {EXPECTED}"),
        (object, f"object {EXPECTED}"),
        (Thawed, "Thawed is not frozen, so an id could change; make it frozen, or use a NamedTuple"),
        (Empty, "Empty has no fields, so it does not name a conversation"),
        (Deep, "Deep.inner is Data; use str, int and UUID"),
        (Optional, "Optional.tenant is str | None; use str, int and UUID"),
        (Flag, "Flag.flag is bool; use str, int and UUID"),
        (Open, "Open allows extra fields, which are not part of an id; forbid them"),
    ],
)
def test_other_types_cannot_be_ids(kind: Any, problem: str) -> None:
    assert memory_id_type_problem(kind) == problem


BLANK = "pass the id of a conversation, because all users with an empty id would share one"


@pytest.mark.parametrize(
    ("memory_id", "problem"),
    [
        (One(" "), f"has the field name, which is ' '; {BLANK}"),
        (One(None), "has the field name, which is None; it must be a str, an int or a UUID"),  # type: ignore[arg-type]
        (One(True), "has the field name, which is bool; it must be a str, an int or a UUID"),  # type: ignore[arg-type]
        (One("x" * 300), "has 311 characters; it may have at most 256"),
        (Empty(), "is Empty; it must be a str, an int, a UUID, or a frozen record of them"),
        ("", f"is ''; {BLANK}"),
        (1.5, "is float; it must be a str, an int, a UUID, or a frozen record of them"),
    ],
)
def test_values_that_name_no_conversation(memory_id: object, problem: str) -> None:
    assert memory_id_problem(memory_id) == problem


def test_data_of_another_record_is_an_error() -> None:
    with pytest.raises(MemoryIdError) as caught:
        memory_id_from_data({"tenant": "a"}, Data)
    assert str(caught.value) == "the fields tenant are not those of a memory id of the method"
