"""What the domains share: vectors, classes and masses, text, and the form of every Jacobian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language.contracts import Jacobian
from ucm.language.node import Param, Scalar, value

if TYPE_CHECKING:
    import cvxpy as cp

ROUNDING = 1e-12
"""Relative slack below which a point counts as inside and a boundary value as admissible."""

NO_CLASSES: Vec = np.empty(0)


def vector(x: Any) -> Vec:
    return np.ascontiguousarray(x, dtype=np.float64)


def labels(classes: Vec | None) -> Vec:
    """The labels for compiled code: empty when there are none."""
    return NO_CLASSES if classes is None else vector(classes)


def groups(dim: int, classes: Vec | None) -> list[tuple[Any, float]]:
    """Index and mass of every mass constraint: all of it, or +1 and -1 with 1/2 each."""
    if classes is None:
        return [(slice(0, dim), 1.0)]
    y = np.asarray(classes)
    return [(np.flatnonzero(y > 0), 0.5), (np.flatnonzero(y < 0), 0.5)]


def masses(classes: Vec | None) -> list[float]:
    """The mass of every class."""
    return [1.0] if classes is None else [0.5, 0.5]


def counts(dim: int, classes: Vec | None) -> list[int]:
    if classes is None:
        return [dim]
    y = np.asarray(classes)
    return [int(np.count_nonzero(y > 0)), int(np.count_nonzero(y < 0))]


def uniform(dim: int, classes: Vec | None) -> Vec:
    """The centre of the simplex."""
    q = np.empty(dim)
    for index, mass in groups(dim, classes):
        q[index] = mass / q[index].size
    return q


def no_entries(dim: int, classes: Vec | None) -> str | None:
    """The reason why a simplex is empty in this dimension whatever its parameter."""
    if min(counts(dim, classes)) > 0:
        return None
    where = "there are no entries" if classes is None else "one class has no entries"
    return f"empty, {where}; give at least one" + ("" if classes is None else " of each class")


def named(scalar: Scalar, what: str) -> str:
    """`the cap eta = 0.1`, or `the cap 0.1` for a constant."""
    name = f"{scalar.name} = " if isinstance(scalar, Param) else ""
    return f"the {what} {name}{value(scalar):.6g}"


def subject(scalar: Scalar, what: str) -> str:
    """The name to use where the admissible range is stated."""
    return scalar.name if isinstance(scalar, Param) else f"the {what}"


def snap(violation: float) -> float:
    """Zero up to rounding."""
    return 0.0 if violation <= ROUNDING else float(violation)


def mass_violation(q: Vec, classes: Vec | None) -> float:
    """Relative error of the masses, and negative mass."""
    worst = 0.0
    for index, mass in groups(q.size, classes):
        part = q[index]
        below = -np.minimum(part, 0.0).sum() if part.min() < 0.0 else 0.0
        worst = max(worst, abs(part.sum() - mass) / mass, below / mass)
    return float(worst)


def simplex_constraints(q: cp.Expression, classes: Vec | None) -> list[cp.Constraint]:
    import cvxpy as cp

    if classes is None:
        return [q >= 0, cp.sum(q) == 1]
    y = np.asarray(classes)
    return [q >= 0, (y > 0).astype(float) @ q == 0.5, (y < 0).astype(float) @ q == 0.5]


def jacobian(w: Vec, parts: list[tuple[Any, float]], normal: Vec | None = None) -> Jacobian:
    """Jacobian of a projection on {h(q) <= r, fixed masses}, h separable and convex.

    With multipliers lam of h and theta of the masses, `q + lam h'(q) = v - theta` where q is free:

        J = W - W N (N' W N)^+ N' W,    W = diag(free_i / (1 + lam h_i'')),

    with the class indicators and, where h is active, `normal` = h'(q) as the columns of N. Taking
    from `normal` its W-weighted class means makes N' W N diagonal.
    """
    columns = []
    inverse = []
    n = np.zeros(w.size) if normal is None else np.where(w > 0.0, normal, 0.0)
    length = float(w @ (n * n))
    for index, _ in parts:
        total = float(w[index].sum())
        if total <= 0.0:
            continue
        column = np.zeros(w.size)
        column[index] = w[index]
        columns.append(column)
        inverse.append(1.0 / total)
        n[index] -= float(w[index] @ n[index]) / total
    rest = float(w @ (n * n))
    if rest > 1e-24 * length:
        columns.append(w * n)
        inverse.append(1.0 / rest)
    U = np.column_stack(columns) if columns else np.zeros((w.size, 0))
    return Jacobian(d=w, U=U, S=-np.diag(inverse) if inverse else np.zeros((0, 0)))


def product(g: Vec, q: Vec) -> float:
    """`<g, q>` in this thread: those of BLAS wait for each other on a busy machine (measured: 1.6 ms
    for 24,000 entries, not 0.01)."""
    return float(np.einsum("i,i->", g, q))


def greedy(g: Vec, caps: list[float], classes: Vec | None) -> Vec:
    """A maximiser of <g, q> on the capped simplex: largest entries first, ties share evenly."""
    q = np.zeros(g.size)
    for (index, mass), cap in zip(groups(g.size, classes), caps, strict=True):
        part = g[index]
        at_cap = whole(mass / cap, part.size)
        if at_cap >= part.size:
            q[index] = mass / part.size
            continue
        theta = np.partition(part, part.size - 1 - at_cap)[part.size - 1 - at_cap]
        above = part > theta
        level = np.flatnonzero(part == theta)
        filled = np.count_nonzero(above)
        weights = above * cap if filled else np.zeros(part.size)
        weights[level] = max((mass - cap * filled if filled else mass) / level.size, 0.0)
        q[index] = weights
    return q


def whole(ratio: float, most: int) -> int:
    """`floor(ratio)` up to rounding, at most `most`."""
    return int(min(np.floor(ratio * (1.0 + ROUNDING)), most))


def order_interval(part: Vec, mass: float, cap: float) -> tuple[float, float]:
    """The multipliers of the mass of a capped simplex at a maximiser: order statistics."""
    k = whole(mass / cap, part.size)
    if k == 0 or abs(mass / cap - k) > ROUNDING * k:
        theta = float(np.partition(part, part.size - 1 - k)[part.size - 1 - k])
        return theta, theta
    if k == part.size:
        return -np.inf, float(part.min())
    ordered = np.partition(part, [part.size - 1 - k, part.size - k])
    return float(ordered[part.size - 1 - k]), float(ordered[part.size - k])


def scalar_field(owner: object, scalar: Scalar, what: str) -> None:
    """Refuses what is neither a number nor a `Param`."""
    if not isinstance(scalar, float | Param):
        raise CompositionError(
            f"{type(owner).__name__}: {what}: expected a real number or a Param, got {brief(scalar)}"
        )


def is_plain(out: Vec) -> bool:
    """Whether compiled code can write into `out` directly."""
    return out.dtype == np.float64 and out.ndim == 1 and out.flags.c_contiguous


def delivered(q: Vec, out: Vec | None) -> Vec:
    """`q`, in `out` when one was given."""
    if out is None or out is q:
        return q
    out[...] = q
    return out


def curved_levels(
    g: Vec, parts: list[tuple[Any, float]], theta: tuple[float, ...] | None
) -> list[tuple[float, float]]:
    """Levels of a domain with a curved bound: unique. Without theta the bound is slack, and q
    stands at the largest entries. At the smallest radius there is no multiplier: theta falls
    without bound, from the class mean of g."""
    if theta is None:
        theta = tuple(float(g[index].max()) for index, _ in parts)
    return [
        (x, x) if x > -np.inf else (x, float(g[index].mean()))
        for x, (index, _) in zip(theta, parts, strict=True)
    ]
