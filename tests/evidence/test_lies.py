"""No solver and no form makes a status or a bound: whatever they return is held against CVXPY."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bundled import load

import ucm
from ucm.compiler import lowering
from ucm.errors import UCMError
from ucm.forms.distance import MinNorm
from ucm.forms.flips import FlipComposite
from ucm.forms.objective import Composite, DifferenceOfConvex, MovedComposite
from ucm.forms.out_of_core import RowHulls, RowLosses
from ucm.forms.solver import Answer, checked
from ucm.forms.sphere import UnitNorm

M = ucm.models
X, Y = load("wine")
X, Y = X[::3, :4], Y[::3]
MIXED = np.random.default_rng(3).permutation(Y)  # 0 lies between the classes

SUBSET = ucm.Logistic() + ucm.L2() + ucm.Cardinality(2)
WORST = ucm.WorstMean(ucm.Hinge(), ucm.KLBall(0.5)) + 0.1 * ucm.L2()
FLIPS = ucm.WassersteinObjective(ucm.Hinge(), eps=0.1, kappa=0.5)
MOVED = ucm.Robust(ucm.Hinge(), ucm.FeatureDeletion(1)) + 0.5 * ucm.L2()

MEMORY: list[tuple[str, Any]] = [
    ("ssnal", M.nu_svm(0.3)), ("ssnal", M.mm_mpm(0.3)), ("active-set", M.nu_svm(0.3)), ("smo", M.nu_svm(0.3)),
    ("apg", M.nu_svm(0.3)), ("alm", M.coherent_mm_mpm(0.3)),
    ("level-set", ucm.RobustMargin(M.mm_mpm(0.1), norm=1.5)), ("secular", M.mm_fda(0.3)),
    ("mdm", M.nu_svm(0.3)), ("gsk", M.nu_svm(0.3)), ("clip-mdm", M.nu_svm(0.3)), ("clip-gsk", M.nu_svm(0.3)),
    ("clarabel", M.kl_svm(0.8)), ("clarabel", M.one_norm_svm(1.0)),
    ("clarabel", WORST), ("clarabel", FLIPS), ("clarabel", MOVED), ("scs", M.nu_svm(0.3)),
    *([("ecos", M.nu_svm(0.3))] if importlib.util.find_spec("ecos") else []),
    ("highs", ucm.RobustMargin(M.nu_svm(0.3), norm=np.inf)), ("highs", M.one_norm_svm(1.0)),
    ("prox-newton", ucm.Logistic() + 2.0 * ucm.L1()), ("prox-alm", ucm.Hinge() + 0.5 * ucm.ElasticNet(0.5)),
    ("prox-alm", WORST), ("psmo", M.psvm(1.5, 1.0)), ("smo", M.psvm(2.0, 1.0)), ("dca", M.svm(1.0)),
    ("branch-and-bound", SUBSET),
]  # fmt: skip
ROWS = {
    "out-of-core": [M.nu_svm(0.3), M.svm(1.0), M.one_norm_svm(2.0)],
    "newton-rows": [M.kl_svm(0.8), ucm.Logistic() + ucm.L2()],
    "auto": [ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, 0.2) - ucm.Hull(ucm.neg), M.mm_mpm(0.3)],
}
SPHERE = {
    "rapminos": M.enu_svm(0.3),
    "linearize": M.enu_svm(0.3),
    "facets": M.enu_svm(0.3),
    "faces": ucm.RobustMargin(M.enu_svm(0.3).set, norm=np.inf),
    "subgradient": M.enu_svm(0.3),
    "secular": ucm.RobustMargin(ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, 1.0) - ucm.neg.mean),
}


def _each(change: Callable[[Any], Any], blocks: list) -> list:
    return [change(v) for v in blocks]


def _lies(rng: np.random.Generator) -> dict[str, Callable[[Answer], Answer]]:
    """Changes of an answer that keep its claim to have converged."""

    def of(change: Callable[[Any], Any]) -> Callable[[Answer], Answer]:
        def lie(answer: Answer) -> Answer:
            vectors = {
                name: change(v) for name in ("w", "slopes") if (v := getattr(answer, name)) is not None
            }
            proof = answer.witness
            if proof is not None:
                points = [_each(change, blocks) for blocks in proof.points]
                proof = replace(proof, points=points, slopes=_each(change, proof.slopes))
            return replace(
                answer, q=_each(change, answer.q), multipliers=_each(change, answer.multipliers),
                parts=[(part, change(v)) for part, v in answer.parts], witness=proof, **vectors,
                status="converged",
            )  # fmt: skip

        return lie

    def sums(answer: Answer) -> Answer:
        """Sums of a pass that claim a better bound, or a smaller loss."""
        rows = answer.rows
        if rows is None:
            return replace(answer, status="converged")
        names = ("points", "losses", "loss", "gains", "heights")
        found = {name: getattr(rows, name, None) for name in names}
        smaller = {name: 0.5 * v for name, v in found.items() if v is not None}
        return replace(answer, rows=replace(rows, **smaller), status="converged")

    def moved(answer: Answer) -> Answer:
        rows = answer.rows
        if rows is None:
            return replace(answer, status="converged")
        return replace(answer, rows=replace(rows, w=rows.w + 0.1 * rng.standard_normal(rows.w.size)))

    return {
        "smaller": of(lambda v: 0.9 * v),
        "larger": of(lambda v: 1.1 * v),
        "opposite": of(lambda v: -v),
        "nothing": of(np.zeros_like),
        "noise": of(lambda v: v + 1e-3 * np.abs(v).max(initial=1e-9) * rng.standard_normal(v.shape)),
        "reversed": of(lambda v: v[::-1].copy()),
        "another b": lambda answer: replace(answer, b=(answer.b or 0.0) + 1.0, status="converged"),
        "a part less": lambda answer: replace(answer, parts=answer.parts[1:], status="converged"),
        "sums": sums,
        "moved": moved,
    }


@contextlib.contextmanager
def lying(monkeypatch: pytest.MonkeyPatch, lie: Callable[[Answer], Answer]) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(lowering, "checked", lambda answer, *rest: checked(lie(checked(answer, *rest)), *rest))
        yield


def solved(model: Any, *data: Any, **options: Any) -> Any:
    """The solution, or None where an error refuses the answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ucm.solve(model, *data, **options)
        except UCMError:
            return None


