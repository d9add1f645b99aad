"""Dates, times and durations are read from ISO 8601, words and parts; ambiguous ones are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

import pytest

from output_parsers import DateOrder, Leniency, OutputParsingError, parse, parser_for, read


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("tp", "text", "value", "rules"),
    [
        (date, "1968-07-04", date(1968, 7, 4), []),
        (date, '"1968-07-04"', date(1968, 7, 4), []),
        (date, "July 4, 1968", date(1968, 7, 4), ["date in words"]),
        (date, '{"year": 1968, "month": 7, "day": 4}', date(1968, 7, 4), ["assembled from its parts"]),
        (time, "23:45", time(23, 45), []),
        (time, "23:45:00", time(23, 45), []),
        (time, "11:45 PM", time(23, 45), ["12-hour clock"]),
        (time, '{"hour": 23, "minute": 45}', time(23, 45), ["assembled from its parts"]),
        (time, '{"hour": 23, "minute": 45, "second": 7}', time(23, 45, 7), ["assembled from its parts"]),
        (datetime, "1968-07-04T23:45:00", datetime(1968, 7, 4, 23, 45), []),
        (datetime, "1968-07-04 23:45", datetime(1968, 7, 4, 23, 45), []),
        (datetime, "1968-07-04T23:45:00Z", datetime(1968, 7, 4, 23, 45, tzinfo=UTC), []),
        (
            datetime,
            '{"year": 1968, "month": 7, "day": 4, "hour": 23, "minute": 45}',
            datetime(1968, 7, 4, 23, 45),
            ["assembled from its parts"],
        ),
        (timedelta, "PT1H30M", timedelta(hours=1, minutes=30), []),
        (timedelta, "90 minutes", timedelta(minutes=90), ["units"]),
        (list[date], '["1968-07-04"]', [date(1968, 7, 4)], []),
    ],
)
def test_a_point_or_span_of_time_is_read(tp: Any, text: str, value: object, rules: list[str]) -> None:
    reading = read(tp, text)
    assert reading.value == value
    assert [step.rule for step in reading.coercions] == rules


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (date, "", '$: expected a date (YYYY-MM-DD); the reply is empty, found ""'),
        (date, "null", "$: expected a date (YYYY-MM-DD), found null"),
        (date, "20240101", "$: expected a date (YYYY-MM-DD), found 20240101"),
        (
            date,
            "1968-13-04",
            '$: expected a date (YYYY-MM-DD): not a valid date: 1968-13-04, found "1968-13-04"',
        ),
        (
            date,
            "01/02/2024",
            '$: expected a date (YYYY-MM-DD): 01/02/2024 may be 2024-02-01 or 2024-01-02, found "01/02/2024"',
        ),
        (
            date,
            '{"year": 1968, "month": "7", "day": 4}',
            "$: expected a date (YYYY-MM-DD), found an object with year, month, day",
        ),
        (
            date,
            '{"year": 1968, "month": 7}',
            "$: expected a date (YYYY-MM-DD), found an object with year, month",
        ),
        (
            date,
            '{"year": 1968, "month": 13, "day": 4}',
            "$: expected a date (YYYY-MM-DD): not a valid date: 1968-13-04, "
            "found an object with year, month, day",
        ),
        (date, "2024-01-01T10:00:00", '$: expected a date (YYYY-MM-DD), found "2024-01-01T10:00:00"'),
        (time, "25:00", '$: expected a time (HH:MM:SS): not a valid time: 25:00, found "25:00"'),
        (datetime, "1968-07-04", '$: expected a date with a time (YYYY-MM-DDTHH:MM:SS), found "1968-07-04"'),
        (timedelta, "5", "$: expected a duration (ISO 8601), found 5"),
        (timedelta, '{"hours": 5}', "$: expected a duration (ISO 8601), found an object with hours"),
    ],
)
def test_a_text_that_is_not_a_time_or_could_be_two_is_refused(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@pytest.mark.parametrize(
    ("order", "value"), [(DateOrder.DMY, date(2024, 2, 1)), (DateOrder.MDY, date(2024, 1, 2))]
)
def test_the_declared_order_decides_about_a_date_of_numbers(order: DateOrder, value: date) -> None:
    assert parse(list[Annotated[date, order]], '["01/02/2024"]') == [value]


def test_only_iso_8601_needs_no_coercion() -> None:
    assert parse(date, "1968-07-04", leniency=Leniency.NONE) == date(1968, 7, 4)
    with pytest.raises(OutputParsingError, match=r"date in words is not permitted with Leniency\.NONE"):
        parse(date, "July 4, 1968", leniency=Leniency.NONE)


@pytest.mark.parametrize(
    ("tp", "schema", "hint"),
    [
        (date, {"type": "string", "format": "date"}, '"YYYY-MM-DD"'),
        (time, {"type": "string", "format": "time"}, '"HH:MM:SS"'),
        (datetime, {"type": "string", "format": "date-time"}, '"YYYY-MM-DDTHH:MM:SS"'),
        (
            timedelta,
            {"type": "string", "format": "duration"},
            '"ISO 8601 duration, such as PT1H30M"',
        ),
    ],
)
def test_the_hint_shows_the_format(tp: Any, schema: dict[str, str], hint: str) -> None:
    assert parser_for(tp).schema == schema
    assert parser_for(tp).hint == hint
