"""The text around JSON decides whether it is the answer, for values, lists and iterators alike."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import pytest

from output_parsers import ItemReader, OutputParsingError, PartialReader, parse


@dataclass
class Person:
    name: str
    age: int


BOB, ANN = '{"name": "Bob", "age": 3}', '{"name": "Ann", "age": 31}'
NOT_THE_ANSWER = [
    "I don't know. Here is dummy data: {}",
    "For example: {}",
    "No person is named. e.g. {}",
    "Expected format: {}",
    "Schema example: {}",
    "It would look like {}",
    "If there were one: {}",
    "I made this up: {}",
    "You sent {}",
    "Kein Name. Beispiel: {}",
    "z. B. {}",
    "Par exemple : {}",
    "Por ejemplo: {}",
    "没有人。例如： {}",
    "例： {}",
    "```json\n{}\n```\nThis is only an example.",
    "{} is made up.",
    "{} would be the format.",
    "{} // dummy",
    "{} I am not sure about this.",
    "{} but this may be wrong.",
    "{} Wait, the age should be 4.",
    "{} Correction: age is 4.",
    "{} (guess)",
    "{} was the old value.",
    "{} Please ignore the above.",
    "{}\n\nNote: these values are made up.",
    "{}\n\nDas ist falsch.",
    "{} 这是错误的。",
    "Esto es incorrecto: {}",
    "Detta är fel: {}",
    "Rejected: {}",
    "Input: {}",
    "The user sent {}",
    "Could it be {}",
    "Esimerkki: {}",
    "ตัวอย่าง: {}",
]
ANSWERS = [
    "Here is the person: {}",
    "Here is the JSON in the requested format:\n```json\n{}\n```",
    "Answer: {}",
    "{}\n\nThis is the person that the text describes.",
    "{}\n\nLet me know if you need more examples.",
    "{}\n\nIs there anything else?",
    "{}\n\nPlease ignore the previous version.",
    "Before I answered I read the text. {}",
    "Ich habe den Text gelesen. Das Ergebnis lautet:\n{}",
    "For this example, the answer is:\n{}",
]
CHOSEN = [
    "First draft: {bob} Final answer: {ann}",
    "Example:\n```json\n{bob}\n```\nAnswer:\n```json\n{ann}\n```",
    "{bob}\n\nWait, that is wrong. Corrected:\n{ann}",
    "```python\nx = {bob}\n```\n```json\n{ann}\n```",
]


def phrases(table: str) -> list[str]:
    return table.strip().replace("\n    ", "").split("|")


WRAPPERS = ["{}", "```json\n{}\n```", "```\n{}\n```"]
# Words before JSON that lead to it, in many languages, and words after it.
LEADS = phrases("""
    Here is the JSON:|Here's the extracted information:|Sure! Here is the JSON you requested:
    |The output is:|Result:|JSON output:|Based on the text you provided, here is the JSON object:
    |I extracted the following data:|The values are as follows:
    |To answer this, I looked at the text and found these values:|I have read the text.
    |Let me extract the information from the text.|As requested, here is the JSON:|Final answer:
    |### Result|**Output:**|Person:|The person is|Hier ist das JSON:
    |Gerne! Hier ist das Ergebnis im JSON-Format:|Das Ergebnis lautet:|Voici le JSON :
    |Bien sûr ! Voici le résultat au format JSON :|Réponse :|Aquí está el JSON:
    |Claro, aquí tienes el resultado:|Ecco il JSON:|Certo! Ecco le informazioni estratte:
    |Aqui está o resultado:|Hier is de JSON:|Här är resultatet:|Her er JSON:|Oto wynik w formacie JSON:
    |Zde je JSON:|Конечно! Вот результат в формате JSON:|Ось JSON:|İşte sonuç:|Berikut adalah hasilnya:
    |以下是提取的信息：|以下がJSONです：|다음은 JSON입니다:|إليك النتيجة:
