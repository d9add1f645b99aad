"""Tool providers that are called in each call, and the injected parameters of tools."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    ANN,
    CALL_KINDS,
    NATIVE,
    SEARCH_CALL,
    STRICT,
    TOOLS,
    AsyncTextService,
    PersonService,
    Unsafe,
    aadd,
    add,
    every_call_kind,
    messages_to,
    search,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    Capabilities,
    DefinitionError,
    MemoryId,
    ToolContext,
    ToolMessage,
    ToolSpecification,
    create,
    tool,
)
from aiservices.interceptors import Invocation
from aiservices.tools.tool import tools_of

# parameters that the model does not see


class Books(Protocol):
    def book(
        self,
        what: str,
        user: Annotated[str, ToolContext],
        session: Annotated[str, MemoryId],
    ) -> str: ...


def reserve(
    what: str, user: Annotated[str, ToolContext], session: Annotated[str, MemoryId], seats: int = 1
) -> str:
    """Reserves."""
    return f"{what} {user} {session} {seats}"


@pytest.mark.parametrize("capabilities", [TOOLS, STRICT])
def test_injected_values_are_never_in_a_request(capabilities: Capabilities) -> None:
    arguments = '{"what": "opera", "seats": 2, "user": "mallory"}'
    model = strict_provider(tool_calls_reply(("reserve", arguments)), "Booked.", capabilities=capabilities)
    service = create(Books, model, tools=[reserve])
    assert service.book("opera", "ann-7", "session-9") == "Booked."
    first = repr(model.requests[0])
    assert "ann-7" not in first
    assert "session-9" not in first
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert set(tooling.tools[0].parameters["properties"]) == {"what", "seats"}
    assert messages_to(model)[-1] == ToolMessage("c1", "reserve", "opera ann-7 session-9 2")


# tools that are known when the call is made


class Provides:
    def __init__(self, *tools: Any) -> None:
        self.given = tools
        self.turns: list[Invocation] = []

    def tools(self, invocation: Invocation) -> list[Any]:
        self.turns.append(invocation)
        return list(self.given)


class AsyncProvides(Provides):
    async def tools(self, invocation: Invocation) -> list[Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().tools(invocation)


@every_call_kind
def test_a_provider_adds_tools_to_a_call(kind: str) -> None:
    provides = Provides(search)
    model = strict_provider(tool_calls_reply(SEARCH_CALL), "Done.")
    assert CALL_KINDS[kind](text_service(model, add, provides)) == "Done."
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert [one.name for one in tooling.tools] == ["add", "search"]
    (invocation,) = provides.turns
    assert invocation.arguments == {"text": "x"}


def test_an_async_provider_and_its_async_tools_serve_async_methods() -> None:
    model = strict_provider(tool_calls_reply(("aadd", '{"a": 1, "b": 2}')), "Done.")
    service = create(AsyncTextService, model, tools=[AsyncProvides(aadd)])
    assert asyncio.run(service.ask("x")) == "Done."
    assert messages_to(model)[-1].text == "3"


def test_a_provider_without_tools_leaves_a_plain_call() -> None:
    model = strict_provider("Done.")
    assert text_service(model, Provides()).ask("x") == "Done."
    assert model.requests[0].tooling is None


def no_type(city) -> None: ...  # type: ignore[no-untyped-def]


def needs_user(user: Annotated[str, ToolContext]) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            add,
            "TextService.ask: two tools are called add; rename one of them with tool(name=…) or "
            "McpTools(prefix=…)",
        ),
        (
            no_type,
            "TextService.ask: the parameter city of the tool no_type has no type annotation; annotate it",
        ),
        (
            needs_user,
            "TextService.ask: the tool needs_user needs user, and the method has no such parameter; "
            "add user: Annotated[…, ToolContext]",
        ),
    ],
)
def test_invalid_provided_tools_are_reported_before_a_request(given: Any, said: str) -> None:
    model = strict_provider("Done.")
    with pytest.raises(DefinitionError) as caught:
        text_service(model, add, Provides(given)).ask("x")
    assert (str(caught.value), model.requests) == (said, [])


def test_a_provider_that_fails_ends_the_call_with_its_error() -> None:
    class Broken:
        def tools(self, invocation: Invocation) -> list[Any]:
            raise Unsafe("no registry")

    with pytest.raises(Unsafe, match="no registry"):
        text_service(strict_provider("Done."), Broken()).ask("x")


def needs_session(session: Annotated[str, MemoryId]) -> None: ...


def test_a_provided_tool_does_not_get_none_as_its_memory_id() -> None:
    with pytest.raises(DefinitionError) as caught:
        text_service(strict_provider("Done."), Provides(needs_session)).ask("x")
    needs = "the tool needs_session needs a MemoryId, and the method has no such parameter; add one"
    assert str(caught.value) == f"TextService.ask: {needs}"


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_a_provided_tool_is_not_mistaken_for_the_one_that_gives_the_answer(
    capabilities: Capabilities,
) -> None:
    def greet(name: str, age: int) -> str:
        return f"Hello, {name}."

    model = strict_provider(tool_calls_reply(("Person", ANN)), capabilities=capabilities)
    service = create(PersonService, model, tools=[Provides(tool(name="Person")(greet))])
    with pytest.raises(DefinitionError) as caught:
        service.find("x")
    said = "PersonService.find: the tool Person has the name of the tool that gives the answer; rename it"
    assert (str(caught.value), model.requests) == (said, [])


# tools that a provider gives again


class Shelf:
    """Finds books."""

    def __init__(self, whose: str) -> None:
        self.whose = whose

    @tool
    def find(self, title: str, tags: dict[str, int] | None = None) -> str:
        """Finds a book."""
        return f"{title} of {self.whose}"


class Makes:
    """A provider that makes new tools for each call."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def tools(self, invocation: Invocation) -> list[Any]:
        return [self.make()]


