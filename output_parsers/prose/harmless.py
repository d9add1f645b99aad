"""Words that may stand around an answer without changing it, by language.

A value that is named in a sentence counts only if every other word of the sentence is in one of these lists.
A list of the words that deny a value could never be complete. All words must be from one language, because
a word that is harmless in one language may deny the answer in another: "tak" is yes in Polish and not in
Malay. So the lists contain no such words, and no words that limit, weaken or move a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
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


def find_unknown_word(text: str, known: Collection[str] = ()) -> str | None:
    """Return the first word or sign that is not known to be harmless beside an answer, or None.

    The words of ``known``, in lower case, are harmless too, such as the units that a declaration names.
    """
    words_of, languages = _languages_by_word(), _ALL
    folded = _IGNORED.sub("", text).casefold().replace("’", "'")
    for match in _TOKEN.finditer(_harmless_phrases().sub(" ", folded)):
        token = match[0]
        if token in known or (len(token) == 1 and (token in _PUNCTUATION or token in _MARKS)):
            continue
        of_word = _ALL if _harmless_runs().fullmatch(token) else words_of.get(token, 0)
        languages &= of_word
        if not languages:
            return token
    return None


# The first words of a question, and words that say where something is or how much, and not what the answer is.
_ASKING = frozenset("is was are were would has have am ist war sind würde sont était zou är var".split())
_RELATING = frozenset(
    """
    of for from in to with as on under after very there comme como come zu sehr für mit als très dans pour muy para por molto per muito em zeer
    heel voor met zou mycket till för meget til veldig bardzo velmi очень дуже çok sangat
    """.split()
)
# Labels of what was asked, and words about what somebody else chose or what is to be answered.
_OTHER_LABEL = lazy_regex(
    r"(?<!\w)(?:(?:input|query|question|user|prompt|request|subject|given|eingabe|frage|nutzer|benutzer|anfrage|betreff|entrée|question|utilisateur|requête"
    r"|sujet|objet|entrada|pregunta|usuario|consulta|asunto|domanda|utente|richiesta|oggetto|pergunta|usuário|assunto|invoer|vraag|gebruiker"
    r"|вопрос|запрос|пользователь|ввод)(?: (?:text|message|texto?|testo|tekst))?|输入|問題|问题|用户|用戶|入力|質問|ユーザー|입력|질문|사용자)[*_\"'`]*\s?[:：]\W*\Z"
)
_OF_OTHERS = lazy_regex(
    r"(?<!\w)(?:(?:the|a) (?:user|customer|author|writer|speaker|person|client|reviewer) (?:has )?"
    r"(?:picked|pick|selected|chose|choose|answered|replied|said|says|asked|typed|entered|wrote|gave|sent|labell?ed|tagged|marked|rated)"
    r"|(?:kind|sort) of|i was (?:going|about) to (?:say|answer)|i would have (?:said|answered)"
    r"|you(?:r (?:answer|choice|input|reply|response|message|question)|['’]?ve)? (?:is|was|picked|selected|chose|answered|said|wrote|gave)"
    r"|please (?:answer|respond|reply|say|return|write)(?: with)?|(?:\A|[.!]\s)\W*(?:(?:answer|respond|reply) with|(?:return|think|say|write|choose|pick|select)))\W*\Z"
)
_SETS_OFF = (":", "：", "=", "→", "-", "–", "—")


def asks_or_relates(before: str) -> bool:
    """Return True if the harmless words before a value make no statement: "Is it low", "with low", "very low"."""
    folded = before.casefold()
    if _OTHER_LABEL.search(folded) or _OF_OTHERS.search(folded):
        return True
    words = list(_words(before))
    if not words or before.rstrip(" \t\r\n*_`\"'“").endswith(_SETS_OFF):
        return False
    return words[0] in _ASKING or _RELATING.issuperset(words)


# A label of what has a number and is not counted: "Ticket: 42".
_NUMBERED = frozenset(
    "ticket order item entry record section case document file image paragraph article option invoice".split()
)
# JSON, a tag or a reference.
_OTHER_MARKUP = lazy_regex(r"(?<!\\boxed)[{\[]|<[/\w]")
# Signs that may stand directly before and after a value.
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
    unknown = find_unknown_word(before, known) or find_unknown_word(
        f"{before} {after}", {*known, *known_after}
    )
    if unknown is not None:
        return unknown
    markup = _OTHER_MARKUP.search(f"{before} {after}")
    if markup is not None:
        return markup[0]
    return _sign_beside(before, after) or _word_before(before, leading)


def _sign_beside(before: str, after: str) -> str | None:
    """Return the sign directly beside a value that may change it, as in "- 5", or None."""
    bare, following = (_IGNORED.sub("", part) for part in (before, after))
    bare, following = bare.rstrip(_BEFORE_VALUE), following.strip(_BEFORE_VALUE)
    if following in (":", "："):  # of the label "Answer 5:"
        return following
    for sign, allowed in ((bare[-1:], _SIGNS_BEFORE), (following[:1], _SIGNS_AFTER)):
        if sign and not (sign.isalnum() or sign in allowed or sign in _MARKS or bare.endswith("##")):
            return sign
    return None


def _word_before(before: str, leading: frozenset[str]) -> str | None:
    """Return the word directly before a value that ties it to something else, or None."""
    words = list(_words(before))
    if not words:
        return None
    if len(words) == 1 and words[0] in _NUMBERED.difference(leading):
        return words[0]
    if _IGNORED.sub("", before).rstrip(_BEFORE_VALUE)[-1:].isalnum():
        bare = next((word for word in reversed(words) if word not in words_in("articles")), None)
        if bare is not None and bare not in words_in("leads") and bare not in leading:
            return bare
    return before.strip() if asks_or_relates(before) and leading.isdisjoint(words) else None


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
    words = sorted(words_in("runs"), key=len, reverse=True)
    return re.compile(f"(?>{'|'.join(words)})++")


# Between a value and the characters of a language without spaces around it, as in "答えは42です。"; not inside of
# a date, a time or a number with its scale.
_INSIDE = "年月日年월일時时分点點시분万萬만亿億억千百十"
_EDGE_OF_RUN = lazy_regex(
    rf"(?:(?<=[A-Za-z0-9])|(?<=[0-9][日일分분])(?![钟鐘间間간]))(?!(?<=[0-9])[{_INSIDE}])(?={_RUN})|(?<={_RUN})(?<![{_INSIDE}])(?=[A-Za-z0-9])"
)


_CORNER_BRACKETS = dict.fromkeys(map(ord, "「」『』"), " ") | {ord("。"): ". "}


def separate_runs(text: str) -> str:
    """Return a text with spaces between values and the characters of languages that have no spaces."""
    return text if text.isascii() else _EDGE_OF_RUN.sub(" ", text.translate(_CORNER_BRACKETS))


# --- An explanation after an answer ---

# Words that may deny an answer, weaken it or take it back, in the languages in which explanations are read
# and in the commonest of the others.
_NEGATIONS = r"""
    not|(?<!base )no|non|nee|nope|never|none|neither|nor|nothing|nobody|nowhere|without|cannot|false|wrong(?:ly)?|untrue
    |(?:ca|do|does|did|is|was|are|were|wo|would|should|could|ai|has|have|had)nt|incorrect(?:ly)?|invalid
    |nicht|kein\w*|nein|nie|niemals|weder|ohne|falsch|kaum|mitnichten|weniger|ne|n|pas|aucune?|jamais|sans
    |guère|peu|ni|sin|nunca|nada|jamás|tampoco|poco|falso|não|nem|nenhum\w*|sem|niet|geen|nooit|noch|zonder
    |senza|mai|né|nessun\w*|mica|inte|ej|aldrig|ingen|inget|utan|ikke|ikkje|aldri|uden|uten|nie|nigdy|żaden
    |bez|ani|není|nikdy|žádn\w*|не|нет|ни|никогда|без|нельзя|ні|немає|değil|yok|hayır|asla|bukan|tidak|belum
    |jangan|tanpa|kurang|incorrect[ao]|sbagliat[ao]|errad[ao]|fout|błędn\w*|неверн\w*|неправильн\w*|yanlış
    |špatně|fel|forkert|feil|خطأ|गलत|ليس|ليست|لا|لم|لن|غير|بدون|नहीं|न|मत|không|nem|ei|ez|nu
