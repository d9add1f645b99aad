"""Tests of the command check: definitions, templates and types of services, as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from output_parsers.profiles import PROFILES

from .conftest import CommandRun

MODULE = '''
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Protocol
from pydantic import Field
from aiservices import ScriptedChatModel, create, user_message

@dataclass
class Order:
    article: Annotated[str, Field(max_length=9)]
    more: dict[str, Any]

@dataclass
class Tree:
    children: "list[Tree]"

class Desk(Protocol):
    @user_message("{{text}}")
    def order(self, text: str) -> Order: ...

    @user_message("{{text}}")
    def orders(self, text: str) -> Iterator[Order]: ...

    @user_message("{{text}}")
    def tree(self, text: str) -> Tree: ...

class Closing(Protocol):
    def closes(self, day: date) -> bool: ...

class Timer(Protocol):
    def start(self) -> None: ...
    def stop(self) -> bool:
        return True

def find(key: dict[str, int]) -> str:
    """Finds."""
    return ""

desk = create(Closing, ScriptedChatModel([]), tools=[find])
'''
WRONG = """

class Wrong(Protocol):
    @user_message("{{txet}}")
    def asks(self, text: str) -> bool: ...

    @user_message("{{text}}")
    def tells(self, text: str): ...
"""
VAST = """
from dataclasses import make_dataclass

Wide = make_dataclass("Wide", [(f"field{number}", int, 0) for number in range(25)])

class Vast(Protocol):
    @user_message("{{text}}")
    def wide(self, text: str) -> Wide: ...
"""
CHECKED = """\
method          answer  verdict
Desk.order      Order   fits
Desk.orders     Order   fits, without strict mode
Desk.tree       Tree    fits
Closing.closes  bool    fits
desk.closes     bool    fits

Desk.order: answer: Order.article: maxLength: not sent; enforced when read
Desk.order: answer: Order.more: any JSON: sent as JSON text in a string
Desk.order: answer: Order.more: additional properties: sent as a list of keys and values
Desk.orders: answer: Order.more: any JSON, in a value that is streamed: \
strict mode is given up
Desk.orders: answer: Order.more: additional properties, in a value that is streamed: \
strict mode is given up
desk.closes: tool find: find_arguments.key: additional properties: sent as a list of keys and values

3 services, 5 methods, 0 problems; without strict mode for openai: 1
skipped: kinds:Timer has no prompts; check it by its name
"""
LOOSE = """\
method     answer  verdict
Vast.wide  Wide    fits, without strict mode

Vast.wide: answer: Wide: 25 optional properties, but anthropic allows 24: strict mode is given up

1 service, 1 method, 0 problems; without strict mode for anthropic: 1
"""


@pytest.fixture
def kinds(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "kinds.py"
    file.write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return file


def test_services_that_fit_pass_with_notes_on_their_types(run: CommandRun, kinds: Path) -> None:
    assert run("check", "kinds") == (0, CHECKED, "")


def test_one_service_or_method_may_be_named(run: CommandRun, kinds: Path) -> None:
    assert run("check", "kinds:Closing").out == (
        "method          answer  verdict\n"
        "Closing.closes  bool    fits\n"
        "\n1 service, 1 method, 0 problems; without strict mode for openai: 0\n"
    )


def test_all_problems_are_reported_and_fail(run: CommandRun, kinds: Path) -> None:
    kinds.write_text(MODULE + WRONG, "utf-8")
    code, out, err = run("check", "kinds")
    assert (code, err) == (1, "")
    assert "Wrong.asks              1 problem\nWrong.tells             1 problem\n" in out
    assert (
        "\nWrong.asks: the prompt uses {{txet}}, but the parameters are: text; did you mean text?\n"
        "Wrong.tells: it has no return annotation; annotate the type of the answer\n"
        "\n4 services, 7 methods, 2 problems; without strict mode for openai: 1\n"
    ) in out


DECISIONS = """

from aiservices import Decision, Image, options

class Judge(Protocol):
    @user_message("{{text}}")
    def is_spam(self, text: str) -> Decision[bool]: ...

    @user_message("{{text}}")
    def draws(self, text: str) -> Image: ...

    @user_message("{{text}}")
    @options(strategy="grammar")
    def counts(self, text: str) -> int: ...

    @user_message("Is it true?\\n\\n{{text}}")
    @options(strategy="decision")
    def is_true(self, text: str) -> bool: ...
