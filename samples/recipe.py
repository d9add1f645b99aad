"""A pydantic model with constraints, and methods with variable arguments and with a structured prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import BaseModel, Field

from aiservices import ChatModel, create, structured_prompt, user_message

from .program import run

INGREDIENTS = ("cucumber", "tomato", "feta", "onion", "olives")


class Recipe(BaseModel):
    """A recipe whose field descriptions are sent to the model, and whose limits are checked."""

    title: str = Field(description="3 words at most", pattern=r"^[^ ]{1,20}( [^ ]{1,20}){0,2}$")
    description: str = Field(description="2 sentences at most", max_length=200)
    steps: list[Annotated[str, Field(max_length=80)]] = Field(
        description="4 words each", min_length=1, max_length=8
    )
    preparation_time_minutes: int = Field(gt=0, le=1440)


@dataclass
@structured_prompt("Create a recipe of a {{dish}} that can be prepared using only {{ingredients}}.")
class CreateRecipePrompt:
    dish: str
    ingredients: tuple[str, ...]


class Chef(Protocol):
    @user_message("Create a recipe that can be prepared using only {{ingredients}}.")
    def recipe_from(self, *ingredients: str) -> Recipe: ...

    def recipe(self, request: str | CreateRecipePrompt) -> Recipe:
        """Return a recipe. Because the method has no prompt, its argument is the user message."""
        ...


def main(model: ChatModel | str | None = None) -> None:
    """Print three recipes. ``model`` is passed to ``create``."""
    chef = create(Chef, model)
    show(chef.recipe_from(*INGREDIENTS))
    show(chef.recipe(CreateRecipePrompt("salad", INGREDIENTS)))
    show(chef.recipe("Create a recipe of an omelette."))


def show(recipe: Recipe) -> None:
    """Print a recipe."""
    print(f"{recipe.title} ({recipe.preparation_time_minutes} minutes): {recipe.description}")
    for number, step in enumerate(recipe.steps, 1):
        print(f"  {number}. {step}")


if __name__ == "__main__":
    run(main)
