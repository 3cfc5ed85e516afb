r"""Evaluation sets as their authors wrote them: the inverse of the tokenisation in which they are distributed.

    wikitext            Moses: [a , b] [it 's] [didn 't] [( 24 in )] [" red "] [1 @,@ 000] [= = Title = =]
    lm1b                Moses, as wikitext without headings; [http : / / a]
    ptb                 Treebank, lower case: [do n't] [$ N] [N %] [1\/2]; N is a number, <unk> a rare word
    lambada             Treebank, as ptb, with [a , b] and [`` said '']; some copies have curly quotation marks
    scientific_papers   lower case: [a , b] [( a )] [`` said '']; placeholders such as @xmath0 stay

Rules delete white space and what the tokenisation added.  Beyond that ptb's N becomes 1 and its <unk> becomes ?, as the
field has it, and lambada's quotation marks become straight.  Text without such marks is left unchanged, so that twice
is once (except for ptb, whose ? is a mark).  A perplexity depends on all this: a figure must say which detokeniser it
is for.
"""

import re
from collections.abc import Callable
from typing import Literal

from tokenloom.support.checks import nearest

Detokeniser = Literal["none", "wikitext", "ptb", "lm1b", "lambada", "scientific_papers"]


def _rule(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.sub(replacement, text)


def _heading(match: re.Match[str]) -> str:
    level = "=" * match[1].count("=")
    return f"{level} {match[2]} {level}" if len(match[1]) == len(match[3]) else match[0]


_NO_PLURAL = r"(?:(?<!s )|(?<=\b[iIaA]s )|(?<=\b(?:its|his|was|has) )|(?<=\b[tT]his ))"
"""After a plural a lone ' is its genitive, not an opening quotation mark."""

_EDGES = _rule(r"^ +| +$", "")
_SEPARATORS = _rule(r" @([-,.])@(?: |$)", r"\1")
_HEADINGS = _rule(r"^((?:= )+)([^=\n].*?)((?: =)+)$", _heading)
_QUOTES = _rule(r"(?<![^\s(\[])\" ([^\"\n]+?) \"(?=[\s,.;:!?)\]]|$)", r'"\1"')
_SINGLE_QUOTES = _rule(
    rf"(?<![^\s(\[\"]){_NO_PLURAL}' ((?:[^'\n]|(?<=[\w>])'(?=\w)){{1,80}}?) '(?=[\s,.;:!?)\]\"]|$)", r"'\1'"
)
_BACKTICKS = _rule(r"`` ?| ?''(?=[\s,.;:!?)\]]|$)", '"')
_CURLY = _rule("[\u201c\u201d]", '"')
_CURLY_SINGLE = _rule("[\u2018\u2019]", "'")
_CONTRACTIONS = _rule(r"(?<=\S) ('(?:s|t|m|d|re|ve|ll)|n't)(?!\w)", r"\1")
_POSSESSIVES = _rule(r"(?<=\ws) '(?= |$)", "'")
_DECADES = _rule(r"(?<!\S)' (?=\d0s)", "'")
_BRACKETS = _rule(r"(?<=[(\[{]) +| +(?=[)\]}])", "")
_ADDRESSES = _rule(r"\b(https?) : / / ?", r"\1://")
_SLASHES = _rule(r"(?<=\w) / (?=\w)", "/")
_PUNCTUATION = _rule(r"(?<=\S) +([,;:!?]|\.+)(?=[\s\"')\]}]|$)", r"\1")
_CURRENCY = _rule(r"(?<![^\s(\"])([$£€#]) (?=[\d<]|N\b)", r"\1")
_PERCENT = _rule(r"(?<=[\dN]) %", "%")
_DEGREES = _rule(r"(?<=\d) (?=[°\u2032\u2033])|(?<=\d °) ", "")  # degrees, minutes, seconds
_RANGES = _rule(r"(?<=\d) (\u2013) (?=\d)", r"\1")  # an en dash between numbers
_ESCAPES = _rule(r"\\(?=[/*])", "")
_NUMBERS = _rule(r"\bN\b", "1")
_UNKNOWN = _rule("<unk>", "?")

_QUOTATIONS = (_BRACKETS, _QUOTES, _CONTRACTIONS, _DECADES, _SINGLE_QUOTES, _POSSESSIVES)
_ENGLISH = (*_QUOTATIONS, _SLASHES, _PUNCTUATION, _CURRENCY, _PERCENT)
_RULES: dict[str, tuple[Callable[[str], str], ...]] = {
    "none": (),
    "wikitext": (_SEPARATORS, _EDGES, _HEADINGS, *_ENGLISH, _DEGREES, _RANGES),
    "ptb": (_EDGES, _ESCAPES, *_ENGLISH, _NUMBERS, _UNKNOWN),
    "lm1b": (_EDGES, _ADDRESSES, *_ENGLISH),
    "lambada": (_EDGES, _CURLY, _CURLY_SINGLE, _BACKTICKS, *_ENGLISH),
    "scientific_papers": (_EDGES, _BACKTICKS, *_ENGLISH),
}


def detokenise(text: str, name: Detokeniser) -> str:
    """Return a document of an evaluation set as plain text."""
    if name not in _RULES:
        raise ValueError(f"unknown detokeniser {name}; {nearest(name, _RULES)}")
    for rule in _RULES[name]:
        text = rule(text)
    return text
