"""Words that may surround an answer without changing it, by language.

A value that is named in a sentence counts only if every other word of the sentence is in one of these lists.
A list of the words that deny a value could never be complete. All words must be from one language, because
a word that is harmless in one language may deny the answer in another: "tak" is yes in Polish and not in
Malay. So the lists contain no such words, and no words that limit, weaken or move a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from ..lazy_regex import join_lines, lazy_regex
from . import words_in

_LANGUAGES = "en de fr es it pt nl sv da no pl cs ru uk tr id ar hi".split()
_RUN = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]"
_RUN_CHARACTER = lazy_regex(_RUN)
# Faces and marks that agree with an answer or decorate it; an ironic or sad face may take it back.
_MARKS = frozenset("✅✓✔☑👍🙂😊😀😃😄😁😍🥰🎉⭐🌟🔥📊📈💯👉➡→⇒•◦‣·▪●|")
_PUNCTUATION = frozenset(".,;:!…\"'`*_“”„‘’«»‹›()[]{}<>（）【】「」『』。，、：；！．｡-‐‑–—/\\#=")
_TOKEN = lazy_regex(
    rf"[!<>=~]{{2,}}|{_RUN}+|[^\W\d_](?:(?!{_RUN})[^\W_]|['’](?=[^\W\d_])|(?<=[^\W\d_])-(?=[^\W\d_]))*|\S"
)
# Characters without width, how an emoji is drawn, and the dot of a small Turkish İ.
_IGNORED = lazy_regex("[\u200b-\u200f\u2060\ufeff\ufe0e\ufe0f\u0307]")


def _fold(text: str) -> str:
    """Return a text in the form that the words of ``words.txt`` and the patterns here have."""
    return text.casefold().replace("’", "'")


def find_unknown_word(text: str, known: Collection[str] = ()) -> str | None:
    """Return the first word or sign next to an answer that is not known to be harmless, or None.

    The words of ``known``, in lower case, are harmless too, such as the units that a declaration names.
    """
    words_of, languages = _languages_by_word(), _ALL
    folded = _fold(_IGNORED.sub("", text))
    for match in _TOKEN.finditer(_harmless_phrases().sub(" ", folded)):
        token = match[0]
        if token in known or (len(token) == 1 and (token in _PUNCTUATION or token in _MARKS)):
            continue
        of_word = _ALL if _harmless_runs().fullmatch(token) else words_of.get(token, 0)
        languages &= of_word
        if not languages:
            return token
    return None


# The first words of a question, and words for places or amounts, which do not say what the answer is.
_ASKING = frozenset("is was are were would has have am ist war sind würde sont était zou är var".split())
_RELATING = frozenset(
    """
    of for from in to with as on under after very there falls nach après depuis hier después desde dopo da página pagina page seite
    room question ticket comme como come zu sehr für mit als très dans pour muy para por molto per muito em zeer
    heel voor met zou mycket till för meget til veldig bardzo velmi очень дуже çok sangat
    """.split()
)
# Labels of the question, and words about another person's choice or about the task.
_OTHER_LABEL = lazy_regex(
    r"(?<!\w)(?:(?:input|query|question|user|customer|client|person \w|min|max|minimum|maximum|prompt|request|subject|given|kunde|kundin|cliente|klant|klient|kund|клиент|eingabe|frage|nutzer|benutzer|anfrage|betreff|entrée|question|utilisateur|requête"
    r"|sujet|objet|entrada|pregunta|usuario|consulta|asunto|domanda|utente|richiesta|oggetto|pergunta|usuário|assunto|invoer|vraag|gebruiker"
    r"|вопрос|запрос|пользователь|ввод)(?: (?:text|message|texto?|testo|tekst))?|输入|問題|问题|客户|客戶|顧客|고객|用户|用戶|入力|質問|ユーザー|입력|질문|사용자)[*_\"'`]*\s?[:：]\W*\Z"
)
_OF_OTHERS = lazy_regex(
    r"(?<!\w)(?:(?:he|she|they|(?:the|a) (?:user|customer|author|writer|speaker|person|client|reviewer)) (?:has )?"
    r"(?:picked|pick|selected|chose|choose|answered|replied|said|says|asked|typed|entered|wrote|gave|sent|labell?ed|tagged|marked|rated)"
    r"|(?:kind|sort) of|i was (?:going|about) to (?:say|answer)|i would have (?:said|answered)"
    r"|you(?:r (?:answer|choice|input|reply|response|message|question)|['’]?ve)? (?:is|was|picked|selected|chose|answered|said|wrote|gave)"
    r"|please (?:answer|respond|reply|say|return|write)(?: with)?|(?:\A|[.!]\s)\W*(?:(?:answer|respond|reply) with|(?:return|think|say|write|choose|pick|select|type|enter|press|click|tap)))\W*\Z"
)
# Who else says so, and what is not so.
_PERSON = (
    r"(?:customer|user|client|manager|author|seller|buyer|boss|teacher|doctor|sender|writer|kunde\w*|nutzer\w*|benutzer\w*|autor\w*|chef\w*|cliente?|utilisateur"
    r"|auteur|usuari[oa]|utente|usuário|klant|gebruiker|klient\w*|użytkownik\w*|kund\w*|клиент\w*|пользовател\w*|автор\w*|zákazník\w*)"
)
_UNREAL = lazy_regex(
    r"\A\W*(?:then\b|(?:after|before|until|during) (?!reading|re-?reading|review|consider|analy|careful|look|think|check|evaluat|read|add|count|sum|comput|calculat|the analysis)\w+)"
    r"|(?<!\w)(?:requested|reported|stated|claimed|customer['’]?s?|user['’]?s?) [^\W\d_]+\s?[:：]\W*\Z|"
    r"(?<!\w)(?:(?:according to|laut|nach angaben|selon|d['’]après|según|secondo|segundo|volgens|według|enligt|ifølge|podle|по словам|по мнению|согласно)"
    rf" (?:\w+['’ ]){{0,3}}?{_PERSON}|on paper|au lieu de?|i (?:read|heard|saw|was told) (?:that )?it is|(?:just|only) say|(?:het|dit|dat|antwoord) zou)(?!\w)"
    rf"|\A\W*(?:for|für|pour|para|per|voor|för|for|dla|для) (?:\w+ )?{_PERSON}(?!\w)"
    rf"|(?<!\w){_PERSON} (?:gives?|gave|rates?|rated|scored|gibt|gab|bewertet|vergibt|donne|note|d[aàá]|dio|deu|geeft|gaf|daje|ger|giver|gir|ставит|даёт|дал)"
    r"(?: (?:it|this|them|es|an?|een|un))*\W*\Z|(?:\A|[.!:]\s)\W*(?:please )?(?:give|rate|score|grade) (?:it|this|them)(?: an?)?\W*\Z"
)
_SETS_OFF = (":", "：", "=", "→", "-", "–", "—")


def asks_or_relates(before: str) -> bool:
    """Return True if the harmless words before a value make no statement: "Is it low", "with low", "very low"."""
    folded = before.casefold()
    if any(pattern.search(folded) for pattern in (_OTHER_LABEL, _OF_OTHERS, _UNREAL)):
        return True
    words = list(_words(before))
    if not words or before.rstrip(" \t\r\n*_`\"'“").endswith(_SETS_OFF):
        return False
    return words[0] in _ASKING or _RELATING.issuperset(words)


# A label of something that is numbered, not counted: "Ticket: 42".
_NUMBERED = frozenset(
    "ticket order item entry record section case document file image paragraph article option invoice".split()
)
# JSON, a tag or a reference.
_OTHER_MARKUP = lazy_regex(r"(?<!\\boxed)[{\[]|<[/\w]")
# Signs that may come directly before and after a value.
_BEFORE_VALUE = " \t\r\n*_`\"'“„‘«([$\\"
_SIGNS_BEFORE = ".:：=→,，。、!；;{—"
_SIGNS_AFTER = "*_`\"'”’»)]}$\\.!,;:。！，、；：(（"


def find_objection(
    before: str,
    after: str,
    known: Collection[str] = (),
    *,
    known_after: Collection[str] = (),
    leading: frozenset[str] = frozenset(),
) -> str | None:
    """Return the word or sign around a number, date or time that may change it, or None.

    All words must be known to be harmless: those of ``known``, and after the value those of ``known_after``, too.
    A word directly before the value must be one that leads to it, as in "it is 5", also those of ``leading``: other
    words tie it to something else, as in "after 5" and "section 5".
    """
    subject, unknown = before, find_unknown_word(before, known)
    if unknown is not None:
        subject = _without_lead(before, leading)
        unknown = find_unknown_word(subject, known)
    unknown = unknown or find_unknown_word(f"{subject} {after}", {*known, *known_after})
    if unknown is not None:
        return unknown
    markup = _OTHER_MARKUP.search(f"{before} {after}")
    if markup is not None:
        return markup[0]
    return (
        _find_changing_sign(before, after)
        or find_tie(before, leading)
        or find_relation(after)
        or _find_remainder(after)
    )


# "4 to go" and "2 hours after" are about something else.
_REMAINS = lazy_regex(r"\W*(?:to go|on paper|after|later|before|earlier|left)\W*\Z")


def _find_remainder(after: str) -> str | None:
    match = _REMAINS.match(after.casefold())
    return match[0].strip() if match else None


_SET_OFF = lazy_regex(r"[\s\"'”’*_`)\]]*(?:[,;:(，、；：（。]|[.!](?=\s)|\n|\s[-–—](?=\s))[\s*_]*")


def find_relation(after: str) -> str | None:
    """Return harmless words that are set off after a value if they relate or limit it, as in "42, I think", or None."""
    opening = _SET_OFF.match(after)
    if opening is None:
        return None
    rest = _harmless_phrases().sub(" ", _fold(after[opening.end() :])).strip()
    if not _WORD_CHARACTER.search(rest):
        return None
    return find_limit(rest) if opens_explanation(rest, after_comma=False) else rest


_WORD_CHARACTER = lazy_regex(r"[^\W\d_]")


def _without_lead(before: str, leading: frozenset[str]) -> str:
    """Return the text before a value without the word that leads to it and a pronoun before that: "He is 5"."""
    words, leads = before.casefold().split(), words_in("leads") | leading
    if len(words) > 1 and words[0] in words_in("pronouns") and words[1] in leads:
        words = words[1:]
    return " ".join(words[:-1] if words and words[-1] in leads else words)


def ends_a_heading(text: str) -> bool:
    """Return True if a text ends with a colon, so that what follows it is missing: "Answer 5:", "**May 1:**"."""
    return text.rstrip(" \t\r\n*_`\"'”’»)]}").endswith((":", "："))


def _find_changing_sign(before: str, after: str) -> str | None:
    """Return the sign that touches a value and may change it, as in "- 5", or None."""
    bare, following = (_IGNORED.sub("", part) for part in (before, after))
    bare, following = bare.rstrip(_BEFORE_VALUE), following.strip(_BEFORE_VALUE)
    for sign, allowed in ((bare[-1:], _SIGNS_BEFORE), (following[:1], _SIGNS_AFTER)):
        if not (sign.isalnum() or sign in allowed or sign in _MARKS or bare.endswith("##")):
            return sign
    return None


def find_tie(before: str, leading: frozenset[str]) -> str | None:
    """Return the word directly before a value that ties it to something else, or None."""
    words = list(_words(before))
    if not words:
        return before.strip() if _OTHER_LABEL.search(before) else None
    if _UNREAL.search(before.casefold()):
        return before.strip()
    if len(words) == 1 and words[0] in _NUMBERED.difference(leading):
        return words[0]
    if _IGNORED.sub("", before).rstrip(_BEFORE_VALUE)[-1:].isalnum():
        bare = next((word for word in reversed(words) if word not in words_in("articles")), None)
        if bare is not None and bare not in words_in("leads") and bare not in leading:
            return bare
    return before.strip() if leading.isdisjoint(words) and asks_or_relates(before) else None


_ALL = (1 << len(_LANGUAGES)) - 1


@cache
def _languages_by_word() -> dict[str, int]:
    """Return a bit for each language of each harmless word."""
    languages: dict[str, int] = {}
    for number, language in enumerate(_LANGUAGES):
        for word in words_in(language):
            languages[word] = languages.get(word, 0) | 1 << number
    return languages


@cache
def _harmless_phrases() -> re.Pattern[str]:
    phrases = sorted(words_in("phrases"), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases).replace('_', ' ')})(?!\w)")


@cache
def _harmless_runs() -> re.Pattern[str]:
    words = sorted(words_in("runs"), reverse=True)
    return re.compile(f"(?>{'|'.join(words)})++")


# Between a value and the characters of a language without spaces around it, as in "答えは42です。"; not inside of
# a date, a time or a number with its scale.
_INSIDE = "年月日年월일時时分点點시분万萬만亿億억千百十"
_EDGE_OF_RUN = lazy_regex(
    rf"(?:(?<=[A-Za-z0-9])|(?<=[0-9][日일分분])(?![钟鐘间間간])|(?<=[0-9](?:時間|小时|小時|分钟|分間|日間|시간))|(?<=个小时))(?!(?<=[0-9])[{_INSIDE}])(?={_RUN})|(?<={_RUN})(?<![{_INSIDE}])(?=[A-Za-z0-9])"
)


_CORNER_BRACKETS = dict.fromkeys(map(ord, "「」『』"), " ") | {ord("。"): ". "}


def separate_runs(text: str) -> str:
    """Return a text with spaces between values and the characters of languages that have no spaces."""
    return text if text.isascii() else _EDGE_OF_RUN.sub(" ", text.translate(_CORNER_BRACKETS))


# --- An explanation after an answer ---

# An explanation counts if at least half of its words are known, and nothing in it takes the answer back.
# Patterns that take an answer back, for longer phrases than those in ``words.txt``.
_GOES_WRONG = r"""
    (?:text|document|file|message|input|email|article|page|image|review)s? (?:is|was|are|were) (?:empty|blank|missing|unreadable|too short|cut off)
    |(?:actual|real|true|right|correct) (?:\w+ )?(?:is|are|was|were)|is the (?:format|schema|structure|shape)|(?:is|was) (?:the|your) input
    |(?:answer|value|result)\b.{0,20} is (?:wrong|incorrect)\W*\Z|\A\W*(?:score\b|/s\W*\Z)
    |not (?:\w+ )?(?:sure|certain|clear|known|confident|possible)|not (?:false|wrong|incorrect|untrue)|to be \w+ed
    |(?:can(?:not|['’]t)|could(?: not|n['’]t)) (?:be )?(?:determin|tell|say|know|judge|decide|classif|rate)\w*
    |\A\W*but (?:the|it|in)\b|too \w+ (?:to|a|for)\b|more (?:follows?|below)|continues? (?:on|in|below|next|with)
    |only (?:on|if|when|in|for|with|after|before|until|as|true|false|valid|at|applies|holds|(?:the |a )?(?:first|one|two|three|few|part)|\d+)
    |\A\W*(?:but|however|though|yet|still|except)\b.*\b(?:says?|said|should|is|are|was|were)
    |\A\W*(?:when|while|until|should|would)\b|what (?:you|the user) \w+|(?:old (?:answer|category|data|draft|entry|label|list|number|one|price|rating|record|report|result|score|value|version)s?|(?<!in )(?<!since )(?<!until )may|last)(?!\w)|errors?:
