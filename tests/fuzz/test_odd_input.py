"""Samples, labels and options of every kind: refused by an error of the library, or answered truly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import twins
from draws import Source, loss, penalty, samples
from guard import Tally, fuzz, guarded
from scipy import sparse

import ucm
from ucm import models, neg, pos
from ucm.errors import UCMError

SCALES = [1.0, 1e-300, 1e-160, 1e-30, 1e-8, 1e8, 1e30, 1e150, 1e300]
BIAS = ["auto", "multipliers", "midpoint", "means", "min_error", "odds", "boundary", "zero", "x", None]
SOLVERS = [
    "auto", "ssnal", "smo", "apg", "mdm", "clarabel", "alm", "secular", "rapminos", "faces",
    "dca", "highs",
    "prox-alm", "clarabel", "", "x", None, 3, [],
]  # fmt: skip
WEIGHTS = [
    (1.0, 1.0),
    (2.0, 0.5),
    (1.0,),
    None,
    3,
    {1: 2},
    "balanced",
    (0.0, 1.0),
    (np.nan, 1.0),
    (1e300, 1.0),
]
NUMBERS = [1, 2, 3, 50, 0, -1, 1.5, 10**30, None, "3", True, np.int64(7), np.nan]
TOLERANCES = [1e-6, 1e-3, 1e-9, 1e-13, 0.5, 0, 1, -1.0, np.nan, "x", None, 1e-300]
KERNELS = [None, None, None, "linear", "rbf", "poly", "sigmoid", "precomputed", "x", 3]


@dataclass
class Call:
    """A call of `solve`."""

    model: Any
    X: Any
    y: Any
    how: str
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        X = self.X.tolist() if isinstance(self.X, np.ndarray) else self.X
        return f"{self.model!r}, {self.options}, {self.how}\nX = {X!r}\ny = {self.y!r}"


def model(s: Source) -> Any:
    t = s.pick([0.125, 0.5, 0.875, 1.0])
    if s.integer(0, 2) == 0:
        convex = s.often(3)
        return loss(s, convex) + penalty(s, convex)
    return s.pick([
        models.nu_svm(t), models.mm_mpm(t), models.mm_fda(t), models.l2_nu_svm(t), models.kl_svm(t),
        models.coherent_mm_mpm(t), ucm.Hull(pos) - ucm.Hull(neg), ucm.RobustMargin(models.nu_svm(t), 1.0),
        ucm.RobustMargin(models.mm_mpm(t), math.inf), models.enu_svm(t, 1.5),
        ucm.Ball(pos.mean, t, 1.5) - neg.mean,
    ])  # fmt: skip


def broken(X: np.ndarray, s: Source) -> Any:
    """A CSR matrix with one entry of its parts changed."""
    S = sparse.csr_matrix(X)
    part = getattr(S, s.pick(["indptr", "indices", "data"]))
    if part.size:
        part[s.integer(0, part.size - 1)] = s.pick([-1, 0, 1, 77, 10**6, -(10**6)])
    return S


def spoilt(X: np.ndarray, s: Source) -> np.ndarray:
    X = X.copy()
    X.flat[s.integer(0, X.size - 1)] = s.pick([np.nan, np.inf, -np.inf, 1e308, 5e-324, 1e200])
    return X


def call(s: Source) -> Call:
    X, y = samples(s)
    X = X[:, : max(1, min(X.shape[1], 6))] * s.pick(SCALES)
    kind = s.integer(0, 15)
    how, data, labels = "as it is", X, y
    if kind == 0:
        how, data = "broken CSR", broken(X, s)
    elif kind == 1:
        how, data = "spoilt", spoilt(X, s)
    elif kind == 2:
        how, data = "masked", np.ma.masked_array(X, mask=X.flat[0] == X)
    elif kind == 3:
        how, data = "zeros", X * 0.0
    elif kind == 4:
        rows = s.pick([X[0], X[:0], X[:, :0], X[None], X[:-1], [*X.tolist()[:-1], []], 3, None, "x", {}])
        how, data = "shape", rows
    elif kind == 5:
        dtype = s.pick([np.float32, np.float16, np.int64, np.uint8, bool, object, complex, "U8", "M8[s]"])
        with np.errstate(all="ignore"):
            how, data = f"dtype {dtype}", np.clip(X, -1e6, 1e6).astype(np.int64).astype(dtype)
    elif kind == 6:
        how, data = (
            "frame",
            pd.DataFrame(X).convert_dtypes() if s.integer(0, 1) else pd.DataFrame(X),
        )
    elif kind == 7:
        odd = s.pick(
            [
                y * 0,
                y + 1,
                y.astype(str),
                y > 0,
                y[:-1],
                y[:, None],
                y * 2,
                y.astype(object),
                y * 1j,
            ]
        )
        how, labels = (
            "labels",
            s.pick([odd, np.where(y > 0, np.nan, y), [None] * len(y), list(y), np.abs(y), 1]),
        )
    elif kind == 8:
        X = X.astype(object)
        X.flat[0] = s.pick([10**400, None, "a", [], {}, 1j, np.nan])
        how, data = "object", X
    elif kind == 9:
        with np.errstate(over="ignore"):
            how, data = "sizes apart", X * np.logspace(-150, 150, X.shape[1])
    options: dict[str, Any] = {}
    for name, values in {
        "solver": SOLVERS, "tol": TOLERANCES, "max_iter": NUMBERS, "n_starts": NUMBERS[:7], "bias_rule": BIAS,
        "class_weight": WEIGHTS, "kernel": KERNELS, "warm_start": [None, 3], "gamma": [0.1, "scale", -1,
        "x"],
        "time_limit": [None, 5.0, 0, -1, "x"], "maxiter": [3],
    }.items():  # fmt: skip
        if not s.often(9):
            options[name] = s.pick(values)  # type: ignore[arg-type]
    return Call(model(s), data, labels, how, options)


def ordinary(X: Any) -> bool:
    """Whether squares, products and ratios of the entries are numbers."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return True
    sizes = np.abs(X[np.isfinite(X) & (X != 0)]).astype(float)  # no float32 compares with 1e60
    return not sizes.size or bool(sizes.min() > 1e-60 and sizes.max() < 1e60)


