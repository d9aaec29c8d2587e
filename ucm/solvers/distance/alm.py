"""Augmented Lagrangian of Ito, Takeda and Toh (2015), section 3.3, for blocks coupled by equations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ucm.data.options import option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver, solver_of
from ucm.language.contracts import Projectable


@dataclass(frozen=True)
class ALM(Solver[MinNorm]):
    """Solve Euclidean nearest points with coupled blocks by the augmented Lagrangian method.

    `min f(q) + sum_j sigma/2 ||B_j q + o_j + mu_j / sigma||^2`, then `mu += sigma (B q + o)`.

    The sum of squares is one squared norm of stacked rows, so each subproblem is a `MinNorm` without
    couplings, given to `inner`. An intersection couples two copies of one point by linear equations;
    their augmented term is quadratic, where the paper's `[g(q)]_+^2` of a quadratic g is quartic.

    Parameters
    ----------
    inner
        Solver of the subproblems.
    """

    inner: Solver[MinNorm] = option(solver_of(MinNorm))
    name: ClassVar[str] = "alm"

    def refuse(self, form: MinNorm) -> str | None:
        if not form.couplings:
            return "nothing couples the blocks"
        return form.reason_against(Projectable, "projection", coupled=True)

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        q = form.begin(start)
        units = form.units(q)
        scale = max(form.space.norm(form.center), form.space.norm(form.matvec(q)))
        if scale <= 1e-12 * max(units):  # a start at 0
            scale = max(units)
        mu = [np.zeros(c.offset.size) for c in form.couplings]
        sigma, last, accuracy = 1.0, math.inf, 0.1
        answer = Answer(q)
        for outer in range(1, monitor.limit(200) + 1):
            # rows in units of the features: (scale/unit) (B q + o), multipliers likewise
            roots = [math.sqrt(sigma) * scale / u for u in units]
            offsets = [
                r * (c.offset + m * (u * u) / (sigma * scale * scale))
                for c, r, m, u in zip(form.couplings, roots, mu, units, strict=True)
            ]
            stacked = replace(
                form,
                center=np.concatenate([form.center, *offsets]),
                blocks=tuple(replace(b, map=form.stacked(k, roots)) for k, b in enumerate(form.blocks)),
                couplings=(),
            )
            coarse = accuracy * monitor.tol**0.5 if outer > 3 else accuracy
            part = monitor.child(coarse, 2000)  # iterations
            q = self.inner.solve(stacked, part, Answer(q)).q
            monitor.count_work(part)
            residual = 0.0
            for j, r in enumerate(form.residuals(q)):
                mu[j] = mu[j] + sigma * (scale / units[j]) ** 2 * r
                residual = max(residual, float(np.linalg.norm(r)) / units[j])
            x = form.matvec(q)
            norm = form.space.norm(x)
            w = x / norm if norm > 0.0 else x
            answer.q, answer.w = q, w
            answer.multipliers = [m / norm if norm > 0.0 else m for m in mu]
            bound = form.lower_bound(w, answer.multipliers)
            gap = (norm - bound) / max(norm, 1e-12 * scale)
            stop = monitor.report(
                outer, -norm, abs(gap), lambda q=q, x=x: {"q": [v.copy() for v in q], "x": x.copy()}
            )
            if monitor.reached(gap) and residual * scale <= 0.5 * monitor.tol * norm:
                return answer
            if monitor.at_zero(norm, bound, scale) and residual <= monitor.zero:
                return answer
            if form.proves_empty([m / scale for m in mu], units):
                return answer.after("infeasible", "")
            if stop:
                return answer.interrupted()
            if residual > 0.25 * last:  # the multipliers alone should reduce the residual to a quarter
                sigma = min(sigma * 4.0, 1e8)
            last = residual
            accuracy = max(0.3 * accuracy, 1e-3 * monitor.tol**0.5)
        message = f"the couplings are met to {last:.2g} only; raise max_iter or tol"
        return answer.ended("max_iter", message)
