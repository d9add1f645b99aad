"""The patterns of JSON tokens, for complete texts and for texts that are still being written."""

from ..lazy_regex import lazy_regex

SPACE = r"[ \t\r\n]*+"
ANY_SPACE = r"[\s\ufeff\u200b-\u200d\u2060]"  # one character of the white space that models write
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
COMMENT_START = r"(?://|/\*|\#\s)"


def plain_text(quote: str) -> str:
    """Return the pattern of text without escapes in a string with the given quotes."""
    return rf"[^{quote}\\\x00-\x1f\ud800-\udfff]*+"
