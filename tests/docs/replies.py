"""The scripted replies for each page, in the order of its requests to models."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from docs.running import Reply

from aiservices import (
    AiMessage,
    BadRequestError,
    ChatReply,
    Image,
    ModelServerError,
    TokenLogprob,
    ToolCall,
    Usage,
)

PERSON = '{"first_name": "John", "last_name": "Doe", "birth_date": "1968-07-04"}'
JANE = '{"first_name": "Jane", "last_name": "Roe", "birth_date": "1970-05-05"}'
ANN = '{"name": "Ann", "age": 31}'
OLD = '{"name": "Ann", "age": "old"}'
ROME = '{"name": "Rome", "population": 2748109, "sights": ["Colosseum", "Pantheon"]}'
BILLING = '{"team": "billing", "urgent": true}'
SHIPPING = '{"team": "shipping", "urgent": false}'
STORY = "A dragon met a wizard."
OFFER = '{"product": "tea", "discount": %d}'


def called(tool: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def value(of: object) -> str:
    return json.dumps({"value": of})


def decided(answer: str, probability: float) -> ChatReply:
    """A reply whose tokens give the name of a team a probability."""
    other = "support" if answer == "billing" else "billing"
    shares = ((answer.encode(), math.log(probability)), (other.encode(), math.log(1 - probability)))
    tokens = [b'{"value": "', b'"}']
    logprobs = (TokenLogprob(tokens[0], 0.0), TokenLogprob(*shares[0], shares), TokenLogprob(tokens[1], 0.0))
    return ChatReply(AiMessage(value(answer)), logprobs=logprobs, model="stub")


def is_true(probability: float, *, written: bool = True) -> ChatReply:
    """A reply whose tokens give a bool a probability; ``written`` is what the reply says."""
    shares = [(b"true", math.log(probability)), (b"false", math.log(1 - probability))]
    if not written:
        shares.reverse()
    tokens = [b'{"value": ', b"}"]
    logprobs = (
        TokenLogprob(tokens[0], 0.0),
        TokenLogprob(*shares[0], tuple(shares)),
        TokenLogprob(tokens[1], 0.0),
    )
    return ChatReply(AiMessage(value(written)), logprobs=logprobs, model="stub")


def applies(**shares: float) -> ChatReply:
    """A reply whose tokens give a bool for each option, with a probability of true."""
    tokens: list[TokenLogprob] = []
    for key, share in shares.items():
        start = f', "{key}": ' if tokens else f'{{"{key}": '
        both = [(b"true", math.log(share)), (b"false", math.log(1 - share))]
        both.sort(key=lambda one: -one[1])
        tokens += [TokenLogprob(start.encode(), 0.0), TokenLogprob(*both[0], tuple(both))]
    tokens.append(TokenLogprob(b"}", 0.0))
    text = b"".join(token.token for token in tokens).decode()
    return ChatReply(AiMessage(text), logprobs=tuple(tokens), model="stub")


def down() -> ModelServerError:
    return ModelServerError("the server is overloaded (503)", status=503, retryable=True)


REPLIES: Mapping[str, Sequence[Reply]] = {
    "README.md": [PERSON, JANE, PERSON, JANE],
    "index.md": [PERSON],
    "errors.md": [],
    "install.md": [],
    "quickstart.md": [
        ANN,
        '{"title": "Lamp on fire", "urgency": "high"}',
        value(False),
    ],
    "tutorial.md": [
        '{"customer": "Ann Lee", "title": "Lamp Issue", "urgency": "high", "bought_on": "2026-03-03"}',
        value(
            ["Please send me a new lamp, and tell me when you are open.", "I also miss a screw of the shelf."]
        ),
        "Ann, look! A new lamp is on its way!",
        called("in_stock", article="lamp"),
        "There are 3 pieces of the lamp in the shop.",
        "One green lamp, two shelves.",
        "Two shelves.",
    ],
    "coming-from.md": [
        ANN,
        called("generate_response", name="Ann", age=31, response="It is Ann."),
    ],
    "move/baml.md": [ANN],
    "move/dspy.md": [ANN],
    "move/instructor.md": [ANN, ANN],
    "move/langchain.md": [ANN, ANN],
    "move/langextract.md": [value([json.loads(ANN)])],
    "move/langchain4j.md": [
        value("positive"),
        called("in_stock", article="lamp"),
        "There are 3 lamps.",
        "You asked for lamps.",
        value([{"name": "Ann", "age": 31}, {"name": "Bob", "age": 27}]),
        "Hold the button for five seconds.",
        is_true(0.97),
        is_true(0.1, written=False),
        decided("technical", 0.8),
        is_true(0.1, written=False),
        "Hold the button.",
        "It opens at nine.",
        is_true(0.92),
    ],
    "move/llamaindex.md": [ANN, "Ann is 31."],
    "move/openai-sdk.md": [ANN, ANN],
    "move/pydantic-ai.md": [ANN],
    "how-to/low-level.md": ["yes"],
    "how-to/production.md": ["Bonjour"],
    "how-to/structured-answers.md": [
        value(True),
        '{"product": "lamp", "mood": "glad", "stars": 5}',
        value(["lamp", "shelf"]),
        '{"title": "Greek salad", "minutes": 900, "steps": ["Cut", "Mix"]}',
        '{"title": "Greek salad", "minutes": 10, "steps": ["Cut", "Mix"]}',
    ],
    "how-to/one-question.md": ['{"product": "lamp", "mood": "glad", "stars": 4}'],
    "how-to/strategies.md": [],
    "how-to/examples.md": [],
    "how-to/openai.md": [],
    "how-to/anthropic.md": [],
    "how-to/compatible-servers.md": [],
    "how-to/decision-endpoints.md": [],
    "how-to/embedded-model.md": [],
    "how-to/playground.md": [],
    "how-to/coding-agents.md": [],
    "how-to/evaluation.md": [value("high"), value("low"), value("high"), value("high")],
    "how-to/numbers-dates-choices.md": [
        value(42),
        value("12.50"),
        value("1968-07-04"),
        value("1968-07-04T23:45:00"),
        value("high"),
    ],
    "how-to/streams.md": [
        "Rome is the capital of Italy.",
        ROME,
        ROME,
        ROME,
        value([json.loads(ROME), {"name": "Perugia", "population": 162449, "sights": []}]),
        value([31, "old", 5]),
        "Rome is the capital of Italy.",
        ROME,
    ],
    "how-to/tools.md": [
        called("in_stock", article="lamp"),
        "There are three lamps.",
        called("debt"),
        "You owe 12.50.",
        called("open_ticket", subject="lamp"),
        "Done.",
        called("french", text="good morning"),
        "bonjour",
        'Say "bonjour".',
        called("opening_hours"),
        called("in_stock", article="lamp"),
        "Done.",
        called("in_stock", article="lamp"),
        "There are three lamps.",
    ],
    "how-to/approvals.md": [
        called("in_stock", article="lamp"),
        called("reserve", article="lamp", pieces=2),
        "Two lamps are waiting for you.",
        called("reserve", article="lamp", pieces=1),
        "I am sorry, we are closed today.",
        called("ask_customer", question="How many lamps?"),
        "I will keep two lamps for you.",
    ],
    "how-to/tool-limits.md": [called("price", article="lmp"), called("price", article="lam")],
    "how-to/early-tools.md": [
        ChatReply(
            AiMessage(
                "",
                (
                    ToolCall("call_1", "distance", '{"town": "Delft"}'),
                    ToolCall("call_2", "distance", '{"town": "Leiden"}'),
                ),
            )
        ),
        "Delft is nearer.",
    ],
    "how-to/tool-interceptors.md": [
        ChatReply(
            AiMessage(
                "",
                (
                    ToolCall("call_1", "in_stock", '{"article": "lamp"}'),
                    ToolCall("call_2", "in_stock", '{"article": "screw"}'),
                ),
            )
        ),
        "Enough.",
        called("hold", article="lamp", pieces=9),
        called("hold", article="lamp", pieces=5),
        "Five are yours.",
    ],
    "how-to/undo-tools.md": [
        called("book_room", city="Rome"),
        ChatReply(AiMessage("", (ToolCall("call_2", "book_flight", '{"city": "Rome"}'),))),
        "There is no seat left.",
    ],
    "how-to/mcp.md": [
        called("refund", order=17),
        json.dumps({"text": "The 40 euros are on their way.", "needs_human": False}),
        called("clock_hour", city="Rome"),
        "It is nine in the morning.",
    ],
    "how-to/many-tools.md": [
        called("purchase_price", article="lamp"),
        "7.50 each.",
        called("in_stock", article="lamp"),
        value(False),
        called("unlock", code=42),
        called("take_out"),
        "There is a lamp in the safe.",
        called("search_tools", query="parcel"),
        called("track_parcel", number="3141"),
        "It is in Delft.",
    ],
    "how-to/methods.md": ["Hello Ann.", value(True), "You are Ann.", "thé", "thé", "tè"],
    "how-to/skills.md": [
        called("activate_skill", skill="refunds"),
        called("pay_back", euros=40),
        "Dear customer, 40.00 euros are on their way.",
    ],
    "how-to/memory.md": [
        "Hello Ann.",
        "Your name is Ann.",
        "You have not told me.",
        "Hello Ann.",
        "The vases are on the first floor.",
        "You look for vases.",
        "Your name is Ann.",
        "Hello Ann.",
        "Your name is Ann.",
    ],
    "how-to/retrieval.md": [
        "It opens at nine.",
        "Ann is there from nine on.",
        "It is a shelf.",
        called("search", query="return goods"),
        "Yes, for 30 days.",
        value(3),
        value(2),
    ],
    "how-to/documents.md": [
        '{"party": {"quote": "Contract with Acme Ltd.", "value": "Acme Ltd."}, '
        '"amount": {"quote": "The price is EUR 1,250.00", "value": 1250.00}, "duties": ['
        '{"title": "deliver", "days": {"quote": "within 14 days", "value": 14}}]}'
    ],
    "how-to/guardrails.md": [
        OFFER % 90,
        OFFER % 20,
        "We have tea. The password is hunter2. There is a discount. It is 90 %.",
        "We open at ten.",
        value(False),
        "We open at nine.",
        value(True),
        OFFER % 10,
        OFFER % 5,
    ],
    "how-to/interceptors.md": [
        " Yes, we do.\n",
        "At nine.",
        '{"word": "glad", "stars": "many"}',
        '{"word": "glad", "stars": 5}',
        "In Rome.",
        "Yes.",
    ],
    "how-to/cited-values.md": [
        json.dumps(
            {
                "party": {"quote": "The tenant, Ann Lee", "value": "Ann Lee"},
                "rent": {"quote": "rent of € 1,250.50 each month", "value": 1250.5},
                "deposit": None,
            }
        ),
        json.dumps({"quote": "rent is 1,250 euros", "value": 125}),
        json.dumps({"quote": "rent is 1,250 euros", "value": 1250}),
        json.dumps({"lines": "2-3", "value": 1250.5}),
        json.dumps(
            {
                "sentences": [
                    {"text": "Nobody may without asking.", "quotes": []},
                    {"text": "The owner must agree.", "quotes": ["pets need the consent of the owner"]},
                ]
            }
        ),
    ],
    "how-to/decisions.md": [
        decided("billing", 0.8),
        applies(price=0.09, delivery=0.56, quality=0.95),
        *(decided("billing", share) for share in (0.8, 0.97, 0.9, 0.9)),
    ],
    "how-to/tables.md": [
        *(BILLING, SHIPPING),
        *(BILLING, SHIPPING),
        *(is_true(0.6), is_true(0.99)),
        *[is_true(0.97)] * 400,
        *(BILLING, SHIPPING, SHIPPING),
        *(BILLING, SHIPPING, value(["pay back one charge"]), value(["send the parcel"])),
        *(BILLING, SHIPPING),
        *(BILLING, SHIPPING),
    ],
    "how-to/limits.md": [],
    "how-to/reasoning.md": [
        ChatReply(
            AiMessage(
                "Morning: the market. Afternoon: the Prinsenhof.", reasoning="The market is on Thursday."
            ),
            usage=Usage(20, 52, reasoning_tokens=40),
        )
    ],
    "how-to/files.md": [
        value("12.50"),
        ChatReply(AiMessage("", contents=(Image.from_bytes(b"\x89PNG\r\n\x1a\n cat"),))),
    ],
    "how-to/batches.md": [],
    "how-to/dbos.md": [
        ChatReply(AiMessage("", (ToolCall("c1", "pay", '{"order": "17"}'),))),
        "The order 17 is refunded.",
    ],
    "how-to/ray.md": [],
    "how-to/scaling.md": [],
    "how-to/spark.md": [],
    "how-to/durable-calls.md": [
        ChatReply(AiMessage("", (ToolCall("c1", "pay", '{"order": "17"}'),))),
        "Your money is on its way.",
    ],
    "how-to/cache.md": [ChatReply(AiMessage(value(True)), usage=Usage(92, 8))],
    "how-to/budgets.md": [
        OLD,
        ANN,
        OLD,
        '{"age": 31}',
        OLD,
        OLD,
        ChatReply(AiMessage(OLD), usage=Usage(9, 8)),
        ChatReply(AiMessage(ANN), usage=Usage(12, 7)),
        ChatReply(AiMessage(ANN), usage=Usage(12, 7)),
        down(),
        ANN,
        down(),
        ANN,
        "It rains, and the roofs begin to sing.",
        "Dark green.",
    ],
    "how-to/own-types.md": [
        value("12.50 EUR"),
        '{"shop": "Harper\'s", "total": "20.00 GBP"}',
        '{"number": "17"}',
        '{"number": "R-17"}',
        '{"words": "30 euros"}',
    ],
    "how-to/add-a-provider.md": [],
    "how-to/providers.md": [],
    "how-to/parsing.md": [],
    "how-to/composition.md": [
        STORY,
        value(0.2),
        "A dragon met a wizard, and asked for a light.",
        value(0.9),
        ChatReply(AiMessage(STORY), usage=Usage(10, 8)),
        ChatReply(AiMessage(value(0.9)), usage=Usage(12, 7)),
        STORY,
        BadRequestError("the story is too long", status=400),
        ChatReply(
            AiMessage(
                "",
                (
                    ToolCall("c1", "explain", '{"question": "What is a credit?"}'),
                    ToolCall("c2", "exchange", '{"euros": 100}'),
                ),
            ),
            usage=Usage(10, 6),
        ),
        ChatReply(AiMessage("A credit is money that you owe."), usage=Usage(8, 5)),
        ChatReply(
            AiMessage("A credit is money that you owe. 100 euros are 115 dollars."), usage=Usage(12, 8)
        ),
    ],
    "how-to/agents.md": [
        called("in_stock", article="lamp"),
        called("generate_response", response="Yes, three.", article="lamp", pieces=3),
        "There are lamps for both of you.",
        "Hello, Tony.",
        "You are Tony.",
    ],
}
