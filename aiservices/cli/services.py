"""Finds services in a module, and makes what is asked for of them."""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin

from ..declare import Declaration, declaration_of
from ..service import create, plan_of
from ..stubs import is_stub, methods_of
from .failures import Mistake, meant
from .modules import module_named

if TYPE_CHECKING:
    from ..listening import Listener
    from ..models.base import ChatModel

__all__ = [
    "Found",
    "find",
    "has_runtime",
    "is_prompted",
    "make",
    "method_names",
    "methods_to_ask",
    "model_named",
    "services_in",
    "split",
    "takes_model",
]


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