def offered_in_two_calls(make: Callable[[], Any], capabilities: Capabilities) -> list[ToolSpecification]:
    model = strict_provider("1", "2", capabilities=capabilities)
    service = text_service(model, Makes(make))
    service.ask("x")
    service.ask("x")
    told = []
    for request in model.requests:
        assert request.tooling is not None
        told += request.tooling.tools
    return told


@pytest.mark.parametrize("capabilities", [TOOLS, STRICT])
@pytest.mark.parametrize("make", [lambda: search, lambda: Shelf("Ann"), lambda: Shelf("Ann").find])
def test_a_tool_that_is_provided_again_is_parsed_once(
    make: Callable[[], Any], capabilities: Capabilities
) -> None:
    first, second = offered_in_two_calls(make, capabilities)
    assert first is second


def test_methods_that_are_parsed_once_are_called_on_their_own_objects() -> None:
    owners = iter(["Ann", "Bob"])
    one = tool_calls_reply(("find", '{"title": "Emma"}'))
    model = strict_provider(one, "1", one, "2")
    service = text_service(model, Makes(lambda: Shelf(next(owners))))
    service.ask("x")
    service.ask("x")
    assert [messages_to(model, number)[-1].text for number in (1, 3)] == ["Emma of Ann", "Emma of Bob"]


def test_a_changed_description_is_used_in_the_next_call() -> None:
    def find(title: str) -> None: ...

    numbers = iter([1, 2])

    def make() -> Any:
        find.__doc__ = f"Finds one of {next(numbers)} books."
        return find

    first, second = offered_in_two_calls(make, TOOLS)
    assert (first.description, second.description) == ("Finds one of 1 books.", "Finds one of 2 books.")


def test_functions_with_the_same_name_are_described_separately() -> None:
    types = iter([int, str])

    def make() -> Any:
        def find(key: Any) -> None: ...

        find.__annotations__["key"] = next(types)
        return find

    first, second = offered_in_two_calls(make, TOOLS)
    assert [one.parameters["properties"]["key"]["type"] for one in (first, second)] == ["integer", "string"]


class Held:
    def find(self, title: str) -> None: ...


@pytest.mark.parametrize("kind", ["method", "closure"])
def test_the_objects_of_a_tool_call_are_released(kind: str) -> None:
    seen: list[weakref.ref[Held]] = []

    def make() -> Any:
        held = Held()
        seen.append(weakref.ref(held))

        def find(title: str) -> None:
            held.find(title)

        return held.find if kind == "method" else find

    offered_in_two_calls(make, STRICT)
    gc.collect()
    assert [one() for one in seen] == [None, None]


def test_the_parser_of_a_tool_with_a_closure_is_released() -> None:
    def make(shelf: str) -> Any:
        def find(title: str) -> str:
            return f"{title} on {shelf}"

        return find

    (found,) = tools_of(make("A"))
    parser = weakref.ref(found.arguments)
    del found
    gc.collect()
    assert parser() is None
