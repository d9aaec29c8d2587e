"""What a solve returns: the answer, its certificate, its statistics."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ucm.data.approx import Waves
from ucm.data.gram import Expansion
from ucm.data.linear import Vec
from ucm.data.sound import table
from ucm.errors import DataError
from ucm.forms.display import digits, sheet

__all__ = ["Certificate", "Solution", "Stats"]


@dataclass(frozen=True)
class Certificate:
    """A proof of accuracy, computed from the declaration alone.

    Attributes
    ----------
    primal : value of the declared problem at w, `max over x in U of -w'x` (an upper bound)
    dual : minus the norm of the returned x (a lower bound, as x is in U)
    gap : `primal - dual`, not negative but for rounding; it bounds the error of the objective
    relative_gap : gap / ||x||_q
    violation : how far x is outside of U, relative
    kind : "global" (the gap bounds the distance to the optimum, however large it is), "local" or "none": a
        side is missing, and infinite, as for an answer from elsewhere (`plan.certify`)
    residual : where 0 lies in U, else None: how far w is from stationary: `dist(df(w), f(w) d||w||_p)`
    kernel : of which kernel the model is, or of which features, where these stand for one; "" without
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    violation: float
    kind: str = "global"
    residual: float | None = None
    kernel: str = ""

    def __str__(self) -> str:
        return self._bounds() + (f"; {self.kernel}" if self.kernel else "")

    def _bounds(self) -> str:
        if self.kind == "none":
            if math.isfinite(self.primal):
                return f"an upper bound only: optimum <= {self.primal:.10g}"
            if math.isfinite(self.dual):
                return f"a lower bound only: {self.dual:.10g} <= optimum"
            return "no certificate"
        if self.kind == "local" and self.residual is not None:
            return (
                f"local: {self.primal:.10g}, {self.residual:.2g} from stationary, "
                f"violation {self.violation:.2g}"
            )
        return (
            f"{self.kind}: {self.dual:.10g} <= optimum <= {self.primal:.10g}, "
            f"relative gap {self.relative_gap:.2g}, violation {self.violation:.2g}"
        )

    @property
    def digits(self) -> int | None:
        """How many digits of the objective are proven; None where the gap proves none of the optimum."""
        return digits(max(self.relative_gap, self.violation)) if self.kind == "global" else None

    def _repr_html_(self) -> str:
        if self.kind == "none" and not (math.isfinite(self.primal) or math.isfinite(self.dual)):
            return sheet("No certificate", {})
        critical = self.kind == "local" and self.residual is not None
        ends = {"lower bound": self.dual, "upper bound": self.primal}
        bounds = {name: f"{x:.10g}".replace("-", "−") for name, x in ends.items()}
        facts = {
            **({"value": self.primal} if critical else bounds),
            "relative gap": None if critical else f"{self.relative_gap:.2g}",
            "digits proven": self.digits,
            "from stationary": None if self.residual is None else f"{self.residual:.2g}",
            "outside of the set": None
            if math.isnan(self.violation)
            else f"{self.violation:.2g}, relative",
            "kernel": self.kernel or None,
        }
        return sheet(f"Certificate, {self.kind}", facts)