""")
ENDINGS = phrases("""
    Hope this helps!|Let me know if you need anything else.|Feel free to ask if you have any questions.
    |Is there anything else?|This is my final answer.|I followed the schema that you gave me.
    |All fields are included.|Should you need anything else, let me know.|That's it!|Done.|👍
    |This follows the requested schema.|All values were taken from the text.
    |Explanation: The values are in the first line.|Note that the values come from the first paragraph.
    |Confidence: high|Done.|Ich hoffe, das hilft!|Die Werte stammen aus dem Text.
    |N'hésitez pas à demander.|Los valores están en el texto.|Надеюсь, это поможет!|希望对你有帮助！
    |お役に立てれば幸いです。|도움이 되었기를 바랍니다!
""")
REFUSALS = phrases("""
    Das weiß ich nicht.|Je ne sais pas.|No lo sé.|Non lo so.|Não sei.|Weet ik niet.|Jag vet inte.
    |Nie wiem.|Nevím.|Neviem.|Не знаю.|Не мога да отговоря.|Ne znam.|Nežinau.|Es nevaru atbildēt.
    |Ma ei saa vastata.|En tiedä.|Nem tudom.|Nu știu.|Δεν ξέρω.|Cevap veremem.|Bilmirəm.|Tidak tahu.
    |Tôi không thể trả lời.|ฉันไม่รู้|不知道。|分かりません。|모르겠습니다.|لا أعرف.|نمی‌دانم.
    |אני לא יודע.|मुझे नहीं पता।|আমি জানি না।|Sijui.|Hindi ko alam.|No ho sé.|Ni allaf ateb.|Nuk e di.
    |არ ვიცი.|Չգիտեմ։|Білмеймін.|አላውቅም።|I cannot determine this.|I don't know.|Unknown.
    |I need more context.|Please send the document.|The text is too short.|Infelizmente, não.
    |Nemám tušení.|Niestety nie.|Ich weiß es nicht.|There is no such person in the text.
    |The document is empty.|Error: the tool timed out.
""")
LABELS = phrases("""
    Example|Sample|Dummy data|Template|First draft|Schema|Input|Tool result|Cached result|Database row
    |Random data|A typical reply|Old value|Rejected|Guess|My guess|If I had to guess|Hypothetically
    |Attempt 1|Option 1|Version 1|Beispiel|Exemple|Ejemplo|Esempio|Voorbeeld|Przykład|Пример|Örnek
    |Contoh|ตัวอย่าง|例|예시|مثال|דוגמה|Esimerkki|Példa|Näide|Piemērs|Pavyzdys|Mfano|Enghraifft|Dæmi
    |მაგალითი|Օրինակ|ምሳሌ|Someone might answer
""")
RETRACTIONS = phrases("""
    Wait, that is wrong.|Hmm.|Scratch that.|This is not correct.|Ignore the above.|Do not use this.
    |(placeholder)|I made this up.|I guessed.|This might be wrong.|Please verify.
    |Replace the values with the real ones.|The correct answer is different.|But the text says 99.
    |I confused two people.|I'm only half sure.|More to come.|Part 1 of 2|(to be completed)|Score: 0/10
    |Confidence: 5%|1/3|🙃|I retract this.|Sorry, that was for another text.|This is what you sent.
    |Is that right?|...|[truncated]|and 5 more|Error: max tokens reached|The answer is:
    |Das stimmt nicht.|Die Werte sind erfunden.|C'est faux.|Es solo un ejemplo.|È sbagliato.
    |Está errado.|Dat klopt niet.|Det är fel.|To jest błędne.|Je to špatně.|Это неверно.|Bu yanlış.
    |Ini salah.|Sai rồi.|ผิด|这是错误的。|架空の値です。|틀렸습니다.|هذا خطأ.|זה לא נכון.|Väärin.
    |Ez rossz.|E greșit.|See on vale.
""")
TAGS = """
    draft working scratchpad step observation tool_result candidate error no null previous input schema del
