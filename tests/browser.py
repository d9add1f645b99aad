"""A real browser, for tests of web pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "the page is tried in a browser, and there is no Chromium: apt-get install chromium"


def in_browser(work: Callable[[Any], Any], *arguments: str) -> Any:
    """Run a function with a new page of Chromium, in a thread without an event loop, as Playwright needs."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)

    def run() -> Any:
        flags = ["--no-sandbox", "--disable-gpu", "--no-proxy-server", *arguments]
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
            page = browser.new_page()
            page.set_default_timeout(30_000)
            outcome = work(page)
            browser.close()
            return outcome

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
