"""The parser of broken JSON repairs common mistakes and refuses ambiguous text."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from growth import growing
from hypothesis import given, settings, strategies as st

from output_parsers import OutputParsingError, parse
from output_parsers.json.scanner import JsonSyntaxError, ParsedJson, Repair, read_exact, read_tolerant

READINGS: list[tuple[str, Any, list[str]]] = [
    # exact JSON
    ('{"a": [1, 2.50, -3e2, true, null, "x"]}', None, []),
    ("[1, 2.50]", [1, Decimal("2.50")], []),
    ('"just a string" and more', "just a string", []),
    ("42", 42, []),
    # quotes
    ("{'a': 'b'}", {"a": "b"}, ["single-quoted string"]),
    ("{'a': 'it's fine'}", {"a": "it's fine"}, ["single-quoted string", "unescaped quote"]),
    ("{“a”: “b”}", {"a": "b"}, ["curly quotes"]),
    ('{"a": `say "hi"`}', {"a": 'say "hi"'}, ["backtick string"]),
    ('{"a": """one "two"\nthree"""}', None, ["triple-quoted string", "control character in a string"]),
    ("{'a': 'x\\xa0y'}", {"a": "x\u00a0y"}, ["single-quoted string", "invalid escape"]),
    ('{"a": "x" + "y"}', {"a": "xy"}, ["joined strings"]),
    # quotes inside strings
    ('{"a": "he said "hi" to me"}', {"a": 'he said "hi" to me'}, ["unescaped quote"]),
    ('["one "two", and "three"", "four"]', ['one "two", and "three"', "four"], ["unescaped quote"]),
    ('{"a": "v"alue", "b": 1}', {"a": 'v"alue', "b": 1}, ["unescaped quote"]),
    ('{"a": "a 27" screen", "b": 1}', {"a": 'a 27" screen', "b": 1}, ["unescaped quote"]),
    (
        '{"a": "use {"b": "c", "d": 1}, please"}',
        {"a": 'use {"b": "c", "d": 1}, please'},
        ["unescaped quote"],
    ),
    ('{"a": "<i class="x">y</i>"}', {"a": '<i class="x">y</i>'}, ["unescaped quote"]),
    ('{"a": "„so" heißt es", "b": 1}', {"a": '„so" heißt es', "b": 1}, ["unescaped quote"]),
    ('{"open": "{", "close": "}",}', {"open": "{", "close": "}"}, ["trailing comma"]),
    # characters and backslashes inside strings
    ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}, ["control character in a string"]),
    (r'{"a": "snake\_case \'x\'"}', {"a": r"snake\_case 'x'"}, ["invalid escape"]),
    (r'{"a": "\alpha \frac{1}{2}"}', {"a": r"\alpha \frac{1}{2}"}, ["invalid escape"]),
    (r'{"a": "^\d+\s*$\n"}', {"a": "^\\d+\\s*$\n"}, ["invalid escape"]),
    # keys and separators
    ('{a: 1, some key: 2, 5: "x"}', {"a": 1, "some key": 2, "5": "x"}, ["unquoted key"]),
    ('{"a" => 1, "b" = 2}', {"a": 1, "b": 2}, ["key separator"]),
    ('{"a": 1, "a": 1}', {"a": 1}, []),
    # commas and brackets
    ('{"a": [1, 2,],}', {"a": [1, 2]}, ["trailing comma"]),
    ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, ["doubled comma"]),
    ('{"a": 1 "b": "x"\n"c": 2}', {"a": 1, "b": "x", "c": 2}, ["missing comma"]),
    ('["a" "b" {"c": 1} [2]]', ["a", "b", {"c": 1}, [2]], ["missing comma"]),
    ("[1\n2\n3]", [1, 2, 3], ["missing comma"]),
    ("(1, (2, 3), ())", [1, [2, 3], []], ["tuple"]),
    ("((1), 2,)", [1, 2], ["parentheses", "tuple"]),
    ('[{"a": [1}, {"a": [2]}]', [{"a": [1]}, {"a": [2]}], ["missing bracket"]),
    # white space and comments
    ('\ufeff{\u00a0"a": 1}', {"a": 1}, ["white space not in JSON"]),
    ('{// one ]\n"a": 1, # two "\n"b": /* three */ 2}', {"a": 1, "b": 2}, ["comment"]),
    ('{"a": "see // this # and /* that */",}', {"a": "see // this # and /* that */"}, ["trailing comma"]),
    ('{"a": 1, #\n"b": 2,\n"c": [3, #\r\n4]}', {"a": 1, "b": 2, "c": [3, 4]}, ["comment"]),
    ('{"a": [1, // ],\n], /* {, */ "b": 2, # }\n}', {"a": [1], "b": 2}, ["trailing comma", "comment"]),
    ('["https://a.b/,]", "# ,}",/**/]', ["https://a.b/,]", "# ,}"], ["trailing comma", "comment"]),
    # words without quotes
    ("{a: New York, b: it's}", {"a": "New York", "b": "it's"}, ["unquoted key", "unquoted string"]),
    ("[red, k-2.1, #fff, 50%]", ["red", "k-2.1", "#fff", "50%"], ["unquoted string"]),
    ("[https://a.b/c?d=1#e, 12:30]", ["https://a.b/c?d=1#e", "12:30"], ["unquoted string"]),
    ("[2024-01-01, 1.2.3, 1/2]", ["2024-01-01", "1.2.3", "1/2"], ["unquoted string"]),
    ("[word // comment\n]", ["word"], ["unquoted string", "comment"]),
    # words like literals are read among other words
    ("[Mon, Tue]", ["Mon", "Tue"], ["unquoted string"]),
    (
        "{city: Boston, zip: 02139, country: TR}",
        {"city": "Boston", "zip": "02139", "country": "TR"},
        ["unquoted key", "unquoted string"],
    ),
    ("[True, FALSE, None, Null]", [True, False, None, None], ["literal spelling"]),
    ('["NaN", -Infinity of it, nano]', ["NaN", "-Infinity of it", "nano"], ["unquoted string"]),
    # numbers in other forms
    ("[Infinity, -inf]", [Decimal("Infinity"), Decimal("-Infinity")], ["NaN or Infinity without quotes"]),
    ("[+1, .5, 5., 1_000, 0x1F]", [1, Decimal("0.5"), 5, 1000, 31], ["number form"]),
    ('{"a": -2,000.50, "b": 1}', {"a": Decimal("-2000.50"), "b": 1}, ["thousands separators"]),
]
AMBIGUOUS_QUOTES = "the quotes inside a string can be read in two ways"

ERRORS: list[tuple[str, str]] = [
    ("", "no JSON value begins here (at character 0)"),
    ("hello", "no JSON value begins here (at character 0)"),
    # closings
    ("[1, 2}", "expected ] instead of } (at character 5)"),
    ('{"a": ["b"}', "expected ] instead of } (at character 10)"),
    ('{"a": ["b"}, "c": 1}', "expected ] instead of } (at character 10)"),
    # quotes that can be read in two ways
    ('{"a": "first, "b": "second"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('{"a": "first, b: "second"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('{"a": "x"; "b": "y"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('{"a": "x" "y"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('{"a": ""x"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('["a""b"]', f"{AMBIGUOUS_QUOTES} (at character 1)"),
    ('["a" b", "c"]', f"{AMBIGUOUS_QUOTES} (at character 1)"),
    ('["he said "yes", "no" and left"]', f"{AMBIGUOUS_QUOTES} (at character 1)"),
    ('["a 5" "b" c"]', f"{AMBIGUOUS_QUOTES} (at character 7)"),
    ('["x,"z"]', f"{AMBIGUOUS_QUOTES} (at character 1)"),
    ('["x,\n"z"]', f"{AMBIGUOUS_QUOTES} (at character 1)"),
    ('["w", "x,"y","z"]', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('[x,",1,"y"]', f"{AMBIGUOUS_QUOTES} (at character 3)"),
    ('{"a": "x,"z"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('[{"a": "x}, {"b": "]"}]', f"{AMBIGUOUS_QUOTES} (at character 7)"),
    ('{"a": "one, two, "b": "th"ree"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('{"a": "see [b], "c": "d", e"}', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    # a comma that is missing between two strings looks like a quote inside one
    ('["one "two" three" "four"]', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    ('["a" "b "c" d"]', f"{AMBIGUOUS_QUOTES} (at character 8)"),
    ('{"a": "x "y" z" "b": "w"}', f"{AMBIGUOUS_QUOTES} (at character 9)"),
    ('{"a": "x" "b": "y "z" w"}', f"{AMBIGUOUS_QUOTES} (at character 18)"),
    ('{"a": "v"x"} and "more"', f"{AMBIGUOUS_QUOTES} (at character 6)"),
    (
        '{"a": "use "} to close", "b": 1}',
        "there is more text after what looks like the end of the value (at character 13)",
    ),
    # keys
    ('{"a", "b"}', 'the key "a" has no value (at character 1)'),
    ("{1, 2, 3}", 'the key "1" has no value (at character 1)'),
    ('{{"a": 1}}', "a key is missing (at character 1)"),
    ('{"a": 1, "a": 2}', 'the key "a" appears twice with different values (at character 9)'),
    ('{"a": 1, "a": true}', 'the key "a" appears twice with different values (at character 9)'),
    ('{"a": [1], "a": [1.0]}', 'the key "a" appears twice with different values (at character 11)'),
    # values
    ('{"a": , "b": 1}', "a value is missing (at character 6)"),
    ("[1,,2]", "a value is missing between two commas (at character 3)"),
    ("[1, 2, ...]", "... marks an omission and is not a value (at character 7)"),
    ('{"a": undefined}', "undefined is not a value (at character 6)"),
    ('{"a": Decimal("1")}', "a function call is not a value (at character 6)"),
    ('{"a": u"x"}', 'a string without quotes runs into " (at character 7)'),
    ("{a: b: c}", "a string without quotes can end in two ways (at character 4)"),
    ("{a: 1 b: 2}", "a string without quotes can end in two ways (at character 4)"),
    ("[one\ntwo]", "a comma or ] is missing (at character 5)"),
    ('("a" "b")', "a comma or ) is missing (at character 5)"),
    ('{"a": ```x```}', "a code fence is not a value (at character 6)"),
    ("[ ,]", "a value is missing (at character 2)"),
    ("[ /* a */ , // b\n]", "a value is missing (at character 10)"),
    ("{ ,}", "a key is missing (at character 2)"),
    # numbers
    ('[{"a": [{"b": "F}"]}]', "expected } instead of ] (at character 18)"),
    ("[1\n0, 20]", "commas are missing between some of the items (at character 4)"),
    ("[1 2 3]", "a comma is missing between numbers (at character 1)"),
    ("[012, 3]", "012 may be a misspelt number, true, false or null (at character 1)"),
    ('{"a": 3:1}', "3:1 may be a misspelt number, true, false or null (at character 6)"),
    ('{"a": 1, "b": tru}', "tru may be a misspelt number, true, false or null (at character 14)"),
    ("{a: word, b: flase}", "flase may be a misspelt number, true, false or null (at character 13)"),
    ("{a: [tru, nul]}", "tru may be a misspelt number, true, false or null (at character 5)"),
    ("[1,000, 2,000]", "a comma in or between numbers can be read in two ways (at character 2)"),
    (f"[{'1' * 5000}]", "a number of 5000 digits is too long (at character 1)"),
    ("[1e99999999999999999999]", "the exponent of a number is too large (at character 1)"),
    # characters
    (r'["C:\Users\new"]', "the backslashes in a string can be read in two ways (at character 10)"),
    (r'["\ud800"]', "half a surrogate pair is not a character (at character 2)"),
    ('["a\0b"]', "a string contains a NUL character (at character 3)"),
    ("[" * 501 + "]" * 501, "nested deeper than 500 levels (at character 500)"),
]

TRUNCATED: list[tuple[str, str, int]] = [
    ('{"a": 1', "object", 0),
    ('{"a"', "object", 0),
    ('{"a": {"b": [1, 2', "array", 12),
    ("[1, 2, ", "array", 0),
    ("(1, 2", "tuple", 0),
    ('["a", "b', "string", 6),
    ('["a", """b"', "string", 6),
    ("[1, /* b", "comment", 4),
]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = st.lists(VALUES, max_size=4) | st.dictionaries(TEXTS, VALUES, max_size=4)


