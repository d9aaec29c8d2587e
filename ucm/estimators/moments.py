"""Classifiers of ellipsoids of class means and covariances, for several radii at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.compiler.recover import midpoint_of
from ucm.data.bound_data import Data, known_by
from ucm.data.linear_map import Spectrum, Vec
from ucm.data.moments import CHUNK, Moments
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
_STEPS = 100  # of the root of a sample left out
_LONGEST = 700.0  # largest logarithm of s
_LINEAR = 1e-9  # s times the largest eigenvalue, below which a difference of squares is rounding


def is_sum_of_ellipsoids(model: object) -> bool:
    """True if U is a weighted sum of points and at least one ellipsoid of class moments, and `norm` is 2.

    The means and covariances are those of whole classes.
    """
    if not isinstance(model, RobustMargin) or model.norm != 2.0:
        return False
    leaves = list(summands(model.set))
    return (
        all(isinstance(U, Ellipsoid | Point) and math.isfinite(f) for U, f in leaves)
        and any(isinstance(U, Ellipsoid) for U, _ in leaves)
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


def is_one_ellipsoid(model: Any) -> bool:
    """True if U is a single ellipsoid of class moments, or a multiple, and `norm` is 2.

    Leaving out a sample then scales the covariance of its class and subtracts an outer product.
    """
    return is_sum_of_ellipsoids(model) and sum(1 for _ in summands(model.set)) == 1


def leave_one_out(
    models: Sequence[RobustMargin],
    moments: Mapping[str, Moments],
    samples: Mapping[str, Any],
    rule: str,
) -> dict[str, Matrix] | None:
    """Return the exact leave-one-out decision values of the samples of each class; None if an S is 0.

    With `z = mean_o + v` of class o left out, `mean_o` becomes `mean_o - v / (m_o - 1)` and `Sigma_o`
    becomes `m_o / (m_o - 1) Sigma_o - m_o / (m_o - 1)^2 v v'`: the first term is the same for the class, so
    two eigendecompositions are enough.

    The models of one ellipsoid differ in its radius. Moments and samples are those of "pos" and "neg", two
    samples of each or more, all of weight 1; `rule` is "means" or "zero". The values are (m_o, models), nan
    where 0 lies in U.
    """
    ((U, factor),) = summands(models[0].set)
    n = moments["pos"].mean.size
    mean = {kind: statistic.mean for kind, statistic in moments.items()}
    middle = 0.5 * (mean["pos"] + mean["neg"]) if rule == "means" else np.zeros(n)
    d = factor * U.center.evaluate(known_by(moments))  # type: ignore[attr-defined]
    radii = radii_of(models)[:, 0]
    answers = {}
    for kind, statistic in moments.items():
        m = statistic.total
        of_centre, of_shape = _moment_factors(U, n, kind)
        lost = statistic._replace(scatter=statistic.scatter * (m / (m - 1.0)))
        S = Spectrum.of(factor**2 * U.shape.evaluate(known_by({**moments, kind: lost})))  # type: ignore[attr-defined]
        if not S.trace > 0.0:
            return None
        starts = np.zeros(len(models))
        starts[radii > 0.0] = one_ball(S, d, radii[radii > 0.0])[1]
        V, X = S.vectors, samples[kind]
        out = np.empty((X.shape[0], len(models)))
        step = max(1, CHUNK // n)
        for i in range(0, X.shape[0], step):
            rows = X[i : i + step]
            rows = rows.toarray() if sparse.issparse(rows) else rows
            left_out_scores(
                (rows - statistic.mean) @ V, S.values, V.T @ d,
                V.T @ (statistic.mean - middle),
                -factor * of_centre / (m - 1.0), factor**2 * of_shape * m / (m - 1.0) ** 2,
                1.0 + (0.5 / (m - 1.0) if rule == "means" else 0.0), radii, starts, out[i : i + step],
            )  # fmt: skip
        answers[kind] = out
    return answers


def left_out_scores(
    V: Matrix, e: Vec, d: Vec, h: Vec, shift: float, rho: float, own: float, radii: Vec, starts: Vec,
    out: Matrix,
) -> None:  # fmt: skip
    """Write to `out[i, k]` the score `x'(own v_i + h) / |x|` of sample i left out, for radius k.

    x is the nearest point of the ellipsoid with the centre `d + shift v` and the shape `S - rho v v'`; nan if
    0 lies in it. In the basis of the eigenvectors of S, with `D = (I + s S)^-1`, the matrix
    `I + s (S - rho v v')` has the inverse

        y -> D y + D v  s rho (v'D y) / (1 - s rho v'D v),

    and Newton's method for the logarithm of s finds the root of `s^2 x'(S - rho v v') x = radius^2`, within a
    bracket.

    Parameters
    ----------
    V, d, h : (m, n), (n,), (n,) in the basis; e : (n,) eigenvalues of S
    radii, starts : (K,) and the s of S itself for each, where its root is sought; 0: none
    out : (m, K)
    """
    out[:] = np.nan
    for k in np.flatnonzero(~(starts > 0.0) & (radii == 0.0)):
        x = d + shift * V
        length = np.linalg.norm(x, axis=1)
        np.divide(_rows_dot(x, own * V + h), length, out=out[:, k], where=length > 0.0)
    for k in np.flatnonzero(starts > 0.0):
        rows, v, u = np.arange(V.shape[0]), V, np.full(V.shape[0], math.log(starts[k]))
        low, high = np.full(u.size, -_LONGEST), np.full(u.size, _LONGEST)
        for _ in range(_STEPS):
            s = np.exp(u)
            D = 1.0 / (1.0 + s[:, None] * e)
            vD, dD = v * D, d * D
            v1v, v1d, v2v, v2d = _rows_dot(vD, v), vD @ d, _rows_dot(vD, vD), _rows_dot(vD, dD)
            remainder = 1.0 - s * rho * v1v
            proper = remainder > 1e-14
            remainder[~proper] = 1.0
            g = shift + s * rho * (v1d + shift * v1v) / remainder
            x = dD + g[:, None] * vD
            xx, vx, vDx = _rows_dot(x, x), v1d + g * v1v, v2d + g * v2v
            with np.errstate(invalid="ignore", divide="ignore"):
                height = (x * x) @ e - rho * vx * vx  # x'(S - rho v v') x
                f = 2.0 * u + np.log(height) - 2.0 * math.log(radii[k])
                inverse = _rows_dot(x, x * D) + s * rho * vDx * vDx / remainder
                slope = np.minimum(2.0, 2.0 * (xx - inverse) / (s * height))  # of f
                slope[s * e.max() <= _LINEAR] = 2.0
                change = np.where(slope > 1e-13, f / slope, np.inf)
            proper &= (height > 0.0) & (xx > 0.0)
            ends = proper & (np.abs(change) <= 1e-11)
            out[rows[ends], k] = (own * vx + x @ h)[ends] / np.sqrt(xx[ends])
            low, high = np.where(f < 0.0, u, low), np.where(f < 0.0, high, u)
            after = u - change
            u = np.where((low < after) & (after < high), after, 0.5 * (low + high))
            left = proper & ~ends & (high - low > 1e-13 * np.abs(high)) & (u <= _LONGEST - 10.0)
            if not left.any():
                break
            rows, v, u, low, high = rows[left], v[left], u[left], low[left], high[left]


def _rows_dot(A: Matrix, B: Matrix) -> Vec:
    return np.einsum("ij,ij->i", A, B)


def _moment_factors(U: Any, n: int, kind: str) -> tuple[float, float]:
    """Return the factors of a class mean in the centre of U, and of a class covariance in the shape of U."""
    none = Moments(1.0, np.zeros(n), np.zeros((n, n)))
    parts = {"pos": none, "neg": none}
    center, shape = U.center.evaluate(known_by(parts)), U.shape.evaluate(known_by(parts))
    with_mean = known_by({**parts, kind: none._replace(mean=np.ones(n))})
    with_shape = known_by({**parts, kind: none._replace(scatter=np.eye(n))})
    return (
        float((U.center.evaluate(with_mean) - center)[0]),
        float((U.shape.evaluate(with_shape) - shape)[0, 0]),
    )


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
    last: list[tuple[Vec, Vec]] = []  # radii and s of the last two values
    for j, row in enumerate(radii):
        x, s_j = c, np.zeros(len(S))
        if used:
            sizes = np.maximum(row[used], _TINY)
            x, s_used = several([S[k] for k in used], c, sizes, _extrapolated(last, sizes), Monitor())
            s_j[used] = s_used
            last = [*last[-1:], (sizes, s_used)]
        X[:, j], s[:, j] = x, s_j
    return X, s


def _extrapolated(last: Sequence[tuple[Vec, Vec]], radii: Vec) -> Vec | None:
    """Return start values of s, log-linearly extrapolated from the last two values; None at the first value.

    After one value s is in proportion to the radii.
    """
    if not last:
        return None
    r1, s1 = last[-1]
    step = np.log(radii / r1)
    slope = np.ones_like(step)
    if len(last) > 1:
        r0, s0 = last[0]
        before = np.log(r1 / r0)
        changed = before != 0.0
        slope[changed] = np.clip(np.log(s1 / s0)[changed] / before[changed], 0.0, 10.0)
    return s1 * np.exp(np.minimum(slope * step, 10.0))


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
