"""The types Decision and Scale, for answers with the probability of each possible answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast, overload

from pydantic_core import core_schema

from ..result.errors import UnsupportedTypeError
from ..result.reading import Cursor, Json, JsonObject, dump_json, set_variable
from .choices import BoolNode, ChoiceNode
from .constraints import ConstrainedNode, unwrapped
from .containers import Build, ListNode, UnionNode
from .node import Definitions, JsonSchema, Node, Storage, WrapperNode, closed_object
from .records import FieldSpec, ObjectNode, RecordSpec
from .scalars import NoneNode
from .target import Target, type_name

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
M = TypeVar("M")
_NO_PROBABILITIES: Mapping[object, float] = MappingProxyType({})
_COLLECTIONS = (list, set, frozenset, tuple)
_ROUNDING_ERROR = 0.005 + 1e-9  # the rounding error of a probability with two decimals


class _Probabilities:
    """The attribute ``probabilities`` of a Decision, whose keys depend on the type of the value."""

    @overload
    def __get__(self, decision: None, owner: object) -> _Probabilities: ...
    @overload
    def __get__(
        self, decision: Decision[list[M]] | Decision[set[M]] | Decision[frozenset[M]], owner: object
    ) -> Mapping[M, float]: ...
    @overload
    def __get__(self, decision: Decision[T], owner: object) -> Mapping[T, float]: ...
    def __get__(self, decision: Any, owner: object) -> object:
        return self if decision is None else decision._probabilities


class Decision(Generic[T]):
    """One of several possible answers, with the probability of each.

    Use it as the return type of a method, or as the type of a field, whose answer is a bool, an Enum or a
    Literal, optionally combined with None::

        @user_message("Is this message spam?\\n\\n{{message}}")
        def is_spam(self, message: str) -> Decision[bool]: ...

    ``Decision[list[E]]`` asks whether each member of an Enum, or each value of a Literal, applies. Its value
    lists those that do.

    Attributes:
        value: The answer.
        probabilities: The probability of each possible answer. Their sum is 1. For a list, it is the
            probability that the member applies: each has its own, and they do not add up to 1.
        source: Where the probabilities come from: "logprobs" (the probabilities of tokens), "decisions" (a
            decision endpoint), "votes(5)" (how often 5 samples gave the answer), or "" for a decision that
            a program made itself.
        calibrated: True if the probabilities were corrected by a calibration.
        seen: The share of the probability that the source reported for these answers, from 0 to 1. The rest
            went to other texts, or could not be assigned to one answer. For a list, it is the lowest share
            of a member.
    """

    __slots__ = ("_path", "_probabilities", "_threshold", "calibrated", "seen", "source", "value")

    probabilities = _Probabilities()

    value: T
    source: str
    calibrated: bool
    seen: float
    _path: str
    _probabilities: Mapping[Any, float]
    _threshold: float | None

    @overload
    def __init__(
        self: Decision[list[M]],
        value: list[M],
        probabilities: Mapping[M, float] | None = None,
        *,
        source: str = "",
        calibrated: bool = False,
        seen: float = 1.0,
    ) -> None: ...
    @overload
    def __init__(
        self,
        value: T,
        probabilities: Mapping[T, float] | None = None,
        *,
        source: str = "",
        calibrated: bool = False,
        seen: float = 1.0,
    ) -> None: ...
    def __init__(
        self,
        value: object,
        probabilities: Mapping[Any, float] | None = None,
        *,
        source: str = "",
        calibrated: bool = False,
        seen: float = 1.0,
    ) -> None:
        """Create a decision, for example for a test; without probabilities only its value is known.

        Raises ValueError for probabilities that do not belong to possible answers, or do not sum to about 1.
        """
        if probabilities:
            _check_probabilities(value, probabilities)
        self._set(value, probabilities or _NO_PROBABILITIES, source, calibrated, seen, None)
        object.__setattr__(self, "_path", "")

    def _set(
        self,
        value: Any,
        probabilities: Mapping[Any, float],
        source: str,
        calibrated: bool,
        seen: float,
        threshold: float | None,
    ) -> None:
        for answer in value if type(value) in _COLLECTIONS else (value,):
            if probabilities and answer not in probabilities:
                raise ValueError(f"the probabilities have no entry for the value {answer!r}")
        for name, content in (
            ("value", value),
            ("_probabilities", MappingProxyType(dict(probabilities))),
            ("source", source),
            ("calibrated", calibrated),
            ("seen", seen),
            ("_threshold", threshold),
        ):
            object.__setattr__(self, name, content)

    @property
    def is_list(self) -> bool:
        """True if the value is a list or set of options, with a yes or no for each option."""
        return type(self.value) in _COLLECTIONS

    @property
    def path(self) -> str:
        """The JSON path of the decision in the reply; "" if the decision was not read from a reply."""
        return self._path

    def complete(
        self,
        probabilities: Mapping[Any, float],
        source: str,
        seen: float,
        *,
        calibrated: bool = False,
        threshold: float | None = None,
    ) -> None:
        """Add the probabilities to a Decision after its value was read from a model's reply."""
        self._set(self.value, probabilities, source, calibrated, seen, threshold)

    @property
    def probability(self) -> float:
        """The probability of the value, from 0 to 1.

        For a list, it is the lowest probability of a member, for being rightly in the list or rightly
        missing. The probability that the whole list is right is lower, and cannot be computed from the
        members, because their errors depend on each other.
        """
        if not self._probabilities:
            raise ValueError("this decision has no probabilities; only its value is known")
        value: Any = self.value
        if self.is_list:
            return min(share if one in value else 1 - share for one, share in self._probabilities.items())
        return self._probabilities[value]

    @property
    def margin(self) -> float:
        """The difference between the two highest probabilities, from 0 (undecided) to 1 (certain).

        For a list, it is the lowest difference between yes and no for a member.
        """
        if self.is_list and self._probabilities:
            return min(abs(2 * share - 1) for share in self._probabilities.values())
        first, *others = sorted(self._probabilities.values(), reverse=True) or [self.probability]
        return first - others[0] if others else first

    def at(self, threshold: float | None = None) -> T | None:
        """Return the value if its probability is at least ``threshold``, else None.

        For a list, the answer for each member must have this probability.

        The default ``threshold`` is the one passed to ``create(…, thresholds={…})``.
        """
        limit = self._threshold if threshold is None else threshold
        if limit is None:
            raise ValueError("pass a threshold, as in at(0.9), or set it by create(…, thresholds={…})")
        return self.value if self.probability >= limit else None

    def to_dict(self) -> JsonObject:
        """Return the decision as a dict for JSON; the values of an Enum are not converted."""
        return {
            "value": self.value,
            "probabilities": [
                {"value": value, "probability": share} for value, share in self._probabilities.items()
            ],
            "source": self.source,
            "calibrated": self.calibrated,
            "seen": self.seen,
        }

    def __bool__(self) -> bool:
        raise TypeError("a Decision is neither true nor false; use its .value, or .at(0.9) is not None")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        other = cast(Decision[object], other)
        if type(self.value) is not type(other.value) or self.value != other.value:
            return False
        # in an example or a text, only the value of a decision is written
        return not self._probabilities or not other._probabilities or self._details == other._details

    def __hash__(self) -> int:
        value: Any = self.value
        return hash((type(self), frozenset(value) if self.is_list else value))

    @property
    def _details(self) -> tuple[object, ...]:
        return dict(self._probabilities), self.source, self.calibrated, self.seen

    def __repr__(self) -> str:
        name = type(self).__name__
        if not self._probabilities:
            return f"{name}({self.value!r})"
        shares = ", ".join(f"{value!r}: {share:.3g}" for value, share in self._probabilities.items())
        return f"{name}({self.value!r}, {{{shares}}}, source={self.source!r})"

    def __reduce__(self) -> tuple[object, ...]:
        details = self.value, dict(self._probabilities), self.source, self.calibrated, self.seen
        return _restore, (type(self), *details)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                Decision.to_dict, when_used="json"
            ),
        )


