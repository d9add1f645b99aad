"""Remove the frames of this library from the tracebacks of its errors."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import output_parsers

from ..models.errors import AiServiceError, ModelError

DEBUG_VARIABLE = "AISERVICES_DEBUG"
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARY = (_PACKAGE, str(Path(output_parsers.__file__).parent) + os.sep)
_STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


def hide_library_frames(error: AiServiceError) -> None:
    """Remove the frames of this library from the traceback of an error and of its causes.

    The functions that users call do this just before the error leaves them, so the traceback shows the line
    of the user's program that made the call. They raise it again with ``raise`` alone, which does not add
    their own frame. Nothing is removed if ``AISERVICES_DEBUG`` is set.
    """
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        return
    from_model = isinstance(error, ModelError)  # its cause is an error of the connection
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _shortened(current, is_expected=from_model)
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context


def _shortened(error: BaseException, *, is_expected: bool) -> TracebackType | None:
    """Return the traceback of an error without the frames that are of no use to users.

    An exception of another class that was raised in this library keeps its frames unless it ``is_expected``,
    because it may come from a mistake in the library.
    """
    frames: list[Any] = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    is_own = isinstance(error, AiServiceError)
    if not is_own and not is_expected and frames and _file_of(frames[-1]).startswith(_LIBRARY):
        return error.__traceback__
    shortened = None
    for frame in reversed(frames):
        file = _file_of(frame)
        # frames of the standard library are, for example, those of the threads in which tools run
        if not file.startswith(_LIBRARY) and not (is_own and _is_standard_library(file)):
            shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shortened


def _file_of(traceback: TracebackType) -> str:
    return traceback.tb_frame.f_code.co_filename


def _is_standard_library(file: str) -> bool:
    # outside of a virtual environment, the directory of installed packages is in the same one
    return file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file and "dist-packages" not in file
