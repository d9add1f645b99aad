"""Loop until good: a reviewer judges the text, and an editor improves it, until it is good enough."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import ChatModel, create, user_message

from .scripts import scripted


@dataclass
class Review:
    score: Annotated[float, Field(ge=0, le=1)]
    advice: str


class Studio(Protocol):
    @user_message("How well does this story fit the style of {{style}}?\n\n{{story}}")
    def review(self, story: str, style: str) -> Review: ...

    @user_message("Improve this story in the style of {{style}}. {{advice}}\n\n{{story}}")
    def edit(self, story: str, style: str, advice: str) -> str: ...


def improved(studio: Studio, story: str, style: str, rounds: int = 5) -> str:
    """Improve a story until its score is 0.8. After the last round, return the story as it is then."""
    for _ in range(rounds):
        review = studio.review(story, style)
        print(f"{review.score}: {story}")
        if review.score >= 0.8:
            break
        story = studio.edit(story, style, review.advice)
    return story


def main(model: ChatModel | str | None = None) -> None:
    """Print each version of a story, and the last one. Without a model, a scripted one answers."""
    print("→", improved(create(Studio, model or scripted("loop")), "A dragon met a wizard.", "a comedy"))


if __name__ == "__main__":
    main(*sys.argv[1:2])
