"""The parsers without a model: typed values from text, and the list of coercions."""

from __future__ import annotations

from dataclasses import dataclass

from aiservices import ChatModel
from output_parsers import OutputParsingError, parse, read
from output_parsers.text import RegexTaggedContentParser

REPLY = """<think>The city is Paris, I am sure.</think>
Here it is:
```json
{'Name': 'Paris', population: "2,102,650", /* as of 2023 */ "mayor": null,}
```"""


@dataclass
class City:
    name: str
    population: int


def main(model: ChatModel | str | None = None) -> None:
    """Print the values of several texts. No model is called."""
    reading = read(City, REPLY)
    print(reading.value)
    for coercion in reading.coercions:
        print(f"  {coercion}")
    print(parse(list[int], "[1, 2, 3]"), parse(bool, "Yes."), parse(int | None, "null"))
    tags = RegexTaggedContentParser()
    print(tags.parse("<thought>add them</thought><number>42</number><code>20 + 22</code>"))
    try:
        parse(City, '{"name": "Paris", "population": 2.1}')
    except OutputParsingError as error:
        print(error)


if __name__ == "__main__":
    main()
