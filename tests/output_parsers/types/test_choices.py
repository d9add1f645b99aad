"""A choice is read from the text that prompts show and from any other clear name of it.

Unclear text is refused.
"""

from __future__ import annotations

import enum
from decimal import Decimal
from time import perf_counter
from typing import Any, Literal

import pytest

from output_parsers import Leniency, OutputParsingError, parse, parser_for, read


class Color(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"


class Priority(enum.Enum):
    """How urgent it is."""

    HIGH = 3
    """very urgent"""
    LOW = 1
    """can wait"""


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class Mood(enum.StrEnum):
    GOOD = enum.auto()
    BAD = enum.auto()


class Odd(enum.Enum):
    YES = "true"
    NOTHING = "null"
    FIRST = "1"
    HALF = "0.5"
    DRAFT = "[draft]"
    SET = "{x}"


class Rate(enum.Enum):
    HALF = 0.5
    WHOLE = Decimal("1.0")


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    ALL = READ | WRITE


def problem(tp: Any, text: str, leniency: Leniency = Leniency.SAFE) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text, leniency=leniency)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True.", True),
        ("FALSE", False),
        ("yes", True),
        ('"no"', False),
        ("1", True),
        ("0", False),
        ("**Yes**", True),
        ("The answer is true.", True),
    ],
)
def test_words_for_true_and_false_are_read(text: str, value: bool) -> None:
    assert parse(bool, text) is value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '$: expected true or false; the reply is empty, found ""'),
        ("2", "$: expected true or false, found 2"),
        ("1.0", "$: expected true or false, found 1.0"),
        ("null", "$: expected true or false, found null"),
        ("maybe", '$: expected true or false; the text names none of them, found "maybe"'),
        ("true or false", '$: expected true or false; the text names true and false, found "true or false"'),
        (
            "never true",
            "$: expected true or false; the text does not clearly choose one of them, "
            'because of “never” beside “true”, found "never true"',
        ),
        ('{"score": 1}', "$: expected true or false, found an object with score"),
    ],
)
def test_a_text_with_neither_or_both_of_true_and_false_is_refused(text: str, message: str) -> None:
    assert problem(bool, text) == message


@pytest.mark.parametrize(
    ("tp", "text", "member"),
    [
        (Color, "red", Color.RED),
        (Color, "RED", Color.RED),
        (Color, '"RED"', Color.RED),
        (Color, "RED.", Color.RED),
        (Color, "Color.RED", Color.RED),
        (Color, "Category: RED", Color.RED),
        (Color, "DARK BLUE", Color.DARK_BLUE),
        (Color, "dark_blue", Color.DARK_BLUE),
        (Priority, "HIGH - very urgent", Priority.HIGH),
        (Priority, "HIGH: very urgent", Priority.HIGH),
        (Priority, "high", Priority.HIGH),
        (Priority, "3", Priority.HIGH),
        (Level, "2", Level.TWO),
        (Level, "TWO", Level.TWO),
        (Mood, "Good", Mood.GOOD),
        (
            list[Rate],
            '[0.5, 1.0, 1, "HALF", "0.5"]',
            [Rate.HALF, Rate.WHOLE, Rate.WHOLE, Rate.HALF, Rate.HALF],
        ),
    ],
)
def test_a_member_is_read_by_its_name_its_value_and_its_label(tp: Any, text: str, member: object) -> None:
    assert parse(tp, text) == member


@pytest.mark.parametrize("tp", [Color, Priority, Level, Mood, Odd, Rate])
def test_the_text_that_a_prompt_shows_for_a_member_is_read_as_that_member(tp: type[enum.Enum]) -> None:
    labels, _, _ = parser_for(tp).hint.partition(" (")  # without the meanings
    for label, member in zip(labels.split(" | "), tp, strict=True):
        assert parse(tp, label) is member
        assert parse(tp, label.strip('"'), leniency=Leniency.NONE) is member
        assert parse(list[tp], f"[{label}]") == [member]


