"""Declare an interface with prompts and return types; get a working object backed by a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

from .budget import Budget, CallContext, Price
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
    TruncatedError,
)
from .flow import All, Ask, Do, Emit, Flow, Pause
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
from .models.base import Capabilities, ChatModel
from .models.scripted import ScriptedChatModel
from .pipeline import Answer, Interceptor, Proceed
from .plan import Turn
from .preview import Preview, preview
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

if TYPE_CHECKING:
    from .models.fallback import FallbackChatModel
    from .models.local import LocalChatModel
    from .models.openai import OpenAiChatModel
    from .models.openai_responses import OpenAiResponsesModel

__all__ = [
    "AiMessage",
    "AiServiceError",
    "All",
    "Answer",
    "Ask",
    "AsyncStream",
    "Attempt",
    "AttemptStarted",
    "AuthenticationError",
    "BadRequestError",
    "Budget",
    "BudgetExceededError",
    "CallContext",
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
    "FinishError",
    "FinishReason",
    "Flow",
    "History",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Interceptor",
    "InvalidReplyError",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "Leniency",
    "LocalChatModel",
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
    "Result",
    "Retry",
    "ScriptedChatModel",
    "ServiceOutputError",
    "Strategy",
    "Stream",
    "SystemMessage",
    "Target",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolMessage",
    "ToolSpecification",
    "Tooling",
    "TruncatedError",
    "Turn",
    "UnsupportedTypeError",
    "Usage",
    "UserMessage",
    "UserName",
    "create",
    "example",
    "options",
    "preview",
    "structured_prompt",
    "system_message",
    "user_message",
]

# Models are edge modules: they are loaded when they are asked for, never by importing the package.
_LATE = {
    "FallbackChatModel": "aiservices.models.fallback",
    "OpenAiChatModel": "aiservices.models.openai",
    "OpenAiResponsesModel": "aiservices.models.openai_responses",
    "LocalChatModel": "aiservices.models.local",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LATE[name]), name)
    globals()[name] = value
    return value
