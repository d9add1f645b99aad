"""A hook of mkdocs that adds the pages and files that are made from other files of the project.

``messages_page`` lists the messages of errors in the code, so that the search of the site finds them.
``differences_page`` lists what differs from LangChain4j on purpose, from the table of its behaviours.
``llms.txt`` names the pages of the site for language models, and ``llms-full.txt`` contains them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DIFFERENCES = "move/langchain4j-differences.md"
MESSAGES = "reference/messages.md"
PAGES = (DIFFERENCES, MESSAGES)
_PROBLEMS = {
    "DefinitionProblem": "DefinitionError",
    "ToolDefinitionError": "DefinitionError",
    "ParameterError": "DefinitionError",
    "Problem": "OutputParsingError",
}
_BUILT_IN = ("AttributeError", "KeyError", "LookupError", "RuntimeError", "TypeError", "ValueError")
# How much a hit on a page counts in the search, by the beginning of its path; 4 for all others.
_BOOSTS = {
    DIFFERENCES: 0.5,
    MESSAGES: 0.3,
    "decisions/": 0.2,
    "glossary": 1.0,
    "how-to/http-": 2.0,
    "reference/http-errors": 2.0,
    "reference/": 0.5,
    "troubleshooting": 8.0,
    "tutorial": 2.0,
    "how-to/tools.md": 8.0,
    "how-to/budgets.md": 8.0,
    "how-to/providers.md": 8.0,
    "install": 8.0,
}
_SHORTEST = 12  # characters of a message that can be searched for
_HELP: Mapping[str, str] = {
    "DefinitionError": "The declaration is wrong. Nothing was sent. See [Wrong declarations](../errors.md"
    "#wrong-declarations-definitionerror).",
    "MissingExtraError": "Install the extra that the message names, as in `pip install "
    '"aiservices[fastapi]"`. See [Install](../install.md#extras).',
    "OutputParsingError": "The text cannot be read as a value. See [Parsing](../how-to/parsing.md).",
    "RowsError": "A table cannot be read or written, or the run ended. See [Tables](../how-to/tables.md).",
    "BudgetExceededError": "See [Retries, budgets, fallback](../how-to/budgets.md).",
    "SuspendedCallError": "See [Approvals](../how-to/approvals.md).",
    "MemoryStoreError": "See [Memory](../how-to/memory.md).",
    "McpServerError": "See [MCP](../how-to/mcp.md).",
    "WeightsError": "See [The embedded model](../how-to/embedded-model.md).",
    "ValueError": "An argument has a wrong value. The message names it.",
    "TypeError": "An argument has a wrong type. The message names it.",
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the figures of the benchmarks at the address to which their page links."""
    for path in sorted((ROOT / "benchmarks" / "figures").glob("*.svg")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    files.append(File.generated(config, DIFFERENCES, content=differences_page()))
    files.append(File.generated(config, MESSAGES, content=messages_page()))
    texts = {path: _text_of(path) for path in _pages_of(config.nav)}
    files.append(File.generated(config, "llms.txt", content=index_for_models(config.nav, texts)))
    files.append(File.generated(config, "llms-full.txt", content=text_for_models(texts)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the search show guides before the reference, and the reference before lists and records."""
    path = page.file.src_uri
    boost = next((boost for start, boost in _BOOSTS.items() if path.startswith(start)), 4.0)
    page.meta.setdefault("search", {"boost": boost})
    return markdown


# --- What differs from LangChain4j ---


def differences_page() -> str:
    """Return the page with the behaviours that differ from LangChain4j and Quarkus on purpose."""
    source = (ROOT / "tests" / "parity" / "README.md").read_text("utf-8")
    lines = [
        "# What differs from LangChain4j on purpose",
        "",
        "The behaviours that the tests of LangChain4j 1.20 (its decision models: 1.21) and of its extension",
        "for Quarkus state were compared with this library. These differ on purpose, the others are equal.",
        "See [Coming from LangChain4j](langchain4j.md) for the names.",
    ]
    for section in source.split("\n## ")[1:]:
        rows = re.findall(r"^\| (.+?) \| .+? \| differs: (.+?) \| .+? \|$", section, re.MULTILINE)
        if rows:
            lines += ["", f"## {section.splitlines()[0]}", "", "| There | Here |", "|---|---|"]
            lines += [f"| {there} | {here} |" for there, here in rows]
    return "\n".join(lines) + "\n"


# --- The messages of errors ---


@cache
def messages_page() -> str:
    """Return the page with the messages of all errors that the code raises, grouped by class."""
    explained = (ROOT / "docs" / "errors.md").read_text("utf-8")
    groups: dict[str, set[str]] = {}
    for package in ("aiservices", "output_parsers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, message in _messages_in(ast.parse(path.read_text("utf-8"))):
                is_public = name in _BUILT_IN or re.search(rf"\b{name}\b", explained)
                groups.setdefault(name if is_public else "Other errors", set()).add(message)
    lines = [
        "# Errors by message",
        "",
        "The messages of the errors that the library raises; `…` stands for what differs from case to case.",
        "Search this page, or the site, for a part of your message without names and numbers.",
        "[Troubleshooting](../troubleshooting.md) explains common ones, [Errors](../errors.md) the classes.",
    ]
    for name in sorted(groups):
        lines += ["", f"## {name}", ""]
        if name in _HELP:
            lines += [_HELP[name], ""]
        lines += [f"- `{message}`" for message in sorted(groups[name], key=str.casefold)]
    return "\n".join(lines) + "\n"


def _messages_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the class and the message of each error that is created with a text."""
    for node in ast.walk(tree):
        for name, text in _error_texts(node):
            message = " ".join(_text(text).replace("`", "'").split())
            if len(message.replace("…", "").strip()) >= _SHORTEST and " " in message:
                yield name, message


def _error_texts(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.FunctionDef):
        yield from _texts_of_variables(node)
        if "problem" in node.name:
            for statement in ast.walk(node):
                if isinstance(statement, ast.Return | ast.Yield) and statement.value is not None:
                    yield "DefinitionError", statement.value
    if isinstance(node, ast.Call) and (name := _error_class(node)):
        yield from ((name, argument) for argument in node.args)


def _texts_of_variables(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the texts that a function assigns to variables and passes to errors."""
    nodes = list(ast.walk(function))
    for call in nodes:
        if isinstance(call, ast.Call) and (name := _error_class(call)):
            variables = {argument.id for argument in call.args if isinstance(argument, ast.Name)}
            for node in nodes:
                if isinstance(node, ast.Assign) and variables & {ast.unparse(one) for one in node.targets}:
                    yield name, node.value


def _error_class(call: ast.Call) -> str:
    """Return the class of the error to which a call passes a message; "" if it is another call."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "append":
        return "DefinitionError" if "problem" in ast.unparse(function.value) else ""
    if not isinstance(function, ast.Name) or function.id.startswith("_"):
        return ""
    name = _PROBLEMS.get(function.id, function.id)
    return name if name.endswith("Error") and name != "AssertionError" else ""


def _text(node: ast.AST) -> str:
    """Return a text expression with "…" in place of the values in it; "" if it is another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "".join(_text(part) or "…" for part in (node.left, node.right))
    return ""


# --- The pages for language models ---


def index_for_models(nav: Any, texts: Mapping[str, str]) -> str:
    """Return the content of llms.txt: the pages of the site with their addresses and first sentences."""
    lines = ["# aiservices", "", "> " + _summary(texts["index.md"]), ""]
    lines += ["Install: `pip install aiservices`. Everything in one file: llms-full.txt", ""]
    for entry in nav:
        ((title, content),) = entry.items()
        lines += [f"## {title}", ""]
        for path in _pages_of(content):
            lines.append(
                f"- [{_title(texts[path])}]({path.removesuffix('.md')}.html): {_summary(texts[path])}"
            )
        lines.append("")
    return "\n".join(lines)


def text_for_models(texts: Mapping[str, str]) -> str:
    """Return the content of llms-full.txt: all pages that people have written, one after the other."""
    written = (text for text in texts.values() if "\n::: " not in text)
    return "\n\n".join(text.strip() for text in written) + "\n"


def _pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for content in nav.values():
            yield from _pages_of(content)
    else:
        for entry in nav:
            yield from _pages_of(entry)


def _text_of(path: str) -> str:
    if path == DIFFERENCES:
        return differences_page()
    if path == MESSAGES:
        return messages_page()
    text = (ROOT / "docs" / path).read_text("utf-8")
    included = re.fullmatch(r'--8<-- "(.+)"\s*', text)
    return (ROOT / included[1]).read_text("utf-8") if included else text


def _title(text: str) -> str:
    return re.findall(r"^# (.+)$", text, re.MULTILINE)[0]


def _summary(text: str) -> str:
    """Return the first sentence of a page, without links."""
    body = re.split(r"^# .+$", text, maxsplit=1, flags=re.MULTILINE)[1].lstrip()
    paragraph = " ".join(body.partition("\n\n")[0].split())
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph)
    return re.split(r"(?<=[.:]) (?=[A-Z`])", plain, maxsplit=1)[0]
