"""Select how to request a typed value from a model, for example with a JSON Schema or an output tool."""

from __future__ import annotations

from functools import cached_property

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.constraints import PydanticNode
from output_parsers.types.containers import UnionNode
from output_parsers.types.node import OutputParser
from output_parsers.types.records import ObjectNode
from output_parsers.types.scalars import TextNode
from output_parsers.types.target import Target

from ..models.base import Capabilities, DecisionLimits
from ..models.errors import Strategy
from .model_route import StrategyFallbacks, StrategyOption, only_format
from .output_format import (
    ObjectSchema,
    OutputFormat,
    grammar_format,
    json_mode_format,
    prompt_format,
    question_format,
    schema_format,
    text_format,
    tool_format,
    tool_or_text_reader,
)


class StrategyError(ValueError):  # callers turn it into a DefinitionProblem, which adds the location
    """Raised when a return type or a model does not support the requested Strategy, such as JSON Schema."""


def _without(strategy: Strategy, options: list[StrategyOption]) -> list[StrategyOption]:
    return [option for option in options if option.strategy is not strategy]


def _check_text_strategy(requested: Strategy | None) -> None:
    if requested not in (None, Strategy.TEXT, Strategy.PROMPT):
        raise StrategyError(f"the strategy {requested} needs a structured type, and the type is plain text")


def select_strategies(
    parser: OutputParser[object],
    capabilities: Capabilities,
    requested: Strategy | None,
    model_name: str,
    *,
    partial_values: bool = False,
    is_streamed: bool = True,
    offers_tools: bool = False,
    prefers_tool: bool = False,
    requires_probabilities: bool = False,
    task: str = "",
) -> StrategyFallbacks:
    """Return the possible strategies for requesting a typed value, most reliable first.

    ``requested`` allows only one strategy. With ``partial_values`` the value is shown while it is written, so
    that it must not be sent in an encoded form. ``is_streamed`` is passed on to the output formats. With
    ``offers_tools`` the model may also call tools of the user. With ``prefers_tool`` an output tool comes
    first. With ``requires_probabilities`` only strategies remain whose replies have probabilities. ``task``
    is the question of the prompt without the data, which decision endpoints get.

    Raises StrategyError if the requested strategy is impossible.
    """
    if capabilities.decisions is not None:
        return _questions(parser, capabilities.decisions, requested, model_name, task, offers_tools)
    if requested is Strategy.DECISION:
        raise StrategyError(f"the strategy {requested} needs a decision endpoint, which {model_name} is not")
    if parser.schema is None:
        _check_text_strategy(requested)
        return only_format(text_format(parser, "the type is plain text: the reply itself is the value"))
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    if requested is None:
        options = _all_options(typed, capabilities, model_name)
    else:
        options = _requested_options(typed, capabilities, requested, model_name)
    if prefers_tool and capabilities.tools:
        tool = _strict_first(Strategy.OUTPUT_TOOL, capabilities, "it was requested")
        options = [*tool, *_without(Strategy.OUTPUT_TOOL, options)]
    if requires_probabilities:
        options = _options_with_probabilities(options, capabilities, typed.name, model_name)
    factory = _FormatFactory(typed, capabilities, partial_values=partial_values, is_streamed=is_streamed)
    factory.offers_tools = offers_tools
    if capabilities.requires_strict and requested is None and not factory.is_strict:
        options = _without(Strategy.JSON_SCHEMA, options)
    return StrategyFallbacks(tuple(options), factory.make)


def _questions(
    parser: OutputParser[object],
    limits: DecisionLimits,
    requested: Strategy | None,
    model_name: str,
    task: str,
    offers_tools: bool,
) -> StrategyFallbacks:
    """Return the output format for decision endpoints, which can only answer multiple-choice questions."""
    from .output_format import QuestionError, decision_format  # few models are decision endpoints

    if requested not in (None, Strategy.DECISION):
        raise StrategyError(f"{model_name} is a decision endpoint, which does not support {requested}")
    if offers_tools:
        raise StrategyError(f"{model_name} is a decision endpoint, which calls no tools")
    if not isinstance(parser, TypeParser) or parser.schema is None:
        raise StrategyError(f"{model_name} is a decision endpoint, which writes no text")
    try:
        questions = decision_format(parser, task, limits)
    except QuestionError as error:
        raise StrategyError(f"{model_name} cannot answer for {parser.name}: {error}") from error
    reason = f"{model_name} is a decision endpoint"
    return only_format(question_format(parser, questions, (reason,)))


