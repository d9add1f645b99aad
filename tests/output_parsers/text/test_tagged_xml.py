"""XML is read in the format of LangChain; ambiguous and dangerous XML is refused."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, strategies as st

from output_parsers import OutputParsingError
from output_parsers.text import XmlOutputParser

DATA = """
 <foo>
    <bar>
        <baz></baz>
        <baz>slim.shady</baz>
    </bar>
    <baz>tag</baz>
</foo>"""
READ = {"foo": [{"bar": [{"baz": None}, {"baz": "slim.shady"}]}, {"baz": "tag"}]}


def refusal(text: str, root: str | None = None) -> str:
    with pytest.raises(OutputParsingError) as error:
        XmlOutputParser(root=root).parse(text)
    assert error.value.text == text
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    "text",
    [
        DATA,
        f'<?xml version="1.0" encoding="UTF-8"?>\n{DATA}',
        f"\n```xml\n{DATA}\n```\n",
        f"Some random text\n```xml\n{DATA}\n```\nMore random text",
        f"```\n{DATA}",
        f"Here you are:\n{DATA}\nAnything else?",
        f"<think>First <foo>1</foo>?</think>{DATA}",
        f"First <foo>1</foo>?</think>{DATA}",
        f"<!-- a comment -->{DATA.replace('<bar>', '<bar><!-- another -->')}",
        DATA.replace("\n", "\r\n"),
    ],
)
def test_xml_is_read_as_langchain_reads_it(text: str) -> None:
    assert XmlOutputParser().parse(text) == READ


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<body>Text of the body.</body>", {"body": "Text of the body."}),
        ("<a></a>", {"a": []}),
        ("<a/>", {"a": []}),
        ("<a><b/><c> </c></a>", {"a": [{"b": None}, {"c": " "}]}),
        ("<a id=\"1>0\" class='x'>y</a>", {"a": "y"}),
        ("<a>1 &lt; 2 &amp;&amp; 3 &#62; &#x32; &eacute;</a>", {"a": "1 < 2 && 3 > 2 é"}),
        ("<a>AT&T & if x < 3 then &unknown;</a>", {"a": "AT&T & if x < 3 then &unknown;"}),
        ("<a><![CDATA[<b>&amp;</b>]]></a>", {"a": "<b>&amp;</b>"}),
        ("<名>值</名>", {"名": "值"}),
        ("<a>1</a> or, again, <a>1</a>", {"a": "1"}),
    ],
)
def test_text_of_an_element_has_its_character_references_replaced(text: str, value: Any) -> None:
    assert XmlOutputParser().parse(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no xml", "$: expected an XML element; the reply contains none"),
        ("", "$: expected an XML element; the reply contains none"),
        ("<foo>unclosed", "$.foo: the reply is cut off: <foo> is never closed"),
        ("<foo>\n <bar>\n </foo>", "$.foo.bar: <bar> is not closed before </foo>"),
        ("foo></foo>", "$: </foo> has no opening tag"),
        ("<foo>a<bar>b</bar></foo>", "$.foo: <foo> mixes text and tags; write one or the other"),
        ("<foo><![CDATA[a", "$.foo: the reply is cut off: ]]> is missing after <![CDATA["),
        ("<foo>&#0;</foo>", "$.foo: &#0; is not a valid character reference"),
        ("<foo>&#xD800;</foo>", "$.foo: &#xD800; is not a valid character reference"),
        (
            "<foo>1</foo><bar>2</bar>",
            "$: the reply contains 2 different outermost elements: <foo>, <bar>; write one",
        ),
        ("<think><foo>1</foo>", "$: the reply ends inside its reasoning"),
    ],
)
def test_invalid_or_ambiguous_xml_is_refused(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE foo [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><foo>&lol2;</foo>',
        '<!DOCTYPE foo SYSTEM "file:///etc/passwd"><foo>1</foo>',
        '<foo><!ENTITY x SYSTEM "http://example.org/">1</foo>',
    ],
)
def test_document_types_and_entities_are_refused(text: str) -> None:
    assert refusal(text).endswith(": document types and declarations are not permitted")


def test_the_root_is_found_among_other_tags() -> None:
    parser = XmlOutputParser(root="film")
    assert parser.parse("I <b>like</b> <films/> this: <film>Heat</film></b>") == {"film": "Heat"}
    assert (
        refusal("<book>Emma</book>", "film") == "$: expected an XML element <film>; the reply contains none"
    )
    assert refusal("<film>Heat</film><film>Ran</film>", "film") == (
        "$: the reply contains 2 different outermost elements: <film>; write one"
    )


def test_a_think_tag_that_is_requested_is_content() -> None:
    assert XmlOutputParser(root="think").parse("<think>Hm.</think>") == {"think": "Hm."}
    parser = XmlOutputParser(tags=["think", "answer"])
    with pytest.raises(OutputParsingError, match="2 different outermost elements: <think>, <answer>"):
        parser.parse("<think>Hm.</think><answer>1</answer>")


def test_the_instructions_name_the_tags() -> None:
    assert XmlOutputParser(tags=["film", "title"], root="film").format_instructions() == (
        "Reply with one XML element. Close every tag, and do not put text next to tags. "
        "The outermost tag is <film>. Use these tags: <film>, <title>."
    )
    assert XmlOutputParser().schema is None


NAMES = st.sampled_from(["a", "film", "x-y", "b.c", "ä"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r`"), min_size=1).filter(
    str.strip
)
ELEMENTS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(NAMES, TEXTS, min_size=1, max_size=1),
    lambda inner: st.dictionaries(NAMES, st.lists(inner, min_size=1, max_size=4), min_size=1, max_size=1),
)


def written(element: dict[str, Any]) -> str:
    [(tag, inside)] = element.items()
    return f"<{tag}>{escape(inside) if isinstance(inside, str) else ''.join(map(written, inside))}</{tag}>"


@given(ELEMENTS)
def test_a_written_element_is_read_back(element: dict[str, Any]) -> None:
    assert XmlOutputParser().parse(written(element)) == element


@given(st.text() | st.text(st.sampled_from("<>/ab !-[]CDATA?&;#x1'\"= \n`think")))
def test_any_text_gives_an_element_or_a_parsing_error(text: str) -> None:
    for parser in (XmlOutputParser(), XmlOutputParser(root="a")):
        seen = text
        try:
            parser.parse(text)
        except OutputParsingError as error:
            seen = error.text
        assert seen == text
