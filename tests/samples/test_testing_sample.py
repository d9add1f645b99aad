"""The testing sample prints the right lines, and the tests in docs/testing.md pass."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from loopback import Loopback, answer

from samples import testing_a_service

pytest_plugins = ["pytester"]
DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
LOADED = (
    ()
    if any("aiservices" in point.value for point in entry_points(group="pytest11"))
    else ("-p", "aiservices.testing.plugin")
)
URGENT = '{"title": "A burst pipe", "urgency": "high"}'


def test_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    testing_a_service.main()
    first, *others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"fake: (glad|angry)(, (glad|angry)){2}; equal with the same seed: True", first)
    assert others == [
        "recorded: glad; replayed: glad",
        "not recorded:",
        '  - "text": "In which mood was this letter written?\\n\\nLetter: Thank you!",',
        '  + "text": "In which mood was this letter written?\\n\\nLetter: Never again!",',
        "right: 67% of 3 letters (95 % confidence: 21% to 94%)",
        "  Thank you! → glad, expected glad",
        "  Never again! → glad, expected angry",
        "  So long. → glad, expected glad",
    ]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with the programs of the document: the first as a module, the others as test modules."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    desk, *tests = PROGRAMS
    pytester.makepyfile(desk=desk, **{f"test_{number}": text for number, text in enumerate(tests, 1)})
    return pytester


def test_the_programs_are_a_module_and_its_tests() -> None:
    assert [language for language, _ in BLOCKS] == ["python"] * 7 + ["text"] + ["python"] * 3
    assert ["def test_" in text for text in PROGRAMS] == [False] + [True] * 9


def test_the_tests_of_the_document_pass_once_answers_are_recorded_and_prompts_accepted(
    project: pytest.Pytester, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.base_url)
    arguments = (*LOADED, "-p", "no:cacheprovider", "-q")
    project.runpytest(*arguments).assert_outcomes(passed=9, failed=2)
    loopback.reply(answer(URGENT))
    project.runpytest(*arguments, "--cassettes=once", "--update-golden").assert_outcomes(passed=11)
    monkeypatch.delenv("OPENAI_API_KEY")
    project.runpytest(*arguments).assert_outcomes(passed=11)
    made = [path.relative_to(project.path).as_posix() for path in project.path.rglob("test_*/*.*")]
    assert sorted(path for path in made if "pycache" not in path) == [
        "cassettes/test_4/test_a_burst_pipe_is_urgent.json",
        "golden/test_5/test_the_prompts_are_those_that_were_accepted.txt",
    ]


def test_the_evaluation_in_the_document_prints_the_text_below_it(project: pytest.Pytester) -> None:
    result = project.runpytest(*LOADED, "-p", "no:cacheprovider", "-s", "test_6.py")
    (printed,) = [text for language, text in BLOCKS if language == "text"]
    assert printed in result.stdout.str()
