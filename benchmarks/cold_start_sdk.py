"""Prints the wall and CPU seconds from the first import to the first answer, with the OpenAI SDK."""

import sys
import time

cpu, wall = time.process_time(), time.perf_counter()

from typing import Any  # noqa: E402

import openai  # noqa: E402
from pydantic import BaseModel  # noqa: E402


class Person(BaseModel):
    name: str
    age: int
    height: float
    married: bool


with openai.OpenAI(base_url=sys.argv[1], api_key="none-is-needed") as client:
    schema: Any = {"name": "Person", "schema": Person.model_json_schema(), "strict": True}
    reply = client.chat.completions.create(
        model="person",
        messages=[{"role": "user", "content": "Who is meant? Grace Hopper"}],
        response_format={"type": "json_schema", "json_schema": schema},
    )
    assert Person.model_validate_json(reply.choices[0].message.content or "").age == 45
    print(time.perf_counter() - wall, time.process_time() - cpu)