@dataclass(frozen=True)
class Stats:
    """How the answer was found.

    Attributes
    ----------
    solver : its name
    setup_time, solve_time : seconds
    iterations : outer iterations
    passes : products with the data, in units of one A q plus one A' w over all of it
    kernel_operations : inner products of samples, where the solver counts them
    systems : linear systems solved, where the solver forms them
    forming : what forming them took, in passes (a row of n entries takes n^2 / 2 multiplications)
    reads : how often all rows of a row source were read, to validate them too
    """

    solver: str
    setup_time: float
    solve_time: float
    iterations: int
    passes: float
    kernel_operations: int = 0
    systems: int = 0
    forming: float = 0.0
    reads: int = 0


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer of `plan.solve()`.

    Attributes
    ----------
    w : (n,) normal of the classifier, `||w||_p = 1`; 0 when 0 lies in U; None behind a kernel, and of
        features in place of one that of these
    b : bias, or None where it has no meaning
    x : (n,) point of U nearest to 0; None behind a kernel, and for `loss + lam * penalty`
    weights : (m,) weights of the samples, where U is made of samples; else None. Not negative but for
        losses that grow on both sides (`LeastSquares`)
    objective : value of the declared problem: minus the distance of U from 0; where 0 lies in U
        the largest `-w'x` over U, not negative
    certificate : proof of accuracy
    status : "optimal" (proven gap below the tolerance), "converged" (the solver's own rule, no
        proven gap), "max_iter", "stalled", "interrupted", "infeasible" (U is empty), "zero_in_set",
        "unbounded" or "indefinite"; of a non-convex objective, or where 0 lies in U, "local",
        "stationary" or "unattained"
    message : what happened, in a sentence, and what to try
    stats : how it was found
    history : one dict per reported iteration: iteration, objective, gap, passes, seconds, start (the place
        of the start that it belongs to). With `trace=k` one per k-th iterate, and what the solver says of it
    ends : the objective at the end of every start, of models that are not convex
    bias_rule : the rule that b came from
    rho : where b is by "kkt", the margin `y (w'x + b)` at which the weights of the samples leave their
        bounds: the rho of a nu-SVM or, of weights in a ball of l*, of its `l(rho - y (w'x + b))`, for w of
        norm 1; of a `KLBall` the margin at which a weight is 1/e of the uniform one
    size : how large the points of U are that the solve met, `||c|| + sum ||A_k q_k||`; the unit in
        which "0 lies in U" is judged
    answer : what the solver said, for a warm start
    coefficients : (m,) c with `w = sum_i c_i phi(x_i)`, where there is a kernel
    expansion : what evaluates `sum_i c_i k(x_i, x)`, or w in features that stand for a kernel
    params : the numbers of the model's parameters, those of relative sizes too
    make_parts : what computes `parts`; it holds the data, and pickles leave it out
    plan : the second plan that gave the answer, where a solve crossed to one (0 in U; rows of a Gram matrix
        that did not tell); pickles leave it out, as it holds the data
    """

    w: Any  # None behind a kernel
    b: float | None
    x: Any
    weights: Vec | None
    objective: float
    certificate: Certificate
    status: str
    message: str
    stats: Stats
    history: list[dict[str, Any]]
    bias_rule: str = "none"
    size: float = 0.0
    answer: Any = field(default=None, repr=False, compare=False)
    coefficients: Vec | None = None
    expansion: Expansion | Waves | None = field(default=None, repr=False, compare=False)
    params: dict[str, float] = field(default_factory=dict)
    make_parts: Callable[[], tuple[Vec, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    plan: Any = field(default=None, repr=False, compare=False)
    ends: tuple[float, ...] = ()
    rho: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "plan": None, "make_parts": None}

    @functools.cached_property
    def parts(self) -> tuple[Vec, ...] | None:
        """The point of every summand of U that x is made of, in the order in which U is written: of
        `A - B` a point of A and one of B, whose difference is x. Of sums in sums and of multiples the points
        of the sets that are neither. None behind a kernel, for `loss + lam * penalty`, where there is no
        answer, and after pickling unless asked for before."""
        return None if self.make_parts is None else self.make_parts()

    def decision(self, X: Any) -> Vec:
        """`w'x + b` for the rows of X (b = 0 where there is none).

        Raises
        ------
        DataError
            X is no table of finite numbers with the features of the fit.
        """
        X = table(X)
        if self.expansion is not None:
            return self.expansion.scores(X) + (self.b or 0.0)
        if X.shape[1] != self.w.size:
            raise DataError(
                f"X: expected the {self.w.size} features that w has, got {X.shape[1]}; "
                "give the features of the fit"
            )
        return np.asarray(X @ self.w) + (self.b or 0.0)

    def __repr__(self) -> str:
        return (
            f"Solution(status={self.status!r}, objective={self.objective:.10g}, "
            f"relative_gap={self.certificate.relative_gap:.2g}, solver={self.stats.solver!r}, "
            f"passes={self.stats.passes:.3g})"
        )

    def _repr_html_(self) -> str:
        proof, stats = self.certificate, self.stats
        facts = {
            "objective": f"{self.objective:.10g}".replace("-", "−"),
            "digits proven": proof.digits,
            "proof": str(proof),
            "parameters": ", ".join(f"{n} = {x:.6g}" for n, x in self.params.items()) or None,
            "bias": self.b,
            "rho": self.rho,
            "samples with weight": None
            if self.weights is None
            else f"{np.count_nonzero(self.weights)} of {self.weights.size}",
            "features with weight": None
            if self.w is None
            else f"{np.count_nonzero(self.w)} of {self.w.size}",
            "solver": f"{stats.solver}, {stats.iterations} iterations, {stats.passes:.4g} passes",
            "seconds": f"{stats.setup_time + stats.solve_time:.3g}",
        }
        return sheet(f"Solution: {self.status}", facts, "" if proof.digits else self.message)
