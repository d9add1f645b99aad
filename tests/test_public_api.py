"""The public API is that of the last release: nothing that a program may use is missing or has changed."""

from __future__ import annotations

from public_api import CONTRACT, breaking_changes, lines

ADVICE = "if this is meant, run make accept-api, and write in CHANGELOG.md how programs adapt"


def test_nothing_of_the_public_api_is_gone_or_changed() -> None:
    released = CONTRACT.read_text("utf-8").splitlines()
    assert breaking_changes(released, [*lines()]) == [], ADVICE


def test_which_changes_break_programs() -> None:
    before = [
        "m.f: function",
        "m.f(#0 a)",
        "m.f(b=1)",
        "m.f raises ValueError",
        "m.C: class(object)",
        "m.C.x",
    ]
    assert breaking_changes(before, before) == []
    added = ["m.f(c=2)", "m.g: function", "m.g(#0 a)", "m.C.y", "m.f raises KeyError"]
    assert breaking_changes(before, [*before, *added]) == []
    assert breaking_changes(before, [*before, "m.f(#1 c)"]) == ["added: m.f(#1 c)"]
    for line in before:
        assert breaking_changes(before, [one for one in before if one != line]) == [f"gone: {line}"]
    assert breaking_changes(before, [one.replace("b=1", "b=2") for one in before]) == ["gone: m.f(b=1)"]
