"""Tests of the playground page in a browser: forms, streams, problems, history and accessibility."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from browser import in_browser
from fastapi import FastAPI
from served import serve_applications

from aiservices import CallId, Durable, Journal, ScriptedChatModel, create
from aiservices.page import mount

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
)


def open_method(page: Any, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, exact=True).wait_for()


def run(page: Any) -> None:
    page.get_by_role("button", name="Run").click()


def done(page: Any) -> str:
    """Wait until the call on the page has ended, and return its status text."""
    page.locator("#status.good, #status.bad, #status.waiting").wait_for()
    return re.sub(r"(in|after) .*", r"\1 …", page.locator("#status").inner_text())


def facts(page: Any) -> dict[str, str]:
    rows = [text.split("\n") for text in page.locator("#call-details .facts > div").all_inner_texts()]
    return {name: value for name, value in rows if name != "Time"}


# Each takes a second of the browser, and what they see rarely changes.
in_detail = pytest.mark.peers


def test_running_a_method_shows_its_value_and_call_details(page: Any) -> None:
    assert page.title() == "Desk"
    page.get_by_label("letter", exact=True).fill("Thank you!")
    run(page)
    assert done(page) == "Done in …"
    assert page.locator("#value > .atom").inner_text() == "true"
    assert facts(page) == {"Tokens": "21 in, 8 out", "Attempts": "1", "Strategy": "json_schema"}
    coercions = page.locator("#call-details section", has_text="Coercions").locator("li")
    assert coercions.all_inner_texts() == ["$ text around the JSON left out"]


@in_detail
def test_a_rejected_attempt_is_shown_with_its_problems(page: Any) -> None:
    page.get_by_label("letter", exact=True).fill("It is unclear.")
    run(page)
    assert done(page) == "Done in …"
    assert facts(page)["Attempts"] == "2"
    requests = page.locator("#call-tree .step.request")
    assert [text.partition(" · ")[0] for text in requests.locator(".title").all_inner_texts()] == [
        "request 1 to scripted (json_schema) rejected",
        "request 2 to scripted (json_schema) 0 ms",
    ]
    assert requests.first.locator(".texts > *").all_inner_texts()[-2:] == [
        'reply {"value": "it depends"}',
        'problems $.value: expected true or false; the text names none of them, found "it depends"',
    ]


def test_a_record_and_its_list_grow_while_they_are_written(page: Any, script: Any) -> None:
    script.go_on.clear()
    open_method(page, "recipe")
    page.get_by_label("dish").fill("bread")
    run(page)
    page.get_by_text("Mix flour and water").wait_for()
    assert page.locator("#value").get_attribute("aria-busy") == "true"
    assert page.locator("#value li").all_inner_texts() == ["Mix flour and water"]
    assert page.locator("#value dt").all_inner_texts() == ["title", "steps"]
    script.go_on.set()
    assert done(page) == "Done in …"
    assert page.locator("#value").get_attribute("aria-busy") == "false"
    assert page.locator("#value li").all_inner_texts() == ["Mix flour and water", "Wait an hour", "Bake it"]
    assert page.locator("#value dt").all_inner_texts() == ["title", "steps", "minutes"]


def test_text_of_models_is_never_parsed_as_html(page: Any) -> None:
    open_method(page, "recipe")
    page.get_by_label("dish").fill("<img src=x onerror=alert(1)>")
    run(page)
    done(page)
    assert page.locator("#value dd").first.inner_text() == "Bread & <b>butter</b>"
    page.locator("#call-tree .request > details > summary").click()
    assert "user A recipe of <img src=x onerror=alert(1)>, please." in page.locator("#call-tree").inner_text()
    page.get_by_role("tab", name="Prompt").click()
    page.locator("#prompt").get_by_text("A recipe of <img src=x onerror=alert(1)>, please.").wait_for()
    assert page.locator("main img, main b").count() == 0


def test_a_call_is_stopped_and_the_request_to_the_model_is_closed(page: Any, script: Any) -> None:
    script.go_on.clear()
    open_method(page, "recipe")
    page.get_by_label("dish").fill("bread")
    run(page)
    page.get_by_text("Mix flour and water").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped before the end.").wait_for()
    assert page.locator("#value li").all_inner_texts() == ["Mix flour and water"]
    assert page.evaluate("document.activeElement.id") == "run"
    script.go_on.set()
    assert script.left.wait(20)


def test_a_failure_is_shown_as_a_problem_without_the_error_message(page: Any) -> None:
    page.get_by_label("letter", exact=True).fill("offline")
    run(page)
    assert done(page) == "Failed after …"
    assert page.locator(".problem").inner_text().split("\n\n") == [
        "The model cannot be reached",
        "One request was made",
        "503 urn:aiservices:connection",
    ]
    assert "sk-secret" not in page.content()


@in_detail
def test_all_kinds_of_fields_are_sent_as_arguments(page: Any, script: Any) -> None:
    open_method(page, "reply")
    page.get_by_label("letter", exact=True).fill("Hello\nthere")
    page.get_by_label("tone").select_option("warm")
    page.get_by_label("copies").fill("12345678901234567890")
    page.get_by_label("urgent").check()
    page.get_by_label("day").fill("2026-01-31")
    page.get_by_label("default None: writer").uncheck()
    page.get_by_label("writer", exact=True).fill("Ada")
    run(page)
    assert done(page) == "Done in …"
    assert (
        page.locator("#value > .text").inner_text() == "Dear friend, <img src=x onerror=alert(1)> thank you."
    )
    assert script.requests[-1].messages[-1].text == (
        "Reply in a warm and short way on 2026-01-31 at 09:00:00 for Ada: Hello\nthere "
        "(12345678901234567890, true)"
    )


@in_detail
def test_records_and_lists_have_fields_for_their_parts(page: Any, script: Any) -> None:
    open_method(page, "cook")
    page.get_by_label("dish").fill("bread")
    add = page.get_by_role("button", name="Add to ingredients")
    for name in ("flour", "sand", "salt"):
        add.click()
        page.get_by_label("name", exact=True).last.fill(name)
    page.get_by_label("leave out: grams").last.uncheck()
    page.get_by_label("grams", exact=True).last.fill("5")
    page.get_by_role("button", name="Remove ingredients 2").click()
    assert page.locator("legend").all_inner_texts() == [
        "order",
        "ingredients",
        "ingredients 1",
        "ingredients 2",
    ]
    run(page)
    assert done(page) == "Done in …"
    assert script.requests[-1].messages[-1].text == (
        'Cook {"dish": "bread", "ingredients": [{"name": "flour", "grams": null}, {"name": "salt", '
        '"grams": 5}], "vegetarian": false}.'
    )


@in_detail
def test_other_types_are_entered_as_json(page: Any, script: Any) -> None:
    open_method(page, "count")
    prices = page.get_by_label("prices")
    prices.fill("{bread: 1}")
    page.get_by_label("moment").fill("2026-01-31T10:30:00+01:00")
    page.get_by_label("null: most").check()
    run(page)
    (complaint,) = page.locator(".error:visible").all_inner_texts()
    assert complaint.startswith("this is not JSON: ")
    prices.fill('{"bread": 1.10}')
    run(page)
    assert done(page) == "Done in …"
    assert page.locator("#value > .atom").inner_text() == "7"
    assert script.requests[-1].messages[-1].text == (
        'Count by {"bread": "1.10"} at 2026-01-31T10:30:00+01:00 up to none'
    )


@in_detail
def test_the_search_finds_methods_by_name_and_description(page: Any) -> None:
    page.get_by_label("Find a method").fill("WRITTEN")
    assert page.locator(".methods a:visible").all_inner_texts() == ["recipe"]
    page.get_by_label("Find a method").fill("pri")
    assert page.locator(".methods a:visible").all_inner_texts() == ["price"]


@in_detail
def test_an_image_can_be_chosen_as_a_file(page: Any, script: Any) -> None:
    open_method(page, "see")
    page.get_by_label("File").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": PIXEL})
    page.get_by_text("Chosen: cat.png").wait_for()
    run(page)
    assert done(page) == "Done in …"
    (picture,) = (part for part in script.requests[-1].messages[-1].parts if not isinstance(part, str))
    assert (picture.data, picture.media_type, picture.name) == (PIXEL, "image/png", "cat.png")
    assert page.locator("#value li").all_inner_texts() == ["a cat"]


@in_detail
def test_a_rejected_answer_is_not_shown_as_the_value(page: Any) -> None:
    open_method(page, "recipe")
    page.get_by_label("dish").fill("burnt bread")
    run(page)
    assert done(page) == "Failed after …"
    assert page.locator(".problem .headline").inner_text() == (
        "The model's reply cannot be read as the declared type"
    )
    assert facts(page)["Attempts"] == "3"
    assert page.locator("#value", has_text="Burnt").count() == 0
    assert page.locator("#call-tree .request", has_text="Burnt").count() == 1


@in_detail
def test_items_are_shown_as_records_and_invalid_items_with_the_reason(page: Any) -> None:
    open_method(page, "names")
    page.get_by_label("letter", exact=True).fill("Dear shop")
    run(page)
    assert done(page) == "Done in …"
    assert page.locator("#value .records > li").all_inner_texts() == [
        "name\nflour\ngrams\n500",
        "name\nsalt\ngrams\nnull",
    ]
    assert page.locator("#value > ul.bad").inner_text() == (
        "Item 2 does not fit: the required field 'name' is missing {\"grams\": 1}"
    )


@in_detail
def test_a_number_keeps_all_of_its_digits(page: Any) -> None:
    open_method(page, "price")
    page.get_by_label("letter", exact=True).fill("bread")
    run(page)
    assert done(page) == "Done in …"
    assert page.locator("#value > .atom").inner_text() == "12345678901234567890.10"


def test_invalid_fields_show_errors_and_nothing_is_sent(page: Any, script: Any) -> None:
    open_method(page, "reply")
    page.get_by_label("copies").fill("many")
    run(page)
    assert page.locator(".error:visible").all_inner_texts() == [
        "write a whole number, like 42",
        "choose a date",
    ]
    copies = page.get_by_label("copies")
    assert copies.get_attribute("aria-invalid") == "true"
    assert copies.evaluate("one => one === document.activeElement")
    described = copies.get_attribute("aria-describedby").split()[-1]
    assert page.locator(f"#{described}").inner_text() == "write a whole number, like 42"
    copies.fill("3")
    assert page.locator(".error:visible").all_inner_texts() == ["choose a date"]
    assert script.requests == []


@in_detail
def test_arguments_that_the_service_rejects_show_errors_at_their_fields(page: Any, script: Any) -> None:
    open_method(page, "see")
    page.get_by_label("or its address").fill("ftp://host/cat.png")
    run(page)
    page.get_by_text("The arguments do not fit.").wait_for()
    errors = page.locator("fieldset", has_text="picture").locator(".error:visible")
    assert errors.all_inner_texts() == [
        "ImageJson refuses the values: the url of an image must begin with http:// or https://, or be a data "
        "URL, found an object with url"
    ]
    assert page.locator("#calls li").count() == 0
    assert script.requests == []


@in_detail
def test_the_prompt_is_shown_without_a_request_to_the_model(page: Any, script: Any) -> None:
    page.get_by_role("tab", name="Prompt").click()
    page.get_by_label("letter", exact=True).fill("Good day")
    page.get_by_text("Good day").nth(0).wait_for()
    page.wait_for_function("document.querySelector('.message.user')?.innerText.includes('Good day')")
    assert page.locator(".message").all_inner_texts() == [
        "system\nYou work in a small shop.",
        "user\nIs this letter friendly?\n\nGood day",
    ]
    assert page.locator("#prompt .facts > div").all_inner_texts() == [
        "Model\nscripted",
        "Strategy\njson_schema: scripted supports JSON Schema; the value is sent in an object, under the key "
        "'value'",
    ]
    assert page.locator("#prompt h3").last.inner_text() == "Schema, strict"
    assert script.requests == []


@in_detail
def test_the_prompt_of_one_method_is_not_shown_for_another_method(page: Any) -> None:
    page.get_by_role("tab", name="Prompt").click()
    page.locator(".message.user", has_text="Is this letter friendly?").wait_for()
    page.route("**/preview", lambda route: None)  # never respond
    open_method(page, "recipe")
    assert page.locator("#prompt").inner_text() == ""


@in_detail
def test_the_schemas_of_the_answer_and_the_arguments_are_shown(page: Any) -> None:
    page.get_by_role("tab", name="Schema").click()
    assert page.locator("#schema h3").all_inner_texts() == ["Answer: bool", "Arguments"]
    assert page.locator("#schema pre").first.inner_text() == '{\n  "type": "boolean"\n}'


@in_detail
def test_a_call_in_the_history_can_be_reopened_after_a_reload(page: Any) -> None:
    page.get_by_label("letter", exact=True).fill("First letter")
    run(page)
    done(page)
    open_method(page, "price")
    page.get_by_label("letter", exact=True).fill("bread")
    run(page)
    done(page)
    page.reload()
    page.locator("#calls button").nth(1).wait_for()
    assert [text.split("\n")[0] for text in page.locator("#calls button").all_inner_texts()] == [
        "price",
        "is_friendly",
    ]
    page.locator("#calls button").nth(1).click()
    page.get_by_role("heading", name="is_friendly", exact=True).wait_for()
    assert page.get_by_label("letter", exact=True).input_value() == "First letter"
    assert page.locator("#value > .atom").inner_text() == "true"
    page.get_by_role("button", name="Clear history").click()
    assert page.locator("#calls button").count() == 0
    assert page.evaluate("localStorage.length") == 0


@in_detail
def test_a_draft_survives_a_visit_to_another_method(page: Any) -> None:
    page.get_by_label("letter", exact=True).fill("A draft")
    open_method(page, "recipe")
    page.go_back()
    page.get_by_role("heading", name="is_friendly", exact=True).wait_for()
    assert page.get_by_label("letter", exact=True).input_value() == "A draft"


@in_detail
def test_the_page_can_be_used_with_the_keyboard_alone(page: Any) -> None:
    keyboard = page.keyboard

    def focused() -> str:
        name: str = page.evaluate("document.activeElement.id || document.activeElement.innerText")
        return name

    keyboard.press("Tab")
    assert focused() == "Skip to the method"
    keyboard.press("Tab")
    keyboard.press("Tab")
    assert focused() == "search"
    keyboard.press("Tab")
    keyboard.press("Tab")
    assert focused() == "recipe"
    keyboard.press("Enter")
    page.get_by_role("heading", name="recipe", exact=True).wait_for()
    assert focused() == "main"
    keyboard.press("Tab")
    keyboard.type("bread")
    keyboard.press("Control+Enter")
    assert done(page) == "Done in …"
    keyboard.press("Tab")
    assert focused() == "run"
    keyboard.press("Tab")
    assert focused() == "tab-result"
    keyboard.press("ArrowRight")
    assert focused() == "tab-prompt"
    assert page.locator("#panel-prompt").is_visible()
    keyboard.press("End")
    keyboard.press("Tab")
    assert focused() == "panel-schema"


@in_detail
@pytest.mark.parametrize("look", [PHONE], ids=["phone"])
def test_the_page_fits_a_phone(page: Any, serving: Any) -> None:
    methods = page.locator(".methods a").all_text_contents()
    assert len(methods) == 8
    for name in methods:
        page.locator("#methods > summary").click()
        open_method(page, name)
        if name == "cook":
            page.get_by_role("button", name="Add to ingredients").click()
        assert not page.locator("#list").is_visible()
        for tab in ("Schema", "Prompt", "Result"):
            page.get_by_role("tab", name=tab).click()
            assert page.evaluate("document.documentElement.scrollWidth") == 390, (name, tab)
    page.locator("#methods > summary").click()
    open_method(page, "recipe")
    page.get_by_label("dish").fill("bread")
    run(page)
    assert done(page) == "Done in …"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("#status").evaluate("one => one.getBoundingClientRect().top < innerHeight")
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit")
    run(page)
    assert done(page) == "Done in …"
    page.evaluate("for (const one of document.querySelectorAll('#call-tree details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def open_buyer(page: Any, serving: Any) -> None:
    """Open the page of the service that asks another one."""
    page.goto(f"{serving.url}buyer/")
    page.get_by_label("items").wait_for()


def names(page: Any) -> list[str]:
    """Return the names of the steps on the page, with two spaces for each level."""
    depth = (
        "one => '  '.repeat(document.evaluate('count(ancestor::li)', one).numberValue - 1) + one.innerText"
    )
    return [name.evaluate(depth) for name in page.locator("#call-tree .name").all()]


BEFORE_PLUMS = [
    "Buyer.decide",
    "  request 1 to scripted (text)",
    "  tool stock",
    "    Clerk.stock",
    "      request 1 to scripted (json_schema)",
    "      request 2 to scripted (json_schema)",
    "  tool stock",
    "    Clerk.stock",
    "      request 1 to scripted (json_schema)",
]


def test_the_tree_of_calls_grows_while_they_run(page: Any, serving: Any, script: Any) -> None:
    script.go_on.clear()
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit")
    run(page)
    page.get_by_text("request 2 to scripted (json_schema)").wait_for()
    page.wait_for_function("document.querySelectorAll('#call-tree .name').length === 9")
    assert names(page) == BEFORE_PLUMS
    running = page.locator("#call-tree .step.running")
    assert running.locator("> details > summary .name").all_inner_texts() == [
        "Buyer.decide",
        "tool stock",
        "Clerk.stock",
        "request 1 to scripted (json_schema)",
    ]
    page.locator("#call-tree .request > details > summary").first.click()
    script.go_on.set()
    assert done(page) == "Done in …"
    assert names(page) == [*BEFORE_PLUMS, "  request 2 to scripted (text)"]
    assert running.count() == 0
    opened = page.locator("#call-tree .request").first
    assert opened.locator(".texts").inner_text().split("\n\n")[-1] == (
        'reply stock({"item": "pears"}) stock({"item": "plums"})'
    )


@in_detail
def test_the_tree_shows_usage_cost_times_and_collapsed_messages(page: Any, serving: Any) -> None:
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit")
    run(page)
    assert done(page) == "Done in …"
    shown = facts(page)
    # The tokens of the question again depend on the words of the problem.
    tokens, cost = shown.pop("Tokens"), shown.pop("Cost")
    assert shown == {"Attempts": "2", "Strategy": "text"}
    sent = re.fullmatch(r"(1\d\d) in, 57 out", tokens)
    assert sent
    assert re.fullmatch(r"0\.0002\d\d", cost)
    top = page.locator("#call-tree .step").first
    text = top.locator("> details > summary .facts-line").inner_text()
    assert re.fullmatch(rf"\S+ m?s · {sent[1]} \+ 57 tokens · cost {re.escape(cost)}", text)
    assert re.fullmatch(r"\+\d\.\d\d s", page.locator("#call-tree .start").last.inner_text())
    reply = page.locator("#call-tree .rejected .texts > details", has_text="reply")
    assert not reply.locator("pre").is_visible()
    reply.locator("summary").click()
    assert reply.locator("pre").text_content() == "<script>alert(1)</script> a dozen or so\n" * 9
    assert page.locator("main script").count() == 0


@in_detail
def test_a_suspended_call_continues_with_the_decision_of_its_form(page: Any, serving: Any) -> None:
    open_buyer(page, serving)
    for decision in ("Deny", "Approve"):
        page.get_by_label("items").fill("approval")
        run(page)
        assert done(page) == "Waiting for a decision."
        (waiting,) = page.locator("#call-tree .step.waiting").all()
        assert waiting.locator("> details > .texts").inner_text() == 'waits for order({"item": "pears"})'
        assert page.locator("#value legend").inner_text() == 'order({"item": "pears"})'
        page.get_by_label(decision).check()
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("Done in").first.wait_for()
        assert page.locator("#value > .text").inner_text() == "Buy plums."
        assert "resumed" in page.locator("#call-tree .step").first.inner_text()
    page.get_by_role("button", name="Waiting for a decision").first.click()
    page.get_by_text("Run it again to decide").wait_for()  # what the browser saved cannot continue the call
    assert page.locator("#value form").count() == 0


@in_detail
def test_steps_of_a_stopped_call_are_stopped(page: Any, serving: Any, script: Any) -> None:
    script.go_on.clear()
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit")
    run(page)
    page.get_by_text("request 2 to scripted (json_schema)").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped before the end.").wait_for()
    assert page.locator("#call-tree .running").count() == 0
    assert page.locator("#call-tree .step.stopped").count() == 4


@in_detail
def test_a_call_in_the_history_has_its_tree(page: Any, serving: Any) -> None:
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit")
    run(page)
    done(page)
    shown = page.locator("#call-tree").inner_text()
    page.reload()
    page.locator("#calls button").click()
    page.locator("#call-tree .step").first.wait_for()
    assert page.locator("#call-tree").inner_text() == shown


@in_detail
def test_a_long_call_is_in_the_history_without_its_tree(page: Any, serving: Any) -> None:
    open_buyer(page, serving)
    page.get_by_label("items").fill("fruit " * 5000)
    run(page)
    done(page)
    page.reload()
    page.locator("#calls button").click()
    page.locator("#value > .text").wait_for()
    assert page.locator("#call-tree .step").count() == 0


_CONTRASTS = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (parts) => parts.slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour.startsWith("rgb(")) return numbers(colour);
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.disabled || element.closest("option")) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) poor.push(`${element.tagName} ${element.textContent}: ${contrast.toFixed(2)}`);
  }
  return poor;
}"""