def held(found: Any, optimum: float) -> None:
    """The bounds hold, and "optimal" is said of the optimum only."""
    if found is None:
        return
    size, proof = max(abs(optimum), 1e-3), found.certificate
    if proof.kind in ("global", "none"):
        assert proof.dual <= optimum + 1e-7 * size
        assert proof.primal >= optimum - 1e-7 * size
    if found.status == "optimal":
        assert abs(found.objective - optimum) <= 2e-6 * size


def reference(model: Any) -> float:
    if model is SUBSET:  # every pair of features
        pairs = itertools.combinations(range(X.shape[1]), 2)
        plans = [ucm.compile(ucm.Logistic() + ucm.L2(), X[:, pair], Y) for pair in pairs]
        return min(float(plan.reference(scaled=True).solve(solver="CLARABEL")) for plan in plans)
    problem = ucm.compile(model, X, Y).reference(scaled=True)
    return float(problem.solve(solver="CLARABEL"))


@pytest.mark.parametrize(("name", "model"), MEMORY)
def test_answers_in_memory(name: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = reference(model)
    limit = 300 if name in ("mdm", "gsk", "clip-mdm", "clip-gsk", "apg") else None
    found = solved(model, X, Y, solver=name, max_iter=limit)
    assert found.certificate.kind in ("global", "local")
    held(found, optimum)
    idle = {"sums", "moved"} | (set() if isinstance(model, ucm.Objective) else {"another b", "a part less"})
    for word, lie in _lies(np.random.default_rng(1)).items():
        if word not in idle:
            with lying(monkeypatch, lie):
                held(solved(model, X, Y, solver=name, max_iter=limit), optimum)


def test_every_solver_is_among_those_that_lie() -> None:
    told = {name for name, _ in MEMORY} | ROWS.keys() | SPHERE.keys()
    solvers = [getattr(ucm.solvers, name) for name in ucm.solvers.__all__]
    names = {name for kind in solvers if isinstance(name := getattr(kind, "name", None), str)}
    assert len(names) >= 20 and {*names, ucm.solvers.SSNAL().name} <= told


@pytest.mark.parametrize(("name", "model"), [(name, model) for name in ROWS for model in ROWS[name]])
def test_answers_over_rows(name: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = reference(model)
    held(solved(model, ucm.open_rows(X, Y, block=30), solver=name), optimum)
    limit = 3 if name == "auto" else None  # passes
    for lie in _lies(np.random.default_rng(1)).values():
        with lying(monkeypatch, lie):
            held(solved(model, ucm.open_rows(X, Y, block=30), solver=name, max_iter=limit), optimum)


class Altered:
    """Weights of rows of which a pass sees the first block changed, or every block."""

    def __init__(self, rows: Any, change: Callable[[Any], Any], every: bool) -> None:
        self.rows, self.change, self.every, self.weights = rows, change, every, rows.weights

    def reduce(self, function: Callable, message: tuple, merge: Callable) -> Any:
        seen: list[int] = []

        def changed(X: Any, y: Any, q: Any, *rest: Any) -> Any:
            if y.any() and (self.every or not seen):
                seen.append(y.size)
                X, y, q = self.change((X, y, q))
            return function(X, y, q, *rest)

        return self.rows.reduce(changed, message, merge)


@pytest.mark.parametrize("model", [M.nu_svm(0.3), M.kl_svm(0.8)], ids=["caps", "ball"])
@pytest.mark.parametrize("lost", [False, True])
def test_weights_of_rows_off_by_rounding_and_a_lost_row(
    model: Any, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums off by 5e-7 are mended; rows that are not those of the first pass prove nothing."""
    optimum = reference(model)

    def change(block: tuple) -> tuple:
        X, y, q = block
        kept = np.arange(y.size) != np.flatnonzero(y)[0]
        return (X[kept], y[kept], q[kept]) if lost else (X, y, (1.0 - 5e-7) * q)

    def lie(answer: Answer) -> Answer:
        if (proof := answer.rows) is None:
            return answer
        return replace(answer, rows=replace(proof, rows=Altered(proof.rows, change, not lost)))

    with lying(monkeypatch, lie):
        found = solved(model, ucm.open_rows(X, Y, block=30))
    proof = found.certificate
    if lost:
        assert (proof.dual, proof.primal) == (-math.inf, math.inf) and found.status != "optimal"
    else:
        assert proof.dual <= optimum
        assert proof.dual >= 1.0001 * optimum or proof.violation > 1e-9


@pytest.mark.parametrize("name", SPHERE)
def test_answers_beyond_the_boundary(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower bound is below the worst case of the returned w, and of random ones."""
    model = SPHERE[name]
    W = np.random.default_rng(0).standard_normal((300, 3))
    W /= np.linalg.norm(W, ord=model.norm, axis=1)[:, None]
    least = min(ucm.support(model.set, X[:, :3], MIXED, -w)[0] for w in W)
    assert solved(model, X[:, :3], MIXED, solver=name).w.any()
    for lie in _lies(np.random.default_rng(1)).values():
        with lying(monkeypatch, lie):
            found = solved(model, X[:, :3], MIXED, solver=name)
        if found is not None and found.certificate.kind == "global":
            assert found.certificate.dual <= least + 1e-9
            if found.w.any():
                worst = ucm.support(model.set, X[:, :3], MIXED, -found.w)[0]
                assert found.certificate.primal >= worst - 1e-9 >= found.certificate.dual - 2e-9


def _composite(self: Composite, slopes: Any, margin: Any, w: Any) -> tuple[float, float]:
    return self.value(margin, w) * (1.0 - 1e-9), 0.0


FORMS: dict[str, tuple[type, str, Any, Any]] = {
    "composite bound": (Composite, "lower_bound", _composite, ucm.Logistic() + 2.0 * ucm.L1()),
    "composite value": (Composite, "value", lambda self, t, w: 0.0, M.svm(1.0)),
    "composite gap": (Composite, "duality_gap", lambda self, answer: (1e-9, 0.0), ucm.Logistic() + ucm.L1()),
    "worst mean": (Composite, "lower_bound", _composite, WORST),
    "flips value": (FlipComposite, "value", lambda self, t, w: 1e-9, FLIPS),
    "flips gap": (FlipComposite, "duality_gap", lambda self, answer: (1e-9, 0.0), FLIPS),
    "moved gap": (MovedComposite, "duality_gap", lambda self, answer: (1e-9, 0.0), MOVED),
    "subset bound": (Composite, "lower_bound", _composite, SUBSET),
    "difference value": (DifferenceOfConvex, "value", lambda self, t, w: 0.0, M.svm(1.0)),
    "distance bound": (MinNorm, "lower_bound", lambda self, w, mu=(): 1e6, M.nu_svm(0.3)),
    "distance supports": (
        MinNorm, "supports", lambda self, g: [(0.0, np.zeros(v.size)) for v in g], M.l2_nu_svm(0.2),
    ),
    "rows bound": (
        RowLosses, "lower_bound", lambda self, proof: (self.value(proof) * (1.0 - 1e-9), 0.0), None,
    ),
    "rows value": (RowLosses, "value", lambda self, proof: 1e-9, None),
    "rows gap": (RowLosses, "gap", lambda self, proof: 0.0, None),
    "hulls bounds": (RowHulls, "bounds", lambda self, proof: (-1.0, 1.0), None),
    "hulls gap": (RowHulls, "gap", lambda self, proof: 0.0, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_numbers_of_forms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, method, lie, model = FORMS[name]
    rows = [*ROWS["out-of-core"], *ROWS["newton-rows"]]
    models = [model] if model is not None else rows
    data = (X, Y) if model is not None else (ucm.open_rows(X, Y, block=30),)
    optima = [reference(each) for each in models]
    monkeypatch.setattr(form, method, lie)
    for each, optimum in zip(models, optima, strict=True):
        held(solved(each, *data), optimum)


def test_the_height_of_the_unit_norm_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SPHERE["linearize"]
    monkeypatch.setattr(UnitNorm, "height", lambda self, v: 1e-9)
    found = solved(model, X[:, :3], MIXED, solver="linearize")
    if found is not None and found.w.any():
        worst = ucm.support(model.set, X[:, :3], MIXED, -found.w)[0]
        assert math.isclose(found.certificate.primal, worst, rel_tol=1e-9)
