"""Find out what the text around JSON says of it: that it is the answer, or an example, a draft or wrong."""

from __future__ import annotations

import re
from enum import Enum

from ..lazy_regex import join_lines, lazy_regex
from ..prose.announcements import is_announced


class Role(Enum):
    """What a reply says of a JSON value in it.

    Attributes:
        UNSAID: The reply says nothing that matters.
        ANSWER: It is announced as the answer.
        OTHER: It is not the answer: an example, a template, a draft, a quotation, or wrong.
    """

    UNSAID = 0
    ANSWER = 1
    OTHER = 2


_BEFORE = 160  # characters before JSON that are read
_AFTER = 120
# The beginning of a code block, and markup and brackets, between words and the JSON that they are about.
_OPENING = lazy_regex(r"(?:[`~]{3,}\w{0,20}|[\s*_>#:：(\"'`-])*\Z")
_CLAUSE = lazy_regex(
    r"(?:(?<!\be\.g)(?<!\bz)(?<!\bz\. b)(?<!\bz\.b)(?<!\bp)(?<!\bp\. ej)[.!?](?=\s|\Z)|[;\n。}\]])"
)
# Words that call the JSON an example, if they stand in the clause before it.
_EXAMPLE_WORDS = r"""
    example|examples|e\.g|for instance|such as|sample|dummy|mock|template|placeholder|hypothetical(?:ly)?|fictional
    |made (?:this|it|that|these) up|made[- ]up|invented|pretend|imaginary|illustrat\w+|draft|would look like
    |could look like|might look like|would be like|if there were|you (?:sent|wrote|gave|provided)|given input
    |the input was|original input|beispiel\w*|z\. ?b|zum beispiel|muster|vorlage|entwurf|exemple\w*|modèle|brouillon
    |ejemplo\w*|plantilla|borrador|esempi\w*|bozza|exemplo\w*|rascunho|voorbeeld\w*|exempel|eksempel|przykład\w*|příklad
    |esimerkki|példa|παράδειγμα|exemplu|näide|mfano|ví dụ|דוגמה
    |пример\w*|например|шаблон|приклад\w*|örnek|contoh|misalnya|مثال|مثلا|उदाहरण
"""
_FORMAT = (
    r"(?:(?:the|das|le|el|il|o) )?(?:(?:expected|required|output|correct|json|erwartetes) )?"
    r"(?:format|structure|schema|shape|formato|estructura|struttura)(?: (?:is|would be|should be|esperado))?\Z"
)
_SAYS_EXAMPLE = lazy_regex(
    rf"(?<!\w)(?:{join_lines(_EXAMPLE_WORDS)})(?!\w)|例如|例子|示例|举例|例|模板|样本|草稿"
    rf"|ตัวอย่าง|\A\W*예\Z|예시|예를|템플릿|たとえば|サンプル|雛形|\A\W*{_FORMAT}"
)
_CORRECTED = lazy_regex(
    r"(?:corrected(?: \w+)?|correction|fixed(?: \w+)?|updated(?: \w+)?|final(?: \w+)?|revised(?: \w+)?|korrigiert"
    r"|korrektur|endgültig\w*|corrigée?|version finale|corregid[oa]|corretto|修正|更正|最终|最終)\Z"
)
# A whole clause or sentence that calls the JSON wrong, in the languages of the other tables.
_WRONG = (
    r"(?:(?:[^\W\d][\w'’]{0,8} ){0,2}(?:falsch|faux|falso|incorrect[ao]|sbagliato|errado|fout|błędne|неверно|неправильно|yanlış"
    r"|špatně|fel|väärin|hibás|λάθος|sai|salah|forkert|feil|خطأ|गलत(?: है)?)"
    r"|[这這]是错误的|[这這]是錯誤的|これは間違いです|이것은 틀렸습니다)"
)
# A whole clause before JSON that says that it is not the answer, and questions.
_NO_ANSWER = lazy_regex(
    rf"\W*(?:{_WRONG}|bad|before|original|(?:tool )?input|rejected|avoid|anything but|unlike|demo|test fixture|(?:wild )?guess"
    r"|fake data|failed|exception|validation error for|stale|partial|incomplete|todo|lorem ipsum"
    r"|i (?:can|wo)n['’]t(?: give you| return)?|(?:this|that|it) is(?:n['’]t| not)|the user (?:sent|provided|wrote|gave)"
    r"|(?:your|the) (?:input|request) was|suppose the answer were|is it|could it be|should i return|did you mean)\W*"
)
# What denies the JSON at the beginning of the clause before it.
_DENIES = lazy_regex(
    r"\A\W*(?:not(?! only)|do(?: not|n['’]t)|never|maybe|perhaps|possibly|counter-?example|outdated|old|previous(?:ly)?|wrong"
    r"|incorrect|invalid|false|error|excluded|deleted|(?:das ist |c['’]est |es |è |это )?(?:falsch|faux|falso|sbagliato"
    r"|errado|неверно|fout|fel|forkert|feil)|错误|不是)(?!\w)"
)
# A refusal right before the JSON, in the languages of the other tables.
_REFUSES = lazy_regex(
    r"ich kann\b[^.]{0,40}\bnicht|je ne (?:peux|sais|suis) pas|no puedo|no sé\b|non posso|non so\b|não (?:posso|sei)"
    r"|kan (?:dat |dit |ik )?niet|kan inte|kan ikke|nie (?:mogę|wiem)|nemohu|не (?:могу|знаю)|не можу|無法|无法|不能|抱歉|对不起"
    r"|できません|申し訳|わかりません|죄송|할 수 없|알 수 없|لا (?:أستطيع|يمكن|أعرف)|cevaplayam|bilmiyorum|maaf|tidak (?:dapat|bisa|tahu)"
    r"|nem tud|en voi|en tiedä|nu (?:pot|știu)|δεν μπορώ|לא יכול|ne mogu|không thể|ไม่สามารถ|नहीं (?:कर|बता|दे)"
)
_FINAL_SENTENCE = lazy_regex(r"(?:so|therefore|hence),? the (?:answer|result|output) is\Z")
# Words right after JSON that call it an example, or take it back.
_SUBJECT = (
    r"(?:note:? )?(?:(?:and |but |however,? )?(?:this|that|it|these(?: values)?|which|the (?:above )?(?:json|answer|data|values?)"
    r"|the above)\s)?"
)
_TAKEN_BACK = lazy_regex(
    rf"[\s`~*_()\[\].,;:!–—-]{{0,20}}(?:[←<]-{{0,2}}|//|#)?\s{{0,3}}{_SUBJECT}"
    r"(?:(?:is|are|was|were) (?:only |just |merely |purely |an? |the |all )*"
    r"(?:example|examples|sample|dummy|template|placeholder|draft|made[- ]up|invented|fictional|hypothetical|mock|guess)"
    r"|would be (?:the |a |an )?(?:format|example|structure|template|wrong|guess)|(?:may|might|could) be (?:wrong|incorrect)"
    r"|(?:(?:is|was) )?(?:only |just )?(?:an? )?(?:example|sample|dummy|placeholder|template|hypothetical|fictional|guess|truncated)(?: data)?\s*[.!)]?\s*(?:\Z|\n)"
    r"|(?:the |an? )?\w{1,20} (?:is|was|are) actually|(?:is|are|was) (?:wrong|incorrect|false|invalid|placeholders?|not (?:real|correct|right))"
    r"|(?:was|is) the old |not (?:real|sure)\b|(?:please )?(?:ignore|disregard|do(?: not|n['’]t) use|i retract) (?:this|that|it|the above)\b"
    r"|actually,? (?:the |an? )?\w{1,20} (?:is|was|are)\b|edit:|none of (?:this|these|it) (?:is|are)\b|let me (?:redo|fix|correct)\b"
    r"|(?:replace|fill in) the (?:real |actual |correct )?values|output cut off|\?\s*\Z"
    r"|values are|no such|(?:sorry,? )?i (?:made|invented|fabricated|guessed|mixed up)\b|i(?: am|['’]m) (?:not (?:sure|certain)|unsure)|wait\b|correction\b|oops\b|scratch that|on second thought"
    rf"|{_WRONG}\W*(?:\Z|\n)"
    r"|(?:ist|war) nur (?:ein beispiel|geraten)|n['’]est qu['’]un exemple|(?:es|era) solo un ejemplo|只是(?:一个)?(?:例子|示例))",
    re.IGNORECASE,
)


