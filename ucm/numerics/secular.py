"""Secular equations for minimum-norm points over Euclidean balls of parameters (ellipsoids).

For `x = c + sum_k A_k q_k`, `||q_k|| <= r_k`, the point nearest to 0 is

    x = (I + sum_k s_k S_k)^-1 c,   S_k = A_k A_k',   s_k ||A_k'x|| = r_k,   q_k = -s_k A_k'x,

one scalar s_k >= 0 for each ball. With one ball this is a trust-region problem: in the basis of the
eigenvectors of S_1 every radius costs one scalar root. With several, u_k = 1/s_k minimises the convex

    g(u) = (sum_k r_k^2 u_k - c'(I + sum_k S_k / u_k)^-1 c) / 2.

MM-FDA and MM-MPM of Ito, Takeda and Toh (2015), equations (32) and (34), are such problems; Conn, Gould and
Toint (2000), chapter 7, treat one ball. For many radii at once, as in a search, one decomposition serves all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import Vec
from ucm.forms.trust_region import secular_root

Matrix = NDArray[np.float64]
TINY = 1e-150
"""The least length that is divided by."""

_HUGE = 1e12  # s_k tr S_k at which x counts as 0
_POTRF: Any
_POTRS: Any
_POTRF, _POTRS = linalg.get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)  # SciPy's checks take longer


@dataclass(frozen=True)
class Spectrum:
    """The eigendecomposition `S = V diag(values) V'` of a positive semidefinite matrix S."""

    matrix: NDArray[np.float64]
    values: Vec  # ascending; 0 where that is rounding
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, S: NDArray[np.float64]) -> Spectrum:
        values, vectors = np.linalg.eigh(S)
        values[values <= values.size * np.finfo(float).eps * values[-1]] = 0.0
        return cls(S, values, vectors)

    @functools.cached_property
    def trace(self) -> float:
        return float(self.values.sum())  # without negative rounding errors

    @functools.cached_property
    def root(self) -> NDArray[np.float64]:
        """A factor R of S, `R R' = S`, with rank(S) columns."""
        positive = self.values > 0.0
        return self.vectors[:, positive] * np.sqrt(self.values[positive])


def one_ball(S: Spectrum, c: Vec, radii: Vec) -> tuple[Matrix, Vec]:
    """Solve the secular equation of one ball for every radius; return the points x in columns, and s.

    s is 1/u, u the root of `||q(u)|| = r` with `q(u) = -(u I + A'A)^-1 A'c`.
    """
    values, vectors = S.values, S.vectors
    b = vectors.T @ c
    u = secular_root(values, values * b * b, radii, float(values[-1]) / _HUGE)
    return vectors @ (b[:, None] * (u / (u + values[:, None]))), 1.0 / u


class _Dual(NamedTuple):
    """The dual function g of several balls as a function of `s_k = 1 / u_k`, with its Newton steps in u."""

    S: list[Matrix]
    roots: list[Matrix]
    c: Vec
    radii: Vec

    def at(self, s: Vec) -> _Point:
        """Return the point x of s, by a Cholesky factor of `I + sum_k s_k S_k`, and g there."""
        H = np.eye(self.c.size, order="F")
        for a, T in zip(s, self.S, strict=True):
            H += a * T
        factor, info = _POTRF(H, lower=1, overwrite_a=1)
        if info != 0:
            raise linalg.LinAlgError("rounding leaves I + sum s_k S_k indefinite")
        x = _POTRS(factor, self.c, lower=1)[0]
        return _Point(s, x, 0.5 * float(self.radii**2 @ (1.0 / s) - self.c @ x), factor)

    def sizes(self, x: Vec) -> Vec:
        """Return the norms `||A_k'x||`; `s_k` times them are those of the q_k."""
        return np.array([max(float(np.linalg.norm(R.T @ x)), TINY) for R in self.roots])

    def step(self, at: _Point, sizes: Vec, free: NDArray[np.bool_]) -> Vec | None:
        """Return the s of a Newton step in the free u_k, each at least 1/20 of u_k; None without descent."""
        s, Sx = at.s, np.column_stack([T @ at.x for T in self.S])
        slope = 0.5 * (self.radii**2 - (s * sizes) ** 2)
        curve = -np.outer(s**2, s**2) * (Sx.T @ _POTRS(at.factor, Sx, lower=1)[0])
        curve[np.diag_indices_from(curve)] += sizes**2 * s**3
        d = np.zeros_like(s)
        try:
            d[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        except np.linalg.LinAlgError:
            return None
        return 1.0 / np.maximum(1.0 / s + d, 0.05 / s) if float(d @ slope) < 0.0 else None


class _Point(NamedTuple):
    """The multipliers s, their x, the value g and the Cholesky factor of `I + sum_k s_k S_k`."""

    s: Vec
    x: Vec
    g: float
    factor: Matrix


def several(spectra: Sequence[Spectrum], c: Vec, radii: Vec, s: Vec | None) -> tuple[Vec, Vec]:
    """Solve for x and s with several balls, by Newton's method on the dual g(u) over u_k >= 0.

    If s_k is at its upper limit, q_k lies inside its ball, and x is orthogonal to the range of A_k up to
    1e-8. If all s_k are at their limits, 0 may lie in U, and the limits are raised.
    """
    dual = _Dual([T.matrix for T in spectra], [T.root for T in spectra], c, radii)
    traces = np.array([T.trace for T in spectra])
    if s is None:
        s = radii / np.sqrt([max(float(c @ T @ c), TINY) for T in dual.S])
    x, s = _newton(dual, s, 1e8 / traces)
    far, tiny = s, float(np.linalg.norm(x)) <= 1e-4 * float(np.linalg.norm(c))
    for _ in range(50 if tiny else 0):  # the ratios of s_k for which no q_k leaves its ball
        far = far * (_HUGE / float(far @ traces))
        H = sum((a * T for a, T in zip(far, dual.S, strict=True)), start=np.eye(c.size))
        nearer = linalg.solve(H, c, assume_a="pos", check_finite=False)
        sizes = dual.sizes(nearer)
        if np.all(far * sizes <= radii):
            return nearer, far
        far = radii / sizes
    return x, s


def _newton(dual: _Dual, s: Vec, most: Vec) -> tuple[Vec, Vec]:
    """Run Newton's method from s, `s_k <= most_k`; `s_k <- r_k / ||A_k'x||` replaces a failing step."""
    at = dual.at(np.minimum(s, most))
    for _ in range(100):
        sizes = dual.sizes(at.x)
        ratios = at.s * sizes / dual.radii
        free = (at.s < most) | (ratios > 1.0)
        if np.all(np.abs(ratios[free] - 1.0) <= 1e-13):
            break
        tried = dual.step(at, sizes, free)
        new = None if tried is None else dual.at(np.minimum(tried, most))
        if new is None or not new.g <= at.g + 1e-15 * abs(at.g):
            fixed = np.clip(dual.radii / sizes, 1e-3 * at.s, 1e3 * at.s)
            new = dual.at(np.minimum(fixed, most))
        moved, at = float(np.abs(new.s / at.s - 1.0).max()), new
        if moved <= 1e-14:
            break
    return at.x, at.s
