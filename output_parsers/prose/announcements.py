"""Find announcements of an answer, such as "The answer is", "Sentiment:" and "答案：", in many languages."""

from __future__ import annotations

import re
from itertools import islice

from ..lazy_regex import join_lines, lazy_regex
from . import words_in
from .harmless import (
    asks_or_relates,
    find_limit,
    find_phrase,
    find_unknown_word,
    reports,
    takes_back,
    without_reported_negations,
)

_MAX_ANNOUNCEMENT = 120  # characters
_MAX_CLOSINGS = 2
_MAX_LAST_LINE = 200  # characters
_MAX_LENGTH = 10_000  # characters of a text that is searched for announcements
_CONCLUDING = (
    r"[\s\"'`*_#>]{0,9}"
    r"(?:(?:and|und|et|y|e|en) )?(?:(?:so|therefore|thus|hence|overall|finally|in conclusion|in summary|also|daher|somit|donc|ainsi|por"
    r" lo tanto|quindi|portanto|dus|итак|поэтому|所以|因此|よって),? ?)?"
)
_LEAD_IN = rf"(?:\A|[.!?:;\n>*•)\]]|[-–—]\s|。|，|,){_CONCLUDING}"
_WHOSE = (
    r"(?:(?:the|my|our|its|die|das|der|meine|la|le|ma|el|mi|il|lo|a|o|minha|het|de|mijn|mitt|det|mój|moja|мой|моя|mia|minha|meu|mio) ){0,2}"
    r"(?:(?:final|correct|right|best|overall|predicted|most likely|short|kurze|korte|richtige|korrekte|endgültige|bonne|correcte"
    r"|respuesta|juiste|rätta|rigtige|riktige|poprawna|prawidłowa|ostateczna|správná|правильный|окончательный|итоговый|doğru|최종|最終的な) ?){0,2}"
)
_ANSWER_WORDS = (
    r"(?:answer|final answer|result|solution|conclusion|(?:correct|right|best) (?:option|choice)|verdict|decision|output|prediction|response"
    r"|antwort|lösung|ergebnis|réponse(?: finale| correcte| courte)?|résultat|solution|respuesta(?: final| correcta| corta)?|resultado"
    r"|risposta(?: corretta| finale| breve)?|risultato|resposta(?: final| correta| curta)?|antwoord|svaret|svar|odpowiedź|odpověď"
    r"|wynik|resultaat|resultat(?:et)?|ответ|результат|відповідь|cevap|yanıt|jawaban(?:nya)?|الإجابة|الجواب|उत्तर|(?:我的|最终|最終|正确|正確)?答案|答え|回答|正解|結論|結果|结果|결과|정답|답변|답)"
)
_IS = (
    r"(?:\s?[*_`\"']{0,3}\s?[:：=→]|\s[-–—]\s|\s(?:is|was|would be|must be|should be(?=:)|lautet|ist|est|es|è|é|is|är|er|to|je|это"
    r"|adalah|is het antwoord|है|هو|هي)\b(?:\sas follows)?:?|\s?(?:是|为|為|は|は：|는|은))"
)
_LABEL_WORDS = (
    r"(?:sentiment|category|class|classification|label|type|kind|tag|tone|mood|emotion|intent|topic|subject|department"
    r"|team|language|priority|urgency|severity|level|risk|score|rating|grade|status|state|value|choice|option|recommendation"
    r"|kategorie|klasse|typ|stimmung|sprache|thema|priorität|dringlichkeit|schweregrad|urgence|gravité|émotion|urgencia|gravedad|emoción|urgenza|gravità|urgência|gravidade|urgentie|pilność|срочность|catégorie|classe|langue|priorité|categoría|clase|prioridad"
    r"|categoria|priorità|prioridade|категория|тональность|类别|分类|情感|优先级|感情|分類|カテゴリ|감정|분류)"
)
_TO_THE_ANSWER = r"[\s\"'`*_“‘(\[{<\\-]{0,20}(?:option |choice |letter |boxed\{|text\{)?[\"'`*_“‘(\[{]{0,9}"
_CLASSIFIED = (
    r"(?:(?:it|th(?:is|e|at)(?: \w{1,20})?) (?:(?:should|must|can) be|is) (?:best )?"
    r"(?:classified|categori[sz]ed|labell?ed|rated|tagged|treated|described|flagged|graded|ranked) as"
    r"|(?:it|th(?:is|e|at)(?: \w{1,20})?) (?:should|must) be (?:(?:routed|assigned|sent|forwarded|directed) to|(?:filed|put|placed) (?:under|in))"
    r"|i(?:['’]d| would| will|['’]ll) (?:(?:route|assign|send|forward|direct) (?:it|th(?:is|e)(?: \w{1,20})?) to|(?:file|put|place) (?:it|th(?:is|e)(?: \w{1,20})?) (?:under|in)))"
    r"(?: the)?\s?:?"
)
_PATTERN = (
    rf"(?:{_LEAD_IN}{_WHOSE}{_ANSWER_WORDS}(?:\s(?:to|for) (?:the|this|your) (?:question|problem|text))?{_IS}"
    rf"|{_LEAD_IN}{_WHOSE}{_LABEL_WORDS}[*_`\"']{{0,3}}\s?[:：=][*_]{{0,3}}"
    rf"|(?:\A|[.!?\n>*•,]){_CONCLUDING}{_CLASSIFIED}|\\boxed\{{|\[(?:result|answer|final answer|score|rating)\]:?"
    rf"|(?:\A|\n)[\s*_]*total number of (?:[^\W\d_]+ ){{0,2}}[^\W\d_]+[*_]*\s?:[*_]*){_TO_THE_ANSWER}"
)
_SENTENCE_END = lazy_regex(r"[.!?\n]\s")
_DIRECTLY_BEFORE = lazy_regex(rf"{_PATTERN}\Z", re.IGNORECASE)
_ANYWHERE = lazy_regex(_PATTERN, re.IGNORECASE)


