"""Clear numbers in text are read with a rule, and ambiguous text is refused."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Annotated, Any

import pytest
from growth import growing
from hypothesis import given, strategies as st
from pydantic import Field

from output_parsers import OutputParsingError, parse
from output_parsers.prose.numbers import (
    NumberRules,
    NumberStyle,
    TextParseError,
    TextReading,
    find_number,
    read_number,
)

WRAPPING = "quotes, markup or full stop"
THOUSANDS = "thousands separators"
SENTENCE = "number in a sentence"
Five = Annotated[int, Field(ge=1, le=5)]


def refusal_of(text: str) -> str:
    with pytest.raises(TextParseError) as error:
        find_number(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("42", "42", None),
        (" 42\n", "42", None),
        ("+7", "7", None),
        ("-0.0", "-0.0", None),
        (".5", "0.5", None),
        ("1.10", "1.10", None),
        ("1.234", "1.234", None),
        ("6.02e23", "6.02E+23", None),
        ("0.1000000000000000055", "0.1000000000000000055", None),
        ("007", "7", "leading zeros"),
        ("1_234.5_6", "1234.56", "underscores"),
        ('"42"', "42", WRAPPING),
        ("**42**.", "42", WRAPPING),
        ("```\n42\n```", "42", WRAPPING),
        ("$42$", "42", WRAPPING),
        ("12.11.", "12.11", WRAPPING),
        ("1,234", "1234", THOUSANDS),
        ("12,345,678.90", "12345678.90", THOUSANDS),
        ("12,34,567", "1234567", THOUSANDS),
        ("1.234.567", "1234567", THOUSANDS),
        ("1.234,56", "1234.56", THOUSANDS),
        ("1 234 567", "1234567", THOUSANDS),
        ("1\u202f234,5", "1234.5", THOUSANDS),
        ("1'234", "1234", THOUSANDS),
        ("−5", "-5", "characters of another script"),
        ("٤٢", "42", "characters of another script"),
        ("３.１４", "3.14", "characters of another script"),
        ("$1,200.50", "1200.50", "currency, thousands separators"),
        ("-$5", "-5", "currency"),
        ("12 €", "12", "currency"),
        ("1.5 million", "1500000", "scale word"),
        ("$5 million", "5000000", "currency, scale word"),
        ("6.02 × 10^23", "6.02E+23", "power of ten"),
        (r"2 \times 10^{-3}", "0.002", "power of ten"),
        ("1e999999999", "1E+999999999", None),
    ],
)
def test_a_text_that_is_one_number_is_read_exactly(text: str, value: str, rule: str | None) -> None:
    assert read_number(text)[:2] == TextReading(Decimal(value), rule)[:2]
    assert str(read_number(text).value) == value


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("The answer is 42.", "42", "stated answer"),
        ("Step 1: add. Step 2: double. The answer is 42", "42", "stated answer"),
        ("6 * 7\n= 42", "42", "stated answer"),
        ("**Answer:** 1,234", "1234", f"{THOUSANDS}, stated answer"),
        ("So $6 * 7 = 42$, that is \\boxed{42}.", "42", "boxed answer"),
        ("**42** people", "42", SENTENCE),
        ("There are **42 people**.", "42", SENTENCE),
        ("It's 42!", "42", SENTENCE),
        ("I am 42. Yes, 42.", "42", SENTENCE),
        ("approximately 3.7", "3.7", SENTENCE),
        ("~42", "42", None),
        ("Temperature: -3.5°C", "-3.5", SENTENCE),
        ("x=-5", "-5", SENTENCE),
        ("about 2 million people", "2000000", f"scale word, {SENTENCE}"),
    ],
)
def test_the_only_number_of_a_sentence_is_found(text: str, value: str, rule: str) -> None:
    assert find_number(text) == TextReading(Decimal(value), rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number"),
        ("N/A", "expected a number"),
        ("NaN", "expected a number"),
        ("-Infinity", "expected a number"),
        ("四十二", "expected a number"),
        ("⅓", "expected a number"),
        ("42abc", "'42abc' is not clearly a number"),
        ("42nd", "'42nd' is not clearly a number"),
        ("5k", "'5k' is not clearly a number"),
        ("0x1F", "'0x1F' is not clearly a number"),
        ("4²", "'4²' is not clearly a number"),
        ("(5)", "'(5)' is not clearly a number"),
        ("5!", "'5!' is not clearly a number"),
        ("4\u200b4", "'4\\u200b4' is not clearly a number"),
        ("1,234,56", "'1,234,56' is not clearly a number"),
        ("3.14.15", "'3.14.15' is not clearly a number"),
        ("192.168.100.200", "'192.168.100.200' is not clearly a number"),
        ("2024-02-13", "'2024-02-13' is not clearly a number"),
        ("10:30", "'10:30' is not clearly a number"),
        ("1+1", "'1+1' is not clearly a number"),
        ("COVID-19 has spread", "'COVID-19' is not clearly a number"),
        ("4２", "the number mixes digits of several scripts"),
        ("$-+5", "'$-+5' is not clearly a number"),
        ("-$-5", "the number has two signs"),
        ("1e99999999999999999999", "the exponent is out of range"),
        ("1,5", "1,5 may be one number or two, its comma a decimal point or not"),
        ("0,123", "0,123 may be one number or two, its comma a decimal point or not"),
        ("50%", "50% may mean 50 or a hundredth of it"),
        ("50 percent", '"percent" in the text may change the value'),
        ("8/10", "8/10 may be a fraction, a score or a date"),
        ("100 200 300", "two numbers: 100 and 200"),
        ("3, 4", "two numbers: 3 and 4"),
        ("42 apples and 3 pears", "two numbers: 42 and 3"),
        ("Answer: 41. Wait. Answer: 42", "two numbers: 41 and 42"),
        ("\\boxed{1} or \\boxed{2}", "two numbers: 1 and 2"),
        ("10 ** 10 ** 10", "several numbers in a sentence: 10, 10, 10"),
        ("1. first\n2. second", "a numbered list, not one number"),
        ("not 42", '"not" in the text may change the value'),
        ("It isn't 42", '"isn\'t" in the text may change the value'),
        ("Es ist nicht 42", '"nicht" in the text may change the value'),
        ("more than 42", '"more" in the text may change the value'),
        ("at least about 42", '"at" in the text may change the value'),
        ("nearly 42", '"nearly" in the text may change the value'),
        ("- 5", '"-" in the text may change the value'),
        ("not minus 5", '"not" in the text may change the value'),
        ("If all goes well, 42", '"if" in the text may change the value'),
        ("x² = 4", '"x²" may be a number too'),
        ("Step 1", '"step" in the text may change the value'),
        ("May 5", '"may" in the text may change the value'),
        ("5 PM", '"pm" in the text may change the value'),
        ("3 and a half", '"and" in the text may change the value'),
        ("42 apples and three pears", '"three" may be a number too'),
        ('{ "a": 5 }', '"{" in the text may change the value'),
        ("<think> 7 </think>", '"<t" in the text may change the value'),
        ("1 " * 30, "30 numbers"),
    ],
)
def test_a_text_without_one_clear_number_is_refused_with_the_reason(text: str, message: str) -> None:
    assert refusal_of(text) == message


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("forty-two", "42", "number in words"),
        ("One hundred and five", "105", "number in words"),
        ("minus three", "-3", "number in words"),
        ("three point one four", "3.14", "number in words"),
        ("a hundred", "100", "number in words"),
        ("one", "1", "number in words"),
        ("The answer is forty-two.", "42", "number in words, stated answer"),
        ("The answer to everything was forty two.", "42", f"number in words, {SENTENCE}"),
    ],
)
def test_english_number_words_are_read_with_text2num(text: str, value: str, rule: str) -> None:
    pytest.importorskip("text_to_num")
    assert find_number(text) == TextReading(Decimal(value), rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("twenty twenty-six", "expected a number: the words are not one number"),
        ("zero zero seven", "expected a number"),
        ("one hundred and and one", "several numbers: one hundred, one"),
        ("the forty-second", "expected a number"),
        ("two or three", "several numbers: two, three"),
        ("Everyone is one of them", '"one" may be a number or refer to something'),
        ("not three", '"not" in the text may change the value'),
        ("two and a half", '"and" in the text may change the value'),
    ],
)
def test_words_that_are_not_one_number_are_refused(text: str, message: str) -> None:
    pytest.importorskip("text_to_num")
    assert refusal_of(text) == message


def test_without_text2num_number_words_are_refused_but_still_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "text_to_num", None)
    message = 'number words are read only with the package text2num: pip install "aiservices[words]"'
    assert refusal_of("forty-two") == message
    assert refusal_of("42 apples and three pears") == '"three" may be a number too'


def test_importing_the_readers_loads_neither_text2num_nor_dateutil() -> None:
    program = (
        "import sys, output_parsers.prose.numbers, output_parsers.prose.times\n"
        "print([name for name in ('text_to_num', 'dateutil') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def assert_same_or_refused(text: str, value: Decimal) -> None:
    try:
        reading = find_number(text)
    except TextParseError:
        return
    assert reading.value == value, text


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_every_decimal_is_read_back(value: Decimal) -> None:
    assert read_number(str(value)) == TextReading(value, None)
    assert str(read_number(str(value)).value) == str(value)


@given(st.integers())
def test_every_integer_is_read_back_with_each_thousands_separator(value: int) -> None:
    for form in (f"{value}", f"{value:,}", f"{value:_}", f"${value:,}", f"{value:,}.0"):
        assert read_number(form).value == value
    for separator in (" ", ".", "'", "\u00a0"):
        text = f"{value:,}".replace(",", separator)
        if separator != "." or abs(value) >= 1_000_000:  # 1.234 has three decimals
            assert_same_or_refused(text, Decimal(value))


@given(
    st.decimals(-(10**12), 10**12, places=2), st.sampled_from(["It is {}.", "{} kg", "**{}**", "≈{}", "= {}"])
)
def test_a_decimal_in_a_sentence_is_read_back_or_refused(value: Decimal, frame: str) -> None:
    assert_same_or_refused(frame.format(value), value)
    assert_same_or_refused(frame.format(f"{value:,}"), value)
    assert_same_or_refused(frame.format(f"{value:,}".translate(str.maketrans(",.", ".,"))), value)


@given(
    st.integers(0, 999_999),
    st.integers(0, 999_999),
    st.sampled_from([" ", ", ", " and ", " to ", "-", ":", "\n"]),
)
def test_two_different_numbers_are_never_read_as_one_of_them(one: int, other: int, between: str) -> None:
    try:
        value = find_number(f"{one}{between}{other}").value
    except TextParseError:
        return
    assert one == other == value or (between == " " and value == int(f"{one}{other}"))


@given(st.text() | st.text("0123456789.,-+%$ eE/:'()*\n½٤onetw"))
def test_any_text_gives_a_finite_number_or_a_text_parse_error(text: str) -> None:
    try:
        reading = find_number(text)
    except TextParseError:
        return
    assert reading.value.is_finite()


REPEATED = [
    "1",
    ",",
    "1,",
    " ",
    "-",
    "\n",
    "a",
    "1 ",
    "$",
    "**",
    "(",
    "1_",
    "one ",
    "and ",
    "1.",
    "½",
    "٤",
    "\nanswer: 1",
    "x=",
]


@pytest.mark.parametrize(("head", "tail"), [("", ""), ("", "x"), ("x", "")])
def test_a_long_text_takes_linear_time(head: str, tail: str) -> None:
    assert growing(find_number, REPEATED, head, tail) == {}


@pytest.mark.parametrize(
    "text",
    [
        "mindestens 5",
        "weniger als 5",
        "plus de 5 personnes",
        "au moins 5",
        "más de 5 personas",
        "meno di 5",
        "meer dan 5",
        "более 5",
        "минус 5",
        "أكثر من 5",
        "至少 5 人",
        "5 이상",
        "upwards of 5",
        "just shy of 5",
        "5 and above",
        "from $5",
        "starting at 5",
        "$5 off",
    ],
)
def test_a_limit_in_a_common_language_is_not_the_number(text: str) -> None:
    assert refusal_of(text).endswith("in the text may change the value")


SCALES = {
    "5 Mio.": 5_000_000,
    "2 Milliarden": 2_000_000_000,
    "5 Tausend": 5000,
    "3 millones": 3_000_000,
    "5 milhões": 5_000_000,
    "5 milioni": 5_000_000,
    "5 miljoen": 5_000_000,
    "5 тысяч": 5000,
    "5 mln": 5_000_000,
    "5 lakhs": 500_000,
    "5 millions": 5_000_000,
    "5 thousands": 5000,
    "1.5K": 1500,
    "2k": 2000,
    "$5m": 5_000_000,
    "3bn": 3_000_000_000,
}


@pytest.mark.parametrize("text", SCALES)
def test_a_scale_is_read_for_counts_and_money_only(text: str) -> None:
    assert find_number(text, NumberRules(is_count=True)).value == SCALES[text]
    assert find_number(text, NumberRules(words=frozenset({"price"}))).value == SCALES[text]
    if "$" not in text:
        with pytest.raises(TextParseError):
            find_number(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 millimeters", "5"),
        ("There are 5 people.", "5"),
        ("5km", "5"),
        ("31 years", "31"),
        ("5 (five)", "5"),
        ("I found 5 (five) items.", "5"),
        ("1 234", "1234"),
        ("minus 5", "-5"),
        ("€ 12,50", "12.50"),
        ("Il y a 5 personnes", "5"),
        ("5 militants", None),
        ("Es sind 5 Hunde.", None),
        ("a loss of 5", None),
        ("HTTP 500", None),
        ("In 2023.", None),
        ("2.5M", None),
        ("101 (binary)", None),
        ("429 Too Many Requests", None),
    ],
)
def test_a_number_counts_only_among_words_that_are_known_to_be_harmless(text: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(TextParseError):
            find_number(text)
    else:
        assert find_number(text).value == Decimal(value)


@pytest.mark.parametrize(
    ("text", "words", "value"),
    [
        ("5 km", "distance in km", "5"),
        ("5 miles", "distance in km", None),
        ("50%", "growth in percent", "50"),
        ("50%", "share of the votes", "0.5"),
        ("50%", "height", None),
        ("90 minutes", "length in minutes", "90"),
        ("90 minutes", "length in hours", None),
    ],
)
def test_a_unit_must_be_the_one_that_the_declaration_names(text: str, words: str, value: str | None) -> None:
    rules = NumberRules(words=frozenset(words.split()))
    if value is None:
        with pytest.raises(TextParseError):
            find_number(text, rules)
    else:
        assert find_number(text, rules).value == Decimal(value)


@pytest.mark.parametrize(
    ("text", "comma", "point"),
    [
        ("1,5", "1.5", None),
        ("1,234", "1.234", "1234"),
        ("1.234", "1234", "1.234"),
        ("1.234,56", "1234.56", None),
        ("1,234.56", "1234.56", "1234.56"),
        ("12,50 EUR", "12.50", None),
        ("1.5", "1.5", "1.5"),
        ("0.125", "0.125", "0.125"),  # zero is not a group of thousands
        ("0,125", "0.125", None),
        ("-00.125", "-0.125", "-0.125"),
        ("0.125 EUR", "0.125", "0.125"),
    ],
)
def test_a_number_style_decides_what_commas_and_points_mean(text: str, comma: str, point: str | None) -> None:
    assert read_number(text, NumberRules(NumberStyle.COMMA)).value == Decimal(comma)
    if point is None:
        with pytest.raises(TextParseError):
            read_number(text, NumberRules(NumberStyle.POINT))
    else:
        assert read_number(text, NumberRules(NumberStyle.POINT)).value == Decimal(point)


@pytest.mark.parametrize(
    "text",
    [
        "答案：5",
        "From the data, the answer is 5.",
        "The total is 5.",
        "x = 5",
        "Die Anzahl ist 5.",
        "La réponse est 5.",
    ],
)
def test_harmless_words_do_not_change_the_number(text: str) -> None:
    assert find_number(text).value == 5


@pytest.mark.parametrize("text", ["Confidence: 42", "Input: 42", "Given: 42", "Is it 42", "With 42"])
def test_a_number_with_another_label_or_in_a_question_is_refused(text: str) -> None:
    refusal_of(text)


def test_a_confidence_is_a_share() -> None:
    assert find_number("Confidence: 0.8").value == Decimal("0.8")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Similarity score: 0.5", "0.5"),
        ("The probability is 0.5.", "0.5"),
        ("Number of employees: 15", "15"),
        ("Sure! The number of employees is 15.", "15"),
        ("She is 18 years old.", "18"),
        ("Height: 1.75 m", "1.75"),
        ("Duration: 90 min", "90"),
        ("**Price:** $12.50", "12.50"),
        ("**Total:** **$12.50**", "12.50"),
        ("Amount due: USD 1,299.99", "1299.99"),
        ("According to the invoice, the total amount is $1,299.99.", "1299.99"),
        ("Der Preis beträgt 12,50 €.", "12.50"),
        ("O preço é R$ 12,50.", "12.50"),
        ("5 Mio. €", "5000000"),
        ("答えは42です。", "42"),
        ("정답은 42입니다.", "42"),
        ("价格是1200元。", "1200"),
        ("Puntuación: 0.8", "0.8"),
        ("评分：0.8", "0.8"),
        ("3 × 5 = 15", "15"),
        ("$12.45 + $1.00 = $13.45", "13.45"),
    ],
)
def test_a_number_with_the_name_or_unit_of_what_it_measures_is_read(text: str, value: str) -> None:
    assert find_number(text).value == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "3 × 5 = 16",
        "Maximum price: 12",
        "Confidence score: 5",
        "The old price was $12.50.",
        "Old price: 20.00",
        "He says 42",
        "第42个",
        "42人以上",
        "不是42。",
        "Height: about 2 or 3 m",
        "Error: 5",
        "Price without tax: 12",
    ],
)
def test_a_number_of_something_else_or_a_wrong_computation_is_refused(text: str) -> None:
    with pytest.raises(TextParseError):
        find_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "1980s",
        "in the 60s",
        "Query: 7",
        "User: 7",
        "Eingabe: 7",
        "Question 7:",
        "Your answer was 7.",
        "The user typed 7.",
    ],
)
def test_decades_headings_and_numbers_of_the_user_are_not_answers(text: str) -> None:
    with pytest.raises(TextParseError):
        find_number(text)


def test_seconds_are_read_where_the_declaration_names_them() -> None:
    assert find_number("60s", NumberRules(words=frozenset({"timeout"}))).value == 60
    assert find_number("45s").value == 45


def test_an_amount_in_another_currency_than_the_declaration_names_is_refused() -> None:
    dollars = NumberRules(words=frozenset({"price", "in", "dollars"}))
    for text in ("5 USD", "$5", "US$ 5", "5 dollars", "5"):
        assert find_number(text, dollars).value == 5, text
    for text in ("5 EUR", "€5", "5 euros", "The price is EUR 5", "5 £"):
        with pytest.raises(TextParseError):
            find_number(text, dollars)


def test_words_after_a_number_that_relate_or_limit_it_are_refused() -> None:
    endings = (
        "pending a second signature|on paper|I think|subject to review|according to the manager"
        "|now and then|as it were|glaube ich|laut dem"
        " Kunden|selon le client|je crois|de momento|según el cliente|credo|secondo il cliente|em revisão"
        "|denk ik|według klienta|думаю"
    )
    read_texts = []
    for text in (f"42{sign}{end}" for end in endings.split("|") for sign in (", ", " - ", ". ", "\n", ": ")):
        try:
            read_texts.append((text, parse(int, text)))
        except OutputParsingError:
            continue
    assert read_texts == []
    for text in (
        "42, the number of names",
        "42 - I counted the names.",
        "42\n\nThe text names them.",
        "42, as stated in the text.",
    ):
        assert parse(int, text) == 42, text


def test_numbers_in_usual_notations_are_read() -> None:
    cases: list[tuple[Any, str, object]] = [
        (float, "½", 0.5), (float, "≈ 9.81", 9.81), (float, "x ≈ 0.33", 0.33), (int, "$$x = 15$$", 15),
        (int, "2^10 = 1024", 1024), (Decimal, r"\$42.50", Decimal("42.50")), (Five, "★★★★☆", 4),
        (Five, "⭐⭐⭐", 3),
        (Five, "**4**/5", 4), (Five, "Rating: **4** / 5 ⭐", 4), (Five, "A solid 4 out of 5.", 4),
        (Five, "Feedback: The text is clear. [RESULT] 4", 4), (int, "Total number of names: 5", 5),
        (float, "Die Temperatur beträgt 21,5 Grad.", 21.5), (float, "La moyenne est de 3,75.", 3.75),
        (int, "etwa 5 Mio.", 5_000_000), (int, "約42", 42), (int, "около 42", 42), (int, "about 42", 42),
    ]  # fmt: skip
    for cls, text, value in cases:
        assert parse(cls, text) == value, text
    refused: list[tuple[Any, str]] = [
        (int, "★★★"), (Five, "★★☆"), (Five, "★★★★★★"), (int, "2^10 = 1000"), (float, "The average is 3,75."),
        (float, "3,75"), (float, "⅓"), (int, "5 mil"), (int, "5 billones"), (int, "5 hundreds"),
        (int, "5 md"),
    ]  # fmt: skip
    for cls, text in refused:
        with pytest.raises(OutputParsingError):
            parse(cls, text)
