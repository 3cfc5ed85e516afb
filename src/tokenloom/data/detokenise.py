r"""Evaluation sets as their authors wrote them: the inverse of the tokenisation in which they are distributed.

    wikitext            Moses: [a , b] [it 's] [didn 't] [( 24 in )] [" red "] [1 @,@ 000] [= = Title = =]
    lm1b                Moses, as wikitext without headings; [http : / / a]
    ptb                 Treebank, lower case: [do n't] [$ N] [N %] [1\/2]; N is a number, <unk> a rare word
    lambada             Treebank, as ptb, with [a , b] and [`` said '']; some copies have curly quotation marks
    scientific_papers   lower case: [a , b] [( a )] [`` said '']; placeholders such as @xmath0 stay

Rules delete white space and what the tokenisation added.  Beyond that ptb's N becomes 1 and its <unk> becomes ?, as the
field has it, and lambada's quotation marks become straight.  Text without such marks is left unchanged, so that twice
is once (except for ptb, whose ? is a mark).  A perplexity depends on all this: a figure must name its detokeniser.
"""

import re
from collections.abc import Callable
from typing import Literal, get_args

from tokenloom.support.words import nearest

Detokeniser = Literal["none", "wikitext", "ptb", "lm1b", "lambada", "scientific_papers"]


def _heading(match: re.Match[str]) -> str:
    level = "=" * match[1].count("=")
    return f"{level} {match[2]} {level}" if len(match[1]) == len(match[3]) else match[0]


# After a plural a lone ' is its genitive, not an opening quotation mark.
_NO_PLURAL = r"(?:(?<!s )|(?<=\b[iIaA]s )|(?<=\b(?:its|his|was|has) )|(?<=\b[tT]his ))"
_SINGLE_QUOTES = rf"(?<![^\s(\[\"]){_NO_PLURAL}' ((?:[^'\n]|(?<=[\w>])'(?=\w)){{1,80}}?) '(?=[\s,.;:!?)\]\"]|$)"

_EVERY = "wikitext ptb lm1b lambada scientific_papers"
_RULES: tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...] = (
    ("wikitext", r" @([-,.])@(?: |$)", r"\1"),  # 1 @,@ 000
    (_EVERY, r"^ +| +$", ""),
    ("wikitext", r"^((?:= )+)([^=\n].*?)((?: =)+)$", _heading),
    ("ptb", r"\\(?=[/*])", ""),
    ("lm1b", r"\b(https?) : / / ?", r"\1://"),
    ("lambada", "[\u201c\u201d]", '"'),  # curly quotation marks
    ("lambada", "[\u2018\u2019]", "'"),
    ("lambada scientific_papers", r"`` ?| ?''(?=[\s,.;:!?)\]]|$)", '"'),
    (_EVERY, r"(?<=[(\[{]) +| +(?=[)\]}])", ""),
    (_EVERY, r"(?<![^\s(\[])\" ([^\"\n]+?) \"(?=[\s,.;:!?)\]]|$)", r'"\1"'),
    (_EVERY, r"(?<=\S) ('(?:s|t|m|d|re|ve|ll)|n't)(?!\w)", r"\1"),  # it 's, do n't
    (_EVERY, r"(?<!\S)' (?=\d0s)", "'"),  # ' 70s
    (_EVERY, _SINGLE_QUOTES, r"'\1'"),
    (_EVERY, r"(?<=\ws) '(?= |$)", "'"),  # traders '
    (_EVERY, r"(?<=\w) / (?=\w)", "/"),
    (_EVERY, r"(?<=\S) +([,;:!?]|\.+)(?=[\s\"')\]}]|$)", r"\1"),
    (_EVERY, r"(?<![^\s(\"])([$£€#]) (?=[\d<]|N\b)", r"\1"),
    (_EVERY, r"(?<=[\dN]) %", "%"),
    ("wikitext", r"(?<=\d) (?=[°\u2032\u2033])|(?<=\d °) ", ""),  # degrees, minutes, seconds
    ("wikitext", r"(?<=\d) (\u2013) (?=\d)", r"\1"),  # an en dash between numbers
    ("ptb", r"\bN\b", "1"),
    ("ptb", "<unk>", "?"),
)
"""The data sets that a rule is for, its pattern and the replacement, in the order in which they are applied."""


def detokenise(text: str, name: Detokeniser) -> str:
    """Return a document of an evaluation set as plain text."""
    if name not in get_args(Detokeniser):
        raise ValueError(f"unknown detokeniser {name}; {nearest(name, get_args(Detokeniser))}")
    for names, pattern, replacement in _RULES:
        if name in names.split():
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text
