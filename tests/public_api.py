"""The public API as text, one line for each name, parameter, attribute and error.

``make accept-api`` writes the text to ``public_api.txt``, the API of the last release, with which
``test_public_api.py`` compares the API.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).with_name("public_api.txt")
MODULES = """
output_parsers output_parsers.lint output_parsers.text output_parsers.tool_calls aiservices aiservices.agents
aiservices.call_log aiservices.documents aiservices.guardrails aiservices.integrations.fastapi
aiservices.integrations.mcp aiservices.integrations.otel aiservices.interceptors aiservices.journal
aiservices.memory aiservices.moderation aiservices.page aiservices.prices aiservices.retrieval aiservices.rows
aiservices.skills aiservices.structured_model aiservices.synthesis aiservices.testing
""".split()
_OWN = ("aiservices", "output_parsers")
_RAISED = re.compile(r"^\s+(\w+(?:Error|Exception)?):", re.MULTILINE)
_PLAIN = (str, int, float, bool, type(None))  # others may have another text in each process


def lines() -> Iterator[str]:
    """Yield the lines of the contract."""
    seen: dict[int, str] = {}
    for module in MODULES:
        package = import_module(module)
        for name in sorted(package.__all__):
            thing = getattr(package, name)
            path = f"{module}.{name}"
            if id(thing) in seen and (inspect.isclass(thing) or inspect.isfunction(thing)):
                yield f"{path} is {seen[id(thing)]}"
                continue
            seen[id(thing)] = path
            yield from lines_of(path, thing)


def lines_of(path: str, thing: Any) -> Iterator[str]:
    """Yield the lines about one name."""
    if inspect.isfunction(thing):
        yield f"{path}: function"
        yield from signature_lines(path, thing)
    elif inspect.isclass(thing):
        bases = [base.__name__ for base in thing.__mro__[1:] if base.__module__.startswith(_OWN)]
        builtin = next((b.__name__ for b in thing.__mro__ if b.__module__ == "builtins"), "object")
        yield f"{path}: class({', '.join(bases) or builtin})"
        yield from class_lines(path, thing)
    else:
        yield f"{path}: {'type' if typing.get_origin(thing) else type(thing).__name__}"


def class_lines(path: str, cls: type) -> Iterator[str]:
    """Yield the lines about the public members of a class, inherited ones included."""
    if issubclass(cls, enum.Enum):
        yield from (f"{path}.{member.name} = {member.value!r}" for member in cls)
        return
    own = [base for base in cls.__mro__ if base.__module__.startswith(_OWN)]
    if typing.is_typeddict(cls):
        yield from (f"{path}[{key}]" for key in sorted(cls.__annotations__))
        return
    fields = {
        field.name for base in own if dataclasses.is_dataclass(base) for field in dataclasses.fields(base)
    }
    if not getattr(cls, "_is_protocol", False) and any(
        {"__init__", "__new__"} & vars(base).keys() for base in own
    ):
        yield from signature_lines(path, cls)
    members: dict[str, Any] = {}
    for base in reversed(own):
        members |= vars(base)
    for name in sorted({*members, *fields}):
        member = members.get(name)
        if name.startswith("_"):
            continue
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            yield f"{path}.{name}: method"
            yield from signature_lines(
                f"{path}.{name}", function, is_method=not isinstance(member, staticmethod)
            )
        elif name in fields or not inspect.isclass(member):
            yield f"{path}.{name}"


def signature_lines(path: str, function: Any, *, is_method: bool = False) -> Iterator[str]:
    """Yield the parameters with their defaults, and the errors that the docstring names."""
    parameters = [*inspect.signature(function).parameters.values()][is_method:]
    for index, one in enumerate(parameters):
        place = f"#{index} " if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) else ""
        name = f"*{one.name}" if one.kind is one.VAR_POSITIONAL else one.name
        if one.kind is one.VAR_KEYWORD:
            settings = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
            names = settings_of(function, settings[1]) if settings else [f"**{name}"]
            yield from (f"{path}({key}=…)" for key in names)
            continue
        if one.kind is one.POSITIONAL_ONLY:
            name = f"{name}/"
        yield f"{path}({place}{name}{'' if one.default is one.empty else f'={default(one.default)}'})"
    docs = inspect.getdoc(function) or ""
    raised = docs.partition("Raises:\n")[2].partition("\n\n")[0]
    yield from (f"{path} raises {name}" for name in sorted({*_RAISED.findall(raised)}))


def settings_of(function: Any, name: str) -> list[str]:
    """Return the keys of the TypedDict of ``**settings: Unpack[name]``."""
    settings = inspect.unwrap(function).__globals__[name]
    return sorted({*settings.__required_keys__, *settings.__optional_keys__})


def default(value: object) -> str:
    """Return a default in a form that is the same in each process and each version of Python."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    parts = value if isinstance(value, tuple) else (value,)
    return repr(value) if all(isinstance(part, _PLAIN) for part in parts) else "…"


def breaking_changes(released: list[str], now: list[str]) -> list[str]:
    """Return what programs that were written for the released API may stumble over."""
    before, after = set(released), set(now)
    gone = [f"gone: {line}" for line in released if line not in after]
    added = []
    for line in now:
        path, bracket, parameter = line.partition("(")
        is_required = (
            bracket and line.endswith(")") and "=" not in parameter and not parameter.startswith("*")
        )
        is_known = any(f"{path}: {kind}" in before for kind in ("function", "method"))
        if line not in before and is_required and is_known and ": " not in path:
            added.append(f"added: {line}")
    return gone + added


if __name__ == "__main__":
    CONTRACT.write_text("\n".join(lines()) + "\n", "utf-8")
