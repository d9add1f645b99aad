"""The program's commands, with their options and shell completion.

Each command imports its module only when it runs, so that ``aiservices --help`` starts quickly.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import ExitCode, UsageError, report_errors

# --- Shell completion (the options below refer to these functions) ---


def complete_target(incomplete: str) -> list[str]:
    """Return shell completions for the name of a service or method, such as ``shop:Desk.answer``.

    The module is imported once the user has typed a colon after its name.
    """
    return [target for target in _completions(_targets, incomplete) if target.startswith(incomplete)]


def complete_argument(context: typer.Context, incomplete: str) -> list[str]:
    """Return shell completions ``NAME=`` for the method's parameters that have no value yet."""
    target = str(context.params.get("target") or "")
    argument_texts = list(context.params.get("arguments") or ())
    # bash treats a colon as a separate word, so the rest of a target arrives here.
    if argument_texts == [":"]:
        return [candidate.rpartition(":")[2] for candidate in complete_target(f"{target}:{incomplete}")]
    if argument_texts[:1] == [":"]:
        target, argument_texts = f"{target}:{argument_texts[1]}", argument_texts[2:]
    used_names = {text.partition("=")[0].removesuffix(":") for text in argument_texts}
    return [f"{name}=" for name in _completions(_parameter_names, target) if name not in used_names]


def _completions(candidates: Callable[[str], Iterator[str]], text: str) -> list[str]:
    """Return shell completions for the typed text, or an empty list if an error occurs.

    Output of the imported module is discarded, because it would appear in the user's command line.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return list(candidates(text))
    except Exception:
        return []


def _targets(text: str) -> Iterator[str]:
    from .services import load_module, service_names, split_target

    module_name, name, _ = split_target(text)
    # Without a colon the module name may be incomplete, and an import would run the code of another module.
    if ":" not in text:
        return
    module = load_module(module_name)
    for service in service_names(module):
        yield f"{module_name}:{service}"
        if service == name:
            yield from (f"{module_name}:{service}.{method}" for method in _methods(getattr(module, service)))


def _parameter_names(text: str) -> Iterator[str]:
    from .services import find_target

    target = find_target(text)
    methods = _methods(target.value)
    method = methods[target.method] if target.method or len(methods) != 1 else next(iter(methods.values()))
    yield from list(inspect.signature(method).parameters)[1:]


def _methods(service: object) -> dict[str, Any]:
    """Return a dict from method names to the methods of an interface or service object."""
    from ..interface.decorators import is_stub, methods_of
    from .services import method_names

    if isinstance(service, type):
        return {name: method for name, _, method in methods_of(service) if is_stub(method)}
    return {name: getattr(type(service), name) for name in method_names(service)}


# --- The application and the types of its arguments ---

_EXIT_CODES = (
    "Exit codes: 0 success; 1 the call failed, the check found problems, or something is missing, such as "
    "weights, a key or a package; 2 the command line or the definition of the service is wrong; 130 stopped "
    "with Ctrl+C."
)
application = typer.Typer(
    help="Show, call, map, check, calibrate and serve services that are declared as typed interfaces.\n\n"
    + _EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_application = typer.Typer(help="List models and download weights.")
application.add_typer(models_application, name="models")
batch_application = typer.Typer(help="Manage the batches of the command map.", no_args_is_help=True)
application.add_typer(batch_application, name="batch")
calls_application = typer.Typer(help="Manage durable calls.", no_args_is_help=True)
application.add_typer(calls_application, name="calls")


class Engine(Enum):
    """The ways in which the command ``map`` can send requests."""

    DIRECT = "direct"
    BATCH = "batch"
    RAY = "ray"
    SPARK = "spark"


class Nulls(Enum):
    """The result for an empty cell of a required parameter: an error, or null as the answer."""

    ERROR = "error"
    NULL = "null"


Output = Annotated[str, typer.Argument(metavar="OUTPUT", help="The output of the command map.")]

_TARGET = "A service as MODULE:NAME or FILE.py:NAME: an interface, a service, or a function that creates one."
Target = Annotated[
    str, typer.Argument(metavar="MODULE:SERVICE[.METHOD]", help=_TARGET, autocompletion=complete_target)
]
WholeService = Annotated[
    str, typer.Argument(metavar="MODULE:SERVICE", help=_TARGET, autocompletion=complete_target)
]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:SERVICE]",
        help="A module or FILE.py with all its services, or one service.",
        autocompletion=complete_target,
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE",
        help="An argument. NAME:=JSON is read as JSON; NAME=@PATH reads a file, NAME=- standard input; "
        "write @@ for a value that starts with @.",
        autocompletion=complete_argument,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help='The model, as "aiservices models" lists them: openai:NAME, local, fake … The default is the '
        "model in AISERVICES_MODEL, else the embedded model.",
    ),
]
PreviewModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="The model to show the request for. The default is the model of call, or openai:gpt-5-mini if "
        "call has none.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, also for errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        # typer calls this function before it checks the other arguments, since the option is eager.
        print(f"aiservices {version('aiservices')}")
        raise typer.Exit


@application.callback()
def global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options that apply to all commands, such as ``--version``."""


