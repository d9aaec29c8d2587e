"""The result of a solve: the solution, its certificate, its statistics."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.gram import Expansion
from ucm.data.kernel_options import FeatureFunction
from ucm.data.linear_map import Vec
from ucm.data.validation import table
from ucm.errors import DISTRIBUTION, VERSION, DataError, ParameterError
from ucm.forms.display import digits, sheet
from ucm.forms.solver import Status


def of_this_version(kind: type, state: dict) -> dict:
    """Return the state of a pickle without its version; versions with another minor number are refused."""
    version = state.get("_version", "0.1.0")  # that version wrote none
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise DataError(
            f"{kind.__name__}: expected a pickle of version {VERSION} of {DISTRIBUTION}, got one of"
            f" {version}; make it again, or load it with {DISTRIBUTION}=={version}"
        )
    return {name: value for name, value in state.items() if name != "_version"}


@dataclass(frozen=True)
class Certificate:
    """Proven bounds on the optimum, computed from the declaration alone.

    Attributes
    ----------
    primal : upper bound: the value of the declared problem at w, `max over x in U of -w'x` for a set; inf for
        w = 0 of a set, as w then does not have length 1
    dual : lower bound: minus the norm of x, a point of U; -inf if x lies outside
    gap : `primal - dual`, non-negative up to rounding; a bound of the error of the objective
    relative_gap : `gap / ||x||_q`, at least -1e-9; relative to the size of U if 0 lies in U
    violation : relative distance of x from U; at most 1e-9 counts as rounding
    kind : "global" (the bounds hold for the optimum), "local" (for the next convex problem), "strict local"
        (proven by `plan.certify_local`), or "none" (a bound is missing and infinite)
    residual : if 0 lies in U, the distance of w from stationarity, `dist(df(w), f(w) d||w||_p)`; else None
    kernel : the kernel or the kernel approximation of the model; "" without one
    broken : the constraint of U that an external answer violates, with the violation; "" if none
    span : the dimension of the span of U if 0 lies in U and U is flat: the bounds hold for w in the span, as
        every w orthogonal to U has the value 0; None if U spans the space
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    violation: float
    kind: str = "global"
    residual: float | None = None
    kernel: str = ""
    broken: str = ""
    span: int | None = None

    def __str__(self) -> str:
        within = "" if self.span is None else f"w in the span of U, of dimension {self.span}"
        return "; ".join(part for part in (self._bounds(), within, self.kernel) if part)

    def _bounds(self) -> str:
        if self.kind == "none":
            if math.isfinite(self.primal):
                outside = f"; no lower one, as {self.broken}" if self.broken else ""
                return f"an upper bound only: optimum <= {self.primal:.10g}{outside}"
            if math.isfinite(self.dual):
                return f"a lower bound only: {self.dual:.10g} <= optimum"
            return "no certificate"
        if self.kind != "global":
            accuracy = (
                f"the next convex problem gains at most {self.gap:.2g}"
                if self.residual is None
                else f"{self.residual:.2g} from stationary"
            )
            return f"{self.kind}: {self.primal:.10g}, {accuracy}, violation {self.violation:.2g}"
        return (
            f"{self.kind}: {self.dual:.10g} <= optimum <= {self.primal:.10g}, "
            f"relative gap {abs(self.relative_gap):.2g}, violation {self.violation:.2g}"
        )

    @property
    def digits(self) -> int | None:
        """The number of proven decimal digits of the objective; None unless "global" with a gap below 1."""
        return digits(max(self.relative_gap, self.violation)) if self.kind == "global" else None

    def _repr_html_(self) -> str:
        if self.kind == "none" and not (math.isfinite(self.primal) or math.isfinite(self.dual)):
            return sheet("No certificate", {})
        local = self.kind in ("local", "strict local")
        ends = {"lower bound": self.dual, "upper bound": self.primal}
        bounds = {name: f"{x:.10g}".replace("-", "−") for name, x in ends.items()}
        facts = {
            **({"value": self.primal} if local else bounds),
            "relative gap": None if local else f"{self.relative_gap:.2g}",
            "gain of the next convex problem, at most": f"{self.gap:.2g}"
            if local and self.residual is None
            else None,
            "digits proven": self.digits,
            "from stationary": None if self.residual is None else f"{self.residual:.2g}",
            "outside of the set": None if math.isnan(self.violation) else f"{self.violation:.2g}, relative",
            "dimension of the span of U, which holds w": self.span,
            "kernel": self.kernel or None,
        }
        return sheet(f"Certificate, {self.kind}", facts)


