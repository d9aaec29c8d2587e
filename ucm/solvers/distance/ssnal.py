"""Semismooth Newton proximal augmented Lagrangian (SSNAL) for `MinNorm`, couplings included.

For `min ||x||^2 / 2` over `x = c + sum A_k q_k`, `q_k in D_k`, `B q + o = 0`, stack the dual variables
`y = (w, mu)` and the maps `G_k = [A_k; B_k]`, `h = (c, o)`. From the point q, one outer step minimises

    psi(y) = |w|^2/2 + |mu - mu_0|^2/(2 tau) - <h, y> + sum_k env_k(-G_k' y),
    env_k(u) = max over p in D_k of <u, p> - |p - q_k|^2 / (2 sigma_k),

whose gradient is `(w, (mu - mu_0)/tau) - h - sum_k G_k p_k` at `p_k = P_k(q_k - sigma_k G_k' y)` and whose
generalised Hessian is `diag(1, 1/tau) + sum_k sigma_k G_k J_k G_k'`, J_k the Jacobian of the projection.
Then q becomes p, and sigma grows. Zhao, Sun and Toh (2010) give the method; Ito, Takeda and Toh (2015),
equation (4), the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ucm.data.deadline import OutOfTime
from ucm.data.linear_map import LinearMap, Vec
from ucm.data.options import COUNT, FLAG, option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver, Status
from ucm.language.contracts import SemiSmooth
from ucm.native.threads import blas_threads
from ucm.numerics.coordinates import RangeSpace, range_space_orders
from ucm.numerics.newton_steps import (
    LOST,
    MOST,
    SHRINK,
    TRIALS,
    ConjugateGradients,
    Formed,
    Stall,
    gradient_tolerance,
    growth,
    line_search,
)

_CANCELS = 1e-10  # size of a sum relative to its columns that counts as rounding
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class SSNAL(Solver[MinNorm]):
    """Solve Euclidean nearest points by a proximal augmented Lagrangian with semismooth Newton steps.

    Parameters
    ----------
    max_order
        Largest number of features, the order of the linear systems; with couplings, whose
        equations count too, twice that, as first-order methods take long there.
    iterative
        Solve the linear systems by conjugate gradients, of any order.
    """

    max_order: int = option(COUNT, 1500)
    iterative: bool = option(FLAG, False)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the solver: "ssnal", or "ssnal-cg" with conjugate gradients."""
        return "ssnal-cg" if self.iterative else "ssnal"

    def refuse(self, form: MinNorm) -> str | None:
        why = form.reason_against(SemiSmooth, "Jacobian of its projection", coupled=True)
        if why is not None:
            return why
        n, coupled = (not self.iterative and range_space_orders(form)) or (form.n, form.coupled)
        order = n + coupled
        most = self.max_order * (2 if form.couplings else 1)
        if order > most and not self.iterative:
            return f"its linear systems would have order {order}, above {most}"
        parameters = sum(b.map.shape[1] for b in form.blocks)
        if not form.couplings and n > max(300, 2 * parameters) and not self.iterative:
            return f"{n} features exceed {parameters} parameters by far: too large a system"
        return None

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        orders = None if self.iterative else range_space_orders(form)
        if orders is None:
            return self._solve(form, monitor, start)
        with blas_threads(orders[0]):
            reduced = RangeSpace.of(form, monitor)
        start = None if start is None else Answer(start.q)
        return reduced.back(self._solve(reduced.form, monitor, start))

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        with blas_threads(form.n + form.coupled):
            at = _Iterate(form, form.begin(start), monitor, self)
            if start is not None:  # a start near 0 gives no unit of length
                at.largest = max(at.largest, form.largest)
            return at.answer(at.run())