@application.command(short_help="Show the request of a method, and its strategy.")
def show(
    target: Target,
    arguments: Arguments = None,
    model: PreviewModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the request of a method, and why its strategy was chosen.

    Prints the messages, the schema of the answer, the strategy with its reasons, the tools, and the body of
    the HTTP request. Nothing is sent, and no key is needed. A missing argument is shown as its default or as
    {{name}}.
    """
    with report_errors(debug=debug, as_json=json):
        from .show import show

        show(target, model, arguments or [], as_json=json)


@application.command()
def call(
    target: Target,
    arguments: Arguments = None,
    model: Model = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also write attempts, tokens and more to standard error.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Call a method and print its answer.

    A stream is printed as it arrives. An argument is read as the type of its parameter: text, numbers, dates,
    values of an enum; lists and records as JSON. A list can also be passed item by item: NAME=ONE NAME=TWO.
    """
    with report_errors(debug=debug, as_json=json):
        from .call import call

        call(target, model, arguments or [], verbose=verbose, as_json=json)


@application.command()
def check(
    modules: Targets,
    profile: Annotated[
        str,
        typer.Option(help="Whose strict mode to check, such as openai, anthropic or llama.cpp."),
    ] = "openai",
    strict: Annotated[
        bool, typer.Option("--strict", help="Also fail if a type cannot use strict mode.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the services in modules for problems.

    Checks definitions, templates and types. Also lists what the strict mode of a provider does not support in
    a type, and what the library does about it. A Protocol whose methods have no body counts as a service.
    The exit code is 1 if there are problems.
    """
    with report_errors(debug=debug, as_json=json):
        from .check import check

        if not check(modules, profile, strict=strict, as_json=json):
            raise typer.Exit(ExitCode.FAILED)


@application.command(name="map")
def map_(
    target: Target,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A CSV, JSONL, JSON, Parquet or Arrow file, a folder, or a URL."
        ),
    ],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The file for the table with the answers.")],
    model: Model = None,
    key: Annotated[str | None, typer.Option(help="The column that identifies a row.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="PARAMETER=COLUMN", help="The column of a parameter. Repeatable."),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="The delimiter of CSV files; recognized by default.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="The encoding of CSV files; recognized by default.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="The beginning of the names of new columns.")] = None,
    error_column: Annotated[
        str | None, typer.Option(help='The name of the column with errors; by default "error".')
    ] = None,
    usage: Annotated[
        bool, typer.Option("--usage", help="Add the columns tokens, cost, attempts and seconds.")
    ] = False,
    explode: Annotated[
        str | None, typer.Option(metavar="LIST", help="Write a row for each item of this list.")
    ] = None,
    nulls: Annotated[
        Nulls, typer.Option(help="The result for an empty cell of a required parameter.")
    ] = Nulls.ERROR,
    limit: Annotated[int | None, typer.Option(help="Process only the first rows.", min=1)] = None,
    max_money: Annotated[
        float | None, typer.Option(help="The highest cost of the run, in US dollars.")
    ] = None,
    max_requests: Annotated[int | None, typer.Option(help="The highest number of requests.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The highest number of tokens.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="The longest duration of the run.")] = None,
    rpm: Annotated[float | None, typer.Option(help="Requests per minute.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens per minute.")] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="Rows at the same time; 64 by default.")] = None,
    row_timeout: Annotated[
        float | None, typer.Option(help="The seconds after which a row has an error; 600 by default.")
    ] = None,
    max_failures: Annotated[
        float | None,
        typer.Option(help="The share of failed rows that ends the run; 0.5 by default, 1 for never."),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The file for finished rows; OUTPUT.journal by default."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the results of an earlier run.")
    ] = False,
    retry_failed: Annotated[
        bool | None,
        typer.Option(
            "--retry-failed/--no-retry-failed",
            help="Process all rows with an error again, or none; by default those whose error may pass.",
        ),
    ] = None,
    dedupe: Annotated[
        bool, typer.Option("--dedupe/--no-dedupe", help="Ask about equal rows once, or about each.")
    ] = True,
    review: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write rows with unsure answers to a CSV file.")
    ] = None,
    unsure_below: Annotated[
        float | None, typer.Option(help="The probability below which an answer is unsure.")
    ] = None,
    reviewed: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Use the answers that people added to a review file."),
    ] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="FILE", help="Use replies of other runs, and keep new ones here.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="batch: half the price, hours; ray, spark: more processors.")
    ] = Engine.DIRECT,
    progress: Annotated[
        bool,
        typer.Option("--progress/--no-progress", help="Show the progress; each 30 seconds in a log."),
    ] = True,
    sample: Annotated[
        int | None,
        typer.Option(help="Process only this many rows, and estimate tokens, cost and time of all.", min=1),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, and show the first request.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Call a method for each row of a table.

    The columns are the method's arguments, by name. To continue a stopped run, use the same command again:
    finished rows are in OUTPUT.journal. Needs the extra tables for Parquet and Arrow files and for URLs.
    """
    from .map_options import MapOptions, in_options

    with report_errors(debug=debug, wording=in_options):
        from .call import map_table

        options = MapOptions(
            key=key,
            column=column or [],
            delimiter=delimiter,
            encoding=encoding,
            prefix=prefix,
            error_column=error_column,
            usage=usage,
            explode=explode,
            nulls=nulls.value,
            limit=limit,
            max_money=max_money,
            max_requests=max_requests,
            max_tokens=max_tokens,
            max_seconds=max_seconds,
            rpm=rpm,
            tpm=tpm,
            max_concurrency=max_concurrency,
            row_timeout=row_timeout,
            max_failures=max_failures,
            journal=journal,
            restart=restart,
            retry_failed=retry_failed,
            dedupe=dedupe,
            review=review,
            unsure_below=unsure_below,
            reviewed=reviewed,
            cache=cache,
            engine=engine.value,
            progress=progress,
        )
        map_table(target, model, table, output, options, sample=sample, dry_run=dry_run)


@application.command(short_help="Call a method with each document.")
def extract(
    target: Target,
    files: Annotated[
        list[str], typer.Argument(metavar="FILES", help="Texts, Markdown, HTML, PDF or DOCX files.")
    ],
    to: Annotated[str, typer.Option(metavar="OUT.jsonl", help="The file for the answers.")],
    html: Annotated[
        str | None,
        typer.Option(metavar="OUT.html", help="A page that shows the Cited values in the files."),
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another argument of the method. Repeatable."),
    ] = None,
    model: Model = None,
    restart: Annotated[bool, typer.Option("--restart", help="Ask for all files again.")] = False,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show the progress.")] = True,
    debug: Debug = False,
) -> None:
    """Call a method with each of several documents.

    The method has a parameter of the type Document. Each line of the output has the name of a file with the
    answer or the error. A run that was stopped, or in which files failed, continues with the same command:
    OUT.jsonl.journal has the paid replies. The exit code is 1 if a file has no answer. PDF and DOCX need the
    extra documents.
    """
    with report_errors(debug=debug):
        from .extract import extract

        arguments = argument or []
        if not extract(target, model, files, arguments, to=to, html=html, restart=restart, progress=progress):
            raise typer.Exit(ExitCode.FAILED)


@application.command(name="index", short_help="Keep an index of a folder up to date.")
def index_(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder with the files.")],
    to: Annotated[str, typer.Option(metavar="INDEX.npz", help="The file of the index.")],
    embedding: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="openai:NAME, ollama:NAME, embedded, or MODULE:NAME of an object with a method embed.",
        ),
    ] = "embedded",
    pattern: Annotated[str, typer.Option(help="Which files of the folder.")] = "**/*",
    max_characters: Annotated[int, typer.Option(help="The longest passage.", min=1)] = 900,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show the progress.")] = True,
    debug: Debug = False,
) -> None:
    """Keep an index of the files of a folder up to date.

    Adds new and changed texts, Markdown, HTML, PDF and DOCX files, and removes deleted ones. The index is an
    EmbeddingStore. Which files it has is in INDEX.npz.files.json. The exit code is 1 if a file cannot be
    read. Needs the extra retrieval, for PDF and DOCX documents, and for the embedded model embeddings.
    """
    with report_errors(debug=debug):
        from .index import index_folder

        limits = max_characters
        if not index_folder(folder, to, embedding, pattern=pattern, max_characters=limits, progress=progress):
            raise typer.Exit(ExitCode.FAILED)


@application.command(short_help="Calibrate the probabilities of a method.")
def calibrate(
    target: Target,
    cases: Annotated[
        str,
        typer.Argument(
            metavar="CASES.csv",
            help="The labelled examples: a column for each parameter, and one with the right answer.",
        ),
    ],
    expected: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The column with the right answer. For a record, there is a column for each labelled field, "
            "such as expected.urgent.",
        ),
    ] = "expected",
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE.json",
            help="The file to write. Calibrations of other methods that it already has are kept.",
        ),
    ] = "calibration.json",
    error: Annotated[
        float, typer.Option(help="The highest share of wrong answers above the threshold.")
    ] = 0.05,
    confidence: Annotated[
        float, typer.Option(help="The probability that this limit holds, for examples like these.")
    ] = 0.95,
    model: Model = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Calibrate the probabilities of a method with labelled examples.

    Calls the method for each row of a CSV file, corrects its probabilities, looks for a threshold that keeps
    the error below a limit, and writes the file for create(calibration=…). Prints measures before and after
    the calibration.
    """
    with report_errors(debug=debug, as_json=json):
        from .calibrate import calibrate

        calibrate(target, model, cases, expected, out, error=error, confidence=confidence, as_json=json)


@application.command()
def serve(
    target: WholeService,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 selects a free port.", min=0, max=65535)] = 8000,
    model: Model = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a Python file in this folder changes.")
    ] = False,
    workers: Annotated[
        int, typer.Option(help="The number of processes. Each has its own memory of conversations.", min=1)
    ] = 1,
    caller_argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A MemoryId or UserName that callers may choose. Repeatable."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name of this server. Repeatable."),
    ] = None,
    media_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host of images and files that callers may pass by URL, such as images.example.com. "
            "Repeatable. Without it, the policy of the service decides.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Serve a service over HTTP.

    Each method is an endpoint. / is a page for trying out the methods, and /docs is FastAPI's documentation
    page. Requests from web pages of other origins or for unknown host names are rejected. Needs the extra
    fastapi.
    """
    with report_errors(debug=debug):
        from .serve import ServeSettings, serve

        hosts = allowed_host or [], media_host or []
        settings = ServeSettings(target, model, host, caller_argument or [], *hosts, workers)
        serve(settings, port, reload=reload)


