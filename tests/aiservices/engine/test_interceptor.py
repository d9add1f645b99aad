"""The kinds of interceptors and their optional attributes."""

from __future__ import annotations

from typing import Annotated, Protocol

import pytest

from aiservices import MemoryId, ScriptedChatModel, create, user_message
from aiservices.engine.interceptor import InterceptorKind, attributes_of
from aiservices.interceptors import Answer, Flow, Interceptor, Invocation, Proceed


def passing(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
    return (yield from proceed(invocation))


class Translation:
    """An interceptor of a user, with a name of its own for its kind."""

    position_name = "translation"

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        return (yield from proceed(invocation))


def test_the_members_of_the_enumeration_are_in_the_usual_order() -> None:
    ranks = [kind.rank for kind in InterceptorKind]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("kind", [one for one in InterceptorKind if one is not InterceptorKind.OTHER])
def test_the_name_of_a_kind_gives_the_kind(kind: InterceptorKind) -> None:
    class Guard(Translation):
        position_name = str(kind)

    assert attributes_of(Guard()).kind is kind


@pytest.mark.parametrize("interceptor", [passing, Translation()])
def test_an_interceptor_without_the_base_class_has_the_defaults(interceptor: Interceptor) -> None:
    attributes = attributes_of(interceptor)
    assert attributes.kind is InterceptorKind.OTHER
    assert not attributes.blocks_streaming
    assert attributes.async_parts == attributes.unchecked_media == ()
    assert attributes.trace_rows("Desk.answer") is None
    attributes.add_service("Desk", "module.Desk", has_default_conversation=True)


def test_an_attribute_of_a_function_counts() -> None:
    def blocking(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return (yield from proceed(invocation))

    blocking.blocks_streaming = True  # type: ignore[attr-defined]
    assert attributes_of(blocking).blocks_streaming


def test_an_interceptor_with_a_name_of_its_own_may_use_the_memory_id() -> None:
    class Chat(Protocol):
        @user_message("{{text}}")
        def talk(self, chat: Annotated[str, MemoryId], text: str) -> str: ...

    chat = create(Chat, ScriptedChatModel(["hello"]), interceptors=[Translation()])
    assert chat.talk("1", "hi") == "hello"
