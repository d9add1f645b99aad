"""Suggestions for names that do not exist here, such as names from other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The modules with public names that are not in ``aiservices`` itself.
_MODULES = """
agents call_log documents guardrails integrations.fastapi integrations.mcp integrations.otel interceptors
journal memory moderation page prices retrieval rows skills synthesis testing
""".split()
_STRUCTURED = "structured(model, Type).invoke(text), from aiservices import structured"
# The counterparts of names from other libraries.
_NAMES: dict[str, str] = {
    **dict.fromkeys(("Agent", "AIAgent", "Assistant", "AgentExecutor", "create_react_agent"), "ReActAgent"),
    **dict.fromkeys(("AiServices", "AIServices", "AiService", "build", "builder", "Service"), "create"),
    **dict.fromkeys(("ChatOpenAI", "OpenAI", "OpenAIModel", "OpenAIChat", "AsyncOpenAI"), "OpenAiChatModel"),
    **dict.fromkeys(("ChatAnthropic", "Anthropic", "AnthropicModel", "Claude"), "AnthropicChatModel"),
    **dict.fromkeys(("ChatBedrock", "BedrockConverseModel"), "BedrockChatModel"),
    **dict.fromkeys(("ChatGoogleGenerativeAI", "GoogleModel", "GeminiModel"), "GeminiChatModel"),
    **dict.fromkeys(("ChatOllama", "OllamaChatModel", "Ollama"), 'the model string "ollama:NAME"'),
    **dict.fromkeys(("AzureChatOpenAI", "AzureOpenAI"), 'the model string "azure:DEPLOYMENT"'),
    **dict.fromkeys(("init_chat_model", "infer_model", "LLM"), 'a model string such as "openai:NAME"'),
    **dict.fromkeys(("from_openai", "from_provider", "patch", "instructor", "extract"), _STRUCTURED),
    **dict.fromkeys(("with_structured_output", "PydanticOutputParser"), _STRUCTURED),
    **dict.fromkeys(("HumanMessage", "UserPrompt"), "UserMessage"),
    **dict.fromkeys(("AIMessage", "AssistantMessage"), "AiMessage"),
    **dict.fromkeys(("ToolReturnPart", "ToolExecutionResultMessage"), "ToolMessage"),
    **dict.fromkeys(("ConversationBufferMemory", "MemorySaver", "MessageWindowChatMemory"), "ChatMemory"),
    **dict.fromkeys(("ModelSettings", "GenerationConfig", "ChatSettings"), "ChatOptions"),
    **dict.fromkeys(("UsageLimits", "UsageLimit"), "Budget"),
    **dict.fromkeys(("TestModel", "MockModel", "FakeListChatModel"), "FakeChatModel"),
    **dict.fromkeys(("FunctionModel", "MockChatModel"), "ScriptedChatModel"),
    **dict.fromkeys(("RunContext", "Deps", "RunContextWrapper"), "a parameter of the tool with ToolContext"),
    "ModelRetry": "ToolException",
    "chatprompt": "user_message and system_message",
    "prompt": "user_message",
    "V": "the parameters of the method, by their names, as in {{text}}",
    "function_tool": "tool",
    "P": "Annotated[type, ToolContext]",
}


def missing_name(module: str, name: str, names: list[str]) -> Exception:
    """Return the error for a public name that a module does not have, which says what to write instead.

    ``names`` are the names that it has. A statement such as ``from aiservices import Agent`` gets an
    ImportError, because Python would hide the message of another error.
    """
    from opcode import opmap

    message = f"module {module!r} has no attribute {name!r}"
    frame = sys._getframe(2)
    is_looked_up = frame.f_globals.get("__name__") == "importlib._bootstrap"  # before a submodule is imported
    if is_looked_up or name.startswith("_"):
        return AttributeError(message)
    advice = _advice(module.partition(".")[0], name, names)
    if advice is None:
        return AttributeError(message)
    is_import = frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
    message = f"{message}; {advice}"
    # with another object, so that tracebacks do not add a suggestion of Python's
    return ImportError(message) if is_import else AttributeError(message, name=name, obj=None)


def _advice(package: str, name: str, names: list[str]) -> str | None:
    from difflib import get_close_matches
    from importlib import import_module
    from importlib.util import find_spec

    folded = {one.casefold(): one for one in names}
    if name.casefold() in folded:
        return f"did you mean {folded[name.casefold()]}?"
    if name in _NAMES:
        return f"use {_NAMES[name]}"
    elsewhere: dict[str, str] = {}
    for other in _MODULES:
        try:
            there = import_module(f"{package}.{other}").__all__
        except Exception:  # its extra is not installed
            continue
        if name in there:
            return f"it is in {package}.{other}: from {package}.{other} import {name}"
        elsewhere.update({one.casefold(): f"{one}, from {package}.{other}" for one in there})
    parsers = import_module("output_parsers")
    if name in parsers.__all__:
        return f"it is in output_parsers: from output_parsers import {name}"
    if name.casefold() in elsewhere:
        return f"did you mean {elsewhere[name.casefold()]}?"
    for folder in (f"{package}.integrations", package):
        if name.isidentifier() and find_spec(f"{folder}.{name}") is not None:
            return f"it is a module: import {folder}.{name}"
    close = get_close_matches(name.casefold(), folded, 1, 0.8)
    if close:
        return f"did you mean {folded[close[0]]}?"
    close = get_close_matches(name.casefold(), elsewhere, 1, 0.85)
    return f"did you mean {elsewhere[close[0]]}?" if close else None


def explains_guesses(**hints: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: the AttributeError for a name of ``hints`` says what to write instead."""

    def get_attribute(self: object, name: str) -> object:
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in hints:
            raise AttributeError(f"{message}; use {hints[name]}", name=name, obj=None)
        raise AttributeError(message, name=name, obj=self)

    def decorate(cls: type[T]) -> type[T]:
        cls.__getattr__ = get_attribute  # type: ignore[attr-defined]  # hidden from type checkers
        return cls

    return decorate
