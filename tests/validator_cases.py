"""Types with validators: each field, validator, container, neighbour and kind of model with each other."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from ipaddress import IPv4Address
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypeVar
from uuid import UUID

import pydantic
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainValidator,
    RootModel,
    SecretStr,
    WrapValidator,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.types import Base64Bytes, Base64Str, Base64UrlBytes
from typing_extensions import TypedDict

__all__ = [
    "FIELDS",
    "RUNS",
    "Color",
    "Level",
    "Point",
    "ValidatorCase",
    "case_of",
    "combinations",
    "count",
    "pass_on",
    "wrap",
    "wrap_same",
]

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Size(StrEnum):
    SMALL = "s"


class Point(BaseModel):
    x: int


Amount = NewType("Amount", int)


RUNS: Counter[str] = Counter()


# One value of each type, as JSON.
FIELDS: dict[str, tuple[Any, str]] = {
    "int": (int, "50"),
    "float": (float, "2.5"),
    "str": (str, '"abc"'),
    "bool": (bool, "true"),
    "Decimal": (Decimal, "10.25"),
    "Decimal as text": (Decimal, '"10.25"'),
    "date": (date, '"2024-02-29"'),
    "datetime": (datetime, '"2024-02-29T10:00:00Z"'),
    "timedelta": (timedelta, '"PT1H30M"'),
    "bytes": (bytes, '"abc"'),
    "UUID": (UUID, '"f47ac10b-58cc-4372-a567-0e02b2c3d479"'),
    "Path": (Path, '"folder/a"'),
    "Enum": (Color, '"red"'),
    "Enum of int": (Level, "2"),
    "list": (list[int], "[1, 2]"),
    "set": (set[str], '["a"]'),
    "frozenset": (frozenset[str], '["a"]'),
    "tuple": (tuple[int, str], '[1, "a"]'),
    "dict": (dict[str, int], '{"a": 1}'),
    "Any": (Any, '{"a": [1, 2.5, null]}'),
    "union": (int | str, '"7"'),
    "Fraction": (Fraction, '"1/3"'),
    "IP address": (IPv4Address, '"127.0.0.1"'),
    "deque": (deque[int], "[1, 2]"),
    "SecretStr": (SecretStr, '"abc"'),
    "Base64Bytes": (Base64Bytes, '"aGVsbG8="'),
    "Base64UrlBytes": (Base64UrlBytes, '"YUdWc2JHOD0="'),
    "Base64Str": (Base64Str, '"aGVsbG8="'),
    "Json": (Json[Any], '"[1]"'),
    "Json of a list": (Json[list[int]], '"[1]"'),
    "model": (Point, '{"x": 3}'),
    "time": (time, '"10:00:00"'),
    "Literal": (Literal["a", 1], "1"),
    "StrEnum": (Size, '"s"'),
    "NewType": (Amount, "5"),
    "bounded int": (Annotated[int, Field(ge=1, le=50)], "50"),
    "bounded list": (Annotated[list[int], Field(min_length=1)], "[1]"),
    "null": (int | None, "null"),
    "dict of models": (dict[str, Point], '{"a": {"x": 1}}'),
}


def count(value: Any) -> Any:
    """Change a value in a way that a second run changes again, and count the runs."""
    RUNS["validator"] += 1
    return ("run", value)


def wrap(value: Any, handler: Callable[[Any], Any]) -> Any:
    return count(handler(value))


def pass_on(value: Any) -> Any:
    RUNS["validator"] += 1
    return value


def wrap_same(value: Any, handler: Callable[[Any], Any]) -> Any:
    return pass_on(handler(value))


def one_field_validator(mode: Any) -> dict[str, Any]:
    def validate(cls: Any, value: Any) -> Any:
        return pass_on(value) if mode == "before" else count(value)

    return {"validate": field_validator("field", mode=mode)(validate)}


def one_model_validator(mode: Any) -> dict[str, Any]:
    if mode == "after":

        def after(self: Any) -> Any:
            RUNS["validator"] += 1
            return self

        return {"validate": model_validator(mode="after")(after)}
    if mode == "wrap":

        def around(cls: Any, value: Any, handler: Callable[[Any], Any]) -> Any:
            RUNS["validator"] += 1
            return handler(value)

        return {"validate": model_validator(mode="wrap")(around)}

    def before(cls: Any, value: Any) -> Any:
        return pass_on(value)

    return {"validate": model_validator(mode="before")(before)}


# The metadata of the field, or the validators in the class.
VALIDATORS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "none": ((), {}),
    "After": ((AfterValidator(count),), {}),
    "After twice": ((AfterValidator(count), AfterValidator(count)), {}),
    "Before": ((BeforeValidator(pass_on),), {}),
    "Plain": ((PlainValidator(count),), {}),
    "Wrap": ((WrapValidator(wrap),), {}),
    "After, same": ((AfterValidator(pass_on),), {}),
    "Wrap, same": ((WrapValidator(wrap_same),), {}),
    "Before and After": ((BeforeValidator(pass_on), AfterValidator(count)), {}),
    "Wrap and Before": ((WrapValidator(wrap), BeforeValidator(pass_on)), {}),
    "field after": ((), one_field_validator("after")),
    "field before": ((), one_field_validator("before")),
    "field plain": ((), one_field_validator("plain")),
    "model before": ((), one_model_validator("before")),
    "model after": ((), one_model_validator("after")),
    "model wrap": ((), one_model_validator("wrap")),
}
CONTAINERS: dict[str, Callable[[Any, str], tuple[Any, str]]] = {
    "direct": lambda tp, text: (tp, text),
    "Optional": lambda tp, text: (tp | None, text),
    "list": lambda tp, text: (list[tp], f"[{text}, {text}]"),
    "dict": lambda tp, text: (dict[str, tp], f'{{"k": {text}}}'),
    "tuple": lambda tp, text: (tuple[tp, int], f"[{text}, 7]"),
    "union": lambda tp, text: (tp | Point, text),
    "tuple of any length": lambda tp, text: (tuple[tp, ...], f"[{text}]"),
    "list of dicts": lambda tp, text: (list[dict[str, tp]], f'[{{"k": {text}}}]'),
    "null list": lambda tp, text: (list[tp] | None, f"[{text}]"),
}
NEIGHBOURS: dict[str, tuple[Any, str]] = {
    "none": (None, ""),
    "Decimal": (Decimal, "1.25"),
    "Any": (Any, '{"a": 1.5}'),
    "union": (int | list[str], '["a"]'),
    "extra": (None, '"more"'),
}


def as_model(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    config = ConfigDict(extra="allow") if extra else ConfigDict()
    base = type("Base", (BaseModel,), {"model_config": config, "__module__": __name__})
    return create_model(
        "Record", __base__=base, __validators__=methods, **{n: (t, ...) for n, t in fields.items()}
    )


def as_pydantic_dataclass(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    config = ConfigDict(extra="allow") if extra else ConfigDict()
    namespace = {**methods, "__annotations__": dict(fields), "__module__": __name__}
    return pydantic.dataclasses.dataclass(config=config)(type("Record", (), namespace))


def as_dataclass(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    return dataclasses.make_dataclass("Record", list(fields.items()))


def as_typed_dict(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    return TypedDict("Record", fields)  # type: ignore[operator]  # its fields are known only at runtime


def as_root_model(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    return RootModel[fields["field"]]


def as_frozen_model(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    return _derived(as_model(fields, methods, extra=extra), frozen=True)


def as_model_with_aliases(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    named = {name: Annotated[tp, Field(alias=name)] for name, tp in fields.items()}
    return _derived(as_model(named, methods, extra=extra), validate_by_name=True)


def _derived(base: Any, **config: Any) -> Any:
    return type("Record", (base,), {"model_config": config, "__module__": __name__})


def as_named_tuple(fields: dict[str, Any], methods: dict[str, Any], *, extra: bool) -> Any:
    return NamedTuple("Record", list(fields.items()))  # type: ignore[misc]  # its fields are known only at runtime


MODELS = {
    "model": as_model,
    "frozen model": as_frozen_model,
    "model with aliases": as_model_with_aliases,
    "NamedTuple": as_named_tuple,
    "pydantic dataclass": as_pydantic_dataclass,
    "dataclass": as_dataclass,
    "TypedDict": as_typed_dict,
    "RootModel": as_root_model,
}


class ValidatorCase(NamedTuple):
    name: str
    type: Any
    text: str


# Validators that leave the value as it is, so that it can be written and shown.
KEEPING = (
    "none",
    "Before",
    "After, same",
    "Wrap, same",
    "field before",
    "model before",
    "model after",
    "model wrap",
)
Combination = tuple[str, str, str, str, str]
_CLASSES = ("model", "pydantic dataclass", "frozen model", "model with aliases")


def combinations() -> Iterator[Combination]:
    """Yield the combinations of field, validator, container, neighbour and kind of model that exist."""
    for one in product(FIELDS, VALIDATORS, CONTAINERS, NEIGHBOURS, MODELS):
        _, validator, _, neighbour, model = one
        if model not in _CLASSES and (VALIDATORS[validator][1] or neighbour == "extra"):
            continue  # only the classes of pydantic have validators and settings
        if model != "RootModel" or neighbour == "none":
            yield one


def case_of(combination: Combination) -> ValidatorCase:
    field, validator, container, neighbour, model = combination
    metadata, methods = VALIDATORS[validator]
    tp, text = FIELDS[field]
    tp, text = CONTAINERS[container](Annotated[(tp, *metadata)] if metadata else tp, text)
    fields, texts = {"field": tp}, [f'"field": {text}']
    other, other_text = NEIGHBOURS[neighbour]
    if other is not None:
        fields["other"] = other
    if other_text:
        texts.append(f'"other": {other_text}')
    record = MODELS[model](fields, methods, extra=neighbour == "extra")
    return ValidatorCase(
        ", ".join(combination), record, text if model == "RootModel" else f"{{{', '.join(texts)}}}"
    )
