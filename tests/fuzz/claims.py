"""What an answer says of itself, held against the numbers that it gives."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDING = 1e-9


def held(sol: Any, tol: float) -> None:
    """Raises `AssertionError` where a status has no proof, or a certificate contradicts itself."""
    c, size = sol.certificate, max(sol.size, 1e-300)
    told = f"{sol.status} {sol.objective!r} at tol {tol:g}, {c!r}: {sol.message}"
    if c.kind == "none":
        assert sol.status not in ("optimal", "local", "stationary"), told
        assert not np.isfinite(c.gap), told
        if sol.status == "zero_in_set":  # with w = 0, which has not the length 1
            assert not np.any(sol.w) and c.primal == np.inf, told
            assert c.violation <= ROUNDING and -ROUNDING * size <= c.dual <= 0.0, told
        return
    assert c.gap == c.primal - c.dual, told
    assert c.relative_gap >= -ROUNDING, told
    if c.kind == "global":
        far = ROUNDING * abs(c.primal) + 1e-12 * size
        assert c.dual - far <= sol.objective <= c.primal + far, told
    if sol.status == "optimal":
        assert c.kind == "global" and c.relative_gap <= tol, told
        assert c.violation <= ROUNDING or c.residual is not None, told
    if sol.status == "zero_in_set":
        assert c.violation <= ROUNDING, told
        assert c.dual >= -ROUNDING * size and c.primal <= ROUNDING * size, told


def apart(one: Any, other: Any) -> float:
    """By how much the intervals of two answers to one convex problem miss each other; 0 where they meet."""
    ends = [
        (c.dual, c.primal) if c.kind == "global" else (-np.inf, np.inf)
        for c in (one.certificate, other.certificate)
    ]
    (low, high), (least, most) = ends
    return max(low - most, least - high, 0.0)
