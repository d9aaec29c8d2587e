"""The certificate where 0 lies in U: how far w is from stationary, from the declaration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.evidence.outside import member
from ucm.forms.faces import min_norm_point
from ucm.forms.solution import Certificate
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import Splits
from ucm.language.robust import RobustMargin

__all__ = ["at_kink", "certify_unit", "has_full_rank", "normal_near", "proven"]


def certify_unit(
    model: RobustMargin, data: Data, form: UnitNorm, w: Vec, q: Sequence[Vec], floor: float,
    splits: Splits | None = None,
) -> tuple[Certificate, Vec]:  # fmt: skip
    """The certificate of w, and the point x that the blocks q stand for, moved into U where it lies near.

    f(w) is the declared support; -x is a subgradient of f at w when `-w'x = f(w)`. The residual is
    `||x + f(w) n||` in the span of U, n the subgradient of the norm at w nearest to `-x / f(w)`, plus what
    `-w'x` lacks. It bounds the distance of 0 from the subdifferential of the Lagrangian.

    Parameters
    ----------
    floor : a lower bound of the optimum, minus the norm of a point of U near 0
    """
    x, violation = member(model, data, list(q))
    f = float(model.set.support(data, -w, splits or {})[0])
    v = form.lower(w)
    target = form.lower(-x) / f if f > 0.0 else np.zeros_like(v)
    rest = form.lower(x) + f * normal_near(form, v, target)
    residual = data.space.norm(rest) + max(f + data.space.inner(w, x), 0.0)
    gap = f - floor
    certificate = Certificate(
        f, floor, gap, gap / max(abs(f), 1e-12 * data.scale), violation, "local", residual
    )
    return certificate, x


def proven(certificate: Certificate, bound: float, scale: float) -> Certificate:
    """The certificate with a better lower bound of the optimum."""
    gap = certificate.primal - bound
    relative = gap / max(abs(certificate.primal), 1e-12 * scale)
    return replace(certificate, dual=bound, gap=gap, relative_gap=relative)


def normal_near(form: UnitNorm, v: Vec, target: Vec) -> Vec:
    """The element of the subdifferential of `||w||_p` nearest to a vector, in the coordinates of the
    form."""
    base, kinks = form.normals(v)
    if not kinks:
        return base
    points = np.concatenate(kinks)
    group = np.repeat(np.arange(len(kinks)), [k.shape[0] for k in kinks])
    ones = np.ones(points.shape[0])
    _, rest = min_norm_point(base - target, points, ones, group, np.ones(len(kinks)))
    return target + rest


def at_kink(form: UnitNorm, w: Vec) -> bool:
    """Whether the norm has a kink at w."""
    return any(points.shape[0] > 1 for points in form.normals(form.lower(w))[1])


def has_full_rank(form: UnitNorm, w: Vec) -> bool:
    """Whether `{z_i - z_j : i, j tied in one group}` has the rank n - 1 that a local minimum needs.

    Below that, a direction orthogonal to the ties and to the normal descends on both sides.
    """
    if form.hulls is None:
        return False
    rows = form.hulls.differences(form.hulls.face(form.lower(w)))
    if form.rank < 2:
        return True
    if rows.shape[0] < form.rank - 1:
        return False
    sizes = np.linalg.norm(rows, axis=1)
    s = np.linalg.svd(rows / np.maximum(sizes, 1e-300)[:, None], compute_uv=False)
    return int((s > 1e-8).sum()) == form.rank - 1
