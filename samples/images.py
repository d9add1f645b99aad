"""Images as arguments, placed where the prompt names them or after it. Audio and files work the same way."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatModel, Image, create, preview, user_message


@dataclass
class Difference:
    feature: str
    in_first: str
    in_second: str


class ImageReader(Protocol):
    @user_message("Which colour does this picture have: {{picture}}? Answer in {{language}}.")
    def colour(self, picture: Image, language: str) -> str: ...

    @user_message("How do these pictures differ?")
    def differences(self, *pictures: Image) -> list[Difference]: ...


def coloured(red: int, green: int, blue: int, side: int = 64) -> Image:
    """Return a square of one colour as a PNG. Programs usually call Image.from_path("photo.jpg")."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\x00" + bytes((red, green, blue)) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return Image.from_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def main(model: ChatModel | str | None = None) -> None:
    """Print the message; with a ``model`` such as "openai:gpt-5-mini", also its answers."""
    reader = create(ImageReader, model or "openai:gpt-5-mini")
    red, blue = coloured(200, 0, 0), coloured(0, 0, 200)
    (message,) = preview(reader.colour, red, "French").messages
    print(message.text)
    for part in getattr(message, "parts", ()):
        print("  ", part)
    if model is not None:
        print(reader.colour(red, "French"))
        for difference in reader.differences(red, blue):
            print(f"{difference.feature}: {difference.in_first} / {difference.in_second}")


if __name__ == "__main__":
    main()