@pytest.mark.parametrize(
    ("text", "member"), [("[true]", Odd.YES), ("[null]", Odd.NOTHING), ("[0.5]", Odd.HALF)]
)
def test_a_json_scalar_selects_the_member_with_its_text(text: str, member: Odd) -> None:
    reading = read(list[Odd], text)
    assert reading.value == [member]
    assert [step.rule for step in reading.coercions] == ["value as text"]


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Color, "green", '$: expected one of "red", "dark-blue"; the text names none of them, found "green"'),
        (Color, "0", '$: expected one of "red", "dark-blue", found 0'),
        (
            Color,
            "red or dark blue",
            '$: expected one of "red", "dark-blue"; the text names red and dark-blue, '
            'found "red or dark blue"',
        ),
        (Color, '{"color": "red"}', '$: expected one of "red", "dark-blue", found an object with color'),
        (Level, "0", '$: expected one of "ONE", "TWO", found 0'),
        (Level, "1.0", '$: expected one of "ONE", "TWO", found 1.0'),
        (Literal["a"], "b", '$: expected "a"; the text names none of them, found "b"'),
    ],
)
def test_a_text_that_names_no_member_or_two_members_is_refused(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Literal["a", "b"], "a", "a"),
        (Literal["a", "b"], "B", "b"),
        (Literal[1, 2], "2", 2),
        (Literal[1, 2], '"2"', 2),
        (Literal["1", "2"], "2", "2"),
        (Literal[True], "yes", True),
        (Literal[None, "x"], "null", None),
        (Literal[Color.RED], "red", Color.RED),
    ],
)
def test_a_literal_is_read_as_its_exact_value(tp: Any, text: str, value: object) -> None:
    result = parse(tp, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize("wrapper", ["{}", " {}\n"])
@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Literal["7", 7], "7", 7),
        (Literal["7", 7], '"7"', "7"),
        (Literal[7, "7"], "7", 7),
        (Literal[7, "7"], '"7"', "7"),
        (Literal["true", True], "true", True),
        (Literal["true", True], '"true"', "true"),
        (Literal["null", None], "null", None),
        (Literal["null", None], '"null"', "null"),
        (list[Literal[7, "7"]], '["7", 7]', ["7", 7]),
    ],
)
def test_quotes_distinguish_a_text_from_a_number_that_looks_alike(
    tp: Any, text: str, value: object, wrapper: str
) -> None:
    reading = read(tp, wrapper.format(text))
    assert repr(reading.value) == repr(value)
    assert reading.coercions == ()


@pytest.mark.parametrize("text", ["None", "none", "NULL"])
def test_the_none_of_a_literal_is_shown_as_null_and_read_in_other_words(text: str) -> None:
    assert parser_for(Literal["a", None]).hint == '"a" | null'
    assert parse(Literal["a", None], text) is None


@pytest.mark.parametrize(("tp", "text"), [(Literal[1, 2], "true"), (Literal[1], "1.0"), (Literal[True], "1")])
def test_equal_values_of_another_type_do_not_match_a_literal(tp: Any, text: str) -> None:
    assert problem(tp, text).endswith(f"found {text}")


def test_members_that_differ_only_in_case_are_distinguished_by_case() -> None:
    units = Literal["m", "M"]
    assert (parse(units, "m"), parse(units, "M")) == ("m", "M")
    assert (
        problem(units, "“m”") == '$: expected one of "m", "M"; “m” means more than one of them, found "“m”"'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('["READ"]', Access.READ),
        ('["read", "Write"]', Access.READ | Access.WRITE),
        ("READ|WRITE", Access.READ | Access.WRITE),
        ("read, write", Access.READ | Access.WRITE),
        ("[]", Access(0)),
    ],
)
def test_some_members_of_a_flag_are_read(text: str, value: Access) -> None:
    assert parse(Access, text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["read", "run"]', '$[1]: expected one of READ, WRITE, found "run"'),
        ("[1]", "$[0]: expected one of READ, WRITE, found 1"),
        ("3", "$: expected an array of READ, WRITE, found 3"),
    ],
)
def test_a_name_that_is_not_a_member_of_a_flag_is_refused(text: str, message: str) -> None:
    assert problem(Access, text) == message


