from output_parsers import (
    Cited as Cited,
    CitedSentence as CitedSentence,
    CitedText as CitedText,
    Coercion as Coercion,
    Decision as Decision,
    Description as Description,
    Int8 as Int8,
    Int16 as Int16,
    Int32 as Int32,
    Int64 as Int64,
    Leniency as Leniency,
    OutputParser as OutputParser,
    OutputParsingError as OutputParsingError,
    ParserFactory as ParserFactory,
    ParserRegistry as ParserRegistry,
    Problem as Problem,
    Quote as Quote,
    Reading as Reading,
    Scale as Scale,
    Target as Target,
    UnsupportedTypeError as UnsupportedTypeError,
    ValidatorError as ValidatorError,
)

from .agents import (
    ReActAgent as ReActAgent,
)
from .call_log import (
    log_calls as log_calls,
)
from .decisions.calibration import (
    Calibration as Calibration,
    CalibrationEntry as CalibrationEntry,
    Calibrator as Calibrator,
)
from .documents.document import Document as Document
from .engine.approval import (
    AlreadyResumedError as AlreadyResumedError,
    ApprovalRequiredError as ApprovalRequiredError,
    SuspendedCall as SuspendedCall,
)
from .engine.budget import (
    Budget as Budget,
    Listener as Listener,
    Price as Price,
    SharedBudget as SharedBudget,
)
from .engine.durable import Durable as Durable
from .engine.pipeline import InnerCalls as InnerCalls
from .engine.response_cache import ResponseCache as ResponseCache
from .engine.results import Result as Result
from .engine.retry import Retry as Retry
from .engine.streams import (
    AnswerRejected as AnswerRejected,
    AsyncStream as AsyncStream,
    AttemptStarted as AttemptStarted,
    CallClosed as CallClosed,
    CallCompleted as CallCompleted,
    CallFailed as CallFailed,
    CallStarted as CallStarted,
    Completed as Completed,
    FieldCompleted as FieldCompleted,
    ReplyFailed as ReplyFailed,
    ReplyReceived as ReplyReceived,
    Stream as Stream,
    ToolFinished as ToolFinished,
    ToolStarted as ToolStarted,
    ToolUndone as ToolUndone,
)
from .guardrails import (
    InputGuardrails as InputGuardrails,
    OutputGuardrails as OutputGuardrails,
)
from .interface.decorators import (
    CallId as CallId,
    History as History,
    MemoryId as MemoryId,
    ToolContext as ToolContext,
    Tools as Tools,
    UserName as UserName,
    example as example,
    structured_prompt as structured_prompt,
    system_message as system_message,
    user_message as user_message,
)
from .journal import (
    CallCancelledError as CallCancelledError,
    CallChangedError as CallChangedError,
    CallIdError as CallIdError,
    CallInProgressError as CallInProgressError,
    Journal as Journal,
    JournalError as JournalError,
    JournalStore as JournalStore,
    StoredCall as StoredCall,
)
from .memory import (
    ChatMemory as ChatMemory,
)
from .models.base import (
    Capabilities as Capabilities,
    ChatModel as ChatModel,
)
from .models.errors import (
    AiServiceError as AiServiceError,
    Attempt as Attempt,
    AuthenticationError as AuthenticationError,
    BadRequestError as BadRequestError,
    BudgetExceededError as BudgetExceededError,
    ContentFilterError as ContentFilterError,
    DefinitionError as DefinitionError,
    DefinitionProblem as DefinitionProblem,
    FinishError as FinishError,
    InnerCall as InnerCall,
    InvalidReplyError as InvalidReplyError,
    MediaNotAllowedError as MediaNotAllowedError,
    MissingExtraError as MissingExtraError,
    ModelConnectionError as ModelConnectionError,
    ModelError as ModelError,
    ModelNotFoundError as ModelNotFoundError,
    ModelServerError as ModelServerError,
    ModelTimeoutError as ModelTimeoutError,
    ProbabilitiesUnavailableError as ProbabilitiesUnavailableError,
    RateLimitError as RateLimitError,
    RefusalError as RefusalError,
    ReplayedError as ReplayedError,
    ServiceOutputError as ServiceOutputError,
    Strategy as Strategy,
    StreamConsumedError as StreamConsumedError,
    SuspendedCallError as SuspendedCallError,
    ToolError as ToolError,
    ToolLimitError as ToolLimitError,
    TruncatedError as TruncatedError,
)
from .models.fallback import FallbackChatModel as FallbackChatModel
from .models.limits import (
    LimitedChatModel as LimitedChatModel,
    Limits as Limits,
)
from .models.local import LocalChatModel as LocalChatModel
from .models.media import (
    Audio as Audio,
    File as File,
    Image as Image,
    Media as Media,
)
from .models.media_policy import (
    MediaPolicy as MediaPolicy,
)
from .models.messages import (
    AiMessage as AiMessage,
    ChatReply as ChatReply,
    FinishReason as FinishReason,
    Message as Message,
    ProviderState as ProviderState,
    ReplyDelta as ReplyDelta,
    ServerToolRun as ServerToolRun,
    SystemMessage as SystemMessage,
    TokenLogprob as TokenLogprob,
    ToolCall as ToolCall,
    ToolCallDelta as ToolCallDelta,
    ToolMessage as ToolMessage,
    Usage as Usage,
    UserMessage as UserMessage,
    messages_from_json as messages_from_json,
    messages_to_json as messages_to_json,
)
from .models.openai import (
    OpenAiChatModel as OpenAiChatModel,
    OpenAiResponsesModel as OpenAiResponsesModel,
)
from .models.presets import Preset as Preset
from .models.providers.anthropic import (
    AnthropicChatModel as AnthropicChatModel,
)
from .models.providers.bedrock import (
    BedrockChatModel as BedrockChatModel,
)
from .models.providers.decisions import (
    DecisionChatModel as DecisionChatModel,
)
from .models.providers.gemini import (
    GeminiChatModel as GeminiChatModel,
)
from .models.registry import register_provider as register_provider
from .models.requests import (
    ChatOptions as ChatOptions,
    ChatRequest as ChatRequest,
    ImageFormat as ImageFormat,
    JsonObjectFormat as JsonObjectFormat,
    JsonSchemaFormat as JsonSchemaFormat,
    Tooling as Tooling,
    ToolSpecification as ToolSpecification,
)
from .models.scripted import ScriptedChatModel as ScriptedChatModel
from .retrieval import (
    RetrievalAugmentor as RetrievalAugmentor,
)
from .retrieval.tool_search import ToolSearch as ToolSearch
from .rows import (
    amap_rows as amap_rows,
    filter_rows as filter_rows,
    map_rows as map_rows,
)
from .service.create import create as create
from .service.methods import (
    Preview as Preview,
    acall as acall,
    call as call,
    preview as preview,
    resume as resume,
)
from .service.recovery import (
    RecoveredCall as RecoveredCall,
    arecover as arecover,
    decide as decide,
    recover as recover,
)
from .service.settings import options as options
from .structured_model import (
    Structured as Structured,
    StructuredModel as StructuredModel,
    structured as structured,
)
from .testing.fake import (
    FakeChatModel as FakeChatModel,
)
from .tools.tool import (
    Denied as Denied,
    ReturnBehavior as ReturnBehavior,
    Tool as Tool,
    ToolAnswer as ToolAnswer,
    ToolErrors as ToolErrors,
    ToolException as ToolException,
    ToolProvider as ToolProvider,
    ToolRun as ToolRun,
    tool as tool,
)
from .tools.toolbox import ToolLimits as ToolLimits

__version__: str
