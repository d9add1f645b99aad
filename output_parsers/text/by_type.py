"""LangChain's parsers of JSON, of pydantic models and of enums, each by the parser of its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar, overload

from typing_extensions import TypeForm

from ..parser import TypeParser
from ..parsing import parser_for
from ..reading import Leniency, Reading

__all__ = ["EnumOutputParser", "JsonOutputParser", "PydanticOutputParser"]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class _ByType(Generic[T]):
    """An OutputParser that reads with the parser of one type, with all its leniency and its ledger."""

    _parser: TypeParser[T] = field(init=False, repr=False, compare=False)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of what a model is to write; None when plain text is wanted."""
        return self._parser.schema

    def format_instructions(self) -> str:
        """What a prompt must say so that a model writes this type; "" when anything goes."""
        return self._parser.format_instructions()

    def parse(self, text: str, leniency: Leniency = Leniency.SAFE) -> T:
        """The value. Raises OutputParsingError, and nothing else, when the text is unfit."""
        return self._parser.parse(text, leniency)

    def read(self, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
        """The value with the steps away from the exact text that reading it took."""
        return self._parser.read(text, leniency)

    def _read_by(self, form: Any) -> None:
        object.__setattr__(self, "_parser", parser_for(form))


@dataclass(frozen=True, init=False)
class JsonOutputParser(_ByType[T]):
    """The JSON in a reply, as LangChain's; given a type, a value of that type.

    >>> JsonOutputParser().parse('Here you are: {"a": [1, 2]}')
    {'a': [1, 2]}
    >>> JsonOutputParser(dict[str, list[int]]).parse('{"a": ["1", 2]}')
    {'a': [1, 2]}

    Raises UnsupportedTypeError when nothing reads the type.
    """

    form: TypeForm[T] | None

    @overload
    def __init__(self: JsonOutputParser[Any], form: None = None) -> None: ...
    @overload
    def __init__(self, form: TypeForm[T]) -> None: ...
    def __init__(self, form: TypeForm[T] | None = None) -> None:
        object.__setattr__(self, "form", form)
        self._read_by(Any if form is None else form)


@dataclass(frozen=True, init=False)
class PydanticOutputParser(_ByType[T]):
    """A pydantic model, as LangChain's, or a value of any other type that has a parser.

    >>> class Person(BaseModel):
    ...     name: str
    >>> PydanticOutputParser(Person).parse('{"name": "Ann"}')
    Person(name='Ann')

    Raises UnsupportedTypeError when nothing reads the type.
    """

    pydantic_object: TypeForm[T]

    def __init__(self, pydantic_object: TypeForm[T]) -> None:
        object.__setattr__(self, "pydantic_object", pydantic_object)
        self._read_by(pydantic_object)


@dataclass(frozen=True)
class EnumOutputParser(_ByType[E]):
    """A member of an enum by its value, as LangChain's, or by its name, in any case.

    >>> class Color(Enum):
    ...     RED = "red"
    >>> EnumOutputParser(Color).parse(" Red. ")
    <Color.RED: 'red'>

    Values need not be text. A text that names two members, or denies one, is refused.
    """

    enum: type[E]

    def __post_init__(self) -> None:
        self._read_by(self.enum)
