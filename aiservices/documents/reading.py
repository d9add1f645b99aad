"""The interceptor that reads a long document in parts, and merges the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.evidence import Sources

from ..engine.effects import Flow, GatherFlows
from ..engine.flows import hold_back
from ..engine.interceptor import BaseInterceptor, Proceed
from ..engine.plan import CallPlan, CallState, EnclosingCall, Invocation, RunningCall
from ..engine.results import Answer
from ..interface.templates import record_fields, render_value
from ..models.errors import ServiceOutputError
from ..models.messages import AiMessage, ChatReply, FinishReason, SystemMessage, UserMessage
from .document import Document, unique_names
from .merging import MergeConflictError, Merger, PartValue, Rules
from .splitting import DocumentPart, Split

_MOST = 8  # parts that are read at the same time, if the model does not limit it


class SplitReading(BaseInterceptor):
    """Reads a document in parts: each part has its own request, and the answers are merged.

    Args:
        split: How the document is split.
        rules: How the answers are merged.
        parameter: The name of the parameter with the document, or a list of documents.
        part_plan: The plan of the requests about parts, whose answers may lack fields.
    """

    blocks_streaming = True

    def __init__(self, split: Split, rules: Rules, parameter: str, part_plan: CallPlan) -> None:
        self._split = split
        self._rules = rules
        self._parameter = parameter
        self._part_plan = part_plan

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        argument = invocation.arguments[self._parameter]
        is_one = isinstance(argument, (Document, str))
        documents = [argument] if is_one else self._named(argument or ())
        parts = [part for one in map(_document, documents) for part in self._split.parts(one)]
        if not parts:
            return (yield from proceed(invocation))
        if invocation.state.inner is None:
            invocation.state.inner = []
        answers: list[Answer] = []
        if self._split.carry:
            for part in parts:
                answers.append((yield from self._read(invocation, proceed, part, answers, parts[0])))
        else:
            flows = tuple([self._read(invocation, proceed, part, (), parts[0]) for part in parts])
            answers = yield GatherFlows(flows, self._concurrency(invocation))
        return self._merged(invocation, parts, answers)

    def _named(self, documents: Iterable[Document | str]) -> list[Document]:
        """Return the documents of a list with unique names, which the quotes of their parts use."""
        originals = [_document(one) for one in documents]
        names = unique_names(one.name or f"{self._parameter}[{index}]" for index, one in enumerate(originals))
        return [Document(one.text, name, one.pages) for one, name in zip(originals, names, strict=True)]

    def _concurrency(self, invocation: Invocation) -> int:
        """Return how many parts are read at the same time, at most the requests left in the budget."""
        limit = self._split.max_concurrency
        if limit is None:
            limit = min(invocation.plan.model.capabilities.max_concurrency or _MOST, _MOST)
        requests = invocation.state.remaining.requests
        return limit if requests is None else max(min(limit, requests), 1)

    def _read(
        self,
        invocation: Invocation,
        proceed: Proceed,
        part: DocumentPart,
        earlier: Sequence[Answer],
        first: DocumentPart,
    ) -> Flow[Answer]:
        """Ask about one part of a document; the request counts as an inner call."""
        outer = invocation.state
        state = CallState(outer.budget, enclosing=(*outer.enclosing, EnclosingCall(invocation, None)))
        state.waiting = outer.waiting
        part_invocation = self._invocation(invocation, part, state, earlier)
        whole = invocation.plan.output_format.parser
        sources = Sources({part.name: part}, "off", is_continued=part is not first, whole=whole)
        part_invocation = replace(part_invocation, request=replace(part_invocation.request, sources=sources))
        record = RunningCall(part_invocation)
        assert outer.inner is not None
        outer.inner.append(record)
        try:
            return (yield from hold_back(proceed(part_invocation)))
        except BaseException as error:
            record.error, state.is_abandoned = error, True
            error.add_note(part.context)
            raise
        finally:
            record.seconds = state.seconds

    def _invocation(
        self, invocation: Invocation, part: DocumentPart, state: CallState, earlier: Sequence[Answer]
    ) -> Invocation:
        argument = invocation.arguments[self._parameter]
        is_list = not isinstance(argument, (Document, str))
        text = part.text
        if part.count > 1:
            text = "\n".join([part.context, *self._earlier_items(earlier)]) + f"\n\n{text}"
        value = [Document(text, part.name)] if is_list else text
        old, new = render_value(argument), render_value(value)
        request = invocation.request
        messages = tuple([_with_other_text(message, old, new) for message in request.messages])
        if messages == request.messages and old != new:
            raise ValueError(
                f"{invocation.qualname}: its prompt does not contain the text of {self._parameter} as it "
                f"is, so it cannot be split; write {{{{{self._parameter}}}}} in the prompt, and let no input "
                "guard change it"
            )
        arguments = {**invocation.arguments, self._parameter: [part] if is_list else part}
        return replace(
            invocation,
            plan=self._part_plan,
            routes=self._part_plan.routes,
            request=replace(request, messages=messages),
            state=state,
            arguments=arguments,
        )

    def _earlier_items(self, earlier: Sequence[Answer]) -> list[str]:
        """Return lines with the values of the carried fields in earlier answers."""
        lines = []
        for name in self._split.carry:
            values: dict[str, None] = {}
            for answer in earlier:
                fields = record_fields(answer.value) or {}
                values.update(dict.fromkeys(_texts(fields.get(name))))
            if values:
                lines.append(f"Found so far: {name}: {'; '.join(values)}.")
        return lines

    def _merged(
        self, invocation: Invocation, parts: Sequence[DocumentPart], answers: Sequence[Answer]
    ) -> Answer:
        qualname, merger = invocation.qualname, Merger(self._rules)
        tp = invocation.plan.output_type
        value = merger.merge(
            tp, [PartValue(part, one.value) for part, one in zip(parts, answers, strict=True)]
        )
        if merger.undecided:
            raise MergeConflictError(qualname, merger.undecided)
        last = answers[-1]
        if merger.problems:
            error = ServiceOutputError(qualname, last.reply.text, merger.problems, ())
            error.reply = last.reply
            raise error
        parser = invocation.plan.output_format.parser
        text = parser.write(value) if isinstance(parser, TypeParser) else ""
        count = f"the document was read in {len(parts)} {'part' if len(parts) == 1 else 'parts'}"
        message = AiMessage(text)
        sources = {id(source): source for one in answers for source in one.sources}
        return replace(
            last,
            value=value,
            reply=ChatReply(message, FinishReason.STOP, None, last.reply.model),
            coercions=(),
            messages=(message,),
            reasons=(count, *last.reasons),
            sources=tuple(sources.values()),
            conflicts=tuple(merger.conflicts),
        )


def _document(value: object) -> Document:
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        return Document(value)
    raise TypeError(f"a document is {type(value).__name__}; pass a Document")


def _with_other_text(message: object, old: str, new: str) -> Any:
    if not old or not isinstance(message, (SystemMessage, UserMessage)) or old not in message.text:
        return message
    changes: dict[str, Any] = {"text": message.text.replace(old, new)}
    if isinstance(message, UserMessage) and message.contents:
        changes["contents"] = tuple(
            [part.replace(old, new) if isinstance(part, str) else part for part in message.contents]
        )
    return replace(message, **changes)


def _texts(value: object) -> list[str]:
    value = getattr(value, "value", value)
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [render_value(value)]
