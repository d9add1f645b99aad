"""The patterns of JSON tokens, for complete texts and for texts that are still being written."""

from ..lazy_regex import lazy_regex

SPACE = r"[ \t\r\n]*+"
_ANY_SPACE = r"\s\ufeff\u200b-\u200f\u202a-\u202e\u2060-\u2064\u00ad\u180e"
ANY_SPACE = f"[{_ANY_SPACE}]"  # one character of the white space that models write
NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
LITERALS = {"true": True, "false": False, "null": None}
LITERAL = "|".join(LITERALS)
# An escape on which all readers agree, whatever else is in the string.
CERTAIN_ESCAPE = (
    r"\\(?:[\"\\/nrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_KEY_WORD = r"""[^\s,:{}\[\]()"'`“”‘’=\\\x00-\x1f\ud800-\udfff]++"""
BARE_KEY = lazy_regex(rf"{_KEY_WORD}(?:[ \t]++{_KEY_WORD})*+")
SPACE_AT_END = lazy_regex(rf"{ANY_SPACE}++\Z")
COMMENT_START = rf"(?://|/\*|\#{ANY_SPACE})"


def plain_text(quote: str) -> str:
    """Return the pattern of text without escapes in a string with the given quotes."""
    return rf"[^{quote}\\\x00-\x1f\ud800-\udfff]*+"


def with_any_space(pattern: str) -> str:
    """Return a pattern whose white space includes the characters without width that models write.

    White space is repeated in it, or inside a set of characters.
    """
    repeated = pattern.replace(r"\s*", f"{ANY_SPACE}*").replace(r"\s+", f"{ANY_SPACE}+")
    return repeated.replace(_ANY_SPACE, r"\s").replace(r"\s", _ANY_SPACE)
