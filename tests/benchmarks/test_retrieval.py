"""The known items of the retrieval benchmark."""

from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks.retrieval import Item, manual_pages, usable


def test_a_manual_page_is_a_question_and_a_text(tmp_path: Path) -> None:
    title = '.\\" comment\n.SH 名前\nls \\- ディレクトリの内容を表示する\n'
    page = f"{title}.SH 説明\n.B ls\nは\\fIファイル\\fPを表示する。\n"
    (tmp_path / "ls.1.gz").write_bytes(gzip.compress(page.encode()))
    assert list(manual_pages(tmp_path)) == [
        Item("ディレクトリの内容を表示する", "説明\n ls\nはファイルを表示する。")
    ]


def test_questions_and_texts_are_long_and_unique() -> None:
    good = Item("What is the first?", "x" * 120)
    others = [Item("short", "y" * 120), Item("What is the second?", "y"), good._replace(text="z" * 120)]
    assert usable(iter([good, *others]), 9) == [others[-1]]
