"""The text around JSON decides whether it is the answer, for values, lists and iterators alike."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from output_parsers import ItemReader, OutputParsingError, PartialReader, parse


@dataclass
class Person:
    name: str
    age: int


BOB, ANN = '{"name": "Bob", "age": 3}', '{"name": "Ann", "age": 31}'
NOT_THE_ANSWER = [
    "I don't know. Here is dummy data: {}",
    "For example: {}",
    "No person is named. e.g. {}",
    "Expected format: {}",
    "Schema example: {}",
    "It would look like {}",
    "If there were one: {}",
    "I made this up: {}",
    "You sent {}",
    "Kein Name. Beispiel: {}",
    "z. B. {}",
    "Par exemple : {}",
    "Por ejemplo: {}",
    "没有人。例如： {}",
    "例： {}",
    "```json\n{}\n```\nThis is only an example.",
    "{} is made up.",
    "{} would be the format.",
    "{} // dummy",
    "{} I am not sure about this.",
    "{} but this may be wrong.",
    "{} Wait, the age should be 4.",
    "{} Correction: age is 4.",
    "{} (guess)",
    "{} was the old value.",
    "{} Please ignore the above.",
    "{}\n\nNote: these values are made up.",
    "{}\n\nDas ist falsch.",
    "{} 这是错误的。",
    "Esto es incorrecto: {}",
    "Detta är fel: {}",
    "Rejected: {}",
    "Input: {}",
    "The user sent {}",
    "Could it be {}",
    "Esimerkki: {}",
    "ตัวอย่าง: {}",
]
ANSWERS = [
    "Here is the person: {}",
    "Here is the JSON in the requested format:\n```json\n{}\n```",
    "Answer: {}",
    "{}\n\nThis is the person that the text describes.",
    "{}\n\nLet me know if you need more examples.",
    "{}\n\nIs there anything else?",
    "{}\n\nPlease ignore the previous version.",
    "Before I answered I read the text. {}",
    "Eingabe gelesen, nichts war falsch beschrieben:\n{}",
    "For this example, the answer is:\n{}",
]
CHOSEN = [
    "First draft: {bob} Final answer: {ann}",
    "Example:\n```json\n{bob}\n```\nAnswer:\n```json\n{ann}\n```",
    "{bob}\n\nWait, that is wrong. Corrected:\n{ann}",
    "```python\nx = {bob}\n```\n```json\n{ann}\n```",
]


def wrong(templates: list[str], expected: object) -> list[tuple[str, object]]:
    found = []
    for template in templates:
        text = template.replace("{}", BOB).replace("{bob}", BOB).replace("{ann}", ANN)
        reader = PartialReader(Person)
        reader.feed(text)
        for read in (lambda text=text: parse(Person, text), lambda reader=reader: reader.finish().value):
            try:
                result: object = read()
            except OutputParsingError:
                result = "an error"
            if result != expected:
                found.append((text, result))
    return found


def test_json_that_the_reply_calls_an_example_or_takes_back_is_not_the_answer() -> None:
    assert wrong(NOT_THE_ANSWER, "an error") == []


def test_json_beside_other_words_is_the_answer() -> None:
    assert wrong(ANSWERS, Person("Bob", 3)) == []


def test_the_announced_answer_is_chosen_among_several() -> None:
    assert wrong(CHOSEN, Person("Ann", 31)) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "age": 3 000 000}\nFor example: {"name": "Ann", "age": 31}',
        '{"name": \'Bob\', "age": }\nor {"name": "Ann", "age": 31}',
    ],
)
def test_a_damaged_answer_does_not_make_an_example_win(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Person, text)


@pytest.mark.parametrize(
    "text",
    [
        f"[{BOB}] and also [{ANN}]",
        f"Example: [{BOB}]\nAnswer: [{ANN}]",
        f"For example: [{BOB}]",
        f"```json\n[{BOB}]\n```\n```json\n[{ANN}]\n```",
        f"[{BOB}] maybe</think>[{ANN}]",
    ],
)
def test_an_iterator_ends_with_an_error_where_the_list_has_another_answer(text: str) -> None:
    reader = ItemReader(Person)
    with pytest.raises(OutputParsingError):
        [*reader.feed(text), *reader.finish()]


@pytest.mark.parametrize("text", [f"[{BOB}]", BOB, f'{{"items": [{BOB}]}}', f'{{"people": [{BOB}]}}'])
def test_lists_and_iterators_accept_the_same_wrappers(text: str) -> None:
    if "people" not in text:
        assert parse(list[Person], text) == [Person("Bob", 3)]
    reader = ItemReader(Person)
    assert [*reader.feed(text), *reader.finish()] == [Person("Bob", 3)]


@pytest.mark.parametrize(
    "text",
    [
        f"[{BOB}]",
        f'{{"Person": {BOB}}}',
        f'{{"answer": {BOB}}}',
        f'[TOOL_CALLS][{{"name": "Person", "arguments": {BOB}}}]',
        f'{{"name": "Person", "arguments": {BOB}}}',
    ],
)
def test_a_record_in_a_usual_wrapper_is_read(text: str) -> None:
    assert parse(Person, text) == Person("Bob", 3)


@pytest.mark.parametrize("key", ["value", "answer", "result", "response", "output"])
def test_a_scalar_in_a_usual_wrapper_is_read(key: str) -> None:
    assert parse(int, f'{{"{key}": 5}}') == 5
    with pytest.raises(OutputParsingError):
        parse(int, f'{{"other {key}": 5}}')
