"""Random set expressions: the custom route against the CVXPY twin, which never sees the lowered form.

Within `TOUCH` of touching (0 on the boundary of U, operands of `&` that barely meet) either answer
counts, as the data themselves are known to no more than that.
"""

from __future__ import annotations

import collections
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import cvxpy as cp
import numpy as np
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

import ucm
from ucm import neg, pos, signed
from ucm.data.bound import Data, bind
from ucm.errors import ConvergenceWarning, EmptySetError, SolverError
from ucm.evidence.reference import twin
from ucm.forms.distance import MinNorm
from ucm.forms.solver import Solver
from ucm.language.contracts import Domain, UncertaintySet
from ucm.language.parameter import Parameters
from ucm.language.robust import RobustMargin
from ucm.solvers import ALM, APG, Newton

TOUCH = 1e-6
T = TypeVar("T")


class Source:
    """Where choices come from; seeded here, Hypothesis in the tests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]


class Drawn(Source):
    """Choices drawn by Hypothesis, so that it can shrink them."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


@dataclass(frozen=True)
class Case:
    """A random set with the samples it is bound to."""

    U: UncertaintySet
    X: np.ndarray
    y: np.ndarray

    def __repr__(self) -> str:
        return f"{self.U!r}\nX = {self.X.tolist()}\ny = {self.y.astype(int).tolist()}"


def vector(s: Source, n: int, reach: int = 16) -> np.ndarray:
    return np.array([s.integer(-reach, reach) / 8 for _ in range(n)])


def matrix(s: Source, rows: int, columns: int) -> np.ndarray:
    return np.array([vector(s, columns) for _ in range(rows)])


def samples(s: Source) -> tuple[np.ndarray, np.ndarray]:
    m, n = s.integer(4, 10), s.integer(1, 4)
    positives = s.integer(1, m - 1)
    y = np.where(np.arange(m) < positives, 1.0, -1.0)
    apart = s.integer(0, 16) / 8
    return matrix(s, m, n) + apart * y[:, None], y


def exponent(s: Source) -> float:
    return s.pick([2.0, 1.0, float("inf"), 1.5])


def weights(s: Source, deep: bool = True) -> Domain:
    """A domain for the weights of a hull, most often not empty on the simplex."""
    kind = s.integer(0, 6 if deep else 5)
    t = s.integer(1, 8) / 8 if s.integer(0, 2) == 0 else s.integer(4, 8) / 8
    if kind == 0:
        return ucm.Simplex()
    if kind == 1:
        return ucm.CappedSimplex(t)
    if kind == 2:
        return ucm.NormBall(t, exponent(s))
    if kind == 3:
        return ucm.KLBall(t)
    if kind == 4:
        loss = s.pick(
            [
                ucm.Exponential(),
                ucm.SquaredHinge(),
                ucm.Hinge(1.5),
                ucm.Hinge() / 0.4,
                ucm.Logistic() / 0.3,
            ]
        )
        return ucm.LossBall(loss, s.integer(-4, 16) / 8)
    if kind == 5:
        return ucm.Box(s.integer(-1, 1) / 16, t)
    return weights(s, False) & weights(s, False)


def center(s: Source, dim: int, n: int) -> Any:
    if dim != n or s.integer(0, 2) == 0:
        return vector(s, dim)
    return s.pick([pos.mean, neg.mean, signed.mean, pos.mean - neg.mean, 2 * pos.mean, 0])


def shape(s: Source, dim: int, n: int) -> Any:
    if dim != n or s.integer(0, 2) == 0:
        root = matrix(s, dim, s.integer(1, dim))
        return root @ root.T
    return s.pick([pos.cov, neg.cov, signed.cov, pos.cov + neg.cov, 0.5 * pos.cov])


def leaf(s: Source, dim: int, n: int) -> UncertaintySet:
    kind = s.integer(0, 6 if dim == n else 3)
    radius = s.integer(0, 12) / 8
    if kind == 0:
        return ucm.Point(center(s, dim, n))
    if kind == 1:
        return ucm.Ball(center(s, dim, n), radius, exponent(s))
    if kind == 2:
        return ucm.Ellipsoid(center(s, dim, n), shape(s, dim, n), radius)
    if kind == 3:
        columns = s.integer(1, 4)
        domain = s.pick(
            [
                ucm.Simplex(),
                ucm.NormBall(radius, exponent(s)),
                ucm.Box(-radius, 0.5),
                ucm.KLBall(0.6),
            ]
        )
        return ucm.Image(matrix(s, dim, columns), domain, center(s, dim, n))
    if kind == 4:
        own = s.pick([pos, neg])
        if s.integer(0, 1):
            return ucm.ReducedHull(own, nu=s.integer(1, 8) / 8)
        return ucm.ReducedHull(own, eta=s.integer(1, 8) / 8)
    own = s.pick([pos, neg, signed])
    return ucm.Hull(own) if s.integer(0, 3) == 0 else ucm.Hull(own, weights=weights(s))


