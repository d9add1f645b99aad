"""A guard that asks a model whether the sources of retrieval support an answer."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from ..engine.effects import Flow
from ..engine.plan import Invocation
from ..interface.decorators import user_message
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..service.side_question import SideQuestion
from .guard import Guard, Verdict, VerdictFactory, passed, refused, reprompt

_UNSUPPORTED = (
    "The sources do not support your answer. State only what they say, and say so if they do not answer the "
    "question."
)


class _Judge(Protocol):
    @user_message(
        "Do the sources support the answer? They support it if each statement of the answer is in them or "
        "follows from them. An answer without such a statement is supported, too, for example a greeting, a "
        "question, or an answer that says that the information is missing.\n\n"
        "Sources:\n{{sources}}\n\nAnswer:\n{{answer}}"
    )
    def supports(self, sources: str, answer: str) -> bool: ...


def grounded(
    model: ChatModel | str | None = None,
    *,
    otherwise: VerdictFactory = reprompt,
    without_sources: Literal["refuse", "pass"] = "refuse",
) -> Guard:
    """Return a guard function that rejects answers which the retrieved sources do not support.

    It asks a model whether all statements of the answer are in ``Invocation.sources``. The requests are
    attempts of the call, as side questions: they count against its time, tokens and money. Place the
    OutputGuardrails after the RetrievalAugmentor. If the judging model fails, the call raises a
    GuardrailError.

    Args:
        model: The model that judges, also a decision endpoint. By default that of the environment.
        otherwise: Makes the verdict for an unsupported answer: ``reprompt``, ``retry`` or ``refused``.
        without_sources: What happens to the answer of a call without sources: "refuse" raises a
            GuardrailError, "pass" accepts it. The model is not asked.
    """
    if without_sources not in ("refuse", "pass"):
        message = f"without_sources is {without_sources!r}; it must be one of refuse, pass"
        raise DefinitionError([DefinitionProblem("grounded", message)])
    judge = SideQuestion(_Judge, "supports", model)

    def guard(answer: Any, invocation: Invocation) -> Flow[Verdict]:
        if not invocation.sources:
            if without_sources == "pass":
                return passed()
            return refused("no sources were retrieved, so nothing supports the answer")
        texts = [f"[{number}] {source.text}" for number, source in enumerate(invocation.sources, 1)]
        arguments = {"sources": "\n\n".join(texts), "answer": answer}
        is_supported: bool = yield from judge.ask(invocation, arguments)
        return passed() if is_supported else otherwise(_UNSUPPORTED)

    return Guard(guard, "grounded")
