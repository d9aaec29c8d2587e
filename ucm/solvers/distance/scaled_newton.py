"""Nearest points in a q-norm, 1 < q < inf, by Newton steps whose models are Euclidean problems.

At x the second-order model of `f(x) = sum_j |x_j|^q / q` has the diagonal `h_j = (q-1) |x_j|^(q-2)`; its
minimum over U is that of `||sqrt(h) (z - s)||` with `s = (q-2)/(q-1) x`: a Euclidean minimum-norm
problem over the same domains, for a solver of such. A line search in z - x, along which U is convex,
makes f decrease. Appendix D of Barbero, Takeda and Lopez (2015) takes proximal gradient steps instead,
with the projections on both hulls as inner problems; the gradient is not Lipschitz for q < 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import optimize, sparse

from ucm.data.linear import Vec
from ucm.data.maps import ComposedMap
from ucm.data.options import check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver, solver_of, solvers_of
from ucm.language.robust import dual_exponent
from ucm.numerics.steps import PATIENCE, idle

__all__ = ["ScaledNewton"]

_INNER = 60  # iterations in a Euclidean problem
_UNSOLVED = 2  # of them that these leave
_FLOOR = 1e-7  # of |x_j| over the largest, in the model's diagonal


@dataclass(frozen=True)
class ScaledNewton(Solver[MinNorm]):
    """Newton's method on the power of the norm, a Euclidean problem for each step.

    Parameters
    ----------
    inner
        Solvers of the Euclidean problems; the first that takes the form is asked.
    rest
        A solver for what the steps leave, as for exponents next to 1 and far above 2, where the model
        holds in a small neighbourhood only.
    """

    inner: tuple[Solver, ...]
    rest: Solver[MinNorm] | None = None
    name: ClassVar[str] = "scaled-newton"

    def __post_init__(self) -> None:
        check_fields(self, inner=solvers_of(MinNorm), rest=optional(solver_of(MinNorm)))

    def refuse(self, form: MinNorm) -> str | None:
        if not 1.0 < form.norm < np.inf or form.norm == 2.0:
            return "it takes the norms between 1 and inf, but for the Euclidean one"
        return self._asked(replace(form, norm=2.0))[1]

    def _asked(self, form: MinNorm) -> tuple[Solver, str | None]:
        reasons = []
        for solver in self.inner:
            why = solver.refuse(form)
            if why is None:
                return solver, None
            reasons.append(f"{solver.name}: {why}")
        return self.inner[0], "; ".join(reasons)

    def predicted_passes(self, form: MinNorm) -> float:
        return 8.0 * self._asked(replace(form, norm=2.0))[0].predicted_passes(form)

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        euclidean = replace(form, norm=2.0)
        solver = self._asked(euclidean)[0]
        answer = self._ask(solver, euclidean, monitor, 1e-2, start)
        if answer.status == "infeasible":
            return answer
        q, x = answer.q, form.matvec(answer.q)
        answer = Answer(q)
        least = best = gap = np.inf
        since, unsolved, met = 0, 0, 0.05 * monitor.tol
        for step in range(1, monitor.limit(100) + 1):
            if form.space.norm(x, form.norm) <= 0.5 * max(monitor.tol, 1e-9) * form.size(q):
                return replace(answer, q=q)  # 0: no bound is relative to it
            h, target = _model(x, form.norm)
            tol = max(min(1e-3, 1e-2 * gap), 1e-3 * monitor.tol)
            if gap <= monitor.tol:  # only the couplings are left
                tol = 1e-3 * monitor.tol
            inner = self._ask(solver, _scaled(form, np.sqrt(h), target), monitor, tol, Answer(q))
            if inner.status == "infeasible":
                return inner
            unsolved += inner.status == "max_iter"
            z = form.matvec(inner.q)
            monitor.passes += form.pass_cost()
            # any w with ||w||_p = 1 proves a bound: that of the model, or that of the point
            bound, w, multipliers = -np.inf, None, []
            for v, mu in self._duals(form, z, h, target, inner):
                lower = form.lower_bound(v, mu)
                if lower > bound:
                    bound, w, multipliers = lower, v, mu
            t = _search(x, z - x, form.norm)
            if form.couplings and not form.space.norm(z, form.norm) > (
                1.0 + 0.1 * monitor.tol
            ) * form.space.norm(x + t * (z - x), form.norm):
                t = 1.0  # z is as near, and misses them less
            q = [a + t * (b - a) for a, b in zip(q, inner.q, strict=True)]
            x = x + t * (z - x)
            size = form.space.norm(x, form.norm)
            apart = form.missed(q)
            error = max(abs(size - bound), size * apart * monitor.tol / met)
            gap, since = abs(size - bound) / max(size, 1e-300), idle(since, error, least)
            if error < least:
                least, best, answer = error, gap, Answer(q, w, multipliers=multipliers)
            if monitor.report(step, -size, gap):
                return answer.interrupted()
            if gap <= 0.7 * monitor.tol and apart <= met:
                return Answer(q, w, multipliers=multipliers)
            if since >= PATIENCE or unsolved == _UNSOLVED:
                break
        rest = self.rest
        if rest is not None and monitor.goes_on and rest.refuse(form) is None:
            return rest.solve(form, monitor, answer)
        message = (
            f"the gap stayed at {best:.2g} after {monitor.iterations} steps; raise max_iter, scale the "
            'features, or take solver="clarabel"'
        )
        return answer.ended("max_iter", message)

    def _ask(
        self,
        solver: Solver[MinNorm],
        form: MinNorm,
        monitor: Monitor,
        tol: float,
        start: Answer | None,
    ) -> Answer:
        below = monitor.below(max(tol, 1e-12), _INNER)
        answer = solver.solve(form, below, start)
        monitor.passes += below.passes
        monitor.systems += below.systems
        monitor.forming += below.forming
        return answer

    def _duals(self, form, z, h, target, inner):  # type: ignore[no-untyped-def]
        if len(inner.multipliers) != len(form.couplings):
            return  # where numbers overflow the inner solver proves nothing
        p = dual_exponent(form.norm)
        slope = h * (z - target)
        length = form.space.norm(slope, p)
        if length > 0.0:
            y = np.sqrt(h) * (z - target)
            scale = float(np.linalg.norm(y)) / length
            yield slope / length, [scale * mu for mu in inner.multipliers]
        if inner.w is not None:
            v = np.sqrt(h) * inner.w
            length = form.space.norm(v, p)
            yield v / length, [mu / length for mu in inner.multipliers]
        if not form.couplings:
            yield form.space.dual_vector(z, form.norm), []


def _model(x: Vec, q: float) -> tuple[Vec, Vec]:
    """The diagonal h of the second-order model of `sum |x|^q / q`, in units of its largest entry of x,
    and the point where the model has its free minimum."""
    v = np.abs(x) / float(np.abs(x).max())
    h = (q - 1.0) * np.maximum(np.maximum(v, _FLOOR) ** (q - 2.0), _FLOOR**2)
    slope = np.sign(x) * v ** (q - 1.0)
    return h, x - slope / h * float(np.abs(x).max())


def _scaled(form: MinNorm, r: Vec, target: Vec) -> MinNorm:
    """The form of `||r (x - target)||`."""
    R = sparse.diags_array(r, format="csr")
    blocks = tuple(replace(b, map=ComposedMap(b.map, R)) for b in form.blocks)
    return replace(form, center=r * (form.center - target), blocks=blocks, norm=2.0)


def _search(x: Vec, d: Vec, q: float) -> float:
    """The t in [0, 1] with the least `||x + t d||_q`: a trial costs no product, and to a fifth of the slope
    only, as `ucm.numerics.steps` has it, one problem in seven took a tenth more work."""

    def slope(t: float) -> float:
        """In units of the largest entry at t, whatever its power is."""
        y = x + t * d
        top = float(np.abs(y).max())
        return float((np.sign(y) * np.abs(y / top) ** (q - 1.0)) @ d) if top > 0.0 else 0.0

    if slope(1.0) <= 0.0:
        return 1.0
    if not slope(0.0) < 0.0:
        return 0.0
    return float(np.asarray(optimize.brentq(slope, 0.0, 1.0, xtol=1e-14)))
