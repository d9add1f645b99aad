"""Ready-made guards: length limits, forbidden words, masking, prompt injection, and any predicate."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from ..engine.plan import Invocation
from ..models.errors import DefinitionError, DefinitionProblem
from .guard import Guard, Subject, Verdict, passed, refused, reprompt, rewritten

# Makes the verdict of a guard that found a problem from a message: refused, reprompt or retry.
VerdictFactory = Callable[[str], Verdict]


def ensure(predicate: Callable[[Any], bool], message: str, *, otherwise: VerdictFactory = reprompt) -> Guard:
    """Return a guard that requires a predicate to be true for the value of an answer.

    Args:
        predicate: A function of the typed value. It must not be async.
        message: What the model is told if the predicate is false.
        otherwise: Makes the verdict if the predicate is false: ``reprompt``, ``retry`` or ``refused``.
    """
    if inspect.iscoroutinefunction(predicate):
        problem = 'the predicate is async; write an async guard instead, with on="value"'
        raise DefinitionError([DefinitionProblem("ensure", problem)])

    def guard(value: Any, invocation: Invocation) -> Verdict:
        return passed() if predicate(value) else otherwise(message)

    return Guard(guard, "ensure", "value")


def max_length(max_characters: int, *, on: Subject = "text", otherwise: VerdictFactory = refused) -> Guard:
    """Return a guard that limits the length of the text, or with ``on="value"`` of each text in the value."""
    if max_characters < 1:
        problem = f"max_characters is {max_characters}; it must be at least 1"
        raise DefinitionError([DefinitionProblem("max_length", problem)])

    def guard(subject: Any, invocation: Invocation) -> Verdict:
        longest = max(map(len, _texts_in(subject)), default=0)
        if longest <= max_characters:
            return passed()
        return otherwise(f"the text has {longest} characters; at most {max_characters} are allowed")

    return Guard(guard, "max_length", on)


def forbidden(
    *words: str | re.Pattern[str], on: Subject = "text", otherwise: VerdictFactory = refused
) -> Guard:
    """Return a guard that rejects texts with one of the words, or with a match of one of the patterns.

    Words match as whole words in upper or lower case. JSON may escape the characters of a word, so use
    ``on="value"`` if the method does not return str: then the guard checks the texts in the value.
    """
    patterns = _compile_patterns("forbidden", words)

    def guard(subject: Any, invocation: Invocation) -> Verdict:
        texts = list(_texts_in(subject))
        for pattern, description in patterns.items():
            for match in filter(None, map(pattern.search, texts)):
                return otherwise(
                    f"the text contains {description or repr(match.group())}, which is forbidden"
                )
        return passed()

    return Guard(guard, "forbidden", on)


def masked(*words: str | re.Pattern[str], by: str = "***") -> Guard:
    """Return a guard that replaces words and matches of patterns in the text.

    Words match as whole words in upper or lower case. ``by`` is the replacement.
    """
    patterns = _compile_patterns("masked", words)

    def guard(text: str, invocation: Invocation) -> Verdict:
        new = text
        for pattern in patterns:
            new = pattern.sub(lambda _: by, new)  # a function, so that backslashes in ``by`` have no meaning
        return passed() if new == text else rewritten(new)

    return Guard(guard, "masked")


def no_injection(*phrases: str, otherwise: VerdictFactory = refused) -> Guard:
    """Return a guard that rejects texts with phrases that are typical of prompt injection.

    The guard is a heuristic. It knows some English phrases, such as "ignore all previous instructions", and
    the given ones, and ignores case, extra spaces and invisible characters. It misses other wordings and also
    rejects texts that only quote such a phrase. Use it as one defense among others.
    """
    own_patterns = [re.compile(re.escape(_normalize(phrase))) for phrase in phrases]

    def guard(text: str, invocation: Invocation) -> Verdict:
        normalized = _normalize(text)
        if any(pattern.search(normalized) for pattern in (*_INJECTIONS, *own_patterns)):
            return otherwise("the text seems to override the instructions of the model")
        return passed()

    return Guard(guard, "no_injection")


_INSTRUCTIONS = "(?:instructions?|prompts?|rules|messages?|directions|guidelines|directives|context)"
_EARLIER = "(?:previous|prior|above|earlier|preceding|foregoing|former|system|initial|original)"
_INJECTIONS = [
    re.compile(phrase)
    for phrase in (
        "\\b(?:ignore|disregard|forget|override|bypass|skip|neglect) (?:all |any )?(?:of )?"
        f"(?:the |your |my |these |those )?{_EARLIER} {_INSTRUCTIONS}\\b",
        f"\\b(?:ignore|disregard|forget) (?:all (?:of )?)?your {_INSTRUCTIONS}\\b",
        "\\b(?:ignore|disregard|forget) (?:everything|anything|all|what) "
        "(?:above|before|you were told|you have been told)\\b",
        "\\b(?:reveal|show|print|repeat|output|tell me|give me) (?:me )?(?:all of )?"
        f"(?:your|the) (?:system|initial|hidden|original|secret) {_INSTRUCTIONS}",
        "\\byou are (?:now |no longer )(?:dan\\b|in developer mode|jailbroken|unrestricted|bound by)",
        "\\bnew (?:system )?instructions ?:",
        "<\\|(?:im_start|im_end|system|endoftext)\\|>",
    )
]


def _normalize(text: str) -> str:
    """Return the text in lower case, with single spaces and without invisible format characters."""
    # NFKC replaces look-alike letters, such as full-width ones, which would otherwise hide a phrase
    folded = unicodedata.normalize("NFKC", text).casefold()
    visible = (char for char in folded if unicodedata.category(char) != "Cf")
    return " ".join("".join(visible).split())


def _compile_patterns(name: str, words: tuple[str | re.Pattern[str], ...]) -> dict[re.Pattern[str], str]:
    """Return the patterns to search for, each with a description of its matches for messages.

    The description of plain words is "": their matches may be quoted. A match of a pattern may be a secret,
    such as a card number, so messages name the pattern instead.
    """
    if not words or not all(words):
        problem = "one of the words and patterns is empty" if words else "pass at least one word or pattern"
        raise DefinitionError([DefinitionProblem(name, problem)])
    plain_words = [re.escape(word) for word in words if isinstance(word, str)]
    patterns = {word: f"a match of {word.pattern!r}" for word in words if isinstance(word, re.Pattern)}
    if plain_words:
        patterns[re.compile(rf"(?<!\w)(?:{'|'.join(plain_words)})(?!\w)", re.IGNORECASE)] = ""
    return patterns


def _texts_in(subject: Any) -> Iterator[str]:
    """Yield a text itself, or all texts in a value, including the keys of its mappings."""
    if isinstance(subject, str):
        yield str(subject)
        return
    pending = [to_jsonable_python(subject, fallback=str)]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
