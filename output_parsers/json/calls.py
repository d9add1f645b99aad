"""Read tool calls that a model wrote as text, in the formats of the model families.

A server without a parser for the model's format passes such calls on as text. The tables here describe the
formats: how a call begins, where its name is, and how its arguments are written.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from ..backslashes import has_lost_backslash
from ..lazy_regex import join_lines, lazy_regex
from ..result.errors import Problem
from ..result.reading import Json, JsonObject, JsonSyntaxError, ValidationFailure
from .scanner import read_exact, read_tolerant


class WrittenCalls(NamedTuple):
    """The tool calls in a reply, as objects with ``name`` and ``arguments``.

    Attributes:
        calls: The calls.
        text: The text in which they are, perhaps without a fence around it.
        start: Where they begin in this text.
        end: Where they end.
    """

    calls: list[JsonObject]
    text: str
    start: int
    end: int


class _Format(NamedTuple):
    """How one call is written: its beginning with the name, its arguments, and its end."""

    head: re.Pattern[str]
    read: Callable[[str, int], tuple[Json, int] | None]
    tail: re.Pattern[str]


# What stands around calls and between them. Each begins or ends a call or a section of calls.
_MARKS = r"""
    </?(?:\w+:)?(?:tool_calls?|function_calls?|functioncall|tool_use|tools|tool_code)>
    |</?｜DSML｜(?:function_calls|tool_calls)>|<[|｜]tool[▁_]calls?[▁_](?:begin|end)[|｜]>|function<｜tool_sep｜>
    |<\|tool_calls?(?:_section)?_(?:begin|end|start)\|>|<\|?/?tool_calls?\|?>|\[/?TOOL_CALLS\]
    |<\|(?:START|END)_ACTION\|>|<\|python_(?:tag|start|end)\|>|<(?:start|end)_function_call>
    |<\|action_(?:start|end)\|>|<\|plugin\|>|functools(?=\[)
"""
_ENDS = join_lines(
    r"""
    <\|(?:call|eot|eot_id|eom_id|eom|end|im_end|end_of_text|endoftext|END_OF_TURN_TOKEN)\|>
    |</s>|<end_of_turn>|<｜end▁of▁sentence｜>
    """
)
_MARK = lazy_regex(join_lines(_MARKS))
_BETWEEN = lazy_regex(rf"(?:\s|[,;](?=\s*[<\[{{\w])|{_ENDS})*+")
_FENCE = lazy_regex(
    r"\s*(`{3,}|~{3,})(?:tool_code|tool_calls?|python|py|json|xml|text)?[ \t]*\n(.*?)\n?\1\s*", re.DOTALL
)
_NAME = r"(?:functions?\.|default_api\.|tools\.)?([A-Za-z_][\w.-]{0,80}?)"
_HARMONY = lazy_regex(
    rf"(?:<\|start\|>)?(?:assistant)?(?: to={_NAME})?<\|channel\|>(?:commentary|analysis)(?: to={_NAME})?\s*"
    r"(?:<\|constrain\|>)?(?:json)?<\|message\|>"
)
_NO_TAG_INSIDE = r"((?:(?!</?parameter|</?function|</?invoke|</?arg_|</?｜DSML|</\w+>\s*<\w+(?: name)?=).)*+)"
_EQUALS_PARAMETER = rf"<parameter=([\w.-]+)>()\n?{_NO_TAG_INSIDE}</parameter>"
_PREFIX = r"(?:\w+:|｜DSML｜)?"
_NAMED_PARAMETER = (
    rf'<{_PREFIX}parameter name="([\w.-]+)"(?: string="(true|false)")?>{_NO_TAG_INSIDE}</{_PREFIX}parameter>'
)
_ARGUMENT_PAIR = rf"<arg_key>\s*([\w.-]+)\s*</arg_key>()\s*<arg_value>{_NO_TAG_INSIDE}</arg_value>"
_ESCAPED = lazy_regex(r"<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>", re.DOTALL)


def _read_json(text: str, start: int) -> tuple[Json, int] | None:
    """Read the JSON object of the arguments; its strings may be between marks of their own."""
    try:
        value, _, end = read_tolerant(text, start)
    except JsonSyntaxError:
        return None
    return (value, end) if isinstance(value, dict) else None


def _read_escaped(text: str, start: int) -> tuple[Json, int] | None:
    """Read an object whose strings are between marks, as Gemma writes them."""
    mark = _MARK.search(text, start)
    end = mark.start() if mark else len(text)
    bare = _ESCAPED.sub(lambda match: json.dumps(match[1] or match[2] or ""), text[start:end])
    reading = _read_json(bare, 0)
    return None if reading is None or bare[reading[1] :].strip() else (reading[0], end)


def _read_tags(parameter: re.Pattern[str], text: str, start: int) -> tuple[Json, int] | None:
    """Read arguments that are in tags; their values are text, unless a tag says that one is JSON."""
    arguments: JsonObject = {}
    position = start
    while match := parameter.match(text, position):
        key, is_text, value = match.groups()
        if key in arguments:
            return None
        arguments[key] = value.strip("\r\n")
        if is_text == "false":
            try:
                arguments[key] = json.loads(value, parse_float=Decimal)
            except ValueError:
                return None
        position = match.end()
    return arguments, position


def _format(head: str, read: Callable[[str, int], tuple[Json, int] | None], tail: str = "") -> _Format:
    return _Format(lazy_regex(head), read, lazy_regex(tail, re.DOTALL))


def _tags(parameter: str) -> Callable[[str, int], tuple[Json, int] | None]:
    return partial(_read_tags, lazy_regex(rf"{parameter}\s*+", re.DOTALL))


_FORMATS = (
    _format(rf"<function={_NAME}>\s*(?=\{{)", _read_json, r"\s*</function>"),  # Llama, Functionary
    _format(rf"<function={_NAME}>\s*+", _tags(_EQUALS_PARAMETER), r"</function>"),  # Qwen3-Coder
    _format(rf'<{_PREFIX}invoke name="{_NAME}">\s*+', _tags(_NAMED_PARAMETER), rf"</{_PREFIX}invoke>"),
    _format(rf"{_NAME}\s*(?=<arg_key>)", _tags(_ARGUMENT_PAIR), r"(?=</tool_call>)"),  # GLM
    _format(rf"function<[|｜]tool▁sep[|｜]>{_NAME}\s*```json\s*", _read_json, r"\s*```"),  # DeepSeek V3, R1
    _format(rf"{_NAME}<[|｜]tool▁sep[|｜]>\s*", _read_json),  # DeepSeek V3.1
    _format(rf"{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*", _read_json),  # Kimi
    _format(rf"{_NAME}(?:\[CALL_ID\]\w+)?\[ARGS\]\s*", _read_json),  # Mistral
    _format(rf"call:{_NAME}(?=\{{)", _read_escaped),  # Gemma
    _format(rf"{_NAME}(?=\{{)", _read_json),  # Mistral
)
_NAME_KEYS = ("name", "tool_name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input")
_CALL_KEYS = frozenset((*_ARGUMENT_KEYS, "function"))
_OTHER_KEYS = frozenset(("id", "type", "tool_call_id", "call_id", "index"))


class ObjectCall(NamedTuple):
    """A tool call that is written as a JSON object: the name, the arguments, and the key of the arguments."""

    name: str
    arguments: Json
    key: str


def call_of(data: JsonObject) -> ObjectCall | None:
    """Return the call that is written as a JSON object, or None for another object."""
    if data.keys().isdisjoint(_CALL_KEYS):
        return None
    inner = data.get("function")
    if isinstance(inner, dict) and data.keys() - _OTHER_KEYS == {"function"}:  # of OpenAI
        data = inner
    names = [key for key in _NAME_KEYS if key in data]
    keys = [key for key in _ARGUMENT_KEYS if key in data]
    if len(names) != 1 or len(keys) != 1 or data.keys() - _OTHER_KEYS != {names[0], keys[0]}:
        return None
    name, arguments = data[names[0]], data[keys[0]]
    is_object = isinstance(arguments, dict) or (isinstance(arguments, str) and arguments.lstrip()[:1] == "{")
    is_call = is_object and isinstance(name, str)
    return ObjectCall(name.removeprefix("functions."), arguments, keys[0]) if is_call else None


def may_have_calls(text: str) -> bool:
    """Return False if a text certainly has no tool calls. It is fast."""
    is_object = text[:1] == "{"  # which is not a call in Python
    return any(sign in text for sign in _SIGNS) or ("(" in text and not is_object)


_SIGNS = (
    "tool",
    "func",
    "arguments",
    "parameters",
    "[ARGS]",
    "TOOL_CALLS",
    "ACTION",
    "invoke",
    "call:",
    "arg_key",
)


def may_lead_to_call(text: str) -> bool:
    """Return True if the text up to a bracket has a mark of calls, or a name directly before the bracket."""
    return _MARK.search(text) is not None or _NAME_BEFORE.search(text) is not None


_NAME_BEFORE = lazy_regex(r"[A-Za-z_]\w*[\[({]\Z|<function=|invoke name=|<\|message\|>")


def calls_in_channels(text: str) -> str:
    """Return the part of a reply with the channels of gpt-oss that call tools; "" if there are none."""
    if "<|channel|>" not in text:
        return ""
    first = next((match for match in _HARMONY.finditer(text) if match[1] or match[2]), None)
    if first is not None and _CALL_IN_CHANNEL.search(text, 0, first.start()):
        raise ValidationFailure(_BROKEN)  # another call before it
    return "" if first is None else text[first.start() :]


_CALL_IN_CHANNEL = lazy_regex(r"<\|call\|>|to=|functions\.|commentary|constrain")


def find_calls(text: str) -> WrittenCalls | None:
    """Find the tool calls in a reply without reasoning; None if there are none."""
    text = _without_fence(text)
    data = _exact_json(text)
    if data is not None:  # a mark of calls in one of its strings is a part of the string
        calls = data if isinstance(data, list) else [data]
        return WrittenCalls(calls, text, 0, len(text)) if _are_calls(calls) else None
    python = _python_calls(text)
    if python == []:
        raise ValidationFailure(_BROKEN)
    if python is not None:
        return WrittenCalls(python, text, 0, len(text))
    start, calls, position = 0, *_read_calls(text, 0)
    if not calls and (mark := _MARK.search(text)):
        start = mark.start()
        calls, position = _read_calls(text, start)
    if not calls:
        if _HARMONY.match(text):
            raise ValidationFailure(_BROKEN)
        return None
    if _BROKEN_CALL.search(text, 0, start) or _BROKEN_CALL.search(text, position):
        raise ValidationFailure(_BROKEN)
    return WrittenCalls(calls, text, start, position)


def _exact_json(text: str) -> Json | None:
    """Return the JSON object or array that is the whole text, or None for other text."""
    try:
        return read_exact(text) if text.lstrip()[:1] in ("{", "[") else None
    except JsonSyntaxError:
        return None


def _without_fence(text: str) -> str:
    fence = _FENCE.fullmatch(text)
    return fence[2] if fence else text


def has_raw_strings(text: str) -> bool:
    """Return True for calls in Python with raw strings, whose backslashes are not escaped: ``r"C:\\new"``."""
    return _RAW_STRING.search(text) is not None and _python_calls(_without_fence(text)) is not None


def _read_calls(text: str, position: int) -> tuple[list[JsonObject], int]:
    """Read calls up to the first text that is not one; return them and where that text begins."""
    calls: list[JsonObject] = []
    while True:
        end, position = position, _skip_marks(text, position)
        reading = _read_call(text, position)
        if reading is None:
            marks = _MARK.finditer(text, end, position)
            if calls and not all(
                _CLOSES.match(mark[0]) for mark in marks
            ):  # the call after it is cut off or broken
                raise ValidationFailure(_BROKEN)
            return calls, position
        calls += reading[0]
        position = reading[1]


_BROKEN = Problem("$", "a tool call in the text is broken")
_CLOSES = lazy_regex(r".*(?:/|end|END)|<tool_calls?\|>")
_BROKEN_CALL = lazy_regex(r"[{}\[\]<>|｜]")


def _skip_marks(text: str, position: int) -> int:
    """Return where the text after marks and white space begins."""
    while True:
        between = _BETWEEN.match(text, position)
        position = between.end() if between else position
        mark = _MARK.match(text, position)
        if mark is None:
            return position
        position = mark.end()


def _read_call(text: str, position: int) -> tuple[list[JsonObject], int] | None:
    """Read the call that begins at a position, or the calls of a JSON array."""
    harmony = _HARMONY.match(text, position)
    if harmony is not None and (harmony[1] or harmony[2]):
        reading = _read_json(text, harmony.end())
        return reading and ([{"name": harmony[1] or harmony[2], "arguments": reading[0]}], reading[1])
    for one in _FORMATS:
        head = one.head.match(text, position)
        reading = one.read(text, head.end()) if head else None
        tail = one.tail.match(text, reading[1]) if reading else None
        if head and reading and tail:
            return [{"name": head[1].removesuffix(".call"), "arguments": reading[0]}], tail.end()
    return _read_objects(text, position) if text[position : position + 1] in ("{", "[") else None


def _read_objects(text: str, position: int) -> tuple[list[JsonObject], int] | None:
    """Read a call that is a JSON object with its name, or an array of such objects."""
    try:
        value, _, end = read_tolerant(text, position)
    except JsonSyntaxError:
        return _read_unclosed(text, position)
    calls = value if isinstance(value, list) else [value]
    return (calls, end) if _are_calls(calls) else None


def _are_calls(values: list[Json]) -> bool:
    return bool(values) and all(isinstance(one, dict) and call_of(one) for one in values)


def _read_unclosed(text: str, position: int) -> tuple[list[JsonObject], int] | None:
    """Read an object whose last bracket is missing before a mark, if its arguments have no other brackets."""
    mark = _MARK.search(text, position)
    if mark is None or text.count("{", position, mark.start()) != 2 or "[" in text[position : mark.start()]:
        return None
    try:
        value = read_exact(text[position : mark.start()] + "}")
    except JsonSyntaxError:
        return None
    return ([value], mark.start()) if _are_calls([value]) else None


_PYTHON_CALL = lazy_regex(r"\s*\[?\s*(?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*\(")
_RAW_STRING = lazy_regex(r"\b[rR][\"']")
_MAX_PYTHON = 100_000  # characters
_CONSTANTS = {"true": True, "false": False, "null": None}


def _python_calls(text: str) -> list[JsonObject] | None:
    """Read one call in Python, ``Person(name="Ann")``, or a list of them; None for other text.

    The list is empty if a backslash was lost beside raw strings.
    """
    end = max(text.rfind(")"), text.rfind("]")) + 1
    bare = text[_skip_marks(text, 0) : end]
    if _skip_marks(text, end) < len(text):
        return None
    if len(bare) > _MAX_PYTHON or not _PYTHON_CALL.match(bare):
        return None
    try:
        tree = ast.parse(bare, mode="eval").body
        tokens = list(_tokens(bare))
        if any(one.type == two.type == tokenize.STRING for one, two in pairwise(tokens)):
            return None  # a comma may be missing between two strings
        value = _python_value(tree, bare.encode().splitlines())
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    calls = value if isinstance(value, list) else [value]
    if not _are_calls(calls):
        return None
    strings = [one.string for one in tokens if one.type == tokenize.STRING]
    others = [one for one in strings if not _RAW_STRING.match(one)]
    return [] if len(others) < len(strings) and any(map(has_lost_backslash, others)) else calls


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    return (one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in skipped)


def _python_value(node: ast.expr, lines: Sequence[bytes]) -> Json:
    """Return the JSON of a literal or of a call with keywords; raise ValueError for other code.

    ``lines`` are the code, in which numbers have all of their digits.
    """
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        value = ast.literal_eval(node)
        if isinstance(value, float):
            return _python_number(node, lines)
        if isinstance(value, (str, int, type(None))):
            return value
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_python_value(one, lines) for one in node.elts]
    if isinstance(node, ast.Dict):
        return _python_fields([getattr(key, "value", None) for key in node.keys], node.values, lines)
    if isinstance(node, ast.Call):
        return _python_call(node, lines)
    raise ValueError("other code")


def _python_number(node: ast.expr, lines: Sequence[bytes]) -> Decimal:
    """Return a number with a fraction or an exponent, perhaps with a sign, without rounding it to a float."""
    if isinstance(node, ast.UnaryOp):
        number = _python_number(node.operand, lines)
        return number.copy_negate() if isinstance(node.op, ast.USub) else number
    return Decimal(lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode())


def _python_call(node: ast.Call, lines: Sequence[bytes]) -> Json:
    name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    if name == "print" and len(node.args) == 1 and not node.keywords:
        return _python_value(node.args[0], lines)
    if node.args:
        raise ValueError("arguments without names")
    words = [word.arg for word in node.keywords]
    values = [word.value for word in node.keywords]
    return {"name": name, "arguments": _python_fields(words, values, lines)}


def _python_fields(keys: Sequence[object], values: list[ast.expr], lines: Sequence[bytes]) -> JsonObject:
    """Return the JSON of a dict or of keywords; raise ValueError for other keys than different strings."""
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("other keys")
    return {str(key): _python_value(value, lines) for key, value in zip(keys, values, strict=True)}
