"""Find which of several choices a reply in prose names.

A choice counts only if everything around it is known to be harmless (``harmless``):

* It is the whole reply: ``RED``, ``"red".``, ``(red)``, ``\\boxed{red}``.
* It is announced: ``Answer: red``, ``The answer is red``, ``Option B``. The text before the announcement does
  not count.
* It comes first and is set off: ``RED - the light is on``. An explanation may follow if at least half of its
  words are known, and it denies nothing, leaves nothing open and names no other choice.
* It is in a sentence whose other words are harmless: ``I would classify this as red.``

A sign that touches a choice belongs to it: ``C++`` is not ``C``. A reply that names several choices is rejected.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Generic, NamedTuple, TypeVar

from ..lazy_regex import lazy_regex
from ..result.errors import shorten
from . import words_in
from .announcements import REASON, after_announcement, final_result, is_announced, leaves_open
from .harmless import (
    asks_or_relates,
    calls_example,
    find_denial_of_answer,
    find_limit,
    find_phrase,
    find_relation,
    find_tie,
    find_unknown_word,
    is_in_known_language,
    is_personal_remark,
    opens_explanation,
    reports,
    takes_back,
    without_reported_negations,
)

T = TypeVar("T")
IN_A_SENTENCE = "named in a sentence"  # the rule for a choice among other words
CASE_OR_PUNCTUATION = "case or punctuation"
_MAX_MENTIONS = 50  # a text with more mentions is not an answer
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


class _Mention(NamedTuple, Generic[T]):
    """A choice that is named in a text, and its position."""

    choice: Choice[T]
    start: int
    end: int


class _Spellings(Generic[T]):
    """The labels and the other spellings of choices.

    Attributes:
        by_key: The choice that each normalized spelling means; None for one that means two choices.
        standalone: The spellings that mean their choice only if they are the whole reply.
    """

    def __init__(self, choices: Sequence[Choice[T]]) -> None:
        self.by_key: dict[str, Choice[T] | None] = {}
        for choice in choices:
            self._add(normalize(choice.label), choice)
        # The label of one choice wins over the same text as an alias of another choice.
        labels = frozenset(self.by_key)
        self.standalone = {
            normalize(text) for choice in choices for text in choice.standalone_aliases
        } - labels
        for choice in choices:
            for alias in (*choice.aliases, *choice.standalone_aliases):
                if normalize(alias) not in labels:
                    self._add(normalize(alias), choice)

    def _add(self, key: str, choice: Choice[T]) -> None:
        existing = self.by_key.get(key, choice)
        self.by_key[key] = choice if existing is choice else None

    def meaning(self, key: str) -> Choice[T]:
        """Return the choice that a spelling means, or raise NoMatch if it means two."""
        choice = self.by_key[key]
        if choice is None:
            raise NoMatch(f"“{key}” means more than one of them")
        return choice

    def whole(self, text: str) -> Choice[T] | None:
        """Return the choice whose spelling is the whole text, apart from marks around it, or None.

        Raises NoMatch if it means two choices.
        """
        key = normalize(_without_edges(text))
        return self.meaning(key) if key in self.by_key else None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a spelling in a sentence."""
        keys = [key for key in self.by_key if key and key not in self.standalone]
        mentions = map(_mention_of, sorted(keys, key=len, reverse=True))
        # each guard is written once for many keys, because compiling it is slow
        groups = groupby(mentions, key=lambda mention: (mention[0], mention[2]))
        options = "|".join(
            f"{start}(?:{'|'.join(key for _, key, _ in group)}){end}" for (start, end), group in groups
        )
        options = options or r"(?!)"
        return re.compile(rf"{_NOT_BEFORE}(?:{options}){_NOT_AFTER}")

    def mentions(self, folded: str) -> list[_Mention[T]]:
        """Return where a text names choices.

        Raises NoMatch if one of the words means two choices.
        """
        mentions = [
            _Mention(self.meaning(normalize(match[0])), match.start(), match.end())
            for match in islice(self.pattern.finditer(folded), _MAX_MENTIONS)
        ]
        if len(mentions) == _MAX_MENTIONS:
            raise NoMatch(f"the text names them {_MAX_MENTIONS} times or more")
        return mentions

    def why_none(self, folded: str) -> str:
        """Return why a text names no choice: a spelling in it may belong to another word or sign."""
        for key in self.by_key:
            if (
                key in folded
                and key
                and key not in self.standalone
                and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", folded)
            ):
                return f"{_UNCLEAR}: “{key}” is part of another word or sign"
        return "the text names none of them"


