"""The speed benchmark: what it measures is what it says."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import ucm
from ucm.bench import judge, show
from ucm.bench.speed import (
    BENCHMARK,
    fits,
    isolate,
    losses,
    pairs,
    peers,
    printed,
    reference,
    saved,
    sets,
)  # fmt: skip
from ucm.bench.speed.options import Options
from ucm.data import datasets
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.errors import DataError, ParameterError

X, SIGNS = datasets.load("wine")
Y = SIGNS.astype(np.float64)
NU = 0.3
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)


def _sleeps(seconds: float) -> dict[str, float]:
    time.sleep(seconds)
    return {"slept": seconds}


def _measures() -> dict[str, float]:
    calls: list[np.ndarray] = []
    _, figures = isolate.measured(lambda: calls.append(np.ones(4_000_000)), 3, 60.0)
    return {**figures, "calls": len(calls)}


def _fails() -> dict[str, float]:
    raise ValueError("no\nreason")


def test_a_job_of_its_own_process() -> None:
    assert isolate.isolated(_sleeps, 0.0, limit=60.0) == {"slept": 0.0}
    assert isolate.isolated(_sleeps, 60.0, limit=0.1) == {"note": isolate.STOPPED}
    assert isolate.isolated(_fails, limit=60.0) == {"note": "ValueError: no reason"}


def test_measured() -> None:
    figures = isolate.isolated(
        _measures, limit=60.0
    )  # what a process has freed before is not counted
    assert (figures["calls"], figures["runs"]) == (4, 3)
    assert figures["peak, MB"] == pytest.approx(32.0, rel=0.2)
    assert isolate.measured(lambda: time.sleep(0.02), 3, 0.01)[1]["runs"] == 1


def test_the_part_of_the_seconds_that_the_solver_took() -> None:
    parts = iter([9.0, 3.0, 1.0, 2.0])
    figures = isolate.measured(lambda: next(parts), 3, 60.0, lambda part: part)[1]
    assert figures["own, s"] == 2.0  # the median of all but the first


def test_convex_models_beside_clarabel() -> None:
    for name in reference.CONVEX:
        model = sets.declared(name, STANDARD, Y, NU, 0.2)
        fit, other = (
            job(model, STANDARD, Y, 1, 60.0) for job in (reference.ours, reference.theirs)
        )
        assert (fit["status"], other["status"]) == ("optimal", "optimal"), name
        assert other["objective"] == pytest.approx(fit["objective"], rel=1e-4), name


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
    assert judge.direction_bound(X, Y, NU, fit.x) == pytest.approx(-fit.objective, rel=2e-6)
    bad = judge.weights_gap(X, Y, NU, np.eye(Y.size)[0] + np.eye(Y.size)[-1], gram)
    assert bad["violation"] > 1.0


@pytest.mark.parametrize("peer", ["ours", "APG", "NuSVC", "LinearSVC"])
def test_peers(peer: str) -> None:
    found = peers.run(peer, peers.Problem("wine", NU), 1, 60.0)
    assert found["seconds"] > 0.0
    assert ("own, s" in found) == (peer in ("ours", "APG"))
    assert 0.0 < found.get("own, s", found["seconds"]) <= found["seconds"]
    # LinearSVC also penalises its intercept
    assert -1e-9 <= found["gap"] <= (0.2 if peer == "LinearSVC" else 1e-5)


def test_kernel_peers() -> None:
    for peer in peers.RBF:
        assert peers.run(peer, peers.Problem("wine", NU, "rbf"), 1, 60.0)["gap"] <= 1e-5


# --- what is printed ------------------------------------------------------------------------------
def _printed(part: str, rows: Iterable[dict[str, Any]]) -> list[str]:
    out = Console(file=io.StringIO(), width=100)
    lines = show.Lines(out, printed.cells)
    for row in rows:
        lines.add(part, row)
    lines.end()
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_losses_print_within_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "WEIGHTS", (1.0,))
    monkeypatch.setattr(losses, "PAIRS", ("logistic + l2", "squared hinge + l2"))  # the quick ones
    monkeypatch.setattr(losses, "FOLDED", {"logistic + mcp": 3.0})
    monkeypatch.setattr(losses.importlib.util, "find_spec", lambda name: None)  # skglm compiles
    monkeypatch.setattr(losses, "VALUES", 5)
    options = Options(["iris"], [], 1, 60.0)
    rows = list(losses.losses(options))
    assert {row["pair"] for row in rows} == {*losses.PAIRS, *losses.FOLDED, "path of 5, l1"}
    assert all(row["gap"] <= 1e-6 for row in rows)
    rows.append({**rows[0], "note": "liblinear leaves 2e-05, skglm leaves 3e-04"})
    lines = _printed("losses", rows)
    assert max(map(len, lines)) <= 100 and lines[2].split()[:3] == ["pair", "lam", "set"]
    assert lines[-1].strip() == rows[-1]["note"] and len(lines) == len(rows) + 4


def test_every_pair_of_a_set_ends_with_a_proof() -> None:
    rows = list(pairs.pairs(Options(["iris"], [], 1, 60.0)))
    count = len(pairs.LOSSES) * len(pairs.PENALTIES)
    assert len({row["terms"] for row in rows[:count]}) == count and len(rows) == count + 10
    assert all(row["within"] and row["gap"] <= 1e-6 for row in rows)
    assert [row["ms"] for row in rows[count:]] == sorted(
        (r["ms"] for r in rows[:count]), reverse=True
    )[:10]
    assert max(map(len, _printed("pairs", rows))) <= 100


def test_own_and_whole_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sets.NU, "wine", NU)
    options = Options(["wine"], ["ours", "NuSVC"], 3, 60.0)
    rows = list(fits.linear(options))
    lines = _printed("linear", rows)
    assert max(map(len, lines)) <= 100
    head, ours, svc = lines[2:5]
    assert head.index("own, ms") < head.index("whole, ms") < head.index("x own")
    assert ours.split()[:2] == ["wine", "ours"] and "±" in ours
    assert svc.split()[:2] == ["wine", "NuSVC"]
    words = " ".join(lines[5:])
    assert "passes in geometric mean of 1 set" in words and "NuSVC: " in words
    late = _printed("linear", [{"set": "wine", "method": "SCS", "note": isolate.STOPPED}])
    assert late[-1].endswith(isolate.STOPPED)


def test_every_part_has_its_columns() -> None:
    for name, part in BENCHMARK.parts.items():
        head = _printed(name, [{"set": "skin-nonskin", "method": "LinearSVC", "within": True}])[2]
        assert len(head) <= 100 and callable(part), name


def test_saved_runs_are_compared(tmp_path: Path) -> None:
    row = {"part": "linear", "set": "wine", "method": "ours", "seconds": 2.0, "own, s": 1.0}
    slow = {**row, "seconds": 3.0, "spread of seconds": 0.1}
    files = []
    for name, found in (("a", row), ("b", slow)):
        file = tmp_path / name
        file.write_text(json.dumps({"name": "speed", "rows": [found]}))
        files.append(str(file))
    found = list(saved.compare(Options([], [], 1, 60.0, tuple(files))))
    assert [(r["figure"], r["B/A"]) for r in found[:2]] == [("own, s", 1.0), ("seconds", 1.5)]
    assert "seconds: B takes 1.5 of A" in found[-1]["summary"] and "1 rose" in found[-1]["summary"]
    assert "B/A" in "".join(_printed("compare", found))
    one = {"part": "pairs", "set": "wine", "terms": "Hinge + L1", "ms": 1.0}
    folds = {"part": "folds", "set": "wine", "model": "mm_fda", "folds": "10 x 20", "fit, ms": 3.0}
    rows = [
        *(one, {**one, "terms": "Hinge + L2", "ms": 2.0}),
        *(folds, {**folds, "folds": "leave one out", "fit, ms": 4.0}),
        {"part": "every", "set": "wine", "fit, ms": 5.0, "fits": 6.0},
        {**one, "note": "among the slowest"},
    ]
    (tmp_path / "many").write_text(json.dumps({"rows": rows}))
    found = list(saved.compare(Options([], [], 1, 60.0, (str(tmp_path / "many"),) * 2)))
    assert [r["A"] for r in found if "summary" not in r] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    named = ["Hinge + L1", "Hinge + L2", "mm_fda 10 x 20", "mm_fda leave one out", "", ""]
    assert [r["method"] for r in found if "summary" not in r] == named
    for wrong in (files[:1], [*files, files[0]]):
        with pytest.raises(ParameterError, match="two saved runs"):
            list(saved.compare(Options([], [], 1, 60.0, tuple(wrong))))
    (tmp_path / "c").write_text("[1]")
    for wrong in ("c", "none_such"):
        with pytest.raises(DataError, match="what ucm bench speed --save wrote"):
            list(saved.compare(Options([], [], 1, 60.0, (files[0], str(tmp_path / wrong)))))
    (tmp_path / "c").write_text(json.dumps({"rows": [{**row, "set": "iris"}]}))
    with pytest.raises(DataError, match="rows in common"):
        list(saved.compare(Options([], [], 1, 60.0, (files[0], str(tmp_path / "c")))))
