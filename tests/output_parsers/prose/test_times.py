"""Clear dates, times and durations are read with a rule, and ambiguous text is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from growth import growing
from hypothesis import given, strategies as st

from output_parsers.prose.numbers import TextParseError, TextReading
from output_parsers.prose.times import DateOrder, read_date, read_datetime, read_time, read_timedelta

Reader = Callable[[str], TextReading[Any]]
WORDS = "date in words"
SENTENCE = "date in a sentence"
INDIA = timezone(timedelta(hours=5, minutes=30))


def refusal_of(read: Reader, text: str) -> str:
    with pytest.raises(TextParseError) as error:
        read(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1968-07-04", None),
        (" 1968-07-04\n", None),
        ('"1968-07-04"', "quotes, markup or full stop"),
        ("**1968-07-04**", "quotes, markup or full stop"),
        ("19680704", "ISO basic date"),
        ("1968-W27-4", "ISO week date"),
        ("1968/7/4", "year, month, day"),
        ("1968年7月4日", "year, month, day"),
        ("July 4, 1968", WORDS),
        ("JULY 4 1968", WORDS),
        ("Jul. 4th, 1968", WORDS),
        ("4th of July 1968", WORDS),
        ("the 4th of July, 1968", WORDS),
        ("4-Jul-1968", WORDS),
        ("1968 July 4", WORDS),
        ("Thursday, 4 July 1968", WORDS),
        ("4. Juli 1968", WORDS),
        ("4 juillet 1968", WORDS),
        ("4 de julio de 1968", WORDS),
        ("4 июля 1968 г.", f"{WORDS}, {SENTENCE}"),
        ("１９６８年７月４日", "year, month, day"),
        ("Thursday, 1968-07-04", "weekday"),
        ("1968-07-04T00:00:00", "midnight dropped"),
        ("The date is 1968-07-04.", SENTENCE),
        ("Born on July 4, 1968.", f"{WORDS}, {SENTENCE}"),
        ("July 4, 1968 (1968-07-04)", f"{WORDS}, {SENTENCE}"),
        ("1968-07-04 (Thursday)", SENTENCE),
    ],
)
def test_a_date_is_read(text: str, rule: str | None) -> None:
    assert read_date(text) == TextReading(date(1968, 7, 4), rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a date"),
        ("7", "expected a date"),
        ("May", "expected a date"),
        ("1968", "expected a date"),
        ("1968-07", "expected a date"),
        ("July 1968", "expected a date"),
        ("July 4", "expected a date"),
        ("-0044-03-15", "expected a date"),
        ("1720000000", "expected a date"),
        ("昭和43年7月4日", "expected a date"),
        ("tomorrow", "expected a date"),
        ("2023-02-29", "not a valid date: 2023-02-29"),
        ("31 February 2024", "not a valid date: 31 February 2024"),
        ("31/31/2024", "not a valid date: 31/31/2024"),
        ("July 4 0068", "not a valid date: July 4 0068"),
        ("04/07/68", "04/07/68 has a year of two digits"),
        ("01/02/2024", "01/02/2024 may be 2024-02-01 or 2024-01-02"),
        ("Friday, 4 July 1968", "1968-07-04 is a Thursday, not a Friday"),
        ("On Monday we learned of 1968-07-04", "1968-07-04 is a Thursday, not a Monday"),
        ("1968-07-04 to 1968-07-06", "two dates: 1968-07-04 and 1968-07-06"),
        ("1968-07-04T10:30:00", "expected a date without a time"),
        ("not 1968-07-04", '"not" in the text may change the date'),
        ("the day before July 4, 1968", '"before" in the text may change the date'),
        ("the eve of July 4, 1968", '"eve" in the text may change the date'),
        ("1968-07-04 AH", '"ah" in the text may change the date'),
        ("Julian calendar: 1968-07-04", '"julian" in the text may change the date'),
        ("1968-07-04 (Old Style)", '"old" in the text may change the date'),
        ("農曆 1968-07-04", '"農曆" in the text may change the date'),
        ("July 4, 1968 BC", '"bc" in the text may change the date'),
        ("1968-07-04, row 7", "the text contains a number besides the date: '7'"),
        ("date 19680704", "eight digits in a sentence are not clearly a date"),
        ('{"date": "1968-07-04"}', '"{" in the text may change the date'),
    ],
)
def test_a_text_that_is_not_clearly_one_date_is_refused(text: str, message: str) -> None:
    assert refusal_of(read_date, text) == message


def test_the_order_decides_the_meaning_of_a_date_of_three_numbers() -> None:
    assert read_date("01/02/2024", DateOrder.DMY) == TextReading(date(2024, 2, 1), "day, month, year")
    assert read_date("01/02/2024", DateOrder.MDY) == TextReading(date(2024, 1, 2), "month, day, year")
    assert read_date("2024/02/01", DateOrder.MDY) == TextReading(date(2024, 2, 1), "year, month, day")
    assert read_datetime("1.2.2024 10:30", DateOrder.DMY).value == datetime(2024, 2, 1, 10, 30)
    with pytest.raises(TextParseError, match=r"^13/02/2024 is not in the order month, day, year$"):
        read_date("13/02/2024", DateOrder.MDY)
    with pytest.raises(TextParseError, match=r"^01/02/2024 is not in the order year, month, day$"):
        read_date("01/02/2024", DateOrder.YMD)


def test_without_an_order_only_a_date_with_one_meaning_is_read() -> None:
    assert read_date("13/02/2024").value == date(2024, 2, 13)
    assert read_date("02-13-2024").value == date(2024, 2, 13)
    assert read_date("01.01.2024").value == date(2024, 1, 1)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("23:45", time(23, 45), None),
        ("T23:45:00", time(23, 45), None),
        ("23:45:00.5", time(23, 45, 0, 500000), None),
        ("23:45:00Z", time(23, 45, tzinfo=UTC), None),
        ("23:45+05:30", time(23, 45, tzinfo=INDIA), None),
        ("23:45 UTC", time(23, 45, tzinfo=UTC), "named zone"),
        ("23:45:00.1234567", time(23, 45, 0, 123456), "cut to microseconds"),
        ("11:45 PM", time(23, 45), "12-hour clock"),
        ("9 am", time(9), "12-hour clock"),
        ("2.30 pm", time(14, 30), "12-hour clock"),
        ("12:00 AM", time(0), "12-hour clock"),
        ("12:30 pm", time(12, 30), "12-hour clock"),
        ("noon", time(12), "time in words"),
        ("Midnight", time(0), "time in words"),
        ("The time is 23:45.", time(23, 45), "time in a sentence"),
    ],
)
def test_a_time_is_read(text: str, value: time, rule: str | None) -> None:
    reading = read_time(text)
    assert reading == TextReading(value, rule)
    assert reading.value.tzinfo == value.tzinfo


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a time"),
        ("10", "expected a time"),
        ("1030", "expected a time"),
        ("quarter to midnight", "expected a time"),
        ("1968-07-04T23:45", "expected a time"),
        ("24:00", "not a valid time: 24:00"),
        ("14:30:60", "not a valid time: 14:30:60"),
        ("13:00 PM", "not a valid time: 13:00 PM"),
        ("10:30+25:00", "not a valid UTC offset: +25:00"),
        ("2:30", "2:30 may be in the morning or in the afternoon"),
        ("10:30-11:30", "10:30-11:30 is ambiguous: a time range, or a time with a UTC offset"),
        ("10:30 or 11:30", "two times: 10:30:00 and 11:30:00"),
        ("10:30 EST", "'EST' after the time may change it"),
        ("this evening at 10:30", '"evening" in the text may change the time'),
        ("after 10:30", '"after" in the text may change the time'),
    ],
)
def test_a_text_that_is_not_clearly_one_time_is_refused(text: str, message: str) -> None:
    assert refusal_of(read_time, text) == message


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("1968-07-04T23:45:00", datetime(1968, 7, 4, 23, 45), None),
        ("1968-07-04 23:45", datetime(1968, 7, 4, 23, 45), None),
        ("1968-07-04T23:45:00Z", datetime(1968, 7, 4, 23, 45, tzinfo=UTC), None),
        ("1968-07-04T23:45-00:00", datetime(1968, 7, 4, 23, 45, tzinfo=UTC), None),
        ("1968-07-04T23:45:00+0530", datetime(1968, 7, 4, 23, 45, tzinfo=INDIA), None),
        (
            "19680704T234500Z",
            datetime(1968, 7, 4, 23, 45, tzinfo=UTC),
            "ISO basic date, ISO basic time",
        ),
        ("July 4, 1968 at 11:45 p.m", datetime(1968, 7, 4, 23, 45), f"{WORDS}, 12-hour clock"),
        ("11:45 PM on July 4, 1968", datetime(1968, 7, 4, 23, 45), f"{WORDS}, 12-hour clock"),
        (
            "Thu, 04 Jul 1968 23:45:00 GMT",
            datetime(1968, 7, 4, 23, 45, tzinfo=UTC),
            f"{WORDS}, named zone",
        ),
        ("The baby came at 1968-07-04 23:45.", datetime(1968, 7, 4, 23, 45), "date and time in a sentence"),
    ],
)
def test_a_date_with_its_time_is_read(text: str, value: datetime, rule: str | None) -> None:
    reading = read_datetime(text)
    assert reading == TextReading(value, rule)
    assert reading.value.tzinfo == value.tzinfo


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1968-07-04", "expected a date with its time"),
        ("1968-07-04 10", "expected a date with its time"),
        ("midnight on July 4, 1968", "expected a date with its time"),
        ("23:45", "expected a date"),
        ("1720000000000", "expected a date"),
        ("1968-07-04T24:00:00", "not a valid time: T24:00:00"),
        ("1968-07-04T10:30:00 EST", "'EST' after the time may change it"),
        ("1968-07-04T10:30:00[Europe/Paris]", '"europe" in the text may change the date and time'),
        ("2024-03-10T02:30:00 America/New_York", '"america" in the text may change the date and time'),
        (
            "1968-07-04 10:30-11:30",
            "10:30-11:30 is ambiguous: a time range, or a time with a UTC offset",
        ),
        ("01/02/2024 10:30", "01/02/2024 may be 2024-02-01 or 2024-01-02"),
    ],
)
def test_a_text_that_is_not_clearly_one_date_with_its_time_is_refused(text: str, message: str) -> None:
    assert refusal_of(read_datetime, text) == message


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("PT1H30M", timedelta(minutes=90), None),
        ("P1W", timedelta(weeks=1), None),
        ("P1DT2H", timedelta(hours=26), None),
        ("PT0.5S", timedelta(milliseconds=500), None),
        ("-PT1H", timedelta(hours=-1), None),
        ("1:30:00", timedelta(minutes=90), "clock form"),
        ("-1:30:00", timedelta(minutes=-90), "clock form"),
        ("-1 day, 23:00:00", timedelta(hours=-1), "clock form"),
        ("1h 30m", timedelta(minutes=90), "units"),
        ("1h30m", timedelta(minutes=90), "units"),
        ("1 day, 2 hours and 3 minutes", timedelta(days=1, hours=2, minutes=3), "units"),
        ("1.5 hours", timedelta(minutes=90), "units"),
        ("1,200 seconds", timedelta(minutes=20), "units"),
        ("-5 min", timedelta(minutes=-5), "units"),
        ("500ms", timedelta(milliseconds=500), "units"),
        ("It takes about 90 seconds.", timedelta(seconds=90), "units, duration in a sentence"),
        ("The duration is PT1H30M.", timedelta(minutes=90), "duration in a sentence"),
    ],
)
def test_a_duration_is_read(text: str, value: timedelta, rule: str | None) -> None:
    assert read_timedelta(text) == TextReading(value, rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a duration"),
        ("90", "expected a duration"),
        ("1:30", "expected a duration"),
        ("P", "expected a duration"),
        ("PT", "expected a duration"),
        ("forever", "expected a duration"),
        ("10-15 minutes", "expected a duration"),
        ("60 km/h", "expected a duration"),
        ("P1M", "months and years have no fixed length"),
        ("2 years", "months and years have no fixed length"),
        ("5m", "5m may be minutes or months"),
        ("1h30", "the text contains a number besides the duration: '30'"),
        ("2 to 3 hours", "the text contains a number besides the duration: '2'"),
        ("30 minutes 1 hour", "each unit of the duration must occur once, in falling order"),
        ("less than 90 seconds", '"less" in the text may change the duration'),
        ("5 minutes ago", '"ago" in the text may change the duration'),
        ("- 5 minutes", '"-" in the text may change the duration'),
        ("-1 day 2 hours", "the minus sign may belong to the first unit or to all"),
        ("PT0.0000001S", "the duration is finer than a microsecond"),
        ("999999999999 weeks", "the duration is too long"),
    ],
)
def test_a_text_that_is_not_clearly_one_duration_is_refused(text: str, message: str) -> None:
    assert refusal_of(read_timedelta, text) == message


def test_durations_in_words_are_read_with_text2num() -> None:
    pytest.importorskip("text_to_num")
    assert read_timedelta("one hour and thirty minutes") == TextReading(
        timedelta(minutes=90), "number in words, units"
    )
    assert (
        refusal_of(read_timedelta, "two to three hours")
        == "the text contains a number besides the duration: 'two'"
    )


def test_without_text2num_durations_in_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "text_to_num", None)
    message = 'number words are read only with the package text2num: pip install "aiservices[words]"'
    assert refusal_of(read_timedelta, "two hours") == message


def assert_same_or_refused(read: Reader, text: str, value: object) -> None:
    try:
        reading = read(text)
    except TextParseError:
        return
    assert reading.value == value, text


@given(st.dates())
def test_every_date_is_read_back_from_each_format(value: date) -> None:
    assert read_date(value.isoformat()) == TextReading(value, None)
    year, month, day = f"{value.year:04d}", value.month, value.day
    numeric = (
        f"{year}/{month}/{day}",
        f"{day}.{month}.{year}",
        f"{month}/{day}/{year}",
        f"{year}{month:02d}{day:02d}",
    )
    named = ("%d %B {}", "%B %d, {}", "%A, %d %b {}", "{}-%b-%d", "the %dth of %B, {}", "%G-W%V-%u")
    for text in (*numeric, *(value.strftime(form.format(year)) for form in named)):
        assert_same_or_refused(read_date, text, value)
        assert_same_or_refused(read_date, f"It was {text}.", value)
    assert read_date(f"{day}/{month}/{year}", DateOrder.DMY).value == value
    assert read_date(f"{month}/{day}/{year}", DateOrder.MDY).value == value


zones = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.times(timezones=zones))
def test_every_time_is_read_back_from_each_format(value: time) -> None:
    assert read_time(value.isoformat()) == TextReading(value, None)
    assert_same_or_refused(read_time, value.isoformat("minutes"), value.replace(second=0, microsecond=0))
    half = value.replace(second=0, microsecond=0, tzinfo=None)
    assert read_time(half.strftime("%I:%M %p")).value == half
    assert_same_or_refused(read_time, half.strftime("It is %I:%M %p."), half)


@given(st.datetimes(timezones=zones))
def test_every_datetime_is_read_back_from_each_format(value: datetime) -> None:
    for form in (value.isoformat(), str(value)):
        assert read_datetime(form) == TextReading(value, None)
        assert read_datetime(form).value.utcoffset() == value.utcoffset()
    whole = value.replace(second=0, microsecond=0, tzinfo=None)
    assert_same_or_refused(
        read_datetime, value.isoformat(timespec="minutes"), value.replace(second=0, microsecond=0)
    )
    for pattern in ("%A, %d %B {} at %I:%M %p", "%H:%M on %B %d, {}", "{}%m%dT%H%M", "%d/%m/{} %H:%M", "%c"):
        text = whole.strftime(pattern.format(f"{value.year:04d}"))
        assert_same_or_refused(read_datetime, text, whole)
        assert_same_or_refused(read_datetime, f"It was {text}.", whole)


@given(st.timedeltas())
def test_every_duration_is_read_back_from_each_format(value: timedelta) -> None:
    assert read_timedelta(str(value)).value == value
    seconds, microseconds = divmod(value // timedelta(microseconds=1), 1_000_000)
    assert_same_or_refused(read_timedelta, f"PT{seconds}.{microseconds:06d}S", value)
    assert_same_or_refused(read_timedelta, f"{seconds} s {microseconds} us", value)
    whole = timedelta(seconds=seconds)
    assert_same_or_refused(read_timedelta, f"{seconds} seconds", whole)
    assert_same_or_refused(read_timedelta, f"It takes {seconds:,} seconds.", whole)


READERS: list[Reader] = [read_date, read_time, read_datetime, read_timedelta]
LETTERS = "0123456789-/:.,TZPWDHMS+ ahdmsp\n年月日"


@given(
    st.text() | st.text(LETTERS) | st.from_regex(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}[T ]?[0-9:]{0,8}")
)
def test_any_text_gives_a_value_or_a_text_parse_error(text: str) -> None:
    for read in READERS:
        try:
            read(text)
        except TextParseError:
            pass


REPEATED = [
    "1",
    " ",
    "January ",
    "1 January ",
    "2024-02-13T",
    "2024-02-13 ",
    "10:",
    "10:30 ",
    "1h ",
    "two hours ",
    "PT1H",
    "july ",
    "4/",
]


@pytest.mark.parametrize(("head", "tail"), [("", ""), ("", "-"), ("x", "")])
@pytest.mark.parametrize("read", READERS)
def test_a_long_text_takes_linear_time(read: Reader, head: str, tail: str) -> None:
    assert growing(read, REPEATED, head, tail) == {}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_date, "vor dem 2024-03-15", '"vor" in the text may change the date'),
        (read_date, "jusqu'au 2024-03-15", '"jusqu\'au" in the text may change the date'),
        (read_date, "antes del 2024-03-15", '"antes" in the text may change the date'),
        (read_date, "2024-03-15 之后", '"之后" in the text may change the date'),
        (read_time, "spätestens 14:30", '"spätestens" in the text may change the time'),
        (read_time, "до 14:30", '"до" in the text may change the time'),
        (read_timedelta, "moins de 2 h", '"moins" in the text may change the duration'),
        (read_timedelta, "über 2 hours", '"über" in the text may change the duration'),
    ],
)
def test_the_end_of_a_span_in_another_language_is_not_the_value(
    read: Reader, text: str, message: str
) -> None:
    assert refusal_of(read, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 hours and some minutes", '"and" in the text may change the duration'),
        ("2 hours each", '"each" in the text may change the duration'),
        ("2 hours earlier", '"earlier" in the text may change the duration'),
    ],
)
def test_a_unit_without_a_number_is_not_ignored(text: str, message: str) -> None:
    assert refusal_of(read_timedelta, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the Friday following March 15, 2024", '"following" in the text may change the date'),
        ("the anniversary of March 15, 2024", '"anniversary" in the text may change the date'),
    ],
)
def test_a_day_described_by_its_distance_to_a_date_is_refused(text: str, message: str) -> None:
    assert refusal_of(read_date, text) == message


@pytest.mark.parametrize(
    "text",
    ["14h30", "À 14h30.", "14.30 Uhr", "14:30 Uhr", "Um 14:30 Uhr.", "下午2:30", "午後2時30分", "14時30分"],
)
def test_a_time_is_read_as_it_is_written_in_other_languages(text: str) -> None:
    assert read_time(text).value == time(14, 30)


@pytest.mark.parametrize(
    "text",
    [
        "15.03.2024 14:30 Uhr",
        "15 mars 2024 à 14h30",
        "2024年3月15日14時30分",
        "2024年3月15日 下午2:30",
        "15 марта 2024 г. в 14:30",
        "The appointment is scheduled for 2024-03-15 14:30.",
    ],
)
def test_a_date_with_a_time_is_read_as_it_is_written_in_other_languages(text: str) -> None:
    assert read_datetime(text).value == datetime(2024, 3, 15, 14, 30)


@pytest.mark.parametrize(
    "text", ["2h30", "下午14:30", "vor 14:30 Uhr", "14:30 Uhr bis 15:00 Uhr", "25h30", "14時30分前"]
)
def test_a_time_that_is_unclear_in_another_language_is_refused(text: str) -> None:
    with pytest.raises(TextParseError):
        read_time(text)


DURATIONS_OF_LANGUAGES = """
2 Stunden = 2:00 | 2 Stunden und 30 Minuten = 2:30 | 45 minutos = 0:45 | 2 heures = 2:00
3 jours = 72:00 | 3 días = 72:00 | 2 ore = 2:00 | 3 dagen = 72:00 | 2 godziny = 2:00
1 час 5 минут = 1:05 | 2小时 = 2:00 | 30分钟 = 0:30 | 2時間30分 = 2:30 | 2시간 30분 = 2:30
Dauer: 2 Stunden = 2:00 | Die Dauer beträgt 2 Stunden. = 2:00 | 2 semaines = 336:00 | 5分 =
3日 = | 3일 = | à 2 heures = | il est 14 heures = | om 14 uur =
zwei Stunden und 30 Minuten = | 2 Monate und 3 Tage = | nicht 2 Stunden =
ein Monat und 3 Tage = | in 3 Tagen = | il y a 3 jours = | около 2 часов = 2:00 | 約2時間 = 2:00
halb 2 Stunden = | 2 e 3 ore =
"""


def test_durations_are_read_in_twelve_languages_unless_they_may_be_something_else() -> None:
    for case in DURATIONS_OF_LANGUAGES.strip().replace("\n", "|").split("|"):
        text, _, expected = case.strip().rpartition(" =")
        if not expected.strip():
            with pytest.raises(TextParseError):
                read_timedelta(text)
            continue
        hours, minutes = map(int, expected.split(":"))
        assert read_timedelta(text).value == timedelta(hours=hours, minutes=minutes), text


def test_parts_of_a_unit_in_words_are_durations_and_noon_is_not() -> None:
    for text, minutes in (
        ("half an hour", 30), ("a quarter of an hour", 15), ("three-quarters of an hour", 45),
        ("2½ hours", 150),
        ("two and a half hours", 150), ("an hour and a half", 90), ("an hour and 15 minutes", 75),
        ("5-day", 7200),
        ("2,5 Stunden", 150), ("1,5 hours", 90), ("anderthalb Stunden", 90), ("zweieinhalb Stunden", 150),
        ("eine halbe Stunde", 30), ("eine Viertelstunde", 15), ("une demi-heure", 30),
        ("un quart d'heure", 15),
        ("trois quarts d'heure", 45), ("2 heures et demie", 150), ("media hora", 30),
        ("2 horas y media", 150),
        ("mezz'ora", 30), ("meia hora", 30), ("een half uur", 30), ("anderhalf uur", 90), ("pół godziny", 30),
        ("полчаса", 30), ("полтора часа", 90), ("半小时", 30), ("The meeting lasted half an hour.", 30),
    ):  # fmt: skip
        assert read_timedelta(text).value == timedelta(minutes=minutes), text
    for text in (
        "полдень", "mezzogiorno", "mediodía", "meio-dia", "half past two", "less than half an hour",
        "drei Viertelstunden",
        "1.500 Stunden", "1,500 Stunden", "Just a minute", "à une heure", "a day later", "half",
    ):  # fmt: skip
        with pytest.raises(TextParseError):
            read_timedelta(text)


def test_times_of_a_part_of_the_day_are_read() -> None:
    for text, value in (
        ("5:20 in the afternoon", time(17, 20)), ("10:30 in the evening", time(22, 30)),
        ("9:05 in the morning", time(9, 5)),
        ("5:20 de la tarde", time(17, 20)), ("9:00 Uhr", time(9)), ("8:15 Uhr abends", time(20, 15)),
        ("8:15 du soir", time(20, 15)),
        ("ore 18:15", time(18, 15)), ("Check-in: 3 PM", time(15)),
    ):  # fmt: skip
        assert read_time(text).value == value, text
    for text in ("5:20", "9:00 at night", "13:20 in the morning", "5:20 in the afternoon or 6:20"):
        with pytest.raises(TextParseError):
            read_time(text)
    assert read_datetime("Donnerstag, 2. Januar 2025, 9:00 Uhr").value == datetime(2025, 1, 2, 9)
    assert read_date("17. listopadu 1989").value == date(1989, 11, 17)
    assert read_date("La réunion aura lieu le 12 mars 2026.").value == date(2026, 3, 12)
    assert read_date("| Field | Value |\n|---|---|\n| Invoice date | 2025-02-28 |").value == date(2025, 2, 28)