def test_the_hint_of_a_flag_shows_its_members() -> None:
    assert parser_for(Access).hint == '["READ" | "WRITE", ...]'


def test_members_carry_their_descriptions_into_the_schema() -> None:
    assert parser_for(Priority).schema == {
        "type": "string",
        "enum": ["HIGH", "LOW"],
        "description": "How urgent it is; HIGH: very urgent; LOW: can wait",
    }


def test_a_member_may_describe_itself_by_an_attribute() -> None:
    class Size(enum.Enum):
        SMALL = "s", "below ten"
        LARGE = "l", "ten and more"

        @property
        def description(self) -> str:
            return str(self.value[1])

    assert parser_for(Size).schema == {
        "type": "string",
        "enum": ["SMALL", "LARGE"],
        "description": "SMALL: below ten; LARGE: ten and more",
    }
    assert parse(Size, "small") is Size.SMALL


@pytest.mark.parametrize(
    ("tp", "schema"),
    [
        (bool, {"type": "boolean"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal[True, "x", None], {"enum": [True, "x", None]}),
        (Access, {"type": "array", "items": {"type": "string", "enum": ["READ", "WRITE"]}}),
    ],
)
def test_the_schema_lists_the_choices(tp: Any, schema: dict[str, Any]) -> None:
    assert parser_for(tp).schema == schema


class Feeling(enum.Enum):
    POSITIVE = "POSITIVE"
    NEGATIVE = "NEGATIVE"
    NEUTRAL = "NEUTRAL"


Move = Literal["buy", "sell", "hold"]
Urgency = Literal["critical", "minor"]
Spam = Literal["spam", "ham"]
LEFT_OPEN = "the text does not clearly choose one of them"


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Feeling, "I am positive that this is bad", LEFT_OPEN),
        (Feeling, "I am POSITIVE that this is bad", LEFT_OPEN),
        (Feeling, "I'm very positive.", "the text uses the word in another sense"),
        (Feeling, "As an AI, I must remain neutral on this.", LEFT_OPEN),
        (Feeling, "She is positive she saw it.", LEFT_OPEN),
        (Feeling, "On a positive note, the staff was kind.", LEFT_OPEN),
        (Feeling, "Positive thinking is the topic of this text.", LEFT_OPEN),
        (Feeling, "He tested positive for flu.", LEFT_OPEN),
        (Feeling, "It should have been positive.", LEFT_OPEN),
        (Feeling, "It was positive until the end.", LEFT_OPEN),
        (Feeling, "It's hard to say it's positive", LEFT_OPEN),
        (Feeling, "POSITIVE, no wait", LEFT_OPEN),
        (bool, "False alarm.", LEFT_OPEN),
        (bool, "His dream came true.", LEFT_OPEN),
        (bool, "That is too good to be true", LEFT_OPEN),
        (Move, "Please hold the line.", LEFT_OPEN),
        (Move, "Hold on, let me think.", LEFT_OPEN),
        (Urgency, "It is critical to know more.", LEFT_OPEN),
        (Spam, "The spam filter missed it.", LEFT_OPEN),
    ],
)
def test_a_word_of_a_choice_in_another_meaning_is_refused(tp: Any, text: str, message: str) -> None:
    assert f"; {message}" in problem(tp, text)


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Feeling, "This is a negative review.", Feeling.NEGATIVE),
        (Feeling, "I think the review is positive because the food was good.", Feeling.POSITIVE),
        (Feeling, "I'm going with POSITIVE.", Feeling.POSITIVE),
        (Feeling, "The label POSITIVE applies.", Feeling.POSITIVE),
        (Feeling, "I am an AI. Sentiment: negative", Feeling.NEGATIVE),
        (Feeling, "I'm positive. The answer is: positive", Feeling.POSITIVE),
        (bool, "It is true that the earth is round.", True),
        (bool, "After checking, the claim is false.", False),
        (Move, "My recommendation is to sell.", "sell"),
        (Spam, "I would classify this as spam.", "spam"),
    ],
)
def test_a_choice_that_a_sentence_names_is_read(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text) == value


