"""Budget and FallbackChatModel: what a call may spend in all, and who is asked when a model fails."""

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

# For a million tokens each, by the model's name. The scripted models count words as tokens.
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
    """Print who answered when a model was down, and where three budgets end. Scripted models are asked."""
    broken = ScriptedChatModel([ModelServerError("overloaded", status=503, retryable=True)], name="large")
    both = FallbackChatModel(broken, ScriptedChatModel(['{"value": 8}'], name="small"))
    result = create(Counter, both).legs("spider")
    tried = [f"{one.model}: {one.error or one.text}" for one in result.attempts]
    print(f"{result.value}, after {'; '.join(tried)}")

    # A reply that goes beyond the limit is used if it can be read; no further request is made.
    for name, budget in BUDGETS.items():
        unsure = ScriptedChatModel(["Many, I think, but who has counted them?"] * 3, name="large")
        try:
            create(Counter, unsure, budget=budget).legs("centipede")
        except AiServiceError as error:
            spent = error.usage.total_tokens if error.usage else 0
            print(f"{name}: {type(error).__name__}, attempts: {len(error.attempts)}, tokens: {spent}")


if __name__ == "__main__":
    main()
