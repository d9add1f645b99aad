"""What the two packages offer is pinned: every name, importable, and documented."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import types
import typing
from typing import Any

import pytest

import aiservices
import aiservices.agents
import aiservices.guardrails
import aiservices.integrations.mcp
import aiservices.memory
import aiservices.moderation
import aiservices.retrieval
import aiservices.synthesis
import output_parsers
import output_parsers.text
import output_parsers.tool_calls

OUTPUT_PARSERS = """
Coercion DateOrder Description Int8 Int16 Int32 Int64 ItemError ItemPolicy ItemReader Leniency
OutputParser OutputParsingError ParserFactory ParserRegistry PartialList PartialObject PartialReader
Problem Reading Snapshot Target TypeParser UnsupportedTypeError parse parser_for read
""".split()
TEXT_PARSERS = """
CommaSeparatedListOutputParser DatetimeOutputParser EnumOutputParser JsonOutputParser
MarkdownJsonDictParser MarkdownListOutputParser MultiTaggedContentParser NumberedListOutputParser
PydanticOutputParser RegexOutputParser RegexTaggedContentParser StrOutputParser TaggedContent TextResponse
XmlOutputParser
""".split()
TOOL_CALL_PARSERS = """
JsonOutputKeyToolsParser JsonOutputToolsParser ParsedToolCall PydanticToolsParser ToolCallLike
""".split()
AISERVICES = """
AiMessage AiServiceError All Answer AnswerRejected ApprovalRequiredError Ask AsyncStream Attempt
AttemptStarted Audio AuthenticationError BadRequestError Budget BudgetExceededError CallCompleted
CallState CallFailed CallStarted Capabilities ChatModel ChatOptions ChatReply ChatRequest Coercion
Completed ContentFilterError DefinitionError Description Do Emit FallbackChatModel Fault FieldCompleted
File FinishError FinishReason Flow History Image Int8 Int16 Int32 Int64 Interceptor InvalidReplyError
JsonObjectFormat JsonSchemaFormat Leniency Listener LocalChatModel Media MemoryId Message
ModelConnectionError ModelError ModelNotFoundError ModelServerError ModelTimeoutError OpenAiChatModel
OpenAiResponsesModel OutputParser OutputParsingError ParserFactory ParserRegistry Pause Preview Price
Problem Proceed RateLimitError Reading RefusalError ReplyDelta ReplyFailed ReplyReceived Result Retry
ReturnBehavior ScriptedChatModel ServiceOutputError Strategy Stream SystemMessage Target Tool ToolCall
ToolCallDelta ToolContext ToolError ToolErrors ToolException ToolFinished ToolLimitError ToolLimits
ToolMessage ToolProvider ToolRun ToolSpecification ToolStarted Tooling TruncatedError Turn SuspendedCall
UnsupportedTypeError Usage UserMessage UserName create example options preview resume structured_prompt
system_message tool user_message
""".split()
# The doors beside: what is no part of a plain call is imported from its own package.
AGENTS = "HookHandle Msg ReActAgent Round".split()
GUARDRAILS = """
Guard GuardFunction GuardrailError GuardrailRan InputGuardrails OutputGuardrails Passed Refused Reprompt
Rewritten Verdict ensure forbidden masked max_length no_injection passed refused reprompt retry rewritten
""".split()
MCP = "McpServerError McpTools".split()
MEMORY = """
ChatMemory ChatMemoryStore Exchange InMemoryChatMemoryStore MemoryBusyError MemoryConflictError
MessageWindow RedisChatMemoryStore SqlAlchemyChatMemoryStore SqliteChatMemoryStore StoredConversation
SummarizingWindow TokenWindow Window WindowView estimate_tokens
""".split()
MODERATION = "Moderation ModerationError ModerationRan ModerationResult Moderator OpenAiModerator".split()
RETRIEVAL = """
ChromaStore CompressingQueryTransformer Content ContentsRetrieved DocumentLike EmbeddingModel
EmbeddingRetriever EmbeddingStore Excerpts ExpandingQueryTransformer Fusion Injection Injector
KeywordRetriever OpenAiEmbeddingModel Query QueryRouter QueryTransformer ReRank ReRanker
ReciprocalRankFusion RetrievalAugmentor Retriever Route RouteBy RouteByModel RouteToAll
SentenceTransformerModel VectorStore contents_by_id contents_of retriever_tool split unchanged
""".split()
SYNTHESIS = "PartAnswered ResponseMode SynthesisPrompts Synthesizer".split()
BESIDE = {
    aiservices.agents: AGENTS,
    aiservices.guardrails: GUARDRAILS,
    aiservices.integrations.mcp: MCP,
    aiservices.memory: MEMORY,
    aiservices.moderation: MODERATION,
    aiservices.retrieval: RETRIEVAL,
    aiservices.synthesis: SYNTHESIS,
}
DOORS: tuple[types.ModuleType, ...] = (
    output_parsers,
    output_parsers.text,
    output_parsers.tool_calls,
    aiservices,
    *BESIDE,
)
PUBLIC = [(module, name) for module in DOORS for name in module.__all__]


def test_the_door_of_the_parsers_is_pinned() -> None:
    assert output_parsers.__all__ == OUTPUT_PARSERS


def test_the_door_of_the_services_is_pinned() -> None:
    assert aiservices.__all__ == AISERVICES


def test_the_doors_of_the_parsers_in_the_manner_of_others_are_pinned() -> None:
    assert sorted(output_parsers.text.__all__) == TEXT_PARSERS
    assert sorted(output_parsers.tool_calls.__all__) == TOOL_CALL_PARSERS


@pytest.mark.parametrize(("module", "names"), BESIDE.items(), ids=[door.__name__ for door in BESIDE])
def test_the_doors_beside_the_services_are_pinned(module: types.ModuleType, names: list[str]) -> None:
    assert module.__all__ == names


@pytest.mark.parametrize("module", DOORS)
def test_every_name_is_written_once(module: types.ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_every_public_name_can_be_imported(module: types.ModuleType, name: str) -> None:
    assert getattr(importlib.import_module(module.__name__), name) is not None


def is_alias(thing: Any) -> bool:
    return typing.get_origin(thing) is not None or isinstance(thing, types.UnionType)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_everything_public_has_a_docstring_of_its_own(module: types.ModuleType, name: str) -> None:
    thing = getattr(module, name)
    assert is_alias(thing) or own_docstring(thing)


def own_docstring(thing: Any) -> str | None:
    """What is written there; a dataclass without a docstring is given its signature as one."""
    said = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    return None if said and said.startswith(f"{thing.__name__}(") else said


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError) as caught:
        aiservices.Nothing  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value) == "module 'aiservices' has no attribute 'Nothing'"


def test_models_are_loaded_when_they_are_asked_for_and_then_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(aiservices), "OpenAiChatModel", raising=False)
    from aiservices.models.openai import OpenAiChatModel

    assert aiservices.OpenAiChatModel is OpenAiChatModel
    assert vars(aiservices)["OpenAiChatModel"] is OpenAiChatModel


@pytest.mark.parametrize("module", [output_parsers, aiservices])
def test_each_package_says_that_it_is_typed(module: types.ModuleType) -> None:
    assert importlib.resources.files(module.__name__).joinpath("py.typed").is_file()
