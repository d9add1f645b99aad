"""Users who change the state of a call that waits for approval, or send it twice."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pytest
from hypothesis import given, strategies as st

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatReply,
    ScriptedChatModel,
    SuspendedCall,
    SuspendedCallError,
    ToolCall,
    ToolLimitError,
    create,
    resume,
    tool,
)

KEY = "a secret of the program"
PAY = ChatReply(AiMessage("", (ToolCall("c1", "pay", '{"amount": 5}'),)))


class Desk(Protocol):
    def ask(self, text: str) -> str: ...


class Till:
    """A till whose tool ``pay`` needs approval."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool(needs_approval=True)
    def pay(self, amount: int) -> str:
        """Pay money."""
        self.paid.append(amount)
        return "paid"


def waiting(till: Till) -> tuple[Desk, SuspendedCall]:
    """Return a service and the state of its call, which waits for the approval of a payment."""
    desk = create(Desk, ScriptedChatModel([PAY, "Done.", "Done."]), tools=[till])
    with pytest.raises(ApprovalRequiredError) as caught:
        desk.ask("Pay 5.")
    return desk, caught.value.state


CHANGES: list[dict[str, Any]] = [
    {
        "exchanged": [
            {"type": "ai", "text": "", "tool_calls": [{"id": "c1", "name": "pay", "arguments": "{}"}]}
        ]
    },
    {"memory_id": "victim"},
    {"user_name": "victim"},
    {"rounds": -100},
    {"options": {"model": "the-most-expensive"}},
    {"options": {"extra_headers": {"x-admin": "1"}}},
    {"kept": {"memory": {}}},
    {"where": "Desk.other"},
    {"id": "another"},
    {"expires_at": None},
    {"signature": None},
    {"signature": 5},
    {"signature": "0" * 64},
    {"more": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_signed_state_that_was_changed_is_refused(change: dict[str, Any]) -> None:
    till = Till()
    _, state = waiting(till)
    signed = state.to_json(key=KEY, expires_after=60)
    with pytest.raises(SuspendedCallError):
        SuspendedCall.from_json(json.dumps({**json.loads(signed), **change}), key=KEY)
    assert SuspendedCall.from_json(signed, key=KEY).pending == ("c1",)
    assert till.paid == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
        '{"a": ' + "9" * 10_000 + "}",
        '{"place": "\\""}',
        '{"expires_at": ' + "9" * 400 + "}",
        "NaN",
        "\ud800",
        "",
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("key", [None, KEY])
def test_text_that_is_not_a_state_raises_one_error(text: str, key: str | None) -> None:
    with pytest.raises(SuspendedCallError):
        SuspendedCall.from_json(text, key=key)


STATE: dict[str, Any] = json.loads(waiting(Till())[1].to_json())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(STATE)), values)
def test_an_unsigned_state_with_any_value_in_it_is_read_or_refused(name: str, value: object) -> None:
    try:
        state = SuspendedCall.from_json(json.dumps({**STATE, name: value}))
    except SuspendedCallError:
        return
    desk = create(Desk, ScriptedChatModel(["Done."]), tools=[Till()])
    try:
        assert resume(desk.ask, state, True) == "Done."
    except (SuspendedCallError, ToolLimitError):  # the latter for a large number of rounds
        pass


def test_a_state_whose_signature_was_not_checked_cannot_be_resumed_here() -> None:
    till = Till()
    desk, state = waiting(till)
    unchecked = SuspendedCall.from_json(state.to_json(key=KEY), verify=False)
    with pytest.raises(SuspendedCallError) as caught:
        resume(desk.ask, unchecked, True)
    assert (
        str(caught.value) == "Desk.ask: the signature of the state was not checked; pass the key to from_json"
    )
    assert till.paid == []


def test_a_state_whose_signature_was_not_checked_is_sent_back_unchanged() -> None:
    _, state = waiting(Till())
    signed = state.to_json(key=KEY)
    unchecked = SuspendedCall.from_json(signed, verify=False)
    assert unchecked.to_json() == signed
    assert unchecked._replace(signed_text="") == state
    for changed in (unchecked._replace(memory_id="victim"), unchecked._replace(pending=())):
        with pytest.raises(ValueError, match=r"^the state was signed elsewhere and cannot be changed"):
            changed.to_json()
    with pytest.raises(ValueError, match=r"^the state was signed elsewhere and cannot be changed"):
        unchecked.to_json(key="another key")


def test_an_unsigned_state_is_not_read_without_verification() -> None:
    _, state = waiting(Till())
    with pytest.raises(SuspendedCallError) as caught:
        SuspendedCall.from_json(state.to_json(), verify=False)
    assert str(caught.value) == "the suspended call is not signed; do not pass verify=False"


def test_true_and_false_decide_about_all_pending_calls() -> None:
    for decision, paid in ((True, [5]), (False, [])):
        till = Till()
        desk, state = waiting(till)
        assert (resume(desk.ask, state, decision), till.paid) == ("Done.", paid)
