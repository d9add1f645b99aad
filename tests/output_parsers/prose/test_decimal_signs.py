"""Tests of numbers such as 1.500 and 2,750, whose sign the rest of the text decides."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest

from output_parsers import NumberStyle, OutputParsingError, parse
from output_parsers.streaming.reader import ItemReader


class _Article(NamedTuple):
    name: str
    price: Decimal


@pytest.mark.parametrize("number", ["1.500", "2,750"])
@pytest.mark.parametrize(
    "sentence",
    [
        "Die Miete beträgt {} Euro.", "L'affitto è di {} euro.", "El precio es de {} euros.",
        "O preço é de {} euros.", "De prijs is {} euro.", "Le prix est de {} euros.", "Cena wynosi {} zł.",
        "Antwort: {}", "Der Preis ist {} Mio.", "Die Summe ist um 10.30 {} Euro.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Decimal, float, int])
def test_three_digits_after_a_sign_are_an_error_next_to_words_of_a_language_with_a_decimal_comma(
    kind: Any, sentence: str, number: str
) -> None:
    with pytest.raises(OutputParsingError):
        parse(kind, sentence.format(number))


def test_in_english_the_sign_is_a_decimal_point() -> None:
    assert parse(Decimal, "The price is 1.500 euros.") == Decimal("1.5")
    assert parse(Decimal, "The price is 2,750 euros.") == 2750
    assert [parse(float, text) for text in ("1.500", "1.500 €", "x = 3.142", "Total: 1.500")] == [
        1.5,
        1.5,
        3.142,
        1.5,
    ]
    assert parse(list[float], "- 1.500\n- 2.250") == [1.5, 2.25]


def test_a_style_decides_before_the_words() -> None:
    text = "Die Miete beträgt 1.500 Euro."
    assert parse(Annotated[Decimal, NumberStyle.COMMA], text) == 1500
    assert parse(Annotated[Decimal, NumberStyle.POINT], text) == Decimal("1.5")


def test_other_numbers_of_a_reply_decide() -> None:
    assert parse(int, "Der Preis ist 1.500 Euro. Das sind 1.500,00 Euro.") == 1500
    values = [Decimal(1500), Decimal("1234.50")]
    for text in ('["1.500 €", "1.234,50 €"]', "- 1.500 €\n- 1.234,50 €", "1. 1.500 €\n2. 1.234,50 €"):
        assert parse(list[Decimal], text) == values, text
    assert parse(dict[str, float], '{"a": "1.500 €", "b": "1.234,50 €"}') == {"a": 1500, "b": 1234.5}
    assert parse(list[float], '["2,750 €", "12,50 €"]') == [2.75, 12.5]
    assert parse(list[float], '["2,750 €", "12.50 €"]') == [2750, 12.5]
    assert parse(list[float], '["2.750 €", "1,012.50 €"]') == [2.75, 1012.5]
    for text in (
        "| name | price |\n|---|---|\n| a | 1.500 € |\n| b | 1.234,50 € |",
        "- name: a\n  price: 1.500 €\n- name: b\n  price: 1.234,50 €",
        'name,price\na,1.500\nb,"1.234,50"',
        '[{"name": "a", "price": "1.500 €"}, {"name": "b", "price": "1.234,50 €"}]',
    ):
        assert [one.price for one in parse(list[_Article], text)] == values, text


def test_numbers_with_different_signs_and_texts_of_other_languages_leave_it_unclear() -> None:
    for text in ('["1.500 €", "1.234,50 €", "1,234.50 €"]', '["1.500 €", "12,50 €", "12.50 €"]'):
        with pytest.raises(OutputParsingError, match=r"1\.500 may have thousands or three decimals"):
            parse(list[Decimal], text)
    with pytest.raises(OutputParsingError, match="thousands"):
        parse(_Article, '{"name": "Die Wohnung ist schön und groß", "price": "1.500 €"}')


def test_the_numbers_of_json_and_names_show_no_sign() -> None:
    assert parse(dict[str, Any], '{"a": [12,5]}') == {"a": [12, 5]}
    assert parse(tuple[float, list[int]], '["1.500 €", [12,5]]') == (1.5, [12, 5])
    assert parse(_Article, '{"name": "Die Wohnung ist schön und groß", "price": 1.500}').price == Decimal(
        "1.5"
    )
    rows = "| name | price |\n|---|---|\n| Los Angeles | $1,250 |\n| Rio de Janeiro | $2,750 |"
    assert [one.price for one in parse(list[_Article], rows)] == [1250, 2750]


def test_a_stream_of_items_raises_an_error_if_a_later_item_shows_another_sign() -> None:
    reader = ItemReader(float)
    with pytest.raises(OutputParsingError, match="another decimal sign"):
        [*reader.feed('["1.500 €", "1.234,50 €"]'), *reader.finish()]
    reader = ItemReader(float)
    assert [*reader.feed('["1.234,50 €", "1.500 €"]'), *reader.finish()] == [1234.5, 1500]
