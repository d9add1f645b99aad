"""What goes wrong when text is read as a type, and when a type has no parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# What code of the user's raises, beside ValueError, when it is given values that it does not expect.
USER_CODE_ERRORS = (TypeError, AssertionError, AttributeError, LookupError, ArithmeticError)
_SHOWN = 20  # problems in a message; more of them tell a model nothing more


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a text is unfit: the JSON path (``$`` is the root), what is wrong, what was found."""

    path: str
    message: str
    found: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f", found {self.found}" if self.found else "")


class OutputParsingError(ValueError):
    """A text cannot be read as the type that was asked for.

    ``text`` is the whole text as it came; ``problems`` says, path by path, why it is unfit, in words
    short enough to be sent back to a model.
    """

    def __init__(self, text: str, problems: Sequence[Problem], *, prefix: str = "") -> None:
        self.text = text
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            shown.append(f"and {len(self.problems) - _SHOWN} more problems")
        what = "; ".join(shown)
        super().__init__(f"{prefix}cannot read the reply: {what} (the reply: {shorten(text)!r})")

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class UnsupportedTypeError(TypeError):
    """No parser reads a type. ``path`` says what it is a part of ("" for a whole type)."""

    def __init__(self, type_name: str, path: str, tried: Sequence[str], reason: str = "") -> None:
        self.type_name = type_name
        self.path = path
        self.tried = tuple(tried)
        inside = f" (in {path})" if path else ""
        why = f": {reason}" if reason else ""
        super().__init__(
            f"no parser reads {type_name}{inside}{why}; tried: {', '.join(tried)}. "
            "Use a type that one of them reads, or add a ParserFactory for it"
        )

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(cls: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    """An error as it was before it was pickled: its constructor takes more than its message."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


def shorten(text: str, limit: int = 200) -> str:
    """Keep both ends of a long text, so that a message stays readable."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
