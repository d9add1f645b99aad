"""Shows what a call would send, without sending it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec

from .budget import Budget
from .messages import Message, SystemMessage, UserMessage
from .requests import ChatOptions, JsonSchemaFormat
from .service import plan_of
from .strategy import Strategy

__all__ = ["Preview", "preview"]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Preview:
    """What one call would send: ``str()`` of it is for reading.

    ``schema`` is the JSON Schema that goes to the provider, None where none does; ``reasons`` say why
    the strategy was chosen.
    """

    method: str
    model: str
    messages: tuple[Message, ...]
    options: ChatOptions
    strategy: Strategy
    reasons: tuple[str, ...]
    schema: Mapping[str, Any] | None
    strict: bool

    def __str__(self) -> str:
        lines = [f"{self.method} → {self.model}", f"strategy: {self.strategy} ({'; '.join(self.reasons)})"]
        for message in self.messages:
            lines += ["", f"[{_ROLES.get(type(message), 'assistant')}]", message.text]
        if self.schema is not None:
            strict = ", strict" if self.strict else ""
            lines += ["", f"[schema{strict}]", json.dumps(self.schema, indent=2, ensure_ascii=False)]
        return "\n".join(lines)


_ROLES: dict[type, str] = {SystemMessage: "system", UserMessage: "user"}


def preview(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Preview:
    """What ``method`` of a service would send with these arguments. Needs no key and asks no model.

    Raises TypeError when ``method`` is no method of a service, or the arguments do not fit it.
    """
    plan = plan_of(method)
    request = plan.turn(args, kwargs, Budget()).request
    if plan.transform is not None:
        request = plan.transform(request)
    sent = request.response_format
    schema = sent if isinstance(sent, JsonSchemaFormat) else None
    return Preview(
        plan.where,
        plan.model.name,
        request.messages,
        request.options,
        plan.wire.strategy,
        plan.wire.reasons,
        None if schema is None else schema.schema,
        schema is not None and schema.strict,
    )
