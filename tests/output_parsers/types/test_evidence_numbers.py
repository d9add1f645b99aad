"""A number in a quote proves a value only as a whole: with its sign, its scale, its exponent and its
fraction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from output_parsers import NumberStyle
from output_parsers.types.evidence import Evidence

# Words that multiply the number before them.
SCALES = {
    100: "hundred",
    1_000: "thousand k tsd. Tsd tausend mille mila mil duizend tusen tisíc tysięcy tys. тыс. тысяч тысячи "
    "тис. хиляди ribu nghìn ezer mii χιλιάδες हज़ार ألف אלף พัน tuhatta",
    100_000: "lakh lakhs लाख",
    1_000_000: "million millions Millionen Mio. Mio mn mln MM M millones millón milioni milhões miljoen "
    "miljoner milionů milionów млн миллионов мільйонів milyon juta triệu εκατομμύρια मिलियन مليون "
    "מיליון ล้าน millió",
    10_000_000: "crore करोड़",
    1_000_000_000: "bn bn. billion Mrd. Mrd Milliarden milliards Md miliardi miljard miliardów млрд "
    "миллиардов "
    "milyar مليار B",
    1_000_000_000_000: "trillion tn трлн Billionen",
    12: "dozen Dutzend douzaines docenas dozzine дюжин dozijn",
}
ATTACHED = {
    1_000: "k K",
    1_000_000: "M mn Mio MM",
    1_000_000_000: "bn B Mrd",
}
EAST_ASIAN = {
    10_000: "万 萬 만",
    100_000_000: "億 亿 억",
    1_000: "千 천",
    100: "百",
    1_000_000_000_000: "兆",
}
# Words that do not.
NOUNS = """men euros EUR € USD kg km m g t days Tage jours años dní дней cats Stück pièces items Jahre °C
Personen people widgets percent-free miles Seiten stron osób employés hours Uhr pages g/l kWh m² MB
GB Prozentpunkte"""
UNITS = "kg km mm cm g mg ml kWh MW GB MB Hz V W h min s ms °C € $ th lb px x"
BEFORE = ["", "The amount is ", "итого "]
AFTER = ["", ".", ", as agreed", "; and so on", ")", " – see below"]


def phrases() -> Iterator[tuple[str, dict[bool | None, list[str]]]]:
    """Yield texts with the values that they prove, that they do not prove, and that they may mean."""
    for line in (Path(__file__).parent / "numbers.txt").read_text("utf-8").splitlines()[1:]:
        text, *columns = [one.strip() for one in f"{line} | | |".split("|")]
        text = re.sub(r"\\(?:n|t|x..|u....)", lambda code: code[0].encode().decode("unicode_escape"), text)
        yield text, {kind: values.split() for kind, values in zip((True, False, None), columns, strict=False)}
    for number, value in (("5", "5"), ("2.5", "2.5"), ("12", "12"), ("1,5", "1.5")):
        for table, space in ((SCALES, " "), (EAST_ASIAN, ""), (ATTACHED, "")):
            for factor, words in table.items():
                for word in words.split():
                    yield f"{number}{space}{word}", {True: [str(Decimal(value) * factor)], False: [value]}
        for words, space in ((NOUNS, " "), (UNITS, "")):
            for word in words.split():
                yield f"{number}{space}{word}", {True: [value], False: [str(Decimal(value) * 1000)]}


def test_a_number_proves_a_value_only_as_a_whole() -> None:
    counts: Counter[bool | None] = Counter()
    faults = []
    for phrase, expected in phrases():
        for position, before in enumerate(BEFORE):
            after = AFTER[(position + len(phrase)) % len(AFTER)]
            text = f"{before}{phrase}{after}"
            for proves, values in expected.items():
                for value in values:
                    number = Fraction(value) if "/" in value else Decimal(value)
                    result = Evidence(text, len(before), len(before) + len(phrase)).proves(
                        int(value) if value.lstrip("-").isdecimal() else number
                    )
                    counts[proves] += 1
                    if result is not proves:
                        faults.append(f"{text!r} proves {value}: {result}")
    assert faults == []
    assert min(counts.values()) > 50
    assert counts.total() > 4_000


def proves(text: str, value: Any, style: NumberStyle | None = None) -> bool | None:
    return Evidence(text, 0, len(text)).proves(value, style=style)


def test_the_declaration_the_other_numbers_and_the_language_say_what_a_separator_is() -> None:
    thousand, one, number = 1500, Decimal("1.5"), Decimal(1500)
    german = "Der Preis der Ware ist 1.500 und die Zahl der Tage ist das Maß"
    english = "the amount of the fee is 1.500 in the list of the year"
    for text, yes, no, unsure in (
        ("12,50 EUR oder 1.500", [thousand, number], [one], []),
        ("12,50 oder 1,500", [one], [thousand, number], []),
        ("12.50 or 1.500", [one], [], [thousand]),
        ("12.50 or 1,500", [thousand, number], [one], []),
        (german, [thousand, number], [one], []),
        (english, [one], [number], [thousand]),
        ("1.500", [thousand], [], [one, number]),
        ("1.500 EUR", [thousand, number], [one], []),
        ("1,500", [thousand, number], [one], []),
        ("1,234.56 or 1.500", [one], [], [thousand]),
    ):
        results = [[proves(text, value) for value in values] for values in (yes, no, unsure)]
        assert results == [[True] * len(yes), [False] * len(no), [None] * len(unsure)], text
    assert [proves("1.500", number, style) for style in NumberStyle] == [False, True]
    assert [proves("1,500", one, style) for style in NumberStyle] == [False, True]


def test_a_text_does_not_end_with_a_number_that_goes_on_in_the_quote() -> None:
    for text, value, expected in (
        ("EUR 5 million", "EUR 5", False),
        ("EUR 5 million", "5 million", True),
        ("five million men", "five", False),
        ("five million men", "about five million", False),
        ("five million men", "five million", True),
        ("was -5 C", "5", False),
        ("was -5 C", "-5", True),
        ("card 4111 1111 1111 1234", "1234", True),
        ("code 00123", "00123", True),
        ("5 million and 5 men", "5", True),
        ("due on 3 May 2024", "2024", True),
    ):
        assert proves(text, value) is expected, (text, value)
