"""Finds the fields of a record class, whatever kind of class it is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import typing_extensions
from pydantic import AliasChoices, BaseModel, RootModel, TypeAdapter
from pydantic.fields import FieldInfo

from .choices import attribute_docs
from .hints import class_hints
from .target import Target

__all__ = ["FieldSpec", "RecordSpec", "record_spec"]

Extra: TypeAlias = Literal["ignore", "forbid", "allow"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field: its name in the constructor, the JSON keys that mean it (the first is shown), its type."""

    name: str
    keys: tuple[str, ...]
    form: Any
    required: bool
    description: str | None = None


@dataclass(frozen=True, slots=True)
class RecordSpec:
    """A record class: its fields, and how an instance is made from their values by name.

    ``make`` raises ValueError, TypeError or AssertionError when the values do not fit together.
    ``exact`` tells whether pydantic reads JSON into this class just as ``make`` would; ``extra`` what
    becomes of keys that no field has; ``by_key`` whether ``make`` takes the shown keys and not the names.
    """

    cls: type
    fields: tuple[FieldSpec, ...]
    make: Callable[[dict[str, Any]], Any]
    exact: bool = False
    extra: Extra = "ignore"
    by_key: bool = False
    description: str | None = None


def record_spec(target: Target) -> RecordSpec | None:
    """The fields of a pydantic model, dataclass, TypedDict, NamedTuple, attrs class or msgspec.Struct.

    None for all other types.
    """
    cls = target.origin
    if not isinstance(cls, type):
        return None
    if typing_extensions.is_typeddict(cls):
        return _typed_dict(target)
    if issubclass(cls, BaseModel) and not issubclass(cls, RootModel):
        return _pydantic_model(cls, target.namespace)
    if hasattr(cls, "__pydantic_fields__") and dataclasses.is_dataclass(cls):
        return _pydantic_dataclass(target)
    if hasattr(cls, "__attrs_attrs__"):
        return _attrs_class(target)
    if hasattr(cls, "__struct_fields__"):
        return _struct(target)
    if dataclasses.is_dataclass(cls):
        return _dataclass(target)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(target)
    return None


def _about(cls: type) -> str | None:
    doc = cls.__dict__.get("__doc__")
    generated = isinstance(doc, str) and (
        doc.startswith(f"{cls.__name__}(") or doc.startswith("dict() ->") or issubclass(cls, Mapping)
    )
    return inspect.cleandoc(doc) if isinstance(doc, str) and doc.strip() and not generated else None


def _pydantic_fields(cls: Any, fields: Mapping[str, FieldInfo]) -> tuple[FieldSpec, ...]:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    specs = []
    for name, info in fields.items():
        if info.init is False:
            continue
        alias = info.validation_alias if info.validation_alias is not None else info.alias
        if isinstance(alias, AliasChoices):
            keys = tuple(choice for choice in alias.choices if isinstance(choice, str))
        else:
            keys = (alias,) if isinstance(alias, str) else ()
        if not by_alias or not keys:
            keys = (name,)
        elif by_name and name not in keys:
            keys = (*keys, name)
        form: Any = info.annotation
        extras = list(info.metadata)
        if info.discriminator is not None:
            extras.append(FieldInfo(discriminator=info.discriminator))
        if extras:
            form = Annotated[(form, *extras)]
        specs.append(FieldSpec(name, keys, form, info.is_required(), info.description))
    return tuple(specs)


def _pydantic_model(cls: type[BaseModel], namespace: Mapping[str, Any]) -> RecordSpec:
    if not cls.__pydantic_complete__:
        cls.model_rebuild(_types_namespace=dict(namespace))
    fields = _pydantic_fields(cls, cls.model_fields)
    extra = cls.model_config.get("extra") or "ignore"
    about = None if cls.__doc__ == BaseModel.__doc__ else _about(cls)
    return RecordSpec(cls, fields, cls.model_validate, True, extra, by_key=True, description=about)


def _pydantic_dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    adapter = TypeAdapter(target.form)
    fields = _pydantic_fields(cls, cls.__pydantic_fields__)
    extra: Extra = (getattr(cls, "__pydantic_config__", None) or {}).get("extra") or "ignore"
    return RecordSpec(cls, fields, adapter.validate_python, extra=extra, by_key=True, description=_about(cls))


def _plain_specs(
    target: Target, required: Collection[str], optional: Collection[str]
) -> tuple[FieldSpec, ...]:
    """The fields of a class whose annotations are all that is said of them."""
    docs = attribute_docs(target.origin)
    return tuple(
        FieldSpec(name, (name,), form, name in required, docs.get(name))
        for name, form in class_hints(target.form, target.namespace).items()
        if name in required or name in optional
    )


def _dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    missing = dataclasses.MISSING
    inits = {field.name: field for field in dataclasses.fields(cls) if field.init}
    optional = [n for n, f in inits.items() if f.default is not missing or f.default_factory is not missing]
    described = tuple(
        dataclasses.replace(spec, description=said)
        if isinstance(said := inits[spec.name].metadata.get("description"), str)
        else spec
        for spec in _plain_specs(target, inits.keys() - set(optional), optional)
    )
    return RecordSpec(cls, described, lambda values: cls(**values), description=_about(cls))


def _typed_dict(target: Target) -> RecordSpec:
    cls: Any = target.origin
    fields = _plain_specs(target, cls.__required_keys__, cls.__optional_keys__)
    return RecordSpec(cls, fields, dict, description=_about(cls))


def _named_tuple(target: Target) -> RecordSpec:
    cls: Any = target.origin
    fields = _plain_specs(target, set(cls._fields) - set(cls._field_defaults), cls._field_defaults)
    return RecordSpec(cls, fields, lambda values: cls(**values), description=_about(cls))


def _attrs_class(target: Target) -> RecordSpec:
    import attrs  # a class of attrs is here, so the package is

    cls: Any = target.origin
    known = {attribute.name: attribute for attribute in attrs.fields(cls) if attribute.init}
    optional = [name for name, attribute in known.items() if attribute.default is not attrs.NOTHING]
    fields = _plain_specs(target, known.keys() - set(optional), optional)

    def make(values: dict[str, Any]) -> Any:
        return cls(**{known[name].alias: value for name, value in values.items()})

    return RecordSpec(cls, fields, make, description=_about(cls))


def _struct(target: Target) -> RecordSpec:
    import msgspec  # a Struct is here, so the package is

    cls: Any = target.origin
    docs = attribute_docs(cls)
    hints = class_hints(target.form, target.namespace)
    fields = []
    config = cls.__struct_config__
    tag = config.tag_field
    if tag is not None:
        fields.append(FieldSpec(tag, (tag,), Literal[config.tag], True))
    for field in msgspec.structs.fields(cls):
        keys = (field.encode_name,)
        fields.append(FieldSpec(field.name, keys, hints[field.name], field.required, docs.get(field.name)))

    def make(values: dict[str, Any]) -> Any:
        return cls(**{name: value for name, value in values.items() if name != tag})

    extra: Extra = "forbid" if config.forbid_unknown_fields else "ignore"
    return RecordSpec(cls, tuple(fields), make, extra=extra, description=_about(cls))