@pytest.mark.parametrize(
    ("tp", "text", "value", "coercions"),
    [
        (
            Priority,
            "[HIGH]",
            Priority.HIGH,
            ["$: unquoted string", "$: brackets around a choice"],
        ),
        (Priority, '["HIGH"]', Priority.HIGH, ["$: brackets around a choice"]),
        (Literal["a", "b"], '["b"]', "b", ["$: brackets around a choice"]),
        (
            list[Priority],
            '[["HIGH"], "LOW"]',
            [Priority.HIGH, Priority.LOW],
            ["$[0]: brackets around a choice"],
        ),
        (list[Priority] | Priority, '["HIGH"]', [Priority.HIGH], []),
    ],
)
def test_brackets_around_one_choice_are_left_out(
    tp: Any, text: str, value: object, coercions: list[str]
) -> None:
    reading = read(tp, text)
    assert reading.value == value
    assert list(map(str, reading.coercions)) == coercions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["HIGH", "LOW"]', '$: expected one of "HIGH", "LOW", found an array of 2'),
        ("[]", '$: expected one of "HIGH", "LOW", found an array of 0'),
        ("[1]", '$: expected one of "HIGH", "LOW", found an array of 1'),
        ('[["HIGH"]]', '$: expected one of "HIGH", "LOW", found an array of 1'),
    ],
)
def test_brackets_around_anything_else_are_an_array(text: str, message: str) -> None:
    assert problem(Priority, text) == message


def test_the_description_of_a_member_is_read_as_the_member_if_it_is_the_whole_reply() -> None:
    assert parse(Priority, "Can wait.") is Priority.LOW
    assert parse(list[Priority], '["very urgent", "LOW"]') == [Priority.HIGH, Priority.LOW]
    assert problem(Priority, "It can wait until the very urgent ones are done.") == (
        '$: expected one of "HIGH", "LOW"; the text names none of them, '
        'found "It can wait until the very urgent ones are done."'
    )


def test_a_description_that_two_members_share_is_refused() -> None:
    class Size(enum.Enum):
        SMALL = "s", "of any length"
        LARGE = "l", "of any length"

        @property
        def description(self) -> str:
            return self.value[1]

    assert problem(Size, "of any length") == (
        '$: expected one of "SMALL", "LARGE"; “of any length” means more than one of them, '
        'found "of any length"'
    )


def test_options_with_quotes_are_json_in_prompts_and_whole_in_replies() -> None:
    parser = parser_for(Literal['say "a"', "line\nbreak"])
    assert parser.hint == '"say \\"a\\"" | "line\\nbreak"'
    assert parser.parse('say "a"') == 'say "a"'
    assert parser.parse(parser.write("line\nbreak")) == "line\nbreak"


def test_an_enum_with_many_members_is_created_and_read_in_linear_time() -> None:
    color = enum.Enum("Color", {f"m{i}": f"value {i}" for i in range(3_000)})
    assert parse(color, "It is value 2987.") is color["m2987"]
    assert parse(list[color], '["m2999", "value 1"]') == [color["m2999"], color["m1"]]


class Paint(enum.Enum):
    RED = (255, 0, 0)
    BLUE = (0, 0, 255)


def test_an_array_is_the_member_whose_value_is_that_tuple() -> None:
    assert parse(Paint, "[255, 0, 0]") is Paint.RED
    with pytest.raises(OutputParsingError):
        parse(Paint, "[255, 0, 1]")


def test_keys_that_are_choices_are_read_in_another_case_or_with_a_space() -> None:
    assert parse(dict[Color, int], '{"Dark Blue": 1}') == {Color.DARK_BLUE: 1}
    with pytest.raises(OutputParsingError, match="another key is read as the same key"):
        parse(dict[Color, int], '{"dark blue": 1, "dark-blue": 2}')


LETTERS = Literal["A", "B"]


