"""The command ``extract``, which calls a method with each of several documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
from .services import find_target, make_service, selected_methods
from .values import read_arguments


def extract(
    target_name: str,
    model: str | None,
    files: Sequence[str],
    argument_texts: Sequence[str],
    *,
    to: str,
    html: str | None,
    progress: bool,
) -> bool:
    """Call a method with each file, and write the answers; return False if a file has no answer.

    Raises UsageError, DefinitionError, and OSError if the output cannot be written.
    """
    target = find_target(target_name)
    service = make_service(target, model)
    names = selected_methods(target, service)
    if len(names) > 1:
        raise UsageError(f"{target_name} has several methods; name one of them: {', '.join(names)}")
    method = contract_of(target.interface_of(service)).methods[names[0]]
    parameter = _document_parameter(getattr(service, names[0]))
    arguments = read_arguments([f"{parameter}=", *argument_texts], method)
    documents: dict[str, Document] = {}
    errors: dict[str, str] = {}
    for file in dict.fromkeys(files):
        try:
            documents[file] = Document.open(file, name=file)
        except (DocumentError, OSError) as error:
            errors[file] = str(error)
    values: dict[str, object] = {}
    rows = [{**arguments, parameter: document} for document in documents.values()]
    line = ProgressLine()
    try:
        answers = map_rows(
            getattr(service, names[0]), rows, max_failures=1, progress=line if progress else False
        )
        for row in answers:
            file = row.inputs[parameter].name
            if row.error is None:
                values[file] = row.value
            else:
                errors[file] = row.error.message
    finally:
        line.close()
    _write(Path(to), files, values, errors, method)
    if html is not None:
        shown = [documents[file] for file in documents if file in values]
        pdfs = {one.name: one.name for one in shown if one.pages}
        write_atomically(Path(html), highlight(shown, values, files=pdfs))
    for file, message in errors.items():
        print_text(f"{file}: {message}", file=sys.stderr)
    print_text(f"{len(values)} of {len(values) + len(errors)} files have an answer, in {to}")
    return not errors


def _document_parameter(method: object) -> str:
    plan = service_method_of(method).plan
    names = [parameter.name for parameter in plan.prompt.parameters if Document in parameter.types]
    if len(names) != 1:
        found = f"{plan.call.qualname} has {len(names)} parameters of the type Document"
        raise UsageError(f"{found}; it must have one")
    return names[0]


def _write(
    path: Path, files: Sequence[str], values: dict[str, object], errors: dict[str, str], method: Method
) -> None:
    """Write a line for each file: its name with the value or the error, as JSON."""
    lines = []
    for file in dict.fromkeys(files):
        name = json.dumps(file, ensure_ascii=False)
        if file in errors:
            lines.append(f'{{"file": {name}, "error": {json.dumps(errors[file], ensure_ascii=False)}}}\n')
        else:
            lines.append(f'{{"file": {name}, "value": {method.value_codec.write(values[file])}}}\n')
    write_atomically(path, "".join(lines))
