"""Vectors of fixed mass: the arithmetic of the simplex, whole, capped, or cut by a ball.

A mass constraint is `sum q_i = mass` over some of the entries of q >= 0: all of them with mass 1, or,
with classes +1 and -1, those of each class with mass 1/2.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import Node

__all__ = [
    "ROUNDING",
    "Jacobian",
    "clip_to_mass",
    "constraints",
    "copies_of",
    "counts",
    "delivered",
    "fill_to_mass",
    "greedy",
    "groups",
    "jacobian",
    "kinks",
    "labels",
    "no_entries",
    "order_interval",
    "other_copies",
    "outside",
    "project_capped",
    "snap",
    "soft_to_mass",
    "totals",
    "uniform",
    "vector",
]

ROUNDING = 1e-12
"""Relative slack below which a point counts as inside and a boundary value as admissible."""

_NO_CLASSES: Vec = np.empty(0)
_latest: tuple[Callable[[], Any], list[tuple[Any, float]]] = (lambda: None), []
"""Classes that do not change, and their groups: a solve asks for those of its labels tens of times."""


def vector(x: Any) -> Vec:
    return np.ascontiguousarray(x, dtype=np.float64)


def labels(classes: Vec | None) -> Vec:
    """The labels for compiled code: empty when there are none."""
    return _NO_CLASSES if classes is None else vector(classes)


def groups(dim: int, classes: Vec | None) -> list[tuple[Any, float]]:
    """Index and mass of every mass constraint: all of it, or +1 and -1 with 1/2 each."""
    if classes is None:
        return [(slice(0, dim), 1.0)]
    global _latest
    y, (of, found) = np.asarray(classes), _latest
    if of() is not y:
        found = [(np.flatnonzero(y > 0), 0.5), (np.flatnonzero(y < 0), 0.5)]
        if not y.flags.writeable and y.base is None:  # it stays as it is
            _latest = weakref.ref(y), found
    return found


def counts(dim: int, classes: Vec | None) -> list[int]:
    """How many entries each mass has."""
    if classes is None:
        return [dim]
    y = np.asarray(classes)
    return [int(np.count_nonzero(y > 0)), int(np.count_nonzero(y < 0))]


def totals(dim: int, classes: Vec | None, copies: Vec | None) -> list[float]:
    """How many copies each mass has."""
    c = np.ones(dim) if copies is None else copies
    return [float(c[index].sum()) for index, _ in groups(dim, classes)]


def uniform(dim: int, classes: Vec | None, copies: Vec | None = None) -> Vec:
    """The centre of the simplex; with `copies` each entry in proportion to how many it stands for."""
    q = np.empty(dim)
    for index, mass in groups(dim, classes):
        if copies is None:
            q[index] = mass / q[index].size
        else:
            q[index] = copies[index] * (mass / copies[index].sum())
    return q


def outside(q: Vec, classes: Vec | None) -> float:
    """Relative error of the masses, and negative mass."""
    worst = 0.0
    for index, mass in groups(q.size, classes):
        part = q[index]
        below = -np.minimum(part, 0.0).sum() if part.min() < 0.0 else 0.0
        worst = max(worst, abs(part.sum() - mass) / mass, below / mass)
    return float(worst)


def constraints(q: cp.Expression, classes: Vec | None) -> list[cp.Constraint]:
    """The simplex in CVXPY."""
    if classes is None:
        return [q >= 0, cp.sum(q) == 1]
    y = np.asarray(classes)
    return [q >= 0, (y > 0).astype(float) @ q == 0.5, (y < 0).astype(float) @ q == 0.5]


def snap(violation: float) -> float:
    """Zero up to rounding."""
    return 0.0 if violation <= ROUNDING else float(violation)


# --- caps ------------------------------------------------------------------------------------------
def project_capped(v: Vec, out: Vec | None, classes: Vec | None, caps: list[float]) -> Vec:
    """`argmin ||q - v||` over `0 <= q <= cap` and the masses: `q = clip(v - theta, 0, cap)`, theta the
    root of `sum q = mass`, by Newton's method on that piecewise linear function: Cominetti,
    Mascarenhas and Silva (2014), A Newton's method for the continuous quadratic knapsack problem."""
    v = vector(v)
    plain = out is not None and out.dtype == v.dtype and out.ndim == 1 and out.flags.c_contiguous
    q = out if out is not None and plain else np.empty_like(v)
    if numerics.ready("capped"):
        numerics.project_capped(v, labels(classes), caps[0], caps[-1], q)
    else:
        found = np.empty_like(v)
        for (index, mass), cap in zip(groups(v.size, classes), caps, strict=True):
            part = v[index]
            found[index] = clip_to_mass(part, np.full(part.size, min(cap, mass)), mass)
        q[...] = found
    return delivered(q, out)


