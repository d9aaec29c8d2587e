"""The plane of a picture: two features, the normal and a direction across it, or any two directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import ParameterError, brief

__all__ = ["Plane", "feature_names", "plane_of"]

_WAYS = (
    'plane="normal" (the normal w and the widest direction across it) or plane=P, a (2, n) array of '
    "directions"
)


@dataclass(frozen=True)
class Plane:
    """Two orthonormal directions of R^n, and what they are called.

    Attributes
    ----------
    P : (2, n)
    labels : of the two axes
    """

    P: NDArray[np.float64]
    labels: tuple[str, str]

    def holds(self, w: Vec) -> bool:
        """Whether w lies in the plane, so that the hyperplane is a line in the picture."""
        inside = self.P @ w
        return float(np.hypot(*inside)) >= (1.0 - 1e-6) * float(np.linalg.norm(w))


def feature_names(X: Any, names: Any = None) -> list[str] | None:
    """Return the given names, or those of a data frame; None if the features have no names."""
    found = getattr(X, "columns", None) if names is None else names
    if found is None or not all(isinstance(c, str) for c in found):
        return None
    return [str(c) for c in found]


def plane_of(plane: Any, data: Data, w: Vec | None, names: list[str] | None, who: str) -> Plane:
    """The plane that is asked for.

    Parameters
    ----------
    plane : None, "features", "normal" or (2, n) array
        None is "features", for samples with two of them.
    w : the normal

    Raises
    ------
    ParameterError
        More or fewer than two features without a plane; a plane of rank 1, of another shape or not finite; no
        normal.
    """
    n = data.n
    if plane is None or (isinstance(plane, str) and plane == "features"):
        if n != 2:
            one = "; a set on a line needs no plane" if n == 1 else f"; give {_WAYS}"
            raise ParameterError(
                f"{who}: a picture has two axes, and the samples have {n} features{one}"
            )
        found = ("$x_1$", "$x_2$") if names is None else (names[0], names[1])
        return Plane(np.eye(2), found)
    if isinstance(plane, str):
        if plane != "normal":
            raise ParameterError(f'{who}: plane is "features", {_WAYS}; got {brief(plane)}')
        return _across_normal(data, w, who)
    try:
        A = np.asarray(plane, dtype=np.float64)
    except (TypeError, ValueError):
        A = np.zeros(0)
    if A.shape != (2, n) or not np.isfinite(A).all():
        raise ParameterError(
            f"{who}: plane is a (2, {n}) array of finite numbers, its rows two directions among the {n} "
            f"features, got {brief(plane)}"
        )
    if np.linalg.matrix_rank(A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300)) < 2:
        raise ParameterError(
            f"{who}: the rows of plane span a line and no plane, {brief(plane)}; give two directions that "
            "are not multiples of each other"
        )
    Q, R = np.linalg.qr(A.T)
    P = (Q * np.sign(np.diag(R))).T
    return Plane(P, (_called(P[0], names, "$u_1$"), _called(P[1], names, "$u_2$")))


def _called(u: Vec, names: list[str] | None, other: str) -> str:
    """The feature that a direction is, or another name."""
    at = np.flatnonzero(np.abs(u) > 1e-12)
    if at.size != 1 or u[at[0]] < 0.0:
        return other
    return f"$x_{{{at[0] + 1}}}$" if names is None else names[at[0]]


def _across_normal(data: Data, w: Vec | None, who: str) -> Plane:
    n = data.n
    if w is None or not np.any(w):
        raise ParameterError(
            f'{who}: plane="normal" needs a normal, and w is 0; give a (2, n) array'
        )
    if n == 1:
        raise ParameterError(
            f"{who}: a picture has two axes, and the samples have one feature; add a feature"
        )
    if w.size != n:
        raise ParameterError(
            f'{who}: plane="normal" needs w among the features, and it lives in R^{w.size}; give a '
            "(2, n) array"
        )
    u = w / np.linalg.norm(w)
    mean = np.asarray(data.X.mean(axis=0)).ravel()
    m = data.m

    def across(v: Vec) -> Vec:
        return v - (v @ u) * u

    def spread(v: Vec) -> Vec:
        v = across(np.ravel(v))
        z = np.asarray(data.X @ v).ravel() - float(mean @ v)
        return across(np.asarray(data.X.T @ z).ravel() - mean * float(z.sum())) / m

    start = across(np.random.default_rng(0).standard_normal(n))
    v, share = start / np.linalg.norm(start), None
    squares = data.X.multiply(data.X) if hasattr(data.X, "multiply") else data.X**2
    z = np.asarray(data.X @ u).ravel()
    rest = float(squares.sum()) / m - float(mean @ mean) - float(z.var())
    if n > 2 and rest > 0.0:
        value, vector = _widest(n, spread, start)
        v = across(vector)
        v /= np.linalg.norm(v)
        share = value / rest
    v = v if v[np.argmax(np.abs(v))] > 0.0 else -v
    how = "" if share is None else f", {share:.0%} of the rest"
    return Plane(np.vstack([u, v]), ("along $w$", rf"widest direction $\perp w${how}"))


def _widest(n: int, spread: Callable[[Vec], Vec], start: Vec) -> tuple[float, Vec]:
    """The largest eigenvalue of a positive semidefinite map, and its vector: Lanczos from `start`."""
    options: dict[str, Any] = {"matvec": spread, "dtype": np.float64}
    how: dict[str, Any] = {"k": 1, "v0": start, "tol": 1e-4}
    values, vectors = eigsh(LinearOperator((n, n), **options), **how)
    return float(values[0]), np.asarray(vectors[:, 0])
