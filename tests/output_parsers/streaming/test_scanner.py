"""The scanner of growing text finds closed members, whatever the chunks, and gives up rather than guess."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from output_parsers.streaming.builders import Container, Member, clean_text
from output_parsers.streaming.scanner import (
    Growing,
    GrowingString,
    KeptText,
    Quote,
    ReplyHead,
    RootSeeker,
    judge_quote,
)
from output_parsers.streaming.tokens import (
    CUT_MEMBER,
    Unread,
    cut_string,
    read_growing_key,
    read_growing_word,
)


def scan(*chunks: str, more: bool = False) -> tuple[Growing, list[Container]]:
    closed: list[Container] = []

    def close(container: Container) -> bool:
        closed.append(container)
        return more

    growing = Growing(RootSeeker(lambda _: True), close)
    for chunk in chunks:
        growing.feed(chunk)
    return growing, closed


def members(container: Container) -> Any:
    """What a container holds, from its parts."""
    found: list[tuple[str, Any]] = []
    for part in container.parts:
        if isinstance(part, str):
            text = part.rstrip(" \r\n\t,")
            if container.bracket == "{":
                found += json.loads(f"{{{text}}}", object_pairs_hook=list)
            else:
                found += [("", item) for item in json.loads(f"[{text}]")]
        else:
            found.append((part.key, part.value if isinstance(part, Member) else members(part)))
    return dict(found) if container.bracket == "{" else [value for _, value in found]


READ: list[tuple[str, Any]] = [
    ('{"a": 1}', {"a": 1}),
    ('{"a": "b", "c": [1, {"d": null}], "e": {}}', {"a": "b", "c": [1, {"d": None}], "e": {}}),
    ("{'a': 'b', c: d e, f: True,}", {"a": "b", "c": "d e", "f": True}),
    ("{/* 1 */ 'a' : // 2\n 3 # 4\n }", {"a": 3}),
    ('{"a": 1/* one */, "b": 2}', {"a": 1, "b": 2}),
    ('{"a": "say "hi" to", "b": 1}', {"a": 'say "hi" to', "b": 1}),
    ('{"a": "6", deep", "b": 1}', {"a": '6", deep', "b": 1}),
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
        growing, closed = scan(*chunks)
        assert not growing.lost
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
        '{"a": "x = {"b": 1}; y"}',
        '{"a": NaN b c d e [1]}',
        "[1, , 2]",
        '{"a": ' + "9" * 5000,
        "{" + '"' + "k" * 5000,
        "[" * 101,
    ],
)
def test_what_is_not_plain_is_left_to_the_reading_of_the_whole(text: str) -> None:
    for chunks in ([text], [text[at : at + 50] for at in range(0, len(text), 50)]):
        growing, closed = scan(*chunks)
        assert growing.lost
        assert not closed
        growing.feed('"}]}')
        assert not closed


def test_one_root_after_the_other_is_found_when_asked_for() -> None:
    text = 'a {"a": 1}\n- {"a": 2} [3] end'
    for chunks in ([text], list(text)):
        assert [members(found) for found in scan(*chunks, more=True)[1]] == [{"a": 1}, {"a": 2}, [3]]
        assert [members(found) for found in scan(*chunks)[1]] == [{"a": 1}]


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
    text = json.dumps(
        value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 2]))
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=30)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    growing, closed = scan(*chunks)
    assert not growing.lost
    assert [members(container) for container in closed] == [value]
    clean = clean_text(closed[0])
    assert clean is None or json.loads(clean) == value


@pytest.mark.parametrize(
    ("text", "closer", "expected"),
    [
        ('"', "}", Quote.UNSEEN),
        ('" ', "}", Quote.UNSEEN),
        ('"}', "}", Quote.ENDS),
        ('"]', "]", Quote.ENDS),
        ('"] x', "}", Quote.INSIDE),
        ('"],', "}", Quote.DOUBTFUL),
        ('",', "}", Quote.UNSEEN),
        ('", "', "}", Quote.ENDS),
        ('", key', "}", Quote.UNSEEN),
        ('", key:', "}", Quote.UNSEEN),  # it may become an address
        ('", key: ', "}", Quote.ENDS),
        ('", he said "', "}", Quote.INSIDE),
        ('", 5', "]", Quote.UNSEEN),
        ('", 5,', "]", Quote.ENDS),
        ('", /', "}", Quote.UNSEEN),
        ('", // ', "}", Quote.ENDS),
        ('" /', "}", Quote.UNSEEN),
        ('" // ', "}", Quote.ENDS),
        ('"//', "}", Quote.INSIDE),
        ('"x', "}", Quote.INSIDE),
        ('"\nkey: ', "}", Quote.ENDS),
        ('"\nand so', "}", Quote.UNSEEN),
        ('"\nand so.', "}", Quote.INSIDE),
        ('" {', "]", Quote.DOUBTFUL),
    ],
)
def test_a_quote_is_judged_by_what_follows_it(text: str, closer: str, expected: Quote) -> None:
    string = GrowingString('"')
    string.advance("a", 0)
    assert judge_quote(text, 0, closer, string) is expected


def test_a_doubtful_escape_holds_the_rest_back_until_the_end() -> None:
    string = GrowingString('"')
    text = "a\\nB\\bc\\d"
    assert string.advance(text, 0) == len(text)
    assert string.shown.so_far().join() == "a\nB"
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
def test_a_member_that_is_cut_shows_its_string(text: str, expected: tuple[str, str | None]) -> None:
    member = CUT_MEMBER["{"].match(text)
    assert member is not None
    assert cut_string(member) == expected


def test_keys_and_words_wait_for_what_ends_them() -> None:
    assert read_growing_key("a b : 1", 0) == ("a b", 5)
    assert read_growing_word("12 ,", 0, "]") == (12, 2)
    cut = [
        (read_growing_key, ('"ab', 0)),
        (read_growing_key, ("ab ", 0)),
        (read_growing_word, ("12", 0, "]")),
    ]
    for read, arguments in cut:
        with pytest.raises(Unread, match="cut"):
            read(*arguments)  # type: ignore[operator]
    with pytest.raises(Unread, match="odd"):
        read_growing_key('"ab" 1', 0)


@pytest.mark.parametrize(
    ("text", "answer", "reasoned"),
    [
        ("  Hello", "  Hello", False),
        ("<think>a</think> b", "b", True),
        ("\ufeff <Thinking>a</think></THINKING>\n<reasoning>c</reasoning>b", "b", True),
        ("<table>", "<table>", False),
        ("<think>a", "", True),
        ("<thin", "", False),
    ],
)
def test_reasoning_is_set_aside(text: str, answer: str, reasoned: bool) -> None:
    for chunks in ([text], list(text)):
        head = ReplyHead()
        assert "".join(map(head.feed, chunks)) == answer
        assert head.reasoned is reasoned


@pytest.mark.parametrize(
    ("text", "suits", "position"),
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
def test_a_root_begins_where_json_of_the_right_kind_does(text: str, suits: str, position: int) -> None:
    opening = RootSeeker(suits.__contains__).seek(text, 0)
    assert (opening.position if opening.found else -1) == position


def test_kept_text_is_cut_by_the_indexes_of_the_whole() -> None:
    kept = KeptText()
    for chunk in ("abc", "def", "ghi"):
        kept.add(chunk)
    assert kept.cut(2, 5) == "cde"
    kept.drop(4)
    kept.add("jkl")
    assert kept.cut(4, 12) == "efghijkl"
