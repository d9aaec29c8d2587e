"""The benchmarks: the command line, and whether they measure what they say."""

from __future__ import annotations

import inspect
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Loader, shared_folder

import ucm
from benchmarks import audit, harness, judge
from benchmarks.papers import beyond, extended_nu_svm, nearest_points, psvm, sparse, unified
from benchmarks.speed import datasets, own, rows, solvers, tables
from benchmarks.speed.__main__ import PARTS
from benchmarks.speed.objective import MODELS, Problem
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel

X, SIGNS = ucm.datasets.load("wine")
Y = SIGNS.astype(np.float64)
NU = 0.3
Row = dict[str, Any]


# --- the command line -----------------------------------------------------------------------------
def _table(sets: tuple[str, ...] = ("a", "none such")) -> Iterator[Row]:
    """A figure of every set.

    More of it.
    """
    for name in sets:
        yield {"set": name, "figure": np.float64(0.5), "gap": np.inf, "within": name == "a"}


def _interrupted(repeats: int = 1) -> Iterator[Row]:
    """Ends in the middle."""
    yield {"set": "first", "within": None}
    raise KeyboardInterrupt


def test_each_row_is_printed_and_stored_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    parts: dict[str, harness.Part] = {"one": _table, "two": _interrupted}
    assert harness.main("What.", parts, ["one", "--sets", "a", "--save", str(file)]) == 0
    assert harness.main("What.", parts, ["one"]) == 1
    out = capsys.readouterr().out
    assert "one: A figure of every set.\n" in out and "More" not in out and "NO" in out
    with pytest.raises(KeyboardInterrupt):
        harness.main("What.", parts, ["two", "--save", str(file)])
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert kept == [
        {"part": "one", "set": "a", "figure": 0.5, "gap": None, "within": True},
        {"part": "two", "set": "first", "within": None},
    ]
    for wrong, says in (
        (["three"], "invalid choice"),
        (["two", "--sets", "a"], "two takes no --sets"),
        ([], "PART"),
    ):
        with pytest.raises(SystemExit):
            harness.main("What.", parts, wrong)
        assert says in capsys.readouterr().err


def test_a_missing_data_set_has_a_row_with_its_source() -> None:
    (row,) = harness.over(["ida_none"], lambda *_: iter(()))
    assert row["note"].startswith("not at hand: the IDA benchmark sets") and row["within"] is None


def test_a_part_of_sets_has_the_options_of_its_rows() -> None:
    parts = harness.Parts()

    @parts.each(("a", "b"), lambda name: (name.upper(),))
    def two_words(name: str, data: str, *, repeats: int = 2) -> Iterator[Row]:
        yield {"set": name, "data": data, "repeats": repeats}

    assert parts == {"two-words": two_words} and list(inspect.signature(two_words).parameters) == [
        "sets",
        "repeats",
    ]
    assert [row["data"] for row in two_words()] == ["A", "B"]
    assert list(two_words(sets=("b",), repeats=3)) == [{"set": "b", "data": "B", "repeats": 3}]


def test_every_part_has_a_sentence_and_options_that_the_command_line_knows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scripts = (extended_nu_svm, nearest_points, psvm, sparse, unified, beyond)
    for parts in (*(script.PARTS for script in scripts), PARTS):
        with pytest.raises(SystemExit) as ended:
            harness.main("What.", parts, ["--help"])
        assert ended.value.code == 0
        for line in capsys.readouterr().out.split("\n\n")[2].splitlines()[: len(parts)]:
            assert line.partition(": ")[2], line


# --- papers ---------------------------------------------------------------------------------------
def test_the_searches_of_table_2_find_the_same_root() -> None:
    generator = np.random.default_rng(0)
    for m, top in ((2, 10.0), (101, 10.0), (5000, 1000.0)):
        v, cap = generator.uniform(0.0, top, m), 1.5 / m
        expected = ucm.CappedSimplex(2.0 * cap).project(2.0 * v)  # mass 1, twice the size
        for theta in (unified.by_bisection(v, cap, 0.5), unified.by_breakpoints(v, cap, 0.5, 1)):
            assert np.allclose(2.0 * np.clip(v - theta, 0.0, cap), expected, atol=1e-12 * top)


@pytest.mark.filterwarnings("ignore::ucm.errors.ConvergenceWarning")  # by the paper's own rule
def test_apg_stays_below_the_bound_of_theorem_1() -> None:
    """Figure 6 on small data, with steps longer than 1 / L_f."""
    svm = [row for row in unified.figures_6_10((500, 50)) if row["model"] == "nu-SVM"]
    assert all(0.0 <= row["f above"] <= row["bound"] for row in svm)
    assert svm[-1]["|L(T(q)-q)|"] <= 1e-5
    constants = [row for row in unified.tables_3_7((500, 50)) if "constant" in row]
    average, _, L_f = (row["ours"] for row in constants[:3])
    assert average < L_f


