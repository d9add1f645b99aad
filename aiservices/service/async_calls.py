"""The functions ``acall`` and ``call``: await a blocking method, and call an async one from blocking code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from ..engine.pipeline import Pipeline
from ..engine.streams import AsyncStream, Stream
from ..engine.tool_interceptors import awaited_parts
from ..engine.tracebacks import hide_library_frames
from ..models.errors import AiServiceError, DefinitionError, DefinitionProblem
from ..tools.tool import REMOTE_CALL
from ..tools.toolbox import toolbox_problems
from .compile import MethodPlan, ReturnShape
from .methods import (
    async_names,
    is_service_method,
    service_method_of,
    start_function,
)

P = ParamSpec("P")
T = TypeVar("T")


# Type checkers take the first overload that fits. The last one is for methods that return a value or a
# Result. For mypy it overlaps with the others: a value may have any type.
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, Stream[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncStream[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, AsyncStream[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncStream[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]: ...
@overload
def acall(
    method: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]: ...
@overload
def acall(method: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...
def acall(method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a blocking method of a service in async code, without a second interface::

        ticket = await acall(desk.ticket, text="My screen is dark.")
        async for snapshot in acall(desk.growing, text="My screen is dark."): ...

    The call is really async: requests do not block the event loop, and async tools that appear during the
    call can be awaited. A method that returns a Stream or an Iterator gives an AsyncStream or an
    AsyncIterator, which is not awaited. An async method is called as it is.

    Args:
        method: A method of a service that ``create`` made, or of a remote client.
        *args: The arguments of the method.
        **kwargs: More arguments, by name.

    Raises:
        TypeError: It is another function, or one with a decorator that would be skipped.
    """
    return _call(method, args, kwargs, is_async=True)


@overload
def call(method: Callable[P, AsyncStream[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
@overload
def call(method: Callable[P, Stream[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
@overload
def call(method: Callable[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]: ...
@overload
def call(method: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
def call(method: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def call(method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call an async method of a service from blocking code, and return its value::

        ticket = call(async_desk.ticket, text="My screen is dark.")

    No event loop is needed. A method that returns an AsyncStream or an AsyncIterator gives a Stream or an
    Iterator. A blocking method is called as it is.

    Args:
        method: A method of a service that ``create`` made, or of a remote client.
        *args: The arguments of the method.
        **kwargs: More arguments, by name.

    Raises:
        DefinitionError: A tool, an interceptor or a listener is async, so only async code can await it.
        TypeError: It is another function, or one with a decorator that would be skipped.
    """
    return _call(method, args, kwargs, is_async=False)


def _call(
    method: Callable[..., Any], args: tuple[object, ...], kwargs: Mapping[str, object], *, is_async: bool
) -> Any:
    remote = getattr(method, REMOTE_CALL, None)
    if remote is not None:
        return remote(args, kwargs, is_async=is_async)
    if is_service_method(getattr(method, "__wrapped__", None)):
        # functools.wraps copies the attributes of the method, so only the decorator is lost
        name = getattr(method, "__qualname__", method)
        raise TypeError(f"{name} has a decorator, which would be skipped; call it, or pass the method itself")
    service_method = service_method_of(method)
    plan = service_method.plan
    if plan.returns.is_async is is_async:
        return method(*args, **kwargs)
    try:
        if not is_async:
            _check_blocking(plan, service_method.pipeline)
        other = plan._replace(
            call=plan.call._replace(is_async=is_async), returns=plan.returns._replace(is_async=is_async)
        )
        start = start_function(other, service_method.pipeline)
        started = start(other.invocation(args, kwargs, service_method.budget))
    except AiServiceError as error:
        hide_library_frames(error)
        raise
    return _awaited(started) if is_async and plan.returns.shape in _AWAITED else started


def _check_blocking(plan: MethodPlan, pipeline: Pipeline) -> None:
    """Raise DefinitionError if the call of an async method needs something that must be awaited."""
    call_plan, qualname = plan.call, plan.call.qualname
    message = "is async, so blocking code cannot call the method; await it"
    names = async_names(pipeline.interceptors, pipeline.listeners)
    names += awaited_parts((), call_plan.tool_interceptors)
    problems = [DefinitionProblem(qualname, f"{name} {message}") for name in names]
    if call_plan.toolbox is not None:
        parameters, roles = plan.prompt.signature.parameters, call_plan.role_names
        problems += toolbox_problems(call_plan.toolbox, parameters, roles, is_async=False, qualname=qualname)
    if problems:
        raise DefinitionError(problems)


_AWAITED = (ReturnShape.VALUE, ReturnShape.RESULT)


async def _awaited(started: Coroutine[Any, Any, T]) -> T:
    try:
        return await started
    except AiServiceError as error:
        hide_library_frames(error)
        raise
