"""The classes of errors, their attributes, and pickling."""

from __future__ import annotations

import pickle

import pytest
from growth import MAX_GROWTH, growth

from aiservices import (
    AiMessage,
    AiServiceError,
    Attempt,
    AuthenticationError,
    BadRequestError,
    ChatReply,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    FinishError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    OutputParsingError,
    Problem,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    TruncatedError,
    Usage,
)

MODEL_ERRORS = [
    ModelConnectionError,
    ModelTimeoutError,
    AuthenticationError,
    ModelNotFoundError,
    RateLimitError,
    BadRequestError,
    ModelServerError,
    InvalidReplyError,
]
EXAMPLES: list[AiServiceError] = [
    DefinitionError([DefinitionProblem("P.m", "wrong")]),
    DefinitionError([DefinitionProblem("P.m", "wrong"), DefinitionProblem("P.n", "worse")]),
    ServiceOutputError("P.m", "the text", [Problem("$.a", "missing")]),
    RefusalError("no", text="", reason="unsafe"),
    TruncatedError("cut", text="par", reason="length"),
    ContentFilterError("filtered", text="", reason="content_filter"),
    *(kind("failed", status=500, request_id="r", retryable=True, retry_after=2.0) for kind in MODEL_ERRORS),
]


@pytest.mark.parametrize("kind", MODEL_ERRORS)
def test_every_provider_error_is_a_model_error(kind: type[ModelError]) -> None:
    assert issubclass(kind, ModelError)


@pytest.mark.parametrize("kind", [RefusalError, TruncatedError, ContentFilterError])
def test_every_unfinished_answer_is_a_finish_error(kind: type[FinishError]) -> None:
    assert issubclass(kind, FinishError)


@pytest.mark.parametrize("kind", [DefinitionError, ServiceOutputError, FinishError, ModelError])
def test_every_error_is_an_ai_service_error(kind: type[AiServiceError]) -> None:
    assert issubclass(kind, AiServiceError)


def test_a_definition_error_is_a_value_error_and_a_type_error() -> None:
    assert issubclass(DefinitionError, ValueError)
    assert issubclass(DefinitionError, TypeError)


def test_a_service_output_error_is_an_output_parsing_error() -> None:
    assert issubclass(ServiceOutputError, OutputParsingError)


def test_a_single_problem_is_the_message() -> None:
    assert str(DefinitionError([DefinitionProblem("P.m", "it is wrong")])) == "P.m: it is wrong"


def test_several_problems_are_counted_and_listed() -> None:
    error = DefinitionError(
        [DefinitionProblem("P.m", "it is wrong"), DefinitionProblem("P.n", "it is worse")]
    )
    assert str(error) == "2 problems:\n  - P.m: it is wrong\n  - P.n: it is worse"


def test_a_definition_error_has_its_problems() -> None:
    assert DefinitionError([DefinitionProblem("P.m", "a")]).problems == (DefinitionProblem("P.m", "a"),)


def test_the_message_of_a_service_output_error_has_method_problem_and_reply() -> None:
    error = ServiceOutputError("P.m", "maybe", [Problem("$", "expected true or false", '"maybe"')])
    assert str(error) == (
        "P.m: cannot read the reply: $: expected true or false, found \"maybe\" (the reply: 'maybe')"
    )


def test_a_service_output_error_has_text_problems_and_method() -> None:
    error = ServiceOutputError("P.m", "maybe", [Problem("$", "wrong")])
    assert (error.text, error.problems, error.qualname) == ("maybe", (Problem("$", "wrong"),), "P.m")


def test_a_model_error_has_the_details_of_the_response() -> None:
    error = RateLimitError(
        "slow down", status=429, request_id="r1", retryable=True, retry_after=3.0, body="{}"
    )
    assert (str(error), vars(error)) == (
        "slow down",
        {"status": 429, "request_id": "r1", "retryable": True, "retry_after": 3.0, "body": "{}"},
    )


def test_an_error_before_any_request_has_no_attempts_and_no_usage() -> None:
    error = AiServiceError("nothing was sent")
    assert (error.attempts, error.usage) == ((), None)


def test_usage_of_an_error_is_summed_over_its_attempts() -> None:
    reply = ChatReply(AiMessage("x"), usage=Usage(3, 1))
    without_usage = ChatReply(AiMessage("x"))
    error = AiServiceError("failed")
    error.attempts = (
        Attempt("m", reply, None, 0.1),
        Attempt("m", None, ModelServerError("500"), 0.1),
        Attempt("m", without_usage, None, 0.1),
        Attempt("m", reply, None, 0.1),
    )
    assert error.usage == Usage(6, 2)


def test_usage_of_an_error_is_none_if_no_attempt_reported_it() -> None:
    error = AiServiceError("failed")
    error.attempts = (Attempt("m", None, ModelServerError("500"), 0.1),)
    assert error.usage is None


def test_an_attempt_has_the_text_of_its_reply() -> None:
    assert Attempt("m", ChatReply(AiMessage("hi")), None, 0.1).text == "hi"


def test_an_attempt_without_reply_has_no_text() -> None:
    assert Attempt("m", None, ModelServerError("500"), 0.1).text == ""


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_message_and_contents(error: AiServiceError) -> None:
    error.attempts = (Attempt("m", ChatReply(AiMessage("hi"), usage=Usage(1, 1)), None, 0.5),)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no\r\nINFO paid", "no INFO paid"),
        ("a\n\n  b\tc\u2028d\x85e", "a b c d e"),
        ("\x1b[31mred\x00\x9b", r"\x1b[31mred\x00\x9b"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("wörld 漢字 🎉", "wörld 漢字 🎉"),
    ],
)
def test_no_control_characters_of_a_server_are_in_the_message(text: str, shown: str) -> None:
    assert str(BadRequestError(text, body=text)) == shown
    error = RefusalError(f"the model refused: {text}", text=text, reason=text)
    assert (str(error), error.reason) == (f"the model refused: {shown}", text)


def test_a_message_with_much_white_space_is_read_in_linear_time() -> None:
    factor = growth(BadRequestError, " ", "the server\nsays:", "no", short=1000)
    assert factor <= MAX_GROWTH
