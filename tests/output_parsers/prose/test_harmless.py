"""A value in a sentence counts only if every other word is known to be harmless, in any language."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest

from output_parsers import OutputParsingError, parse
from output_parsers.prose import _sections, words_in
from output_parsers.prose.harmless import (
    _LANGUAGES,
    find_limit,
    find_unknown_word,
    is_sentence_in_known_language,
)

# Words that deny what is next to them, in many languages.
NEGATORS = """
    not non never ei eivät en et emme ez ne ni nije nav nėra nu nem nincs nuk nid dim ddim
    ní níl cha chan pas pa mica ekki ikki ikke inte ej nicht net nit niet nie geen não nun
    nin nej nei tidak tak bukan belum kurang ora dudu henteu lain dili di hindi wala tsy
    sio si hapana aba ko kò ba babu ma maaha không chưa chẳng mhux yok değil emas deyil
    gar bish na nahi nahin nathi illa illai alla kaadu не нет ні није емес биш not χωρίς
    δεν όχι לא אין אינו نیست نہیں ليس नहीं না নয় இல்லை కాదు ಅಲ್ಲ ไม่ មិន ບໍ່ အဘယ် არ չէ
    አይደለም kaum mitnichten weniger peu guère poco mało вряд kevés apenas hardly barely
    scarcely allesbehalve
""".split()
ANNOUNCED = [
    "{}",
    "{}.",
    "**{}**",
    "`{}`",
    "\\boxed{{{}}}",
    "Answer: {}",
    "The answer is {}.",
    "The final answer is **{}**.",
    "It could be many things. Answer: {}",
    "Antwort: {}",
    "Die Antwort ist {}.",
    "Réponse : {}",
    "La respuesta es {}.",
    "Ответ: {}",
    "答案：{}",
    "{} is the answer.",
    "Therefore, {}.",
]
DENIED = ["{}?", "not {}", "{} - but I am not sure", "maybe {}", "probably {}", "{} is wrong"]
# An explanation that makes the value a guess, an example or a joke, in languages whose explanations are read.
EXPLAINED_AWAY = """
    I made this up.|Random choice.|The reverse holds.|I misread the text.|Please verify.|Ich rate nur.
    |À vérifier.|Le client dit le contraire.|Lo adiviné.|Da verificare.|É uma piada.|Grapje.
    |Dit is een voorbeeld.|To żart.|Zgaduję.|Я угадал.|Це приклад.
    |No estoy seguro.|Não tenho certeza.|Nicht sicher.|Only part of the data is shown.|Envoyez-moi le texte.
    |The text was empty.|They say so.|Send me the text.
    |Bu bir örnek.|Şaka yapıyorum.|Jag gissade.|Jeg gættede.
    |To je příklad.|Ini contoh.|هذا مثال.|我猜的。|需要核实。|これは例です。|농담입니다.
