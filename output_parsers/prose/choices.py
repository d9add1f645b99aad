"""Finds which of several choices a text names, and refuses when it names none, or several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from ..result.lazy_regex import lazy_regex

T = TypeVar("T")
IN_A_SENTENCE = "named in a sentence"  # the rule by which a choice is found among other words

# Words that may turn what a sentence says about a choice into its opposite, bound it, or leave it open. The
# commonest of other languages are here because a denied choice that is returned is the worst that can happen.
_TURNING_WORDS = r"""
    not|no|non|never|none|neither|nor|nothing|nobody|nowhere|without|cannot|
    (?:ca|do|does|did|is|was|are|were|wo|would|should|could|ai|has|have|had)nt|unlikely|hardly|barely|
    scarcely|rarely|seldom|far|anti|lack(?:s|ed|ing)?|fail(?:s|ed|ing|ure)?|avoid(?:s|ed|ing)?|
    stop(?:s|ped|ping)?|cease[sd]?|reject(?:s|ed|ing)?|dismiss(?:es|ed)?|refuse[sd]?|den(?:y|ies|ied)|
    disput(?:e[sd]?|ing)|contradict(?:s|ed)?|mistak\w+|mis(?:label|class)\w+|wrong(?:ly)?|incorrect(?:ly)?|
    invalid|untrue|false|or|exclud(?:e[sd]?|ing)|rule[sd]?|if|unless|except|instead|rather|unlike|opposite|
    reverse|contrary|versus|vs|but|although|though|however|whereas|despite|otherwise|else|apart|aside|than|
    less|least|most|below|above|beyond|beneath|under|between|bordering|towards?|almost|nearly|close|short|
    up\ to|partly|partially|half|at\ best|previously|formerly|used\ to|whether|could|might|may|maybe|
    perhaps|possibl[ey]|
    until|till|when(?:ever)?|assuming|suppose|supposed\ to|should\ have|(?:hard|difficult|impossible)\ to|
    need\ more|some\ would|hop(?:e[sd]?|ing)|too\ \w+\ to|
    would(?!\ (?:say|think|call|rate|label|class\w*|describe|consider|choose|pick|go|advise)\b)|
    either|doubt|unsure|uncertain|depends|supposedly|allegedly|pretends?|iron(?:y|ic\w*)|sarcas\w+|options|
    choices|labels|categories|example|e\.g|instance|such\ as|nicht|kein[er]?|nein|nie|niemals|weder|ohne|ne|
    pas|aucune?|jamais|sans|sin|nunca|não|nem|nada|niet|geen|nooit|senza|не|нет|ни|без|ليس|ليست|لا|غير|नहीं|
    değil|není|inte|ikke|bukan|tidak|không
