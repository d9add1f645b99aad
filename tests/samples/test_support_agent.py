"""The support agent sample prints the right lines and keeps customers apart."""

from __future__ import annotations

import pytest

from aiservices import ScriptedChatModel, UserMessage
from samples import support_agent

Printed = pytest.CaptureFixture[str]


def test_support_agent(capsys: Printed) -> None:
    support_agent.main()
    assert capsys.readouterr().out == SUPPORT


def test_the_conversation_of_a_customer_does_not_contain_messages_of_another() -> None:
    model = support_agent.scripted()
    support_agent.main(model)
    ben = model.requests[4].messages
    assert [message.text for message in ben[1:]] == ["I want the money for order 17 as well."]
    ann = model.requests[7].messages
    assert [message.text for message in ann if isinstance(message, UserMessage)] == [
        "The lamp of order 17 flickers.",
        "Then I would like my money back.",
        "Which lamp was it?",
    ]


def test_without_a_refund_no_approval_is_needed(capsys: Printed) -> None:
    reply = support_agent.answer("Yes.", support_agent.Topic.ORDER)
    support_agent.main(ScriptedChatModel([reply] * 4))
    assert capsys.readouterr().out == (
        "ann: The lamp of order 17 flickers.\n  ORDER: Yes.\n"
        "ann: Then I would like my money back.\n  ORDER: Yes.\n"
        "ben: I want the money for order 17 as well.\n  ORDER: Yes.\n"
        "ann: Which lamp was it?\n  ORDER: Yes.\n"
        "stored for ann: 6 messages\nstored for ben: 2 messages\n"
    )


def test_the_customer_is_not_a_parameter_of_the_tools_that_the_model_sees() -> None:
    model = support_agent.scripted()
    support_agent.main(model)
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert {tool.name: list(tool.parameters["properties"]) for tool in tooling.tools} == {
        "order": ["number"],
        "warranty": ["number"],
        "refund": ["number"],
    }


def test_an_old_lamp_is_out_of_warranty() -> None:
    assert support_agent.warranty(23, "ben") == "the warranty ended on 12 March 2024"


SUPPORT = """\
ann: The lamp of order 17 flickers.
  order({"number": 17}) → {"customer":"ann","article":"desk lamp","euros":40.0,"delivered":"2025-09-01"}
  warranty({"number": 17}) → under warranty until 01 September 2027
  WARRANTY: Your desk lamp is under warranty. Shall I refund it?
ann: Then I would like my money back.
  waits: refund({"number": 17})
ben: I want the money for order 17 as well.
  order({"number": 17}) → This customer has no order 17.
  REFUND, for a human: You have no order 17. A colleague will write to you.
the refund is approved
  refund({"number": 17}) → 40.00 euros are on their way.
  REFUND: The 40 euros for your lamp are on their way.
ann: Which lamp was it?
  ORDER: It was your desk lamp, order 17.
stored for ann: 12 messages
stored for ben: 4 messages
"""
