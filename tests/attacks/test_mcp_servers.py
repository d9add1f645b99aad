"""MCP servers that send endless lists, control characters or patterns that backtrack."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, MCPError
from mcp.server import Server
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    Tool as ServerTool,
)

from aiservices.integrations.mcp import McpServerError, McpTools
from aiservices.integrations.mcp.clients import _acceptable_tool
from aiservices.tools.tool import Tool, ToolException

SCHEMA: dict[str, Any] = {"type": "object"}


def _tools_of(page: ListToolsResult, result: CallToolResult | None = None) -> McpTools:
    async def list_tools(*_: object) -> ListToolsResult:
        return page

    async def call_tool(*_: object) -> CallToolResult:
        assert result is not None
        return result

    server: Any = Server("attacker", on_list_tools=list_tools, on_call_tool=call_tool)
    return McpTools(lambda: Client(server), "the MCP server attacker")


def _first_tool(tools: McpTools) -> Tool:
    listed = tools.tools()
    assert isinstance(listed, list)
    return listed[0]


@pytest.mark.parametrize(
    ("count", "cursor", "message"),
    [
        (1, "more", "the MCP server attacker sends a list in more than 100 pages, the limit"),
        (1_001, None, "the MCP server attacker lists more than 1,000 tools, which is the limit"),
        (500, "more", "the MCP server attacker lists more than 1,000 tools, which is the limit"),
    ],
)
def test_an_endless_list_of_tools_is_an_error(count: int, cursor: str | None, message: str) -> None:
    server_tools = [ServerTool(name=f"t{index}", input_schema=SCHEMA) for index in range(count)]
    with (
        pytest.raises(McpServerError) as caught,
        _tools_of(ListToolsResult(tools=server_tools, next_cursor=cursor)),
    ):
        pass
    assert str(caught.value) == message


@pytest.mark.parametrize("is_error", [False, True])
def test_control_characters_of_a_server_are_removed(is_error: bool) -> None:
    tool = ServerTool(name="say", description="Says\x1b[2J\x00 it.", input_schema=SCHEMA)
    content: Any = [TextContent(type="text", text="a\x1b[2Jb\x00\n\tc\x9b")]
    result = CallToolResult(content=content, is_error=is_error)
    with _tools_of(ListToolsResult(tools=[tool]), result) as tools:
        say = _first_tool(tools)
        assert say.description == "Says[2J it."
        try:
            text = say.function()
        except ToolException as error:
            assert is_error
            text = str(error)
    assert text == "a[2Jb\n\tc"


def test_a_huge_description_is_cut() -> None:
    tool = ServerTool(name="t", description="x" * 5_000_000, input_schema=SCHEMA)
    with _tools_of(ListToolsResult(tools=[tool])) as tools:
        assert _first_tool(tools).description == "x" * 20_000 + "…"


# values at the place of a schema, and of each of its keywords
VALUES: tuple[Any, ...] = (None, True, 5, 1.5, "x", [], [5], ["x"], {}, {"x": 5}, {"x": {}}, [{}])
KEYWORDS = (
    "type properties required items prefixItems additionalProperties anyOf oneOf allOf not if then enum "
    "const default $ref $defs definitions pattern minLength minimum format description title examples "
    "nullable dependentRequired patternProperties propertyNames additionalItems $schema $id $anchor"
).split()


def test_no_schema_stops_the_other_tools() -> None:
    parts = [*VALUES, *({keyword: value} for keyword in KEYWORDS for value in VALUES)]
    schemas = [*parts, *({"type": "object", "properties": {"a": part}} for part in parts)]
    odd = [
        _acceptable_tool({"name": f"t{number}", "inputSchema": schema}, number)
        for number, schema in enumerate(schemas)
    ]
    page = ListToolsResult.model_validate({"tools": [*odd, {"name": "good", "inputSchema": SCHEMA}]})
    with _tools_of(page) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        assert listed[-1].name == "good"
        assert len(listed) + len(tools.problems) == len(schemas) + 1


def test_errors_and_contents_of_resources_are_cleaned() -> None:
    async def list_tools(*_: object) -> ListToolsResult:
        return ListToolsResult(tools=[])

    async def read_resource(_: object, params: ReadResourceRequestParams) -> ReadResourceResult:
        if params.uri == "a://bad":
            raise MCPError(-32002, "gone\x1b[2J\x9b")
        broken = BlobResourceContents(uri=params.uri, blob="!", mime_type="image/png")
        return ReadResourceResult(contents=[broken])

    server: Any = Server("attacker", on_list_tools=list_tools, on_read_resource=read_resource)
    with McpTools(lambda: Client(server), "the MCP server attacker", resources=True) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        with pytest.raises(ToolException) as caught:
            listed[1].function(uri="a://bad")
        assert str(caught.value) == "gone[2J"
        with pytest.raises(McpServerError, match=r"did not send the resource a://bad: gone\[2J$"):
            tools.read_resource("a://bad")
        with pytest.raises(McpServerError, match=r"the resource a://b cannot be used: "):
            tools.read_resource("a://b")


def test_a_tool_whose_pattern_is_refused_is_left_out_and_named() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(a*)*\1b$"}}}
    page = ListToolsResult(
        tools=[ServerTool(name="bad", input_schema=schema), ServerTool(name="good", input_schema=SCHEMA)]
    )
    with _tools_of(page) as tools:
        assert _first_tool(tools).name == "good"
        assert tools.problems == (
            "the tool bad cannot be used: the JSON Schema 'bad_arguments' is invalid at "
            r"#/properties/a/pattern: the pattern '^(a*)*\\1b$' cannot be used: "
            "backreferences are not supported",
        )


def test_alternatives_that_refer_to_each_other_do_not_take_forever() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 90} for n in range(40)
    }
    definitions["d40"] = {}
    schema = {"type": "object", "$defs": definitions, "anyOf": [{"$ref": "#/$defs/d0"}] * 90}
    with _tools_of(ListToolsResult(tools=[ServerTool(name="odd", input_schema=schema)])) as tools:
        assert _first_tool(tools).name == "odd"
