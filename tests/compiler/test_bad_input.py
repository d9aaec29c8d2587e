"""Bad input, end to end: the error names what, got and remedy, or the answer is right.

What `bind` refuses is in `tests/data/test_binding.py`, what has no meaning when written in
`tests/language/test_algebra.py`.
"""

from __future__ import annotations

import dataclasses
import math
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest
from bundled import load
from scipy import sparse
from typed import known, untyped

import ucm
from ucm import Param, neg, pos
from ucm.errors import (
    CompositionError,
    ConvergenceWarning,
    DataError,
    EmptySetError,
    ParameterError,
    SolverError,
    UCMError,
)

X, Y = load("iris")
NU = ucm.models.nu_svm(0.85)
WITH_NAN, WITH_INF = X.copy(), X.copy()
WITH_NAN[7, 1], WITH_INF[7, 1] = np.nan, np.inf
WEIGHT_BALL = ucm.Hull(pos, weights=ucm.NormBall(1))

CASES: dict[str, tuple[Any, type[UCMError], str]] = {
    "NaN": (lambda: ucm.solve(NU, WITH_NAN, Y), DataError, r"entry \(\d+, \d+\) is nan"),
    "inf": (lambda: ucm.solve(NU, WITH_INF, Y), DataError, r"entry \(\d+, \d+\) is inf"),
    "one class": (lambda: ucm.solve(NU, X, np.ones(100)), DataError, "two classes, got one"),
    "three classes": (lambda: ucm.solve(NU, X, np.arange(100) % 3), DataError, "got 3 .the labels 0, 1, 2"),
    "empty X": (lambda: ucm.solve(NU, X[:0], Y[:0]), DataError, "expected samples, got none"),
    "mismatched lengths": (lambda: ucm.solve(NU, X, Y[:-1]), DataError, "100 labels.* got 99"),
    "zero features": (lambda: ucm.solve(NU, X[:, :0], Y), DataError, "expected features, got none"),
    "strings": (lambda: ucm.solve(NU, X.astype(str).astype(object) + "cm", Y), DataError, "numbers"),
    "nu above": (lambda: ucm.solve(ucm.models.nu_svm(1.2), X, Y), EmptySetError, r"at most 1 \(= 2 min"),
    "nu zero": (lambda: ucm.solve(ucm.models.nu_svm(0.0), X, Y), EmptySetError, "nu must be positive"),
    "nu negative": (lambda: ucm.models.nu_svm(-0.3), CompositionError, r"nu must lie in \[0, inf"),
    "nu infinite": (lambda: ucm.solve(ucm.models.nu_svm(np.inf), X, Y), EmptySetError, "nu must be"),
    "nu NaN": (lambda: ucm.models.nu_svm(np.nan), CompositionError, r"\(.nu.\): expected a number"),
    "nu text": (lambda: untyped.models.nu_svm("0.3"), CompositionError, "a plain number"),
    "eta below": (lambda: ucm.solve(ucm.ReducedHull(pos, eta=0.01), X, Y), EmptySetError, "at least 0.02"),
    "negative radius": (lambda: ucm.models.mm_mpm(-0.5), CompositionError, "radius must .* got Param..kappa"),
    "negative ball": (lambda: ucm.Ball(pos.mean, -1), CompositionError, "got -1"),
    "weight ball below": (lambda: ucm.solve(ucm.models.l2_nu_svm(0.05), X, Y), EmptySetError, "at least 0.1"),
    "alpha zero": (lambda: ucm.solve(ucm.models.kl_svm(0.0), X, Y), EmptySetError, r"\(0, 1\]"),
    "alpha above": (lambda: ucm.solve(ucm.models.kl_svm(1.5), X, Y), EmptySetError, r"\(0, 1\]"),
    "alpha negative": (lambda: ucm.models.kl_svm(-0.5), CompositionError, r"alpha must lie in \[0, inf"),
    "dimensions": (lambda: ucm.solve(ucm.Hull(pos) - ucm.Ball([1.0], 1), X, Y), CompositionError,
                   "one dimension, got 1 and 2"),
    "M @ U": (lambda: ucm.solve(np.eye(3) @ ucm.Hull(pos), X, Y), CompositionError,
              r"2 columns, .* got one of shape \(3, 3\)"),
    "mean @ samples": (lambda: pos.mean @ pos, CompositionError, "takes a matrix and a set"),
    "no set": (lambda: untyped.solve(pos, X, Y), CompositionError, "expected an uncertainty set"),
    "a class": (lambda: untyped.solve(ucm.Hull, X, Y), CompositionError, "expected an uncertainty set"),
    "None": (lambda: untyped.compile(None, X, Y), CompositionError, "expected an uncertainty set"),
    "swapped": (lambda: untyped.compile(X, NU, Y), CompositionError, "expected an uncertainty set"),
    "labels as samples": (lambda: ucm.compile(NU, Y, X), DataError, "reshape"),
    "solver": (lambda: ucm.solve(NU, X, Y, solver="liblinear"), ParameterError, "liblinear"),
    "kernel": (lambda: untyped.compile(NU, X, Y, kernel="cubic"), ParameterError, "kernel"),
    "no center": (lambda: ucm.solve(ucm.Ball([], 0.1), X, Y), CompositionError, "a vector"),
    "starts": (lambda: ucm.solve(NU, X, Y, n_starts=None), ParameterError, "from 1 to 10000"),
    "certify_local": (
        lambda: ucm.compile(ucm.models.zero_norm_svm(1.0), X, Y).certify_local(X),  # type: ignore[arg-type]
        ParameterError,
        "is a Solution",
    ),
    "tolerance": (lambda: ucm.solve(NU, X, Y, tol=-1.0), ParameterError, r"\(0, 1\)"),
    "class weight": (lambda: ucm.compile(WEIGHT_BALL, X, Y, class_weight={2: 1.0}),
                     ParameterError, "class_weight"),
    "wrong route": (lambda: ucm.compile(ucm.RobustMargin(NU, 1), X, Y, solver="apg"),
                    SolverError, "Euclidean"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_error_names_the_value_and_a_remedy(name: str) -> None:
    act, kind, words = CASES[name]
    with pytest.raises(UCMError, match=words) as error:
        act()
    assert type(error.value) is kind and isinstance(error.value, ValueError)
    message = str(error.value)
    assert "\n" not in message and len(message) < 600
    assert re.search(r"[;(]|must|expected|use |did you mean", message)


@pytest.mark.parametrize("name", [name for name in ucm.solvers.__all__ if name != "Conic"])
def test_every_option_of_a_solver_is_looked_at(name: str) -> None:
    kind = vars(ucm.solvers)[name]
    own = ucm.solvers.SSNAL()
    given: dict[str, Any] = {"inner": own, "rest": (own,)}
    given |= {"inner": (own,)} if name == "LevelSetNewton" else {}
    options = [field for field in dataclasses.fields(kind) if field.init]
    needed = {f.name: given[f.name] for f in options if f.default is dataclasses.MISSING}
    kind(**needed)
    for field in options:
        wrong = ["a", math.nan, math.inf, -1, np.zeros(2), ucm.L1()]
        wrong += [] if "None" in str(field.type) else [None]
        for bad in wrong:
            with pytest.raises(ParameterError, match=rf"{name}: {field.name} is .*, got .*; ."):
                kind(**{**needed, field.name: bad})


def test_every_number_of_a_declaration_is_looked_at() -> None:
    given: list[Any] = ["a", math.nan, None, [], object()]
    for bad in given:
        for wrong in (
            lambda bad=bad: ucm.Ball(pos.mean, bad),
            lambda bad=bad: ucm.NormBall(1.0, p=bad),
            lambda bad=bad: untyped.models.enu_svm(0.3, norm=bad),
            lambda bad=bad: ucm.NormBall(1.0, around=bad if bad is not None else "a"),
            lambda bad=bad: ucm.AffineImage(np.eye(2), bad),
            lambda bad=bad: ucm.Ramp(bad),
        ):
            with pytest.raises(CompositionError, match=r"got .*; ."):
                wrong()
    with pytest.raises(CompositionError, match=r"labels that differ, got \['A', 'A'\]; name every"):
        ucm.models.group_dro(["A", "A"])


def test_extreme_units_scale_the_answer_or_raise() -> None:
    """Entries near the ends of the floating-point range: the answer scales, or an error says so."""
    base = ucm.solve(NU, X, Y)
    for scale in (1e-150, 1e-100, 1e100, 1e150):
        for model in (NU, ucm.models.mm_fda(0.3)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                sol = ucm.solve(model, scale * X, Y)
            assert np.isfinite(sol.w).all() and np.isfinite(sol.x).all()
            assert sol.status in ("optimal", "max_iter", "converged")
            if model is NU and sol.status == "optimal":
                assert sol.objective / scale == pytest.approx(base.objective, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_hulls_whose_squares_are_no_numbers_are_solved_in_another_unit(scale: float) -> None:
    sol = ucm.solve(NU, scale * X, Y)
    assert sol.status == "optimal"
    assert sol.objective / scale == pytest.approx(ucm.solve(NU, X, Y).objective, rel=1e-5)


def test_features_of_very_different_units() -> None:
    scales = np.array([1e-6, 1e6])
    for model in (ucm.models.nu_svm(0.97), ucm.models.mm_fda(0.2), ucm.models.kl_svm(0.95)):
        plan = ucm.compile(model, X * scales, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            sol = plan.solve()
        assert np.isfinite(sol.w).all() and sol.status in ("optimal", "zero_in_set", "max_iter")
        if sol.status == "optimal":
            assert sol.certificate.gap <= 1e-6 * abs(sol.objective)


def test_equal_samples_give_w_zero() -> None:
    m = ucm.models
    for size, row in ((6, [1.0, 1.0]), (60, [0.1, 3.0])):  # the second has means with rounding
        same, y = np.tile(row, (size, 1)), np.where(np.arange(size) < 0.4 * size, 1.0, -1.0)
        for make in (m.nu_svm, m.mm_mpm, m.mm_fda, m.l2_nu_svm, m.kl_svm, m.coherent_mm_mpm):
            plan = ucm.compile(make(0.5), same, y)
            sol = plan.solve()
            assert sol.status == "zero_in_set" and not sol.w.any()
            assert "all features are constant" in sol.message
            assert plan.verify().agrees


def test_zero_samples_give_w_zero() -> None:
    zero, y = np.zeros((4, 3)), np.array([1.0, 1, -1, -1])
    for model in (NU, ucm.models.mm_fda(0.5), ucm.Hull(ucm.signed)):
        for samples in (zero, sparse.csr_matrix(zero)):
            sol = ucm.solve(model, samples, y)
            assert sol.status == "zero_in_set" and sol.objective == 0.0


def test_a_single_feature_is_classified() -> None:
    x = np.array([[0.0], [1.0], [2.0], [5.0], [6.0], [9.0]])
    y = np.array([-1.0, -1, -1, 1, 1, 1])
    sol = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), x, y)
    assert sol.objective == pytest.approx(-3.0) and sol.b == pytest.approx(-3.5)
    flipped = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), -x, y)
    assert flipped.w[0] == -1.0 and flipped.b == pytest.approx(-3.5)


def test_a_parameter_at_the_border_of_the_admissible() -> None:
    for model in (NU, ucm.models.mm_fda(0.3), ucm.models.l2_nu_svm(0.11), ucm.models.kl_svm(0.9)):
        (found,) = ucm.admissible(model, X, Y).values()
        (name,) = model.params()
        for value in (found.lower, found.upper):
            for nudge in (1 - 1e-9, 1.0, 1 + 1e-9):
                try:
                    plan = ucm.compile(model.with_params(**{name: value * nudge}), X, Y)
                except EmptySetError:
                    assert nudge != 1.0
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    sol = plan.solve()
                assert np.isfinite(sol.w).all()
                # The nudge moves 0 to 2e-9 from the boundary. Rounding decides on which side a solver is,
                # and whether it ends at its accuracy or at its limit of iterations.
                near = sol.certificate.gap < 1e-8 * sol.size
                assert sol.status in ("optimal", "zero_in_set") or (
                    sol.status in ("stationary", "converged", "max_iter") and near
                )
                assert abs(sol.objective) < 1e-8 or sol.status == "optimal"


def test_huge_and_tiny_sizes() -> None:
    for model in (ucm.models.mm_mpm(1e9), ucm.models.mm_fda(1e9), ucm.Ball(pos.mean, 1e12)):
        assert ucm.solve(model, X, Y, solver="ssnal").status == "zero_in_set"
        assert ucm.solve(model, X, Y).objective > 1e6
    for model in (ucm.models.mm_mpm(1e-12), ucm.Ball(pos.mean - neg.mean, Param("r", 1e-300))):
        sol = ucm.solve(model, X, Y)
        assert sol.status == "optimal"
        d = X[Y > 0].mean(0) - X[Y < 0].mean(0)
        assert sol.objective == pytest.approx(-np.linalg.norm(d), rel=1e-9)
    eta = ucm.ReducedHull(pos, eta=1e9) - ucm.ReducedHull(neg, eta=1e9)
    assert ucm.solve(eta, *load("wine")).objective == pytest.approx(
        ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), *load("wine")).objective, rel=1e-6
    )