@pytest.mark.parametrize(("text", "value", "rules"), READINGS)
def test_broken_json_is_read_and_each_repair_is_recorded(text: str, value: Any, rules: list[str]) -> None:
    parsed = read_tolerant(text)
    if value is not None:
        assert parsed.value == value
    assert [repair.rule for repair in parsed.repairs] == rules


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_text_without_exactly_one_meaning_is_refused(text: str, message: str) -> None:
    with pytest.raises(JsonSyntaxError) as fault:
        read_tolerant(text)
    assert str(fault.value) == message
    assert not fault.value.truncated


@pytest.mark.parametrize(("text", "what", "position"), TRUNCATED)
def test_truncated_text_is_never_a_value(text: str, what: str, position: int) -> None:
    with pytest.raises(JsonSyntaxError) as fault:
        read_tolerant(text)
    assert fault.value.message == f"the text is cut off: the {what} that begins here is not closed"
    assert fault.value.position == position
    assert fault.value.truncated


LISTS = st.lists(st.text(st.sampled_from("xy1 ,:;.[]{}\n"), max_size=4), min_size=1, max_size=3)
SHAPES: list[Callable[[list[str]], Any]] = [
    list,
    lambda items: dict(zip("abc", items, strict=False)),
    lambda items: [{"a": item} for item in items],
    lambda items: {"a": items, "b": 1},
    lambda items: [1, *items, None],
]


