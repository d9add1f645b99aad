"""The search of the site, in a browser, finds the page that a reader wants first."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import in_browser
from docs.test_site import build

SEARCHES = {
    "api key": "how-to/providers",
    "approval": "how-to/approvals",
    "azure": "how-to/openai",
    "budget": "how-to/budgets",
    "cannot read the reply": "troubleshooting",
    "csv": "how-to/tables",
    "data protection": "data-protection",
    "dataframe": "how-to/tables",
    "decision": "how-to/decisions",
    "docker": "how-to/production",
    "dspy": "move/dspy",
    "fallback": "how-to/budgets",
    "fastapi": "fastapi",
    "few shot": "how-to/examples",
    "golden": "testing",
    "install": "install",
    "instructor": "move/instructor",
    "langchain4j": "move/langchain4j",
    "mcp": "how-to/mcp",
    "memory": "how-to/memory",
    "ollama": "how-to/compatible-servers",
    "pdf": "how-to/documents",
    "prompt injection": "security",
    "pypi": "install",
    "rate limit": "how-to/limits",
    "retention": "data-protection",
    "retry": "how-to/budgets",
    "security": "security",
    "stream": "how-to/streams",
    "tool": "how-to/tools",
    "unit test": "testing",
}
FIRST = """() => {
  const link = document.querySelector(".md-search-result__item > a.md-search-result__link");
  return link ? new URL(link.href).pathname.slice(1).replace(".html", "") : "";
}"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("material")
    build(tmp_path)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.peers
@pytest.mark.timeout(600)
def test_each_search_finds_its_page_first(site: str) -> None:
    def search(page: Any) -> dict[str, str]:
        page.goto(f"{site}/index.html")
        page.evaluate("document.querySelector('[data-md-toggle=search]').checked = true")
        box = page.locator("[data-md-component=search-query]")
        found = {}
        for query, wanted in SEARCHES.items():
            box.fill("")
            page.wait_for_timeout(200)
            box.press_sequentially(query, delay=5)
            for _ in range(20):  # the results come from a worker
                page.wait_for_timeout(100)
                found[query] = page.evaluate(FIRST)
                if found[query] == wanted:
                    break
        return found

    assert in_browser(search) == SEARCHES