"""
_PART_OF_IT = r"""
    and (?:\d+ )?(?:more|others)|(?:first|second|third|next|other|last) (?:half|part|batch|page|portion|chunk)|first (?:\d+|few|two|three|four|five|ten|some)(?: \w+)? (?:of|from)
    |(?:beginning|start) of the (?:list|json|array|output|answer|table)|(?:part|teil|partie|parte|deel|часть|seite|page) (?:\d+|one|two) ?(?:/|of|von|de|di|van|из)
    |(?:\d+|two|three|four|five|some|several|many) (?:more|others)|there (?:is|are) (?:an? )?(?:second|third|other|another|more|further|additional)
    |second (?:person|item|record|entry|invoice|object|one) is|(?:seulement|s[oó]lo|solo|apenas|nur|alleen) (?:le|la|les|el|los|las|il|i|o|a|os|as|der|die|das|den|de|het) (?:prem|prim|erst|eerst|teil)\w*
"""
_LOOKS_LIKE = r"""
    (?:should|could|would|might|will|may|can|must) (?:\w+ )?look|looks? (?:\w+ )?like
    |(?:return|reply with|respond with|answer with|output|give|produce) (?:\w+ )?(?:something )?like
    |(?:use|follow|expects?) (?:\w+ ){0,3}(?:format|structure|schema|shape)
