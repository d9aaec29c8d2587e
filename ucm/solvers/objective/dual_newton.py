"""Semismooth Newton on the augmented Lagrangian of `loss + c ||w||_2^2`: the dual quadratic route.

With multipliers alpha of the equations `u = o - t` and `beta = alpha + v` (v the tilt of the margins),
one outer step minimises over (w, b)

    psi = c |w|^2 - <v, t> + (b - b0)^2 / (2 tau)
          + sum_i max_a [ a (o - t_i) - l*(a) - (a - alpha_i)^2 / (2 sigma) ],

whose inner maximiser is `a_i = prox_{sigma l*}(alpha_i + sigma (o - t_i))`, whose gradient is
`2 c w - Z'(a + v)` (Z the samples times their labels), and whose generalised Hessian is
`2 c I + sigma Z'DZ`, D the derivative of the proximal map: for the hinge loss 1 on the samples with
`0 < a_i < slope`. Then alpha becomes a, and sigma grows. In the limit alpha solves the dual quadratic
program, a box and one equation.

With more features than samples w lies in the span of the samples: an orthonormal basis of it makes the
problem one of m variables. Zhao, Sun and Toh (2010) give the method; (A.1) and (A.4) of Ong and Le
Thi (2013) the problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm import numerics
from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt

__all__ = ["DualNewton"]

_GROWTH = {0: 9.0, 1: 9.0, 2: 6.0, 3: 4.2}  # of sigma, by inner steps; else 3
_STEPS = 40  # of Newton in one outer step; sigma shrinks when they do not suffice
_COMPILED = 200_000  # entries of Z up to which the whole loop runs in compiled code
_START = 10.0  # sigma of a problem that starts from the answer of another, in slopes


@dataclass(frozen=True)
class DualNewton(InnerSolver):
    """Proximal augmented Lagrangian with semismooth Newton steps, for any convex loss with L2.

    Parameters
    ----------
    max_order : largest of min(samples, features), the order of the linear systems
    max_outer : limit of multiplier steps
    """

    max_order: int = 3000
    max_outer: int = 60
    name: ClassVar[str] = "newton-dual"

    def __post_init__(self) -> None:
        if self.max_order < 1 or self.max_outer < 1:
            raise ParameterError("DualNewton: max_order and max_outer must be at least 1")

    def refuse(self, form: Composite) -> str | None:
        if len(form.losses) != 1:
            return "it takes a single loss"
        a, c, s, others = form.norms
        if c == 0.0 or a > 0.0 or s > 0.0 or others:
            return "it takes the squared l2 norm as the only convex penalty"
        if min(form.m, form.n) > self.max_order:
            return f"its linear systems would have order {min(form.m, form.n)}"
        return None

    def predicted_passes(self, form: Composite) -> float:
        return 30.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Multipliers(form, monitor, self.max_outer)


class _Multipliers(Session):
    """The state: normal and bias, the dual point, the step of the multipliers.

    Z : (m, k + 1) samples times labels in the basis, then the labels
    basis : (n, k) with orthonormal columns, or None where it is the identity
    """

    def __init__(self, form: Composite, monitor: Monitor, max_outer: int) -> None:
        self.monitor, self.max_outer = monitor, max_outer
        X = form.X.toarray() if sparse.issparse(form.X) else form.X
        self.basis: NDArray[np.float64] | None = None
        if form.n > form.m:
            self.basis, triangle = np.linalg.qr(X.T)
            X = triangle.T
        self.Z = np.ascontiguousarray(np.column_stack([X, np.ones(form.m)]) * form.y[:, None])
        self.loss = form.losses[0]
        self.factors, self.top = form.factors, form.caps
        self.weighted = form.class_weight != (1.0, 1.0)
        self.kinked = self.loss.slope() is not None
        self.z = np.zeros(self.Z.shape[1])
        self.alpha = 0.5 * np.minimum(self.top, 2.0)
        self.sigma = min(float(self.top.min()), 1.0)

    def place(self, w: Vec, b: float) -> None:
        self.z[:-1] = w if self.basis is None else self.basis.T @ w
        self.z[-1] = b
        u = self.loss.offset - self.Z @ self.z
        self.alpha = np.minimum(self.factors * self.loss.gradient(u), np.minimum(self.top, 1e3))

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        c = form.norms[1]
        v = tilt.margin
        if self.kinked and self.Z.size <= _COMPILED:
            log = np.empty((self.max_outer, 5))
            outer = numerics.plus_newton(
                self.Z, np.ascontiguousarray(v), self.z, self.alpha, self.loss.offset, self.top, c,
                self.sigma, tol, log,
            )  # fmt: skip
            _, gap, passes, systems, rows = log[outer - 1].tolist()
            self.monitor.passes += passes
            self.monitor.systems += int(systems)
            self.monitor.forming += 0.25 * rows * self.Z.shape[1] / self.Z.shape[0]
            return self._answer(gap <= 0.3 * tol, gap, outer)
        status = "max_iter"
        sigma = self.sigma
        b0 = self.z[-1]
        gap = value = np.inf
        for outer in range(self.max_outer):
            steps = self._inner(c, v, sigma, b0, tol)
            self.alpha = self._dual(sigma, self.Z @ self.z)
            b0 = self.z[-1]
            t = self.Z @ self.z
            value = c * float(self.z[:-1] @ self.z[:-1]) + form.loss(t) - float(v @ t)
            gap = value - self._bound(c, v)
            self.monitor.passes += 1.0
            if gap <= 0.3 * tol * abs(value):
                status = "converged"
                break
            if outer > 25 and sigma >= 1e13:
                break
            sigma *= _GROWTH.get(steps, 3.0) if steps < _STEPS else 0.3
        else:
            outer = self.max_outer
        return self._answer(status == "converged", gap / max(abs(value), 1e-300), outer)

    def _answer(self, solved: bool, gap: float, outer: int) -> Answer:
        self.sigma = _START * min(float(self.top.min()), 1.0)
        w = self.z[:-1] if self.basis is None else self.basis @ self.z[:-1]
        answer = Answer(w=w.copy(), b=float(self.z[-1]), slopes=self.alpha.copy())
        if not solved:
            answer.status = "max_iter"
            answer.message = f"{outer} multiplier steps left a relative gap of {gap:.2g}"
        return answer

    def _dual(self, sigma: float, t: Vec) -> Vec:
        return self._prox(self.alpha + sigma * (self.loss.offset - t), sigma)

    def _prox(self, v: Vec, sigma: float) -> Vec:
        """The proximal map of `sigma c_i l*(. / c_i)`."""
        if self.weighted:
            parts = np.empty_like(v)
            for c in np.unique(self.factors):
                k = self.factors == c
                parts[k] = c * self.loss.conjugate_prox(v[k] / c, sigma / c)
            return parts
        return self.loss.conjugate_prox(v, sigma)

    def _bound(self, c: float, v: Vec) -> float:
        """The dual value, once the heavier class is scaled down to `y'beta = 0`."""
        beta = self.alpha + v
        signed = self.Z[:, -1] * beta
        up, down = signed[signed > 0].sum(), -signed[signed < 0].sum()
        if not (up > 0.0 and down > 0.0):
            beta = np.zeros_like(beta)
        else:
            beta = beta * np.where(signed > 0, min(1.0, down / up), min(1.0, up / down))
        alpha = np.clip(beta - v, 0.0, self.top)
        z = self.Z[:, :-1].T @ beta
        total = self.loss.offset * float(alpha.sum()) - float(
            self.factors @ self.loss.conjugate(alpha / self.factors)
        )
        return total - 0.25 * float(z @ z) / c

    def _inner(self, c: float, v: Vec, sigma: float, b0: float, tol: float) -> int:
        """Newton steps on psi; returns their number."""
        Z, ridge = self.Z, np.full(self.z.size, 2.0 * c)
        ridge[-1] = 1e-8 * sigma
        t = Z @ self.z
        for step in range(_STEPS):
            argument = self.alpha + sigma * (self.loss.offset - t)
            a = self._prox(argument, sigma)
            g = ridge * self.z - Z.T @ (a + v)
            g[-1] -= ridge[-1] * b0
            self.monitor.passes += 0.5
            move = float(np.linalg.norm(a - self.alpha)) / np.sqrt(sigma)
            small = 0.1 * move * np.sqrt(2.0 * c)
            rounding = 1e-13 * (1.0 + float(np.abs(a).sum()))
            if float(np.linalg.norm(g)) <= max(small * min(1.0, 1e3 * tol), rounding):
                return step
            if self.kinked:
                free = (argument > 0.0) & (argument < self.top)
                part = Z[free]
                H = sigma * (part.T @ part)
                self.monitor.passes += 0.5 * float(free.mean()) * Z.shape[1]
            else:
                h = 1e-6 * (1.0 + np.abs(argument))
                ahead = self._prox(argument + h, sigma)
                d = np.maximum(ahead - self._prox(argument - h, sigma), 0.0) / (2 * h)
                H = sigma * (Z.T @ (d[:, None] * Z))
                self.monitor.passes += 0.5 * Z.shape[1]
            H[np.diag_indices_from(H)] += ridge
            direction = -_solve(H, g)
            slope = float(g @ direction)
            if not slope < 0.0:
                return step + 1
            along = Z @ direction
            length = self._search(c, v, sigma, b0, t, along, direction, slope, ridge)
            self.z = self.z + length * direction
            t = t + length * along
        return _STEPS

    def _search(
        self, c: float, v: Vec, sigma: float, b0: float, t: Vec, along: Vec, d: Vec, start: float,
        ridge: Vec,
    ) -> float:  # fmt: skip
        """A root of the (monotone) slope of psi along d, to a third of its start."""
        centre = self.z.copy()
        centre[-1] -= b0
        fixed, curve = float(d @ (ridge * centre)), float(d @ (ridge * d))

        def slope(s: float) -> float:
            u = self.alpha + sigma * (self.loss.offset - t - s * along)
            a = self._prox(u, sigma)
            return fixed + s * curve - float(along @ (a + v))

        low, f_low, high, f_high, s = 0.0, start, np.inf, np.inf, 1.0
        for _ in range(40):
            f = slope(s)
            if abs(f) <= 0.3 * abs(start):
                break
            if f < 0.0:
                low, f_low, f_high = s, f, 0.5 * f_high
            else:
                high, f_high, f_low = s, f, 0.5 * f_low
            s = 2.0 * s if np.isinf(high) else low - f_low * (high - low) / (f_high - f_low)
        return s


def _solve(H: NDArray[np.float64], g: Vec) -> Vec:
    """`H^-1 g` for a positive definite H, singular to rounding at most."""
    try:
        factor = linalg.cho_factor(H, check_finite=False)
        return linalg.cho_solve(factor, g, check_finite=False)
    except linalg.LinAlgError:
        return np.linalg.lstsq(H, g)[0].astype(np.float64)