class Scale(Decision[E]):
    """One of several ordered levels, with the probability of each.

    The levels are the members of an Enum, from low to high in the order of their definition.
    """

    __slots__ = ()

    @property
    def levels(self) -> tuple[E, ...]:
        """The levels of the scale, from low to high."""
        return tuple(type(self.value))

    @property
    def mean(self) -> float:
        """The mean of the levels of a scale, weighted by the probability of each level.

        A level counts as its value if all values are numbers, else as its position, from 0.
        """
        levels = self.levels
        numeric = all(isinstance(level.value, (int, float)) for level in levels)
        return sum(
            (float(level.value) if numeric else position) * self.probabilities.get(level, 0.0)
            for position, level in enumerate(levels)
        )

    @property
    def most_likely(self) -> E:
        """The level with the highest probability."""
        return max(self.levels, key=lambda level: self.probabilities.get(level, 0.0))

    def at_least(self, level: E) -> float:
        """Return the probability that the answer is the given level or a higher level."""
        levels = self.levels
        return sum(self.probabilities.get(one, 0.0) for one in levels[levels.index(level) :])


def _check_probabilities(value: Any, probabilities: Mapping[Any, float]) -> None:
    """Raise ValueError if the probabilities of a decision cannot be those of its possible answers."""
    is_list = type(value) in _COLLECTIONS
    for option, share in probabilities.items():
        for answer in value if is_list else (value,):
            if _is_mistaken(option, answer):
                kind = type(answer).__name__
                raise ValueError(f"the probabilities have an entry for {option!r}, which is not a {kind}")
        if type(share) is bool or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise ValueError(f"the probability of {option!r} is {share!r}; it must be a number from 0 to 1")
    total = sum(probabilities.values())
    rounding = _ROUNDING_ERROR * max(len(probabilities), 2)
    if not is_list and abs(total - 1) > rounding:
        raise ValueError(
            f"the probabilities sum to {total:.4g}, not to 1; pass the probability of each possible answer"
        )


