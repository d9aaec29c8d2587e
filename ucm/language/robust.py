"""The robust-margin model, the classifier of an uncertainty set."""

from __future__ import annotations

import functools
import math
from typing import ClassVar

from ucm.errors import CompositionError, brief
from ucm.language.contracts import UncertaintySet
from ucm.language.node import OPERATORS, Notation, SolvableModel, number_in, operator
from ucm.language.terms import Loss, Penalty


def dual_exponent(p: float) -> float:
    """Return the dual exponent q of p, with 1/p + 1/q = 1."""
    if p == 1.0:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1.0)


@operator("margin")
class RobustMargin(SolvableModel["RobustMargin"]):
    """The robust-margin model `min over ||w||_p = 1 of max over x in U of -w'x`.

    A set alone means p = 2.

    If 0 is not in U, the model is convex, and its value is minus the distance from 0 to U in the q-norm,
    1/p + 1/q = 1. A norm penalty of w may be added, `RobustMargin(U) + 0.1 * L1()`: it is the support
    function of a ball, so that the sum is the robust margin of a larger set.

    Parameters
    ----------
    set : UncertaintySet
        U, in feature space.
    norm : float in [1, inf]
        The p of the constraint on w.

    Notes
    -----
    Ito, Takeda and Toh (2015), equation (2).

    Examples
    --------
    >>> import ucm
    >>> print(ucm.RobustMargin(ucm.Point(ucm.pos.mean)))
    min_{‖w‖₂ = 1} max_{x ∈ U} -w'x,  U = {x̄₊}
    >>> ucm.RobustMargin(ucm.Point(ucm.pos.mean)) + 0.1 * ucm.L1()
    RobustMargin(Point(pos.mean) + Ball(0, 0.1, p=inf))
    """

    set: UncertaintySet
    norm: float = number_in("[1, inf]", "norm", "write 2.0 for the Euclidean norm", default=2.0)

    offset: ClassVar[None] = None
    penalised: ClassVar[bool] = False

    @functools.cached_property
    def dual(self) -> float:
        """The exponent q of the dual norm, the norm of feature space."""
        return dual_exponent(self.norm)

    def combine(self, symbol: str, a: object, b: object) -> RobustMargin:
        if symbol == "+":
            return OPERATORS["margin +"](a, b)
        raise CompositionError(
            f"{a!r} {symbol} {b!r}: a robust margin takes penalties with + only; write sets inside of it, as "
            "RobustMargin(2 * U)"
        )

    def formula(self, notation: Notation) -> str:
        minimum = notation.under("min", f"{notation.norm('w', f'{self.norm:g}')} = 1")
        maximum = notation.under("max", f"x{notation.element}U")
        return notation.separated(f"{minimum} {maximum} -w'x", f"U = {self.set.formula(notation)}")


@operator("as model")
def as_model(model: object, where: str) -> RobustMargin:
    """Return the `RobustMargin` of a set with p = 2, or a `RobustMargin` unchanged."""
    match model:
        case RobustMargin():
            return model
        case UncertaintySet():
            return model.model
        case Loss():
            why = (
                f"{model!r} is a loss without a penalty, so that w may grow without bound (on separable data "
                "it has no minimum); write loss + lam * penalty, as Hinge() + 0.5 * L1()"
            )
        case Penalty():
            why = (
                f"{model!r} is a penalty without a loss, whose minimum is w = 0; write loss + lam * penalty, "
                "as Hinge() + 0.5 * L1()"
            )
        case _:
            why = (
                "expected an uncertainty set, a RobustMargin or loss + lam * penalty, got "
                f"{brief(model)}; write ucm.models.nu_svm(0.3)"
            )
    raise CompositionError(f"{where}: {why}")