@dataclass(frozen=True)
class Stats:
    """The solver, the times and the counts of work of a solve.

    Attributes
    ----------
    solver : the name of the solver that answered
    setup_time, solve_time : seconds of compiling and of solving
    iterations : outer iterations
    passes : products with the data, in units of one A q plus one A' w over all samples
    kernel_operations : inner products of samples, if the solver counts them
    systems : linear systems solved, if the solver forms them
    forming : the work of forming these systems, in passes; a row of n entries takes n^2 / 2 multiplications
    reads : passes over all rows of out-of-core data, validation included
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
    """The result of `plan.solve()`: the classifier, its certificate and its status.

    Attributes
    ----------
    w : (n,) normal of the classifier, `||w||_p = 1`, or shorter than lam of a generalised nu-SVM whose bound
        `||w|| <= lam` is inactive; 0 if 0 lies in U; None with a kernel; with approximate kernel features the
        normal in these features
    b : bias, or None if it has no meaning
    x : (n,) point of U nearest to 0; None with a kernel, and for `loss + lam * penalty`
    weights : (m,) weights of the samples if U is a set of samples; else None. They are not negative, except
        for losses that grow on both sides (`LeastSquares`). Over out-of-core rows they are computed when they
        are first read
    objective : value of the declared problem: minus the distance of U from 0; if 0 lies in U the largest
        `-w'x` over U, which is not negative
    certificate : proof of accuracy
    status : "optimal" (a proven gap, `-1e-9 <= relative_gap <= tol`), "converged" (the solver's own rule, no
        proven gap), "max_iter", "stalled", "interrupted", "zero_in_set",
        "unbounded" or "indefinite"; of a non-convex objective, or where 0 lies in U, "local",
        "stationary" or "unattained"
    message : a sentence on the end of the solve, with a remedy
    stats : the solver and its work
    history : one dict per reported iteration: iteration, objective, gap, passes, seconds, start (the index of
        the start). With `trace=k` one per k-th iterate, with further entries of the solver
    start_objectives : the objective at the end of every start of a non-convex model
    bias_rule : the rule of the bias
    rho : under the bias rule "multipliers", the margin `y (w'x + b)` at which the sample weights leave their
        bounds: the rho of a nu-SVM or, of weights in a ball of l*, of its `l(rho - y (w'x + b))`, for w of
        norm 1; of a `KLBall` the margin at which a weight is 1/e of the uniform one
    tol : the required relative gap
    size : the size `||c|| + sum ||A_k q_k||` of the points of U in the solve, the unit of the test for 0 in U
    answer : the answer of the solver, for a warm start
    coefficients : (m,) c with `w = sum_i c_i phi(x_i)` for a kernel
    expansion : the function `sum_i c_i k(x_i, x)`, or w in approximate kernel features
    params : the numbers of the model's parameters, relative sizes included
    multipliers : of each constraint on w beside a convex loss, in the order of the declaration, (r,):
        positive at an upper bound, negative at a lower one. The optimum changes by minus the multiplier for
        each unit of the bound
    normal : (n,) M'w if a matrix M maps every sample of U: the normal of the samples before M
    make_summand_points, make_weights, make_certificate : the functions that compute `summand_points`,
        `weights` over out-of-core rows, and the file of `save_certificate`; they hold the data, and pickles
        leave them out
    plan : the plan of the other form that gave the answer (0 in U, or a kernel whose inner products are not
        accurate enough); pickles leave it out, as it holds the data
    """

    w: Any  # None with a kernel
    b: float | None
    x: Any
    weights: Vec | None
    objective: float
    certificate: Certificate
    status: Status
    message: str
    stats: Stats
    history: list[dict]
    bias_rule: str = "none"
    size: float = 0.0
    answer: Any = field(default=None, repr=False, compare=False)
    coefficients: Vec | None = None
    expansion: Expansion | FeatureFunction | None = field(default=None, repr=False, compare=False)
    params: dict[str, float] = field(default_factory=dict)
    make_summand_points: Callable[[], tuple[Vec, ...]] | None = field(default=None, repr=False, compare=False)
    normal: Vec | None = field(default=None, repr=False, compare=False)
    plan: Any = field(default=None, repr=False, compare=False)
    start_objectives: tuple[float, ...] = ()
    rho: float | None = None
    tol: float = 1e-6
    make_weights: Callable[[], Vec] | None = field(default=None, repr=False, compare=False)
    multipliers: tuple[Vec, ...] = ()
    make_certificate: Callable[[Solution], dict] | None = field(default=None, repr=False, compare=False)

    if not TYPE_CHECKING:  # type checkers would allow any attribute

        def __getattr__(self, name: str) -> Vec:
            """Compute the weights of out-of-core rows when they are first read."""
            make = vars(self).get("make_weights")
            if name != "weights" or make is None:
                left_out = "; the rows of the weights were left out of the pickle" * (name == "weights")
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{left_out}")
            vars(self)["weights"] = make()
            return vars(self)["weights"]

    def __copy__(self) -> Solution:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __getstate__(self) -> dict:
        return {**vars(self), "plan": None, "make_summand_points": None, "make_weights": None,
                "make_certificate": None, "_version": VERSION}  # fmt: skip

    def __setstate__(self, state: dict) -> None:
        vars(self).update(of_this_version(type(self), state))

    @functools.cached_property
    def summand_points(self) -> tuple[Vec, ...] | None:
        """The point of every Minkowski summand of U, in the order of the declaration; None if unknown.

        `A - B` has a point of A and a point of B, whose difference is x. Nested sums and multiples have the
        points of their innermost sets. None with a kernel, for `loss + lam * penalty`, without an answer, and
        after pickling unless it was computed before.
        """
        return None if self.make_summand_points is None else self.make_summand_points()

    def save_certificate(self, path: str | PathLike[str]) -> None:
        """Write the certificate to a JSON file, which `check_certificate.py` checks without this library.

        The file holds the declaration with its parameters, hashes of the samples, w and b, a dual point, and
        both bounds. `docs/check_certificate.py` imports NumPy alone; it computes the bounds anew, rounded
        outward, for hulls with capped, 2-norm or Kullback-Leibler weights, ellipsoids, balls, and for the
        losses and norms of this library. It needs the samples as arrays: `X.npy` and `y.npy`.

        Raises
        ------
        ParameterError
            A kernel, rows that are read block by block, a model that is not convex, a set without generators,
            a solution without both bounds or one that was pickled.

        Examples
        --------
        >>> import json, pathlib, tempfile, ucm
        >>> X, y = ucm.datasets.load("iris")
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "certificate.json"
        >>> ucm.solve(ucm.models.nu_svm(0.5), X, y).save_certificate(path)
        >>> sorted(json.loads(path.read_text()))
        ['bounds', 'data', 'declaration', 'dual', 'format', 'primal', 'version', 'weights']
        """
        if self.make_certificate is None:
            raise ParameterError(
                "save_certificate: expected a solution of plan.solve(), got one without its samples, as of a "
                "pickle; solve again"
            )
        text = json.dumps(self.make_certificate(self), allow_nan=False)
        Path(path).write_text(text, encoding="utf-8")

    def decision(self, X: Any) -> Vec:
        """Return the scores `w'x + b` of the rows of X, `w'Mx + b` for `M @ U`; a missing b counts as 0.

        An offset of the scores is not in them.

        Raises
        ------
        DataError
            X is not a table of finite numbers with the features of the fit.
        """
        X = table(X)
        if self.expansion is not None:
            return self.expansion.scores(X) + (self.b or 0.0)
        w = self.w if self.normal is None else self.normal
        if X.shape[1] != w.size:
            raise DataError(
                f"X: expected the {w.size} features that w has, got {X.shape[1]}; give the features of the "
                "fit, or those of the images where the classes stand under different matrices"
            )
        return np.asarray(X @ w) + (self.b or 0.0)

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
