"""What an interface says to those who call it from elsewhere: its methods, their arguments and answers.

The endpoints, the client and the description of a service are all made of it, so that they agree.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, NotRequired, get_origin, get_type_hints

from output_parsers.errors import UnsupportedTypeError
from output_parsers.hints import fillings_of, substitute
from output_parsers.registry import DEFAULT_REGISTRY, ParserFactory, ParserRegistry
from output_parsers.target import type_name

from ...declare import declaration_of
from ...errors import DefinitionError, Fault
from ...parameters import Parameter, Role, RoleFault, parameters_of
from ...returns import Returns, Shape, ShapeFault, shape_of
from ...scopes import names_around
from ...stubs import is_stub, methods_of
from ...tool_parameters import summary_of
from .account import result_codec
from .forms import from_wire, to_wire, wire_form
from .values import Codec, codec_for, record_of

__all__ = ["Argument", "Contract", "Method", "contract_of"]

# What tells the model nothing and may do much, so that a caller from elsewhere has no say in it.
_WITHHELD = (Role.TOOL_CONTEXT, Role.OPTIONS)


class Argument(NamedTuple):
    """One parameter of a method as it goes over the wire; ``many`` are those of ``*names``.

    ``declared`` is its type as it was written, of which ``codec`` has the form on the wire.
    """

    name: str
    declared: str
    role: Role | None
    codec: Codec[Any]
    required: bool
    many: bool


class Method:
    """One method: how it is called, what it is given and what it gives.

    ``arguments`` are the parameters that a caller gives; ``withheld`` those that are filled where the service
    runs, or keep their defaults. ``value`` is the codec of what the model is asked for, of items that of
    one; ``result`` that of the value with its account.
    """

    def __init__(
        self,
        where: str,
        function: Any,
        signature: inspect.Signature,
        returns: Returns,
        arguments: tuple[Argument, ...],
        withheld: tuple[str, ...],
        value: Codec[Any],
        result: Codec[Any],
        body: Codec[dict[str, Any]],
    ) -> None:
        self.where = where
        self.service, self.name = where.split(".")
        self.signature = signature
        self.returns = returns
        self.arguments = arguments
        self.withheld = withheld
        self.value = value
        self.result = result
        self.body = body
        self.doc = summary_of(inspect.getdoc(function) or "")

    @property
    def path(self) -> str:
        """Where it is, unless something else is said: ``/is-positive`` for ``is_positive``."""
        return "/" + self.name.strip("_").replace("_", "-")

    @property
    def streams(self) -> bool:
        """Whether it hands over its answer while it is written."""
        return self.returns.shape not in (Shape.VALUE, Shape.RESULT)

    @cached_property
    def _many(self) -> str | None:
        return next((argument.name for argument in self.arguments if argument.many), None)

    def written(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], omit: Collection[str] = ()) -> str:
        """The arguments of a call as a JSON object; those not given are left out, as those of ``omit``.

        Raises TypeError when they do not fit the signature, and ValueError for one that is none of its type.
        """
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.where}: {error}") from None
        for name in self.withheld:
            default = self.signature.parameters[name].default
            if name not in omit and given.get(name, default) is not default:
                raise ValueError(f"{self.where}: {name} is filled where the service runs; it cannot be sent")
        names = [one.name for one in self.arguments if one.name in given and one.name not in omit]
        try:
            fields = {name: to_wire(given[name]) for name in names}
            if self._many in fields:
                fields[self._many] = list(fields[self._many])
            return self.body.write(fields)
        except ValueError as error:
            raise ValueError(f"{self.where}: the arguments cannot be sent: {error}") from error

    def bound(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by name as those of a call: positional ones first, where the signature wants that."""
        named = {name: from_wire(value) for name, value in given.items()}
        if self._many is None or self._many not in named:
            positional = [
                named.pop(name)
                for name, parameter in self.signature.parameters.items()
                if parameter.kind is parameter.POSITIONAL_ONLY and name in named
            ]
            return positional, named
        before: list[Any] = []
        for name, parameter in self.signature.parameters.items():
            if name == self._many:
                break
            before.append(named.pop(name, parameter.default))
        return [*before, *named.pop(self._many)], named


