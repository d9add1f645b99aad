"""The sentiment of a text, as a bool and as an enum."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from aiservices import ChatModel, create, user_message

from .program import run


class Sentiment(Enum):
    POSITIVE = "positive"
    NEUTRAL = "neutral"
    NEGATIVE = "negative"


class SentimentAnalyzer(Protocol):
    @user_message("Does this text have a positive sentiment?\n\nText: {{text}}")
    def is_positive(self, text: str) -> bool: ...

    @user_message("Analyze the sentiment of this text.\n\nText: {{text}}")
    def sentiment_of(self, text: str) -> Sentiment: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the sentiment of four texts. ``model`` is passed to ``create``."""
    analyzer = create(SentimentAnalyzer, model)
    for text in ("This is great!", "It's awful!"):
        print(f"{text} → positive: {analyzer.is_positive(text)}")
    for text in ("This is great!", "I don't know."):
        match analyzer.sentiment_of(text):
            case Sentiment.POSITIVE:
                print(f"{text} → they like it")
            case Sentiment.NEGATIVE:
                print(f"{text} → they do not like it")
            case Sentiment.NEUTRAL:
                print(f"{text} → they have not decided")


if __name__ == "__main__":
    run(main)
