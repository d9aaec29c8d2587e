"""The objective `loss + lam * penalty` of Ong and Le Thi (2013), and its difference-of-convex split."""

from __future__ import annotations

import functools
from typing import Any

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language.contracts import UncertaintySet
from ucm.language.node import OPERATORS, Node, Notation, RotationInvariant, operator
from ucm.language.parameter import Scalar, as_factor, is_zero
from ucm.language.robust import RobustMargin
from ucm.language.term_sums import LossSum, PenaltySum, multiplied, summed
from ucm.language.terms import (
    ConvexLoss,
    Loss,
    Penalty,
    ProximalPenalty,
    SubtractedPenalty,
    Term,
)


class Objective(Term, RotationInvariant):
    """The model `min over w, b of sum_i l(y_i (w'x_i + b)) + R(w)`: a loss plus a penalty.

    Parameters
    ----------
    loss : Loss
        The loss of the margins, summed over the samples.
    penalty : Penalty
        The penalty of w, never of b.

    Notes
    -----
    Ong and Le Thi (2013), equation (1).

    Examples
    --------
    >>> import ucm
    >>> objective = ucm.Ramp() + 0.5 * ucm.CappedL1(a=1)
    >>> G, H = objective.dc()
    >>> print(G)
    Σ_{i} max(0, 1 - t_i) + 0.5·‖w‖₁
    >>> print(H)
    Σ_{i} max(0, -1 - t_i) + 0.5·Σ_{j} max(0, |w_j| - 1)
    """

    loss: Loss
    penalty: Penalty

    def value(
        self,
        margin: Vec,
        w: Vec,
        y: Vec | None = None,
        weights: Vec | None = None,
        subgroup: Any = None,
    ) -> float:
        """Return the objective at the margins `y_i (w'x_i + b)` and the normal w.

        The losses of the samples are multiplied by their weights. A loss of a class or a group needs the
        labels y and the groups.
        """
        return self.loss.value(margin, y, weights, subgroup) + self.penalty.value(w)

    def dc(self) -> tuple[ConvexPart, ConvexPart]:
        """Return convex functions (G, H) with the objective G - H, from the splits of the terms."""
        return self._parts

    @functools.cached_property
    def _parts(self) -> tuple[ConvexPart, ConvexPart]:
        added, subtracted = self.loss.split()
        plus, minus = self.penalty.split()
        return ConvexPart(added, plus), ConvexPart(subtracted, minus)

    @property
    def convex(self) -> bool:
        """True if nothing is subtracted."""
        H = self.dc()[1]
        return not H.losses and not H.penalties

    def problem_latex(self) -> str:
        """The primal and the dual problem in LaTeX, the conjugates written out:
        `ucm.language.problem.problem_latex`."""
        return OPERATORS["problem_latex"](self)

    def __repr__(self) -> str:
        return f"{self.loss!r} + {self.penalty!r}"

    def formula(self, notation: Notation) -> str:
        total = f"{self.loss.formula(notation)} + {self.penalty.formula(notation)}"
        t, y, x = (notation.sub(name, "i") for name in "tyx")
        return notation.separated(f"{notation.under('min', 'w, b')} {total}", f"{t} = {y}(w'{x} + b)")


class ConvexPart(Node):
    """A sum of convex losses and convex functions of w, one side of a split."""

    losses: tuple[ConvexLoss, ...] = ()
    penalties: tuple[ProximalPenalty | SubtractedPenalty, ...] = ()

    def value(
        self,
        margin: Vec,
        w: Vec,
        y: Vec | None = None,
        weights: Vec | None = None,
        subgroup: Any = None,
    ) -> float:
        """Return the function at the margins and the normal; y, weights and groups as for `Objective`."""
        return sum(loss.value(margin, y, weights, subgroup) for loss in self.losses) + sum(
            penalty.value(w) for penalty in self.penalties
        )

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in (*self.losses, *self.penalties)) or "0"


@operator("terms")
def combined(symbol: str, a: Any, b: Any) -> Any:
    """Return `a symbol b` of losses, penalties and objectives: a positive multiple, a quotient or a sum.

    Raises
    ------
    CompositionError
        Two terms are multiplied or subtracted, or a sum has an operand that is no term.
    """
    if symbol == "*":
        return _multiple(_factor(a, b), b)
    if symbol == "/":
        divisor = _factor(b, a)
        if divisor == 0.0:
            raise CompositionError(f"{a!r} / 0: a term is divided by a positive number")
        return _multiple(1.0 / divisor, a)
    if symbol == "+":
        return _sum(a, b)
    if symbol == "-":  # a subtracted loss or penalty leaves no convex part to rely on
        raise CompositionError(
            f"{a!r} - {b!r}: losses and penalties are only added; a subtracted one would make the "
            "objective concave in places without bound (Ramp, CappedL1, ExpL0, MCP and SCAD are the "
            "bounded differences)"
        )
    return NotImplemented


def _factor(c: Any, term: Term) -> Scalar:
    factor = as_factor(c)
    if factor is None:
        what = "two terms do not multiply" if isinstance(c, Term) else f"got the factor {c!r}"
        raise CompositionError(f"{term!r}: {what}; a term is multiplied by a number or a Param")
    return factor


def _multiple(factor: Scalar, term: Any) -> Any:
    if not isinstance(term, Objective):
        return multiplied(factor, term)
    return Objective(*(multiplied(factor, part) for part in (term.loss, term.penalty)))


def _sum(a: Any, b: Any) -> Any:
    """A sum of losses or of penalties; a loss and a penalty make an objective, and 0 changes nothing."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if isinstance(b, UncertaintySet | RobustMargin):
        return b.__radd__(a)  # which says what to write, or adds a penalty to a margin
    parts: list[Any] = []
    for term in (a, b):
        if not isinstance(term, Term):
            raise CompositionError(
                f"{a!r} + {b!r}: expected losses and penalties, got {term!r}; "
                "write for example Hinge() + 0.5 * L1()"
            )
        parts += (term.loss, term.penalty) if isinstance(term, Objective) else (term,)
    loss = summed(LossSum, [part for part in parts if isinstance(part, Loss)])
    penalty = summed(PenaltySum, [part for part in parts if isinstance(part, Penalty)])
    if loss is None or penalty is None:
        return penalty if loss is None else loss
    return Objective(loss, penalty)
