"""The seer of a werewolf game: what is parsed from a reply is kept, said aloud, or told to the game alone."""

from __future__ import annotations

import json
from typing import Annotated, Any, Protocol, TypedDict

from aiservices import (
    AiMessage,
    ChatModel,
    History,
    Message,
    Result,
    ScriptedChatModel,
    UserMessage,
    create,
    system_message,
    user_message,
)
from output_parsers import OutputParser, ParserRegistry, Target
from output_parsers.text import MarkdownJsonDictParser, MultiTaggedContentParser, TaggedContent

ROLES = {"Ann": "seer", "Bob": "werewolf", "Cem": "villager", "Dora": "villager"}


class Night(TypedDict):
    thought: str
    player: str


class Day(TypedDict):
    thought: str
    speak: str
    agreed: bool


# By night nobody hears the seer; the game is told whom to look at.
NIGHT = MarkdownJsonDictParser(
    {"thought": "what you think", "player": "whose role you want to see"},
    required_keys=("thought", "player"),
    keys_to_memory=("thought", "player"),
    keys_to_content=False,
    keys_to_metadata="player",
)
# By day the others hear what is said, and the game is told whether the talk is over.
DAY = MultiTaggedContentParser(
    TaggedContent("thought", "[THOUGHT]", "what you think", "[/THOUGHT]"),
    TaggedContent("speak", "[SPEAK]", "what you say to all", "[/SPEAK]"),
    TaggedContent("agreed", "[AGREED]", "true or false", "[/AGREED]", parse_json=True),
    keys_to_memory=("thought", "speak"),
    keys_to_content="speak",
    keys_to_metadata=("agreed",),
)
SCRIPT = (
    '```json\n{"thought": "Bob was quiet all day."}\n```',  # it forgets the player, and is asked again
    '```json\n{"thought": "Bob was quiet all day.", "player": "Bob"}\n```',
    "[THOUGHT]If I say all I know, I am the next one.[/THOUGHT]\n"
    "[SPEAK]I do not trust Bob. Let us vote for him.[/SPEAK]\n[AGREED]false[/AGREED]",
    "[THOUGHT]They believe me.[/THOUGHT] [SPEAK]Then it is Bob.[/SPEAK] [AGREED]true[/AGREED]",
)


def of_the_game(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
    """The parsers of the two phases, for ``create``."""
    if target.type is Night:
        return NIGHT
    return DAY if target.type is Day else None


@system_message("You are Ann, the seer in a game of werewolf with Bob, Cem and Dora.")
class Seer(Protocol):
    @user_message("{{said}}")
    def by_night(self, said: str, memory: Annotated[list[Message], History]) -> Result[Night]: ...

    @user_message("{{said}}")
    def by_day(self, said: str, memory: Annotated[list[Message], History]) -> Day: ...


def kept(memory: list[Message], said: str, remembered: object) -> None:
    """Put a question, and what the seer keeps of her answer, into her memory."""
    memory += [UserMessage(said), AiMessage(json.dumps(remembered))]


def main(model: ChatModel | str | None = None) -> None:
    """Print a night and a day. Without a model a scripted one is asked."""
    seer = create(Seer, model or ScriptedChatModel(SCRIPT), parsers=[of_the_game])
    memory: list[Message] = []

    said = "It is night. Whose role do you want to see?"
    result = seer.by_night(said, memory)
    for attempt in result.attempts:
        if attempt.error is not None:
            print(f"night   asked again: {attempt.error}")
    night = result.value
    kept(memory, said, NIGHT.to_memory(night))
    looked_at = NIGHT.to_metadata(night)
    print(f"night   the others hear: {NIGHT.to_content(night)}; the game is told: {looked_at}")

    said = f"{looked_at} is a {ROLES.get(looked_at, 'stranger')}. It is day. What do you say?"
    for _ in range(3):
        day = seer.by_day(said, memory)
        kept(memory, said, DAY.to_memory(day))
        print(f"day     the others hear: {DAY.to_content(day)} The game is told: {DAY.to_metadata(day)}")
        if day["agreed"]:
            break
        said = "Cem: I am with you. Dora: So am I."
    for message in memory:
        print(f"memory  {type(message).__name__}: {message.text}")


if __name__ == "__main__":
    main()
