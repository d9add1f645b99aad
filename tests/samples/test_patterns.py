"""The samples of services that work together print what they should, are short, and survive kill -9."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from samples import patterns

FOLDER = Path(patterns.__file__).parent
ROOT = FOLDER.parents[1]
PRINTED = {
    "sequence": """\
Once upon a time, at school, a dragon met a wizard.
Once upon a time, a dragon met a wizard.
""",
    "loop": """\
0.2: A dragon met a wizard.
0.9: A dragon met a wizard, and asked for a light.
→ A dragon met a wizard, and asked for a light.
""",
    "parallel": """\
Evening(meal='fondue', film='Casablanca')
Evening(meal='risotto', film='Amélie')
Evening(meal='oysters', film='Notting Hill')
""",
    "router": """\
medicine: Do not move it, and call an ambulance.
There is no expert for this.
""",
    "supervisor": """\
115 dollars went from Mario to Georgios. {'Mario': 885.0, 'Georgios': 1115.0}
Teller.withdraw 13
Teller.credit 13
in all 58
""",
    "goals": """\
step: person
step: sign
step: horoscope
step: story
Mario, if a fish smiles at you, smile back.
""",
    "blackboard": """\
findings: They radiate.
hypothesis: They glow.
score: 0.3
critique: Nobody has seen it.
hypothesis: They shrink as they radiate.
score: 0.9
""",
    "voting": """\
{'a linguist': 'neutral', 'a psychologist': 'negative', 'an analyst of customer feedback': 'negative'}
→ negative
""",
    "debate": """\
utility: Nobody is harmed.
duty: Buyers have a right to know.
practice: Secrets come out.
utility: Trust is useful, too, so name it.
duty: Buyers have a right to know.
practice: Secrets come out.
→ No. Name the tool.
""",
    "person_in_the_loop": """\
{'call_1/call_1': 'What is your sign of the zodiac?'}
Hello Mario! Today a fish will smile at you.
""",
    "recovery": """\
order 17 waits for an approval
dispatched: order 17
Order 17 is on its way.
""",
}


def test_each_pattern_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*PRINTED, "__init__", "scripts"}


@pytest.mark.parametrize("name", PRINTED)
def test_a_pattern_prints_what_it_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import_module(f"samples.patterns.{name}").main()
    assert capsys.readouterr().out == PRINTED[name]


@pytest.mark.parametrize("name", PRINTED)
def test_a_pattern_has_at_most_40_lines_without_imports(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    imports = (ast.Import, ast.ImportFrom)
    body = [node for node in ast.parse(text).body[1:] if not isinstance(node, imports)]
    start = min(node.lineno - len(getattr(node, "decorator_list", ())) for node in body)
    assert len([line for line in text.splitlines()[start - 1 :] if line.strip()]) <= 40


def test_an_order_is_completed_after_kill_9_at_any_step(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("recovery_kills.py")), str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert [kill["exit_codes"] for kill in kills] == [[-9, 0]] * (len(kills) - 1) + [[0, 0]]
    steps = ["Which 1", "Dispatch 1", "Dispatch 3"]  # the requests to the model
    for kill in kills:
        assert kill["printed"][-1] == "Order 17 is on its way."
        finished, requests = len(kill["finished"]), kill["requests"]
        # Only the step in which the process was killed may be repeated.
        assert requests in (steps, [*steps[: finished + 1], *steps[finished:]])
        dispatched = kill["printed"].count("dispatched: order 17")
        assert dispatched == 1 or (dispatched == 2 and kill["finished"] == ["number", "state"])
    assert {len(kill["finished"]) for kill in kills} == {0, 1, 2, 3}