def expression(s: Source, dim: int, n: int, depth: int) -> UncertaintySet:
    """A set in R^dim over samples in R^n."""
    kind = s.integer(0, 9) if depth > 1 else 0
    if kind <= 1:
        return leaf(s, dim, n)
    if kind == 2:
        return s.pick([-1.0, 0.5, 2.0, -3.0, 0.0]) * expression(s, dim, n, depth - 1)
    if kind == 3:
        inner = n if s.integer(0, 2) else s.integer(1, 4)
        return matrix(s, dim, inner) @ expression(s, inner, n, depth - 1)
    left = expression(s, dim, n, depth - 1)
    if kind >= 8 and s.integer(0, 2):  # operands that meet, most often
        near = ucm.Ball(vector(s, dim, 4), s.integer(2, 12) / 8, exponent(s))
        return left & (left + near) if s.integer(0, 1) else (left + near) & left
    right = expression(s, dim, n, depth - 1)
    if kind <= 5:
        return left + right
    if kind <= 7:
        return left - right
    return left & right


def case(s: Source) -> Case:
    X, y = samples(s)
    n = X.shape[1]
    dim = n if s.integer(0, 4) else s.integer(1, 4)
    return Case(expression(s, dim, n, 4), X, y)


# --- the comparison ---------------------------------------------------------------------------------
TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def solve_reference(problem: cp.Problem) -> str:
    """Clarabel's word: "optimal", "empty" or "failed"."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        try:
            problem.solve(solver=cp.CLARABEL, **TIGHT)
        except cp.error.SolverError:
            return "failed"
    if problem.status.startswith("optimal"):
        return "optimal"
    return "empty" if problem.status.startswith("infeasible") else "failed"


def slack(U: UncertaintySet, data: Data, *, equations: bool) -> float:
    """The least t for which every inequality of the set holds up to t (negative: with room to
    spare); with `equations`, every operand of an `&` may also miss the other by t."""
    _, constraints = U.cvxpy(data, Parameters())
    t = cp.Variable()
    relaxed: list[cp.Constraint] = [t >= -1.0]
    for c in constraints:
        if isinstance(c, cp.constraints.Inequality):
            relaxed.append(c.expr <= t)
        elif equations:
            relaxed.append(cp.norm(cp.vec(c.expr, order="F"), 2) <= t)
        else:
            relaxed.append(c)
    problem = cp.Problem(cp.Minimize(t), relaxed)
    solve_reference(problem)
    return float("inf") if t.value is None else float(t.value)


def touching(U: UncertaintySet, data: Data) -> bool:
    """Whether U is within TOUCH of being empty, or of not being so."""
    barely = slack(U, data, equations=True) <= TOUCH
    return barely and slack(U, data, equations=False) >= -TOUCH


def custom_solver(form: MinNorm) -> Solver | None:
    """The first custom solver that takes the form; None when only a conic one does."""
    for solver in (Newton(), APG(), ALM(Newton())):
        if solver.refuse(form) is None:
            return solver
    return None


def compare(c: Case) -> str:
    """Solve both ways. Raises `AssertionError` on disagreement, returns what both said."""
    data = bind(c.X, c.y)
    reference = twin(RobustMargin(c.U), data)
    said = solve_reference(reference.unit)
    form: Any = None
    refused = ""
    try:
        form = ucm.compile(c.U, c.X, c.y).form
    except EmptySetError as error:
        refused = str(error)
    if refused:
        assert said != "optimal" or touching(c.U, data), f"the reference is not empty: {refused}"
        return "empty"
    custom = custom_solver(form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            sol = ucm.compile(c.U, c.X, c.y, solver=custom or "clarabel").solve()
        except SolverError:
            if custom is not None:
                raise
            return "conic route failed"
    told = f"{sol.stats.solver}: {sol.status} {sol.objective:.10g}, the reference is {said} "
    if said == "failed":
        return "reference failed"
    if said == "empty" or sol.status == "infeasible":
        both = said == "empty" and sol.status == "infeasible"
        assert both or touching(c.U, data), told + sol.message
        return "empty" if both else "touching"
    value = reference.scale * float(reference.unit.value)
    told += f"{value:.10g}: {sol.message}"
    size = max(sol.size, abs(value), data.scale)
    off = abs(sol.objective - value)
    if off > TOUCH * (abs(value) + size):
        # a set without interior, as one of a size that is just admissible, is known to less
        assert off <= 1e-3 * size and touching(c.U, data), told
    if custom is not None and abs(value) > TOUCH * size:
        assert sol.status == "optimal", told
        assert sol.certificate.gap >= -(1e-9 + 10 * sol.certificate.violation) * size, told
    return "0 in U" if sol.status == "zero_in_set" else "optimal"


@settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # its metaclass iterates
)
@given(st.data())
def test_custom_route_agrees_with_the_twin(data: st.DataObject) -> None:
    c = case(Drawn(data))
    note(repr(c))
    event(compare(c))


def test_the_samples_of_expressions_are_of_every_kind() -> None:
    """What a fixed run of the generator meets: no answer and no node is missing."""
    cases = [case(Source(seed)) for seed in range(250)]
    met = {type(node).__name__ for c in cases for node in c.U.walk()}
    assert met >= {
        "Ball", "Box", "CappedSimplex", "Ellipsoid", "Hull", "Image", "Intersection", "KLBall",
        "LinearImage", "LossBall", "NormBall", "Point", "ReducedHull", "Scaled", "Simplex", "Sum",
    }  # fmt: skip
    said = collections.Counter(compare(c) for c in cases[:60])
    assert min(said["optimal"], said["0 in U"], said["empty"]) >= 3, said
