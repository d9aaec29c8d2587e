"""Proximal Newton steps on the primal, for smooth losses and penalties of single weights.

At (w, b), with the slopes beta and the curvatures h of the losses at the margins, a step minimises

    R(w + d) - <Z'(beta + v) + r, d> - <y, beta + v> e + sum_i h_i (z_i'd + y_i e)^2 / 2

over d and e: Z are the samples times their labels, v and r the tilts of the margins and of the normal. The
bias e is eliminated, which leaves the Gram matrix of the samples about their mean, both weighted by h. For
`R = c ||w||_2^2` the step is a linear system; where the slopes of R have walls (l1 norms, weighted or of one
sign) coordinate descent and Newton steps on its support take turns, on the matrix alone.

Of the features only those enter that are not 0 or whose slope leaves its walls, of the samples those with
h_i > 0. While a step still gains much, every so many of the samples stand for all in the matrix; near the
solution, where the curvatures hardly change, the matrix of the step before serves again. Samples on a
straight XX whole steps succeed.

Lee, Sun and Saunders (2014), Proximal Newton-type methods for minimizing composite functions, give the
method; Yuan, Ho and Lin (2012), An improved GLMNET for l1-regularized logistic regression, the sets of
features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.maps import SampleMap
from ucm.data.rows import weighted_sums
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt
from ucm.language.masses import Jacobian
from ucm.language.terms import Bound
from ucm.solvers.coordinates import ByInnerProducts, Orthonormal, Span
from ucm.solvers.curvature import ConjugateGradients
from ucm.solvers.objective.splitting import Splitting
from ucm.solvers.palm import ridge_solve

__all__ = ["ProxNewton"]

_ENOUGH = 0.3  # of the tolerance
_SUFFICIENT = 1e-4  # of the decrease that the model foretells
_EXACT = 1e-2  # of the largest violation, to which a quadratic program is solved
_ROUNDS = 50  # of a quadratic program
_DIRECT = 500  # order of a linear system, above which conjugate gradients take its place
_FORCING, _CYCLES = 0.05, 200  # their relative residual, and their number
_PROXIMAL = 1e-7  # of the mean diagonal entry, where features may depend on each other
_HALVINGS = 40
_STUCK = 3  # steps in a row that gain nothing
_ROUNDING = 1e-14  # of the objective
_NEW = 32  # features that may enter at once, beside as many as are not 0
_FEW = 64  # features that enter without choice
_MOST = 0.7  # share of the features from which on all enter
_SAMPLED = 30  # samples for each feature that give a rough matrix
_FAR = 1e-2  # of the objective: with steps that gain more a rough matrix will do
_AGAIN = 1e-2  # ratio of two gains below which a matrix serves once more
_DEAR = 3.0  # passes that a matrix must take for that
_NEAR, _LEAST = 1e-3, 1e-12  # margins from the offset, and the least damping
_COUNTED = 10.0  # in tolerances, the gain at which the gap is looked at

Matrix = NDArray[np.float64]
_NONE = np.zeros((0, 0))  # with conjugate gradients


@dataclass(frozen=True)
class ProxNewton(InnerSolver):
    """Proximal Newton steps: smooth losses with L2, l1 norms and constraints of sign.

    Parameters
    ----------
    max_iter
        Limit of steps.
    max_order
        Most features where a penalty joins them.

    Notes
    -----
    Lee, Sun and Saunders (2014); Yuan, Ho and Lin (2012).
    """

    max_iter: int = 300
    max_order: int = 1000
    name: ClassVar[str] = "prox-newton"

    def __post_init__(self) -> None:
        if self.max_iter < 1 or self.max_order < 1:
            raise ParameterError("ProxNewton: max_iter and max_order must be at least 1")

    def refuse(self, form: Composite) -> str | None:
        rough = [loss for loss in form.losses if not loss.smooth()]
        if rough:
            return f"{rough[0]!r} has no Lipschitz gradient"
        if not form.penalty.proximal():
            return "the sum of the penalties has no proximal map"
        if form.penalty.boxed is None and form.n > self.max_order:
            return f"its linear systems would have order {form.n}"
        return None

    def predicted_passes(self, form: Composite) -> float:
        return 10.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Point(form, monitor, self.max_iter)


class _Point(Session):
    """The last point, and the samples in coordinates of their span where L2 is all there is.

    Attributes
    ----------
    form : the samples as they are worked on
    span : these coordinates, or None
    systems : those of L2 where they are too large to be formed, or None
    """

    def __init__(self, form: Composite, monitor: Monitor, max_iter: int) -> None:
        self.monitor, self.max_iter, self.entries = monitor, max_iter, form.entries
        self.span: Span | None = None
        self.systems: ConjugateGradients | None = None
        if form.penalty.square is not None and min(form.m, form.n) > _DIRECT:
            self.systems = ConjugateGradients(
                [SampleMap(form.X)], form.entries, _FORCING, _CYCLES, lambda: monitor.late
            )
        elif form.n > form.m and form.penalty.square is not None:
            X = form.X
            self.span = ByInnerProducts([X]) if sparse.issparse(X) else Orthonormal(X)
            form = replace(form, X=self.span.tables[0])
            monitor.forming += 0.5 * self.span.forming / self.entries
        self.form = form
        self.w, self.b = np.zeros(form.n), 0.0

    def place(self, w: Vec, b: float) -> None:
        self.w, self.b = (w.copy() if self.span is None else self.span.inward(w)), b

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        outside: float | Vec = 0.0  # the part of w outside of the span, which moves no margin
        if self.span is not None:
            normal = self.span.inward(tilt.normal)
            outside = (tilt.normal - self.span.outward(normal)) / (2.0 * form.norms[1])
            form, tilt = replace(form, X=self.form.X), Tilt(tilt.margin, normal)
        cost = form.entries / self.entries
        at = _Tilted(form, tilt, (self.w, self.b), self.monitor, cost, self.systems)
        status, left = self._descend(at, tol)
        self.w, self.b = at.w, at.b
        w = at.w if self.span is None else self.span.outward(at.w)
        return Answer(w=w + outside, b=at.b, slopes=at.slopes).after(status, left)

    def _descend(self, at: _Tilted, tol: float) -> tuple[str, str]:
        """How it ended, and what was left."""
        monitor, step, stuck = self.monitor, 0, 0
        limit = monitor.limit(self.max_iter) if self.whole else self.max_iter
        for step in range(1, limit + 1):
            at.look()
            if at.gain <= _COUNTED * tol * abs(at.value) or stuck or monitor.late:
                at.measure()
            if self.whole and monitor.report(step, at.value, at.gap):
                return "interrupted", ""
            if at.gap <= _ENOUGH * tol and at.missed <= tol:
                return "converged", ""
            if monitor.late:
                return "interrupted", ""
            stuck = 0 if at.advance() else stuck + 1
            if stuck == _STUCK or not np.isfinite(at.value):
                break
        at.look()
        at.measure()
        if at.gap <= tol and at.missed <= tol:
            return "converged", ""
        why = "raise max_iter" if step == limit else "it falls no more; scale the features"
        return "max_iter", f"{step} Newton steps left a relative gap of {at.gap:.2g}; {why}"


@dataclass
class _Model:
    """The quadratic part of a step.

    Attributes
    ----------
    features : those that enter; None: all
    X : the samples in these features
    H, mean, mass : the Gram matrix about the mean of the samples, their mean, and the sum of the weights
    rough : whether some samples stand for all
    h : the weights
    again : whether it is that of an earlier point
    """

    features: NDArray[np.intp] | None
    X: Any
    H: Matrix
    mean: Vec
    mass: float
    rough: bool
    h: Vec
    again: bool = False

    def of(self, v: Vec) -> Vec:
        """The entries of the features that enter."""
        return v if self.features is None else v[self.features]


class _Tilted:
    """The iterate of one tilted problem.

    Attributes
    ----------
    w, b, t, value : the point, its margins and the objective
    slopes, g, bend : of the losses, and the gradient of all but R, in w and in b
    over : by how much each slope leaves its walls
    gain, before : what the last step was foretold to gain, and the one before it
    damping : the curvature of samples that have none, in that of a parabola with their slope
    exact : whether rough models have done their part
    gap, missed : the relative gap and the violation of the dual point, where they were last measured
    """

    def __init__(
        self,
        form: Composite,
        tilt: Tilt,
        start: tuple[Vec, float],
        monitor: Monitor,
        cost: float,
        systems: ConjugateGradients | None,
    ) -> None:
        self.form, self.tilt, self.monitor, self.cost = form, tilt, monitor, cost
        lower, upper, self.c = form.penalty.boxed or (0.0, 0.0, 0.0)
        self.lower, self.upper = _spread(lower, form.n), _spread(upper, form.n)
        self.walls = form.penalty.walled
        self.splitting = None if form.penalty.boxed else Splitting(form.penalty)
        self.systems = systems
        self.w, self.b = form.penalty.feasible(start[0]), start[1]
        self.t = form.margins(self.w, self.b)
        self.smooth, self.value = self._smooth(self.t), form.value(self.t, self.w, tilt)
        self.exact, self.damping = False, 1.0
        self.gain = self.gap = self.missed = self.before = np.inf
        self.squares = SampleMap(form.X).squares
        self.model: _Model | None = None

    def look(self) -> None:
        """The slopes at the point."""
        self.slopes = self.form.gradient(self.t)
        beta = self.slopes + self.tilt.margin
        self.g = -(self.form.pull(beta) + self.tilt.normal)
        self.bend = -float(self.form.y @ beta)
        self.monitor.passes += 0.5 * self.cost
        if self.walls:
            slope, w = self.g + 2.0 * self.c * self.w, self.w
            inside = np.maximum(np.maximum(-slope - self.upper, slope + self.lower), 0.0)
            self.over = np.where(
                w > 0.0, np.abs(slope + self.upper),
                np.where(w < 0.0, np.abs(slope + self.lower), inside),
            )  # fmt: skip

    def measure(self) -> None:
        """The gap."""
        bound, self.missed = self.form.lower_bound(self.slopes, self.t, self.tilt, self.w)
        self.gap = (self.value - bound) / max(abs(self.value), 1e-300)
        self.monitor.passes += 0.5 * self.cost

    def _features(self) -> NDArray[np.intp] | None:
        """Those that enter: the ones in use, and of the others those that leave their walls by most."""
        if not self.walls or self.form.n <= _FEW:
            return None
        used = self.w != 0.0
        new = np.flatnonzero((self.over > 0.0) & ~used)
        most = np.count_nonzero(used) + _NEW
        if new.size > most:
            new = new[np.argpartition(-self.over[new], most)[:most]]
        used[new] = True
        features = np.flatnonzero(used) if used.any() else np.zeros(1, dtype=np.intp)
        return None if features.size > _MOST * used.size else features

    def _formed(self) -> _Model:
        """The model at the point, or the last one where that will do."""
        last, features, form = self.model, self._features(), self.form
        share = (1.0 if features is None else features.size / form.n) ** 2
        dear = self.squares * share > _DEAR * form.entries and self.systems is None
        known = last is not None and (
            np.array_equal(last.features, features)
            if last.features is not None and features is not None
            else last.features is features
        )
        near = np.isfinite(self.before) and self.gain <= _AGAIN * self.before
        if last and known and dear and near and not last.rough:
            self.model = replace(last, again=True)
            return self.model
        X = last.X if last and known else (form.X if features is None else form.X[:, features])
        h, every = form.curvature(self.t), 1
        flat = (h == 0.0) & (self.slopes != 0.0)
        if flat.any():
            away = np.maximum(np.abs(form.losses[0].offset - self.t[flat]), _NEAR)
            h[flat] = self.damping * np.abs(self.slopes[flat]) / away
        if dear and not self.exact and self.gain > _FAR * abs(self.value):
            every = max(1, form.m // (_SAMPLED * max(X.shape[1], _NEW)))
        if every > 1:
            h = every * h[::every]
        mass = float(h.sum()) or 1.0
        if self.systems is not None:
            self.model = _Model(None, X, _NONE, np.asarray(X.T @ h) / mass, mass, False, h)
            self.monitor.passes += 0.5 * self.cost
            return self.model
        H, s = weighted_sums(X[::every] if every > 1 else X, h)
        H -= np.outer(s, s / mass)
        self.monitor.forming += 0.5 * self.squares * share / every / form.entries * self.cost
        self.monitor.systems += 1
        self.model = _Model(features, X, H, s / mass, mass, every > 1, h)
        return self.model

    def advance(self) -> bool:
        """A step; whether it gained anything."""
        model = self._formed()
        g, w = model.of(self.g), model.of(self.w)
        d = self._direction(model, g - self.bend * model.mean, w)
        e = -self.bend / model.mass - float(model.mean @ d)
        here, linear = self._penalty(w, model), float(model.of(self.tilt.normal) @ d)
        self.before = self.gain
        self.gain = here - self._penalty(w + d, model) - float(g @ d) - self.bend * e
        if not self.gain > 0.0:
            return self._doubt(model)
        move = self.form.y * (model.X @ d + e)
        self.monitor.passes += 0.5 * self.cost * w.size / self.w.size
        known, a = self.value - self.smooth - here, 1.0
        slack = _ROUNDING * abs(self.value)
        for _ in range(_HALVINGS):
            t, new = self.t + a * move, w + a * d
            smooth = self._smooth(t)
            value = smooth + self._penalty(new, model) + known - a * linear
            if value <= self.value - _SUFFICIENT * a * self.gain + slack:
                break
            a *= 0.5
        else:
            return self._doubt(model)
        if a < 1.0 and model.rough:
            self.exact = True
        self.damping = (
            max(0.1 * self.damping, _LEAST) if a == 1.0 else min(1.0, 10.0 * self.damping)
        )
        gained = value < self.value - slack
        if model.features is None:
            self.w = new
        else:
            self.w = self.w.copy()
            self.w[model.features] = new
        self.b, self.t, self.smooth, self.value = self.b + a * e, t, smooth, value
        return gained

    def _direction(self, model: _Model, r: Vec, w: Vec) -> Vec:
        """d of the step, once the bias is eliminated."""
        ridge, H = 2.0 * self.c, model.H
        if self.walls:
            new = w.copy()
            tol = _EXACT * float(model.of(self.over).max(initial=0.0))
            numerics.boxed_quadratic(
                H, r, new, model.of(self.lower), model.of(self.upper), ridge, tol, _ROUNDS
            )
            return new - w
        if self.systems is not None:
            h = model.h[:, None]
            curve = Jacobian(model.h, h, np.full((1, 1), -1.0 / model.mass))
            step = self.systems.step([curve], [1.0], np.full(w.size, ridge), r + ridge * w)
            self.monitor.passes += step.passes
            return step.d
        top = float(np.mean(np.diagonal(H))) or 1.0
        if self.splitting is not None:
            L = float(np.diagonal(H).max()) or 1.0
            away = L * float(np.abs(w - self.form.penalty.prox(w - self.g / L, 1.0 / L)).max())
            H[np.diag_indices_from(H)] += _PROXIMAL * top
            return self.splitting.solve(H, r, w, _EXACT * away) - w
        H = H.copy()
        H[np.diag_indices_from(H)] += ridge
        return -ridge_solve(H, r + ridge * w)

    def _doubt(self, model: _Model) -> bool:
        """The next model is an exact one; answers whether this was none."""
        self.exact, self.model = True, None
        return model.rough or model.again

    def _smooth(self, t: Vec) -> float:
        """The losses less their tilt."""
        return self.form.loss(t) - float(self.tilt.margin @ t)

    def _penalty(self, w: Vec, model: _Model) -> float:
        """R of the features that enter; the others are 0."""
        if self.splitting is not None:
            return self.form.penalty.value(w)
        height = self.c * float(w @ w)
        if self.walls:
            wall = np.where(w > 0.0, model.of(self.upper), model.of(self.lower))
            height += float(wall[w != 0.0] @ w[w != 0.0])
        return height


def _spread(bound: Bound, n: int) -> Vec:
    """A bound for every feature."""
    return np.ascontiguousarray(np.broadcast_to(bound, n), dtype=np.float64)