""".split("|")
VALUES: list[tuple[Any, str, object]] = [
    (Literal["low", "high"], "low", "low"),
    (bool, "yes", True),
    (bool, "false", False),
    (int, "42", 42),
    (float, "3.5", 3.5),
    (Decimal, "3.50", Decimal("3.50")),
    (date, "2024-03-05", date(2024, 3, 5)),
    (Literal["A", "B", "C"], "B", "B"),
]


def differences(templates: list[str], expected: Callable[[object], object]) -> list[tuple[Any, str, object]]:
    wrong = []
    for tp, text, value in VALUES:
        for template in templates:
            try:
                result: object = parse(tp, template.format(text))
            except OutputParsingError:
                result = "an error"
            if result != expected(value):
                wrong.append((tp, template.format(text), result))
    return wrong


def test_every_announced_value_is_read() -> None:
    assert differences(ANNOUNCED, lambda value: value) == []


def test_every_denied_value_is_an_error() -> None:
    assert differences(DENIED, lambda value: "an error") == []


def test_a_value_that_its_explanation_calls_a_guess_or_a_joke_is_an_error() -> None:
    assert differences([f"{{}}. {text.strip()}" for text in EXPLAINED_AWAY], lambda value: "an error") == []


def test_no_language_lists_a_word_that_denies_something_in_another_one() -> None:
    words = {word for language in _LANGUAGES for word in words_in(language)}
    assert words.intersection(NEGATORS) == set()


def test_a_negation_beside_a_value_is_an_error_in_every_language() -> None:
    assert differences([f"{word} {{}}" for word in NEGATORS], lambda value: "an error") == []
    assert differences([f"{{}} {word}" for word in NEGATORS], lambda value: "an error") == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("the sentiment of this review is", None),
        ("die Stimmung ist", None),
        ("the Antwort is", "antwort"),  # two languages
        ("的情感是", None),
        ("不", "不"),
        ("!=", "!="),
        ("🙂", None),
        ("🤔", "🤔"),
        ("tone in kg", "kg"),
    ],
)
def test_the_first_word_that_is_not_harmless_is_found(text: str, word: str | None) -> None:
    assert find_unknown_word(text) == word


# Plain sentences about contracts, invoices and averages, and how a value is introduced.
PLAIN: list[tuple[Any, object, str]] = [
    (
        int,
        42,
        """
        The average is 42.
        |Der Durchschnitt beträgt 42.|La moyenne est de 42.|El promedio es 42.|La media è 42.
        |A média é 42.|Het gemiddelde is 42.|平均値は42です。
        |Среднее значение равно 42.|合计：42|Il y a 42 employés.
        |After adding everything up, I get 42.|In totaal zijn er 42 medewerkers.
        |总共有42名员工。|Всего 42 сотрудника.
        """,
    ),
    (
        Decimal,
        Decimal("1234.56"),
        "Le prix est de 1 234,56 €.|De prijs is € 1.234,56.|Cena wynosi 1 234,56 zł.",
    ),
    (
        date,
        date(2021, 5, 3),
        """
        Der Vertrag wurde am 3. Mai 2021 unterschrieben.|Le contrat a été signé le 3 mai 2021.
        |El contrato se firmó el 3 de mayo de 2021.|契約日は2021年5月3日です。
        """,
    ),
    (int, 34, "Hij is 34 jaar oud.|He is 34 years old.|Er ist 34 Jahre alt.|Ему 34 года."),
    (date, date(1990, 8, 12), "She was born on 12 August 1990.|Ela nasceu em 12 de agosto de 1990."),
    (bool, True, "Yes, I am sure.|Is it in English? Yes.|In short: yes|是的，没错。"),
    (bool, False, "Absolutely not.|Ganz klar: nein.|La réponse courte est non.|不，这是错误的。"),
    (Literal["A", "B", "C"], "C", "A alternativa correta é a C.|Correct is option C|It has to be C."),
    (bool, True, "Absolutely, yes.|Ja, auf jeden Fall.|Sí, por supuesto.|La mia risposta è sì.|Да, конечно."),
    (Literal["low", "high"], "low", "After reading the text carefully, I conclude that the answer is low."),
]
TIED = "The answer starts with 42|Als alles klopt, is het 42.|42だそうです。|"
TIED += (
    "Il y a 42 ans.|The invoice has number 42.|I have 42.|They classify this as 42|It would be 42|rund um 42|"
)
TIED += "The file number is 42.|Flight 42|Route 42|Answer 42:|page 42|Test 42|class of 42|train 42|Zimmer 42"


def test_plain_sentences_are_read_in_many_languages() -> None:
    texts = [(cls, value, text) for cls, value, line in PLAIN for text in line.strip().split("|")]
    wrong = [text for cls, value, text in texts if _value_of(cls, text.strip()) != value]
    assert wrong == []


def test_a_limit_in_any_clause_of_an_explanation_is_an_error() -> None:
    texts = (
        "low, it waits, until Monday|low. It is fine, when it rains|low - said the customer|low, selon lui"
    )
    assert [text for text in texts.split("|") if _value_of(Literal["low", "high"], text) is not None] == []


def test_a_statement_that_contradicts_a_yes_or_no_is_an_error() -> None:
    texts = "No, it does.|Nein. Das stimmt.|Oui. C'est faux.|Non. C'est vrai.|Yes, the author denies this."
    texts += "|是的。这是错误的。|Type yes.|Does it rain, or not? Yes.|Is it no? Yes.|Do you want tea? No."
    assert [text for text in texts.split("|") if _value_of(bool, text) is not None] == []


def test_a_letter_after_a_word_that_does_not_lead_to_it_is_rejected() -> None:
    texts = "Plan B|Section B|vitamin B|The answer starts with B|hepatitis B|Gleis B|ligne B|Who says B"
    assert [text for text in texts.split("|") if _value_of(Literal["A", "B"], text) is not None] == []


def test_an_explanation_with_mostly_unknown_words_is_rejected() -> None:
    for text in ("low. Zorble frantic quux glimp.", "low. The value of zorble frantic quux glimp frob nar."):
        assert _value_of(Literal["low", "high"], text) is None, text


def test_a_short_sentence_consists_of_known_words_and_a_long_one_of_a_third_of_them() -> None:
    known, unknown = "the value of this text is in".split(), "zorb quux frob glimp nar vax dorn plim".split()
    enough = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 4, 8: 3, 9: 3, 10: 4}
    for total, least in enough.items():
        for count in (least - 1, least):
            sentence = " ".join([*known[:count], *unknown[: total - count]])
            assert is_sentence_in_known_language(sentence, ()) == (count == least), sentence


def test_a_relating_word_before_a_colon_is_a_label() -> None:
    assert [_value_of(Literal["low", "high"], text) for text in ("With: low", "With low")] == ["low", None]


def test_a_limit_begins_a_clause() -> None:
    texts = ("and when it rains", "it says so, when it rains", "it asks when it rains", "when it rains")
    assert [find_limit(text) for text in texts] == ["when", "when", None, "when"]


def test_json_after_a_sentence_that_refuses_is_an_error_and_italian_after_it_is_not_about_me() -> None:
    refusals = (
        "Please provide the text.|I need more information.|Could you send the text?|Please share the file,"
        "|Bitte schicken Sie den Text.|Merci de fournir le texte.|No puedo leer el texto."
    )
    for text in refusals.split("|"):
        assert _value_of(dict[str, int], f'{text} Here is the JSON: {{"a": 1}}') is None, text
    assert _value_of(dict[str, int], '{"a": 1}\nI valori sono presi dal testo.') == {"a": 1}


def test_a_number_after_a_word_that_does_not_lead_to_it_is_rejected() -> None:
    assert [text for text in TIED.split("|") if _value_of(int, text) is not None] == []


def test_a_value_before_a_colon_is_a_heading_and_not_an_answer() -> None:
    values: dict[Any, str] = {
        int: "5|five|5 euros|five apples|5%",
        Decimal: "5.50|5,50 €",
        date: "2024-05-01|May 1, 2024|1 May 2024|2024年5月1日",
        time: "10:30|5 pm|10:30 am",
        datetime: "2024-05-01 10:30|2024-05-01T10:30:00Z|May 1, 2024 at 5 pm",
        timedelta: "5 days|PT5M|1:30:00|five minutes",
    }
    read = [
        text
        for cls, line in values.items()
        for value in line.split("|")
        for before in ("", "**", "Answer ", "It is ", "The answer is ", "(")
        for after in (":", "：", " :\n", "**:", ":**", "`:", "):", ':"')
        if _value_of(cls, text := before + value + after) is not None
    ]
    assert read == []


def _value_of(cls: Any, text: str) -> object:
    try:
        return parse(cls, text)
    except OutputParsingError:
        return None


def test_words_before_a_value_that_say_whose_it_is_are_refused() -> None:
    leads = (
        "On paper, |According to the customer it is |Customer: |Person B: |Min: |Max: |Laut Kunde ist es "
        "|Kunde: |D'après le client, |Client : |Cliente: |Klant: |Клиент: |客户：|用户："
    )
    read_texts = []
    for lead in leads.split("|"):
        values = ((int, "42"), (bool, "yes"), (date, "2024-03-15"), (Literal["low", "high"], "high"))
        for cls, value in values:
            try:
                read_texts.append((lead, parse(cls, f"{lead}{value}")))
            except OutputParsingError:
                continue
    assert read_texts == []


def test_idioms_abbreviations_and_remainders_are_not_answers() -> None:
    cases: list[tuple[Any, str]] = [
        (bool, "Then yes"), (bool, "After lunch, yes"), (bool, "Just say no."),
        (Literal["low", "high"], "high time"),
        (Literal["low", "high"], "I read that it is high"),
        (Literal["low", "high"], "Requested priority: high"),
        (Literal["A", "B"], "A.M."), (Literal["A", "B"], "A.D. 300"), (int, "4 to go"), (int, "do 42"),
        (time, "lasted 14:30"),
        (timedelta, "2 hours after"), (float, "Der Wert ist 3,750"), (float, "Der Wert ist 3.750"),
    ]  # fmt: skip
    assert [text for cls, text in cases if _value_of(cls, text) is not None] == []
    assert parse(Literal["low", "high"], "After reading the text, high") == "high"


def test_words_that_relate_an_answer_are_found_in_the_form_of_folded_text() -> None:
    texts = "low - a condizione che il cliente paghi la fattura|low - hier soir le client est calme"
    texts += "|The e-mail says low."
    assert [text for text in texts.split("|") if _value_of(Literal["low", "high"], text) is not None] == []
    assert _value_of(Literal["low", "high"], "low. The e-mail says there is no rush.") == "low"
    assert _value_of(int, "Die Größe ist 42.") == 42
    assert "ausser" in words_in("never opens")


def test_no_explanation_lists_a_word_that_is_harmless_anyway() -> None:
    sections = _sections()
    pairs = [(f"explanations {language}", language) for language in _LANGUAGES]
    pairs.append(("explanations runs", "runs"))
    assert [
        (name, sections[name] & sections[base]) for name, base in pairs if sections[name] & sections[base]
    ] == []
