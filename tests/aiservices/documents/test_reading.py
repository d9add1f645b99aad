"""A long document is read in parts, and the merged answer is that of the whole document."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Required

import attrs
import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, Field, model_validator
from starlette.testclient import TestClient
from typing_extensions import TypedDict

from aiservices import (
    Budget,
    BudgetExceededError,
    CallId,
    ChatRequest,
    Cited,
    CitedText,
    Decision,
    DefinitionError,
    Document,
    Durable,
    Journal,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    create,
    options,
    tool,
    user_message,
)
from aiservices.documents import (
    Conflict,
    MergeConflictError,
    Page,
    Split,
    by,
    first,
    latest,
    one_of,
    vote,
)
from aiservices.documents.merging import Merger, PartValue
from aiservices.guardrails import InputGuardrails, masked
from aiservices.integrations.fastapi import app
from aiservices.rows import map_rows

FACT = re.compile(r"\[(\w+) (\w+) (\d+)\]")


@dataclass
class Prices:
    prices: dict[str, int | None]
    notes: dict[str, list[str]]
    seller: str | None


def test_dicts_are_merged_key_by_key_and_a_key_may_have_a_rule() -> None:
    answers = {
        "One": {"prices": {"a": 1, "b": None}, "notes": {"x": ["p"], "y": []}, "seller": "Caf\u00e9"},
        "Two": {"prices": {"a": 2, "b": 5}, "notes": {"x": ["q"]}, "seller": "CAFE\u0301"},
    }

    def prices(**settings: Any) -> Result[Prices]:
        class Reader(Protocol):
            @options(split=Split(tokens=20, overlap=0), **settings)
            @user_message("Read this.\n\n{{document}}")
            def prices(self, document: Document) -> Result[Prices]: ...

        def answer(request: ChatRequest) -> str:
            text = request.messages[-1].text
            return json.dumps(next((one for word, one in answers.items() if word in text), {}))

        text = "One. " + "more words " * 8 + "\n\nTwo. " + "more words " * 8
        return create(Reader, ScriptedChatModel(answer)).prices(Document(text))

    with pytest.raises(MergeConflictError, match=r'merge=\{"prices\.a": first\}'):
        prices()
    result = prices(merge={"prices.a": first})
    assert result.value == Prices({"a": 1, "b": 5}, {"x": ["p", "q"], "y": []}, "Caf\u00e9")
    assert result.conflicts == (Conflict("prices.a", (1, 2), 1),)
    with pytest.raises(DefinitionError, match=r"'price\.a', which is not a field"):
        prices(merge={"price.a": first})


@dataclass
class Payment:
    payer: str | None
    amount: int


def test_items_without_the_key_of_by_are_not_the_same_item() -> None:
    class Reader(Protocol):
        @options(split=Split(tokens=20, overlap=0), merge={"": by("payer")})
        @user_message("Read this.\n\n{{document}}")
        def payments(self, document: Document) -> list[Payment]: ...

    answers = {
        "One": [{"payer": None, "amount": 5}, {"payer": "Bob", "amount": 7}],
        "Two": [{"payer": None, "amount": 6}, {"payer": "bob", "amount": 7}],
    }

    def answer(request: ChatRequest) -> str:
        text = request.messages[-1].text
        return json.dumps(next((one for word, one in answers.items() if word in text), []))

    text = "One. " + "more words " * 8 + "\n\nTwo. " + "more words " * 8
    payments = create(Reader, ScriptedChatModel(answer)).payments(Document(text))
    assert payments == [Payment(None, 5), Payment(None, 6), Payment("Bob", 7)]


@dataclass
class Sums:
    rows: list[Cited[str]]


def test_equal_rows_that_stand_in_overlaps_count_as_often_as_they_stand() -> None:
    class Reader(Protocol):
        @options(split=Split(tokens=60, overlap=30))
        @user_message("Read this.\n\n{{document}}")
        def sums(self, document: Document) -> Sums: ...

    def answer(request: ChatRequest) -> str:
        row = {"value": "Row X pays 5", "quote": "Row X pays 5"}
        return json.dumps({"rows": [row] * request.messages[-1].text.count(row["quote"])})

    text = "\n\n".join(f"Row X pays 5. Row X pays 5. {'more words ' * 10}" for _ in range(4))
    sums = create(Reader, ScriptedChatModel(answer)).sums(Document(text, "rows.txt"))
    assert [one.start for one in sums.rows] == [one.start() for one in re.finditer("Row X", text)]


@dataclass
class Duty:
    title: str
    days: int
    notes: list[int] = field(default_factory=list)


@dataclass
class Contract:
    party: str | None = None
    amount: int | None = None
    duties: list[Duty] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)


def find_facts(request: ChatRequest) -> str:
    """Return what a perfect model finds in the last message: facts such as ``[duty pay 5]``."""
    found: dict[str, Any] = {"party": None, "amount": None, "duties": [], "tags": {}}
    for kind, name, number in FACT.findall(request.messages[-1].text):
        if kind == "duty":
            found["duties"].append({"title": name, "days": int(number), "notes": []})
        elif kind == "tag":
            found["tags"][name] = int(number)
        else:
            found[kind] = name if kind == "party" else int(number)
    return json.dumps(found)


def read(text: str, split: Split, **merge: Any) -> tuple[Result[Contract], ScriptedChatModel]:
    class Reader(Protocol):
        @user_message("Extract.\n\n{{document}}")
        @options(split=split, merge=merge)
        def contract(self, document: Document) -> Result[Contract]: ...

    model = ScriptedChatModel(find_facts)
    return create(Reader, model).contract(Document(text, "a.txt")), model


FACTS = st.one_of(
    st.tuples(st.just("duty"), st.sampled_from("pay go stay".split()), st.integers(0, 3)),
    st.tuples(st.just("party"), st.just("acme"), st.just(0)),
    st.tuples(st.just("amount"), st.just("x"), st.just(7)),
    st.sampled_from("abc").map(lambda name: ("tag", name, ord(name))),
)


@given(st.lists(FACTS, max_size=12), st.integers(40, 120))
@settings(deadline=None, max_examples=15)
def test_every_split_between_facts_gives_the_same_value(
    facts: list[tuple[str, str, int]], tokens: int
) -> None:
    text = "\n\n".join(f"[{' '.join(map(str, fact))}] and some more words of the text." for fact in facts)
    whole, _ = read(text, Split(100_000))
    parts, model = read(text, Split(tokens, 0))
    assert parts.value == whole.value
    assert len(parts.inner_calls) == len(model.requests) >= len(text) // (tokens * 4)


@given(st.lists(st.integers(0, 99), max_size=12, unique=True), st.integers(30, 60))
@settings(deadline=None, max_examples=15)
def test_facts_across_a_border_are_found_once_with_an_overlap(days: list[int], tokens: int) -> None:
    text = " ".join(f"The [duty pay {day}] is due" for day in days)
    whole, _ = read(text, Split(100_000))
    parts, _ = read(text, Split(tokens, tokens // 2))
    assert parts.value == whole.value


def test_a_part_is_asked_with_its_context_and_counts_as_an_inner_call() -> None:
    text = "# Duties\n\n" + "\n\n".join(f"[duty d{n} {n}] and so on and on." for n in range(12))
    result, model = read(text, Split(30, 0))
    assert [duty.days for duty in result.value.duties] == list(range(12))
    prompts = [request.messages[-1].text for request in model.requests]
    assert all(prompt.startswith("Extract.\n\nPart ") for prompt in prompts)
    assert any("of a.txt, in the section 'Duties'.\n\n[duty" in prompt for prompt in prompts)
    assert len(result.inner_calls) == len(prompts)
    assert {call.qualname for call in result.inner_calls} == {"Reader.contract"}
    assert result.usage.input_tokens == sum(len(one.split()) for one in prompts)
    assert result.reasons[0] == f"the document was read in {len(prompts)} parts"
    assert json.loads(result.text)["duties"][3] == {"title": "d3", "days": 3, "notes": []}


def filler(*facts: str) -> str:
    return "\n\n".join(f"{fact} {'and more words ' * 8}" for fact in facts)


def test_values_that_differ_are_an_error_unless_a_rule_chooses() -> None:
    text = filler("[amount x 1]", "[amount x 2]", "[amount x 2]", "[party acme 0]", "[party Acme 0]")
    for rule, chosen in ((first, 1), (latest, 2), (vote, 2), (sum, 5)):
        result, _ = read(text, Split(40, 0), amount=rule)
        assert result.value.amount == chosen
        assert result.value.party == "acme"
        assert result.conflicts == (Conflict("amount", (1, 2), chosen),)
    for rule in (one_of, None):
        with pytest.raises(MergeConflictError) as caught:
            read(text, Split(40, 0), **({} if rule is None else {"amount": rule}))
        assert caught.value.conflicts == (Conflict("amount", (1, 2)),)
        assert "Reader.contract: the parts of the document differ in amount: 1 or 2." in str(caught.value)
    with pytest.raises(MergeConflictError, match="amount: 1 or 2"):
        read(filler("[amount x 1]", "[amount x 2]"), Split(40, 0), amount=vote)


def test_items_with_the_same_key_are_merged_by_field() -> None:
    text = filler("[duty pay 1]", "[duty Pay 1]", "[duty go 3]", "[duty pay 2]")
    rules = {"duties": by("title"), "duties.days": latest}
    result, _ = read(text, Split(40, 0), **rules)
    assert result.value.duties == [Duty("pay", 2), Duty("go", 3)]
    assert result.conflicts == (Conflict("duties.days", (1, 2), 2),)
    whole, _ = read(text, Split(9_000), **rules)
    assert whole.value == result.value
    with pytest.raises(MergeConflictError, match=r"duties\.days: 1 or 2"):
        read(text, Split(40, 0), duties=by("title"))


class Address(BaseModel):
    street: Annotated[str, Field(min_length=2)]
    city: str | None = None


class Lease(BaseModel):
    address: Address
    rent: Cited[Decimal]


class LeaseReader(Protocol):
    @user_message("{{document}}")
    @options(split=Split(tokens=40, overlap=0))
    def lease(self, document: Document) -> Lease: ...
    @user_message("{{documents}}")
    @options(split=Split(tokens=40, overlap=10))
    def rents(self, documents: list[Document]) -> list[Cited[int]]: ...
    @user_message("{{document}}")
    @options(split=Split(tokens=40, overlap=0), merge="\n".join)
    def summary(self, document: Document) -> str: ...


def find_lease(request: ChatRequest) -> str:
    text = request.messages[-1].text
    found: dict[str, Any] = {}
    for key, pattern in (("street", r"at (\w+)"), ("city", r"in (\w+town)")):
        if match := re.search(pattern, text):
            found.setdefault("address", {})[key] = match[1]
    if match := re.search(r"rent is (\d+)", text):
        found["rent"] = {"quote": match[0], "value": int(match[1])}
    return json.dumps(found)


def test_records_in_records_are_merged_by_field_and_places_are_those_in_the_whole_document() -> None:
    text = filler("Living at Elm.", "It is in Newtown.", "The rent is 900 euros.")
    pages = [Page(0, text.index("The rent") - 2), Page(text.index("The rent"), len(text))]
    lease = create(LeaseReader, ScriptedChatModel(find_lease)).lease(Document(text, "lease.pdf", pages))
    assert lease.address == Address(street="Elm", city="Newtown")
    rent = lease.rent
    assert (rent.value, rent.quote, rent.page, rent.document) == (900, "rent is 900", 2, "lease.pdf")
    assert rent.start is not None
    assert text[rent.start : rent.end] == rent.quote


def test_a_field_that_no_part_has_is_a_problem_of_the_answer() -> None:
    with pytest.raises(ServiceOutputError) as caught:
        create(LeaseReader, ScriptedChatModel(find_lease)).lease(Document(filler("Nothing.", "At all.")))
    assert [str(problem) for problem in caught.value.problems] == [
        "$.address: no part of the document has a value",
        "$.rent: no part of the document has a value",
    ]


def test_each_of_several_documents_is_split_and_quotes_in_the_overlap_count_once() -> None:
    def rents(request: ChatRequest) -> str:
        found = re.finditer(r"rent (\d+)\b", request.messages[-1].text)
        return json.dumps([{"quote": one[0], "value": int(one[1])} for one in found])

    text = " ".join(f"Here is the rent {n % 20 + 10}." for n in range(40))
    service = create(LeaseReader, ScriptedChatModel(rents))
    values = service.rents([Document(text, "a"), Document("The rent 5.", "b")])
    assert [one.value for one in values] == [*[n % 20 + 10 for n in range(40)], 5]
    places = [(one.document, one.start) for one in values]
    assert places == [*[("a", n * 21 + 12) for n in range(40)], ("b", 4)]


def test_texts_are_merged_by_a_function() -> None:
    numbers = iter("123456789")
    service = create(LeaseReader, ScriptedChatModel(lambda request: next(numbers)))
    assert service.summary(Document(filler("a", "b", "c"))) == "1\n2\n3"


def test_later_parts_see_what_was_found_so_far_if_it_is_carried() -> None:
    text = filler("[party acme 0] [duty pay 1]", "[duty go 2]", "[duty stay 3]")
    _, model = read(text, Split(40, 0, carry=("party", "duties")))
    last = model.requests[-1].messages[-1].text
    assert "Found so far: party: acme.\n" in last
    assert '"title": "pay"' in last
    assert "Found so far" not in model.requests[0].messages[-1].text


def test_a_durable_call_does_not_ask_again_about_parts_that_were_read(tmp_path: Path) -> None:
    class Reader(Protocol):
        @user_message("{{document}}")
        @options(split=Split(40, 0, max_concurrency=1))
        def contract(self, document: Document, call_id: Annotated[str, CallId]) -> Contract: ...

    calls = 0

    def dies(request: ChatRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return find_facts(request)

    document = Document(filler(*[f"[duty d{n} {n}]" for n in range(6)]))
    journal = Journal(str(tmp_path / "calls.db"))
    with pytest.raises(KeyboardInterrupt):
        create(Reader, ScriptedChatModel(dies), interceptors=[Durable(journal)]).contract(document, "c1")
    again = ScriptedChatModel(find_facts)
    value = create(Reader, again, interceptors=[Durable(journal)]).contract(document, "c1")
    assert [duty.days for duty in value.duties] == list(range(6))
    assert len(again.requests) == 3


def test_the_parts_share_the_budget_and_an_error_says_which_part_it_is_about() -> None:
    text = filler(*[f"[duty d{n} {n}]" for n in range(6)])
    service = create(LeaseReader, ScriptedChatModel(find_lease), budget=Budget(requests=2))
    with pytest.raises(BudgetExceededError):
        service.lease(Document(text))
    with pytest.raises(ServiceOutputError) as caught:
        create(LeaseReader, ScriptedChatModel(lambda request: "no")).lease(Document(text, "x"))
    assert re.search(r"Part \d of 6 of x\.", "".join(caught.value.__notes__))


def test_async_calls_and_rows_are_split_too() -> None:
    class Reader(Protocol):
        @user_message("{{document}}")
        @options(split=Split(40, 0))
        async def contract(self, document: Document) -> Contract: ...

    text = filler(*[f"[duty d{n} {n}]" for n in range(6)])
    service = create(Reader, ScriptedChatModel(find_facts))
    assert len(asyncio.run(service.contract(Document(text))).duties) == 6
    rows = list(
        map_rows(create(BlockingReader, ScriptedChatModel(find_facts)).contract, [{"document": text}])
    )
    assert len(rows[0].value.duties) == 6


class BlockingReader(Protocol):
    @user_message("{{document}}")
    @options(split=Split(40, 0))
    def contract(self, document: Document) -> Contract: ...


def test_a_prompt_that_does_not_have_the_text_is_an_error() -> None:
    text = filler("a@example.com", "[party acme 0]")
    service = create(
        BlockingReader, ScriptedChatModel(find_facts), interceptors=[InputGuardrails(masked("example"))]
    )
    with pytest.raises(ValueError, match="does not contain the text of document as it is"):
        service.contract(Document(text))


def test_methods_that_cannot_be_split_are_refused() -> None:
    @tool
    def search(text: str) -> str:
        """Search."""
        return text

    class Wrong(Protocol):
        @user_message("{{text}}")
        @options(split=Split())
        def no_document(self, text: str) -> int: ...
        @user_message("{{document}}")
        @options(split=Split())
        def text(self, document: Document) -> str: ...
        @user_message("{{document}}")
        @options(split=Split())
        def streamed(self, document: Document) -> Stream[Contract]: ...
        @user_message("{{document}}")
        @options(split=Split())
        def decision(self, document: Document) -> Decision[bool]: ...
        @user_message("{{document}}")
        @options(split=Split())
        def cited_text(self, document: Document) -> CitedText: ...
        @user_message("{{document}}")
        @options(split=Split(), tools=[search])
        def with_tools(self, document: Document) -> Contract: ...
        @user_message("{{document}}")
        @options(split=Split(), merge={"sum": first, "duties": by("name"), "party": 3})  # type: ignore[dict-item]
        def rules(self, document: Document) -> Contract: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, ScriptedChatModel([]))
    problems = {one.location: [] for one in caught.value.problems}  # type: dict[str, list[str]]
    for one in caught.value.problems:
        problems[one.location].append(one.message)
    assert problems == {
        "Wrong.no_document": ["split needs one parameter of the type Document, or a list of them; it has 0"],
        "Wrong.text": [
            "texts about parts cannot be merged; return a record or a list, or pass merge=FUNCTION"
        ],
        "Wrong.decision": ["split does not work with Decision, because its probabilities cannot be merged"],
        "Wrong.cited_text": [
            "texts about parts cannot be merged; return a record or a list, or pass merge=FUNCTION"
        ],
        "Wrong.streamed": ["split does not work for streams, because the answer is known at the end"],
        "Wrong.with_tools": [
            "split does not work with examples and tools; remove them, as with @options(tools=[])"
        ],
        "Wrong.rules": [
            "merge has a rule for 'sum', which is not a field; they are: party, amount, duties, "
            "duties.title, duties.days, duties.notes, tags",
            "merge={'duties': by(…)} needs a list of records with the fields that are named",
            "the rule for 'party' has the type int; pass first, latest, vote or by(…)",
        ],
    }


def test_rules_see_values_in_the_order_of_the_document() -> None:
    seen: list[Sequence[int]] = []

    def keep(values: Sequence[int]) -> int:
        seen.append(list(values))
        return values[0]

    read(filler("[amount x 3]", "[amount x 1]", "[amount x 2]"), Split(40, 0), amount=keep)
    assert seen == [[3, 1, 2]]


def test_the_stored_answer_of_a_durable_call_has_its_places_and_conflicts(tmp_path: Path) -> None:
    class Reader(Protocol):
        @user_message("{{document}}")
        @options(split=Split(40, 0), merge=first)
        def rent(self, document: Document, call_id: Annotated[str, CallId]) -> Result[Cited[int]]: ...

    def find_rent(request: ChatRequest) -> str:
        match = re.search(r"rent (\d+)", request.messages[-1].text)
        return "null" if match is None else json.dumps({"quote": match[0], "value": int(match[1])})

    text = filler("The rent 900.", "Nothing.", "The rent 950.")
    service = create(
        Reader, ScriptedChatModel(find_rent), interceptors=[Durable(Journal(str(tmp_path / "j")))]
    )
    result, again = (service.rent(Document(text, "a"), "c1") for _ in range(2))
    assert (result.value.start, result.value.value) == (4, 900)
    assert again.value == result.value
    assert again.value.start == 4
    [conflict] = result.to_dict()["conflicts"]
    assert [one["value"] for one in conflict["values"]] == [900, 950]
    assert conflict["values"][1]["start"] == text.index("rent 950")
    assert again.conflicts == (conflict,)


def test_a_remote_caller_gets_places_and_conflicts() -> None:
    class Reader(Protocol):
        @user_message("{{document}}")
        @options(split=Split(40, 0), merge={"amount": latest})
        def contract(self, document: Document) -> Result[Contract]: ...

    service = create(Reader, ScriptedChatModel(find_facts))
    text = filler("[amount x 1]", "[party acme 0]", "[amount x 2]")
    body = TestClient(app(service)).post("/contract", json={"document": text}).json()
    assert body["value"]["amount"] == 2
    assert body["account"]["conflicts"] == [{"path": "amount", "values": [1, 2], "chosen": 2}]


class Place(BaseModel):
    street: str
    town: str = Field(alias="theTown")


class Party(BaseModel):
    name: str = Field(alias="fullName")
    age: int = 3
    place: Place | None = None
    tags: set[str] = set()


@attrs.define
class AttrsParty:
    name: str
    age: int = 3


class StructParty(msgspec.Struct, rename="camel"):
    full_name: str
    age: int = 3


class TupleParty(NamedTuple):
    name: str
    age: int = 3


class DictParty(TypedDict, total=False):
    name: Required[str]
    age: int


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def check(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


MERGED: list[tuple[Any, list[Any], Any]] = [
    (
        Party,
        [{"fullName": "x"}, {"place": {"street": "s"}}, {"place": {"theTown": "t"}, "tags": ["a"]}],
        Party(fullName="x", place=Place(street="s", theTown="t"), tags={"a"}),
    ),
    (Party, [{"fullName": "x"}, {"tags": ["a"]}, {"tags": ["b"]}], Party(fullName="x", tags={"a", "b"})),
    (AttrsParty, [{"name": "x"}, {"age": 4}], AttrsParty("x", 4)),
    (StructParty, [{"fullName": "x"}, {}], StructParty("x")),
    (TupleParty, [{}, {"name": "x", "age": 4}], TupleParty("x", 4)),
    (DictParty, [{"name": "x"}, {}], {"name": "x"}),
    (DictParty, [{"name": "x"}, {"age": 4}], {"name": "x", "age": 4}),
    (Range, [{"low": 3}, {"high": 5}], Range(low=3, high=5)),
    (Range, [{"low": 3}, {"high": 2}], "low is above high"),
    (Party | None, [{}, {"tags": []}], None),
    (Party | None, [{"fullName": "x"}, {}], Party(fullName="x")),
    (int | None, [None, None], None),
    (int, [None, 5], 5),
    (int, [None, None], "no part of the document has a value"),
    (Decimal, ["1.50", 1.5], Decimal("1.50")),
    (bool, [True, None], True),
    (list[Party], [[{"fullName": "x"}], []], [Party(fullName="x")]),
    (dict[str, int], [{"a": 1}, {"b": 2, "a": 1}], {"a": 1, "b": 2}),
    (dict[str, int], [{"a": 1}, {"a": 2}], "a: 1 or 2"),
    (Literal["x", "y"], ["x", None], "x"),
]


def test_all_kinds_of_types_are_merged() -> None:
    for tp, replies, expected in MERGED:

        class Reader(Protocol):
            @user_message("{{document}}")
            @options(split=Split(40, 0, max_concurrency=1))
            def read(self, document: Document) -> Any: ...

        Reader.read.__annotations__["return"] = tp
        service = create(Reader, ScriptedChatModel([json.dumps(one) for one in replies]), retry=None)
        try:
            value = service.read(Document(filler(*["x"] * len(replies))))
        except (ServiceOutputError, MergeConflictError) as error:
            value = str(error)
            assert expected in value
        else:
            assert value == expected


def test_merging_the_items_of_many_parts_takes_linear_time() -> None:
    document = Document("".join(f"item {n:6}. " for n in range(5_000)))
    parts = Split(100, 20).parts(document)
    for name, count in (("item {n}", 5_000), ("same", None)):  # equal items of two parts may be one
        found = []
        for part in parts:
            numbers = re.findall(r"item +(\d+)", part.text)
            found.append(PartValue(part, [Duty(name.format(n=number), 1) for number in numbers]))
        began = time.process_time()
        merged = Merger({}).merge(list[Duty], found)
        assert time.process_time() - began < 2
        assert count in (None, len(merged))
