"""A player in a werewolf game, whose reply has parts for her memory, the other players and the game."""

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


# By night nothing is public. The game gets the player whose role the seer wants to see.
NIGHT = MarkdownJsonDictParser(
    {"thought": "what you think", "player": "whose role you want to see"},
    required_keys=("thought", "player"),
    keys_to_memory=("thought", "player"),
    keys_to_content=False,
    keys_to_metadata="player",
)
# By day the others hear "speak", and the game gets "agreed".
DAY = MultiTaggedContentParser(
    TaggedContent("thought", "[THOUGHT]", "what you think", "[/THOUGHT]"),
    TaggedContent("speak", "[SPEAK]", "what you say to all", "[/SPEAK]"),
    TaggedContent("agreed", "[AGREED]", "true or false", "[/AGREED]", parse_json=True),
    keys_to_memory=("thought", "speak"),
    keys_to_content="speak",
    keys_to_metadata=("agreed",),
)
SCRIPT = (
    '```json\n{"thought": "Bob was quiet all day."}\n```',  # The player is missing, so the service retries.
    '```json\n{"thought": "Bob was quiet all day.", "player": "Bob"}\n```',
    "[THOUGHT]If I say all I know, I am the next one.[/THOUGHT]\n"
    "[SPEAK]I do not trust Bob. Let us vote for him.[/SPEAK]\n[AGREED]false[/AGREED]",
    "[THOUGHT]They believe me.[/THOUGHT] [SPEAK]Then it is Bob.[/SPEAK] [AGREED]true[/AGREED]",
)


def game_parsers(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
    """Return the parser for the type Night or Day, or None for other types."""
    if target.type is Night:
        return NIGHT
    return DAY if target.type is Day else None


@system_message("You are Ann, the seer in a game of werewolf with Bob, Cem and Dora.")
class Seer(Protocol):
    @user_message("{{message}}")
    def by_night(self, message: str, memory: Annotated[list[Message], History]) -> Result[Night]: ...

    @user_message("{{message}}")
    def by_day(self, message: str, memory: Annotated[list[Message], History]) -> Day: ...


def remember(memory: list[Message], message: str, answer: object) -> None:
    """Add a message and the remembered part of the answer to the memory of the seer."""
    memory += [UserMessage(message), AiMessage(json.dumps(answer))]


def main(model: ChatModel | str | None = None) -> None:
    """Print a night and a day of the game. Without a model, a scripted one answers."""
    seer = create(Seer, model or ScriptedChatModel(SCRIPT), parsers=[game_parsers])
    memory: list[Message] = []

    message = "It is night. Whose role do you want to see?"
    result = seer.by_night(message, memory)
    for attempt in result.attempts:
        if attempt.error is not None:
            print(f"night   rejected: {attempt.error}")
    night = result.value
    remember(memory, message, NIGHT.to_memory(night))
    seen_player = NIGHT.to_metadata(night)
    print(f"night   public: {NIGHT.to_content(night)}; for the game: {seen_player}")

    message = f"{seen_player} is a {ROLES.get(seen_player, 'stranger')}. It is day. What do you say?"
    for _ in range(3):
        day = seer.by_day(message, memory)
        remember(memory, message, DAY.to_memory(day))
        print(f"day     public: {DAY.to_content(day)} For the game: {DAY.to_metadata(day)}")
        if day["agreed"]:
            break
        message = "Cem: I am with you. Dora: So am I."
    for entry in memory:
        print(f"memory  {type(entry).__name__}: {entry.text}")


if __name__ == "__main__":
    main()