def test_an_interrupted_solve_tells_its_state() -> None:
    def interrupt(record: dict[str, float]) -> None:
        if record["iteration"] >= 20:
            raise KeyboardInterrupt

    X, y = load("wine")
    with pytest.raises(KeyboardInterrupt) as stop:
        ucm.solve(ucm.models.nu_svm(0.3), X, y, solver="apg", tol=1e-12, callback=interrupt)
    (note,) = stop.value.__notes__
    exact = ucm.solve(ucm.models.nu_svm(0.3), X, y).objective
    reached, gap = known(re.search(r"objective (\S+) and the relative gap (\S+)", note)).groups()
    assert abs(float(reached) - exact) <= 1.01 * float(gap) * abs(exact)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_leaves_no_broken_state() -> None:
    """A real signal in the middle of a solve: KeyboardInterrupt, then the same plan solves."""
    code = textwrap.dedent("""
        import os, signal, warnings
        import numpy as np, ucm
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        rng = np.random.default_rng(0)
        y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
        X = rng.standard_normal((400, 8)) + 0.6 * y[:, None]
        for solver in ("ssnal", "apg"):
            plan = ucm.compile(ucm.models.nu_svm(0.8), X, y, solver=solver)
            expected = plan.solve().objective
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            try:
                warnings.simplefilter("ignore")
                for _ in range(10_000):
                    plan.solve(tol=1e-9, max_iter=50)
            except KeyboardInterrupt:
                print("interrupted")
            assert plan.solve().objective == expected
            assert plan.verify().agrees
    """)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["interrupted", "interrupted"]
    assert signal.getsignal(signal.SIGINT) is not None


