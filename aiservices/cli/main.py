"""The commands and their options; each loads what it needs when it is run."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from .services import ExitCode, Failure, Mistake, find, make, methods_to_ask, model_named, reported


def targets(incomplete: str) -> list[str]:
    """What a target may go on with. Its module is imported when a colon stands behind the name."""
    return [one for one in _quietly(_targets, incomplete) if one.startswith(incomplete)]


def argument_names(context: typer.Context, incomplete: str) -> list[str]:
    """``NAME=`` for each parameter that is not given yet.

    bash takes a colon for a word of its own, so that the rest of a target comes here too.
    """
    target, given = str(context.params.get("target") or ""), list(context.params.get("arguments") or ())
    if given == [":"]:
        return [one.rpartition(":")[2] for one in targets(f"{target}:{incomplete}")]
    if given[:1] == [":"]:
        target, given = f"{target}:{given[1]}", given[2:]
    names = {one.partition("=")[0].removesuffix(":") for one in given}
    return [f"{name}=" for name in _quietly(_parameters, target) if name not in names]


def _quietly(find: Callable[[str], Iterator[str]], text: str) -> list[str]:
    """What is found; nothing when that fails, for what a module prints or raises would end up in the line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return list(find(text))
    except Exception:
        return []


def _targets(text: str) -> Iterator[str]:
    from .services import module_named, services_in, split

    module_name, name, _ = split(text)
    if ":" not in text:
        return
    module = module_named(module_name)
    for one in services_in(module):
        yield f"{module_name}:{one}"
        if one == name:
            yield from (f"{module_name}:{one}.{method}" for method in _methods(getattr(module, one)))


def _parameters(target: str) -> Iterator[str]:
    from .services import find

    found = find(target)
    methods = _methods(found.value)
    method = methods[found.method] if found.method or len(methods) != 1 else next(iter(methods.values()))
    yield from list(inspect.signature(method).parameters)[1:]


def _methods(service: Any) -> dict[str, Any]:
    """The methods of an interface, or of a service that is made."""
    from ..interface.stubs import is_stub, methods_of
    from .services import method_names

    if isinstance(service, type):
        return {name: one for name, _, one in methods_of(service) if is_stub(one)}
    return {name: getattr(type(service), name) for name in method_names(service)}


_EXIT_CODES = (
    "Exit codes: 0 it is done; 1 the call failed, or the check found problems; 2 what was typed, or the "
    "definition of the service, is wrong."
)
application = typer.Typer(
    help=f"Show, call, check and serve services that are declared as typed interfaces.\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_application = typer.Typer(help="List models, and get weights.")
application.add_typer(models_application, name="models")

_TARGET = "A service as MODULE:NAME, or FILE.py:NAME: an interface, a service, or a function that makes one."
Target = Annotated[
    str, typer.Argument(metavar="MODULE:SERVICE[.METHOD]", help=_TARGET, autocompletion=targets)
]
Served = Annotated[str, typer.Argument(metavar="MODULE:SERVICE", help=_TARGET, autocompletion=targets)]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:SERVICE]",
        help="A module or FILE.py with all services in it, or one of them.",
        autocompletion=targets,
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE",
        help="An argument. NAME:=JSON is read as JSON; NAME=@PATH is what a file holds, NAME=- what comes "
        "from standard input; @@ stands for an @ that is meant.",
        autocompletion=argument_names,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help='As "aiservices models" lists them: openai:NAME, local, fake … By default what AISERVICES_MODEL '
        "names, else the embedded model.",
    ),
]
ShownModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="For which model. By default what AISERVICES_MODEL names, else openai:gpt-5-mini.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, errors too.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"aiservices {version('aiservices')}")
        raise typer.Exit


@application.callback()
def whole(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Holds for all commands."""


@application.command()
def show(
    target: Target,
    arguments: Arguments = None,
    model: ShownModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a method would send, and why.

    Its messages, the schema of the answer, the strategy with its reasons, the tools. Nothing is sent, and no
    key is needed. Arguments that are not given stand as {{name}}, or as their defaults.
    """
    with reported(debug=debug, as_json=json):
        from .show import show

        show(target, model, arguments or [], as_json=json)


@application.command()
def call(
    target: Target,
    arguments: Arguments = None,
    model: Model = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also tell how the answer was got, on standard error.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Call a method and print its answer.

    A stream is printed while it is written. A value is read as the type of its parameter: text, numbers,
    dates, values of an enum; lists and records as JSON. A list may also be given item by item:
    NAME=ONE NAME=TWO.
    """
    with reported(debug=debug, as_json=json):
        from .call import call

        call(target, model, arguments or [], verbose=verbose, as_json=json)


@application.command()
def check(
    modules: Targets,
    profile: Annotated[
        str,
        typer.Option(help="Whose strict mode: openai, gemini, anthropic, llama.cpp or vllm."),
    ] = "openai",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail also where strict mode has to be given up.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the services of modules.

    Their definitions, templates and types; also what the strict mode of a provider cannot say of a type, and
    what is done about it. The exit code is 1 when there are problems.
    """
    with reported(debug=debug, as_json=json):
        from .check import check

        if not check(modules, profile, strict=strict, as_json=json):
            raise typer.Exit(ExitCode.FAILED)


@application.command()
def serve(
    target: Served,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes one that is free.", min=0, max=65535)] = 8000,
    model: Model = None,
    debug: Debug = False,
) -> None:
    """Serve a service over HTTP.

    Each method is an endpoint. / is a page to try them on, /docs that of FastAPI. Needs the extra fastapi.
    """
    with reported(debug=debug):
        run_server(target, model, host, port)


@models_application.callback(invoke_without_command=True)
def models(context: typer.Context, json: Json = False) -> None:
    """List models, and get weights.

    How models are named, the variables that their providers look at, and the weights on this machine.
    """
    if context.invoked_subcommand is None:
        from .show import list_models

        list_models(as_json=json)


@models_application.command(short_help="Get weights for the embedded model.")
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The weights, as the list names them.")],
) -> None:
    """Get weights for the embedded model, check their SHA-256, and print their path."""
    from ..models.local.__main__ import main as local

    raise typer.Exit(local(["pull", name]))


_OF_THIS_MACHINE = ["localhost", "127.0.0.1", "[::1]", "::1"]


def run_server(target: str, model: str | None, host: str, port: int) -> None:
    """Serve the endpoints, and the page that tries them, until it is stopped.

    Raises Mistake, DefinitionError, and Failure when the port is taken."""
    for needed in ("fastapi", "uvicorn"):
        if find_spec(needed) is None:
            raise Mistake(
                f"serve needs {needed}, which is not installed: pip install 'aiservices[cli,fastapi]'"
            )
    found = find(target)
    if found.method:
        raise Mistake(f"a service is served as a whole: leave .{found.method} out")
    service = make(found, model_named(model))
    methods_to_ask(found, service)

    import uvicorn
    from fastapi.middleware.trustedhost import TrustedHostMiddleware

    from ..integrations.fastapi import app
    from ..integrations.playground import mount

    interface = found.interface_of(service)
    web = app(service, interface=interface)
    mount(web, service, interface=interface)
    if host in _OF_THIS_MACHINE:  # else a site that a browser here visits could ask by a name of its own
        web.add_middleware(TrustedHostMiddleware, allowed_hosts=_OF_THIS_MACHINE)
    try:
        uvicorn.run(web, host=host, port=port)
    except SystemExit:
        raise Failure(f"nothing can be served at {host}:{port}; the lines above say why") from None