def delivered(q: Vec, out: Vec | None) -> Vec:
    """`q`, in `out` when one was given."""
    if out is None or out is q:
        return q
    out[...] = q
    return out


def soft_to_mass(v: Vec, mass: float) -> Vec:
    """The nearest point with `||q||_1 <= mass`: a soft threshold, found as theta above."""
    size = np.abs(vector(v))
    if size.sum() <= mass:
        return vector(v).copy()
    if mass <= 0.0:
        return np.zeros(size.size)
    ref, shift = numerics.threshold(size, np.inf, mass)
    return np.sign(v) * np.maximum((size - ref) - shift, 0.0)


def greedy(g: Vec, caps: list[float], classes: Vec | None) -> Vec:
    """A maximiser of <g, q> on the capped simplex: largest entries first, ties share evenly."""
    q = np.zeros(g.size)
    for (index, mass), cap in zip(groups(g.size, classes), caps, strict=True):
        part = g[index]
        at_cap = _whole(mass / cap, part.size)
        if at_cap >= part.size:
            q[index] = mass / part.size
            continue
        theta = np.partition(part, part.size - 1 - at_cap)[part.size - 1 - at_cap]
        above = part > theta
        tied = np.flatnonzero(part == theta)
        filled = np.count_nonzero(above)
        weights = above * cap if filled else np.zeros(part.size)
        weights[tied] = max((mass - cap * filled if filled else mass) / tied.size, 0.0)
        q[index] = weights
    return q


def order_interval(part: Vec, mass: float, cap: float) -> tuple[float, float]:
    """The multipliers of the mass of a capped simplex at a maximiser: order statistics."""
    k = _whole(mass / cap, part.size)
    if k == 0 or abs(mass / cap - k) > ROUNDING * k:
        theta = float(np.partition(part, part.size - 1 - k)[part.size - 1 - k])
        return theta, theta
    if k == part.size:
        return -np.inf, float(part.min())
    ordered = np.partition(part, [part.size - 1 - k, part.size - k])
    return float(ordered[part.size - 1 - k]), float(ordered[part.size - k])


def _whole(ratio: float, most: int) -> int:
    """`floor(ratio)` up to rounding, at most `most`."""
    return int(min(np.floor(ratio * (1.0 + ROUNDING)), most))


# --- a cap for each entry --------------------------------------------------------------------------
def kinks(v: Vec, caps: Vec) -> tuple[Vec, Vec]:
    """`sum clip(v - theta, 0, caps)` where it is not linear in theta: the sums, ascending, and theta."""
    at = np.concatenate([v, v - caps])
    order = np.argsort(-at, kind="stable")
    slopes = np.cumsum(np.repeat([1.0, -1.0], v.size)[order])[:-1]  # between one kink and the next
    at = at[order]
    return np.concatenate([[0.0], np.cumsum(slopes * -np.diff(at))]), at


def clip_to_mass(v: Vec, caps: Vec, mass: float) -> Vec:
    """`clip(v - theta, 0, caps)` of this mass."""
    sums, at = kinks(v, caps)
    k = min(max(int(np.searchsorted(sums, mass)), 1), at.size - 1)
    theta = 0.5 * (at[k - 1] + at[k])
    free, full = (v > theta) & (v - caps < theta), v - caps >= theta
    if free.any():  # the linear piece, without the rounding of the sums or of large entries
        v = v - v[free][0]
        theta = v[free].mean() - (mass - caps[full].sum()) / np.count_nonzero(free)
    return np.clip(v - theta, 0.0, caps)


