"""The commands of the command line, their options, and shell completion.

A command imports its module when it runs: ``aiservices --help`` must not wait for the imports of a model.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from .errors import CommandFailedError, ExitCode, UsageError, report_errors

# --- Shell completion (the options below refer to these functions) ---


def complete_target(incomplete: str) -> list[str]:
    """Return the shell completions for the name of a service or method, such as ``shop:Desk.answer``.

    The module is imported if a colon follows its name.
    """
    return [target for target in _completions(_targets, incomplete) if target.startswith(incomplete)]


def complete_argument(context: typer.Context, incomplete: str) -> list[str]:
    """Return the shell completion ``NAME=`` for each parameter that has no value yet."""
    target = str(context.params.get("target") or "")
    argument_texts = list(context.params.get("arguments") or ())
    # bash treats a colon as a word of its own, so that the rest of a target arrives here.
    if argument_texts == [":"]:
        return [candidate.rpartition(":")[2] for candidate in complete_target(f"{target}:{incomplete}")]
    if argument_texts[:1] == [":"]:
        target, argument_texts = f"{target}:{argument_texts[1]}", argument_texts[2:]
    used_names = {text.partition("=")[0].removesuffix(":") for text in argument_texts}
    return [f"{name}=" for name in _completions(_parameter_names, target) if name not in used_names]


def _completions(candidates: Callable[[str], Iterator[str]], text: str) -> list[str]:
    """Return the shell completions of a text, or an empty list if an error occurs.

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
    """Return a dict from method name to method, for an interface or a service object."""
    from ..interface.stubs import is_stub, methods_of
    from .services import method_names

    if isinstance(service, type):
        return {name: method for name, _, method in methods_of(service) if is_stub(method)}
    return {name: getattr(type(service), name) for name in method_names(service)}


# --- The application and the types of its arguments ---

_EXIT_CODES = (
    "Exit codes: 0 success; 1 the call failed, or the check found problems; 2 the command line or the "
    "definition of the service is wrong."
)
application = typer.Typer(
    help=f"Show, call, check and serve services that are declared as typed interfaces.\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_application = typer.Typer(help="List models and download weights.")
application.add_typer(models_application, name="models")

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
        help="The model to show the request for. The default is the model in AISERVICES_MODEL, else "
        "openai:gpt-5-mini.",
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
    """Handle the options of the command line itself, such as ``--version``."""


@application.command()
def show(
    target: Target,
    arguments: Arguments = None,
    model: PreviewModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the request that a method would send, and why.

    Prints the messages, the schema of the answer, the strategy with its reasons, and the tools. Nothing is
    sent, and no key is needed. A missing argument is shown as its default or as {{name}}.
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
        typer.Option(help="Whose strict mode to check: openai, gemini, anthropic, llama.cpp or vllm."),
    ] = "openai",
    strict: Annotated[
        bool, typer.Option("--strict", help="Also fail if a type cannot use strict mode.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the services in modules for problems.

    Checks definitions, templates and types. Also lists what the strict mode of a provider does not support in
    a type, and what the library does about it. The exit code is 1 if there are problems.
    """
    with report_errors(debug=debug, as_json=json):
        from .check import check

        if not check(modules, profile, strict=strict, as_json=json):
            raise typer.Exit(ExitCode.FAILED)


@application.command()
def serve(
    target: WholeService,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 selects a free port.", min=0, max=65535)] = 8000,
    model: Model = None,
    caller_argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A MemoryId or UserName that callers may choose. Repeatable."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name of this server. Repeatable."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Serve a service over HTTP.

    Each method is an endpoint. / is a page to try the methods, /docs the page of FastAPI. Requests of web
    pages of other origins are refused, and so are those for unknown host names. Needs the extra fastapi.
    """
    with report_errors(debug=debug):
        _serve(target, model, host, port, caller_argument or [], allowed_host or [])


def _serve(
    target_name: str,
    model: str | None,
    host: str,
    port: int,
    caller_arguments: list[str],
    allowed_hosts: list[str],
) -> None:
    """Serve a service over HTTP, with a page for trying it, until the process is stopped."""
    # These packages are not part of the extra cli, so the error names the extra to install.
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise UsageError(
                f"serve needs {package}, which is not installed: pip install 'aiservices[cli,fastapi]'"
            )
    from .services import find_target, make_service, model_from_option

    target = find_target(target_name)
    if target.method:
        raise UsageError(f"only a whole service can be served: omit .{target.method}")
    service = make_service(target, model_from_option(model))

    from socket import gethostname

    import uvicorn

    from ..integrations.fastapi import app
    from ..integrations.fastapi.server import RequestCheck, host_problems
    from ..integrations.playground import mount
    from .console import print_text

    interface = target.interface_of(service)
    problems = host_problems("--allowed-host", allowed_hosts)
    if problems:
        raise UsageError("; ".join(map(str, problems)))
    web_app = app(service, interface=interface, caller_arguments=caller_arguments)
    mount(web_app, service, interface=interface, caller_arguments=caller_arguments)
    hosts = [host, gethostname(), *allowed_hosts]
    web_app.add_middleware(RequestCheck, allowed_hosts=hosts, same_origin=True)
    if not _is_loopback(host):
        message = f"warning: everyone who can reach {host} can call the service and see prompts"
        print_text(f"{message}; nothing asks who they are", file=sys.stderr)
    try:
        # Other HTTP parsers of uvicorn read headers of any size.
        uvicorn.run(web_app, host=host, port=port, http="h11")
    except SystemExit:  # uvicorn has logged the reason, for example that the port is in use
        raise CommandFailedError(f"cannot serve at {host}:{port}; the lines above say why") from None


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@models_application.callback(invoke_without_command=True)
def models(context: typer.Context, json: Json = False) -> None:
    """List models and download weights.

    Lists how models are named, the environment variables of their providers, and the weights on this machine.
    """
    if context.invoked_subcommand is None:
        from .show import list_models

        list_models(as_json=json)


@models_application.command(short_help="Download weights for the embedded model.")
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the weights in the list.")],
) -> None:
    """Download weights for the embedded model, check their SHA-256, and print their path."""
    from ..models.local.__main__ import main as local

    raise typer.Exit(local(["pull", name]))
