"""The standalone program accepts what a solve proves, and no false interval of a mutated file."""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
import json
import math
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import ucm
from ucm import neg, pos, signed
from ucm.errors import ParameterError

PROGRAM = Path(__file__).parents[2] / "docs" / "check_certificate.py"
SPEC = importlib.util.spec_from_file_location("check_certificate", PROGRAM)
assert SPEC is not None
assert SPEC.loader is not None
program: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(program)

H, R = ucm.Hull, ucm.ReducedHull
MODELS: list[Any] = [
    ucm.models.nu_svm(0.3),
    ucm.models.mm_mpm(0.3),
    ucm.models.mm_fda(0.3),
    ucm.models.l2_nu_svm(0.24),
    ucm.models.biased_l2_nu_svm(0.36, 0.3),
    ucm.models.kl_svm(0.4),
    2 * H(signed, weights=ucm.CappedSimplex(0.06)) + ucm.Ball(0, 0.01),
    ucm.RobustMargin(R(pos, nu=0.5) - ucm.Ellipsoid(neg.mean, neg.cov, 0.1), 1.0),
    ucm.RobustMargin(R(pos, eta=0.2) - H(neg, weights=ucm.KLBall(0.9)), np.inf),
    ucm.RobustMargin(ucm.Ball(pos.mean, 0.1) - ucm.Ball(neg.mean, 0.05), 3.0),
    ucm.models.svm(1.0),
    ucm.models.psvm(1.5, 2.0),
    ucm.Hinge(2) + ucm.L2(),
    ucm.Logistic(on=pos) + 2 * ucm.Hinge(on=neg) + 0.3 * ucm.L1() + 0.2 * ucm.L2(),
    ucm.HuberHinge(0.5) + ucm.Norm(2),
    ucm.Exponential() + ucm.ElasticNet(0.5),
    (ucm.LeastSquares() + 0.5 * ucm.L1()).with_intercept("penalised", 2.0),
    ucm.Logistic() + 0.1 * ucm.LInf(),
    (ucm.Logistic() + ucm.L2()).with_intercept(None),
    ucm.SquaredHinge() + 0.3 * ucm.L1(weights=[1.0, 2.0, 1.0]),
    ucm.Hinge() + 2.0 * ucm.GroupLasso([0, 0, 1]) + 0.1 * ucm.L2(),
    ucm.Hinge() + 0.3 * ucm.L1(),
    ucm.HuberHinge(0.3) + ucm.Norm(3.0),
]


@functools.cache
def samples() -> tuple[np.ndarray, np.ndarray]:
    rng, y = np.random.default_rng(5), np.repeat(["b", "a"], [9, 13])
    return rng.standard_normal((22, 3)) + np.where(y == "b", 0.9, -0.9)[:, None], y


@functools.cache
def certified(k: int) -> tuple[Any, dict]:
    X, y = samples()
    solution = ucm.solve(MODELS[k], X, y, tol=1e-8)
    assert solution.status == "optimal", solution
    assert solution.make_certificate is not None
    return solution, solution.make_certificate(solution)


@pytest.mark.parametrize("k", range(len(MODELS)), ids=lambda k: repr(MODELS[k])[:40])
def test_the_program_accepts_what_is_proven(k: int) -> None:
    solution, file = certified(k)
    lower, upper = program.check(file, *samples())
    size = abs(solution.objective)
    assert file["bounds"]["lower"] <= lower <= upper <= file["bounds"]["upper"]
    assert upper - lower <= 1.1e-8 * size
    assert lower - 1e-12 * size <= solution.certificate.dual
    assert upper + 1e-12 * size >= solution.certificate.primal


