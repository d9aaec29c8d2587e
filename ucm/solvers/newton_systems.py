"""Solvers of the Newton systems of proximal terms, `(diag(r) + sum_k s_k A_k J_k A_k') d = -g`.

J_k is the Jacobian of a projection, diagonal plus low rank. Where the matrix would be too large, conjugate
gradients take its place, preconditioned by the eigenvalues that the systems before have shown: if
`A J A' ~ Y diag(t) Y'` with orthonormal columns Y, then `(I + s A J A')^-1 ~ I - Y diag(s t / (1 + s t)) Y'`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import LinearMap, Vec, VStack
from ucm.language.contracts import Jacobian

Matrix = NDArray[np.float64]
(_POSV,) = linalg.get_lapack_funcs(("posv",), dtype=np.float64)  # SciPy's checks take longer
_KEPT = 60  # largest number of directions in the preconditioner


def ridge_solve(H: Matrix, g: Vec) -> Vec:
    """Return `H^-1 g` for a positive semidefinite H, with a ridge if H is singular to rounding.

    The ridge grows until a Cholesky factor exists. The answer is 0 where entries overflow.
    """
    ridge, top = 0.0, float(np.diagonal(H).max())
    for _ in range(8):
        _, solution, info = _POSV(H.T, g, lower=1)  # by rows: the upper triangle of H
        if info == 0:
            return solution
        ridge = max(10.0 * ridge, 1e-15 * top)
        H = H + ridge * np.eye(H.shape[0])
    if not (np.isfinite(H).all() and np.isfinite(g).all()):
        return np.zeros_like(g)
    return np.linalg.lstsq(H, g)[0].astype(np.float64)


def conjugate_gradients(
    times: Callable[[Vec], Vec],
    g: Vec,
    accuracy: float,
    most: int,
    timed_out: Callable[[], bool],
    precondition: Callable[[Vec], Vec] = lambda v: v,
) -> tuple[Vec, int]:
    """Solve `H d = g` approximately by conjugate gradients; return d and the number of products with H.

    Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems.

    Parameters
    ----------
    times : v to H v, H symmetric and positive definite
    g : (n,)
    accuracy : residual to reach, relative to g
    most : limit of products
    timed_out : called before each product; True stops
    precondition : v to an approximation of `H^-1 v`
    """
    d, residual, count = np.zeros_like(g), g, 0
    target = accuracy * float(np.linalg.norm(g))
    z = precondition(residual)
    p, height = z, float(residual @ z)
    while count < most and float(np.linalg.norm(residual)) > target and not timed_out():
        Hp = times(p)
        count += 1
        t = height / float(p @ Hp)
        d = d + t * p
        residual = residual - t * Hp
        z = precondition(residual)
        before, height = height, float(residual @ z)
        p = z + (height / before) * p
    return d, count


class NewtonDirection(NamedTuple):
    """Newton direction, with its cost in passes by products with the data and by forming the matrix."""

    d: Vec
    passes: float
    forming: float


class Systems(ABC):
    """Interface of the solvers of Newton systems."""

    @abstractmethod
    def step(self, J: Sequence[Jacobian], s: Sequence[float], ridge: Vec, g: Vec) -> NewtonDirection:
        """Return the direction d for Jacobians J_k, factors s_k, diagonal r > 0 (`ridge`) and gradient g."""


class Formed(Systems):
    """Solver of Newton systems that forms the matrix and factors it by Cholesky.

    Parameters
    ----------
    maps : the A_k
    stored : entries of the bound data: a pass is twice as many multiplications
    """

    def __init__(self, maps: Sequence[LinearMap], stored: int) -> None:
        self.terms = [_repeated(stacked) for stacked in maps]
        self.stored = max(1, stored)

    def step(self, J: Sequence[Jacobian], s: Sequence[float], ridge: Vec, g: Vec) -> NewtonDirection:
        """Return the direction d, by a Cholesky factorisation of the matrix."""
        H, work = np.diag(ridge), 0.0
        for (A, places), jacobian, factor in zip(self.terms, J, s, strict=True):
            work += A.squares * np.count_nonzero(jacobian.d) / max(1, jacobian.d.size)
            product = factor * A.weighted_gram(jacobian.d)
            if jacobian.U.shape[1]:
                AU = A.matmat(jacobian.U)
                work += float(A.entries) * jacobian.U.shape[1]
                product += factor * (AU @ jacobian.S @ AU.T)
            for above, a in places:
                for left, b in places:
                    H[above, left] += product if a * b == 1.0 else (a * b) * product
        return NewtonDirection(-ridge_solve(H, g), 0.0, 0.5 * work / self.stored)


def _repeated(stacked: LinearMap) -> tuple[LinearMap, list[tuple[slice, float]]]:
    """Return the map that a stack repeats, with rows and factor of each copy; else the map itself."""
    if isinstance(stacked, VStack) and len(stacked.parts) == 1:
        ((A, places),) = stacked.parts.values()
        return A, places
    return stacked, [(slice(None), 1.0)]


class ConjugateGradients(Systems):
    """Solver of Newton systems by preconditioned conjugate gradients, without forming the matrix.

    An iteration costs one pass.

    Parameters
    ----------
    maps : the A_k
    stored : entries of the bound data: a pass is twice as many multiplications
    accuracy : residual to reach, relative to g
    most : largest number of iterations for one system
    timed_out : called before each iteration; True stops
    """

    def __init__(
        self,
        maps: Sequence[LinearMap],
        stored: int,
        accuracy: float = 0.2,
        most: int = 200,
        timed_out: Callable[[], bool] = lambda: False,
    ) -> None:
        self.maps, self.timed_out = maps, timed_out
        self.accuracy, self.most = accuracy, most
        self.cost = sum(A.entries for A in maps) / max(1, stored)  # passes in products with all A_k and A_k'
        rows = maps[0].shape[0]
        self.kept = max(5, min(_KEPT, stored // rows))  # no more memory than the data take
        self.known: tuple[Matrix, Vec] | None = None

    def step(self, J: Sequence[Jacobian], s: Sequence[float], ridge: Vec, g: Vec) -> NewtonDirection:
        """Return d with relative residual at most `accuracy`, unless iterations or time run out."""
        size = max(s)
        root = 1.0 / np.sqrt(ridge)  # unknowns in which the diagonal is 1

        def curve(v: Vec) -> Vec:
            """Return `sum_k s_k A_k J_k A_k' v / size` in the scaled unknowns."""
            u = root * v
            parts = [
                (f / size) * A.matvec(j.matvec(A.rmatvec(u))) for A, j, f in zip(self.maps, J, s, strict=True)
            ]
            return root * sum(parts[1:], start=parts[0])

        tried: list[Vec] = []
        curves: list[Vec] = []

        def times(v: Vec) -> Vec:
            product = curve(v)
            if len(tried) < self.kept:
                length = float(np.linalg.norm(v))
                tried.append(v / length)
                curves.append(product / length)
            return v + size * product

        d, count = conjugate_gradients(
            times, -root * g, self.accuracy, self.most, self.timed_out,
            lambda v: self._precondition(v, size),
        )  # fmt: skip
        self._learn(tried, curves)
        return NewtonDirection(root * d, self.cost * count, 0.0)

    def _precondition(self, v: Vec, size: float) -> Vec:
        if self.known is None:
            return v
        Y, t = self.known
        return v - Y @ ((size * t / (1.0 + size * t)) * (Y.T @ v))

    def _learn(self, tried: list[Vec], curves: list[Vec]) -> None:
        """Update the preconditioner by Ritz pairs of the curvature on the search directions.

        The old pairs take part where there are few search directions.
        """
        if not tried:
            return
        P, B = np.column_stack(tried), np.column_stack(curves)
        if self.known is not None and P.shape[1] < self.kept:
            Y, t = self.known
            P = np.column_stack([P, Y])
            B = np.column_stack([B, Y * t])
        values, basis = np.linalg.eigh(P.T @ P)
        good = values > 1e-10 * values[-1]
        turn = basis[:, good] / np.sqrt(values[good])
        Q = P @ turn
        small = Q.T @ (B @ turn)
        t, V = np.linalg.eigh(0.5 * (small + small.T))
        largest = np.argsort(-t)[: self.kept]
        largest = largest[t[largest] > 0.0]
        self.known = Q @ V[:, largest], t[largest]
