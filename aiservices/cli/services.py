"""Find or create the service that a command-line argument such as ``MODULE:SERVICE.METHOD`` names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin

import aiservices
import output_parsers

from ..interface.decorators import Declaration, declaration_of, is_stub, methods_of
from ..models.errors import DefinitionError, DefinitionProblem
from ..service.create import ServicePlan, create, plan_service
from ..service.methods import plan_of
from .errors import UsageError, suggestion

if TYPE_CHECKING:
    from ..engine.budget import Listener
    from ..engine.effects import Flow
    from ..engine.interceptor import Proceed
    from ..engine.plan import Invocation
    from ..engine.results import Answer
    from ..models.base import ChatModel


# --- Targets ---


class ServiceTarget(NamedTuple):
    """The interface, service or factory function that a command-line argument such as ``shop:Desk`` names.

    Attributes:
        module: The imported module.
        name: The name in the module.
        value: The object with this name.
        method: The method's name; "" selects all methods.
    """

    module: ModuleType
    name: str
    value: Any
    method: str = ""

    @property
    def is_interface(self) -> bool:
        return isinstance(get_origin(self.value) or self.value, type)

    def interface_of(self, service: object) -> object:
        """Return the interface of a service: the class that declares the methods."""
        return self.value if self.is_interface else type(service)


def split_target(target: str) -> tuple[str, str, str]:
    """Split ``MODULE:NAME.method`` into module, name and method; missing parts become ""."""
    module, colon, rest = target.rpartition(":")
    if not colon or (len(module) == 1 and rest.startswith(("\\", "/"))):  # the colon of a Windows drive
        return target, "", ""
    name, _, method = rest.partition(".")
    return module, name, method


def find_target(text: str) -> ServiceTarget:
    """Import the module that a command-line argument names and find its service, or raise UsageError."""
    module_name, name, method = split_target(text)
    module = load_module(module_name)
    names = service_names(module)
    if not name:
        candidates = "; ".join(f"{module_name}:{candidate}" for candidate in names)
        raise UsageError(f"name a service of {module_name}: {candidates or 'it has none'}")
    if not hasattr(module, name):
        raise UsageError(f"{module_name} has no {name}{suggestion(name, names)}")
    target = ServiceTarget(module, name, getattr(module, name), method)
    if not _may_be_service(target):
        kind = "a class" if target.is_interface else f"a value of type {type(target.value).__name__}"
        others = f"; services in {module_name}: {', '.join(names)}" if names else ""
        raise UsageError(f"{module_name}:{name} is not a service, but {kind}{others}")
    return target


def _may_be_service(target: ServiceTarget) -> bool:
    """Return True if an object named on the command line is a service or could create a service."""
    if not target.is_interface:
        return callable(target.value) or bool(method_names(target.value))
    cls = get_origin(target.value) or target.value
    return has_prompts(cls) or any(is_stub(attribute) for _, _, attribute in methods_of(cls))


def service_names(module: ModuleType) -> list[str]:
    """List the names of the service interfaces and services that a module defines."""
    return [name for name, value in vars(module).items() if _is_service(value, module)]


def _is_service(value: object, module: ModuleType) -> bool:
    if not isinstance(value, type):
        return not isinstance(value, ModuleType) and bool(method_names(value))
    is_abstract = getattr(value, "_is_protocol", False) or issubclass(value, ABC)
    has_stubs = any(is_stub(attribute) for _, _, attribute in methods_of(value))
    # An imported interface belongs to the module that defines it.
    return value.__module__ == module.__name__ and (has_prompts(value) or (is_abstract and has_stubs))


def has_prompts(interface: type) -> bool:
    """Return True if an interface declares prompts or options for a language model.

    A Protocol without prompts or options may have another purpose.
    """
    declared = [interface, *(attribute for _, _, attribute in methods_of(interface))]
    return any(declaration_of(one) != Declaration() for one in declared)


def is_bodiless_protocol(interface: type) -> bool:
    """Return True for a Protocol in which no method has a body."""
    kinds = (FunctionType, property, classmethod, staticmethod)
    attributes = [attribute for _, _, attribute in methods_of(interface) if isinstance(attribute, kinds)]
    return bool(getattr(interface, "_is_protocol", False)) and all(map(is_stub, attributes))


def method_names(service: object) -> list[str]:
    """Return the names of a service's methods, or an empty list for other objects."""
    names = []
    # Only methods that create has compiled have a plan.
    for name, _, attribute in methods_of(type(service)):
        try:
            plan_of(attribute)
        except TypeError:
            continue
        names.append(name)
    return names


def selected_methods(target: ServiceTarget, service: object) -> list[str]:
    """Return the methods that a command-line argument selects: a single method, or all methods of a service.

    Raises UsageError if the service does not have the method.
    """
    names = method_names(service)
    if not target.method:
        return names
    check_method(target, names)
    return [target.method]


def only_method(target_name: str, target: ServiceTarget, service: object) -> str:
    """Return the method that a command-line argument selects; raise UsageError if it selects several."""
    names = selected_methods(target, service)
    if len(names) > 1:
        raise UsageError(
            f"{target_name} has several methods; name one as {target_name}.METHOD: {', '.join(names)}"
        )
    return names[0]


def check_method(target: ServiceTarget, names: Sequence[str]) -> None:
    """Raise UsageError if the method that a command-line argument names is not one of ``names``."""
    if target.method not in names:
        raise UsageError(f"{target.name} has no method {target.method}{suggestion(target.method, names)}")