def is_announced(text: str, start: int) -> bool:
    """Return True if words such as "the answer is" come directly before a position in a text."""
    match = _DIRECTLY_BEFORE.search(text, max(0, start - _MAX_ANNOUNCEMENT), start)
    return match is not None and not _has_condition(text, match.start())


def _has_condition(text: str, start: int) -> bool:
    """Return True if an announcement after a comma follows a condition, as in "If it rains, the answer is …"."""
    if text[start : start + 1] not in (",", "，"):
        return False
    clause = text[max(0, start - _MAX_ANNOUNCEMENT) : start]
    last = _SENTENCE_END.split(clause)[-1]
    return reports(last) or asks_or_relates(last) or takes_back(last) is not None


# A table with one row: a name and its value.
_TABLE = lazy_regex(
    r"\s*\|[^|\n]{1,40}\|[^|\n]{1,40}\|[ \t]*\n\s*\|[\s:-]{3,}\|[\s:-]{3,}\|[ \t]*\n\s*\|(?P<name>[^|\n]{1,60})\|(?P<value>[^|\n]{1,80})\|\s*"
)


def after_announcement(text: str) -> str:
    """Return the text after its only announcement, because what is before it does not count.

    Return the whole text if it has no announcement, or several, or if it is very long.
    """
    if len(text) > _MAX_LENGTH:
        return text
    table = _TABLE.fullmatch(text)
    if (
        table is not None
        and find_unknown_word(table["name"]) is None
        and not asks_or_relates(table["name"] + ":")
    ):
        return table["value"].strip()
    first, second = (*islice(_ANYWHERE.finditer(text), 2), None, None)[:2]
    if first is None or second is not None or _has_condition(text, first.start()):
        return text
    return text[first.end() :]


_LABEL = (
    r"[\s*_#]{0,6}(?P<label>(?:[^\W\d_][\w'’-]{0,20} ){0,4}[^\W\d_][\w'’-]{0,20})[*_]{0,3}\s?[:：=][*_]{0,3}"
)
_LABELLED_LINE = lazy_regex(rf"(?:\A|\n){_LABEL}[ \t]*(?P<value>[^\n]{{1,80}})\Z")
_LABELLED_NUMBER = lazy_regex(rf"(?:\A|\n)(?:[-*•] |\|)?{_LABEL}[^\n]*\d")
_NUMBER = lazy_regex(r"\d")
_LAST_SENTENCE = lazy_regex(
    r"(?:\n\s*|(?<=[.!。]) *|,\s+)(?P<sentence>[^.!?\n]{3,160}(?:\.\d[^.!?\n]{0,60})?[.!。*_ ]*)\Z"
)