class ChoiceMatcher(Generic[T]):
    """Finds the choice that a reply names: "red" names ``Color.RED``."""

    def __init__(self, choices: Sequence[Choice[T]]) -> None:
        self.choices = tuple(choices)
        self._by_label = {choice.label: choice for choice in reversed(self.choices)}
        self._spellings = _Spellings(self.choices)

    def find(self, text: str) -> tuple[Choice[T], str | None]:
        """Return the choice that the text names, and the rule that was applied, such as "ignoring case".

        The rule is None if the text is exactly the label of the choice. Raises NoMatch.
        """
        exact = self._by_label.get(text)
        if exact is not None:
            return exact, None
        is_denied = _DENIED_BY_SIGN.match(text) is not None
        if len(text) < _MAX_EXACT_LENGTH and not is_denied:
            whole = self._spellings.whole(text)
            if whole is not None:
                return whole, CASE_OR_PUNCTUATION
        choice = (
            self._special_form(text)
            or (None if is_denied else self._announced(text))
            or self._after_lead(text)
            or self._concluded(text)
            or self._find_in_sentence(text)
        )
        return choice, IN_A_SENTENCE

    def _announced(self, text: str) -> Choice[T] | None:
        """Return the choice that is all of a text after an announcement: "The answer is red"."""
        return self._spellings.whole(_COPULA_LAST.sub("", after_announcement(text)))

    def _concluded(self, text: str) -> Choice[T] | None:
        """Return the choice that the last sentence announces: "She was charged twice, so it is billing."

        Return the choice of the last line, too, if what is before it has named it.
        """
        before, _, last = text.strip().rpartition("\n")
        is_alone = normalize(_without_edges(last)) in self._spellings.by_key and not leaves_open(before)
        sentence = _SENTENCE_END.split(before.rstrip())[-1] if is_alone else final_result(text)
        if not sentence or "?" in text or find_phrase(sentence.casefold(), "reports"):
            return None
        mentions = self._spellings.mentions(normalize(text))
        try:
            choice = self._find_in_sentence(sentence)
        except NoMatch:
            return None
        return choice if all(mention.choice is choice for mention in mentions) else None

    def _after_lead(self, text: str) -> Choice[T] | None:
        """Return the choice that is all of a text after a question or harmless words: "Is it new? Yes.", "In short: no"."""
        lead = _LEAD.match(text)
        key = normalize(_without_edges(text[lead.end() :])) if lead else ""
        if lead is None or not key or key not in self._spellings.by_key:
            return None
        question, words = lead[1], lead[2]
        if question is not None and _OR.search(question):
            return None
        if self._spellings.pattern.search(normalize(lead[0])) is not None:
            return None
        choice = self._spellings.meaning(key)
        if question is not None or (isinstance(choice.value, bool) and _is_predicate(words)):
            return choice
        is_other = find_unknown_word(words) or asks_or_relates(f"{words}:") or reports(words)
        return None if is_other else choice

    def _special_form(self, text: str) -> Choice[T] | None:
        """Return the choice of a text such as "Not true." and "❌ No" for a bool, or "4 out of 5" for numbers."""
        if len(text) > _MAX_EXACT_LENGTH:
            return None
        folded = text.casefold()
        rated = _RATED.fullmatch(folded)
        if rated is not None:
            is_highest = all(label.isdecimal() and int(label) <= int(rated[2]) for label in self._by_label)
            return self._by_label.get(rated[1]) if is_highest and rated[2] in self._by_label else None
        marked = _only_checked(folded) or _CATEGORY_OF_HARM.sub("", folded)
        choice = self._spellings.whole(marked) if marked != folded else None
        if choice is not None:
            return choice
        statement = _statement(folded)
        if _states_no(folded) or statement in words_in("denials"):
            return self._choice_of_bool(False)
        states_yes = _STATED_YES.fullmatch(folded) is not None or statement in words_in("affirmations")
        return self._choice_of_bool(True) if states_yes and "?" not in folded else None

    def _choice_of_bool(self, value: bool) -> Choice[T] | None:
        return next((choice for choice in self.choices if choice.value is value), None)

    def _leading_word(self, folded: str) -> _Mention[T] | None:
        """Return a yes or no in another language that comes first, is set off and is not doubted."""
        match = _LEADING_WORD.match(folded)
        if match is None or match[1] not in self._spellings.standalone or match[1] in _NOT_LEADING:
            return None
        choice = self._spellings.by_key[match[1]]
        if choice is None or not isinstance(choice.value, bool):
            return None
        if "?" in folded or find_phrase(folded[match.end(1) :], "limits of a yes"):
            return None
        return _Mention(choice, match.start(1), match.end(1))

    def _find_in_sentence(self, text: str) -> Choice[T]:
        text = _FOOTNOTE.sub("\n", _IGNORED.sub("", unicodedata.normalize("NFKC", text)))
        if self._are_letters:
            text = _ARTICLE_A.sub(" ", text)
            _refuse_initial(text)
        folded = _CONFIDENCE.sub("", text.casefold())
        folded = _CONFIDENCE_AFTER.sub("", folded)
        mentions = self._spellings.mentions(folded)
        leading = self._leading_word(folded)
        if leading is not None and self._is_explanation(folded, leading, mentions):
            return leading.choice
        if not mentions:
            raise NoMatch(self._spellings.why_none(folded))
        if "?" in folded:
            raise NoMatch(_UNCLEAR)
        stated = [mention for mention in mentions if is_announced(folded, mention.start)]
        first = (stated or mentions)[0]
        _refuse_others(first, stated)
        mentions = mentions[mentions.index(first) :]
        leads = stated or not folded[: first.start].strip(_BEFORE_LEADING)
        if leads and self._is_explanation(folded, first, mentions):
            return first.choice
        end = None if leads else self._end_of_statement(folded, first, mentions)
        if end is not None and self._explains(folded, end, first, mentions):
            return first.choice
        _refuse_others(first, mentions)
        self._check_sentence(folded, first, mentions, is_stated=bool(stated))
        return first.choice

    def _is_explanation(self, folded: str, first: _Mention[T], mentions: list[_Mention[T]]) -> bool:
        """Return True if the text after a choice is set off and explains it.

        Raises NoMatch if the explanation denies the choice, or names another one.
        """
        opening = _SET_OFF.match(folded, first.end)
        return opening is not None and self._explains(folded, opening, first, mentions)

    def _end_of_statement(
        self, folded: str, first: _Mention[T], mentions: list[_Mention[T]]
    ) -> re.Match[str] | None:
        """Return the end of the first sentence or line if it says by itself what the answer is: "It is low. …"."""
        end = _STATEMENT_END.search(folded, first.end)
        before = folded[: first.start]
        if end is None or _STATEMENT_END.search(before) or _IN_THE_PAST.search(before):
            return None
        if find_phrase(before, "reports"):
            return None
        inside = [mention for mention in mentions if mention.end <= end.start()]
        try:
            self._check_sentence(folded[: end.start()], first, inside, is_stated=False)
        except NoMatch:
            return None
        return end

    def _explains(
        self, folded: str, opening: re.Match[str], first: _Mention[T], mentions: list[_Mention[T]]
    ) -> bool:
        """Return True if the text after a statement explains it; see ``_is_explanation``."""
        explanation = folded[opening.end() :]
        if not explanation.strip(_EDGES):
            return False
        if _restates(explanation, first.choice):
            return True
        is_only = _is_only_mention(folded, first, mentions, opening.end())
        is_repeated = opening.end() in [mention.start for mention in mentions]
        reason = REASON.match(explanation)
        if reason is not None:
            explanation = explanation[reason.end() :]
        elif is_repeated or _OTHER_LABEL.match(explanation):
            return False
        is_short = len(explanation) <= _MAX_SHORT_TEXT
        is_text = self._are_letters and is_short  # of an option, as in "B. Paris"
        if not (reason or is_text):
            _refuse_opening(opening[0], explanation)
        is_reason = is_only and reason is not None and not find_phrase(explanation, "absences")
        _refuse_denied(explanation, first.choice, is_reason=is_reason)
        may_be_any = is_text or (is_reason and is_short)  # a few words after "Reason:"
        return may_be_any or is_in_known_language(explanation)

    @cached_property
    def _are_letters(self) -> bool:
        """True if the choices are the letters or numbers of options, whose texts a model may repeat."""
        return all(len(choice.label) <= 2 for choice in self.choices)

    def _check_sentence(
        self, folded: str, first: _Mention[T], mentions: list[_Mention[T]], *, is_stated: bool
    ) -> None:
        """Raise NoMatch if a word around the mentions of a choice is not known to be harmless."""
        parts, end = [], first.end if is_stated else 0
        for mention in mentions:
            if mention.start >= end:
                parts.append(folded[end : mention.start])
                end = mention.end
        before, after = " ".join(parts), folded[end:]
        after = _without_reason(before, after, first.choice)
        self._refuse_bare(f"{before} {after}", first)
        is_sad = normalize(first.choice.label) in words_in("negative labels")
        known = words_in("of the input") | (_SAD_FACES if is_sad else frozenset())
        word = find_unknown_word(f"{before} {after}", known)
        if word is not None:
            raise NoMatch(f"{_UNCLEAR}, because of “{word}” beside “{first.choice.label}”")
        relation = find_relation(after)
        if relation is not None:
            raise NoMatch(f"{_UNCLEAR}, because of “{shorten(relation, 40)}”")
        if before.rstrip().endswith(" as") and after.lstrip().startswith("as"):
            raise NoMatch(_UNCLEAR)
        if not is_stated:
            self._refuse_other_sense(folded, first)

    def _refuse_bare(self, around: str, first: _Mention[T]) -> None:
        """Raise NoMatch if a word next to a choice is another choice with a sign: "<yes|no>"."""
        for word in _BARE_WORD.findall(around):
            choice = self._spellings.by_key.get(word, first.choice)
            if choice is not first.choice and word not in self._spellings.standalone:
                raise NoMatch(f"the text names {first.choice.label} and {word}")

    def _refuse_other_sense(self, folded: str, first: _Mention[T]) -> None:
        """Raise NoMatch if the words before a choice do not say that it is the answer."""
        before, label = folded[: first.start], folded[first.start : first.end]
        if asks_or_relates(before) or reports(before):
            raise NoMatch(f"the words before “{first.choice.label}” do not say that it is the answer")
        if _OF_A_PERSON.search(before) or self._is_idiom(folded):
            raise NoMatch("the text uses the word in another sense")
        if len(label) > 1:
            return
        if find_tie(before, words_in("letters")) or not _stands_alone(folded, first):  # "plan B"
            raise NoMatch(f"“{label}” may be a word of the sentence")

    def _is_idiom(self, folded: str) -> bool:
        """Return True for "That's right." and "It's fine with me.", unless the choices are about what is right."""
        idiom = _IDIOM.search(folded)
        return idiom is not None and not any(
            word in self._spellings.by_key for word in ("wrong", "incorrect", "false")
        )