@given(LISTS, st.sampled_from(SHAPES), st.sampled_from([",", ", ", ",\n"]), st.data())
@settings(max_examples=500, deadline=None)
def test_text_without_one_of_its_quotes_is_never_read_as_another_value(
    items: list[str], shape: Callable[[list[str]], Any], comma: str, data: st.DataObject
) -> None:
    value = shape(items)
    text = json.dumps(value, separators=(comma, ": "))
    lost = data.draw(st.sampled_from([index for index, char in enumerate(text) if char == '"']))
    left = text[:lost] + text[lost + 1 :]
    try:
        parsed = read_tolerant(left)
    except JsonSyntaxError:
        return
    assert parsed.value == value or parsed.end < len(left)


def test_repairs_of_a_value_read_in_pieces_have_positions_in_the_whole_text() -> None:
    item = '{"id": 1, "text": "' + "x, [1,] // y " * 9 + '",\n // note, ]\n "tags": ["a", "b", ],\n}'
    text = "Sure: [" + f"{item},\n" * 2_000 + "] and more"
    parsed = read_tolerant(text, 6)
    assert parsed.value == [{"id": 1, "text": "x, [1,] // y " * 9, "tags": ["a", "b"]}] * 2_000
    assert parsed.end == len(text) - len(" and more")
    comment, comma = text.index("// note"), text.index(", ],")
    assert parsed.repairs == (Repair("comment", comment), Repair("trailing comma", comma))


