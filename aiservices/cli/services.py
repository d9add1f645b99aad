"""Finds services in a module, and makes what is asked for of them."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import sysconfig
import traceback
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin

import typer

import aiservices
import output_parsers

from ..interface.decorators import Declaration, declaration_of
from ..interface.stubs import is_stub, methods_of
from ..service.create import create, plan_of
from .console import say

if TYPE_CHECKING:
    from ..engine.pipeline import Listener
    from ..models.base import ChatModel


class ExitCode(IntEnum):
    """What a command says to the shell."""

    DONE = 0
    FAILED = 1  # the call failed, or the check found problems
    USAGE = 2  # what was typed, or the definition of the service, is wrong
    STOPPED = 130  # Ctrl+C


class Mistake(Exception):
    """What was typed cannot be done; the message says what to type instead."""


class Failure(Exception):
    """What was asked for was right, and did not work."""


@contextmanager
def reported(*, debug: bool, as_json: bool = False) -> Iterator[None]:
    """End the command with the exit code of the error that is raised inside, and say it on standard error.

    ``debug`` shows the traceback before it; ``as_json`` also writes the error as JSON to standard output.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise typer.Exit(ExitCode.STOPPED) from None
    except BrokenPipeError:  # who reads has seen enough, which the command line's own machinery knows
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        if as_json:
            print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))
        say(f"error: {_said(error)}", file=sys.stderr)
        raise typer.Exit(_code_of(error)) from None


def _code_of(error: Exception) -> ExitCode:
    from ..models.errors import DefinitionError

    return ExitCode.USAGE if isinstance(error, (Mistake, DefinitionError)) else ExitCode.FAILED


def _said(error: Exception) -> str:
    from ..models.errors import AiServiceError

    if isinstance(error, (Mistake, Failure, AiServiceError)):
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows where)"


