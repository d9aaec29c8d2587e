"""Sets of samples of any size and far from 0, against the same samples near 0 and of size 1.

The entries of both are exact: eighths, times a power of two, plus a multiple of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from draws import Case, Source, matrix
from guard import Tally, fuzz
from scipy import sparse
from test_relations import CLOSE, answer

import ucm
from ucm import models, neg, pos

DECIDED = ("optimal", "zero_in_set", "stationary", "local")
BOUNDARY = 1e-6  # of the size of the samples: an objective that may count as 0


@dataclass
class Moved:
    """A model and samples near 0, and `unit (X + shift)`, dense or sparse."""

    one: Case
    unit: float
    shift: np.ndarray
    sparse: bool

    @property
    def X(self) -> Any:
        X = self.unit * (self.one.X + self.shift)
        return sparse.csr_array(X) if self.sparse else X

    def __repr__(self) -> str:
        storage = ", sparse" if self.sparse else ""
        return f"{self.one!r}\nunit {self.unit!r}, shift {self.shift.tolist()}{storage}"


def model(s: Source) -> Any:
    t = s.integer(1, 8) / 8
    U = s.pick([
        models.nu_svm(t), models.mm_mpm(t), models.mm_fda(t), models.l2_nu_svm(t), models.kl_svm(t),
        models.biased_l2_nu_svm(t, 0.9), models.coherent_mm_mpm(t), models.coherent_mm_fda(t),
        ucm.ChiSquare(pos, t) - ucm.ChiSquare(neg, 0.5), (ucm.ReducedHull(pos, nu=t) | pos.mean) - neg.mean,
        ucm.CVaR(pos, t) - ucm.Ellipsoid(neg.mean, neg.cov, t),
    ])  # fmt: skip
    return U if s.integer(0, 1) else ucm.RobustMargin(U, s.pick([1.0, 1.5, 2.0, 3.0, math.inf]))


def moved(s: Source) -> Moved:
    """Samples with a feature that is constant or twice there or of other size, or one or two of a class."""
    m, n = s.integer(3, 24), s.integer(1, 6)
    positives = s.pick([1, 2, m // 2, m - 1])
    y = np.where(np.arange(m) < positives, 1.0, -1.0)
    X = matrix(s, m, n) + s.integer(0, 16) / 8 * y[:, None]
    kind = s.integer(0, 5)
    if kind == 0:
        X[:, s.integer(0, n - 1)] = 1.5
    elif kind == 1:
        X[:, 0] = X[:, n - 1]
    elif kind == 2:
        X[:, s.integer(0, n - 1)] *= 2.0 ** s.integer(-16, 16)
    far = s.pick([0, 3, 10, 20, 26])
    shift = np.zeros(n) if far == 0 else matrix(s, 1, n, 2)[0] * 2.0 ** (far + 2)
    return Moved(Case(model(s), X, y), 2.0 ** s.integer(-27, 27), shift, s.integer(0, 2) == 0)


def judge(c: Moved, tally: Tally) -> str:
    one, two = answer(c.one.model, c.one.X, c.one.y), answer(c.one.model, c.X, c.one.y)
    names = [a if isinstance(a, str) else a.status for a in (one, two)]
    told = f"one is {names[0]}, the other {names[1]}"
    if isinstance(one, str) or isinstance(two, str):
        assert "EmptySetError" not in names or names[0] == names[1], told
        if names[0] != names[1]:
            tally.doubt(c, told)
        return names[0]
    size = max(float(np.abs(c.one.X).max()), 1e-3)
    if one.status == "optimal" and one.objective < -BOUNDARY * size:
        tally.convex += 1
        if two.status != "optimal":
            tally.doubt(c, told)
        else:
            told = f"{one.objective!r} against {two.objective / c.unit!r}"
            assert abs(two.objective / c.unit - one.objective) <= CLOSE * size, told
    if two.status == "optimal" and names[0] in DECIDED:
        assert two.objective / c.unit <= one.objective + CLOSE * size, told
    return f"{names[0]}, {names[1]}"


def test_neither_unit_nor_shift_takes_the_proof(record_property: Callable[[str, object], None]) -> None:
    fuzz(moved, judge, record_property, few=60, many=3000)


def test_the_samples_of_raw_scales_are_of_every_kind() -> None:
    drawn = [moved(Source(seed)) for seed in range(300)]
    met = Counter((c.sparse, bool(c.shift.any()), c.unit > 1.0) for c in drawn)
    assert len(met) == 8, met