@pytest.mark.parametrize("text", ["[NaN]", "[nan]", "{'a': +nan}", "{a: -NaN}"])
def test_nan_without_quotes_is_a_decimal_everywhere(text: str) -> None:
    parsed = read_tolerant(text)
    value = parsed.value[0] if isinstance(parsed.value, list) else parsed.value["a"]
    assert isinstance(value, Decimal)
    assert value.is_nan()
    assert "NaN or Infinity without quotes" in [repair.rule for repair in parsed.repairs]


def test_a_list_with_a_missing_quote_is_refused() -> None:
    with pytest.raises(OutputParsingError) as error:
        parse(list[str], '["x,"z"]')
    assert str(error.value) == (
        "cannot read the text: $: the JSON is broken: the quotes inside a string can be read in two ways, "
        """found "["x,"z"]" (the text: '["x,"z"]')"""
    )


def test_a_reading_begins_at_start_and_stops_at_the_end_of_the_value() -> None:
    text = "Sure! {'a': 1,} and then [2]"
    repairs = (Repair("single-quoted string", 7), Repair("trailing comma", 13))
    assert read_tolerant(text, 6) == ParsedJson({"a": 1}, repairs, 15)


def test_a_literal_is_not_read_as_a_number() -> None:
    assert [type(item) for item in read_tolerant("[True, 1, 1.0,]").value] == [bool, int, Decimal]