def _is_mistaken(option: object, answer: object) -> bool:
    """Return True for 1 instead of True, and for the value of an Enum member instead of the member."""
    if isinstance(answer, Enum) and not isinstance(option, Enum):
        return any(option == member.value for member in type(answer))
    return isinstance(answer, bool) and type(option) is int


def _restore(
    cls: type[Decision[object]], value: object, probabilities: Any, source: str, calibrated: bool, seen: float
) -> Decision[object]:
    return cls(value, probabilities, source=source, calibrated=calibrated, seen=seen)


# The decisions that were read from the current reply, to which the caller adds their probabilities.
_DECISIONS: ContextVar[list[Decision[object]] | None] = ContextVar("decisions", default=None)


@contextmanager
def collect_decisions() -> Iterator[list[Decision[object]]]:
    """Collect the decisions that are read or written inside the ``with`` block.

    Those that were read have a path, and get their probabilities afterwards.
    """
    decisions: list[Decision[object]] = []
    token = _DECISIONS.set(decisions)
    try:
        yield decisions
    finally:
        _DECISIONS.reset(token)


# True while decisions are converted to and from JSON with their probabilities, and cited values with their
# places, for another program.
WITH_DETAILS: ContextVar[bool] = ContextVar("with_probabilities", default=False)


def values_with_details() -> AbstractContextManager[None]:
    """Context manager in which the JSON of a Decision or Cited has its probabilities or places."""
    return set_variable(WITH_DETAILS, True)


