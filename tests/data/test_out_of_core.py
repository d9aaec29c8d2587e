"""Rows that are read block by block, beside the same samples in memory and CVXPY twins."""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.compiler.compile import plan_of_rows
from ucm.data import array_rows, readers
from ucm.data.first_pass import first_pass
from ucm.data.row_moments import of_moments
from ucm.data.source import Labelled, ObservedSource, RowSource
from ucm.evidence.row_hulls import HullProof, hulls_proven
from ucm.evidence.row_losses import LossProof, losses_proven
from ucm.forms.rows import RowLosses
from ucm.solvers import ActiveSet, OutOfCoreActiveSet, ProxALM
from ucm.solvers.out_of_core.active_set import below
from ucm.solvers.out_of_core.newton_rows import SmoothLosses
from ucm.solvers.out_of_core.row_sums import RowSums, row_sums
from ucm.solvers.out_of_core.smoothed_newton import smoothed_newton


def samples(m: int = 900, n: int = 4, seed: int = 0, part: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < part, 1.0, -1.0)
    X = rng.standard_normal((m, n))
    X[:, 0] += 1.5 * y
    return X, y


def blocks(X: Any, y: Any, rows: int = 100, threads: int = 1) -> RowSource:
    return ucm.open_rows(X, y, block=rows, threads=threads)


MODELS = {
    "nu": ucm.models.nu_svm(0.4),
    "caps": ucm.ReducedHull(pos, eta=0.01) - ucm.ReducedHull(neg, eta=0.004),
    "hull and reduced": ucm.Hull(pos, weights=ucm.CappedSimplex(0.006))
    - ucm.ReducedHull(neg, nu=0.5),
    "signed": 2.0 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.004)),
    "factors": 2.0 * ucm.ReducedHull(pos, nu=0.4) - 0.5 * ucm.ReducedHull(neg, nu=0.4),
    "relative cap": ucm.Hull(pos, weights=ucm.CappedSimplex(3.0, relative=True))
    - ucm.ReducedHull(neg, nu=0.4),
}


@pytest.mark.parametrize("name", MODELS)
def test_answers_agree_with_memory(name: str) -> None:
    X, y = samples()
    rows, memory = ucm.solve(MODELS[name], blocks(X, y)), ucm.solve(MODELS[name], X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.stats.solver == "out-of-core" and memory.stats.solver == "active-set"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.certificate.primal + 1e-12
    assert memory.certificate.dual <= rows.certificate.primal + 1e-12
    assert rows.x == pytest.approx(memory.x, abs=3e-3)
    assert rows.b == pytest.approx(memory.b, abs=3e-3)
    assert rows.bias_rule == memory.bias_rule
    for ours, theirs in zip(rows.summand_points or (), memory.summand_points or (), strict=True):
        assert ours == pytest.approx(theirs, abs=3e-3)


@pytest.mark.parametrize("name", ["nu", "factors", "signed"])
def test_out_of_core_solutions_agree_with_the_twin(name: str) -> None:
    X, y = samples(400)
    plan = ucm.compile(MODELS[name], blocks(X, y, 37))
    solution = plan.solve()
    whole = ucm.compile(plan.model, X, y).reference()
    whole.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(float(whole.value), rel=1e-5)  # type: ignore[arg-type]
    assert plan.verify().agrees
    band = plan.reference(solution)
    band.solve(solver="CLARABEL")
    assert float(band.value) == pytest.approx(solution.objective, rel=1e-5)  # type: ignore[arg-type]


def test_separable_classes_have_a_hard_margin() -> None:
    X, y = samples(400)
    X[:, 0] += 8.0 * y
    U = ucm.Hull(pos) - ucm.Hull(neg)
    rows, memory = ucm.solve(U, blocks(X, y)), ucm.solve(U, X, y)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_weights_are_in_the_order_of_the_rows() -> None:
    X, y = samples(3000)
    model = MODELS["nu"]
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    weights: Any = rows.weights
    assert not weights.known and weights.shape == (3000,)
    assert rows.x == pytest.approx(X.T @ (y * weights), abs=1e-12)
    assert weights[y > 0].sum() == pytest.approx(1.0) and weights.max() <= 2 / (3000 * 0.4) + 1e-15
    assert np.mean((weights > 0) == (np.asarray(memory.weights) > 0)) > 0.98
    again = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(np.asarray(again.weights), np.asarray(weights))
    unseen = pickle.loads(pickle.dumps(ucm.solve(model, blocks(X, y))))
    assert unseen.objective == rows.objective
    with pytest.raises(AttributeError, match="left out of the pickle"):
        np.asarray(unseen.weights)


def test_a_few_passes_and_few_rows() -> None:
    X, y = samples(60_000, 5)
    plan = ucm.compile(ucm.models.nu_svm(0.4), ucm.open_rows(X, y, threads=2))
    solution = plan.solve()
    assert solution.status == "optimal"
    band = solution.answer.rows.rows.active
    assert sum(p.size for p in band.p) < 0.25 * y.size
    assert 3 <= solution.stats.reads <= 4
    memory = ucm.solve(ucm.models.nu_svm(0.4), X, y, solver=ActiveSet())
    assert solution.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["heavy tails", "sorted", "rare", "ties", "far"])
def test_hard_data_agree_with_memory(kind: str, seed: int) -> None:
    X, y = samples(4000, 4, seed, part=0.02 if kind == "rare" else 0.5)
    nu = 0.4
    if kind == "heavy tails":
        X *= np.abs(np.random.default_rng(seed).standard_t(1.5, (4000, 1)))
        nu = 0.6
    elif kind == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    elif kind == "rare":
        nu = 0.03
    elif kind == "ties":
        X = np.round(X)
    else:
        X = X + 1e4
    rows, memory = (
        ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 333)),
        ucm.solve(ucm.models.nu_svm(nu), X, y),
    )
    assert rows.status == memory.status
    assert rows.objective == pytest.approx(memory.objective, rel=3e-6)


def test_class_weights_are_factors_of_the_caps() -> None:
    X, y = samples()
    for weight in ((1.5, 0.8), "balanced", {1: 2.0}):
        rows = ucm.solve(MODELS["nu"], blocks(X, y), class_weight=weight)
        memory = ucm.solve(MODELS["nu"], X, y, class_weight=weight)
        assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_bias_rules_agree_with_memory() -> None:
    X, y = samples(3000)
    for rule in ("multipliers", "midpoint", "zero", "min_error"):
        rows = ucm.solve(MODELS["nu"], blocks(X, y), bias_rule=rule)
        memory = ucm.solve(MODELS["nu"], X, y, bias_rule=rule)
        assert rows.bias_rule == rule
        if rule == "min_error":  # where errors tie, a hair of w decides
            wrong = [np.sum(np.where(X @ s.w + s.b > 0, 1, -1) != y) for s in (rows, memory)]
            assert wrong[0] <= wrong[1] + 2
        else:
            assert rows.b == pytest.approx(memory.b, abs=2e-3)


def test_zero_in_the_set_is_proven() -> None:
    X, y = samples(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)
        solution = ucm.solve(ucm.models.nu_svm(0.05), blocks(X, y))
    assert solution.status == "zero_in_set" and not solution.w.any()
    assert "gather" in solution.message
    assert np.linalg.norm(solution.x) <= 1e-5


def test_limits_and_callbacks_end_between_rounds() -> None:
    X, y = samples(20_000, part=0.5)
    model, seen = ucm.models.nu_svm(0.4), []
    with pytest.warns(ucm.ConvergenceWarning):
        late = ucm.solve(model, blocks(X, y), time_limit=1e-6)
    assert late.status == "time_limit" and late.certificate.primal < 0.0
    X *= np.abs(np.random.default_rng(0).standard_t(1.5, (20_000, 1)))
    with pytest.warns(ucm.ConvergenceWarning):
        stopped = ucm.solve(
            ucm.models.nu_svm(0.6),
            blocks(X, y),
            callback=lambda record: seen.append(record) or True,
        )
    assert stopped.status == "interrupted" and len(seen) == 1
    assert 0.0 <= stopped.certificate.relative_gap < 0.1


@pytest.mark.parametrize(
    "model",
    [
        ucm.models.nu_svm(0.6),
        ucm.models.svm(3.0),
        ucm.Logistic() + 0.5 * ucm.L2(),
        ucm.models.kl_svm(0.8),
    ],
)
def test_an_interrupt_ends_between_rounds_with_the_proven_gap(model: Any) -> None:
    X, y = samples(20_000)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (20_000, 1)))
    proven_by_now: list[Any] = []
    at = [2]

    def interrupt(number: int) -> None:
        if proven_by_now or number == at[0]:
            raise KeyboardInterrupt

    source = ObservedSource(blocks(X, y, 4000), interrupt)
    with pytest.raises(KeyboardInterrupt):
        ucm.solve(model, source)
    at[0] = 0
    with pytest.warns(ucm.ConvergenceWarning, match="Ctrl-C"):
        found = ucm.solve(model, source, tol=1e-13, callback=proven_by_now.append)
    assert found.status == "interrupted"
    assert found.certificate.relative_gap == proven_by_now[-1]["gap"] <= 1.0
    assert found.certificate.dual <= found.certificate.primal and found.b is not None


def test_a_band_over_the_budget_says_so() -> None:
    X, y = samples(20_000)
    with pytest.warns(ucm.ConvergenceWarning, match="budget"):
        found = ucm.solve(
            ucm.models.nu_svm(0.4),
            blocks(X, y),
            solver=OutOfCoreActiveSet(ActiveSet(), budget=500),
        )
    assert found.status == "stalled"


@pytest.mark.parametrize("rows", [4000, 2500])
def test_a_band_over_the_budget_begins_anew_nearer_to_the_answer(rows: int) -> None:
    X, y = samples(40_000, 4, part=0.5)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (40_000, 1)))
    solver = OutOfCoreActiveSet(ActiveSet(), budget=rows * 32)
    wide = ucm.solve(ucm.models.nu_svm(0.6), blocks(X, y, 2500))
    found = ucm.solve(ucm.models.nu_svm(0.6), blocks(X, y, 2500), solver=solver)
    assert found.status == "optimal" and found.stats.reads <= 8
    assert found.objective == pytest.approx(wide.objective, rel=2e-6)
    assert (
        found.answer.rows.rows.active.nbytes <= solver.budget < wide.answer.rows.rows.active.nbytes
    )


@pytest.mark.parametrize(("nu", "rows", "n"), [(0.6, 62, 4), (0.6, 300, 4), (0.6, 300, 30)])
def test_a_band_that_is_too_large_ends_in_one_that_is_not(nu: float, rows: int, n: int) -> None:
    X, y = samples(10_000, n, part=0.5)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (10_000, 1)))
    solver = OutOfCoreActiveSet(ActiveSet(), budget=rows * 8 * n)
    found = ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 1250), solver=solver)
    assert found.status == "optimal" and found.stats.reads <= 45
    assert found.answer.rows.rows.active.nbytes <= solver.budget
    wide = ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 1250))
    assert found.objective == pytest.approx(wide.objective, rel=2e-6)


# --- sources -----------------------------------------------------------------------------------
def as_csv(X: Any, y: Any, mark: str = ",", head: bool = True) -> str:
    names = [*(f"x{j}" for j in range(X.shape[1])), "label"]
    lines = [[*map(repr, row.tolist()), str(label)] for row, label in zip(X, y, strict=True)]
    return "".join(mark.join(line) + "\n" for line in ([names] if head else []) + lines)


def written(kind: str, folder: Path, X: Any, y: Any) -> tuple[Any, Any]:
    if kind == "array":
        return ucm.open_rows(X, y, block=100), None
    if kind == "fortran":
        return ucm.open_rows(np.asfortranarray(X), y, block=100), None
    if kind == "csr":
        return ucm.open_rows(
            sparse.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0)), y, block=64
        ), None
    if kind in ("npy", "columns", "float32", "integers"):
        own = {
            "npy": X,
            "columns": np.asfortranarray(X),
            "float32": X.astype(np.float32),
            "integers": np.round(9 * X).astype(np.int16),
        }
        np.save(folder / "X.npy", own[kind])
        np.save(folder / "y.npy", y.astype(np.int8))
        return folder / "X.npy", folder / "y.npy"
    if kind == "memmap":
        np.save(folder / "X.npy", X)
        return ucm.open_rows(np.load(folder / "X.npy", mmap_mode="r"), y, block=50), None
    if kind in ("parquet", "arrow", "feather"):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"label": y.astype(int), **{f"x{j}": X[:, j] for j in range(X.shape[1])}})
        if kind == "arrow":
            return ucm.open_rows(table, block=70), None
        if kind == "feather":
            pytest.importorskip("pyarrow.feather").write_feather(table, folder / "X.feather")
            return folder / "X.feather", "label"
        pytest.importorskip("pyarrow.parquet").write_table(
            table, folder / "X.parquet", row_group_size=130
        )
        return str(folder / "X.parquet"), None
    if kind == "csv":
        pytest.importorskip("pyarrow.csv")
        (folder / "X.csv").write_text(as_csv(X, y))
        return folder / "X.csv", "label"
    if kind == "hdf5":
        with pytest.importorskip("h5py").File(folder / "X.h5", "w") as file:
            file["X"], file["y"] = X, y
        return folder / "X.h5", None
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "X.zarr"), mode="w")
    for name, own in (("X", X), ("y", y)):
        group.create_array(name, data=own, chunks=(99, *own.shape[1:]))
    return folder / "X.zarr", None


