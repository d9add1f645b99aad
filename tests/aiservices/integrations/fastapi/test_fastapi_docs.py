"""The programs and tables of the pages about HTTP are correct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest
from browser import in_browser
from fastapi.responses import HTMLResponse

from aiservices import ScriptedChatModel, create, user_message
from aiservices.integrations.fastapi import app
from aiservices.remote.problems import KINDS

DOCS = Path(__file__).parents[4] / "docs"
PAGES = ["fastapi.md", "how-to/http-approvals.md", "how-to/http-clients.md", "how-to/http-protection.md"]
STREAMS = DOCS / "how-to" / "http-streams.md"
ERRORS = DOCS / "reference" / "http-errors.md"


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_page_prints_the_output_below_it(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    text = (DOCS / page).read_text("utf-8")
    module = ModuleType("the_document")
    monkeypatch.setitem(sys.modules, "the_document", module)  # annotations are resolved in this module
    for kind, code in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(compile("from __future__ import annotations\n" + code, page, "exec"), vars(module))
        else:
            assert capsys.readouterr().out == code


def test_the_page_lists_each_kind_of_problem_with_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", ERRORS.read_text("utf-8"), re.MULTILINE)
    listed = {(int(status), name) for status, names in rows for name in re.findall(r"`([a-z-]+)`", names)}
    assert listed == {(kind.status, kind.name) for kind in KINDS}


class Explainer(Protocol):
    @user_message("Explain the sentiment of {{text}}")
    def explain(self, text: str) -> Iterator[str]: ...


# A page that does not close its EventSource, and reports when the browser gives up.
NEVER_CLOSED = """
function explainWithoutEnd(text, element) {
  const source = new EventSource("/explain?" + new URLSearchParams({ text }));
  source.addEventListener("text", (event) => { element.textContent += JSON.parse(event.data); });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) element.textContent += " Closed.";
  });
}
"""


@pytest.mark.parametrize(
    ("function", "shown", "milliseconds"),
    [
        pytest.param("explain", "It is great.", 4_000, marks=pytest.mark.peers),
        pytest.param("explainAgain", "It is great.", 0, marks=pytest.mark.peers),
        ("explainWithoutEnd", "It is great. Closed.", 0),
    ],
)
def test_a_web_page_shows_a_stream_and_calls_the_model_once(
    function: str, shown: str, milliseconds: int, serve: Callable[[Any], str]
) -> None:
    script = "".join(re.findall(r"```js\n(.*?)```", STREAMS.read_text("utf-8"), re.DOTALL)) + NEVER_CLOSED
    model = ScriptedChatModel(["It is great."] * 3)
    web = app(create(Explainer, model), allow_get=True)

    @web.get("/page", response_class=HTMLResponse)
    def page() -> str:
        call = f'{function}("a & b", document.querySelector("p"))'
        return f"<!doctype html><p></p><script>{script}{call}</script>"

    url = serve(web)

    def work(opened: Any) -> str:
        opened.goto(f"{url}/page")
        opened.get_by_text(shown, exact=True).wait_for()
        opened.wait_for_timeout(milliseconds)  # a browser connects again after 3 seconds
        text: str = opened.locator("p").inner_text()
        return text

    assert in_browser(work) == shown
    assert [request.messages[-1].text for request in model.requests] == ["Explain the sentiment of a & b"]
