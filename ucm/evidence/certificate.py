"""Certificates of convex robust models: duality gaps computed from the declared set.

For x in U and any w with `||w||_p <= 1`, `-||x||_q <= optimum <= sigma_U(-w)`. A point outside of U proves
nothing about U: it is moved inside (`ucm.evidence.feasible_point`), or the lower bound is -inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.feasible_point import moved_inside
from ucm.forms.monitor import CRITICAL, CROSSED, INSIDE
from ucm.forms.solution import Certificate
from ucm.language.contracts import Splits, UncertaintySet
from ucm.language.node import Node
from ucm.language.robust import RobustMargin

_ROUNDING = 1e-14  # rounding left by cancellation, relative to the largest terms of a sum
_NOTHING = 1e-15  # of the loss at w = 0: an objective that counts as 0
_CLEAR = 1e-6  # of the unit: rounding explains no larger contradiction
_DIGITS = 1e-292  # the smallest double over its rounding: products below it lose digits
_REGULAR = 1e-100  # sizes above it and below its inverse have powers that are numbers


class Certified(NamedTuple):
    """A certificate with the normal w and the point x that prove its bounds, and the blocks q of x."""

    certificate: Certificate
    w: Vec
    x: Vec
    q: list[Vec]


def fault(suspect: str, *declared: Node) -> str:
    """Return the text of an error about contradicting bounds, which blames custom classes or the suspect."""
    classes = {type(node) for root in declared for node in root.walk()}
    custom = {cls.__name__ for cls in classes if cls.__module__.split(".")[0] != "ucm"}
    if not custom:
        return f"{suspect} is wrong: please report it"
    return (
        f"{suspect} is wrong, and {', '.join(sorted(custom))} is not of this library; hold it against its "
        "laws with ucm.testing, check_loss, check_penalty, check_domain or check_set"
    )


def bracket(
    primal: float,
    dual: float,
    violation: float,
    unit: float,
    *,
    rounding: float,
    size: float,
    wrong: str | None,
    curved: float = 0.0,
    kind: str = "global",
) -> Certificate:
    """Return the certificate of the bounds `dual <= optimum <= primal`; `unit` is that of the relative gap.

    The dual bound becomes -inf if its point violates the constraints by more than `INSIDE`, that of a
    critical point (another `kind` than "global") by more than `CRITICAL`. If the
    bounds cross by more than `CROSSED`, both move apart by the rounding of their terms; if rounding
    does not explain the crossing and the violation may, the dual bound becomes -inf. No gap below
    `-CROSSED` remains.

    `size` is that of the points, to tell an overflow; `curved` is how far apart rounding of the
    violation may bring the bounds. A larger contradiction raises `SolverError` with the `fault` of
    `wrong`; None where bounds may contradict each other. `kind` is that of two finite bounds; it is
    "none" where one is infinite or NaN.
    """
    if not violation <= (INSIDE if kind == "global" else CRITICAL):
        dual = -math.inf
    gap = primal - dual
    if gap < -CROSSED * unit:
        if violation == 0.0 and gap >= -2.0 * rounding:
            primal, dual = primal + rounding, dual - rounding
        else:
            if wrong is not None and gap < -(_CLEAR * unit + 2.0 * rounding + curved):
                if not _REGULAR < size < 1.0 / _REGULAR:
                    wrong = f"powers of numbers of size {size:.3g} over- or underflow); scale the features"
                where = f"the certificate contradicts the answer (relative gap {gap / unit:.2g}"
                raise SolverError(f"{where}, {wrong}")
            dual = -math.inf
        gap = primal - dual
    relative = gap / unit if math.isfinite(gap) else math.inf
    if math.isnan(gap) or not math.isfinite(unit):  # numbers overflow: an answer that is refused
        relative = math.nan
    proven = math.isfinite(gap) and math.isfinite(unit)
    return Certificate(primal, dual, gap, relative, violation, kind if proven else "none")


def interval(
    primal: float, norm: float, violation: float, scale: float, *, wrong: str, size: float = 0.0
) -> Certificate:
    """Return the certificate of the bounds `-||x||_q <= optimum <= sigma_U(-w)` of a robust model.

    `violation` is the relative distance of x from U, NaN for no point; `size` is that of the terms of
    x, whose cancellation leaves rounding, by default the scale of the data.
    """
    size = size or scale
    unit = max(norm, 1e-12 * scale)
    # where a domain is curved, a violation of v allows a point sqrt(v) outside
    curved = 10.0 * math.sqrt(violation) * max(norm, size) if violation <= INSIDE else math.inf
    return bracket(
        primal, -norm, violation, unit, rounding=_ROUNDING * size,
        size=max(scale, size), wrong=f"a point of U nearer than its support allows); {wrong}",
        curved=curved,
    )  # fmt: skip


def of_objective(
    primal: float,
    dual: float,
    violation: float,
    at_zero: float,
    cancelled: float = 0.0,
    *,
    kind: str,
    wrong: str | None,
) -> Certificate:
    """Return the certificate of primal and dual bounds of `loss + penalty`, relative to the primal value.

    `at_zero` is the loss at w = 0, b = 0, which has the size of the terms of both bounds, `cancelled` that of
    further terms that cancel, as a folded penalty is the difference of two that grow; `wrong` is the `fault`
    where a dual point is above the primal one, None where one may be. Terms of a value that is not 0 but
    below `_DIGITS` have underflowed: it has no lower bound.
    """
    if 0.0 < abs(primal) < _DIGITS:
        dual = -math.inf
    if primal < dual and max(abs(primal), abs(dual)) <= _NOTHING * at_zero:  # the rounding of nothing
        dual = primal
    blame = None if wrong is None else f"a dual point above the primal one); {wrong}"
    size, rounding = abs(primal) or 1e-300, _ROUNDING * (at_zero + cancelled)
    return bracket(primal, dual, violation, size, rounding=rounding, size=size, wrong=blame, kind=kind)


def unproven(dual: float = -math.inf, violation: float = math.nan) -> Certificate:
    """Return the certificate without an upper bound: of no answer, or of w = 0 and a point of U near 0."""
    return bracket(math.inf, dual, violation, 1.0, rounding=0.0, size=1.0, wrong=None)


def without_lower_bound(certificate: Certificate) -> Certificate:
    """Return a certificate with its upper bound alone, where its lower bound is not of this problem."""
    return replace(certificate, dual=-math.inf, gap=math.inf, relative_gap=math.inf, kind="none")


def is_proven(certificate: Certificate, tol: float) -> bool:
    """True if a certificate proves global optimality to the relative gap `tol` at a point within `INSIDE`."""
    proven = -CROSSED <= certificate.relative_gap <= tol
    return proven and certificate.kind == "global" and certificate.violation <= INSIDE


def certify(
    model: RobustMargin,
    data: Data,
    q: Sequence[Vec],
    w: Vec | None = None,
    splits: Splits | None = None,
    tol: float = 0.0,
    *,
    size: float = 0.0,
    terms: Callable[[], float] = float,
) -> Certified:
    """Return the certificate of a robust model from the blocks q of a point and an optional normal w.

    Both bounds come from the definition of U (its `evaluate` and its `support`); the lowered form only
    serves to move a point outside of U into U. w has any length; `splits` are for `||w||_p = 1`. The
    dual vector of x is tried unless w closes the gap to `tol`, and taken where its gap is smaller.
    `terms` computes a `size` of `interval` that takes work, where the bounds cross.
    """
    U: UncertaintySet = model.set
    q = list(q)
    w = None if w is None else data.space.direction(w, model.norm)
    x, violation = U.evaluate(data, iter(q))
    norm = data.space.norm(x, model.dual)
    splits = splits or {}
    primal, chosen = np.inf, np.zeros_like(x) if w is None else w
    if w is not None:
        primal = U.support(data, -w, splits)[0]
    if violation > INSIDE or primal + norm < -CROSSED * norm:
        moved = moved_inside(U, data, (q, x, violation))
        if moved is not None:
            q, x, violation = moved
            norm = data.space.norm(x, model.dual)
    if norm > 0.0 and not abs(primal + norm) <= tol * norm:
        unit = data.space.dual_vector(x, model.dual)
        height = U.support(data, -unit, splits)[0]
        if height < primal or w is None:
            primal, chosen = height, unit
    elif w is None:
        primal = 0.0
    wrong = ""
    if primal + norm < -CROSSED * norm:  # only then the size of the terms and the text matter
        size, wrong = max(size, terms()), fault("the lowering of this set", model)
    certificate = interval(primal, norm, violation, data.scale, size=size, wrong=wrong)
    return Certified(certificate, chosen, x, q)
