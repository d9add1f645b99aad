"""Record the moving picture of the first page: ``.venv/bin/python docs/recording.py``.

It runs the command ``aiservices map`` in a terminal, stops it, and runs it again; reads a document into cited
values; and calls a method on the page of the playground. The answers are scripted, all else is real. It needs
Chromium, and writes ``docs/images/first-look.webp``.
"""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from aiservices import ChatReply, ChatRequest, ScriptedChatModel, create, user_message
from aiservices.documents import highlight
from aiservices.integrations.fastapi import app
from aiservices.page import mount
from samples.contract_with_quotes import LEASE, LeaseReader

PICTURE = Path(__file__).parent / "images" / "first-look.webp"
WIDTH, HEIGHT = 1_000, 580
SHOWN = (860, 499)  # the size of the picture
COMMAND = "aiservices map desk:desk.ticket tickets.csv answers.csv --key id"
TERMINAL = """<body style="margin:0;background:#0d1117;color:#e6edf3;font:18px/1.7 monospace;
padding:24px 28px;width:944px"><pre style="font:inherit;white-space:pre-wrap;margin:0">{}</pre>"""
Frame = tuple[Image.Image, int]  # a picture and its milliseconds


class Ticket(NamedTuple):
    team: Literal["billing", "shipping", "repair"]
    urgent: bool


class Desk(Protocol):
    @user_message("Which team handles this message, and is it urgent?\n\n{{text}}")
    def ticket(self, text: str) -> Ticket: ...


class Answers(ScriptedChatModel):
    """Answers after a quarter of a second, as a server does."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    @staticmethod
    def _answer(request: ChatRequest) -> str:
        text = request.messages[-1].text
        team = "billing" if "charged" in text else "shipping" if "parcel" in text else "repair"
        return f'{{"team": "{team}", "urgent": {"true" if "!" in text else "false"}}}'

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(0.25)
        return await super().acomplete(request)


desk = create(Desk, Answers())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        frames = [*_table(page, Path(folder)), *_document(page), *_playground(page)]
        browser.close()
    pictures, times = [frame[0] for frame in frames], [frame[1] for frame in frames]
    pictures[0].save(
        PICTURE, save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=70, method=6
    )
    seconds, size = sum(times) // 1000, PICTURE.stat().st_size // 1024
    print(f"{PICTURE.name}: {len(frames)} frames, {seconds} s, {size} KB")


def _picture(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)


# --- The table: a run that is stopped, and continued ---


def _table(page: Page, folder: Path) -> Iterator[Frame]:
    texts = ("I was charged twice!", "Where is my parcel?", "The kettle leaks.")
    (folder / "desk.py").write_text("from docs.recording import desk")
    with open(folder / "tickets.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((n, f"{texts[n % 3]} ({n})") for n in range(2_000))])
    shown = f"$ {COMMAND}"
    for stop_at in (700, 2_000):
        for text in _run(folder, stop_at):
            page.set_content(TERMINAL.format(html.escape(f"{shown}\n{text}")))
            yield _picture(page), 500
        shown += f"\n{text}\n$ {COMMAND}"
    answers = "\n".join((folder / "answers.csv").read_text().splitlines()[:4])
    page.set_content(
        TERMINAL.format(html.escape(f"{shown.rpartition('$')[0]}$ head -4 answers.csv\n{answers}"))
    )
    yield _picture(page), 3_000


def _run(folder: Path, stop_at: int) -> Iterator[str]:
    """Run the command in a terminal up to a number of rows, and yield what it shows, twice a second."""
    output, terminal = pty.openpty()
    command = [sys.executable, "-m", *COMMAND.split()]
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(
        command, cwd=folder, env=paths, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    written = ""
    while True:
        waited_until = time.monotonic() + 0.5
        ended = False
        while not ended and (left := waited_until - time.monotonic()) > 0:
            if select.select([output], [], [], left)[0]:
                try:
                    written += os.read(output, 65_536).decode()
                except OSError:  # the program has ended
                    ended = True
        lines = [re.split(r"\r\x1b\[K", line)[-1] for line in written.replace("\r\n", "\n").split("\n")]
        if written:
            yield "\n".join(lines)
        if ended:
            break
        rows = re.match(r"[\d,]+", lines[-1])
        if rows and stop_at <= int(rows[0].replace(",", "")) < 2_000:
            process.send_signal(signal.SIGINT)
            stop_at = 2_000
    process.wait()
    os.close(output)


# --- The document, and the playground ---


def _document(page: Page) -> Iterator[Frame]:
    quotes: dict[str, tuple[str, object]] = {
        "tenant": ("The tenant, Ann Lee", "Ann Lee"),
        "start": ("from 1 March 2025", "2025-03-01"),
        "rent": ("The rent is € 1,250.50", "1250.50"),
        "notice_days": ("The notice period is ninety days", 90),
        "pets_allowed": ("The tenant may keep up to two cats.", True),
    }
    reply: dict[str, object] = {
        name: {"quote": quote, "value": value} for name, (quote, value) in quotes.items()
    }
    duty = {"what": "repairs the heating", "days": 14}
    reply["duties"] = [{"quote": "repairs the heating within 14 days", "value": duty}]
    lease = create(LeaseReader, ScriptedChatModel([json.dumps(reply)])).lease(LEASE)
    page.set_content(highlight(LEASE, lease))
    yield _picture(page), 4_000


def _playground(page: Page) -> Iterator[Frame]:
    web = app(desk)
    mount(web, desk)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(web, log_level="critical", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        page.locator("textarea").first.fill("I was charged twice for the kettle!")
        yield _picture(page), 1_500
        page.get_by_role("button", name="Run").first.click()
        for _ in range(4):
            page.wait_for_timeout(300)
            page.locator("#run").evaluate("button => button.scrollIntoView()")
            yield _picture(page), 500
        yield _picture(page), 3_000
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
