"""Find which of several choices a reply in prose names, and split a plain-text list into items.

A reply that names several choices, or denies the choice that it names, is rejected.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from ..lazy_regex import lazy_regex

T = TypeVar("T")
IN_A_SENTENCE = "named in a sentence"  # the rule for a choice among other words
_CASE_OR_PUNCTUATION = "case or punctuation"
_MAX_EXACT_LENGTH = 400  # characters; a longer text is a sentence, not just a choice


class NoMatch(ValueError):
    """Raised if text does not name exactly one of the choices."""


class Choice(NamedTuple, Generic[T]):
    """A value that a model may choose, with its label and other accepted spellings.

    Attributes:
        label: The text that prompts show.
        value: The value.
        aliases: Other strings that mean the choice.
        description: An explanation of the choice for prompts.
        standalone_aliases: Strings that mean the choice only if they are the whole reply, because they may be
            an ordinary word in a sentence, such as "on".
    """

    label: str
    value: T
    aliases: tuple[str, ...] = ()
    description: str | None = None
    standalone_aliases: tuple[str, ...] = ()


class ChoiceMatcher(Generic[T]):
    """Finds the choice that a reply names: "red" names ``Color.RED``."""

    def __init__(self, choices: Sequence[Choice[T]]) -> None:
        self.choices = tuple(choices)
        self._by_label = {choice.label: choice for choice in reversed(self.choices)}
        self._by_key: dict[str, Choice[T] | None] = {}
        for choice in self.choices:
            self._add_key(normalize(choice.label), choice)
        # The label of one choice wins over the same text as an alias of another choice.
        labels = frozenset(self._by_key)
        self._standalone = {
            normalize(text) for choice in self.choices for text in choice.standalone_aliases
        } - labels
        for choice in self.choices:
            for alias in (*choice.aliases, *choice.standalone_aliases):
                if normalize(alias) not in labels:
                    self._add_key(normalize(alias), choice)

    def _add_key(self, key: str, choice: Choice[T]) -> None:
        existing = self._by_key.get(key, choice)
        self._by_key[key] = choice if existing is choice else None  # None: the text means two choices

    def find(self, text: str) -> tuple[Choice[T], str | None]:
        """Return the choice that the text names, and the rule that was applied, such as "ignoring case".

        The rule is None if the text is exactly the label of the choice. Raises NoMatch.
        """
        exact = self._by_label.get(text)
        if exact is not None:
            return exact, None
        if len(text) < _MAX_EXACT_LENGTH:
            key = normalize(text.strip(_EDGES))
            if key in self._by_key and not _DENIED.search(text):
                return self._choice_of(key), _CASE_OR_PUNCTUATION
        return self._find_in_sentence(text), IN_A_SENTENCE

    def _choice_of(self, key: str) -> Choice[T]:
        choice = self._by_key[key]
        if choice is None:
            raise NoMatch(f"“{key}” means more than one of them")
        return choice

    @cached_property
    def _mention_pattern(self) -> re.Pattern[str]:
        keys = (
            key for key in self._by_key if (len(key) > 1 or key.isdigit()) and key not in self._standalone
        )
        options = "|".join(map(_mention_of, sorted(keys, key=len, reverse=True))) or r"(?!)"
        return re.compile(rf"(?<![\w.])(?<!\w[-‐‑])(?<!\d,)(?:{options})(?!\w)(?![-‐‑]\w)(?![.,]\d)")

    def _find_in_sentence(self, text: str) -> Choice[T]:
        original = unicodedata.normalize("NFKC", text)
        folded = original.casefold()
        mentioned: dict[int, Choice[T]] = {}
        between: list[str] = []  # the text before each mention
        end = 0
        only_in_passing = True
        first_end = None
        for mention in self._mention_pattern.finditer(folded):
            choice = self._choice_of(normalize(mention[0]))
            if mention[0].isdigit() and _COUNTS.match(folded, mention.end()):
                raise NoMatch(f"{mention[0]} may be a number of something")
            mentioned[id(choice)] = choice
            if len(mentioned) > 1:
                raise NoMatch(f"the text names {' and '.join(c.label for c in mentioned.values())}")
            between.append(folded[end : mention.start()])
            only_in_passing = only_in_passing and _is_in_passing(folded, mention, original)
            end = mention.end()
            first_end = end if first_end is None else first_end
        if not mentioned:
            raise NoMatch("the text names none of them")
        leads = not between[0].strip(_EDGES) and _LEADING_END.match(folded, first_end or 0)
        denied = _TAKEN_BACK.match(folded, first_end or 0) or _DENIED.search(folded)
        # A choice at the beginning of the reply is the answer. The words after it explain the answer.
        if denied or (not leads and _TURNING.search(" ".join((*between, folded[end:])))):
            raise NoMatch("the text does not clearly choose one of them")
        if only_in_passing and not leads:
            raise NoMatch("the text uses the word in another sense")
        return next(iter(mentioned.values()))


def _is_in_passing(folded: str, mention: re.Match[str], original: str) -> bool:
    """Return True if a sentence uses a word without choosing it, as "positive" in "on a positive note".

    ``original`` is the text with its capital letters.
    """
    before = _BLANKS.sub(" ", folded[max(0, mention.start() - 60) : mention.start()])
    after = folded[mention.end() : mention.end() + 40]
    if _OF_A_PERSON.search(before):
        return True
    if _CERTAIN_BEFORE.search(before) and _CERTAIN_AFTER.match(after):
        return True
    if mention[0] not in _TRUTH and _NEED.search(before) and _NEED_AFTER.match(after):
        return True
    in_capitals = len(original) == len(folded) and original[mention.start() : mention.end()].isupper()
    if not mention[0].isascii() or not mention[0].isalpha() or in_capitals:
        return False  # a word that is not written like a word of a sentence is a label
    following = _WORD_AFTER.match(after)
    is_adjective = following is not None and following[1] not in _MAY_FOLLOW
    in_idiom = _IDIOM_BEFORE.search(before) or _IDIOM_AFTER.match(after)
    return is_adjective or in_idiom is not None


def _mention_of(key: str) -> str:
    """Return a regular expression that matches the label or another spelling of a choice in a sentence."""
    # The word "no" before another word is not an answer, as in "no problem".
    pattern = _SEPARATOR.join(map(re.escape, key.split(" ")))
    return pattern + r"(?!\.?[ \t]++\d)(?![ \t]++\w)" if key == "no" else pattern


def normalize(text: str) -> str:
    """Normalize the case, character width, hyphens and underscores of a string, for comparisons."""
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


# Words that may turn a statement about a choice into its opposite, limit it, or leave it open. The commonest
# words of other languages are included, because returning a denied choice is the worst mistake.
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
# After a choice at the beginning of a reply, these withdraw it or give it a value, as in "urgent: no".
_TAKEN_BACK = lazy_regex(
    r"[\"'`*”’)\]]*+\s*+[,.;:=–—-]*+\s*+(?:(?:only )?(?:if|unless|when)|but|except|or|maybe|perhaps|though"
    r"|although|assuming|provided|depending|not really|at least|sort of|kind of|no|wait|hmm|sorry"
    r"|on second thought|correction)(?!\w)"
    r"|[\"'`*”’)\]]*+\s*+[:=]\s*+[\"'`*]*+(?:[-+]?\.?\d|(?:false|not?|none|null|never|n/a)(?!\w))"
)
# In "I am positive" or "we are done" people describe themselves, and "he is positive that" means that he is
# certain. The word is not the answer there.
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
# After these words, the word of a choice is part of an idiom, or the sentence states a wish or a plan.
_IDIOM_BEFORE = lazy_regex(
    r"(?<!\w)(?:(?:can|must|shall|will|may) be|test(?:s|ed|ing)?|have|has|had|having|came|come|comes|went"
    r"|extra|super|well|by and|feel|feeling|saw|too|please|let['’]s|let us|(?:i|we|they)(?: will|['’]ll)?) \Z"
    r"|(?:\A|[.!?] )(?:to \w+|be|think|stay|staying|remain|remaining|keep|keeping) \Z"
)
# "hold on" means to wait.
_IDIOM_AFTER = lazy_regex(r" (?:on|up|out|off|in|down|over|away|back)(?:[,.!;:]|\Z)")
_TRUTH = ("true", "false", "correct", "incorrect")
_NEED = lazy_regex(r"(?<!\w)it(?: is|['’]s) \Z")
_NEED_AFTER = lazy_regex(r" (?:to|that (?:you|we|i))(?!\w)")
_BLANKS = lazy_regex(r"\s+")
_WORD_AFTER = lazy_regex(r" ([a-z]++)(?![-‐‑'’])")
# The words that may follow a choice in a sentence. Before any other word it is an adjective: "false alarm".
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

_BULLET = lazy_regex(r"[ \t]*(?:[-*+•‣◦]|\d{1,4}[.)])[ \t]+(.*)")
# One number with thousands separators, or several numbers without a space.
_GROUPED = lazy_regex(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?!\d)")


def split_items(text: str) -> list[str] | None:
    """Split text into list items at line ends or commas; return None if the text is not a list.

    Either all lines begin with a bullet or a number, or none of them. ``1,234`` is rejected, because it may
    be one item or two.
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


_MAX_ITEM_WORDS = 4
_MAX_ITEM_CHARACTERS = 60
# Markup, punctuation of sentences, and names with a value.
_NOT_AN_ITEM = lazy_regex(r"\s*[#|*_`<>{}\[\]=~]|.*[.!?:;,]\s*\Z|.*:\s|.*\|")
_REMARK_WORDS = lazy_regex(
    r"\b(?:sorry|cannot|can['’]t|could(?:n['’]t| not)|unable|apologi[sz]e|sure|certainly|of course|here"
    r"|below|above|following|i|i['’](?:m|ll|ve)|me|you|your|there (?:is|are)|none|nothing|n/a|let['’]s)\b",
    re.IGNORECASE,
)


def is_clear_list(text: str) -> bool:
    """Return True if the lines of the text are clearly list items, and not sentences about a list.

    There are at least two lines. All have a bullet or a number, or all are a few words without punctuation.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    if all(map(_BULLET.fullmatch, lines)):
        return True
    return not any(
        len(line) > _MAX_ITEM_CHARACTERS
        or len(line.split()) > _MAX_ITEM_WORDS
        or _NOT_AN_ITEM.match(line)
        or _REMARK_WORDS.search(line)
        for line in lines
    )
