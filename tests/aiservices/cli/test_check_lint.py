"""The notes of the command check on strict mode agree with the schemas that are sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest
from pydantic import Field

from aiservices import ScriptedChatModel, Stream, create, preview, user_message
from aiservices.cli.check import strict_mode_notes
from aiservices.models.base import Capabilities
from aiservices.service.methods import plan_of
from output_parsers.profiles import PROFILES


@dataclass
class Limited:
    word: Annotated[str, Field(max_length=9)]


@dataclass
class Optional:
    number: int = 1


@dataclass
class Mapped:
    counts: dict[str, int]


@dataclass
class Tree:
    children: "list[Tree]"


def service_of(answer: Any, profile: str) -> Any:
    class Asked(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str) -> answer: ...

    can = Capabilities(json_schema=True, strict_schema=True, profile=profile)
    return create(Asked, ScriptedChatModel([], capabilities=can))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "form", [Limited, Optional, Mapped, Tree, int, Annotated[int, Field(ge=3)], tuple[int, str], list[int]]
)
def test_the_check_agrees_with_the_request_about_strict_mode(form: Any, profile: str) -> None:
    for answer in (form, Iterator[form], Stream[form]):
        service = service_of(answer, profile)
        holds = all(note.strict for note in strict_mode_notes(plan_of(service.ask), profile))
        assert holds == preview(service.ask, "x").strict
