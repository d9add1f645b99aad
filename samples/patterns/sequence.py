"""Sequence: each service gets what the one before it wrote."""

from __future__ import annotations

import sys
from typing import Protocol

from aiservices import ChatModel, create, user_message

from .scripts import scripted


class Writer(Protocol):
    @user_message("Write a story of three sentences about {{topic}}.")
    def draft(self, topic: str) -> str: ...

    @user_message("Rewrite this story for {{audience}}.\n\n{{story}}")
    def adapt(self, story: str, audience: str) -> str: ...

    @user_message("Rewrite this story in the style of {{style}}.\n\n{{story}}")
    def restyle(self, story: str, style: str) -> str: ...


def novel(writer: Writer, topic: str, style: str, audience: str | None = None) -> str:
    """Write a story. The step for the audience is optional."""
    story = writer.draft(topic)
    if audience is not None:
        story = writer.adapt(story, audience)
    return writer.restyle(story, style)


def main(model: ChatModel | str | None = None) -> None:
    """Print a story with and one without an audience. Without a model, a scripted one answers."""
    writer = create(Writer, model or scripted("sequence"))
    print(novel(writer, "dragons and wizards", "a fairy tale", "young adults"))
    print(novel(writer, "dragons and wizards", "a fairy tale"))


if __name__ == "__main__":
    main(*sys.argv[1:2])