KINDS = "array fortran csr npy columns float32 integers memmap parquet arrow feather csv hdf5 zarr".split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_answer(kind: str, tmp_path: Path) -> None:
    X, y = samples(500)
    given = written(kind, tmp_path, X, y)
    before = sorted(os.listdir(tmp_path))
    if kind == "csr":
        X = np.where(np.abs(X) > 0.3, X, 0.0)
    if kind == "float32":
        X = X.astype(np.float32).astype(np.float64)
    if kind == "integers":
        X = np.round(9 * X)
    memory = ucm.solve(MODELS["nu"], X, y)
    source = ucm.open_rows(*given)
    rows = ucm.solve(MODELS["nu"], *given)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert (source.m, source.n) == X.shape
    assert source.labels().tolist() == [-1, 1]
    gathered = source.gather()
    table = gathered[0].toarray() if sparse.issparse(gathered[0]) else gathered[0]
    assert np.array_equal(table, X) and np.array_equal(gathered[1], y)
    assert sorted(os.listdir(tmp_path)) == before


def test_threads_and_blocks_change_nothing() -> None:
    X, y = samples(5000)
    answers = [
        ucm.solve(MODELS["nu"], blocks(X, y, rows, threads))
        for rows, threads in ((5000, 1), (77, 1), (77, 3))
    ]
    for other in answers[1:]:
        assert other.objective == pytest.approx(answers[0].objective, rel=2e-6)
    assert answers[1].objective == pytest.approx(answers[2].objective, rel=1e-12)


def test_a_read_only_folder_is_enough(tmp_path: Path) -> None:
    X, y = samples(500)
    given = written("npy", tmp_path, X, y)
    tmp_path.chmod(0o500)
    try:
        assert ucm.solve(MODELS["nu"], *given).status == "optimal"
    finally:
        tmp_path.chmod(0o700)


def counted(X: Any, y: Any, state: Any, last: float) -> tuple[int, int]:
    """A function that fails on the block which holds the last sample, if asked to."""
    if X[-1, 0] == last:
        raise KeyboardInterrupt
    return (state or 0) + 1, state or 0


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupted_pass_leaves_the_states(threads: int) -> None:
    X, y = samples(2000)
    source, states = blocks(X, y, 300, threads), dict[int, Any]()
    for k in range(2):
        assert source.map_reduce(counted, np.nan, states=states) == [k] * 7
    with pytest.raises(KeyboardInterrupt):
        source.map_reduce(counted, X[-1, 0], states=states)
    assert source.map_reduce(counted, np.nan, merge=operator.add, states=states) == 2 * 7
    assert source.map_reduce(counted, np.nan, states={}) == [0] * 7


# --- ramps, folded penalties, and the hinge loss with any penalty --------------------------------
STRAIGHT = {
    "l1": ucm.Hinge() + 5.0 * ucm.L1(),
    "elastic": ucm.Hinge() + 5.0 * ucm.ElasticNet(0.3),
    "linf": ucm.Hinge() + 5.0 * ucm.LInf(),
    "ramp": ucm.Ramp() + ucm.L2(),
    "ramp, l1": ucm.Ramp() + 5.0 * ucm.L1(),
    "small mu": ucm.Ramp(0.5) + ucm.L2(),
    "small mu, l1": ucm.Ramp(0.5) + 5.0 * ucm.L1(),
    "capped": ucm.Ramp() + 8.0 * ucm.CappedL1(1.0),
    "exponential": ucm.Ramp() + 8.0 * ucm.ExpL0(2.0),
    "hinge, mcp": ucm.Hinge() + ucm.MCP(8.0, 0.05),
    "classes": 2.0 * ucm.Ramp(on=pos) + ucm.Ramp(on=neg) + ucm.L2(),
}


def outliers(m: int = 900) -> tuple[Any, Any]:
    """Samples of which one in ten has the wrong label, and lies further out."""
    X, y = samples(m)
    wrong = np.random.default_rng(5).random(m) < 0.1
    X[wrong] *= 3.0
    return X, np.where(wrong, -y, y)


@pytest.mark.parametrize("name", STRAIGHT)
@pytest.mark.parametrize("kind", ["dense", "csr", "weighted"])
def test_ramps_and_penalties_over_rows_agree_with_memory(name: str, kind: str) -> None:
    X, y = outliers()
    weights = np.random.default_rng(1).integers(0, 3, y.size) if kind == "weighted" else None
    table = sparse.csr_matrix(X) if kind == "csr" else X
    rows = ucm.open_rows(table, y, sample_weight=weights, block=100)
    plan = ucm.compile(STRAIGHT[name], rows)
    solution = plan.solve()
    memory = ucm.solve(STRAIGHT[name], X, y, sample_weight=weights)
    assert solution.stats.solver == "out-of-core"
    assert solution.status in (memory.status, "stationary")
    assert solution.certificate.kind == memory.certificate.kind
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.objective == pytest.approx(memory.objective, rel=2e-6)
    assert solution.objective == pytest.approx(
        STRAIGHT[name].value(y * (X @ solution.w + solution.b), solution.w, y, weights), rel=1e-12
    )
    if kind != "csr":
        assert plan.verify().agrees
    slopes: Any = np.asarray(solution.weights)
    assert slopes.shape == (900,) and slopes @ y == pytest.approx(0.0, abs=1e-4)


def test_a_critical_point_over_rows_is_one_in_memory() -> None:
    X, y = outliers(3000)
    for name in ("ramp", "capped"):
        rows = ucm.solve(STRAIGHT[name], blocks(X, y, 300))
        given = ucm.compile(STRAIGHT[name], X, y).certify(
            w=rows.w, b=rows.b, weights=np.asarray(rows.weights)
        )
        assert given.kind == "local" and given.relative_gap <= 1e-6
        assert rows.stats.reads <= 25


def test_a_descent_ends_between_rounds() -> None:
    X, y = outliers()
    plan = ucm.compile(STRAIGHT["ramp"], blocks(X, y))
    for stop in (1, 4):
        with pytest.warns(ucm.ConvergenceWarning, match="callback"):
            stopped = plan.solve(callback=lambda record, stop=stop: record["iteration"] >= stop)
        assert stopped.status == "interrupted" and np.isfinite(stopped.objective)
    with pytest.warns(ucm.ConvergenceWarning):
        assert plan.solve(max_iter=2).status == "max_iter"
    with pytest.raises(ucm.ParameterError, match=r"n_starts: expected 1 .*got 3; .*gather"):
        plan.solve(n_starts=3)
    tight = OutOfCoreActiveSet(ProxALM(), budget=64)
    with pytest.warns(ucm.ConvergenceWarning, match="raise the budget"):
        ucm.solve(STRAIGHT["ramp"], blocks(X, y), solver=tight)


def test_ramps_of_groups_and_the_classifier() -> None:
    X, y = outliers()
    groups = np.array(["A", "B"])[np.arange(900) % 2]
    model = ucm.Ramp(on=pos.group("A")) + 0.5 * ucm.Ramp(on=neg) + ucm.L2()
    rows = ucm.solve(model, ucm.open_rows(X, y, subgroup=groups, block=100))
    memory = ucm.solve(model, X, y, subgroup=groups)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    fitted = ucm.Classifier(STRAIGHT["ramp, l1"]).fit(blocks(X, y))
    whole = ucm.Classifier(STRAIGHT["ramp, l1"]).fit(X, y)
    assert fitted.coef_ == pytest.approx(whole.coef_, abs=1e-5)
    path = ucm.path(ucm.Ramp() + ucm.Param("lam", 1.0) * ucm.L2(), blocks(X, y), lam=[1.0, 2.0])
    assert all(each.certificate.relative_gap <= 1e-6 for each in path)


# --- weights and groups ------------------------------------------------------------------------
A, B = pos.group("A"), neg.group("B")
WEIGHED = {
    "nu": ucm.models.nu_svm(0.4),
    "signed": 2.0 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.002)),
    "hulls": ucm.Hull(pos) - ucm.Hull(neg),
    "relative cap": ucm.Hull(pos, weights=ucm.CappedSimplex(3.0, relative=True))
    - ucm.ReducedHull(neg, nu=0.4),
    "balls": ucm.Hull(pos, weights=ucm.ChiSquareBall(2.0)) - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
    "moments": ucm.models.mm_mpm(0.5),
    "vertices": ucm.models.coherent_mm_fda(0.5),
    "svm": ucm.models.psvm(1.0, 0.1),
    "losses": ucm.Hinge(2.0, on=pos) + 3.0 * ucm.HuberHinge(0.5) + 5.0 * ucm.L2(),
    "group and class": ucm.ReducedHull(A, eta=0.01) - ucm.ReducedHull(neg, nu=0.3),
    "groups in balls": ucm.Hull(A, weights=ucm.ChiSquareBall(1.0))
    - ucm.Hull(B, weights=ucm.KLBall(0.5)),
    "signed group": ucm.Hull(signed.group("A"), weights=ucm.CappedSimplex(0.007)),
    "moments of groups": ucm.Ellipsoid(A.mean, A.cov, 0.5) - ucm.Ellipsoid(neg.mean, B.cov, 0.4),
    "svm of groups": ucm.Hinge(on=A) + 2.0 * ucm.Hinge(on=neg) + 5.0 * ucm.L2(),
    "one loss of groups": ucm.Hinge(2.0) + 2.0 * ucm.Hinge(2.0, on=signed.group("A")) + ucm.L2(),
}


def tagged_samples(m: int = 900) -> tuple[Any, Any, dict[str, Any]]:
    X, y = samples(m)
    rng = np.random.default_rng(1)
    weights, groups = 3.0 * rng.random(m), np.array(["A", "B", "C"])[rng.integers(0, 3, m)]
    weights[::7] = 0.0
    X[::7] += 50.0  # rows of no weight, which would tell
    return X, y, {"sample_weight": weights, "subgroup": groups}


@pytest.mark.parametrize("factors", [None, "balanced"])
@pytest.mark.parametrize("name", WEIGHED)
def test_weights_and_groups_over_rows_agree_with_memory(name: str, factors: Any) -> None:
    X, y, tags = tagged_samples()
    X[:, 0] += 8.0 * y if name == "hulls" else 0.0
    plan = ucm.compile(WEIGHED[name], ucm.open_rows(X, y, block=100, **tags), class_weight=factors)
    rows, memory = plan.solve(), ucm.solve(WEIGHED[name], X, y, class_weight=factors, **tags)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=3e-3)
    assert rows.b == pytest.approx(memory.b, abs=5e-3)
    assert rows.bias_rule == memory.bias_rule
    assert plan.verify().agrees
    if rows.weights is not None:
        weights = np.asarray(rows.weights)
        assert weights.shape == (900,) and not weights[::7].any()
        if rows.x is not None and rows.summand_points is not None and name != "vertices":
            side = 0.5 if name == "signed" or name == "signed group" else 1.0
            assert weights[y > 0].sum() == pytest.approx(side * (2.0 if name == "signed" else 1.0))


@pytest.mark.parametrize("name", ["nu", "moments", "group and class"])
def test_the_bias_of_least_error_counts_weights(name: str) -> None:
    X, y, tags = tagged_samples()
    rows = ucm.solve(WEIGHED[name], ucm.open_rows(X, y, block=100, **tags), bias_rule="min_error")
    memory = ucm.solve(WEIGHED[name], X, y, bias_rule="min_error", **tags)

    def error(solution: Any) -> float:
        return float(tags["sample_weight"] @ ((X @ solution.w + solution.b > 0.0) != (y > 0.0)))

    assert error(rows) == pytest.approx(error(memory))
    assert rows.b == pytest.approx(memory.b, abs=3e-3)


