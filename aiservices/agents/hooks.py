"""Hooks of an agent: functions that see each of its steps, before and after, and may change them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Literal, TypeAlias

from ..events import ToolStarted
from ..flow import All, Ask, Do, Emit, Flow, Need
from ..messages import ChatReply
from ..pipeline import Answer, Proceed
from ..plan import Turn
from ..requests import ChatRequest
from ..through import through
from ..tool_parameters import inside_of, is_async, name_of
from ..tool_run import ToolRun

__all__ = ["Hook", "HookHandle", "Hooks", "Step"]

Step: TypeAlias = Literal["pre_reasoning", "post_reasoning", "pre_acting", "post_acting"]
Hook: TypeAlias = Callable[[Any], Any]
# What a hook may put in the place of what it was given.
_GIVES: dict[Step, type | None] = {
    "pre_reasoning": ChatRequest,
    "post_reasoning": ChatReply,
    "pre_acting": None,
    "post_acting": ToolRun,
}


class HookHandle:
    """A hook that was put in; ``remove`` takes it out."""

    def __init__(self, hooks: list[Hook], hook: Hook) -> None:
        self._hooks = hooks
        self._hook = hook

    def remove(self) -> None:
        """Take the hook out; to do so again does nothing."""
        self._hooks[:] = [hook for hook in self._hooks if hook is not self._hook]


class Hooks:
    """An interceptor that calls the hooks of an agent."""

    def __init__(self) -> None:
        self._of: dict[str, list[Hook]] = {step: [] for step in _GIVES}

    def add(self, step: str, hook: Hook) -> HookHandle:
        """Put a hook in. Raises ValueError for a step that there is not."""
        if step not in self._of:
            raise ValueError(f"there is no step {step!r}; there are: {', '.join(self._of)}")
        own = partial(hook)  # so that one that was put in twice is taken out once
        self._of[step].append(own)
        return HookHandle(self._of[step], own)

    @property
    def asynchronous(self) -> list[str]:
        """The names of those that have to be awaited."""
        hooks = (hook for hooks in self._of.values() for hook in hooks)
        return [name_of(inside_of(hook)) for hook in hooks if is_async(hook)]

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        return through(proceed(turn), self._fulfilled)

    def _fulfilled(self, need: Need) -> Flow[Any]:
        """The outcome of a need, with the hooks around those that are a step."""
        if isinstance(need, Ask):
            request = yield from self._passed("pre_reasoning", need.request)
            reply = yield need._replace(request=request)
            return (yield from self._passed("post_reasoning", reply))
        if isinstance(need, Emit) and isinstance(need.event, ToolStarted):
            yield from self._passed("pre_acting", need.event.call)
        outcome = yield need
        if isinstance(need, All):
            changed = []
            for one in outcome:
                is_run = isinstance(one, ToolRun)
                changed.append((yield from self._passed("post_acting", one)) if is_run else one)
            return changed
        return outcome

    def _passed(self, step: Step, value: Any) -> Flow[Any]:
        """A value as the hooks of a step leave it."""
        for hook in tuple(self._of[step]):
            changed = yield Do(_named(hook, value))
            if changed is not None:
                _check(step, hook, changed)
                value = changed
        return value


def _named(hook: Hook, value: Any) -> Callable[[], Any]:
    """The call of a hook, which what goes wrong names by it."""
    return wraps(inside_of(hook))(lambda: hook(value))


def _check(step: Step, hook: Hook, changed: Any) -> None:
    kind = _GIVES[step]
    if kind is None or not isinstance(changed, kind):
        wanted = "None" if kind is None else f"{kind.__name__} or None"
        said = f"the {step} hook {name_of(inside_of(hook))} returned {type(changed).__name__}"
        raise TypeError(f"{said}; it may return {wanted}")