def judge(c: Call, tally: Tally) -> str:
    table = c.X.to_numpy(float) if isinstance(c.X, pd.DataFrame) else c.X
    extreme = not ordinary(table) or c.options.get("class_weight") == (1e300, 1.0)
    try:
        sol: Any = guarded(lambda: ucm.solve(c.model, c.X, c.y, **c.options), extreme=extreme)
    except UCMError as error:
        return type(error).__name__
    proof, tol = sol.certificate, c.options.get("tol", 1e-6)
    told = f"{sol.status} {sol.objective:.10g}, {proof} ({sol.stats.solver})"
    assert not math.isnan(sol.objective) and c.how != "masked", told
    if sol.status == "optimal" and sol.objective >= -tol * sol.size and sol.size:  # 0 in U
        assert abs(proof.gap) <= 10.0 * max(tol, 1e-9) * max(sol.size, np.abs(table).max()), told
    elif sol.status == "optimal":
        assert abs(proof.relative_gap) <= tol and proof.violation <= tol, told
        assert sol.w is None or np.isfinite(sol.w).all(), told
    if isinstance(c.model, ucm.Objective) and sol.w is not None and "class_weight" not in c.options:
        plain = isinstance(c.X, np.ndarray) and c.X.dtype == np.float64 and isinstance(c.y, np.ndarray)
        if plain and sol.status in ("optimal", "converged", "max_iter", "local") and sol.b is not None:
            data = twins.Bound.of(np.asarray(c.X), np.asarray(c.y, float).ravel(), {})
            here = twins.objective(c.model, data, sol.w, sol.b)
            assert abs(here - sol.objective) <= 1e-7 * abs(here), f"{told}; it is {here:.10g}"
    return sol.status


def test_samples_of_less_precision_are_ordinary_too() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        assert ordinary(np.array([[1.0, 0.0, np.inf, -2.0]], dtype=dtype))
    assert not ordinary(np.array([1e150])) and not ordinary(np.array([1e-150, 1.0]))


def test_odd_samples_and_options(record_property: Callable[[str, object], None]) -> None:
    fuzz(call, judge, record_property, few=120, many=5_000)