@in_detail
@pytest.mark.parametrize("look", [{"color_scheme": "light"}, {"color_scheme": "dark"}], ids=["light", "dark"])
def test_all_texts_have_enough_contrast(page: Any, look: dict[str, str]) -> None:
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert dark is (look["color_scheme"] == "dark")
    page.mouse.move(640, 5)
    page.get_by_label("letter", exact=True).fill("unclear")
    run(page)
    done(page)
    page.get_by_text("As JSON", exact=True).click()
    assert page.evaluate(_CONTRASTS) == []
    page.get_by_label("letter", exact=True).fill("offline")
    run(page)
    page.locator(".problem").wait_for()
    assert page.evaluate(_CONTRASTS) == []
    open_method(page, "reply")
    run(page)
    page.get_by_role("tab", name="Prompt").click()
    assert page.evaluate(_CONTRASTS) == []


@in_detail
@pytest.mark.parametrize("look", [{"reduced_motion": "reduce"}], ids=["still"])
def test_nothing_is_animated_with_reduced_motion(page: Any, script: Any) -> None:
    script.go_on.clear()
    open_method(page, "recipe")
    page.get_by_label("dish").fill("bread")
    run(page)
    page.get_by_text("Mix flour and water").wait_for()
    assert page.evaluate("document.getAnimations({ subtree: true }).length") == 0
    script.go_on.set()
    done(page)


