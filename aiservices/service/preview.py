"""Shows what a call would send, without sending it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec

from ..engine.budget import Budget
from ..engine.output_format import OutputFormat
from ..models.messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..models.requests import ChatOptions, ChatRequest, JsonSchemaFormat, ToolSpecification
from ..models.strategy import Strategy
from .create import plan_of

P = ParamSpec("P")


class Preview(NamedTuple):
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
    tools: tuple[ToolSpecification, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.method} → {self.model}", f"strategy: {self.strategy} ({'; '.join(self.reasons)})"]
        for message in self.messages:
            lines += ["", f"[{_ROLES[type(message)]}]", *_said(message)]
        if self.schema is not None:
            strict = ", strict" if self.strict else ""
            lines += ["", f"[schema{strict}]", json.dumps(self.schema, indent=2, ensure_ascii=False)]
        for tool in self.tools:
            strict = ", strict" if tool.strict else ""
            parameters = json.dumps(tool.parameters, indent=2, ensure_ascii=False)
            lines += ["", f"[tool {tool.name}{strict}]", tool.description, parameters]
        return "\n".join(lines)


_ROLES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}


def _said(message: Message) -> list[str]:
    if isinstance(message, UserMessage) and message.contents:
        return [str(part) for part in message.parts]
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    written = [f"{call.name}({call.arguments})" for call in calls]
    return [message.text, *written] if message.text or not written else written


def preview(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Preview:
    """What ``method`` of a service would send with these arguments. Needs no key and asks no model.

    Raises TypeError when ``method`` is no method of a service, or the arguments do not fit it.
    """
    plan = plan_of(method)
    invocation = plan.invocation(args, kwargs, Budget())
    wire = plan.routes[0].wire(invocation.request.options.model)
    model = plan.routes[0].model
    offered = None if plan.toolbox is None else plan.toolbox.offered(model.capabilities)
    tooling = None if offered is None else offered.tooling
    request = wire.prepare(invocation.request, invocation.examples, tooling)
    if plan.transform is not None:
        request = plan.transform(request)
    schema, strict = _schema(request, wire)
    return Preview(
        plan.where,
        plan.model.name,
        request.messages,
        request.options,
        wire.strategy,
        wire.reasons,
        schema,
        strict,
        () if tooling is None else tooling.tools,
    )


def _schema(request: ChatRequest, wire: OutputFormat[Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """The schema of the answer, or of the tool that gives it, and whether the provider is to enforce it."""
    form = request.response_format
    if isinstance(form, JsonSchemaFormat):
        return form.schema, form.strict
    if wire.tooling is not None:
        (tool,) = wire.tooling.tools
        return tool.parameters, tool.strict
    return None, False
