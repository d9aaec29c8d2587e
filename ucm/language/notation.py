"""Notation of formulas, as plain text or as LaTeX."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Protocol

from scipy import sparse

_GREEK = {
    "Delta": "Δ", "Sigma": "Σ", "alpha": "α", "beta": "β", "delta": "δ", "eps": "ε", "eta": "η", "gamma": "γ",
    "kappa": "κ", "lam": "λ", "mu": "μ", "nu": "ν", "rho": "ρ", "sigma": "σ", "tau": "τ", "theta": "θ",
}  # fmt: skip
_ESCAPED = str.maketrans({c: rf"\{c}" for c in "_%&#${} "} | dict.fromkeys("\\^~\n", " "))  # of a label
_FUNCTIONS = ("exp", "log", "max", "min")
_TALL = ("\\sum", "\\frac", "\\left", "\\sqrt", "\\max_", "\\min_")  # brackets around them grow
_SUBSCRIPTS = str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋")


class HasFormula(Protocol):
    def formula(self, notation: Notation) -> str: ...


class Notation:
    """The plain-text notation of formulas, base class of the LaTeX notation."""

    minkowski_sum, intersection, union = " ⊕ ", " ∩ ", " ∪ "
    leq, geq, element, times, by = " ≤ ", " ≥ ", " ∈ ", "·", "×"
    braces = "{", "}"
    set_of = "{{{0} : {1}}}".format  # element, condition
    sum_over = "Σ_{{{0}}} {1}".format  # index, term
    under = "{0}_{{{1}}}".format  # an operator such as a minimum, and its index
    separated = "{0},  {1}".format  # two clauses
    remark = " {0}".format  # words after a formula

    def symbol(self, name: str) -> str:
        """Return the symbol of a name: Greek for a Greek letter, the part after `_` as a subscript."""
        base, _, index = name.partition("_")
        return self.sub(_GREEK.get(base, base), index) if index else _GREEK.get(base, base)

    def sub(self, base: str, index: str) -> str:
        plain = index.translate(_SUBSCRIPTS)
        index = f"{{{index}}}" if "," in index else index
        return base + (plain if all(ch in "₀₁₂₃₄₅₆₇₈₉₊₋" for ch in plain) else f"_{index}")

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{exponent}"

    def norm(self, argument: str, p: str) -> str:
        return self.sub(f"‖{argument}‖", "∞" if p == "inf" else p)

    def bar(self, symbol: str) -> str:
        return symbol[0] + "\u0304" + symbol[1:]

    def fraction(self, top: str, bottom: str) -> str:
        bare = len(bottom) == 1 or bottom.startswith("(")
        return f"{top}/{bottom}" if bare else f"{top}/({bottom})"

    def word(self, text: str) -> str:
        return "∞" if text == "inf" else text

    def label(self, label: str | float) -> str:
        """Return the text of a group label."""
        return str(label)

    def product(self, left: str, right: float | HasFormula) -> str:
        """Return the product of a symbol and a scalar, with a dot before a number."""
        return left + (self.times if isinstance(right, Real) else " ") + self.scalar(right)

    def scalar(self, x: float | HasFormula | None) -> str:
        """Return the formula of a scalar: a number in six digits, a `Param` as its symbol."""
        match x:
            case int() | float() | Real():
                return self.word("inf") if x == math.inf else f"{x:.6g}"
        return "" if x is None else x.formula(self)

    def array(self, x: Any) -> str:
        """Return the entries of a dense vector of up to four entries, else the shape of the array."""
        if not sparse.issparse(x) and x.ndim == 1 and x.size <= 4:
            return "(" + ", ".join(f"{v:.6g}" for v in x) + ")"
        return "[" + self.by.join(str(d) for d in x.shape) + "]"


class _Latex(Notation):
    minkowski_sum = r" \oplus "
    intersection, union = r" \cap ", r" \cup "
    leq, geq, element, times, by = r" \le ", r" \ge ", r" \in ", r" \cdot ", r" \times "
    braces = r"\{", r"\}"
    set_of = r"\left\{{ {0} : {1} \right\}}".format
    sum_over = r"\sum_{{{0}}} {1}".format
    separated = r"{0},\quad {1}".format
    remark = r"\ \text{{{0}}}".format
    bar = r"\bar {0}".format
    fraction = r"\frac{{{0}}}{{{1}}}".format

    def symbol(self, name: str) -> str:
        base, _, index = name.partition("_")
        name = base if len(base) == 1 else self.word(base)
        greek = {"lam": r"\lambda", "eps": r"\epsilon"}.get(base, f"\\{base}" if base in _GREEK else name)
        return self.sub(greek, r"\mathrm{" + index.replace("_", r"\_") + "}") if index else greek

    def sub(self, base: str, index: str) -> str:
        return f"{base}_{{{index.replace('±', chr(92) + 'pm')}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent.removeprefix('(').removesuffix(')')}}}"

    def norm(self, argument: str, p: str) -> str:
        index = r"\infty" if p == "inf" else p
        tall = any(word in argument for word in _TALL)
        left, right = (r"\left\lVert", r"\right\rVert") if tall else (r"\lVert", r"\rVert")
        return rf"{left} {argument} {right}_{{{index}}}"

    def under(self, operator: str, index: str) -> str:
        return f"{self.word(operator)}_{{{index}}}"

    def word(self, text: str) -> str:
        if text in _FUNCTIONS:
            return rf"\{text}"
        escaped = text.replace("_", r"\_")
        return r"\infty" if text == "inf" else rf"\mathrm{{{escaped}}}"

    def label(self, label: str | float) -> str:
        return rf"\mathrm{{{str(label).translate(_ESCAPED)}}}"

    @staticmethod
    def sized_delimiters(text: str) -> str:
        """Return the LaTeX text with parentheses as tall as their contents."""
        opened: list[int] = []
        pieces = list(text)
        for k, letter in enumerate(text):
            if letter == "(":
                opened.append(k)
            elif letter == ")" and opened:
                start = opened.pop()
                if any(word in text[start:k] for word in _TALL):
                    pieces[start], pieces[k] = r"\left(", r"\right)"
        return "".join(pieces)


TEXT = Notation()
LATEX = _Latex()
