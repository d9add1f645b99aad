"""Reads the types that are one JSON scalar: text, numbers, None; and any JSON."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from .found import Found, Unreadable
from .node import Definitions, JsonSchema, Node
from .non_finite import NON_FINITE, NOT_JSON, is_non_finite, name_of, named
from .number_text import find_number, read_number
from .reading import Json, Leniency, Place, expected
from .string_forms import StringFormNode, string_form_node
from .target import Target

__all__ = ["StringFormNode", "scalar_node"]

T = TypeVar("T")
_MOST_DIGITS = 4300  # Python itself neither reads nor shows an int of more digits
_MOST_BITS = int(_MOST_DIGITS / math.log10(2))


class TextNode(Node[str]):
    """Text: the reply as it is, or a JSON string."""

    prose = True
    any_text = True

    kind = "text"
    exact = True

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string"}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return "string"

    def read(self, found: Json, at: Place) -> str:
        if isinstance(found, str):
            return found
        if isinstance(found, (int, Decimal)) and not isinstance(found, bool) and not is_non_finite(found):
            at.took("number as text", found, str(found))
            return str(found)
        raise at.misfit("expected text", found)

    def read_text(self, text: str, at: Place) -> str:
        return text


class NumberNode(Node[T]):
    """A number: a JSON number, or text that says one number."""

    prose = True

    json_type = "number"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": self.json_type}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self.json_type

    @abstractmethod
    def convert(self, number: int | Decimal, at: Place) -> T:
        """The value of an exact number. Raises Misfit when the type cannot hold it."""

    def read(self, found: Json, at: Place) -> T:
        if isinstance(found, (int, Decimal)) and not isinstance(found, bool) and not is_non_finite(found):
            if isinstance(found, Decimal):
                self.check_text(found, str(found), at)
            return self.convert(found, at)
        if isinstance(found, str):
            return self._said(found, read_number, at)
        raise at.misfit(f"expected {self.kind}", found)

    def read_text(self, text: str, at: Place) -> T:
        return self._said(text, find_number, at)

    def check_text(self, number: Decimal, text: str, at: Place) -> None:
        """Raise Misfit when the text of a number could mean another number of this type."""

    def _said(self, text: str, reader: Callable[[str], Found[Decimal]], at: Place) -> T:
        try:
            found = reader(text)
        except Unreadable as error:
            raise at.misfit(expected(self.kind, error), text) from error
        self.check_text(found.value, text, at)
        value = self.convert(found.value, at)
        at.took(found.rule or "number as text", text, value)
        return value


class IntNode(NumberNode[int]):
    kind = "an integer"
    json_type = "integer"
    exact = True

    def check_text(self, number: Decimal, text: str, at: Place) -> None:
        if number.as_tuple().exponent == -3 and number == int(number):
            raise at.misfit("expected an integer; this may be thousands or a fraction", text)

    def convert(self, number: int | Decimal, at: Place) -> int:
        if isinstance(number, int):
            if number.bit_length() > _MOST_BITS:
                raise at.misfit("expected an integer of a sensible size", number)
            return number
        if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
            raise at.misfit("expected an integer of a sensible size", number)
        whole = int(number)
        if whole != number:
            at_most = at.leniency is Leniency.ALL
            if not at_most:
                raise at.misfit("expected an integer", number)
            at.took("fraction cut off", number, whole, guess=True)
        elif number.as_tuple().exponent != 0:
            at.took("whole number written with a fraction", number, whole)
        return whole


class FloatNode(NumberNode[float]):
    """A float; ``finite`` tells whether it must be a number, as all are that JSON has."""

    kind = "a number"
    exact = True
    finite = True

    def schema(self, definitions: Definitions) -> JsonSchema:
        number = super().schema(definitions)
        return number if self.finite else {"anyOf": [number, dict(NON_FINITE)]}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return "number" if self.finite else 'number | "NaN" | "Infinity" | "-Infinity"'

    def read(self, found: Json, at: Place) -> float:
        if not self.finite and is_non_finite(found):
            return float(found)
        number = named(found) if isinstance(found, str) and not self.finite else None
        if number is None:
            return super().read(found, at)
        value = float(number)
        if found != name_of(value):
            at.took("another name of NaN or Infinity", found, value)
        return value

    def read_text(self, text: str, at: Place) -> float:
        number = None if self.finite else named(text.strip())
        if number is None:
            return super().read_text(text, at)
        at.took(NOT_JSON, text, number)
        return float(number)

    def write(self, value: Any) -> Json:
        name = name_of(value) if isinstance(value, float) and not self.finite else None
        return super().write(value) if name is None else name

    def convert(self, number: int | Decimal, at: Place) -> float:
        if is_non_finite(number):
            raise at.misfit("expected a finite number", number)
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            raise at.misfit("expected a number that a float can hold", number)
        return value


class DecimalNode(NumberNode[Decimal]):
    kind = "a decimal number"

    def convert(self, number: int | Decimal, at: Place) -> Decimal:
        return Decimal(number)


class FractionNode(NumberNode[Fraction]):
    kind = "a fraction"
    json_type = "string"
    _FORM = re.compile(r"\s*([+-]?\d{1,2000})(?:\s*/\s*(\d{1,2000}))?\s*")

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return '"numerator/denominator"'

    def read(self, found: Json, at: Place) -> Fraction:
        form = self._FORM.fullmatch(found) if isinstance(found, str) else None
        if form is None:
            return super().read(found, at)
        denominator = int(form[2] or 1)
        if denominator == 0:
            raise at.misfit("expected a fraction; its denominator is 0", found)
        return Fraction(int(form[1]), denominator)

    def read_text(self, text: str, at: Place) -> Fraction:
        return self.read(text, at) if self._FORM.fullmatch(text) else super().read_text(text, at)

    def convert(self, number: int | Decimal, at: Place) -> Fraction:
        if isinstance(number, Decimal) and abs(number.adjusted()) > _MOST_DIGITS:
            raise at.misfit("expected a fraction of a sensible size", number)
        return Fraction(number)


class NoneNode(Node[None]):
    prose = True
    kind = "null"
    exact = True

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "null"}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return "null"

    def read(self, found: Json, at: Place) -> None:
        if found is not None:
            raise at.misfit("expected null", found)

    def read_text(self, text: str, at: Place) -> None:
        if text.strip().lower() not in ("null", "none"):
            raise at.misfit("expected null", text)
        at.took("null as text", text, None)


class AnyNode(Node[Any]):
    """Whatever JSON says; numbers become int or float."""

    kind = "JSON"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return "any JSON"

    def read(self, found: Json, at: Place) -> Any:
        if isinstance(found, dict):
            return {key: self.read(value, at.at(key)) for key, value in found.items()}
        if isinstance(found, list):
            return [self.read(value, at.at(index)) for index, value in enumerate(found)]
        if isinstance(found, Decimal):
            return FloatNode().convert(found, at)
        return found

    def read_text(self, text: str, at: Place) -> Any:
        raise at.misfit("expected JSON", text)


_PLAIN: dict[Any, Callable[[], Node[Any]]] = {
    str: TextNode,
    int: IntNode,
    float: FloatNode,
    Decimal: DecimalNode,
    Fraction: FractionNode,
    None: NoneNode,
    Any: AnyNode,
    object: AnyNode,
}


def scalar_node(target: Target) -> Node[Any] | None:
    """The node of a scalar type; None for all others."""
    make = _PLAIN.get(target.form)
    return string_form_node(target) if make is None else make()
