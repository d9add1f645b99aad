"""The agent samples print the right lines and send the right requests."""

from __future__ import annotations

import json

import pytest

from aiservices import AiMessage, ChatReply, ScriptedChatModel, ServiceOutputError, ToolCall, ToolMessage
from samples import agent_profile, agent_with_citations, werewolf_seer


def test_agent_with_citations(capsys: pytest.CaptureFixture[str]) -> None:
    agent_with_citations.main()
    assert capsys.readouterr().out == (
        "May the army put soldiers up in my house?\n"
        '  search({"query": "soldier quartered house"}) found 3, 4\n'
        "  In peace only if you consent; in war as the law says.\n"
        "  [3] No Soldier shall, in time of peace be quartered in any house, without the consen…\n"
        "Does a jury decide, and may I have a lawyer?\n"
        '  search({"query": "jury trial counsel"}) found 6, 7\n'
        "  Yes to both, where you are accused of a crime.\n"
        "  [6] In all criminal prosecutions, the accused shall enjoy the right to a speedy and …\n"
    )


def test_the_answer_is_a_tool_next_to_the_search() -> None:
    model = agent_with_citations.scripted()
    agent_with_citations.main(model)
    first, second, *_ = model.requests
    assert first.tooling is not None
    assert [tool.name for tool in first.tooling.tools] == ["search", "Response"]
    passages = json.loads(second.messages[-1].text)
    assert [passage["id"] for passage in passages] == [3, 4]
    assert passages[0]["text"].startswith("No Soldier shall, in time of peace be quartered in any house")


def tool_call(tool: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def test_an_answer_in_plain_text_is_retried_and_then_an_error() -> None:
    model = ScriptedChatModel(["Only if you consent."] * 3)
    with pytest.raises(ServiceOutputError) as caught:
        agent_with_citations.main(model)
    assert [attempt.text for attempt in caught.value.attempts] == ["Only if you consent."] * 3


def test_the_model_may_answer_without_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    agent_with_citations.main(ScriptedChatModel([tool_call("Response", answer="Yes.", sources=[])] * 2))
    assert capsys.readouterr().out == (
        "May the army put soldiers up in my house?\n  Yes.\n"
        "Does a jury decide, and may I have a lawyer?\n  Yes.\n"
    )


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("soldiers in houses", [3, 4]),
        ("freedom of speech and religion", [1]),
        ("bail", [8]),
        ("unreasonable searches and seizures", [4]),
        ("telephone", []),
    ],
)
def test_the_retriever_finds_the_passages_that_share_rare_words(query: str, ids: list[int]) -> None:
    assert [passage.id for passage in agent_with_citations.search(query)] == ids


def test_agent_profile(capsys: pytest.CaptureFixture[str]) -> None:
    agent_profile.main()
    article = agent_profile.ENCYCLOPEDIA["Albert Einstein"]
    answer = (
        '"response": "Albert Einstein was the physicist who gave us relativity.", "name": "Albert Einstein"'
    )
    rest = '"field": "physics", "honors": ["Nobel Prize in Physics 1921"]'
    assert capsys.readouterr().out == (
        "(Friday is about to call look_up)\n"
        "1. First I look him up.\n"
        f'   look_up({{"person": "Albert Einstein"}}) → {article}\n'
        f'2. generate_response({{{answer}, "age": 176, {rest}}})\n'
        "   rejected: $.age: input should be less than or equal to 120, found 176\n"
        f'3. generate_response({{{answer}, "age": 76, {rest}}})\n'
        "Friday: Albert Einstein was the physicist who gave us relativity.\n"
        "Profile(name='Albert Einstein', age=76, field='physics', honors=['Nobel Prize in Physics 1921'])\n"
        "You are welcome.\n"
    )


def test_the_constraints_of_the_profile_are_sent_and_enforced() -> None:
    model = agent_profile.scripted()
    agent_profile.main(model)
    tooling = model.requests[0].tooling
    assert tooling is not None
    finish = tooling.tools[1]
    assert finish.name == "generate_response"
    assert finish.parameters["properties"]["age"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 120,
        "description": "in years, at death",
    }
    assert model.requests[2].messages[-1] == ToolMessage(
        "call_1",
        "generate_response",
        "That answer cannot be read:\n- $.age: input should be less than or equal to 120, found 176\n"
        "Answer again in full and fix these problems.",
    )


def test_werewolf_seer(capsys: pytest.CaptureFixture[str]) -> None:
    werewolf_seer.main()
    assert capsys.readouterr().out == (
        "night   rejected: cannot read the text: $: these required keys are missing: player, "
        "found an object with thought "
        '(the text: \'```json\\n{"thought": "Bob was quiet all day."}\\n```\')\n'
        "night   public: None; for the game: Bob\n"
        "day     public: I do not trust Bob. Let us vote for him. "
        "For the game: {'agreed': False}\n"
        "day     public: Then it is Bob. For the game: {'agreed': True}\n"
        "memory  UserMessage: It is night. Whose role do you want to see?\n"
        'memory  AiMessage: {"thought": "Bob was quiet all day.", "player": "Bob"}\n'
        "memory  UserMessage: Bob is a werewolf. It is day. What do you say?\n"
        'memory  AiMessage: {"thought": "If I say all I know, I am the next one.", '
        '"speak": "I do not trust Bob. Let us vote for him."}\n'
        "memory  UserMessage: Cem: I am with you. Dora: So am I.\n"
        'memory  AiMessage: {"thought": "They believe me.", "speak": "Then it is Bob."}\n'
    )


def test_the_seer_gets_the_format_and_the_missing_key() -> None:
    model = ScriptedChatModel(werewolf_seer.SCRIPT)
    werewolf_seer.main(model)
    prompts = [request.messages[-1].text for request in model.requests]
    assert prompts[0] == (
        "It is night. Whose role do you want to see?\n\n"
        "Reply with a JSON object in a fenced block, as follows:\n"
        '```json\n{"thought": "what you think", "player": "whose role you want to see"}\n```\n'
        "It must have these keys: thought, player."
    )
    assert "- $: these required keys are missing: player" in prompts[1]
    assert "[SPEAK]what you say to all[/SPEAK]" in prompts[2]
