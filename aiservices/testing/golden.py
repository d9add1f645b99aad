"""Compare a service's model requests with accepted versions (golden files) in tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ..atomic_file import write_atomically
from ..service.methods import is_service_method, plan_of, preview
from .fake import sample_arguments

_SEPARATOR = "\n\n" + "=" * 72 + "\n\n"


class GoldenError(AssertionError):
    """Raised if a model request differs from the accepted version (golden file), or the file is missing."""


class Golden:
    """Compares a service's model requests with the golden files (accepted versions) of one test.

    The first comparison uses ``path``; further ones use files numbered from 2. With ``update`` the golden
    files are written instead.
    """

    def __init__(self, path: Path, *, update: bool) -> None:
        self._path = path
        self._update = update
        self._comparisons = 0

    def __call__(self, subject: object, /, *args: object, **kwargs: object) -> None:
        """Compare the model requests of one or all methods of a service with their golden files.

        For a service, each keyword is a method's name and its value a mapping of arguments, as in
        ``golden(service, ask={"text": "tea"})``. The arguments of other methods are generated. Raises
        GoldenError with the difference, and TypeError if the subject is not a service.
        """
        # version control may store other line ends than those of a prompt
        text = _text(subject, args, kwargs).replace("\r\n", "\n") + "\n"
        self._comparisons += 1
        path = self._path
        if self._comparisons > 1:
            path = path.with_name(f"{path.stem}-{self._comparisons}{path.suffix}")
        accepted = path.read_text("utf-8") if path.exists() else None
        if self._update:
            if text != accepted:
                write_atomically(path, text)
        elif accepted is None:
            raise GoldenError(
                f"there is no golden file {path} yet. What would be sent:\n\n{text}\n"
                "Look at it, and accept it with pytest --update-golden"
            )
        elif text != accepted:
            # A diff instead of both texts: prompts and schemas are long.
            diff = unified_diff(accepted.splitlines(), text.splitlines(), str(path), "now", lineterm="")
            raise GoldenError(
                "what would be sent has changed:\n"
                + "\n".join(diff)
                + "\nAccept it with pytest --update-golden"
            )


def _text(subject: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    return (call_text if is_service_method(subject) else _service_text)(subject, *args, **kwargs)


def _service_text(service: object, /, *args: object, **arguments_by_method: Any) -> str:
    methods = {
        name: method
        for name in dir(type(service))
        if is_service_method(method := getattr(service, name, None))
    }
    if not methods:
        plan_of(service)  # raises TypeError: it is not a service
    unknown = [name for name in arguments_by_method if name not in methods]
    if args or unknown:
        wrong = ", ".join(unknown) or repr(args[0])
        raise TypeError(
            f"{type(service).__name__} has no method {wrong}; name the arguments by method: "
            f"{', '.join(methods)}"
        )
    texts = []
    for name, method in sorted(methods.items()):
        arguments = arguments_by_method.get(name)
        texts.append(call_text(method, **(sample_arguments(method) if arguments is None else arguments)))
    return _SEPARATOR.join(texts)


def call_text(method: Any, /, *args: object, **kwargs: object) -> str:
    """Convert a model request to text for a golden file: strategy, messages, schema, tools and options."""
    call = preview(method, *args, **kwargs)
    hidden = ("extra_headers",)  # they may contain credentials
    options = [
        f"{name}: {value!r}"
        for name, value in asdict(call.options).items()
        if value is not None and name not in hidden
    ]
    return "\n".join([str(call), *(["", "[options]", *options] if options else [])])
