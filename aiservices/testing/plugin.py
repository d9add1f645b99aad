"""The plugin for pytest: fixtures, options, a guard against real calls. It loads the library late."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .cassette import CassetteChatModel
    from .fake import FakeChatModel
    from .golden import Golden
    from .guard import Guard

# What sends requests, by the modules that do: the keys of aiservices.testing.guard.GUARDED.
WATCHED = ("aiservices.models.openai.client", "aiservices.models.local.model")
_MARKER = "real_model: the test may ask real models, which others may not"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiservices", "services of language models (aiservices)")
    group.addoption("--real-models", action="store_true", help="permit all tests to ask real models")
    group.addoption(
        "--cassettes",
        choices=["none", "once", "new", "all"],
        default="none",
        help="what the fixture cassette records: nothing (the default), where there is no file yet, what is "
        "new, or all anew; tests that use it may then ask real models",
    )
    group.addoption("--update-golden", action="store_true", help="accept the prompts and schemas as they are")
    group.addoption(
        "--fake-seed", type=int, default=0, metavar="N", help="the seed of the fixture fake_model"
    )
    parser.addini("aiservices_permitted_hosts", "hosts whose models tests may ask", type="args", default=[])
    parser.addini("aiservices_guard_local", "guard the embedded model too", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    session = config.stash[_SESSION] = Session(config)
    session.watch()


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    session = item.config.stash[_SESSION]
    marked = item.get_closest_marker("real_model") is not None
    session.test, session.permitted = item.nodeid, marked or session.all_permitted
    try:
        return (yield)
    finally:
        session.test, session.permitted = "", session.all_permitted


@pytest.fixture
def fake_model(request: pytest.FixtureRequest) -> FakeChatModel:
    """A model that answers with a made-up value of whatever type it is asked for."""
    from .fake import FakeChatModel

    return FakeChatModel(_option(request, "--fake-seed"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares what ``golden(service)`` or ``golden(service.method, …)`` would send with an accepted file."""
    from .golden import Golden

    return Golden(_beside(request, "golden", ".txt"), update=_option(request, "--update-golden"))


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Callable[..., CassetteChatModel]:
    """``cassette(model)`` is a model that replays what was recorded for this test; --cassettes records.

    Further models of the test have their exchanges in the same file, with the ``redact`` of the first.
    """
    from .cassette import CassetteChatModel

    mode = _option(request, "--cassettes")
    if mode != "none":
        request.config.stash[_SESSION].permitted = True
    path = _beside(request, "cassettes", ".json")
    made: list[CassetteChatModel] = []

    def recorded(model: Any = None, *, redact: Callable[[str], str] = str) -> CassetteChatModel:
        if made:
            return made[0].also(model)
        made.append(CassetteChatModel(path, model, mode=mode, redact=redact))
        return made[0]

    return recorded


def _option(request: pytest.FixtureRequest, name: str) -> Any:
    return request.config.getoption(name)


def _beside(request: pytest.FixtureRequest, folder: str, ending: str) -> Path:
    """The file of a test, in a folder beside its module."""
    item = request.node
    cls = "" if item.cls is None else f"{item.cls.__name__}."
    name = "".join(letter if letter.isalnum() or letter in "-_.[]" else "_" for letter in cls + item.name)
    return Path(item.path.parent, folder, item.path.stem, name + ending)


class Session:
    """One run of pytest: what may be asked now, and the guard that sees to it."""

    def __init__(self, config: pytest.Config) -> None:
        self.all_permitted = bool(config.getoption("--real-models"))
        self.permitted = self.all_permitted
        self.test = ""
        self.hosts: list[str] = config.getini("aiservices_permitted_hosts")
        self.local = not config.getini("aiservices_guard_local")
        self._guard: Guard | None = None
        self._finder = Finder(self.loaded)

    def watch(self) -> None:
        """Guard what is loaded, and what will be."""
        sys.meta_path.insert(0, self._finder)
        for name in WATCHED:
            if name in sys.modules:
                self.loaded(sys.modules[name])

    def loaded(self, module: ModuleType) -> None:
        from .guard import Guard

        self._guard = self._guard or Guard(self)
        self._guard.over(module)

    def end(self) -> None:
        sys.meta_path.remove(self._finder)
        if self._guard is not None:
            self._guard.undo()


class Finder:
    """Tells of each watched module when it has been loaded, so that nothing is loaded to be watched."""

    def __init__(self, loaded: Callable[[ModuleType], None]) -> None:
        self._loaded = loaded

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in WATCHED:
            return None
        spec = next(self._found(name, path, target), None)
        if spec is not None and spec.loader is not None:
            spec.loader = Telling(spec.loader, self._loaded)
        return spec

    def _found(self, name: str, path: Any, target: ModuleType | None) -> Iterator[ModuleSpec]:
        place = sys.meta_path.index(self)
        for finder in sys.meta_path[place + 1 :]:  # of two that watch, the one behind must not ask the first
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                yield spec


class Telling(Loader):
    """A loader that tells of its module. It stands around one that may load others too, as pytest's does."""

    def __init__(self, loader: Any, loaded: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._loaded(module)


_SESSION = pytest.StashKey[Session]()
