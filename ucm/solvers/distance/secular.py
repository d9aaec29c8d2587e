"""Ellipsoids by scalar roots: the minimum norm over Euclidean balls of parameters.

For `x = c + sum_k A_k q_k`, `||q_k|| <= r_k`, the point nearest to 0 is

    x = (I + sum_k s_k S_k)^-1 c,   S_k = A_k A_k',   s_k ||A_k'x|| = r_k,   q_k = -s_k A_k'x,

one scalar s_k >= 0 for each ball. With one ball this is a trust-region problem: in the basis of the
eigenvectors of S_1 every radius costs one scalar root. With several, u_k = 1/s_k minimises the convex

    g(u) = (sum_k r_k^2 u_k - c'(I + sum_k S_k / u_k)^-1 c) / 2.

Where all S_k are cheap they are formed. Else the same is solved over w in a growing subspace that starts
with c and takes in the residual w - x(q(w)), for one ball the Krylov space of S_1 and c: one pass for each
dimension. MM-FDA and MM-MPM of Ito, Takeda and Toh (2015), equations (32) and (34), are such problems;
Conn, Gould and Toint (2000), chapter 7, treat one ball.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear import Vec
from ucm.data.maps import scaled
from ucm.data.spectrum import Spectrum, known, spectrum
from ucm.errors import ParameterError, brief
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.domains import NormBall
from ucm.solvers.distance.basis import columns, coordinates, factoring
from ucm.solvers.threads import blas_threads

__all__ = ["Secular"]

Matrix = NDArray[np.float64]
_TINY = 1e-150
_HUGE = 1e12  # s_k tr S_k at which x counts as 0
_BLOCK = 16
_FASTER = 3.0  # a multiplication of forming, than one of a product with the samples


@dataclass(frozen=True)
class Secular(Solver[MinNorm]):
    """Scalar roots for one Euclidean ball of parameters or several.

    Parameters
    ----------
    max_forming
        Passes that forming the S_k may cost, or half of a basis of their span; above, a
        growing subspace.
    max_order
        Largest number of features for which they are formed.
    max_subspace
        Largest dimension of the subspace.
    rest
        A solver for what the roots leave unproven, as where rounding decides the rank of an S_k.
    """

    max_forming: float = 20.0
    max_order: int = 1500
    max_subspace: int = 400
    rest: Solver[MinNorm] | None = None
    name: ClassVar[str] = "secular"

    def __post_init__(self) -> None:
        if not self.max_forming >= 0.0 or min(self.max_order, self.max_subspace) < 1:
            raise ParameterError(
                "Secular: max_forming is not negative, max_order and max_subspace are at least 1"
            )

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "the blocks are coupled by an intersection"
        for b in form.blocks:
            if not isinstance(b.domain, NormBall) or not b.domain.euclidean:
                return f"{brief(b.domain)} is no Euclidean ball around 0"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        direct = self._forms(form) or self._spans(form)
        return (1.0 if direct else 15.0) * form.pass_cost()

    def _forms(self, form: MinNorm) -> bool:
        return form.n <= self.max_order and _forming(form) <= self.max_forming

    def _spans(self, form: MinNorm) -> bool:
        order = 1 + columns(form)
        return order < form.n and factoring(form, form.n, order) <= 2.0 * self.max_forming

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        unit = _unit(form)
        measured = form if unit == 1.0 else _measured(form, unit)
        with blas_threads(form.n if self._forms(form) else 0):
            run = _Run(measured, monitor, unit)
            answer = self._solve(run, measured)
        rest = self.rest
        proven = run.best <= monitor.tol or answer.status != "converged"
        if proven or rest is None or not monitor.goes_on or rest.refuse(form) is not None:
            return answer
        return rest.solve(form, monitor, answer)

    def _solve(self, run: _Run, form: MinNorm) -> Answer:
        if self._forms(form):
            return run.formed()
        if self._spans(form):
            return run.spanned()
        # a subspace that has taken as long as forming the S_k would should have been that
        budget = _forming(form) / _FASTER if form.n <= self.max_order else np.inf
        return run.subspace(self.max_subspace, budget)


def _unit(form: MinNorm) -> float:
    """1, or the size of the centre where fourth powers of that could overflow or vanish."""
    size = float(np.abs(form.center).max(initial=0.0))
    return 1.0 if size == 0.0 or 1e-70 < size < 1e70 else size


def _measured(form: MinNorm, unit: float) -> MinNorm:
    """The form in another unit of length."""
    blocks = tuple(replace(b, map=scaled(b.map, 1.0 / unit)) for b in form.blocks)
    return replace(form, center=form.center / unit, blocks=blocks)


def _forming(form: MinNorm) -> float:
    """Passes that forming the S_k costs, those that are not known."""
    maps = [b.map for b in form.blocks if not known(b.map)]
    return 0.5 * sum(A.squares for A in maps) / max(1, form.stored)


class _Run:
    """One solve.

    unit : of the form
    radii : (K,) of the balls
    answer : the answer so far
    largest : the largest norm met, the unit in which 0 is judged
    """

    def __init__(self, form: MinNorm, monitor: Monitor, unit: float) -> None:
        self.form, self.monitor, self.unit = form, monitor, unit
        self.radii = np.array([b.domain.size().number for b in form.blocks])  # type: ignore[attr-defined]
        self.answer = Answer(form.centers())
        self.largest = form.space.norm(form.center)
        self.best = np.inf

    def formed(self) -> Answer:
        form = self.form
        self.monitor.forming += _forming(form)
        self.monitor.systems += 1
        S = [spectrum(b.map) for b in form.blocks]
        x, s = _nearest(S, form.center, self.radii, None, self.monitor)
        return self.finish(x, s)

    def spanned(self) -> Answer:
        """By the S_k in coordinates of the span of all columns."""
        form = self.form
        Q, center, parts = coordinates(form.center, [b.map for b in form.blocks])
        self.monitor.forming += factoring(form, *Q.shape)
        self.monitor.systems += 1
        S = [Spectrum.of(A @ A.T) for A in parts]
        x, s = _nearest(S, center, self.radii, None, self.monitor)
        return self.finish(Q @ x, s)

    def finish(self, x: Vec, s: Vec) -> Answer:
        """The answer at x and s."""
        pulls = self.form.rmatvec(x)
        self.monitor.passes += self.form.pass_cost() / 2
        point, gap, done = self.assess(x, s, pulls)
        size = self.unit * self.form.space.norm(point)
        self.monitor.report(self.monitor.iterations + 1, -size, gap)
        return self.answer if done or not self.monitor.late else self.answer.interrupted()

    def assess(self, x: Vec, s: Vec, pulls: Sequence[Vec]) -> tuple[Vec, float, bool]:
        """The point that `q_k = -s_k A_k'x` stands for, the gap between its norm and the bound from
        x as a direction, and whether the answer may be given."""
        form = self.form
        sizes = np.array([float(np.linalg.norm(v)) for v in pulls])
        steps = np.minimum(s, self.radii / np.maximum(sizes, _TINY))
        q = [-t * v for t, v in zip(steps, pulls, strict=True)]
        point = form.matvec(q)
        self.monitor.passes += form.pass_cost() / 2
        upper, length = form.space.norm(point), float(np.linalg.norm(x))
        self.largest = max(self.largest, upper)
        gap = np.inf
        if length > 0.0:
            lower = (float(form.center @ x) - float(self.radii @ sizes)) / length
            gap = (upper - lower) / max(upper, 1e-12 * self.largest, _TINY)
        if upper <= self.monitor.zero * self.largest:
            gap = 0.0
        if gap <= self.best:
            self.best, self.answer.q = gap, q
            self.answer.w = x / length if length > 0.0 else None
        return point, gap, gap <= 0.5 * self.monitor.tol

    def subspace(self, most: int, budget: float) -> Answer:
        """Solve over a growing subspace until the gap is proven; form the S_k after `budget` passes.

        V : (j, n) orthonormal rows
        W : for every ball the (j, d) rows A_k'v
        S : the S_k in this basis
        """
        form, monitor = self.form, self.monitor
        V = _Rows(form.n)
        W = [_Rows(b.map.shape[1]) for b in form.blocks]
        v, s = form.center, None
        for j in range(1, monitor.limit(most) + 1):
            for _ in range(2):  # twice is enough
                v = v - V.combine(V.dot(v)) if V.count else v
                v = v / max(float(np.linalg.norm(v)), _TINY)
            V.append(v)
            for rows, pull in zip(W, form.rmatvec(v), strict=True):
                rows.append(pull)
            monitor.passes += form.pass_cost() / 2
            S = [Spectrum.of(rows.gram) for rows in W]
            y, s = _nearest(S, V.dot(form.center), self.radii, s, monitor)
            x = V.combine(y)
            point, gap, done = self.assess(x, s, [rows.combine(y) for rows in W])
            stop = monitor.report(j, -self.unit * form.space.norm(point), gap)
            if done:
                return self.answer
            if stop:
                return self.answer.interrupted()
            length = float(np.linalg.norm(x))
            v = x - point
            spent = not length > 0.0 or not float(np.linalg.norm(v)) > 1e-14 * self.largest
            if budget < np.inf and (spent or monitor.passes >= budget):
                return self.formed()
            if spent:
                break
        message = f"a subspace of dimension {V.count} left a gap of {self.best:.2g}; "
        return self.answer.ended("max_iter", message + "raise max_iter or tol")


class _Rows:
    """A matrix that grows by rows, in blocks that are never copied, with its Gram matrix."""

    def __init__(self, width: int) -> None:
        self._blocks = [np.empty((_BLOCK, width))]
        self._gram = np.empty((_BLOCK, _BLOCK))
        self.count = 0

    @property
    def gram(self) -> Matrix:
        return self._gram[: self.count, : self.count]

    def _parts(self) -> list[Matrix]:
        return [B[: self.count - k * _BLOCK] for k, B in enumerate(self._blocks)]

    def dot(self, v: Vec) -> Vec:
        """The inner products of the rows with v."""
        return np.concatenate([B @ v for B in self._parts()])

    def combine(self, y: Vec) -> Vec:
        """The sum of the rows, times y."""
        parts = self._parts()
        out = np.zeros(parts[0].shape[1])
        for k, B in enumerate(parts):
            out += y[k * _BLOCK : k * _BLOCK + B.shape[0]] @ B
        return out

    def append(self, row: Vec) -> None:
        j = self.count
        if j == _BLOCK * len(self._blocks):
            self._blocks.append(np.empty_like(self._blocks[0]))
            gram = np.empty((j + _BLOCK, j + _BLOCK))
            gram[:j, :j] = self._gram
            self._gram = gram
        self._blocks[-1][j % _BLOCK] = row
        self.count = j + 1
        self._gram[j, : j + 1] = self._gram[: j + 1, j] = self.dot(row)


def _nearest(
    S: Sequence[Spectrum], c: Vec, radii: Vec, s: Vec | None, monitor: Monitor
) -> tuple[Vec, Vec]:
    """x and s for formed S_k; `s` is where to start."""
    least = 1e-15 * float(np.linalg.norm(c))  # what moves x by less is rounding
    reach = [r * math.sqrt(T.trace) for T, r in zip(S, radii, strict=True)]
    used = [k for k, size in enumerate(reach) if size > least]
    all_s = np.zeros(radii.size)
    x = c.copy()
    if not c.any() or not used:
        return x, all_s
    parts = [S[k] for k in used]
    if len(used) == 1:
        x, all_s[used[0]] = _one_ball(parts[0], c, float(radii[used[0]]))
    else:
        first = None if s is None or not np.all(s[used] > 0.0) else s[used]
        x, all_s[used] = _several(parts, c, radii[used], first, monitor)
    return x, all_s


def _one_ball(S: Spectrum, c: Vec, radius: float) -> tuple[Vec, float]:
    """The root u of `||q(u)|| = r`, `q(u) = -(u I + A'A)^-1 A'c`, and s = 1/u.

    1/||q(u)|| is concave and nearly linear, so Newton's method for it climbs to the root from the left.
    """
    values, vectors = S.values, S.vectors
    b = vectors.T @ c
    weight = values * b * b
    u = max(values[-1] / _HUGE, float(np.sqrt(weight.sum())) / radius - values[-1])
    for _ in range(100):
        size = float(np.sqrt((weight / (u + values) ** 2).sum()))
        if size <= radius:  # the root, or the left end: 0 is in U
            break
        step = (size / radius - 1.0) * size**2 / float((weight / (u + values) ** 3).sum())
        u += step
        if step <= 1e-15 * u:
            break
    return vectors @ (b * u / (u + values)), 1.0 / u


def _several(
    spectra: Sequence[Spectrum], c: Vec, radii: Vec, s: Vec | None, monitor: Monitor
) -> tuple[Vec, Vec]:
    """Newton's method on g(u) over u_k >= 0, in steps that leave 1/20 of each u_k at least, with
    `s_k <- r_k / ||A_k'x||`, which never raises g, where a step fails.

    s_k at its end means that q_k lies within its ball: x is then orthogonal to the range of A_k, but
    for a share of 1e-8. Where all are at their ends, 0 may be in U: then the ends move out.
    """
    S, roots = [T.matrix for T in spectra], [T.root for T in spectra]
    traces = np.array([T.trace for T in spectra])
    first = radii / np.sqrt([max(float(c @ T @ c), _TINY) for T in S])
    x, s = _newton(S, roots, c, radii, first if s is None else s, 1e8 / traces, monitor)
    tiny = float(np.linalg.norm(x)) <= 1e-4 * float(np.linalg.norm(c))
    far = s
    for _ in range(50 if tiny else 0):  # the ratios of s_k for which no q_k leaves its ball
        if monitor.late:
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
    """x and s, for s_k <= most_k."""

    def at(s: Vec) -> tuple[float, Vec, tuple[Matrix, bool]]:
        H = sum((a * T for a, T in zip(s, S, strict=True)), start=np.eye(c.size))
        factor = linalg.cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
        x = linalg.cho_solve(factor, c, check_finite=False)
        return 0.5 * float(radii**2 @ (1.0 / s) - c @ x), x, factor

    s = np.minimum(s, most)
    g, x, factor = at(s)
    for _ in range(100):
        sizes = np.array([max(float(np.linalg.norm(R.T @ x)), _TINY) for R in roots])
        met = s * sizes / radii
        free = (s < most) | (met > 1.0)
        if np.all(np.abs(met[free] - 1.0) <= 1e-13) or monitor.late:
            break
        Sx = np.column_stack([T @ x for T in S])
        slope = 0.5 * (radii**2 - (s * sizes) ** 2)
        curve = -np.outer(s**2, s**2) * (Sx.T @ linalg.cho_solve(factor, Sx, check_finite=False))
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