class MembersNode(Node[object]):
    """Reads a list of options from an object that has true or false for each option.

    A list of the options is accepted too: people write it in answers that they review.

    Attributes:
        values: The node of the list.
        item: The node of the options.
        options: The key of each option in the object, with the option.
    """

    pydantic_reads_json = False

    def __init__(self, values: ListNode, item: ChoiceNode[object]) -> None:
        self.values = values
        self.item = item
        choices = item.choices.choices
        self.options = tuple((_key_of(item.write(choice.value)), choice.value) for choice in choices)
        fields = [
            FieldSpec(key, (key,), bool, required=True, description=choice.description)
            for (key, _), choice in zip(self.options, choices, strict=True)
        ]
        record = RecordSpec(dict, tuple(fields), dict, extra="forbid", description=item.description)
        self._object = ObjectNode(record, f"{item.name} options")
        for field in fields:
            self._object.nodes[field.name] = BoolNode()
            self._object.descriptions[field.name] = field.description
        self.kind = "an object with true or false for each option"

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self._object,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._object.schema(definitions)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self._object.hint(enclosing)

    def read(self, data: Json, cursor: Cursor) -> object:
        applies: Json
        if isinstance(data, list):
            listed: Any = self.values.read(data, cursor)
            applies = {key: option in listed for key, option in self.options}
        else:
            applies = self._object.read(data, cursor)
        return self.values.make([option for key, option in self.options if applies[key]])

    def write(self, value: object) -> Json:
        members = self.values.write(value)
        keys = {_key_of(member) for member in members}
        return {key: key in keys for key, _ in self.options}

    def count_keys(self, value: object) -> int:
        return len(self.options)


def _key_of(data: Json) -> str:
    return data if isinstance(data, str) else dump_json(data)


class DecisionNode(WrapperNode[Decision[object]]):
    """Reads a Decision or a Scale; a model's reply contains only the value, without probabilities.

    Attributes:
        inner: The node of the value in a model's reply.
        cls: The class of the decision.
        value: The node of the value in other JSON: it differs from ``inner`` for a list.
        option: The node of the keys of the probabilities.
    """

    pydantic_reads_json = False

    def __init__(self, inner: Node[object], cls: type[Decision[object]]) -> None:
        super().__init__(inner)
        self.value: Node[object] = inner.values if isinstance(inner, MembersNode) else inner
        self.option: Node[object] = inner.item if isinstance(inner, MembersNode) else inner
        self.cls = cls

    def schema(self, definitions: Definitions) -> JsonSchema:
        if not WITH_DETAILS.get():
            return super().schema(definitions)
        entry = {
            "value": self.option.schema(definitions),
            "probability": {"type": "number", "minimum": 0, "maximum": 1},
        }
        properties = {
            "value": self.value.schema(definitions),
            "probabilities": {"type": "array", "items": closed_object(entry)},
            "source": {"type": "string"},
            "calibrated": {"type": "boolean"},
            "seen": {"type": "number"},
        }
        return closed_object(properties)

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("decision", (("value", self.value.storage(enclosing)),))

    def read(self, data: Json, cursor: Cursor) -> Decision[object]:
        if WITH_DETAILS.get():
            return self._read_object(data, cursor)
        return self._decision(self.inner.read(data, cursor), cursor)

    def _read_object(self, data: Json, cursor: Cursor) -> Decision[object]:
        """Read a Decision from JSON that also contains its probabilities."""
        try:
            value = self.value.read(data["value"], cursor.child("value"))
            probabilities = {
                self.option.read(entry["value"], cursor): float(entry["probability"])
                for entry in data["probabilities"]
            }
            details = {"source": data["source"], "calibrated": data["calibrated"]}
            decision = self.cls(value, probabilities, seen=float(data["seen"]), **details)
            return self._collected(decision, cursor)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise cursor.failure("expected a decision with its probabilities", data) from error

    def read_text(self, text: str, cursor: Cursor) -> Decision[object]:
        return self._decision(self.inner.read_text(text, cursor), cursor)

    def write(self, value: object) -> Json:
        if not isinstance(value, Decision):
            raise ValueError(f"expected a {self.cls.__name__}, found {value!r}")
        decisions = _DECISIONS.get()
        if decisions is not None:
            decisions.append(value)
        if not WITH_DETAILS.get():
            for option in value.probabilities:
                self.option.write(option)  # raises for an option that the type does not have
            return self.inner.write(value.value)
        entries: list[Json] = [
            {"value": self.option.write(option), "probability": Decimal(repr(share))}
            for option, share in value.probabilities.items()
        ]
        return {
            "value": self.value.write(value.value),
            "probabilities": entries,
            "source": value.source,
            "calibrated": value.calibrated,
            "seen": Decimal(repr(value.seen)),
        }

    def count_keys(self, value: object) -> int:
        return 0

    def _decision(self, value: object, cursor: Cursor) -> Decision[object]:
        return self._collected(self.cls(value), cursor)

    def _collected(self, decision: Decision[object], cursor: Cursor) -> Decision[object]:
        object.__setattr__(decision, "_path", cursor.path)
        decisions = _DECISIONS.get()
        if decisions is not None:
            decisions.append(decision)
        return decision


