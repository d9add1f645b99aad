"""Says to a model which tools there are, what it called, and what came of that, in turns of any template.

A template that knows tools has a form of its own for each kind of model, and small models seldom keep to it.
Here the form that is told is the form that the grammar enforces, whatever the template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiservices.messages import AiMessage, Message, ToolCall, ToolMessage, UserMessage
from aiservices.requests import Tooling, ToolSpecification

__all__ = ["ANSWER", "CALL", "repeated", "result_of", "said_with", "section_of"]

# The first words of a reply are the model's choice, made in words: between two kinds of JSON a small model
# takes nearly always the same one (measured on 0.5 B: all calls or none; so 20 of 26 choices were right).
CALL = "Call: "
ANSWER = "Answer: "
_CALLING = CALL + '{"name": <function name>, "arguments": {<its arguments>}}'


def section_of(tooling: Tooling, messages: Sequence[Message]) -> str:
    """What the system message says of the tools, as the conversation stands."""
    if tooling.choice != "auto":
        return f"You can call functions:\n{_list(tooling)}\n\nCall one now: reply with\n{_CALLING}"
    if isinstance(messages[-1], ToolMessage):  # the other words would make it call without an end
        return (
            f"These functions know what you do not know:\n{_list(tooling)}\n\n"
            f"To call one, write: {_CALLING}\n"
            f"You get its result. When you know enough, write: {ANSWER}<the reply to the user>"
        )
    return (
        f"You can call functions:\n{_list(tooling)}\n\n"
        "Reply with one line and nothing else, one of these two:\n"
        f"{_CALLING}\n{ANSWER}<the reply to the user>\n\n"
        "Call a function for what you do not know. As soon as you know it, answer."
    )


def _list(tooling: Tooling) -> str:
    return "\n".join(_short(tool) for tool in tooling.tools)


def _short(tool: ToolSpecification) -> str:
    """A tool as a line: small models read a short one better, and the grammar has the whole schema."""
    schema = tool.parameters
    told: dict[str, Any] = {"name": tool.name, "description": tool.description}
    told["parameters"] = schema.get("properties", {})
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return json.dumps({**told, **definitions}, ensure_ascii=False)


def said_with(message: AiMessage, tooling: Tooling | None) -> str:
    """A reply as the model wrote it: its calls one a line; else its text, marked where tools are offered."""
    if message.tool_calls:
        return "\n".join(CALL + _written(call) for call in message.tool_calls)
    return message.text if tooling is None else ANSWER + message.text


def _written(call: ToolCall) -> str:
    return f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def result_of(message: ToolMessage, calls: Mapping[str, ToolCall]) -> str:
    """What a tool answered, beside the arguments, as one tool may be called several times at once."""
    call = calls.get(message.call_id)
    return f"{message.name}({'' if call is None else call.arguments}) returned: {message.text}"


def repeated(messages: Sequence[Message]) -> frozenset[str]:
    """The tools that since the last message of the user were called twice alike, with the same result.

    A small model does so again and again; as it learns nothing by it, it has to go on then.
    """
    users = (at for at, said in enumerate(messages) if isinstance(said, UserMessage))
    since = messages[max(users, default=0) :]
    calls = {call.id: call for said in since if isinstance(said, AiMessage) for call in said.tool_calls}
    results = [
        (said.name, calls[said.call_id].arguments, said.text)
        for said in since
        if isinstance(said, ToolMessage) and said.call_id in calls
    ]
    return frozenset(result[0] for result in results if results.count(result) > 1)
