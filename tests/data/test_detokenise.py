"""Detokenised text is what was written: real lines, every data set's marks, and nothing but white space lost."""

import re
from pathlib import Path

import pytest

from tests.data.helpers import load, refused, shared
from tokenloom.data.detokenise import Detokeniser, detokenise

LINES: list[tuple[Detokeniser, str, str]] = [
    ("wikitext", " = = = List of lobsters = = = \n", "=== List of lobsters ===\n"),
    ("wikitext", "1 = 2 = 3", "1 = 2 = 3"),
    ("wikitext", "in 1943 @-@ 44 , 1 @,@ 000 of 2 @.@ 5 , 1932 @,@ \n", "in 1943-44, 1,000 of 2.5, 1932,\n"),
    (
        "wikitext",
        'He said : " It \'s blue ! " ( and " red " ) ; it isn \'t .',
        'He said: "It\'s blue!" (and "red"); it isn\'t.',
    ),
    (
        "wikitext",
        "Linnaeus ' concept is ' anti @-@ <unk> ' in the ' 70s .",
        "Linnaeus' concept is 'anti-<unk>' in the '70s.",
    ),
    (
        "wikitext",
        "at 57 ° 53 \u2032 , 5 \u2013 6 km and / or $ 2 or 14 % .",
        "at 57°53\u2032, 5\u20136 km and/or $2 or 14%.",
    ),
    ("ptb", "we 're sure they did n't buy N N\\/N at $ N or N %", "we're sure they didn't buy 1 1/1 at $1 or 1%"),
    ("ptb", " mr. <unk> 's traders ' bids N \n", "mr. ?'s traders' bids 1\n"),
    ("lm1b", '" We don \'t know , " he said ( at last ) .', '"We don\'t know," he said (at last).'),
    ("lm1b", "See http : / / www.example.com for more ... ", "See http://www.example.com for more..."),
    ("lambada", "`` do n't , '' i whispered . `` please . ''", '"don\'t," i whispered. "please."'),
    ("lambada", "\u201cIt\u2019s here,\u201d she said.", '"It\'s here," she said.'),
    (
        "scientific_papers",
        "@xmath0 ( fig . [ a ] ) is `` small '' , i.e. @xcite .",
        '@xmath0 (fig. [a]) is "small", i.e. @xcite.',
    ),
    ("none", " a , b @-@ c \n", " a , b @-@ c \n"),
]


@pytest.mark.parametrize(("name", "distributed", "written"), LINES)
def test_a_line_is_as_it_was_written(name: Detokeniser, distributed: str, written: str) -> None:
    assert detokenise(distributed, name) == written


@pytest.mark.parametrize("name", ["wikitext", "lm1b", "lambada", "scientific_papers"])
def test_what_was_written_is_left_alone(name: Detokeniser) -> None:
    """So a detokeniser applied to plain text, or twice, does no harm."""
    written = (
        "He said, \"It's 5 a.m. (or 6): wait... don't!\" and \"the boys' 'odd' game\" at 3.5% of $2 — and/or 7-8.\n\n"
        "Title\n- item = 2 & x.y/z, e.g. [1, 2]; \"a\" or 'b'? Yes: 'c' \"d\" it's N.Y. & A. B. Smith's.\n"
    )
    assert detokenise(written, name) == written


@pytest.mark.parametrize("file", ["valid.txt", "test.txt"])
def test_real_wikitext_loses_white_space_and_separators_alone(file: str) -> None:
    distributed = shared(f"wikitext2/{file}").read_text(encoding="utf-8")
    written = detokenise(distributed, "wikitext")
    assert "".join(re.sub(r" @([-,.])@ ", r"\1", distributed).split()) == "".join(written.split())
    assert written.count("\n") == distributed.count("\n")
    assert detokenise(written, "wikitext") == written
    for mark in (" ,", " . ", " ;", " )", "( ", " 's ", " 't ", " @", "= =", " \n", "\n "):
        assert mark in distributed
        assert mark not in written
    lone = [len(re.findall(r'(?<!\S)"(?!\S)', text)) for text in (distributed, written)]
    assert lone[1] < 0.01 * lone[0]  # some were never closed


def test_real_wikitext_is_detokenised_before_it_is_tokenised_and_cached(tmp_path: Path) -> None:
    def opening(name: Detokeniser) -> tuple[str, str]:
        valid, options = shared("wikitext2/test.txt"), {"tokenizer": "bytes", "length": 60}
        dataset = load(shared("wikitext2/valid.txt"), tmp_path, valid=valid, detokeniser=name, **options)
        return dataset.decode(dataset.train[:1])[0], dataset.fingerprint

    raw, plain = opening("none"), opening("wikitext")
    assert raw[0] == " \n = Homarus gammarus = \n \n Homarus gammarus , known as the "
    assert plain[0].startswith("\n= Homarus gammarus =\n\nHomarus gammarus, known as the ")
    assert raw[1] != plain[1]
    assert opening("wikitext") == plain


def test_an_unknown_detokeniser_is_named_with_the_nearest(as_a_user: None, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("some text " * 20)
    refused("detokeniser wikitxt; did you mean wikitext", tmp_path / "text.txt", tmp_path, detokeniser="wikitxt")