@pytest.mark.parametrize("kind", ["npy", "parquet", "feather", "csv", "hdf5", "zarr"])
def test_every_source_carries_weights_and_groups(kind: str, tmp_path: Path) -> None:
    X, y, tags = tagged_samples()
    codes = (tags["subgroup"] == "A").astype(int)
    given, arrays = (
        {**tags, "subgroup": codes},
        {"X": X, "y": y, "c": tags["sample_weight"], "g": codes},
    )
    model = ucm.Hull(pos.group(1), weights=ucm.KLBall(0.5)) - ucm.Hull(neg, weights=ucm.KLBall(0.5))
    named: dict[str, Any] = {"sample_weight": "c", "subgroup": "g"}
    if kind == "npy":
        for name, v in arrays.items():
            np.save(tmp_path / f"{name}.npy", v)
        labels: Any = {k: tmp_path / f"{name}.npy" for k, name in named.items()}
        rows = ucm.open_rows(tmp_path / "X.npy", tmp_path / "y.npy", block=100, **labels)
    elif kind in ("parquet", "feather", "csv"):
        arrow = pytest.importorskip("pyarrow", reason="needs pip install 'ucm[rows]'")
        columns = {**{f"x{j}": X[:, j] for j in range(4)}, "y": y, "c": arrays["c"], "g": codes}
        file, table = tmp_path / f"rows.{kind}", arrow.table(columns)
        if kind == "parquet":
            importlib.import_module("pyarrow.parquet").write_table(table, file, row_group_size=200)
        elif kind == "csv":
            importlib.import_module("pyarrow.csv").write_csv(table, file)
        else:
            importlib.import_module("pyarrow.feather").write_feather(table, file)
        rows = ucm.open_rows(file, "y", block=100, **named)
        assert rows.features == ["x0", "x1", "x2", "x3"]
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py", reason="needs pip install 'ucm[rows]'")
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            for name, v in arrays.items():
                file[name] = v
        rows = ucm.open_rows(tmp_path / "rows.h5", block=100, **named)
    else:
        zarr = pytest.importorskip("zarr", reason="needs pip install 'ucm[rows]'")
        group = zarr.open_group(str(tmp_path / "rows.zarr"), mode="w")
        for name, v in arrays.items():
            group.create_array(name, data=v)
        rows = ucm.open_rows(tmp_path / "rows.zarr", block=100, **named)
    memory = ucm.solve(model, X, y, **given)
    assert ucm.solve(model, rows).objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.gather()[1].tolist() == y.tolist()


def test_the_classifier_weighs_rows() -> None:
    X, y, tags = tagged_samples()
    words = np.where(y > 0, "yes", "no")
    model = ucm.models.psvm(2.0, 0.1)
    options: Any = {"class_weight": {"yes": 2.0, "no": 0.5}}
    rows = ucm.Classifier(model, **options).fit(ucm.open_rows(X, words, block=100, **tags))
    memory = ucm.Classifier(model, **options).fit(X, words, **tags)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=1e-4)
    three = np.array(["a", "b", "c"])[np.arange(900) % 3]
    weights = {"sample_weight": tags["sample_weight"]}
    for scheme in ("ovo", "ovr"):
        classifier = ucm.Classifier(model, multi_class=scheme, class_weight="balanced")
        memory = classifier.fit(X, three, **weights).coef_
        rows = classifier.fit(ucm.open_rows(X, three, block=100, **weights)).coef_
        assert rows == pytest.approx(memory, abs=1e-4)


def test_a_path_over_weighed_rows() -> None:
    X, y, tags = tagged_samples()
    weights = {"sample_weight": tags["sample_weight"]}
    rows = ucm.path(
        ucm.models.nu_svm(0.5), ucm.open_rows(X, y, block=100, **weights), nu=[0.4, 0.5]
    )
    memory = ucm.path(ucm.models.nu_svm(0.5), X, y, nu=[0.4, 0.5], **weights)
    for ours, theirs in zip(rows, memory, strict=True):
        assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sample_weight": np.ones(3)}, "sample_weight: expected 900 numbers, .*got 3;"),
        ({"sample_weight": np.full(900, "a")}, "sample_weight: expected 900 finite"),
        ({"sample_weight": np.r_[np.ones(899), -1.0]}, "got -1.0 for sample 899; a weight"),
        ({"sample_weight": np.r_[np.ones(850), np.nan, np.ones(49)]}, "nan for sample 850"),
        ({"sample_weight": np.zeros(900)}, "zeros for all of class"),
        ({"sample_weight": "none.npy"}, "a .npy file of them, got 'none.npy'"),
        ({"sample_weight": np.ones((900, 2))}, "got shape"),
        ({"subgroup": np.full(900, "B")}, r"pos.group\('A'\): expected samples of class \+1"),
        ({"subgroup": np.full(900, None)}, "subgroup: expected labels .* got None for sample 0"),
        ({"subgroup": ["A"] * 5}, "subgroup: expected 900 labels"),
        (
            {"subgroup": np.full(900, "2020-01-01", "datetime64[D]")},
            "subgroup: expected labels that",
        ),
        ({"sample_weight": np.ma.array(np.ones(900), mask=np.arange(900) < 3)}, "a masked array"),
    ],
)
def test_weights_and_groups_that_are_none(change: dict[str, Any], match: str) -> None:
    X, y, tags = tagged_samples()
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(WEIGHED["group and class"], ucm.open_rows(X, y, block=100, **{**tags, **change}))


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("name", ["kl", "moments", "p = 2", "nu"])
def test_weights_of_any_unit(name: str, unit: float) -> None:
    X, y = samples()
    weights = unit * np.random.default_rng(2).uniform(0.1, 1.1, 900)
    model = {
        "kl": ucm.models.kl_svm(0.5),
        "moments": ucm.models.mm_mpm(0.5),
        "p = 2": ucm.models.psvm(2.0, 0.1),
        "nu": ucm.models.nu_svm(0.4),
    }[name]
    rows = ucm.solve(model, ucm.open_rows(X, y, sample_weight=weights, block=100))
    memory = ucm.solve(model, X, y, sample_weight=weights)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6, abs=0.0)


def test_balls_that_bind_for_light_rows_only() -> None:
    """A row of weight .01 is above a level that none of weight 1 is above."""
    X, y = samples(60)
    weights = np.where(np.arange(60) % 2, 1.0, 0.01)
    X[::2, 0] -= 3.0 * y[::2]
    U = ucm.Hull(pos, weights=ucm.ChiSquareBall(30.0)) - ucm.Hull(
        neg, weights=ucm.ChiSquareBall(30.0)
    )
    X[:, 0] += 20.0 * y
    rows = ucm.solve(U, ucm.open_rows(X, y, sample_weight=weights, block=20))
    memory = ucm.solve(U, X, y, sample_weight=weights)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_groups_without_a_route() -> None:
    X, y, tags = tagged_samples()
    rows = ucm.open_rows(X, y, block=100, **tags)
    several = ucm.Hull(A) + ucm.Hull(pos.group("B")) - ucm.Hull(neg)
    with pytest.raises(ucm.DataError, match="or take hulls of one group of each class"):
        ucm.solve(several, rows)
    with pytest.raises(ucm.DataError, match="no route over rows"):
        ucm.solve(ucm.Logistic(on=A) + ucm.Hinge(2.0) + ucm.L2(), rows)
    with pytest.raises(ucm.DataError, match=r"admissible of .*gather"):
        ucm.admissible(WEIGHED["nu"], rows)
    with pytest.raises(ucm.DataError, match="expected the group of every sample, got none"):
        ucm.solve(WEIGHED["group and class"], blocks(X, y))
    with pytest.raises(ucm.DataError, match="beside a row source, which has its own"):
        ucm.solve(WEIGHED["nu"], rows, sample_weight=np.ones(900))


@pytest.mark.parametrize("size", [1e-6, 0.3, 4.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.3])
def test_balls_of_rows_do_not_ask_how_large_weights_are(alpha: float, size: float) -> None:
    """That of the large radius holds every point of the simplex, whatever a row weighs."""
    X, y = samples(60)
    X, ball = X + 1.5 * y[:, None], ucm.KLBall(alpha)
    weights = size * np.random.default_rng(0).uniform(0.1, 1.0, y.size)
    model = ucm.Hull(pos, weights=ball) - ucm.Hull(neg, weights=ball)
    rows = ucm.solve(model, ucm.open_rows(X, y, sample_weight=weights))
    memory = ucm.solve(model, X, y, sample_weight=weights)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize("weights", [ucm.CappedSimplex(0.9), ucm.KLBall(0.3)])
def test_a_signed_group_of_one_class_only(weights: Any) -> None:
    X, y = samples(60)
    rows = ucm.open_rows(X, y, subgroup=np.where(y > 0.0, "A", "B"))
    with pytest.raises(ucm.EmptySetError, match="one class has no entries"):
        ucm.solve(ucm.Hull(signed.group("A"), weights=weights), rows)


def test_a_point_that_counts_as_zero_does_so_by_its_certificate() -> None:
    """Its norm is 1.2e-9 of the size of its classes, and less of that of the held rows and the band."""
    rng = np.random.default_rng(54)
    m, n = int(rng.choice([300, 2000, 8000])), int(rng.integers(1, 30))
    scale = 10.0 ** rng.uniform(-3, 3)
    shift = 10.0 ** rng.uniform(-1, 3) * rng.standard_normal(n)
    X, noise = scale * (rng.standard_normal((m, n)) + shift), rng.choice([0.5, 2.0, 20.0])
    y = np.where(X[:, 0] / scale - shift[0] + noise * rng.standard_normal(m) > 0, 1, -1)
    found = ucm.solve(ucm.models.nu_svm(0.6), ucm.open_rows(X, y))
    assert found.status == "zero_in_set" and not found.w.any()


def test_rows_of_zeros_have_no_direction_to_ask_for() -> None:
    X, y = samples(60)
    rows = ucm.solve(ucm.models.coherent_mm_fda(0.5), ucm.open_rows(0.0 * X, y))
    assert rows.status == "zero_in_set"


def test_any_two_labels_are_accepted() -> None:
    X, y = samples(500)
    words = np.where(y > 0, "yes", "no")
    source = Labelled(blocks(X, words), "yes")
    memory = ucm.solve(MODELS["nu"], X, y)
    assert ucm.solve(MODELS["nu"], source).objective == pytest.approx(memory.objective, rel=2e-6)


def test_the_terms_of_the_bound() -> None:
    d, positive = np.array([-2.0, 1.0, -0.5, 3.0]), np.array([True, True, False, False])
    assert below(d, positive).tolist() == [2.0, 0.5]


def test_a_sample_has_both_classes() -> None:
    X, y = samples(20_000, part=0.001)
    data = first_pass(blocks(X, y))
    assert sum(data.class_sizes) == 20_000 and data.class_sizes[0] == (y > 0).sum()
    assert data.scale == np.abs(X).max()
    assert 500 <= data.sample[1].size <= 2000
    assert set(data.sample[1]) == {-1.0, 1.0}


def test_a_class_with_one_row_a_block_is_met() -> None:
    X, y = samples(4000, 2)
    y[:] = -1.0
    y[50::100] = 1.0
    X[y > 0, 0] += 9.0
    model = ucm.models.nu_svm(0.005)
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    assert rows.objective == pytest.approx(memory.objective, abs=1e-6)
    X[:] = 1.0  # blocks that are all alike
    X[y > 0] = 2.0
    assert set(first_pass(blocks(X, y)).sample[1]) == {-1.0, 1.0}
    assert set(first_pass(blocks(sparse.csr_matrix(X), y)).sample[1]) == {-1.0, 1.0}


# --- far from the origin -----------------------------------------------------------------------
@pytest.mark.parametrize("offset", [-20.0, 20.0, 1e4])
def test_bounds_of_the_error_do_not_move(offset: float) -> None:
    X, y = samples()
    for model in (ucm.models.mm_mpm(0.3), ucm.models.mm_fda(0.3)):
        rows, memory = ucm.compile(model, blocks(X + offset, y)), ucm.compile(model, X, y)
        found, wanted = rows.guarantees(rows.solve()), memory.guarantees(memory.solve())
        assert [(g.what, g.of) for g in found] == [(g.what, g.of) for g in wanted]
        assert [g.value for g in found] == pytest.approx([g.value for g in wanted], rel=1e-6)


# --- what the pass proves ----------------------------------------------------------------------
def test_a_longer_normal_proves_no_more() -> None:
    X, y = samples()
    plan = ucm.compile(MODELS["nu"], blocks(X, y))
    found = plan.solve()
    form: Any = plan.lowering.form
    proof: Any = found.answer and found.answer.rows
    longer = replace(
        proof,
        w=2.0 * proof.w,
        mu=2.0 * proof.mu,
        losses=2.0 * proof.losses,
    )
    assert hulls_proven(form, longer).primal == pytest.approx(found.certificate.primal, rel=1e-12)
    far = replace(longer, points=2.0 * proof.points)
    assert hulls_proven(form, far).relative_gap > 0.4


def test_a_bias_that_rows_do_not_give_says_why() -> None:
    X, y = samples()
    with pytest.raises(ucm.ParameterError, match="over rows that are read block by block"):
        ucm.solve(MODELS["nu"], blocks(X, y), bias_rule="means")


@pytest.mark.parametrize("large", [slice(0, 1), slice(None)])
def test_squares_that_overflow_are_refused(large: slice) -> None:
    X, y = samples()
    X[large] = 1e200
    with pytest.raises(ucm.DataError, match="scale the features"):
        ucm.solve(ucm.models.mm_mpm(0.3), blocks(X, y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["p = 2", "two kl"])
def test_a_nan_that_comes_later_reaches_the_value(name: str) -> None:
    X, y = samples()
    plan = ucm.compile({**LOSSES, **BALLS}[name], blocks(X, y))
    X[0, 0] = np.nan
    with pytest.raises(ucm.UCMError):
        plan.solve()


# --- bad input ---------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".arrow", ".feather", ".h5", ".zarr"])
def test_broken_files_are_named(tmp_path: Path, suffix: str) -> None:
    if suffix != ".npy":
        pytest.importorskip({".h5": "h5py", ".zarr": "zarr"}.get(suffix, "pyarrow"))
    file = tmp_path / f"broken{suffix}"
    file.write_bytes(b"nothing that is a table")
    with pytest.raises(ucm.DataError, match="broken"):
        ucm.open_rows(file, np.ones(3))


def test_the_index_that_a_frame_writes_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.5, 2.5], "label": [1, -1]})
    frame.to_csv(tmp_path / "X.csv")
    with pytest.raises(ucm.DataError, match=r"none for column 1 of the header.*index=False"):
        ucm.open_rows(tmp_path / "X.csv", "label")
    frame.to_csv(tmp_path / "X.csv", index=False)
    assert ucm.open_rows(tmp_path / "X.csv", "label").features == ["a"]