def test_text_in_triple_quotes_is_not_changed() -> None:
    text = '{"code": """def f():\n    return {"a": "b"}[\'a\']""",}'
    assert read_tolerant(text).value == {"code": 'def f():\n    return {"a": "b"}[\'a\']'}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is not exact JSON: Expecting value (at character 0)"),
        ("{'a': 1}", None),
        ("[1] [2]", "there is more text after the JSON value (at character 4)"),
        ("[NaN]", "NaN is not a JSON number (at character 0)"),
        ("[-Infinity]", "-Infinity is not a JSON number (at character 0)"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice with different values (at character 0)'),
        ('["x", "\\udc00"]', "half a surrogate pair is not a character (at character 7)"),
        ('["\ud800"]', "half a surrogate pair is not a character (at character 2)"),
        (f"[{'1' * 5000}]", "a number has too many digits (at character 0)"),
        ("[1e99999999999999999999]", "the exponent of a number is too large (at character 0)"),
        ("[" * 501 + "]" * 501, "nested deeper than 500 levels (at character 0)"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 500 levels (at character 0)"),
    ],
)
def test_read_exact_refuses_everything_that_is_not_json(text: str, message: str | None) -> None:
    with pytest.raises(JsonSyntaxError) as fault:
        read_exact(text)
    assert message is None or str(fault.value) == message


def test_read_exact_keeps_the_digits_of_numbers_and_pairs_of_surrogates() -> None:
    value = read_exact(' {"a": 0.1, "b": 12345678901234567890, "c": "\\ud83d\\ude00 \\\\ud800", "a": 0.1} ')
    assert value == {"a": Decimal("0.1"), "b": 12345678901234567890, "c": "\U0001f600 \\ud800"}


