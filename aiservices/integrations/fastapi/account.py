"""``Result[T]`` as JSON and back: the value with the account of its call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from output_parsers.reading import Coercion
from output_parsers.registry import ParserRegistry

from ...errors import AiServiceError, Attempt
from ...messages import AiMessage, ChatReply, FinishReason, ToolCall, Usage
from ...returns import Result
from ...strategy import Strategy
from ...tool_run import ToolRun
from .values import Codec, codec_for, record_of

__all__ = ["AttemptJson", "attempts_json", "attempts_of", "read_result", "result_codec", "write_result"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class UsageJson(_Frozen):
    """Tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class AttemptJson(_Frozen):
    """One request to a model, without what was said; ``replied`` says whether a reply came.

    ``error`` is the class of the error, if one came.
    """

    model: str
    seconds: float
    replied: bool = False
    strategy: str | None = None
    usage: UsageJson | None = None
    error: str | None = None


class CoercionJson(_Frozen):
    """One step away from the exact text of the reply."""

    path: str
    rule: str
    before: str = ""
    after: str = ""


class ToolRunJson(_Frozen):
    """One call of a tool: what the model wrote, and what it was told."""

    id: str
    name: str
    arguments: str
    text: str
    seconds: float
    error: str | None = None


class AccountJson(_Frozen):
    """How a value was got. ``text`` is the reply that it was read from."""

    text: str
    model: str
    finish_reason: FinishReason
    strategy: str
    seconds: float
    usage: UsageJson
    attempts: tuple[AttemptJson, ...] = ()
    coercions: tuple[CoercionJson, ...] = ()
    reasons: tuple[str, ...] = ()
    tool_runs: tuple[ToolRunJson, ...] = ()
    sources: tuple[Any, ...] = ()


def result_codec(form: Any, name: str, registry: ParserRegistry, namespace: Mapping[str, Any]) -> Codec[Any]:
    """The codec of a Result of a type, as a dict of its ``value`` and its ``account``."""
    title = "".join(part for part in name if part.isalnum())
    record = record_of(f"{title}Result", {"value": form, "account": AccountJson})
    return codec_for(record, registry, namespace)


def write_result(result: Result[Any], value: Codec[Any]) -> str:
    """The JSON text of a Result. Raises ValueError when its value cannot be written."""
    reply = result.reply
    account = AccountJson(
        text=reply.text,
        model=reply.model,
        finish_reason=reply.finish_reason,
        strategy=result.strategy,
        seconds=result.seconds,
        usage=_usage_json(result.usage),
        attempts=attempts_json(result.attempts),
        coercions=tuple(CoercionJson(**step._asdict()) for step in result.coercions),
        reasons=result.reasons,
        tool_runs=tuple(map(_run_json, result.tool_runs)),
        sources=tuple(to_jsonable_python(source, fallback=str) for source in result.sources),
    )
    return f'{{"value": {value.write(result.value)}, "account": {account.model_dump_json()}}}'


def read_result(text: str, codec: Codec[Any]) -> Result[Any]:
    """The Result of a JSON text, by its ``result_codec``. Raises OutputParsingError for a text that is none.

    Its sources are plain data, its tool runs have no result but the text, and the texts of attempts that were
    rejected are not known.
    """
    found = codec.read(text)
    account: AccountJson = found["account"]
    last = account.attempts[-1].usage if account.attempts else None
    reply = ChatReply(AiMessage(account.text), account.finish_reason, _usage(last), account.model)
    return Result(
        found["value"],
        reply,
        Strategy(account.strategy),
        tuple(Coercion(**dict(step)) for step in account.coercions),
        attempts_of(account.attempts, reply),
        account.seconds,
        account.reasons,
        tuple(map(_run, account.tool_runs)),
        account.sources,
    )


def attempts_json(attempts: Sequence[Attempt]) -> tuple[AttemptJson, ...]:
    """The requests that were made, without what was said in them."""
    return tuple(
        AttemptJson(
            model=one.model,
            seconds=one.seconds,
            replied=one.reply is not None,
            strategy=one.strategy,
            usage=None if one.reply is None or one.reply.usage is None else _usage_json(one.reply.usage),
            error=None if one.error is None else type(one.error).__name__,
        )
        for one in attempts
    )


def attempts_of(said: Sequence[AttemptJson], reply: ChatReply | None = None) -> tuple[Attempt, ...]:
    """Attempts as far as they were told; ``reply`` is that of the last one."""
    made = []
    for number, one in enumerate(said, 1):
        known = ChatReply(AiMessage(""), FinishReason.OTHER, _usage(one.usage), one.model)
        told = reply if number == len(said) and reply else known if one.replied else None
        error = None if one.error is None else AiServiceError(one.error)
        strategy = None if one.strategy is None else Strategy(one.strategy)
        made.append(Attempt(one.model, told, error, one.seconds, strategy))
    return tuple(made)


def _usage_json(usage: Usage) -> UsageJson:
    return UsageJson(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _usage(said: UsageJson | None) -> Usage | None:
    return None if said is None else Usage(**said.model_dump())


def _run_json(run: ToolRun) -> ToolRunJson:
    call, error = run.call, None if run.error is None else type(run.error).__name__
    return ToolRunJson(
        id=call.id, name=call.name, arguments=call.arguments, text=run.text, seconds=run.seconds, error=error
    )


def _run(said: ToolRunJson) -> ToolRun:
    call = ToolCall(said.id, said.name, said.arguments)
    error = None if said.error is None else AiServiceError(said.error)
    return ToolRun(call, None, said.text, said.text, error, said.seconds)
