"""Stream[T]: a record while the model writes it, events for complete fields, and the Result at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import AttemptStarted, ChatModel, Completed, FieldCompleted, Stream, create, user_message

from .program import run


@dataclass
class City:
    name: str  # Text without constraints is shown piece by piece, everything else when it is complete.
    population: int
    sights: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=3)]


class Guide(Protocol):
    # AsyncStream[City] is for event loops. Methods that return a stream use def, not async def.
    @user_message("Describe the city {{name}}.")
    def city(self, name: str) -> Stream[City]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print two cities while the model writes them. ``model`` is passed to ``create``."""
    guide = create(Guide, model)
    with guide.city("New York") as stream:  # Leaving the block early ends the request.
        last: object = None
        for snapshot in stream:
            if snapshot.to_python() != last:  # Some pieces of the reply do not change the value.
                last = snapshot.to_python()
                print(last, "| population is complete:", snapshot.is_done("population"))
    print(stream.result().value)
    for event in guide.city("Rome").events():
        match event:
            case AttemptStarted():  # A second attempt starts the value from the beginning.
                print(f"attempt {event.number} with {event.strategy}")
            case FieldCompleted(name, value):
                print(f"  {name}: {value!r}")
            case Completed(result):
                print(f"complete after {len(result.attempts)} attempt: {result.value.name}")


if __name__ == "__main__":
    run(main)
