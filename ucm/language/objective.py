"""`loss + lam * penalty`: the objective of Ong and Le Thi (2013), and its difference-of-convex split."""

from __future__ import annotations

import functools
from typing import Any

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language.contracts import UncertaintySet, operator
from ucm.language.node import OPERATORS, Node, Notation, RotationInvariant
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

__all__ = ["ConvexPart", "Objective"]


class Objective(Term, RotationInvariant):
    """The model `min over w, b of sum_i l(y_i (w'x_i + b)) + R(w)`: a loss plus a penalty.

    Parameters
    ----------
    loss : Loss
        Of the margins, summed over the samples.
    penalty : Penalty
        Of w, never of b.

    Raises
    ------
    CompositionError
        Not a loss and a penalty.

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
        """The objective at the margins `y_i (w'x_i + b)` and the normal w; the losses of the samples are
        multiplied by their weights, and losses of a class or a group need the labels y and the groups."""
        return self.loss.value(margin, y, weights, subgroup) + self.penalty.value(w)

    def dc(self) -> tuple[ConvexPart, ConvexPart]:
        """Convex functions (G, H) whose difference this objective is, from the splits of its terms."""
        return self._parts

    @functools.cached_property
    def _parts(self) -> tuple[ConvexPart, ConvexPart]:
        added, subtracted = self.loss.split()
        plus, minus = self.penalty.split()
        return ConvexPart(added, plus), ConvexPart(subtracted, minus)

    @property
    def convex(self) -> bool:
        """Whether nothing is subtracted."""
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
        return notation.separated(
            f"{notation.under('min', 'w, b')} {total}", f"{t} = {y}(w'{x} + b)"
        )


class ConvexPart(Node):
    """A sum of convex losses and convex functions of w: one side of a split."""

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
        """The function at the margins and the normal; y, weights and groups as for `Objective`."""
        return sum(loss.value(margin, y, weights, subgroup) for loss in self.losses) + sum(
            penalty.value(w) for penalty in self.penalties
        )

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in (*self.losses, *self.penalties)) or "0"


def _scalar(c: Any, term: Term) -> Scalar:
    factor = as_factor(c)
    if factor is None:
        what = "two terms do not multiply" if isinstance(c, Term) else f"got the factor {c!r}"
        raise CompositionError(f"{term!r}: {what}; a term is multiplied by a number or a Param")
    return factor


@operator("term *")
def scale(c: Any, term: Any) -> Any:
    """`c * term`, c positive."""
    return _scaled(_scalar(c, term), term)


@operator("term /")
def divide(term: Any, c: Any) -> Any:
    """`term / c`, c positive."""
    divisor = _scalar(c, term)
    if divisor == 0.0:
        raise CompositionError(f"{term!r} / 0: a term is divided by a positive number")
    return _scaled(1.0 / divisor, term)


def _scaled(factor: Scalar, term: Any) -> Any:
    if not isinstance(term, Objective):
        return multiplied(factor, term)
    return Objective(*(multiplied(factor, part) for part in (term.loss, term.penalty)))


@operator("term +")
def add(a: Any, b: Any) -> Any:
    """Losses and penalties gather; a loss and a penalty make an objective; the number 0 changes nothing."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if isinstance(b, UncertaintySet | RobustMargin):
        return b.__radd__(a)  # which says what to write, or adds a penalty to a margin
    losses: list[Loss] = []
    penalties: list[Penalty] = []
    for term in (a, b):
        if not isinstance(term, Term):
            raise CompositionError(
                f"{a!r} + {b!r}: expected losses and penalties, got {term!r}; "
                "write for example Hinge() + 0.5 * L1()"
            )
        if isinstance(term, Objective | Loss):
            losses.append(term.loss if isinstance(term, Objective) else term)
        if isinstance(term, Objective | Penalty):
            penalties.append(term.penalty if isinstance(term, Objective) else term)
    loss, penalty = summed(LossSum, losses), summed(PenaltySum, penalties)
    if loss is None or penalty is None:
        return penalty if loss is None else loss
    return Objective(loss, penalty)


@operator("term -")
def subtract(a: Any, b: Any) -> Any:
    """Refused: a subtracted loss or penalty leaves no convex part to rely on."""
    raise CompositionError(
        f"{a!r} - {b!r}: losses and penalties are only added; a subtracted one would make the "
        "objective concave in places without bound (Ramp, CappedL1, ExpL0, MCP and SCAD are the "
        "bounded differences)"
    )
