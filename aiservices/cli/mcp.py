"""The command ``mcp``, which serves a service to an MCP client over standard input and output."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ..integrations.fastapi.contract import CALLER_ROLES, Contract, contract_of
from .console import print_text
from .errors import CommandFailedError, UsageError, suggestion
from .services import find_target, make_service
from .values import read_arguments

if TYPE_CHECKING:
    from mcp.server import Server


class McpSettings(NamedTuple):
    """What the command ``mcp`` serves, and where the arguments come from that the client does not pass.

    Attributes:
        target: The service as the user typed it.
        model: The name of the model, or None.
        arguments: Values of parameters, as ``NAME=VALUE``.
        session_arguments: The parameters that get the id of the session.
        caller_arguments: The parameters with a MemoryId or UserName that the client may choose.
    """

    target: str
    model: str | None
    arguments: Sequence[str]
    session_arguments: Sequence[str]
    caller_arguments: Sequence[str]


def serve_mcp(settings: McpSettings) -> None:
    """Serve a service over standard input and output until the client closes its end.

    Raises UsageError and DefinitionError before the first message is read, and CommandFailedError without the
    package ``mcp``.
    """
    # The package is not part of the extra cli, so the error names the extra to install.
    if find_spec("mcp") is None:
        message = "mcp needs the package mcp, which is not installed"
        raise CommandFailedError(f"{message}: install the extras cli and mcp of aiservices")
    server = server_of(settings)
    if sys.stdin.isatty():
        message = f"{settings.target} waits for an MCP client; clients start this command themselves"
        print_text(f"{message} (Ctrl+C stops)", file=sys.stderr)
    # A thread waits for the next line of standard input. Nothing but the end of the process can stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_run(server))


async def _run(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def server_of(settings: McpSettings) -> Server[Any]:
    """Return the MCP server for a service, whose client is the user of this machine.

    Therefore the client sees prompts, and may approve tool calls.
    """
    from ..integrations.mcp import ApprovalSettings, mcp_server, session_id

    target = find_target(settings.target)
    if target.method:
        raise UsageError(f"only a whole service can be served: omit .{target.method}")
    service = make_service(target, settings.model)
    interface = target.interface_of(service)
    contract = contract_of(interface)
    server_arguments: dict[str, Callable[[Any], object]] = dict.fromkeys(
        _known_names(settings.session_arguments, contract), session_id
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


def _constant(value: object) -> Callable[[Any], object]:
    return lambda request: value


def _known_names(names: Sequence[str], contract: Contract) -> Sequence[str]:
    for name in names:
        if not any(name in method.signature.parameters for method in contract.methods.values()):
            raise _unknown_parameter(name, contract)
    return names


def _read_argument(text: str, contract: Contract) -> tuple[str, object]:
    """Read ``NAME=VALUE`` as the type of the parameter, or raise UsageError."""
    name = text.partition("=")[0].rstrip(":")
    methods = [method for method in contract.methods.values() if name in method.signature.parameters]
    if not methods:
        raise _unknown_parameter(name, contract)
    values = [read_arguments([text], method, allow_missing=True)[name] for method in methods]
    if any(type(value) is not type(values[0]) or value != values[0] for value in values):
        raise UsageError(f"{name} has different types in {contract.name}, so one value does not fit all")
    return name, values[0]


def _check_callers(contract: Contract, names: Sequence[str]) -> None:
    """Raise UsageError if nothing says who sets a MemoryId or UserName."""
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