def options_of(node: Node[object]) -> tuple[tuple[Json, object], ...] | None:
    """Return the possible values of a bool, Enum, Literal or Decision; None for types without fixed values.

    Each is a pair of the JSON value and the Python value.
    """
    node = unwrapped(node)
    if isinstance(node, DecisionNode):
        return options_of(node.inner)
    if isinstance(node, ChoiceNode):
        return tuple((node.write(choice.value), choice.value) for choice in node.choices.choices)
    if isinstance(node, NoneNode):
        return ((None, None),)
    if isinstance(node, UnionNode):
        options = [options_of(option) for option in node.options]
        if all(one is not None for one in options):
            return tuple(pair for one in options for pair in one or ())
    return None


def decision_node(target: Target, build: Build) -> Node[object] | None:
    """Return the parser for ``Decision[T]`` or ``Scale[E]``, or None for other types."""
    cls = target.origin or target.type
    if not (isinstance(cls, type) and issubclass(cls, Decision)):
        return None

    def refuse(reason: str) -> UnsupportedTypeError:
        return UnsupportedTypeError(type_name(target.type), target.path, ["decisions"], reason)

    if len(target.args) != 1:
        raise refuse(f"write what is decided, as in {cls.__name__}[bool]")
    inner_type = target.args[0]
    inner = build(target.child(inner_type))
    if isinstance(inner, ConstrainedNode) and isinstance(inner.inner, ListNode):
        raise refuse("a list of decisions cannot have constraints, because each member is a question")
    if isinstance(inner, ListNode) and not issubclass(cls, Scale):
        inner = _members_node(inner, refuse)
    problem = _problem_of_options(inner.options if isinstance(inner, MembersNode) else options_of(inner))
    if problem is not None:
        raise refuse(problem)
    if issubclass(cls, Scale) and not (isinstance(inner_type, type) and issubclass(inner_type, Enum)):
        raise refuse("a scale needs an Enum whose members are the levels, from low to high")
    return DecisionNode(inner, cls)


def _problem_of_options(options: Sequence[tuple[str, object]] | None) -> str | None:
    """Return why there cannot be a decision between some options, or None."""
    if options is None:
        return "it needs a bool, an Enum, a Literal, one of these or None, or a list of an Enum"
    if len({value for _, value in options}) < len(options):
        return "two of its answers are equal for Python, as 1 and True are"
    return "there must be at least two possible answers" if len(options) < 2 else None


def _members_node(node: ListNode, refuse: Callable[[str], UnsupportedTypeError]) -> MembersNode:
    """Return the parser for a list of options that asks the model about each option separately."""
    if not isinstance(node.item, ChoiceNode) or isinstance(node.item, BoolNode):
        raise refuse(
            "a list of decisions needs an Enum or a Literal, as in Decision[list[Topic]]; for a list of any "
            "length write list[Decision[…]]"
        )
    members = MembersNode(node, node.item)
    if len(dict(members.options)) < len(members.options):
        raise refuse('two of its answers have the same JSON key, as 1 and "1" have')
    return members