class _Iterate:
    """Iterate of SSNAL in scaled units: features in units of `scale`, each coupling in its own unit.

    q, p : the proximal centre and the trial point, by block
    y, y0 : the stacked dual variable and its proximal centre (couplings only)
    adjoint : `G_k' y` by block
    largest_y : the largest norm of a y that it was carried on from
    proven : an adjoint and the bound that it proves
    sigma, tau : proximal parameters
    upper, gap, residual : norm and relative gap of x(q), and how far q misses the couplings
    w, multipliers : the dual vector and the multipliers that prove the gap
    spent : passes when sigma last grew
    best, best_point : the gap of the best centre so far, with its q, w and multipliers
    """

    def __init__(self, form: MinNorm, q: list[Vec], monitor: Monitor, options: SSNAL) -> None:
        self.form, self.q, self.monitor = form, q, monitor
        self.iterative = options.iterative
        x = form.matvec(q)
        parts = [float(np.linalg.norm(b.map.matvec(v))) for b, v in zip(form.blocks, q, strict=True)]
        self.scale = max(float(np.linalg.norm(form.center)) + sum(parts), _TINY)
        if sum(parts) == 0.0 or self.scale == _TINY or form.couplings:
            columns = [float(b.map.column_norms().max(initial=0.0)) for b in form.blocks]
            if sum(parts) <= _CANCELS * max(columns, default=0.0):
                self.scale = max([self.scale, *columns])
        if self.scale == _TINY:  # every map is zero: only couplings are left
            self.scale = 1.0
        self.units = form.units(q)
        factors = [self.scale / u for u in self.units]
        self.G: list[LinearMap] = [form.stacked(k, factors) for k in range(len(form.blocks))]
        self.cost = sum(A.entries for A in self.G) / max(1, form.stored)  # couplings included
        self.systems = (
            ConjugateGradients(self.G, form.stored, timed_out=lambda: monitor.timed_out)
            if self.iterative
            else Formed(self.G, form.stored)
        )
        offsets = [c.offset * f for c, f in zip(form.couplings, factors, strict=True)]
        self.h = np.concatenate([form.center, *offsets])
        self.y = np.concatenate([x, np.zeros(form.coupled)]) / self.scale
        self.y0 = np.zeros(self.y.size)
        self.ridge = np.ones(self.y.size)
        self.tau = 1e3
        self.ridge[form.n :] = 1.0 / self.tau
        self._pull_anew()
        top = max((float(np.abs(u).max(initial=0.0)) for u in self.adjoint), default=0.0)
        if top > 1.0 / _CANCELS and not form.couplings:
            self.scale = max(float(b.map.column_norms().max(initial=0.0)) for b in form.blocks)
            self.y = np.zeros(self.y.size)
            self._pull_anew()
        self.proven: tuple[list[Vec], float] = [], -np.inf
        self.sigma = [self._first_sigma(k) for k in range(len(form.blocks))]
        self.p = self._project()
        self.best = np.inf
        self.best_point: tuple[list[Vec], Vec | None, list[Vec]] = q, None, []
        self.floor = 1e-15
        self.largest = self.scale
        self.spent = monitor.passes

    def answer(self, status: Status) -> Answer:
        """Return the answer for a status: the current point if "converged", else the best point."""
        q, w, multipliers = self.best_point
        if status == "converged":
            q, w, multipliers = self.q, self.w, self.multipliers
        remedy = "raise max_iter" if status == "max_iter" else "scale the features, or raise tol"
        message = f"the gap stayed at {self.best:.2g}; {remedy}"
        return Answer(q, w, multipliers=multipliers).after(status, message)

    def run(self) -> Status:
        """Run the outer steps of the augmented Lagrangian; return the status."""
        monitor, refused, least, stalled = self.monitor, 0, np.inf, Stall()
        for outer in range(1, monitor.limit(200) + 1):
            steps = self._minimise()
            if steps == MOST and refused < 8 and not monitor.timed_out:
                if self._proves_empty():  # psi has no bound from below
                    return "infeasible"
                # p is no proximal point of q: the kinks are too sharp for this sigma
                refused += 1
                self._grow(SHRINK)
                continue
            refused = 0
            self.q = self.p
            self.y0 = np.concatenate([np.zeros(self.form.n), self.y[self.form.n :]])
            objective, error = self._assess()
            ends = stalled.after(error)
            if error <= least:
                least, self.best = error, self.gap
                self.best_point = self.q, self.w, self.multipliers
            stop = monitor.report(outer, objective, self.gap, lambda: {"q": [v.copy() for v in self.q]})
            if self._solved():
                return "converged"
            # if the set is empty, the lower bound comes to exceed the norm of the point, which is outside
            if (self.gap < 0.0 or self.w is None) and self._proves_empty():
                return "infeasible"
            if stop or monitor.timed_out:
                return "interrupted"
            if ends:
                return "stalled"
            self._grow(growth(steps, 3.0))  # 3.0 where no Newton step was needed
        return "max_iter"

    def _minimise(self) -> int:
        """Minimise psi over y by Newton steps; return their number, `MOST` where steps or search end."""
        lost, relative = 0, gradient_tolerance(self.best)
        for step in range(MOST):
            g = self._gradient()
            if self._good_enough(g, relative) or self.monitor.timed_out:
                return step
            try:
                d = self._direction(g)
            except OutOfTime:  # y stays, with what it proves
                return step
            start = float(g @ d)
            if not -np.inf < start < 0.0:
                return step + 1
            trials = self._move(d, start)
            lost = lost + 1 if trials == TRIALS else 0
            if lost == LOST:
                break
        return MOST

    def _first_sigma(self, k: int) -> float:
        """Return the initial sigma of block k: a multiple of (reach of the domain) / (spread of `G_k' y`)."""
        sharpness = 3.0 if self.iterative else 30.0  # conjugate gradients converge faster with wide kinks
        b = self.form.blocks[k]
        g = self.adjoint[k]
        probe = g if np.ptp(g) > 0.0 else np.ones_like(g)
        _, far = b.domain.support(-probe)
        reach = float(np.abs(far - self.q[k]).max(initial=0.0))
        size = float(np.abs(self.q[k]).max(initial=0.0))
        if size > 0.0:  # a vertex of one operand is seldom in the other
            reach = min(reach, size if self.form.couplings else 4.0 * size)
            reach = 0.0 if reach <= 1e-12 * size else reach  # rounding
        spread = float(np.std(g)) or float(np.abs(g).max(initial=0.0))
        if not np.isfinite(reach) or reach == 0.0 or spread == 0.0:
            # the gradient is 0, the domain unbounded, or the reach 0
            norms = float(self.G[k].column_norms().max(initial=0.0)) / self.scale
            if norms == 0.0 or reach == 0.0:
                return 1.0
            return sharpness * reach / norms if np.isfinite(reach) else 1.0 / norms**2
        return sharpness * reach / spread

    # --- the inner problem ---------------------------------------------------------------------
    def _arguments(self, t: float = 0.0, move: Sequence[Vec] = ()) -> list[Vec]:
        """Return the arguments `q_k - sigma_k G_k' (y + t d)` of the projections, with `move` = G_k' d."""
        products = self.adjoint if not move else [u + t * e for u, e in zip(self.adjoint, move, strict=True)]
        return [q - s * u for q, s, u in zip(self.q, self.sigma, products, strict=True)]

    def _project(self, t: float = 0.0, move: Sequence[Vec] = ()) -> list[Vec]:
        return [
            b.domain.project(v)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, self._arguments(t, move), strict=True)
        ]

    def _image(self, p: Sequence[Vec]) -> Vec:
        """Return `h + G p` in scaled units, the features before the couplings."""
        return sum((A.matvec(v) for A, v in zip(self.G, p, strict=True)), start=self.h) / self.scale

    def _pulled(self, d: Vec) -> list[Vec]:
        """Return `G_k' d` by block, in scaled units."""
        return [A.rmatvec(d) / self.scale for A in self.G]

    def _pull_anew(self) -> None:
        """Recompute `G' y` from y, without the rounding errors of its updates."""
        self.adjoint = self._pulled(self.y)
        self.largest_y = float(np.linalg.norm(self.y))

    def _gradient(self) -> Vec:
        """Return the gradient of psi at y."""
        self.monitor.passes += self.cost / 2
        return self.ridge * (self.y - self.y0) - self._image(self.p)

    def _good_enough(self, g: Vec, relative: float) -> bool:
        """Return True if g is small, `relative` to the proximal step, or y proves the gap."""
        move = sum(float((p - q) @ (p - q)) / s for p, q, s in zip(self.p, self.q, self.sigma, strict=True))
        small = max(relative * float(np.sqrt(move)), self.floor)
        return float(np.linalg.norm(g)) <= small or self._near(g)

    def _near(self, g: Vec) -> bool:
        """Return True if y and the image of p, both known without a product, prove the gap."""
        n, tol = self.form.n, self.monitor.tol
        z = self.ridge * (self.y - self.y0) - g
        upper = float(np.linalg.norm(z[:n]))
        if upper <= _TINY or float(np.linalg.norm(z[n:])) > 0.05 * tol * upper:
            return False
        return upper - self._bound() <= 0.4 * tol * upper

    def _direction(self, g: Vec) -> Vec:
        """Return the Newton direction `-H^-1 g`, with a generalised Hessian H of psi at y."""
        J = [
            b.domain.jacobian(v)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, self._arguments(), strict=True)
        ]
        d, passes, forming = self.systems.step(J, [s / self.scale**2 for s in self.sigma], self.ridge, g)
        self.monitor.systems += 1
        self.monitor.passes += passes
        self.monitor.hessian_passes += forming
        return d

    def _move(self, d: Vec, start: float) -> int:
        """Move y along d by a line search from the slope `start` of psi; return the number of its trials."""
        self.monitor.passes += self.cost / 2
        smooth = float(d @ (self.ridge * (self.y - self.y0) - self.h / self.scale))
        curve, trials = float(d @ (self.ridge * d)), 0

        def slope(t: float, pulled: Sequence[Vec]) -> float:
            nonlocal trials
            trials += 1
            self.p = self._project(t, pulled)
            return smooth + t * curve - sum(float(v @ e) for v, e in zip(self.p, pulled, strict=True))

        pulled = self._pulled(d)
        t = line_search(slope, pulled, start)
        self.y = self.y + t * d
        self.adjoint = [u + t * e for u, e in zip(self.adjoint, pulled, strict=True)]
        size = float(np.linalg.norm(self.y))
        self.largest_y = max(self.largest_y, size)
        if size <= 1e-3 * self.largest_y:
            self._pull_anew()
            self.monitor.passes += self.cost / 2
        return trials

    # --- the outer loop ------------------------------------------------------------------------
    def _assess(self) -> tuple[float, float]:
        """Return the objective and the error of q, and set its gap by y or, without proof, the point x."""
        n, s, tol = self.form.n, self.scale, self.monitor.tol
        z = self._image(self.q)
        x, self.residual = s * z[:n], float(np.linalg.norm(z[n:]))
        self.upper = upper = self.form.space.norm(x)
        self.largest = max(self.largest, upper)
        self.floor = max(1e-2 * tol * upper / s, 1e-15)
        lower = s * self._bound()
        length = float(np.linalg.norm(self.y[:n]))
        self.w: Vec | None = self.y[:n] / length if length > _TINY else None
        self.multipliers = self._multipliers(s * length) if length > _TINY else []
        floor = max(upper, 1e-12 * self.largest, _TINY)
        if upper - lower > 0.5 * tol * floor and upper > _TINY:
            mu = self._multipliers(upper)
            bound = self.form.lower_bound(x / upper, mu)
            self.monitor.passes += self.cost / 2
            if bound > lower:
                lower, self.w, self.multipliers = bound, x / upper, mu
        self.gap, self.lower = (upper - lower) / floor, lower
        # a point that misses its couplings can be "nearer" than the optimum: both errors count; 0 is a bound
        off = min(abs(self.gap) * max(upper, _TINY), upper)
        return -upper, max(off, self.residual * s)

    def _bound(self) -> float:
        """Return the lower bound on the norm from the dual vector y, in scaled units."""
        if self.proven[0] is not self.adjoint:
            size = float(np.linalg.norm(self.y[: self.form.n]))
            bound = -np.inf
            if size > _TINY:
                heights = self.form.supports([-u for u in self.adjoint])
                bound = float(self.h @ self.y) / self.scale - sum(h for h, _ in heights)
                bound /= size
            self.proven = self.adjoint, bound
        return self.proven[1]

    def _multipliers(self, size: float) -> list[Vec]:
        ends = np.cumsum([c.offset.size for c in self.form.couplings])[:-1]
        parts = np.split(self.y[self.form.n :], ends) if self.form.couplings else []
        return [mu * (self.scale**2 / (u * size)) for mu, u in zip(parts, self.units, strict=True)]

    def _proves_empty(self) -> bool:
        """Return True if y proves that the feasible set is empty."""
        return self.form.proves_empty(self._multipliers(self.scale), self.units)

    def _solved(self) -> bool:
        """Return True if the gap and the couplings meet the tolerance, or x is 0 to rounding."""
        tol = self.monitor.tol
        feasible = self.residual * self.scale <= 0.05 * tol * self.upper
        close = feasible and self.monitor.reached(self.gap)
        zero = self.monitor.at_zero(self.upper, self.lower, self.largest)
        return close or (zero and self.residual <= self.monitor.zero)

    def _grow(self, factor: float) -> None:
        """Multiply sigma and tau by a factor, smaller after many passes of conjugate gradients."""
        if self.iterative and factor > 1.0:
            passes = self.monitor.passes - self.spent
            factor = 9.0 if passes <= 12.0 else 4.0 if passes <= 25.0 else 2.0 if passes <= 60.0 else 1.0
        self.sigma = [min(s * factor, 1e30) for s in self.sigma]
        self.tau = min(self.tau * factor, 1e9)
        self.ridge[self.form.n :] = 1.0 / self.tau
        self.p = self._project()
        self.spent = self.monitor.passes
