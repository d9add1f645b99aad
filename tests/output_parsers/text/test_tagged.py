"""Parsers for tags and JSON blocks work like those of AgentScope, and their errors are clear."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from aiservices import AiMessage, ChatReply
from output_parsers import OutputParser, OutputParsingError
from output_parsers.text import (
    MarkdownJsonDictParser,
    MultiTaggedContentParser,
    RegexTaggedContentParser,
    TaggedContent,
    TextResponse,
)

HINT = '{"speak": "what you speak", "thought": "what you thought", "end_discussion": true/false}'
FENCED = '```json\n{"speak": "Hello, world!", "thought": "xxx", "end_discussion": true}\n```'
TAGGED = "[SPEAK]Hello, world![/SPEAK]\n[THOUGHT]xxx[/THOUGHT]\n[END_DISCUSSION]true[/END_DISCUSSION]"
PARSED = {"speak": "Hello, world!", "thought": "xxx", "end_discussion": True}
JSON_DICT = MarkdownJsonDictParser(
    content_hint=HINT,
    required_keys=["speak"],
    keys_to_memory=["speak", "thought"],
    keys_to_content="speak",
    keys_to_metadata=["end_discussion"],
)
MULTI = MultiTaggedContentParser(
    TaggedContent("speak", tag_begin="[SPEAK]", content_hint="what you speak", tag_end="[/SPEAK]"),
    TaggedContent("thought", "[THOUGHT]", "what you thought", "[/THOUGHT]"),
    TaggedContent("end_discussion", "[END_DISCUSSION]", "true/false", "[/END_DISCUSSION]", parse_json=True),
    keys_to_memory=["speak", "thought"],
    keys_to_content="speak",
    keys_to_metadata=["end_discussion"],
)
REGEX = RegexTaggedContentParser()


class Speech(BaseModel):
    speak: str = Field(description="what you speak")
    end_discussion: bool


def problems(parser: OutputParser[Any], text: str) -> list[str]:
    with pytest.raises(OutputParsingError) as error:
        parser.parse(text)
    assert error.value.text == text
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize(("parser", "text"), [(JSON_DICT, FENCED), (MULTI, TAGGED)])
def test_a_response_is_returned_with_the_parsed_dict(
    parser: MarkdownJsonDictParser | MultiTaggedContentParser, text: str
) -> None:
    response = TextResponse(text, metadata={"id": 7})
    parsed = parser.parse(response)
    assert parsed == TextResponse(text, PARSED, {"id": 7})
    assert response.parsed is None
    assert parser.parse(text) == PARSED
    assert parser.to_memory(PARSED) == {"speak": "Hello, world!", "thought": "xxx"}
    assert parser.to_content(PARSED) == "Hello, world!"
    assert parser.to_metadata(PARSED) == {"end_discussion": True}


@pytest.mark.parametrize(("parser", "text"), [(JSON_DICT, FENCED), (MULTI, TAGGED)])
def test_a_reply_without_the_attribute_parsed_gives_a_response(
    parser: MarkdownJsonDictParser | MultiTaggedContentParser, text: str
) -> None:
    assert parser.parse(AiMessage(text)) == TextResponse(text, PARSED)
    assert parser.parse(ChatReply(AiMessage(text))) == TextResponse(text, PARSED)


def test_a_response_of_another_library_is_copied_with_the_parsed_dict() -> None:
    response: Any = types.SimpleNamespace(text=FENCED, parsed=None, raw=1)
    assert JSON_DICT.parse(response) == types.SimpleNamespace(text=FENCED, parsed=PARSED, raw=1)
    assert response.parsed is None


@pytest.mark.parametrize("parser", [JSON_DICT, MULTI, REGEX])
def test_an_object_without_a_text_is_a_type_error(parser: Any) -> None:
    with pytest.raises(TypeError) as error:
        parser.parse({"text": "x"})
    message = "got dict; pass a str, or a reply whose attribute text is a str"
    assert str(error.value) == f"{type(parser).__name__} {message}"


@pytest.mark.parametrize("parser", [JSON_DICT, MULTI, REGEX, RegexTaggedContentParser(required_keys=["a"])])
def test_the_instructions_have_the_name_of_agentscope_too(parser: Any) -> None:
    assert parser.format_instruction == parser.format_instructions()


def test_by_default_memory_and_content_get_the_whole_dict_and_metadata_nothing() -> None:
    assert REGEX.to_memory(PARSED) == PARSED
    assert REGEX.to_content(PARSED) == PARSED
    assert REGEX.to_metadata(PARSED) is None
    assert RegexTaggedContentParser(keys_to_memory=None).to_memory(PARSED) is None


def test_a_missing_key_is_an_error_unless_it_is_allowed() -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        JSON_DICT.to_memory({"speak": "Hi!"})
    assert str(error.value) == (
        "keys_to_memory names thought, but the parsed reply has: speak; "
        "require these keys, or pass allow_missing=True"
    )
    assert JSON_DICT.to_memory({"speak": "Hi!"}, allow_missing=True) == {"speak": "Hi!"}
    assert JSON_DICT.to_content({}, allow_missing=True) is None


@pytest.mark.parametrize(
    "text",
    [
        FENCED,
        FENCED.removeprefix("```json\n"),
        FENCED.removesuffix("\n```"),
        FENCED.removeprefix("```json\n").removesuffix("\n```"),
        f"I answer:\n{FENCED}\nThat is all.",
        FENCED.replace("}", ",}").replace("true", "True"),
    ],
)
def test_a_json_dict_is_read_with_or_without_its_fence(text: str) -> None:
    assert JSON_DICT.parse(text) == PARSED


def test_missing_keys_of_a_json_dict_are_named() -> None:
    parser = MarkdownJsonDictParser(required_keys=["speak", "thought", "mood"])
    assert problems(parser, '```json\n{"thought": "xxx"}\n```') == [
        "$: these required keys are missing: speak, mood, found an object with thought"
    ]
    assert problems(parser, "```json\n[1]\n```") == ["$: expected an object, found an array of 1"]
    assert "cut off" in problems(parser, '```json\n{"speak": "He')[0]


def test_a_content_hint_is_shown_as_text_json_or_the_fields_of_a_model() -> None:
    assert JSON_DICT.format_instructions() == (
        f"Reply with a JSON object in a fenced block, as follows:\n```json\n{HINT}\n```\n"
        "It must have these keys: speak."
    )
    assert (
        '```json\n{"speak": "说什么"}\n```'
        in MarkdownJsonDictParser({"speak": "说什么"}).format_instructions()
    )
    instructions = MarkdownJsonDictParser(Speech).format_instructions()
    assert '"speak": string' in instructions
    assert "what you speak" in instructions


def test_a_model_as_content_hint_validates_and_converts_the_values() -> None:
    parser = MarkdownJsonDictParser(content_hint=Speech)
    text = '```json\n   {\n      "speak" : "Hello, world!",\n      "end_discussion" : "true"\n   }\n   ```'
    assert parser.parse(text) == {"speak": "Hello, world!", "end_discussion": True}
    assert problems(parser, '{"speak": "Hi!"}') == [
        "$.end_discussion: the required field 'end_discussion' is missing"
    ]


def test_the_instructions_ask_for_the_configured_tags() -> None:
    assert MULTI.format_instructions() == (
        "Reply with these tags; the content between [END_DISCUSSION] and [/END_DISCUSSION] must be JSON:\n"
        "[SPEAK]what you speak[/SPEAK]\n"
        "[THOUGHT]what you thought[/THOUGHT]\n"
        "[END_DISCUSSION]true/false[/END_DISCUSSION]"
    )
    assert MULTI.schema is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[SPEAK]Hello[/SPEAK] [THOUGHT]xxx",
            [
                "$.thought: the tag [/THOUGHT] is missing after [THOUGHT]",
                "$.end_discussion: the tags [END_DISCUSSION] and [/END_DISCUSSION] are missing",
            ],
        ),
        (
            TAGGED.replace("true", "maybe"),
            [
                "$.end_discussion: the content between [END_DISCUSSION] and [/END_DISCUSSION] must be JSON: "
                'expected JSON, found "maybe"'
            ],
        ),
        (TAGGED + "[SPEAK]Bye![/SPEAK]", ["$.speak: [SPEAK] occurs twice with different contents"]),
        ("<think>" + TAGGED, ["$: the reply ends inside its reasoning"]),
    ],
)
def test_missing_and_unfit_tags_are_named_in_the_error(text: str, expected: list[str]) -> None:
    assert problems(MULTI, text) == expected


def test_tags_inside_a_content_and_in_the_reasoning_are_not_the_answer() -> None:
    text = f"<think>[SPEAK]Hm[/SPEAK]</think>{TAGGED.replace('xxx', 'Say [SPEAK]Hi[/SPEAK]?')}"
    assert MULTI.parse(text) == {**PARSED, "thought": "Say [SPEAK]Hi[/SPEAK]?"}


def test_an_opening_tag_that_contains_another_one_is_a_tag_of_its_own() -> None:
    parser = MultiTaggedContentParser(
        TaggedContent("any", "```", "text", "```"),
        TaggedContent("data", "```json", "JSON", "```", parse_json=True),
    )
    assert parser.parse("```json\n{'a': 1}\n``` and ```\nx\n```") == {"any": "\nx\n", "data": {"a": 1}}


def test_optional_tags_may_be_missing_but_not_truncated() -> None:
    parser = MultiTaggedContentParser(
        TaggedContent("a", "<a>", "x", "</a>"),
        TaggedContent("b", "<b>", "x", "</b>"),
        keys_allow_missing=["b"],
    )
    assert parser.parse("<a>1</a>") == {"a": "1"}
    assert problems(parser, "<a>1</a><b>") == ["$.b: the tag </b> is missing after <b>"]


A = TaggedContent("a", "<a>", "x", "</a>")


@pytest.mark.parametrize(
    ("tags", "allowed", "message"),
    [
        ([], [], "MultiTaggedContentParser needs at least one TaggedContent"),
        ([A, TaggedContent("a", "<b>", "x", "</b>")], [], "two TaggedContents have the same name: a"),
        ([A, TaggedContent("b", "<a>", "x", "</b>")], [], "two TaggedContents have the same tag_begin: <a>"),
        ([TaggedContent("a", "", "x", "</a>")], [], "these TaggedContents have an empty tag: a"),
        ([A], ["b"], "keys_allow_missing names b; the names are: a"),
    ],
)
def test_ambiguous_tags_raise_an_error_at_creation(
    tags: list[TaggedContent], allowed: list[str], message: str
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        MultiTaggedContentParser(*tags, keys_allow_missing=allowed)
    assert str(error.value) == message


@given(st.text() | st.text(st.sampled_from("<>/ab[]SPEAK{}\"'1 \n`think")))
def test_any_text_gives_a_dict_or_a_parsing_error(text: str) -> None:
    for parser in (JSON_DICT, MULTI, REGEX):
        try:
            parsed = parser.parse(text)
        except OutputParsingError as error:
            parsed = {"text": error.text}
        assert parsed.get("text", text) == text