_FOOTNOTE = lazy_regex(r"\s*\[\^\d+\]\s*\n\s*\[\^\d+\]:\s*")
_SAD_FACES = frozenset("😠😡😞😢😔👎🙁😤☹")
_BARE_WORD = lazy_regex(r"(?<![^\W_])[^\W_]{2,}+(?<!no)|(?<![^\W_])no(?![ \w])")
_UNCLEAR = "the text does not clearly choose one of them"


_BOX = lazy_regex(
    r"\s*(?:[-*•]\s+)?(?:(\[[x✓✔*]\]|\([x✓✔*]\)|[☑✅])|\[ ?\]|\( ?\)|[☐⬜◻])\s*([^\n\[\]()☐☑☒✅⬜◻]{1,60})"
)
# The numbers of categories that guard models write after "unsafe".
_CATEGORY_OF_HARM = lazy_regex(r"(?<=unsafe)\s*\n\s*s\d{1,2}(?:\s*,\s*s\d{1,2})*\s*\Z")


def _only_checked(folded: str) -> str | None:
    """Return the text next to the only checked box of a form whose other boxes are empty, or None."""
    boxes = _BOX.findall(folded)
    checked = [text for mark, text in boxes if mark]
    return checked[0] if len(boxes) > 1 and len(checked) == 1 and not _BOX.sub("", folded).strip() else None