"""
# Requests for more, refusals and offers.
_REFUSING = r"""
    (?:\A|[.!?:,]\s+)(?:could you |can you |would you )?(?:please |kindly )?(?:provide|send|share|give me|tell me|upload|paste|specify|supply|clarify)
    |i(?: also| still| would|['’]d| will|['’]ll| might)? need(?! to (?!know|have|see|get))|i (?:will|can|would|must|should)\W*\Z|i['’]ll\W*\Z
    |(?:need )?(?:more|further|additional) (?:information|details?|context|input) (?:is|are|to)|(?:do|did) you mean|(?:once|as soon as) you|rephrase|need (?:more|further|additional)
    |(?:bitte|veuillez|merci de|por favor|per favore|alsjeblieft|gelieve|пожалуйста|proszę|prosím|lütfen|mohon) (?:\w+ ){0,3}(?:send\w*|schick\w*|geben|angeben|nenn\w*
    |teilen|fournir|envoyer|indiquer|préciser|env[ií]\w*|proporcion\w*|indi\w+|forne\w+|inviat\w*|invi\w+|stuur|geef|пришлите|укажите|предоставьте|podaj\w*|prześlij
    |zadejte|pošlete|gönder\w*|kirim\w*|berikan)|ich (?:kann|weiss)\b[^.]{0,40}\bnicht|je ne (?:peux|sais|suis) pas|no puedo|no sé|non posso|non so|não (?:posso|sei)
    |kan (?:dat |dit |ik )?niet|weet (?:ik )?(?:het )?niet|kan inte|kan ikke|nie (?:mogę|wiem)|nemohu|nevím|не (?:могу|знаю)|не можу|لا (?:أستطيع|يمكن|أعرف)|bilmiyorum|maaf
    |tidak (?:dapat|bisa|tahu)|(?:i (?:can(?:not|['’]t)|do(?: not|n['’]t))|unable to) (?:answer|know|determine|help|comply|say|tell|do|extract|identify)(?: (?:you|with|it|this|that|so|the
    |your|input|text|prompt|question|request|task|answer|data|information|who|what|for|certain|sure|from|because|of)\b)*+\W*\Z
"""
_OFFERS = r"""
    i(?:['’]d| would| can| could| am|['’]m)?(?: be)? (?:glad|happy|help|ready|able|an ai|a language model)
    |i (?:can|could|will) (?!not\b|see|tell|confirm|find|read|say|only|hardly)\w+|i (?:also |still |would )?(?:understand|have not received|haven['’]t received|am waiting)
    |(?:paste|send|share|provide|upload) (?:me|the text|the (?:document|file|email|image)|your|it)\b
"""
_FORMS = lazy_regex(
    rf"(?:\A|[.!?,;]\s*)(?:no,? )?wait(?!\w)|(?<!\w)(?:{'|'.join(map(join_lines, (_GOES_WRONG, _PART_OF_IT, _LOOKS_LIKE, _REFUSING, _OFFERS)))})(?!\w)"
    r"|[?¬≠❌✗✘✖☒🚫⛔👎🤔🙄😕🤷←⚠]|!=|~~|\[ \]|[:：]\W*\Z"
    r"|(?<!\w)(?:only|nur|seulement|sólo|solo|solamente|soltanto|apenas|somente|alleen|slechts|tylko|только|лишь)\W*\Z"
)
_REFUSES = lazy_regex(rf"(?<!\w)(?:{join_lines(_REFUSING)})(?!\w)")
_CALLS_EXAMPLE = lazy_regex(rf"(?<!\w)(?:{join_lines(_LOOKS_LIKE)})(?!\w)")
# Phrases with a negation or a condition that say nothing against an answer.
_NO_DENIAL = lazy_regex(
    r"(?<!\w)(?:base no|not only|no (?:problem|worries)|can['’]t help but"
    r"|could (?:also )?(?:be|have been) (?:(?:a bit|a little|slightly|somewhat|much) )?(?:(?:shorter|longer|clearer|simpler|shortened|expanded)"
    r"|more (?:concise|detailed|specific|precise|polite|formal)|better (?:organi[sz]ed|structured|explained)))(?!\w)|没错|沒錯|没问题|沒問題"
)
# What models say about their work in the first person.
_FIRST_PERSON = lazy_regex(r"(?<!\w)i(?:['’]\w+)?(?!\w)|\Aplease\b")
_OF_WORK = lazy_regex(
    r"(?<!\w)i(?:['’]ve|['’]ll|['’]d| have| will| can| should| must| am going to)?(?: also| now| then| just| have| been)*"
    r" (?:extract\w*|us(?:e|ed|ing)|follow\w*|took|take|taken|includ\w*|kept|keep|find|found|see|set|read|analy[sz]\w*"
    r"|cho?ose|chosen|identif\w*|list\w*|add\w*|convert\w*|format\w*|return\w*|creat\w*|generat\w*|produc\w*|structur\w*"
    r"|summari[sz]\w*|translat\w*|classif\w*|look\w*|count\w*|calculat\w*|comput\w*|go|went|write|wrote|give|provide\w*|parse\w*|put|mark\w*|focus|adapt|know"
    r"|think|understand|hope|would|need to|want to|left|be happy|happy)\b"
    r"|i (?:could|can|did)(?: not|n['’]t) (?:find|see|locate)|let me|can i|i(?: am|['’]m) (?:quite |very |absolutely |completely )?(?:sure|certain|confident)|i am happy|i['’]m happy|please (?:find|see|note)|as i|before i|so i|i (?:need|have|want) to"
)
_WORDS_PER_COMMON_WORD = 2
_CHARACTERS_PER_COMMON_ONE = 5


def takes_back(text: str, *, denies: bool = False) -> str | None:
    """Return the words of an explanation that may deny or weaken the answer before it, or None.

    All types use this test for text next to an answer that does not consist of harmless words. Negations are
    harmless if the answer ``denies`` something itself.
    """
    folded = _NO_DENIAL.sub(" ", _fold(text))
    form = _FORMS.search(folded)
    if form is not None:
        return form[0].strip()
    words = _phrase_words(folded)
    for section in ("takes back", "examples"):
        found = find_phrase(folded, section, words)
        if found is not None:
            return found
    return None if denies else find_negation(folded, words)


def find_negation(text: str, words: Sequence[str] | None = None) -> str | None:
    """Return the first word of a text that denies something, or None."""
    return find_phrase(text, "negations", words) or ("n't" if "n't" in text else None)


def find_denial_of_answer(text: str) -> str | None:
    """Return the first clause that denies the answer itself, as in "this is not the right category", or None.

    A clause with other words, such as "cannot log in", denies something else.
    """
    for clause in _CLAUSE.split(_fold(text)):
        negations = {word for word in _words(clause) if find_negation(word)} | words_in("causes")
        is_denial = "_".join(_phrase_words(clause)) in words_in("denials")
        if is_denial or (find_negation(clause) and find_unknown_word(clause, negations) is None):
            return clause.strip()
    return None


def without_reported_negations(text: str) -> str:
    """Return an explanation without the negations in what a person says: "The customer says there is no rush."."""
    return "".join(map(_without_reported_negation, _SENTENCE.findall(text)))


def _without_reported_negation(sentence: str) -> str:
    if (
        not reports(sentence)
        or find_denial_of_answer(sentence)
        or find_phrase(sentence, "pronouns of a statement")
    ):
        return sentence
    return " ".join(word for word in sentence.split() if not find_negation(word))


def reports(sentence: str) -> bool:
    """Return True if a sentence begins with what a person or a text says, as in "The customer asks"."""
    start = _phrase_words(sentence.casefold())[:_MAX_PHRASE]
    return not words_in("subjects").isdisjoint(start) and find_phrase("", "reports", start) is not None


def find_limit(text: str) -> str | None:
    """Return the words at the beginning of a clause that limit the answer to some cases, or None."""
    for clause in _CLAUSE.split(_NO_DENIAL.sub(" ", text.casefold())):
        words = _phrase_words(clause)
        start = 1 if words[:1] and words[0] in words_in("conjunctions") else 0
        found = find_phrase(clause, "conditions", words[start : start + _MAX_PHRASE], only_start=True)
        if found is not None:
            return found
    return None


# Languages in which a sentence often begins with a noun, because they have no article before it.
_WITHOUT_ARTICLES = sum(
    1 << _LANGUAGES.index(language) for language in "sv da no pl cs ru uk tr id ar hi".split()
)


def opens_explanation(text: str, *, after_comma: bool) -> bool:
    """Return True if a text after an answer begins as an explanation does.

    After a comma it must begin with an article, a pronoun or a reason, because words after a comma often limit or
    relate what is before it. Elsewhere it may begin with any other word except those that do so.
    """
    folded = _fold(text)
    words = _phrase_words(folded)
    start = words[:_MAX_PHRASE]
    if not start or "_".join(words) in words_in("affirmations"):
        return True
    if _RUN_CHARACTER.match(start[0]):
        return _opens_run(folded)
    opener = find_phrase("", "openers", start, only_start=True) or ""
    barred = find_phrase("", "never opens", start, only_start=True) or ""
    if len(barred) > len(opener):  # "a condizione che", although "a" may open one
        return False
    if opener:
        return len(words) >= (_MIN_STATEMENT if after_comma else 2)
    return not after_comma or bool(_languages_by_word().get(start[0], 0) & _WITHOUT_ARTICLES)


_MIN_STATEMENT = 3  # words, after a comma
# In Japanese and Korean, a subject with its particle, and the ending of a verb.
_STATEMENT_IN_RUNS = lazy_regex(
    r".+(?:は|が|には|では).+(?:す|た|ん|い|る|だ)\W*|.+[은는이가]\s.+(?:다|요)\W*|理由(?:は|：|:).+|.+(?:からです|ためです|때문입니다)\W*",
    re.DOTALL,
)
_SAID_IN_RUNS = lazy_regex(
    r"(?:说|說|写|道|言う|言った|と思います|말했습니다|생각합니다)\W*\Z|ありがとう|당신|하세요|해_?주세요"
)


def _opens_run(folded: str) -> bool:
    """Return True if a text in Chinese, Japanese or Korean is a statement."""
    if _SAID_IN_RUNS.search(folded):
        return False
    opening = folded.lstrip(" \t\r\n\"'“‘「『（(*_")
    if opening.startswith(tuple(words_in("openers runs"))):
        return True
    return _STATEMENT_IN_RUNS.fullmatch(folded.strip()) is not None


def refuses(text: str) -> str | None:
    """Return the words of a text that ask for something or refuse to answer, or None."""
    match = _REFUSES.search(_fold(text))
    return match[0] if match else None


def calls_example(text: str) -> str | None:
    """Return the words of a text that call a value an example, a template or a draft, or None."""
    folded = _fold(text)
    match = _CALLS_EXAMPLE.search(folded)
    return match[0] if match else find_phrase(folded, "examples")


_MAX_PHRASE = 5  # words
_SENTENCE = lazy_regex(r"[^.!?\n]*[.!?\n]*\s*")
_CLAUSE = lazy_regex(r"[,;，；]\s*|(?<=[.!])\s+")
_PHRASE_WORD = lazy_regex(r"[^\W\d_]+")


def _phrase_words(folded: str) -> list[str]:
    return _PHRASE_WORD.findall(folded)


def find_phrase(
    folded: str, section: str, words: Sequence[str] | None = None, *, only_start: bool = False
) -> str | None:
    """Return the first phrase of a section of ``words.txt`` that is in a text in lower case, or None."""
    runs = _runs_of(section)
    run = runs.search(folded) if runs is not None and not folded.isascii() else None
    if run is not None:
        return run[0]
    words = _phrase_words(folded) if words is None else words
    phrases, stems = _phrases_of(section)
    for start in range(min(len(words), 1) if only_start else len(words)):
        following = "_".join(words[start : start + _MAX_PHRASE])
        if following.startswith(stems):
            return words[start]
        end = 0
        while end >= 0:  # the phrases of one word, two words and so on
            end = following.find("_", end + 1)
            phrase = following if end < 0 else following[:end]
            if phrase in phrases:
                return phrase.replace("_", " ")
    return None


@cache
def _phrases_of(section: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the phrases of a section, and the beginnings of those with any ending."""
    words = words_in(section)
    return words, tuple(word[:-1] for word in words if word.endswith("*"))


@cache
def _runs_of(section: str) -> re.Pattern[str] | None:
    runs = words_in(f"{section} runs")
    return re.compile("|".join(map(re.escape, sorted(runs))).replace("_", " ")) if runs else None


def is_personal_remark(text: str) -> bool:
    """Return True if a sentence in the first person does not say what was done, as in "I mixed them up"."""
    folded = text.casefold()
    return (
        _FIRST_PERSON.search(folded) is not None
        and _OF_WORK.search(folded) is None
        and _may_be_english(folded)
    )


def _may_be_english(text: str) -> bool:
    """Return False if more words of a text are common in another language: "I valori" is not about me."""
    counts = _counts_of_common_words(text, ())[0]
    return counts[0] == max(counts)


def is_in_known_language(text: str) -> bool:
    """Return True if enough words of each sentence are from one language that this module knows."""
    for sentence in _SENTENCE_END.split(text):
        common, total = _count_common_words(sentence)
        if common < min(total, 2) or common * _WORDS_PER_COMMON_WORD < total:
            return False
        runs = "".join(_RUN_CHARACTER.findall(sentence))
        if not total and not runs and sentence.strip(_BLANKS):
            return False
        if len("".join(_common_runs().findall(sentence))) * _CHARACTERS_PER_COMMON_ONE < len(runs):
            return False
    return True


def is_sentence_in_known_language(text: str, own_words: Collection[str]) -> bool:
    """Return True if most of a sentence is certainly from one language that this module knows.

    Related languages share some words, so a short sentence must consist of known words. ``own_words``, such as
    those of a JSON value, and names do not count.
    """
    common, total = _count_common_words(_NAME.sub(" ", text), own_words)
    text = _POLITE.sub("", text)
    runs = "".join(_RUN_CHARACTER.findall(text))
    known = len("".join(_common_runs().findall(text)))
    enough = total if total < 4 else -(-total // (2 if total < 8 else 3))
    return common >= enough and known * 2 >= len(runs)


def _count_common_words(text: str, own_words: Collection[str] = ()) -> tuple[int, int]:
    """Return how many words of a text are common in its most likely language, and how many words it has."""
    counts, total = _counts_of_common_words(text, own_words)
    return max(counts), total


def has_decimal_comma(text: str) -> bool:
    """Return True if the words of a text are of a language that writes a decimal comma, and not English."""
    counts, total = _counts_of_common_words(text, ())
    most = max(counts)
    return most >= _MIN_COMMA_WORDS and most > counts[0] and most * 3 >= total * 2


_MIN_COMMA_WORDS = 2


def counts_of_common_words(text: str) -> tuple[int, int]:
    """Return how many words of a text are common in English, and how many in its most likely other language."""
    (english, *others), _ = _counts_of_common_words(_NO_LANGUAGE.sub(" ", text), ())
    return english, max(others)


# Words of several languages that are also labels in English.
_NO_LANGUAGE = lazy_regex(r"(?<![\w'’])(?:[a-z]|min|note|var)(?![\w'’])", re.IGNORECASE)


def _counts_of_common_words(text: str, own_words: Collection[str]) -> tuple[list[int], int]:
    """Return how many words of a text are common in each language, and how many words it has."""
    words_of, total = _languages_by_common_word(), 0
    counts = [0] * len(_LANGUAGES)
    for word in _words(text):
        of_word = words_of.get(word, 0)
        if not of_word and (word in own_words or (len(word) == 1 and word.isascii())):
            continue
        total += 1
        for number in range(len(counts) if of_word else 0):
            counts[number] += of_word >> number & 1
    return counts, total


@cache
def _common_runs() -> re.Pattern[str]:
    words = sorted(words_in("runs") | words_in("explanations runs"), reverse=True)
    return re.compile("|".join(words))


# Korean verb endings, which say nothing.
_POLITE = lazy_regex("(?:했|합|됩|있|이|입)?(?:습니다|니다)")
_BLANKS = " \t\r\n.!*_`\"')»”"
_SENTENCE_END = lazy_regex(r"(?<=[.!?])\s+|\n")
# A word with a capital letter that does not begin a sentence; in German it may be any noun.
_NAME = lazy_regex(r"(?<=[^\W\d_] )[A-Z][^\W_]+")


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, without the characters of languages that have no spaces."""
    for match in _TOKEN.finditer(_fold(text)):
        if match[0][0].isalpha() and not _RUN_CHARACTER.match(match[0]):
            yield match[0]


@cache
def _languages_by_common_word() -> dict[str, int]:
    languages = dict(_languages_by_word())
    for number, language in enumerate(_LANGUAGES):
        for word in words_in(f"explanations {language}"):
            languages[word] = languages.get(word, 0) | 1 << number
    return languages