"""
_TURNING = lazy_regex(
    rf"(?<!\w)(?:{''.join(line.strip() for line in _TURNING_WORDS.splitlines())})(?!\w)"
    r"|n['’]t(?!\w)|[?¬≠❌✗✘✖☒🚫⛔👎不没沒非未无無别否]|ない|ません|じゃ|아니|않|!=|~~|\[ \]"
)
_DENIED = lazy_regex(r"\A\W*(?:[!¬❌✗✘✖☒🚫⛔👎]|~~|\[ \])|\?\W*\Z|[❌✗✘✖☒🚫⛔👎]\W*\Z")
_EDGES = " \t\r\n\"'`*_“”‘’«».,;:!?()[]{}<>|#~@$%^&=+"
_SEPARATORS = lazy_regex(r"[\s_\-‐‑–]+")
_SEPARATOR = r"[\s_\-‐‑–]++"
_LEADING_END = lazy_regex(r"[\"'`*”’)\]]*\s*(?:[.;!\n]|[,:]\s|[-–—]\s|\\n|$)")
_COUNTS = lazy_regex(r"[ \t]++(?!is\b)\w")
# After a choice that a reply begins with, these take it back at once, or give it a value of its own.
_TAKEN_BACK = lazy_regex(
    r"[\"'`*”’)\]]*+\s*+[,.;:=–—-]*+\s*+(?:(?:only )?(?:if|unless|when)|but|except|or|maybe|perhaps|though"
    r"|although|assuming|provided|depending|not really|at least|sort of|kind of|no|wait|hmm|sorry"
    r"|on second thought|correction)(?!\w)"
    r"|[\"'`*”’)\]]*+\s*+[:=]\s*+[\"'`*]*+(?:[-+]?\.?\d|(?:false|not?|none|null|never|n/a)(?!\w))"
)
# A writer who is positive, or done, says so of himself; who is positive that something is so, is certain.
_ADVERBS = r"(?: (?:so|very|quite|pretty|rather|really|just|still|only|too|100%|\w+ly)){0,3} \Z"
_OF_A_PERSON = lazy_regex(
    r"(?<!\w)(?:i|we)(?: |(?=['’]))(?:(?:must|should|will|would|can|have to|need to|try to|['’]ll) )?"
    rf"(?:am|are|was|were|be|feel|felt|stay|remain|['’](?:m|re)){_ADVERBS}"
)
_CERTAIN_BEFORE = lazy_regex(
    r"(?<!\w)(?:you|he|she|they|who|everyone|everybody|people)(?: |(?=['’]))(?:am|are|is|was|were|feels?|felt"
    rf"|seems?|remains?|['’](?:re|s)){_ADVERBS}"
)
_CERTAIN_AFTER = lazy_regex(r" (?:that|this|these|it|he|she|they|we|you|i|there)(?!\w)")
# After these a word is part of a saying, or of what may be or shall be.
_SAYING_BEFORE = lazy_regex(
    r"(?<!\w)(?:(?:can|must|shall|will|may) be|test(?:s|ed|ing)?|have|has|had|having|came|come|comes|went"
    r"|extra|super|well|by and|feel|feeling|saw|too|please|let['’]s|let us|(?:i|we|they)(?: will|['’]ll)?) \Z"
    r"|(?:\A|[.!?] )(?:to \w+|be|think|stay|staying|remain|remaining|keep|keeping) \Z"
)
_SAYING_AFTER = lazy_regex(r" (?:on|up|out|off|in|down|over|away|back)(?:[,.!;:]|\Z)")  # "hold on" is to wait
_TRUTH = ("true", "false", "correct", "incorrect")
_NEED = lazy_regex(r"(?<!\w)it(?: is|['’]s) \Z")
_NEED_AFTER = lazy_regex(r" (?:to|that (?:you|we|i))(?!\w)")
_BLANKS = lazy_regex(r"\s+")
_WORD_AFTER = lazy_regex(r" ([a-z]++)(?![-‐‑'’])")
# What may follow a choice that a sentence names; before any other word it is an adjective: "false alarm".
_MAY_FOLLOW = frozenset(
    """
    a about according across after again all also although among an and applies are as at based be
    because been before being best both by category choice class classification clearly comment customer
    department describes document due during email entirely feedback file fits for from given group had
    has have hence here herein i if image in indeed input instead into is issue it item its kind label
    literal matches message mood of on one only option or out over overall paragraph post priority
    product query question rating record request response result review score seems segment sentence
    sentiment severity should since size so statement status such suits tag team text that the then
    therefore thing this through throughout thus ticket tier to today tone too topic toward tweet type
    under value was we were when where which while who why will with within word would you
    """.split()
)


class NoMatch(ValueError):  # says what it is
    """A text names no choice, or more than one."""


class Choice(NamedTuple, Generic[T]):
    """One thing that may be chosen: the label that prompts show, its value, and other texts that mean it.

    ``alone`` mean it too, but not inside a sentence, where they may be any word.
    """

    label: str
    value: T
    others: tuple[str, ...] = ()
    description: str | None = None
    alone: tuple[str, ...] = ()


class ChoiceMatcher(Generic[T]):
    """The choices of one type, prepared for finding."""

    def __init__(self, choices: Sequence[Choice[T]]) -> None:
        self.choices = tuple(choices)
        self._exact = {choice.label: choice for choice in reversed(self.choices)}
        self._plain: dict[str, Choice[T] | None] = {}
        for choice in self.choices:
            self._enter(normalize(choice.label), choice)
        labels = dict(self._plain)
        self._alone = {normalize(text) for choice in self.choices for text in choice.alone} - labels.keys()
        for choice in self.choices:
            for other in (*choice.others, *choice.alone):
                if normalize(other) not in labels:  # what one is called wins over what another is also called
                    self._enter(normalize(other), choice)

    def _enter(self, key: str, choice: Choice[T]) -> None:
        known = self._plain.get(key, choice)
        self._plain[key] = choice if known is choice else None  # None: the text means two of them

    def find(self, text: str) -> tuple[Choice[T], str | None]:
        """The choice that a text names, and the rule that found it (None for the label itself).

        Raises NoMatch.
        """
        exact = self._exact.get(text)
        if exact is not None:
            return exact, None
        if len(text) < 400:
            key = normalize(text.strip(_EDGES))
            if key in self._plain and not _DENIED.search(text):
                return self._only(key), "case or punctuation"
        return self._mentioned(text), IN_A_SENTENCE

    def _only(self, key: str) -> Choice[T]:
        choice = self._plain[key]
        if choice is None:
            raise NoMatch(f"“{key}” means more than one")
        return choice

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        keys = (key for key in self._plain if (len(key) > 1 or key.isdigit()) and key not in self._alone)
        options = "|".join(map(_spelled, sorted(keys, key=len, reverse=True))) or r"(?!)"
        return re.compile(rf"(?<![\w.])(?<!\w[-‐‑])(?<!\d,)(?:{options})(?!\w)(?![-‐‑]\w)(?![.,]\d)")

    def _mentioned(self, text: str) -> Choice[T]:
        written = unicodedata.normalize("NFKC", text)
        said = written.casefold()
        named: dict[int, Choice[T]] = {}
        rest: list[str] = []
        end = 0
        in_passing = True
        first_end = None
        for mention in self._mention.finditer(said):
            choice = self._only(normalize(mention[0]))
            if mention[0].isdigit() and _COUNTS.match(said, mention.end()):
                raise NoMatch(f"{mention[0]} may be a number of something")
            named[id(choice)] = choice
            if len(named) > 1:
                raise NoMatch(f"it names {' and '.join(c.label for c in named.values())}")
            rest.append(said[end : mention.start()])
            in_passing = in_passing and _in_passing(said, mention, written)
            end = mention.end()
            first_end = end if first_end is None else first_end
        if not named:
            raise NoMatch("it names none of them")
        leads = not rest[0].strip(_EDGES) and _LEADING_END.match(said, first_end or 0)
        turned = _TAKEN_BACK.match(said, first_end or 0) or _DENIED.search(said)
        if turned or (not leads and _TURNING.search(" ".join((*rest, said[end:])))):
            raise NoMatch("it says more than one thing about them")
        if in_passing and not leads:
            raise NoMatch("it has the word in another sense")
        return next(iter(named.values()))


def _in_passing(said: str, mention: re.Match[str], written: str) -> bool:
    """Whether a sentence has the word of a choice and does not name the choice: "on a positive note".

    ``written`` is the text before its capitals were taken from it.
    """
    before = _BLANKS.sub(" ", said[max(0, mention.start() - 60) : mention.start()])
    after = said[mention.end() : mention.end() + 40]
    if _OF_A_PERSON.search(before):
        return True
    if _CERTAIN_BEFORE.search(before) and _CERTAIN_AFTER.match(after):
        return True
    if mention[0] not in _TRUTH and _NEED.search(before) and _NEED_AFTER.match(after):
        return True
    capitals = len(written) == len(said) and written[mention.start() : mention.end()].isupper()
    if not mention[0].isascii() or not mention[0].isalpha() or capitals:
        return False  # what is spelt as no word of a sentence is, is a label
    following = _WORD_AFTER.match(after)
    attributive = following is not None and following[1] not in _MAY_FOLLOW
    saying = _SAYING_BEFORE.search(before) or _SAYING_AFTER.match(after)
    return attributive or saying is not None


def _spelled(key: str) -> str:
    """A pattern for a choice in a sentence, where "no" before a word or a number is no answer."""
    pattern = _SEPARATOR.join(map(re.escape, key.split(" ")))
    return pattern + r"(?!\.?[ \t]++\d)(?![ \t]++\w)" if key == "no" else pattern


def normalize(text: str) -> str:
    """A text without case, width and the difference between space, hyphen and underscore."""
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


_BULLET = lazy_regex(r"[ \t]*(?:[-*+•‣◦]|\d{1,4}[.)])[ \t]+(.*)")
# One number with thousands separators, or several numbers without a space.
_GROUPED = lazy_regex(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?!\d)")


def split_items(text: str) -> list[str] | None:
    """The items of a text in which every line is an item, or whose one line has commas; None for others.

    Either all lines carry a bullet or a number, or none does. ``1,234`` may be one item or two.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    bullets = [_BULLET.fullmatch(line) for line in lines]
    if all(bullets):
        return [bullet[1].strip() for bullet in bullets if bullet is not None]
    if any(bullets):
        return None
    if len(lines) == 1:
        parts = [part.strip() for part in lines[0].split(",")]
        return parts if len(parts) > 1 and all(parts) and not _GROUPED.search(lines[0]) else None
    return [line.strip() for line in lines]
