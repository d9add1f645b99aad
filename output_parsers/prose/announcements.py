"""Find announcements of an answer, such as "The answer is", "Sentiment:" and "答案：", in many languages."""

from __future__ import annotations

import re
from itertools import islice

from ..lazy_regex import lazy_regex
from .harmless import takes_back

_MAX_ANNOUNCEMENT = 120  # characters
_MAX_LENGTH = 10_000  # characters of a text that is searched for announcements
_LEAD_IN = (
    r"(?:\A|[.!?:;\n>*•)\]]|[-–—]\s|。|，|,)[\s\"'`*_#>]{0,9}"
    r"(?:(?:so|therefore|thus|hence|overall|finally|in conclusion|in summary|also|daher|somit|donc|ainsi|por"
    r" lo tanto|quindi|portanto|dus|итак|поэтому|所以|因此|よって),? ?)?"
)
_WHOSE = (
    r"(?:(?:the|my|our|your|its|die|das|der|meine|la|le|ma|el|mi|il|lo|a|o|minha|het|de|mijn|mitt|det|mój|moja) )?"
    r"(?:(?:final|correct|right|best|overall|predicted|most likely|richtige|korrekte|endgültige|bonne|correcte"
    r"|respuesta|juiste|rätta|rigtige|riktige|poprawna|správná|правильный|окончательный|doğru) ){0,2}"
)
_ANSWER_WORDS = (
    r"(?:answer|final answer|result|solution|conclusion|verdict|decision|output|prediction|response"
    r"|antwort|lösung|ergebnis|réponse(?: finale| correcte)?|résultat|solution|respuesta(?: final| correcta)?|resultado"
    r"|risposta(?: corretta| finale)?|risultato|resposta(?: final| correta)?|antwoord|svaret|svar|odpowiedź|odpověď"
    r"|ответ|відповідь|cevap|yanıt|jawaban(?:nya)?|الإجابة|الجواب|उत्तर|(?:最终|最終|正确|正確)?答案|答え|回答|正解|結論|정답|답변|답)"
)
_IS = (
    r"(?:\s?[*_`\"']{0,3}\s?[:：=→]|\s[-–—]\s|\s(?:is|was|would be|must be|lautet|ist|est|es|è|é|is|är|er|to|je|это"
    r"|adalah|है|هو|هي)\b(?:\sas follows)?:?|\s?(?:是|为|為|は|は：|는|은))"
)
_LABEL_WORDS = (
    r"(?:sentiment|category|class|classification|label|type|kind|tag|tone|mood|emotion|intent|topic|subject|department"
    r"|team|language|priority|urgency|severity|level|risk|score|rating|grade|status|state|value|choice|option|recommendation"
    r"|kategorie|klasse|typ|stimmung|sprache|thema|priorität|catégorie|classe|langue|priorité|categoría|clase|prioridad"
    r"|categoria|priorità|prioridade|категория|тональность|类别|分类|情感|优先级|感情|分類|カテゴリ|감정|분류)"
)
_TO_THE_ANSWER = r"[\s\"'`*_“‘(\[{<\\-]{0,20}(?:option |choice |letter |boxed\{|text\{)?[\"'`*_“‘(\[{]{0,9}"
_CLASSIFIED = (
    r"(?:it|this|the \w{1,20}) (?:should be|must be|can be|is) (?:best )?"
    r"(?:classified|categori[sz]ed|labell?ed|rated|tagged) as\s?:?"
)
_PATTERN = (
    rf"(?:{_LEAD_IN}{_WHOSE}{_ANSWER_WORDS}(?:\s(?:to|for) (?:the|this|your) (?:question|problem|text))?{_IS}"
    rf"|{_LEAD_IN}{_WHOSE}{_LABEL_WORDS}[*_`\"']{{0,3}}\s?[:：=][*_]{{0,3}}"
    rf"|{_LEAD_IN}{_CLASSIFIED}|\\boxed\{{){_TO_THE_ANSWER}"
)
_SENTENCE_END = lazy_regex(r"[.!?\n]\s")
_DIRECTLY_BEFORE = lazy_regex(rf"{_PATTERN}\Z", re.IGNORECASE)
_ANYWHERE = lazy_regex(_PATTERN, re.IGNORECASE)


def is_announced(text: str, start: int) -> bool:
    """Return True if words such as "the answer is" stand directly before a position in a text."""
    match = _DIRECTLY_BEFORE.search(text, max(0, start - _MAX_ANNOUNCEMENT), start)
    return match is not None and not _has_condition(text, match.start())


def _has_condition(text: str, start: int) -> bool:
    """Return True if an announcement after a comma follows a condition, as in "If it rains, the answer is …"."""
    if text[start : start + 1] not in (",", "，"):
        return False
    clause = text[max(0, start - _MAX_ANNOUNCEMENT) : start]
    return takes_back(max(_SENTENCE_END.split(clause)[-1:], default="")) is not None


def after_announcement(text: str) -> str:
    """Return the text after its only announcement, because what is before it does not count.

    Return the whole text if it has no announcement, or several, or if it is very long.
    """
    if len(text) > _MAX_LENGTH:
        return text
    first, second = (*islice(_ANYWHERE.finditer(text), 2), None, None)[:2]
    if first is None or second is not None or _has_condition(text, first.start()):
        return text
    return text[first.end() :]
