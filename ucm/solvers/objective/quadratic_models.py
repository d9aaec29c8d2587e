"""Solvers of the quadratic models in proximal Newton steps: coordinates, conjugate gradients, dual.

A box of slopes (an l1 norm, weighted or of one sign): coordinate descent and Newton steps on the support, in
C. The squared l2 norm with many features: conjugate gradients. Another penalty that has a proximal map: a
proximal augmented Lagrangian in the dual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.data.linear_map import Matrix as Table
from ucm.data.linear_map import Vec
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import LinearConstraint
from ucm.native import library, point, structure
from ucm.numerics.newton_steps import (
    LOST,
    MOST,
    TRIALS,
    conjugate_gradients,
    growth,
    line_search,
    ridge_solve,
)

Matrix = NDArray[np.float64]


def boxed_quadratic(
    H: Matrix | Columns,
    r: Vec,
    x: Vec,
    lower: Vec,
    upper: Vec,
    ridge: float,
    tol: float,
    most: int,
    timed_out: Callable[[], bool],
) -> None:
    """Minimise `x'Hx / 2 + <r0, x> + ridge |x|^2 / 2 + sup of <x, s> over lower <= s <= upper`, in place.

    H is a symmetric matrix or the columns it is of, `lower <= 0 <= upper`. r is the gradient of the quadratic
    part at x without its ridge, and is kept up to date for a matrix H. The at most `most` rounds end where no
    slope leaves its bounds by more than tol; `timed_out` is asked between calls.
    """
    n = x.size
    state: Any = np.zeros((), structure("quadratic_t"))
    if isinstance(H, Columns):
        arrays = H.arrays()
        state["m"], state["mass"] = H.X.shape[0], H.mass
    else:
        arrays = {"H": H, "system": np.empty((n, n)), "d": np.empty(n), "support": np.empty(n, np.int64)}
    state["n"], state["ridge"], state["tol"], state["left"] = n, ridge, tol, most
    point(state, "quadratic_t", r=r, x=x, lower=lower, upper=upper, **arrays)
    while not timed_out() and not library.minimise_quadratic(state, 2e7):  # some 20 ms
        pass


def constrained_quadratic(H: Matrix, g: Vec, x: Vec, constraint: LinearConstraint) -> Vec:
    """Return the y of a constraint with the least `(y - x)'H(y - x) / 2 + g'(y - x)`, H positive definite.

    With `H = L L'` it is the projection of the minimum on the constraint in the coordinates `L'y`; NaN where
    squares of the samples or the inverse of H overflow.
    """
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return np.full(x.size, np.nan)
    free = x - linalg.cho_solve((L, True), g, check_finite=False)
    rows = linalg.solve_triangular(L, constraint.matrix.T, lower=True, check_finite=False).T
    lb, ub = constraint.bounds
    heights = constraint.matrix @ free
    if not (np.isfinite(rows).all() and np.isfinite(heights).all()):  # H is almost 0
        return np.full(x.size, np.nan)
    step = LinearConstraint(rows, lb - heights, ub - heights).prox(np.zeros(x.size), 1.0)
    y = free + linalg.solve_triangular(L, step, lower=True, trans=1, check_finite=False)
    return y if constraint.value(y) == 0.0 else constraint.prox(y, 1.0)  # without the rounding


class Columns(NamedTuple):
    """The matrix `H = (X - 1 mean')' diag(h) (X - 1 mean')`, not formed.

    X : (m, n), CSC or a Fortran-contiguous array
    h, mean, mass : (m,) weights, (n,) the mean of the rows by them, and their sum
    """

    X: Table
    h: Vec
    mean: Vec
    mass: float

    def arrays(self) -> dict[str, NDArray | None]:
        """Return the arrays of `quadratic_t` in `ucm/native/structures.h`."""
        X, h = self.X, self.h
        if isinstance(X, np.ndarray):
            values, rows, starts = X.T, None, None
            squares = np.einsum("ji,i,ji->j", values, h, values)
        else:
            rows, starts = (v.astype(np.int32, copy=False).view(np.uint32) for v in (X.indices, X.indptr))
            values, squares = X.data, np.asarray(X.multiply(X).T @ h)
        return {
            "values": values, "rows": rows, "starts": starts, "h": h, "mean": self.mean,
            "v": np.zeros(h.size), "diagonal": np.maximum(squares - self.mass * self.mean**2, 0.0),
        }  # fmt: skip


class NewtonCG:
    """Solver of the Newton systems of smooth losses with squared l2 norm, by plain conjugate gradients.

    `(ridge I + (X - 1 s')' diag(h) (X - 1 s')) d = g`, s the mean of the samples by the weights h. Products
    take the samples with h_i > 0 only. A preconditioner costs more here than the products that it saves, as
    a sample of text has few entries.

    Steihaug (1983), The conjugate gradient method and trust regions in large scale optimization; Lin, Weng
    and Keerthi (2008), Trust region Newton method for large-scale logistic regression.
    """

    def __init__(self, X: Table) -> None:
        self.X = X
        if sparse.issparse(X):
            self.columns, self.starts = (v.astype(np.int32, copy=False) for v in (X.indices, X.indptr))

    def solve(
        self, h: Vec, mean: Vec, ridge: float, g: Vec, timed_out: Callable[[], bool]
    ) -> tuple[Vec, float]:
        """Return the direction d, and the cost of the products in passes over all samples."""
        X, used = self.X, np.flatnonzero(h)
        if isinstance(X, np.ndarray) and used.size < 0.7 * h.size:  # else the copy saves little
            X, h = X[used], h[used]

        def times(v: Vec) -> Vec:
            out = ridge * v
            if isinstance(X, np.ndarray):
                u = h * (X @ v)
                out += X.T @ u
                total = float(u.sum())
            else:
                total = library.add_gram_product(h.size, X.data, self.columns, self.starts, h, v, out)
            return out - total * mean

        d, count = conjugate_gradients(times, g, 0.1, 200, timed_out)  # relative residual and steps
        return d, used.size / self.X.shape[0] * count


class ProximalQuadratic:
    """Solver of successive quadratic functions plus one penalty, by an augmented Lagrangian in the dual.

    The problem is `min over x of |B(x - w)|^2 / 2 + r'(x - w) + R(x)`. About a proximal centre c, the
    minimum of

        |B(x - w)|^2 / 2 + r'(x - w) + R(x) + mu |x - c|^2 / 2

    has the dual variable u = B(x - w), and x is `prox_{R / mu}(v)` at `v = c - (r + B'u) / mu`. The dual
    function has a generalised Hessian of the order of the rows of B, `I + B J B' / mu`, J a Jacobian of the
    proximal map: it takes few semismooth Newton steps. Then c becomes x, and mu falls.

    Li, Sun and Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method for solving lasso
    problems.

    R : the penalty
    timed_out : True once the time limit is over
    mu : the proximal parameter that the next problem starts with; 0 before the first
    failed : consecutive quadratic functions that were not solved within the limits
    systems : the number of Newton systems of all quadratic functions so far
    """

    def __init__(self, R: CombinedPenalty, timed_out: Callable[[], bool]) -> None:
        self.R, self.timed_out, self.mu, self.failed, self.systems = R, timed_out, 0.0, 0, 0

    def solve(self, B: Matrix, r: Vec, w: Vec, tol: float) -> Vec:
        """Return a minimiser x with a subgradient of at most tol an entry, or the last iterate."""
        R, c, u, x, systems = self.R, w, np.zeros(B.shape[0]), w, 0
        mu = self.mu or float(np.sqrt(np.mean(np.einsum("ij,ij->j", B, B) ** 2))) or 1.0
        solved, first = False, mu
        for _ in range(40):  # proximal centres
            step, lost, pulled = 0, 0, r + u @ B
            while True:
                v = c - pulled / mu
                x = R.prox(v, 1.0 / mu)
                g = u - B @ (x - w)
                residual, steep = g @ B, mu * float(np.abs(v - x).max(initial=0.0))
                enough = min(tol, 0.1 * steep or tol)  # small beside the slopes of R, too
                small = float(np.abs(residual).max(initial=0.0)) <= 0.3 * enough
                if step == MOST or small or self.timed_out():
                    break
                system = B @ R.prox_slope_times(v, 1.0 / mu, B.T) / mu
                np.einsum("ii->i", system)[...] += 1.0
                systems += 1
                d = -ridge_solve(system, g)
                start, ahead = float(g @ d), d @ B
                if not start < 0.0:
                    break
                trials = 0

                def along(t: float, ahead: Vec, mu: float = mu, v: Vec = v, u: Vec = u, d: Vec = d) -> float:
                    nonlocal trials
                    trials += 1
                    x = R.prox(v - t * ahead / mu, 1.0 / mu)
                    return float(d @ u) + t * float(d @ d) - float(ahead @ (x - w))

                t = line_search(along, ahead, start)
                u, pulled = u + t * d, pulled + t * ahead
                lost += trials == TRIALS
                step = step + 1 if lost < LOST else MOST
            subgradient = mu * (c - x) - residual
            solved = float(np.abs(subgradient).max(initial=0.0)) <= enough
            c = x
            if solved or systems > 120 or self.timed_out():
                break
            mu /= growth(step, 9.0)
        self.mu, self.systems = float(np.sqrt(mu * first)), self.systems + systems
        self.failed = 0 if solved else self.failed + 1
        return x
