"""Measure retrieval with known items: is the text found from which a question was made?

The questions are the first lines of documentation, and the texts are the rest of it: of functions and classes
of the standard library, or of manual pages in a language without spaces::

    python -m benchmarks.retrieval [--pages FOLDER] [--limit 1500]

``FOLDER`` contains manual pages such as those of Debian's package manpages-ja. The embedding model is
all-MiniLM-L6-v2 of the extra ``embeddings``.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import random
import re
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from aiservices.retrieval import (
    Content,
    EmbeddingRetriever,
    EmbeddingStore,
    KeywordRetriever,
    ReciprocalRankFusion,
    SentenceTransformerModel,
)

_DEPTHS = (1, 5, 10)
_CANDIDATES = 50  # contents that are fused or re-ranked
_LEFT_OUT = {"idlelib", "lib2to3", "site-packages", "test", "tests", "turtledemo"}
_TITLE = re.compile(r'^\.SH\s+"?(?:NAME|名前|名称)"?\s*\n(.*?)(?=^\.SH)', re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"^\.\\\".*$|^\.\w+|\\f.|\\\(..|\\&|\\", re.MULTILINE)


class Item(NamedTuple):
    """A question, and the text that must be found for it."""

    question: str
    text: str


def standard_library() -> Iterator[Item]:
    """Yield the documented functions and classes of the standard library."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.rglob("*.py")):
        if _LEFT_OUT.isdisjoint(path.relative_to(folder).parts):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    question, _, text = (ast.get_docstring(node) or "").partition("\n")
                    yield Item(question.strip(), text.strip())


def manual_pages(folder: Path) -> Iterator[Item]:
    """Yield the descriptions of manual pages; their short descriptions are the questions."""
    for path in sorted(folder.rglob("*.gz")):
        page = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        title = _TITLE.search(page)
        if title is not None:
            question = _MACRO.sub("", title[1]).strip().partition("- ")[2].partition("\n")[0]
            yield Item(question.strip(), _MACRO.sub("", page[title.end() :]).strip()[:4000])


def usable(items: Iterator[Item], limit: int) -> list[Item]:
    """Return items whose questions and texts are long enough and unique, at most ``limit`` of them."""
    long = [item for item in items if len(item.question) >= 12 and len(item.text) >= 120]
    unique = {item.text: item for item in {item.question: item for item in long}.values()}
    chosen = list(unique.values())
    random.Random(7).shuffle(chosen)
    return chosen[:limit]


def measure(items: Sequence[Item]) -> None:
    """Print the recall of each way to search, and the time of a search."""
    contents = [Content(item.text, str(number)) for number, item in enumerate(items)]
    model = SentenceTransformerModel.embedded()
    words = KeywordRetriever(max_results=_CANDIDATES)
    vectors, store = model.embed([one.text for one in contents]), EmbeddingStore()
    store.add(contents, vectors)
    words.add(contents)
    meanings = EmbeddingRetriever(model, store, max_results=_CANDIDATES)
    fusion = ReciprocalRankFusion()
    first_four = ReciprocalRankFusion(max_results=4)

    def re_ranked(question: str) -> list[Content]:
        scores = vectors @ model.embed([question])[0]
        return sorted(words.retrieve(question), key=lambda one: -scores[int(one.id)])

    ways: dict[str, Callable[[str], list[Content]]] = {
        "keywords": words.retrieve,
        "embeddings": meanings.retrieve,
        "both, fused": lambda question: fusion.fuse([words.retrieve(question), meanings.retrieve(question)]),
        "the first four of both, fused": lambda question: first_four.fuse(
            [words.retrieve(question)[:4], meanings.retrieve(question)[:4]]
        ),
        "keywords, re-ranked by embeddings": re_ranked,
    }
    print("| search | " + " | ".join(f"recall at {depth}" for depth in _DEPTHS) + " | ms |")
    print("|---|" + "---|" * (len(_DEPTHS) + 1))
    for name, search in ways.items():
        began = time.perf_counter()
        ranks = [[one.id for one in search(item.question)] for item in items]
        milliseconds = (time.perf_counter() - began) / len(items) * 1000
        recalls = [
            sum(str(number) in found[:depth] for number, found in enumerate(ranks)) / len(items)
            for depth in _DEPTHS
        ]
        print(f"| {name} | " + " | ".join(f"{recall:.3f}" for recall in recalls) + f" | {milliseconds:.0f} |")


def main() -> None:
    """Measure the set that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=Path, help="a folder of manual pages instead of the standard library")
    parser.add_argument("--limit", type=int, default=1500, help="the largest number of items")
    arguments = parser.parse_args()
    items = standard_library() if arguments.pages is None else manual_pages(arguments.pages)
    chosen = usable(items, arguments.limit)
    print(f"{len(chosen)} items, for example {chosen[0].question!r}")
    measure(chosen)


if __name__ == "__main__":
    main()