@pytest.mark.parametrize(
    "text",
    [
        "$\\boxed{B}$",
        "\\boxed{\\text{B}}",
        "Final answer: \\boxed{\\textbf{(B)}}",
        "> B",
        "=> B",
        "Sure! Here is the answer:\n\n**B**\n\nLet me know if you need anything else!",
        "B\n\nI hope this helps!",
        "Answer:\u202a B",
        "B\u200d",
    ],
)
def test_a_choice_in_a_usual_wrapper_is_read(text: str) -> None:
    assert parse(LETTERS, text) == "B"


@pytest.mark.parametrize(
    "text",
    [
        "Is it B",
        "Was it B",
        "With B",
        "Very B",
        "Sehr B",
        "B. Let me know if this is wrong.",
        "Here is an example: B",
        "Good. Cevap veremem.",
        "Good. Es nevaru atbildēt.",
        "Good. En voi vastata.",
        "Good: 10%",
        "Good. I invented this.",
        "Good. I'm unable to tell.",
        "Good. This is a draft.",
        "Good. 抱歉。",
        "Good. 죄송합니다.",
        "Good. ...",
    ],
)
def test_a_choice_in_a_question_or_beside_a_refusal_is_refused(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(LETTERS if "B" in text else Mood, text)


def test_many_signs_around_a_choice_are_read_in_linear_time() -> None:
    start = perf_counter()
    for sign in "$<({-!":
        with pytest.raises(OutputParsingError):
            parse(LETTERS, sign * 20_000 + "x")
    assert perf_counter() - start < 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Ja, der Text ist auf Englisch.", True),
        ("Oui, c'est correct.", True),
        ("Sí, es correcto.", True),
        ("Да, это верно.", True),
        ("是的,这封邮件是垃圾邮件。", True),
        ("Tak.", True),
        ("The claim is correct.", True),
        ("Nein, das ist nicht korrekt.", False),
        ("Não, isso não é verdade.", False),
        ("Nee, dat klopt niet.", False),
        ("아니요, 그렇지 않습니다.", False),
        ("Not true.", False),
        ("That is incorrect.", False),
        ("That's not true.", False),
        ("❌ No", False),
    ],
)
def test_a_yes_or_no_with_a_plain_sentence_is_read_in_each_language(text: str, value: bool) -> None:
    assert parse(bool, text) is value


@pytest.mark.parametrize(
    "text",
    [
        "Oui, je crois",
        "Ja, aber der Text ist kurz.",
        "Sí, si es correcto.",
        "はい、でも違います",
        "Ja, das ist nicht korrekt.",
        "Not true?",
        "It is false that the answer is yes.",
        "❌ Yes",
        "Ja?",
    ],
)
def test_a_yes_or_no_that_is_weakened_is_refused(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(bool, text)


@pytest.mark.parametrize(
    "text",
    [
        "high (the customer is waiting for it)",
        "Classification: high\nReasoning: The customer cannot log in at all.",
        "Priority: high\nConfidence: low",
        "Priority: high (0.92)",
        "**Priority:** High\n**Confidence:** 0.9",
        'This ticket should be classified as "high".',
        "Based on the description, the priority of this ticket is high.",
    ],
)
def test_a_choice_with_its_reason_or_confidence_is_read(text: str) -> None:
    assert parse(Literal["low", "high"], text) == "high"


@pytest.mark.parametrize(
    "text",
    [
        "high (not really)",
        "high (or low)",
        "Classification: high\nReasoning: There is not enough information.",
        "Classification: high\nReasoning: It may also be low.",
        "Confidence: high",
        "high (0.2)",
    ],
)
def test_a_choice_that_its_reason_takes_back_is_refused(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Literal["low", "high"], text)


@pytest.mark.parametrize(("text", "value"), [("4/5", 4), ("4 out of 5", 4), ("Rating: 3/5 stars", 3)])
def test_a_rating_is_read_if_its_maximum_is_the_highest_choice(text: str, value: int) -> None:
    assert parse(Literal[1, 2, 3, 4, 5], text) == value
    with pytest.raises(OutputParsingError):
        parse(Literal[1, 2, 3, 4, 5], text.replace("5", "10"))


@pytest.mark.parametrize(
    "text",
    [
        "Yes, I can look at it for you.",
        "Yes, please upload the picture.",
        "Yes, and I also need the address.",
        "No, I need more details.",
        "No. I am an AI without access to mails.",
        "Yes, provided that it is sealed.",
        "Yes, in many cases.",
        "Yes, to a certain degree.",
        "Yes, only for members.",
        "Yes. It is only valid in summer.",
        "Ja, in manchen Fällen.",
        "Ja, wenn es regnet.",
        "Oui, à condition de payer.",
        "Sí, en algunos casos.",
        "Sì, a volte.",
        "Да, если идёт дождь.",
        "Input: yes",
        "Frage: ja",
        "Usuario: sí",
        "The customer answered yes.",
        "Please answer yes.",
        "Reply with no.",
        "Your answer is no.",
    ],
)
def test_yes_and_no_with_a_condition_a_request_or_of_somebody_else_are_not_answers(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(bool, text)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, the customer is a member.",
        "Yes. The box is sealed and the address is on it.",
        "Answer: yes",
        "### Answer\n\nYes",
        "The answer is yes.",
    ],
)
def test_yes_with_its_reason_or_an_announcement_is_an_answer(text: str) -> None:
    assert parse(bool, text) is True