@application.command()
def mcp(
    target: WholeService,
    model: Model = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="The value of a parameter in all calls. Repeatable."),
    ] = None,
    session_argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A MemoryId that is different for each client. Repeatable."),
    ] = None,
    caller_argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A MemoryId or UserName that the client may choose. Repeatable."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Serve a service to an MCP client over stdio.

    Add this command to the client's configuration. Each method is a tool and a prompt. The client's user is
    asked to approve tool calls that need approval. Needs the extra mcp.
    """
    with report_errors(debug=debug):
        from .serve import McpSettings, serve_mcp

        names = session_argument or [], caller_argument or []
        serve_mcp(McpSettings(target, model, argument or [], *names))


@batch_application.command(name="list")
def list_batches(output: Output, debug: Debug = False) -> None:
    """List the unfinished batches of a run."""
    with report_errors(debug=debug):
        from .call import list_batches

        list_batches(output)


@batch_application.command()
def status(output: Output, debug: Debug = False) -> None:
    """Show the progress of the batches."""
    with report_errors(debug=debug):
        from .call import show_status

        show_status(output)


@batch_application.command()
def fetch(output: Output, debug: Debug = False) -> None:
    """Download the responses of batches that have ended.

    Providers delete them after some weeks. The command map reads the stored responses.
    """
    with report_errors(debug=debug):
        from .call import fetch

        fetch(output)


@batch_application.command()
def cancel(output: Output, debug: Debug = False) -> None:
    """Cancel the provider's batch jobs that a run of ``map`` has started.

    Responses to finished requests are kept.
    """
    with report_errors(debug=debug):
        from .call import cancel

        cancel(output)


@application.command(name="agent-skills", short_help="List or install skills for coding agents.")
def agent_skills(
    install: Annotated[bool, typer.Option("--install", help="Copy the skills into a folder.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder for --install; by default .agents/skills, or .claude/skills "
            "if only .claude exists.",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the skills for coding agents that this package contains, or install them.

    They say how to use the library, and how to move programs from instructor, pydantic-ai and LangChain.
    """
    with report_errors(debug=debug, as_json=json):
        from .agent_skills import agent_skills

        agent_skills(install=install, to=to, as_json=json)


