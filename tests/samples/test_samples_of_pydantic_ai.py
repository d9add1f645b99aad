"""The samples that solve the tasks of pydantic-ai's examples print and send the right texts."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from aiservices import (
    AiMessage,
    BudgetExceededError,
    ScriptedChatModel,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from aiservices.guardrails import GuardrailError
from samples import bank_support, flight_booking, question_graph, sql_generation

ROOT = Path(__file__).parents[2]
Printed = pytest.CaptureFixture[str]


def test_bank_support(capsys: Printed) -> None:
    bank_support.main()
    assert capsys.readouterr().out == (
        "Advice(text='Hello Ann, you have 123.45 euros with all bookings.', block_card=False, risk=1)\n"
        "Advice(text='I am sorry, Ann. Your card is blocked now.', block_card=True, risk=8)\n"
    )


def test_the_model_of_the_bank_sees_the_name_and_not_the_account() -> None:
    model = bank_support.scripted()
    bank_support.main(model)
    first, second, _ = model.requests
    assert [message.text for message in first.messages] == [
        "You are the support of a bank. Advise the customer, Ann, by name, and judge the risk.",
        "How much do I have?",
    ]
    assert first.tooling is not None
    assert list(first.tooling.tools[0].parameters["properties"]) == ["with_pending"]
    assert isinstance(second.messages[-1], ToolMessage)
    assert second.messages[-1].text == "123.45 euros"


def test_a_risk_above_ten_is_refused() -> None:
    wrong = '{"text": "x", "block_card": false, "risk": 11}'
    model = ScriptedChatModel([wrong, wrong.replace("11", "10"), wrong.replace("11", "0")])
    bank_support.main(model)
    assert "$.risk: input should be less than or equal to 10" in model.requests[1].messages[-1].text


def test_flight_booking(capsys: Printed) -> None:
    flight_booking.main()
    assert capsys.readouterr().out == (
        "AX 205 for 140 euros: buy or search? search\n"
        "AX 101 for 180 euros: buy or search? buy\n"
        "Which seat would you like? Somewhere nice.\n"
        "Which row, and which letter?\n"
        "Which seat would you like? At the window, with room for my legs.\n"
        "Booked: AX 101 on 2026-05-05, seat 14A\n"
    )


def test_a_flight_on_another_day_is_rejected_and_memory_has_the_good_ones() -> None:
    model = flight_booking.scripted()
    answers = iter(["search", "buy", "Somewhere nice.", "14 A"])
    flight_booking.main(model, lambda question: next(answers))
    search, page, result, again, other = model.requests[:5]
    assert page.messages[-1].text == flight_booking.PAGE
    assert [type(message) for message in search.messages] == [SystemMessage, UserMessage]
    assert isinstance(result.messages[-1], ToolMessage)
    assert len(json.loads(result.messages[-1].text)) == 4
    assert again.messages[-1].text == "The flight must go from VIE to OSL on 2026-05-05."
    texts = [message.text for message in other.messages if isinstance(message, (UserMessage, AiMessage))]
    assert texts[-1] == "Please suggest another flight."
    assert "BK 33" not in "".join(texts)


def test_without_a_flight_nothing_is_booked(capsys: Printed) -> None:
    flight_booking.main(ScriptedChatModel(['{"value": null}']))
    assert capsys.readouterr().out == "There is no flight.\n"


def test_a_search_without_end_stops_after_fifteen_requests() -> None:
    flight = {**vars(flight_booking.FLIGHTS[0]), "day": "2026-05-05"}
    model = ScriptedChatModel(lambda request: json.dumps({"value": flight}))
    with pytest.raises(BudgetExceededError):
        flight_booking.main(model, lambda question: "search")
    assert len(model.requests) == 15


def test_sql_generation(capsys: Printed) -> None:
    sql_generation.main()
    assert capsys.readouterr().out == (
        "show me errors from yesterday: Query(sql=\"SELECT message FROM records WHERE level = 'error' AND "
        "date(created_at) = date('now', '-1 day')\", explanation='Errors of **yesterday**.') (2 answers)\n"
        "how many?: Refusal(reason='Of which?') (1 answers)\n"
    )


def test_the_model_gets_the_error_of_the_database() -> None:
    model = sql_generation.scripted()
    sql_generation.main(model)
    assert model.requests[1].messages[-1].text == "The query is invalid: no such column: time"
    assert (
        model.requests[0]
        .messages[0]
        .text.startswith("Write a query for SQLite. The table is:\n\nCREATE TABLE")
    )


def test_a_query_that_writes_is_never_returned() -> None:
    drop = '{"value": {"sql": "DROP TABLE records"}}'
    with pytest.raises(GuardrailError, match="rejected all 3 answers: Write a SELECT"):
        sql_generation.main(ScriptedChatModel([drop] * 3))


def test_question_graph(capsys: Printed) -> None:
    question_graph.main()
    assert capsys.readouterr().out == (
        "What is the capital of France? Lyon\n"
        "Wrong. It is Paris.\n"
        "How many legs has a spider? eight\n"
        "Right! Spiders have eight legs.\n"
        "What is the capital of France?\n"
        "Wrong. It is Paris.\n"
        "How many legs has a spider?\n"
        "Right! Spiders have eight legs.\n"
    )


def test_the_quiz_remembers_its_questions_in_the_next_process(tmp_path: Path) -> None:
    model = question_graph.scripted()
    for answer in (None, "Lyon", "eight"):
        with question_graph.SqliteChatMemoryStore(tmp_path / "quiz.db") as store:
            question_graph.step(question_graph.open_quiz(model, store), tmp_path / "question.txt", answer)
    third = [message.text for message in model.requests[2].messages]
    assert "What is the capital of France?" in third
    assert not (tmp_path / "question.txt").exists()


# --- the table in the documentation ---

# What both programs have only to run without a server and a person, and the data.
_DATA = {"PAGE", "FLIGHTS", "SCHEMA", "DB_SCHEMA", "SQL_EXAMPLES", "flights_web_page"}


class _Code(ast.NodeTransformer):
    """Removes docstrings, data, scripted replies, and the telemetry of logfire."""

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and node.value.value is not ...
        ):
            return None
        if isinstance(node, ast.FunctionDef) and node.name.startswith("scripted"):
            return None
        if isinstance(node, ast.Assign) and {getattr(one, "id", "") for one in node.targets} & _DATA:
            return None
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr)) and "logfire" in ast.unparse(node):
            return None
        if isinstance(node, ast.With) and "logfire" in ast.unparse(node.items[0]):
            return node.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.body:
            node.body = [ast.Pass()]
        return node


def size_of(source: str) -> tuple[int, int]:
    """Return the lines and characters of a program as ``ast.unparse`` writes it, without blank lines."""
    lines = ast.unparse(_Code().visit(ast.parse(source))).splitlines()
    code = [line.strip() for line in lines if line.strip()]
    return len(code), sum(map(len, code))


def test_the_table_has_the_sizes_of_the_samples() -> None:
    page = (ROOT / "docs" / "move" / "pydantic-ai.md").read_text("utf-8")
    row = re.compile(r"^\| .* \| `(samples/\w+\.py)` \| [\d,]+ \| ([\d,]+) \| [\d,]+ \| ([\d,]+) \|$", re.M)
    rows = row.findall(page)
    sizes = {name: (int(lines), int(characters.replace(",", ""))) for name, lines, characters in rows}
    names = ("bank_support", "flight_booking", "sql_generation", "question_graph")
    paths = [f"samples/{name}.py" for name in names]
    assert sizes == {path: size_of((ROOT / path).read_text("utf-8")) for path in paths}


def test_the_size_of_a_program_is_that_of_its_code() -> None:
    source = '''
"""Doc."""
import logfire
from json import (
    dumps,
)

PAGE = "x" * 9


def scripted(): ...


def f(a):  # comment
    """Doc."""


with logfire.span("x"):
    f(1)
'''
    code = ["from json import dumps", "def f(a):", "pass", "f(1)"]
    assert size_of(source) == (4, len("".join(code)))
