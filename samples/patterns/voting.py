"""Voting: several services answer the same question, and the majority decides."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Literal, Protocol

from aiservices import ChatModel, create, system_message, user_message

from .scripts import scripted

Sentiment = Literal["positive", "negative", "neutral"]
VOTERS = ("a linguist", "a psychologist", "an analyst of customer feedback")


@system_message("You are {{voter}}.")
class Voter(Protocol):
    @user_message("What is the sentiment of this text?\n\n{{text}}")
    async def vote(self, voter: str, text: str) -> Sentiment: ...


async def majority(voter: Voter, text: str) -> Sentiment:
    """Ask all voters at the same time, and return the most frequent answer."""
    votes = await asyncio.gather(*[voter.vote(name, text) for name in VOTERS])
    print(dict(zip(VOTERS, votes, strict=True)))
    return Counter(votes).most_common(1)[0][0]


def main(model: ChatModel | str | None = None) -> None:
    """Print the votes and the decision. Without a model, a scripted one answers."""
    voter = create(Voter, model or scripted("voting"))
    print("→", asyncio.run(majority(voter, "Well, it did not break at once.")))


if __name__ == "__main__":
    main(*sys.argv[1:2])