class Contract(NamedTuple):
    """An interface: its name, what it says of itself, and its methods by name."""

    name: str
    doc: str
    methods: Mapping[str, Method]


def contract_of(
    interface: Any, *, parsers: Sequence[ParserFactory] = (), filled: Collection[str] = ()
) -> Contract:
    """The contract of a Protocol, an ABC, or of the class of a service that ``create`` made.

    ``filled`` names parameters that callers do not give. Raises DefinitionError with all faults at once.
    """
    cls = get_origin(interface) or interface
    registry = DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY
    name = type_name(interface)
    if not isinstance(cls, type):
        raise DefinitionError([Fault(name, "it is no class; pass the interface of the service")])
    fillings = fillings_of(interface)
    faults: list[Fault] = []
    methods: dict[str, Method] = {}
    for method, owner, attribute in methods_of(cls):
        if is_stub(inspect.unwrap(attribute)):
            where = f"{cls.__name__}.{method}"
            made = _method(attribute, where, registry, fillings.get(owner, {}), filled, faults)
            if made is not None:
                methods[method] = made
    if not methods and not faults:
        faults.append(Fault(name, "it has no method without a body; pass the interface of the service"))
    if faults:
        raise DefinitionError(faults)
    return Contract(name, _doc_of(cls), methods)


def _doc_of(cls: type) -> str:
    """What an interface says of itself; not what Protocol and other bases say."""
    said = cls.__dict__.get("__doc__")
    return inspect.cleandoc(said) if isinstance(said, str) else ""


def _method(
    function: Any,
    where: str,
    registry: ParserRegistry,
    filling: Mapping[Any, Any],
    filled: Collection[str],
    faults: list[Fault],
) -> Method | None:
    inner = inspect.unwrap(function)
    namespace = {**names_around(sys._getframe(), inner), **declaration_of(inner).namespace}
    try:
        hints = get_type_hints(inner, localns=namespace, include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        faults.append(Fault(where, f"an annotation cannot be resolved: {error}"))
        return None
    hints = {name: substitute(hint, filling) for name, hint in hints.items()}
    signature = inspect.signature(inner)
    try:
        returns = shape_of(hints.get("return"), asynchronous=inspect.iscoroutinefunction(inner))
        value = codec_for(returns.form, registry, namespace)
        result = result_codec(returns.form, value.name, registry, namespace)
        parameters = parameters_of(signature, hints)
    except (ShapeFault, RoleFault, UnsupportedTypeError) as error:
        faults.extend(Fault(where, str(said)) for said in (error.args or (error,)))
        return None
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    arguments, fields, withheld = [], dict[str, Any](), []
    for parameter in parameters:
        if parameter.name in filled or parameter.role in _WITHHELD:
            withheld.append(parameter.name)
            continue
        found = _argument(parameter, hints, own, registry, namespace, where, faults)
        if found is not None:
            argument, form = found
            arguments.append(argument)
            fields[parameter.name] = form if argument.required else NotRequired[form]
    title = "".join(part[:1].upper() + part[1:] for part in where.partition(".")[2].split("_"))
    body = codec_for(record_of(f"{title}Arguments", fields), registry, namespace)
    return Method(where, inner, own, returns, tuple(arguments), tuple(withheld), value, result, body)


def _argument(
    parameter: Parameter,
    hints: Mapping[str, Any],
    signature: inspect.Signature,
    registry: ParserRegistry,
    namespace: Mapping[str, Any],
    where: str,
    faults: list[Fault],
) -> tuple[Argument, Any] | None:
    said = signature.parameters[parameter.name]
    if said.kind is said.VAR_KEYWORD:
        faults.append(
            Fault(where, f"the parameter **{said.name} has no names to be called by; name each one")
        )
        return None
    many = said.kind is said.VAR_POSITIONAL
    declared = hints.get(parameter.name, Any)
    form = wire_form(declared)
    form = list[form] if many else form  # type: ignore[valid-type]
    try:
        codec = codec_for(form, registry, namespace)
    except UnsupportedTypeError as error:
        faults.append(Fault(where, f"the parameter {said.name} cannot be sent: {error}"))
        return None
    required = said.default is said.empty and not many
    return Argument(said.name, type_name(declared), parameter.role, codec, required, many), form
