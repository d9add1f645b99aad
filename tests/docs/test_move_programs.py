"""The programs of other libraries on the pages to move from print what their counterparts here print.

Each library is in a folder of its own, which ``make test-peers`` fills; what cannot be installed is skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs.running import ROOT, blocks_of, run_program

PEERS = Path(os.environ.get("AISERVICES_PEERS", ROOT / ".venv" / "peers"))
PERSON = {"name": "Ann", "age": 31}
EXTRACTIONS = {"extractions": [{"person": "Ann", "person_attributes": {"age": "31"}}]}
SECTIONS = f"[[ ## person ## ]]\n{json.dumps(PERSON)}\n\n[[ ## completed ## ]]"
CONTENTS = {"DSPy": SECTIONS, "langextract": f"```json\n{json.dumps(EXTRACTIONS)}\n```"}
LIBRARIES = {
    "move/instructor.md": "instructor",
    "move/pydantic-ai.md": "pydantic-ai",
    "move/langchain.md": "LangChain",
    "move/llamaindex.md": "LlamaIndex",
    "move/dspy.md": "DSPy",
    "move/baml.md": "BAML",
    "move/openai-sdk.md": "OpenAI SDK",
    "move/langextract.md": "langextract",
}


class _Handler(BaseHTTPRequestHandler):
    """Answers each chat completion with a person: as arguments of the output tool if there is one."""

    content = ""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tools = request.get("tools") or []
        answers = [tool for tool in tools if "name" in tool["function"]["parameters"].get("properties", {})]
        message: dict[str, Any] = {"role": "assistant", "content": self.content or json.dumps(PERSON)}
        if answers:
            function = {"name": answers[0]["function"]["name"], "arguments": json.dumps(PERSON)}
            message |= {
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            }
        reason = "tool_calls" if answers else "stop"
        reply = {
            "id": "r1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> Iterator[str]:
    library = LIBRARIES[request.node.callspec.params["page"]]
    handler = type("Handler", (_Handler,), {"content": CONTENTS.get(library, "")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.peers
@pytest.mark.parametrize("page", LIBRARIES)
def test_the_program_of_the_other_library_prints_the_same(page: str, provider: str, tmp_path: Path) -> None:
    library = LIBRARIES[page]
    folder = PEERS / library.lower().replace(" ", "-")
    if library != "OpenAI SDK" and not folder.is_dir():
        pytest.skip(f"{library} is not installed in {folder}")
    blocks = blocks_of(page)
    program = next(block.text for block in blocks if block.title == library and block.language == "python")
    expected = next(block.text for block in blocks if block.language == "text")
    environment = os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{tmp_path}",
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": provider,
        "OPENAI_API_BASE": provider,
    }
    if library == "BAML":
        _generate_baml(blocks[0].text, tmp_path, folder, provider, environment)
    done = run_program(program, tmp_path, environment, timeout=100)
    lines = [line for line in done.stdout.splitlines(keepends=True) if re.fullmatch(r"\w+ \d+\n", line)]
    assert "".join(lines) == expected, done.stdout + done.stderr


BAML_FILE = """
client<llm> Local {
  provider openai
  options {
    model "m"
    base_url "%s"
  }
}
generator target {
  output_type "python/pydantic"
  output_dir "../"
  version "%s"
}
%s"""


def _generate_baml(source: str, tmp_path: Path, folder: Path, provider: str, environment: Any) -> None:
    """Write the client that ``baml-cli generate`` makes, with the address of the local provider."""
    version = next(folder.glob("baml_py-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    (tmp_path / "baml_src").mkdir()
    functions = source.replace('client "openai/gpt-5-mini"', "client Local")
    (tmp_path / "baml_src" / "main.baml").write_text(BAML_FILE % (provider, version, functions), "utf-8")
    subprocess.run(
        [folder / "bin" / "baml-cli", "generate", "--from", "baml_src"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        timeout=100,
        check=True,
    )