def test_errors_are_one_family() -> None:
    for kind in (CompositionError, DataError, EmptySetError, ParameterError, SolverError):
        assert issubclass(kind, UCMError) and issubclass(kind, ValueError)
    assert issubclass(ConvergenceWarning, UserWarning)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8"])
def test_rows_of_integers_and_booleans_agree_with_floats(dtype: str) -> None:
    """An unsigned number has no negative, and -128 none of 8 bits."""
    few = np.clip(np.round(40 * X), 0 if dtype == "uint8" else -128, 127)
    few = few > 0 if dtype == "bool" else few.astype(dtype)
    plan, memory = ucm.compile(NU, ucm.open_rows(few, Y)), ucm.compile(NU, few.astype(float), Y)
    assert plan.data.scale == memory.data.scale
    rows, memory = plan.solve(), memory.solve()
    assert rows.objective == pytest.approx(memory.objective, rel=1e-5, abs=1e-5)


def test_a_limit_of_time_may_be_infinite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that of a thread that ends in an error, too
        assert ucm.solve(NU, X, Y, time_limit=np.inf).status == ucm.solve(NU, X, Y).status
        assert ucm.solve(NU, X, Y, time_limit=1e300).status == ucm.solve(NU, X, Y).status


@pytest.mark.parametrize(
    ("call", "args"),
    [
        (ucm.compare, ({"nu": ucm.models.nu_svm(0.3)},)),
        (ucm.admissible, (ucm.models.nu_svm(0.3),)),
        (ucm.support, (ucm.Hull(ucm.pos),)),
    ],
)
def test_an_unknown_option_is_refused(call: Any, args: Any) -> None:
    X, y = ucm.datasets.load("wine")
    data = (X, y, np.ones(13)) if call is ucm.support else (X, y)
    with pytest.raises(ParameterError, match="unknown option sample_weigth; did you mean sample_w"):
        call(*args, *data, sample_weigth=None)
