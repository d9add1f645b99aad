"""A parameter is data for the prompt unless its annotation gives it a role, and it has one role at most."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Optional, Union, get_type_hints

import pytest
from pydantic import Secret, SecretBytes, SecretStr

from aiservices import ChatOptions, History, MemoryId, Message, ToolContext, UserMessage, UserName
from aiservices.interface.parameters import Parameter, Role, RoleError, method_parameters

UserId = Annotated[str, MemoryId]


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    return method_parameters(inspect.signature(function), get_type_hints(function, include_extras=True))


def roles(function: Callable[..., Any]) -> list[Role | None]:
    return [parameter.role for parameter in parameters(function)]


def test_the_first_parameter_is_the_service_itself() -> None:
    def ask(self: object, text: str) -> bool: ...

    assert parameters(ask) == (Parameter("text", None, (str,), (str,), str),)


def test_a_parameter_without_annotation_is_data() -> None:
    def ask(self, text):  # type: ignore[no-untyped-def]
        ...

    assert parameters(ask) == (Parameter("text", None, (None,), (None,)),)


@pytest.mark.parametrize(
    ("annotation", "role"),
    [
        (Annotated[str, MemoryId], Role.MEMORY_ID),
        (Annotated[str, MemoryId()], Role.MEMORY_ID),
        (Annotated[str, UserName], Role.USER_NAME),
        (Annotated[list[Message], History], Role.HISTORY),
        (Annotated[object, ToolContext], Role.TOOL_CONTEXT),
        (Annotated[str, UserMessage], Role.USER_MESSAGE),
        (Annotated[str, "a note", UserName], Role.USER_NAME),
        (Annotated[str, UserName] | None, Role.USER_NAME),
        (Optional[Annotated[str, UserName]], Role.USER_NAME),  # noqa: UP045
        (UserId, Role.MEMORY_ID),
        (ChatOptions, Role.OPTIONS),
        (ChatOptions | None, Role.OPTIONS),
        (Union[ChatOptions, None], Role.OPTIONS),  # noqa: UP007
        (Annotated[ChatOptions, "a note"], Role.OPTIONS),
        (str, None),
        (Annotated[str, "a note"], None),
        (list[Message], None),
    ],
)
def test_an_annotation_gives_a_role(annotation: Any, role: Role | None) -> None:
    def ask(self: object, x: Any) -> bool: ...

    ask.__annotations__["x"] = annotation
    assert roles(ask) == [role]


def test_unions_are_split_into_their_types() -> None:
    def ask(self: object, x: int | Annotated[str, "a note"] | None) -> bool: ...

    (parameter,) = parameters(ask)
    assert (parameter.types, parameter.parts) == ((int, str, None), (int, str, None))


def test_the_parts_of_an_annotation_include_the_items_of_lists() -> None:
    def ask(self: object, x: list[int | tuple[str, ...]] | None) -> bool: ...

    (parameter,) = parameters(ask)
    assert (parameter.types, parameter.parts) == ((list[int | tuple[str, ...]], None), (int, str, None))


def test_a_parameter_with_two_roles_is_a_problem() -> None:
    def ask(self: object, x: Annotated[str, MemoryId, UserName]) -> bool: ...

    with pytest.raises(RoleError) as caught:
        parameters(ask)
    assert caught.value.args == ("the parameter x has two roles: MemoryId and UserName; keep one of them",)


def test_a_role_that_two_parameters_have_is_a_problem() -> None:
    def ask(self: object, a: Annotated[str, MemoryId], b: Annotated[int, MemoryId]) -> bool: ...

    with pytest.raises(RoleError) as caught:
        parameters(ask)
    assert caught.value.args == ("the parameters a and b have the same role, MemoryId",)


def test_all_problems_of_the_roles_are_reported_together() -> None:
    def ask(
        self: object,
        x: Annotated[ChatOptions, MemoryId],
        a: Annotated[str, UserName],
        b: Annotated[str, UserName],
    ) -> bool: ...

    with pytest.raises(RoleError) as caught:
        parameters(ask)
    assert caught.value.args == (
        "the parameter x has two roles: MemoryId and ChatOptions; keep one of them",
        "the parameters a and b have the same role, UserName",
    )


def test_several_values_may_be_for_tools() -> None:
    def ask(self: object, a: Annotated[str, ToolContext], b: Annotated[int, ToolContext]) -> bool: ...

    assert roles(ask) == [Role.TOOL_CONTEXT, Role.TOOL_CONTEXT]


def test_a_secret_is_not_a_parameter_of_a_prompt_because_its_text_is_asterisks() -> None:
    def ask(
        self: object, key: SecretStr, keys: list[SecretBytes], tools: Annotated[Secret[int], ToolContext]
    ) -> bool: ...

    with pytest.raises(RoleError) as caught:
        parameters(ask)
    assert caught.value.args == (
        "the parameter key is SecretStr, which is sent as asterisks; annotate it as str",
        "the parameter keys is SecretBytes, which is sent as asterisks; annotate it as str",
    )