def fill_to_mass(g: Vec, caps: Vec, mass: float) -> tuple[Vec, tuple[float, float]]:
    """A maximiser of <g, q> over `0 <= q <= caps` of this mass, the largest entries first and ties in
    proportion to their caps, and the interval of multipliers of the mass there."""
    order = np.argsort(-g, kind="stable")
    sums = np.cumsum(caps[order])
    k = min(int(np.searchsorted(sums, mass * (1.0 - ROUNDING))), g.size - 1)
    theta = float(g[order[k]])
    q = np.where(g > theta, caps, 0.0)
    tied = g == theta
    q[tied] = caps[tied] * min((mass - float(q.sum())) / float(caps[tied].sum()), 1.0)
    below = g[g < theta]
    if float(q[tied].sum()) < float(caps[tied].sum()) * (1.0 - ROUNDING):
        return q, (theta, theta)
    return q, (float(below.max()) if below.size else -np.inf, theta)


# --- Jacobians -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Jacobian:
    """The symmetric matrix `diag(d) + U S U'`, 0 <= J <= I, of order N with U (N, r), S (r, r).

    Attributes
    ----------
    d, U, S : its parts
    """

    d: Vec
    U: NDArray[np.float64]
    S: NDArray[np.float64]

    def matvec(self, v: Vec) -> Vec:
        return self.d * v + self.U @ (self.S @ (self.U.T @ v))


def jacobian(w: Vec, parts: list[tuple[Any, float]], normal: Vec | None = None) -> Jacobian:
    """Jacobian of a projection on {h(q) <= r, fixed masses}, h separable and convex.

    With multipliers lam of h and theta of the masses, `q + lam h'(q) = v - theta` where q is free:

        J = W - W N (N' W N)^+ N' W,    W = diag(free_i / (1 + lam h_i'')),

    with the class indicators and, where h is active, `normal` = h'(q) as the columns of N. Taking
    from `normal` its W-weighted class means makes N' W N diagonal.
    """
    columns = []
    n = np.zeros(w.size) if normal is None else np.where(w > 0.0, normal, 0.0)
    length = float(w @ (n * n))
    for index, _ in parts:
        total = float(w[index].sum())
        if total <= 0.0:
            continue
        column = np.zeros(w.size)
        column[index] = w[index] / np.sqrt(total)
        columns.append(column)
        n[index] -= float(w[index] @ n[index]) / total
    rest = float(w @ (n * n))
    if rest > 1e-24 * length:
        columns.append(w * n / np.sqrt(rest))
    U = np.column_stack(columns) if columns else np.zeros((w.size, 0))
    return Jacobian(d=w, U=U, S=-np.eye(len(columns)))


def copies_of(given: Any, where: str = "") -> Vec:
    """How many copies each entry stands for; refuses what tells none."""
    try:
        copies = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        copies = np.zeros(1)
    if copies.ndim != 1 or not ((copies > 0.0) & (copies < np.inf)).all():
        raise CompositionError(
            f"{where}: copies are positive numbers, one for each entry, got {brief(given)}; "
            "leave an entry of weight 0 out"
        )
    return copies


def other_copies(node: Node, copies: Vec, dim: int) -> str:
    """Why a domain with copies of its entries has no meaning in another dimension."""
    return (
        f"{type(node).__name__}: empty, {copies.size} entries have copies, got dimension {dim}; "
        "give one number for each entry"
    )


def no_entries(node: Node, dim: int, classes: Vec | None) -> str | None:
    """Why a simplex is empty in this dimension whatever its parameter."""
    if min(counts(dim, classes)) > 0:
        return None
    where = "there are no entries" if classes is None else "one class has no entries"
    each = "" if classes is None else " of each class"
    return f"{node!r}: empty, {where}; give at least one{each}"