def _states_no(folded: str) -> bool:
    """Return True for a text such as "❌ No", "That is not true." and "It is not true that …"."""
    crossed = _CROSSED.match(folded)
    if crossed is not None and normalize(_without_edges(folded[crossed.end() :])) in ("no", "false"):
        return True
    if _STATED_NO.fullmatch(folded):
        return True
    that = _NOT_TRUE_THAT.match(folded)
    statement = folded[that.end() :] if that else ""
    return that is not None and not takes_back(statement) and is_in_known_language(statement)


def _refuse_others(first: _Mention[T], mentions: Sequence[_Mention[T]]) -> None:
    """Raise NoMatch if the mentions are of different choices."""
    other = next((mention for mention in mentions if mention.choice is not first.choice), None)
    if other is not None:
        raise NoMatch(f"the text names {first.choice.label} and {other.choice.label}")


def _without_reason(before: str, after: str, choice: Choice[T]) -> str:
    """Return the text after a choice without a reason such as "because it rains".

    Raises NoMatch if the reason takes the choice back.
    """
    because, is_statement = _BECAUSE.search(after), False
    if because is None and isinstance(choice.value, bool) and _IT_IS.search(before):
        because, is_statement = _THAT.match(after), True
    if because is None:
        return after
    reason = after[because.end() :]
    denied = takes_back(reason, denies=not is_statement)  # "it is false that this is not spam" is unclear
    if choice.value is not False:
        denied = denied or find_denial_of_answer(reason)
    if denied or not is_in_known_language(reason):
        raise NoMatch(_UNCLEAR)
    return after[: because.start()]