@given(CONTAINERS, st.booleans(), st.sampled_from([None, 2]))
@settings(deadline=None)
def test_dumped_values_are_read_back_without_repairs(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_exact(text) == value
    assert read_tolerant(text) == ParsedJson(value, (), len(text))


@given(NUMBERS)
def test_numbers_are_exact(number: int | Decimal) -> None:
    assert read_exact(f"[{number}]") == read_tolerant(f"[{number},]").value == [number]


@given(CONTAINERS, st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_cut_of_a_dumped_value_is_reported_as_truncated(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for end in range(1, len(text)):
        with pytest.raises(JsonSyntaxError) as fault:
            read_tolerant(text[:end])
        assert fault.value.truncated, text[:end]


PYTHON = {None: "None", True: "True", False: "False"}
MIXED = {None: "null", True: "TRUE", False: "false"}


def write_loosely(value: Any, quote: str, comma: str, comment: str, literals: dict[Any, str]) -> str:
    """Write JSON with common mistakes: other quotes, extra commas, comments, line ends, literals."""

    def write(inner: Any) -> str:
        return write_loosely(inner, quote, comma, comment, literals)

    if isinstance(value, str):
        body = value.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\0", "\\u0000")
        return quote + body + quote
    if isinstance(value, dict):
        fields = [f"{write(key)}:{write(item)}" for key, item in value.items()]
        return "{" + comment + ", ".join(fields) + (comma if fields else "") + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(write, value)) + (comma if value else "") + " " + comment + "]"
    return str(value) if type(value) is int else literals[value]


@given(
    CONTAINERS,
    st.sampled_from(["'", '"', "`"]),
    st.sampled_from(["", ",", " ,\n"]),
    st.sampled_from(["", '// it\'s a "note" ]\n', "/* {'a', */", " # note }\n"]),
    st.sampled_from([PYTHON, MIXED]),
)
@settings(max_examples=300, deadline=None)
def test_loosely_written_values_are_read_back(
    value: Any, quote: str, comma: str, comment: str, literals: dict[Any, str]
) -> None:
    text = write_loosely(value, quote, comma, comment, literals)
    assert read_tolerant(text).value == value


WORDS = st.sampled_from(["he said", "yes", "10", "a, b", "it's", "note: x", "(so)", "{x}", "end."])
PHRASES = st.lists(
    WORDS | WORDS.map('"{}"'.format) | WORDS.map('"{}",'.format) | WORDS.map('("{}")'.format),
    min_size=1,
    max_size=6,
).map(" ".join)


@given(st.lists(PHRASES | st.sampled_from(["", "plain", "yes, no"]), min_size=1, max_size=4), st.booleans())
@settings(max_examples=500, deadline=None)
def test_text_with_unescaped_quotes_is_read_back_or_refused(items: list[str], in_object: bool) -> None:
    if in_object:
        value: Any = {f"k{index}": item for index, item in enumerate(items)}
        text = "{" + ", ".join(f'"{key}": "{item}"' for key, item in value.items()) + "}"
    else:
        value = items
        text = "[" + ", ".join(f'"{item}"' for item in items) + "]"
    try:
        json.loads(text)
    except ValueError:
        try:
            parsed = read_tolerant(text)
        except JsonSyntaxError:
            return
        assert parsed.value == value


@given(st.text(st.sampled_from("{}[]()\"'`“”:,=+/*#\\ \n\tabu0123456789.-eTNx_\ufeff\0"), max_size=60))
@settings(max_examples=1000, deadline=None)
def test_any_text_gives_a_value_or_a_json_syntax_error(text: str) -> None:
    try:
        end = read_tolerant(text).end
    except JsonSyntaxError as fault:
        end = fault.position
    assert 0 <= end <= len(text)


TEXTS_OF_MARKS = [
    *['"', "[", "{", "(", "'", "\\", "1", "1e", "-", " ", "a ", "/*", "//\n", "a://", '"a" + '],
    *['a "b" c ', '"/*"', '"//"\n', ',"', "',\"", '",“', '"{', '"]', '":', '\n"', "1_", "\\n\\d", "it's "],
]


@pytest.mark.parametrize("head", ["", '{"a": "', '["', '{"a": ', "[", "{"])
def test_the_time_grows_in_proportion_to_the_text(head: str) -> None:
    assert growing(read_tolerant, TEXTS_OF_MARKS, head) == {}


def test_a_large_broken_text_is_read_completely() -> None:
    items = [{"id": index, "name": f"Person {index}", "tags": ["x", "y"]} for index in range(20_000)]
    text = json.dumps(items)[:-1] + ",]"
    assert read_tolerant(text).value == items


def test_characters_without_width_between_tokens_are_white_space() -> None:
    """An invisible character must not decide which JSON of a reply is read."""
    text = '{"name": "Ann", "age": 3, "tags": ["a", "b"], "of": {"x": [1.5, null]}}'
    value = json.loads(text)
    places = [place for place in range(1, len(text)) if text[place - 1] in "{[:," or text[place] in ",:]}"]
    for invisible in "\u200b\u200c\u200d\u200e\u200f\u00ad\u180e\u202a\u2060\u2063\ufeff\u00a0\u2003":
        for place in places:
            written = text[:place] + invisible + text[place:]
            example = f'{written}\nFor example: {{"name": "Bob", "age": 9, "tags": [], "of": {{}}}}'
            for reply in (written, f"```json\n{written}\n```", example):
                assert parse(dict[str, Any], reply) == value
