"""A license that is read in parts: its title and the terms that it defines, with their quotes on a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiservices import ChatModel, Cited, Document, Result, create, options, user_message
from aiservices.documents import Split, first, highlight

from .program import run

LICENSE = Path(__file__).parents[1] / "LICENSE"


@dataclass
class License:
    title: Cited[str]
    terms: list[Cited[str]]


class LicenseReader(Protocol):
    @user_message("Extract the title of the license, and the terms that it defines.\n\n{{document}}")
    @options(split=Split(tokens=1_000, overlap=100), merge={"title": first})
    def license(self, document: Document) -> Result[License]: ...


def main(model: ChatModel | str | None = None, page: Path | None = None) -> None:
    """Print the terms, and write them to an HTML page. ``model`` is passed to ``create``."""
    document = Document.open(LICENSE)
    result = create(LicenseReader, model).license(document)
    found = result.value
    print(f"{found.title.value}: {len(result.inner_calls)} parts, {len(found.terms)} terms")
    for term in found.terms:
        line = document.text.count("\n", 0, term.start) + 1
        print(f"line {line:3}  {term.value}")
    if page is not None:
        page.write_text(highlight(document, result), "utf-8")


if __name__ == "__main__":
    run(lambda: main(page=Path("license.html")))
