"""The pytest plugin: fixtures, options, and protection against calls to real models.

Pytest imports this module in every test run if the package is installed. The module imports the library only
when a fixture needs it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Generator, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .cassette import CassetteChatModel
    from .fake import FakeChatModel
    from .golden import Golden
    from .guard import RealCallGuard

# The modules that send requests: the keys of aiservices.testing.guard.PATCHES, which is not imported here.
WATCHED = (
    "aiservices.models.http.model",
    "aiservices.models.openai.client",
    "aiservices.models.local",
)
_MARKER = "real_model: permits the test to call real models"


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
    guarded_run = config.stash[_GUARDED_RUN] = GuardedRun(config)
    guarded_run.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    guarded_run = config.stash.get(_GUARDED_RUN, None)
    if guarded_run is not None:
        guarded_run.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    guarded_run = item.config.stash[_GUARDED_RUN]
    is_marked = item.get_closest_marker("real_model") is not None
    guarded_run.test = item.nodeid
    guarded_run.all_permitted = is_marked or guarded_run.real_models
    # Also around setup and teardown: fixtures may call models, too.
    try:
        return (yield)
    finally:
        guarded_run.test, guarded_run.all_permitted = "", guarded_run.real_models


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
        request.config.stash[_GUARDED_RUN].all_permitted = True
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
    cls = "" if item.cls is None else f"{item.cls.__name__}."
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


class GuardedRun:
    """Ensures that the tests of one pytest run call real models only with permission."""

    def __init__(self, config: pytest.Config) -> None:
        self.real_models = bool(config.getoption("--real-models"))
        self.all_permitted = self.real_models
        self.test = ""
        self.hosts: list[str] = config.getini("aiservices_permitted_hosts")
        self.local_permitted = not config.getini("aiservices_guard_local")
        self._guard: RealCallGuard | None = None
        self._finder = ImportWatcher(self.protect)

    def start(self) -> None:
        """Block real model requests in modules that are imported now or later."""
        sys.meta_path.insert(0, self._finder)
        for name in WATCHED:
            if name in sys.modules:
                self.protect(sys.modules[name])

    def protect(self, module: ModuleType) -> None:
        from .guard import RealCallGuard

        self._guard = self._guard or RealCallGuard(self)
        self._guard.protect(module)

    def end(self) -> None:
        sys.meta_path.remove(self._finder)
        if self._guard is not None:
            self._guard.undo()


class ImportWatcher(MetaPathFinder):
    """An import hook that calls a function after a watched module has been imported.

    Importing the watched modules just to guard them would make every test run import the library.
    """

    def __init__(self, on_import: Callable[[ModuleType], None]) -> None:
        self._on_import = on_import

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in WATCHED:
            return None
        # The real finders locate the module; only its loader is wrapped.
        spec = next(self._specs(name, path, target), None)
        if spec is not None and spec.loader is not None:
            spec.loader = WatchingLoader(spec.loader, self._on_import)
        return spec

    def _specs(self, name: str, path: object, target: ModuleType | None) -> Iterator[ModuleSpec]:
        # Ask only the finders after this one: with two watchers, each would ask the other without end.
        position = sys.meta_path.index(self)
        for finder in sys.meta_path[position + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                yield spec


class WatchingLoader(Loader):
    """A module loader that calls a function after the module has been executed.

    It forwards all other attributes to the wrapped loader, because pytest's loader loads other files, too.
    """

    def __init__(self, loader: Any, on_import: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._on_import = on_import

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._on_import(module)


_GUARDED_RUN = pytest.StashKey[GuardedRun]()
