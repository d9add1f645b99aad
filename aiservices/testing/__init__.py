"""Tools for testing services: generated and recorded answers, golden prompts, and evaluations.

The pytest plugin adds the fixtures ``fake_model``, ``cassette`` and ``golden``, the marker ``real_model``,
and a guard against real calls. A name is imported on first use. ``strategy_of`` and
``FakeChatModel(draw=…)`` need Hypothesis.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from ..decisions.calibrate import Calibrated, calibrate
    from ..decisions.reliability import Labelled, Reliability, ReliabilityBin, Threshold
    from .case import Case
    from .case_files import cases_from
    from .cassette import CassetteChatModel, CassetteError, CassetteMode
    from .evaluation import aevaluate, evaluate
    from .fake import FakeChatModel
    from .golden import Golden, GoldenError
    from .guard import RealModelCallError
    from .hypothesis_values import strategy_of
    from .judge import Judge
    from .report import (
        Comparison,
        Difference,
        Interval,
        Outcome,
        Report,
        Summary,
        mean_interval,
        wilson_interval,
    )
    from .scoring import (
        Scorer,
        ScorerInput,
        Verdict,
        brier,
        close_to,
        contains,
        exact,
        log_loss,
        scored_by,
        similar,
    )

__all__ = [
    "Calibrated",
    "Case",
    "CassetteChatModel",
    "CassetteError",
    "CassetteMode",
    "Comparison",
    "Difference",
    "FakeChatModel",
    "Golden",
    "GoldenError",
    "Interval",
    "Judge",
    "Labelled",
    "Outcome",
    "RealModelCallError",
    "Reliability",
    "ReliabilityBin",
    "Report",
    "Scorer",
    "ScorerInput",
    "Summary",
    "Threshold",
    "Verdict",
    "aevaluate",
    "brier",
    "calibrate",
    "cases_from",
    "close_to",
    "contains",
    "evaluate",
    "exact",
    "log_loss",
    "mean_interval",
    "scored_by",
    "similar",
    "strategy_of",
    "wilson_interval",
]
if find_spec("hypothesis") is None:
    __all__.remove("strategy_of")  # so that ``import *`` works

__getattr__ = lazy_names(
    __name__,
    {
        "..decisions.calibrate": "Calibrated calibrate",
        "..decisions.reliability": "Labelled Reliability ReliabilityBin Threshold",
        ".case": "Case",
        ".case_files": "cases_from",
        ".cassette": "CassetteChatModel CassetteError CassetteMode",
        ".evaluation": "aevaluate evaluate",
        ".fake": "FakeChatModel",
        ".golden": "Golden GoldenError",
        ".guard": "RealModelCallError",
        ".hypothesis_values": "strategy_of",
        ".judge": "Judge",
        ".report": "Comparison Difference Interval Outcome Report Summary mean_interval wilson_interval",
        ".scoring": "Scorer ScorerInput Verdict brier close_to contains exact log_loss scored_by similar",
    },
    {"hypothesis": "testing"},
)
