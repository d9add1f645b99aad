"""Stream[T]: a record while the model writes it, what of it is complete, and the Result at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import AttemptStarted, ChatModel, Completed, FieldCompleted, Stream, create, user_message


@dataclass
class City:
    name: str  # shown piece by piece; text with a limit, as all else, is shown when it is complete
    population: int
    sights: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=3)]


class Guide(Protocol):
    # AsyncStream[City] is the same for an event loop; both with def, not async def.
    @user_message("Describe the city {{name}}.")
    def city(self, name: str) -> Stream[City]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print two cities while they are written. ``model`` is as in ``create``."""
    guide = create(Guide, model)
    with guide.city("New York") as stream:  # leaving the block early would end the request
        shown: object = None
        for snapshot in stream:
            if snapshot.to_python() != shown:  # a piece of the reply may add nothing to the value
                shown = snapshot.to_python()
                print(shown, "| population is known:", snapshot.is_done("population"))
    print(stream.result().value)
    for event in guide.city("Rome").events():
        match event:
            case AttemptStarted():  # from the second one on: forget what was shown
                print(f"attempt {event.number}, asked by {event.strategy}")
            case FieldCompleted(name, value):
                print(f"  {name}: {value!r}")
            case Completed(result):
                print(f"whole after {len(result.attempts)} attempt: {result.value.name}")


if __name__ == "__main__":
    main()