_UNNAMED = """() => {
  const named = (one) => one.labels?.length || one.getAttribute("aria-label") || one.innerText?.trim();
  const controls = [...document.querySelectorAll("input, textarea, select, button, a, summary, fieldset")];
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const pointers = ["aria-describedby", "aria-controls", "aria-labelledby", "for"];
  const dangling = pointers.flatMap((name) => [...document.querySelectorAll(`[${name}]`)]
    .flatMap((one) => one.getAttribute(name).split(" ")).filter((id) => !ids.includes(id)));
  return [
    ...controls.filter((one) => one.tagName === "FIELDSET" ? !one.querySelector("legend") : !named(one))
      .map((one) => `no name: ${one.outerHTML}`),
    ...ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `twice: ${id}`),
    ...dangling.map((id) => `nowhere: ${id}`),
  ];
}"""


@in_detail
def test_every_control_has_a_name_and_every_reference_a_target(page: Any) -> None:
    for name in page.locator(".methods a").all_inner_texts():
        open_method(page, name)
        for more in page.get_by_role("button", name="Add to").all():
            more.click()
        assert page.evaluate(_UNNAMED) == []
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("main").count() == page.locator("h1").count() == 1
    assert page.locator("[role=status]").count() == 1


@in_detail
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_page_continues_the_stream_of_a_durable_call(chunks: int, tmp_path: Path) -> None:
    class Writer(Protocol):
        def write(self, about: str, call_id: Annotated[str, CallId]) -> Iterator[str]: ...

    requests = 0

    def cut(application: Any) -> Any:
        async def call(scope: Any, receive: Any, send: Any) -> None:
            nonlocal requests
            sent = 0
            requests += scope.get("path", "").endswith("/run")

            async def send_some(message: Any) -> None:
                nonlocal sent
                sent += bool(message.get("body"))
                if scope["path"].endswith("/run") and sent > chunks:
                    await asyncio.sleep(0.3)  # a reset discards what the browser has not read
                    raise ConnectionResetError("the proxy broke the connection")
                await send(message)

            await application(scope, receive, send_some)

        return call

    model = ScriptedChatModel(["One two three."])
    application = FastAPI()
    with Journal(tmp_path / "calls.db") as journal:
        writer = create(Writer, model, interceptors=[Durable(journal)])
        mount(application, writer, caller_arguments=["call_id"])
        serving = serve_applications()
        url = next(serving)(cut(application))

        def work(page: Any) -> tuple[str, str]:
            page.goto(url)
            page.get_by_label("about", exact=True).fill("x")
            page.get_by_label("call_id", exact=True).fill("a")
            run(page)
            return done(page), page.locator("#value").inner_text().splitlines()[0]

        assert in_browser(work) == ("Done in …", "One two three.")
        next(serving, None)
    assert len(model.requests) == 1
    assert requests > 2
