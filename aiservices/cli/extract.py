"""The command ``extract``, which calls a method with each of several documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..atomic_file import write_atomically
from ..documents.document import Document
from ..documents.files import DocumentError
from ..documents.highlighting import highlight
from ..remote.contract import Method, contract_of
from ..rows import map_rows
from ..rows.progress import ProgressLine
from ..service.methods import service_method_of
from .console import print_text
from .errors import UsageError
from .services import find_target, make_service, only_method
from .values import read_arguments


def extract(
    target_name: str,
    model: str | None,
    files: Sequence[str],
    argument_texts: Sequence[str],
    *,
    to: str,
    html: str | None,
    restart: bool,
    progress: bool,
) -> bool:
    """Call a method with each file, and write each answer at once; return False if a file has no answer.

    A journal next to the output keeps the paid replies until all files have an answer.

    Raises UsageError, DefinitionError, and OSError if the output cannot be written.
    """
    target = find_target(target_name)
    service = make_service(target, model)
    name = only_method(target_name, target, service)
    method = contract_of(target.interface_of(service)).methods[name]
    parameter = _document_parameter(getattr(service, name))
    arguments = read_arguments([f"{parameter}=", *argument_texts], method)
    documents: dict[str, Document] = {}
    values: dict[str, object] = {}
    errors: dict[str, str] = {}
    names_of_files = list(dict.fromkeys(files))

    def rows() -> Iterator[dict[str, object]]:
        for file in names_of_files:
            try:
                documents[file] = Document.open(file, name=file)
            except (DocumentError, OSError) as error:
                errors[file] = str(error)
            else:
                yield {**arguments, parameter: documents[file]}

    journal, line = Path(f"{to}.journal"), ProgressLine()
    try:
        answers = map_rows(
            getattr(service, name),
            rows(),
            max_failures=1,
            journal=journal,
            restart=restart,
            progress=line if progress else False,
        )
        with Path(to).open("w", encoding="utf-8", buffering=1) as lines:
            for row in answers:
                file = row.inputs[parameter].name
                if row.error is None:
                    values[file] = row.value
                else:
                    errors[file] = row.error.message
                lines.write(_line(file, method, values.get(file), errors.get(file)))
                if html is None:
                    del documents[file]
    finally:
        line.close()
    in_order = [_line(file, method, values.get(file), errors.get(file)) for file in names_of_files]
    write_atomically(Path(to), "".join(in_order))
    if html is not None:
        sources = [documents[file] for file in names_of_files if file in values]
        pdfs = {one.name: one.name for one in sources if one.pages}
        write_atomically(Path(html), highlight(sources, values, files=pdfs))
    for file, message in errors.items():
        print_text(f"{file}: {message}", file=sys.stderr)
    print_text(f"{len(values)} of {len(values) + len(errors)} files have an answer, in {to}")
    if not errors:
        journal.unlink(missing_ok=True)
    return not errors


def _document_parameter(method: object) -> str:
    plan = service_method_of(method).plan
    names = [parameter.name for parameter in plan.prompt.parameters if Document in parameter.types]
    if len(names) != 1:
        problem = f"{plan.call.qualname} has {len(names)} parameters of the type Document"
        raise UsageError(f"{problem}; it must have one")
    return names[0]


def _line(file: str, method: Method, value: object, error: str | None) -> str:
    """Return the output line for a file: its name with the value or the error, as JSON."""
    name = json.dumps(file, ensure_ascii=False)
    if error is not None:
        return f'{{"file": {name}, "error": {json.dumps(error, ensure_ascii=False)}}}\n'
    return f'{{"file": {name}, "value": {method.value_codec.write(value)}}}\n'
