"""Declare an interface with prompts and return types, and get an object that calls a language model."""

from __future__ import annotations

from typing import Any

from .models import BUILT_IN as _BUILT_IN

# Named as text, so that a program imports only the providers that it uses.
_BUILT_IN |= {
    "openai": "aiservices.models.openai:OpenAiChatModel.named",
    "openai-responses": "aiservices.models.openai:OpenAiResponsesModel.named",
    "azure": "aiservices.models.openai:OpenAiChatModel.azure",
    "azure-responses": "aiservices.models.openai:OpenAiResponsesModel.azure",
    "anthropic": "aiservices.models.providers.anthropic:AnthropicChatModel.named",
    "gemini": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google-vertex": "aiservices.models.providers.gemini:GeminiChatModel.vertex",
    "bedrock": "aiservices.models.providers.bedrock:BedrockChatModel.named",
    "openai-decisions": "aiservices.models.providers.decisions:DecisionChatModel.openai",
    "google-decisions": "aiservices.models.providers.decisions:DecisionChatModel.google",
    "systemone": "aiservices.models.providers.decisions:DecisionChatModel.systemone",
    "ollama": "aiservices.models.openai:OpenAiChatModel.ollama",
    "local": "aiservices.models.local:LocalChatModel.named",
    "fake": "aiservices.testing.fake:FakeChatModel.named",
}

# The module of each public name. It is imported when the name is first used, so that declaring an interface
# does not import the code that calls models. ``__init__.pyi`` tells type checkers the same.
_NAMES = {
    "output_parsers": (
        "Cited CitedSentence CitedText Coercion Decision Description Int16 Int32 Int64 Int8 Leniency "
        "OutputParser OutputParsingError ParserFactory ParserRegistry Problem Quote Reading Scale Target "
        "UnsupportedTypeError ValidatorError"
    ),
    ".documents.document": "Document",
    ".engine.approval": "AlreadyResumedError ApprovalRequiredError SuspendedCall",
    ".engine.budget": "Budget Listener Price SharedBudget",
    ".engine.durable": "Durable",
    ".engine.pipeline": "InnerCalls",
    ".decisions.calibration": "Calibration CalibrationEntry Calibrator",
    ".engine.response_cache": "ResponseCache",
    ".engine.results": "Result",
    ".engine.retry": "Retry",
    ".engine.streams": (
        "AnswerRejected AsyncStream AttemptStarted CallClosed CallCompleted CallFailed CallStarted Completed "
        "FieldCompleted ReplyFailed ReplyReceived Stream ToolFinished ToolStarted ToolUndone"
    ),
    ".interface.decorators": (
        "CallId History MemoryId ToolContext Tools UserName example structured_prompt system_message "
        "user_message"
    ),
    ".journal": (
        "CallCancelledError CallChangedError CallIdError CallInProgressError Journal JournalError "
        "JournalStore StoredCall"
    ),
    ".models.base": "Capabilities ChatModel",
    ".models.errors": (
        "AiServiceError Attempt AuthenticationError BadRequestError BudgetExceededError "
        "ContentFilterError DefinitionError DefinitionProblem FinishError InnerCall InvalidReplyError "
        "MediaNotAllowedError MissingExtraError ModelConnectionError ModelError ModelNotFoundError "
        "ModelServerError ModelTimeoutError ProbabilitiesUnavailableError RateLimitError RefusalError "
        "ReplayedError ServiceOutputError Strategy StreamConsumedError SuspendedCallError ToolError "
        "ToolLimitError TruncatedError"
    ),
    ".models.fallback": "FallbackChatModel",
    ".models.limits": "LimitedChatModel Limits",
    ".models.local": "LocalChatModel",
    ".models.media": "Audio File Image Media",
    ".models.media_policy": "MediaPolicy",
    ".models.messages": (
        "AiMessage ChatReply FinishReason Message ProviderState ReplyDelta ServerToolRun SystemMessage "
        "TokenLogprob ToolCall ToolCallDelta ToolMessage Usage UserMessage messages_from_json "
        "messages_to_json"
    ),
    ".models.openai": "OpenAiChatModel OpenAiResponsesModel",
    ".models.presets": "Preset",
    ".models.providers.anthropic": "AnthropicChatModel",
    ".models.providers.bedrock": "BedrockChatModel",
    ".models.providers.decisions": "DecisionChatModel",
    ".models.providers.gemini": "GeminiChatModel",
    ".models.requests": (
        "ChatOptions ChatRequest ImageFormat JsonObjectFormat JsonSchemaFormat ToolSpecification Tooling"
    ),
    ".models.registry": "register_provider",
    ".models.scripted": "ScriptedChatModel",
    ".retrieval.tool_search": "ToolSearch",
    ".service.create": "create",
    ".service.methods": "Preview acall call preview resume",
    ".service.recovery": "RecoveredCall arecover decide recover",
    ".service.settings": "options",
    ".tools.tool": "Denied ReturnBehavior Tool ToolAnswer ToolErrors ToolException ToolProvider ToolRun tool",
    ".tools.toolbox": "ToolLimits",
    ".structured_model": "Structured StructuredModel structured",
    ".rows": "amap_rows filter_rows map_rows",
    ".memory": "ChatMemory",
    ".testing.fake": "FakeChatModel",
    ".guardrails": "InputGuardrails OutputGuardrails",
    ".agents": "ReActAgent",
    ".retrieval": "RetrievalAugmentor",
    ".call_log": "log_calls",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]  # it reads __init__.pyi


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("aiservices")
    if name not in _MODULES:
        from .guesses import missing_name

        raise missing_name(__name__, name, __all__)
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
