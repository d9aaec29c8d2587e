"""Semismooth Newton on the dual: a proximal augmented Lagrangian for `MinNorm`, couplings included.

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

from ucm.data.linear import LinearMap, Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Capped, SemiSmooth
from ucm.solvers.distance.curvature import ConjugateGradients, Formed, Systems
from ucm.solvers.threads import blas_threads

__all__ = ["Newton"]

_GROWTH = {1: 9.0, 2: 6.0, 3: 4.2, 0: 3.0, 4: 3.0, 5: 3.0}  # of sigma, by inner steps; else 2.1
_BY_PASSES = ((12.0, 9.0), (25.0, 4.0), (60.0, 2.0))  # of sigma, with conjugate gradients
_COUPLED = 2
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Newton(Solver[MinNorm]):
    """Proximal augmented Lagrangian with semismooth Newton steps.

    Parameters
    ----------
    max_order : largest number of features, the order of the linear systems; with couplings, whose
        equations count too, twice that, as first-order methods take long there
    max_inner : Newton steps within one outer step
    iterative : solve the linear systems by conjugate gradients, of any order
    """

    max_order: int = 1500
    max_inner: int = 40
    iterative: bool = False

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its own for either kind of system."""
        return "newton-cg" if self.iterative else "newton"

    def __post_init__(self) -> None:
        if self.max_order < 1 or self.max_inner < 1:
            raise ParameterError("Newton: max_order and max_inner must be at least 1")

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        order = form.n + form.coupled
        most = self.max_order * (_COUPLED if form.couplings else 1)
        if order > most and not self.iterative:
            return f"its linear systems would have order {order}, above {most}"
        parameters = sum(b.map.shape[1] for b in form.blocks)
        if not form.couplings and form.n > max(300, 2 * parameters) and not self.iterative:
            return f"{form.n} features exceed {parameters} parameters by far: too large a system"
        for b in form.blocks:
            if not isinstance(b.domain, SemiSmooth):
                return f"{b.domain!r} has no Jacobian of its projection"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        if form.couplings:
            return 1000.0 if self.iterative else 40.0
        if self.iterative:
            return 100.0
        return 25.0 if any(isinstance(b.domain, Capped) for b in form.blocks) else 10.0

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(form.n + form.coupled):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        state = _State(form, form.begin(start), self.iterative)
        answer = Answer(state.q)
        rejected = 0
        for outer in range(1, monitor.limit(200) + 1):
            spent = monitor.passes
            steps = self._inner(state, monitor)
            if steps == self.max_inner and rejected < 8:
                # p is no proximal point of q: the kinks are too sharp for this sigma
                rejected += 1
                state.grow(0.1)
                continue
            rejected = 0
            state.advance()
            x, upper, gap = state.assess(monitor)
            state.floor = max(1e-2 * monitor.tol * upper / state.scale, 1e-15)
            # a point that misses its couplings can be "nearer" than the optimum: both errors count
            merit = max(abs(gap) * max(upper, _TINY), state.residual * state.scale)
            if answer.w is None or merit <= state.merit:
                state.best, state.merit = gap, merit
                answer.q, answer.w, answer.multipliers = state.q, state.direction, state.split()
            stop = monitor.report(outer, -upper, gap)
            if state.proves_empty():
                answer.status = "infeasible"
                answer.message = "a separating direction was found"
                return answer
            if state.solved(gap, upper, monitor.tol) or state.at_zero(x, monitor.tol):
                answer.q, answer.w, answer.multipliers = state.q, state.direction, state.split()
                return answer
            if stop:
                answer.status, answer.message = "interrupted", "stopped by the callback"
                return answer
            if state.stalled(gap, steps):
                break
            state.grow(self._growth(steps, monitor.passes - spent))
        answer.status = "max_iter"
        answer.message = (
            f"the gap stayed at {state.best:.2g}; raise max_iter or tol, or scale the features"
        )
        return answer

    def _growth(self, steps: int, passes: float) -> float:
        """The factor of sigma after an outer step: the less it took, the larger."""
        if not self.iterative:
            return _GROWTH.get(steps, 2.1)
        return next((factor for most, factor in _BY_PASSES if passes <= most), 1.0)

    def _inner(self, state: _State, monitor: Monitor) -> int:
        """Newton steps on psi until its gradient is small against the proximal step."""
        for step in range(self.max_inner):
            g = state.gradient()
            monitor.passes += state.cost / 2
            if state.good_enough(g) or state.near(g, monitor.tol):
                return step
            d = state.newton_direction(g, monitor)
            if not state.line_search(d, g):
                return step + 1
            monitor.passes += state.cost / 2
            if float(np.linalg.norm(state.y)) <= 1e-3 * state.met:
                state.pull_anew()
                monitor.passes += state.cost / 2
        return self.max_inner