REASONS = ["Priority: High\nReason: data loss", "high\nReason: outage", "high\nReasoning: late"]


@pytest.mark.parametrize("text", REASONS)
def test_a_few_words_may_be_the_reason_of_a_choice(text: str) -> None:
    assert parse(Literal["high", "low"], text) == "high"


@pytest.mark.parametrize("text", ["high\nReason: unknown", "high\nReason: not enough data"])
def test_a_missing_reason_is_no_reason(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Literal["high", "low"], text)


def test_a_letter_that_may_be_an_initial_is_refused() -> None:
    letters = Literal["A", "B", "C", "D"]
    for text in (
        "A. Lincoln wrote it", "A. Lincoln was the author.", "C. S. Lewis", "D. H. Lawrence wrote it",
        "A. Einstein said so.", "B. Brecht schrieb es.", "A. Camus est né en 1913.", "A. Volta inventò.",
    ):  # fmt: skip
        with pytest.raises(OutputParsingError, match="may be the initial of a name"):
            parse(letters, text)
    for text in (
        "B. Paris",
        "B. Paris is the capital of France.",
        "B. The author wrote it in May.",
        "B. Das steht im Text.",
    ):
        assert parse(letters, text) == "B", text


LIMITING = {
    "Yes": "pending a second signature|subject to review|on paper|for now|I think|he said"
    "|as requested by the user|at first glance|most of"
    " the time|under one condition|close to medium|you decide|every other day|I know, you want it",
    "Ja": "vorbehaltlich der Prüfung|laut dem Kunden|sagt der Kunde|meine ich|auf dem Papier"
    "|das kommt darauf an|vorerst",
    "Oui": "sous réserve de validation|dit le client|hier|à une condition|la plupart du temps|en principe"
    "|je crois",
    "Sí": "pendiente de firma|de momento|dice el cliente|un momento|de acuerdo|a condición de pagar"
    "|según el cliente",
    "Sì": "in attesa di firma|dice il cliente|il più delle volte|a una condizione|per ora",
    "Sim": "pendente de assinatura|diz o cliente|de acordo|em princípio",
    "Tak": "pod warunkiem podpisu|zgodnie z prośbą|na razie|to zależy",
    "Да": "при условии подписи|по словам клиента|надеюсь|на бумаге",
    "是": "待审核|客户说|前提是付款|暂时|见上文",
    "はい": "条件付き|お客様によると|今のところ|ありがとうございます",
    "네": "조건부|비가 오면|지금은|고객이 말했습니다",
}
EXPLAINING = {
    "Yes": "the text says so|because it asks for a refund|there is a phone number in it|it does"
    "|definitely|of course|you can",
    "Ja": "der Text ist auf Englisch|das stimmt|weil der Kunde es schreibt",
    "Oui": "le client veut un remboursement|c'est exact|bien sûr",
    "Sí": "el cliente quiere cancelar|es correcto|por supuesto",
    "Sì": "il testo menziona un rimborso|è vero",
    "Tak": "to prawda|tekst wspomina o zwrocie",
    "Да": "в тексте упоминается возврат|это правда",
    "是": "文本中提到了退款",
    "はい": "顧客は解約を希望しています|そうです",
    "네": "고객이 해지를 원합니다|맞습니다",
}


