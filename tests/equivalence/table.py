"""The cases: a type, the reply of a model, and what must come of it at every entry point.

A new type or reply is one line: a ``Case`` of ``return_types.py`` or ``corner_types.py`` if the reply is the
exact JSON of a value, else a line of ``REPLIES`` here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
from equivalence import corner_types, return_types
from equivalence.return_types import (
    Cat,
    Colour,
    Dog,
    Draft,
    Everything,
    Film,
    Level,
    Limited,
    Mood,
    Movie,
    Open,
    Order,
    Person,
    Point,
    Priority,
    Right,
    Settings,
    Tree,
)
from pydantic import AfterValidator, Base64Bytes, BaseModel, Field, RootModel, field_validator

from aiservices import (
    ChatModel,
    ContentFilterError,
    FinishReason,
    OutputParsingError,
    RefusalError,
    TruncatedError,
    ValidatorError,
)

__all__ = ["AS_PARSED", "CASES", "VALIDATORS", "Case"]

AS_PARSED = object()  # the expected value of a case that must give what ``parse`` gives


@dataclass(frozen=True)
class Case:
    """A reply of a model, and what comes of it.

    Attributes:
        name: The name, which no other case has.
        form: The type.
        reply: The text that the model writes.
        expected: The value, the class of the error, or AS_PARSED.
        exact: True if the reply is the exact JSON of the value.
        finish: Why the model stopped.
        refusal: The text with which the model refuses.
        settings: The settings of ``create``.
        model: Creates the models; by default a model that writes the reply.
        plain: The JSON data of an exact reply.
        requests: How many requests the call needs.
        schemaless: True if no strict schema describes the type.
    """

    name: str
    form: Any
    reply: str
    expected: Any = AS_PARSED
    exact: bool = False
    finish: FinishReason = FinishReason.STOP
    refusal: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Callable[[], ChatModel] | None = None
    plain: Any = None
    requests: int = 1
    schemaless: bool = False

    @property
    def fails(self) -> bool:
        return isinstance(self.expected, type) and issubclass(self.expected, Exception)

    @property
    def complete(self) -> bool:
        """Whether the reply is a complete text, and nothing else about it matters."""
        return self.finish is FinishReason.STOP and self.refusal is None and self.model is None


def _exact(cases: list[return_types.Case]) -> Iterator[Case]:
    for case in cases:
        text = json.dumps(case.plain, ensure_ascii=False)
        yield Case(
            case.name, case.form, text, case.value, exact=True, plain=case.plain, schemaless=case.schemaless
        )


def _lists() -> Iterator[Case]:
    for case in return_types.ITEMS:
        text = json.dumps(case.plain, ensure_ascii=False)
        yield Case(case.name, list[case.form], text, case.value, exact=True, plain=case.plain)


def _texts() -> Iterator[Case]:
    for case in return_types.TEXTS:
        yield Case(case.name, case.form, case.plain, case.value)


class Discounted(BaseModel):
    total: Decimal
    discount: Annotated[float, AfterValidator(lambda percent: percent / 100)]


class Doubled(RootModel[Annotated[int, AfterValidator(lambda number: number * 2)]]):
    pass


class Decoded(BaseModel):
    data: Base64Bytes


class Rated(BaseModel):
    title: str
    stars: int = 1


class MistakenModel(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        return name.shout()  # type: ignore[attr-defined,no-any-return]


@dataclass
class MistakenRecord:
    name: str

    def __post_init__(self) -> None:
        {}[self.name]


@attrs.define
class MistakenAttrs:
    name: str = attrs.field(validator=lambda _, __, name: name + 1)


# A mistake in the program, which another reply would not correct.
MISTAKES = [
    Case(f"mistake in {form.__name__}", form, '{"name": "Ann"}', ValidatorError)
    for form in (MistakenModel, MistakenRecord, MistakenAttrs)
]


def _validators() -> Iterator[Case]:
    """Yield cases whose value is that of pydantic."""
    for form, plain in (
        (Discounted, {"total": 10.25, "discount": 50}),
        (Doubled, 2),
        (Decoded, {"data": "YUdWc2JHOD0="}),
    ):
        text = json.dumps(plain)
        value = form.model_validate_json(text)
        yield Case(f"validator: {form.__name__}", form, text, value, exact=True, plain=plain)


RECORD = '{"name": "Ann", "age": 42}'
ANN = Person("Ann", 42)
ADULT = Annotated[int, Field(ge=18)]

# type: {reply: value, or class of the error, or AS_PARSED}
REPLIES: list[tuple[Any, dict[str, Any]]] = [
    (
        Person,
        {
            f"```json\n{RECORD}\n```": ANN,
            f"Sure, here it is:\n\n{RECORD}\n\nAnything else?": ANN,
            f"<think>Is it {{}}?</think>{RECORD}": ANN,
            f"<think>{RECORD}</think>": OutputParsingError,
            '{"name": "Ann", "age": "42"}': ANN,
            '{"name": "Ann", "age": 42.0}': ANN,
            "{'name': 'Ann', 'age': 42,}": ANN,
            '{name: "Ann", age: 42} // as asked': ANN,
            '{"Name": "Ann", "AGE": 42}': ANN,
            '{"person": {"name": "Ann", "age": 42}}': AS_PARSED,
            '[{"name": "Ann", "age": 42}]': AS_PARSED,
            '"{\\"name\\": \\"Ann\\", \\"age\\": 42}"': AS_PARSED,
            '{"name": "Ann", "age": 42, "more": [1]}': ANN,
            '{"name": "Ann", "age": 42': OutputParsingError,
            '{"name": "Ann"}': OutputParsingError,
            '{"name": "Ann", "age": null}': OutputParsingError,
            '{"name": "Ann", "age": "old"}': OutputParsingError,
            '{"name": "Ann", "age": 1.5}': OutputParsingError,
            '{"name": "Ann", "age": true}': AS_PARSED,
            f'{RECORD} or {{"name": "Bob", "age": 7}}': OutputParsingError,
            f"{RECORD}\n{RECORD}": ANN,
            "null": OutputParsingError,
            "[]": OutputParsingError,
            "": OutputParsingError,
            "   \n": OutputParsingError,
            "I cannot say.": OutputParsingError,
            'I cannot say. The format would be {"name": "A", "age": 1}.': OutputParsingError,
            "42": OutputParsingError,
            f'<tool_call>{{"name": "Person", "arguments": {RECORD}}}</tool_call>': ANN,
            "<function=Person><parameter=name>Ann</parameter><parameter=age>42</parameter></function>": ANN,
            'Person(name="Ann", age=42)': ANN,
            'Animal(name="Ann", age=42)': OutputParsingError,
            '{"name": "ERROR", "age": -1, "error": "not found"}': OutputParsingError,
            '{"name": "<name>", "age": 42}': OutputParsingError,
            f"{RECORD} This is the expected format.": OutputParsingError,
        },
    ),
    (
        list[Person],
        {
            f"[TOOL_CALLS]Person[ARGS]{RECORD}": [ANN],
            '[Person(name="Ann", age=42), Person(name="Ann", age=42)]': [ANN, ANN],
            f"```json\n{RECORD}\n```\n```json\n{RECORD}\n```": [ANN, ANN],
        },
    ),
    (list[float], {'["5 km", "300 m"]': OutputParsingError, '["5 km", "3 km"]': [5.0, 3.0]}),
    (list[str], {'["iron", "..."]': OutputParsingError, '["iron", "etc."]': OutputParsingError}),
    (
        int,
        {
            "The answer is 42.": 42,
            '"42"': 42,
            "true": OutputParsingError,
            "42.0": 42,
            "42.5": OutputParsingError,
            "1,234": AS_PARSED,
            "41 or 42": OutputParsingError,
            "null": OutputParsingError,
            "": OutputParsingError,
            "```\n42\n```": 42,
            '{"value": 42}': AS_PARSED,
            '{"answer": 42}': AS_PARSED,
            "[42]": AS_PARSED,
            "forty-two": AS_PARSED,
        },
    ),
    (float, {"about 1.5": AS_PARSED, '"1.5"': 1.5, "NaN": AS_PARSED, "1e400": AS_PARSED, "1": 1.0}),
    (Decimal, {"12.50": Decimal("12.50"), '"12.50"': Decimal("12.50"), "EUR 12.50": AS_PARSED}),
    (
        bool,
        {
            "Yes.": True,
            "No.": False,
            '"true"': True,
            "1": AS_PARSED,
            "yes and no": OutputParsingError,
            "not true": AS_PARSED,
            "": OutputParsingError,
        },
    ),
    (date, {"July 4, 1968": date(1968, 7, 4), "1968-07-04T00:00:00": AS_PARSED, "03/04/2024": AS_PARSED}),
    (datetime, {"1968-07-04 23:45": datetime(1968, 7, 4, 23, 45), "tomorrow": OutputParsingError}),
    (time, {"23:45": time(23, 45), "11:45 pm": AS_PARSED}),
    (timedelta, {"PT90M": timedelta(minutes=90), "90 minutes": AS_PARSED}),
    (UUID, {"It is 12345678-1234-5678-1234-567812345678.": AS_PARSED, "1234": OutputParsingError}),
    (
        Colour,
        {
            "RED": Colour.RED,
            "The colour is dark blue.": Colour.DARK_BLUE,
            "red or dark blue": OutputParsingError,
            '{"colour": "red"}': AS_PARSED,
            "green": OutputParsingError,
            "**red**": Colour.RED,
            '["red"]': AS_PARSED,
        },
    ),
    (Level, {"HIGH": Level.HIGH, "2": AS_PARSED, '"high"': Level.HIGH}),
    (Priority, {"1": AS_PARSED, "LOW": Priority.LOW}),
    (Mood, {"I am glad.": AS_PARSED, "glad or sad": OutputParsingError}),
    (Right, {"READ, WRITE": AS_PARSED, '["read"]': AS_PARSED}),
    (Literal["true", "false"], {"true": "true", "1": OutputParsingError}),
    (Open, {'{"name": "a", "additional_properties": [{"key": "note", "value": "b"}]}': AS_PARSED}),
    (Literal["yes", "no"], {"Yes!": "yes", "yes or no": OutputParsingError, '"no"': "no"}),
    (
        list[int],
        {
            "[1, 2, 3": OutputParsingError,
            "Here: [1, 2, 3]": [1, 2, 3],
            "1, 2, 3": AS_PARSED,
            "- 1\n- 2": AS_PARSED,
            '["1", 2]': [1, 2],
            "[1, null]": OutputParsingError,
            "[1, 2] or [3]": OutputParsingError,
            '{"value": [1, 2]}': AS_PARSED,
            '{"items": [1, 2]}': AS_PARSED,
            '{"values": [1, 2]}': AS_PARSED,
            "```json\n[1]\n```\n```json\n[2]\n```": OutputParsingError,
            "[1, true]": OutputParsingError,
            "7": AS_PARSED,
            "": OutputParsingError,
        },
    ),
    (
        list[Person],
        {
            f"[{RECORD}]": [ANN],
            f"[{RECORD}, {RECORD}]": [ANN, ANN],
            f"{RECORD}\n{RECORD}": AS_PARSED,
            RECORD: AS_PARSED,
            f'[{RECORD}, {{"name": "Bob"}}]': OutputParsingError,
            f"[{RECORD}, {{": OutputParsingError,
            f'{{"people": [{RECORD}]}}': AS_PARSED,
        },
    ),
    (set[int], {"[1, 1]": AS_PARSED, "{1, 2}": AS_PARSED}),
    (tuple[int, str], {'[1, "a"]': (1, "a"), "[1]": OutputParsingError, '[1, "a", 2]': OutputParsingError}),
    (
        dict[str, int],
        {
            '{"a": "1"}': {"a": 1},
            '{"a": 1, "a": 2}': AS_PARSED,
            "a: 1": AS_PARSED,
            '{"value": 82_461_110}': AS_PARSED,
        },
    ),
    (int | None, {"null": None, "None": AS_PARSED, "": AS_PARSED, "7": 7, '"7"': 7, "N/A": AS_PARSED}),
    (int | str, {"7": 7, '"7"': "7", "seven": "seven"}),
    (Person | None, {"null": None, RECORD: ANN, '{"name": "Ann"}': OutputParsingError}),
    (
        Cat | Dog,
        {
            '{"kind": "dog", "name": "Rex"}': Dog("dog", "Rex"),
            '{"name": "Rex"}': OutputParsingError,
            '{"kind": "cow", "name": "Rex"}': OutputParsingError,
            '{"kind": "DOG", "name": "Rex"}': AS_PARSED,
        },
    ),
    (
        Film,
        {
            '{"title": "Hero", "released": "2002-10-24"}': Film(title="Hero", released=date(2002, 10, 24)),
            '{"title": "Hero", "released": "October 24, 2002"}': Film(
                title="Hero", released=date(2002, 10, 24)
            ),
            '{"title": 7, "released": "2002-10-24"}': AS_PARSED,
            '{"title": "Hero", "released": "soon"}': OutputParsingError,
        },
    ),
    (
        Limited,
        {
            '{"code": "abc", "share": 0.5, "count": 5, "parts": [1]}': OutputParsingError,
            '{"code": "ABC", "share": 1.5, "count": 5, "parts": [1]}': OutputParsingError,
            '{"code": "ABC", "share": "0.5", "count": "5", "parts": ["1"]}': AS_PARSED,
            '{"code": "ABC", "share": 0.5, "count": 5, "parts": []}': OutputParsingError,
        },
    ),
    (
        Order,
        {
            '{"id": "12345678-1234-5678-1234-567812345678", "amount": "1.250"}': AS_PARSED,
            '{"id": "12345678-1234-5678-1234-567812345678", "amount": 1.250}': AS_PARSED,
            '{"id": "12345678-1234-5678-1234-567812345678", "amount": 1e2, "due": null}': AS_PARSED,
        },
    ),
    (ADULT, {"18": 18, "17": OutputParsingError, '"18"': 18}),
    (Annotated[list[int], Field(max_length=1)], {"[1, 2]": OutputParsingError, "[1]": [1]}),
    (Movie, {'{"title": "Hero"}': OutputParsingError, '{"title": "Hero", "year": "2002"}': AS_PARSED}),
    (Point, {'{"x": 1}': Point(1), "[1, 2.5]": AS_PARSED, '{"x": "1"}': AS_PARSED}),
    (Settings, {'{"name": "a", "tags": null}': AS_PARSED, '{"name": "a", "note": "null"}': AS_PARSED}),
    (
        Tree,
        {
            '{"label": "a", "children": [{"label": 1}]}': AS_PARSED,
            '{"label": "a", "children": {}}': AS_PARSED,
        },
    ),
    (Everything, {"{}": OutputParsingError}),
    (str, {"Hello": "Hello", "<think>Hm.</think>Hello": AS_PARSED, '"Hello"': AS_PARSED}),
    (Annotated[str, Field(max_length=3)], {"Hello": OutputParsingError, "Hey": "Hey"}),
]


def _replies() -> Iterator[Case]:
    for form, replies in REPLIES:
        name = form.__name__ if isinstance(form, type) and not hasattr(form, "__args__") else str(form)
        for text, expected in replies.items():
            yield Case(f"{name} from {text!r}", form, text, expected)


def _defaults() -> Iterator[Case]:
    """Yield cases of records whose schema is not strict, and of lists of them, in the forms of models."""
    for form, data in (
        (Settings, {"name": "a", "size": 5}),
        (Draft, {"title": "a", "year": 5}),
        (Rated, {"title": "a", "stars": 5}),
    ):
        name, record = form.__name__, json.dumps(data)
        python = f"{name}({', '.join(f'{key}={value!r}' for key, value in data.items())})"
        call = f'<tool_call>{{"name": "{name}", "arguments": {record}}}</tool_call>'
        lines = "\n".join(f"{key}: {value}" for key, value in data.items())
        rows = [", ".join(data), *[", ".join(map(str, data.values()))] * 2]
        table = "\n".join(f"| {row.replace(',', ' |')} |" for row in [rows[0], "---, ---", *rows[1:]])
        one = [
            f"[{record}]",
            f'{{"{name}": {record}}}',
            python,
            call,
            f"[TOOL_CALLS]{name}[ARGS]{record}",
            lines,
        ]
        more = [record, python, call * 2, "\n".join(rows), table, f"- {lines}".replace("\n", "\n  ")]
        more += [f'{{"{key}": [{record}]}}' for key in ("items", "results", name)]
        for kind, replies in ((form, one), (list[form], more)):
            for reply in replies:
                yield Case(f"{kind} with a default from {reply!r}", kind, reply)


# How a reply may end without a complete text.
ENDINGS = [
    Case("cut off", Person, '{"name": "Ann", "ag', TruncatedError, finish=FinishReason.LENGTH),
    Case("cut off, but complete", Person, RECORD, TruncatedError, finish=FinishReason.LENGTH),
    Case("cut off number", int, "12", TruncatedError, finish=FinishReason.LENGTH),
    Case("ended for an unknown reason", Person, RECORD, TruncatedError, finish=FinishReason.OTHER),
    Case("refused", Person, "", RefusalError, refusal="I cannot help with that."),
    Case("filtered", Person, "", ContentFilterError, finish=FinishReason.CONTENT_FILTER),
    Case("filtered list", list[int], "[1", ContentFilterError, finish=FinishReason.CONTENT_FILTER),
]

EXACT = [*_exact(return_types.CASES), *_exact(corner_types.CORNERS), *_lists()]
VALIDATORS = [*_validators()]
CASES = [*VALIDATORS, *MISTAKES, *EXACT, *_texts(), *_replies(), *_defaults(), *ENDINGS]
