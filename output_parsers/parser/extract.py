"""Find the answer in a model's reply, as JSON or text.

The reasoning, fences, tags and text around the answer are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from ..json import grammar
from ..json.scanner import comments_in, read_exact, read_tolerant
from ..lazy_regex import lazy_regex
from ..prose.harmless import find_unknown_word
from ..prose.roles import OPENED_FENCE, Role, Verdict, no_words, objection_in_comments, role_of
from ..result.errors import Problem, shorten
from ..result.reading import Cursor, Json, JsonSyntaxError, Repair, ValidationFailure
from .reasoning import FENCE_MARK, find_answer

# The rules of the coercions that are recorded here.
TEXT_AROUND_JSON = "text around the JSON left out"
_REASONING_RULE = "reasoning set aside"
_WRAPPING_RULE = "fence or tag taken off"
_JSON_LINES_RULE = "JSON Lines"

_MAX_CANDIDATES = 1000  # a reply with more JSON values is not an answer, except JSON Lines
_MANY_VALUES = f"the reply contains more than {_MAX_CANDIDATES} JSON values"
# Each broken value costs a search for its closing bracket, and a reply with more of them is not an answer.
_MAX_BROKEN_VALUES = 300

# A parenthesis opens JSON (a Python tuple) only at the beginning of an answer; elsewhere it belongs to prose.
_OPENING = lazy_regex(r"[{\[]|(?:\A|(?<!`)`{3,}+\w{0,20}\n|(?<!~)~{3,}+\w{0,20}\n)\s*\(")
_JSON_START = lazy_regex(
    grammar.with_any_space(
        r"""\{\s*(?:["'`“”‘’}{]|\\["']|[\w$-]+\s*:|//|/\*|\#|\Z)"""
        r"""|\[\s*(?:["'`“”‘’\[\]{(+-]|\\["']|\d|//|/\*|\#|[A-Za-z]|\Z)|\((?!\w{1,4}\)[\s])\s*["'`“”‘’\[{(\d+-]"""
    )
)
_BRACKETS = lazy_regex(r"""[\[\]{}]|\\.|"(?:[^"\\\n]++|\\.)*+\"""")
# Other tags may say that their content is not the answer, such as <draft>.
_TAG = lazy_regex(
    r"<((?:final[_-]?)?(?:answer|result|output|response|solution|json|value|text|data|content|reply|decision|choice"
    r"|label|category|class|classification|sentiment|rating|score|number|count|date|time|name|items?|list|object|record"
    r"|summary|code|root|xml|r|a|b|strong|em))>",
    re.IGNORECASE,
)
_FENCE = lazy_regex(r"(`{3,}|~{3,})[^\n`~]{0,40}\n")
_YAML = lazy_regex(r"\bya?ml\b", re.IGNORECASE)
_QUOTED_ITEM = lazy_regex(r"^(\s*- )([\"'])([^\"'\\\n]*)\2[ \t]*$", re.MULTILINE)
_INDENTED_LIST = lazy_regex(r"\s*?^([ \t]++)(?=[-*+•] )", re.MULTILINE)
_LANGUAGE = lazy_regex(r"\w{0,20}")
# A key, or two items: text in broken brackets that is JSON, and not a placeholder such as {name}.
_KEYS_OR_ITEMS = lazy_regex(
    r"""["'\w]\s{0,20}:\s{0,20}["\[{\d}-]|\d\s{0,20},\s{0,20}-?\d|"\s{0,20},\s{0,20}\""""
)
_WORD = lazy_regex(r"[^\W\d_]+")
_QUOTED = lazy_regex(r"[\"'`“”‘’{<]")
_LETTER = lazy_regex(r"[^\W\d_]")
_CLOSER_AFTER = lazy_regex(r"\s*+[\]}]")
FRAGMENT_MESSAGE = "the JSON is broken: a value in it can be read, but is only a part of the answer"
_INVISIBLE = "\ufeff\u200b\u2060\0"
LINE_SEPARATOR = lazy_regex(
    r"[\s,;]*+(?:(?:[-*]|\d{1,4}[.)])\s++)?|\s*+(?:`{3,}+\s++`{3,}+|~{3,}+\s++~{3,}+)(?:jsonc?|json5)?\s*+"
)
_rule_of = attrgetter("rule")


class _Span(NamedTuple):
    """The position of a JSON value in a reply, and the start of the code block or text around the value.

    Attributes:
        start: The index of the first character.
        end: The index after the last character.
        region: The index where its fence begins, or where the last fence before it ends.
        lower: The end of the last value before it.
        follows_broken: True if broken JSON comes before it, without words between.
    """

    start: int
    end: int
    region: int
    lower: int = 0
    follows_broken: bool = False


class _Fences:
    """Follows the Markdown fences of a text from its beginning to its end.

    Attributes:
        is_open: True inside a code block.
        language: The language that the code block names, in lower case.
        region: The index where the code block begins, or where the last one before the text ends.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = self._next_mark = 0
        self.is_open = False
        self.language = ""
        self.region = 0

    def advance(self, start: int, end: int) -> None:
        """Go to the JSON value from ``start`` to ``end``; marks inside it are not fences."""
        for mark in FENCE_MARK.finditer(self._text, self._seen, start):
            # two adjacent fences close one block and open the next
            self.is_open, self.region = self.is_open != (len(mark[0]) < 6), mark.end()
            name = _LANGUAGE.match(self._text, mark.end()) if self.is_open else None
            self.language = name[0].lower() if name else ""
        self._seen = end

    def end_of_block(self) -> int:
        """Return the end of the code block in which the last JSON value is, or the end of that value."""
        if self.is_open and self._next_mark < self._seen:
            mark = FENCE_MARK.search(self._text, self._seen)
            self._next_mark = mark.end() if mark else len(self._text) + 1
        return self._next_mark if self.is_open and self._next_mark <= len(self._text) else self._seen


class Candidate(NamedTuple):
    """A JSON value in a reply that may be the answer.

    Attributes:
        value: The JSON value.
        rules: The rules of the coercions that were needed to find the value.
        fenced: True if the value is in a Markdown fence.
        language: The language that the fence names, in lower case.
        is_fragment: True if the value seems to be a part of larger, broken JSON.
        has_extra_closer: True if closing brackets without opening ones follow the value.
        objection: Words next to the value that may say that it is not the answer; "" if there are none.
    """

    value: Json
    rules: tuple[str, ...] = ()
    fenced: bool = False
    language: str = ""
    is_fragment: bool = False
    has_extra_closer: bool = False
    objection: str = ""


class ReplyText(NamedTuple):
    """The text of a model's reply without the reasoning.

    Attributes:
        text: The text.
        rules: The rules of the coercions that say what was removed.
        own_words: Returns the words of the type that is read, which may occur next to JSON.
    """

    text: str
    rules: tuple[str, ...] = ()
    own_words: Callable[[], frozenset[str]] = no_words

    @property
    def looks_like_json(self) -> bool:
        """True if the model's reply begins like JSON, so that it must not be parsed as prose."""
        return _JSON_START.match(self.text.lstrip(" \t\r\n`~").removeprefix("json").lstrip()) is not None

    def read_whole(self) -> Candidate | None:
        """Parse the whole reply as JSON, without repairs; return None if the reply is not valid JSON.

        Raises ValidationFailure for JSON with a key that appears twice or with half a surrogate pair.
        """
        # Checking the first character is cheaper than catching an error of the JSON decoder.
        if not self.text or self.text[0] not in '{["-0123456789tfn':
            return None
        try:
            return Candidate(read_exact(self.text), self.rules)
        except JsonSyntaxError as error:
            if "twice" in error.message or "surrogate" in error.message:
                raise ValidationFailure(Problem("$", error.message)) from error
            return None

    def broken_json_message(self) -> str:
        """Return an error message about the first syntax mistake of the JSON in a model's reply."""
        opening = _OPENING.search(self.text)
        try:
            read_tolerant(self.text, opening.end() - 1 if opening else 0)
        except JsonSyntaxError as error:
            return f"the JSON is broken: {error.message}"
        return "text in brackets is not clearly a list; write JSON"

    def find_candidates(self) -> list[Candidate]:
        """Return the outermost JSON values in the reply that may be the answer.

        For JSON Lines, the list of all values is a candidate too.

        Raises ValidationFailure if one of the values is truncated, or if there are too many of them.
        """
        candidates, spans, has_broken = self._read_values()
        self._mark_fragments(candidates, spans)
        if has_broken:  # the answer may be the part that cannot be read
            candidates = [candidate._replace(is_fragment=True) for candidate in candidates]
        is_clear = len(spans) == 1 and not candidates[0].is_fragment
        if is_clear and _is_in_prose(self.text, spans[0].start, spans[0].end):
            raise ValidationFailure(not_the_answer(self.text))
        chosen = _without_other_roles(candidates, self._verdicts(spans))
        if candidates and not chosen:
            raise ValidationFailure(not_the_answer(self.text))
        if is_clear and chosen[0].objection:
            raise ValidationFailure(not_the_answer(chosen[0].objection))
        is_complete = len(spans) > 1 and len(chosen) == len(candidates)
        return self._with_json_lines(chosen, spans) if is_complete else chosen

    def _read_values(self) -> tuple[list[Candidate], list[_Span], bool]:
        """Return the outermost JSON values, their positions, and whether there is broken JSON next to them.

        Raises ValidationFailure if one of the values is truncated, or if there are too many of them.
        """
        text = self.text
        candidates: list[Candidate] = []
        spans: list[_Span] = []
        position = broken = broken_end = lower = remarks = 0
        has_broken = False
        fences = _Fences(text)
        while opening := _OPENING.search(text, position):
            start = opening.end() - 1
            position = start + 1
            if not _JSON_START.match(text, start):
                continue
            try:
                value, repairs, end = read_tolerant(text, start)
            except JsonSyntaxError as error:
                broken += 1
                position, may_be_answer = self._after_broken_value(start, error, broken)
                if may_be_answer is not None:
                    broken_end = position
                    has_broken = has_broken or may_be_answer
                continue
            position = end
            if _is_denied(text, start, end):
                lower = end
                continue
            if _is_no_value(text, start, end, value):
                continue
            self._check_comments(start, end, repairs)
            if self._is_remark(start, end, value):
                remarks += 1
                if remarks > _MAX_CANDIDATES:
                    raise ValidationFailure(Problem("$", _MANY_VALUES))
                continue
            fences.advance(start, end)
            surrounded = start > 0 or end < len(text)  # the text has no white space at its ends
            rules = (*self.rules, TEXT_AROUND_JSON) if surrounded else self.rules
            rules = (*rules, *map(_rule_of, repairs))
            candidates.append(Candidate(value, rules, fences.is_open, fences.language))
            follows_broken = broken_end > 0 and not _LETTER.search(text, broken_end, start)
            spans.append(_Span(start, end, fences.region, lower, follows_broken))
            broken_end, lower = 0, fences.end_of_block()
            if len(spans) > _MAX_CANDIDATES:
                _refuse_many_values(text, spans)
        return candidates, spans, has_broken

    def _after_broken_value(self, start: int, error: JsonSyntaxError, number: int) -> tuple[int, bool | None]:
        """Return the end of broken JSON, and whether the JSON may be the answer.

        The latter is None for brackets of text. Raises ValidationFailure if no bracket closes the JSON, or if
        too many values are broken.
        """
        text = self.text
        after = start + 1 if text[start] == "(" else _closing_bracket(text, start)
        if after is None or number > _MAX_BROKEN_VALUES:
            state = "cut off" if error.truncated else "broken"
            raise ValidationFailure(Problem("$", f"the JSON is {state}: {error.message}")) from error
        if text[start] == "(" or not _KEYS_OR_ITEMS.search(text, start, after):
            return after, None
        near = max(0, start - _NEARBY), after + _NEARBY
        return after, role_of(text, start, after, *near, self.own_words).role is not Role.OTHER

    def _check_comments(self, start: int, end: int, repairs: Iterable[Repair]) -> None:
        """Raise ValidationFailure if a comment says that something is left out, invented or uncertain."""
        if all(repair.rule != "comment" for repair in repairs):
            return
        comments = comments_in(self.text, start, end)
        words = objection_in_comments(comments, self.text, start, end, self.own_words)
        if words is not None:
            message = (
                "a comment in the JSON may say that it is not the answer; write the JSON without comments"
            )
            raise ValidationFailure(Problem("$", message, shorten(words)))

    def _is_remark(self, start: int, end: int, value: Json) -> bool:
        """Return True for words in brackets that are not quoted and not separated, such as ``[cough]``."""
        if type(value) is not list or len(set(map(str, value))) != 1 or not isinstance(value[0], str):
            return False
        words = _WORD.findall(self.text, start, end)
        is_quoted = _QUOTED.search(self.text, start, end) is not None
        return not (is_quoted or self.own_words().issuperset(map(str.casefold, words)))

    def _verdicts(self, spans: list[_Span]) -> list[Verdict]:
        """Return what the text of a reply says about each of its JSON values."""
        if not spans:
            return []
        ends = [0, *(span.end for span in spans[:-1])]
        starts = [*(span.start for span in spans[1:]), len(self.text)]
        return [
            role_of(
                self.text,
                span.start,
                span.end,
                span.lower if span.lower <= span.start else end,
                upper,
                self.own_words,
            )
            for span, end, upper in zip(spans, ends, starts, strict=True)
        ]

    def _mark_fragments(self, candidates: list[Candidate], spans: list[_Span]) -> None:
        """Mark the JSON values in a reply that seem to be fragments of larger, broken JSON.

        Each fence, and the text between two fences, is a separate region: brackets in one region do not
        affect the values in another.
        """
        text, index = self.text, 0
        for _, members in groupby(spans, attrgetter("region")):
            inside = list(members)
            fence = FENCE_MARK.search(text, inside[-1].end)
            all_are_parts = _has_json_outside(text, inside, fence.start() if fence else len(text))
            for span in inside:
                is_part = all_are_parts or span.follows_broken or _touches_json(text, span.start, span.end)
                has_extra_closer = _CLOSER_AFTER.match(text, span.end) is not None
                candidates[index] = candidates[index]._replace(
                    is_fragment=is_part, has_extra_closer=has_extra_closer
                )
                index += 1

    def _with_json_lines(self, candidates: list[Candidate], spans: list[_Span]) -> list[Candidate]:
        """If each line is a JSON value (JSON Lines), add the list of all values as a candidate."""
        pairs = pairwise(spans)
        if all(LINE_SEPARATOR.fullmatch(self.text, one.end, next_.start) for one, next_ in pairs):
            lines = Candidate(
                [candidate.value for candidate in candidates],
                (*self.rules, _JSON_LINES_RULE),
                is_fragment=any(candidate.is_fragment for candidate in candidates),
                objection=next((one.objection for one in candidates if one.objection), ""),
            )
            return [lines] if len(candidates) > _MAX_CANDIDATES else [*candidates, lines]
        return candidates

    def without_wrapping(self) -> ReplyText:
        """Return the reply without the Markdown code fences or tags that enclose it."""
        text, rules = self.text, self.rules
        for _ in range(3):
            fence = _FENCE.match(text)
            opening = fence or _TAG.match(text)
            if opening is None:
                break
            closing = fence[1] if fence else f"</{opening[1]}>"
            if len(text) < opening.end() + len(closing) or not text.endswith(closing):
                break
            if closing in text[: -len(closing)] and not fence:  # one of several elements
                break
            text, rules = _strip(text[opening.end() : -len(closing)]), (*rules, _WRAPPING_RULE)
            if fence and _YAML.search(fence[0]):
                text = _QUOTED_ITEM.sub(r"\1\3", text)
        return ReplyText(text, rules, self.own_words)


def _without_other_roles(candidates: list[Candidate], verdicts: list[Verdict]) -> list[Candidate]:
    """Return the candidates that are announced as the answer, or else those not called something else."""
    roles = [verdict.role for verdict in verdicts]
    if Role.ANSWER in roles:
        return [one for one, role in zip(candidates, roles, strict=True) if role is Role.ANSWER]
    return [
        one._replace(objection=verdict.words if verdict.role is Role.UNCLEAR else "")
        for one, verdict in zip(candidates, verdicts, strict=True)
        if verdict.role is not Role.OTHER
    ]


def not_the_answer(found: str) -> Problem:
    """Return the problem of JSON next to words that deny it or are unknown."""
    message = "the text around the JSON may say that it is not the answer; write the JSON alone"
    return Problem("$", message, shorten(found))


def strip_reasoning(
    text: str, cursor: Cursor, own_words: Callable[[], frozenset[str]] = no_words
) -> ReplyText:
    """Remove the model's reasoning, such as ``<think>`` sections, and white space around a reply.

    Raises ValidationFailure if the reply ends inside its reasoning.
    """
    answer = find_answer(text)
    if answer.is_cut_off:
        raise cursor.failure("the reply ends inside its reasoning", text)
    rules = (_REASONING_RULE,) if answer.has_reasoning else ()
    indented = _INDENTED_LIST.match(answer.text)
    # without the indentation of the first line alone, the others would be lists inside of its item
    body = answer.text.replace(f"\n{indented[1]}", "\n") if indented else answer.text
    return ReplyText(_strip(body), rules, own_words)


def find_single_json(text: str, own_words: Callable[[], frozenset[str]] = no_words) -> str:
    """Return the text of the only JSON value in a reply; "" if there is none or more than one.

    Return "" if there is no text around the JSON, if it may be more than one value, or if the words next to
    it say that it is not the answer.
    """
    start = text.find("{")
    array = text.find("[", 0, start)
    if array >= 0:
        start = array
    end = text.rfind("}") + 1
    end = text.rfind("]", end) + 1 or end
    if start < 0 or end <= start or text.find("{", end) >= 0 or text.find("[", end) >= 0:
        return ""
    # JSON alone in a fence has no words directly before or after it; all other JSON needs the checks.
    if text[start - 1 : start] != "\n" or not text.startswith("\n```", end):
        if _touches_json(text, start, end) or _is_denied(text, start, end):
            return ""
        if not (_strip(text[:start]) or _strip(text[end:])):
            return ""
    if _is_in_prose(text, start, end):
        return ""
    if role_of(text, start, end, own_words=own_words).role in (Role.OTHER, Role.UNCLEAR):
        return ""
    return text[start:end]


# Words directly before or after JSON that say that it is not the answer.
_DENIED_BEFORE = lazy_regex(
    r"\b(?:not|never|wrong|incorrect|invalid|instead of|rather than)\b[ \t:`]{0,4}\Z", re.IGNORECASE
)
_DENIED_AFTER = lazy_regex(
    r"[ \t`.,]{0,4}(?:is|was|would be)(?:\s(?:not|never|wrong|incorrect|invalid)\b|n['’]t\b)", re.IGNORECASE
)


def _is_end_of_line(text: str, start: int, end: int) -> bool:
    """Return True if only a line break or comma separates two JSON values in a reply, as in JSON Lines."""
    is_separator = LINE_SEPARATOR.fullmatch(text, start, end) is not None
    return is_separator and (text.find("\n", start, end) >= 0 or text.find(",", start, end) >= 0)


_CHECK_BOX = lazy_regex(r"(?<=[-*+] )\[[ xX]\] ")
# A character class, a check box or a placeholder: [a-z], [x], [REDACTED]
_PLACEHOLDER = lazy_regex(
    r"\[\s*(?:none|n/?a|nil|nothing|unknown|empty|truncated|redacted|omitted|removed|missing|[a-z0-9]-[a-z0-9]|x)\s*\]",
    re.IGNORECASE,
)


_REFERS = lazy_regex(r"\b(?:in|see|from|by|at|of|ref|fig|no)\.?\Z", re.IGNORECASE)
_ENUMERATED = frozenset({"numbers", "values", "items", "scores", "list", "array", "vector", "ids"})


def _opens_fence(text: str, start: int) -> bool:
    """Return True if a value is on the line that opens its code block, as in ```` ```json [1] ``` ````."""
    return OPENED_FENCE.search(text, max(0, start - 40), start) is not None


def _is_in_prose(text: str, start: int, end: int) -> bool:
    """Return True if brackets are a part of a sentence, such as a reference [1], and not a list."""
    if text[start] != "[" or _opens_fence(text, start):
        return False
    if text[start - 1 : start].isalpha():  # x[0], list[str]
        return True
    if any(sign in text[start:end] for sign in "{\"'"):
        return False
    if _PLACEHOLDER.fullmatch(text, start, end):
        return True
    line = text[max(text.rfind("\n", 0, start), start - 160) + 1 : start]
    words = line.rsplit(". ", 1)[-1].strip(" `*_\"'")
    if not words or words.endswith((":", "=", "：", "->", "→", "(", "{", "-", "*", ",", "!", "]", "}", ")")):
        return False
    return _REFERS.search(words) is not None or find_unknown_word(words, _ENUMERATED) is not None


def _is_no_value(text: str, start: int, end: int, value: Json) -> bool:
    """Return True if text that looks like JSON is something else."""
    if text[start] == "[" and not _opens_fence(text, start):
        is_link = text.startswith("(", end)  # [text](address) in Markdown
        if is_link or text[start - 1 : start].isalpha() or _CHECK_BOX.match(text, start):
            return True  # x[0], list[str], - [x] done
    # In accounting (5) is minus five, so only a list or an object in parentheses is a value.
    return text[start] == "(" and not isinstance(value, (list, dict))


def _refuse_many_values(text: str, spans: list[_Span]) -> None:
    """Raise ValidationFailure if a reply with too many JSON values is not JSON Lines."""
    # the earlier values were checked when the limit was exceeded for the first time
    new = spans if len(spans) == _MAX_CANDIDATES + 1 else spans[-2:]
    if not all(_is_end_of_line(text, one.end, next_.start) for one, next_ in pairwise(new)):
        raise ValidationFailure(Problem("$", _MANY_VALUES))


def _is_denied(text: str, start: int, end: int) -> bool:
    """Return True if words next to a JSON value reject the value, as in "the answer is not {...}"."""
    before = _DENIED_BEFORE.search(text, max(0, start - 20), start)
    return before is not None or _DENIED_AFTER.match(text, end) is not None


# What may be directly before or after a part of larger JSON.
_KEY_BEFORE = lazy_regex(r"""["'”’]\s{0,20}:\s{0,20}\Z""")
# A quoted word after another word is prose: The "counts" are: …, For "fruits": …
_QUOTATION_BEFORE = lazy_regex(
    r"""(?<!true)(?<!false)(?<!null)(?<=[^\W\d_]{2})[ ]["'“‘][\w -]{1,40}["'”’]:\s{0,20}\Z"""
)
_FIELD_AFTER = lazy_regex(r'[\s,]*+(?:"[^"\n]{0,80}"|[\w$-]{1,80}")\s*+:')
# A value inside a string that is one of several strings.
_STRING_BEFORE = lazy_regex(r"""(?:[,\[]|["'”’]\s{0,20}:)\s{0,20}"\Z""")
_STRING_AFTER = lazy_regex(r'"\s*+[,\]}]')
_NUMBER_BEFORE = lazy_regex(r"(?:\A|[\s,\[])-?[0-9][0-9.]*+,\Z")
_NUMBER_AFTER = lazy_regex(
    r"[\s\]}]{0,40}(?:-?[0-9][0-9.]*+|-|\.[0-9]++)[ \t]*+(?:[,\]}\n`]|\Z)|\s{0,3}\.[0-9]"
)
_DIGIT_AFTER = lazy_regex(r"[\s\]}]{0,40}-?[0-9]")
_WORD_BEFORE = lazy_regex(r"[\w.+-]{1,40}\Z")
_WORD_AFTER = lazy_regex(r"[\w.+-]{1,40}")
_JSON_WORD = lazy_regex(r"-?[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|true|false|null")


def _touches_json(text: str, start: int, end: int) -> bool:
    """Return True if the text next to a JSON value suggests that the value is a fragment of larger JSON."""
    if _is_in_object(text, start, end) or _is_in_string(text, start, end):
        return True
    # the end of its content, without its closing brackets and the values inside it
    content = text[max(start, end - 80) : end - 1].rstrip(" \t\r\n]}")
    return _cuts_list(text, start, end, content) or _cuts_word(text, start, end, content)


def _is_in_object(text: str, start: int, end: int) -> bool:
    """Return True if a key before a value, or a field after it, says that it is inside of an object."""
    if _FIELD_AFTER.match(text, end):
        return True
    near = max(0, start - 80)
    has_key = _KEY_BEFORE.search(text, near, start) is not None
    return has_key and _QUOTATION_BEFORE.search(text, near, start) is None


def _is_in_string(text: str, start: int, end: int) -> bool:
    if _STRING_BEFORE.search(text, max(0, start - 30), start):
        return True
    return text[start - 1 : start] == '"' and _STRING_AFTER.match(text, end) is not None


def _cuts_list(text: str, start: int, end: int, content: str) -> bool:
    """Return True if a number next to a value seems to be one of its items: ``1,[2]`` and ``[1, 2] 3,``."""
    if text[start] == "[" and _NUMBER_BEFORE.search(text, max(0, start - 40), start):
        return True
    if content.endswith(","):
        return _DIGIT_AFTER.match(text, end) is not None
    last = _WORD_BEFORE.search(content)
    takes_number = content.endswith(("{", "[")) or (last is not None and _is_json_word(last[0]))
    return takes_number and _NUMBER_AFTER.match(text, end) is not None


def _cuts_word(text: str, start: int, end: int, content: str) -> bool:
    """Return True if half of a number or literal is outside a value, as in ``[10, 3]0``, or all: ``[]7``."""
    before = _WORD_BEFORE.search(text, max(0, start - 40), start)
    after = _WORD_AFTER.match(text, end)
    if content.endswith(("{", "[")) and any(word and _is_json_word(word[0]) for word in (before, after)):
        return True
    first, last = _WORD_AFTER.match(text, start + 1), _WORD_BEFORE.search(content)
    return any(
        one and two and two[0] != "." and _is_json_word(one[0] + two[0])
        for one, two in ((before, first), (last, after))
    )


def _is_json_word(word: str) -> bool:
    return _JSON_WORD.fullmatch(word) is not None


# The brackets of text, without those in code. The first alternative matches the braces of LaTeX.
_BRACKETS_OF_TEXT = lazy_regex(r"\\[a-zA-Z]++\{|[\[\]{}]|(?<!`)`(?!`)[^`\n]*+`(?!`)")
_NEARBY = 200  # characters before or after a bracket that are searched for JSON
# Text that only JSON contains: a key, or nothing but values and separators.
_KEY = lazy_regex(r"""["'”’]\s{0,20}:""")
_SCALAR = lazy_regex(r'[0-9]|"[^"\n]*+"|\b(?:true|false|null)\b')
_STRING_OR_LITERAL = lazy_regex(r'"[^"\n]*+"|\b(?:true|false|null)\b')
_PROSE_WORD = lazy_regex(r"[^\W\d_]{3}")
_OPENINGS = {"}": "{", "]": "["}


def _has_json_outside(text: str, spans: list[_Span], region_end: int) -> bool:
    """Return True if the text around the JSON values suggests that they are pieces of larger JSON.

    This is so if a bracket in that text is not paired there, or pairs around a value, and the text between
    the bracket and the value is JSON too: ``{value": 1, "next": `` before a value, or ``, 20, 30]`` after it.
    """
    open_brackets: list[int] = []
    previous_end = position = spans[0].region
    is_empty = False  # the value before the gap is an empty object or array
    gaps_end = _Span(region_end, region_end, spans[0].region)
    for number, (start, end, *_) in enumerate((*spans, gaps_end)):
        for token in _BRACKETS_OF_TEXT.finditer(text, position, start):
            index, bracket = token.end() - 1, token[0][-1]
            if bracket in "{[":
                open_brackets.append(index)
            elif bracket in "}]":
                opening = open_brackets.pop() if open_brackets else -1
                if opening >= previous_end and text[opening] == _OPENINGS[bracket]:
                    continue  # a pair of brackets in the text
                between = text[max(previous_end, index - _NEARBY) : index]
                closes_list = not between.strip(" \t\r\n,") and (is_empty or number > 1)
                if closes_list or _is_json(between):
                    return True
        if start < end and open_brackets:
            between = text[max(open_brackets[-1] + 1, start - _NEARBY) : start]
            if _is_json(between):
                return True
        previous_end = position = end
        is_empty = not text[start + 1 : end - 1].strip() if end - start < _NEARBY else False
    return False


def _is_json(text: str) -> bool:
    """Return True if the text looks like a piece of JSON with at least one key or value."""
    if _KEY.search(text):
        return True
    return bool(_SCALAR.search(text)) and not _PROSE_WORD.search(_STRING_OR_LITERAL.sub("", text))


def _strip(text: str) -> str:
    return text.strip().strip(_INVISIBLE).strip()


def _closing_bracket(text: str, start: int) -> int | None:
    """Return the index after the bracket that closes the one at ``start``; None if no bracket does."""
    depth = 0
    for token in _BRACKETS.finditer(text, start):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None
