"""Parsers for Python types with a fixed set of values: bool, Enum, Literal and Flag."""

from __future__ import annotations

from collections.abc import Sequence, Set
from decimal import Decimal
from enum import Enum, EnumMeta, Flag
from functools import cached_property
from types import NoneType
from typing import Any, Literal, TypeVar

from ..prose.choices import Choice, ChoiceMatcher, NoMatch, normalize
from ..result.errors import UnsupportedTypeError
from ..result.reading import Cursor, Json, dump_json, is_non_finite
from .node import (
    CoreSchema,
    Definitions,
    JsonSchema,
    Node,
    Storage,
    described_hint,
    plain_json,
    with_description,
)
from .target import Target, attribute_docs, class_docstring, type_name

T = TypeVar("T")


class ChoiceNode(Node[T]):
    """Reads a value that is one of several choices, such as the members of an Enum.

    Each choice has a label, which prompts show.

    Attributes:
        choices: The values with their labels and aliases.
        name: The name of the type.
        description: The explanation of the type for the model.
    """

    prose = True

    def __init__(
        self, name: str, choices: Sequence[Choice[T]], *, exact: bool, description: str | None = None
    ) -> None:
        self.choices = ChoiceMatcher(choices)
        self.exact = exact
        labels = ", ".join(_as_hint(choice) for choice in choices[:20])  # keeps error messages short
        self.kind = f"one of {labels}" if len(choices) > 1 else labels
        self.name = name
        self.description = description

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return frozenset((str,) if self.exact else (str, int, Decimal, bool, NoneType))

    def core_schema(self) -> CoreSchema:
        values = [choice.value for choice in self.choices.choices]
        if not isinstance(values[0], Enum):
            return {"type": "literal", "expected": values}
        cls = type(values[0])
        if cls._missing_.__func__ is not Enum._missing_.__func__ or type(cls) is not EnumMeta:  # type: ignore[attr-defined]  # a classmethod has it
            raise TypeError(f"pydantic-core would call _missing_ of {cls.__name__}, and the nodes do not")
        return {"type": "enum", "cls": cls, "members": values}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        values = [value for choice in self.choices.choices if (value := self.write(choice.value)) is not None]
        kinds = {type(value) for value in values}
        if kinds == {int} and not all(-(2**63) <= value < 2**63 for value in values):
            return Storage("json")
        return Storage(_STORAGE_KINDS.get(kinds.pop(), "json") if len(kinds) == 1 else "json")

    def schema(self, definitions: Definitions) -> JsonSchema:
        values = [_json_of(choice) for choice in self.choices.choices]
        kinds = {_json_type(value) for value in values}
        schema: JsonSchema = {"type": kinds.pop()} if len(kinds) == 1 else {}
        schema |= {"const": values[0]} if len(values) == 1 else {"enum": values}
        return with_description(schema, _meanings(self.choices.choices, self.description))

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        labels = " | ".join(_as_hint(choice) for choice in self.choices.choices)
        return described_hint(labels, _meanings(self.choices.choices, self.description, quotes=True))

    def read(self, data: Json, cursor: Cursor) -> T:
        if isinstance(data, list) and len(data) == 1 and isinstance(data[0], str):  # [HIGH]
            cursor.record_dropped("brackets around a choice")
            (data,) = data
        if isinstance(data, str):
            # The exact text of a choice wins over matching by words, which may find another choice in it.
            exact_text = self._by_text(data)
            return self._find(data, cursor) if exact_text is None else exact_text.value
        # members of an enum are also accepted by their values, which prompts may not show
        for choice in self.choices.choices:
            member = choice.value if isinstance(choice.value, Enum) else None
            if _equals_json(choice.value if member is None else member.value, data):
                if member is not None and choice.label != data:
                    cursor.record("member by its value", data, choice.label)
                return choice.value
        same = self._by_json(data)
        if same is None:
            raise cursor.failure(f"expected {self.kind}", data)
        cursor.record("value as text", data, dump_json(data))
        return same.value

    def _by_json(self, data: Json) -> Choice[T] | None:
        """Return the choice whose text is a number or null: for Literal["7"], a model may write 7."""
        if data is not None and (not isinstance(data, (int, Decimal)) or is_non_finite(data)):
            return None
        text = dump_json(data)
        return next((choice for choice in self.choices.choices if _json_of(choice) == text), None)

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        values = (getattr(choice.value, "value", choice.value) for choice in self.choices.choices)
        if any(_equals_json(value, data) for value in values):
            return float(data) if isinstance(data, Decimal) else data
        return plain_json(self.read(data, cursor))

    def read_text(self, text: str, cursor: Cursor) -> T:
        non_text = self._non_text_choice(text.strip())
        return self._find(text.strip(), cursor) if non_text is None else non_text.value

    def has_text_choice(self, text: str) -> bool:
        """Return True if an unquoted reply such as ``true`` is one of the allowed strings, not a JSON value.

        For ``Literal["true", "x"]`` the reply ``true`` is the first choice. For ``Literal["7", 7]`` the reply
        ``7`` is the number, because prompts show the number in this way.
        """
        return self._non_text_choice(text) is None and self._by_text(text) is not None

    def _by_text(self, text: str) -> Choice[T] | None:
        """Return the allowed choice whose JSON value is the given string, or None."""
        return self._choices_by_text.get(text)

    @property
    def texts(self) -> Set[str]:
        """The choices whose JSON value is a string, by this string."""
        return self._choices_by_text.keys()

    @cached_property
    def _choices_by_text(self) -> dict[str, Choice[T]]:
        texts = ((_json_of(choice), choice) for choice in reversed(self.choices.choices))
        return {text: choice for text, choice in texts if isinstance(text, str)}

    def _non_text_choice(self, text: str) -> Choice[T] | None:
        """Return the number, boolean or null choice that a prompt shows as the given text, or None."""
        others = (choice for choice in self.choices.choices if not isinstance(_json_of(choice), str))
        return next((choice for choice in others if _as_hint(choice) == text), None)

    def write(self, value: object) -> Json:
        for choice in self.choices.choices:
            # The types are compared because 1 == True, and Literal[1, True] has both.
            if type(choice.value) is type(value) and choice.value == value:
                return _json_of(choice)
        raise ValueError(f"expected {self.kind}, found {value!r}")

    def _find(self, text: str, cursor: Cursor) -> T:
        """Return the allowed choice that a reply names, and record how it was recognized."""
        try:
            choice, rule = self.choices.find(text)
        except NoMatch as error:
            raise cursor.failure(f"expected {self.kind}; {error}", text) from error
        if rule is None and not isinstance(_json_of(choice), str):
            rule = "text for a value that is not text"
        if rule is not None:
            cursor.record(rule, text, choice.label)
        return choice.value


