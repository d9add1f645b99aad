"""An extension of griffe that prepares docstrings and class members for the reference pages."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Class, Extension, Object

_CODE_FOLLOWS = re.compile(r"::$(?=\n\n +)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .+(?:\n(?!\s*$).+)*", re.MULTILINE)


class Docstrings(Extension):
    """Shows ``>>>`` examples as code blocks, and hides the attributes that ``__init__`` assigns."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:  # Markdown reads ``>>>`` as a quotation
            text = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = _CODE_FOLLOWS.sub(":", text)  # Markdown indents code after one colon

    def on_class(self, *, cls: Class, **_: Any) -> None:
        for name, member in list(cls.members.items()):
            if isinstance(member, Attribute) and _is_assigned_only(member):
                cls.del_member(name)


def _is_assigned_only(attribute: Attribute) -> bool:
    """Return True for an attribute that is only assigned to ``self`` and is not a documented field."""
    is_instance_attribute = attribute.value is not None and "class-attribute" not in attribute.labels
    return is_instance_attribute and attribute.docstring is None and "property" not in attribute.labels