def test_lines_of_csv_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    (X, y), file = samples(60), tmp_path / "X.csv"
    words = np.where(y > 0, "yes", "no")
    for mark, end in ((";", ""), ("\t", "\r\n"), (" ", "\n\n\n" + 70 * "\n")):
        file.write_text(as_csv(X, words, mark).rstrip("\n") + end)
        for block in (1, 7, 60, None):
            table, labels = ucm.open_rows(file, "label", block=block).gather()
            assert np.array_equal(table, X) and np.array_equal(labels, words)
    file.write_bytes(b"\xef\xbb\xbf" + as_csv(X, y, head=False).encode())
    source = ucm.open_rows(file, "last")
    assert source.features is None and np.array_equal(source.gather()[0], X)
    assert np.array_equal(ucm.open_rows(file, "first").gather()[1], X[:, 0])


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ("1,2\n", "got 2"),
        ("1,word,1\n", "'b' of the type string"),
        ('1,"2\n3",1\n', "'b' of the type string"),
        ("1,,1\n", r"entry \(5, 1\) is nan"),
        ("1,2,\n", "a label for every sample"),
    ],
)
def test_bad_lines_of_csv_files(rows: str, match: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    file = tmp_path / "X.csv"
    file.write_text("a,b,label\n" + 5 * "1,2,-1\n" + rows)
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(MODELS["nu"], ucm.open_rows(file, block=4))


def test_csv_files_without_samples(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    file = tmp_path / "X.csv"
    for text, match in (
        ("", "of the format .csv"),
        ("a,b,label\n\n", "0 rows"),
        ("a,label\nred,1\n", "'a' of the type string"),
        ("a,a,label\n1,2,1\n", "multiple columns named a"),
    ):
        file.write_text(text)
        with pytest.raises(ucm.DataError, match=match):
            ucm.compile(MODELS["nu"], file)
    file.write_bytes(b"\xff\xfe\n1,2\n")
    with pytest.raises(ucm.DataError, match="UTF-8"):
        ucm.open_rows(file)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ucm.DataError, match=r"of the format \.csv"):
        ucm.open_rows(tmp_path / "folder.csv")


def test_labels_in_files_that_hold_none(tmp_path: Path) -> None:
    X, _ = samples(20)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "y.csv").write_text("1\n-1\n")
    for labels in (tmp_path / "y.csv", tmp_path):
        with pytest.raises(ucm.DataError, match=r"a \.npy file of them"):
            ucm.open_rows(tmp_path / "X.npy", labels)


def test_tables_that_hold_no_samples(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    table = pa.table({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    with pytest.raises(ucm.DataError, match="one label per sample, got shape"):
        ucm.open_rows(table, np.ones((2, 1)))
    twice = pa.table([[1.0], [2.0], [1.0]], names=["a", "a", "y"])
    with pytest.raises(ucm.DataError, match="two named 'a'"):
        ucm.open_rows(twice)
    with pytest.raises(ucm.DataError, match="expected a table of Arrow"):
        ucm.open_rows(pa.array([1.0, 2.0]), np.ones(2))
    empty = table.append_column("y", [[1.0, -1.0]]).slice(0, 0)
    parquet.write_table(empty, tmp_path / "empty.parquet", row_group_size=1)
    with pytest.raises(ucm.DataError):
        ucm.Classifier().fit(tmp_path / "empty.parquet", "y")


def test_nan_in_the_last_block_is_named() -> None:
    X, y = samples(500)
    X[-1, 2] = np.nan
    with pytest.raises(ucm.DataError, match=r"entry \(499, 2\) is nan"):
        ucm.solve(MODELS["nu"], blocks(X, y))
    table = sparse.csr_matrix(X)
    with pytest.raises(ucm.DataError, match=r"entry \(499, 2\) is nan"):
        ucm.solve(MODELS["nu"], blocks(table, y))


def test_labels_in_one_block_only() -> None:
    X, y = samples(500)
    order = np.argsort(-y, kind="stable")
    rows = ucm.solve(MODELS["nu"], blocks(X[order], y[order], 450))
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], X, y).objective, rel=2e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, y: (X, y[:-1]), "expected 500 labels, one per row of X, got 499"),
        (lambda X, y: (X, np.where(y > 0, 2.0, y)), r"labels -1 and \+1 .*, got the value"),
        (lambda X, y: (X, np.ones(500)), "two classes, got one"),
        (lambda X, y: (X, np.full(500, "a")), "no numbers"),
        (lambda X, y: (X[:0], y[:0]), "0 rows"),
        (lambda X, y: (X[:, :0], y), "expected features"),
        (lambda X, y: (X.astype(str), y), "real numbers"),
        (lambda X, y: (X[:, 0], y), "expected a table"),
        (lambda X, y: (X, None), "expected one label per row"),
    ],
)
def test_bad_input_is_refused(change: Any, match: str) -> None:
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(MODELS["nu"], blocks(*change(*samples(500))))


def test_a_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    X, y = samples(50_000)
    given = written("npy", tmp_path, X, y)
    source = ucm.open_rows(*given)
    plan = ucm.compile(MODELS["nu"], source)
    os.truncate(given[0], 100_000)
    with pytest.raises(ucm.DataError, match="stays as it is"):
        plan.solve()


@pytest.mark.parametrize("kind", ["columns", "parquet", "feather", "csv", "hdf5", "zarr"])
def test_a_file_that_changes_is_refused(kind: str, tmp_path: Path) -> None:
    X, y = samples(300)
    given = written(kind, tmp_path, X, y)
    source = ucm.open_rows(*given)
    plan = ucm.compile(MODELS["nu"], source)
    file = next((p for p in Path(given[0]).rglob("c/*/*")), Path(given[0]))
    os.utime(file, ns=(1, 1))
    with pytest.raises(ucm.DataError, match="stays as it is"):
        plan.solve()


@pytest.mark.parametrize("kind", ["npy", "hdf5", "zarr"])
def test_a_file_is_looked_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source: Any = ucm.open_rows(*written(kind, tmp_path, *samples(30)))
    seen: list[Path] = []

    def signature(path: Path) -> tuple[int, int, int]:
        seen.append(path.resolve())
        return before(path)

    before = array_rows._signature
    monkeypatch.setattr(array_rows, "_signature", signature)
    source.check()
    assert len(seen) == len(set(seen)) > 0


def test_a_file_that_changes_in_the_last_round(tmp_path: Path) -> None:
    X, y = samples(300)
    source = ucm.open_rows(*written("npy", tmp_path, X, y))
    seen = source.read  # type: ignore[attr-defined]

    def read(block: int) -> Any:
        os.utime(tmp_path / "X.npy", ns=(1, 1))
        return seen(block)

    source.read = read  # type: ignore[attr-defined]
    with pytest.raises(ucm.DataError, match="stays as it is"):
        source.gather()


def test_empty_row_groups_and_columns_of_words(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = samples(400)
    table = pa.table({"label": y, **{f"x{j}": X[:, j] for j in range(4)}})
    path = tmp_path / "X.parquet"
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 150), table.slice(0, 0), table.slice(150)):
            writer.write_table(part)
    rows = ucm.solve(MODELS["nu"], path)
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], X, y).objective, rel=2e-6)
    words = table.append_column("town", pa.array(["a", "b"] * 200).dictionary_encode())
    parquet.write_table(words, path)
    with pytest.raises(ucm.DataError, match="'town'"):
        ucm.solve(MODELS["nu"], path)
    with pytest.raises(ucm.DataError, match="name of a column"):
        ucm.solve(MODELS["nu"], path, "colour")
    missing = table.set_column(0, "label", pa.array([None, *y[1:]]))
    parquet.write_table(missing, path)
    with pytest.raises(ucm.DataError, match="label for every sample"):
        ucm.solve(MODELS["nu"], path)


@pytest.mark.parametrize(
    "model",
    [
        ucm.Hull(signed, weights=ucm.NormBall(0.2, p=3.0)),
        ucm.Hull(pos, weights=ucm.NormBall(0.1)) - ucm.ReducedHull(neg, nu=0.4),
        ucm.RobustMargin(ucm.models.nu_svm(0.4), norm=1.0),
        ucm.Hull(pos, weights=ucm.KLBall(0.2)) - ucm.Hull(neg),
        ucm.ReducedHull(pos, nu=0.4) - neg.mean,
        ucm.Logistic() + 0.5 * ucm.L1(),
        ucm.Ramp() + ucm.Logistic() + 0.5 * ucm.L2(),
        ucm.Logistic() + 0.5 * ucm.CappedL1(1.0),
    ],
)
def test_other_models_name_the_samples_to_gather(model: Any) -> None:
    with pytest.raises(ucm.DataError, match=r"900 x 4 samples in memory.*gather"):
        ucm.solve(model, blocks(*samples()))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(MODELS["nu"], blocks(*samples()), kernel="rbf")


def test_functions_for_memory_refuse_rows() -> None:
    rows = blocks(*samples())
    with pytest.raises(ucm.DataError, match=r"900 x 4; bring all of them.*gather"):
        ucm.worst_case(MODELS["nu"], rows, None, np.ones(4))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.admissible(MODELS["nu"], rows, None)
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.compile(MODELS["nu"], rows).guarantees()
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.compile(MODELS["nu"], rows).certify(w=np.ones(4))


def test_emptiness_names_the_range() -> None:
    with pytest.raises(ucm.EmptySetError, match="nu must be at most"):
        ucm.solve(ucm.models.nu_svm(0.95), blocks(*samples()))


def test_invalid_out_of_core_options_are_refused() -> None:
    X, y = samples()
    with pytest.raises(ucm.ParameterError, match="threads"):
        ucm.open_rows(X, y, threads=0)
    with pytest.raises(ucm.ParameterError, match="budget"):
        OutOfCoreActiveSet(ActiveSet(), budget=0)
    with pytest.raises(ucm.DataError, match="no such file"):
        ucm.solve(MODELS["nu"], "nowhere.npy", y)
    with pytest.raises(ucm.DataError, match="has its own"):
        ucm.solve(MODELS["nu"], blocks(X, y), y)
    assert not readers.is_stored(X) and readers.is_stored("words")
    with pytest.raises(ucm.DataError, match="path that ends with"):
        ucm.solve(MODELS["nu"], "words", y)
    plan = ucm.compile(MODELS["nu"], blocks(X, y))
    assert "block" in plan.explain() and "out-of-core" in plan.explain()


# --- means and covariances ---------------------------------------------------------------------
MOMENTS = {
    "mm-mpm": ucm.models.mm_mpm(0.5),
    "mm-fda": ucm.models.mm_fda(0.5),
    "signed": ucm.Ellipsoid(signed.mean, signed.cov, 0.3),
    "gelbrich": ucm.Gelbrich(pos, 0.1, 0.3) - ucm.Gelbrich(neg, 0.1, 0.3),
    "p = 1": ucm.RobustMargin(ucm.models.mm_mpm(0.2), norm=1.0),
}


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_sets_of_means_and_covariances_take_one_pass(name: str, kind: str) -> None:
    X, y = samples(1200, 5)
    X = X @ np.random.default_rng(1).standard_normal((5, 5))
    if kind == "csr":
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    plan = ucm.compile(MOMENTS[name], blocks(X, y, 37, threads=2))
    rows, memory = plan.solve(), ucm.solve(MOMENTS[name], X, y)
    exact = 1e-6 if name == "p = 1" else 1e-12
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=exact)
    assert rows.w == pytest.approx(memory.w, abs=1e-4 if name == "p = 1" else 1e-6)
    assert rows.bias_rule == memory.bias_rule
    assert rows.b == pytest.approx(memory.b, abs=1e-4 if name == "p = 1" else 1e-6)
    if name != "p = 1":
        assert plan.verify().agrees


def test_a_mean_far_from_zero_costs_no_accuracy() -> None:
    X, y = samples(3000, 5)
    shifted = X + 1e6
    exact = [np.longdouble(shifted[y == c]).mean(axis=0) for c in (1.0, -1.0)]
    data = of_moments(blocks(shifted, y, 100))
    for kind, mean, c in zip(("pos", "neg"), exact, (1.0, -1.0), strict=True):
        D = np.longdouble(shifted[y == c]) - mean
        cov = (D.T @ D) / D.shape[0]
        assert np.abs(data.mean(kind) - mean).max() <= 2e-10
        assert np.abs(data.covariance(kind) - cov).max() <= 1e-12 * np.abs(cov).max()
    for name in ("mm-mpm", "mm-fda", "gelbrich"):
        far = ucm.solve(MOMENTS[name], blocks(shifted, y, 100))
        near = ucm.solve(MOMENTS[name], shifted - 1e6, y)
        assert far.objective == pytest.approx(near.objective, rel=1e-12)
        assert far.b == pytest.approx(near.b - 1e6 * near.w.sum(), rel=1e-12)
        if name == "mm-mpm":
            (plus, minus), there = known(far.summand_points), known(near.summand_points)
            assert plus == pytest.approx(there[0] + 1e6, rel=1e-12)
            assert plus - minus == pytest.approx(far.x, abs=1e-9)


