import json
from typing import Protocol

import pytest

from aiservices import AiMessage, DefinitionError, Message, SystemMessage, UserMessage, create, user_message
from aiservices.models.scripted import ScriptedChatModel
from aiservices.testing import Case, FakeChatModel, Judge, evaluate


def judged(*satisfied: bool) -> str:
    return json.dumps(
        {
            f"criterion_{number}": {"reason": f"reason {number}", "satisfied": one}
            for number, one in enumerate(satisfied, 1)
        }
    )


class Desk(Protocol):
    @user_message("{{question}}")
    def reply(self, question: str) -> str: ...


def test_a_check_names_the_criteria_that_are_not_satisfied_with_their_reasons() -> None:
    model = ScriptedChatModel([judged(True, False), judged(True, True)])
    with pytest.raises(AssertionError) as caught:
        Judge(model).check("It is on Friday.", "is polite", "mentions no date", given="When?")
    assert str(caught.value) == (
        "1 of 2 criteria are not satisfied:\n- mentions no date: reason 2\nThe text: It is on Friday."
    )
    Judge(model).check("Sorry.", "is polite", "mentions no date")


def test_a_judge_sees_the_criteria_the_conversation_and_the_sources_in_one_request() -> None:
    model = FakeChatModel()
    given: list[Message] = [SystemMessage("Be kind."), UserMessage("When?"), AiMessage("Which one?")]
    Judge(model).verdicts("Friday", "is kind", "names a day", given=given, based_on=["It is on Friday."])
    (request,) = model.requests
    text = request.messages[-1].text
    for part in ("criterion_1: is kind", "criterion_2: names a day", "System: Be kind.", "User: When?"):
        assert part in text
    assert "<source>\nIt is on Friday.\n</source>" in text
    assert text.endswith("<text>\nFriday\n</text>")


@pytest.mark.parametrize("criteria", [(), ("",), ("is kind", 3)])
def test_criteria_are_texts(criteria: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError, match=r"Judge: criteria is .*write texts"):
        Judge(FakeChatModel()).verdicts("x", *criteria)


def test_a_report_has_the_reasons_of_a_judge_and_its_tokens_apart() -> None:
    desk = create(Desk, ScriptedChatModel(["Yes.", "No."]))
    judge = Judge(ScriptedChatModel([judged(True, True), judged(False, True)]))
    cases: list[Case[str]] = [Case({"question": "Open?"}, name="a"), Case({"question": "Closed?"}, name="b")]
    report = evaluate(desk.reply, cases, [judge.scorer("agrees", "is short")], max_concurrency=1)
    assert [outcome.scores["judge"] for outcome in report.outcomes] == [True, False]
    assert [dict(outcome.reasons) for outcome in report.outcomes] == [{}, {"judge": "reason 1"}]
    assert "b, judge: reason 1" in str(report)
    assert (report.usage.output_tokens, report.judge_usage.output_tokens) == (2, 24)
