"""Certificates of `min f(w)` over `||w||_p = 1` for 0 in U: stationarity residual and lower bounds.

Both are computed from the declaration; any solver may find the points of U behind a lower bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from ucm.data.bound_data import Data, GramSpace
from ucm.data.linear_map import Vec
from ucm.errors import SolverError, brief
from ucm.evidence.certificate import bracket, fault
from ucm.evidence.feasible_point import member
from ucm.evidence.local_minimum import row_rank
from ucm.forms.faces import min_norm_point
from ucm.forms.monitor import INSIDE, SEPARATED
from ucm.forms.solution import Certificate
from ucm.forms.solver import Answer
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof, stays_inside
from ucm.language.robust import RobustMargin, dual_exponent
from ucm.numerics.trust_region import nearest_on_ellipsoid

_CLEAR = 1e-6  # relative to the size of U, above rounding errors
_ROUNDING = 1e-13  # of the size of U
_TRIALS = 3  # random w against which a lower bound is held


# --- how far w is from stationary -----------------------------------------------------------------
def certify_unit(
    model: RobustMargin, data: Data, form: UnitNorm, answer: Answer, w: Vec, floor: float, size: float
) -> tuple[Certificate, Vec]:
    """Return the certificate of a unit normal w if 0 lies in U, and the point x of the answer.

    x is moved into U if it lies near U.

    f(w) is the declared support; -x is a subgradient of f at w when `-w'x = f(w)`. The residual is
    `||x + f(w) n||` in the span of U, n the subgradient of the norm at w nearest to `-x / f(w)`, plus the
    difference `f(w) + w'x`. It bounds the distance of 0 from the subdifferential of the Lagrangian.

    w has length 1 and lies in the span of U; `floor` is a known lower bound, `size` that of the points of U.
    A positive bound is held against the declared set first (`contradiction`).
    """
    x, violation = member(model, data, list(answer.q))
    f = float(model.set.support(data, -w, form.image.splits(answer))[0])
    v = form.lower(w)
    target = form.lower(-x) / f if f > 0.0 else np.zeros_like(v)
    remainder = form.lower(x) + f * normal_near(form, v, target)
    residual = data.space.norm(remainder) + max(f + data.space.inner(w, x), 0.0)
    if answer.witness is not None:
        bound = lower_bound(model, data, form, answer.witness)
        if bound > f + _CLEAR * size:
            raise SolverError(
                f"the solver's witness: expected a bound below the objective {f:.6g} of its w, got "
                f"{bound:.6g}; take another solver"
            )
        floor = max(floor, bound)
    rounding = SEPARATED if data.gram is None else GramSpace.resolution
    if floor > 0.0 and (wrong := contradiction(model, data, form, floor, size)):
        raise SolverError(f"{wrong}); {fault('the span of this set', model)}")
    certificate = bracket(
        f, floor, 0.0, max(abs(f), 1e-12 * data.scale), rounding=rounding * size, size=size,
        curved=10.0 * _CLEAR * size, kind="local",
        wrong="a direction that separates 0 from a set that holds it); "
        + fault("the lowering of this set", model),
    )  # fmt: skip
    span = form.rank if form.flat else None
    return replace(certificate, violation=violation, residual=residual, span=span), x


def contradiction(model: RobustMargin, data: Data, form: UnitNorm, bound: float, size: float) -> str:
    """Return why a lower bound of `min f(w)` over the span of U contradicts the declared set; "" if nothing.

    f is at least the bound at random w of the span, and the width of U along a random direction orthogonal to
    the span is 0. The width is a seminorm, so that this one direction finds a missing part of the span with
    probability one.
    """
    generator, (p, n) = np.random.default_rng(0), (model.norm, form.image.n)

    def width(u: Vec) -> float:
        ends = (model.set.support(data, sign * u, {})[0] for sign in (1.0, -1.0))
        return sum(ends) / data.space.norm(u)

    for v in generator.standard_normal((_TRIALS, form.rank)):
        w = form.lift(form.inside(v))
        f = model.set.support(data, -w, {})[0]
        if f < bound * data.space.norm(w, p) - _CLEAR * size:
            return f"the certificate contradicts the support function (bound {bound:.6g} for f of random w"
    if form.flat:
        u = form.image.off_lines(generator.standard_normal(n))
        u = u - form.lift(form.lower(u))
        beside, along = width(u), width(form.lift(generator.standard_normal(form.rank)))
        if beside > _CLEAR * max(size, along):
            return f"the certificate contradicts the support function (width {beside:.2g} beside the span"
    return ""


def normal_near(form: UnitNorm, v: Vec, target: Vec) -> Vec:
    """Return the subgradient of `||w||_p` at v nearest to `target`, in the coordinates of the form."""
    base, kinks = form.normals(v)
    if not kinks:
        return base
    points = np.concatenate(kinks)
    group = np.repeat(np.arange(len(kinks)), [k.shape[0] for k in kinks])
    ones = np.ones(points.shape[0])
    _, remainder = min_norm_point(base - target, points, ones, group, np.ones(len(kinks)))
    return target + remainder


def at_kink(form: UnitNorm, w: Vec) -> bool:
    """True if the norm `||w||_p` is not differentiable at w."""
    return any(points.shape[0] > 1 for points in form.normals(form.lower(w))[1])


def has_full_rank(form: UnitNorm, w: Vec) -> bool:
    """True if the differences of tied samples at w have rank n - 1, as a local minimum needs.

    They are `{z_i - z_j : i, j tied in one group}`.

    Below that, a direction orthogonal to the ties and to the normal descends on both sides.
    """
    if form.hulls is None:
        return False
    rows = form.hulls.differences(form.hulls.face(form.lower(w)))
    if form.rank < 2:
        return True
    return rows.shape[0] >= form.rank - 1 and row_rank(rows) == form.rank - 1


# --- lower bounds ---------------------------------------------------------------------------------
def lower_bound(model: RobustMargin, data: Data, form: UnitNorm, witness: LowerBoundProof) -> float:
    """Return a lower bound of `min f(w)` over `||w||_p = 1` in the span of U from a witness, or -inf.

    * "vertices": points of U along every vertex of the ball in the dual norm (p = inf and p = 1), or along
      the vector that takes their place if rays of U span the space;
    * "points": the ball around 0 in the dual norm that lies in the convex hull of points of U;
    * "rule": `x(q0 + V u) = x0 + M u` in U for all `||u||_2 <= 1`, an ellipsoid: the distance from 0 to its
      surface; for p < 2 over the largest `||w||_p / ||w||_2`.
    """
    held = form.norm in (1.0, np.inf) or form.rays.size > 0
    kinds = ("points", "rule", "vertices") if held else ("points", "rule")
    if witness.kind not in kinds:
        raise SolverError(
            f"witness: expected a kind among {', '.join(kinds)} for p = {form.norm:g}, got "
            f"{brief(witness.kind)}; see ucm.forms.sphere_proof.LowerBoundProof"
        )
    if witness.kind == "rule":
        return _rule(model, data, form, witness)
    inside = _points(model, data, form, witness.points)
    if inside is None:
        return -np.inf
    return _inscribed(form, inside) if witness.kind == "points" else _held(form, inside)


def _points(
    model: RobustMargin, data: Data, form: UnitNorm, blocks: Iterable[list[Vec]]
) -> np.ndarray | None:
    """Return the points of given blocks in the coordinates of the form, or None if one lies outside of U.

    None also if there are no blocks.
    """
    points = []
    for q in blocks:
        x, violation = member(model, data, q)
        if not violation <= INSIDE:
            return None
        points.append(form.lower(x))
    return np.array(points) if points else None


def _rule(model: RobustMargin, data: Data, form: UnitNorm, witness: LowerBoundProof) -> float:
    """Return the lower bound of f from an affine rule, that is from an ellipsoid in U around 0.

    x0 and the columns of M are evaluated from the declaration, at u = 0 and at the unit vectors. The rule of
    each domain shows that the blocks stay in the domains between these points.
    """
    V, blocks = witness.slopes, form.image.blocks
    shapes = [(b.map.shape[1], form.rank) for b in blocks]
    if len(witness.points) != 1 or [S.shape for S in V] != shapes or form.image.couplings:
        return -np.inf
    q0 = witness.points[0]
    if [q.shape for q in q0] != [S.shape[:1] for S in V]:
        return -np.inf
    if not all(np.isfinite(x).all() for x in (*q0, *V)) or not all(map(stays_inside, blocks, q0, V)):
        return -np.inf
    units = ([q + S[:, j] for q, S in zip(q0, V, strict=True)] for j in range(form.rank))
    points = _points(model, data, form, itertools.chain([q0], units))
    if points is None:
        return -np.inf
    x0, M = points[0], (points[1:] - points[0]).T
    least = nearest_on_ellipsoid(M @ M.T, x0)[0] - _ROUNDING * float(np.abs(points).max())
    p = form.norm
    return least if p >= 2.0 or least <= 0.0 else least * form.image.n ** (0.5 - 1.0 / p)


def _held(form: UnitNorm, points: np.ndarray) -> float:
    """Return the lower bound from points of U along the vertices of the dual unit ball (p = 1 or inf).

    With `x_k = -r_k g_k + e_k` in U for every vertex g_k: for any w some `<g_k, w> >= ||w||_p`, and
    `f(w) >= -w'x_k >= (r_k - ||e_k||) ||w||_p`, the norm of e_k dual to that of w. With the box around the
    unit ball, `sum_i R_i |e_ki|` may replace this norm.
    """
    least, box = np.inf, form.box()
    dual = dual_exponent(form.norm)
    vertices = list(form.vertices())
    for g, x in zip(vertices, points, strict=False):
        r = -float(g @ x) / float(g @ g)
        ball = r - form.image.space.norm(form.lift(x + r * g), dual)
        least = min(least, max(ball, _in_box(box, g, x)))
    proves = len(vertices) == len(points) and (least > 0.0 or not form.rays.size)
    return least if proves else -np.inf


def _in_box(box: Vec, g: Vec, x: Vec) -> float:
    """Return the maximum over r of the concave function `r - sum_i R_i |x_i + r g_i|`, R the box."""
    kinks = -x[g != 0.0] / g[g != 0.0]
    slopes = box[g != 0.0] * np.abs(g[g != 0.0])
    order = np.argsort(kinks)
    falls = 1.0 + float(slopes.sum()) - 2.0 * np.cumsum(slopes[order])
    k = order[min(int((falls > 0.0).sum()), order.size - 1)]
    return float(kinks[k] - box @ np.abs(x + kinks[k] * g))


def _inscribed(form: UnitNorm, points: np.ndarray) -> float:
    if form.rank == 1:
        low, high = float(points.min()), float(points.max())
        return min(high, -low) / form.length(np.ones(1))
    try:
        equations = ConvexHull(points).equations
    except QhullError:
        return -np.inf
    radius = float((-equations[:, -1] / [form.length(a) for a in equations[:, :-1]]).min())
    return radius if radius >= 0.0 else -np.inf  # a facet bounds the distance of 0 outside from below
