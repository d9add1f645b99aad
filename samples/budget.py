"""Budget and FallbackChatModel: limits for a call, and the next model when one fails."""

from __future__ import annotations

from typing import Protocol

from aiservices import (
    AiServiceError,
    Budget,
    ChatModel,
    FallbackChatModel,
    ModelServerError,
    Price,
    Result,
    ScriptedChatModel,
    create,
    user_message,
)

# Prices of a million tokens by model name. Scripted models count words as tokens.
PRICES = {"large": Price(input=2.0, output=8.0), "small": Price(input=0.1, output=0.4)}
BUDGETS = {
    "3 attempts": Budget(max_attempts=3),
    "30 tokens": Budget(tokens=30),
    "0.00005 euros": Budget(money=0.00005, prices=PRICES),
}


class Counter(Protocol):
    @user_message("How many legs has a {{animal}}?")
    def legs(self, animal: str) -> Result[int]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the answer of a fallback model, and the errors of three exceeded budgets.

    Only scripted models are called.
    """
    broken = ScriptedChatModel([ModelServerError("overloaded", status=503, retryable=True)], name="large")
    both = FallbackChatModel(broken, ScriptedChatModel(['{"value": 8}'], name="small"))
    result = create(Counter, both).legs("spider")
    attempts = [f"{attempt.model}: {attempt.error or attempt.text}" for attempt in result.attempts]
    print(f"{result.value}, after {'; '.join(attempts)}")

    # A reply that exceeds the limit is used if it can be read. After it, no request is made.
    for name, budget in BUDGETS.items():
        unsure = ScriptedChatModel(["Many, I think, but who has counted them?"] * 3, name="large")
        try:
            create(Counter, unsure, budget=budget).legs("centipede")
        except AiServiceError as error:
            spent = error.usage.total_tokens if error.usage else 0
            print(f"{name}: {type(error).__name__}, attempts: {len(error.attempts)}, tokens: {spent}")


if __name__ == "__main__":
    main()
