"""The scanner finds complete members in any division into chunks, and never guesses."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from output_parsers.backslashes import with_clear_escapes
from output_parsers.json.scanner import read_tolerant
from output_parsers.json.strings import QuoteRole
from output_parsers.result.reading import JsonSyntaxError
from output_parsers.streaming.builders import Container, Member, exact_json
from output_parsers.streaming.scanner import (
    IncrementalScanner,
    PartialString,
    RootFinder,
)
from output_parsers.streaming.tokens import (
    PARTIAL_MEMBER,
    UnreadableToken,
    partial_string,
    scan_bare_value,
    scan_key,
)


def scan(*chunks: str, more: bool = False) -> tuple[IncrementalScanner, list[Container]]:
    closed: list[Container] = []

    def close(container: Container) -> bool:
        closed.append(container)
        return more

    scanner = IncrementalScanner(RootFinder(lambda _: True), close)
    for chunk in chunks:
        scanner.feed(chunk)
    return scanner, closed


def members(container: Container) -> Any:
    """Read the members of a container from its parts."""
    pairs: list[tuple[str, Any]] = []
    for part in container.parts:
        if isinstance(part, str):
            text = part.rstrip(" \r\n\t,")
            if container.bracket == "{":
                pairs += json.loads(f"{{{text}}}", object_pairs_hook=list)
            else:
                pairs += [("", item) for item in json.loads(f"[{text}]")]
        else:
            pairs.append((part.key, part.value if isinstance(part, Member) else members(part)))
    return dict(pairs) if container.bracket == "{" else [value for _, value in pairs]


READ: list[tuple[str, Any]] = [
    ('{"a": 1}', {"a": 1}),
    ('{"a": "b", "c": [1, {"d": null}], "e": {}}', {"a": "b", "c": [1, {"d": None}], "e": {}}),
    ("{'a': 'b', c: d e, f: True,}", {"a": "b", "c": "d e", "f": True}),
    ("{/* 1 */ 'a' : // 2\n 3 # 4\n }", {"a": 3}),
    ('{"a": 1/* one */, "b": 2}', {"a": 1, "b": 2}),
    ('{"a": "say "hi" to", "b": 1}', {"a": 'say "hi" to', "b": 1}),
    ('{"a": "6" deep", "b": 1}', {"a": '6" deep', "b": 1}),
    ('{"a": "x = {"b": 1}; y"}', {"a": 'x = {"b": 1}; y'}),
    ("{'a': 'it's', 'b': 'no'}", {"a": "it's", "b": "no"}),
    ('["a" "b"]', ["a", "b"]),
    ('["a", x, "b"]', ["a", "x", "b"]),
    ("[1, 3.50, -1e5, true]", [1, 3.5, -1e5, True]),
    ('{"a": 1\n"b": 2}', {"a": 1, "b": 2}),
    ('{"a": "x"\nb: "y"}', {"a": "x", "b": "y"}),
    ('["a\\u00e9\\ud83d\\ude00\\n\\"\\\\"]', ['aé😀\n"\\']),
    ('["a\\d\\b"]', ["a\\d\\b"]),
    ("['\\x41']", ["A"]),
    ('{"a": "line\nbreak",, "b": 1}', {"a": "line\nbreak", "b": 1}),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_closed_members_are_found_in_any_chunks(text: str, expected: Any) -> None:
    for chunks in ([text], list(text), [text[:7], text[7:]], [text[:-4], text[-4:]]):
        scanner, closed = scan(*chunks)
        assert not scanner.gave_up
        assert [members(container) for container in closed] == [expected]
        assert text[closed[0].start : closed[0].end] == text[text.index(closed[0].bracket) :]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1,000}',
        '{"a" "b"}',
        '{"a": "b"],',
        '["""a"""]',
        '["a" + "b"]',
        '{"a": (1, 2)}',
        '{"a": “b”}',
        '{"a": "6", deep", "b": 1}',  # the parser of the complete text refuses it
        '{"a": "b"\nand so.", "b": 2}',
        '{"a": NaN b c d e [1]}',
        "[1, , 2]",
        '{"a": ' + "9" * 5000,
        "{" + '"' + "k" * 5000,
        "[" * 101,
    ],
)
def test_the_scanner_gives_up_if_only_the_complete_text_can_decide(text: str) -> None:
    for chunks in ([text], [text[start : start + 50] for start in range(0, len(text), 50)]):
        scanner, closed = scan(*chunks)
        assert scanner.gave_up
        assert not closed
        scanner.feed('"}]}')
        assert not closed


def test_the_scanner_finds_several_roots_on_request() -> None:
    text = 'a {"a": 1}\n- {"a": 2} [3] end'
    for chunks in ([text], list(text)):
        assert [members(root) for root in scan(*chunks, more=True)[1]] == [{"a": 1}, {"a": 2}, [3]]
        assert [members(root) for root in scan(*chunks)[1]] == [{"a": 1}]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inside: st.one_of(
        st.lists(inside, max_size=4), st.dictionaries(st.text(max_size=8), inside, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.lists(JSON), st.dictionaries(st.text(max_size=8), JSON)), st.data())
def test_exact_json_comes_out_as_it_went_in(value: Any, data: st.DataObject) -> None:
    text = with_clear_escapes(
        json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 2])))
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=30)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    scanner, closed = scan(*chunks)
    assert not scanner.gave_up
    assert [members(container) for container in closed] == [value]
    exact = exact_json(closed[0])
    assert exact is None or json.loads(exact) == value


@pytest.mark.parametrize(
    ("text", "closer", "expected"),
    [
        ('"', "}", QuoteRole.UNDECIDED),
        ('" ', "}", QuoteRole.UNDECIDED),
        ('"}', "}", QuoteRole.CLOSES),
        ('"]', "]", QuoteRole.CLOSES),
        ('"] x', "}", QuoteRole.INSIDE),
        ('"],', "}", QuoteRole.CLOSES),  # the wrong bracket is another mistake
        ('",', "}", QuoteRole.UNDECIDED),
        ('", "', "}", QuoteRole.UNDECIDED),
        ('", "key"', "}", QuoteRole.UNDECIDED),
        ('", "key":', "}", QuoteRole.CLOSES),
        ('", key', "}", QuoteRole.UNDECIDED),
        ('", key:', "}", QuoteRole.UNDECIDED),  # it may become an address
        ('", key: ', "}", QuoteRole.CLOSES),
        ('", he said "', "}", QuoteRole.DOUBTFUL),
        ('"s he said "', "}", QuoteRole.INSIDE),
        ('", 5', "]", QuoteRole.UNDECIDED),
        ('", 5,', "]", QuoteRole.CLOSES),
        ('", /', "}", QuoteRole.UNDECIDED),
        ('", // ', "}", QuoteRole.CLOSES),
        ('" /', "}", QuoteRole.UNDECIDED),
        ('" // ', "}", QuoteRole.CLOSES),
        ('"//', "}", QuoteRole.UNDECIDED),
        ('"//x', "}", QuoteRole.INSIDE),
        ('"x', "}", QuoteRole.INSIDE),
        ('"\nkey: ', "}", QuoteRole.CLOSES),
        ('"\nand so', "}", QuoteRole.UNDECIDED),
        ('"\nand so.', "}", QuoteRole.DOUBTFUL),
        ('" {', "]", QuoteRole.DOUBTFUL),
    ],
)
def test_a_quote_is_classified_by_the_text_after_it(text: str, closer: str, expected: QuoteRole) -> None:
    string = PartialString('"', closer)
    string.advance("a", 0)
    assert string.role_of_quote(text, 0) is expected


def test_nothing_is_shown_after_a_doubtful_escape_until_the_string_ends() -> None:
    string = PartialString('"', "}")
    text = "a\\nB\\bc\\d"
    assert string.advance(text, 0) == len(text)
    assert string.buffer.prefix().join() == "a\nB"
    assert string.value() == "a\nB\\bc\\d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a": "b', ("a", "b")),
        (' "a" : "', ("a", "")),
        ('"a": "b\\', ("a", "b")),
        ('"a": "b\\u00', ("a", "b")),
        ('"a": "b\\u00e9"', ("a", "bé")),
        ('"a": "b",', ("a", "b")),
        ('"a": 12', ("", None)),
        ('"a', ("", None)),
    ],
)
def test_an_incomplete_member_shows_its_string(text: str, expected: tuple[str, str | None]) -> None:
    member = PARTIAL_MEMBER["{"].match(text)
    assert member is not None
    assert partial_string(member) == expected


def test_keys_and_bare_values_need_the_character_after_them() -> None:
    assert scan_key("a b : 1", 0) == ("a b", 5)
    assert scan_bare_value("12 ,", 0, "]") == (12, 2)
    cut = [
        (scan_key, ('"ab', 0)),
        (scan_key, ("ab ", 0)),
        (scan_bare_value, ("12", 0, "]")),
    ]
    for read, arguments in cut:
        with pytest.raises(UnreadableToken, match="incomplete token"):
            read(*arguments)  # type: ignore[operator]
    with pytest.raises(UnreadableToken, match="ambiguous token"):
        scan_key('"ab" 1', 0)


@pytest.mark.parametrize(
    ("text", "accepted", "expected"),
    [
        ('{"a', "{", 0),
        ('json```{"a', "{", 7),
        ("Use {name} and { a:", "{", 15),
        ('[{"x": 1}] {"a', "{", 11),
        ('["{"] {"a', "{", 6),
        ('{"a": [1]} [2', "[", 11),
        ("no JSON", "{", -1),
        ("so {", "{", -1),
    ],
)
def test_a_root_begins_where_json_of_the_right_kind_does(text: str, accepted: str, expected: int) -> None:
    position, is_found = RootFinder(accepted.__contains__).find(text, 0)
    assert (position if is_found else -1) == expected


def test_the_scanned_text_is_cut_by_positions_in_the_whole_text() -> None:
    scanner = IncrementalScanner(RootFinder(lambda _: True), lambda _: True)
    for chunk in ("abc", "def", "ghi"):
        scanner.feed(chunk)
    assert scanner.cut(2, 5) == "cde"
    scanner.drop_before(4)
    scanner.feed("jkl")
    assert scanner.cut(4, 12) == "efghijkl"


def test_a_stream_never_closes_a_string_where_the_complete_text_does_not() -> None:
    random = Random(35)
    pieces = [
        "\"'\"'",
        '"',
        ",",
        ", ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "key",
        "7",
        "„",
        "“",
        "\n",
        "it's",
        ".",
        "//",
        "+",
        '", "',
    ]
    differences, compared = [], 0
    for _ in range(1_000):
        body = "".join(random.choices(pieces, k=random.randint(1, 10)))
        text = random.choice(['{"a": "%s", "b": 1}', "{'a': '%s', 'b': 1}", '["%s", "z"]']) % body
        closed = scan(*text)[1]
        try:
            value = read_tolerant(text).value
        except JsonSyntaxError:
            continue
        compared += bool(closed)
        if closed and members(closed[0]) != value:
            differences.append(text)
    assert differences == []
    assert compared > 100