_STORAGE_KINDS: dict[type, str] = {bool: "bool", str: "text", int: "int"}


class BoolNode(ChoiceNode[bool]):
    """Reads a bool from true or false, or from words such as yes and no."""

    identity_type = bool
    core_type = storage_kind = "bool"

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return frozenset((bool,))

    def __init__(self) -> None:
        super().__init__("boolean", [_TRUE, _FALSE], exact=True)
        self.kind = "true or false"

    def core_schema(self) -> CoreSchema:
        return {"type": self.core_type}

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "boolean"}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return "true | false"

    def read(self, data: Json, cursor: Cursor) -> bool:
        if isinstance(data, bool):
            return data
        if isinstance(data, int) and data in (0, 1):  # databases and some languages write booleans as 0 and 1
            cursor.record("number as boolean", data, bool(data))
            return bool(data)
        return super().read(data, cursor)


# ``alone``: these words count only as the whole reply, because they are common in sentences.
_YES = """
    y j on 1 yep yeah correct right ja oui sí sì sim tak да так evet ano igen kyllä ya có ναι כן نعم हाँ
    是 是的 对 正确 はい 네 예 ✅ ✓ ✔ wahr vrai vero verdadero verdadeiro waar prawda истина
"""
_NO = """
    n off 0 nope incorrect wrong nein non não nee nej nei нет ні nie hayır nem tidak không όχι לא لا नहीं
    否 不 不是 いいえ 아니요 아니오 ❌ ✗ ✘ falsch faux falso onwaar fałsz ложь
"""
_TRUE = Choice("true", True, ("yes",), standalone_aliases=tuple(_YES.split()))
_FALSE = Choice("false", False, ("no",), standalone_aliases=tuple(_NO.split()))