def test_words_after_a_choice_that_relate_or_limit_it_are_refused() -> None:
    read_texts = []
    for answer, endings in LIMITING.items():
        for choices, choice in ((bool, answer), (Literal["low", "high"], "high")):
            for text in (
                f"{choice}{sign}{end}" for end in endings.split("|") for sign in (", ", " - ", ". ", "\n")
            ):
                try:
                    read_texts.append((text, parse(choices, text)))
                except OutputParsingError:
                    continue
    assert read_texts == []


def test_a_statement_after_a_yes_is_its_explanation() -> None:
    for answer, endings in EXPLAINING.items():
        for end in endings.split("|"):
            assert parse(bool, f"{answer}, {end}.") is True, end


def test_a_statement_that_something_is_true_or_false_is_a_bool() -> None:
    for text, value in (
        ("Das stimmt nicht.", False), ("C'est faux.", False), ("È falso.", False),
        ("Nie, to nieprawda.", False),
        ("Das stimmt.", True), ("C'est vrai.", True), ("Ja, det stämmer.", True), ("Это правда.", True),
    ):  # fmt: skip
        assert parse(bool, text) is value, text


def test_a_template_or_an_idiom_names_no_choice() -> None:
    for choices, text in (
        (bool, "<yes|no>"), (bool, "Answer: <yes|no>"), (Literal["left", "right"], "That's right."),
        (Literal["free", "paid"], "Feel free to ask."), (Literal["left", "right"], "Right now."),
    ):  # fmt: skip
        with pytest.raises(OutputParsingError):
            parse(choices, text)
    assert parse(Literal["right", "wrong"], "That's right.") == "right"
    assert parse(Literal["free", "paid"], "It's free.") == "free"


def test_the_only_checked_box_of_a_form_is_the_choice() -> None:
    levels = Literal["low", "medium", "high"]
    for text in (
        "- [ ] low\n- [x] medium\n- [ ] high",
        "( ) low\n(x) medium\n( ) high",
        "☐ low  ☑ medium  ☐ high",
    ):
        assert parse(levels, text) == "medium", text
    for text in ("- [x] low\n- [x] medium", "- [ ] low\n- [ ] medium", "- [x] low\nNot: medium", "☐ low"):
        with pytest.raises(OutputParsingError):
            parse(levels, text)


def test_a_choice_in_other_usual_forms_is_read() -> None:
    levels, feelings = Literal["low", "medium", "high"], Literal["positive", "negative", "neutral"]
    for choices, text, value in (
        (levels, "| Field | Value |\n|---|---|\n| Urgency | high |", "high"),
        (Literal["safe", "unsafe"], "unsafe\nS9,S1", "unsafe"),
        (feelings, "Sentiment: Negative 😠", "negative"),
        (Literal["billing", "sales"], "This ticket should be routed to billing.", "billing"),
        (Literal[1, 2, 3], "Cluster: 3", 3), (bool, "Contains personal data: yes", True),
        (bool, "is_spam: true", True),
        (levels, "Ich würde dieses Ticket als high einstufen.", "high"),
        (levels, "Le niveau de cet avis est high.", "high"),
    ):  # fmt: skip
        assert parse(choices, text) == value, text
    for choices, text in (
        (feelings, "Sentiment: positive 😠"), (bool, "is_not_spam: true"), (bool, "Is an example: yes"),
        (bool, "Yes – nie"),
        (levels, "| Field | Value |\n|---|---|\n| Input | high |"), (levels, "Data quality: low"),
    ):  # fmt: skip
        with pytest.raises(OutputParsingError):
            parse(choices, text)
