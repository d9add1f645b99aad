"""A stub is an empty body in any spelling. Methods with another body stay unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import pytest

from aiservices.interface.decorators import is_stub, methods_of

T = TypeVar("T")


class Stubs:
    def dots(self, text: str) -> bool: ...

    def passed(self, text: str) -> bool:  # type: ignore[empty-body]
        pass

    def documented(self, text: str) -> bool:  # type: ignore[empty-body]
        """Say whether it is so."""

    def documented_dots(self, text: str) -> bool:
        """Say whether it is so."""
        ...

    def documented_pass(self, text: str) -> bool:  # type: ignore[empty-body]
        """Say whether it is so."""
        pass

    def raising(self, text: str) -> bool:
        raise NotImplementedError

    def raising_called(self, text: str) -> bool:
        raise NotImplementedError()

    def raising_with_text(self, text: str) -> bool:
        raise NotImplementedError("later")

    def documented_raising(self, text: str) -> bool:
        """Say whether it is so."""
        raise NotImplementedError

    def documented_raising_with_text(self, text: str) -> bool:
        """Say whether it is so."""
        raise NotImplementedError("later")

    def with_every_kind_of_parameter(self, a: int, /, b: int = 1, *c: int, d: int = 2, **e: int) -> bool: ...

    def streaming(self, text: str) -> Iterator[str]: ...

    def streaming_async(self, text: str) -> AsyncIterator[str]: ...

    async def async_dots(self, text: str) -> bool: ...

    async def async_passed(self, text: str) -> bool:  # type: ignore[empty-body]
        pass

    async def async_documented(self, text: str) -> bool:  # type: ignore[empty-body]
        """Say whether it is so."""

    async def async_raising(self, text: str) -> bool:
        raise NotImplementedError

    async def async_raising_with_text(self, text: str) -> bool:
        """Say whether it is so."""
        raise NotImplementedError("later")


class Bodies:
    def number(self) -> int:
        return 5

    def text(self) -> str:
        return "x"

    def documented_text(self) -> str:
        """Say x."""
        return "x"

    def its_own_docstring(self) -> str:
        """x"""
        return "x"

    def truth(self) -> bool:
        return True

    def argument(self, text: str) -> str:
        return text

    def call(self, text: str) -> None:
        print(text)

    def another_error(self) -> bool:
        raise ValueError

    def another_error_with_text(self) -> bool:
        raise ValueError("later")

    def formatted_error(self, text: str) -> bool:
        raise NotImplementedError(f"{text} comes later")

    def the_error_itself(self) -> type[Exception]:
        return NotImplementedError

    def generator(self) -> Iterator[str]:
        yield ""

    async def async_number(self) -> int:
        return 5

    async def async_generator(self) -> AsyncIterator[str]:
        yield ""

    def two_steps(self, text: str) -> str:
        text = text.strip()
        return text + text


def functions(cls: type) -> list[Any]:
    return [
        pytest.param(function, id=name) for name, function in vars(cls).items() if not name.startswith("__")
    ]


@pytest.mark.parametrize("function", functions(Stubs))
def test_an_empty_body_is_a_stub(function: Callable[..., Any]) -> None:
    assert is_stub(function)


@pytest.mark.parametrize("function", functions(Bodies))
def test_a_body_that_does_something_is_not_a_stub(function: Callable[..., Any]) -> None:
    assert not is_stub(function)


@pytest.mark.parametrize("thing", [None, 5, "...", property(lambda self: ...), Stubs, len])
def test_other_objects_than_functions_are_not_stubs(thing: object) -> None:
    assert not is_stub(thing)


def test_methods_are_found_with_the_class_that_defines_them() -> None:
    class Parent(Protocol):
        def one(self) -> int: ...

    class Child(Parent, Protocol):
        def two(self) -> int: ...

    found = [(name, owner) for name, owner, _ in methods_of(Child) if not name.startswith("_")]
    assert found == [("two", Child), ("one", Parent)]


def test_an_overridden_method_is_found_once() -> None:
    class Parent(Protocol):
        def one(self) -> int: ...

    class Child(Parent, Protocol):
        def one(self) -> int:
            return 1

    found = [(name, owner) for name, owner, _ in methods_of(Child) if not name.startswith("_")]
    assert found == [("one", Child)]


def test_special_methods_are_left_alone_but_for_call() -> None:
    class Callable_(Generic[T]):
        def __call__(self, text: str) -> bool: ...
        def __len__(self) -> int: ...

    assert [name for name, _, _ in methods_of(Callable_) if name.endswith("__")] == ["__call__"]
