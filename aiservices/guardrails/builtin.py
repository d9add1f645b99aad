"""Guards that are ready to be used."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from ..engine.plan import Invocation
from ..models.errors import DefinitionError, DefinitionProblem
from .guard import Guard, On, Verdict, passed, refused, reprompt, rewritten

# The verdict of a guard that finds something, made of what it has to say: refused, reprompt or retry.
Otherwise = Callable[[str], Verdict]


def ensure(predicate: Callable[[Any], bool], message: str, *, otherwise: Otherwise = reprompt) -> Guard:
    """A guard that is shown the value, and tells the model ``message`` where the predicate does not hold."""
    if inspect.iscoroutinefunction(predicate):
        said = 'the predicate is async; write an async guard instead, with on="value"'
        raise DefinitionError([DefinitionProblem("ensure", said)])

    def guard(value: Any, invocation: Invocation) -> Verdict:
        return passed() if predicate(value) else otherwise(message)

    return Guard(guard, "ensure", "value")


def max_length(characters: int, *, on: On = "text", otherwise: Otherwise = refused) -> Guard:
    """No text is longer than so many characters; of a value, none of the texts in it."""
    if characters < 1:
        raise DefinitionError([DefinitionProblem("max_length", f"it is {characters}; it must be at least 1")])

    def guard(subject: Any, invocation: Invocation) -> Verdict:
        longest = max(map(len, _texts_in(subject)), default=0)
        if longest <= characters:
            return passed()
        return otherwise(f"the text has {longest} characters, and no more than {characters} are permitted")

    return Guard(guard, "max_length", on)


def forbidden(*words: str | re.Pattern[str], on: On = "text", otherwise: Otherwise = refused) -> Guard:
    """None of the words is in the text, as a whole word in upper or lower case; nor what a pattern finds.

    JSON may write a word with escapes: where the method's type is not str, ``on="value"`` looks at the texts
    in the value.
    """
    patterns = _any_of("forbidden", words)

    def guard(subject: Any, invocation: Invocation) -> Verdict:
        texts = list(_texts_in(subject))
        for pattern, named in patterns.items():
            for found in filter(None, map(pattern.search, texts)):
                what = named or repr(found.group())
                return otherwise(f"the text holds {what}, which must not be in it")
        return passed()

    return Guard(guard, "forbidden", on)


def masked(*words: str | re.Pattern[str], by: str = "***") -> Guard:
    """What the words and patterns find in the text is replaced; they are read as ``forbidden`` reads them."""
    patterns = _any_of("masked", words)

    def guard(text: str, invocation: Invocation) -> Verdict:
        new = text
        for pattern in patterns:
            new = pattern.sub(lambda _: by, new)
        return passed() if new == text else rewritten(new)

    return Guard(guard, "masked")


def no_injection(*phrases: str, otherwise: Otherwise = refused) -> Guard:
    """No phrase is in the text by which users commonly try to override the instructions of a model.

    A heuristic: it knows some English phrases and those that are given, whatever their case, spaces and
    invisible characters. It lets through what is said in other words, and stops who merely writes of such
    phrases. It is one fence of several and no proof.
    """
    known = [re.compile(re.escape(_plain(phrase))) for phrase in phrases]

    def guard(text: str, invocation: Invocation) -> Verdict:
        plain = _plain(text)
        if any(pattern.search(plain) for pattern in (*_INJECTIONS, *known)):
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


def _plain(text: str) -> str:
    """A text in lower case, with single spaces, without characters that nobody sees."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    visible = (sign for sign in folded if unicodedata.category(sign) != "Cf")
    return " ".join("".join(visible).split())


def _any_of(name: str, words: tuple[str | re.Pattern[str], ...]) -> dict[re.Pattern[str], str]:
    """Patterns that find the words, and what to call what they find: "" where that may be told as it is."""
    if not words or not all(words):
        said = "it takes words and patterns" + (", and one of them is empty" if words else "; none is given")
        raise DefinitionError([DefinitionProblem(name, said)])
    plain = [re.escape(word) for word in words if isinstance(word, str)]
    found = {word: f"what {word.pattern!r} finds" for word in words if isinstance(word, re.Pattern)}
    if plain:
        found[re.compile(rf"(?<!\w)(?:{'|'.join(plain)})(?!\w)", re.IGNORECASE)] = ""
    return found


def _texts_in(subject: Any) -> Iterator[str]:
    """A text, or all texts inside of a value, the keys among them."""
    if isinstance(subject, str):
        yield str(subject)
        return
    waiting = [to_jsonable_python(subject, fallback=str)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found
