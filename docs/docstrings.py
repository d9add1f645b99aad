"""Says what the reference shows of the code, which griffe reads without running it."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Class, Extension, Object

_EXAMPLE = re.compile(r"^>>> .+(?:\n(?!\s*$).+)*", re.MULTILINE)


class Docstrings(Extension):
    """Examples become code, and what an ``__init__`` keeps for itself is left out."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:  # Markdown would take ``>>>`` for a quotation
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        for name, member in list(cls.members.items()):
            if isinstance(member, Attribute) and _assigned(member):
                cls.del_member(name)


def _assigned(attribute: Attribute) -> bool:
    """Whether it is an assignment to ``self``, and no field: its meaning is told by the class."""
    kept = attribute.value is not None and "class-attribute" not in attribute.labels
    return kept and attribute.docstring is None and "property" not in attribute.labels