"""
_HEDGES = r"""
    maybe|perhaps|possibl[ey]|might|(?<!in )(?<!since )(?<!until )may|could|probabl[ey]|presumably|likely|unlikely|unsure|uncertain
    |unclear|doubt\w*|depends|guess\w*|assum\w*|supposed(?:ly)?|allegedly|hardly|barely|scarcely|rarely
    |partly|partially|mostly|almost|nearly|if|unless|whether|otherwise|actually|hmm+|oops|nah|lied|lying
    |confirm(?:ar|er|are)|indovin\w*|adivin\w*|devin\w*|jok(?:e|ing)|kidding|scratch|mistake\w*|tentative\w*|tb[cd]|confirmed|subject to|sort of|kind of
    |only (?:on|if|when|in|for|with|after|before|until|as)|except|as long as|hypothetical\w*|previous\w*
    |last|colleague|claims|claimed|scherz|witz|halb|aber nur|es sei denn|chyba że|a menos|à moins|tenzij|(?:please |but )check|hang on|hold on|they say|caveats?|copy of|lie|lies|gelogen|lüge|mensonge|mentira|bugia|menzogna|kłamstwo|ложь|leugen|lögn|løgn|unreliable|unconfirmed|unsourced|on reflection|not (?:false|wrong|incorrect|untrue)|wacht|warte|moment|attend(?:s|ez)|esper[ae]|aspett[ai]|czekaj|chwil\w*|подожди\w*|(?:i )?think so|gegenteil|behauptet|glaube|blague|plaisanterie|exemple|beispiel
    |ejemplo|broma|esempio|scherzo|шутка|пример|наугад|sorry|correction|corrected|rather|instead|opposite
    |contrary|iron(?:y|ic\w*)|sarcas\w+|examples?|placeholder|pretend\w*|vielleicht|eventuell|vermutlich
    |wahrscheinlich|möglicherweise|peut-être|probablement|quizá|quizás|tal|acaso|the reverse
    |i mis(?:read|judged)|beg to differ|most cases|provided that|ignore (?:this|that)|i retract
    |please verify|old value|fails to|coin flip|ruled out|excluded|rejected|double-?check\w*|grain of salt|(?:over|under)statements?|made (?:this|it|that) up|random (?:choice|pick)
    |hard to tell|vérifier|ich rate|geraten|contraire|contrario|verificare|exemplo|piada|chutei|voorbeeld
    |grapje|te controleren|gegokt|przykład|żart|sprawdzenia|zgaduję|угадал|проверить|приклад|вгадав|örnek
    |şaka|tahmin|exempel|skämtar|gissade|eksempel|gættede|spøk|gjettet|příklad|hádal|esimerkki|arvasin
    |tippeltem|exemplu|ghicit|παράδειγμα|adiviné|contoh|menebak|ví dụ|مثال|مزحة|خمنت|probablemente|forse
    |probabilmente|talvez|provavelmente|misschien|waarschijnlijk|kanske|måske|kanskje|może|chyba|možná|asi
    |возможно|наверное|может|вероятно|можливо|мабуть|erfunden\w*|ausgedacht|fiktiv\w*|inventée?s?
    |ficti[fv]\w*|inventad[oa]s?|ficticios?|ficticias?|inventat[oiae]|verzonnen|påhittad\w*|opdigtet\w*
    |oppdiktet\w*|zmyślon\w*|vymyšlen\w*|выдуман\w*|вигадан\w*|uydur\w*|fiktif|belki|galiba|mungkin
    |barangkali|ربما|शायद|(?:ge)?schätz(?:t|ung)\w*|geschat\w*|schatting\w*|estimé\w*|estimad[oa]s?|estimativa|stimat[oaie]|stima
    |uppskatt\w*|skønn\w*|anslag|anslått|szacun\w*|oszacowan\w*|odhad\w*|приблизительн\w*|орієнтовн\w*|perkiraan|diperkirakan
    |supposition|suposi\w+|palpite|supposizione|fict[íi]ci[oa]s?|تقدير\w*|अनुमान\w*|then again|fictiefs?|fittizi\w*
