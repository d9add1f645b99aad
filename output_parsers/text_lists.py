"""Splits a text that lists things into its items."""

from __future__ import annotations

from .late_pattern import late

__all__ = ["split_items"]

_BULLET = late(r"[ \t]*(?:[-*+•‣◦]|\d{1,4}[.)])[ \t]+(.*)")
# One number with thousands separators, or several numbers without a space.
_GROUPED = late(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?!\d)")


def split_items(text: str) -> list[str] | None:
    """The items of a text in which every line is an item, or whose one line has commas; None for others.

    Either all lines carry a bullet or a number, or none does. ``1,234`` may be one item or two.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    bullets = [_BULLET.fullmatch(line) for line in lines]
    if all(bullets):
        return [bullet[1].strip() for bullet in bullets if bullet is not None]
    if any(bullets):
        return None
    if len(lines) == 1:
        parts = [part.strip() for part in lines[0].split(",")]
        return parts if len(parts) > 1 and all(parts) and not _GROUPED.search(lines[0]) else None
    return [line.strip() for line in lines]