def _options_with_probabilities(
    options: list[StrategyOption], capabilities: Capabilities, type_name: str, model_name: str
) -> list[StrategyOption]:
    """Return the strategies whose replies have log probabilities; raise StrategyError without any."""
    if not capabilities.logprobs:
        raise StrategyError(
            f"{type_name} needs probabilities, and {model_name} gives none; use a model with log "
            "probabilities (OpenAI's models that do not reason, vLLM, llama.cpp, the embedded model), a "
            "decision endpoint, or several samples, as in create(…, votes=5), which a stream cannot have"
        )
    remaining = [option for option in options if option.strategy is not Strategy.OUTPUT_TOOL]
    if not remaining:
        raise StrategyError(
            f"{type_name} needs probabilities, which the strategy {Strategy.OUTPUT_TOOL} cannot give"
        )
    return remaining


def _requested_options(
    parser: TypeParser[object], capabilities: Capabilities, requested: Strategy, model_name: str
) -> list[StrategyOption]:
    if requested is Strategy.TEXT:
        raise StrategyError(f"the strategy text is for str; {parser.name} needs a structured strategy")
    possible = {
        Strategy.JSON_SCHEMA: capabilities.json_schema,
        Strategy.OUTPUT_TOOL: capabilities.tools,
        Strategy.GRAMMAR: capabilities.constrained,
        Strategy.JSON_MODE: capabilities.json_mode,
        Strategy.PROMPT: True,
        Strategy.DECISION: False,
    }
    if not possible[requested]:
        flags = ("json_schema", "strict_schema", "json_mode", "constrained", "tools")
        available = ", ".join(flag for flag in flags if getattr(capabilities, flag)) or "none"
        raise StrategyError(
            f"{model_name} does not support the strategy {requested}; its capabilities: {available}"
        )
    return _strict_first(requested, capabilities, "it was requested")


def _strict_first(strategy: Strategy, capabilities: Capabilities, reason: str) -> list[StrategyOption]:
    strict = strategy in (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL) and capabilities.strict_schema
    options = [StrategyOption(strategy, True, reason)] if strict else []
    return [*options, StrategyOption(strategy, False, reason)]


def _all_options(
    parser: TypeParser[object], capabilities: Capabilities, model_name: str
) -> list[StrategyOption]:
    if not any(
        (capabilities.constrained, capabilities.json_schema, capabilities.tools, capabilities.json_mode)
    ):
        reason = f"{model_name} supports neither JSON Schema nor tools nor JSON mode"
        return [StrategyOption(Strategy.PROMPT, False, reason)]
    options: list[StrategyOption] = []
    if not parser.schema:
        reason = "the type is any JSON, which a schema does not restrict"
        if capabilities.json_mode and not capabilities.constrained:
            json_mode_reason = f"{reason}, and {model_name} has JSON mode"
            options.append(StrategyOption(Strategy.JSON_MODE, False, json_mode_reason))
        return [*options, StrategyOption(Strategy.PROMPT, False, reason)]
    lacks = "" if capabilities.json_schema else "does not support JSON Schema, but "
    if capabilities.constrained:
        reason = f"{model_name} constrains its decoding to a JSON Schema"
        options.append(StrategyOption(Strategy.GRAMMAR, False, reason))
    elif capabilities.json_schema:
        by_schema = _strict_first(Strategy.JSON_SCHEMA, capabilities, f"{model_name} supports JSON Schema")
        # such a model has no other schemas, so the same one would be sent again
        options += by_schema[:1] if capabilities.requires_strict else by_schema
    if capabilities.tools and not capabilities.constrained:
        options += _strict_first(Strategy.OUTPUT_TOOL, capabilities, f"{model_name} {lacks}calls tools")
    if capabilities.json_mode:
        options.append(StrategyOption(Strategy.JSON_MODE, False, f"{model_name} {lacks}has JSON mode"))
    return [*options, StrategyOption(Strategy.PROMPT, False, "every model understands a prompt")]


