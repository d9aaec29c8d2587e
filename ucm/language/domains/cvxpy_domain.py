"""Domains given by CVXPY constraints, without a projection: `CvxpyDomain`, `DomainIntersection`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, SolverError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Domain, OnSimplex, SampleWeights, Size, vector
from ucm.language.cvx import quiet_solve
from ucm.language.node import Notation, operator, restricted
from ucm.language.parameter import Scalar

_ACCURACY = 1e-8  # relative distance that a conic program distinguishes from 0


class ConicDomain(BoundDomain):
    """A domain given by CVXPY constraints, with support function and violation by conic programs."""

    def support(self, g: Vec) -> tuple[float, Vec]:
        g = vector(g)
        unit = float(np.abs(g).max(initial=0.0))
        if unit == 0.0:
            return 0.0, self.center(g.size)
        q = cp.Variable(g.size)
        problem = cp.Problem(cp.Maximize((g / unit) @ q), self.own_constraints(q))
        status = self._solve(problem)
        if status == cp.UNBOUNDED:
            return np.inf, self.center(g.size)
        return float(g @ q.value), q.value

    def violation(self, q: Vec) -> float:
        """Return the Euclidean distance of q from the domain, relative to the size of the domain."""
        q = vector(q)
        p = cp.Variable(q.size, value=q)
        constraints = self.own_constraints(p)
        if all(v is p for c in constraints for v in c.variables()) and all(
            np.max(c.violation(), initial=0.0) == 0.0 for c in constraints
        ):
            return 0.0
        self._solve(cp.Problem(cp.Minimize(cp.norm(p - q, 2)), constraints))
        distance = float(np.linalg.norm(p.value - q)) / self._extent(q.size)[2]
        return 0.0 if distance <= _ACCURACY else distance

    def center(self, dim: int) -> Vec:
        """Return the mean of the support points along two random lines, off the edge but for flat faces."""
        return self._extent(dim)[1].copy()

    def infeasibility_reason(self, dim: int) -> str | None:
        return self._extent(dim)[0]

    @functools.cached_property
    def _extent(self) -> Callable[[int], tuple[str | None, Vec, float]]:
        """The function `_support_points`, cached for each dimension."""
        return functools.cache(self._support_points)

    def _support_points(self, dim: int) -> tuple[str | None, Vec, float]:
        """Return why it is empty or unbounded along random lines (else None), its centre and its size."""
        q, g = cp.Variable(dim), cp.Parameter(dim)
        problem = cp.Problem(cp.Maximize(g @ q), self.own_constraints(q))
        rng, points = np.random.default_rng(0), []
        for r in rng.standard_normal((2, dim)):
            for sign in (1.0, -1.0):
                g.value = sign * r / np.abs(r).max()
                status = self._solve(problem)
                why = ""
                if status == cp.INFEASIBLE:
                    why = f"empty, no q of {dim} entries meets its constraints; relax one of them"
                if status == cp.UNBOUNDED:
                    why = 'unbounded, some q may grow for ever; bound them, as by cp.norm(q, "inf") <= 1'
                if why:
                    return f"{self!r}: {why}", np.zeros(dim), 1.0
                points.append(q.value)
        return None, np.mean(points, axis=0), float(np.linalg.norm(points, axis=1).max()) or 1.0

    def _solve(self, problem: cp.Problem) -> str:
        """Solve a program by Clarabel and return its status: optimal, unbounded or infeasible."""
        try:
            quiet_solve(problem, "CLARABEL")
        except cp.SolverError as error:
            raise SolverError(
                f"clarabel: expected an answer to the conic program of a domain, got none ({error}); "
                "scale its arguments, or write the set with fewer domains"
            ) from None
        status = str(problem.status).removesuffix("_inaccurate")
        if status not in (cp.OPTIMAL, cp.UNBOUNDED, cp.INFEASIBLE):
            raise SolverError(
                f"{self!r}: the conic program of its support function ended with {problem.status}; scale its "
                "constraints"
            )
        return status


class CvxpyDomain(Domain, ConicDomain):
    """The domain of all q that satisfy the CVXPY constraints `build(q)`.

    Its support function and the distance of a point are conic programs. It has no projection, so that
    models with it go to Clarabel; a subclass of `Domain` with a projection takes the faster routes.

    Parameters
    ----------
    build : function
        `build(q)` gives a list of convex constraints for a CVXPY expression q of any length; further
        variables may stand in them. With an `amount` it is `build(q, amount)`, convex in both together, so
        that `ucm.admissible` can ask for the least one.
    amount : float or Param, optional
        The size that makes the domain larger, as a radius does.

    Raises
    ------
    CompositionError
        `build` is no function, or does not return convex constraints.

    Notes
    -----
    It must be bounded and not empty for the number of entries at hand; `compile` checks this first. JSON and
    pickle keep the name of `build`, which must be that of a module; `from_json` takes it from its argument
    `functions`.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import ucm
    >>> def budget(q, amount):
    ...     return [cp.norm(q, "inf") <= 1, cp.norm1(q) <= amount]
    >>> D = ucm.CvxpyDomain(budget, ucm.Param("gamma", 1.5))
    >>> D
    CvxpyDomain(budget, amount=Param('gamma', 1.5))
    >>> round(D.support([3.0, -2.0, 1.0])[0], 6)
    4.0
    """

    build: FunctionType = restricted(
        lambda _: True,
        "expected a function of q that gives CVXPY constraints",
        "write def build(q): return [cp.norm(q) <= 1]",
    )
    amount: Scalar | None = None

    def size(self) -> Size | None:
        return None if self.amount is None else Size(self.amount)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        built = self.build(q) if self.amount is None else self.build(q, size)
        constraints = list(built) if isinstance(built, list | tuple) else [built]
        for c in constraints:
            if not isinstance(c, cp.Constraint):
                raise CompositionError(
                    f"{self!r}: expected a list of CVXPY constraints, got {brief(c)}; return for example "
                    "[cp.norm(q) <= 1]"
                )
            if not c.is_dcp():
                raise CompositionError(
                    f"{self!r}: expected convex constraints, got {c}; write each as convex <= concave or "
                    "affine == affine (the rules of CVXPY)"
                )
        return constraints

    def bind(self, samples: SampleWeights) -> BoundDomain:
        return ConicSimplex(self, samples) if samples.weights is None else super().bind(samples)

    def formula(self, notation: Notation) -> str:
        name = self.build.__name__
        called = notation.symbol(name if name.isidentifier() else "build")
        arguments = "q" if self.amount is None else f"q, {notation.scalar(self.amount)}"
        return f"{called}({arguments})"


class ConicSimplex(ConicDomain, OnSimplex):
    """The intersection of a `CvxpyDomain` with the simplex over samples."""

    def __init__(self, declared: CvxpyDomain, samples: SampleWeights) -> None:
        self.declared, self.samples = declared, samples


class DomainIntersection(Domain, ConicDomain):
    """The intersection of two domains, written `A & B`.

    It has no projection of its own: solvers couple one block for each operand, each bound to the samples. Its
    own support function is a conic program.

    Parameters
    ----------
    left, right : Domain

    Examples
    --------
    >>> import ucm
    >>> D = ucm.NormBall(0.8) & ucm.Box(0.0, 0.5)
    >>> D.violation([0.5, 0.5])
    0.0
    """

    left: Domain
    right: Domain

    def intersected(self) -> list[Domain]:
        return self.left.intersected() + self.right.intersected()

    def violation(self, q: Vec) -> float:
        return max(d.violation(q) for d in (self.left, self.right))

    def infeasibility_reason(self, dim: int) -> str | None:
        reasons = [d.infeasibility_reason(dim) for d in (self.left, self.right)]
        return reasons[0] or reasons[1] or super().infeasibility_reason(dim)

    def cvxpy(self, q: cp.Expression, size: cp.Expression) -> list[cp.Constraint]:
        return self.left.own_constraints(q) + self.right.own_constraints(q)

    def __repr__(self) -> str:
        nested = len(self.right.intersected()) > 1
        return f"{self.left!r} & ({self.right!r})" if nested else f"{self.left!r} & {self.right!r}"

    def formula(self, notation: Notation) -> str:
        return f"{self.left.formula(notation)}, {self.right.formula(notation)}"


@operator("domain &")
def _intersect(left: Domain, right: Domain) -> DomainIntersection:
    return DomainIntersection(left, right)