def _is_only_mention(folded: str, first: _Mention[T], mentions: Sequence[_Mention[T]], start: int) -> bool:
    """Return True if an explanation at ``start`` names no choice, apart from letters that may be words.

    Raises NoMatch if it names another choice.
    """
    mentions = [mention for mention in mentions if mention is first or mention.start >= start]
    clear = [one for one in mentions if one is first or one.end - one.start > 1 or _stands_alone(folded, one)]
    _refuse_others(first, clear)
    return len(clear) == 1


def _refuse_initial(text: str) -> None:
    """Raise NoMatch if the letter at the beginning is the initial of a person: "A. Lincoln wrote it"."""
    if _ABBREVIATION.match(text):
        raise NoMatch("the text is an abbreviation")
    match = _INITIAL.match(text)
    if match is None:
        return
    is_name = not is_in_known_language(match["name"])
    if match["more"] or (is_name and find_phrase(match["rest"].casefold(), "persons")):
        raise NoMatch(f"“{match['letter']}.” may be the initial of a name")


_ABBREVIATION = lazy_regex(r"[\s\"'`*_“(]*[A-Z]\.[^\W\d_]")
_INITIAL = lazy_regex(
    r"[\s\"'`*_“(]*(?P<letter>[A-Z])\.\s(?P<more>(?:[A-Z]\.\s?)+)?(?P<name>[^\W\d_a-z][\w'’-]+)(?P<rest>[^\n]*)"
)


def _restates(explanation: str, choice: Choice[T]) -> bool:
    """Return True for the description of a choice, and for "it is not true" after "no"."""
    if normalize(_without_edges(explanation)) == normalize(choice.description or ""):
        return True
    if not isinstance(choice.value, bool):
        return False
    statement = _statement(explanation)
    sections = ("affirmations", "stresses") if choice.value else ("denials", "stresses of no")
    if any(statement in words_in(section) for section in sections):
        return True
    return (_RESTATED_YES if choice.value else _RESTATED_NO).match(explanation) is not None


def _refuse_opening(opening: str, explanation: str) -> None:
    """Raise NoMatch if the first words after a choice relate or limit it, as in "low, for now"."""
    after_comma = opening.lstrip(_QUOTES).startswith((",", "，", "、", "،"))
    if not opens_explanation(explanation, after_comma=after_comma):
        raise NoMatch(f"{_UNCLEAR}, because of “{shorten(explanation.strip(), 40)}”")


def _refuse_denied(explanation: str, choice: Choice[T], *, is_reason: bool) -> None:
    """Raise NoMatch if the text denies or limits a choice, or does not explain it."""
    if is_reason and choice.value is not False:
        denied = takes_back(explanation, denies=True) or find_denial_of_answer(explanation)
    else:
        denied = takes_back(without_reported_negations(explanation), denies=choice.value is False)
    denied = denied or find_limit(explanation)
    if denied is None and isinstance(choice.value, bool):
        denied = find_phrase(explanation, "addresses")
    if denied is None and choice.value is False and _affirms(explanation):
        denied = explanation.strip()
    if denied is not None:
        raise NoMatch(f"{_UNCLEAR}, because of “{denied}”")
    if is_personal_remark(explanation):
        raise NoMatch(_UNCLEAR)