# --- Creating the service ---

_NO_MODEL = (
    "no model is set: pass --model openai:NAME (aiservices models list shows others, --model fake makes up "
    "answers), set AISERVICES_MODEL, or install the embedded model (the extra local of aiservices)"
)


def _without_memory(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
    """Interceptor that does nothing; it replaces the interceptor that would store the conversation."""
    return (yield from proceed(invocation))


def plan_target(target: ServiceTarget, model: ChatModel) -> ServicePlan:
    """Return the plans of an interface's methods, and the problems of its definition."""
    return plan_service(target.value, model, {"interceptors": [_without_memory]}, sys._getframe())


def make_service(
    target: ServiceTarget, model: ChatModel | str | None, listeners: Sequence[Listener] = ()
) -> object:
    """Return the service that a command-line argument names, creating it from an interface or factory.

    Raises DefinitionError for an invalid interface or without a model, and UsageError if no service is found.
    """
    if target.is_interface:
        if model is None and not os.environ.get("AISERVICES_MODEL") and not has_local_runtime():
            raise DefinitionError([DefinitionProblem(target.name, _NO_MODEL, unavailable=True)])
        return create(target.value, model, listeners=listeners, interceptors=[_without_memory])
    if method_names(target.value):
        if model is not None:
            raise UsageError(
                f"{target.name} is a service that already has a model; omit --model, or give the interface "
                "instead"
            )
        return target.value
    service = _call_factory(target.value, target.name, model)
    if not method_names(service):
        raise UsageError(
            f"{target.name}() returns an object of type {type(service).__name__}, which create did not make"
        )
    return service


def _call_factory(factory: Callable[..., object], name: str, model: ChatModel | str | None) -> object:
    """Call a function that creates a service, passing the model if the function accepts it."""
    parameters = _parameters_of(factory, name)
    required = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    others = [parameter for parameter in required if parameter != "model"]
    if others:
        raise UsageError(
            f"{name} needs arguments ({', '.join(others)}); name a function without required parameters"
        )
    if model is not None and "model" not in parameters:
        raise UsageError(f"{name} has no parameter model; omit --model")
    with redirect_stdout(sys.stderr):  # standard output is for the result of the command
        return factory(model=model) if model is not None or "model" in required else factory()


def _parameters_of(factory: Callable[..., object], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        raise UsageError(f"{name} is neither a service nor a function that creates one") from None


def accepts_model(target: ServiceTarget) -> bool:
    """Return True if the option ``--model`` can be used for the service named on the command line."""
    if target.is_interface or method_names(target.value):
        return target.is_interface
    return "model" in _parameters_of(target.value, target.name)


def has_local_runtime() -> bool:
    """Return True if the Python package that runs the embedded model is installed."""
    return find_spec("xllamacpp") is not None


# --- Importing the module ---

# Files of libraries: a traceback usually ends there, while the error is in the code that called them.
_LIBRARY_PATHS = (
    "<frozen ",
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(package.__path__[0] + os.sep for package in (aiservices, output_parsers)),
)


def load_module(name: str) -> ModuleType:
    """Import a module by its name or file path, such as ``shop.services`` or ``shop/services.py``.

    Names and paths are relative to the current folder. A file in a package is imported by its full name, so
    that its relative imports work. Raises UsageError if the module does not exist or its import fails.
    """
    # Both forms are accepted, because shells complete file names but not module names.
    if name.endswith(".py") or "/" in name or os.sep in name:
        return _load_file(Path(name))
    return _import_from(Path.cwd(), name)


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    parts, folder = [path.stem], path.parent
    # Go up to the first folder that is not a package: imports of the package are relative to it.
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    module = _import_from(folder, ".".join(parts))
    # sys.modules may already have another module of this name, for example json for ./json.py.
    if Path(module.__file__ or "").resolve() != path:
        raise UsageError(
            f"{path} would be imported as {module.__name__}, which is {module.__file__ or 'built in'}; "
            "give the file another name"
        )
    return module


def _import_from(folder: Path, name: str) -> ModuleType:
    # The script aiservices does not have the current folder on its path, unlike python -m.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the result of the command
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The missing module may be one that this module imports.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            message = f"the module {name} cannot be imported: {_describe_import_error(error)}"
            raise UsageError(message) from error
        hint = _module_suggestion(error.name, folder)
        raise UsageError(f"there is no module {error.name} in {folder}{hint}") from error
    except (Exception, SystemExit) as error:  # a module can run any code on import
        message = f"the module {name} cannot be imported: {_describe_import_error(error)}"
        raise UsageError(message) from error


def _module_suggestion(name: str, folder: Path) -> str:
    """Return a "did you mean" question with a similar module name, or "" if no name is similar."""
    package, _, last = name.rpartition(".")
    paths = list(getattr(sys.modules.get(package), "__path__", ())) if package else [str(folder)]
    matches = get_close_matches(last, [info.name for info in iter_modules(paths)], 1)
    return f"; did you mean {package}{'.' if package else ''}{matches[0]}?" if matches else ""


def _describe_import_error(error: BaseException) -> str:
    """Describe an import error: its type, its message, and the line of user code that caused it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_PATHS)]
    location = f" ({user_frames[-1].filename}, line {user_frames[-1].lineno})" if user_frames else ""
    return f"{type(error).__name__}: {error}{location}"