"""


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_what_some_model_can_answer_fits_under_each_profile(
    run: CommandRun, kinds: Path, profile: str
) -> None:
    kinds.write_text(MODULE + DECISIONS, "utf-8")
    code, out, _ = run("check", "kinds:Judge", "--profile", profile)
    assert (code, [line.split() for line in out.splitlines()[1:5]]) == (
        0,
        [
            ["Judge.is_spam", "Decision[bool]", "fits"],
            ["Judge.draws", "Image", "fits"],
            ["Judge.counts", "int", "fits"],
            ["Judge.is_true", "bool", "fits"],
        ],
    )


def test_methods_beside_a_wrong_one_are_listed(run: CommandRun, kinds: Path) -> None:
    kinds.write_text(MODULE + DECISIONS.replace("{{text}}", "{{txet}}", 1), "utf-8")
    code, out, _ = run("check", "kinds:Judge")
    assert code == 1
    assert [line.split() for line in out.splitlines()[1:5]] == [
        ["Judge.is_spam", "1", "problem"],
        ["Judge.draws", "Image", "fits"],
        ["Judge.counts", "int", "fits"],
        ["Judge.is_true", "bool", "fits"],
    ]


def test_wrong_settings_of_one_method_are_reported(run: CommandRun, kinds: Path) -> None:
    settings = "from aiservices import Budget, Retry\n"
    beyond = "@options(retry=Retry(max_attempts=9), budget=Budget(max_attempts=2))\n    @user_message("
    kinds.write_text(settings + MODULE + DECISIONS.replace("@user_message(", beyond, 1), "utf-8")
    code, out, _ = run("check", "kinds:Desk", "kinds:Judge.draws")
    assert code == 1
    assert "\nJudge.is_spam: Retry(max_attempts=9) exceeds the budget of 2 requests; " in out


def test_a_protocol_without_prompts_is_checked_and_may_be_left_out_by_name(
    run: CommandRun, kinds: Path
) -> None:
    clock = "\nclass Clock(Protocol):\n    def between(self, start: date, end: date) -> int: ...\n"
    kinds.write_text(MODULE + clock, "utf-8")
    code, out, _ = run("check", "kinds")
    assert code == 1
    assert "\nClock.between: it has no prompt and several arguments (start, end); write the prompt " in out
    assert (
        "kinds:Clock has no prompts; if it is not a service, name the services to check instead of the "
        "module\n"
    ) in out
    assert run("check", "kinds:Desk", "kinds:Closing").code == 0


def test_giving_up_strict_mode_fails_with_the_option_strict(run: CommandRun, kinds: Path) -> None:
    kinds.write_text(MODULE + VAST, "utf-8")
    profile = ("--profile", "anthropic")
    assert run("check", "kinds:Vast", *profile) == (0, LOOSE, "")
    assert run("check", "kinds:Vast", *profile, "--strict") == (1, LOOSE, "")


def test_json_has_verdicts_problems_and_notes(run: CommandRun, kinds: Path) -> None:
    kinds.write_text(MODULE + WRONG, "utf-8")
    code, out, _ = run("check", "kinds:Wrong.asks", "kinds:desk", "--json")
    assert code == 1
    report = json.loads(out)
    assert report == {
        "passes": False,
        "profile": "openai",
        "methods": [
            {
                "service": "kinds:Wrong",
                "method": "Wrong.asks",
                "returns": "",
                "problems": ["the prompt uses {{txet}}, but the parameters are: text; did you mean text?"],
                "strict": True,
                "notes": [],
            },
            {
                "service": "kinds:Wrong",
                "method": "Wrong.tells",
                "returns": "",
                "problems": ["it has no return annotation; annotate the type of the answer"],
                "strict": True,
                "notes": [],
            },
            {
                "service": "kinds:desk",
                "method": "desk.closes",
                "returns": "bool",
                "problems": [],
                "strict": True,
                "notes": [
                    {
                        "about": "tool find",
                        "path": "find_arguments.key",
                        "feature": "additional properties",
                        "action": "sent as a list of keys and values",
                        "strict": True,
                    }
                ],
            },
        ],
        "skipped": [],
    }


def test_an_unknown_profile_is_a_usage_error(run: CommandRun, kinds: Path) -> None:
    assert run("check", "kinds", "--profile", "opnai") == (
        2,
        "",
        "error: unknown profile opnai; did you mean openai?\n",
    )


def test_a_module_without_services_is_a_usage_error(run: CommandRun, kinds: Path) -> None:
    assert run("check", "samples.table").err == "error: no service was found in samples.table\n"
    (kinds.parent / "mute.py").write_text(
        "from abc import ABC\nclass Door(ABC):\n    def open(self, key: str) -> bool: ...\n"
    )
    assert run("check", "mute").err == (
        "error: no service was found in mute; skipped because of missing prompts: mute:Door\n"
    )


def test_samples_pass(run: CommandRun) -> None:
    code, out, _ = run("check", "samples.sentiment", "samples.person", "samples.service.clerk")
    assert code == 0
    assert "\n3 services, 22 methods, 0 problems; without strict mode for openai: 0\n" in out