def _affirms(explanation: str) -> bool:
    """Return True for "it does" and "das stimmt", which contradict a "no" before them."""
    return _RESTATED_YES.match(explanation) is not None or _statement(explanation) in words_in("affirmations")


def _statement(text: str) -> str:
    """Return the words of a text as in ``words.txt``: "das_stimmt"."""
    return "_".join(re.findall(r"[^\W\d_]+", text))


def _stands_alone(folded: str, mention: _Mention[T]) -> bool:
    """Return True if a letter in a sentence is written like a label and not like a word.

    So it is in brackets or quotes, at the end of the sentence, or followed by a word that no noun would be.
    """
    before, after = folded[: mention.start][-1:], folded[mention.end :]
    return before in tuple("([{\"'`*“‘") or _AFTER_LETTER.match(after) is not None


def _mention_of(key: str) -> tuple[str, str, str]:
    """Return regular expressions for the label or another spelling of a choice in a sentence.

    The first one matches the text before it, and the last one the text after it.
    """
    # The word "no" before another word is not an answer, as in "no problem".
    pattern = _SEPARATOR.join(map(re.escape, key.split(" ")))
    if _RUN_CHARACTER.search(key):
        return "", pattern, ""
    start = rf"(?<![^\W{_RUNS}])" if key[0].isalnum() else ""
    end = rf"(?![^\W{_RUNS}])" if key[-1].isalnum() else ""
    if key in ("true", "false"):  # "True story!"
        end += r"(?![ \t]++(?!(?:is|was|as|because|since|for|in|according|based|given|the|it|this|that|true|false|or|and|but|if)\b)[^\W\d_])"
    if key == "no":
        end += r"(?!\.?[ \t]++\d)(?![ \t]++\w)"
    return start, pattern, end


def normalize(text: str) -> str:
    """Normalize the case, character width, hyphens and underscores of a string, for comparisons."""
    text = _IGNORED.sub("", unicodedata.normalize("NFKC", text))
    return _SEPARATORS.sub(" ", text.casefold()).strip()