def meant(typed: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that is not known: the closest of those that are, or all of them."""
    close = get_close_matches(typed, known, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(known)}" if known else ""


# What a module stands on: the line at fault is seldom there, but in the one that called it.
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = (
    "<frozen ",
    *(sysconfig.get_path(name) + os.sep for name in _PLACES),
    *(package.__path__[0] + os.sep for package in (aiservices, output_parsers)),
)


def module_named(name: str) -> ModuleType:
    """The module ``shop.services`` or ``shop/services.py``, as seen from the current folder.

    A file within packages is imported by its whole name, so that its relative imports work. Raises Mistake
    when there is none, and when it cannot be imported.
    """
    if name.endswith(".py") or "/" in name or os.sep in name:
        return _of_file(Path(name))
    return _imported(name, Path.cwd())


def _of_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise Mistake(f"there is no file {path}")
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    module = _imported(".".join(parts), folder)
    if Path(module.__file__ or "").resolve() != path:
        raise Mistake(
            f"{path} would be imported as {module.__name__}, which is {module.__file__ or 'built in'}; "
            "give the file another name"
        )
    return module


def _imported(name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is not what the command tells
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise Mistake(f"the module {name} cannot be imported: {_raised(error)}") from error
        close = _meant(error.name, folder)
        raise Mistake(f"there is no module {error.name}, as seen from {folder}{close}") from error
    except (Exception, SystemExit) as error:  # the module may do anything
        raise Mistake(f"the module {name} cannot be imported: {_raised(error)}") from error


def _meant(name: str, folder: Path) -> str:
    """The module of that package, or of the folder, whose name is close."""
    package, _, last = name.rpartition(".")
    places = list(getattr(sys.modules.get(package), "__path__", ())) if package else [str(folder)]
    close = get_close_matches(last, [found.name for found in iter_modules(places)], 1)
    return f"; did you mean {package}{'.' if package else ''}{close[0]}?" if close else ""


def _raised(error: BaseException) -> str:
    """What a module raised, and the last line of the program, and of no library, that led there."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if not step.filename.startswith(_LIBRARIES)]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


_NO_MODEL = (
    "no model is named: say --model openai:NAME (aiservices models lists others, --model fake makes answers "
    "up), set AISERVICES_MODEL, or install the embedded model with pip install 'aiservices[local]'"
)


class Found(NamedTuple):
    """What stands at ``MODULE:NAME``: an interface, a service that the program made, or what makes one.

    ``method`` is the one that was named behind it; "" for all.
    """

    module: ModuleType
    name: str
    value: Any
    method: str = ""

    @property
    def is_interface(self) -> bool:
        return isinstance(get_origin(self.value) or self.value, type)

    def interface_of(self, service: object) -> Any:
        """What declares a service that was made of this."""
        return self.value if self.is_interface else type(service)


def split(target: str) -> tuple[str, str, str]:
    """The module, the name in it and the method of ``MODULE:NAME.method``; "" for what is not said."""
    module, colon, rest = target.rpartition(":")
    if not colon or (len(module) == 1 and rest.startswith(("\\", "/"))):  # the drive of a path
        return target, "", ""
    name, _, method = rest.partition(".")
    return module, name, method


def find(target: str) -> Found:
    """What a target stands for. Raises Mistake, with the names that there are."""
    module_name, name, method = split(target)
    module = module_named(module_name)
    known = services_in(module)
    if not name:
        said = "; ".join(f"{module_name}:{one}" for one in known) or "there is none in it"
        raise Mistake(f"say which service of {module_name}: {said}")
    if not hasattr(module, name):
        raise Mistake(f"{module_name} has no {name}{meant(name, known)}")
    found = Found(module, name, getattr(module, name), method)
    if not _may_be_one(found):
        kind = "a class" if found.is_interface else f"a value of type {type(found.value).__name__}"
        others = f"; services in {module_name}: {', '.join(known)}" if known else ""
        raise Mistake(f"{module_name}:{name} is no service, but {kind}{others}")
    return found


def _may_be_one(found: Found) -> bool:
    """Whether a service is there, or can be made: of a class, whether it has a method to implement."""
    if not found.is_interface:
        return callable(found.value) or bool(method_names(found.value))
    cls = get_origin(found.value) or found.value
    return is_prompted(cls) or any(is_stub(attribute) for _, _, attribute in methods_of(cls))


def services_in(module: ModuleType) -> list[str]:
    """The names of the services of a module: its own interfaces, and objects that ``create`` made."""
    return [name for name, value in vars(module).items() if _is_service(value, module)]


def _is_service(value: Any, module: ModuleType) -> bool:
    if not isinstance(value, type):
        return not isinstance(value, ModuleType) and bool(method_names(value))
    open_to_all = getattr(value, "_is_protocol", False) or issubclass(value, ABC)
    stubs = any(is_stub(attribute) for _, _, attribute in methods_of(value))
    return value.__module__ == module.__name__ and (is_prompted(value) or (open_to_all and stubs))


def is_prompted(interface: type) -> bool:
    """Whether an interface says anything to a model: a Protocol without a word may be for something else."""
    said = [interface, *(attribute for _, _, attribute in methods_of(interface))]
    return any(declaration_of(one) != Declaration() for one in said)


def method_names(service: object) -> list[str]:
    """The names of the methods of a service; none for what is no service that ``create`` made."""
    found = []
    for name, _, attribute in methods_of(type(service)):
        try:
            plan_of(attribute)
        except TypeError:
            continue
        found.append(name)
    return found


def make(found: Found, model: ChatModel | str | None, listeners: Sequence[Listener] = ()) -> object:
    """The service that was asked for. Raises DefinitionError, and Mistake when none can be made."""
    if found.is_interface:
        if model is None and not _has_default_model():
            raise Mistake(_NO_MODEL)
        return create(found.value, model, listeners=listeners)
    if method_names(found.value):
        if model is not None:
            raise Mistake(
                f"{found.name} is a service with a model already; leave --model out, or name its interface"
            )
        return found.value
    service = _made_by(found.value, found.name, model)
    if not method_names(service):
        raise Mistake(f"{found.name}() gives a {type(service).__name__}, which is no service made by create")
    return service


def _made_by(factory: Callable[..., object], name: str, model: ChatModel | str | None) -> object:
    """What a function of the program makes, which is given the model where it takes one."""
    parameters = _parameters_of(factory, name)
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters.values() if p.default is empty and p.kind not in kinds]
    others = [one for one in needed if one != "model"]
    if others:
        raise Mistake(f"{name} needs arguments ({', '.join(others)}); name a function that needs none")
    if model is not None and "model" not in parameters:
        raise Mistake(f"{name} takes no model; leave --model out")
    with redirect_stdout(sys.stderr):  # what it prints is not what the command tells
        return factory(model=model) if model is not None or "model" in needed else factory()


def _parameters_of(factory: Callable[..., object], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        raise Mistake(f"{name} is no service, and no function that makes one") from None


def _has_default_model() -> bool:
    """Whether there is a model where none is named: that of the environment, or the embedded one."""
    return bool(os.environ.get("AISERVICES_MODEL")) or has_runtime()


def has_runtime() -> bool:
    """Whether the embedded model can run here."""
    return find_spec("xllamacpp") is not None


def takes_model(found: Found) -> bool:
    """Whether a model can be said for it."""
    if found.is_interface or method_names(found.value):
        return found.is_interface
    return "model" in _parameters_of(found.value, found.name)


def methods_to_ask(found: Found, service: object) -> list[str]:
    """The method that was named, or all of them. Raises Mistake when there is none of that name."""
    known = method_names(service)
    if not found.method:
        return known
    if found.method not in known:
        raise Mistake(f"{found.name} has no method {found.method}{meant(found.method, known)}")
    return [found.method]


def model_named(name: str | None) -> ChatModel | str | None:
    """What ``--model`` stands for: ``fake`` makes answers up, all else is as in ``create``."""
    if name != "fake":
        return name
    from ..testing.fake import FakeChatModel  # for trying things out, which is seldom

    return FakeChatModel()
