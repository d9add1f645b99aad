"""A string that is still being written: what of it can be shown, and whether a quote ends it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from json import JSONDecoder

from ..json.result import JsonSyntaxError, RepairLog
from ..json.strings import decode_string
from ..result.reading import Json
from .builders import Container, Member, Moment
from .tokens import (
    CLEAN_RUN,
    CUT_MEMBER,
    NEXT,
    OPENING,
    TextPieces,
    Unread,
    end_of_blank,
    find_comment,
    read_growing_key,
    read_growing_word,
)

_CLEAN = r"[^{quote}\\\x00\ud800-\udfff]*+"
_ESCAPE = (
    r"\\(?:[\"'\\/nrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}"
    r"|u[dD][89abAB][0-9a-fA-F]{{2}}\\u[dD][c-fC-F][0-9a-fA-F]{{2}})"
)
# What means the same whatever follows it: clean text, and the escapes on which all readers agree.
_SHOWN = {q: re.compile(f"{_CLEAN}(?:{_ESCAPE}{_CLEAN})*+".format(quote=q)) for q in "\"'"}
_RAW = {q: re.compile(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.DOTALL) for q in "\"'"}
_PLAIN = JSONDecoder(strict=False)
_CUT_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)


class GrowingString:
    """The inside of a quoted string, as far as it has come.

    ``shown`` only ever gets longer: a prefix of what the whole string will mean. From the first doubtful
    escape on nothing more is shown until the end.
    """

    __slots__ = ("_held", "_raw", "inner", "quote", "shown")

    def __init__(self, quote: str) -> None:
        self.quote = quote
        self.shown = TextPieces()
        self.inner = 0  # quotes inside that are not escaped, apostrophes apart
        self._raw: list[str] = []
        self._held = False

    def advance(self, text: str, at: int) -> int:
        """Take in what stands from ``child`` up to the next quote, or to what cannot be judged yet."""
        if not self._held:
            found = _SHOWN[self.quote].match(text, at)
            end = found.end() if found else at
            if end > at:
                self._show(text[at:end])
            if end == len(text) or text[end] == self.quote or _CUT_ESCAPE.match(text, end):
                return end
            self._held = True
            at = end
        found = _RAW[self.quote].match(text, at)
        end = found.end() if found else at
        if end > at:
            self._raw.append(text[at:end])
        return end

    def _show(self, piece: str) -> None:
        self._raw.append(piece)
        if "\\" not in piece:
            self.shown.parts.append(piece)
        elif self.quote == '"' and "\\'" not in piece:
            # what _SHOWN lets through is JSON, control characters apart, and the standard library is faster
            self.shown.parts.append(_PLAIN.raw_decode(f'"{piece}"')[0])
        else:
            self.shown.parts.append(decode_string(piece, 0, RepairLog(), python=self.quote == "'"))

    def take_quote(self, after: str) -> None:
        """Take a quote, and what stands after it, for a part of the string."""
        apostrophe = self.quote == "'" and not self.empty and self._raw[-1][-1].isalnum() and after.isalnum()
        self.inner += not apostrophe
        self._raw.append(self.quote)
        if not self._held:
            self.shown.parts.append(self.quote)

    @property
    def empty(self) -> bool:
        return not self._raw

    def last_mark(self) -> str:
        """The last character that is no white space, "" when there is none."""
        for piece in reversed(self._raw):
            bare = piece.rstrip()
            if bare:
                return bare[-1]
        return ""

    def value(self) -> str:
        """The whole string, now that it is closed. Raises JsonSyntaxError where it cannot be read."""
        if self._held:
            return decode_string("".join(self._raw), 0, RepairLog(), python=self.quote == "'")
        return self.shown.so_far().join()


class Quote(Enum):
    """What a quote in a string is: its end, a part of it, not to be told yet, or not to be told at all."""

    ENDS = "ends"
    INSIDE = "inside"
    UNSEEN = "unseen"
    DOUBTFUL = "doubtful"


_SPACE = re.compile(r"[ \t\r\n]*+")
_COMMAS = re.compile(r"[ \t\r\n,]*+")
_QUOTED_KEY = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*+([:=])""", re.DOTALL)
_CUT_QUOTED_KEY = re.compile(r"""(?:"(?:[^"\\]|\\.)*+|'(?:[^'\\]|\\.)*+)(?:\\?\Z|["']\s*+\Z)""", re.DOTALL)
_BARE_KEY = re.compile(r"[\w$][\w$.-]*+(?:[ ][\w$-]++){0,3}\s*+(?::(?!//)|=)")
_CUT_BARE_KEY = re.compile(r"[\w$][\w$.-]*+(?:[ ][\w$-]*+){0,4}\s*+(?::/?)?\Z")
_LIST_WORD = re.compile(r"""[^"'`\n{}\[\],]*+""")
_COMMENT = re.compile(r"/\*|//|#\s")


