"""Which strategies suit a model and a type, the most reliable first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.node import OutputParser

from ..models.base import Capabilities
from ..models.strategy import Strategy
from .output_format import (
    ObjectSchema,
    OutputFormat,
    grammar_wire,
    json_mode_wire,
    prompt_wire,
    schema_wire,
    text_wire,
    tool_wire,
)

T = TypeVar("T")


class StrategyFault(ValueError):  # becomes a Fault once it is known where it stands
    """A strategy was asked for that cannot carry the type, or that the model has not."""


class StrategyOption(NamedTuple):
    """One way of asking; ``why`` says what makes it possible."""

    strategy: Strategy
    strict: bool
    why: str

    @property
    def name(self) -> str:
        return f"{self.strategy} in strict mode" if self.strict else str(self.strategy)


Makes = Callable[[StrategyOption, tuple[str, ...]], OutputFormat[T]]


class StrategyFallbacks(Generic[T]):
    """The ways in which one type is asked of one model. Each is made when it is needed, and kept."""

    def __init__(self, rungs: tuple[StrategyOption, ...], make: Makes[T]) -> None:
        self.rungs = rungs
        self._make = make
        self._wires: dict[tuple[StrategyOption, str], OutputFormat[T]] = {}

    @cached_property
    def first(self) -> OutputFormat[T]:
        return self.wire(self.rungs[0])

    def prepare(self) -> None:
        """Make the first wire now, and not at the first call."""
        self.first  # noqa: B018

    def wire(self, rung: StrategyOption, refusal: str = "") -> OutputFormat[T]:
        """What is sent and read on one rung; ``refusal`` says why it is not a higher one."""
        found = self._wires.get((rung, refusal))
        if found is None:
            reasons = (refusal, rung.why) if refusal else (rung.why,)
            found = self._wires[rung, refusal] = self._make(rung, reasons)
        return found


def ladder_of_one(wire: OutputFormat[T]) -> StrategyFallbacks[T]:
    """The ladder of a method that can be asked in one way only."""
    return StrategyFallbacks(
        (StrategyOption(wire.strategy, False, wire.reasons[0]),), lambda rung, reasons: wire
    )


def ladder_for(
    parser: OutputParser[T],
    capabilities: Capabilities,
    asked: Strategy | None,
    model: str,
    *,
    growing: bool = False,
    shown: bool = True,
) -> StrategyFallbacks[T]:
    """The ladder of a type for a model. Raises StrategyFault when ``asked`` cannot be had.

    ``growing`` says that the value is shown while it is written, so that it must travel in its own shape;
    not ``shown``, that it is only a part of what a stream shows.
    """
    if parser.schema is None:
        if asked not in (None, Strategy.TEXT, Strategy.PROMPT):
            raise StrategyFault(f"the strategy {asked} asks for structure, and the type is plain text")
        why = "the type is plain text: the reply itself is the value"
        return ladder_of_one(text_wire(parser, why))
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    builder = _Builder(typed, capabilities, growing=growing)
    rungs = (
        _all_rungs(typed, capabilities, model) if asked is None else _asked(typed, capabilities, asked, model)
    )
    make = builder.wire
    return StrategyFallbacks(
        tuple(rungs), make if shown else lambda rung, reasons: make(rung, reasons)._replace(shown=False)
    )


def _asked(
    parser: TypeParser[Any], capabilities: Capabilities, asked: Strategy, model: str
) -> list[StrategyOption]:
    why = "it was asked for"
    if asked is Strategy.TEXT:
        raise StrategyFault(f"the strategy text is for str; {parser.name} needs structure")
    can = {
        Strategy.JSON_SCHEMA: capabilities.json_schema,
        Strategy.OUTPUT_TOOL: capabilities.tools,
        Strategy.GRAMMAR: capabilities.constrained,
        Strategy.JSON_MODE: capabilities.json_mode,
        Strategy.PROMPT: True,
    }
    if not can[asked]:
        named = ("json_schema", "strict_schema", "json_mode", "constrained", "tools")
        has = ", ".join(name for name in named if getattr(capabilities, name)) or "none"
        raise StrategyFault(f"the strategy {asked} is not among what {model} can do; its capabilities: {has}")
    return _strict_first(asked, capabilities, why)


def _strict_first(strategy: Strategy, capabilities: Capabilities, why: str) -> list[StrategyOption]:
    strict = strategy in (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL) and capabilities.strict_schema
    rungs = [StrategyOption(strategy, True, why)] if strict else []
    return [*rungs, StrategyOption(strategy, False, why)]


def _all_rungs(parser: TypeParser[Any], can: Capabilities, model: str) -> list[StrategyOption]:
    if not any((can.constrained, can.json_schema, can.tools, can.json_mode)):
        why = f"{model} takes neither a JSON Schema nor tools nor JSON mode"
        return [StrategyOption(Strategy.PROMPT, False, why)]
    rungs: list[StrategyOption] = []
    last = "the prompt can say it to every model"
    if not (parser.schema or {}):
        last = "the type is any JSON, of which a schema says nothing"
        if can.json_mode and not can.constrained:
            rungs.append(StrategyOption(Strategy.JSON_MODE, False, f"{last}, and {model} has JSON mode"))
        return [*rungs, StrategyOption(Strategy.PROMPT, False, last)]
    lacks = "" if can.json_schema else "takes no JSON Schema, but "
    if can.constrained:
        rungs.append(
            StrategyOption(Strategy.GRAMMAR, False, f"{model} constrains its decoding to a JSON Schema")
        )
    elif can.json_schema:
        rungs += _strict_first(Strategy.JSON_SCHEMA, can, f"{model} takes a JSON Schema")
    if can.tools and not can.constrained:
        rungs += _strict_first(Strategy.OUTPUT_TOOL, can, f"{model} {lacks}calls tools")
    if can.json_mode:
        rungs.append(StrategyOption(Strategy.JSON_MODE, False, f"{model} {lacks}has JSON mode"))
    return [*rungs, StrategyOption(Strategy.PROMPT, False, last)]


class _Builder(Generic[T]):
    """Makes the wires of one type for one model."""

    def __init__(self, parser: TypeParser[T], capabilities: Capabilities, *, growing: bool) -> None:
        self.parser = parser
        self.capabilities = capabilities
        self.growing = growing

    @cached_property
    def carried(self) -> TypeParser[T]:
        """The parser itself where its schema is an object, else the one of its envelope."""
        return self.parser if (self.parser.schema or {}).get("type") == "object" else self.parser.with_envelope()

    def wire(self, rung: StrategyOption, reasons: tuple[str, ...]) -> OutputFormat[T]:
        if rung.strategy is Strategy.PROMPT:
            return prompt_wire(self.parser, reasons)
        if self.carried is not self.parser:
            reasons = (*reasons, "the value travels in an object, under the key 'value'")
        if rung.strategy is Strategy.GRAMMAR:
            form, said = self._constrained_form
            return grammar_wire(form, self.parser.name, (*reasons, *said))
        if rung.strategy is Strategy.JSON_MODE:
            return json_mode_wire(self.carried, reasons)
        form = ObjectSchema(self.carried, self.carried.schema or {}, False)
        if rung.strict:
            form, said = self._strict_form
            reasons = (*reasons, *said)
        if rung.strategy is Strategy.JSON_SCHEMA:
            return schema_wire(form, self.parser.name, reasons)
        wire = tool_wire(form, self.parser.name, reasons)
        return wire._replace(takes_text=self.parser.node.any_text)

    @cached_property
    def _constrained_form(self) -> tuple[ObjectSchema[T], tuple[str, ...]]:
        """The form of the type for constrained decoding: its own, where no other profile is known."""
        if self.capabilities.profile == "openai":
            return ObjectSchema(self.carried, self.carried.schema or {}, True), ()
        return self._strict_form

    @cached_property
    def _strict_form(self) -> tuple[ObjectSchema[T], tuple[str, ...]]:
        """The form of the type for strict mode, and what was done for it."""
        from output_parsers.strict import encode_parser  # not every model has a strict mode
        from output_parsers.strict.profiles import PROFILES

        parser, encoding = encode_parser(self.carried, PROFILES[self.capabilities.profile])
        done = tuple(f"{found.path}: {found.action}" for found in encoding.findings)
        if encoding.lossless and encoding.identity:  # the same text, hence read as before
            return ObjectSchema(self.carried, encoding.schema, True), done
        if encoding.lossless and not self.growing:
            return ObjectSchema(parser, parser.schema or {}, True), done
        why = "the schema says more than strict mode can"
        if encoding.lossless:
            why = "strict mode would change the shape of the value, which is shown while it is written"
        return ObjectSchema(self.carried, self.carried.schema or {}, False), (
            f"{why}; it is sent without strict",
        )
