"""Semismooth Newton on the augmented Lagrangian of `loss + c ||w||_2^2`.

With multipliers alpha of the equations `u = o - t` and `beta = alpha + v` (v the tilt of the margins, r
that of the normal), one outer step minimises over (w, b)

    psi = c |w|^2 - <r, w> - <v, t> + sum_i max_a [ a (o - t_i) - l_i*(a) - (a - alpha_i)^2 / (2 sigma) ],

whose inner maximiser is `a_i = prox_{sigma l_i*}(alpha_i + sigma (o - t_i))`, whose gradient is
`(2 c w - r, 0) - Z'(a + v)` (Z the samples and a constant 1, times their labels), and whose generalised
Hessian is `diag(2 c, 0) + sigma Z'DZ`, D the derivative of the proximal map: for the hinge loss 1 on the
samples with `0 < a_i < slope`. Then alpha becomes a, and sigma grows. In the limit alpha solves the dual
program, for the hinge loss a quadratic one with a box and one equation. The loss itself may
have no second derivative (hinge losses with p < 2); psi has a bounded one for every convex loss.

With more features than samples w lies in the span of the samples, but for `r / 2c`: coordinates of the
span make the problem one of m variables. Zhao, Sun and Toh (2010) give the method; (A.1) and (A.4) of Ong
and Le Thi (2013) and (9) of Sun (2024) the problems.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.maps import SampleMap
from ucm.data.options import COUNT, check_fields
from ucm.data.rows import row_norms, weighted_sums
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt
from ucm.numerics.steps import accuracy
from ucm.solvers.coordinates import ByInnerProducts, Orthonormal, Span
from ucm.solvers.objective.boxes import Boxes
from ucm.solvers.palm import Lagrangian, WeightedSum, ridge_solve, run

__all__ = ["DualNewton"]

_LOGGED = 10_000  # multiplier steps of the compiled loop, at most
_COMPILED = 200_000  # entries of Z up to which the whole loop runs in compiled code
_KINKED, _SMOOTH = 1.0, 30.0  # the first sigma, in slopes at margin o - 1: kinks want it blunt
_AGAIN = 10.0  # times that, near the solution of another problem
_ENOUGH = 0.3  # of the tolerance
_FAR = 1e3  # slopes of a start, in typical ones, at most
_LARGEST = 1e16  # sigma, in slopes
_ROUNDING = 1e-14  # of the terms that meet in a gradient
_BIAS = 1e-10  # of the curvature in b
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class DualNewton(InnerSolver):
    """Proximal augmented Lagrangian with semismooth Newton steps, for any convex loss with L2.

    Parameters
    ----------
    max_order
        Largest of min(samples, features), the order of the linear systems.
    max_outer
        Limit of multiplier steps.
    """

    max_order: int = 3000
    max_outer: int = 60
    name: ClassVar[str] = "newton-dual"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT, max_outer=COUNT)

    def refuse(self, form: Composite) -> str | None:
        if len(form.losses) != 1:
            return "it takes a single loss"
        if form.single is not None and not form.single.all():
            return "it takes losses of both classes"
        a, c, s, others = form.norms
        if c == 0.0 or a > 0.0 or s > 0.0 or others:
            return "it takes the squared l2 norm as the only convex penalty"
        if min(form.m, form.n) > self.max_order:
            return f"its linear systems would have order {min(form.m, form.n)}"
        return None

    def predicted_passes(self, form: Composite) -> float:
        return 15.0 if form.losses[0].slope() is None else 40.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Multipliers(form, monitor, self.max_outer)


class _Multipliers(Session):
    """What lasts from one tilted problem to the next.

    Attributes
    ----------
    form : the samples, in coordinates of their span where features outnumber them
    span : these coordinates, or None
    entries : of the samples as they are bound, half a pass
    typical : the mean slope of the losses at the margin o - 1, what alpha and sigma are measured in
    first, sigma : the proximal parameters of the first problem, and of the next
    z, alpha : (n + 1,) the normal and the bias, (m,) the dual point
    """

    def __init__(self, form: Composite, monitor: Monitor, max_outer: int) -> None:
        self.monitor, self.max_outer = monitor, max_outer
        self.entries = form.entries
        self.span: Span | None = None
        if form.n > form.m:
            X = form.X
            self.span = ByInnerProducts([X]) if sparse.issparse(X) else Orthonormal(X)
            form = replace(form, X=self.span.tables[0])
            monitor.forming += 0.5 * self.span.forming / self.entries
        self.form, loss = form, form.losses[0]
        self.c = 1.0 if form.single is None else form.single
        self.typical = float(np.mean(self.c * loss.gradient(np.ones(form.m)))) or 1.0
        self.kinked = loss.slope() is not None
        self.sigma = self.first = self.typical * (_KINKED if self.kinked else _SMOOTH)
        self.z, self.alpha = np.zeros(form.n + 1), np.zeros(form.m)

    @functools.cached_property
    def table(self) -> Matrix:
        """(m, n + 1) the samples and a constant 1, times their labels."""
        X, y = self.form.X, self.form.y
        X = X.toarray() if sparse.issparse(X) else X
        return np.ascontiguousarray(np.column_stack([X, np.ones(y.size)]) * y[:, None])

    @functools.cached_property
    def curvature(self) -> WeightedSum:
        """`Z'DZ`, for the D of the last system."""
        form = self.form
        squares = SampleMap(form.X).squares + form.entries
        return WeightedSum(self._bordered, form.n + 1, form.m, squares)

    def _bordered(self, d: Vec) -> Matrix:
        n = self.form.n
        H = np.empty((n + 1, n + 1))
        H[:n, :n], H[:n, n] = weighted_sums(self.form.X, d)
        H[n, :n], H[n, n] = H[:n, n], d.sum()
        return H

    @functools.cached_property
    def reach(self) -> float:
        """The mean norm of the samples and a constant 1."""
        return float(np.mean(np.hypot(row_norms(self.form.X), 1.0)))

    def place(self, w: Vec, b: float) -> None:
        self.z[:-1] = w if self.span is None else self.span.inward(w)
        self.z[-1] = b
        slopes = self.form.gradient(self.form.margins(self.z[:-1], b))
        self.alpha = np.minimum(slopes, np.minimum(self.form.caps, _FAR * self.typical))
        self.sigma = _AGAIN * self.first

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        outside: float | Vec = 0.0  # the part of w outside of the span, which moves no margin
        if self.span is not None:
            normal = np.zeros(self.form.n)
            if tilt.normal.any():
                normal = self.span.inward(tilt.normal)
                outside = (tilt.normal - self.span.outward(normal)) / (2.0 * form.norms[1])
            form, tilt = replace(form, X=self.form.X), Tilt(tilt.margin, normal)
        tops = self._tops(form)
        watched = self.whole and (self.monitor.callback is not None or self.monitor.verbose)
        small = self.kinked and form.m * (form.n + 1) <= _COMPILED
        if small and not watched and not tilt.normal.any():
            status, left = self._compiled(form, tilt.margin, tol)
        elif self.whole and tops is not None and not tilt.margin.any():
            status, left = self._in_boxes(form, tops), ""
            if status == "max_iter" and self.monitor.goes_on:
                status, left = self._interpreted(form, tilt, tol)
        else:
            status, left = self._interpreted(form, tilt, tol)
        self.sigma = _AGAIN * self.first
        w = self.z[:-1].copy() if self.span is None else self.span.outward(self.z[:-1])
        answer = Answer(w=w + outside, b=float(self.z[-1]), slopes=self.alpha.copy())
        return answer.after(status, left)

    def _interpreted(self, form: Composite, tilt: Tilt, tol: float) -> tuple[str, str]:
        """How it ended, and what was left."""
        at = _Tilted(self, form, tilt, tol)
        status = run(at, self._limit(), self._report, lambda: self.monitor.late)
        self.z, self.alpha = at.kept
        return status, _left(at.steps, at.best)

    def _tops(self, form: Composite) -> tuple[float, float] | None:
        """The largest slope in each class, where the loss is a slanted plus function of one in each."""
        if not self.kinked:
            return None
        own = [form.caps[form.y > 0.0], form.caps[form.y < 0.0]]
        tops = [float(caps.max(initial=0.0)) for caps in own]
        same = all(caps.min(initial=top) == top > 0.0 for caps, top in zip(own, tops, strict=True))
        return (tops[0], tops[1]) if same else None

    def _in_boxes(self, form: Composite, tops: tuple[float, float]) -> str:
        """By the samples near their kinks; answers how it ended."""
        boxes = Boxes(form.X, form.y, tops, form.norms[1], form.losses[0].offset, self.entries)
        near = (self.alpha, self.z[:-1]) if self.z.any() else None
        w, b, self.alpha, ended = boxes.solve(self.monitor, near)
        self.z = np.append(w, b)
        return ended

    def _compiled(self, form: Composite, v: Vec, tol: float) -> tuple[str, str]:
        monitor, Z = self.monitor, self.table
        log = np.empty((min(self._limit(), _LOGGED), 5))
        done = numerics.plus_newton(
            Z, np.ascontiguousarray(v), self.z, self.alpha, form.losses[0].offset, form.caps,
            form.norms[1], self.sigma, _ENOUGH * tol, monitor.stop, log,
        )  # fmt: skip
        spent, share = monitor.passes, Z.size / self.entries
        for step, (value, gap, passes, _, _) in enumerate(log[:done].tolist()):
            monitor.passes = spent + share * passes
            self._report(step + 1, value, gap)
        gap, (systems, rows) = log[:done, 1].min(), log[done - 1, 3:]
        monitor.systems += int(systems)
        monitor.forming += 0.25 * share * rows * Z.shape[1] / Z.shape[0]
        if gap <= _ENOUGH * tol:
            return "converged", ""
        return "interrupted" if monitor.late else "max_iter", _left(done, gap)

    def _limit(self) -> int:
        return self.monitor.limit(self.max_outer) if self.whole else self.max_outer

    def _report(self, step: int, objective: float, gap: float) -> bool:
        return self.whole and self.monitor.report(step, objective, gap)


def _left(steps: int, gap: float) -> str:
    return f"{steps} multiplier steps left a relative gap of {gap:.2g}"


class _Tilted(Lagrangian):
    """One tilted problem.

    Attributes
    ----------
    c : the weights of the samples, or 1
    z, t : normal and bias, and the margins there
    alpha, a : the multipliers, and those that z calls for
    ridge : the curvature of `c |w|^2`
    gap : the relative gap
    kept : z and alpha where it was smallest
    """

    at_once = 9.0

    def __init__(self, session: _Multipliers, form: Composite, tilt: Tilt, tol: float) -> None:
        self.session, self.form, self.tilt, self.tol = session, form, tilt, tol
        self.monitor, self.cost = session.monitor, form.entries / session.entries
        loss = form.losses[0]
        self.loss, self.c, self.offset = loss, session.c, loss.offset
        self.z, self.alpha, self.sigma = session.z, session.alpha, session.sigma
        self.ridge = np.append(np.full(form.n, 2.0 * form.norms[1]), 0.0)
        self.linear = np.append(tilt.normal, 0.0)
        self.t = self._margins(self.z)
        self.a = self._proximal()
        self.kept = self.z, self.alpha
        self.steps = 0

    def _margins(self, z: Vec) -> Vec:
        self.monitor.passes += 0.5 * self.cost
        return self.form.margins(z[:-1], z[-1])

    def _argument(self, s: float = 0.0, e: Vec | float = 0.0) -> Vec:
        """What the proximal map is asked for, at the margins t + s e."""
        return self.alpha + self.sigma * (self.offset - (self.t + s * e))

    def _proximal(self, s: float = 0.0, e: Vec | float = 0.0) -> Vec:
        return self.c * self.loss.conjugate_prox(self._argument(s, e) / self.c, self.sigma / self.c)

    def gradient(self) -> Vec:
        beta = self.a + self.tilt.margin
        self.monitor.passes += 0.5 * self.cost
        pull = np.append(self.form.pull(beta), self.form.y @ beta)
        return self.ridge * self.z - self.linear - pull

    def good_enough(self, g: Vec) -> bool:
        """Against the proximal step, both as they count in psi; or rounding."""
        move = float(np.linalg.norm(self.a - self.alpha)) * np.sqrt(self.ridge[0] / self.sigma)
        terms = float(np.abs(self.a + self.tilt.margin).sum())
        return float(np.linalg.norm(g)) <= max(
            accuracy(self.best) * move, _ROUNDING * self.session.reach * terms
        )

    def direction(self, g: Vec) -> Vec:
        v, t = self._argument() / self.c, self.sigma / self.c
        d = self.loss.conjugate_prox_slope(v, t, self.a / self.c)
        curvature = self.session.curvature
        self.monitor.forming += 0.5 * curvature.follow(d) / self.session.entries
        self.monitor.systems += 1
        H = self.sigma * curvature.value
        np.einsum("ii->i", H)[...] += self.ridge
        H[-1, -1] = H[-1, -1] * (1.0 + _BIAS) or self.sigma  # b has no curvature of its own
        return -ridge_solve(H, g)

    def ahead(self, d: Vec) -> Any:
        e = self._margins(d)
        fixed = d @ (self.ridge * self.z - self.linear) - e @ self.tilt.margin
        return e, float(fixed), float(d @ (self.ridge * d))

    def slope(self, t: float, ahead: Any) -> float:
        e, fixed, curve = ahead
        self.a = self._proximal(t, e)
        return fixed + t * curve - float(e @ self.a)

    def move(self, t: float, d: Vec, ahead: Any) -> None:
        self.z = self.z + t * d
        self.t = self.t + t * ahead[0]

    def advance(self) -> None:
        self.alpha = self.a

    def assess(self) -> tuple[float, float, float]:
        self.steps += 1
        self.t = self._margins(self.z)  # without the rounding of the steps
        value = self.form.value(self.t, self.z[:-1], self.tilt)
        bound, _ = self.form.lower_bound(self.alpha, self.t, self.tilt)
        self.monitor.passes += 0.5 * self.cost
        self.gap = (value - bound) / max(abs(value), 1e-300)
        return value, self.gap, self.gap

    def keep(self) -> None:
        self.kept = self.z, self.alpha

    def proves_empty(self) -> bool:
        return False  # every alpha of the domain is a point

    def solved(self) -> bool:
        return self.gap <= _ENOUGH * self.tol

    def grow(self, factor: float) -> None:
        self.sigma = min(factor * self.sigma, _LARGEST * self.session.typical)
        self.a = self._proximal()
