"""Finds the fields of a record class, whatever kind of class it is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args, get_origin

import typing_extensions
from pydantic import AliasChoices, BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.functional_validators import BeforeValidator, PlainValidator, WrapValidator

from .docs import attribute_docs
from .errors import UnsupportedTypeError
from .field_forms import tied, with_non_finite, without_unset
from .hints import class_hints
from .target import Target, type_name

__all__ = ["FieldSpec", "RecordSpec", "record_spec"]

Extra: TypeAlias = Literal["ignore", "forbid", "allow"]


class FieldSpec(NamedTuple):
    """A field: its name in the constructor, the JSON keys that mean it (the first is shown), its type.

    ``raw`` says that a validator of its class wants to see the JSON itself.
    """

    name: str
    keys: tuple[str, ...]
    form: Any
    required: bool
    description: str | None = None
    raw: bool = False


class RecordSpec(NamedTuple):
    """A record class: its fields, and how an instance is made from their values by name.

    ``make`` raises ValueError, TypeError or AssertionError when the values do not fit together.
    ``exact`` tells whether pydantic reads JSON into this class just as ``make`` would; ``extra`` what
    becomes of keys that no field has; ``by_key`` whether ``make`` takes the shown keys and not the names.
    ``adapter`` is pydantic's reading of the class; ``reshapes`` tells that a validator of the class wants
    to see the whole JSON object.
    """

    cls: type
    fields: tuple[FieldSpec, ...]
    make: Callable[[dict[str, Any]], Any]
    exact: bool = False
    extra: Extra = "ignore"
    by_key: bool = False
    description: str | None = None
    adapter: TypeAdapter[Any] | None = None
    reshapes: bool = False


def record_spec(target: Target) -> RecordSpec | None:
    """The fields of a pydantic model, dataclass, TypedDict, NamedTuple, attrs class or msgspec.Struct.

    None for all other types.
    """
    cls = target.origin
    if not isinstance(cls, type):
        return None
    if typing_extensions.is_typeddict(cls):
        return _typed_dict(target)
    if issubclass(cls, BaseModel):
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
    generated = isinstance(doc, str) and doc.startswith(f"{cls.__name__}(")
    return inspect.cleandoc(doc) if isinstance(doc, str) and doc.strip() and not generated else None


def _pydantic_fields(cls: Any, fields: Mapping[str, FieldInfo]) -> tuple[FieldSpec, ...]:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    docs = attribute_docs(cls)
    infos = [validator.info for validator in cls.__pydantic_decorators__.field_validators.values()]
    raw = {field for info in infos if info.mode != "after" for field in info.fields}
    specs = []
    for name, info in fields.items():
        if info.init is False:
            continue
        alias = info.validation_alias if info.validation_alias is not None else info.alias
        if isinstance(alias, AliasChoices):
            keys = tuple(choice for choice in alias.choices if isinstance(choice, str))
        else:
            keys = (alias,) if isinstance(alias, str) else ()
        if alias is not None and not keys and by_alias and not by_name:
            reason = f"its field {name!r} is named by a path into other fields"
            raise UnsupportedTypeError(type_name(cls), "", ["records"], reason)
        if not by_alias or not keys:
            keys = (name,)
        elif by_name and name not in keys:
            keys = (*keys, name)
        form: Any = tied(info.annotation, cls)
        if config.get("allow_inf_nan"):  # it says so itself, for pydantic's default is in no config
            form = with_non_finite(form)
        extras = list(info.metadata)
        if info.discriminator is not None:
            extras.append(FieldInfo(discriminator=info.discriminator))
        if extras:
            form = Annotated[(form, *extras)]
        said = info.description or docs.get(name)
        is_raw = not raw.isdisjoint({name, "*"}) or _wants_json(info.metadata)
        specs.append(FieldSpec(name, keys, form, info.is_required(), said, is_raw))
    return tuple(specs)


def _wants_json(metadata: Iterable[Any]) -> bool:
    """Whether a validator in the annotation itself sees the value before pydantic has read it."""
    return any(isinstance(item, (BeforeValidator, PlainValidator, WrapValidator)) for item in metadata)


def _pydantic_model(cls: type[BaseModel], namespace: Mapping[str, Any]) -> RecordSpec:
    if not cls.__pydantic_complete__:
        cls.model_rebuild(_types_namespace=dict(namespace))
    fields = _pydantic_fields(cls, cls.model_fields)
    extra = cls.model_config.get("extra") or "ignore"
    about = None if cls.__doc__ == BaseModel.__doc__ else _about(cls)
    return RecordSpec(
        cls,
        fields,
        cls.model_validate,
        exact=extra != "allow" and not _reshapes(cls),  # pydantic takes NaN there
        extra=extra,
        by_key=True,
        description=about,
        adapter=TypeAdapter(cls),
        reshapes=_reshapes(cls),
    )


def _reshapes(cls: Any) -> bool:
    validators = cls.__pydantic_decorators__.model_validators.values()
    return any(validator.info.mode != "after" for validator in validators)


def _pydantic_dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    adapter = TypeAdapter(target.form)
    fields = _pydantic_fields(cls, cls.__pydantic_fields__)
    extra: Extra = (getattr(cls, "__pydantic_config__", None) or {}).get("extra") or "ignore"
    return RecordSpec(
        cls,
        fields,
        adapter.validate_python,
        extra=extra,
        by_key=True,
        description=_about(cls),
        adapter=adapter,
        reshapes=_reshapes(cls),
    )


def _plain_specs(
    target: Target, required: Collection[str], optional: Collection[str]
) -> tuple[FieldSpec, ...]:
    """The fields of a class whose annotations are all that is said of them; any JSON without annotation."""
    docs = attribute_docs(target.origin)
    hints = class_hints(target.form, target.namespace)
    known = dict.fromkeys([*required, *optional], Any)
    forms = {**{name: form for name, form in hints.items() if name in known}, **known, **hints}
    return tuple(
        FieldSpec(
            name,
            (name,),
            forms[name].type if isinstance(forms[name], dataclasses.InitVar) else forms[name],
            name in required,
            docs.get(name),
        )
        for name in forms
        if name in known
    )


def _dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    missing = dataclasses.MISSING
    hints = class_hints(target.form, target.namespace)
    every: dict[str, dataclasses.Field[Any]] = cls.__dataclass_fields__  # fields() leaves InitVar out
    inits = {n: f for n, f in every.items() if f.init and not _is_class_var(hints.get(n))}
    optional = [n for n, f in inits.items() if f.default is not missing or f.default_factory is not missing]
    described = tuple(
        spec._replace(description=said)
        if isinstance(said := inits[spec.name].metadata.get("description"), str)
        else spec
        for spec in _plain_specs(target, [name for name in inits if name not in optional], optional)
    )
    return RecordSpec(cls, described, lambda values: cls(**values), description=_about(cls))


def _is_class_var(form: Any) -> bool:
    return form is ClassVar or get_origin(form) is ClassVar


def _typed_dict(target: Target) -> RecordSpec:
    cls: Any = target.origin
    hints = class_hints(target.form, target.namespace)
    # what the class itself says is wrong where its annotations were text
    said = {name: _is_required(form) for name, form in hints.items()}
    required = [n for n in hints if (n in cls.__required_keys__ if said[n] is None else said[n])]
    fields = _plain_specs(target, required, [name for name in hints if name not in required])
    return RecordSpec(cls, fields, dict, description=_about(cls))


def _is_required(form: Any) -> bool | None:
    """What the qualifiers around the type of a key say of it; None when they say nothing."""
    origin = get_origin(form)
    if origin is typing_extensions.Required:
        return True
    if origin is typing_extensions.NotRequired:
        return False
    if origin in (Annotated, typing_extensions.ReadOnly):
        return _is_required(get_args(form)[0])
    return None


def _named_tuple(target: Target) -> RecordSpec:
    cls: Any = target.origin
    required = [name for name in cls._fields if name not in cls._field_defaults]
    fields = _plain_specs(target, required, cls._field_defaults)
    return RecordSpec(cls, fields, lambda values: cls(**values), description=_about(cls))


def _attrs_class(target: Target) -> RecordSpec:
    import attrs  # a class of attrs is here, so the package is

    cls: Any = target.origin
    known = {attribute.name: attribute for attribute in attrs.fields(cls) if attribute.init}
    optional = [name for name, attribute in known.items() if attribute.default is not attrs.NOTHING]
    fields = _plain_specs(target, [name for name in known if name not in optional], optional)

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
        form = without_unset(hints[field.name])
        fields.append(FieldSpec(field.name, keys, form, field.required, docs.get(field.name)))

    def make(values: dict[str, Any]) -> Any:
        return cls(**{name: value for name, value in values.items() if name != tag})

    extra: Extra = "forbid" if config.forbid_unknown_fields else "ignore"
    return RecordSpec(cls, tuple(fields), make, extra=extra, description=_about(cls))
