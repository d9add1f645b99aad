"""``python -m benchmarks plot FILE… --to FILE.svg``: draws the time ratios as bars; needs matplotlib."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .peer import PEERS


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of bars in the picture: the comparisons of one case.

    Attributes:
        stage: The name of the stage.
        case: The case of the comparisons.
        title: The title of the group.
    """

    stage: str
    case: str
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in the picture: another library, and the ratio of its time to ours.

    Attributes:
        name: The name of the library.
        times: The ratio of its time to ours.
    """

    name: str
    times: float


PANELS = (
    Panel("call", "Person", "A call that returns a record"),
    Panel("stream", "Stream[Customers], 10 KB", "An object of 10 KB that is streamed in 2,000 events"),
    Panel(
        "import", "from aiservices import create, user_message", "Importing the names that declare a service"
    ),
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
_WIDTH, _HEIGHT = 7.0, 0.215  # inches: the width of the picture, and the height of a bar with its margin
_START = 0.3  # the left end of the bars: a logarithmic scale has no 0


def bars(stages: dict[str, Any], panel: Panel) -> list[Bar]:
    """Return the bars of a panel, the fastest library first."""
    rows = stages.get(panel.stage, {}).get("comparisons", ())
    group = [
        Bar(_NAMES.get(row["baseline"], row["baseline"].removeprefix("import of ")), 1 / row["median"])
        for row in rows
        if row["case"] == panel.case
    ]
    return sorted(group, key=lambda bar: bar.times)


def draw(stages: dict[str, Any], to: Path) -> None:
    """Write the picture as SVG with selectable text. Raises ValueError if there are no rows to draw."""
    groups = [(panel.title, group) for panel in PANELS if (group := bars(stages, panel))]
    if not groups:
        stage_names = ", ".join(panel.stage for panel in PANELS)
        raise ValueError(f"there are no rows to draw: the stages are {stage_names}")
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
        figure = pyplot.figure(figsize=(_WIDTH, _HEIGHT * (sum(len(group) + 2 for _, group in groups) + 1)))
        heights = [len(group) + 1 for _, group in groups]
        axes = figure.subplots(len(groups), height_ratios=heights, squeeze=False)[:, 0]
        longest = max(bar.times for _, group in groups for bar in group)
        for axis, (title, group) in zip(axes, groups, strict=True):
            _draw_panel(axis, title, group, longest)
        figure.tight_layout(pad=0.6, h_pad=0.8, rect=(0, 0.02, 1, 1))
        figure.text(0.99, 0.006, _CAPTION, ha="right", va="bottom", fontsize=8)
        figure.savefig(to, format="svg", facecolor="white", metadata={"Date": None})
        pyplot.close(figure)


def _draw_panel(axis: Any, title: str, group: Sequence[Bar], longest: float) -> None:
    every = sorted([Bar(_NAME, 1.0), *group], key=lambda bar: bar.times)
    positions = range(len(every))
    widths = [bar.times - _START for bar in every]
    axis.barh(positions, widths, left=_START, height=0.7, color=[_colour(bar.name) for bar in every])
    axis.axvline(1, color=_INK, linewidth=0.8, zorder=0)
    background = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    for position, bar in zip(positions, every, strict=True):
        axis.text(bar.times * 1.06, position, _times(bar.times), va="center", bbox=background)
    axis.set_xscale("log")
    axis.set_xlim(_START, longest * 2)
    axis.set_ylim(len(every) - 0.4, -0.6)  # the fastest at the top
    axis.set_yticks(list(positions), [bar.name for bar in every])
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
    parser = argparse.ArgumentParser(prog="benchmarks plot", description="Draw the time ratios as bars.")
    parser.add_argument(
        "figures",
        type=Path,
        nargs="+",
        help="files written by --out; a stage in a later file replaces that in an earlier one",
    )
    parser.add_argument("--to", type=Path, required=True, help="the SVG file to write")
    options = parser.parse_args(arguments)
    stages: dict[str, Any] = {}
    for file in options.figures:
        stages |= json.loads(file.read_text(encoding="utf-8"))["stages"]
    options.to.parent.mkdir(parents=True, exist_ok=True)
    try:
        draw(stages, options.to)
    except ImportError:
        raise SystemExit("matplotlib is not installed: install the extra bench of aiservices") from None
    except ValueError as error:
        raise SystemExit(str(error)) from None
