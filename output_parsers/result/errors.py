"""The exceptions that the parsers raise, and the problems that these exceptions list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# The exceptions, in addition to ValueError, that users' constructors and validators raise for unexpected
# values. The readers treat all of them as "this value does not fit".
USER_CODE_ERRORS = (TypeError, AssertionError, AttributeError, LookupError, ArithmeticError)
_MAX_LISTED_PROBLEMS = 20  # in an error message; a longer list does not help a model correct its reply


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why text cannot be parsed as a type.

    Attributes:
        path: The JSON path of the wrong value; ``$`` is the root.
        message: What is wrong, such as ``expected an integer``.
        found: A short description of the wrong value; empty if the message is enough.
    """

    path: str
    message: str
    found: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f", found {self.found}" if self.found else "")


class OutputParsingError(ValueError):
    """Raised if text cannot be parsed as the requested type.

    Attributes:
        text: The complete text that was read.
        problems: Every reason why the text does not fit, each with its JSON path. The messages are short
            enough to send back to a model.
    """

    _noun: ClassVar[str] = "text"

    def __init__(self, text: str, problems: Sequence[Problem], *, prefix: str = "") -> None:
        self.text = text
        self.problems = tuple(problems)
        messages = [str(problem) for problem in self.problems[:_MAX_LISTED_PROBLEMS]]
        if len(self.problems) > _MAX_LISTED_PROBLEMS:
            messages.append(f"and {len(self.problems) - _MAX_LISTED_PROBLEMS} more problems")
        reasons = "; ".join(messages)
        super().__init__(
            f"{prefix}cannot read the {self._noun}: {reasons} (the {self._noun}: {shorten(text)!r})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


class ValidatorError(Exception):
    """Raised if a validator of the user fails with a programming error, such as an AttributeError.

    The JSON had the type that the validator is declared for, so another reply would not help. ``__cause__``
    is the original error.

    Attributes:
        type_name: The type whose validator failed.
    """

    def __init__(self, type_name: str, error: BaseException) -> None:
        self.type_name = type_name
        super().__init__(
            f"a validator of {type_name} failed with {type(error).__name__}: {error}. "
            "Correct it, or raise ValueError for a value that it refuses"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


class UnsupportedTypeError(TypeError):
    """Raised if this library has no parser for a type or for a part of it, such as one of its fields.

    Attributes:
        type_name: The type without a parser, as it is written in source code.
        path: The position of that type inside the requested type; empty for the whole type.
        tried: The names of the factories and groups of types that did not accept it.
    """

    def __init__(self, type_name: str, path: str, tried: Sequence[str], reason: str = "") -> None:
        self.type_name = type_name
        self.path = path
        self.tried = tuple(tried)
        location = f" (in {path})" if path else ""
        detail = f": {reason}" if reason else ""
        super().__init__(
            f"no parser reads {type_name}{location}{detail}; tried: {', '.join(tried)}. "
            "Use a type that one of them reads, or add a ParserFactory for it"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


# By default an exception is unpickled by calling its class with ``args``, which hold only the message.
# The constructors above need more than that.
def _restore_error(cls: type[Exception], args: tuple[object, ...], state: dict[str, object]) -> Exception:
    """Recreate a pickled exception without calling the constructor of its class."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


def shorten(text: str, limit: int = 200) -> str:
    """Shorten a string to about ``limit`` characters, keeping its beginning and its end."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
