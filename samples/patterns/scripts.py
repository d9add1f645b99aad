"""The replies of the scripted models in this folder, so that the samples run without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aiservices import AiMessage, ChatReply, ChatRequest, ScriptedChatModel, ToolCall


def scripted(name: str) -> ScriptedChatModel:
    """Return the scripted model of a sample."""

    def reply(request: ChatRequest) -> str | ChatReply:
        prompt = "\n".join([message.text for message in request.messages[:2]])
        replies = next(replies for words, replies in SCRIPTS[name].items() if words in prompt)
        return replies[sum(isinstance(message, AiMessage) for message in request.messages)]

    return ScriptedChatModel(reply)


def tool_call(number: int, tool: str, /, **arguments: Any) -> ChatReply:
    """Return a reply that calls a tool."""
    return ChatReply(AiMessage("", (ToolCall(f"call_{number}", tool, json.dumps(arguments)),)))


def value(content: object) -> str:
    """Return a reply with a value that is not a record."""
    return json.dumps({"value": content})


def review(score: float, advice: str) -> str:
    """Return a review of a story."""
    return json.dumps({"score": score, "advice": advice})


def position(argument: str, *, agrees: bool) -> str:
    """Return what a debater says."""
    return json.dumps({"argument": argument, "agrees": agrees})


# For each sample: words in a prompt, and the replies to it, one for each round of its call.
SCRIPTS: dict[str, dict[str, Sequence[str | ChatReply]]] = {
    "sequence": {
        "Write a story": ["A dragon met a wizard."],
        "for young adults": ["At school, a dragon met a wizard."],
        "a fairy tale.\n\nAt school": ["Once upon a time, at school, a dragon met a wizard."],
        "a fairy tale": ["Once upon a time, a dragon met a wizard."],
    },
    "loop": {
        "Improve this story": ["A dragon met a wizard, and asked for a light."],
        "asked for a light": [review(0.9, "")],
        "How well does": [review(0.2, "Add a joke.")],
    },
    "parallel": {
        "meals": [value(["fondue", "risotto", "oysters"])],
        "films": [value(["Casablanca", "Amélie", "Notting Hill"])],
    },
    "router": {
        "if any?\n\nI broke my leg": [value("medicine")],
        "if any?\n\nWhich colour": [value(None)],
        "an expert in medicine": ["Do not move it, and call an ambulance."],
    },
    "supervisor": {
        "Do what the customer wants": [
            tool_call(1, "exchange", amount=100, currency="EUR"),
            tool_call(2, "withdraw", user="Mario", dollars=115),
            tool_call(3, "credit", user="Georgios", dollars=115),
            "115 dollars went from Mario to Georgios.",
        ],
        "Withdraw": [tool_call(1, "book", user="Mario", dollars=-115), "Mario has 885 dollars."],
        "Credit": [tool_call(1, "book", user="Georgios", dollars=115), "Georgios has 1115 dollars."],
    },
    "goals": {
        "Who writes this?": ["Mario"],
        "Which sign": ["Pisces"],
        "Write the horoscope of Mario, who is a Pisces": ["Today a fish will smile at you."],
        "Tell Mario": ["Mario, if a fish smiles at you, smile back."],
    },
    "blackboard": {
        "Summarize": ["They radiate."],
        "that fits: They radiate. Nobody": ["They shrink as they radiate."],
        "that fits: They radiate.": ["They glow."],
        "Criticize": ["Nobody has seen it."],
        "from 0 to 1? They glow": [value(0.3)],
        "from 0 to 1? They shrink": [value(0.9)],
    },
    "voting": {
        "a linguist": [value("neutral")],
        "a psychologist": [value("negative")],
        "an analyst": [value("negative")],
    },
    "debate": {
        "the view of utility: May one sell AI art without naming the tool?\n\nutility": [
            position("Trust is useful, too, so name it.", agrees=False)
        ],
        "the view of utility": [position("Nobody is harmed.", agrees=True)],
        "the view of duty": [position("Buyers have a right to know.", agrees=False)],
        "the view of practice": [position("Secrets come out.", agrees=False)],
        "Decide": ["No. Name the tool."],
    },
    "person_in_the_loop": {
        "I am Mario": [
            tool_call(1, "horoscope", name="Mario"),
            "Hello Mario! Today a fish will smile at you.",
        ],
        "Write a horoscope for Mario": [
            tool_call(1, "ask_person", question="What is your sign of the zodiac?"),
            "Today a fish will smile at you.",
        ],
    },
    "recovery": {
        "Which number": [value(17)],
        "Dispatch order 17": [tool_call(1, "dispatch", number=17), "Order 17 is on its way."],
    },
}
