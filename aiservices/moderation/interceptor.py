"""Has what users say moderated beside the model, and its answers too if asked."""

from __future__ import annotations

from ..errors import DefinitionError, Fault
from ..flow import Flow
from ..guardrails.subject import text_of
from ..messages import UserMessage
from ..pipeline import Answer, Proceed
from ..plan import Turn
from ..strategies import INSTRUCTIONS_PLACE
from ..tool_parameters import is_async
from .beside import beside
from .check import Check
from .results import Moderator

__all__ = ["Moderation"]


class Moderation:
    """Has the messages of the user moderated while the model answers; with ``answers`` the answer, too.

    What is flagged is a ModerationError, before anything of an answer is handed over and before a tool runs.
    A moderator that fails lets nothing through: ModelErrors of it leave as they are, all else as a
    ModerationError. Streams hold what comes before the verdict, and flow from then on; with ``answers`` they
    show nothing before the answer has passed. What is flagged ends the request, but for a whole reply in a
    blocking call, which is waited for. An interceptor; all messages of the user that it sees in the request
    are moderated, so before ChatMemory it is those of this call.
    """

    def __init__(self, moderator: Moderator, *, answers: bool = False) -> None:
        if not callable(getattr(moderator, "moderate", None)):
            raise DefinitionError([Fault("Moderation", f"{moderator!r} has no method moderate(texts)")])
        self._moderator = moderator
        self._answers = answers
        self.holds_back = answers
        self.stands_as = "answer check" if answers else None
        self.awaits = (f"{type(moderator).__name__}.moderate",) if is_async(moderator.moderate) else ()

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        texts = () if turn.goes_on else _said_by_users(turn)
        check = Check(self._moderator, texts, "input", turn)
        answer = yield from beside(proceed(turn), check, turn)
        if self._answers and (text := text_of(answer, turn)).strip():
            yield from Check(self._moderator, (text,), "output", turn).run()
        return answer


def _said_by_users(turn: Turn) -> tuple[str, ...]:
    said = (message.text for message in turn.request.messages if isinstance(message, UserMessage))
    texts = (text.replace(INSTRUCTIONS_PLACE, "") for text in said)
    return tuple(text for text in texts if text.strip())
