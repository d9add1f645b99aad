"""The plugin works in real runs of pytest: fixtures, options, the guard, and its start-up cost."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from loopback import Loopback, answer

# Runs in this process forget the modules that they load, while the package still has their names.
import aiservices.models.local
import aiservices.models.openai
import aiservices.moderation
import aiservices.retrieval  # noqa: F401
from aiservices.models.request_checks import REQUEST_CHECKS
from aiservices.testing import plugin
from aiservices.testing.guard import RealCallGuard

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
INSTALLED = [point for point in entry_points(group="pytest11") if point.value.endswith("plugin")]
LOADED = (
    () if any("aiservices" in point.value for point in INSTALLED) else ("-p", "aiservices.testing.plugin")
)
SERVICE = """
from typing import Protocol
import pytest
from aiservices import FallbackChatModel, OpenAiChatModel, ScriptedChatModel, create, user_message

class Shop(Protocol):
    @user_message("How many of {{article}}?")
    def stock(self, article: str) -> int: ...
"""


def ran(pytester: pytest.Pytester, source: str, *args: str, **outcomes: int) -> pytest.RunResult:
    """Run pytest on a test module, check the numbers of its outcomes, and return the result."""
    pytester.makepyfile(test_shop=SERVICE + source)
    result = pytester.runpytest(*LOADED, "-p", "no:randomly", "-p", "no:cacheprovider", *args)
    result.assert_outcomes(**outcomes)
    return result


@pytest.mark.parametrize(("option", "seed"), [((), 0), (("--fake-seed=2",), 2)])
def test_a_fake_model_is_a_fixture_with_a_seed(
    pytester: pytest.Pytester, option: tuple[str, ...], seed: int
) -> None:
    source = f"""
from aiservices.testing import FakeChatModel

def test_it(fake_model):
    for article in ("lamp", "desk", "rug"):
        own = create(Shop, FakeChatModel({seed}))
        assert create(Shop, fake_model).stock(article) == own.stock(article)
"""
    ran(pytester, source, *option, passed=1)


def test_a_real_call_is_refused_and_the_error_says_what_to_do(pytester: pytest.Pytester) -> None:
    source = """
def test_it():
    create(Shop, OpenAiChatModel("gpt", base_url="https://api.openai.com/v1", api_key="k")).stock("lamp")
"""
    result = ran(pytester, source, failed=1)
    assert refusal(result) == (
        "aiservices.testing.guard.RealModelCallError: test_shop.py::test_it tried to call a real model: "
        "openai:gpt at https://api.openai.com/v1. Nothing was sent. Give the service a FakeChatModel, a "
        "ScriptedChatModel or a cassette; or permit the call: with @pytest.mark.real_model for a test, with "
        "--real-models for all tests, or with aiservices_permitted_hosts in the pytest settings for a host"
    )


def refusal(result: pytest.RunResult) -> str:
    (line,) = [line for line in result.outlines if line.startswith("E ") and "RealModelCallError: " in line]
    return line.removeprefix("E ").strip()


CALLS = {
    "a stream": 'list(create(Talk, MODEL).story("x"))',
    "an async call": 'asyncio.run(create(Talk, MODEL).later("x"))',
    "an async stream": 'asyncio.run(drained(create(Talk, MODEL).astory("x")))',
    "a fallback": 'create(Shop, FallbackChatModel(MODEL, ScriptedChatModel(["3"]))).stock("x")',
    "a model by its name": 'create(Shop, "openai:gpt").stock("x")',
    "a deployment of Azure": 'create(Shop, "azure:gpt").stock("x")',
    "the Responses API": 'create(Shop, "openai-responses:gpt").stock("x")',
    "a moderator": "OpenAiModerator().moderate(['x'])",
    "an embedding model": "OpenAiEmbeddingModel('text-embedding-3-small').embed(['x'])",
    "no service": 'MODEL.complete(ChatRequest.of("x"))',
}


def test_every_kind_of_real_call_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy", reason="the extra retrieval is not installed")
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    source = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from aiservices import ChatRequest
from aiservices.moderation import OpenAiModerator
from aiservices.retrieval import OpenAiEmbeddingModel

MODEL = OpenAiChatModel("gpt", base_url="http://models.example.com/v1", api_key="k")

class Talk(Protocol):
    def story(self, text: str) -> Iterator[str]: ...
    async def later(self, text: str) -> str: ...
    def astory(self, text: str) -> AsyncIterator[str]: ...

async def drained(pieces):
    return [piece async for piece in pieces]

"""
    for number, call in enumerate(CALLS.values()):
        source += f"def test_{number}():\n    {call}\n"
    output = ran(pytester, source, failed=len(CALLS)).outlines
    refusals = [line for line in output if line.startswith("E ") and "RealModelCallError: " in line]
    refused = [re.search(r"test_shop.py::test_(\d+) tried to call a real model: ", line) for line in refusals]
    assert [int(one[1]) for one in refused if one] == list(range(len(CALLS)))