@pytest.mark.parametrize("weight", [None, (3.0, 1.0)])
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_the_bias_of_least_error_over_rows(weight: Any, scale: float) -> None:
    X, y = samples(4000, 3)
    for own in (X * scale, np.round(2 * X) * scale):
        for rule in ("min_error", "odds", "means", "midpoint"):
            found = [
                ucm.solve(MOMENTS["mm-mpm"], rows, labels, class_weight=weight, bias_rule=rule)
                for rows, labels in ((blocks(own, y, 300), None), (own, y))
            ]
            assert found[0].b == pytest.approx(found[1].b, abs=1e-9 * scale, rel=1e-9)


def test_moments_validate_in_their_pass() -> None:
    X, y = samples(500)
    X[-1, 1] = np.inf
    with pytest.raises(ucm.DataError, match=r"entry \(499, 1\) is inf"):
        ucm.solve(MOMENTS["mm-mpm"], blocks(X, y))
    X, y = samples(500)
    with pytest.raises(ucm.DataError, match="two classes"):
        ucm.solve(MOMENTS["mm-mpm"], blocks(X, np.ones(500)))


# --- the classifier ----------------------------------------------------------------------------
def test_the_classifier_reads_and_predicts_block_by_block(tmp_path: Path) -> None:
    X, y = samples(2000)
    words = np.where(y > 0, "yes", "no")
    whole = ucm.Classifier(MODELS["nu"], class_weight={"yes": 2.0}).fit(X, words)
    np.save(tmp_path / "X.npy", X)
    rows = ucm.Classifier(MODELS["nu"], class_weight={"yes": 2.0}).fit(tmp_path / "X.npy", words)
    assert rows.classes_.tolist() == ["no", "yes"] and rows.n_features_in_ == 4
    assert rows.coef_ == pytest.approx(whole.coef_, abs=3e-3)
    assert rows.predict(tmp_path / "X.npy").tolist() == rows.predict(X).tolist()
    assert rows.decision_function(blocks(X, words)) == pytest.approx(rows.decision_function(X))
    assert rows.score(tmp_path / "X.npy", words) == rows.score(X, words)
    again = pickle.loads(pickle.dumps(rows))
    assert not hasattr(again, "plan_") and hasattr(rows, "plan_")
    assert again.predict(X).tolist() == rows.predict(X).tolist()
    balanced = [
        ucm.Classifier(MODELS["nu"], class_weight="balanced").fit(*given)
        for given in ((X, words), (blocks(X, words),))
    ]
    assert balanced[1].solution_.objective == pytest.approx(
        balanced[0].solution_.objective, rel=2e-6
    )
    with pytest.raises(ucm.DataError, match="4 features"):
        rows.predict(blocks(X[:, :2], words))
    X[7, 1] = np.nan
    with pytest.raises(ucm.DataError, match="finite"):
        rows.predict(blocks(X, words))


def test_the_classifier_and_columns(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = samples(800)
    table = pa.table({"grade": y.astype(int), **{f"x{j}": X[:, j] for j in range(4)}})
    parquet.write_table(table, tmp_path / "X.parquet")
    rows = ucm.Classifier(MODELS["nu"]).fit(tmp_path / "X.parquet", "grade")
    assert rows.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert np.array_equal(rows.predict(tmp_path / "X.parquet"), rows.predict(table))
    with pytest.raises(ucm.DataError, match="x3"):
        rows.predict(table.drop_columns(["x3"]))


@pytest.mark.parametrize("several", [False, True])
def test_predictions_are_written_to_a_file(tmp_path: Path, several: bool) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pip install 'ucm[rows]'")
    X, y = samples(400)
    words = np.array(["no", "yes", "so"])[np.where(y > 0, 1, 0) + several * (X[:, 1] > 1.0)]
    rows = ucm.open_rows(X, words, block=90)
    classifier = ucm.Classifier(ucm.models.svm(1.0)).fit(rows)
    labels = classifier.predict(rows, out=tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet").to_pydict()
    decision = classifier.decision_function(X)
    assert table["label"] == labels.tolist() == classifier.predict(X).tolist()
    if several:
        found = np.column_stack([table[f"decision_{name}"] for name in classifier.classes_])
    else:
        found = np.array(table["decision"])
    assert found == pytest.approx(decision, rel=1e-12)


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"read_as": "pos"}, {"bias_rule": "odds"}])
def test_the_classifier_refuses_rows_where_it_needs_memory(options: Any) -> None:
    X, y = samples(300)
    with pytest.raises(ucm.UCMError, match=r"gather|over rows"):
        ucm.Classifier(MODELS["nu"], **options).fit(blocks(X, y))
    with pytest.raises(ucm.DataError, match="two classes, got one class"):
        ucm.Classifier(MODELS["nu"]).fit(blocks(X, np.ones(300)))


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("weight", [None, "balanced", {"a": 2.0, "b": 1.0, "c": 0.7}])
def test_several_classes_over_rows(scheme: str, weight: Any) -> None:
    X, _ = samples(900)
    labels = np.array(["a", "b", "c"])[np.clip(np.round(X[:, 1]), -1, 1).astype(int) + 1]
    model = ucm.Logistic() + 0.5 * ucm.L2()
    given = {"multi_class": scheme, "class_weight": weight}
    rows = ucm.Classifier(model, **given).fit(blocks(X, labels))
    memory = ucm.Classifier(model, **given).fit(X, labels)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=2e-3)
    assert rows.intercept_ == pytest.approx(memory.intercept_, abs=2e-3)
    assert len(rows.certificate_) == 3 and rows.n_iter_.shape == (3,)
    assert np.mean(rows.predict(blocks(X, labels)) == memory.predict(X)) > 0.99
    assert pickle.loads(pickle.dumps(rows)).predict(X[:5]).tolist() == rows.predict(X[:5]).tolist()
    if scheme == "ovr" or weight is not None:
        return
    nu = ucm.Classifier(ucm.models.nu_svm(0.2)).fit(blocks(X, labels))
    assert max(c.relative_gap for c in nu.certificate_) <= 1e-6


def test_a_transformer_of_a_frame_takes_columns_by_name() -> None:
    pd = pytest.importorskip("pandas", reason="needs pandas")
    arrow = pytest.importorskip("pyarrow", reason="needs pip install 'ucm[rows]'")
    scaler = importlib.import_module("sklearn.preprocessing").StandardScaler()
    X, y = samples()
    X *= [1.0, 10.0, 100.0, 1000.0]
    scaler.fit(pd.DataFrame(X, columns=list("abcd")))
    mixed = arrow.table({"d": X[:, 3], "b": X[:, 1], "a": X[:, 0], "c": X[:, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scikit-learn, that blocks have no names
        known = scaler.transform(X)
        rows = ucm.solve(MODELS["nu"], ucm.open_rows(mixed, y).mapped(scaler))
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], known, y).objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="none named c"):
        ucm.open_rows(mixed.drop_columns(["c"]), y).mapped(scaler)