def role_of(text: str, start: int, end: int, lower: int = 0, upper: int | None = None) -> Role:
    """Return what a reply says of the JSON value at ``start``.

    ``lower`` and ``upper`` are the ends of the values before and after it.
    """
    upper = len(text) if upper is None else upper
    if _TAKEN_BACK.match(text[end : min(upper, end + _AFTER)]):
        return Role.OTHER
    before = text[max(lower, start - _BEFORE) : start]
    before = before[: _opening(before)].lower()
    clause = before[max((cut.end() for cut in _CLAUSE.finditer(before.rstrip(" .!"))), default=0) :].strip()
    if not clause:
        return Role.UNSAID if before.strip() == "" or not _REFUSES.search(before) else Role.OTHER
    if _CORRECTED.search(clause) and "draft" not in clause:
        return Role.ANSWER
    last = f"{clause.rpartition(', ')[2]}: "
    if is_announced(last, len(last)) or _FINAL_SENTENCE.search(clause):
        return Role.ANSWER
    if _NO_ANSWER.fullmatch(clause) or _DENIES.match(clause):
        return Role.OTHER
    if _SAYS_EXAMPLE.search(clause) or _REFUSES.search(clause):
        return Role.OTHER
    return Role.UNSAID


def _opening(before: str) -> int:
    match = _OPENING.search(before)
    return match.start() if match else len(before)