class FlagNode(Node[Flag]):
    """Reads a combination of the members of a Flag, written as a JSON array of their names."""

    prose = True
    json_types = frozenset((list,))

    def __init__(self, cls: type[Flag]) -> None:
        self._cls = cls
        docs = attribute_docs(cls)
        members = [(str(member.name), member) for member in cls]
        choices = [Choice(name, member, (), docs.get(name)) for name, member in members]
        self._choices = ChoiceMatcher(choices)
        self._description = class_docstring(cls)
        labels = ", ".join(choice.label for choice in self._choices.choices)
        self.kind = f"an array of {labels}"

    def schema(self, definitions: Definitions) -> JsonSchema:
        choices = self._choices.choices
        items: JsonSchema = {"type": "string", "enum": [choice.label for choice in choices]}
        schema: JsonSchema = {"type": "array", "items": with_description(items, _meanings(choices))}
        return with_description(schema, self._description)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        choices = self._choices.choices
        item = described_hint(" | ".join(map(_as_hint, choices)), _meanings(choices, quotes=True))
        return described_hint(f"[{item}, ...]", self._description)

    def read(self, data: Json, cursor: Cursor) -> Flag:
        if isinstance(data, str):
            names: list[Json] = [part for part in data.replace("|", ",").split(",") if part.strip()]
            cursor.record("names in one text", data, names)
        elif isinstance(data, list):
            names = data
        else:
            raise cursor.failure(f"expected {self.kind}", data)
        value = self._cls(0)
        for index, name in enumerate(names):
            value |= self._member(name, cursor.child(index))
        return value

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        return data if type(data) is int else self.read(data, cursor).value

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("list", (("", Storage("text")),))

    def read_text(self, text: str, cursor: Cursor) -> Flag:
        return self.read(text, cursor)

    def write(self, value: object) -> Json:
        if not isinstance(value, self._cls):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return [choice.label for choice in self._choices.choices if choice.value in value]

    def _member(self, name: Json, cursor: Cursor) -> Flag:
        """Return the member of a Flag with a given name, ignoring case and punctuation."""
        # An item of a list is a name and not a sentence, so it is not searched for the name of a member.
        label = normalize(name) if isinstance(name, str) else None
        for choice in self._choices.choices:
            if label is not None and label == normalize(choice.label):
                if name != choice.label:
                    cursor.record("case or punctuation", name, choice.label)
                return choice.value
        names = ", ".join(choice.label for choice in self._choices.choices)
        raise cursor.failure(f"expected one of {names}", name)


def choices_of(cls: type[Enum]) -> list[Choice[Any]]:
    """Return a Choice (a value and the names by which replies may select it) for each Enum member.

    The label of a member is its value if all values are strings, else its name. The label, the name and the
    value are all accepted, in upper and lower case, and so is the description if it is the whole reply. The
    description of a member is its attribute ``description``, or the docstring under it.
    """
    members = list(cls)
    by_value = all(isinstance(member.value, str) and member.value.strip() for member in members)
    names: dict[int, list[str]] = {}
    for name, member in cls.__members__.items():  # aliases included
        names.setdefault(id(member), []).append(name)
    choices = []
    for member in members:
        label = member.value if by_value else member.name
        aliases = [*names[id(member)], f"{cls.__name__}.{member.name}"]
        if isinstance(member.value, (str, int, float, Decimal)) and not isinstance(member.value, bool):
            aliases.append(str(member.value))
        aliases = [alias for alias in aliases if alias != label]
        meaning = _member_description(member)
        # a model may reply with the description that the prompt shows
        choices.append(Choice(label, member, tuple(aliases), meaning, (meaning,) if meaning else ()))
    return choices