def judge_quote(text: str, at: int, closer: str, string: GrowingString) -> Quote:
    """What the quote at ``child`` is, by what follows it; ``closer`` closes the container of the string.

    It is judged as the reader of whole texts judges it; where that would weigh more than is seen here, the
    quote is DOUBTFUL.
    """
    found = _SPACE.match(text, at + 1)
    after = found.end() if found else at + 1
    mark = text[after : after + 1]
    spaced = after > at + 1
    if not mark:
        return Quote.UNSEEN
    if mark == closer:
        return Quote.ENDS
    if mark == ",":
        return _judge_comma(text, after + 1, closer, string)
    if mark in "\"'`":
        return _judge_neighbour(text, after, closer, string, spaced=spaced)
    if mark in "/#":
        return _judge_comment(text, after, string, spaced=spaced)
    if mark in "+":
        return Quote.DOUBTFUL
    if mark in "}])":
        following = text[_end_of_space(text, after + 1) :][:1]
        if not following:
            return Quote.UNSEEN
        return Quote.DOUBTFUL if following in ",}])" else _inside(string)
    if mark in "{[" and closer == "]" and spaced:
        return Quote.DOUBTFUL
    if closer == "}" and "\n" in text[at:after]:
        return _if_even(_judge_bare_key(text, after, string), string)
    return _inside(string)


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _inside(string: GrowingString) -> Quote:
    """Inside, unless it opens JSON or code within the string, whose quotes need a count of brackets."""
    return Quote.DOUBTFUL if string.last_mark() in ("{", "[") else Quote.INSIDE


def _if_even(quote: Quote, string: GrowingString) -> Quote:
    return Quote.DOUBTFUL if quote is Quote.ENDS and string.inner % 2 else quote


def _judge_comma(text: str, at: int, closer: str, string: GrowingString) -> Quote:
    found = (_COMMAS if closer == "}" else _SPACE).match(text, at)
    at = found.end() if found else at
    mark = text[at : at + 1]
    if not mark or (mark in "/#" and at + 1 == len(text)):
        return Quote.UNSEEN
    if mark == closer or _COMMENT.match(text, at):
        return Quote.ENDS
    if closer == "}":
        if mark in "\"'":
            return Quote.ENDS if string.inner == 0 else _judge_quoted_key(text, at, string)
        return _if_even(_judge_bare_key(text, at, string), string)
    if mark in "\"'{[":
        return Quote.ENDS
    found = _LIST_WORD.match(text, at)
    end = found.end() if found else at
    if end == len(text):
        return Quote.UNSEEN
    return _if_even(Quote.ENDS if text[end] in ",]\n" else _inside(string), string)


def _judge_quoted_key(text: str, at: int, string: GrowingString) -> Quote:
    if _QUOTED_KEY.match(text, at):
        return Quote.ENDS
    return Quote.UNSEEN if _CUT_QUOTED_KEY.match(text, at) else _inside(string)


def _judge_bare_key(text: str, at: int, string: GrowingString) -> Quote:
    if _CUT_BARE_KEY.match(text, at):
        return Quote.UNSEEN
    return Quote.ENDS if _BARE_KEY.match(text, at) else _inside(string)


def _judge_neighbour(text: str, at: int, closer: str, string: GrowingString, *, spaced: bool) -> Quote:
    """A quote with another quote after it: a comma is missing, or it opens triple quotes."""
    if string.empty and not spaced:
        return Quote.DOUBTFUL
    if closer == "}":
        return _if_even(_judge_quoted_key(text, at, string), string)
    return _if_even(Quote.ENDS if spaced else _inside(string), string)


def _judge_comment(text: str, at: int, string: GrowingString, *, spaced: bool) -> Quote:
    if at + 1 == len(text):
        return Quote.UNSEEN
    found = _COMMENT.match(text, at)
    ends = found is not None and (spaced or found[0] == "/*")
    return _if_even(Quote.ENDS if ends else _inside(string), string)


