"""Hooks of an agent: functions that see each of its steps, before and after, and may change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from ..conversation import ToolStarted
from ..flow import All, Ask, Do, Emit, Flow, Need
from ..pipeline import Answer, Proceed
from ..plan import Turn
from ..through import through
from ..tool_run import ToolRun

__all__ = ["Hook", "HookHandle", "Hooks", "Step"]

Step: TypeAlias = Literal["pre_reasoning", "post_reasoning", "pre_acting", "post_acting"]
Hook: TypeAlias = Callable[[Any], Any]


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
        self._of: dict[str, list[Hook]] = {
            "pre_reasoning": [],
            "post_reasoning": [],
            "pre_acting": [],
            "post_acting": [],
        }

    def add(self, step: str, hook: Hook) -> HookHandle:
        """Put a hook in. Raises ValueError for a step that there is not."""
        if step not in self._of:
            raise ValueError(f"there is no step {step!r}; there are: {', '.join(self._of)}")
        hook = _own(hook)
        self._of[step].append(hook)
        return HookHandle(self._of[step], hook)

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
            changed = yield Do(lambda hook=hook, given=value: hook(given))  # type: ignore[misc]
            value = value if changed is None else changed
        return value


def _own(hook: Hook) -> Hook:
    """A function of its own, so that one that was put in twice is taken out once."""
    return lambda value: hook(value)
