"""The texts of a call that the quotes of its answer must come from, and the citations that providers send."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from output_parsers.result.reading import Json
from output_parsers.types.cited import CitedSentence, CitedText, Place, Quote
from output_parsers.types.evidence import Check, Sources

from ..documents.document import Document, document_from_json, unique_names
from ..models.messages import ChatReply, Message, UserMessage
from .approval import SOURCES

if TYPE_CHECKING:
    from .plan import Invocation

PROMPT = "prompt"  # the name of the messages' text, which is the only source if a call has no other


def with_sources(invocation: Invocation, check: Check) -> Invocation:
    """Return the call with a request that has the texts in which the quotes of the answer are searched.

    If the model cites lines, the sentences of the documents are numbered in the messages.
    """
    request = invocation.request
    if not invocation.plan.cites_lines:
        return replace(invocation, request=replace(request, sources=sources_of(invocation, check)))
    documents, lines, messages = documents_of(invocation), list[Place](), request.messages
    for name, document in documents.items():
        for text, offset in _visible_texts(document, messages):
            numbered, spans = _numbered(text, len(lines) + 1)
            offset += document.offset
            lines += [Place(name, start + offset, end + offset) for start, end in spans]
            messages = tuple([_with_numbers(message, text, numbered) for message in messages])
    sources = _sources(invocation, documents, check, lines)
    return replace(invocation, request=replace(request, messages=messages, sources=sources))


def _visible_texts(document: Document, messages: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """Yield a document as the messages show it: as a whole, or message by message if it is the messages."""
    texts = [message.text for message in messages if isinstance(message, UserMessage)]
    if len(texts) < 2 or document.text != _joined(texts):
        yield document.text, 0
        return
    offset = 0
    for text in texts:
        yield text, offset
        offset += len(text) + len(_GAP)


_GAP = "\n\n"  # between messages


def _joined(texts: Iterable[str]) -> str:
    return _GAP.join(texts)


def _numbered(text: str, first: int) -> tuple[str, list[tuple[int, int]]]:
    """Return a text in which each sentence has its number, and the places of the sentences."""
    spans = [match.span() for match in _SENTENCE.finditer(text)]
    ends = [*(start for start, _ in spans[1:]), len(text)]
    pieces = [text[start:end] for (start, _), end in zip(spans, ends, strict=False)]
    numbered = "".join(f"[{number}] {piece}" for number, piece in enumerate(pieces, first))
    return (text[: spans[0][0]] if spans else text) + numbered, spans


def _with_numbers(message: Message, text: str, numbered: str) -> Message:
    has_text = isinstance(message, UserMessage) and bool(text.strip()) and text in message.text
    if not has_text or numbered in message.text:  # the messages of a resumed call have numbers
        return message
    return replace(message, text=message.text.replace(text, numbered, 1))


def sources_of(invocation: Invocation, check: Check) -> Sources:
    """Return the texts in which the quotes of a call's answer are searched.

    These are the documents among the arguments, or else the texts, and the passages that retrieval has found.
    If there are none, it is the text of the user messages, without the reports about rejected answers.
    """
    return _sources(invocation, documents_of(invocation), check)


def _sources(
    invocation: Invocation,
    documents: Mapping[str, Document],
    check: Check,
    lines: Sequence[Place] | None = None,
) -> Sources:
    part = invocation.request.sources  # set for the parts of a long document
    if not isinstance(part, Sources):
        return Sources(documents, check, lines)
    return Sources(documents, check, lines, is_continued=part.is_continued, whole=part.whole)


def documents_of(invocation: Invocation) -> dict[str, Document]:
    """Return the sources of a call by their names; those of a resumed call are in its state."""
    stored = invocation.state.interceptor_data.get(SOURCES)
    if stored is not None:
        return {name: document_from_json(document) for name, document in stored.items()}
    roles = {*invocation.plan.role_names.values(), *invocation.tool_context}
    inputs = {name: value for name, value in invocation.arguments.items() if name not in roles}
    texts = _texts_among(inputs)
    texts += [(content.metadata.get("source") or content.id, content.text) for content in invocation.sources]
    if not texts:
        # the reports about rejected answers repeat their quotes, and prove nothing
        conversation = invocation.state.conversation or invocation.request.messages
        messages = (one.text for one in conversation if isinstance(one, UserMessage))
        texts = [(PROMPT, _joined(messages))]
    names = unique_names(str(name) for name, _ in texts)
    sources = [source if isinstance(source, Document) else Document(source) for _, source in texts]
    return dict(zip(names, sources, strict=True))


def documents_among(arguments: Mapping[str, object]) -> list[Document]:
    """Return the documents among arguments, or else the texts, with the names that quotes of them have."""
    texts = _texts_among(arguments)
    names = unique_names(name for name, _ in texts)
    return [
        Document(str(one), name, one.pages if isinstance(one, Document) else ())
        for name, (_, one) in zip(names, texts, strict=True)
    ]


def _texts_among(arguments: Mapping[str, object]) -> list[tuple[str, Document | str]]:
    return [*_documents(arguments, (Document,))] or [*_documents(arguments, (str,))]


def _documents(
    arguments: Mapping[str, object], types: tuple[type, ...]
) -> Iterator[tuple[str, Document | str]]:
    for name, argument in arguments.items():
        if isinstance(argument, types) and isinstance(argument, (Document, str)):
            yield getattr(argument, "name", "") or name, argument
        elif isinstance(argument, Mapping):
            yield from _documents({f"{name}.{key}": one for key, one in argument.items()}, types)
        elif isinstance(argument, Iterable) and not isinstance(argument, (str, bytes)):
            items = enumerate(argument) if isinstance(argument, (list, tuple)) else ()
            yield from _documents({f"{name}[{index}]": one for index, one in items}, types)


# --- Citations of providers ---

# A sentence, or a line. "Corp. pays" is not an end; a source in brackets belongs to the sentence before it.
_SENTENCE = re.compile(
    r"\S[^\n]*?(?:(?<![.!?…。！？])[.!?…。！？]++[\"'”’)\]*]*+(?=\s+(?![a-zß-öø-ÿ])\S|\s*$)|(?=\n)|$)"
    r"(?:[^\S\n]{0,9}(?:\(\[[^\n]{0,2000}?\)\)|\[[^\n\]]{0,500}\]\([^\n)]{0,2000}\)))*"
)


def cited_text_of(reply: ChatReply) -> CitedText:
    """Return the text of a reply with the citations that the provider sent, by sentence."""
    spans = [*_block_citations(reply)]
    if not spans:
        spans = [span for citation in reply.citations for span in _citation_spans(citation, reply.text)]
    sentences = []
    for sentence in _SENTENCE.finditer(reply.text):
        quotes = [quote for start, end, quote in spans if start < sentence.end() and end > sentence.start()]
        sentences.append(CitedSentence(sentence[0], tuple(dict.fromkeys(quotes))))
    return CitedText(tuple(sentences))


def _block_citations(reply: ChatReply) -> Iterator[tuple[int, int, Quote]]:
    """Yield the citations of text blocks of Anthropic and Bedrock, with the places of the blocks."""
    position = 0
    for part in () if reply.message.state is None else reply.message.state.parts:
        block: Json = part.get("citationsContent", part) if isinstance(part, Mapping) else {}
        contents = block.get("content")
        texts = (
            [one.get("text", "") for one in contents] if isinstance(contents, list) else [block.get("text")]
        )
        text = "".join(filter(None, texts)) if block.get("citations") else ""
        start = reply.text.find(text, position)
        if text and start >= 0:
            position = start + len(text)
            for citation in block["citations"]:
                yield start, position, _quote(citation)


def _citation_spans(citation: Mapping[str, Json], text: str) -> Iterator[tuple[int, int, Quote]]:
    """Yield the places of a citation of OpenAI or Gemini in the text; by default the end of the text."""
    details = citation.get("url_citation", citation)
    quote = _quote(details)
    if isinstance(details.get("start_index"), int):
        yield details["start_index"], details.get("end_index", len(text)), quote
        return
    places = [text.find(segment.get("text") or "\0") for segment in citation.get("segments", ())]
    for start, segment in zip(places, citation.get("segments", ()), strict=True):
        if start >= 0:
            yield start, start + len(segment["text"]), quote
    if not places or max(places) < 0:
        end = details.get("index", len(text.rstrip()))
        yield max(0, end - 1), end, quote


def _quote(citation: Mapping[str, Json]) -> Quote:
    """Return the cited words and the name of their source, if the provider sent them."""
    source = citation.get("web") or citation.get("retrievedContext") or citation
    contents = citation.get("sourceContent") or [{}]
    words = citation.get("cited_text") or source.get("text") or contents[0].get("text") or ""
    names = (source.get(name) for name in ("url", "uri", "document_title", "filename", "title"))
    start, end = citation.get("start_char_index"), citation.get("end_char_index")
    return Quote(words, document=next(filter(None, names), ""), start=start, end=end)