_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis")
_REASONING = re.compile(f"<({'|'.join(_NAMES)})>", re.IGNORECASE)
_ANY_SPACE = re.compile(r"\s*+")
_BLANK = re.compile(r"[\s\ufeff\u200b\u2060\0]*+")


class ReplyHead:
    """The beginning of a reply: sets sections of reasoning aside and hands on what follows them."""

    def __init__(self) -> None:
        self.reasoned = False  # some reasoning was set aside
        self._open = False  # the answer has begun
        self._blank: list[str] = []
        self._word = ""  # from the first character that is not blank
        self._closing: re.Pattern[str] | None = None
        self._longest = 0

    def feed(self, chunk: str) -> str:
        """What of the answer came with this chunk; white space before it only where no reasoning was."""
        if self._open:
            return chunk
        while chunk:
            if self._closing is not None:
                chunk = self._skip_reasoning(self._closing, chunk)
                continue
            if not self._word:
                found = (_ANY_SPACE if self.reasoned else _BLANK).match(chunk)
                end = found.end() if found else 0
                self._blank.append(chunk[:end])
                chunk = chunk[end:]
            self._word += chunk
            opening = _REASONING.match(self._word)
            if opening is None:
                return "" if self._may_become_reasoning() else self._begin()
            self._closing = re.compile(f"</{opening[1]}>", re.IGNORECASE)
            self._longest = len(opening[1]) + 3
            self.reasoned = True
            chunk, self._word = self._word[opening.end() :], ""
        return ""

    def _skip_reasoning(self, closing: re.Pattern[str], chunk: str) -> str:
        text = self._word + chunk
        end = closing.search(text)
        if end is None:
            self._word = text[-(self._longest - 1) :]
            return ""
        self._closing, self._word = None, ""
        self._blank.clear()
        return text[end.end() :]

    def _may_become_reasoning(self) -> bool:
        word = self._word.lower()
        return not word or any(f"<{name}>".startswith(word) for name in _NAMES)

    def _begin(self) -> str:
        self._open = True
        return self._word if self.reasoned else "".join(self._blank) + self._word


_BRACKET = re.compile(r"[{\[]")
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\\n]|\\.)*+"|"')
_JSON_START = re.compile(
    r"""\{\s*+(?:["'`“”‘’}{]|[\w$-]++\s*+:|//|/\*|\#)|\[\s*+(?:["'`“”‘’\[\]{(+-]|\d|//|/\*|\#|[A-Za-z])"""
)
_CUT_START = re.compile(r"\{\s*+(?:[\w$-]++\s*+|/)?\Z|\[\s*+/?\Z")
_ONLY_A_FENCE = re.compile(r"[\s\ufeff]*+(?:(?i:json)\s*+)?(?:[`~]{3,}\s*+(?:\w{1,20}\s*+)?)?\Z")
_LOOK_BACK = 80
_LOOK_AHEAD = 4096


class Opening:
    """Where the search for a root stands: at ``position``, and whether a root begins there."""

    __slots__ = ("found", "position")

    def __init__(self, position: int, *, found: bool) -> None:
        self.position = position
        self.found = found


class RootSeeker:
    """Looks for the bracket that opens the answer, passing over what is no JSON or not of the right kind."""

    def __init__(self, suits: Callable[[str], bool]) -> None:
        self._suits = suits
        self._depth = 0  # of brackets in JSON that does not suit
        self.before = ""  # what was passed over, as far as it is short

    def seek(self, text: str, at: int) -> Opening:
        """The opening of the root, or how far the text is of no more use."""
        while True:
            if self._depth:
                at = self._skip(text, at)
                if self._depth:
                    return Opening(at, found=False)
            bracket = _BRACKET.search(text, at)
            end = bracket.start() if bracket else len(text)
            self._pass(text[at:end])
            at = end
            if bracket is None:
                return Opening(at, found=False)
            if self._suits(text[at]) and _ONLY_A_FENCE.match(self.before):
                return Opening(at, found=True)
            if _CUT_START.match(text, at) and len(text) - at < _LOOK_AHEAD:
                return Opening(at, found=False)
            if not _JSON_START.match(text, at):
                self._pass(text[at])
                at += 1
            elif self._suits(text[at]):
                return Opening(at, found=True)
            else:
                self._depth = 1
                at += 1

    def restart(self) -> None:
        """Look for another root, after one has ended."""
        self.before = ""

    def _pass(self, text: str) -> None:
        if len(self.before) < _LOOK_BACK:
            self.before += text[:_LOOK_BACK]

    def _skip(self, text: str, at: int) -> int:
        while token := _TOKEN.search(text, at):
            mark = token[0]
            if mark == '"' and len(text) - token.end() < _LOOK_AHEAD and text.find("\n", token.end()) < 0:
                return token.start()
            if mark in ("{", "["):
                self._depth += 1
            elif mark in ("}", "]"):
                self._depth -= 1
            at = token.end()
            if not self._depth:
                self._pass("}")
                return at
        return len(text)


