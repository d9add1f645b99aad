"""A scripted model with prepared answers, to try the endpoints without a real model."""

from __future__ import annotations

from aiservices import ChatRequest, JsonSchemaFormat, ScriptedChatModel

RECIPE = (
    '{"title": "Greek Salad", "description": "Fresh and quick.", "steps": ["Chop the vegetables", '
    '"Add feta and olives"], "preparationTimeMinutes": 15}'
)
FILM = (
    '{"title": "Hero", "director": "Zhang Yimou", "publicationDate": "2002-10-24", '
    '"description": "A nameless warrior tells a king how he won."}'
)
# The answers, by a part of the prompt.
ANSWERS = {
    "positive sentiment": "true",
    "Analyze the sentiment": '"positive"',
    "Extract the number": "42",
    "Extract the person": '{"firstName": "John", "lastName": "Doe", "birthDate": "1968-07-04"}',
    "recipe": RECIPE,
    "Extract the date": '"1968-07-04"',
    "Extract the time": '"23:45:00"',
    "Which date and exact time": '"1968-07-04T23:45:00"',
    "most popular film": FILM,
    "Tell a story": "A lighthouse stood on a rock. It burned for a hundred years. Then the ships had radar.",
}


def scripted() -> ScriptedChatModel:
    """Return a model that needs no weights and no key. Its answers do not depend on the arguments."""
    return ScriptedChatModel(_reply)


def _reply(request: ChatRequest) -> str:
    prompt = request.messages[-1].text
    answer = next(answer for part, answer in ANSWERS.items() if part in prompt)
    # Values that are not objects are expected inside an object with the key "value".
    answer_format = request.response_format
    schema = answer_format.schema if isinstance(answer_format, JsonSchemaFormat) else {}
    return f'{{"value": {answer}}}' if list(schema.get("properties", ())) == ["value"] else answer
