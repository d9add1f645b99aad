"""The data of a contract, each value with the words that prove it and their place in the document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Protocol

from aiservices import ChatModel, Cited, Document, create, user_message

from .program import run

LEASE = Document(
    """LEASE AGREEMENT

The tenant, Ann Lee, rents the flat at 5 Mill Lane from 1 March 2025. The rent is € 1,250.50 and is
due on the third day of each month. The notice period is ninety days.

The tenant may keep up to two cats. The owner repairs the heating within 14 days.
""",
    name="lease.txt",
)


@dataclass
class Duty:
    what: str
    days: int


@dataclass
class Lease:
    tenant: Cited[str]
    start: Cited[date]
    rent: Cited[Decimal]
    notice_days: Cited[int]
    pets_allowed: Cited[bool]
    duties: list[Cited[Duty]]


class LeaseReader(Protocol):
    @user_message("Extract the lease.\n\n{{document}}")
    def lease(self, document: Document) -> Lease: ...


def _line(name: str, cited: Cited[Any]) -> str:
    checked = "checked" if cited.value_checked else "unchecked"
    return (
        f"{name:12} {cited.value!s:26} {cited.start}-{cited.end} {checked} {' '.join(cited.quote.split())!r}"
    )


def main(model: ChatModel | str | None = None) -> None:
    """Print each value with its quote. ``model`` is passed to ``create``."""
    lease = create(LeaseReader, model).lease(LEASE)
    for name in ("tenant", "start", "rent", "notice_days", "pets_allowed"):
        print(_line(name, getattr(lease, name)))
    for duty in lease.duties:
        print(_line("duty", duty))


if __name__ == "__main__":
    run(main)
