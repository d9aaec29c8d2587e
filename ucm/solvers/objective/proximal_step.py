"""Primal proximal Newton steps for smooth losses plus a penalty with a proximal map, and their loop.

At (w, b), with the slopes beta and the curvatures h of the losses at the margins, a step minimises

    R(w + d) - <Z'(beta + v) + r, d> - <y, beta + v> e + sum_i h_i (z_i'd + y_i e)^2 / 2

over d and e: Z are the samples times their labels, v and r the tilts of the margins and of the normal. The
bias e is eliminated, which leaves the Gram matrix of the samples about their mean, both weighted by h (about
0 without intercept, where e = 0); a form w'Qw in R is added to it. For
`R = c ||w||_2^2` the step is a linear system; where the slopes of R have bounds (l1 norms, weighted or of one
sign) coordinate descent and Newton steps on its support take turns, on the matrix alone; for other penalties
see `ucm.solvers.objective.quadratic_models`. Large systems of L2 are solved by conjugate gradients.

The working set holds the features that are not 0 or whose slope leaves its bounds, and the samples with
h_i > 0. Samples on a straight part of a loss have the curvature of a parabola with their slope (Huber's
weights), and ever less of it as long as whole steps succeed.

Lee, Sun and Saunders (2014), Proximal Newton-type methods for minimizing composite functions, give the
method; Yuan, Ho and Lin (2012), An improved GLMNET for l1-regularized logistic regression, the sets of
features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.deadline import OutOfTime
from ucm.data.linear_map import Matrix as Table
from ucm.data.linear_map import SampleMap, Vec
from ucm.data.moments import weighted_sums
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Status
from ucm.language.cone import Bound
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import LinearConstraint, constraints_of
from ucm.numerics.newton_steps import line_search, ridge_solve
from ucm.solvers.objective.quadratic_models import (
    Columns,
    NewtonCG,
    ProximalQuadratic,
    boxed_quadratic,
    constrained_quadratic,
)

LARGEST = 1000  # largest number of features where a penalty joins features
_ORDER = 2000  # features of a quadratic program, above which its matrix is not formed
_SYSTEMS = 1000  # Newton systems of all quadratic models of a solve; ordinary problems need below 400
_EXACT = 1e-2  # accuracy of a quadratic program, relative to the largest violation

Matrix = NDArray[np.float64]


def penalised(form: Composite, most: int = LARGEST) -> str | None:
    """Return the reason why the Newton steps cannot handle the penalty of a form; None if they can."""
    B, R = form.penalty.without_forms
    if not R.proximal():
        return "the sum of the penalties has no proximal map"
    if R.order > 50:
        return f"its projections would have systems of order {R.order}"
    if R.boxed is not None and B is None:
        return None
    order = min(form.m, form.n) if _through_rows(form) else form.n
    return f"its linear systems would have order {order}" if order > most else None


def _through_rows(form: Composite) -> bool:
    """Return True if the quadratic models are solved in sample space, for a penalty that joins features."""
    B, R = form.penalty.without_forms
    return R.boxed is None and B is None and form.n > max(form.m, 200) and not form.worst


def constrained(R: CombinedPenalty, n: int) -> tuple[LinearConstraint | None, float]:
    """Return the constraint and c of a penalty that is a linear constraint and `c ||w||_2^2`; else None."""
    found = constraints_of(R.terms, n)
    rest = CombinedPenalty(tuple(h for k, h in enumerate(R.terms) if k not in dict(found)))
    if len(found) != 1 or (rest.terms and rest.square is None):
        return None, 0.0
    return found[0][1], rest.square or 0.0


class Losses(Protocol):
    """Protocol of a sum of smooth losses as a function of the margins."""

    def loss(self, margin: Vec) -> float:
        """Return the sum of the losses."""
        ...

    def gradient(self, margin: Vec) -> Vec:
        """Return minus the derivatives of the losses in the margins."""
        ...

    def curvature(self, margin: Vec) -> Vec:
        """Return the second derivatives of the losses in the margins, each in its own margin."""
        ...

    def coupling(self, margin: Vec) -> Iterable[tuple[Matrix, Matrix]]:
        """Return matrices V (m, r) and S of the second derivatives `V S V'` that join samples."""
        ...


@dataclass
class _StepLengths:
    """Changes of the next model by the lengths of the steps so far.

    damping : the curvature of samples on a straight part of a loss, relative to a parabola with their slope
    short : the number of consecutive short steps
    ridge : the ridge on the matrix of a box, relative to its mean diagonal entry
    """

    damping: float = 1.0
    short: int = 0
    ridge: float = 0.0

    def after(self, a: float) -> None:
        """Update by a step of length a: whole steps allow sharper models, short ones ask for a ridge."""
        self.damping = max(0.1 * self.damping, 1e-12) if a == 1.0 else min(1.0, 10.0 * self.damping)
        self.short = self.short + 1 if a <= 0.25 else 0
        if self.short >= (1 if self.ridge > 0.0 else 2):
            self.ridge = max(10.0 * self.ridge, 1e-2)
        elif a == 1.0:
            self.ridge = 0.1 * self.ridge if self.ridge > 1e-5 else 0.0


class _Bounds:
    """Bounds of the slopes of R, and the working set by `over`, the distances from the subdifferential."""

    over: Vec

    def __init__(self, lower: Bound, upper: Bound, n: int) -> None:
        self.lower, self.upper = (
            np.ascontiguousarray(np.broadcast_to(bound, n), dtype=np.float64) for bound in (lower, upper)
        )

    def look(self, w: Vec, slope: Vec) -> None:
        """Set `over` at w by the slope of the rest of the objective."""
        inside = np.maximum(np.maximum(-slope - self.upper, slope + self.lower), 0.0)
        self.over = np.where(
            w > 0.0, np.abs(slope + self.upper), np.where(w < 0.0, np.abs(slope + self.lower), inside)
        )

    def working_set(self, w: Vec) -> NDArray[np.intp] | None:
        """Return the features with w != 0 and those of largest violation; None for all."""
        if w.size <= 64:
            return None
        used = w != 0.0
        # with many features, those enter whose violation is not far below the largest
        least = 0.2 * float(self.over.max()) if w.size > LARGEST else 0.0
        new = np.flatnonzero((self.over > least) & ~used)
        most = np.count_nonzero(used) + 32
        if new.size > most:
            new = new[np.argpartition(-self.over[new], most)[:most]]
        used[new] = True
        features = np.flatnonzero(used) if used.any() else np.zeros(1, dtype=np.intp)
        return None if features.size > 0.7 * used.size else features


@dataclass
class _Model:
    """Quadratic model of the losses for one Newton step, in a subset of the features.

    features : the features of the model; None for all
    X : the samples in these features
    H, mean, mass : the weighted Gram matrix of the centred samples, for many features its factor or its
        columns, None for conjugate gradients; the weighted mean, and the sum of the weights
    h : the weights of the samples
    """

    features: NDArray[np.intp] | None
    X: Table
    H: Any
    mean: Vec
    mass: float
    h: Vec

    def of(self, v: Vec) -> Vec:
        """Return the entries of v at the features of the model."""
        return v if self.features is None else v[self.features]


class ProximalIterate:
    """Iterate of proximal Newton steps on one problem, with its linear tilt.

    w, b, t, value : the point, its margins and the objective
    slopes, g, bend : the slopes of the losses, and the gradient of the objective without R in w and in b
    box : the bounds of the slopes of R and the working set, or None
    joint : for other penalties without bounds of slopes, the solver of the quadratic models; or None
    lengths : the state that the lengths of the steps leave
    gain, before : the predicted gains of the last step and of the step before it
    pulled : the last slopes with the linear term, and their product with `Z'`
    foretold, whole : the slopes that the last model predicted, and whether its step was a full one
    dual : the dual point of the gap
    large : True if a quadratic problem would have too many features
    gap, missed : the last relative gap, and the violation of its dual point
    """

    def __init__(
        self,
        form: Composite,
        start: tuple[Vec, float],
        monitor: Monitor,
        systems: NewtonCG | None,
        losses: Losses | None = None,
    ) -> None:
        self.form, self.tilt, self.monitor, self.cost = form, form.linear, monitor, form.cost
        self.losses: Losses = form if losses is None else losses
        self.B, self.R = form.penalty.without_forms
        self.Q = None if self.B is None else self.B.T @ self.B
        lower, upper, self.c = self.R.boxed or (0.0, 0.0, 0.0)
        self.box = _Bounds(lower, upper, form.n) if self.R.is_box_plus_ridge else None
        self.joint = None if self.R.boxed else ProximalQuadratic(self.R, self._late)
        self.constraint, square = constrained(self.R, form.n)
        self.c = square if self.constraint is not None else self.c
        self.systems, self.rows = systems, _through_rows(form)
        self.w, self.b = form.penalty.project_domain(start[0]), start[1]
        self.t = form.margins(self.w, self.b)
        self.restart()
        self.large, self.lengths = False, _StepLengths()
        self.gap = self.missed = np.inf
        self.foretold: Vec | None = None
        self.whole = False
        self.squares = SampleMap(form.X).squares
        self.model: _Model | None = None
        self.pulled: tuple[Vec, Vec] | None = None

    @property
    def lost(self) -> bool:
        """True if quadratic models, three in a row or all together, are too hard, or one is too large."""
        hard = self.joint is not None and (self.joint.failed >= 3 or self.joint.systems > _SYSTEMS)
        return self.large or hard

    def restart(self) -> None:
        """Recompute the objective after a change of the losses or margins."""
        self.smooth = self._smooth(self.t) + self._form(self.w, self.B)
        fixed = self.R.value(self.w) - float(self.tilt.normal @ self.w)
        self.value = self.smooth + fixed
        self.gain = self.before = np.inf

    def look(self) -> None:
        """Compute the slopes of the losses and the gradient at the current point."""
        self.dual = self.slopes = self.losses.gradient(self.t)
        beta = self.slopes + self.tilt.margin
        if self.pulled is None or not np.array_equal(self.pulled[0], beta):
            self.pulled = beta, self.form.adjoint(beta)
            self.monitor.passes += 0.5 * self.cost
        self.g = -(self.pulled[1] + self.tilt.normal)
        if self.B is not None:
            self.g += 2.0 * (self.B.T @ (self.B @ self.w))
        self.bend = -float(self.form.y @ beta) if self.form.intercept else 0.0
        if self.box is not None:
            self.box.look(self.w, self.g + 2.0 * self.c * self.w)

    def measure(self, dual: Vec | None = None) -> None:
        """Compute the relative gap with `dual`, by default the slopes, as the dual point."""
        self.dual = self.slopes if dual is None else dual
        bound, self.missed = self.form.lower_bound(self.dual, self.t, self.w)
        self.gap = (self.value - bound) / max(abs(self.value), 1e-300)
        self.monitor.passes += 0.5 * self.cost

    def ends(self, tol: float) -> bool:
        """Return True if the slopes predicted by the last model prove a relative gap of `tol`.

        They lie in the domain of the conjugate of R, so the gap by Fenchel's inequality is of second order in
        the step. The slopes at the margins must be moved into this domain: a gap of first order.
        """
        enough = np.sqrt(0.1 * tol) if self.whole else tol  # short of a full step the gap is about the gain
        if self.foretold is None or not self.gain <= enough * abs(self.value):
            return False
        self.measure(self.foretold)
        return self.monitor.reached(self.gap, tol)

    def _formed(self, features: NDArray[np.intp] | None) -> _Model:
        """Form the quadratic model at the current point over the given features, and keep it."""
        last, form = self.model, self.form
        if features is None:
            X = form.X
        else:
            same_features = last is not None and np.array_equal(last.features, features)  # type: ignore[arg-type]
            X = last.X if last and same_features else form.X[:, features]
        h = self._curvature()
        mass, free = float(h.sum()) or 1.0, float(form.intercept)
        by_columns = self._by_columns(X.shape[1])
        if by_columns or self.systems is not None:  # products take the place of a matrix
            mean, H = np.asarray(X.T @ h) * (free / mass), None
            if by_columns:
                H = Columns(X.tocsc() if sparse.issparse(X) else np.asfortranarray(X), h, mean, mass)
            self.monitor.passes += 0.5 * self.cost
        elif self.rows:
            mean, curved = np.asarray(X.T @ h) * (free / mass), np.flatnonzero(h)
            rows = X[curved].toarray() if sparse.issparse(X) else X[curved]
            H = np.sqrt(h[curved])[:, None] * (rows - mean)
            self.monitor.systems += 1
        else:
            H, s = weighted_sums(X, h)
            for V, S in self.losses.coupling(self.t):
                V = V * form.y[:, None]
                image, sums = np.asarray(X.T @ V), np.asarray(V.sum(axis=0)).ravel()
                H += image @ S @ image.T
                s += image @ (S @ sums)
                mass += float(sums @ S @ sums)
            s *= free
            H -= np.outer(s, s / mass)
            if self.Q is not None:
                H += 2.0 * (self.Q if features is None else self.Q[np.ix_(features, features)])
            mean, fraction = s / mass, X.shape[1] / form.n
            fraction *= fraction * np.count_nonzero(h) / form.m
            self.monitor.hessian_passes += 0.5 * self.squares * fraction / form.unit_entries
            self.monitor.systems += 1
        self.model = _Model(features, X, H, mean, mass, h)
        return self.model

    def _curvature(self) -> Vec:
        """Return the curvature of the losses, on a straight part that of a damped parabola."""
        h = self.losses.curvature(self.t)
        flat = (h == 0.0) & (self.slopes != 0.0)
        if flat.any():
            away = np.maximum(np.abs(self.form.every_loss[0].offset - self.t[flat]), 1e-3)
            h[flat] = self.lengths.damping * np.abs(self.slopes[flat]) / away
        return h

    def advance(self) -> bool:
        """Take a proximal Newton step with backtracking, unless out of time; True if the objective fell."""
        features = None if self.box is None else self.box.working_set(self.w)
        order = self.form.n if features is None else features.size
        many = order > _ORDER and not self._by_columns(order)
        self.large = many and self.systems is None and not self.rows
        self.foretold = None
        if self.large:
            return False
        self.before = self.gain
        try:
            model = self._formed(features)
        except OutOfTime:
            return False
        g, w = model.of(self.g), model.of(self.w)
        d = self._direction(model, g - self.bend * model.mean, w)
        e = -self.bend / model.mass - float(model.mean @ d)
        penalty, linear = self._penalty(w, model), float(model.of(self.tilt.normal) @ d)
        self.gain = penalty - self._penalty(w + d, model) - float(g @ d) - self.bend * e
        slack = 1e-14 * abs(self.value)  # rounding: a step of less gain still improves the slopes
        if not self.gain > -slack:
            return False
        move = self.form.y * (model.X @ d + e)
        self.monitor.passes += 0.5 * self.cost * w.size / self.w.size
        constant, a = self.value - self.smooth - penalty, self._first(w, d, move, linear)
        B = self.B if self.B is None or model.features is None else self.B[:, model.features]
        for _ in range(40):
            t, new = self.t + a * move, w + a * d
            smooth = self._smooth(t) + self._form(new, B)
            value = smooth + self._penalty(new, model) + constant - a * linear
            if value <= self.value - 1e-4 * a * self.gain + slack:  # Armijo's rule
                break
            a *= 0.5
        else:
            return False
        ridged = self.box is not None and self.lengths.ridge > 0.0
        exact = not (ridged or self._by_columns(w.size)) and self.losses is self.form
        self.foretold, self.whole = self.slopes - model.h * move if exact else None, a == 1.0
        self.lengths.after(a)
        gained = value < self.value - slack
        if model.features is None:
            self.w = new
        else:
            self.w = self.w.copy()
            self.w[model.features] = new
        self.b, self.t, self.smooth, self.value = self.b + a * e, t, smooth, value
        return gained

    def _first(self, w: Vec, d: Vec, move: Vec, linear: float) -> float:
        """Return the initial step length along d: by line search where R is smooth, else 1."""
        if self.box is not None or self.joint is not None:  # whole steps keep the zeros of d
            return 1.0
        curved = 2.0 * self.c * d + (0.0 if self.Q is None else 2.0 * (self.Q @ d))
        fixed = float(w @ curved) - linear - float(self.tilt.margin @ move)
        curve, t = float(d @ curved), self.t

        def slope(a: float, move: Vec) -> float:
            return fixed + a * curve - float(self.losses.gradient(t + a * move) @ move)

        start = fixed - float(self.slopes @ move)
        return line_search(slope, move, start) if start < 0.0 else 1.0

    def _direction(self, model: _Model, r: Vec, w: Vec) -> Vec:
        """Return the minimiser d of the model plus penalty, after elimination of the bias."""
        ridge, H = 2.0 * self.c, model.H
        if self.box is not None:
            new, formed = w.copy(), not self._by_columns(w.size)
            if self.lengths.ridge > 0.0 and formed:
                H = H.copy()
                H[np.diag_indices_from(H)] += self.lengths.ridge * float(np.mean(np.diagonal(H)))
            bounds = model.of(self.box.lower), model.of(self.box.upper)
            tol = _EXACT * float(model.of(self.box.over).max(initial=0.0))
            if formed and self.before <= 1e-2 * abs(self.value):  # before, another step is cheaper
                tol = min(tol, 1e-7 * float(bounds[1].max(initial=0.0)))  # the slopes will be a dual point
            boxed_quadratic(H, r, new, *bounds, ridge, tol, 50, self._late)
            return new - w
        if self.systems is not None:
            d, passes = self.systems.solve(model.h, model.mean, ridge, -(r + ridge * w), self._late)
            self.monitor.passes += passes * self.cost
            return d
        if self.constraint is not None and not self.rows:
            H = H + (ridge + 1e-7 * (float(np.mean(np.diagonal(H))) or 1.0)) * np.eye(w.size)
            return constrained_quadratic(H, r + ridge * w, w, self.constraint) - w
        if self.joint is not None:
            B = H if self.rows else _root(H)
            top = float(np.einsum("ij,ij->j", B, B).max()) or 1.0
            if not np.isfinite(top):  # the squares overflow: no step exists
                return np.full(w.size, np.nan)
            away = w - self.R.prox(w - r / top, 1.0 / top)
            return self.joint.solve(B, r, w, _EXACT * top * float(np.abs(away).max())) - w
        H = H.copy()
        np.einsum("ii->i", H)[...] += ridge
        return -ridge_solve(H, r + ridge * w)

    def _late(self) -> bool:
        return self.monitor.timed_out

    def _by_columns(self, order: int) -> bool:
        """Return True if a model of `order` features is solved by columns, without its matrix."""
        return self.box is not None and self.Q is None and order > _ORDER

    def _smooth(self, t: Vec) -> float:
        """Return the sum of the losses minus the linear term, at the margins t."""
        return self.losses.loss(t) - float(self.tilt.margin @ t)

    @staticmethod
    def _form(w: Vec, B: Matrix | None) -> float:
        """Return `||B w||^2`, or 0 without B."""
        return 0.0 if B is None else float(np.square(B @ w).sum())

    def _penalty(self, w: Vec, model: _Model) -> float:
        """Return R(w), w given at the features of the model and 0 elsewhere."""
        if self.joint is not None:
            return self.R.value(w)
        height = self.c * float(w @ w)
        if self.box is not None:
            bound = np.where(w > 0.0, model.of(self.box.upper), model.of(self.box.lower))
            height += float(bound[w != 0.0] @ w[w != 0.0])
        return height


def descend(
    at: ProximalIterate, monitor: Monitor, done: int, limit: int, watched: bool = False,
    patience: float = np.inf,
) -> tuple[Status, str]:  # fmt: skip
    """Run the Newton steps after number `done` in place; return the status and how large the gap is.

    watched : every 20 steps, end if neither the objective nor the gap has fallen
    patience : steps after which a predicted gain above a tenth of the objective ends them
    """
    step, stuck, previous, tol = done, 0, (np.inf, np.inf), monitor.tol
    for step in range(done + 1, limit + 1):
        at.look()
        looked = watched and step % 20 == 0
        # the gap, half a pass, may be small enough
        if at.gain <= 10.0 * tol * abs(at.value) or stuck or looked or monitor.timed_out:
            at.measure()
        if monitor.report(step, at.value, at.gap):
            return "interrupted", ""
        if monitor.reached(at.gap, 0.3 * tol) and monitor.met(at.missed):
            return "converged", ""
        if monitor.timed_out:
            return "interrupted", ""
        if looked:
            value, gap = previous
            if at.value > 0.99 * value and at.gap > 0.5 * gap:  # in the window neither value nor gap fell
                break
            previous = at.value, at.gap
        stuck = 0 if at.advance() else stuck + 1
        if at.ends(0.8 * tol) and monitor.met(at.missed):
            if step < limit:
                monitor.report(step + 1, at.value, at.gap)
            return "converged", ""
        slow = step >= patience and at.gain > 0.1 * abs(at.value)
        if stuck == 3 or slow or at.lost or not np.isfinite(at.value):
            break
    at.look()
    at.measure()
    if monitor.reached(at.gap, tol) and monitor.met(at.missed):
        return "converged", ""
    left = f"{step} Newton steps left a relative gap of {at.gap:.2g}"
    if step == limit:
        return "max_iter", f"{left}; raise max_iter"
    return "stalled", f"{left}; it falls no more; scale the features"


def _root(H: Matrix) -> Matrix:
    """Return B with `B'B = H + ridge`, the ridge small relative to each entry of the diagonal of H."""
    d = np.abs(np.diagonal(H))
    ridge = 1e-7 * d + 1e-20 * (float(np.mean(d)) or 1.0)
    try:
        return np.linalg.cholesky(H + np.diag(ridge)).T.astype(np.float64, copy=False)
    except np.linalg.LinAlgError:  # H is 0 up to rounding, as where all weighted samples coincide
        values, V = np.linalg.eigh(H)
        return np.sqrt(np.maximum(values, 0.0) + float(np.mean(ridge)))[:, None] * V.T
