"""What stands in a prompt for arguments that nobody has given: ``{{text}}``, as in its template."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..contents import Audio, File, Image
from ..messages import UserMessage
from ..parameters import Parameter, Role
from ..plan import MethodPlan
from ..prompts import field_names, record_prompt

__all__ = ["placeholders_for"]

_NOWHERE = "https://placeholder.invalid"


class _Placeholder:
    """Stands for a value of any type: what a template asks of it is a placeholder again."""

    unsafe_callable = alters_data = False  # jinja2's sandbox asks before it calls

    def __init__(self, name: str, shown: str = "") -> None:
        self._name = name
        self._shown = shown or f"{{{{{name}}}}}"

    def __str__(self) -> str:
        return self._shown

    def __call__(self, *args: object) -> _Placeholder:
        return _Placeholder(f"{self._name}({', '.join(map(repr, args))})")

    def __getattr__(self, name: str) -> _Placeholder:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Placeholder(f"{self._name}.{name}")

    def __getitem__(self, key: Any) -> _Placeholder:
        return _Placeholder(f"{self._name}[{key!r}]")

    def __iter__(self) -> Iterator[_Placeholder]:
        yield self

    def __len__(self) -> int:
        return 1


class _ImagePlaceholder(Image):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


class _AudioPlaceholder(Audio):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


class _FilePlaceholder(File):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


_MEDIA: dict[Any, type[Image | Audio | File]] = {
    Image: _ImagePlaceholder,
    Audio: _AudioPlaceholder,
    File: _FilePlaceholder,
}


def placeholders_for(
    plan: MethodPlan, given: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments of a call that shows its prompt, and whether there is a placeholder among them.

    Those ``given`` are taken, and those left out that have a default.
    """
    parameters = {parameter.name: parameter for parameter in plan.parameters}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    stands_for_something = False
    for name, said in plan.signature.parameters.items():
        if said.kind is said.VAR_KEYWORD:
            continue
        if name in given:
            value = given[name]
        elif said.default is not inspect.Parameter.empty:
            value = said.default
        else:
            stands_for_something = True
            value = _stand_in(parameters[name])
            value = [value] if said.kind is said.VAR_POSITIONAL else value
        if said.kind is said.VAR_POSITIONAL:
            args += value
        elif said.kind is said.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), kwargs, stands_for_something


def _stand_in(parameter: Parameter) -> Any:
    name, written = parameter.name, f"{{{{{parameter.name}}}}}"
    match parameter.role:
        case Role.HISTORY:
            return (UserMessage(written),)
        case Role.USER_MESSAGE if str not in parameter.types:
            return UserMessage(written)
        case Role.OPTIONS | Role.TOOL_CONTEXT:
            return None
        case Role.USER_MESSAGE | Role.USER_NAME | Role.MEMORY_ID:
            return written
        case Role.MEDIA:
            kind = next((_MEDIA[one] for one in parameter.types if one in _MEDIA), None)
            one = (kind or _ImagePlaceholder)(None, None, _NOWHERE, name)
            return one if kind else [one]
    return _of_record(parameter) or _Placeholder(name)


def _of_record(parameter: Parameter) -> _Placeholder | None:
    """For a structured prompt, its template with placeholders for its fields."""
    for cls in parameter.types:
        prompt = record_prompt(cls) if isinstance(cls, type) else None
        if prompt is not None:
            fields = {name: _Placeholder(f"{parameter.name}.{name}") for name in field_names(cls)}
            return _Placeholder(parameter.name, prompt.render(fields, cls.__name__))
    return None
