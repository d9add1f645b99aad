"""A value is read with an explanation after it that takes nothing back and names no other value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from output_parsers import OutputParsingError, parse


@dataclass
class Person:
    name: str
    age: int


Level = Literal["low", "medium", "high"]
Points = Annotated[int, Field(ge=1, le=10)]
ANN = Person("Ann", 31)
READ: list[tuple[Any, str, object]] = [
    (int, "17\n\nExplanation: I counted the names in the first line.", 17),
    (float, "0.5\n\nThe two texts share half of their meaning.", 0.5),
    (float, "Score: 0.8\nReasoning: Both texts mention the flood.", 0.8),
    (float, "The score is 0.85 because both texts describe the same event.", 0.85),
    (date, "2024-03-15\n\nThe date is in the first sentence of the letter.", date(2024, 3, 15)),
    (time, "14:30 - the text says when the meeting starts.", time(14, 30)),
    (timedelta, "Duration: 01:30:00", timedelta(minutes=90)),
    (timedelta, "The meeting lasts 01:30:00.", timedelta(minutes=90)),
    (date, "日付は2024年3月15日です。", date(2024, 3, 15)),
    (date, "- March 15, 2024", date(2024, 3, 15)),
    (time, "\\boxed{14:30}", time(14, 30)),
    (Points, "8/10", 8),
    (Points, "Score: 8 out of 10", 8),
    (Points, "I would rate this 7 out of 10.", 7),
    (Points, "On a scale of 1 to 10, I'd give this a 7.", 7),
    (Points, "6 on a scale from 1 to 10", 6),
    (Points, "I rate this review **4** out of 10.", 4),
    (Points, "Ich gebe dem Aufsatz 8 von 10 Punkten.", 8),
    (Points, "Je donne la note de 6/10.", 6),
    (Points, "Voto: 7/10", 7),
    (Level, "Based on the information provided, the urgency of this ticket is **high**.", "high"),
    (Level, "Die Dringlichkeit dieses Tickets ist **high**.", "high"),
    (Level, "This ticket should be treated as high urgency.", "high"),
    (Level, "The customer can wait. The urgency is low.\n\nlow", "low"),
    (Literal["sales", "billing"], "I would route this to sales.", "sales"),
    (Points, "Score: 8\n\nThe response is well organized. It could be a bit shorter.", 8),
    (Level, "Urgency: low\nExplanation: The customer cannot log in after the update.", "low"),
    (int, "Let's count:\n\n1. apple\n2. pear\n3. plum\n\nTotal: 3", 3),
    (int, "Let me count the names in the text:\n- Ann\n- Ben\n\nSo there are **2** names in the text.", 2),
    (
        Decimal,
        "She bought 3 chairs at $40.00 each.\n\n3 × 40.00 = 120.00\n\n**Total: $120.00**",
        Decimal(120),
    ),
    (timedelta, "It starts at 10:00 and ends at 11:30.\n\nDuration: 90 minutes", timedelta(minutes=90)),
    (int, "Sure, happy to help! The document has 18 pages.", 18),
    (Level, "Thank you for this feedback. I have determined that the urgency is low.", "low"),
    (Level, "Sure! Here's the classification you asked for:\n\nlow", "low"),
    (Level, "low\n\nLet me know if you'd like me to analyze more reviews!", "low"),
    (Level, "The customer waits for the next release, so the urgency is low.", "low"),
    (float, "Basierend auf dem Text lautet die Antwort 0.85.", 0.85),
    (Level, "Op basis van de tekst is het antwoord high.", "high"),
    (bool, "No, that's incorrect.", False),
    (bool, "Nein, das stimmt nicht.", False),
    (bool, "Да, это правда.", True),
    (bool, "正解ははいです。", True),
    (bool, "True. The passage says that the museum opened in May.", True),
    (Literal["A", "B"], "[[B]]", "B"),
    (Points, "Rating: [[7]]", 7),
    (int, "[RESULT] 4", 4),
    (float, "[RESULT] 4.5", 4.5),
    (Literal["A", "B"], "[RESULT] B", "B"),
    (Points, "I would rate this 7 on a scale of 1 to 10.", 7),
    (Points, "Auf einer Skala von 1 bis 10 würde ich 7 vergeben.", 7),
    (Points, "Auf einer Skala von 1 bis 10 gebe ich dem Text eine 7.", 7),
    (Points, "Sur une échelle de 1 à 10, je donnerais 7.", 7),
    (Points, "En una escala del 1 al 10, le daría un 7.", 7),
    (Points, "Su una scala da 1 a 10, darei 7.", 7),
    (Points, "Numa escala de 1 a 10, dou nota 7.", 7),
    (Points, "Op een schaal van 1 tot 10 zou ik een 7 geven.", 7),
    (Points, "Ik geef dit een 7 op een schaal van 1 tot 10.", 7),
    (Points, "W skali od 1 do 10 oceniam to na 7.", 7),
    (Points, "På en skala från 1 till 10 ger jag det en 7.", 7),
    (Points, "På en skala fra 1 til 10 gir jeg det en 7.", 7),
    (Points, "По шкале от 1 до 10 я бы поставил 7.", 7),
    (Points, "Na stupnici od 1 do 10 dávám 7.", 7),
    (Points, "在1到10的评分中，我给7分。", 7),
    (int, "I've analyzed the text, and the answer is 17.", 17),
    (date, "The extracted value is 2024-03-15.", date(2024, 3, 15)),
    (Level, "Here you go: medium", "medium"),
    (Level, "medium - only some users are affected", "medium"),
    (list[int], "The numbers are 3, 5 and 7.", [3, 5, 7]),
    (Literal["A", "B"], "B. The message describes a problem with the login page.", "B"),
    (Level, "The urgency of this ticket is **low**. The customer waits for the next release.", "low"),
    (Level, "Urgency: low\n\nExplanation: The customer cannot log in with the new phone.", "low"),
    (Level, "low. The customer says there is no rush.", "low"),
    (Level, "I'd rate the urgency as low, since the customer says there is no rush.", "low"),
    (Literal["hoch", "mittel"], "Dringlichkeit: hoch\n\nBegründung: Der Server ist ausgefallen.", "hoch"),
    (list[int], "Numbers: 3, 5", [3, 5]),
    (list[str], "**Items**\n- apple\n- pear", ["apple", "pear"]),
    (list[str], "Hier sind die Früchte:\n- Apfel\n- Birne", ["Apfel", "Birne"]),
    (Person, "| name | age |\n|---|---|\n| Ann | 31 |", ANN),
    (Person, "| Field | Value |\n|---|---|\n| name | Ann |\n| age | 31 |", ANN),
    (Person, "The extracted person:\n\n- **Name:** Ann\n- **Age:** 31", ANN),
    (Person, '{"name": "Ann", "age": 31}\n\nI took the values from the first sentence.', ANN),
]
REFUSED: list[tuple[Any, str]] = [
    (int, "17\n\nOr 18 if you count the title."),
    (int, "17\n\nI could not read the second page."),
    (int, "17\n\nThis is a placeholder."),
    (int, "17, give or take"),
    (int, "Not 17"),
    (int, "Ticket: 17"),
    (float, "0.5\n\nHowever, this may change."),
    (date, "2024-03-15\n\nThe text also mentions the 16th."),
    (date, "1445年8月24日（回历）"),
    (date, "around 2024-03-15"),
    (time, "14:30 EST"),
    (timedelta, "2 hours per day"),
    (Points, "8/100"),
    (Points, "On a scale of 1 to 5, I'd give this a 4."),
    (Points, "3 of 10 users"),
    (Points, "Der Kunde gibt 7 von 10 Punkten."),
    (Points, "The user rated it 7."),
    (Points, "I give the opposite a 7."),
    (Points, "Clarity: 7/10\nStyle: 8/10"),
    (Points, "Give it a 7."),
    (Points, "Score: 8\n\nIt could be higher."),
    (Points, "I'd give this a 7 but the end is weak, so 5."),
    (Level, "Urgency: low\nWhy: because it is not."),
    (Level, "For the customer, this should be classified as high."),
    (Level, "The customer says that the urgency is high."),
    (Level, "The subject line says urgency: high"),
    (Level, "The title says: high"),
    (bool, "It is false that this is not spam."),
    (bool, "It is true that this is not spam."),
    (Points, "Auf einer Skala von 1 bis 10 würde ich höchstens 7 vergeben."),
    (Points, "W skali od 1 do 10 nie dałbym 7."),
    (Points, "On a scale of 1 to 10,5"),
    (Points, "Ist das eine 7?"),
    (Points, "在1到10的评分中，客户给7分。"),
    (int, "[RESULT] none"),
    (Level, "The customer says it is low.\n\nlow"),
    (Level, "The urgency of the first ticket is **high**."),
    (Literal["sales", "billing"], "I would not route this to sales."),
    (int, "- Ann\n- Ben\n\nTotal: 2 of 5"),
    (int, "- Ann\n- Ben\n\nTotal: 2\nTotal: 3"),
    (int, "If twins count as one:\n- Ann\n- Ben\n\nTotal: 2"),
    (int, "Input:\n- Ann\n- Ben\n\nTotal: 2"),
    (int, "The receipt says:\n- 2 coffee\n\nTotal: 2"),
    (int, "I cannot read the second page.\n\nTotal: 2"),
    (int, "Pages: 4\nDepth: 3"),
    (int, "Let me think: 42"),
    (Level, "If the customer waits, so the urgency is low."),
    (Level, "The customer waits, so she says the urgency is low."),
    (Level, "It is about a high bill, so the urgency is low."),
    (Points, "8/10/2024"),
    (Points, "Score (1-10):"),
    (Level, "The urgency is low. However, the customer is angry."),
    (Level, "The urgency is low. That is the opinion of the customer."),
    (Level, "The urgency was low. The server is now broken."),
    (Level, "The text says the urgency is low. The customer is angry."),
    (Level, "low. The customer says it is not."),
    (Level, "Urgency: low\nExplanation: this is not the right level."),
    (Level, "Urgency: low\nExplanation: it is not low."),
    (Level, "I rate the urgency as low, since this is not so."),
    (Level, "Die Dringlichkeit ist low. Trotzdem ist es dringend."),
    (Level, "La urgencia es **low**. En realidad, es urgente."),
    (bool, "Ja, das kann ich gerne für Sie tun."),
    (bool, "是的，我可以帮您。"),
    (bool, "はい、お手伝いできます。"),
    (bool, "True story!"),
    (bool, "No, not false."),
    (bool, "Yes, at least in part."),
    (bool, "No, hang on, it does."),
    (bool, "false\n\nEdit: this is wrong."),
    (Level, "low. The text was empty."),
    (Level, "low. That's a lie."),
    (Level, "low. Das ist gelogen."),
    (Level, "low. More information is needed."),
    (Level, "low\n\nRevised answer: unknown"),
    (Level, "low\n\nConfidence: 5%"),
    (int, "17 in name only"),
    (int, "the class of 17"),
    (int, "Kind of 17."),
    (Level, "low (copy of your input)"),
    (date, "2024-03-15; see the notes for caveats."),
    (bool, "Nein, mir fehlt der Text."),
    (Level, "high - when the shop is down"),
    (Level, "high, si la boutique est en panne"),
    (Level, "high - from Monday on"),
    (Level, "high - depending on the customer"),
    (Level, "high - только по выходным"),
    (Level, "I was going to say low."),
    (list[str], "What I would need:\n- apple\n- pear"),
    (list[str], "- apple\n- (more)"),
    (Literal["A", "B"], "B. A is right, too."),
    (list[str], "Kies:\n- apple\n- pear"),
    (list[str], "Отсутствуют:\n- apple\n- pear"),
    (list[str], "Missing:\n- apple\n- pear"),
    (Person, "| name | age |\n|---|---|\n| Ann | 31 |\n| Bo | 4 |"),
    (Person, "Example:\nname: Ann\nage: 31"),
    (Person, 'Before correction:\n{"name": "Ann", "age": 31}'),
    (list[Person], '[{"name": "Ann", "age": 31}, // more persons here\n]'),
    (list[Person], '[{"name": "Ann", "age": 31} // , {"name": "Bo", "age": 4}\n]'),
]


def result_of(tp: Any, text: str) -> object:
    try:
        value: object = parse(tp, text)
    except OutputParsingError:
        return "refused"
    return value


def test_values_with_explanations_and_in_usual_shapes_are_read() -> None:
    results = [(text, result_of(tp, text)) for tp, text, _ in READ]
    assert results == [(text, value) for _, text, value in READ]


def test_values_that_an_explanation_or_a_word_beside_them_changes_are_refused() -> None:
    assert [(text, got) for tp, text in REFUSED if (got := result_of(tp, text)) != "refused"] == []