LOCAL = """
def test_it():
    assert create(Shop, OpenAiChatModel("gpt", base_url="{url}", api_key="k")).stock("lamp") == 3
"""


def test_a_server_on_this_machine_may_be_called(pytester: pytest.Pytester, loopback: Loopback) -> None:
    loopback.reply(answer('{"value": 3}'))
    ran(pytester, LOCAL.format(url=loopback.base_url), passed=1)


@pytest.mark.parametrize("permission", ["marker", "option", "host"])
def test_a_permitted_call_is_made(pytester: pytest.Pytester, permission: str) -> None:
    mark = "@pytest.mark.real_model" if permission == "marker" else ""
    source = f"""
from aiservices.testing.guard import RealModelCallError
from aiservices import ModelError

{mark}
def test_it():
    # no server listens there, so the permitted call fails with a connection error
    with pytest.raises(ModelError):
        MODEL.complete(ChatRequest.of("x"))

from aiservices import ChatRequest
MODEL = OpenAiChatModel("gpt", base_url="http://models.invalid/v1", api_key="k")
"""
    if permission == "host":
        pytester.makeini("[pytest]\naiservices_permitted_hosts = models.invalid")
    pytester.makeconftest(NO_NAMES)
    ran(pytester, source, *(["--real-models"] if permission == "option" else []), passed=1)


NO_NAMES = """
import socket
import pytest

@pytest.fixture(autouse=True)
def no_names(monkeypatch):
    def refuse(*args, **kwargs):
        raise socket.gaierror("no such name")
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
"""


def test_a_permission_ends_with_its_test(pytester: pytest.Pytester) -> None:
    source = """
from aiservices import ChatRequest
MODEL = OpenAiChatModel("gpt", base_url="http://models.invalid/v1", api_key="k")

@pytest.mark.real_model
def test_one():
    pass

def test_two():
    MODEL.complete(ChatRequest.of("x"))
"""
    assert "test_shop.py::test_two tried" in refusal(ran(pytester, source, passed=1, failed=1))