class _FormatFactory:
    """Creates the JSON Schema, tool or prompt text that asks a model for values of a given type."""

    def __init__(
        self,
        parser: TypeParser[object],
        capabilities: Capabilities,
        *,
        partial_values: bool,
        is_streamed: bool,
    ) -> None:
        self._parser = parser
        self._capabilities = capabilities
        self._partial_values = partial_values
        self._is_streamed = is_streamed
        self.offers_tools = False

    @property
    def is_strict(self) -> bool:
        """True if the provider's strict mode supports the JSON Schema of the type."""
        return self._strict_schema[0].strict

    def make(self, option: StrategyOption, reasons: tuple[str, ...]) -> OutputFormat:
        output_format = self._make(option, reasons)
        return output_format if self._is_streamed else output_format._replace(is_streamed=False)

    def _make(self, option: StrategyOption, reasons: tuple[str, ...]) -> OutputFormat:
        if option.strategy is Strategy.PROMPT:
            return prompt_format(self._parser, reasons)
        if option.strategy is Strategy.OUTPUT_TOOL and self._record_parser is not None:
            return self._make_record_tool(self._record_parser, option, reasons)
        parser, name = self._object_parser, self._parser.name
        if parser is not self._parser:
            reasons = (*reasons, "the value is sent in an object, under the key 'value'")
        if option.strategy is Strategy.JSON_MODE:
            return json_mode_format(parser, reasons)
        if option.strategy is Strategy.GRAMMAR:
            schema, changes = self._constrained_schema
            return grammar_format(schema, name, (*reasons, *changes))
        schema = ObjectSchema(parser, parser.schema or {}, False)
        if option.strict:
            schema, changes = self._strict_schema
            reasons = (*reasons, *changes)
        if option.strategy is Strategy.JSON_SCHEMA:
            return schema_format(schema, name, reasons)
        output_format = tool_format(schema, name, reasons)
        return output_format._replace(text_answers="also") if self._parser.node.any_text else output_format

    def _make_record_tool(
        self, record: TypeParser[object], option: StrategyOption, reasons: tuple[str, ...]
    ) -> OutputFormat:
        """Return the output format for a type such as ``Answer | str``, with a tool call or text as reply."""
        factory = _FormatFactory(record, self._capabilities, partial_values=False, is_streamed=True)
        output_format = factory.make(option, reasons)
        read = tool_or_text_reader(
            record, output_format.tooling.choice if output_format.tooling else "", self._parser
        )
        return output_format._replace(read=read, parser=self._parser, text_answers="only")

    @cached_property
    def _record_parser(self) -> TypeParser[object] | None:
        """The parser for the record ``Answer`` in a return type such as ``Answer | str``, or None.

        It is used only together with the user's tools, because the model may then answer with text. Otherwise
        the model must call the tool, and the tool's arguments must be able to express a string.
        """
        node = self._parser.node
        if (
            not self.offers_tools
            or self._partial_values
            or not isinstance(node, UnionNode)
            or len(node.options) != 2
        ):
            return None
        records = [one for one in node.options if isinstance(one, (ObjectNode, PydanticNode))]
        if len(records) != 1 or not any(isinstance(one, TextNode) for one in node.options):
            return None
        targets = [target for target in map(Target.of, self._parser.target.args) if target.type is not str]
        return TypeParser(targets[0], records[0], leniency=self._parser.leniency) if targets else None

    @cached_property
    def _object_parser(self) -> TypeParser[object]:
        """The parser for JSON objects. Other values have a wrapper object, such as ``{"value": 5}``."""
        is_object = (self._parser.schema or {}).get("type") == "object"
        return self._parser if is_object else self._parser.with_envelope()

    @cached_property
    def _constrained_schema(self) -> tuple[ObjectSchema, tuple[str, ...]]:
        """The JSON Schema for servers that force replies to match a schema, with notes about changes."""
        if self._capabilities.profile == "openai":  # the default: nothing is known of the server's limits
            return ObjectSchema(self._object_parser, self._object_parser.schema or {}, True), ()
        return self._strict_schema

    @cached_property
    def _strict_schema(self) -> tuple[ObjectSchema, tuple[str, ...]]:
        """The JSON Schema in the form that the provider's strict mode needs, with notes about changes."""
        from output_parsers.profiles import PROFILES
        from output_parsers.strict import encode_parser  # not every model has a strict mode

        original = self._object_parser
        parser, encoding = encode_parser(original, PROFILES[self._capabilities.profile])
        changes = tuple(f"{finding.path}: {finding.action}" for finding in encoding.findings)
        if encoding.lossless and encoding.identity:  # the same text, so it is read as before
            return ObjectSchema(original, encoding.schema, True), changes
        if encoding.lossless and not self._partial_values:
            return ObjectSchema(parser, parser.schema or {}, True), changes
        if encoding.lossless:
            reason = "strict mode would change the shape of the value, which is shown while it is written"
        else:
            unsupported = next((one.feature for one in encoding.findings if not one.lossless), "")
            reason = f"strict mode cannot express the schema ({unsupported})"
        return ObjectSchema(original, original.schema or {}, False), (f"{reason}; it is sent without strict",)
