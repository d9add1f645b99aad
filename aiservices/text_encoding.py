"""Recognize the encoding of a text file from its content.

A byte order mark gives the encoding. Without one it is UTF-16 if every second byte is zero, else UTF-8 if the
whole file is valid, else Windows-1252 if the text looks like a Western European language.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH = re.compile(rb"[\x80-\xff]")
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Control characters, a symbol inside a word, or a word of letters that are rare in Western Europe.
_NOT_WESTERN = re.compile(
    r"[\x00-\x08\x0e-\x1f]|[^\W\d_][¤¦¨¬¯±²³¸¹¼½¾¿×÷][^\W\d_]|[^\x00-\x7f]{3}",
)


def marked_encoding(start: bytes) -> str | None:
    """Return the encoding that the byte order mark of a file states; None without a mark."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def recognized_encoding(chunks: Callable[[], Iterable[bytes]]) -> str:
    """Return the encoding of a file, whose content ``chunks`` returns each time from its beginning.

    Raises UnicodeDecodeError if it cannot be recognized.
    """
    start = next(iter(chunks()), b"")[:4096]
    marked = marked_encoding(start)
    if marked is not None:
        return marked
    for position, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(start) >= 4 and start[position::2].count(0) > 0.7 * (len(start) // 2):
            return encoding
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks():
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        if _is_western(chunks()):
            return "cp1252"
        raise
    return "utf-8-sig"


def _is_western(chunks: Iterable[bytes]) -> bool:
    """Return True for text that is probably Windows-1252, and not UTF-8 with a mistake."""
    high = pairs = 0
    for chunk in chunks:
        try:
            text = chunk.decode("cp1252")
        except UnicodeDecodeError:
            return False
        if _NOT_WESTERN.search(text):
            return False
        sequences = _UTF8.findall(chunk)
        pairs += len(sequences)
        high += len(_HIGH.findall(chunk)) - sum(map(len, sequences))
    return high > pairs
