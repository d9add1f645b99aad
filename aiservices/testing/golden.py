"""Compares what the methods of a service would send with files that were looked at and accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ..service.create import is_planned, plan_of
from ..service.preview import preview
from .fake import samples_for
from .serialization import write_whole

_BETWEEN = "\n\n" + "=" * 72 + "\n\n"


class GoldenError(AssertionError):
    """What would be sent is not what was accepted."""


class Golden:
    """Compares with the golden files of one test; ``update`` accepts what there is now instead.

    The first comparison of a test is with ``path``, the next ones with files numbered from 2.
    """

    def __init__(self, path: Path, *, update: bool) -> None:
        self._path = path
        self._update = update
        self._made = 0

    def __call__(self, subject: Any, /, *args: Any, **kwargs: Any) -> None:
        """Compare what a method of a service would send with these arguments, or what all methods would.

        For a service, the arguments are mappings by the names of its methods, as in
        ``golden(service, ask={"text": "tea"})``; for what is not named they are made up. Raises GoldenError
        with the difference, TypeError for what is no service.
        """
        text = _text(subject, args, kwargs) + "\n"
        self._made += 1
        path = self._path
        if self._made > 1:
            path = path.with_name(f"{path.stem}-{self._made}{path.suffix}")
        before = path.read_text("utf-8") if path.exists() else None
        if self._update:
            if text != before:
                write_whole(path, text)
        elif before is None:
            raise GoldenError(
                f"there is no golden file {path} yet. What would be sent:\n\n{text}\n"
                "Look at it, and accept it with pytest --update-golden"
            )
        elif text != before:
            diff = unified_diff(before.splitlines(), text.splitlines(), str(path), "now", lineterm="")
            raise GoldenError(
                "what would be sent has changed:\n"
                + "\n".join(diff)
                + "\nAccept it with pytest --update-golden"
            )


def _text(subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return (shown_call if is_planned(subject) else _service_text)(subject, *args, **kwargs)


def _service_text(service: object, /, *args: Any, **given: Any) -> str:
    methods = {
        name: method for name in dir(type(service)) if is_planned(method := getattr(service, name, None))
    }
    if not methods:
        plan_of(service)  # says that it is none
    unknown = [name for name in given if name not in methods]
    if args or unknown:
        what = ", ".join(unknown) or repr(args[0])
        name, known = type(service).__name__, ", ".join(methods)
        raise TypeError(f"{name} has no method {what}; name the arguments by method: {known}")
    texts = []
    for name, method in sorted(methods.items()):
        arguments = given.get(name)
        texts.append(shown_call(method, **(samples_for(method) if arguments is None else arguments)))
    return _BETWEEN.join(texts)


def shown_call(method: Any, /, *args: Any, **kwargs: Any) -> str:
    """What a call would send: the way of asking, messages, schema, tools and options."""
    found = preview(method, *args, **kwargs)
    headers = ("extra_headers",)  # may hold credentials
    options = {
        name: value
        for name, value in asdict(found.options).items()
        if value is not None and name not in headers
    }
    said = [f"{name}: {value!r}" for name, value in options.items()]
    return "\n".join([str(found), *(["", "[options]", *said] if said else [])])
