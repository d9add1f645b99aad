"""Importing the packages is cheap and quiet: no SDK, no optional package, no socket, no file from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = """
openai urllib3 pycurl certifi jinja2 dateutil xllamacpp httpx httpx2 attrs attr msgspec huggingface_hub
text_to_num jsonschema typer rich ray pyspark pyarrow fsspec cloudpickle psycopg pandas polars numpy
""".split()

WATCHED = """
import os, site, sys, sysconfig

places = [{root!r}, *site.getsitepackages(), *sysconfig.get_paths().values(), sys.base_prefix, sys.prefix]
allowed = tuple(os.path.realpath(place) + os.sep for place in places)
outside = []

def watch(event, args):
    if event.startswith("socket."):
        outside.append(event)
    elif event == "open" and isinstance(args[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(args[0]))
        if not path.startswith(allowed):
            outside.append(path)

sys.addaudithook(watch)
import {package}
print(outside)
"""


def output_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
    )
    assert done.stderr == ""
    return done.stdout.strip()


def loaded_by(package: str, names: list[str]) -> str:
    return output_of(
        f"import sys\nfrom {package} import *\nprint([name for name in {names} if name in sys.modules])"
    )


def test_the_parsers_load_nothing_of_the_services() -> None:
    program = "import sys, output_parsers\nprint([n for n in sys.modules if n.split('.')[0] == 'aiservices'])"
    assert output_of(program) == "[]"


def test_the_parsers_load_nothing_heavy() -> None:
    assert loaded_by("output_parsers", HEAVY) == "[]"


@pytest.mark.parametrize("package", ["aiservices", "aiservices.rows"])
def test_the_services_load_nothing_heavy(package: str) -> None:
    assert loaded_by(package, HEAVY) == "[]"


def test_the_door_of_the_services_loads_only_a_table_before_a_name_is_asked_for() -> None:
    program = """
import sys, aiservices
print(sorted(name for name in sys.modules if name.startswith(("aiservices.", "output_parsers", "pydantic"))))
"""
    assert output_of(program) == "['aiservices.models']"  # has the table of providers


def test_declaring_an_interface_imports_no_model_implementation() -> None:
    program = """
import sys
from aiservices import Result, create, user_message
loaded = {name.split(".")[2] for name in sys.modules if name.startswith("aiservices.models.")}
print(sorted(loaded & {"fallback", "http", "local", "openai", "scripted"}))
"""
    assert output_of(program) == "[]"


def test_templates_load_jinja2_when_a_plan_needs_one_and_not_before() -> None:
    program = """
import sys
from aiservices import ScriptedChatModel, create, user_message

class Plain:
    def ask(self, text: str) -> str: ...

class Templated:
    @user_message("{{text}}")
    def ask(self, text: str) -> str: ...

create(Plain, ScriptedChatModel([]))
before = "jinja2" in sys.modules
create(Templated, ScriptedChatModel([]))
print(before, "jinja2" in sys.modules)
"""
    assert output_of(program) == "False True"


@pytest.mark.parametrize("package", ["output_parsers", "aiservices"])
def test_importing_opens_no_socket_and_no_file_from_outside(package: str) -> None:
    assert output_of(WATCHED.format(root=str(ROOT), package=package)) == "[]"
