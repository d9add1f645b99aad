"""Web pages of other origins, in a real browser, cannot make a server of services call a model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
from browser import in_browser
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.testclient import TestClient

from aiservices import DefinitionError, ScriptedChatModel, create
from aiservices.integrations.fastapi import app
from aiservices.page import mount

ROOT = Path(__file__).parents[2]
# A service whose model writes each prompt to a file, so that the test sees each call of the other process.
SHOP = """
from pathlib import Path
from typing import Protocol
from aiservices import ScriptedChatModel, create, user_message

class Shop(Protocol):
    @user_message("Delete {{what}}")
    def delete(self, what: str) -> str: ...

def reply(request):
    with Path("prompts.txt").open("a") as file:
        file.write(request.messages[-1].text + "\\n")
    return "Deleted."

shop = create(Shop, ScriptedChatModel(reply))
"""

# Everything that a page of another origin can try. It says so when all attempts have ended.
EVIL_PAGE = """<!doctype html><p></p><iframe name="frame"></iframe><iframe src="TARGET/"></iframe>
<link rel="prefetch" href="TARGET/delete?what=prefetch"><script src="TARGET/delete?what=script"></script>
<form id="form" method="post" action="TARGET/delete" enctype="text/plain" target="frame">
<input name='{"what": "form", "x": "' value='"}'></form>
<script>
async function attempt(path, options) {
  try { await fetch("TARGET" + path, options); } catch (error) {}
}
function image(path) {
  return new Promise((done) => {
    const it = new Image();
    it.onload = it.onerror = done;
    it.src = "TARGET" + path;
  });
}
async function run() {
  const body = '{"what": "fetch"}';
  for (const path of ["/delete", "/_page/Shop/delete/run", "/_page/Shop/delete/preview"]) {
    await image(path + "?what=image");
    await attempt(path + "?what=get", { mode: "no-cors" });
    await attempt(path + "?what=get", { credentials: "include" });
    await attempt(path, { method: "POST", mode: "no-cors", body });
    await attempt(path, { method: "POST", mode: "no-cors", body: new URLSearchParams({ what: "form" }) });
    await attempt(path, { method: "POST", mode: "no-cors", body: new Blob([body]) });
    await attempt(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    navigator.sendBeacon("TARGET" + path, new Blob([body], { type: "application/json" }));
    navigator.sendBeacon("TARGET" + path, body);
  }
  document.getElementById("form").submit();
  new EventSource("TARGET/delete?what=stream").onerror = () => {
    document.querySelector("p").textContent = "All was tried.";
  };
}
run();
</script>"""


LINK = '<a href="http://127.0.0.1:{port}/">Try it</a>'


class Site(NamedTuple):
    """A running ``aiservices serve`` with its port, and its folder with the prompts of its model."""

    port: int
    folder: Path
    log: list[str]

    def prompts(self) -> list[str]:
        file = self.folder / "prompts.txt"
        return file.read_text().splitlines() if file.exists() else []


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Site]:
    """Run ``aiservices serve`` as a process of its own."""
    (folder / "shop.py").write_text(SHOP)
    process = subprocess.Popen(
        [sys.executable, "-m", "aiservices", "serve", "shop:shop", "--port", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    log: list[str] = []
    port = 0
    reader = threading.Thread(target=lambda: log.extend(process.stdout or ()), daemon=True)
    try:
        for line in process.stdout:
            log.append(line)
            match = re.search(r"http://[\w.:\[\]]+:(\d+)", line)
            if match:
                port = int(match[1])
                break
        reader.start()  # the server must not wait for a full pipe
        yield Site(port, folder, log)
    finally:
        process.terminate()
        process.wait(60)
        if reader.ident is not None:
            reader.join(60)
        process.stdout.close()


@contextmanager
def page_of_another_origin(html: str) -> Iterator[int]:
    """Serve a page on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.002,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join(60)


def in_detail(value: str) -> Any:
    """Return a parameter whose test is not in `make test`, because the browser takes seconds."""
    return pytest.param(value, marks=pytest.mark.peers)


@pytest.mark.parametrize("site", ["evil.example", *map(in_detail, ["127.0.0.1", "localhost"])])
def test_a_page_of_another_origin_calls_no_model(site: str, tmp_path: Path) -> None:
    with serving(tmp_path) as shop:
        html = EVIL_PAGE.replace("TARGET", f"http://127.0.0.1:{shop.port}")
        with page_of_another_origin(html) as port:

            def work(page: Any) -> None:
                page.goto(f"http://{site}:{port}/")
                page.get_by_text("All was tried.").wait_for()

            in_browser(work, "--host-resolver-rules=MAP evil.example 127.0.0.1")
        assert shop.prompts() == []
        # The server is the one that the page tried to use.
        url = f"http://127.0.0.1:{shop.port}/delete"
        with urlopen(Request(url, b'{"what": "x"}', {"Content-Type": "application/json"})) as response:
            assert response.read() == b'"Deleted."'
        assert shop.prompts() == ["Delete x"]
    # The log is complete now. The requests of the page arrived.
    assert any("GET /delete?what=image" in line for line in shop.log)


@pytest.mark.parametrize("host", ["127.0.0.1", in_detail("0.0.0.0")])
def test_a_page_whose_host_name_points_to_the_server_calls_no_model(host: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--host", host) as shop:

        def work(page: Any) -> str:
            # DNS rebinding: for the browser, the page and the service have the same origin.
            response = page.goto(f"http://evil.example:{shop.port}/")
            script = """async () => (await fetch("/delete", {
              method: "POST", headers: {"Content-Type": "application/json"}, body: '{"what": "x"}'
            })).status"""
            return f"{response.status} {page.evaluate(script)}"

        assert in_browser(work, "--host-resolver-rules=MAP evil.example 127.0.0.1") == "403 403"
        assert shop.prompts() == []


@pytest.mark.peers
def test_the_page_to_try_a_service_still_works_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    with serving(tmp_path) as shop:
        url = f"http://localhost:{shop.port}"
        requested: list[str] = []

        def work(page: Any) -> None:
            page.on("request", lambda request: requested.append(request.url))
            page.goto(f"{url}/")
            page.locator("#call").wait_for()
            page.locator("#fields textarea, #fields input").first.fill("a & b")
            page.locator("#run").click()
            page.get_by_text("Deleted.").first.wait_for()
            page.goto(f"{url}/docs")
            page.get_by_text("/delete").first.wait_for()

        in_browser(work)
        assert shop.prompts() == ["Delete a & b"]
        assert [address for address in requested if not address.startswith((url, "data:", "blob:"))] == []


@pytest.mark.peers
def test_a_link_on_another_page_opens_the_page(tmp_path: Path) -> None:
    with serving(tmp_path) as shop, page_of_another_origin(LINK.format(port=shop.port)) as port:

        def work(page: Any) -> None:
            page.goto(f"http://evil.example:{port}/")
            page.get_by_text("Try it").click()
            page.locator("#call").wait_for()

        in_browser(work, "--host-resolver-rules=MAP evil.example 127.0.0.1")


def test_serving_beyond_this_machine_warns(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0") as shop:
        assert [line for line in shop.log if line.startswith("warning")] == [
            "warning: everyone who can reach 0.0.0.0 can call the service and see prompts; "
            "callers are not authenticated\n"
        ]
    with serving(tmp_path) as shop:
        assert [line for line in shop.log if line.startswith("warning")] == []


# --- app and mount ---


class Desk(NamedTuple):
    """An application with its page to try the service, and its model."""

    web: FastAPI
    model: ScriptedChatModel


def desk(**settings: Any) -> Desk:
    from typing import Protocol

    class Shop(Protocol):
        def delete(self, what: str) -> str: ...

    model = ScriptedChatModel(["Deleted."] * 9)
    service = create(Shop, model)
    web = app(service, **settings)
    mount(web, service, path="/try")
    return Desk(web, model)


def status(web: FastAPI, path: str, host: str, **headers: str) -> int:
    http = TestClient(web, base_url=f"http://{host}")
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    code: int = http.post(path, json={"what": "x"}, headers=names).status_code
    return code


RUN = "/try/_page/Shop/delete/run"


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("api.example.com", True),
        ("API.example.com:8443", True),
        ("eu.example.org", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.1.7", True),
        ("localhost:8000", True),
        ("example.org", False),
        ("api.example.com.evil.example", False),
        ("evil-example.org", False),
        ("evil.example", False),
    ],
)
def test_only_allowed_hosts_are_answered(host: str, allowed: bool) -> None:
    made = desk(allowed_hosts=["api.example.com", "*.example.org"])
    assert [status(made.web, path, host) for path in ("/delete", RUN)] == [200 if allowed else 403] * 2
    assert len(made.model.requests) == (2 if allowed else 0)


def test_the_page_alone_can_have_allowed_hosts() -> None:
    made = desk()
    web = FastAPI()
    from typing import Protocol

    class Shop(Protocol):
        def delete(self, what: str) -> str: ...

    mount(web, create(Shop, made.model), path="/try", allowed_hosts=["api.example.com"])
    web.post("/own")(lambda: "own")
    assert [status(web, RUN, host) for host in ("api.example.com", "evil.example")] == [200, 403]
    assert status(web, "/own", "evil.example") == 200


@pytest.mark.parametrize("host", ["https://api.example.com", "api.example.com:443", "", "a b"])
def test_an_allowed_host_that_is_not_a_host_name_is_refused(host: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        desk(allowed_hosts=[host])
    assert str(caught.value) == (
        f"Shop: {host!r} is not a host name; pass one such as 'api.example.com', without port and path"
    )


def test_the_page_refuses_other_origins_behind_any_proxy() -> None:
    made = desk()
    # Over HTTPS, a browser says which site a page is from. A proxy may change the Host header.
    assert status(made.web, RUN, "upstream", sec_fetch_site="same-origin", origin="https://a.example") == 200
    assert status(made.web, RUN, "upstream", sec_fetch_site="cross-site", origin="https://b.example") == 403
    assert status(made.web, RUN, "upstream", sec_fetch_site="same-site", origin="https://b.a.example") == 403
    # Over HTTP it sends the origin only.
    assert status(made.web, RUN, "a.example:8000", origin="http://a.example:8000") == 200
    assert status(made.web, RUN, "a.example:8000", origin="http://a.example") == 403
    assert status(made.web, RUN, "a.example", origin="null") == 403
    # Programs send neither.
    assert status(made.web, RUN, "a.example") == 200
    assert len(made.model.requests) == 3


def test_a_program_can_allow_pages_of_other_origins_with_cors() -> None:
    made = desk(allowed_hosts=["api.example.com"])
    made.web.add_middleware(
        CORSMiddleware, allow_origins=["https://shop.example"], allow_methods=["POST"], allow_headers=["*"]
    )
    http = TestClient(made.web, base_url="https://api.example.com")
    headers = {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}
    asked = http.options("/delete", headers={**headers, "Access-Control-Request-Method": "POST"})
    answer = http.post("/delete", json={"what": "x"}, headers=headers)
    assert (asked.status_code, answer.status_code, answer.json()) == (200, 200, "Deleted.")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"


@pytest.mark.parametrize("path", ["/delete", RUN, "/try/_page/Shop/delete/preview"])
@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_a_body_that_a_form_could_send_is_refused(path: str, content_type: str | None) -> None:
    made = desk()
    headers = {} if content_type is None else {"content-type": content_type}
    answer = TestClient(made.web).post(path, content=b'{"what": "x"}', headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:aiservices:not-json")
    assert made.model.requests == []
