"""The function ``preview``, which shows the chat request of a service method without sending it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any, NamedTuple, ParamSpec

from ..engine.budget import Budget
from ..engine.output_format import OutputFormat
from ..engine.plan import Invocation
from ..models.base import ChatModel
from ..models.messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..models.requests import (
    ChatOptions,
    ChatRequest,
    DecisionFormat,
    JsonSchemaFormat,
    Question,
    ToolSpecification,
)
from ..models.strategy import Strategy
from .methods import plan_of

P = ParamSpec("P")

_ROLE_NAMES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}


class Preview(NamedTuple):
    """The first chat request of a service call; ``str()`` converts it to readable text.

    Attributes:
        method: The name of the method, ``Service.method``.
        model: The name of the model.
        messages: The messages.
        options: The options of the request.
        strategy: How structured output is requested.
        reasons: Why the strategy was chosen.
        schema: The JSON Schema that is sent to the provider; None if there is none.
        strict: True if the provider enforces the schema.
        tools: The tools that the model may call, including the one by which it gives its answer.
        tool_choice: Whether the model must call a tool: "auto", "required", "none" or the name of a tool.
        questions: The questions that a decision endpoint gets about the messages.
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
    tool_choice: str = "auto"
    questions: tuple[Question, ...] = ()

    def __repr__(self) -> str:
        messages = f"{len(self.messages)} message{'' if len(self.messages) == 1 else 's'}"
        return f"<Preview of {self.method}: {messages} to {self.model}, strategy {self.strategy}>"

    def __rich_repr__(self) -> Iterator[str]:
        yield str(self)

    def _repr_html_(self) -> str:
        """Return the text of the preview for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [f"{self.method} → {self.model}", f"strategy: {self.strategy} ({'; '.join(self.reasons)})"]
        for message in self.messages:
            lines += ["", f"[{_ROLE_NAMES[type(message)]}]", *_content_lines(message)]
        answers_by_tool = any(tool.parameters == self.schema for tool in self.tools)
        if self.schema is not None and not answers_by_tool:
            strict = ", strict" if self.strict else ""
            lines += ["", f"[schema{strict}]", json.dumps(self.schema, indent=2, ensure_ascii=False)]
        for tool in self.tools:
            strict = ", strict" if tool.strict else ""
            parameters = json.dumps(tool.parameters, indent=2, ensure_ascii=False)
            purpose = ", gives the answer" if tool.parameters == self.schema else ""
            lines += ["", f"[tool {tool.name}{strict}{purpose}]", tool.description, parameters]
        for question in self.questions:
            options = [
                f"- {json.dumps(o.value, ensure_ascii=False)} {o.description}" for o in question.options
            ]
            lines += ["", f"[question {question.path}, {question.kind}]", question.text]
            lines += [line.rstrip() for line in options]
        if self.tools:
            lines += ["", f"tool choice: {self.tool_choice}"]
        return "\n".join(lines)


class PreviewedRequest(NamedTuple):
    """The first chat request of a service call, with the model that would receive it.

    Attributes:
        preview: The parts of the request for people.
        model: The model.
        request: The request.
    """

    preview: Preview
    model: ChatModel
    request: ChatRequest


def preview(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Preview:
    """Return the first request that a service method would send, without sending it.

    ``method`` may also be ``reply`` of a ReActAgent, or ``invoke`` of the model that ``structured`` returns.
    No API key is needed.

    Raises TypeError if ``method`` is none of these, or if the arguments do not fit it.
    """
    return preview_request(method, *args, **kwargs).preview


def preview_request(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> PreviewedRequest:
    """Return the first request that a service method would send, with the model that would receive it."""
    make_invocation = getattr(getattr(method, "__self__", None), "preview_invocation", None)
    if make_invocation is not None:
        invocation: Invocation = make_invocation(*args, **kwargs)
    else:
        invocation = plan_of(method).invocation(args, kwargs, Budget())  # any budget, as nothing is sent
    plan, route, toolbox = invocation.plan, invocation.routes[0], invocation.toolbox
    output_format = route.output_format(invocation.request.options.model)
    offered = None if toolbox is None else toolbox.offered_to(route.model.capabilities)
    tooling = None if offered is None else offered.tooling
    request = output_format.prepare(invocation.request, invocation.examples, tooling)
    request = invocation.apply_request_hooks(request)
    schema, strict = _schema(request, output_format)
    prompt = Preview(
        plan.qualname,
        route.model.name,
        request.messages,
        request.options,
        output_format.strategy,
        output_format.reasons,
        schema,
        strict,
        () if request.tooling is None else request.tooling.tools,
        "auto" if request.tooling is None else request.tooling.choice,
        request.response_format.questions if isinstance(request.response_format, DecisionFormat) else (),
    )
    return PreviewedRequest(prompt, route.model, request)


def _content_lines(message: Message) -> list[str]:
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    call_lines = [f"{call.name}({call.arguments})" for call in calls]
    if not isinstance(message, SystemMessage) and message.contents:
        return [*[str(part) for part in message.parts], *call_lines]
    return [message.text, *call_lines] if message.text or not call_lines else call_lines


def _schema(request: ChatRequest, output_format: OutputFormat) -> tuple[Mapping[str, object] | None, bool]:
    """Return the JSON Schema sent with a request, and True if the provider enforces it (strict mode)."""
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        return response_format.schema, response_format.strict
    if output_format.tooling is not None:
        (tool,) = output_format.tooling.tools
        return tool.parameters, tool.strict
    return None, False
