"""``python -m benchmarks plot FILE… --to FILE.svg``: what others take, as bars; needs matplotlib."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .peer import PEERS

__all__ = ["PANELS", "Bar", "Panel", "bars", "draw", "main"]


@dataclass(frozen=True, slots=True)
class Panel:
    """The rows of one case of a stage, under a title."""

    stage: str
    case: str
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Who takes how many times as long as this library."""

    name: str
    times: float


PANELS = (
    Panel("call", "Person", "A call that returns a record"),
    Panel("stream", "Stream[Customers], 10 KB", "An object of 10 KB that grows in 2,000 events"),
    Panel("import", "from aiservices import create, user_message", "Importing what declares a service"),
)
_NAMES = {
    "SDK create + validate_json": "openai SDK, create",
    "SDK parse": "openai SDK, parse",
    "SDK typed stream": "openai SDK, text alone",
    "SDK stream(response_format=)": "openai SDK, stream",
    "import openai": "openai SDK",
    "from pydantic import BaseModel, Field, TypeAdapter": "pydantic alone",
    **{peer.call: peer.title for peer in PEERS},
    **{peer.stream: peer.title for peer in PEERS},
}
_CAPTION = "How many times as long as aiservices takes, on a logarithmic scale."
_NAME = "aiservices"
_OURS, _PEER, _BUILT_ON, _INK = "#1f7a5c", "#7c93b8", "#b3bac2", "#24292f"
_WIDTH, _HEIGHT = 7.0, 0.215  # inches: of the picture, and of a bar with what is around it
_LEAST = 0.3  # where bars begin: no logarithm is that of 0


def bars(stages: dict[str, Any], panel: Panel) -> list[Bar]:
    """Those beside whom a case was measured, the quickest first."""
    rows = stages.get(panel.stage, {}).get("comparisons", ())
    found = [
        Bar(_NAMES.get(row["against"], row["against"].removeprefix("import of ")), 1 / row["median"])
        for row in rows
        if row["case"] == panel.case
    ]
    return sorted(found, key=lambda bar: bar.times)


def draw(stages: dict[str, Any], to: Path) -> None:
    """The picture, as SVG whose text is text. Raises ValueError where there is nothing to draw."""
    shown = [(panel.title, found) for panel in PANELS if (found := bars(stages, panel))]
    if not shown:
        wanted = ", ".join(panel.stage for panel in PANELS)
        raise ValueError(f"there are no rows to draw: the stages are {wanted}")
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "benchmarks",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "font.size": 9,
        "text.color": _INK,
    }
    with pyplot.rc_context(cast(Any, settings)):
        figure = pyplot.figure(figsize=(_WIDTH, _HEIGHT * (sum(len(found) + 2 for _, found in shown) + 1)))
        heights = [len(found) + 1 for _, found in shown]
        axes = figure.subplots(len(shown), height_ratios=heights, squeeze=False)[:, 0]
        longest = max(bar.times for _, found in shown for bar in found)
        for axis, (title, found) in zip(axes, shown, strict=True):
            _draw_panel(axis, title, found, longest)
        figure.tight_layout(pad=0.6, h_pad=0.8, rect=(0, 0.02, 1, 1))
        figure.text(0.99, 0.006, _CAPTION, ha="right", va="bottom", fontsize=8)
        figure.savefig(to, format="svg", facecolor="white", metadata={"Date": None})
        pyplot.close(figure)


def _draw_panel(axis: Any, title: str, found: Sequence[Bar], longest: float) -> None:
    every = sorted([Bar(_NAME, 1.0), *found], key=lambda bar: bar.times)
    places = range(len(every))
    widths = [bar.times - _LEAST for bar in every]
    axis.barh(places, widths, left=_LEAST, height=0.7, color=[_colour(bar.name) for bar in every])
    axis.axvline(1, color=_INK, linewidth=0.8, zorder=0)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    for place, bar in zip(places, every, strict=True):
        axis.text(bar.times * 1.06, place, _times(bar.times), va="center", bbox=behind)
    axis.set_xscale("log")
    axis.set_xlim(_LEAST, longest * 2)
    axis.set_ylim(len(every) - 0.4, -0.6)  # the quickest on top
    axis.set_yticks(list(places), [bar.name for bar in every])
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axis.tick_params(axis="both", which="both", length=0, labelcolor=_INK)
    axis.xaxis.set_visible(False)
    axis.spines[:].set_visible(False)


def _colour(name: str) -> str:
    if name == _NAME:
        return _OURS
    return _BUILT_ON if name.startswith(("openai SDK", "pydantic alone")) else _PEER


def _times(times: float) -> str:
    return f"{times:.2g}" if times < 10 else f"{times:,.0f}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks plot", description="Ratios beside others, as bars.")
    parser.add_argument(
        "figures", type=Path, nargs="+", help="what --out wrote; of later files, later stages"
    )
    parser.add_argument("--to", type=Path, required=True, help="the SVG file to write")
    asked = parser.parse_args(arguments)
    stages: dict[str, Any] = {}
    for file in asked.figures:
        stages |= json.loads(file.read_text(encoding="utf-8"))["stages"]
    asked.to.parent.mkdir(parents=True, exist_ok=True)
    try:
        draw(stages, asked.to)
    except ImportError:
        raise SystemExit("matplotlib is not installed: pip install 'aiservices[bench]'") from None
    except ValueError as error:
        raise SystemExit(str(error)) from None
