"""Tools for testing services: made-up and recorded answers, golden prompts, evaluation.

The pytest plugin adds the fixtures ``fake_model``, ``cassette`` and ``golden``, the marker ``real_model``,
and a guard against real calls. A name is imported on first use. ``strategy_of`` and
``FakeChatModel(draw=…)`` need Hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cassette import CassetteChatModel, CassetteError, CassetteMode
    from .evaluation import Case, aevaluate, evaluate
    from .fake import FakeChatModel
    from .golden import Golden, GoldenError
    from .guard import RealModelCallError
    from .hypothesis_values import strategy_of
    from .report import Interval, Outcome, Report, Summary, mean_interval, wilson_interval
    from .scoring import Scorer, ScorerInput, close_to, contains, exact, scored_by

__all__ = [
    "Case",
    "CassetteChatModel",
    "CassetteError",
    "CassetteMode",
    "FakeChatModel",
    "Golden",
    "GoldenError",
    "Interval",
    "Outcome",
    "RealModelCallError",
    "Report",
    "Scorer",
    "ScorerInput",
    "Summary",
    "aevaluate",
    "close_to",
    "contains",
    "evaluate",
    "exact",
    "mean_interval",
    "scored_by",
    "strategy_of",
    "wilson_interval",
]

_NAMES_BY_MODULE = {
    "cassette": ("CassetteChatModel", "CassetteError", "CassetteMode"),
    "evaluation": ("Case", "aevaluate", "evaluate"),
    "fake": ("FakeChatModel",),
    "golden": ("Golden", "GoldenError"),
    "guard": ("RealModelCallError",),
    "hypothesis_values": ("strategy_of",),
    "report": ("Interval", "Outcome", "Report", "Summary", "mean_interval", "wilson_interval"),
    "scoring": ("Scorer", "ScorerInput", "close_to", "contains", "exact", "scored_by"),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ImportError(f'{name} needs hypothesis: pip install "aiservices[testing]"') from error
    value: object = getattr(module, name)
    globals()[name] = value
    return value
