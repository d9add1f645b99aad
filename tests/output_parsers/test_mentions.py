"""All meanings of the numbers, dates, times and durations in a text are listed."""

from __future__ import annotations

from datetime import UTC, date, time, timedelta
from decimal import Decimal

import pytest

from output_parsers.mentions import dates_in, durations_in, numbers_in, times_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The fee is $1,234.50", ["1234.5"]),
        ("EUR 1.500,00 or 1.500", ["1500"]),
        ("-5 °C, −6 °C and minus 7", ["-5", "-6", "-7"]),
        ("pages 5-7", ["5", "7"]),
        ("5 % and 12.5 per cent", ["5", "0.05", "12.5", "0.125"]),
        ("2.5 million and 3 Mrd.", ["2500000", "3000000000"]),
        ("$5k and 5 m", ["5", "5000"]),
        ("twenty-five days, two hundred and fifty men", ["25", "250"]),
        ("fünf Tage, douze jours, двадцать дней", ["5", "12", "20"]),
        ("one hundred and five thousand two hundred", ["105200"]),
        ("a hundred and five men, a hundred thousand", ["105", "100000"]),
        ("half a dozen, a dozen million", ["6", "12000000"]),
        ("un millón, eine Milliarde", ["1000000", "1000000000"]),
        ("2½ cups, 1/2 cup", ["2.5", "0.5"]),
        ("6.02×10^23", ["602000000000000000000000"]),
        ("a loss of (1,200)", []),
        ("10 000 people", ["10000"]),
        ("١٢٣ and １２", ["123", "12"]),
        ("A4, x2, version 1.2.3", []),
        ("1.234.567.890 Euro, 192.168.100.200", ["1234567890"]),
        ("one two three", []),
        ("3½ cups", ["3.5"]),
        ("给予250毫克，第5条", ["250", "5"]),
        ("价格99万元", ["990000"]),
        ("売上は1億2000万円、3千円", ["120000000", "3000"]),
        ("가격은 5만원", ["50000"]),
        ("重5千克", ["5"]),
        ("rent – 500 EUR", ["500"]),
        ("a loss of -€ 500", ["-500"]),
        ("CHF 1'200'000.-", ["1200000"]),
    ],
)
def test_numbers(text: str, numbers: list[str]) -> None:
    found = {value for mention in numbers_in(text) for value in mention.values}
    assert found == set(map(Decimal, numbers))


@pytest.mark.parametrize(
    "text",
    ["3 point 0.5", "1e3 point 5", "½ point 5", "5⁻", "10²⁻³", "3×10⁹⁹⁹⁹⁹⁹⁹", "1e9999^400", "2⁻ × 10⁻"],
)
def test_other_signs_of_powers_and_fractions_give_no_number(text: str) -> None:
    assert not any(mention.values for mention in numbers_in(text))


def test_numbers_have_their_places() -> None:
    text = "pay 2.5 million now"
    assert [text[one.start : one.end] for one in numbers_in(text)] == ["2.5 million"]


def test_dates_times_and_durations() -> None:
    text = "On 2024-03-01 and 03/04/2024, 5 May 2024 at 12:30, 9:05 and T10:30:00Z; 2 hours 5 minutes, P3D"
    assert [set(one.values) for one in dates_in(text)] == [
        {date(2024, 3, 1)},
        {date(2024, 3, 4), date(2024, 4, 3)},
        {date(2024, 5, 5)},
    ]
    assert {value for one in times_in(text) for value in one.values} >= {
        time(12, 30),
        time(9, 5),
        time(21, 5),
    }
    stamps = [value for one in times_in("2024-03-01T10:30:00Z") for value in one.values]
    assert stamps == [time(10, 30, tzinfo=UTC)]
    assert [set(one.values) for one in durations_in(text)] == [
        {timedelta(hours=2, minutes=5)},
        {timedelta(days=3)},
    ]


def test_the_number_of_a_duration_is_whole() -> None:
    for text, values, possible in (
        ("-5 days", [timedelta(days=-5)], []),
        ("minus 5 days", [timedelta(days=-5)], []),
        ("1 500 days", [], [timedelta(days=500), timedelta(days=1500)]),
        ("10 000 days", [timedelta(days=10_000)], []),
        ("10^3 days", [timedelta(days=1000)], []),
        ("5 thousand days", [timedelta(days=5000)], []),
        ("1.500 Tage", [], [timedelta(days=1.5), timedelta(days=1500)]),
        ("1,500 days", [timedelta(days=1500)], []),
        ("1 year and 5 days", [], []),
        ("1 Monat 5 Tage", [], []),
        ("1 année et 5 jours", [], []),
        ("2years 5 days", [], []),
        ("James plans 5 days", [timedelta(days=5)], []),
        ("sometimes 5 days", [timedelta(days=5)], []),
        ("twenty-five days", [timedelta(days=25)], []),
        ("2 1/2 hours", [timedelta(hours=2.5)], []),
        ("P1DT2H", [timedelta(hours=26)], []),
    ):
        found = list(durations_in(text))
        assert [value for one in found for value in one.values] == values, text
        assert sorted(value for one in found for value in one.possible) == possible, text


def test_parts_of_a_unit_are_durations_in_many_languages() -> None:
    for text, minutes in (
        ("half an hour", 30), ("a 5-day trip", 7200), ("2,5 Stunden", 150), ("anderthalb Stunden", 90),
        ("une demi-heure", 30), ("a quarter of an hour", 15), ("drei Viertelstunden", 45),
        ("zwei Stunden", 120),
        ("deux heures", 120), ("two and a half hours", 150), ("полчаса", 30), ("2 Stunden 5 Minuten", 125),
    ):  # fmt: skip
        assert [set(one.values) for one in durations_in(text)] == [{timedelta(minutes=minutes)}], text


def test_a_name_or_an_improper_fraction_is_not_a_number() -> None:
    for text in ("open 24/7", "since 9/11"):
        assert not any(one.values or one.possible for one in numbers_in(text)), text
    assert [(set(one.values), set(one.possible)) for one in numbers_in("7/4")] == [(set(), {Decimal("1.75")})]
    assert [set(one.values) for one in numbers_in("3/4")] == [{Decimal("0.75")}]


def test_a_number_before_and_with_a_scale_after_it_may_have_the_scale() -> None:
    for text in ("between 5 and 6 million", "zwischen 5 und 6 Millionen", "entre 5 et 6 millions"):
        first, second = numbers_in(text)
        assert (first.values, first.possible) == (set(), {Decimal(5), Decimal(5_000_000)}), text
        assert second.values == {Decimal(6_000_000)}, text
    first, second = numbers_in("5 cats and 6 million euros")
    assert (first.values, second.values) == ({Decimal(5)}, {Decimal(6_000_000)})
