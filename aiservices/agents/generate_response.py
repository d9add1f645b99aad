"""The function by which an agent gives its answer: a text for its reader, and the fields of a type."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from typing_extensions import TypedDict

from output_parsers.errors import Problem
from output_parsers.json_inside import opened
from output_parsers.node import Definitions, JsonSchema, Node
from output_parsers.objects import plain_key
from output_parsers.parser import TypeParser
from output_parsers.parsing import parser_for
from output_parsers.reading import Json, Misfit, Place, gathered
from output_parsers.schema import schema_of
from output_parsers.target import Description, Target, type_name

from ..flow import Flow
from ..ladder import Ladder, Rung, ladder_for
from ..messages import AiMessage
from ..models.base import ChatModel
from ..pipeline import Answer, Proceed
from ..plan import Turn
from ..strategies import Wire
from ..strategy import Strategy

__all__ = ["FINISH", "FinishFault", "Finished", "as_spoken", "finish_ladder", "finish_parser"]

FINISH = "generate_response"
_RESPONSE = "response"
_SAID = "the answer in full, as it is to be read"
_WISH = "Gives the final answer and ends the task. Call it once, when nothing is left to be done."


class FinishFault(TypeError):  # becomes a Fault once it is known where it stands
    """A type whose fields cannot stand beside the text of the answer."""


class Finished(NamedTuple):
    """What the finish function was called with: the text, and the value of the type."""

    response: str
    metadata: Any


class FinishNode(Node[Finished]):
    """``{"response": …, **fields}``: the fields of a record beside the text."""

    kind = f"an object with {_RESPONSE!r}"

    def __init__(self, record: Node[Any]) -> None:
        self._record = record
        self._text: Node[str] = parser_for(str).node

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._text, self._record)

    def schema(self, definitions: Definitions) -> JsonSchema:
        fields = _in_place(self._record.schema(definitions), definitions)
        response = {"type": "string", "description": _SAID}
        return {
            **{key: said for key, said in fields.items() if key != "title"},
            "type": "object",
            "properties": {_RESPONSE: response, **fields.get("properties", {})},
            "required": [_RESPONSE, *fields.get("required", ())],
        }

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        rows = self._record.hint((*within, self))[1:-1].strip("\n")  # those between the braces
        rows = rows if "\n" in rows or rows.startswith(" ") else f"  {rows},"
        return f'{{\n  "{_RESPONSE}": string,  // {_SAID}\n{rows}\n}}'

    def read(self, found: Json, at: Place) -> Finished:
        found = opened(found, "{", at)
        if not isinstance(found, dict):
            raise at.misfit(f"expected {self.kind}", found)
        key = _key_of_response(found)
        misfits: list[Misfit] = []
        response, metadata = "", None
        try:
            response = self._response(found, key, at)
        except Misfit as misfit:
            misfits.append(misfit)
        try:
            metadata = self._record.read({name: value for name, value in found.items() if name != key}, at)
        except Misfit as misfit:
            misfits.append(misfit)
        if misfits:
            raise gathered(misfits)
        return Finished(response, metadata)

    def _response(self, found: dict[str, Json], key: str | None, at: Place) -> str:
        if key is None:
            said = f"the required field {_RESPONSE!r} is missing"
            raise Misfit(Problem(at.at(_RESPONSE).path, said))
        if key != _RESPONSE:
            at.at(key).took("key in another form", key, _RESPONSE)
        return self._text.read(found[key], at.at(key))

    def write(self, value: Any) -> Json:
        if not isinstance(value, Finished):
            raise ValueError(f"expected {self.kind}, found {type(value).__name__}")
        return {_RESPONSE: value.response, **cast("dict[str, Json]", self._record.write(value.metadata))}


class FinishParser(TypeParser[Finished]):
    """The arguments of the finish function → what it was called with."""

    def __init__(self, node: FinishNode) -> None:
        super().__init__(Target(Any, (Description(_WISH),), alias=FINISH), node)

    @cached_property
    def plain_text(self) -> bool:
        return False


def finish_parser(form: Any) -> TypeParser[Finished]:
    """The parser of the arguments of ``generate_response(response, **fields)``.

    The fields are those of ``form``, a record of any kind; a type that is no record is one field,
    ``metadata``. Raises UnsupportedTypeError, and FinishFault for a record with a field ``response``.
    """
    node = parser_for(form).node
    if "properties" not in schema_of(node):
        node = _Only(parser_for(cast("Any", TypedDict("metadata", {"metadata": form}))).node)  # type: ignore[operator]
    elif _key_of_response(schema_of(node)["properties"]) is not None:
        raise FinishFault(
            f"{type_name(form)} has a field {_RESPONSE!r}, which is that of {FINISH}; give it another name"
        )
    return FinishParser(FinishNode(node))


def finish_ladder(parser: TypeParser[Any], model: ChatModel) -> Ladder[Any]:
    """The ways of asking a model; where it calls tools, the finish function comes first."""
    every = ladder_for(parser, model.capabilities, None, model.name)
    if parser.schema is not None and model.capabilities.tools:
        by_tool = ladder_for(parser, model.capabilities, Strategy.OUTPUT_TOOL, model.name).rungs
        others = (rung for rung in every.rungs if rung.strategy is not Strategy.OUTPUT_TOOL)
        every = Ladder((*by_tool, *others), partial(_wire, every))
    every.prepare()
    return every


def _wire(ladder: Ladder[Any], rung: Rung, reasons: tuple[str, ...]) -> Wire[Any]:
    wire = ladder.wire(rung)
    return wire._replace(reasons=(*reasons[:-1], *wire.reasons))


def as_spoken(turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
    """The answer as it was spoken: a memory is to hold the text, and not the call that gave it."""
    answer = yield from proceed(turn)
    if not isinstance(answer.value, Finished):
        return answer
    return replace(answer, said=(*answer.said[:-1], AiMessage(answer.value.response)))


class _Only(Node[Any]):
    """The value of the only field of a record."""

    def __init__(self, record: Node[Any]) -> None:
        self._record = record
        self.kind = record.kind

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._record,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._record.schema(definitions)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._record.hint(within)

    def read(self, found: Json, at: Place) -> Any:
        return self._record.read(found, at)["metadata"]

    def write(self, value: Any) -> Json:
        return self._record.write({"metadata": value})


def _key_of_response(found: dict[str, Any]) -> str | None:
    if _RESPONSE in found:
        return _RESPONSE
    return next((key for key in found if plain_key(key) == _RESPONSE), None)


def _in_place(schema: JsonSchema, definitions: Definitions) -> JsonSchema:
    """A schema that may be a reference, as it is where it leads to."""
    if "$ref" not in schema:
        return schema
    return definitions.schemas[schema["$ref"].rpartition("/")[2]]
