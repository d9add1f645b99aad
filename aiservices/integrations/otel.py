"""Calls of services as spans and metrics of OpenTelemetry. Needs the extra ``otel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import opentelemetry.trace as _needed  # noqa: F401
except ImportError as error:
    raise ImportError('telemetry needs opentelemetry: pip install "aiservices[otel]"') from error

from ..flow import Flow
from ..pipeline import AROUND_ALL, Answer, Interceptor, Proceed
from ..plan import Turn
from ..through import through
from .otel_call import TracedCall
from .otel_signals import Signals

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ..prices import Prices

__all__ = ["AiServicesInstrumentor", "OpenTelemetry"]

_TRACED: set[int] = set()  # the accounts of the calls that have a span, by their ids


class OpenTelemetry:
    """Writes a span for each call, each request to a model and each tool, and the metrics of them.

    >>> service = create(Service, model, interceptors=[OpenTelemetry(), …])  # doctest: +SKIP

    An interceptor, which belongs outermost: what stands before it in the list is not seen. Without providers
    it takes the global ones. Prompts, answers, the arguments and results of tools and the texts of errors
    are left out unless ``content`` is true; None leaves that to the environment variable
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT. With ``prices`` each request whose model they name has
    its cost. Raises ValueError when the variable holds what it must not.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._signals = Signals(tracer_provider, meter_provider, content, prices)

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        account = id(turn.context)
        if account in _TRACED:
            return (yield from proceed(turn))
        call = TracedCall(self._signals, turn)
        _TRACED.add(account)
        try:
            answer = yield from through(proceed(turn), call.fulfil)
        except GeneratorExit:
            call.end(left=True)
            raise
        except BaseException as error:
            call.end(error=error)
            raise
        finally:
            _TRACED.discard(account)
        call.end(answer)
        return answer


class AiServicesInstrumentor:
    """Traces all calls of all services of this process, those made before too, as ``OpenTelemetry`` does.

    ``instrument`` takes what that takes; a second time, it takes the place of the first. The command
    ``opentelemetry-instrument`` finds this class by itself.
    """

    def instrument(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
        **_: object,
    ) -> None:
        """Begin. Other keywords, such as the command gives to all instrumentors, are ignored."""
        telemetry = OpenTelemetry(
            tracer_provider=tracer_provider, meter_provider=meter_provider, content=content, prices=prices
        )
        AROUND_ALL[:] = [*_others(), telemetry]

    def uninstrument(self, **_: object) -> None:
        """End; calls that have begun keep their spans."""
        AROUND_ALL[:] = _others()


def _others() -> list[Interceptor]:
    return [one for one in AROUND_ALL if not isinstance(one, OpenTelemetry)]
