"""Answer equal questions once: ``python -m samples.cache``. A second run sends no request at all."""

from __future__ import annotations

import sys
from typing import Literal, Protocol

from aiservices import ResponseCache, Result, create, user_message

MESSAGES = ["My parcel is late.", "I was charged twice.", "My parcel is late."]


class Desk(Protocol):
    @user_message("Which team handles this message?\n\n{{text}}")
    def team(self, text: str) -> Result[Literal["billing", "shipping"]]: ...


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    with ResponseCache("replies.sqlite", expires=86400) as cache:
        desk = create(Desk, model, cache=cache)
        for message in MESSAGES:
            result = desk.team(message)
            print(f"{message} {result.value} ({'from the cache' if result.cached else 'asked'})")


if __name__ == "__main__":
    main()
