"""Classifiers of ellipsoids of class means and covariances, for several radii at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.recover import midpoint_of
from ucm.data.bound_data import Data, known_by
from ucm.data.linear_map import Spectrum, Vec
from ucm.data.moments import Moments
from ucm.forms.monitor import Monitor
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import value
from ucm.language.robust import RobustMargin
from ucm.language.sets import Ellipsoid, Point
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import Samples
from ucm.solvers.secular import one_ball, several

Matrix = NDArray[np.float64]
_TINY = 1e-150


def is_sum_of_ellipsoids(model: object) -> bool:
    """True if U is a weighted sum of points and at least one ellipsoid of class moments, and `norm` is 2.

    The means and covariances are those of whole classes.
    """
    if not isinstance(model, RobustMargin) or model.norm != 2.0:
        return False
    leaves = list(summands(model.set))
    return (
        {Ellipsoid} <= {type(U) for U, _ in leaves} <= {Ellipsoid, Point}
        and all(math.isfinite(f) for _, f in leaves)
        and all(s.kind != "signed" and s.label is None for s in model.set.nodes_of_type(Samples))
    )


def at_sizes(
    models: Sequence[RobustMargin], moments: Mapping[str, Moments], rule: str, tol: float
) -> tuple[Matrix, Vec]:
    """Return the normals W, (n, models), and biases of models that differ only in their radii.

    w is nan where the roots prove no gap below `tol`, as where 0 lies in U; b is nan where the `rule`, one of
    `ucm.compiler.recover.bias`, asks for the samples. The moments are those of "pos" and "neg". The smallest
    set comes first, as each root starts from the one before.
    """
    data = known_by(moments)
    leaves = list(summands(models[0].set))
    centers = [
        U.center.evaluate(data) if isinstance(U, Ellipsoid) else U.evaluate(data, iter(()))[0]
        for U, _ in leaves
    ]
    balls = [k for k, (U, _) in enumerate(leaves) if isinstance(U, Ellipsoid)]
    S = [
        Spectrum.of(leaves[k][1] ** 2 * leaves[k][0].shape.evaluate(data))  # type: ignore[attr-defined]
        for k in balls
    ]
    c = np.add.reduce([f * v for (_, f), v in zip(leaves, centers, strict=True)])
    radii = radii_of(models)
    X, s = _nearest_points(S, c, radii)
    n = c.size
    W, b = np.full((n, len(models)), np.nan), np.full(len(models), np.nan)
    for j in range(len(models)):
        x = X[:, j]
        pulls = [T.matrix @ x for T in S]
        sizes = np.sqrt([max(float(x @ p), 0.0) for p in pulls])
        steps = np.minimum(s[:, j], radii[j] / np.maximum(sizes, _TINY))
        point = c - sum((t * p for t, p in zip(steps, pulls, strict=True)), start=np.zeros(n))
        length, norm = float(np.linalg.norm(x)), float(np.linalg.norm(point))
        if not norm > 1e-9 * float(np.linalg.norm(c)) or length == 0.0:
            continue  # 0 lies in U
        lower = (float(c @ x) - float(radii[j] @ sizes)) / length
        if not norm - lower <= tol * norm:
            continue
        W[:, j] = x / length
        points = [f * v for (_, f), v in zip(leaves, centers, strict=True)]
        for k, t, p in zip(balls, steps, pulls, strict=True):
            points[k] = points[k] - t * p
        offset = _bias(rule, models[j].set, [U for U, _ in leaves], points, data, W[:, j])
        b[j] = math.nan if offset is None else offset
    return W, b


def radii_of(models: Sequence[RobustMargin]) -> Matrix:
    """Return the radii of the ellipsoids of every model, (models, ellipsoids)."""
    return np.array(
        [[value(U.radius) for U, _ in summands(model.set) if isinstance(U, Ellipsoid)] for model in models]
    )


def _nearest_points(S: Sequence[Spectrum], c: Vec, radii: Matrix) -> tuple[Matrix, Matrix]:
    """Return the points x of U nearest to 0, in columns, and the scalars s, for every row of radii."""
    if len(S) == 1:
        if not S[0].trace > 0.0:
            radii = np.zeros_like(radii)
        X, s = np.repeat(c[:, None], len(radii), axis=1), np.zeros((1, len(radii)))
        some = radii[:, 0] > 0.0
        X[:, some], s[0, some] = one_ball(S[0], c, radii[some, 0])
        return X, s
    X, s = np.empty((c.size, len(radii))), np.empty((len(S), len(radii)))
    used = [k for k, T in enumerate(S) if T.trace > 0.0]
    last: Vec | None = None  # s over the radii of the last value
    for j, row in enumerate(radii):
        x, s_j = c, np.zeros(len(S))
        if used:
            sizes = np.maximum(row[used], _TINY)
            x, s_used = several(
                [S[k] for k in used], c, sizes, None if last is None else last * sizes, Monitor()
            )
            s_j[used] = s_used
            last = s_used / sizes
        X[:, j], s[:, j] = x, s_j
    return X, s


def _bias(
    rule: str, U: UncertaintySet, leaves: Sequence[UncertaintySet], points: Sequence[Vec], data: Data, w: Vec
) -> float | None:  # fmt: skip
    if rule == "zero":
        return 0.0
    if rule == "means":
        return -0.5 * float(w @ (data.mean("pos") + data.mean("neg")))
    if rule in ("auto", "midpoint"):
        return midpoint_of(U, zip(leaves, points, strict=True), lambda x: float(w @ x))
    return None