_IGNORED = lazy_regex("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe0e\ufe0f\u00ad\u180e]")
# Scripts that are written without spaces between words.
_RUNS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_RUN_CHARACTER = lazy_regex(f"[{_RUNS}]")
# Marks, quotes and punctuation that may enclose a whole answer. The signs of programming and arithmetic are
# missing: they belong to the word that they touch, as in C# and B+.
_QUOTES = " \t\r\n\"'`*_“”„‘’«»‹›()[]{}（）【】「」『』"
_EDGES = _QUOTES + ".,;:!。，、：；！|"
_AGREEING = "✅✓✔☑👍🙂😊😀😃😄➡→⇒👉🔴🟠🟡🟢🔵⚪⚫🚨⚡"
_BEFORE_LEADING = _EDGES + _AGREEING + "-–—•#"
_MAX_LAYERS = 12  # a realistic reply has fewer
_WRAPPERS = (
    ("\\boxed{", "}"),
    ("\\text{", "}"),
    ("\\textbf{", "}"),
    ("$$", "$$"),
    ("$", "$"),
    ("<", ">"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
)


def _without_edges(text: str) -> str:
    """Return a text without the quotes, brackets, marks and punctuation around it."""
    for _ in range(_MAX_LAYERS):
        bare = _without_decoration(_BULLET_BEFORE.sub("", text.strip(_EDGES + _AGREEING)))
        inner = text.strip(" \t\r\n.")
        for opening, closing in _WRAPPERS:
            is_wrapped = inner.startswith(opening) and inner.endswith(closing)
            if is_wrapped and len(inner) > len(opening) + len(closing):
                bare = inner[len(opening) : -len(closing)]
        if bare == text:
            break
        text = bare
    return text


def _without_decoration(text: str) -> str:
    """Return a text without the signs after its punctuation: ``red!!!~`` becomes ``red!``."""
    bare = text.rstrip(_DECORATION)
    if bare.endswith((".", ",")):
        return bare
    end = text.find("!", len(bare)) + 1
    return text[:end] if end else text


_DECORATION = "!@#$%^&*~"
_BULLET_BEFORE = lazy_regex(
    rf"\A(?:[{re.escape(_EDGES + _AGREEING)}]*+(?:[-–—•#=]|1[.)]|(?:=>|->|>)(?=\s+[^\W\d]))\s++)+"
)
# A question or other words before an answer, and the Portuguese "a" in "A resposta correta é a C".
_LEAD = lazy_regex(
    r"\s*(?:((?:is|are|was|were|does|do|did|has|have|can) (?!you|i\b|we\b)[^?\n]{3,200}[?])\s|([^:：?\n]{1,60})[:：])\s*",
    re.IGNORECASE,
)
_PREDICATE = lazy_regex(
    r"[\s*_`\"']*(?:is|has|contains?|includes?|mentions?)(?:[_ ][^\W\d_]+){1,4}[*_`\"']*",
    re.IGNORECASE,
)


def _is_predicate(words: str) -> bool:
    """Return True for the name of a bool, such as "is_spam" and "Contains personal data"."""
    name = words.replace("_", " ")
    return _PREDICATE.fullmatch(words) is not None and takes_back(name) is None and not calls_example(name)


_OR = lazy_regex(r"\bor\b", re.IGNORECASE)
_ARTICLE_A = lazy_regex(
    r"(?<![\w'’-])(?:[Aa](?= (?:alternativa|resposta|opção|letra|solução|minha|escolha|melhor)\b)|a(?= [A-Z](?!\w)))"
)
# A denial in the notation of programs: "!positive".
_DENIED_BY_SIGN = lazy_regex(r"\W*[!¬]\w")
_CONFIDENCE = lazy_regex(
    r"[(\[]?(?:(?:[5-9]\d|100)(?:[.,]\d+)?\s?% (?:confiden(?:ce|t)|certain(?:ty)?|sure|probability)"
    r"|(?:with )?(?:confidence|probability)(?: score| level)?\s?[:=]?\s(?:of )?(?:[5-9]\d|100)(?:[.,]\d+)?\s?%?)[)\]]?"
)
# The confidence after a choice.
_CONFIDENCE_AFTER = lazy_regex(
    r"(?<=\w)[\"'`*_.]*\s*\n\W{0,6}confidence(?: score| level)?\W{1,8}(?:high|medium|low|1(?:[.,]0+)?|0?[.,][5-9]\d*|[5-9]\d\s?%"
    r"|100\s?%)[\s.*_]*\Z|(?<=\w)[*_]*\s\((?:confidence:?\s)?(?:0?[.,][5-9]\d*|1[.,]0+|[5-9]\d\s?%|100\s?%)\)[\s.*_]*\Z"
)
_SEPARATORS = lazy_regex(r"(?<=[^\W_])[\s_\-‐‑–]+(?=[^\W_])")
_SEPARATOR = r"[\s_\-‐‑–]++"
# Text that must not touch a choice: the rest of a word or number, or a sign.
_NOT_BEFORE = r"(?<![!¬])(?<![\w.][.])(?<!\w[-‐‑'’])(?<!\d,)(?<![-+<>=~≈±^%@$#&/\\])(?<![-+<>=~≈±]\ )"
_NOT_AFTER = r"(?![-‐‑]\w)(?![.,]\d)(?![-+#%^@&=~°]++(?:\W|\Z))(?!/\w)(?!['’]\w)"
_SET_OFF = lazy_regex(
    r"[\"'`*_”’)\]}]*(?:[.;!:]|,\s|\s*[-–—]\s|\s*[—–]|\s*\n|\\n|[。，：；！、،]|\s*:\s|\)\s|,(?=[\u3040-\u9fff\uac00-\ud7af])"
    r"|\s\((?=[^()\n]{3,}\)\W*\Z))(?:[\s\"'`*_]|\\n)*"
)
_SENTENCE_END = lazy_regex(r"(?<=[.!])\s+|\n+")
_STATEMENT_END = lazy_regex(r"(?<=[.!])[*_\"'`”’)]*\s+|[*_]*\s*\n\s*|。")
# A statement about the past may no longer be true.
_IN_THE_PAST = lazy_regex(
    r"(?<!\w)(?:was|were|war|était|era|fue|var|było|był|была|был|было)(?!\w)[^.]{0,9}\Z"
)
_COPULA_LAST = lazy_regex(r"(?:です|だ|입니다|이다)[。.]?\s*\Z")
_CROSSED = lazy_regex(r"\s*[❌✗✘✖]\s*(?=\w)")
_RATED = lazy_regex(
    r"\W*(?:(?:rating|score|grade)\W+)?(\d{1,3})\s?(?:/|out of)\s?(5|7|10|20|100)(?:\s?stars?)?\W*"
)
_STATEMENT = r"\W*(?:(?:that|it|this|the (?:statement|claim|sentence|assertion))(?: is|['’]s) )"
_STATED_NO = lazy_regex(
    rf"(?:{_STATEMENT}|\W*)(?:(?:absolutely|definitely|certainly|clearly|of course) not|not (?:true|correct|accurate)|incorrect|untrue)[\s.!*_\"'`]*"
)
_STATED_YES = lazy_regex(rf"{_STATEMENT}(?:correct|accurate)[\s.!*_\"'`]*")
_NOT_TRUE_THAT = lazy_regex(r"\W*(?:no, )?it(?: is|['’]s) not (?:true|correct) that ")
_LEADING_WORD = lazy_regex(r"[\s\"'`*_“«]*([^\W\d_]+)(?=[\"'`*_”»]*\s?(?:[,.!;:，。！；、،]|[-–—]\s|\n))")
_NOT_LEADING = frozenset("y j n on off right".split())
_MAX_SHORT_TEXT = 120  # characters
# A line with a label, except the label of a reason.
_OTHER_LABEL = lazy_regex(r"\W*(?:[^\W\d_]+ ){0,3}[^\W\d_]+[*_]*[:：](?:\s|[*_])")
# "No, that is not true." and "Yes, it is."
_SUBJECT = r"(?:it|that|this|they|he|she|there|the (?:statement|claim|text|answer|review|message)|you|i)"
_RESTATED_NO = lazy_regex(
    rf"{_SUBJECT}(?:(?:['’]s| is| was| are| does| do| did| has| would) not|(?: is| was| are| does| do| did| has)n['’]t"
    r"|(?:['’]s| is| was) (?:false|incorrect|wrong|untrue|inaccurate))"
    r"(?: (?:true|correct|right|accurate|so|the case))?[\s.!\"'`*]*\Z"
)
_RESTATED_YES = lazy_regex(
    rf"{_SUBJECT}(?:['’]s| is| was| are| does| do| did| has)(?: (?:true|correct|right|accurate|so|the case))?[\s.!\"'`*]*\Z"
)
_BECAUSE = lazy_regex(r"(?<!\w)(?:because|since|weil|denn|da|parce que|car|porque|perché|omdat)(?!\w)")
# "It is true that the earth is round."
_IT_IS = lazy_regex(r"(?<!\w)it(?: is|['’]s) (?:clearly |indeed )?\Z")
_THAT = lazy_regex(r" that(?!\w)")
_AFTER_LETTER = lazy_regex(
    r"[\"'`*_”’)\]}]|[.!,;:]*\s*\Z|[.!,;:]\s| (?:is|was|because|applies|fits|as)(?!\w)|です|。"
)
_IDIOM = lazy_regex(
    r"(?<!\w)(?:that(?:['’]s| is| was| would be| sounds| seems)|sounds|you(?:['’]re| are)|i(?:['’]m| am)) (?:all |quite |so |very |perfectly |just |about )?"
    r"(?:right|fine|cool|clear|fair|great|ok|okay|sure|nice|enough|free|welcome|done|ready)(?!\w)"
    r"|(?<!\w)(?:(?:it|this)(?:['’]s| is) (?:all |quite )?(?:right|fine|ok|okay)|all right|(?:high|low) time|high noon|(?:fly|aim|run|lie) (?:high|low)|(?:record|all-time) (?:high|low)|right (?:away|now|on|then|here)|fair enough|feel free)(?!\w)"
)
# In "I am positive" or "we are done" people describe themselves. The word is not the answer there.
_OF_A_PERSON = lazy_regex(
    r"(?<!\w)(?:i|we|you|he|she|they)(?:(?: |(?=['’]))(?:am|are|is|was|were|['’](?:m|re|s))(?: (?:so|very|just|really|\w+ly))*"
    r"| will|['’]ll)? \Z"
)