def final_result(text: str) -> str | None:
    """Return the last line or sentence of a text if it announces the result of the text before it, or None.

    So do "Total: 3" and "So there are 4 names." What is before it must not leave anything open, and not be a
    quotation, an example or a condition, and have no other result.
    """
    bare = text.strip()
    if len(bare) > _MAX_LENGTH:
        return None
    start = _start_of_result(bare)
    before, result = bare[:start], bare[start:].strip(" ,\n")
    if not before.strip() or leaves_open(before) or find_phrase(result.casefold(), "reports"):
        return None
    has_other = any(_is_total(match["label"]) for match in _LABELLED_NUMBER.finditer(before))
    return None if has_other else result


def _start_of_result(text: str) -> int:
    """Return the start of the last line that is labelled as a result, or of the last "so"; else 0."""
    line = _LABELLED_LINE.search(text, max(0, text.rfind("\n")))
    if line is None:
        sentence = _LAST_SENTENCE.search(text, max(0, len(text) - 2 * _MAX_ANNOUNCEMENT))
        concludes = sentence is not None and find_phrase(
            sentence[1].casefold(), "conclusions", only_start=True
        )
        if sentence is None or not concludes:
            return 0
        start = sentence.start()
        return 0 if text[start] == "," and _NUMBER.search(text, 0, start) else start
    is_measure = not words_in("measures").isdisjoint(line["label"].casefold().split())
    is_result = _is_total(line["label"]) or (
        is_measure and not _LABELLED_NUMBER.search(text, 0, line.start())
    )
    return line.start() if is_result else 0


def _is_total(label: str) -> bool:
    """Return True for the label of a result, such as "Total"."""
    return not words_in("totals").isdisjoint(label.casefold().split())


def leaves_open(before: str) -> bool:
    """Return True if sentences before a result may say that it is uncertain or a result of something else."""
    if _QUOTED.search(before) or takes_back(without_reported_negations(before)):
        return True
    lines = _LET_ME.sub("", before).splitlines()
    return any(find_limit(line) or (line.rstrip().endswith((":", "：")) and reports(line)) for line in lines)


_LET_ME = lazy_regex(
    r"let(?: me| us|['’]s) (?=(?:count|list|analy[sz]e|look|read|check|see|think|work|go|calculate|review|add)\b)",
    re.IGNORECASE,
)
# Labels of a repeated text, and a quotation.
_QUOTED = lazy_regex(
    r"(?:\A|\n)\W{0,4}(?:input|text|e-?mail|message|document|invoice|receipt|letter|review|question|prompt|query|draft|quote|excerpt|order|user|customer"
    r"|eingabe|frage|rechnung|brief|nachricht|kunde|texte|facture|client|texto|factura|mensaje|cliente|testo|fattura|messaggio|fatura|mensagem|tekst|factuur|klant"
    r"|текст|вопрос|счёт|клиент)\b[^:\n]{0,20}:|(?:\A|\n)\s*>|[:\"“„«]\s*\Z",
    re.IGNORECASE,
)
# The label of an explanation.
REASON = lazy_regex(
    r"[\W_]*(?:reason(?:ing)?|explanation|justification|rationale|why|grund|reden|motivering|odůvodnění|vysvětlení|пояснення|alasan|gerekçe|begründung|erklärung|raison|explication|justification|razón"
    r"|explicación|motivo|spiegazione|explicação|uitleg|toelichting|uzasadnienie|объяснение|обоснование|理由|解释|説明|이유|설명)\W*[:：]\W*"
    r"|\W*note[*_]*:[*_\s]*",
    re.IGNORECASE,
)
# --- What models say before and after an answer ---