"""
_TAKES_BACK = lazy_regex(
    rf"(?<!\w)(?:{join_lines(_NEGATIONS)}|{join_lines(_HEDGES)})(?!\w)"
    r"|(?:\A|[.!?,;]\s*)wait(?!\w)|take (?:that|it) back|n['’]t(?!\w)|[?¬≠❌✗✘✖☒🚫⛔👎🤔🙄😕🤷]|!=|~~|\[ \]"
    r"|[不没沒非未无無别否勿反錯错]|間違|틀[렸린]|可能|猜|例子|示例|範例|范例|推测|推測|推定|추정|估计|估算|估計|核实|例です|要確認|예시|농담|추측|违う|違う|谎|謊|嘘|거짓|いや|等等|잠깐|抱歉|遗憾|죄송|모르|유감|착각|참고|残念|参考|虚构|虛構|编造|編造|架空|仮の|也许|或许|大概|ない|ません|じゃ|ず|なく|かも|たぶん|아니|않|안 |못|없|아마|글쎄"
)
# What models say of their work in the first person.
_FIRST_PERSON = lazy_regex(r"(?<!\w)i(?:['’]\w+)?(?!\w)|\Aplease\b")
_OF_WORK = lazy_regex(
    r"(?<!\w)i(?:['’]ve|['’]ll|['’]d| have| will| can| should| must| am going to)?(?: also| now| then| just| have| been)*"
    r" (?:extract\w*|us(?:e|ed|ing)|follow\w*|took|take|taken|includ\w*|kept|keep|find|found|see|set|read|analy[sz]\w*"
    r"|cho?ose|chosen|identif\w*|list\w*|add\w*|convert\w*|format\w*|return\w*|creat\w*|generat\w*|produc\w*|structur\w*"
    r"|summari[sz]\w*|translat\w*|classif\w*|look\w*|count\w*|calculat\w*|comput\w*|go|went|write|wrote|give|provide\w*|parse\w*|put|mark\w*|focus|adapt|know"
    r"|think|understand|hope|would|need to|want to|left|be happy|happy)\b"
    r"|i (?:could|can|did)(?: not|n['’]t) (?:find|see|locate)|let me|can i|i am happy|i['’]m happy|please (?:find|see|note)|as i|before i|so i|i (?:need|have|want) to"
)
# What a sentence after an answer says of the answer, and not of its reasons.
_RETRACTION = lazy_regex(
    r"(?:made|make it) up|invented|fabricated|fictional|fictitious|placeholders?|(?:a|just a) sample|template|draft|disregard"
    r"|ignore (?:the above|that)|for illustration|an illustration|continued|more to come|(?:to|will) follow\b|and so on"
    r"|the (?:real|right|correct|true|actual) (?:answer|value)|(?:outdated|superseded|synthetic|fake)\W*\Z|another document"
    r"|different person|with caution|my bad|you should (?:verify|check)|replace the|fill in|adjust the|was the input"
    r"|answer is unknown|impossible to (?:say|tell|know)|in (?:reality|fact),? it|the text (?:(?:was|is) missing|is too short)"
    r"|it should be|\A\W*but (?:the|it|in)\b|to be \w+ed\b|part \d+ of \d|and \d+ (?:more|others)|contradict\w*|\A\W*(?:score\b|/s\W*\Z)"
    r"|[:：]\W*\Z|(?<!\w)(?:only|nur|seulement|sólo|solo|solamente|soltanto|apenas|somente|alleen|slechts|tylko|только|лишь)\W*\Z"
)
_NEGATION = lazy_regex(
    rf"(?<!\w)(?:{join_lines(_NEGATIONS)})(?!\w)|n['’]t(?!\w)|[不没沒非未无無違]|않|아니|틀렸|ません|ない"
)
_WORDS_PER_COMMON_WORD = 6
_CHARACTERS_PER_COMMON_ONE = 5


def takes_back(text: str) -> str | None:
    """Return the first word of an explanation that may deny or weaken the answer before it, or None."""
    folded = text.casefold()
    match = _TAKES_BACK.search(folded) or _RETRACTION.search(folded)
    return match[0] if match else None


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


def without_negations(text: str) -> str:
    """Return the text without the words that deny something, which explain the answer "no"."""
    return _NEGATION.sub(" ", text.casefold())


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
    words = sorted(words_in("runs") | words_in("explanations runs"), key=len, reverse=True)
    return re.compile("|".join(words))


# Korean verb endings, which say nothing.
_POLITE = lazy_regex("(?:했|합|됩|있|이|입)?(?:습니다|니다)")
_BLANKS = " \t\r\n.!*_`\"')»”"
_SENTENCE_END = lazy_regex(r"(?<=[.!?])\s+|\n")
# A word with a capital letter that does not begin a sentence; in German it may be any noun.
_NAME = lazy_regex(r"(?<=[^\W\d_] )[A-Z][^\W_]+")


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, without the characters of languages that have no spaces."""
    for match in _TOKEN.finditer(text.casefold().replace("’", "'")):
        if match[0][0].isalpha() and not _RUN_CHARACTER.match(match[0]):
            yield match[0]


@cache
def _languages_by_common_word() -> dict[str, int]:
    languages = dict(_languages_by_word())
    for number, language in enumerate(_LANGUAGES):
        for word in words_in(f"explanations {language}"):
            languages[word] = languages.get(word, 0) | 1 << number
    return languages
