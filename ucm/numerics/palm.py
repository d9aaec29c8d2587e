"""What the compiled kernels of the proximal augmented Lagrangian share: `ucm.numerics.steps` compiled, and
the solution of a Newton system.

Functions are arguments here: each caller has its own version, with its own slope or matrix compiled in.
"""

from __future__ import annotations

from ucm.numerics import steps
from ucm.numerics._jit import inner
from ucm.numerics._lapack import cholesky_solve

__all__ = ["MOST", "PATIENCE", "accuracy", "growth", "idle", "line_search", "ridge_solve"]

MOST, PATIENCE = steps.MOST, steps.PATIENCE
accuracy = inner()(steps.accuracy)
line_search = inner(inline=True)(steps.line_search)
growth = inner()(steps.growth)
idle = inner()(steps.idle)


@inner(inline=True)
def ridge_solve(form, parts, ridge, top, work, d):
    """`d <- H^-1 d` where `form(parts, ridge, work)` writes the upper triangle of H, `ridge I` and a
    semidefinite matrix with entries up to `top`. The ridge grows until rounding leaves H definite; False when
    it never does. d holds one right-hand side or several, one after the other."""
    for _attempt in range(4):
        form(parts, ridge, work)
        if cholesky_solve(work, d):
            return True
        ridge = max(100.0 * ridge, 1e-14 * top)
    return False
