"""Sets of perturbations whose shape differs by sample, `U_i = {-y_i G_i c : c in C}` about sample i.

C is one set of R^r and G_i an (n, r) matrix of the sample, so that the support function of U_i at -y_i w is
`h_i(w) = max over c in C of (G_i'w)'c`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec, as_dense
from ucm.errors import CompositionError, DataError, brief
from ucm.language import cvx as cp
from ucm.language.node import Arithmetic, Notation, in_parentheses, restricted
from ucm.language.parameter import Scalar, Scope, as_factor, value
from ucm.language.per_sample import PerSample
from ucm.language.robust import dual_exponent
from ucm.language.sets.affine_image import Ball
from ucm.language.statistics.affine import Origin

Rows = NDArray[np.float64]
"""A table (m, r), a vector of each sample."""


def _lengths(V: Rows, p: float) -> Vec:
    """Return the p-norm of every row, whose powers neither overflow nor vanish, as of `norm_ball.norm`."""
    top = np.abs(V).max(axis=1, initial=0.0)
    return top * np.linalg.norm(V / np.where(top > 0.0, top, 1.0)[:, None], ord=p, axis=1)


class SampleSets(Arithmetic):
    """The declaration of sets of perturbations about 0 whose shape differs by sample."""

    def combine(self, symbol: str, a: object, b: object) -> SampleSets:
        raise CompositionError(
            f"{brief(a)} {symbol} {brief(b)}: sets whose shape differs by sample have no arithmetic; write "
            "a size into the ball, as per_sample('factor') @ Ball(0, 0.1)"
        )

    @property
    def size(self) -> Scalar:
        """The number by which the sets are multiplied."""
        return 1.0

    @property
    def shape(self) -> SampleSets:
        """The sets without `size`."""
        return self

    @abstractmethod
    def check_features(self, n: int) -> None:
        """Refuse n features if the sets are of other vectors."""

    @abstractmethod
    def matrices(self, data: Data) -> NDArray[np.float64]:
        """Return the G_i of the samples, (m, n, r), or the diagonals (m, n) of square ones."""

    @abstractmethod
    def points(self, notation: Notation) -> str:
        """Return the formula of the set about sample i."""

    @abstractmethod
    def heights(self, V: Rows) -> Vec:
        """Return the support function of C at every row, (m,)."""

    @abstractmethod
    def maximisers(self, V: Rows) -> Rows:
        """Return for every row a point of C at which the support function is attained."""

    @abstractmethod
    def members(self, C: Rows) -> Rows:
        """Return points of C, every row itself if it lies in C."""

    @abstractmethod
    def cvxpy(self, V: cp.Expression, scope: Scope) -> cp.Expression:
        """Return the support function of C at every row of V in CVXPY, (m,)."""


class PerSampleImage(SampleSets):
    """The sets `{F_i u : u in U}`, U a ball about 0 and F_i a matrix of sample i.

    `per_sample("factor") @ Ball(0, r, p)`, `h_i(w) = r ||F_i'w||_q`, 1/p + 1/q = 1.
    """

    factor: PerSample
    set: Ball = restricted(
        lambda U: isinstance(U.center, Origin),
        "expected a ball about 0 in any number of dimensions",
        "write Ball(0, r, p)",
    )

    @property
    def size(self) -> Scalar:
        return self.set.radius

    @property
    def shape(self) -> SampleSets:
        return PerSampleImage(self.factor, Ball(0, 1, self.set.p))

    def combine(self, symbol: str, a: object, b: object) -> SampleSets:
        c = as_factor(a if b is self else b)
        if symbol == "*" and c is not None:
            return PerSampleImage(self.factor, Ball(0, c * self.size, self.set.p))
        return super().combine(symbol, a, b)

    def check_features(self, n: int) -> None:
        return

    def matrices(self, data: Data) -> NDArray[np.float64]:
        F = data.per_sample[self.factor.name]
        if F.ndim not in (2, 3) or F.shape[1] != data.n:
            raise DataError(
                f"{self.factor!r}: expected a matrix of each sample, (m, n, r), or its diagonal, (m, n), for "
                f"m = {data.m} and n = {data.n}, got the shape {F.shape}; give one for each row of X"
            )
        return F

    def heights(self, V: Rows) -> Vec:
        return _lengths(V, dual_exponent(self.set.p))

    def maximisers(self, V: Rows) -> Rows:
        q, size = dual_exponent(self.set.p), np.abs(V)
        if np.isinf(q):
            return np.sign(V) * (np.argmax(size, axis=1)[:, None] == np.arange(V.shape[1]))
        length = self.heights(V)[:, None]
        relative = np.divide(size, length, out=np.zeros_like(V), where=length > 0.0)
        return np.sign(V) * relative ** (q - 1.0)

    def members(self, C: Rows) -> Rows:
        return C / np.maximum(_lengths(C, self.set.p), 1.0)[:, None]

    def cvxpy(self, V: cp.Expression, scope: Scope) -> cp.Expression:
        q = dual_exponent(self.set.p)
        if q in (1.0, 2.0, np.inf):
            return cp.norm(V, q, axis=1)
        # one cone for all rows, as cp.pnorm takes no axis: |v_j| <= s_j^(1/q) t^(1 - 1/q) with sum_j s_j = t
        t, s = cp.Variable((V.shape[0], 1), name="t"), cp.Variable(V.shape, name="s")
        s_t_v = (cp.vec(x, order="F") for x in (s, t @ np.ones((1, V.shape[1])), V))
        inside = [cp.PowCone3D(*s_t_v, 1.0 / q), cp.sum(s, axis=1) == t[:, 0]]
        return t[:, 0] + cp.indicator(inside)

    def __repr__(self) -> str:
        return f"{self.factor!r} @ {in_parentheses(repr(self.set))}"

    def formula(self, notation: Notation) -> str:
        return notation.norm(f"{self.factor.formula(notation)}'w", f"{dual_exponent(self.set.p):g}")

    def points(self, notation: Notation) -> str:
        return f"{self.factor.formula(notation)} {in_parentheses(self.set.formula(notation))}"


class FeatureDeletion(SampleSets):
    """The sets of perturbations that set up to k features of a sample to 0, of `Robust`.

    `h_i(w)` is the sum of the k largest `max(0, y_i x_ij w_j)`: with the convex hull of the deletions, the
    largest loss is the same.

    Parameters
    ----------
    k : int or Param
        From 1 to the number of features.

    Raises
    ------
    CompositionError
        k below 1, not whole, or above the number of features.

    Notes
    -----
    Globerson and Roweis (2006), Nightmare at test time: robust learning by feature deletion. Features have a
    meaningful 0: for samples that are centred, a deleted feature has its mean.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Robust(ucm.Hinge(), within=ucm.FeatureDeletion(1))
    >>> print(loss)
    Σ_{i} max(0, 1 - (t_i - max_{|J| ≤ 1} Σ_{j ∈ J} y_i x_ij w_j))
    >>> X, y = [[2.0, 1.0], [1.0, 2.0], [-1.0, -1.0], [-2.0, -1.0]], [1, 1, -1, -1]
    >>> round(ucm.solve(loss + 0.1 * ucm.L2(), X, y).objective, 4)
    0.2
    """

    k: Scalar = restricted(
        lambda k: k >= 1.0 and k % 1.0 == 0.0,
        "k is a whole number of features, at least 1",
        "leave Robust out for none",
    )

    def check_features(self, n: int) -> None:
        if value(self.k) > n:
            raise CompositionError(
                f"{self!r}: expected at most the {n} features of the samples, got k = {value(self.k):g}; "
                f"give k <= {n}"
            )

    def matrices(self, data: Data) -> NDArray[np.float64]:
        return data.y[:, None] * as_dense(data.X)

    def _largest(self, V: Rows) -> NDArray[np.bool_]:
        """Return the mask of the k largest entries of every row."""
        k = round(value(self.k))
        largest: NDArray[np.bool_] = np.zeros(V.shape, dtype=bool)
        np.put_along_axis(largest, np.argpartition(-V, k - 1, axis=1)[:, :k], True, axis=1)
        return largest

    def heights(self, V: Rows) -> Vec:
        return np.sum(np.maximum(V, 0.0), axis=1, where=self._largest(V))

    def maximisers(self, V: Rows) -> Rows:
        return (self._largest(V) & (V > 0.0)).astype(float)

    def members(self, C: Rows) -> Rows:
        C = np.clip(C, 0.0, 1.0)
        return C / np.maximum(C.sum(axis=1) / value(self.k), 1.0)[:, None]

    def cvxpy(self, V: cp.Expression, scope: Scope) -> cp.Expression:
        # the sum of the k largest positive parts is the least k theta + sum_j (v_j - theta)_+ over theta >= 0
        theta = cp.Variable((V.shape[0], 1), nonneg=True, name="theta")
        over = cp.sum(cp.pos(V - theta @ np.ones((1, V.shape[1]))), axis=1)
        return scope.of(self.k) * cp.sum(theta, axis=1) + over

    def formula(self, notation: Notation) -> str:
        x, J = notation.sub("x", "ij"), f"j{notation.element}J"
        term = f"{notation.sub('y', 'i')} {x} {notation.sub('w', 'j')}"
        most = notation.under("max", f"|J|{notation.leq}{notation.scalar(self.k)}")
        return f"{most} {notation.sum_over(J, term)}"

    def points(self, notation: Notation) -> str:
        delta, leq = notation.symbol("delta"), notation.leq
        deleted = f"(-{notation.sub(delta, 'j')} {notation.sub('x', 'ij')})"
        most = f"{notation.norm(delta, '1')}{leq}{notation.scalar(self.k)}"
        return notation.set_of(deleted, f"0{leq}{delta}{leq}1, {most}")


@dataclass(frozen=True)
class BoundSets:
    """The sets of perturbations of bound samples, with sizes.

    Attributes
    ----------
    sets : the declared shape
    G : the G_i, (m, n, r) or (m, n)
    y, sizes : labels, and factors of the sets, (m,)
    """

    sets: SampleSets
    G: NDArray[np.float64]
    y: Vec
    sizes: Vec

    def images(self, w: Vec) -> Rows:
        """Return the vectors `G_i'w`, (m, r)."""
        return self.G * w if self.G.ndim == 2 else np.tensordot(self.G, w, axes=(1, 0))

    def heights(self, w: Vec) -> Vec:
        """Return the support function of each set at -y_i w, (m,)."""
        return self.sizes * self.sets.heights(self.images(w))

    def images_cvxpy(self, w: cp.Expression) -> cp.Expression:
        """Return `images` in CVXPY."""
        if self.G.ndim == 2:
            return self.G @ cp.diag(w)
        m, n, r = self.G.shape
        return cp.reshape(self.G.transpose(0, 2, 1).reshape(m * r, n) @ w, (m, r), order="C")

    def moved(self, X: Matrix, C: Rows) -> Matrix:
        """Return the samples X moved to the points of given rows of C; further features stay."""
        C = (-self.y * self.sizes)[:, None] * C
        D = self.G * C if self.G.ndim == 2 else np.einsum("mnr,mr->mn", self.G, C)
        return as_dense(X) + np.pad(D, ((0, 0), (0, X.shape[1] - D.shape[1])))
