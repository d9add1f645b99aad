"""The commands ``serve`` and ``mcp``, which offer a service over HTTP or to an MCP client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..models.errors import install_command
from ..models.media_policy import MediaPolicy
from ..remote.contract import CALLER_ROLES, Contract, contract_of
from .console import print_text
from .errors import CommandFailedError, UsageError, suggestion
from .services import find_target, make_service
from .values import read_arguments

if TYPE_CHECKING:
    from fastapi import FastAPI
    from mcp.server import Server

    from ..integrations.mcp.server import McpRequest


# The processes of --reload and --workers create the application themselves. They read the settings here.
_SETTINGS_VARIABLE = "AISERVICES_SERVE_SETTINGS"
_BACKLOG = 2048  # connections that wait until the server accepts them; the default of uvicorn
_HTTP: Literal["h11"] = "h11"  # other HTTP parsers of uvicorn read headers of any size


class ServeSettings(NamedTuple):
    """The settings of the command ``serve``: the service, the address, and what callers may set.

    Attributes:
        target: The service as the user typed it.
        model: The name of the model, or None.
        host: The address to listen on.
        caller_arguments: The parameters with a MemoryId or UserName that callers may choose.
        allowed_hosts: Additional host names under which the server can be reached.
        media_hosts: The hosts of images and files that callers may pass by URL; if empty, the policy of the
            service decides.
        workers: The number of processes.
    """

    target: str
    model: str | None
    host: str
    caller_arguments: list[str]
    allowed_hosts: list[str]
    media_hosts: list[str]
    workers: int = 1


def serve(settings: ServeSettings, port: int, *, reload: bool) -> None:
    """Serve a service over HTTP until the process is stopped.

    With ``reload`` the server restarts when a Python file in the current folder changes. Raises UsageError
    and DefinitionError before the server starts, and CommandFailedError if it cannot start.
    """
    if reload and settings.workers > 1:
        raise UsageError("--reload needs a single process; omit --workers")
    # These packages are not part of the extra cli, so the error names the extra to install.
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise CommandFailedError(
                f"serve needs {package}, which is not installed: {install_command('cli', 'fastapi')}"
            )
    application = application_of(settings)  # in this process too, so that it reports each mistake
    if not _is_loopback(settings.host):
        message = f"warning: everyone who can reach {settings.host} can call the service and see prompts"
        print_text(f"{message}; callers are not authenticated", file=sys.stderr)
    if reload or settings.workers > 1:
        _serve_in_processes(settings, port, reload=reload)
    else:
        _serve_in_this_process(application, settings, port)


def _serve_in_this_process(application: FastAPI, settings: ServeSettings, port: int) -> None:
    import uvicorn

    # uvicorn alone would report a complete start before it binds the port.
    with _listen(settings.host, port) as listener:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listener.getsockname()[1]}"
        print_text(f"Serving {settings.target} at {address} (Ctrl+C stops)", file=sys.stderr)
        server = uvicorn.Server(uvicorn.Config(application, http=_HTTP))
        with contextlib.suppress(KeyboardInterrupt):  # this is how a server is stopped
            server.run(sockets=[listener])


def _serve_in_processes(settings: ServeSettings, port: int, *, reload: bool) -> None:
    """Let uvicorn start the server processes for the options ``--reload`` and ``--workers``."""
    import uvicorn

    os.environ[_SETTINGS_VARIABLE] = json.dumps(settings)
    try:
        # It binds the port before it starts a process.
        uvicorn.run(
            f"{__name__}:{application_of_environment.__name__}",
            factory=True,
            host=settings.host,
            port=port,
            http=_HTTP,
            reload=reload,
            workers=settings.workers,
        )
    except SystemExit as error:  # uvicorn has logged the reason, for example that the port is in use
        if error.code:
            raise CommandFailedError(
                f"cannot serve at {settings.host}:{port}; the lines above say why"
            ) from None


def application_of_environment() -> FastAPI:
    """Create the FastAPI application from settings that ``serve`` stored in environment variables."""
    return application_of(ServeSettings(*json.loads(os.environ[_SETTINGS_VARIABLE])))


def application_of(settings: ServeSettings) -> FastAPI:
    """Return the FastAPI application for a service, including a web page to try out the service."""
    from ..integrations.fastapi import ApprovalSettings, app
    from ..page import mount
    from ..remote.request_check import RequestCheck, host_problems

    service, interface = _make_service(settings)
    problems = host_problems("--allowed-host", settings.allowed_hosts)
    if problems:
        raise UsageError("; ".join(map(str, problems)))
    media = MediaPolicy(hosts=settings.media_hosts) if settings.media_hosts else None
    callers = settings.caller_arguments
    application = app(service, interface=interface, caller_arguments=callers, media=media)
    # Only the user of this machine decides about tools, and another process could not resume the call.
    has_form = _is_loopback(settings.host) and settings.workers == 1
    approvals = ApprovalSettings() if has_form else None
    mount(
        application,
        service,
        interface=interface,
        caller_arguments=callers,
        media=media,
        approvals=approvals,
    )
    hosts = [settings.host, socket.gethostname(), *settings.allowed_hosts]
    application.add_middleware(RequestCheck, allowed_hosts=hosts, same_origin=True)
    return application


def _make_service(settings: ServeSettings | McpSettings) -> tuple[object, object]:
    """Return the service to serve and its interface, or raise UsageError if only one method is named."""
    target = find_target(settings.target)
    if target.method:
        raise UsageError(f"only a whole service can be served: omit .{target.method}")
    service = make_service(target, settings.model)
    return service, target.interface_of(service)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections, or raise CommandFailedError if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CommandFailedError(
            f"cannot serve at {host}:{port}: {reason}; choose another address with --host and --port"
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- The command mcp ---


class McpSettings(NamedTuple):
    """The settings of the command ``mcp``: the service, and arguments that the client does not pass.

    Attributes:
        target: The service as the user typed it.
        model: The name of the model, or None.
        arguments: Values of parameters, as ``NAME=VALUE``.
        session_arguments: The parameters that receive the session id.
        caller_arguments: The parameters with a MemoryId or UserName that the client may choose.
    """

    target: str
    model: str | None
    arguments: Sequence[str]
    session_arguments: Sequence[str]
    caller_arguments: Sequence[str]


def serve_mcp(settings: McpSettings) -> None:
    """Serve a service to an MCP client over standard input and output until the client disconnects.

    Raises UsageError and DefinitionError before the first message is read, and CommandFailedError without the
    package ``mcp``.
    """
    # The package is not part of the extra cli, so the error names the extra to install.
    if find_spec("mcp") is None:
        message = "mcp needs the package mcp, which is not installed"
        raise CommandFailedError(f"{message}: {install_command('cli', 'mcp')}")
    server = server_of(settings)
    if sys.stdin.isatty():
        message = f"{settings.target} waits for an MCP client; clients start this command themselves"
        print_text(f"{message} (Ctrl+C stops)", file=sys.stderr)
    # A thread waits for the next line of standard input. Nothing but the end of the process can stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_run(server))


async def _run(server: Server[object]) -> None:
    from mcp.server.stdio import stdio_server

    from ..integrations.mcp.json_rpc import MessageStream

    async with stdio_server() as (read_stream, write_stream):
        messages: Any = MessageStream(read_stream, write_stream)
        await server.run(messages, write_stream, server.create_initialization_options())


def server_of(settings: McpSettings) -> Server[object]:
    """Return an MCP server for a service whose only client is another program of the same user.

    Because the client is trusted, it sees prompts and may approve tool calls.
    """
    from ..integrations.mcp import ApprovalSettings, mcp_server, session_id

    service, interface = _make_service(settings)
    contract = contract_of(interface)
    server_arguments: dict[str, Callable[[McpRequest], object]] = dict.fromkeys(
        _check_names(settings.session_arguments, contract), session_id
    )
    for text in settings.arguments:
        name, value = _read_argument(text, contract)
        if name in server_arguments:
            raise UsageError(f"{name} is set more than once")
        server_arguments[name] = _constant(value)
    _check_callers(contract, [*server_arguments, *settings.caller_arguments])
    return mcp_server(
        service,
        interface=interface,
        server_arguments=server_arguments,
        caller_arguments=settings.caller_arguments,
        prompts=True,
        approvals=ApprovalSettings(),
    )


def _constant(value: object) -> Callable[[McpRequest], object]:
    return lambda request: value


def _check_names(names: Sequence[str], contract: Contract) -> Sequence[str]:
    for name in names:
        if not any(name in method.signature.parameters for method in contract.methods.values()):
            raise _unknown_parameter(name, contract)
    return names


def _read_argument(text: str, contract: Contract) -> tuple[str, object]:
    """Parse ``NAME=VALUE`` as the type of the parameter with that name, or raise UsageError."""
    name = text.partition("=")[0].rstrip(":")
    methods = [method for method in contract.methods.values() if name in method.signature.parameters]
    if not methods:
        raise _unknown_parameter(name, contract)
    values = [read_arguments([text], method, allow_missing=True)[name] for method in methods]
    if any(type(value) is not type(values[0]) or value != values[0] for value in values):
        raise UsageError(f"{name} has different types in {contract.name}, so one value does not fit all")
    return name, values[0]


def _check_callers(contract: Contract, names: Sequence[str]) -> None:
    """Raise UsageError for a MemoryId or UserName parameter that no command-line option sets."""
    for method in contract.methods.values():
        for argument in method.arguments:
            name = argument.name
            if argument.role in CALLER_ROLES and name not in names:
                raise UsageError(
                    f"{name} says who the caller is; set it with --argument {name}=…, or with "
                    f"--session-argument {name} for a conversation of each client, or let the client choose "
                    f"with --caller-argument {name}"
                )


def _unknown_parameter(name: str, contract: Contract) -> UsageError:
    names = dict.fromkeys(name for one in contract.methods.values() for name in one.signature.parameters)
    return UsageError(f"no method of {contract.name} has a parameter {name}{suggestion(name, list(names))}")