class _State:
    """The iterate in scaled units: features in units of `scale`, each coupling in its own.

    q, p : the proximal centre and the trial point, by block
    y, y0 : the stacked dual variable and its proximal centre (couplings only)
    pull : `G_k' y` by block
    met : the largest norm of a y that it was carried on from
    proven : a pull and the bound that it proves
    sigma, tau : proximal parameters
    """

    def __init__(self, form: MinNorm, q: list[Vec], iterative: bool) -> None:
        self.form, self.q = form, q
        x = form.matvec(q)
        parts = [
            float(np.linalg.norm(b.map.matvec(v))) for b, v in zip(form.blocks, q, strict=True)
        ]
        self.scale = max(float(np.linalg.norm(form.center)) + sum(parts), _TINY)
        if sum(parts) == 0.0 or self.scale == _TINY:
            columns = [b.map.column_norms().max(initial=0.0) for b in form.blocks]
            self.scale = max([self.scale, *columns])
        if self.scale == _TINY:  # every map is zero: only couplings are left
            self.scale = 1.0
        self.units = [self._unit(j) for j in range(len(form.couplings))]
        self.G: list[LinearMap] = [
            form.stacked(k, [self.scale / u for u in self.units]) for k in range(len(form.blocks))
        ]
        self.cost = sum(A.entries for A in self.G) / max(1, form.stored)  # couplings included
        self.sharpness = 3.0 if iterative else 30.0  # conjugate gradients like wide kinks
        self.systems: Systems = (ConjugateGradients if iterative else Formed)(self.G, form.stored)
        self.h = np.concatenate(
            [
                form.center,
                *(
                    c.offset * (self.scale / u)
                    for c, u in zip(form.couplings, self.units, strict=True)
                ),
            ]
        )
        n = form.n
        self.y = np.concatenate([x, np.zeros(form.coupled)]) / self.scale
        self.y0 = self.y.copy()
        self.ridge = np.ones(self.y.size)
        self.tau = 1e3
        self.ridge[n:] = 1.0 / self.tau
        self.pull_anew()
        self.proven: tuple[list[Vec], float] = [], -np.inf
        self.sigma = [self._first_sigma(k) for k in range(len(form.blocks))]
        self.p = self.project()
        self.best = self.merit = np.inf
        self.floor = 1e-15
        self.largest = self.scale
        self.history: list[float] = []

    def pull_anew(self) -> None:
        """The pull of y, without the rounding of the larger ones before."""
        self.pull = [A.rmatvec(self.y) / self.scale for A in self.G]
        self.met = float(np.linalg.norm(self.y))

    def _unit(self, j: int) -> float:
        """The size of the terms that meet in coupling j."""
        c = self.form.couplings[j]
        sizes = [float(np.linalg.norm(B.matvec(self.q[k]))) for k, B in c.terms]
        sizes += [float(np.linalg.norm(c.offset))]
        top = max(sizes)
        return top if top > 0.0 else 1.0

    def _first_sigma(self, k: int) -> float:
        """`sharpness` times (reach of the domain) / (spread of the pull), as a step from the centre."""
        b = self.form.blocks[k]
        g = self.pull[k]
        probe = g if np.ptp(g) > 0.0 else np.ones_like(g)
        _, far = b.domain.support(-probe, classes=b.classes)
        reach = float(np.abs(far - self.q[k]).max(initial=0.0))
        size = float(np.abs(self.q[k]).max(initial=0.0))
        if size > 0.0:  # a vertex of one operand is seldom in the other
            reach = min(reach, size if self.form.couplings else 4.0 * size)
        spread = float(np.std(g)) or float(np.abs(g).max(initial=0.0))
        if not np.isfinite(reach) or reach == 0.0 or spread == 0.0:
            # a block that only couplings pull, or one without bounds
            norms = float(self.G[k].column_norms().max(initial=0.0)) / self.scale
            if norms == 0.0 or reach == 0.0:
                return 1.0
            return self.sharpness * reach / norms if np.isfinite(reach) else 1.0 / norms**2
        return self.sharpness * reach / spread

    # --- the inner problem ---------------------------------------------------------------------
    def arguments(self, t: float = 0.0, move: Sequence[Vec] = ()) -> list[Vec]:
        """What is projected, at y + t d with `move` = G_k' d."""
        pull = self.pull if not move else [u + t * e for u, e in zip(self.pull, move, strict=True)]
        return [q - s * u for q, s, u in zip(self.q, self.sigma, pull, strict=True)]

    def project(self, t: float = 0.0, move: Sequence[Vec] = ()) -> list[Vec]:
        return [
            b.domain.project(v, classes=b.classes)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, self.arguments(t, move), strict=True)
        ]

    def image(self, p: Sequence[Vec]) -> Vec:
        """`h + G p` in scaled units: features above, couplings below."""
        return sum((A.matvec(v) for A, v in zip(self.G, p, strict=True)), start=self.h) / self.scale

    def gradient(self) -> Vec:
        return self.ridge * (self.y - self._proximal()) - self.image(self.p)

    def _proximal(self) -> Vec:
        centre = self.y0.copy()
        centre[: self.form.n] = 0.0
        return centre

    def good_enough(self, g: Vec) -> bool:
        move = sum(
            float((p - q) @ (p - q)) / s for p, q, s in zip(self.p, self.q, self.sigma, strict=True)
        )
        size = float(np.linalg.norm(g))
        return size <= max(0.5 * np.sqrt(move) * min(1.0, 10.0 * self.accuracy()), self.floor)

    def near(self, g: Vec, tol: float) -> bool:
        """Whether y and the image of p, both known, prove the gap already."""
        n = self.form.n
        z = self.ridge * (self.y - self._proximal()) - g
        upper = float(np.linalg.norm(z[:n]))
        if upper <= _TINY or float(np.linalg.norm(z[n:])) > 0.05 * tol * upper:
            return False
        return upper - self._bound() <= 0.4 * tol * upper

    def accuracy(self) -> float:
        return 1.0 if not np.isfinite(self.best) else min(1.0, max(self.best, 1e-6) ** 0.5)

    def newton_direction(self, g: Vec, monitor: Monitor) -> Vec:
        J = [
            b.domain.jacobian(v, classes=b.classes)  # type: ignore[attr-defined]
            for b, v in zip(self.form.blocks, self.arguments(), strict=True)
        ]
        step = self.systems.step(J, [s / self.scale**2 for s in self.sigma], self.ridge, g)
        monitor.systems += 1
        monitor.passes += step.passes
        monitor.forming += step.forming
        return step.d

    def line_search(self, d: Vec, g: Vec) -> bool:
        """Move along d to where the (monotone) slope of psi is small; False when it cannot."""
        move = [A.rmatvec(d) / self.scale for A in self.G]
        slope0 = float(g @ d)
        if not slope0 < 0.0:
            return False
        smooth = float(d @ (self.ridge * (self.y - self._proximal()) - self.h / self.scale))
        curve = float(d @ (self.ridge * d))

        def slope(t: float, p: Sequence[Vec]) -> float:
            pulls = sum(float(v @ e) for v, e in zip(p, move, strict=True))
            return smooth + t * curve - pulls

        low, f_low, high, f_high, t = 0.0, slope0, np.inf, np.inf, 1.0
        p = self.p
        for _ in range(40):
            p = self.project(t, move)
            f = slope(t, p)
            if abs(f) <= 0.3 * abs(slope0):
                break
            if f < 0.0:
                low, f_low = t, f
                f_high /= 2.0
            else:
                high, f_high = t, f
                f_low /= 2.0
            t = 2.0 * t if not np.isfinite(high) else low - f_low * (high - low) / (f_high - f_low)
        self.y = self.y + t * d
        self.met = max(self.met, float(np.linalg.norm(self.y)))
        self.pull = [u + t * e for u, e in zip(self.pull, move, strict=True)]
        self.p = p
        return True

    # --- the outer loop ------------------------------------------------------------------------
    def advance(self) -> None:
        self.q = self.p
        self.y0 = self.y.copy()

    def grow(self, factor: float) -> None:
        self.sigma = [min(s * factor, 1e30) for s in self.sigma]
        self.tau = min(self.tau * factor, 1e9)
        self.ridge[self.form.n :] = 1.0 / self.tau
        self.p = self.project()

    def assess(self, monitor: Monitor) -> tuple[Vec, float, float]:
        """The point x, its norm, and the relative gap with the better of two dual vectors."""
        n, s = self.form.n, self.scale
        z = self.image(self.q)
        x, self.residual = s * z[:n], float(np.linalg.norm(z[n:]))
        upper = self.form.space.norm(x)
        self.largest = max(self.largest, upper)
        lower = s * self._bound()
        length = float(np.linalg.norm(self.y[:n]))
        self.direction: Vec | None = self.y[:n] / length if length > _TINY else None
        self.multipliers: list[Vec] = self._multipliers(s * length) if length > _TINY else []
        floor = max(upper, 1e-12 * self.largest, _TINY)
        if upper - lower > 0.5 * monitor.tol * floor and upper > _TINY:
            mu = self._multipliers(upper)
            bound = self.form.lower_bound(x / upper, mu)
            monitor.passes += self.cost / 2
            if bound > lower:
                lower, self.direction, self.multipliers = bound, x / upper, mu
        return x, upper, (upper - lower) / floor

    def _bound(self) -> float:
        """The lower bound that y along with its pull proves, in scaled units."""
        if self.proven[0] is not self.pull:
            size = float(np.linalg.norm(self.y[: self.form.n]))
            bound = -np.inf
            if size > _TINY:
                heights = self.form.supports([-u for u in self.pull])
                bound = float(self.h @ self.y) / self.scale - sum(h for h, _ in heights)
                bound /= size
            self.proven = self.pull, bound
        return self.proven[1]

    def _multipliers(self, size: float) -> list[Vec]:
        ends = np.cumsum([c.offset.size for c in self.form.couplings])[:-1]
        parts = np.split(self.y[self.form.n :], ends) if self.form.couplings else []
        return [mu * (self.scale**2 / (u * size)) for mu, u in zip(parts, self.units, strict=True)]

    def split(self) -> list[Vec]:
        return self.multipliers

    def solved(self, gap: float, upper: float, tol: float) -> bool:
        return abs(gap) <= 0.5 * tol and self.residual * self.scale <= 0.05 * tol * upper

    def at_zero(self, x: Vec, tol: float) -> bool:
        close = max(0.1 * tol, 1e-10) * self.largest
        return float(np.linalg.norm(x)) <= close and self.residual <= max(0.1 * tol, 1e-10)

    def proves_empty(self) -> bool:
        """Multipliers mu with `<o, mu> > sum sigma_k(-B_k' mu)`: no q meets the couplings."""
        if not self.form.couplings:
            return False
        mu = self._multipliers(self.scale)
        size = sum(float(np.linalg.norm(m)) * u for m, u in zip(mu, self.units, strict=True))
        if size <= _TINY:
            return False
        zero = np.zeros(self.form.n)
        return self.form.lower_bound(zero, mu) - float(self.form.center @ zero) > 1e-9 * size

    def stalled(self, gap: float, steps: int) -> bool:
        """No progress left: sigma at its end and nothing gained in eight outer steps."""
        self.history.append(gap)
        old = self.history[-9] if len(self.history) > 8 else np.inf
        return min(self.sigma) >= 1e28 or (
            len(self.history) > 40
            and min(self.history[-8:]) >= 0.9 * old
            and gap > self.best * 0.99
        )
