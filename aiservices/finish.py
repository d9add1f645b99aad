"""Tells an answer that the model finished from one that it did not."""

from __future__ import annotations

from .errors import ContentFilterError, FinishError, RefusalError, TruncatedError
from .messages import ChatReply, FinishReason

__all__ = ["check_finish"]


def check_finish(reply: ChatReply, where: str) -> None:
    """Raises FinishError where the model refused, was cut off, or was stopped by a filter."""
    text = reply.text
    error: FinishError
    if reply.refusal is not None:
        error = RefusalError(f"{where}: the model refused: {reply.refusal}", text=text, reason=reply.refusal)
    elif reply.finish_reason is FinishReason.LENGTH:
        said = f"{where}: the answer was cut off by a length limit; raise max_tokens or ask for less"
        error = TruncatedError(said, text=text, reason="length")
    elif reply.finish_reason is FinishReason.CONTENT_FILTER:
        said = f"{where}: the provider's content filter stopped the answer"
        error = ContentFilterError(said, text=text, reason="content_filter")
    else:
        return
    raise error