def test_a_nan_ends_the_joint_method_at_once() -> None:
    form = ucm.compile(MODELS["nu"], blocks(*samples())).lowering.form
    asked = []

    def sums(*message: Any) -> Any:
        asked.append(message)
        zero = np.zeros(2)
        nothing = np.zeros((2, 4))
        return RowSums(zero + np.nan, zero, zero, nothing, zero, zero, np.zeros((6, 6)), nothing)

    w = np.array([1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ucm.SolverError, match="got a NaN in sums"):
        smoothed_newton(form, w, np.ones(2), np.ones(2), 100.0, sums, lambda: False)  # type: ignore[arg-type]
    assert len(asked) == 1


def test_features_of_a_kernel_block_by_block() -> None:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.preprocessing import StandardScaler

    X, y = samples(900)
    some = Nystroem("rbf", gamma=0.3, n_components=15, random_state=0).fit(X[::3])
    rows = blocks(X, y).mapped(some)
    assert (rows.m, rows.n) == (900, 15) and "Nystroem" in repr(rows)
    assert "Nystroem" in ucm.compile(MODELS["nu"], rows).explain()
    for model in (MODELS["nu"], ucm.models.mm_mpm(0.3)):
        found, memory = ucm.solve(model, rows), ucm.solve(model, some.transform(X), y)
        assert found.objective == pytest.approx(memory.objective, rel=2e-6)
    classifier = ucm.Classifier(MODELS["nu"]).fit(blocks(X, np.where(y > 0, "p", "q")).mapped(some))
    assert np.array_equal(classifier.predict(rows), classifier.predict(some.transform(X)))
    with pytest.raises(ucm.DataError, match="function of a block"):
        blocks(X, y).mapped(3)
    for wrong, match in (
        (np.ravel, "as real numbers, of 1 rows, got ndarray of shape"),
        (
            Nystroem(n_components=5).fit(X[:, :2]),
            "expecting 2 features as input.*fitted to such rows",
        ),
        (Nystroem(), "not fitted yet"),
        (lambda A: A[:, :0], "got ndarray of shape"),
        (lambda A: A.astype(str), "as real numbers"),
        (lambda A: A.tolist(), "a row for each"),
    ):
        with pytest.raises(ucm.DataError, match=match):
            blocks(X, y).mapped(wrong)
    for wrong, match in (
        (lambda A: A[:1], "rows, got ndarray"),
        (lambda A: A[:, : len(A)], "features of every block"),
        (lambda A: A if len(A) == 1 else A["x"], "got an error .*IndexError"),
    ):
        with pytest.raises(ucm.DataError, match=match):
            ucm.solve(MODELS["nu"], blocks(X, y).mapped(wrong))
    objective = ucm.solve(MODELS["nu"], X, y).objective
    framed = StandardScaler(with_mean=False, with_std=False).set_output(transform="pandas").fit(X)
    for right in (framed, sparse.coo_matrix, sparse.csc_array):
        found = ucm.solve(MODELS["nu"], blocks(X, y).mapped(right))
        assert found.objective == pytest.approx(objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="mapped"):
        ucm.solve(MODELS["nu"], blocks(X, y), kernel="rbf")


# --- weights in balls --------------------------------------------------------------------------
BALLS = {
    "l2": ucm.models.l2_nu_svm(0.05),
    "biased l2": ucm.models.biased_l2_nu_svm(0.1, 0.09),
    "kl": ucm.models.kl_svm(0.5),
    "two kl": ucm.Hull(pos, weights=ucm.KLBall(0.6)) - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
    "chi-square": ucm.Hull(pos, weights=ucm.ChiSquareBall(rho=0.5))
    - ucm.Hull(neg, weights=ucm.ChiSquareBall(level=0.95)),
    "around": ucm.Hull(pos, weights=ucm.NormBall(0.03, around="uniform"))
    - 0.5 * ucm.Hull(neg, weights=ucm.NormBall(0.02, around="uniform")),
    "losses": ucm.Hull(pos, weights=ucm.LossBall(ucm.Hinge(3) / 0.5, 1.2))
    - ucm.Hull(neg, weights=ucm.LossBall(ucm.Logistic() * 4, -1.7)),
    "mixed": ucm.Hull(pos, weights=ucm.NormBall(0.2, p=1.5))
    - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
}


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        *((name, None) for name in BALLS),
        ("kl", (2.0, 0.7)),
        ("mixed", (2.0, 0.7)),
        ("chi-square", (2.0, 0.7)),
    ],
)
def test_weights_in_balls_agree_with_memory(name: str, weight: Any) -> None:
    X, y = samples(700)
    plan = ucm.compile(BALLS[name], blocks(X, y), class_weight=weight)
    rows, memory = plan.solve(), ucm.solve(BALLS[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.stats.solver == "newton-rows"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=2e-3)
    weights = known(memory.weights)
    assert np.asarray(rows.weights) == pytest.approx(weights, abs=2e-3 * weights.max())
    for ours, theirs in zip(rows.summand_points or (), memory.summand_points or (), strict=True):
        assert ours == pytest.approx(theirs, abs=3e-3)
    if weight is None and name in ("kl", "losses", "mixed"):
        assert plan.verify().agrees


@pytest.mark.parametrize("name", ["l2", "two kl"])
def test_weights_in_balls_agree_with_the_whole_twin(name: str) -> None:
    X, y = samples(300)
    model = ucm.models.l2_nu_svm(0.1) if name == "l2" else BALLS[name]
    rows = ucm.solve(model, blocks(sparse.csr_matrix(X), y, 40))
    whole = ucm.compile(model, X, y).reference()
    whole.solve(solver="CLARABEL")
    assert rows.objective == pytest.approx(float(whole.value), rel=1e-5)  # type: ignore[arg-type]


def balls(weights: Any, others: Any = None) -> Any:
    others = weights if others is None else others
    return ucm.Hull(pos, weights=weights) - ucm.Hull(neg, weights=others)


@pytest.mark.parametrize(
    "model",
    [
        balls(ucm.KLBall(1.0)),
        balls(ucm.NormBall(0.0, around="uniform")),
        balls(ucm.ChiSquareBall(rho=0.0), ucm.ChiSquareBall(rho=0.5)),
    ],
)
def test_balls_of_one_point_have_the_bias_of_memory(model: Any) -> None:
    X, y = samples(300)
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert (rows.b, rows.rho) == pytest.approx((memory.b, memory.rho), abs=1e-5)


@pytest.mark.parametrize("scale", [1e160, 1e-160])
@pytest.mark.parametrize("name", ["nu", "two kl"])
def test_hulls_of_rows_whose_squares_overflow_are_refused(name: str, scale: float) -> None:
    X, y = samples()
    with pytest.raises(ucm.DataError, match="scale the features"):
        ucm.compile({**MODELS, **BALLS}[name], blocks(scale * X, y))


NOT_BINDING = {
    "kl": balls(ucm.KLBall(1e-3)),
    "chi-square": balls(ucm.ChiSquareBall(rho=1e6)),
    "one of two": balls(ucm.KLBall(1e-3), ucm.KLBall(0.6)),
    "nearly all": balls(ucm.KLBall(0.007)),
    "nearly all, chi-square": balls(ucm.ChiSquareBall(rho=100.0)),
    "below a cap": balls(ucm.LossBall(3.0 * ucm.HuberHinge(0.5), 0.3)),
    "below a cap, logistic": balls(ucm.LossBall(3.0 * ucm.Logistic(), 0.3)),
}


@pytest.mark.parametrize("weight", [None, (2.0, 0.7)])
@pytest.mark.parametrize("name", NOT_BINDING)
def test_balls_that_do_not_bind(name: str, weight: Any) -> None:
    X, y = samples(400)
    X[y > 0] += 3.0
    rows = ucm.solve(NOT_BINDING[name], blocks(X, y), class_weight=weight)
    memory = ucm.solve(NOT_BINDING[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=3e-3)


def test_a_point_of_two_balls_is_no_nearer_than_their_optimum() -> None:
    X, y = samples(3000, 5)
    X[y > 0] += 1.0
    X *= np.abs(np.random.default_rng(0).standard_t(3.0, (3000, 1)))
    model = balls(ucm.ChiSquareBall(rho=0.1))
    rows, memory = ucm.solve(model, blocks(X, y, 500)), ucm.solve(model, X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize("alpha", [0.9, 0.1])
def test_heavy_tails_in_kl_balls(alpha: float) -> None:
    X, y = samples(3000, 5)
    X *= np.abs(np.random.default_rng(0).standard_t(3.0, (3000, 1)))
    model = balls(ucm.KLBall(alpha))
    rows, memory = ucm.solve(model, blocks(X, y, 500)), ucm.solve(model, X, y, solver="ssnal")
    assert rows.status == memory.status == ("optimal" if alpha == 0.9 else "zero_in_set")
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_one_row_a_class_in_balls() -> None:
    X, y = np.array([[0.0], [2.0]]), np.array([-1.0, 1.0])
    for ball in (ucm.KLBall(0.6), ucm.ChiSquareBall(rho=0.5)):
        found = ucm.solve(balls(ball), blocks(X, y))
        assert (found.status, found.objective, found.b) == ("optimal", -2.0, -1.0)


def test_rows_outside_of_the_first_sample_enter_the_answer() -> None:
    X, y = samples(20_000)
    X *= np.abs(np.random.default_rng(1).standard_t(2.5, (20_000, 1)))
    few = first_pass(blocks(X, y, 500))
    few.sample = few.sample[0][:800], few.sample[1][:800]
    model = ucm.Hull(pos, weights=ucm.KLBall(0.9)) - ucm.Hull(neg, weights=ucm.KLBall(0.9))
    found = plan_of_rows(ucm.RobustMargin(model), few, "auto").solve()
    memory = ucm.solve(model, X, y)
    assert found.status == memory.status == "optimal" and found.stats.reads <= 12
    assert found.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize(
    "model",
    [
        ucm.models.kl_svm(0.1),
        ucm.Hull(pos, weights=ucm.NormBall(0.3)) - ucm.Hull(neg, weights=ucm.KLBall(0.2)),
    ],
)
def test_zero_in_balls_is_proven(model: Any) -> None:
    X, y = samples(1200)
    found = ucm.solve(model, blocks(X, y, 200))
    assert found.status == "zero_in_set" and found.certificate.violation <= 1e-6
    assert ucm.solve(model, X, y, solver="ssnal").status == "zero_in_set"


@pytest.mark.parametrize("at", [0.0, 1.0])
@pytest.mark.parametrize(
    "U", [ucm.models.nu_svm(0.4), ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.1))], ids=str
)
def test_rows_without_a_direction_hold_0(U: Any, at: float) -> None:
    """All rows are one point, where hulls lie on one another."""
    X, y = np.full((60, 3), at), np.where(np.arange(60) % 2 > 0, 1.0, -1.0)
    rows, memory = ucm.solve(U, blocks(X, y, 7)), ucm.solve(U, X, y)
    assert rows.status == memory.status == "zero_in_set"
    assert not rows.w.any() and rows.objective == 0.0


def test_rows_that_overflow_are_named() -> None:
    X, y = samples(4000)
    X[:20] *= 1e200
    few = first_pass(blocks(X[20:], y[20:], 500))
    few.source = blocks(X, y, 500)
    with (
        np.errstate(all="ignore"),
        pytest.warns(ucm.ConvergenceWarning, match="scale the features"),
    ):
        found = plan_of_rows(ucm.RobustMargin(BALLS["two kl"]), few, "auto").solve()
    assert found.status == "stalled" and not found.w.any()


def test_balls_end_between_rounds() -> None:
    X, y = samples(20_000)
    with pytest.warns(ucm.ConvergenceWarning):
        late = ucm.solve(BALLS["kl"], blocks(X, y, 4000), time_limit=1e-6)
    assert late.status == "time_limit"
    with pytest.warns(ucm.ConvergenceWarning):
        one = ucm.solve(BALLS["kl"], blocks(X, y, 4000), tol=1e-12, callback=lambda _: True)
    assert one.status == "interrupted" and 0.0 <= one.certificate.relative_gap < 1.0


# --- vertices ----------------------------------------------------------------------------------
VERTICES = {
    "mpm": ucm.models.coherent_mm_mpm(0.6),
    "fda": ucm.models.coherent_mm_fda(0.5),
    "sum": (ucm.Ellipsoid(pos.mean, pos.cov, 0.2) + 0.1 * ucm.Hull(pos))
    - (ucm.Ellipsoid(neg.mean, neg.cov, 0.3) & ucm.Hull(neg)),
    "signed": ucm.Ellipsoid(signed.mean, signed.cov, 0.2) & 0.9 * ucm.Hull(signed),
}


@pytest.mark.parametrize("name", VERTICES)
def test_vertices_of_rows_come(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("ucm.compiler.column_generation"), "_SAMPLE", 60)
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES[name], blocks(X, y, 400))
    rows, memory = plan.solve(), ucm.solve(VERTICES[name], X, y)
    assert rows.status == memory.status == "optimal" and rows.stats.reads <= 12
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.primal >= memory.certificate.dual - 1e-12  # over all rows
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert (rows.b, rows.bias_rule) == (pytest.approx(memory.b, abs=5e-3), memory.bias_rule)
    weights = np.asarray(rows.weights)
    assert weights.shape == (3000,) and np.count_nonzero(weights) < 300
    assert plan.lowering.here < 1500  # type: ignore[attr-defined]
    if name == "mpm":
        assert plan.verify().agrees
        assert known(rows.summand_points)[0] == pytest.approx(X[y > 0].T @ weights[y > 0], abs=1e-5)


def test_an_interrupt_where_vertices_came(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ucm.compiler.column_generation")
    monkeypatch.setattr(module, "_SAMPLE", 20)
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES["sum"], blocks(X, y, 400))
    here: list[int] = []

    class Broken(module.DistanceLowering):
        def certify(self, answer: Any, tol: float) -> Any:
            here.append(sum(v.size for v in answer.q))
            if len(here) == 2:
                raise KeyboardInterrupt
            return super().certify(answer, tol)

    monkeypatch.setattr(module, "DistanceLowering", Broken)
    with pytest.warns(ucm.ConvergenceWarning):
        found = plan.solve(tol=1e-9)
    assert found.status == "interrupted" and here[1] > here[0]
    assert np.asarray(found.weights).shape == (3000,)
    assert found.certificate.primal >= found.certificate.dual
    monkeypatch.undo()
    assert plan.solve().status == "optimal"


def test_a_second_solve_counts_no_sample() -> None:
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES["mpm"], blocks(X, y, 400))
    first, again = plan.solve(), plan.solve()
    assert again.stats.reads < first.stats.reads


def test_vertices_have_limits_and_paths() -> None:
    X, y = samples(3000, 3)
    model = VERTICES["mpm"]
    large = ucm.solve(ucm.models.coherent_mm_mpm(3.0), blocks(X, y, 400))
    assert large.status == "zero_in_set"
    with pytest.warns(ucm.ConvergenceWarning):
        late = ucm.solve(model, blocks(X, y, 400), time_limit=1e-6)
    assert late.status == "time_limit"
    again = ucm.solve(model, blocks(X, y, 400))
    path = ucm.path(ucm.models.coherent_mm_mpm(0.5), blocks(X, y, 400), kappa=[0.3, 0.6])
    assert path[1].objective == pytest.approx(again.objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(ucm.ReducedHull(pos, nu=0.4) - neg.mean, blocks(X, y))


# --- losses ------------------------------------------------------------------------------------
LOSSES = {
    "svm": ucm.models.svm(3.0),
    "p = 1": ucm.models.psvm(1.0, 0.05),
    "p = 2": ucm.models.psvm(2.0, 0.1),
    "p = 3": ucm.models.psvm(3.0, 0.02),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "csr", "heavy tails", "ties", "weighted"])
def test_losses_over_rows_agree_with_memory(name: str, kind: str) -> None:
    X, y = samples(6000, 4)
    weight = (2.0, 0.7) if kind == "weighted" else None
    if kind == "heavy tails":
        X *= np.abs(np.random.default_rng(0).standard_t(2.0, (6000, 1)))
    elif kind == "ties":
        X = np.round(X)
    own = sparse.csr_matrix(X) if kind == "csr" else X
    rows = ucm.solve(LOSSES[name], blocks(own, y, 400), class_weight=weight)
    memory = ucm.solve(LOSSES[name], own, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.objective * (1.0 + 1e-12)
    assert rows.w == pytest.approx(memory.w, abs=5e-3)
    assert rows.b == pytest.approx(memory.b, abs=5e-3)
    assert rows.stats.reads <= 7
    weights = np.asarray(rows.weights)
    assert weights.shape == (6000,) and weights.min() >= 0.0
    direction = X.T @ (y * weights)
    lam = 3.0 if name == "svm" else 0.5
    assert direction == pytest.approx(2.0 * lam * rows.w, abs=2e-2 * np.abs(direction).max())


def test_samples_on_their_target_bend_the_loss() -> None:
    """Of least squares, every margin 1: the Hessian is 2 C times the moments of (x, 1)."""
    X, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 1.0, 1.0])
    losses = ((ucm.LeastSquares(), (3.0, 5.0)),)
    form = RowLosses(first_pass(blocks(*samples(60, 1))), losses, (ucm.L2(),))
    found = row_sums(X, y, *SmoothLosses(form).message(np.array([0.0, 1.0])))
    Z = np.column_stack([X, np.ones(3)])
    assert found.losses.sum() == 0.0 and found.hessian == pytest.approx(6.0 * Z.T @ Z)


