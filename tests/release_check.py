"""Check what is about to be released: ``make release-check``.

It checks the metadata and the contents of the wheel and the source distribution in ``dist/``, the changelog
and the file of the public API. Then it installs the wheel into new environments, without extras and with each
extra, with each Python that is installed, and runs a program there.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from public_api import CONTRACT, lines

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Extras that need another program or are for the development of the library.
SKIPPED_EXTRAS = ("dev", "bench")
# What can be imported with each extra; without an entry, the modules that need no extra.
IMPORTS = {
    "local": "from aiservices import LocalChatModel; LocalChatModel('smollm2')",
    "attrs": "import attrs",
    "msgspec": "import msgspec",
    "mcp": "from aiservices.integrations.mcp import McpTools; McpTools.http('http://localhost')",
    "redis": "from aiservices.memory import RedisChatMemoryStore; RedisChatMemoryStore('redis://localhost')",
    "sqlalchemy": "from aiservices.memory import SqlAlchemyChatMemoryStore as S; S('sqlite://')",
    "retrieval": "from aiservices.retrieval import KeywordRetriever; KeywordRetriever()",
    "fastapi": "from aiservices.integrations.fastapi import app; app(service)",
    "cli": "from aiservices.cli import main",
    "otel": "from aiservices.integrations.otel import AiServicesInstrumentor",
    "prices": "import genai_prices, aiservices.prices",
    "tables": "from aiservices import map_rows; list(map_rows(service.shout, [{'text': 'x'}]))",
    "testing": "import aiservices.testing.plugin",
    "skills": "from aiservices.skills import Skills; import yaml",
}
SMOKE = """
import sys
from typing import Protocol
from aiservices import FakeChatModel, Result, ScriptedChatModel, create, structured, user_message
from output_parsers import parse

class Shouter(Protocol):
    @user_message("Shout: {{text}}")
    def shout(self, text: str) -> Result[list[int]]: ...

service = create(Shouter, ScriptedChatModel(['{"value": [1, 2]}'] * 9))
assert service.shout("x").value == [1, 2]
assert structured(ScriptedChatModel(["7"]), int).invoke("x") == 7
assert isinstance(create(Shouter, FakeChatModel()).shout("x").value, list)
assert parse(dict[str, int], 'Here it is: {"a": 1}') == {"a": 1}
create(Shouter, "openai:gpt-5-mini")
EXTRA
print("%d.%d.%d" % sys.version_info[:3])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-installs", action="store_true", help="check the files only")
    parser.add_argument("--extras", nargs="*", default=None, help="install only with these extras")
    options = parser.parse_args()
    [wheel], [sdist] = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    problems = [*metadata_problems(wheel), *content_problems(wheel, sdist), *text_problems()]
    for problem in problems:
        print(f"PROBLEM: {problem}")
    if problems:
        sys.exit(1)
    print(f"The metadata and contents of {wheel.name} and {sdist.name} are right.")
    if not options.no_installs:
        extras = options.extras if options.extras is not None else sorted(extras_of_project())
        sys.exit(1 if install_all(wheel, extras) else 0)


def extras_of_project() -> set[str]:
    return set(PROJECT["optional-dependencies"]) - {*SKIPPED_EXTRAS}


# --- The files ---


def metadata_problems(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with the metadata of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    metadata = email.message_from_string(text)
    expected = {
        "Name": PROJECT["name"],
        "Version": PROJECT["version"],
        "Summary": PROJECT["description"],
        "Requires-Python": PROJECT["requires-python"],
        "License-Expression": PROJECT["license"],
        "Description-Content-Type": "text/markdown",
    }
    for field, value in expected.items():
        if metadata[field] != value:
            yield f"{field} is {metadata[field]!r}, not {value!r}"
    if {*metadata.get_all("Provides-Extra", [])} != {*PROJECT["optional-dependencies"]}:
        yield "the extras are not those of pyproject.toml"
    required = {_name(one) for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one}
    missing = [one for one in PROJECT["dependencies"] if _name(one) not in required]
    if missing:
        yield f"dependencies are missing: {', '.join(missing)}"
    if "# aiservices" not in str(metadata.get_payload()):
        yield "the description is not the README"


def _name(dependency: str) -> str:
    """Return the name of a dependency in the form in which names are compared."""
    return re.split(r"[^\w.-]", dependency)[0].lower().replace("_", "-")


def content_problems(wheel: Path, sdist: Path) -> Iterator[str]:
    """Yield which files are missing in the wheel or the sdist, and which do not belong there."""
    expected = {str(path.relative_to(ROOT)) for path in package_files()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
        licenses = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    files = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}
    for label, names in (("the wheel", in_wheel), ("the sdist", in_sdist - files)):
        if expected - names:
            yield f"{label} lacks {', '.join(sorted(expected - names)[:9])}"
        if names - expected:
            yield f"{label} also has {', '.join(sorted(names - expected)[:9])}"
    if not files - {".gitignore"} <= in_sdist or not licenses:
        yield "the README, the changelog or the license is missing"


def package_files() -> Iterator[Path]:
    """Yield the files of the packages that are under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "aiservices", "output_parsers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    yield from (ROOT / name for name in listed.stdout.splitlines())


def text_problems() -> Iterator[str]:
    """Yield what the changelog and the file of the public API do not say about this version."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if f"\n## {PROJECT['version']}" not in changelog:
        yield f"CHANGELOG.md has no section ## {PROJECT['version']}"
    if CONTRACT.read_text("utf-8").splitlines() != [*lines()]:
        yield "tests/public_api.txt is not the API of this version; run make accept-api"


# --- The installs ---


def install_all(wheel: Path, extras: list[str]) -> list[str]:
    """Install the wheel with each Python and extra, and return the combinations that do not work."""
    ran, failed, missing = [], [], []
    for version in PYTHONS:
        python = find_python(version)
        if python is None:
            missing.append(version)
            continue
        for extra in ["", *extras]:
            label = f"Python {version} with {f'the extra {extra}' if extra else 'no extras'}"
            exact = install(wheel, python, extra, label)
            if exact is None:
                failed.append(label)
            elif not extra:
                ran.append(exact)
    print(f"Ran with Python {', '.join(ran) or 'of no version'}.")
    if missing:
        print(f"NOT RUN, because they are not installed: Python {', '.join(missing)}")
    for label in failed:
        print(f"FAILED: {label}")
    return failed


def find_python(version: str) -> str | None:
    """Return the path of a Python of a version, also of one that pyenv has; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
    for path in filter(None, candidates):
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return path
    return None


def install(wheel: Path, python: str, extra: str, label: str) -> str | None:
    """Install the wheel into a new environment and run the program; return the exact version of Python."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder) / "bin" / "python")
        source = f"{wheel}[{extra}]" if extra else str(wheel)
        pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source]
        program = SMOKE.replace("EXTRA", IMPORTS.get(extra, ""))
        for command in (pip, [own, "-I", "-c", program]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                print(f"{label}:\n{done.stderr[-2000:]}")
                return None
        return done.stdout.strip()


if __name__ == "__main__":
    main()
