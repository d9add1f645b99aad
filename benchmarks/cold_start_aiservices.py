"""Prints the wall and CPU seconds from the first import to the first answer, with this library."""

import sys
import time

cpu, wall = time.process_time(), time.perf_counter()

from typing import Protocol  # noqa: E402

from pydantic import BaseModel  # noqa: E402

from aiservices import OpenAiChatModel, create, user_message  # noqa: E402


class Person(BaseModel):
    name: str
    age: int
    height: float
    married: bool


class Clerk(Protocol):
    @user_message("Who is meant? {{text}}")
    def person(self, text: str) -> Person: ...


with OpenAiChatModel("person", base_url=sys.argv[1], api_key="none-is-needed") as model:
    assert create(Clerk, model).person("Grace Hopper").age == 45
    print(time.perf_counter() - wall, time.process_time() - cpu)