def test_the_bound_of_losses_is_the_dual_program() -> None:
    X, y = samples(60, 3)
    plan = ucm.compile(LOSSES["p = 2"], X, y)
    dual = plan.dual_reference()
    dual.solve(solver="CLARABEL")
    rows = ucm.solve(LOSSES["p = 2"], blocks(X, y, 7))
    assert rows.certificate.dual == pytest.approx(float(dual.value), rel=1e-6)  # type: ignore[arg-type]
    gains, points = np.array([5.0, 1.5]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    far_form = RowLosses(first_pass(blocks(X, y)), ((ucm.Hinge(2), (0.1, 0.1)),), (0.5 * ucm.L2(),))
    far_proof = LossProof(np.zeros(3), 0.0, 8.0, (2.0, 1.0), gains, points)
    far = losses_proven(far_form, far_proof)
    parts = np.linspace(0.0, 1.0, 100_001)
    for gain, best in ((-5.0, 0.0), (5.0, 7.5)):  # at points whose difference is 0
        at_zero = replace(far_proof, gains=np.array([gain, gain]), points=np.zeros((2, 3)))
        assert losses_proven(far_form, at_zero).dual == pytest.approx(best)
    d = 0.5 * points[0] - points[1]
    values = parts * (0.5 * gains[0] + gains[1]) - parts**2 * (d @ d) / 2.0
    assert far.dual == pytest.approx(values.max(), rel=1e-8)


def test_losses_proven_from_any_slopes() -> None:
    rng = np.random.default_rng(3)
    (X, y), told = samples(80, 3), []
    for name in ("svm", "p = 2"):
        optimum = ucm.solve(LOSSES[name], X, y, tol=1e-9).objective
        form: Any = ucm.compile(LOSSES[name], blocks(X, y, 30)).lowering.form
        ((loss, C),) = form.losses
        c = np.where(y > 0.0, *C)
        for size in (0.1, 1.0, 10.0):
            w, b = size * rng.standard_normal(3), size * rng.standard_normal()
            u = loss.offset - y * (X @ w + b)
            a = loss.gradient(u if size > 1.0 else rng.standard_normal(80))
            gain = c * (loss.offset * a - loss.conjugate(a))
            each = [(y == sign) for sign in (1.0, -1.0)]
            found = losses_proven(
                form,
                LossProof(
                    w, b, float(c @ loss.each(loss.offset - u)), [(c * a)[on].sum() for on in each],
                    np.array([gain[on].sum() for on in each]), np.array([(c * a)[on] @ X[on] for on in each]),
                ),
            )  # fmt: skip
            assert found.dual <= optimum * (1.0 + 1e-7) and optimum <= found.primal * (1.0 + 1e-7)
            told.append(found.dual)
    assert sum(dual > 0.0 for dual in told) >= 3


def test_a_bound_of_losses_that_are_subtracted_is_not_below_that_of_no_slopes() -> None:
    """Hinge and LInf are not negative, so neither is a bound of their sum, however far the slopes are off."""
    X, y = samples(60, 3)
    form: Any = ucm.compile(ucm.Hinge() + 0.5 * ucm.LInf(), blocks(X, y, 30)).lowering.form
    points = np.array([[1e3, 0.0, 2e3], [0.0, 1e3, 1e3]])
    proof = LossProof(np.zeros(3), 0.0, 60.0, (-2.0, -1.0), np.zeros(2), points)
    assert losses_proven(form, proof).dual == 0.0
    assert losses_proven(form, replace(proof, slopes=(-1e-3, -1e-3))).dual == 0.0


def _threshold(loss: Any, scores: Any, t: float, mass: float) -> float:
    """mu where the slopes have this sum."""
    far = 10.0 * (t + np.abs(scores).max())
    root: Any = brentq(lambda mu: loss.gradient((scores - mu) / t).sum() - mass, -far, far)
    return root


@pytest.mark.parametrize("matched", [False, True])
def test_balls_proven_from_any_multipliers(matched: bool) -> None:
    """The bounds hold the optimum; the second is of a point of the set, with any masses."""
    rng = np.random.default_rng(2)
    X, y = samples(80, 3)
    joint, some = ucm.Hull(signed, weights=ucm.LossBall(ucm.SquaredHinge(), 0.6)), 0
    apart = ucm.Hull(pos, weights=ucm.KLBall(0.7)) - ucm.Hull(neg, weights=ucm.KLBall(0.4))
    for model in (joint, apart):
        optimum = ucm.solve(model, X, y, tol=1e-9).objective
        form: Any = ucm.compile(model, blocks(X, y, 30)).lowering.form
        for size in (0.1, 1.0, 10.0):
            w, t = rng.standard_normal(3), size * rng.uniform(0.5, 2.0, len(form.balls))
            mu, sums, weights = rng.standard_normal(2), [], []
            for c, on in enumerate((y > 0.0, y < 0.0)):
                loss, own, share = form.balls[form.of[c]][0], t[form.of[c]], form.shares[c]
                scores, mass = -form.factors[c] * (X[on] @ w), form.masses[c] / share
                if matched:
                    mu[c] = _threshold(loss, scores, float(own), mass)
                v = (scores - mu[c]) / own
                q = share * loss.gradient(v)
                each = (
                    share * loss.each(loss.offset - v).sum(),
                    share * loss.conjugate(q / share).sum(),
                )
                sums.append((*each, max(q.sum(), 1e-300), q @ X[on], X[on].mean(axis=0)))
                weights.append(q)
            losses, all_heights, totals, at, means = map(np.array, zip(*sums, strict=True))
            scale, shift = form.within(totals, all_heights)
            shifts = shift * form.data.counts
            points = scale[:, None] * at + shifts[:, None] * means
            found = hulls_proven(form, HullProof(w, mu, t, losses, points))
            assert found.primal >= optimum - 1e-8 and found.dual <= optimum + 1e-8
            assert found.violation == 0.0
            heights, x = np.zeros(len(form.balls)), np.zeros(3)
            for c, on in enumerate((y > 0.0, y < 0.0)):
                p = scale[c] * weights[c] + shift[c]
                assert p.sum() == pytest.approx(form.masses[c]) and p.min() >= 0.0
                share, x = form.shares[c], x + form.factors[c] * (p @ X[on])
                heights[form.of[c]] += share * form.balls[form.of[c]][0].conjugate(p / share).sum()
            assert (heights <= [radius + 1e-9 for _, radius in form.balls]).all()
            assert np.linalg.norm(x) == pytest.approx(-found.dual, rel=1e-9)
            some += shift.any()
    assert some >= 3


OTHERS = {
    "logistic": ucm.Logistic() + 0.5 * ucm.L2(),
    "exponential": 0.3 * ucm.Exponential() + 2.0 * ucm.L2(),
    "Huber": 2.0 * ucm.HuberHinge(0.5) + ucm.L2(),
    "least squares": 0.1 * ucm.LeastSquares() + 3.0 * ucm.L2(),
    "a power below 2": ucm.models.psvm(1.5, 0.1),
    "classes": ucm.Hinge(2, on=pos) + 3.0 * ucm.Hinge(2, on=neg) + ucm.L2(),
    "kinks of classes": ucm.Hinge(on=pos) + 3.0 * ucm.Hinge(on=neg) + ucm.L2(),
    "a sum": ucm.Logistic(on=pos) + ucm.Hinge(2) + 2.0 * ucm.L2(),
}


@pytest.mark.parametrize("weight", [None, (2.0, 0.7)])
@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_over_rows(name: str, weight: Any) -> None:
    X, y = samples(1500)
    plan = ucm.compile(OTHERS[name], blocks(X, y, 200), class_weight=weight)
    rows, memory = plan.solve(), ucm.solve(OTHERS[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal" and rows.stats.reads <= 8
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.objective * (1.0 + 1e-12)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=2e-3)
    if (
        name == "kinks of classes"
    ):  # the weight of a sample at a kink moves from 0 to its cap in a gap of 1e-6
        rows, memory = (
            plan.solve(tol=1e-9),
            ucm.solve(OTHERS[name], X, y, class_weight=weight, tol=1e-9),
        )
        assert rows.status == memory.status == "optimal"
    assert np.asarray(rows.weights) == pytest.approx(memory.weights, abs=5e-3)


@pytest.mark.parametrize("name", ["svm", "p = 2", "a sum", "kinks of classes"])
def test_verify_compares_losses_over_rows(name: str) -> None:
    X, y = samples(1500)
    plan = ucm.compile({**LOSSES, **OTHERS}[name], blocks(X, y, 200), class_weight=(2.0, 0.7))
    solution = plan.solve()
    assert plan.verify().agrees
    assert not plan.lowering.verify(replace(solution, objective=1.01 * solution.objective), 1e-6)
    with pytest.raises(ucm.ParameterError, match="give one"):
        plan.reference()


def test_an_exponential_of_rows_that_the_sample_missed() -> None:
    X, y = samples(4000)
    X[:5] *= 2000.0  # exp of their margins is no number
    model = ucm.Exponential() + ucm.L2()
    few = first_pass(blocks(X, y, 500))
    few.sample = X[100:900], y[100:900]
    found = plan_of_rows(model, few, "auto").solve()
    memory = ucm.solve(model, X, y)
    assert found.status == memory.status == "optimal"
    assert found.objective == pytest.approx(memory.objective, rel=2e-6)
    # the Hessian has a condition number of about 1e6, that of the five long samples squared
    assert found.w == pytest.approx(memory.w, rel=1e-3)
    value = np.exp(-y * (X @ found.w + found.b)).sum() + found.w @ found.w
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.certificate.dual <= value * (1.0 + 1e-9)


def test_losses_end_between_rounds() -> None:
    X, y = samples(20_000)
    for name in ("svm", "p = 2"):
        with pytest.warns(ucm.ConvergenceWarning):
            late = ucm.solve(LOSSES[name], blocks(X, y, 4000), time_limit=1e-6)
        assert late.status == "time_limit"
        assert late.certificate.primal >= late.certificate.dual >= 0.0
    with pytest.warns(ucm.ConvergenceWarning, match="budget"):
        ucm.solve(LOSSES["svm"], blocks(X, y), solver=OutOfCoreActiveSet(ProxALM(), budget=2000))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(ucm.Logistic() + ucm.L1(), blocks(X, y))


def test_the_default_classifier_reads_rows() -> None:
    X, y = samples(3000)
    rows, memory = ucm.Classifier().fit(blocks(X, y)), ucm.Classifier().fit(X, y)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=1e-3)
    assert rows.score(blocks(X, y), y) == pytest.approx(memory.score(X, y), abs=2e-3)


# --- in memory ---------------------------------------------------------------------------------
@pytest.fixture
def out_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 100 samples were many."""
    monkeypatch.setattr(importlib.import_module("ucm.compiler.compile"), "_MANY", 100)
    monkeypatch.setattr(importlib.import_module("ucm.compiler.compile"), "_LONG", 10)


@pytest.mark.usefixtures("out_of_core")
@pytest.mark.parametrize("name", MODELS)
def test_many_samples_in_memory_are_solved_out_of_core(name: str) -> None:
    X, y = samples()
    plan = ucm.compile(MODELS[name], X, y)
    found = plan.solve()
    other = ucm.solve(MODELS[name], X, y, solver=ActiveSet())
    assert found.stats.solver == "out-of-core" and found.status == "optimal"
    assert found.objective == pytest.approx(other.objective, rel=2e-6)
    assert isinstance(found.weights, np.ndarray)
    assert found.weights.sum() == pytest.approx(known(other.weights).sum())
    assert plan.verify().agrees
    assert plan.certify(w=found.w, weights=found.weights).relative_gap <= 2e-6
    assert found.bias_rule == other.bias_rule and found.b == pytest.approx(other.b, abs=3e-3)


@pytest.mark.usefixtures("out_of_core")
def test_the_out_of_core_active_set_in_memory_has_fallbacks() -> None:
    X, y = samples(600)
    model = MODELS["nu"]
    for rule in ("min_error", "means", "odds", "midpoint"):
        found = ucm.solve(model, X, y, bias_rule=rule)
        other = ucm.solve(model, X, y, bias_rule=rule, solver=ActiveSet())
        assert found.stats.solver == "out-of-core" and found.bias_rule == other.bias_rule == rule
        assert found.b == pytest.approx(other.b, abs=5e-3)
    inside = ucm.solve(ucm.models.nu_svm(0.02), X, y)
    assert inside.status == "local" and inside.objective > 0.0
    seen: list[Any] = []
    watched = ucm.solve(model, X, y, callback=seen.append)
    assert watched.stats.solver == "active-set" and seen
    assert ucm.solve(model, X, y, max_iter=50).stats.solver == "active-set"
    others: list[dict[str, Any]] = [{"sample_weight": np.arange(1.0, 601.0)}, {"kernel": "linear"}]
    for given in others:
        assert ucm.compile(model, X, y, **given).solver.name != "out-of-core"
    assert ucm.compile(MOMENTS["mm-mpm"], X, y).solver.name == "secular"
    changed = ucm.compile(model, X, y)
    X[0, 0] += 1.0
    with pytest.raises(ucm.DataError, match="changed in place"):
        changed.solve()


@pytest.mark.usefixtures("out_of_core")
def test_the_classifier_is_the_same_by_an_active_set() -> None:
    X, y = samples(2000)
    found = ucm.Classifier(MODELS["nu"]).fit(X, y)
    other = ucm.Classifier(MODELS["nu"], solver="active-set").fit(X, y)
    assert found.solution_.stats.solver == "out-of-core"
    assert found.coef_ == pytest.approx(other.coef_, abs=3e-3)
    assert len(np.setxor1d(found.support_, other.support_)) <= 0.02 * other.support_.size
    assert found.sparsity_.samples == pytest.approx(other.sparsity_.samples, rel=0.02)
    assert pickle.loads(pickle.dumps(found)).predict(X).tolist() == found.predict(X).tolist()


def test_a_table_of_float32_is_not_converted_whole() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_500_000, 20), dtype=np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0.0, 1, -1)
    model = ucm.models.nu_svm(0.6)
    ucm.solve(model, X[:600], y[:600])
    tracemalloc.start()
    classifier = ucm.Classifier(model).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * X.nbytes  # in double precision it takes twice as much
    plan = ucm.compile(model, X, y)
    found = plan.solve()
    assert "X" not in vars(plan.data) and "X" not in vars(classifier.plan_.data)
    other = ucm.solve(model, X.astype(np.float64), y)
    for solution in (found, classifier.solution_):
        assert solution.stats.solver == "out-of-core" and solution.status == "optimal"
        assert solution.objective == pytest.approx(other.objective, rel=2e-6)
    assert known(found.weights).sum() == pytest.approx(known(other.weights).sum())
    assert plan.certify(w=found.w, weights=found.weights).relative_gap <= 2e-6


@pytest.mark.parametrize("name", [*MODELS, *MOMENTS])
def test_float32_answers_as_float64(name: str) -> None:
    X, y = samples(600)
    X = X.astype(np.float32)
    model = {**MODELS, **MOMENTS}[name]
    found, other = ucm.solve(model, X, y), ucm.solve(model, X.astype(np.float64), y)
    assert found.stats.solver == other.stats.solver and found.objective == other.objective
    changed = ucm.compile(model, X, y)
    X[0, 0] += 1.0
    with pytest.raises(ucm.DataError, match="changed in place"):
        changed.solve()
    for wrong in (np.nan, np.inf, -np.inf):
        X[3, 1] = wrong
        with pytest.raises(ucm.DataError, match=r"entry \(3, 1\) is"):
            ucm.compile(model, X, y)


def test_few_samples_are_solved_in_memory() -> None:
    X, y = samples(600)
    assert ucm.compile(MODELS["nu"], X, y).solver.name == "active-set"


def test_a_path_over_rows_looks_at_them_once() -> None:
    X, y = samples(3000)
    grids: list[tuple[Any, dict[str, Any]]] = [
        (MODELS["nu"], {"nu": [0.3, 0.4, 0.5]}),
        (MOMENTS["mm-mpm"], {"kappa": [0.2, 0.4]}),
        (LOSSES["p = 2"], {"C": [0.1, 1.0]}),
    ]
    for model, values in grids:
        source = ObservedSource(blocks(X, y, 500), lambda number: None)
        found = ucm.path(model, source, **values)
        memory = ucm.path(model, X, y, **values)
        assert [s.status for s in found] == ["optimal"] * len(memory)
        for ours, theirs in zip(found, memory, strict=True):
            assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)
        # a solve counts the first pass as its own; it was one for all
        reads = sum(s.stats.reads - 1 for s in found) if model != MOMENTS["mm-mpm"] else 0
        assert source.number == 1 + reads
    skipped = ucm.path(MODELS["nu"], blocks(X, y), nu=[0.4, 0.99], on_empty="skip")
    assert len(skipped) == 1 and 0.99 in skipped.skipped
    refused: list[dict[str, Any]] = [{"n_values": 3}, {"nu": "all"}, {"nu": [0.4], "kernel": "rbf"}]
    for options in refused:
        with pytest.raises(ucm.DataError, match="gather"):
            ucm.path(MODELS["nu"], blocks(X, y), **options)


@pytest.mark.parametrize(("shift", "tol"), [(0.0, 0.5), (100.0, 1e-2), (1e4, 1e-4), (1e6, 1e-6)])
def test_a_large_mean_is_no_zero_in_the_set(shift: float, tol: float) -> None:
    X, y = samples(m=3000, n=3)
    exact = ucm.solve(ucm.models.nu_svm(0.5), X, y, tol=1e-8).objective
    for found in (
        ucm.solve(ucm.models.nu_svm(0.5), blocks(X + shift, y, 1000), tol=tol),
        ucm.solve(ucm.models.nu_svm(0.5), X + shift, y, tol=tol),
    ):
        certificate = found.certificate
        assert found.status == "optimal" and -1e-9 <= certificate.relative_gap <= tol
        rounding = 1e-12 * shift + 1e-9
        assert certificate.dual - rounding <= exact <= certificate.primal + rounding


def test_rows_of_several_lengths_are_refused() -> None:
    with pytest.raises(ucm.DataError, match="one row of numbers per sample, all of one length"):
        ucm.open_rows([[1.0, 2.0], [3.0]], [1, -1])


# --- columns, folders, folds ----------------------------------------------------------------------
def table_of(m: int = 300) -> Any:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="needs pip install 'ucm[rows]'")
    X, y = samples(m)
    return pyarrow.table(
        {f"x{j}": X[:, j] for j in range(X.shape[1])}
        | {"grade": y, "id": np.arange(m), "weight": np.ones(m)}
    )


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_an_identifier_is_no_feature(tmp_path: Any, ending: str) -> None:
    """A column whose name says that it is none is refused until it is left out, or named as a feature."""
    table, path = table_of(), tmp_path / f"rows.{ending}"
    write: Any = {
        "parquet": lambda: importlib.import_module("pyarrow.parquet").write_table(table, path),
        "feather": lambda: importlib.import_module("pyarrow.feather").write_feather(table, path),
        "csv": lambda: importlib.import_module("pyarrow.csv").write_csv(table, path),
    }[ending]
    write()
    with pytest.raises(ucm.DataError, match=r"a column named 'id'.*drop=\['id', 'weight'\]"):
        ucm.Classifier(MODELS["nu"]).fit(path, "grade")
    with pytest.raises(ucm.DataError, match=r"a column named 'id'.*drop=\['id'\]"):
        ucm.open_rows(path, "grade", sample_weight="weight")
    features = [f"x{j}" for j in range(4)]
    dropped = ucm.open_rows(path, "grade", drop=["id", "weight"])
    named = ucm.open_rows(path, "grade", columns=features[::-1])
    assert dropped.features == features and named.features == features[::-1]
    assert ucm.open_rows(path, "grade", columns=["id", "x0"]).features == ["id", "x0"]
    clf = ucm.Classifier(MODELS["nu"]).fit(dropped)
    other = ucm.Classifier(MODELS["nu"]).fit(named)
    assert clf.coef_[0, ::-1] == pytest.approx(other.coef_[0], abs=1e-5)
    X, y = dropped.gather()
    right = float((np.sign(X @ clf.coef_[0] + clf.intercept_) == y).mean())
    for score in (clf.score(path, "grade"), clf.score(dropped), other.score(dropped)):
        assert score == pytest.approx(right, abs=0.004)
    assert clf.score(path, "grade", sample_weight="weight") == right == clf.score(path, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["x9"]}, "x9"),
        ({"drop": ["x9"]}, "x9"),
        ({"drop": "id"}, "in a sequence"),
        ({"columns": ["x0"], "drop": ["id"]}, "got both"),
        ({"columns": ["x0", "grade"]}, "'grade' in columns"),
    ],
)
def test_columns_that_are_refused(options: Any, words: str) -> None:
    with pytest.raises(ucm.DataError, match=words):
        ucm.open_rows(table_of(), "grade", **options)


def test_columns_are_of_tables() -> None:
    X, y = samples(100)
    with pytest.raises(ucm.DataError, match="tables with names"):
        ucm.open_rows(X, y, drop=["id"])
    with pytest.raises(ucm.DataError, match="where the source is made"):
        ucm.open_rows(ucm.open_rows(X, y), drop=["id"])


def test_a_folder_of_parquet_files(tmp_path: Any) -> None:
    table = table_of().drop_columns(["id", "weight"])
    parquet: Any = importlib.import_module("pyarrow.parquet")
    for k in range(12):  # part 10 comes after part 2
        parquet.write_table(table.slice(25 * k, 25), tmp_path / f"part.{k}.parquet")
    rows = ucm.open_rows(tmp_path, "grade")
    X, y = rows.gather()
    assert np.array_equal(X[:, 0], table["x0"]) and np.array_equal(y, table["grade"])
    clf = ucm.Classifier(MODELS["nu"]).fit(str(tmp_path), "grade")
    right = np.sign(X @ clf.coef_[0] + clf.intercept_) == y
    assert clf.score(tmp_path, "grade") == right.mean()
    parquet.write_table(table.select(["x1", "grade"]), tmp_path / "part.12.parquet")
    with pytest.raises(ucm.DataError, match=r"part\.12\.parquet: expected the columns of part\.0"):
        ucm.open_rows(tmp_path, "grade")


def test_paths_that_are_no_samples(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="folders are read by pyarrow, of ucm[rows]")
    for X, words in ((tmp_path, "got none"), (tmp_path / "x.txt", "path that ends with")):
        with pytest.raises(ucm.DataError, match=words):
            ucm.Classifier(MODELS["nu"]).fit(X, "grade")
    (tmp_path / "0.parquet").write_bytes(b"")
    with pytest.raises(ucm.DataError, match="Parquet"):
        ucm.compile(MODELS["nu"], tmp_path, "grade")


def test_keys_of_a_partitioned_folder_are_columns(tmp_path: Any) -> None:
    """The keys that Hive writes into the names of folders are columns: of groups, or left out."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pip install 'ucm[rows]'")
    table = table_of().drop_columns(["id", "weight"])
    days = np.arange(300) // 100
    parquet.write_to_dataset(table.append_column("day", [days]), tmp_path, partition_cols=["day"])
    X, y = samples(300)
    kinds: list[dict[str, Any]] = [{"drop": ["day"]}, {"subgroup": "day"}]
    for options in kinds:
        rows = ucm.open_rows(tmp_path, "grade", block=40, **options)
        assert rows.features == [f"x{j}" for j in range(4)] and np.array_equal(rows.gather()[0], X)
    model = ucm.ReducedHull(pos.group(1), eta=0.1) - ucm.ReducedHull(neg, nu=0.3)
    memory, rows = (
        ucm.solve(model, X, y, subgroup=days),
        ucm.open_rows(tmp_path, "grade", subgroup="day"),
    )
    assert ucm.solve(model, rows).objective == pytest.approx(memory.objective, rel=2e-6)
    assert ucm.open_rows(tmp_path, "grade").gather()[0][:, 4].tolist() == days.tolist()