def test_the_guard_works_if_pytest_imports_the_library_itself(pytester: pytest.Pytester) -> None:
    # as it does where the library is installed: its loader is one for all modules that it rewrites
    pytester.makeconftest('import pytest\npytest.register_assert_rewrite("aiservices")\n')
    pytester.makepyfile(
        test_shop=SERVICE
        + """
def test_it():
    create(Shop, OpenAiChatModel("gpt", base_url="https://api.openai.com/v1", api_key="k")).stock("lamp")
"""
    )
    result = pytester.runpytest_subprocess(*LOADED, "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    assert "test_shop.py::test_it tried to call a real model" in result.stdout.str()


def test_a_call_while_tests_are_collected_is_refused(pytester: pytest.Pytester) -> None:
    source = """
from aiservices import ChatRequest
OpenAiChatModel("gpt", base_url="http://models.invalid/v1", api_key="k").complete(ChatRequest.of("x"))
"""
    assert "code outside of tests tried" in refusal(ran(pytester, source, errors=1))


@pytest.mark.parametrize("guarded", [True, False])
def test_the_embedded_model_is_guarded_if_the_setting_says_so(
    pytester: pytest.Pytester, guarded: bool
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra local is not installed")
    weights = pytester.path / "none.gguf"
    weights.write_bytes(b"no weights")
    pytester.makeini(f"[pytest]\naiservices_guard_local = {guarded}")
    source = f"\ndef test_it():\n    create(Shop, 'local:{weights}').stock('lamp')\n"
    result = ran(pytester, source, failed=1)
    assert ("tried to call a real model: local:" in result.stdout.str()) is guarded


def test_the_guard_is_removed_after_the_run(pytester: pytest.Pytester) -> None:
    before = list(REQUEST_CHECKS)
    ran(pytester, "\ndef test_it():\n    pass\n", passed=1)
    assert before == REQUEST_CHECKS


CASSETTE = """
def test_it(cassette):
    one = cassette(ScriptedChatModel(['{"value": 3}']))
    assert create(Shop, one).stock("lamp") == 3
    two = cassette(ScriptedChatModel(['{"value": 4}'], name="other"))
    assert create(Shop, two).stock("lamp") == 4

class TestMore:
    @pytest.mark.parametrize("article", ["a/b"])
    def test_it(self, cassette, article):
        model = cassette(ScriptedChatModel(['{"value": 3}']))
        assert create(Shop, model).stock(article) == 3
"""


def test_different_tests_have_different_files_with_names_that_a_file_system_accepts() -> None:
    plain = ["test_a", "Shop.test_a[x-1]", "test_é[ü]"]
    assert [plugin._file_name(name, ".json") for name in plain] == [f"{name}.json" for name in plain]
    others = ["test_a[x/y]", "test_a[x y]", "test_a[x_y]", "é" * 199, "é" * 200, "x" * 500]
    names = [plugin._file_name(name, ".json") for name in others]
    assert names[:3] == ["test_a[x_y]-2875cd37b77c.json", "test_a[x_y]-137ed09b8477.json", "test_a[x_y].json"]
    assert len(set(names)) == len(others)
    assert max(len(name.encode()) for name in names) <= 120


def test_cassettes_are_stored_next_to_their_tests_and_replayed(pytester: pytest.Pytester) -> None:
    refused = ran(pytester, CASSETTE, failed=2)
    refused.stdout.fnmatch_lines(["E *CassetteError: *test_it.json does not exist, and the mode none *"])
    ran(pytester, CASSETTE, "--cassettes=once", passed=2)
    files = sorted(path.name for path in (pytester.path / "cassettes" / "test_shop").iterdir())
    assert files == ["TestMore.test_it[a_b]-b1324b287fa8.json", "test_it.json"]
    silent = CASSETTE.replace("['{\"value\": 3}']", "[]").replace("['{\"value\": 4}']", "[]")
    ran(pytester, silent, passed=2)


def test_a_recording_test_may_call_real_models(pytester: pytest.Pytester) -> None:
    source = """
from aiservices import ModelError

def test_it(cassette):
    model = cassette(OpenAiChatModel("gpt", base_url="http://models.invalid/v1", api_key="k"))
    with pytest.raises(ModelError):
        create(Shop, model, budget=Budget(max_attempts=1)).stock("lamp")

from aiservices import Budget
"""
    pytester.makeconftest(NO_NAMES)
    ran(pytester, source, "--cassettes=once", passed=1)
    ran(pytester, source, passed=1)


GOLDEN = """
def test_it(golden):
    golden(create(Shop, ScriptedChatModel([])))
    golden(create(Shop, ScriptedChatModel([])).stock, article="a lamp")
"""


def test_golden_files_are_written_with_update_golden_and_compared_otherwise(
    pytester: pytest.Pytester,
) -> None:
    ran(pytester, GOLDEN, failed=1).stdout.fnmatch_lines(
        ["E *GoldenError: there is no golden file *test_it.txt yet. What would be sent:"]
    )
    ran(pytester, GOLDEN, "--update-golden", passed=1)
    folder = pytester.path / "golden" / "test_shop"
    assert sorted(path.name for path in folder.iterdir()) == ["test_it-2.txt", "test_it.txt"]
    assert "How many of <article>?" in (folder / "test_it.txt").read_text()
    assert "How many of a lamp?" in (folder / "test_it-2.txt").read_text()
    ran(pytester, GOLDEN, passed=1)


def test_drift_from_a_golden_file_is_shown_as_a_difference(pytester: pytest.Pytester) -> None:
    ran(pytester, GOLDEN, "--update-golden", passed=1)
    (pytester.path / "test_shop.py").unlink()
    changed = GOLDEN.replace("create(Shop", "create(Changed").replace("def test_it", CHANGED)
    result = ran(pytester, changed, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *GoldenError: what would be sent has changed:",
            "E *--- *test_it.txt",
            "E *+++ now",
            "E *-How many of <article>?",
            "E *+How many <article>s?",
            "E *Accept it with pytest --update-golden",
        ]
    )


CHANGED = """
class Changed(Protocol):
    @user_message("How many {{article}}s?")
    def stock(self, article: str) -> int: ...

def test_it"""


def test_the_marker_and_the_options_are_documented(pytester: pytest.Pytester) -> None:
    markers = pytester.runpytest(*LOADED, "--markers")
    markers.stdout.fnmatch_lines(["@pytest.mark.real_model: permits the test to call real models"])
    assert "--update-golden" in pytester.runpytest(*LOADED, "--help").stdout.str()


def test_two_runs_in_one_process_check_each_request_both(pytester: pytest.Pytester) -> None:
    """A test with pytester runs pytest inside pytest, so that two runs share one process."""
    outer = RealCallGuard(real_models=False, hosts=(), local_permitted=True)
    outer.start()
    try:
        source = """
from aiservices import ChatRequest

def test_it():
    OpenAiChatModel("gpt", base_url="http://models.invalid/v1", api_key="k").complete(ChatRequest.of("x"))
"""
        assert "code outside of tests tried" in refusal(ran(pytester, source, "--real-models", failed=1))
    finally:
        outer.end()


def test_importing_the_plugin_does_not_import_the_code_that_calls_models() -> None:
    program = """
import sys, pytest, urllib.parse
before = set(sys.modules)
import aiservices.testing.plugin
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert done.stdout.split("'")[1::2] == [
        "aiservices",
        "aiservices.lazy_names",
        "aiservices.models",
        "aiservices.models.request_checks",
        "aiservices.testing",
        "aiservices.testing.guard",
        "aiservices.testing.plugin",
    ]


def test_importing_aiservices_testing_imports_neither_pytest_nor_hypothesis() -> None:
    program = """
import sys, aiservices, aiservices.testing
heavy = ("pytest", "_pytest", "hypothesis", "rich", "jinja2", "asyncio")
print([name for name in heavy if name in sys.modules],
      [name for name in sys.modules if name.startswith("aiservices.testing.")])
from aiservices.testing import FakeChatModel, CassetteChatModel, evaluate, exact
print([name for name in ("pytest", "_pytest", "hypothesis", "rich", "jinja2") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert done.stdout == "[] []\n[]\n"


def test_every_public_name_can_be_imported() -> None:
    import aiservices.testing

    assert all(getattr(aiservices.testing, name) is not None for name in aiservices.testing.__all__)
    with pytest.raises(AttributeError) as caught:
        aiservices.testing.nothing  # noqa: B018
    assert str(caught.value) == "module 'aiservices.testing' has no attribute 'nothing'"
