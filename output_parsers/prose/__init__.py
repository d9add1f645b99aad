"""Parse numbers, dates, times, choices and lists that are written in prose.

This module contains the results and errors of parsing prose, and removes quotes and markup around a value,
which the functions for numbers, dates and times share.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class TextReading(NamedTuple, Generic[T]):
    """A value parsed from prose, with the names of the rules that were used to interpret the text.

    Attributes:
        value: The value.
        rule: The names of the rules that were applied; None if the text is just the value.
    """

    value: T
    rule: str | None = None


class TextParseError(ValueError):
    """Raised if text does not clearly contain the expected value."""


def join_rules(*rules: str | None) -> str | None:
    """Join the names of parsing rules with commas, leaving out duplicates; None if there are no names."""
    return ", ".join(dict.fromkeys(rule for rule in rules if rule)) or None


# Longer pairs first, so that "**42**" does not lose one star of each pair.
_PAIRS = (
    ("\\boxed{", "}"),
    ("```", "```"),
    ("**", "**"),
    ("__", "__"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("[[", "]]"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("«", "»"),
    ("`", "`"),
    ("*", "*"),
    ("_", "_"),
    ("$", "$"),
)
# Characters without width, which some models write at the ends of a reply.
_INVISIBLE = "\ufeff\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\u00ad"
_MAX_LAYERS = 6  # realistic replies have fewer, and removing a layer copies the text


def strip_wrapping(text: str) -> tuple[str, str | None]:
    """Remove white space, quotes, markup and a final full stop from the ends of the text.

    Return the rest, and the name of the rule if more than white space was removed.
    """
    stripped = text.strip().strip(_INVISIBLE).strip()
    bare = stripped
    for _ in range(_MAX_LAYERS):
        inner = _without_layer(bare)
        if inner == bare:
            break
        bare = inner
    return bare, None if bare == stripped else "quotes, markup or full stop"


def _without_layer(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    for opening, closing in _PAIRS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def word_set(text: str) -> frozenset[str]:
    """Return the set of words in the text."""
    return frozenset(text.split())


def bare_word(word: str) -> str:
    """Return a word in lower case, without the punctuation and markup at its ends."""
    return word.strip(".,;:!?…()[]{}\"'“”‘’«»*_`").casefold()


SCALE_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}  # powers of ten

NUMBER_WORDS = word_set(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
    million billion trillion
    """
)

# These words do not change a number or a duration.
NEUTRAL = word_set(
    "yes confidence about around approximately approx roughly circa only just exactly the a an"
)

# What is counted and listed. Other headings of a list may say that it is not the answer: "Missing:", "Steps:".
NOUNS = word_set(
    """
    pages chapters lines entries einträge items list lists names people persons places locations cities countries companies organizations organisations brands
    products fruits vegetables foods ingredients animals plants colors colours materials parts objects things words
    keywords key terms phrases tags topics themes subjects categories skills languages titles books movies films songs
    authors actors characters dates numbers events tools features benefits advantages disadvantages strengths weaknesses
    symptoms diseases medications services entities sentences synonyms antonyms headlines cars sports jobs hobbies
    früchte obst produkte namen personen orte städte länder firmen unternehmen farben zutaten tiere bücher artikel begriffe
    stichwörter schlagwörter themen teile wörter produits noms personnes lieux villes pays entreprises couleurs ingrédients
    animaux livres mots thèmes mots-clés éléments frutas productos nombres lugares ciudades países empresas colores
    ingredientes animales libros palabras temas elementos frutti frutta prodotti nomi persone luoghi città paesi aziende
    colori ingredienti animali libri parole temi produtos nomes pessoas cidades cores animais livros palavras vruchten
    fruit producten namen steden landen bedrijven kleuren ingrediënten dieren boeken woorden onderwerpen owoce produkty
    nazwy osoby miasta kraje kolory składniki książki słowa tematy фрукты продукты имена города страны цвета книги слова
    темы товары люди
    水果 产品 產品 名称 名稱 人名 城市 国家 公司 颜色 关键词 列表 项目 果物 製品 名前 都市 国 会社 色 キーワード リスト 項目 과일 제품 이름 도시 나라
    회사 색 키워드 목록 항목
    """
)
