"""The certificate and the CVXPY twins of `C * Hinge(p) + lam * L2()`, from the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import SolverError
from ucm.evidence.verify import Verification, compared, solved, tight
from ucm.forms.solution import Certificate, Solution
from ucm.language.objective import Objective
from ucm.language.scope import Coefficient, Parameters
from ucm.language.terms import ConvexLoss, ProximalPenalty, loss_cvxpy

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["HingeTwin", "certify_hinge", "compare_hinge"]


def certify_hinge(model: Objective, data: Data, s: Vec, f: Vec, b: float) -> Certificate:
    """Fenchel's gap of the multipliers s and the normal that they stand for.

    With `w = sum s_i y_i x_i / (2 lam)`, scores `f = <w, x_i>` and weights c_i of the classes,
    `sum c_i l(1 - y_i (f_i + b)) + lam ||w||^2` lies above the optimum and
    `sum s_i - c_i l*(s_i / c_i) - lam ||w||^2` below it, provided that `y's = 0`. Losses and conjugates
    are those of the declaration.

    Parameters
    ----------
    s : (m,) multipliers of the declared losses
    f : (m,) scores without b
    """
    loss, penalty = model.loss, model.penalty
    if not isinstance(loss, ConvexLoss) or not isinstance(penalty, ProximalPenalty):
        raise SolverError(f"certify: {model!r} is no convex loss with a convex penalty")
    margin = data.y * (f + b)
    primal = dual = 0.0
    for sign, c in zip((1.0, -1.0), data.class_weight, strict=True):
        k = data.y == sign
        primal += c * loss.value(margin[k])
        top = c * float(loss.gradient(np.array([np.inf]))[0])
        t = np.clip(s[k], 0.0, top)
        dual += float(loss.offset * t.sum() - c * loss.conjugate(t / c).sum())
    # ||sum s y x||^2 / (4 lam) = lam ||w||^2 = <s y, f> / 2
    square = 0.5 * float((s * data.y) @ f)
    primal, dual = primal + square, dual - square
    total = float(np.abs(s).sum())
    violation = abs(float(data.y @ s)) / total if total > 0.0 else 0.0
    gap = primal - dual
    return Certificate(primal, dual, gap, gap / max(abs(primal), 1e-300), violation)


@dataclass(frozen=True)
class HingeTwin:
    """The references over explicit features: problems (9) and (17) of Sun (2024), as declared.

    Parameters
    ----------
    model, data : the declaration and the samples
    features : (m, r) the samples, or any root of the Gram matrix
    p : the exponent
    """

    model: Objective
    data: Data
    features: Any
    p: float

    @property
    def primal(self) -> cp.Problem:
        """Problem (9): `min sum l(y_i (w'x_i + b)) + R(w)`."""
        import cvxpy as cp

        w, b = cp.Variable(self.features.shape[1], name="w"), cp.Variable(name="b")
        scope, data = Parameters(), self.data
        loss: Any = self.model.loss
        penalty: Any = self.model.penalty
        margin = cp.multiply(data.y, self.features @ w + b)
        total = loss_cvxpy(loss, margin, data.y, data.class_weight, scope)
        total = total + penalty.cvxpy(w, Coefficient(), scope)
        return cp.Problem(cp.Minimize(total + scope.named()))

    @property
    def dual(self) -> cp.Problem:
        """Problem (17): `max sum s - sum c l*(s / c) - ||sum s_i y_i x_i||^2 / (4 lam)`, y's = 0."""
        import cvxpy as cp

        # c = C p xi^(p-1) at xi = 1 is a multiplier of usual size: the variable is near 1
        unit = float(self.model.loss.gradient(np.ones(1))[0])  # type: ignore[attr-defined]
        lam = self.model.penalty.value(np.ones(1))
        t = cp.Variable(self.data.m, nonneg=True)
        power, constraints = 0.0, [self.data.y @ t == 0]
        for sign, c in zip((1.0, -1.0), self.data.class_weight, strict=True):
            rows = np.flatnonzero(self.data.y == sign)
            if self.p == 1.0:
                constraints.append(t[rows] <= c)
            else:  # l*(s) = (p - 1) / p s (s / unit)^(1/(p-1)),  s = unit t
                gamma = self.p / (self.p - 1.0)
                scale = unit * (self.p - 1.0) / self.p * c ** (1.0 - gamma)
                power = power + scale * cp.sum(cp.power(t[rows], gamma, approx=False))
        z = (self.features.T * self.data.y) @ t
        square = cp.sum_squares(z) * (unit**2 / (4.0 * lam))
        return cp.Problem(cp.Maximize(unit * cp.sum(t) - power - square), constraints)


def compare_hinge(
    twin: HingeTwin, solution: Solution, tol: float = 1e-6, **options: Any
) -> Verification:
    """Solve both references and compare the objectives, within `max(1e-6, tol)` relative. One that its
    solver fails on is left out.

    Raises
    ------
    SolverError
        The reference solver failed on both.
    """
    solver = str(options.pop("solver", "CLARABEL"))
    found, failure = [], SolverError("verify: no reference")
    for problem in (twin.primal, twin.dual):
        # a power cone may not close to the tight tolerance
        attempts = [(problem, tolerances) for tolerances in tight(solver, 1e-11)]
        try:
            found.append(solved(attempts, solver, options))
        except SolverError as error:
            failure = error
    if not found:
        raise failure
    worst = max(found, key=lambda pair: abs(pair[0] - solution.objective))
    return compared(solution.objective, worst, solution, solver, tol)
