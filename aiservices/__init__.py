"""Declare an interface with prompts and return types; get a working object backed by a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from output_parsers import (
        Coercion,
        Int8,
        Int16,
        Int32,
        Int64,
        Leniency,
        OutputParser,
        OutputParsingError,
        ParserFactory,
        ParserRegistry,
        Problem,
        Reading,
        Target,
        UnsupportedTypeError,
    )

    from .approval import ApprovalRequiredError, TurnState
    from .budget import Budget, CallContext, Price
    from .contents import Audio, File, Image, Media
    from .declare import (
        Description,
        History,
        MemoryId,
        ToolContext,
        UserName,
        example,
        options,
        structured_prompt,
        system_message,
        user_message,
    )
    from .errors import (
        AiServiceError,
        Attempt,
        AuthenticationError,
        BadRequestError,
        BudgetExceededError,
        ContentFilterError,
        DefinitionError,
        Fault,
        FinishError,
        InvalidReplyError,
        ModelConnectionError,
        ModelError,
        ModelNotFoundError,
        ModelServerError,
        ModelTimeoutError,
        RateLimitError,
        RefusalError,
        ServiceOutputError,
        ToolError,
        ToolLimitError,
        TruncatedError,
    )
    from .events import (
        AnswerRejected,
        CallCompleted,
        CallFailed,
        CallStarted,
        ReplyFailed,
        ReplyReceived,
        ToolFinished,
        ToolStarted,
    )
    from .flow import All, Ask, Do, Emit, Flow, Pause
    from .listening import Listener
    from .messages import (
        AiMessage,
        ChatReply,
        FinishReason,
        Message,
        ReplyDelta,
        SystemMessage,
        ToolCall,
        ToolCallDelta,
        ToolMessage,
        Usage,
        UserMessage,
    )
    from .methods import resume
    from .models.base import Capabilities, ChatModel
    from .models.fallback import FallbackChatModel
    from .models.local import LocalChatModel
    from .models.openai import OpenAiChatModel
    from .models.openai_responses import OpenAiResponsesModel
    from .models.scripted import ScriptedChatModel
    from .pipeline import Answer, Interceptor, Proceed
    from .plan import Turn
    from .previewing import Preview, preview
    from .requests import (
        ChatOptions,
        ChatRequest,
        JsonObjectFormat,
        JsonSchemaFormat,
        Tooling,
        ToolSpecification,
    )
    from .retry import Retry
    from .returns import Result
    from .service import create
    from .strategy import Strategy
    from .streams import AsyncStream, AttemptStarted, Completed, FieldCompleted, Stream
    from .tool_run import ToolErrors, ToolRun
    from .toolbox import ToolLimits
    from .tools import ReturnBehavior, Tool, ToolException, ToolProvider, tool

__all__ = [
    "AiMessage",
    "AiServiceError",
    "All",
    "Answer",
    "AnswerRejected",
    "ApprovalRequiredError",
    "Ask",
    "AsyncStream",
    "Attempt",
    "AttemptStarted",
    "Audio",
    "AuthenticationError",
    "BadRequestError",
    "Budget",
    "BudgetExceededError",
    "CallCompleted",
    "CallContext",
    "CallFailed",
    "CallStarted",
    "Capabilities",
    "ChatModel",
    "ChatOptions",
    "ChatReply",
    "ChatRequest",
    "Coercion",
    "Completed",
    "ContentFilterError",
    "DefinitionError",
    "Description",
    "Do",
    "Emit",
    "FallbackChatModel",
    "Fault",
    "FieldCompleted",
    "File",
    "FinishError",
    "FinishReason",
    "Flow",
    "History",
    "Image",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Interceptor",
    "InvalidReplyError",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "Leniency",
    "Listener",
    "LocalChatModel",
    "Media",
    "MemoryId",
    "Message",
    "ModelConnectionError",
    "ModelError",
    "ModelNotFoundError",
    "ModelServerError",
    "ModelTimeoutError",
    "OpenAiChatModel",
    "OpenAiResponsesModel",
    "OutputParser",
    "OutputParsingError",
    "ParserFactory",
    "ParserRegistry",
    "Pause",
    "Preview",
    "Price",
    "Problem",
    "Proceed",
    "RateLimitError",
    "Reading",
    "RefusalError",
    "ReplyDelta",
    "ReplyFailed",
    "ReplyReceived",
    "Result",
    "Retry",
    "ReturnBehavior",
    "ScriptedChatModel",
    "ServiceOutputError",
    "Strategy",
    "Stream",
    "SystemMessage",
    "Target",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolError",
    "ToolErrors",
    "ToolException",
    "ToolFinished",
    "ToolLimitError",
    "ToolLimits",
    "ToolMessage",
    "ToolProvider",
    "ToolRun",
    "ToolSpecification",
    "ToolStarted",
    "Tooling",
    "TruncatedError",
    "Turn",
    "TurnState",
    "UnsupportedTypeError",
    "Usage",
    "UserMessage",
    "UserName",
    "create",
    "example",
    "options",
    "preview",
    "resume",
    "structured_prompt",
    "system_message",
    "tool",
    "user_message",
]

# Where each name lives. A module is loaded when the first of its names is asked for: whoever declares an
# interface does not wait for the code that calls a model.
_HOMES = {
    "output_parsers": (
        "Coercion Int8 Int16 Int32 Int64 Leniency OutputParser OutputParsingError ParserFactory "
        "ParserRegistry Problem Reading Target UnsupportedTypeError"
    ),
    ".approval": "ApprovalRequiredError TurnState",
    ".budget": "Budget CallContext Price",
    ".contents": "Audio File Image Media",
    ".declare": (
        "Description History MemoryId ToolContext UserName example options structured_prompt "
        "system_message user_message"
    ),
    ".errors": (
        "AiServiceError Attempt AuthenticationError BadRequestError BudgetExceededError "
        "ContentFilterError DefinitionError Fault FinishError InvalidReplyError "
        "ModelConnectionError ModelError ModelNotFoundError ModelServerError ModelTimeoutError "
        "RateLimitError RefusalError ServiceOutputError ToolError ToolLimitError TruncatedError"
    ),
    ".events": (
        "AnswerRejected CallCompleted CallFailed CallStarted ReplyFailed ReplyReceived ToolFinished "
        "ToolStarted"
    ),
    ".flow": "All Ask Do Emit Flow Pause",
    ".listening": "Listener",
    ".messages": (
        "AiMessage ChatReply FinishReason Message ReplyDelta SystemMessage ToolCall ToolCallDelta "
        "ToolMessage Usage UserMessage"
    ),
    ".methods": "resume",
    ".models.base": "Capabilities ChatModel",
    ".models.scripted": "ScriptedChatModel",
    ".pipeline": "Answer Interceptor Proceed",
    ".plan": "Turn",
    ".previewing": "Preview preview",
    ".requests": "ChatOptions ChatRequest JsonObjectFormat JsonSchemaFormat Tooling ToolSpecification",
    ".retry": "Retry",
    ".returns": "Result",
    ".service": "create",
    ".strategy": "Strategy",
    ".streams": "AsyncStream AttemptStarted Completed FieldCompleted Stream",
    ".tool_run": "ToolErrors ToolRun",
    ".toolbox": "ToolLimits",
    ".tools": "ReturnBehavior Tool ToolException ToolProvider tool",
    ".models.fallback": "FallbackChatModel",
    ".models.local": "LocalChatModel",
    ".models.openai": "OpenAiChatModel",
    ".models.openai_responses": "OpenAiResponsesModel",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
