"""One ellipsoid, p = 2: the point of its surface nearest to 0 inside of it, by a secular equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer, Witness
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm, UnitSolver
from ucm.language.domains import NormBall

__all__ = ["SecularSphere"]


@dataclass(frozen=True)
class SecularSphere(UnitSolver):
    """The global minimum for `U = {c + F u : ||u||_2 <= r}` and p = 2, MM-FDA above all.

    With `S = r^2 F F' = V diag(s) V'` in the span of U, the nearest point of the surface is
    `x_i = t c_i / (s_i + t)` for the root t in `[-min s, 0]` of `sum s_i c_i^2 / (s_i + t)^2 = 1`; w is
    along `c_i / (s_i + t)`. In the hard case, c orthogonal to the thinnest axes, `t = -min s` and w has
    any share of these. The dual value `sum t c_i^2 / (s_i + t) - t` proves it: the trust region problem
    has no gap.

    Notes
    -----
    Ito, Takeda and Toh (2015), equation (34), beyond its largest kappa.
    """

    name: ClassVar[str] = "secular-sphere"

    def refuse(self, form: UnitNorm) -> str | None:
        blocks = form.image.blocks
        if form.norm != 2.0:
            return "it takes p = 2 only"
        if form.image.couplings or len(blocks) != 1:
            return "it takes a single ellipsoid"
        domain = blocks[0].domain
        if not isinstance(domain, NormBall) or not domain.euclidean:
            return "it takes a single ellipsoid"
        return None

    def predicted_passes(self, form: UnitNorm) -> float:
        return float(form.rank)

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        block = form.image.blocks[0]
        size = block.domain.size()
        if size is None:
            raise ParameterError(
                f"SecularSphere: expected a ball of parameters, got {block.domain!r}; take "
                "ucm.solvers.Linearize()"
            )
        r, d = size.number, block.map.shape[1]
        c = form.lower(form.image.center)
        if form.basis is None:
            S = block.map.weighted_gram(np.ones(d))
        else:
            F = np.column_stack([block.map.rmatvec(e) for e in form.basis.T])
            S = F.T @ F
        monitor.passes += form.rank
        s, V = np.linalg.eigh(r * r * S)
        s = np.maximum(s, 1e-300)
        a = V.T @ c
        t, share = _root(s, a)
        gaps = s + t
        w = np.where(gaps > 0.0, a / np.where(gaps > 0.0, gaps, 1.0), 0.0)
        if share > 0.0:
            w[0] = -share / math.sqrt(s[0])
        v = form.unit(V @ w)
        monitor.report(1, form.height(v), 0.0)
        _, q = form.highest(v)
        return Answer(q, form.lift(v), witness=Witness("sphere", multiplier=t))


def _root(s: Vec, a: Vec) -> tuple[float, float]:
    """The multiplier t, and the share of the first axis in the hard case."""
    low = s[0]
    pressed = math.sqrt(low) * float(np.linalg.norm(a[s <= low * (1.0 + 1e-12)]))

    def short(log_gap: float) -> float:
        """`1 / ||u|| - 1` at `t = gap - min s`: nearly linear in the gap."""
        u = np.sqrt(s) * a / (s - low + math.exp(log_gap))
        return 1.0 / max(float(np.linalg.norm(u)), 1e-300) - 1.0

    if pressed > 1e-14 * math.sqrt(low) * max(float(np.linalg.norm(a)), math.sqrt(low)):
        first, last = math.log(pressed * (1.0 - 1e-9)), math.log(low)
        if short(last) <= 0.0:  # 0 on the surface
            return 0.0, 0.0
        return math.exp(_zero(short, first, last)) - low, 0.0
    rest = s > low * (1.0 + 1e-12)
    used = float((s[rest] * a[rest] ** 2 / (s[rest] - low) ** 2).sum())
    if used <= 1.0:
        return -low, math.sqrt(1.0 - used)
    return math.exp(_zero(short, math.log(1e-16 * low), math.log(low))) - low, 0.0


def _zero(function: Callable[[float], float], low: float, high: float) -> float:
    root: Any = brentq(function, low, high, xtol=1e-15, rtol=np.float64(1e-15))
    return float(root)
