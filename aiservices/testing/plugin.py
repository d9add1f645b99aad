"""The pytest plugin: fixtures, options, and protection against calls to real models.

Pytest imports this module in every test run if the package is installed. The module imports the rest of the
library only when a fixture needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .guard import RealCallGuard

if TYPE_CHECKING:
    from .cassette import CassetteChatModel
    from .fake import FakeChatModel
    from .golden import Golden

_MARKER = "real_model: permits the test to call real models"
_GUARD = pytest.StashKey[RealCallGuard]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiservices", "services of language models (aiservices)")
    group.addoption("--real-models", action="store_true", help="permit all tests to call real models")
    group.addoption(
        "--cassettes",
        choices=["none", "once", "new", "all"],
        default="none",
        help="what the fixture cassette records: nothing (none, the default), everything if there is no file "
        "yet (once), requests that were not recorded (new), or everything (all); if it records, the tests "
        "that use it may call real models",
    )
    group.addoption(
        "--update-golden", action="store_true", help="accept the prompts and schemas that are sent now"
    )
    group.addoption(
        "--fake-seed", type=int, default=0, metavar="N", help="the seed of the fixture fake_model"
    )
    parser.addini(
        "aiservices_permitted_hosts", "hosts whose models every test may call", type="args", default=[]
    )
    parser.addini("aiservices_guard_local", "guard the embedded model, too", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    guard = config.stash[_GUARD] = RealCallGuard(
        real_models=bool(config.getoption("--real-models")),
        hosts=config.getini("aiservices_permitted_hosts"),
        local_permitted=not config.getini("aiservices_guard_local"),
    )
    guard.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    guard = item.config.stash[_GUARD]
    guard.enter_test(item.nodeid, is_permitted=item.get_closest_marker("real_model") is not None)
    # Also around setup and teardown: fixtures may call models, too.
    try:
        return (yield)
    finally:
        guard.leave_test()


@pytest.fixture
def fake_model(request: pytest.FixtureRequest) -> FakeChatModel:
    """A pytest fixture: a chat model that answers each request with a generated value of the right type."""
    from .fake import FakeChatModel

    return FakeChatModel(_option(request, "--fake-seed"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """A pytest fixture that compares a service's model requests with a golden file.

    Call ``golden(service)`` or ``golden(service.method, …)``.
    """
    from .golden import Golden

    return Golden(_file_of_test(request, "golden", ".txt"), update=_option(request, "--update-golden"))


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Callable[..., CassetteChatModel]:
    """A pytest fixture: ``cassette(model)`` returns a model that records replies and replays them.

    The option --cassettes records the replies.

    Further models of the test use the same file and the ``redact`` of the first one.
    """
    from .cassette import CassetteChatModel

    mode = _option(request, "--cassettes")
    if mode != "none":
        request.config.stash[_GUARD].all_permitted = True
    path = _file_of_test(request, "cassettes", ".json")
    cassettes: list[CassetteChatModel] = []

    def cassette_of(model: Any = None, *, redact: Callable[[str], str] = str) -> CassetteChatModel:
        if cassettes:
            return cassettes[0].also(model)
        cassettes.append(CassetteChatModel(path, model, mode=mode, redact=redact))
        return cassettes[0]

    return cassette_of


def _option(request: pytest.FixtureRequest, name: str) -> Any:
    return request.config.getoption(name)


def _file_of_test(request: pytest.FixtureRequest, folder: str, suffix: str) -> Path:
    """Return the path of a test's data file: ``<folder>/<module>/<test><suffix>``."""
    item = request.node
    cls = "" if item.cls is None else f"{item.cls.__qualname__}."
    return Path(item.path.parent, folder, item.path.stem, _file_name(cls + item.name, suffix))


_MAX_FILE_NAME = 120  # bytes; file systems accept 255, and encrypted ones 143


def _file_name(test: str, suffix: str) -> str:
    """Return a unique name for a test's data file.

    Parameter ids may be long or contain characters that are not valid in file names. Such a name is changed,
    and a hash of the original makes it unique.
    """
    name = "".join(letter if letter.isalnum() or letter in "-_.[]" else "_" for letter in test)
    if name == test and len((name + suffix).encode()) <= _MAX_FILE_NAME:
        return name + suffix
    ending = "-" + hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()[:12] + suffix
    return name.encode()[: _MAX_FILE_NAME - len(ending)].decode("utf-8", "ignore") + ending