def _member_description(member: Enum) -> str | None:
    """Return the description of an enum member: its attribute ``description``, or the docstring below it."""
    own = getattr(member, "description", None)
    return own if isinstance(own, str) else attribute_docs(type(member)).get(member.name)


def _json_of(choice: Choice[Any]) -> Json:
    """Return the JSON value that a model writes to select the given choice."""
    return choice.label if isinstance(choice.value, Enum) else choice.value


def _equals_json(value: object, data: Json) -> bool:
    """Return True if a JSON value equals the value of an allowed choice and has the same JSON type."""
    if isinstance(value, (float, Decimal)) and type(data) in (int, Decimal):
        return bool(Decimal(str(value)) == data)
    if isinstance(value, tuple) and isinstance(data, list):
        return len(value) == len(data) and all(map(_equals_json, value, data))
    return type(value) is type(data) and bool(value == data)


def _as_hint(choice: Choice[Any]) -> str:
    """Return how a prompt shows an allowed choice: strings in quotes, other values as JSON."""
    value = _json_of(choice)
    return str(value) if isinstance(value, bytes) else dump_json(value)


def _meanings(choices: Sequence[Choice[Any]], description: str | None = None, *, quotes: bool = False) -> str:
    """Join the description of a type and the descriptions of its allowed values into one string.

    With ``quotes`` the choices are written as in a hint.
    """
    labels = ((_as_hint(choice) if quotes else choice.label, choice.description) for choice in choices)
    meanings = [f"{label}: {meaning}" for label, meaning in labels if meaning]
    if not meanings:
        return description or ""
    return "; ".join(text.strip().removesuffix(".") for text in (description or "", *meanings) if text)


def _json_type(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "string"


def choice_node(target: Target) -> Node[object] | None:
    """Return the parser for a bool, Enum, Flag or Literal type, or None for other types."""
    tp = target.type
    if tp is bool:
        return BoolNode()
    if target.origin is Literal:
        if not target.args:
            raise UnsupportedTypeError(type_name(tp), target.path, ["choices"], "it has no values")
        return _literal(target.args)
    if not (isinstance(tp, type) and issubclass(tp, Enum)):
        return None
    if not len(tp):
        raise UnsupportedTypeError(type_name(tp), target.path, ["choices"], "it has no members")
    if issubclass(tp, Flag):
        return FlagNode(tp)
    choices = choices_of(tp)
    exact = all(choice.label == choice.value.value for choice in choices)
    return ChoiceNode(tp.__name__, choices, exact=exact, description=class_docstring(tp))


def _literal(values: tuple[object, ...]) -> Node[object]:
    choices = []
    for value in values:
        if isinstance(value, (Enum, str)):
            label = value.name if isinstance(value, Enum) else value
        else:
            label = _as_hint(Choice(str(value), value))
        aliases: tuple[str, ...] = (str(value.value),) if isinstance(value, Enum) else ()
        aliases = ("none",) if value is None else aliases
        standalone: tuple[str, ...] = ()
        if isinstance(value, bool):
            # Literal[True] accepts the same words as bool.
            bool_choice = _TRUE if value else _FALSE
            aliases, standalone = bool_choice.aliases, bool_choice.standalone_aliases
        description = _member_description(value) if isinstance(value, Enum) else None
        choices.append(Choice(label, value, aliases, description, standalone))
    exact = all(type(value) is str for value in values)  # pydantic accepts true and 1.0 for Literal[1]
    return ChoiceNode("literal", choices, exact=exact)