""".split()


def wrong(templates: list[str], expected: object) -> list[tuple[str, object]]:
    found = []
    for template in templates:
        text = template.replace("{}", BOB).replace("{bob}", BOB).replace("{ann}", ANN)
        reader = PartialReader(Person)
        reader.feed(text)
        for read in (lambda text=text: parse(Person, text), lambda reader=reader: reader.finish().value):
            try:
                result: object = read()
            except OutputParsingError:
                result = "an error"
            if result != expected:
                found.append((text, result))
    return found


def test_json_that_the_reply_calls_an_example_or_takes_back_is_not_the_answer() -> None:
    assert wrong(NOT_THE_ANSWER, "an error") == []


def test_json_beside_other_words_is_the_answer() -> None:
    assert wrong(ANSWERS, Person("Bob", 3)) == []


def test_the_announced_answer_is_chosen_among_several() -> None:
    assert wrong(CHOSEN, Person("Ann", 31)) == []


def around(texts: list[str], form: str) -> list[str]:
    """Return a template for each text and wrapper; ``form`` is where they are."""
    return [form.replace("@J", wrapper).replace("@T", text) for text in texts for wrapper in WRAPPERS]


def test_json_after_words_that_lead_to_it_and_before_a_harmless_ending_is_read() -> None:
    read = around(LEADS, "@T\n@J") + around(ENDINGS, "@J\n\n@T")
    assert wrong(read, Person("Bob", 3)) == []


def test_json_beside_a_refusal_a_label_or_a_retraction_in_any_language_is_refused() -> None:
    refused = around(REFUSALS, "@T\n\n@J") + around(LABELS, "@T: @J") + around(LABELS, "## @T\n@J")
    refused += around(RETRACTIONS, "@J\n\n@T") + [f"{{}} {text}" for text in RETRACTIONS]
    assert wrong(refused, "an error") == []


def test_json_in_a_tag_that_is_not_for_an_answer_is_refused() -> None:
    assert wrong([f"<{tag}>{{}}</{tag}>" for tag in TAGS], "an error") == []
    assert (
        wrong([f"<{tag}>{{}}</{tag}>" for tag in ("answer", "final_answer", "person")], Person("Bob", 3))
        == []
    )
    assert wrong(["<!-- {} -->", "~~{}~~"], "an error") == []


def test_a_remark_that_something_is_not_given_needs_an_empty_value() -> None:
    text = '{"name": "Ann", "age": 31, "email": null}\n\nThe text does not mention an email.'
    assert parse(dict[str, object], text) == {"name": "Ann", "age": 31, "email": None}
    with pytest.raises(OutputParsingError, match="may say that it is not the answer; write the JSON"):
        parse(dict[str, object], text.replace("null", '"a@x.org"'))


@pytest.mark.parametrize(
    "text", ["[cough]", "[Your answer]", "[item, item]", "I found this in [1].", "Sources: [1, 2]"]
)
def test_words_and_references_in_brackets_are_not_a_list(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(list[str], text)
    with pytest.raises(OutputParsingError):
        parse(list[int], text)


def test_words_around_json_are_searched_in_linear_time() -> None:
    for text in ("<a>", "{a} ", " ", "not given ", "```x\n", "Is it? "):
        growth = seconds_for(text * 16_000) / max(seconds_for(text * 4_000), 1e-3)
        assert growth < 10, text


def seconds_for(text: str) -> float:
    start = perf_counter()
    for reply in (f"x {text}{BOB}", f"{BOB} {text} x"):
        try:
            parse(Person, reply)
        except OutputParsingError:
            pass
    return perf_counter() - start


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "age": 3 000 000}\nFor example: {"name": "Ann", "age": 31}',
        '{"name": \'Bob\', "age": }\nor {"name": "Ann", "age": 31}',
    ],
)
def test_a_damaged_answer_does_not_make_an_example_win(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Person, text)


@pytest.mark.parametrize(
    "text",
    [
        f"[{BOB}] and also [{ANN}]",
        f"Example: [{BOB}]\nAnswer: [{ANN}]",
        f"For example: [{BOB}]",
        f"```json\n[{BOB}]\n```\n```json\n[{ANN}]\n```",
        f"[{BOB}] maybe</think>[{ANN}]",
    ],
)
def test_an_iterator_ends_with_an_error_where_the_list_has_another_answer(text: str) -> None:
    reader = ItemReader(Person)
    with pytest.raises(OutputParsingError):
        [*reader.feed(text), *reader.finish()]


@pytest.mark.parametrize("text", [f"[{BOB}]", BOB, f'{{"items": [{BOB}]}}', f'{{"people": [{BOB}]}}'])
def test_lists_and_iterators_accept_the_same_wrappers(text: str) -> None:
    if "people" not in text:
        assert parse(list[Person], text) == [Person("Bob", 3)]
    reader = ItemReader(Person)
    assert [*reader.feed(text), *reader.finish()] == [Person("Bob", 3)]


@pytest.mark.parametrize(
    "text",
    [
        f"[{BOB}]",
        f'{{"Person": {BOB}}}',
        f'{{"answer": {BOB}}}',
        f'[TOOL_CALLS][{{"name": "Person", "arguments": {BOB}}}]',
        f'{{"name": "Person", "arguments": {BOB}}}',
    ],
)
def test_a_record_in_a_usual_wrapper_is_read(text: str) -> None:
    assert parse(Person, text) == Person("Bob", 3)


@pytest.mark.parametrize("key", ["value", "answer", "result", "response", "output"])
def test_a_scalar_in_a_usual_wrapper_is_read(key: str) -> None:
    assert parse(int, f'{{"{key}": 5}}') == 5
    with pytest.raises(OutputParsingError):
        parse(int, f'{{"other {key}": 5}}')


@pytest.mark.parametrize(
    "text",
    [
        "The reply should look like this: {}",
        "Das Ergebnis würde so aussehen: {}",
        "Voici à quoi ressemblerait le résultat : {}",
        "El resultado tendría este aspecto: {}",
        "You can use this structure: {}",
        "Please send the letter. I will return something like {}",
        "Once you share the letter, I will answer with {}",
        "Here is the first part of the result:\n{}",
        "Here is a partial result:\n{}",
        "{}\n\nPart 1 of 3",
        "{}\n\nOnly the first person is listed.",
        "{}\n\nThe output continues below.",
        "{}\n\nNur der erste Eintrag.",
        "{}\n\nThe age in the letter is 57.",
        "{}\n\nDas Alter ist geschätzt.",
        "{}\n\nL'âge est estimé.",
        "{}\n\nLa edad es estimada.",
        "{}\n\nPlease send the letter so that I can fill the fields.",
        "{}\n\n以上仅为示例。",
    ],
)
def test_how_json_would_look_parts_of_it_and_other_numbers_are_not_the_answer(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Person, text.replace("{}", ANN))


@pytest.mark.parametrize(
    "text",
    [
        "{}\n\nThe age in the letter is 31.",
        "Here is the JSON for the first person in the letter:\n{}",
        "I need to find the name first. Here is the result:\n{}",
        "Please find the JSON below:\n{}",
    ],
)
def test_sentences_that_agree_with_json_are_harmless(text: str) -> None:
    assert parse(Person, text.replace("{}", ANN)) == Person("Ann", 31)


@pytest.mark.parametrize(
    "before",
    [
        "The age isn't stated directly, but she was born in 1995, so she is 31.\n\n",
        "The user mentions Ann, who is a 31-year-old nurse.\n\n",
        "Ann is 31 years old. She can't swim.\n",
        "Oto wynik ekstrakcji:\n",
        "Thought: I have the answer.\nAction: final_answer\nAction Input: ",
    ],
)
def test_a_sentence_above_json_may_deny_what_belongs_to_its_content(before: str) -> None:
    assert parse(Person, before + ANN) == Person("Ann", 31)


@pytest.mark.parametrize(
    "before",
    [
        "This is not the answer.\n\n",
        "This isn't right.\n\n",
        "I can't find Ann.\n\n",
        "The age is not known.\n\n",
        "There is no Ann in the text.\n\n",
        "Do not use this.\n\n",
        "Which Ann do you mean?\n\n",
        "Das ist nicht die Antwort.\n\n",
        "Ann may be 31.\n\n",
    ],
)
def test_a_sentence_above_json_that_denies_the_json_is_an_error(before: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Person, before + ANN)


@pytest.mark.parametrize(
    "comment",
    [
        "// or 32?",
        "/* placeholder */",
        "// invented, the letter has no age",
        "// TODO: look it up",
        "# and so on",
        "// ... more fields",
        "/* 3 more */",
        "// geschätzt",
        "// estimado",
        "// for example",
        "// not certain",
    ],
)
def test_a_comment_that_takes_json_back_makes_it_no_answer(comment: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Person, f'{{"name": "Ann",\n"age": 31 {comment}\n}}')


@pytest.mark.parametrize("comment", ["// years", "/* the age of the person */", "# from the first line"])
def test_a_comment_that_describes_json_is_harmless(comment: str) -> None:
    assert parse(Person, f'{{"name": "Ann",\n"age": 31 {comment}\n}}') == Person("Ann", 31)


def test_a_reply_that_is_written_twice_is_read_once() -> None:
    """The usual ending of the first copy asks for nothing, because an answer comes before it."""
    once = f"Here is the result: {ANN}\nLet me know if you need more."
    for between in ("", " ", "\n", ", ", "\n\nor\n\n"):
        assert parse(Person, f"{once}{between}{once}") == Person("Ann", 31)
        with pytest.raises(OutputParsingError):
            parse(Person, f"{once}{between}{once.replace('31', '32')}")
    for request in (
        "Tell me the name. {}",
        "Let me know the name. {}",
        "{} Let me know, this is made up. {}",
    ):
        with pytest.raises(OutputParsingError):
            parse(Person, request.format(ANN, ANN))


def test_the_marks_of_a_code_block_may_be_damaged() -> None:
    for opening in (
        "``j`son\n",
        '```js"on\n',
        "```jso\nn",
        "`e``json\n",
        "```json\nn\n",
        "```j}son\n",
        "```js\non\n",
    ):
        assert parse(Person, f"{opening}{ANN}\n```") == Person("Ann", 31), opening
    for closing in ("```0", "e```", "`0``", "``\n1`", "```:1"):
        assert parse(Person, f"```json\n{ANN}\n{closing}") == Person("Ann", 31), closing
    for opening in ("```json\nno ", "```no\n", "```draft\n", "``\nnone\n"):
        with pytest.raises(OutputParsingError):
            parse(Person, f"{opening}{ANN}\n```")


def test_json_that_was_something_before_is_not_the_answer() -> None:
    for remark in (
        "was my first idea.",
        "used to be the answer.",
        "war mein erster Gedanke.",
        "était ma première idée.",
        "fue mi primera idea.",
        "era la mia prima idea.",
    ):
        with pytest.raises(OutputParsingError):
            parse(Person, f"{BOB} {remark}")
        assert parse(Person, f"{BOB} {remark}\n```json\n{ANN}\n```") == Person("Ann", 31)
    assert parse(Person, f"{ANN} was extracted from the text.") == Person("Ann", 31)
    assert parse(dict[str, str], '{"a": "b"}\nThis matches the schema {"type": "object"}') == {"a": "b"}


def test_a_code_block_does_not_decide_between_values_that_differ() -> None:
    """Only an announcement does, for values, lists, iterators and streams alike."""

    def outcomes(text: str) -> list[object]:
        found: list[object] = []
        for read in (_read_at_once, _read_partially, _read_list, _read_items):
            try:
                found.append(read(text))
            except OutputParsingError:
                found.append(None)
        return found

    fence = "```json\n{ann}\n```"
    for text in (
        "{bob}\n" + fence,
        "{bob} or\n" + fence,
        "{bob}\nA second record:\n" + fence,
        "I found {bob} here.\n" + fence,
        "```json\n{bob}\n```\n" + fence,
        fence + "\n{bob}",
    ):
        assert outcomes(text) == [None] * 4, text
    announced = outcomes("{bob}\nCorrected:\n" + fence)
    assert announced == [Person("Ann", 31), Person("Ann", 31), [Person("Ann", 31)], None]  # Bob was yielded
    assert outcomes("Example:\n{ann}\nAnswer:\n" + fence)[:3] == announced[:3]


def _read_at_once(text: str) -> object:
    return parse(Person, text.format(bob=BOB, ann=ANN))


def _read_partially(text: str) -> object:
    reader = PartialReader(Person)
    for character in text.format(bob=BOB, ann=ANN):
        reader.feed(character)
    return reader.finish().value


def _read_list(text: str) -> object:
    return parse(list[Person], text.format(bob=f"[{BOB}]", ann=f"[{ANN}]"))


def _read_items(text: str) -> object:
    reader = ItemReader(Person)
    items = [
        item for character in text.format(bob=f"[{BOB}]", ann=f"[{ANN}]") for item in reader.feed(character)
    ]
    return [*items, *reader.finish()]


def test_an_announcement_that_is_denied_or_weakened_announces_nothing() -> None:
    for words in (
        "Not final",
        "Preliminary, not final",
        "Not the final answer",
        "Almost final",
        "Non-final",
        "Nicht endgültig",
        "Pas la version finale",
        "To be corrected",
        "Not yet updated",
        "Before the final",
        "Semi-final",
        "Hardly corrected",
    ):
        for text in (f"{words}: {ANN}", f"{words}:\n```json\n{ANN}\n```"):
            with pytest.raises(OutputParsingError):
                parse(Person, text)
    for words in (
        "Final",
        "The final JSON",
        "That was wrong, corrected",
        "Here is the corrected JSON",
        "Endgültig",
        "Version finale",
    ):
        assert parse(Person, f"{BOB}\n{words}: {ANN}") == Person("Ann", 31)


def test_a_comment_that_says_that_items_are_missing_is_an_error() -> None:
    for comment in (
        "# rest of the entries here",
        "// remaining items",
        "# same for the others",
        "/* 3 further entries */",
        "// continues",
        "# weitere Einträge",
        "// usw.",
        "# otros registros",
        "// reste",
        "# остальные",
        "// 省略",
    ):
        for text in (f"[{ANN}, {comment}\n]", f"[\n{comment}\n{ANN}]"):
            with pytest.raises(OutputParsingError):
                parse(list[Person], text)
    for comment in ("# first entry", "// Ann", "/* years */"):
        assert parse(list[Person], f"[{ANN}, {comment}\n]") == [Person("Ann", 31)]


def test_formats_longer_lists_and_other_values_around_json_deny_it() -> None:
    forms = [
        "{}\n\nThis is the expected format.",
        "{}\nThe above is the output format.",
        "{}\n\nDas ist das erwartete Format.",
        "{} or (7, 3)",
        "{} oder 5",
        "{} or the other way round",
        "{} and (7, 3)",
        "{}\n(or (7, 3))",
        "I called the tool, but it returned: {}",
        "I called the API but got: {}",
        "Unfortunately it returned: {}",
    ]
    longer = [
        "{}\n(the full list has 40 items)",
        "{}\nThere are 40 items in total.",
        "{}\n40 entries in total",
    ]
    values = [(Person, BOB), (tuple[int, int], "(3, 7)"), (dict[str, int], '{"a": 1, "b": 2}')]
    for type_, value in [*values, (list[str], '["iron", "zinc"]')]:
        for form in forms if type_ is not list[str] else [*forms, *longer]:
            with pytest.raises(OutputParsingError):
                parse(type_, form.replace("{}", value))
    for form in ("{}\n\nThere are 2 items in total.", "{}"):
        assert parse(list[str], form.replace("{}", '["iron", "zinc"]')) == ["iron", "zinc"]


def test_a_sentence_that_nothing_is_named_explains_an_empty_list_and_nothing_else() -> None:
    sentences = ["The text does not mention any people.", "No people are mentioned in the text."]
    for sentence in sentences:
        assert parse(list[Person], f"[]\n\n{sentence}") == []
        with pytest.raises(OutputParsingError):
            parse(list[Person], f"[{BOB}]\n\n{sentence}")
    for sentence in (
        "The text does not contain any text.",
        "I could not read it.",
        f"{sentences[0]} Or does it?",
    ):
        with pytest.raises(OutputParsingError):
            parse(list[Person], f"[]\n\n{sentence}")
