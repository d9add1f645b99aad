"""A tree of calls, as text and as a page: a supervisor, its tools, and the services that they call."""

from __future__ import annotations

import sys

from aiservices import ChatModel, SharedBudget
from aiservices.page import CallTree

from .patterns import supervisor


def main(model: ChatModel | str | None = None, path: str | None = None) -> None:
    """Print the tree of calls, and write it to an HTML file. Without a model, a scripted one answers."""
    tree = CallTree()
    with SharedBudget(listeners=[tree]):
        supervisor.main(model)
    print(tree)
    if path is not None:
        print("see", tree.write_html(path))


if __name__ == "__main__":
    main(*sys.argv[1:3])
