"""``python -m benchmarks.structure``: figures about how easy the two packages are to read."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter

from tests.test_layers import FILES, imports, layer

from .call_functions import call_counts

# Words that do not say what a value is, and metaphors for which the glossary has a plain term.
UNCLEAR_WORDS = """said told taken asked shown found known given around through aside beside kept meant
held heard standing rung ladder wire gate gates floor door spine ledger""".split()


def unclear_names(tree: ast.AST) -> Counter[str]:
    """Count the defined names that contain a word from the list of unclear words."""
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        name = getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if isinstance(name, str):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
            names[name] += not set(words).isdisjoint(UNCLEAR_WORDS)
    return names


def main() -> None:
    folders = Counter(str(module.parent) for module in FILES)
    print(
        f"{len(FILES)} files",
        *(f"  {count:3} {folder}" for folder, count in sorted(folders.items())),
        sep="\n",
    )
    for count in call_counts():
        print(f"{count.case}: {len(count.functions)} functions in {count.files} files")
    upward = sum(layer(target) > layer(module) for module in FILES for target in imports(module))
    lines = code = comments = anys = 0
    names: Counter[str] = Counter()
    for path in FILES.values():
        source = path.read_text("utf-8")
        names += unclear_names(ast.parse(source))
        tokens = list(tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__))
        lines += source.count("\n")
        comments += sum(token.type == tokenize.COMMENT for token in tokens)
        code += len({token.start[0] for token in tokens if token.type in (tokenize.NAME, tokenize.OP)})
        anys += sum(token.type == tokenize.NAME and token.string == "Any" for token in tokens)
    print(f"upward imports: {upward}")
    print(f"Any per 1,000 lines: {anys / lines * 1000:.1f}")
    print(f"comments per 100 lines of code: {comments / code * 100:.1f}")
    print(f"definitions with private words: {sum(names.values())}", names.most_common(10))


if __name__ == "__main__":
    main()
