"""Requests that schemathesis generates get responses that conform to the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Protocol
from uuid import UUID

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis import Case  # noqa: E402

from aiservices import (  # noqa: E402
    MemoryId,
    Result,
    ScriptedChatModel,
    UserName,
    create,
    user_message,
)
from aiservices.integrations.fastapi import app  # noqa: E402
from aiservices.memory import ChatMemory  # noqa: E402
from samples.service.__main__ import application  # noqa: E402
from samples.service.scripted import scripted  # noqa: E402


class Concierge(Protocol):
    def chat(
        self, text: str, user: Annotated[str, MemoryId], name: Annotated[str | None, UserName] = None
    ) -> str: ...

    @user_message("{{number}}")
    async def count(self, number: int, user: Annotated[str, MemoryId]) -> Result[int]: ...

    @user_message("{{key}} {{day}} {{price}} {{paid}}")
    def book(
        self, key: UUID, day: datetime, price: Decimal, user: Annotated[str, MemoryId], paid: bool = False
    ) -> AsyncIterator[str]: ...


concierge = create(Concierge, ScriptedChatModel(lambda _: '{"value": 3}'), interceptors=[ChatMemory()])
web = app(concierge, caller_arguments=["user", "name"], allow_get=True)
SAMPLE = schemathesis.openapi.from_asgi("/openapi.json", application(scripted()))
CONCIERGE = schemathesis.openapi.from_asgi("/openapi.json", web)
SETTINGS = settings(
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("default")
@SAMPLE.parametrize()
@SETTINGS
def test_every_response_conforms_to_the_openapi_document(case: Case) -> None:
    case.call_and_validate()


@pytest.mark.filterwarnings("default")
@CONCIERGE.parametrize()
@SETTINGS
def test_every_response_of_a_service_with_a_memory_conforms_to_the_openapi_document(case: Case) -> None:
    case.call_and_validate()
