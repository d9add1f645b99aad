"""Options that a model refuses are left out of the next request, and of all later ones to its server."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import pytest
from loopback import DONE, Loopback, ReceivedRequest, Reply, answer, delta, json_reply, sse

from aiservices import (
    BadRequestError,
    Budget,
    ChatOptions,
    OpenAiChatModel,
    OpenAiResponsesModel,
    Result,
    Stream,
    create,
    user_message,
)


class Asks(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def number(self, text: str) -> int: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...


def refused(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json_reply({"error": error}, status=status)


TEMPERATURE = refused(
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is "
    "supported.",
    "temperature",
    "unsupported_value",
)


def asks(server: Loopback, model: str = "gpt-5", **settings: Any) -> Asks:
    chat = OpenAiChatModel(model, base_url=server.base_url, api_key="k")
    return create(Asks, chat, budget=Budget(first_wait=0), **settings)


def test_a_refused_temperature_is_left_out_with_a_reason(loopback: Loopback) -> None:
    loopback.reply(TEMPERATURE, answer("Yes."))
    service = asks(loopback, options=ChatOptions(temperature=0.2))
    result = service.ask("x")
    assert (result.value, len(result.attempts)) == ("Yes.", 2)
    assert "temperature was left out: the model refuses it" in result.reasons
    assert "temperature was left out: the model refuses it" in service.ask("y").reasons
    assert ["temperature" in request.json for request in loopback.requests] == [True, False, False]


def test_all_services_of_the_process_know_what_a_model_refused(loopback: Loopback) -> None:
    options = ChatOptions(temperature=0.2)
    earlier, other = asks(loopback, options=options), asks(loopback, "gpt-4.1", options=options)
    loopback.reply(answer("Yes."), TEMPERATURE, answer("Yes."))
    earlier.ask("x")  # its request has been prepared with the temperature
    asks(loopback, options=options).ask("x")
    assert earlier.ask("x").value == "Yes."
    assert asks(loopback, options=options).ask("x").value == "Yes."
    other.ask("x")
    sent = [(request.json["model"], "temperature" in request.json) for request in loopback.requests]
    assert sent[:3] == [("gpt-5", True), ("gpt-5", True), ("gpt-5", False)]
    assert sent[-1] == ("gpt-4.1", True)
    assert sent[-2] == ("gpt-5", False)


def test_calls_at_the_same_time_all_succeed(loopback: Loopback) -> None:
    both_sent = threading.Barrier(2, timeout=20)

    def reply(request: ReceivedRequest) -> Reply:
        if "temperature" in request.json:
            both_sent.wait()  # so that neither knows of the refusal of the other
            return TEMPERATURE
        return answer("Yes.")

    loopback.reply(reply)
    service = asks(loopback, options=ChatOptions(temperature=0.2))
    values: list[str] = []
    threads = [threading.Thread(target=lambda: values.append(service.ask("x").value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == ["Yes.", "Yes."]


@pytest.mark.parametrize(
    ("effort", "listed", "sent"),
    [
        ("max", "Supported values are: 'low', 'medium', and 'high'.", "high"),
        ("none", "Supported values are: 'minimal', 'low', 'medium', and 'high'.", "minimal"),
        ("low", "Supported values are: 'medium'.", "medium"),
        ("xhigh", "", None),
    ],
)
def test_the_nearest_effort_of_the_model_is_used(
    loopback: Loopback, effort: Any, listed: str, sent: str | None
) -> None:
    message = f"Unsupported value: '{effort}' is not supported with the 'gpt-5' model. {listed}"
    loopback.reply(refused(message, "reasoning_effort", "unsupported_value"), answer("Yes."))
    result = asks(loopback, options=ChatOptions(reasoning_effort=effort)).ask("x")
    assert loopback.requests[1].json.get("reasoning_effort") == sent
    what = (
        f"was {sent} instead of {effort}: the model accepts" if sent else "was left out: the model refuses it"
    )
    assert any(f"reasoning_effort {what}" in reason for reason in result.reasons)


def test_the_responses_api_leaves_out_options_too(loopback: Loopback) -> None:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}]
    done = json_reply({"status": "completed", "output": output})
    message = "Unsupported value: 'max' is not supported. Supported values are: 'low' and 'high'."
    loopback.reply(
        refused("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"),
        refused(message, "reasoning.effort", "unsupported_value"),
        done,
    )
    model = OpenAiResponsesModel("gpt-5", base_url=loopback.base_url, api_key="k")
    options = ChatOptions(top_p=0.5, reasoning_effort="max")
    result = create(Asks, model, options=options, budget=Budget(first_wait=0)).ask("x")
    assert result.value == "Yes."
    body = loopback.requests[2].json
    assert ("top_p" in body, body["reasoning"]) == (False, {"effort": "high"})
    assert result.reasons[-2:] == (
        "top_p was left out: the model refuses it",
        "reasoning_effort was high instead of max: the model accepts low, high",
    )


def test_the_limit_is_sent_by_its_other_name(loopback: Loopback) -> None:
    message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    loopback.reply(refused(message, "max_tokens", "unsupported_parameter"), answer("Yes."))
    assert asks(loopback, options=ChatOptions(max_tokens=50)).ask("x").value == "Yes."
    first, second = (request.json for request in loopback.requests)
    assert (first["max_tokens"], second["max_completion_tokens"]) == (50, 50)
    assert "max_tokens" not in second


def test_an_error_without_the_name_of_a_parameter_is_read_by_its_words(loopback: Loopback) -> None:
    loopback.reply(refused("property 'service_tier' is unsupported", status=422), answer("Yes."))
    result = asks(loopback, options=ChatOptions(service_tier="flex", temperature=0.1)).ask("x")
    body = loopback.requests[1].json
    assert ("service_tier" in body, body["temperature"]) == (False, 0.1)
    assert "service_tier was left out: the model refuses it" in result.reasons


@pytest.mark.parametrize(
    "reply",
    [
        refused("temperature must be between 0 and 1", "temperature"),
        refused("Unsupported value: 'stop' is not supported with this model.", "stop"),
        refused("'image_url' is not supported by this model", "messages"),
    ],
)
def test_other_errors_are_raised(loopback: Loopback, reply: Reply) -> None:
    loopback.reply(reply)
    with pytest.raises(BadRequestError):
        asks(loopback, options=ChatOptions(temperature=1.5, stop=("\n",))).ask("x")
    assert len(loopback.requests) == 1


def test_a_refused_strategy_is_not_taken_for_an_option(loopback: Loopback) -> None:
    message = "response_format is not supported together with reasoning_effort"
    loopback.reply(refused(message), answer('{"value": 7}'))
    assert asks(loopback, options=ChatOptions(reasoning_effort="low")).number("x") == 7
    first, second = (request.json for request in loopback.requests)
    assert "response_format" in first
    assert second["reasoning_effort"] == "low"


def test_a_stream_has_the_reason_too(loopback: Loopback) -> None:
    loopback.reply(TEMPERATURE, sse(delta(content="Yes."), delta("stop"), DONE))
    result = asks(loopback, options=ChatOptions(temperature=0.2)).stream("x").result()
    assert result.value == "Yes."
    assert "temperature was left out: the model refuses it" in result.reasons


ATTACK = "unsupported max_tokens temperature seed"


@pytest.mark.parametrize("quotes", ["{}", "the prompt was: {}", '{{"error": "invalid input {}"}}'])
def test_nothing_is_learnt_from_a_prompt_that_an_error_quotes(loopback: Loopback, quotes: str) -> None:
    def reply(request: ReceivedRequest) -> Reply:
        text = request.json["messages"][-1]["content"]
        return answer("Yes.") if text == "x" else refused(quotes.format(text))

    loopback.reply(reply)
    service = asks(loopback, options=ChatOptions(temperature=0.2, seed=1, max_tokens=9))
    with pytest.raises(BadRequestError):
        service.ask(ATTACK)
    assert (service.ask("x").value, len(loopback.requests)) == ("Yes.", 2)
    assert {"temperature", "seed"} <= loopback.requests[-1].json.keys()


def test_an_option_is_not_learnt_before_a_request_without_it_succeeds(loopback: Loopback) -> None:
    loopback.reply(TEMPERATURE, refused("The message is too long."), answer("Yes."))
    service = asks(loopback, options=ChatOptions(temperature=0.2))
    with pytest.raises(BadRequestError, match="too long"):
        service.ask("x")
    service.ask("y")
    assert ["temperature" in request.json for request in loopback.requests] == [True, False, True]


def test_a_refused_option_is_not_an_attempt(loopback: Loopback) -> None:
    loopback.reply(TEMPERATURE, answer("Yes."))
    chat = OpenAiChatModel("gpt-5", base_url=loopback.base_url, api_key="k")
    options = ChatOptions(temperature=0.2)
    assert create(Asks, chat, options=options, budget=Budget(max_attempts=1)).ask("x").value == "Yes."


def test_an_option_that_the_caller_always_sends_ends_the_call(loopback: Loopback) -> None:
    loopback.reply(TEMPERATURE)
    with pytest.raises(BadRequestError, match="temperature"):
        asks(loopback, options=ChatOptions(extra_body={"temperature": 0.2})).ask("x")
    assert len(loopback.requests) <= 11