@pytest.mark.filterwarnings("ignore::ucm.errors.ConvergenceWarning")  # of 1e-9, at the end of the digits
def test_p_1_of_the_psvm_is_as_printed_without_the_box(
    shared_data: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table 1 of Sun (2024) on heart: with the box of alpha, C = 5 at most, p = 1 is another machine."""
    name = "uci_heart"
    shared_data(name)
    monkeypatch.setenv("UCM_DATA", str(shared_folder()))
    X, y = harness.standardised(name)
    problem = psvm._Problem(X, np.where(y > 0, 1, -1), psvm.BINARY[name]["test"], 0, "exp(-d)")
    _, right, share = problem.at(1.0, psvm.HARD)
    assert abs(right - psvm.BINARY[name]["right_1"]) <= psvm.DIGIT
    assert abs(share - psvm.BINARY[name]["support_1"]) <= psvm.NEAR


def test_twenty_starts_on_small_instances() -> None:
    *parts, everything = extended_nu_svm.small(10)
    assert sum(row["instances"] for row in parts) == everything["proven by facets"] == 10
    assert everything["exact"] >= 9


@pytest.mark.filterwarnings("ignore::ucm.errors.ConvergenceWarning")
def test_bench_below_the_boundary_is_held_against_the_proven_optimum() -> None:
    rng = np.random.default_rng(8)
    y = np.where(np.arange(40) % 2, 1, -1)
    X = rng.standard_normal((40, 3)) + 0.3 * y[:, None]
    found = {row["p"]: row for row in inspect.unwrap(extended_nu_svm.below)("drawn", X, y)}
    assert {p for p, row in found.items() if row["exact"]} == {1.0, np.inf}
    for p in (1.0, np.inf):
        assert found[p]["exact"] == "optimal" and found[p]["above exact"] >= -1e-9
        if found[p]["above exact"] > 1e-6 * found[p]["objective"]:
            assert not found[p]["within"]


@pytest.mark.parametrize("solved", ["neither", "above", "below"])
def test_bench_says_nothing_of_a_side_without_a_solution(
    solved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = extended_nu_svm.solve

    def fails(model: Any, X: Any, y: Any, **options: Any) -> Any:
        solution = solve(model, X, y, **options)
        if solved != ("above" if solution.objective <= 0.0 else "below"):
            raise ucm.SolverError("not this side")
        return solution

    monkeypatch.setattr(extended_nu_svm, "solve", fails)
    monkeypatch.setattr(extended_nu_svm, "DISTANCES", (1.0,))
    monkeypatch.setattr(extended_nu_svm, "DRAWN_NU", np.array([0.2, 0.9]))
    (row,) = extended_nu_svm.figure_8()
    assert [row[f"{side}, %"] is None for side in ("above", "below")] == [
        solved != "above",
        solved != "below",
    ]
    assert row["within"] is None


@pytest.mark.parametrize("seed", range(5))
def test_the_best_line_by_many_directions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((11, 2)), np.where(rng.random(11) < 0.5, 1.0, -1.0)
    A = np.concatenate([A, A[:2]])  # copies, one of them of the other class
    y = np.concatenate([y, [y[0], -y[1]]])
    angle = np.linspace(0.0, 2.0 * np.pi, 3_000)
    scores = A @ np.stack([np.cos(angle), np.sin(angle)])
    cuts = np.concatenate([scores - 1e-9, scores + 1e-9])[:, None, :]
    right = np.sum(np.where(scores[None] > cuts, 1.0, -1.0) == y[:, None], axis=1)
    assert extended_nu_svm.best_line(A, y) == right.max()


# --- speed ----------------------------------------------------------------------------------------
def _sleeps(seconds: float) -> dict[str, float]:
    time.sleep(seconds)
    return {"slept": seconds}


def _fails() -> dict[str, float]:
    raise ValueError("no\nreason")


def test_a_job_of_its_own_process() -> None:
    assert harness.isolated(_sleeps, 0.0, limit=60.0) == {"slept": 0.0}
    assert harness.isolated(_sleeps, 60.0, limit=0.1) == {"note": harness.STOPPED}
    assert harness.isolated(_fails, limit=60.0) == {"note": "ValueError: no reason"}


def test_matched_C_has_the_same_direction() -> None:
    fit = ucm.solve(ucm.models.nu_svm(NU), X, Y, tol=1e-9)
    C = judge.matched_C(X, Y, NU, fit.x)
    other = ucm.solve(ucm.models.svm(0.5 / C), X, Y, solver="clarabel", tol=1e-9)
    np.testing.assert_allclose(other.w / np.linalg.norm(other.w), fit.w, atol=1e-4)


def test_every_answer_under_one_certificate() -> None:
    fit = ucm.solve(ucm.models.nu_svm(NU), X, Y)
    assert fit.weights is not None
    found = judge.weights_gap(X, Y, NU, fit.weights)
    assert found["gap"] == pytest.approx(fit.certificate.relative_gap, abs=1e-12)
    gram = Gram(Kernel("linear"), X)
    by_gram = judge.weights_gap(X, Y, NU, fit.weights, gram)
    assert by_gram["gap"] == pytest.approx(found["gap"], abs=1e-9)
    bad = judge.weights_gap(X, Y, NU, np.eye(Y.size)[0] + np.eye(Y.size)[-1], gram)
    assert bad["violation"] > 0.9  # the mass above the cap of one sample


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gamma", [None, 0.1])
def test_the_certificate_judges_every_peer(
    model: str, gamma: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gamma is not None and " + " in model:
        return
    find = solvers.importlib.util.find_spec
    peers = ("skglm", "sklearnex")  # one compiles at its first call, one is of some processors only
    monkeypatch.setattr(
        solvers.importlib.util, "find_spec", lambda name, *of: None if name in peers else find(name, *of)
    )
    problem = Problem("wine", model, NU, gamma)
    fits = solvers.peers_of(problem)
    assert fits
    for peer, fit in fits.items():
        with warnings.catch_warnings(action="ignore"):
            gap = problem.gap(solvers.answer_of(problem, fit()))
        # LinearSVC also penalises its intercept
        assert 0.0 <= gap <= (0.2 if peer in ("LinearSVC", "liblinear") else 0.02), peer


def test_ours_goes_to_the_gap_of_the_peer() -> None:
    row = tables.beside(Problem("wine", "nu-SVM", NU), "NuSVC", 1)
    assert row["gap"] <= max(row["their gap"], tables.GAPS[0]) and row["ours, ms"] > 0.0


def test_a_table_ends_with_geometric_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.NU, "wine", NU)
    monkeypatch.setattr(tables, "peers_of", lambda problem: {"NuSVC": None, "apg": None})
    monkeypatch.setattr(tables, "isolated", lambda *_, limit: {"times ours": 2.0})
    found = list(tables.linear(["wine", "wine"]))
    assert [row["peer"] for row in found] == ["NuSVC", "apg"] * 3
    assert found[-1]["set"] == "geometric mean of 2" and found[-1]["times ours"] == 2.0


def test_a_table_names_the_source_of_a_missing_set() -> None:
    row = next(tables.kernels(("none such",)))
    assert row["note"].startswith("not at hand")


def test_kernels_use_small_sets_whole() -> None:
    problems = list(tables._with_kernels(("wine",)))
    assert [problem.m for problem in problems] == [X.shape[0]] * 2 * len(tables.WIDTHS)


def test_shapes_for_kernels_have_features_of_deviation_1() -> None:
    (problem,) = tables._with_kernels(("synthetic/20",))
    assert (problem.m, problem.model, problem.size, problem.gamma) == (20_000, "SVM", 1.0, 1 / 20)
    A, b = problem.data
    assert A.shape == (20_000, 20) and set(np.unique(b)) == {-1.0, 1.0}
    assert np.allclose(A.std(axis=0), 1.0) and np.allclose(A.mean(axis=0), 0.0)


def test_paths_of_any_set_have_figures() -> None:
    (row,) = own.PARTS["path"](sets=("wine",), repeats=1)
    assert row["values"] == 50 and row["worst gap"] <= 1e-6
    (row,) = own.PARTS["every"](sets=("wine",), repeats=1)
    assert row["worst gap"] <= own.EPS


def test_out_of_core_benchmarks_yield_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SHARES", {"none such": 0.5, "synthetic": 0.6})
    monkeypatch.setattr(rows, "drawn", lambda m, n, seed, kind="": (np.tile(X, (30, 1)), np.tile(Y, 30)))
    missing, drawn = rows.passes(("none such", "synthetic"), 1)
    assert missing["note"].startswith("not at hand") and drawn["within"] is True
    assert rows.local(1).__next__()["ratio"] > 0.0 and next(rows.growth())["reads"] >= 1


def test_bounds_are_below_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(own.RULES, "wine/3", (130, 0.8, 0.9))
    monkeypatch.setattr(own, "dense", lambda name: (X, SIGNS))
    (row,) = own.bounds(("wine/3",))
    assert 0.0 < row["its bound / objective"] <= 1.0 + 1e-9


# --- audits ---------------------------------------------------------------------------------------
def test_the_audits_of_defaults() -> None:
    """Least squares are exact, and stochastic gradients are not."""
    rows = {row["estimator"]: row for row in audit.defaults(("wine",))}
    assert len(rows) == len(audit.DEFAULTS)
    assert rows["RidgeClassifier()"]["largest"] < 1e-9 < rows["SGDClassifier()"]["least"]