def test_the_program_runs_alone(tmp_path: Path) -> None:
    X, y = samples()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    path = tmp_path / "certificate.json"
    certified(0)[0].save_certificate(path)

    def run() -> tuple[int, str]:
        command = [
            sys.executable,
            "-I",
            str(PROGRAM),
            str(path),
            str(tmp_path / "X.npy"),
            str(tmp_path / "y.npy"),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout

    assert run()[0] == 0 and run()[1].startswith("ACCEPTED: -"), run()
    file = json.loads(path.read_text())
    file["bounds"]["upper"] -= 1e-4
    path.write_text(json.dumps(file))
    assert run()[0] == 1 and run()[1].startswith("NOT PROVEN"), run()
    np.save(tmp_path / "X.npy", X + 1e-9)
    assert run()[0] == 2 and "the samples of the certificate" in run()[1], run()
    imported = {
        alias.name for node in ast.walk(ast.parse(PROGRAM.read_text())) if isinstance(node, ast.Import)
        for alias in node.names
    }  # fmt: skip
    assert imported == {"hashlib", "json", "sys", "numpy"}
    assert len(PROGRAM.read_text().splitlines()) <= 300


def places(x: Any, path: tuple = ()) -> list[tuple]:
    """The paths of all numbers and nodes of a file but the hashes."""
    if isinstance(x, dict):
        return [p for k, v in x.items() if k != "data" for p in places(v, (*path, k))]
    if isinstance(x, list):
        return [p for k, v in enumerate(x) for p in places(v, (*path, k))]
    return [path]


SWAPS = {
    "pos": "neg",
    "neg": "signed",
    "free": "penalised",
    "Hinge": "Logistic",
    "L2": "L1",
    "Hull": "Ellipsoid",
}


def mutated(file: dict, rng: np.random.Generator) -> dict:
    """The file with one to three other entries."""
    file = copy.deepcopy(file)
    paths = places(file)
    for _ in range(int(rng.integers(1, 4))):
        declared = [p for p in paths if p[0] in ("declaration", "bounds", "weights")]
        *path, last = (
            paths[rng.integers(len(paths))] if rng.random() < 0.5 else declared[rng.integers(len(declared))]
        )
        node: Any = functools.reduce(lambda x, k: x[k], path, file)
        x = node[last]
        if isinstance(x, float | int) and not isinstance(x, bool):
            others = [
                x * (1 + 10.0 ** -rng.integers(1, 10)),
                -x,
                2 * x,
                0.0,
                x + rng.normal(),
                math.inf,
                math.nan,
                1e300,
            ]
            node[last] = others[rng.integers(len(others))]
        elif isinstance(x, str):
            node[last] = SWAPS.get(x, x)
        else:
            node[last] = [None, 1.0, True][rng.integers(3)]
    return file


@functools.cache
def optimum(declaration: str, weights: tuple | None) -> float:
    """The optimum of a mutated declaration by Clarabel; NaN for one that is invalid or not convex."""
    X, y = samples()
    try:
        model: Any = ucm.from_json(declaration)
        plan = ucm.compile(model, X, y, sample_weight=weights)
        convex = isinstance(model, ucm.Objective) or plan.lowering.regime.convex
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an inaccurate solution, which decides nothing
            problem = plan.reference(scaled=True)
            best = problem.solve(solver="CLARABEL") if convex else math.nan
        return float(best) if problem.status == "optimal" else math.nan
    except (ValueError, TypeError, KeyError, AttributeError, cp.error.SolverError):
        return math.nan


def false_intervals(count: int, seed: int) -> tuple[int, int]:
    """The numbers of mutated files with a proven interval, and of intervals without the optimum."""
    rng, proven, false = np.random.default_rng(seed), 0, 0
    for _ in range(count):
        file = mutated(certified(int(rng.integers(len(MODELS))))[1], rng)
        try:
            lower, upper = program.check(file, *samples())
        except Exception:  # a file that is refused
            continue
        proven += 1
        weights = None if file["weights"] is None else tuple(file["weights"])
        best = optimum(json.dumps(file["declaration"]), weights)
        slack = 1e-6 * max(1.0, abs(best))
        if lower - slack > best or upper + slack < best:  # of NaN neither holds
            false += 1
            print(file["declaration"], (lower, upper), best)
    return proven, false


def test_no_mutated_file_has_a_false_interval() -> None:
    proven, false = false_intervals(300, 0)
    assert proven > 50 and false == 0


def test_a_class_of_one_sample_is_a_hull() -> None:
    X, y = samples()
    X, y = X[8:], y[8:]
    solution = ucm.solve(ucm.RobustMargin(H(pos) - H(neg)), X, y, pos_label="b")
    assert solution.make_certificate is not None
    file = solution.make_certificate(solution)
    lower, upper = program.check(file, X, y)
    assert file["bounds"]["lower"] <= lower <= upper <= file["bounds"]["upper"]


@pytest.mark.parametrize(
    ("part", "method", "wrong"),
    [
        (program.Penalty, "conjugate", lambda true: lambda self, z: true(self, z) * 0.9),
        (program.Hull, "size", lambda true: lambda self, q: true(self, q) * 0.5),
        (program.Ellipsoid, "support", lambda true: lambda self, d: true(self, d) - 0.1),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_wrong_program_has_false_intervals(
    monkeypatch: pytest.MonkeyPatch, part: type, method: str, wrong: Any
) -> None:
    monkeypatch.setattr(part, method, wrong(getattr(part, method)))
    assert false_intervals(300, 1)[1] > 0


KERNELS = ({"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "rbf", "kernel_approx": 5})


def test_what_the_program_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    X, y = samples()
    solution = ucm.solve(ucm.Hinge() + 0.5 * ucm.L2() + ucm.NonNegative(), X, y)
    assert solution.make_certificate is not None
    with pytest.raises(ValueError, match="another penalty than Bounds"):
        program.check(solution.make_certificate(solution), X, y)
    refused: list[tuple[Any, dict[str, Any], str]] = [
        *((ucm.models.nu_svm(0.5), options, "without a kernel") for options in KERNELS),
        (ucm.Ramp() + ucm.L2(), {}, "a convex model"),
        (
            ucm.Robust(ucm.Hinge(), ucm.per_sample("radius") * ucm.Ball(0, 1)) + ucm.L2(),
            {"per_sample": {"radius": np.full(22, 0.1)}},
            "got radius of each sample",
        ),
        (R(pos, nu=0.6) - (R(neg, nu=0.6) | ucm.Ball(neg.mean, 0.1)), {}, "a sum of hulls"),
    ]
    for model, options, why in refused:
        with pytest.raises(ParameterError, match=why):
            ucm.solve(model, X, y, **options).save_certificate(tmp_path / "never.json")
    for label in (0, False):  # of a group: a value, and not the absence of one
        groups = np.arange(22) % 2 == label if label is False else np.arange(22) % 2
        solution = ucm.solve(ucm.Hinge(on=pos.group(label)) + ucm.L2(), X, y, subgroup=groups)
        assert solution.make_certificate is not None
        with pytest.raises(ValueError, match="Samples without label"):
            program.check(solution.make_certificate(solution), X, y)
    file = copy.deepcopy(certified(MODELS.index(ucm.models.svm(1.0)))[1])
    fields, terms = (
        file["declaration"]["model"]["fields"],
        [{"tuple": [-1.0, {"node": "Hinge", "fields": {"p": 1.0}}]}],
    )
    fields["loss"] = {"node": "VectorSum", "fields": {"terms": {"tuple": terms}}}
    with pytest.raises(ValueError, match="multiples that are not negative"):
        program.check(file, X, y)
    with pytest.raises(ParameterError, match="without its samples"):
        pickle.loads(pickle.dumps(solution)).save_certificate(tmp_path / "never.json")
