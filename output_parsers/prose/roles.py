"""Find out what the text around JSON says about it: that it is the answer, or an example, a draft or wrong.

JSON in a text is the answer only if everything around it is known to be harmless:

* The words that lead to it announce it (``Answer:``, ``Here is the JSON:``), or are harmless words, also those
  of the type and of the JSON itself. What is before an announcement does not count, unless it is a refusal or in a
  language that is not known.
* Other sentences before and after it are in a language that is known. They deny nothing, leave nothing open and
  call nothing an example. A sentence may say that something is missing if the JSON has an empty value.
* What a model often writes at the end (``Let me know if you need more.``) is harmless.
* It is in no tag, except those of ``_TAGS`` and those that are named like the type, and in no comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeVar

from ..lazy_regex import join_lines, lazy_regex
from . import ENGLISH_NUMBER_WORDS, TextParseError, word_set
from .announcements import AGREEMENT, CLOSING, CONDITION_OF_MORE, REASON, final_result, is_announced
from .harmless import (
    calls_example,
    find_limit,
    find_negation,
    find_phrase,
    find_unknown_word,
    is_personal_remark,
    is_sentence_in_known_language,
    opens_explanation,
    refuses,
    takes_back,
)


class Role(Enum):
    """What a reply says about a JSON value in it.

    Attributes:
        UNSAID: Everything around it is known to be harmless.
        ANSWER: It is announced as the answer.
        OTHER: It is not the answer: an example, a template, a draft, a quotation, or wrong.
        UNCLEAR: Words around it may deny it, or are not known.
    """

    UNSAID = 0
    ANSWER = 1
    OTHER = 2
    UNCLEAR = 3


class Verdict(NamedTuple):
    """The role of a JSON value, and the words next to it that decided, for messages."""

    role: Role
    words: str = ""


def no_words() -> frozenset[str]:
    """Return no words, if the words of a type are unknown."""
    return frozenset()


# --- Marks around JSON ---

_LANGUAGES = (
    "json[5cl]?|jsonlines|ndjson|javascript|js|typescript|ts|python|py|tool_code|tool_call|yaml|xml|text|txt"
    "|plaintext|markdown|md|code|output"
    r"|(?!non?\b)[jsonxe01]{2,7}"  # a misspelt json
)
_FENCE = rf"(?:`{{2,}}|~{{3,}})(?:[ \t]*(?:{_LANGUAGES})\b)?"
_FENCE_MARK = lazy_regex(_FENCE, re.IGNORECASE)
OPENED_FENCE = lazy_regex(rf"{_FENCE}[ \t]*\Z", re.IGNORECASE)
_ONLY_MARKS = lazy_regex(
    rf"(?:{_FENCE}|json\s*\n|\.(?!\.\.)|[\s`*_#>:：;,!\"'“”‘’()\[\]{{}}|=•✅👇➡→"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e\0-])*+",
    re.IGNORECASE,
)
# A block or a piece of code, and a placeholder such as {name}.
_CODE = lazy_regex(
    r"(?<!`)(`{3,})(?!json|te?xt|plain|markdown|md\b)\w{1,20}[ \t]*\n(?:(?!`{3}).|\n)*+\1|(?<!`)`[^`\n]+`(?!`)"
)
_PLACEHOLDER = lazy_regex(r"\{\w{1,40}\}")
_TAGS = word_set(
    """
    answer final result output response solution json value text data content reply decision choice label
    category class classification sentiment rating score number count date time name item items list object
    record summary code root xml r a pre p div span br b i em strong tool_call tool_calls function_call call
    function functions invoke parameter parameters structured extracted extraction information info python
    message begin end assistant return of to the im eot eom id constrain channel start functioncall toolcall
    toolcalls document entity entities details tag
    """
)
_TAG = lazy_regex(r"<([/|]?)\s?([^\W\d_][^<>\n]{0,60}?)\s?[/|]?>")
_TAG_WORD = lazy_regex(r"[^\W\d_]+")
_REASONING_TAG = lazy_regex(r"</?(?:think|thinking|reasoning)>")  # after JSON: what is in it is judged
_COMMENT_OR_STRUCK_OUT = lazy_regex(r"<!--|(?<!~)~~(?!~)|</?(?:s|del|strike)>", re.IGNORECASE)
_SENTENCE_END = lazy_regex(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|[\r\n]\s*|(?<=[。！？；।])")
_MARKUP = " \t\r\n*_#>`~|-–—•\"'“”‘’()[]{}\\/"
# After JSON: an ellipsis, another list, or another value.
_GOES_ON = lazy_regex(
    r"[\s,`]*(?:\.\.\.|…|\[)|[\s,;.`]*\(?(?:(?:or|oder|ou|oppure|eller|lub|albo|nebo|или|або|veya|ya da)(?!\w)|或|または|또는"
    r"|(?:and|und|et|y|e|и|o|of)\s+[(\[{\d\"'-])",
    re.IGNORECASE,
)
_EMPTY_LIST = lazy_regex(r"[ \t\r\n]*\[[ \t\r\n]*\][ \t\r\n]*")
# What an empty list means.
_NAMED = r"(?:(?!text|content|data|info|readable|valid)\w+ )?(?!text|content|data|info)\w+"
_NONE_GIVEN = lazy_regex(
    r"(?:(?:text|document|passage|article|message|sentence|email|page|input|it) (?:does|did)(?: not|n['’]t) "
    rf"(?:mention|contain|name|include|list) (?:any|a single) {_NAMED}|no {_NAMED} (?:is|are|was|were) "
    r"(?:mentioned|named|listed|found) in the (?:text|document|passage|article|message))(?=\W*\Z)"
)
_IS_FORMAT = lazy_regex(
    r"(?<!\w)(?:(?:this|that|it|which|above|json) (?:is|was|shows|illustrates|demonstrates)|(?:that|it)['’]s|das ist|dies ist|c['’]est"
    r"|est[oe] es|questo è|isso é)(?: just| only| simply| nur)?(?: the| an?| your| das| le| el| il| o)"
    r" (?!requested |gewünschte )(?:\w+ ){0,2}(?:format|structure|schema|shape|template|formato|estructura|struttura)(?!\w)(?! (?:that )?(?:you|i) )"
)
_MORE_ITEMS = lazy_regex(
    r"(?:list|array|set|there (?:are|were)|has|have|contains|includes|total|of) (?:\w+ )??(\d{1,9})(?!\d|[.,]\d| ?%)"
    r"|(?<![\d.,])(\d{1,9}) (?:\w+ )?(?:items|entries|elements|results|rows|records|values|in total|altogether)"
)
_CITATION = lazy_regex(r"\[\d{1,3}\]")  # the number of a source: "[1] The source says 5."
_NOTES = ("- ", "* ", "• ", "#")
_DIGITS = lazy_regex(r"\d+(?:[.,:/-]\d+)*%?")

# --- Words before JSON ---

# A comment that leaves something open or out.
_OPEN_COMMENT = lazy_regex(
    r"\.\.\.|…|\?|？|\A(?:and|or)\b|\bmore\b(?! than)|[{\[]|\A\W*,"
    r"|\b(?:rest (?:of|here|below|is|are|omitted|follows)|the rest|remain\w*|(?:the|all|\d+|and) others?|further|additional|continu\w*|repeat\w*"
    r"|(?:same|similar\w*|likewise|analog\w*) (?:for|to|with|as)|so forth|restliche\w*|weitere\w*|übrige\w*|usw|reste|suite|autres|resto"
    r"|demás|otr[oa]s|altri|altre|restanti|demais|outr[oa]s|overige|rest(?:en|erande)|osv|pozostał\w*|kolejne|остальн\w*|далее)\b"
    r"|其余|其他|剩余|省略|以下同|残り|その他|나머지|생략"
)
_FORMAT = (
    r"(?:(?:the|das|le|el|il|o) )?(?:(?:expected|required|output|correct|json|erwartetes) )?"
    r"(?:format|structure|schema|shape|formato|estructura|struttura)(?: (?:is|would be|should be|esperado))?\Z"
)
_OF_A_FORMAT = lazy_regex(rf"\A\W*(?:{_FORMAT}|예\Z)")
_CORRECTED = lazy_regex(
    r"(?:corrected(?: \w+)?|(?<!before )(?<!before the )correction|fixed(?: \w+)?|updated(?: \w+)?|final(?: \w+)?|revised(?: \w+)?|i meant|korrigiert"
    r"|korrektur|endgültig\w*|corrigée?|version finale|corregid[oa]|corretto|修正|更正|最终|最終)\Z"
)
# A clause right before JSON that says that the JSON is something else than the answer.
_SOMETHING_ELSE = lazy_regex(
    r"\W*(?:bad|before|original|(?:tool )?input|rejected|(?<!years )(?<!year )old|previous(?:ly)?|wrong|incorrect|invalid|outdated|excluded"
    r"|deleted|not|never|falsch|faux|falso|incorrecto|sbagliato|errado|fout|fel|forkert|feil|неверно|错误|不是)\b.*"
    r"|.*(?<!\w)(?:but(?: it| i| we| they| the \w+)?(?: only| just| then)? (?:returned|got|gave|received|responded|answered|produced|sent|said)"
    r"|unfortunately|stub|placeholder)(?!\w).*"
    r"|\W*(?:is it|the user (?:sent|provided|wrote|gave)|(?:your|the) (?:input|request) was)\W*"
)
_CONDITION = lazy_regex(
    r"(?<!\w)(?:if|had|were|suppos\w*|assum\w*|unless|wenn|falls|si|se|als|om|hvis|jeśli|pokud|если|якщо|eğer|jika)(?!\w)"
    r"|如果|もし|만약"
)
_CLAUSE_IN_LEAD = lazy_regex(r"[,;，、]|\s[-–—]\s")
_FINAL_SENTENCE = lazy_regex(r"(?:so|therefore|hence),? the (?:answer|result|output) is\Z")
_CLAUSE = lazy_regex(
    r"(?:(?<!\be\.g)(?<!\bz)(?<!\bz\. b)(?<!\bz\.b)(?<!\bp)(?<!\bp\. ej)[.!?](?=\s|\Z)|[;\n。！？}\]])",
    re.IGNORECASE,
)
_OPENING_MARKS = " \t\r\n\f\v\u00a0\u202f\u3000*_>#:：(\"'`-"
# "Here is", and what it introduces, in many languages.
_INTRODUCTIONS = r"""
    here(?:['’]s| is| are| it is| you (?:go|are))?|below (?:is|are)|(?:the )?following (?:is|are)
    |hier (?:ist|sind|kommt|is|zijn)|anbei|nachfolgend|folgend\w*|voici|voilà|ci-dessous
    |aquí (?:está|están|tienes|tiene)|a continuación|ecco|di seguito|aqui (?:está|estão)|segue|abaixo
    |hieronder|här (?:är|kommer)|her (?:er|kommer)|oto|poniżej|zde (?:je|jsou)|tady je|вот|ниже|ось|işte
    |aşağıda|berikut|tässä (?:on|ovat)|íme|itt (?:van|az)|iată|ορίστε|εδώ είναι|ακολουθεί|evo|tu je|tukaj je
    |ето|הנה|đây là|dưới đây là|นี่คือ|यह रहा|यहाँ|إليك|فيما يلي
"""
_INTRODUCES = lazy_regex(
    rf"(?:\A|[,;:.!–—-]\s*|\b(?:so|and|but|then|also) )(?:{join_lines(_INTRODUCTIONS)})(?!\w)"
)
_INTRODUCES_RUN = lazy_regex(r"以下|如下|结果|結果|回答|答案|下記|다음|여기|결과")
# Words that lead to lists and numbers, in languages other than English.
_OF_LISTS = word_set(
    """
    zahlen sind nombres números numeros numeri sono elenco l'elenco liste lista lijst getallen wynik ekstrakcji
    извлечённая извлеченная istenen
    """
)
# Of these words, one must be in the words that lead to JSON, or one of the type or of the JSON.
_ANNOUNCING = _OF_LISTS | word_set(
    """
    json jsonl output outputs answer answers result results response reply data info information details
    object objects array list record records values value fields entries elements solution conclusion
    decision action verdict follows following follow requested numbers items scores ids names below extract extracted found find from based
    it this that here classification prediction analysis summary return so or and but is right correct
    antwort ergebnis réponse résultat respuesta resultado risposta risultato resposta antwoord resultaat
    svar svaret resultatet odpowiedź odpověď výsledek ответ результат відповідь cevap sonuç jawaban
    hasil hasilnya nya x note preamble prefix text start
    informationen daten datos información dati informazioni dados informações gegevens uppgifter informasjon oplysninger
    dane données informations данные информация інформація bilgiler 출력 정보 النتيجة
    """
)
_NOT_ANNOUNCING = word_set("input given tool option case user prompt test api type")
_MIN_LEAD_SENTENCE = 3  # words
_MAX_LABEL = 3  # words
_MIN_SENTENCE = 3  # words
_MIN_REASONING = 3  # sentences
# Words that may lead to JSON or follow it, in addition to those of harmless.py.
_WORDS = _OF_LISTS | word_set(
    """
    sont 출력 hasilnya json jsonl output object objects array arrays list lists record records row tuple dict map payload body
    info information details extracted extraction following follow follows below above requested required
    request provided structured format formatted formatting schema according per parsed filled complete
    completed valid elements entries fields field values properties profile by you your from given with all
    based generated created prepared analysis summary reasoning careful detailed thorough api call function action numbers names users items things
    entities labels here's hello hi sure great thanks thank understood alright got certainly absolutely
    course happy help let me done but testing end start begin prefix suffix preamble header footer some more
    additional note test explanation first second third also and or both now next so then x y z data var
    const return final string strings integer number
    """
)

# Before JSON: a request, and not "Let me know if you need more."
_REQUEST = lazy_regex(r"\W*(?:please |just )?(?:tell me|let me know) (?!if\b|when|should\b)", re.IGNORECASE)
# JSON that was something before: "{…} was my first idea." What was taken from a text still is the answer.
_WAS = lazy_regex(
    r"[ \t`]*(?:was|were|had been|used to be|war(?:en)?|était|étaient|fut|era[nm]?|fue(?:ron)?|foi|foram|waren|byl[aoiy]?|było|были?"
    r"|была|було|була)\b(?! (?:\w+ ){0,2}(?:extract|extra[hií]|found|tak|given|generat|creat|deriv|produc|obtain|pars|read\b|list|mention|stat))",
    re.IGNORECASE,
)
# After other JSON: "This matches the schema {…}"
_MATCHES_SCHEMA = lazy_regex(
    r"\b(?:this|it|which)\s(?:match|conform|follow|fit|satisf|compl)\w*\s(?:to\s|with\s)?(?:(?:the|your|this|json)\s){0,3}"
    r"(?:schema|format|structure)[\s:`]*\Z",
    re.IGNORECASE,
)

# --- Words in sentences before and after JSON ---

# Phrases with a negation or a condition that say nothing against the JSON.
_HARMLESS_PHRASES = lazy_regex(
    r"(?:i )?can['’]t help but|no (?:problem|worries)|not only|with(?:out| no) (?:any )?(?:additional|extra|further|other|any) \w+"
    r"|(?:no|any) (?:additional|extra|further|other) (?:text|explanation|comment\w*|formatting|fields|keys|information)"
    r"|nothing (?:else|more)|if i had to (?:choose|answer|pick|say)|if (?:any|available|present|applicable)"
    r"|confidence(?: score| level)?\s?[:=]?\s?(?:is )?(?:very )?(?:high|medium|0?[.,][5-9]\d*|1[.,]0|[5-9]\d(?:[.,]\d+)?\s?%|100\s?%)"
    r"|(?:as|if) you (?:asked|requested|wanted|wish|like|need)(?: me)?|before i (?:answer\w*|start\w*|begin)"
)
# A detail that the text of the user does not have: harmless unless the JSON has a value for it.
_GIVEN = (
    r"(?:find|found|locate|located|see|seen|mention|mentioned|specify|specified|state|stated|include|included|contain|provide"
    r"|provided|give|given|list|listed|available|present|say|name|named|indicate|indicated)"
)
# Words for information that a text does not give, and words that such a sentence must not contain if the JSON
# is the answer.
_GIVEN_WORDS = r"""
    null|empty|blank|there (?:is|are|was|were) no|mention|menzion|mencion|specif|especific|spécifi|indica
    |indiqu|précis|proporcion|fourni|fornit|fornec|inform|genannt|angegeb|erwähn|enthalt|vermeld|genoemd
    |opgegeven|angiv|nämn|oppgitt|nevnt|nævnt|podan|wspomn|uveden|zmíněn|указан|упомян|вказан|згадан
    |belirtil|disebut|提到|提供|给出|提及|記載|언급|명시
"""
_GIVES = lazy_regex(rf"(?<!\w)(?:{_GIVEN}(?!\w)|{join_lines(_GIVEN_WORDS)})")
_DENIAL = lazy_regex(
    r"i (?:can|could|do|did|am|was|will|wo)(?:not| not|n['’]t)|unable|no (?:such|answer|idea|person|record|data|one|way|information)|nobody"
    r"|anyone|anybody|anything|(?:not|n['’]t) \w+ (?:this|that|it|any|such|the answer)\b|none of|nothing"
    r"|(?:text|document|file|message|input|email|article|page|image) (?:is|was) (?:empty|blank|missing)"
)
# Words of endings and of sentences that describe JSON.
_LIST_MARK = lazy_regex(r"\A\W*\d{1,4}[.)](?!\d)")
_VERBS = word_set(
    """
    is are was were has have had been took take counted count stands contains contain includes include included follows matches match represents
    represent comes came says say mentions mention names describes describe states state gives give shows show uses use
    used extracted taken found listed given provided stated means mean lives live lived works work worked wrote writes asks
    asked wants want needs need corresponds correspond appears appear makes make does do let it's that's here's can will
    would should see refers according based looks look thinks read boils conforms conform come follow
    """
)
_ENDING_WORDS = _WORDS | word_set("that's this text here of all that it")
_ENGLISH = _VERBS | word_set(
    """
    the a an of to in for and or not with on at by from this that these those it its my our your more part version updated
    completed next continued full all only just no yes source values value first last line
    """
)
_WORD = lazy_regex(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_UNKNOWN_SIGN = lazy_regex(
    r"\d|[^\W\d]|[^\s\w.,;:!…'\"*_`“”„‘’«»‹›()\[\]{}<>（）。，、：；！\-–—/\\#=|~✅✓✔☑👍🙂😊😀😃😄😁🎉⭐🌟🔥👉👇➡→•\ufe0f\u200d]"
)
# An empty value explains a negation: "The text names no email address, so it is null."
_EMPTY = lazy_regex(
    r"""null|none|[:\[,]\s*(?:""|''|\[\s*\]|\{\s*\}|false|0\b|"(?:n/?a|unknown|no|not [^"]*|none|negative|low)")""",
    re.IGNORECASE,
)
_NUMBER = lazy_regex(r"\d+")
_KEY = lazy_regex(r"""([\w -]{1,40}+)["'”’]?\s{0,9}[:=]""")
_NOT_GIVEN = lazy_regex(
    r"(?:could|can|did|do|does|was|were|is|are|has|have)(?: not|n['’]t) (?:be )?(?:explicitly |directly |clearly )?"
    rf"{_GIVEN}\b|no (?:\w+ ){{1,3}}(?:is|was|are|were) (?:explicitly |directly |clearly )?{_GIVEN}\b"
)
_GENERIC_WORDS = word_set(
    "you text document file image message anyone anybody anything person people answer information data it this that them any value values one everything"
    " details who what"
)
_LETTER = lazy_regex(r"[^\W\d_]")


class _Value:
    """A JSON value in a reply, and what its text says about the words around it."""

    def __init__(self, text: str, start: int, end: int, own_words: Callable[[], frozenset[str]]) -> None:
        self._text, self._start, self._end = text, start, end
        self._words_of_type = own_words

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the JSON and of the type, in lower case, and those that often lead to JSON."""
        return _WORDS | self._words_of_type() | frozenset(_TAG_WORD.findall(self._content))

    @cached_property
    def key_words(self) -> frozenset[str]:
        """The words of the keys and of the type, and those that may mean the whole value."""
        return _GENERIC_WORDS | self._words_of_type() | self.keys

    @cached_property
    def keys(self) -> frozenset[str]:
        """The words of the keys, in lower case."""
        return word_set(" ".join(_KEY.findall(self._content)))

    @cached_property
    def _content(self) -> str:
        return self._text[self._start : self._end].replace("_", " ").casefold()

    @cached_property
    def _numbers(self) -> frozenset[str]:
        digits = (match[0].strip("0") for match in _NUMBER.finditer(self._text, self._start, self._end))
        return frozenset(digits)

    def contradicts(self, sentence: str) -> bool:
        """Return True if a sentence gives a number for one of the keys that the JSON does not have.

        It also contradicts a list if it names more items than the list has.
        """
        more = (
            _MORE_ITEMS.search(sentence) if self._text[self._start : self._start + 1] in ("[", "(") else None
        )
        if more is not None and int(more[1] or more[2]) > self._size:
            return True
        if "=" in sentence or "%" in sentence or self.keys.isdisjoint(_TAG_WORD.findall(sentence)):
            return False
        return any(match[0].strip("0") not in self._numbers for match in _NUMBER.finditer(sentence))

    @cached_property
    def _size(self) -> int:
        """The greatest number of items that the list can have."""
        return self._content.count(",") + 1

    @cached_property
    def is_empty_list(self) -> bool:
        return _EMPTY_LIST.fullmatch(self._text, self._start, self._end) is not None

    @cached_property
    def has_empty_value(self) -> bool:
        return _EMPTY.search(self._text, self._start, self._end) is not None


def role_of(
    text: str,
    start: int,
    end: int,
    lower: int = 0,
    upper: int | None = None,
    own_words: Callable[[], frozenset[str]] = no_words,
) -> Verdict:
    """Return what a reply says about the JSON value at ``start``.

    ``lower`` and ``upper`` are the ends of the values before and after it. ``own_words`` returns the words of
    the type that is read.
    """
    is_last = upper is None or upper == len(text)
    before, after = _without_damaged_fences(text[lower:start], text[end:upper])
    if _ONLY_MARKS.fullmatch(before) and _ONLY_MARKS.fullmatch(after):
        return Verdict(Role.UNSAID)
    after = _REASONING_TAG.sub(" ", after)
    value = _Value(text, start, end, own_words)
    if _CITATION.fullmatch(text, start, end) and _WORD.match(after.lstrip(" ")):
        return Verdict(Role.UNCLEAR, text[start:end])
    around = f"{before} {after}"
    tag = _first_match(around, _COMMENT_OR_STRUCK_OUT) or _unknown_tag(around, value)
    if tag is not None:
        return Verdict(Role.UNCLEAR, tag)
    before, after = _without_marks(before), _without_marks(after)
    if _WAS.match(after):
        return Verdict(Role.OTHER, after.strip()[:40])
    if lower:
        before = _without_closings(before)
        if _MATCHES_SCHEMA.search(before):
            return Verdict(Role.OTHER, before.strip()[-40:])
    objection = _objection_in_rest(after, value, is_last=is_last)
    return _role_before(before, value) if objection is None else Verdict(Role.UNCLEAR, objection)


def _objection_in_rest(after: str, value: _Value, *, is_last: bool) -> str | None:
    """Return the words of the text after JSON that may take it back, or None."""
    if not is_last:
        after = after[: len(after) - len(_lead_of(after))]  # it leads to the next value
    if _GOES_ON.match(after) or after.rstrip(_MARKUP).endswith(("...", "…")):
        return after.strip()[:40]
    if is_last and after.rstrip(_MARKUP).endswith((":", "：")):
        return after.strip()[-40:]
    objections = (_objection_after(sentence, value) for sentence in _SENTENCE_END.split(after))
    return next((objection for objection in objections if objection is not None), None)


def _without_damaged_fences(before: str, after: str) -> tuple[str, str]:
    """Return the texts around JSON without the marks of a code block in which a few characters are wrong."""
    opening = _DAMAGED_OPENING.search(before, max(0, len(before) - _LONGEST_FENCE))
    if opening is not None and _is_damaged_fence(opening[0]):
        before = before[: opening.start()] + "\n"
    closing = _DAMAGED_CLOSING.match(after)
    if closing is not None and _is_damaged_fence(closing[0]):
        after = "\n"
    return before, after


def _is_damaged_fence(mark: str) -> bool:
    """Return True for the mark of a code block, perhaps with ``json``, with a few wrong characters."""
    strays = _NO_STRAY.sub("", mark)
    letters = "".join(_LETTER.findall(mark)).casefold().replace("e", "").replace("x", "")
    return 2 <= mark.count("`") <= 4 and len(strays) <= _MAX_STRAYS and letters in _NEARLY_JSON


def _nearly(word: str) -> frozenset[str]:
    """Return a word and its misspellings with one letter lost, doubled or swapped with the next one."""
    cuts = [(word[:cut], word[cut:]) for cut in range(len(word))]
    lost = {head + tail[1:] for head, tail in cuts}
    doubled = {head + tail[0] + tail for head, tail in cuts}
    swapped = {head + tail[1::-1] + tail[2:] for head, tail in cuts}
    return frozenset({word, ""} | lost | doubled | swapped)


_LONGEST_FENCE = 16  # characters
_MAX_STRAYS = 2
_NO_STRAY = lazy_regex(r"[`json\s]", re.IGNORECASE)
_NEARLY_JSON = _nearly("json")
_OF_DAMAGED_FENCE = r"""[`jsonex01\\"',:/}\]\s]"""
_DAMAGED_OPENING = lazy_regex(rf"(?:\A|(?<=\n)){_OF_DAMAGED_FENCE}{{3,14}}(?<![01\s])\s*\Z", re.IGNORECASE)
_DAMAGED_CLOSING = lazy_regex(rf"\s*\n{_OF_DAMAGED_FENCE}{{3,8}}\Z", re.IGNORECASE)


_CLOSING_END = lazy_regex(r"(?<=[.!?…])[\W_]*|[\r\n]\s*|(?<=[。！？])")


def _without_closings(text: str) -> str:
    """Return the text after JSON without the sentences at its beginning that usually end a reply."""
    while closing := CLOSING.match(text):
        end = _CLOSING_END.search(text, closing.end())
        if end is None or find_phrase(text[: end.start()].casefold(), "never closes"):
            break
        text = text[end.end() :]
    return text


def _objection_after(sentence: str, value: _Value) -> str | None:
    """Return the words of a sentence after JSON that may take it back, or None."""
    if not CLOSING.match(sentence) and _is_fragment(sentence, value):
        return sentence.strip()[:40]
    return _objection(sentence, value)


# Where an explanation of a value may begin.
_EXPLANATION = lazy_regex(
    r"[ \t]*\n+|(?<=[.!])[ \t]+|(?<=。)|[ \t]+(?:[-–—]|because|since|weil|da|parce que|car|porque|perché)[ \t]+|[:;][ \t]+"
    r"|[ \t]*\((?=(?:[^\s()]+ ){3,}[^()]+\)\W*\Z)"
)
_MAX_HEADS = 4
_MAX_EXPLAINED = 4000  # characters
T = TypeVar("T")


def read_explained(text: str, read: Callable[[str], T]) -> T:
    """Read a text that contains a value, perhaps with an explanation after it that names no other value.

    ``read`` raises TextParseError for a text that is not clearly one value.
    """
    try:
        return read(text)
    except TextParseError as error:
        if len(text) > _MAX_EXPLAINED:
            raise
        bare = text.strip()
        for cut in islice(_EXPLANATION.finditer(bare), _MAX_HEADS):
            try:
                value = read(bare[: cut.start()])
            except TextParseError:
                continue
            if _explains(bare[cut.end() :]):
                return value
        result = final_result(bare)
        if result is not None:
            return read(result)
        raise error


def _explains(text: str) -> bool:
    """Return True if sentences after a value explain it: they take nothing back and name no other value."""
    reason = REASON.match(text)
    explanation = text[reason.end() :] if reason else text
    if not explanation.strip(_MARKUP) or _HAS_NUMBER.search(explanation):
        return False
    if reason is None and not opens_explanation(explanation, after_comma=False):
        return False
    value = _Value("", 0, 0, no_words)
    return find_limit(explanation) is None and all(
        _objection_after(sentence, value) is None for sentence in _SENTENCE_END.split(explanation)
    )


# Another value. "the two texts" does not count.
_HAS_NUMBER = lazy_regex(
    rf"[^\W\D]|(?<!\w)(?<!the )(?:{'|'.join(ENGLISH_NUMBER_WORDS - {'one'})})(?!\w)", re.IGNORECASE
)


def objection_in_comments(
    comments: Iterable[str], text: str, start: int, end: int, own_words: Callable[[], frozenset[str]]
) -> str | None:
    """Return the words of a comment in the JSON from ``start`` to ``end`` that may take it back, or None.

    A comment may be a few words of any kind, or a sentence in a known language.
    """
    value = _Value(text, start, end, own_words)  # its words are found once for all comments
    objections = (_objection_in_comment(comment, value) for comment in comments)
    return next((objection for objection in objections if objection is not None), None)


def _objection_in_comment(comment: str, value: _Value) -> str | None:
    folded = comment.strip("/#* \t\r\n").casefold()
    objection = _first_match(folded, _OPEN_COMMENT) or _denial(folded, value)
    is_sentence = len(_WORD.findall(folded)) > _MIN_SENTENCE
    if objection is None and is_sentence and not is_sentence_in_known_language(folded, value.words):
        return folded[:40]
    return objection


def _first_match(text: str, *patterns: re.Pattern[str]) -> str | None:
    """Return the part of a text that the first fitting pattern matches, or None."""
    return next((match[0] for pattern in patterns if (match := pattern.search(text))), None)


def _role_before(before: str, value: _Value) -> Verdict:
    lead = _lead_of(before)
    sentences = _SENTENCE_END.split(before[: len(before) - len(lead)])
    context = [sentence for sentence in sentences if sentence and not sentence.startswith("|")]  # of a table
    lead = AGREEMENT.sub(" ", lead)
    clause = lead[: _opening(lead)].strip(_MARKUP).lower().replace("i\u0307", "i")
    if clause:
        verdict = _role_of_lead(clause, lead, value)
        if verdict.role is not Role.UNSAID:
            return verdict
        introduction = _INTRODUCES.search(clause)
        context.append(clause[: introduction.start()] if introduction else "")
    # Long reasoning, and sentences before an announcement, may weigh several answers.
    first = len(context) - 1 if clause or len(context) >= _MIN_REASONING else 0
    is_set_off = "\n" in before[len(before.rstrip()) :]
    last = _refusal if clause else _objection_to_set_off if is_set_off else _objection
    checks = [_refusal] * first + [last] * (len(context) - first)
    for check, sentence in zip(checks, context, strict=True):
        request = _REQUEST.match(sentence)
        objection = request[0] if request else check(sentence, value)
        if objection is not None:
            return Verdict(Role.UNCLEAR, objection)
    return Verdict(Role.UNSAID)


def _role_of_lead(clause: str, lead: str, value: _Value) -> Verdict:
    """Return what the words directly before JSON say about it."""
    if _announces_answer(clause, value):
        return Verdict(Role.ANSWER)
    introduction = _INTRODUCES.search(clause)
    introduced = clause[introduction.end() :] if introduction else clause
    if _SOMETHING_ELSE.fullmatch(clause) or calls_example(introduced) or _OF_A_FORMAT.search(introduced):
        return Verdict(Role.OTHER, clause)
    words = _DIGITS.sub(" ", _HARMLESS_PHRASES.sub(" ", introduced)).replace("_", " ")
    unknown = find_unknown_word(words, value.words)
    if unknown is not None and not _is_known_lead(
        lead, introduction[0] if introduction else "", words, value
    ):
        return Verdict(Role.UNCLEAR, unknown)
    if introduction is None and not _announces(words, value):
        return Verdict(Role.UNCLEAR, clause)
    objection = takes_back(_HARMLESS_PHRASES.sub(" ", introduced)) or refuses(clause)
    return Verdict(Role.UNCLEAR, objection) if objection else Verdict(Role.UNSAID)


def _announces_answer(clause: str, value: _Value) -> bool:
    """Return True if the words before JSON say that it is the final or a corrected answer."""
    corrected = _CORRECTED.search(clause)
    if corrected is not None:
        words = _CLAUSE_IN_LEAD.split(clause[: corrected.start()])[-1]
        return find_unknown_word(words, value.words) is None and takes_back(words) is None
    condition, _, last = clause.rpartition(", ")
    announced = is_announced(f"{last}: ", len(last) + 2) and not _CONDITION.search(condition)
    return announced or _FINAL_SENTENCE.search(clause) is not None


def _is_known_lead(lead: str, introduction: str, words: str, value: _Value) -> bool:
    """Return True if words that are not all harmless are a sentence, or what "here is" introduces."""
    if len(words.split()) >= _MIN_LEAD_SENTENCE and is_sentence_in_known_language(lead, value.words):
        return True
    if _INTRODUCES_RUN.search(words):
        return True
    return bool(introduction) and is_sentence_in_known_language(introduction + words, value.words)


def _announces(words: str, value: _Value) -> bool:
    """Return True if the words before JSON name what it is, and not something else."""
    named = set(_TAG_WORD.findall(words))
    if words.split() == ["action", "input"]:  # of an agent that answers with an action
        return True
    is_named = (
        not named.isdisjoint(_ANNOUNCING | value.key_words) or _INTRODUCES_RUN.search(words) is not None
    )
    return is_named and (len(named) > _MAX_LABEL or named.isdisjoint(_NOT_ANNOUNCING))


def _refusal(sentence: str, value: _Value) -> str | None:
    """Return the words of a sentence before an introduction that may refuse to answer, or None."""
    folded = AGREEMENT.sub(" ", _DIGITS.sub(" ", sentence)).strip(_MARKUP)
    refusal = refuses(folded)
    if refusal is not None:
        return refusal
    if sentence.startswith(_NOTES):
        return None
    if not _LETTER.search(folded) or find_unknown_word(folded, value.words) is None:
        return None
    return None if is_sentence_in_known_language(folded, value.words) else folded[:40]


def _objection(sentence: str, value: _Value) -> str | None:
    """Return the words of a sentence next to JSON that may say that it is not the answer, or None."""
    if CLOSING.match(sentence) or CONDITION_OF_MORE.match(sentence):
        return find_phrase(sentence.casefold(), "never closes")
    sentence = AGREEMENT.sub(" ", sentence)
    folded = _HARMLESS_PHRASES.sub(" ", sentence.casefold().strip(_MARKUP))
    if "?" in folded or is_personal_remark(folded) or _IS_FORMAT.search(folded) or value.contradicts(folded):
        return folded[:40]
    if (
        _LETTER.search(folded)
        and find_unknown_word(_DIGITS.sub(" ", folded), value.words) is not None
        and not is_sentence_in_known_language(_DIGITS.sub(" ", sentence), value.words)
    ):
        return folded[:40]
    return _denial(folded, value)


def _objection_to_set_off(sentence: str, value: _Value) -> str | None:
    """Return the words of a sentence above JSON that may say that it is not the answer, or None.

    English negations of something that the text says are harmless: "She can't swim."
    """
    objection = _objection(sentence, value)
    if len(sentence) > _MAX_SET_OFF:
        return objection
    folded = sentence.casefold()
    if objection is None or "?" in folded or refuses(folded) or calls_example(folded):
        return objection
    says_missing = _SAYS_MISSING.search(folded) and not _NEVERTHELESS.search(folded)
    denied = (
        says_missing or _DENIAL.search(folded) or _DENIES_JSON.search(folded) or is_personal_remark(folded)
    )
    if denied or not is_sentence_in_known_language(_DIGITS.sub(" ", sentence), value.words | _CONTENT_WORDS):
        return objection
    return takes_back(_YEARS_OLD.sub(" ", _ENGLISH_NEGATION.sub(" ", folded)))


# English negations, and what they must not be about above JSON.
_ENGLISH_NEGATION = lazy_regex(
    r"(?<!\w)(?:not|no|never|cannot|(?:is|was|are|were|do|does|did|has|have|had|ca|could|wo)n['’]t)(?!\w)"
)
_SAYS_MISSING = lazy_regex(
    r"there (?:is|are|was|were) (?:no|not)\b"
    r"|(?:not|n['’]t|never|no)\b.*\b(?:known|clear|there|in|contained?|appears?|exists?|match\w*|"
    rf"{_GIVEN})\b"
)
_NEVERTHELESS = lazy_regex(
    r", but (?:\w+ ){1,12}(?:so|which means|therefore|thus)\b|, but .*\bso (?:he|she|it|they|the)\b"
)
_MAX_SET_OFF = 300  # characters of a sentence
_YEARS_OLD = lazy_regex(r"(?:\d+|year|years)[ -](?:year|years)?[ -]?old\b")
_CONTENT_WORDS = word_set(
    "mentions born stated directly explicitly user nurse swim years old year works says"
)
_DENIES_JSON = lazy_regex(
    r"(?:not|n['’]t|never|no|cannot) (?:\w+ )?(?:the|a|an|my|your|our|any|correct|right|real|valid|final|true|what|how|enough|sure|certain"
    r"|possible|able|know|trust|use|rely|answer|find|found|extract|determine|complete|exact|accurate|reliable|this|that|it|such"
    r"|yet|json|data|information|people|person|persons|record|records|names?)\b"
    r"|\b(?:json|answer|result|output|data|record|below|following|values?|example)\b"
)


def _is_fragment(sentence: str, value: _Value) -> bool:
    """Return True if words after JSON have no verb that describes it, in the commonest language."""
    folded = _HARMLESS_PHRASES.sub(" ", sentence.casefold())
    words = _WORD.findall(folded)
    if not words:
        signs = _LIST_MARK.sub("", folded)
        return _UNKNOWN_SIGN.search(signs) is not None and not _LETTER.search(sentence)
    if value.words.issuperset(words):
        return False
    if len(words) < _MIN_SENTENCE and "".join(words).isascii():
        return not _ENDING_WORDS.issuperset(words)
    if _HARMLESS_PHRASES.search(sentence.casefold()):
        return False
    is_english = sum(word in _ENGLISH for word in words) * 2 >= len(words)
    return is_english and _VERBS.isdisjoint(words) and not _ENDING_WORDS.issuperset(words)


def _denial(folded: str, value: _Value) -> str | None:
    """Return the words of a sentence that deny JSON; what is not given explains its empty values."""
    if value.is_empty_list:
        folded = _NONE_GIVEN.sub(" ", folded)
    if _NOT_GIVEN.search(folded) and value.key_words.isdisjoint(_TAG_WORD.findall(folded)):
        folded = _NOT_GIVEN.sub(" ", folded)
    absent = find_negation(folded) or find_phrase(folded, "absences")
    is_explained = absent is not None and value.has_empty_value and _GIVES.search(folded) is not None
    if absent is not None and (not is_explained or _DENIAL.search(folded)):
        return absent
    return takes_back(folded, denies=is_explained)


def _unknown_tag(text: str, value: _Value) -> str | None:
    """Return a tag whose name does not say that its content is the answer, or None."""
    for tag in _TAG.finditer(text):
        if tag[2].casefold() in _TAGS:
            continue
        words = {match[0] for match in _TAG_WORD.finditer(tag[2].casefold())}
        if not words <= value.key_words | _TAGS:
            return tag[0]
    return None


def _without_marks(text: str) -> str:
    text = text.replace("\\boxed", " ")
    return _PLACEHOLDER.sub(" ", _TAG.sub(" ", _FENCE_MARK.sub("\n", _CODE.sub(" ", text))))


def _lead_of(text: str) -> str:
    """Return the end of a text that leads to what comes after it; "" if a complete sentence ends there."""
    bare = text[: _opening(text)]
    if bare.rstrip(_MARKUP)[-1:] in tuple(".!?。！？") and not bare.lower().endswith(
        ("e.g.", "z. b.", "z.b.", "p. ej.")
    ):
        return ""
    start = max((cut.end() for cut in _CLAUSE.finditer(bare)), default=0)
    lead = text[start:]
    return (
        "" if not lead.strip() or lead.lstrip().startswith("|") else lead
    )  # a line of a table does not lead


def _opening(before: str) -> int:
    """Return where the marks and white space begin that separate words from the JSON after them."""
    return len(before.rstrip(_OPENING_MARKS))
