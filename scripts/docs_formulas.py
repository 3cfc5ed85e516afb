r"""An extension of griffe that typesets the plain-text formulas of docstrings on the pages of the API.

    x_t^l  ~  p_t(. | x_t^{-l})     becomes     \[ x_t^l \sim p_t(\cdot \mid x_t^{-l}) \]

Docstrings stay readable in an editor and in `help()`.  An indented block of which most words are symbols is a formula,
anything else (tables, paths, commands) stays as it is.  In running text, letters with an index and Greek names are set.
"""

import re
from typing import Any

from griffe import Extension

GREEK = ["alpha", "beta", "gamma", "eta", "theta", "kappa", "lambda", "mu", "nu", "pi", "rho", "sigma", "tau", "phi",
         "Phi"]  # fmt: skip
SYMBOLS = {
    **{name: f"\\{name} " for name in (*GREEK, "sum", "prod", "int", "log", "exp", "min", "max")},
    "argmax": r"\arg\max ", "inf": r"\infty ", "dt": r"\,\mathrm{d}t ", "du": r"\,\mathrm{d}u ",
    "<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "->": r"\to ", "<-": r"\gets ", "||": r"\,\|\,", "~": r"\sim ",
    " | ": r"\mid ", "*": r"\cdot ", "...": r"\dots ", "..": r"\dots ", "%": r"\%", "&": r"\&", "#": r"\#",
    "{ ": r"\{ ", " }": r" \}",
}  # fmt: skip
LETTER = rf"(?:{'|'.join(GREEK)}|[A-Za-z])"
INDEX = r"(?:[_^](?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|-?[A-Za-z0-9]+(?![A-Za-z])))"
WORD = r"[A-Za-z]{2,}(?:'s\b)?(?:-[a-z]{2,}[a-z-]*)?"
TOKEN = re.compile(
    rf"\\\w+(?:\{{\w*\}})?|`[^`]*`|{WORD}\(?|[0-9.,]*[0-9]| \| |\{{ | \}}|<=|>=|!=|->|<-|\|\||\.\.\.?| {{2,}}|."
)
REWRITTEN = (
    (r"([A-Za-z])~", r"\\tilde{\1}"),
    (r"([_^])\(([^()]*)\)", r"\1{(\2)}"),
    (r"([_^])(-?[A-Za-z0-9]{2,})", r"\1{\2}"),
    (r"(?<![\w.])\.(?= [|=])", r"\\cdot"),
    (r"(?<=\b\w) in (?=[A-Z0-9\[])", r" \\in "),
    (r"\*(\w+)\*", r"\1"),
    (r"\bE\[", r"\\mathbb{E}["),
)
BLOCK = re.compile(r"(?<=\n\n)((?: {4}.*(?:\n|$))+)")
INLINE = re.compile(
    rf"(`[^`]*`|^ {{4}}\w+:)|"
    rf"(?<![\w/.])((?:{LETTER}'?{INDEX}+|{'|'.join(GREEK)})(?:\((?:{LETTER}{INDEX}*)\))?)(?![\w/=(\[])",
    re.MULTILINE,  # where an argument is explained, its name stays
)


def latex(text: str) -> str:
    """One line of plain text as LaTeX."""
    for pattern, replacement in REWRITTEN:
        text = re.sub(pattern, replacement, text)
    set_ = "".join(map(_token, TOKEN.findall(text))).strip()
    set_ = re.sub(r"(?<= )a (?=\\text)", r"\\text{ a } ", set_)
    return re.sub(r" \} ?\\text\{ ", " ", set_)


def _token(part: str) -> str:
    if part in SYMBOLS:
        return SYMBOLS[part]
    if part[0] == "`":
        return rf"\text{{{part.strip('`')}}}"
    if re.fullmatch(rf"{WORD}\(", part):
        return SYMBOLS.get(part[:-1], rf"\operatorname{{{part[:-1]}}}") + "("
    if re.fullmatch(WORD, part):
        return rf"\text{{ {part} }}"
    return r"\quad " if part.isspace() and len(part) > 1 else part


def is_formula(block: str) -> bool:
    """Whether most words are symbols, and none is code."""
    text = re.sub(r"`[^`]*`", "", block)
    words = re.findall(r"(?<![_A-Za-z])[A-Za-z]+", text)
    prose = [word for word in words if len(word) > 2 and word not in SYMBOLS]
    code = re.search(r'["<>]\w|--|\.py|\{\w+,', text)
    return re.search(r"[=~]|<=", text) is not None and code is None and 2 * len(prose) < len(words)


def display(block: str) -> str:
    """The lines of a formula, in columns where all of them have the same gaps."""
    block = re.sub(r" +([=~+]) +", r" \1 ", block)  # room to breathe in plain text, not a column
    rows = [re.split(r" {2,}", line.strip()) for line in block.strip("\n").split("\n")]
    if len(rows) == 1:
        return r"\quad ".join(map(latex, rows[0]))
    aligned = len({len(row) for row in rows}) == 1
    lines = [(r" & " if aligned else r"\quad ").join(map(latex, row)) for row in rows]
    return rf"\begin{{array}}{{{'l' * (len(rows[0]) if aligned else 1)}}} " + r" \\ ".join(lines) + r" \end{array}"


def typeset(docstring: str) -> str:
    """A docstring with its formulas in LaTeX."""

    def block(match: re.Match[str]) -> str:
        return f"\\[ {display(match[1])} \\]\n" if is_formula(match[1]) else match[1]

    def inline(match: re.Match[str]) -> str:
        return match[1] or rf"\({latex(match[2])}\)"

    def running(part: str) -> str:
        kept = re.split(r"(?<=\n\n)((?: {4}.*(?:\n|$))+)", part)
        return "".join(INLINE.sub(inline, text) if index % 2 == 0 else text for index, text in enumerate(kept))

    parts = re.split(r"(\\\[ .*? \\\]\n)", BLOCK.sub(block, docstring))
    return "".join(part if part.startswith("\\[") else running(part) for part in parts)


class Formulas(Extension):
    """Typesets every docstring that is collected."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called with each module, class, function and attribute once."""
        if obj.docstring is not None:
            obj.docstring.value = typeset(obj.docstring.value)
