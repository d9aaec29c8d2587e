"""The nearest points of ellipsoids to 0 by scalar roots, for one radius or many.

`x = (I + sum_k s_k S_k)^-1 c` with `s_k ||A_k'x|| = r_k`, `S_k = A_k A_k'`: see
`ucm.solvers.secular.solver`, which solves by it; a path over radii does without the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import Vec
from ucm.data.spectrum import Spectrum
from ucm.forms.monitor import Monitor
from ucm.forms.trust_region import secular_root

Matrix = NDArray[np.float64]
_TINY = 1e-150
_POTRF: Any
_POTRS: Any
_POTRF, _POTRS = linalg.get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)  # SciPy's checks take longer
_HUGE = 1e12  # s_k tr S_k at which x counts as 0


def one_ball(S: Spectrum, c: Vec, radii: Vec) -> tuple[Matrix, Vec]:
    """Return for every radius r the points x in columns and s = 1/u, u the root of `||q(u)|| = r` with
    `q(u) = -(u I + A'A)^-1 A'c`."""
    values, vectors = S.values, S.vectors
    b = vectors.T @ c
    u = secular_root(values, values * b * b, radii, float(values[-1]) / _HUGE)
    return vectors @ (b[:, None] * (u / (u + values[:, None]))), 1.0 / u


def several(
    spectra: Sequence[Spectrum], c: Vec, radii: Vec, s: Vec | None, monitor: Monitor
) -> tuple[Vec, Vec]:
    """Return x and s for several balls, by Newton's method on g(u) over u_k >= 0.

    A step leaves at least 1/20 of each u_k. If a step fails, the fixed-point step `s_k <- r_k / ||A_k'x||`,
    which never raises g, replaces it. If s_k is at its upper limit, q_k lies inside its ball, and x is
    orthogonal to the range of A_k up to 1e-8. If all s_k are at their limits, 0 may lie in U, and the limits
    are raised.
    """
    S, roots = [T.matrix for T in spectra], [T.root for T in spectra]
    traces = np.array([T.trace for T in spectra])
    first = radii / np.sqrt([max(float(c @ T @ c), _TINY) for T in S])
    x, s = _newton(S, roots, c, radii, first if s is None else s, 1e8 / traces, monitor)
    tiny = float(np.linalg.norm(x)) <= 1e-4 * float(np.linalg.norm(c))
    far = s
    for _ in range(50 if tiny else 0):  # the ratios of s_k for which no q_k leaves its ball
        if monitor.timed_out:
            break
        far = far * (_HUGE / float(far @ traces))
        H = sum((a * T for a, T in zip(far, S, strict=True)), start=np.eye(c.size))
        nearer = linalg.solve(H, c, assume_a="pos", check_finite=False)
        sizes = np.array([max(float(np.linalg.norm(R.T @ nearer)), _TINY) for R in roots])
        if np.all(far * sizes <= radii):
            return nearer, far
        far = radii / sizes
    return x, s


def _newton(
    S: Sequence[Matrix],
    roots: Sequence[Matrix],
    c: Vec,
    radii: Vec,
    s: Vec,
    most: Vec,
    monitor: Monitor,
) -> tuple[Vec, Vec]:
    """Return x and s by Newton's method, for s_k <= most_k."""

    identity = np.eye(c.size, order="F")

    def at(s: Vec) -> tuple[float, Vec, Matrix]:
        H = identity.copy()
        for a, T in zip(s, S, strict=True):
            H += a * T
        factor, info = _POTRF(H, lower=1, overwrite_a=1)
        if info != 0:
            raise linalg.LinAlgError("rounding leaves I + sum s_k S_k indefinite")
        x = _POTRS(factor, c, lower=1)[0]
        return 0.5 * float(radii**2 @ (1.0 / s) - c @ x), x, factor

    s = np.minimum(s, most)
    g, x, factor = at(s)
    for _ in range(100):
        sizes = np.array([max(float(np.linalg.norm(R.T @ x)), _TINY) for R in roots])
        met = s * sizes / radii
        free = (s < most) | (met > 1.0)
        if np.all(np.abs(met[free] - 1.0) <= 1e-13) or monitor.timed_out:
            break
        Sx = np.column_stack([T @ x for T in S])
        slope = 0.5 * (radii**2 - (s * sizes) ** 2)
        curve = -np.outer(s**2, s**2) * (Sx.T @ _POTRS(factor, Sx, lower=1)[0])
        curve[np.diag_indices_from(curve)] += sizes**2 * s**3
        d = np.zeros_like(s)
        try:
            d[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        except np.linalg.LinAlgError:
            d[free] = np.inf
        new, trial = s, None
        if float(d @ slope) < 0.0:
            new = np.minimum(1.0 / np.maximum(1.0 / s + d, 0.05 / s), most)
            trial = at(new)
        if trial is None or not trial[0] <= g + 1e-15 * abs(g):
            new = np.minimum(np.clip(radii / sizes, 1e-3 * s, 1e3 * s), most)
            trial = at(new)
        moved = float(np.abs(new / s - 1.0).max())
        s, (g, x, factor) = new, trial
        if moved <= 1e-14:
            break
    return x, s