class KeptText:
    """The end of a growing text, from where it is still of use; indexes are those of the whole text."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._base = 0

    def add(self, chunk: str) -> None:
        """Take the next part of the text."""
        self._chunks.append(chunk)

    def cut(self, start: int, end: int) -> str:
        """A part of the text, from what is still kept."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0][start - self._base : end - self._base]

    def drop(self, end: int) -> None:
        """Keep no more than what stands from ``end`` on."""
        if end > self._base:
            self._chunks = ["".join(self._chunks)[end - self._base :]]
            self._base = end


# A token that a chunk cuts is looked at again with the next one: a clean member only while it is short, for
# then its string is taken in piece by piece; a key, a word or a gap that is longer than this is given up.
_SHORT = 512
_LONGEST = 4096
_DEEPEST = 100  # what shows and compares views goes down into them
_COMMENT_END = {"//": re.compile(r"[\r\n]"), "#": re.compile(r"[\r\n]"), "/*": re.compile(r"\*/")}


class _Due(Enum):
    """What is to come next in the innermost open container."""

    MEMBER = "a key or an item"
    VALUE = "the value of a key"
    NEXT = "a comma or a closing bracket"


class Growing:
    """Takes a text chunk by chunk; ``spine`` holds the containers that are open, the outermost first.

    ``closed`` is called with each outermost container that is closed, and says whether to look for another
    one. What cannot be told for sure is left to the reading of the whole text: then ``lost`` is true, and
    nothing changes any more.
    """

    def __init__(self, seeker: RootSeeker, closed: Callable[[Container], bool]) -> None:
        self.spine: list[Container] = []
        self.lost = False
        self._seeker = seeker
        self._closed = closed
        self._over = False
        self._string: GrowingString | None = None
        self._comment = ""  # what opened the comment that is open
        self._key = ""  # of the member that is being written
        self._due = _Due.MEMBER
        self._text = ""  # from the first character that is not done with
        self._base = 0  # its index in the whole text
        self._waits = False
        self._cut_member: re.Match[str] | None = None

    def feed(self, chunk: str) -> None:
        """Look at the next part of the text."""
        if self._over:
            return
        self._text = self._text + chunk if self._text else chunk
        self._waits = False
        self._cut_member = None
        position = 0
        while not self._waits:
            position = self._step(position)
        if self._over and not self.lost:
            self._text = ""
        elif position:
            self._base += position
            self._text = self._text[position:]
        if len(self._text) > _LONGEST and self.spine:
            self._lose(0)

    def moment(self) -> Moment:
        """How the text stands now; later chunks do not change it."""
        spine = [(container, len(container.parts)) for container in self.spine]
        if self._string is not None:
            return Moment(spine, self._key, self._string.shown.so_far())
        return Moment(spine, cut=self._cut_member)

    def _wait(self, at: int) -> int:
        self._waits = True
        return at

    def _lose(self, at: int) -> int:
        self.lost = self._over = True
        return self._wait(at)

    def _step(self, at: int) -> int:
        if self._string is not None:
            return self._in_string(self._string, at)
        if self._comment:
            return self._in_comment(at)
        if not self.spine:
            return self._seek(at)
        at = self._clean_run(self._text, at)
        if not self.spine or self._cut(at):
            return self._wait(at) if self.spine else at
        at = end_of_blank(self._text, at)
        if at == len(self._text):
            return self._wait(at)
        comment = find_comment(self._text, at)
        if comment is None:
            return self._wait(at)
        if comment:
            self._comment = comment
            return at + len(comment)
        return self._odd_step(self.spine[-1], self._text[at], at)

    def _seek(self, at: int) -> int:
        opening = self._seeker.seek(self._text, at)
        if not opening.found:
            return self._wait(opening.position)
        return self._open(self._text[opening.position], opening.position)

    def _clean_run(self, text: str, at: int) -> int:
        """Take what has nothing odd in it as far as it goes; the index where it ends."""
        spine = self.spine
        while spine and self._due is not _Due.VALUE and not self._waits:
            top = spine[-1]
            if self._due is _Due.NEXT:
                found = NEXT.match(text, at)
                if found is None or found[1] not in (None, top.closer):
                    return at
                at = found.end()
                if found[1] is None:
                    self._due = _Due.MEMBER
                else:
                    self._close(at)
                continue
            run = CLEAN_RUN[top.bracket].match(text, at)
            if run is not None and run.end() > at:
                top.parts.append(run[0])
                at = run.end()
            found = OPENING[top.bracket].match(text, at)
            if found is None or found[3] not in (None, top.closer):
                return at
            at = found.end()
            if found[3] is None:
                self._key = found[1]
                self._open(found[2], at - 1)
            else:
                self._close(found.end(3))
                if found[4] is None:
                    continue
                if not spine:
                    return found.end(3)
                self._due = _Due.MEMBER
        return at

    def _cut(self, at: int) -> bool:
        """Whether the chunk cuts a clean and short member here, so that there is nothing more to do."""
        if at == len(self._text):
            return True
        if self._due is not _Due.MEMBER or len(self._text) - at > _SHORT:
            return False
        self._cut_member = CUT_MEMBER[self.spine[-1].bracket].match(self._text, at)
        return self._cut_member is not None

    def _odd_step(self, top: Container, mark: str, at: int) -> int:
        """Go on where something stands that no clean run takes."""
        if mark == top.closer and self._due is not _Due.VALUE:
            self._close(at + 1)
            return at + 1
        if self._due is _Due.NEXT:
            if mark in "}])":
                return self._lose(at)
            self._due = _Due.MEMBER  # without a comma, where the whole reading may see one
            return at + 1 if mark == "," else at
        if self._due is _Due.MEMBER and top.bracket == "{":
            return at + 1 if mark == "," else self._read_key(at)
        return self._value(top, mark, at)

    def _read_key(self, at: int) -> int:
        try:
            found = read_growing_key(self._text, at)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        self._key = found.value
        self._due = _Due.VALUE
        return found.end

    def _value(self, top: Container, mark: str, at: int) -> int:
        if mark in "{[":
            return self._open(mark, at)
        if mark in "\"'":
            self._string = GrowingString(mark)
            return at + 1
        try:
            found = read_growing_word(self._text, at, top.closer)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        return self._took(found.value, found.end)

    def _took(self, found: Json, end: int, *, unfit: bool = False) -> int:
        self.spine[-1].parts.append(Member(self._key, found, unfit))
        self._due = _Due.NEXT
        return end

    def _in_string(self, string: GrowingString, at: int) -> int:
        text, closer = self._text, self.spine[-1].closer
        at = string.advance(text, at)
        if text[at : at + 1] != string.quote:
            return self._wait(at)
        quote = judge_quote(text, at, closer, string)
        if quote is Quote.UNSEEN:
            return self._wait(at)
        if quote is Quote.DOUBTFUL:
            return self._lose(at)
        if quote is Quote.INSIDE:
            string.take_quote(text[at + 1])
            return at + 1
        self._string = None
        try:
            return self._took(string.value(), at + 1)
        except JsonSyntaxError:
            return self._took(string.shown.so_far().join(), at + 1, unfit=True)

    def _in_comment(self, at: int) -> int:
        end = _COMMENT_END[self._comment].search(self._text, at)
        if end is None:
            star = self._comment == "/*" and self._text.endswith("*", at)
            return self._wait(len(self._text) - star)
        self._comment = ""
        return end.end()

    def _open(self, bracket: str, at: int) -> int:
        if len(self.spine) >= _DEEPEST:
            return self._lose(at)
        self.spine.append(Container(bracket, self._key, self._base + at))
        self._due = _Due.MEMBER
        return at + 1

    def _close(self, end: int) -> None:
        container = self.spine.pop()
        container.end = self._base + end
        self._due = _Due.NEXT
        if self.spine:
            self.spine[-1].parts.append(container)
            return
        self._seeker.restart()
        if not self._closed(container):
            self._over = self._waits = True