StoreArgument = Annotated[str, typer.Argument(metavar="JOURNAL", help="The file or the URL of the journal.")]
CallId = Annotated[str, typer.Argument(metavar="ID", help="The id of the call.")]


class CallStatus(StrEnum):
    """The states of durable calls."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@calls_application.command(name="list")
def list_calls(
    journal: StoreArgument,
    status: Annotated[
        list[CallStatus] | None, typer.Option(help="Only calls with this status. Repeatable.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the durable calls of a journal, the oldest first."""
    with report_errors(debug=debug, as_json=json):
        from .calls import list_calls

        list_calls(journal, [one.value for one in status or ()], as_json=json)


@calls_application.command(name="show")
def show_call(journal: StoreArgument, call: CallId, json: Json = False, debug: Debug = False) -> None:
    """Show the records of a call, and what it waits for."""
    with report_errors(debug=debug, as_json=json):
        from .calls import show_call

        show_call(journal, call, as_json=json)


@calls_application.command(name="resume")
def resume_call(
    journal: StoreArgument,
    call: CallId,
    approve: Annotated[
        bool | None,
        typer.Option("--approve/--deny", help="The decision about all tool calls that wait."),
    ] = None,
    result: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=JSON", help="The result of a tool: external, or one that ran. Repeatable."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Decide what a suspended call waits for.

    The program continues the call when it calls recover, or makes the same call again. For a tool call that
    may have run, --approve means that it has not run; if it has, pass its result.
    """
    with report_errors(debug=debug):
        from .calls import answer_call

        answer_call(journal, call, approve, result or [])


@calls_application.command(name="cancel")
def cancel_call(journal: StoreArgument, call: CallId, debug: Debug = False) -> None:
    """End a call, so that it cannot be continued."""
    with report_errors(debug=debug):
        from .calls import cancel_call

        cancel_call(journal, call)


@calls_application.command(name="forget")
def forget_call(journal: StoreArgument, call: CallId, debug: Debug = False) -> None:
    """Delete a call with all its records."""
    with report_errors(debug=debug):
        from .calls import forget_call

        forget_call(journal, call)


@application.command(short_help="List the providers of models.")
def providers(json: Json = False) -> None:
    """List the providers: how to name their models, what the models support, and which keys are set."""
    from .show import list_providers

    list_providers(as_json=json)


@models_application.callback(invoke_without_command=True)
def models(context: typer.Context, json: Json = False) -> None:
    """List models and download weights.

    Lists how models are named, the environment variables of their providers, and the weights on this machine.
    """
    if context.invoked_subcommand is None:
        _list_models(as_json=json)
    elif json:
        raise typer.BadParameter("write it after the command, as in: models list --json", param_hint="--json")


@models_application.command(name="list", short_help="List models and weights.")
def list_(json: Json = False) -> None:
    """List how models are named, the environment variables of their providers, and the weights.

    The command models without a subcommand does the same.
    """
    _list_models(as_json=json)


def _list_models(*, as_json: bool) -> None:
    from .show import list_models

    list_models(as_json=as_json)


@models_application.command(short_help="Download weights for the embedded model.")
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the weights in the list.")],
    debug: Debug = False,
) -> None:
    """Download weights for the embedded model, check their SHA-256, and print their path.

    An interrupted download continues with the next run.
    """
    with report_errors(debug=debug):
        from ..models.local.weights import ProgressLine, pull, weights_named

        try:
            weights = weights_named(name)
        except LookupError as error:
            raise UsageError(str(error)) from None
        print(pull(weights.name, ProgressLine()))
