"""Evaluated annotations work like string annotations. This module has no future import."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Generic, List, Optional, Protocol, TypeVar  # noqa: UP035

from aiservices import MemoryId, Result, ScriptedChatModel, create, user_message
from aiservices.memory import ChatMemory

T = TypeVar("T")


def test_local_types_are_found() -> None:
    class Colour(Enum):
        RED = "red"

    @dataclass
    class Paint:
        colour: Colour

    class Painter(Protocol):
        def paint(self, text: str) -> Paint: ...

    assert create(Painter, ScriptedChatModel(['{"colour": "red"}'])).paint("it") == Paint(Colour.RED)


def test_local_types_are_found_by_a_name_in_quotes() -> None:
    class Colour(Enum):
        RED = "red"

    class Painter(Protocol):
        def one(self, text: str) -> "Colour": ...

        def some(self, text: str) -> list["Colour"]: ...

        def old(self, text: str) -> List["Colour"]: ...  # noqa: UP006

    service = create(Painter, ScriptedChatModel(["red", '["red"]', '["red"]']))
    assert (service.one("x"), service.some("x"), service.old("x")) == (Colour.RED, [Colour.RED], [Colour.RED])


def test_optional_generic_and_annotated_hints_work_in_the_old_spelling() -> None:
    class Reader(Generic[T]):
        @user_message("{{text}}")
        def read(self, text: str, room: Annotated[Optional[str], MemoryId] = None) -> Optional[T]:  # noqa: UP045
            raise NotImplementedError

    reader = create(Reader[int], ScriptedChatModel(["null"]), interceptors=[ChatMemory()])
    assert reader.read("nothing", "hall") is None


def test_a_result_of_a_local_type_works() -> None:
    class Colour(Enum):
        RED = "red"

    class Painter(Protocol):
        def paint(self, text: str) -> Result[Colour]: ...

    assert create(Painter, ScriptedChatModel(["red"])).paint("it").value is Colour.RED
