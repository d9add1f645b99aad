"""Check immediate tools (tools whose result is the answer) when the service is created."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Coroutine, Iterator
from types import NoneType
from typing import Any, Literal, Union, is_typeddict

from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.types.target import Target, type_name

from ..engine.results import Result
from ..engine.streams import AsyncStream, Stream
from ..models.errors import DefinitionProblem
from ..tools.tool import ReturnBehavior, Tool
from ..tools.toolbox import Toolbox


def immediate_tool_problems(toolbox: Toolbox, answer_type: Any, qualname: str) -> Iterator[DefinitionProblem]:
    """Yield a problem for each tool whose result should be the answer but never fits the return type.

    Tools without a return annotation are checked only when they have run.
    """
    for tool in toolbox.tools.values():
        if tool.return_behavior is ReturnBehavior.TO_LLM or tool.return_type is inspect.Signature.empty:
            continue
        result_type = _result_type(tool)
        if not _may_be(result_type, answer_type):
            yield DefinitionProblem(
                qualname,
                f"the tool {tool.name} gives the answer, but its result is of type {type_name(result_type)} "
                f"and the method returns {type_name(answer_type)}; make them equal, or choose the tools of "
                "the method with @options(tools=…)",
            )


def _result_type(tool: Tool) -> Any:
    """Return the type of a tool's final result, such as ``list[int]`` for a tool that yields ints."""
    try:
        target = Target.of(tool.return_type)
    except UnsupportedTypeError:
        return Any
    first: Any = target.args[0] if target.args else Any
    if target.origin in (Result, Stream, AsyncStream, Awaitable):
        return first
    if target.origin is Coroutine:
        return target.args[-1] if target.args else Any
    if isinstance(target.origin, type) and issubclass(target.origin, (Iterator, AsyncIterable)):
        return str if tool.yields_text else list[first]
    return tool.return_type


def _may_be(result_type: Any, answer_type: Any) -> bool:
    """Return False only if a value of the first type can never be a value of the second type."""
    try:
        result, answer = Target.of(result_type), Target.of(answer_type)
    except UnsupportedTypeError:
        return True
    if result.origin is Union:
        return any(_may_be(member, answer_type) for member in result.args)
    if answer.origin is Union:
        return any(_may_be(result_type, member) for member in answer.args)
    result_class, answer_class = _class_of(result), _class_of(answer)
    if result_class is None or answer_class is None:
        return True
    try:
        if not (issubclass(result_class, answer_class) or issubclass(answer_class, result_class)):
            return False
    except TypeError:  # some protocols do not support it
        return True
    if result_class is not answer_class or len(result.args) != len(answer.args):
        return True
    pairs = zip(result.args, answer.args, strict=True)
    return all(first is second or _may_be(first, second) for first, second in pairs)


def _class_of(target: Target) -> type | None:
    """Return the class of a type, such as ``list`` for ``list[int]``; None for types such as Any."""
    if target.type is None:
        return NoneType
    if is_typeddict(target.origin):
        return dict
    if target.origin in (Any, Literal, object):  # in Python 3.11 Any is a class
        return None
    return target.origin if isinstance(target.origin, type) else None