# A word of agreement before an answer.
_AGREEMENTS = r"""
    sure(?: thing)?|of course|certainly|absolutely|gern[e]?|natürlich|klar|selbstverständlich|bien sûr|d['’]accord|volontiers
    |claro(?: que sí)?|por supuesto|certo|certamente|con piacere|com certeza|natuurlijk|graag|självklart|selvfølgelig|oczywiście
    |jasne|samozřejmě|конечно|разумеется|звичайно|tabii(?: ki)?|elbette|tentu(?: saja)?|baik|好的|当然可以|当然|もちろん|はい
    |承知しました|네|물론입니다|알겠습니다|بالطبع|ज़रूर
"""
AGREEMENT = lazy_regex(rf"\A\W*(?:{join_lines(_AGREEMENTS)})(?!\w)[\s,!.:，！。、]*", re.IGNORECASE)
# The beginnings of sentences that models write after an answer.
_CLOSINGS = r"""
    (?:please |just |do |and |but )?(?:let me know|tell me|ask (?:me|again)|reach out|contact)
    |(?:please )?(?:feel free|don['’]t hesitate|do not hesitate)|(?:i )?hope (?:this|that|it)|hoping this|is there anything
    |anything else|(?:i['’]m |i am |i would be |i['’]d be )?happy to|thank|you['’]re welcome|would you like
    |do you (?:want|need)|(?:shall|should|can|may) i (?:also|help)|enjoy|good luck|best (?:regards|wishes)
    |have a |cheers|(?:good)?bye|regards|lassen sie|lass(?:t)? (?:es )?mich|ich hoffe|viel (?:erfolg|spaß)|gern geschehen
    |bitte (?:schön|sehr)|bei fragen|haben sie noch|n['’]hésitez pas|n['’]hésite pas|j['’]espère que|faites-moi|dites-moi
    |bonne (?:journée|chance)|avec plaisir|espero que|avísame|avíseme|hazme saber|háganme|no dudes?|de nada
    |¿?(?:necesitas|hay algo) |me avise|fique à vontade|não hesite|disponha|spero che|fammi sapere|fatemi sapere|non esitare
    |laat (?:me|het)|ik hoop|hopelijk|låt mig|hoppas|lad mig|håber|la meg|håper|mam nadzieję|daj (?:mi )?znać|doufám
    |dejte (?:mi )?vědět|надеюсь|дайте знать|пожалуйста, дайте|сподіваюся|umarım|lütfen bana|semoga|silakan|beri tahu|希望
    |请(?:告诉|告知|随时)|還有|还有(?:什么|其他)|お役に立て|ご不明|도움이|궁금|أتمنى|آمل|يرجى إعلام
"""
CLOSING = lazy_regex(rf"\W*(?:{join_lines(_CLOSINGS)})", re.IGNORECASE)
# Beginnings of polite sentences before an answer.
_OPENINGS = r"""
    (?:thanks|thank you)(?: (?:so|very) much)? for|(?:i['’]m |i am |i['’]d be )?(?:happy|glad) to help|(?:great|good|interesting) question
    |i(?:['’]ve| have) (?:read|analy[sz]ed|reviewed|looked at|checked|examined)
    |(?:vielen |herzlichen )?danke?(?: schön)? für|gerne? helfe|ich helfe gerne|gute frage|ich habe (?:den|die|das) \w+ (?:gelesen|analysiert|geprüft)
    |merci (?:beaucoup )?(?:pour|de|d['’])|avec plaisir|bonne question|j['’]ai (?:lu|analysé|examiné)|(?:muchas )?gracias por|buena pregunta|he (?:leído|analizado|revisado)
    |grazie (?:mille )?per|buona domanda|ho (?:letto|analizzato)|(?:muito )?obrigad[oa] (?:por|pel[oa])|boa pergunta|(?:li|analisei) [oa]
    |bedankt voor|dank (?:je|u)(?: wel)? voor|goede vraag|tack för|tak for|takk for|dziękuję za|děkuji za|спасибо за|благодарю за|дякую за|teşekkür|terima kasih
    |感谢您?|谢谢您?|ありがとうございます|감사합니다|شكرا
"""
_OPENING = lazy_regex(
    rf"\W*(?:{join_lines(_OPENINGS)})(?!\w)[^\d.!?:\n]{{0,120}}[.!\n。！]\s*(?=\S)", re.IGNORECASE
)
_INTRODUCTION = lazy_regex(
    r"\A\W*(?:here(?:['’]s| is| are| you (?:go|are))|voici|hier (?:ist|is)|aquí (?:está|tienes)|ecco|aqui está|här är|her er|oto|вот|以下)"
    r"([^\n]{0,80})[:：]\s*(?=\S)",
    re.IGNORECASE,
)
# Conditions that say nothing against an answer: "If you need more, let me know."
_CONDITIONS = r"""
    if (?:you|this|that|it|there|anything|the|any)\b.*\b(?:let me know|tell me|ask|feel free|reach out|contact|i can|i['’]ll
    |i would be|happy to|just say)|if (?:you (?:need|have|want|would like|require|prefer|wish)|you['’]d like|i had to choose)
    |(?:falls|wenn) (?:sie|du)|si vous|si tu|si (?:necesitas?|tienes?|quieres?|desea)|se (?:precisar|quiser|tiver)
    |se (?:hai|vuoi|desideri)|als (?:je|u) |om du|hvis du|jeśli|pokud|если (?:вам|у вас|нужн|понадоб)|якщо|eğer
    |should you (?:need|have|want)|jika (?:anda|ada)|如果|如有|若有|必要(?:に応じて|でしたら|があれば)|필요하(?:면|시면)|إذا كن
    |(?:please )?ignore (?:the|my|any) (?:previous|earlier) version
"""
CONDITION_OF_MORE = lazy_regex(rf"\W*(?:{join_lines(_CONDITIONS)})", re.IGNORECASE)
_IF_YOU = lazy_regex(
    r"\bif you(?:['’]d like| (?:need|have|want|would like|require|prefer|wish))\b|\b(?:si vous avez|si tiene\w*|se (?:hai|tiver)"
    r"|wenn sie|als u|falls sie)\b[^.!?]*",
    re.IGNORECASE,
)
# "I hope." weakens an answer, and "Ask me later." refuses it.
_NO_CLOSING = lazy_regex(
    r"\W*(?:(?:i )?hope(?: so)?|ich hoffe|hoffe ich|j['’]espère|espero|spero|ik hoop|hopelijk|hoppas(?: jag)?|(?:jeg )?(?:håber|håper)|mam nadzieję|doufám"
    r"|надеюсь|сподіваюся|umarım|semoga|希望|ask (?:me )?(?:again )?(?:later|tomorrow))\W*",
    re.IGNORECASE,
)
_RULER = lazy_regex(r"\s*\n\s*(?:-{3,}|\*{3,}|_{3,})\Z")
_LAST_LINE = lazy_regex(r"(?:\n\s*|(?<=[.!?]) +)(?=[^\s.!?][^\n.!?]*[.!?…😊🙂 ]*\Z)")


def without_small_talk(text: str) -> str:
    """Return a text without an introduction such as "Sure! Here is the answer:" and sentences that end a reply.

    What they introduce and follow is the answer, if nothing else is in the text.
    """
    bare = text.strip()
    for _ in range(_MAX_CLOSINGS):
        last = _LAST_LINE.search(bare, max(0, len(bare) - _MAX_LAST_LINE))
        sentence = bare[last.end() :] if last else ""
        closing = CLOSING.match(sentence)
        if (
            last is None
            or closing is None
            or _NO_CLOSING.fullmatch(sentence)
            or takes_back(_IF_YOU.sub("", sentence[closing.end() :]))
        ):
            break
        bare = _RULER.sub("", bare[: last.start()].rstrip())
    rest = AGREEMENT.sub("", bare)
    opening = _OPENING.match(rest)
    if opening is not None and takes_back(opening[0]) is None:
        bare = rest[opening.end() :]
        rest = AGREEMENT.sub("", bare)
    introduction = _INTRODUCTION.match(rest)
    if (
        introduction is None
        or find_unknown_word(introduction[1], ("json", "your", "you", "asked", "requested", "provided"))
        or takes_back(introduction[1])
    ):
        return bare
    return rest[introduction.end() :]
