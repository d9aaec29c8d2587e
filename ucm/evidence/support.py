"""Support functions of declared sets: the value, a point that supports, and the error that is proven."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ucm.data.bound import Data, bind
from ucm.data.linear import Vec
from ucm.data.options import options_of
from ucm.data.weighing import ClassWeight
from ucm.errors import DataError, EmptySetError, SolverError, brief, unknown_option
from ucm.evidence.relative import resolved
from ucm.forms.distance import MinNorm
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.robust import RobustMargin, as_model
from ucm.language.sets.combination import Combination, is_number, times
from ucm.language.sets.union import ConvexUnion
from ucm.solvers.programs import Blocks, accuracy, attempt

__all__ = ["Height", "Heights", "support", "vector_of"]

_ACCURACY = 1e-10  # of Clarabel, first; then its own


class Height(NamedTuple):
    """The support of a set in one direction.

    Attributes
    ----------
    value : `max <d, x>` over the set, an upper bound of it; inf where there is no largest
    point : of the set; None where the value is inf
    error : `value - <d, point>`, so that the maximum lies in `[value - error, value]`
    """

    value: float
    point: Vec | None
    error: float


@dataclass
class Heights:
    """The support function of a declared set over bound samples.

    A sum and a union ask their terms, each in its own way. A set that knows no maximiser, as an
    intersection, is one conic program, written once: its multipliers split the direction among the operands,
    which proves the bound.

    Attributes
    ----------
    U : the set
    data : bound samples
    """

    U: UncertaintySet
    data: Data
    _programs: dict[UncertaintySet, _Program] = field(default_factory=dict, repr=False)

    def __call__(self, d: Vec) -> Height:
        """The support in the direction d."""
        return self._of(self.U, d)

    def _of(self, U: UncertaintySet, d: Vec) -> Height:
        if isinstance(U, Combination):
            parts = [(L, self._of(V, times(L if is_number(L) else L.T, d))) for V, L in U.terms()]
            points = [times(L, part.point) for L, part in parts if part.point is not None]
            whole = reduce(add, points) if len(points) == len(parts) else None
            height = sum(part.value for _, part in parts)
            return Height(height, whole, sum(part.error for _, part in parts))
        if isinstance(U, ConvexUnion):
            each = [self._of(V, d) for V in U.sets]
            top, known = max(h.value for h in each), max(h.value - h.error for h in each)
            best = next(h for h in each if h.value - h.error == known)
            return Height(top, best.point, top - known)
        height, x = U.support(self.data, d, {})
        if x is not None:
            return Height(height, x if np.isfinite(height) else None, 0.0)
        if U not in self._programs:
            self._programs[U] = _Program(U, self.data)
        return self._programs[U].height(d)


class _Program:
    """`max <g, x>` over a lowered set, g a parameter."""

    def __init__(self, U: UncertaintySet, data: Data) -> None:
        self.U, self.data = U, data
        self.form = MinNorm.of(U.lower(data), 2.0, data.stored, data.space)
        self.blocks = Blocks(self.form)
        self.g = cp.Parameter(self.form.n)
        z = cp.multiply(1.0 / self.blocks.sizes, self.blocks.x)
        self.problem = cp.Problem(cp.Maximize(self.g @ z), self.blocks.constraints)

    def height(self, d: Vec) -> Height:
        g = self.blocks.sizes * d
        unit = float(np.abs(g).max(initial=0.0)) or 1.0
        self.g.value = g / unit
        failure, tried = "", ({**accuracy("CLARABEL", _ACCURACY)}, {})
        for options in tried:
            failure = attempt(self.problem, "CLARABEL", **options)
            if not failure and not str(self.problem.status).endswith("inaccurate"):
                break
        status = str(self.problem.status)
        if status.startswith("unbounded"):
            return Height(np.inf, None, 0.0)
        if status.startswith("infeasible"):
            raise EmptySetError(
                f"{self.U!r}: expected a point of every operand, got an empty set; enlarge one of them"
            )
        if failure or self.blocks.q[0].value is None:
            raise SolverError(
                f"{self.U!r}: the conic program of its support function ended with "
                f"{failure or status}; scale the features"
            )
        x, _ = self.U.rebuild(self.data, iter(self.blocks.point()))
        bounds = [self.U.support(self.data, d, {})[0]]
        for sign in (1.0, -1.0):  # a wrong split is a bound too, if a bad one
            shares = self.blocks.multipliers(sign * unit)
            splits = {c.path: mu for c, mu in zip(self.form.couplings, shares, strict=True)}
            bounds.append(self.U.support(self.data, d, splits)[0])
        top = min(bounds)
        return Height(top, x, max(top - float(d @ x), 0.0))


def support(
    U: UncertaintySet | RobustMargin,
    X: Any,
    y: Any,
    d: Any,
    *,
    class_weight: ClassWeight = None,
    sample_weight: Any = None,
    subgroup: Any = None,
    pos_label: Any = None,
    **unknown: Any,
) -> Height:
    """Compute the support function `max <d, x>` over x in U, with a maximiser and its error.

    Parameters
    ----------
    U : uncertainty set or RobustMargin
        The declared set.
    X, y : as in `ucm.compile`
        Samples and labels.
    d : (n,) array
        A direction of the space of U.
    class_weight, sample_weight, subgroup, pos_label : optional
        As in `ucm.compile`.
    **unknown
        Refused, with the nearest option.

    Returns
    -------
    value : float
        An upper bound of the maximum from the definition of U; inf where there is none.
    point : (n,) array
        The point of U that attains it within `error`; None where the value is inf.
    error : float
        `value - <d, point>`: 0 where the maximum is known in closed form, what a conic program leaves at
        intersections.

    Raises
    ------
    DataError
        X, y or d cannot be used.
    CompositionError
        No set, or one of another dimension than the samples.
    EmptySetError
        U has no point.

    Notes
    -----
    The support function of `A & B` is the least `sigma_A(d - s) + sigma_B(s)` over s: Rockafellar (1970),
    Convex analysis, Corollary 16.4.1. The multipliers of the program are such an s.

    Examples
    --------
    >>> import ucm
    >>> X, y = [[0.0, 0.0], [2.0, 1.0], [1.0, 3.0]], [-1, 1, 1]
    >>> value, point, error = ucm.support(ucm.Hull(ucm.pos) - ucm.neg.mean, X, y, [1.0, 1.0])
    >>> value, point, error
    (4.0, array([1., 3.]), 0.0)
    """
    if unknown:
        raise unknown_option("support", unknown, options_of(support))
    data = bind(X, y, class_weight, sample_weight, subgroup, pos_label)
    model = resolved(as_model(U, "support"), data)
    n = model.set.dimension(data.n)
    why = model.set.infeasibility(data)
    if why is not None:
        raise EmptySetError(why)
    return Heights(model.set, data)(vector_of(d, data.n if n is None else n, "support: d"))


def vector_of(v: Any, size: int | None, name: str) -> Vec:
    """A vector of finite numbers of this length; of any for None.

    Raises
    ------
    DataError
        It is none.
    """
    try:
        found = np.asarray(v, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    right = found.ndim == 1 and size in (None, found.size)
    if not right or not np.isfinite(found).all() or np.ma.is_masked(v):
        count = "" if size is None else f"{size} "
        raise DataError(
            f"{name}: expected a vector of {count}finite numbers, got {brief(v)}; give one for each entry"
        )
    return found