def test_folds_are_stratified_and_share_the_rows() -> None:
    X, y = samples(1000)
    folds = blocks(X, y, 90).split(4)
    parts = [test.gather() for _, test in folds]
    assert sorted(map(tuple, np.vstack([p[0] for p in parts]))) == sorted(map(tuple, X))
    for (train, test), (A, labels) in zip(folds, parts, strict=True):
        assert test.m == labels.size and train.m + test.m == 1000
        assert abs((labels > 0).mean() - (y > 0).mean()) < 0.03
        other = train.gather()[0]
        assert not {*map(tuple, other)} & {*map(tuple, A)} and other.shape[0] == train.m
    with pytest.raises(ucm.ParameterError, match="from 2 on"):
        blocks(X, y).split(1)
    with pytest.raises(ucm.DataError, match="take fewer folds"):
        blocks(X[:3], y[:3]).split(4)


@pytest.mark.parametrize("name", ["nu", "lam", "kappa", "words", "weights"])
def test_a_search_over_rows_scores_as_one_in_memory(name: str) -> None:
    X, y = samples(1200)
    model: Any = {"nu": MODELS["nu"], "kappa": ucm.models.mm_mpm(0.3)}.get(
        name, ucm.models.svm(1.0)
    )
    values = {"nu": [0.3, 0.5], "kappa": [0.1, 0.4]}.get(name, [1e-3, 1.0, 1e4])
    of_samples: Any = {}
    if name == "words":
        y = np.array(["a", "b", "c"])[np.clip(np.round(X[:, 1]), -1, 1).astype(int) + 1]
    if name == "weights":
        of_samples = {"sample_weight": np.arange(1200) % 2 + 0.0}
    search = ucm.ClassifierCV(model, param_range=values, cv=4)
    rows = search.fit(ucm.open_rows(X, y, block=100, **of_samples))
    memory = ucm.ClassifierCV(model, param_range=values, cv=4).fit(X, y, **of_samples)
    found, expected = (s.cv_results_["mean_test_score"] for s in (rows, memory))
    scored = ~np.isnan(found)
    assert scored.any() and found.size == len(values) and rows.n_splits_ == 4
    assert found[scored] == pytest.approx(expected[scored], abs=0.02)
    best = {f"model__{next(iter(model.params()))}": values[rows.best_index_]}
    assert rows.best_params_ == best
    assert rows.n_features_in_ == 4 and rows.classes_.tolist() == sorted(set(y.tolist()))
    assert rows.score(X, y) == pytest.approx(memory.score(X, y), abs=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"write param_range=\[...\]"),
        ({"param_range": [0.3], "cv": "loo"}, "cv is a number of folds"),
        ({"param_range": [0.3], "scoring": "roc_auc"}, "scoring is None"),
        ({"param_range": [0.3], "param_name": "mu"}, "param_name is one of"),
        ({"estimator": ucm.Classifier(kernel="rbf"), "param_range": [0.3]}, "gather"),
    ],
)
def test_a_search_over_rows_refuses_invalid_options(options: Any, words: str) -> None:
    X, y = samples(200)
    with pytest.raises(ucm.UCMError, match=words):
        ucm.ClassifierCV(**{"estimator": MODELS["nu"], **options}).fit(blocks(X, y))
