"""What enters, what leaves a solver, what leaves the library: one guard at each border."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm import models, neg, pos
from ucm.data.validation import Fingerprint
from ucm.errors import (
    CompositionError,
    ConvergenceWarning,
    DataError,
    ParameterError,
    SolverError,
    UCMError,
)
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof

RNG = np.random.default_rng(3)
Y = np.where(np.arange(40) % 2 > 0, 1.0, -1.0)
APART = RNG.standard_normal((40, 3)) + 1.2 * Y[:, None]
MIXED = RNG.standard_normal((40, 3))
HULLS = ucm.Hull(pos) - ucm.Hull(neg)
NU = models.nu_svm(0.8)


@pytest.fixture(autouse=True)
def _unproven() -> Any:
    """Status and error are what is looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


# --- samples that change between compile and solve ---------------------------------------------------
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nu-SVM": (NU, {}),
    "nu-SVM, rbf": (models.nu_svm(0.5), {"kernel": "rbf"}),
    "nu-SVM, precomputed": (models.nu_svm(0.5), {"kernel": "precomputed"}),
    "psvm, rbf": (models.psvm(2.0, 1.0), {"kernel": "rbf"}),
    "MM-MPM": (models.mm_mpm(0.1), {}),
    "svm": (models.svm(0.1), {}),
    "ramp": (models.rlsvmc1(0.1), {}),
}


def _doubled(X: Any) -> None:
    X *= 2.0


def _exchanged(X: Any) -> None:
    X[[0, 1]] = X[[1, 0]]


def _flipped(X: Any) -> None:
    X *= -1.0


def _one_bit(X: Any) -> None:
    X.flat[5] = np.nextafter(X.flat[5], np.inf)


@pytest.mark.parametrize("change", [_doubled, _exchanged, _flipped, _one_bit])
@pytest.mark.parametrize("name", MODELS)
def test_samples_changed_in_place_are_refused(name: str, change: Callable[[Any], None]) -> None:
    model, options = MODELS[name]
    X = np.ascontiguousarray(APART @ APART.T) if "precomputed" in name else APART.copy()
    plan = ucm.compile(model, X, Y, **options)
    first = plan.solve().objective
    kept = X.copy()
    change(X)
    for use in (plan.solve, plan.verify, plan.reference, plan.dual_reference):
        with pytest.raises(DataError, match="changed in place"):
            use()
    X[...] = kept
    assert plan.solve().objective == first


def test_changed_sparse_samples_and_labels_are_refused() -> None:
    X, y = sparse.csr_matrix(MIXED * (MIXED > 0.0)), Y.copy()
    plan = ucm.compile(NU, X, y)
    for part in (X.data, X.indices, X.indptr, y):
        kept = part.copy()
        part[:] = part[::-1].copy()
        with pytest.raises(DataError, match="changed in place"):
            plan.solve()
        part[:] = kept
    assert plan.solve().status == ucm.solve(NU, X, y).status


def test_arrays_may_change_after_they_are_copied() -> None:
    X = np.asfortranarray(APART)
    plan = ucm.compile(NU, X, Y)
    X *= 2.0
    assert plan.solve().status == "optimal"


def test_checksums_see_every_entry_and_its_place() -> None:
    for size in (1, 2, 3, 4, 7, 40):
        X = RNG.standard_normal((size, 1))
        seal = Fingerprint(X, np.ones(1))
        for i in range(size):
            for wrong in (-X[i, 0], np.nextafter(X[i, 0], 9.0), X[(i + 1) % size, 0]):
                kept = X[i, 0]
                X[i, 0] = wrong
                if wrong != kept:
                    with pytest.raises(DataError):
                        seal.check()
                X[i, 0] = kept
        seal.check()
        assert seal.finite
        for odd in (np.nan, np.inf, -np.inf, -np.nan):
            X[size - 1, 0] = odd
            assert not Fingerprint(X, np.ones(1)).finite
    assert Fingerprint(np.array([[1.7e308, -1.7e308, 5e-324]]), np.ones(1)).finite


# --- samples ---------------------------------------------------------------------------------------
def _set(index: int, wrong: Any) -> Callable[[Any], None]:
    return lambda part: part.__setitem__(index, wrong)


BROKEN = [
    ("csr", "indptr", _set(3, 10**6)), ("csr", "indptr", _set(2, -4)), ("csr", "indptr", _set(-1, 10**6)),
    ("csr", "indices", _set(0, 77)), ("csr", "indices", _set(0, -3)),
    ("csc", "indptr", _set(1, 10**6)), ("csc", "indices", _set(0, 77)), ("bsr", "indices", _set(0, 77)),
    ("coo", "row", _set(0, 100)), ("coo", "col", _set(0, -100)),
    ("lil", "rows", lambda rows: rows[0].__setitem__(0, 77)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "part", "spoil"), BROKEN, ids=lambda x: str(x)[:10])
def test_malformed_sparse_matrices_are_refused(kind: str, part: str, spoil: Callable[[Any], None]) -> None:
    X = sparse.csr_matrix(APART).asformat(kind).copy()
    spoil(getattr(X, part))
    solution, classifier = ucm.solve(NU, APART, Y), ucm.Classifier(NU).fit(APART, Y)
    for use in (
        lambda: ucm.compile(NU, X, Y),
        lambda: ucm.admissible(NU, X, Y),
        lambda: solution.decision(X),
        lambda: ucm.Classifier(NU).fit(X, Y),
        lambda: classifier.predict(X),
    ):
        with pytest.raises(DataError, match="malformed"):
            use()
    with pytest.raises(CompositionError, match="malformed"):
        ucm.AffineImage(X, ucm.NormBall(1.0))


def test_a_mask_is_not_dropped() -> None:
    hidden = np.ma.masked_array(APART, mask=np.eye(40, 3) > 0)
    for X in (hidden, list(hidden)):
        with pytest.raises(DataError, match="hidden"):
            ucm.compile(NU, X, Y)
    with pytest.raises(DataError, match="hidden"):
        ucm.compile(NU, APART, np.ma.masked_array(Y, mask=Y > 0))
    with pytest.raises(DataError, match="hidden"):
        ucm.Classifier(NU).fit(hidden, Y)
    with pytest.raises(CompositionError, match="hidden"):
        ucm.Ball(hidden[0], 1.0)
    with pytest.raises(CompositionError, match="hidden"):
        ucm.AffineImage(hidden, ucm.NormBall(1.0))


def test_numbers_that_are_too_long() -> None:
    long = APART.astype(object)
    long[0, 0] = 10**400
    for X in (long, long.tolist()):
        with pytest.raises(DataError, match="too large"):
            ucm.compile(NU, X, Y)
    with pytest.raises(DataError, match="two classes, got one"):
        ucm.compile(NU, APART, [10**400] * 40)
    with pytest.raises(DataError, match="too large"):
        ucm.Classifier(NU).fit(long, Y)
    with pytest.raises(CompositionError, match="real numbers"):
        ucm.Ball([10**400, 1], 1.0)


def test_decisions_of_other_samples() -> None:
    for kernel in (None, "rbf"):
        solution = ucm.solve(NU, APART, Y, kernel=kernel)
        for wrong, words in (
            (APART[:, :2], "3 features"), (APART[0], "expected a table"),
            (np.full((2, 3), np.nan), "is nan"),
        ):  # fmt: skip
            with pytest.raises(DataError, match=words):
                solution.decision(wrong)
        assert solution.decision(sparse.csr_matrix(APART)) == pytest.approx(solution.decision(APART.tolist()))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_squares_that_are_no_numbers(scale: float) -> None:
    with pytest.raises(DataError, match="squares"):
        ucm.solve(models.mm_mpm(0.2), scale * APART, Y)


@pytest.mark.parametrize("loss", [ucm.SquaredHinge(), ucm.Logistic(), ucm.Exponential()], ids=repr)
def test_smooth_losses_of_features_that_are_all_zero(loss: Any) -> None:
    for penalty in (ucm.L1(), ucm.LInf(), ucm.ElasticNet(0.5), ucm.Lp(1.5)):
        plan = ucm.compile(loss + 0.5 * penalty, np.zeros((5, 3)), Y[:5])
        assert plan.solve().status == "optimal" and plan.verify().agrees


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("penalty", [ucm.L1(), ucm.L2() + ucm.LInf()], ids=repr)
def test_squares_that_overflow_end_without_a_proof(penalty: Any) -> None:
    X = np.array([[1e160], [2e160]])
    with pytest.warns(ucm.ConvergenceWarning, match="[Ss]cale the features"):
        solution = ucm.solve(ucm.SquaredHinge() + 0.1 * penalty, X, [1, -1])
    assert solution.status in ("converged", "stalled") and solution.certificate.dual >= 0.0
    assert np.isfinite(solution.w).all()


def test_one_feature_in_large_units() -> None:
    X = np.array([[1e6], [2e6]])
    for penalty in (0.1 * (ucm.L2() + ucm.LInf()), 0.1 * ucm.ElasticNet()):
        found = ucm.solve(ucm.SquaredHinge() + penalty, X, [1, -1], max_iter=2000)
        assert found.objective <= 2.0 and np.isfinite(found.w).all()


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("model", [models.nu_svm(0.5), models.kl_svm(0.8)], ids=repr)
def test_units_below_the_normal_numbers(model: Any) -> None:
    """Steps by their squares have no meaning there: a named error, or what the certificate proves."""
    with contextlib.suppress(SolverError):
        found = ucm.solve(model, 1e-310 * APART, Y)
        assert found.status != "optimal" or found.certificate.relative_gap <= 1e-6


def test_plans_of_read_only_samples_and_pickled_plans() -> None:
    given: list[Any] = [APART.copy(), sparse.csr_matrix(APART)]
    for X in given:
        part = X.data if sparse.issparse(X) else X
        part.flags.writeable = False
        plan = ucm.compile(NU, X, Y)
        # an array stays read-only by protocol 5, the default from Python 3.14 on
        read = [pickle.loads(pickle.dumps(plan, protocol)) for protocol in (5, 4)]
        assert {again.solve().objective for again in read} == {plan.solve().objective}
        again = read[-1]
        held = again.data.X.data if sparse.issparse(X) else again.data.X
        held *= 2.0
        with pytest.raises(DataError, match="changed in place"):
            again.solve()


# --- options ---------------------------------------------------------------------------------------
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"maxiter": 3}, "unknown option maxiter; did you mean max_iter"),
    ({"tolerance": 1e-3}, "unknown option tolerance; did you mean tol"),
    ({"kernl": "rbf"}, "did you mean kernel"),
    ({"class_weights": (1, 2)}, "did you mean class_weight"),
    ({"kernel": "rbf", "gama": 1.0}, "did you mean gamma"),
    ({"bias_rule": []}, "bias_rule"),
    ({"bias_rule": np.zeros(3)}, "bias_rule"),
    ({"solver": []}, "solver"),
    ({"solver": np.zeros(3)}, "solver"),
    ({"solver": None}, "solver"),
    ({"solver": ucm.solvers.APG}, "an instance of it"),
    ({"kernel": np.eye(3)}, "kernel"),
    ({"kernel": "poly", "degree": np.nan}, "degree"),
    ({"kernel": "rbf", "gamma": 10**400}, "gamma"),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=[str(o) for o, _ in OPTIONS])
def test_solve_and_path_refuse_invalid_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ucm.solve(NU, APART, Y, **options)
    with pytest.raises(ParameterError, match=words):
        ucm.path(NU, APART, Y, nu=[0.8, 0.9], **options)


def test_options_of_compile_and_of_a_plan() -> None:
    with pytest.raises(ParameterError, match="did you mean solver"):
        ucm.compile(NU, APART, Y, solvr="apg")
    with pytest.raises(ParameterError, match="did you mean tol"):
        ucm.compile(NU, APART, Y).solve(toll=1e-3)
    with pytest.raises(ParameterError, match="progress"):
        ucm.path(NU, APART, Y, nu=[0.8], progress=3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="nu takes"):
        ucm.path(NU, APART, Y, nu=[10**400])


@pytest.mark.parametrize(
    "weight", [(1,), 3, {2: 1.0}, {1: 0.0}, "balancd", (1, 2, 3), (True, 1), ("a", 1), {True: 2.0}]
)
def test_class_weights_are_a_pair(weight: Any) -> None:
    for use in (ucm.compile, ucm.solve):
        with pytest.raises(ParameterError, match=r"class_weight: expected None.* got"):
            use(NU, APART, Y, class_weight=weight)


def test_solve_takes_the_class_weights_of_compile() -> None:
    wanted = ucm.compile(NU, APART, Y, class_weight=(2.0, 1.0)).solve().objective
    for given in ((2, 1), [2.0, 1.0], np.array([2.0, 1.0])):
        assert ucm.solve(NU, APART, Y, class_weight=given).objective == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", ["ssnal", "apg", "smo", "rapminos", "linearize", "facets"])
def test_no_limit_of_iterations_is_too_large(solver: str) -> None:
    X = MIXED if solver in ("rapminos", "linearize", "facets") else APART
    wanted = ucm.solve(NU, X, Y, solver=solver)
    assert ucm.solve(NU, X, Y, solver=solver, max_iter=10**30).objective == wanted.objective
    objective = ucm.Hinge() + ucm.L2()
    assert ucm.solve(objective, X, Y, solver="prox-alm", max_iter=10**30).status == "optimal"


# --- what leaves a solver ----------------------------------------------------------------------------
def _solver(form_of: Any, answer: Callable[[Any], Any]) -> Solver[Any]:
    class Raw(Solver[form_of]):
        name = "raw"

        def refuse(self, form: Any) -> str | None:
            return None

        def solve(self, form: Any, monitor: Monitor, start: Answer | None = None) -> Any:
            return answer(form)

    return Raw()


def _centers(form: MinNorm, **parts: Any) -> Answer:
    return Answer(form.centers(), **parts)


NO_ANSWERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an array": (lambda form: np.zeros(3), "an?.* ucm.forms.solver.Answer"),
    "None": (lambda form: None, "got None"),
    "NaN in q": (lambda form: Answer([np.nan * v for v in form.centers()]), r"finite numbers in q\[0\]"),
    "inf in q": (lambda form: Answer([np.inf + v for v in form.centers()]), r"finite numbers in q\[0\]"),
    "NaN in w": (lambda form: _centers(form, w=np.full(3, np.nan)), "finite numbers in w"),
    "NaN in b": (lambda form: _centers(form, b=np.nan), "finite number b"),
    "one block": (lambda form: Answer(form.centers()[:1]), "q with 2 blocks"),
    "no blocks": (lambda form: Answer(), "q with 2 blocks"),
    "long blocks": (lambda form: Answer([np.append(v, 0) for v in form.centers()]), r"shape \(20,\)"),
    "columns": (lambda form: Answer([v[:, None] for v in form.centers()]), r"shape \(20,\)"),
    "whole numbers": (lambda form: Answer([v.astype(int) for v in form.centers()]), "float64"),
    "lists": (lambda form: Answer([v.tolist() for v in form.centers()]), "float64"),
    "short w": (lambda form: _centers(form, w=np.zeros(2)), r"w as a float64 array of shape \(3,\)"),
    "its own grade": (lambda form: _centers(form, status="optimal"), "a status among"),
    "multipliers": (lambda form: _centers(form, multipliers=[np.zeros(3)]), "multipliers with 0"),
    "one array": (lambda form: _centers(form, multipliers=np.zeros(3)), "multipliers with 0 blocks"),
    "a witness": (lambda form: _centers(form, witness=3), "LowerBoundProof"),
    "far outside": (lambda form: Answer([v + 1.0 for v in form.centers()]), "in its domains"),
    "zeros": (lambda form: Answer([0.0 * v for v in form.centers()]), "in its domains"),
    "infeasibility": (lambda form: Answer(status="infeasible"), "the centre of U lies in U"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_invalid_answers_of_solvers_are_refused(name: str) -> None:
    answer, words = NO_ANSWERS[name]
    with pytest.raises(SolverError, match=words):
        ucm.solve(HULLS, APART, Y, solver=_solver(MinNorm, answer))


LOST: dict[str, tuple[Callable[[Any], Any], str]] = {
    "NaN in w": (lambda form: Answer(w=np.full(3, np.nan), b=0.0), "finite numbers in w"),
    "no w": (lambda form: Answer(b=0.0), "no normal w"),
    "a text b": (lambda form: Answer(w=np.zeros(3), b="x"), "finite number b"),  # type: ignore[arg-type]
    "short slopes": (lambda form: Answer(w=np.zeros(3), slopes=np.zeros(2)), "slopes"),
    "NaN in slopes": (lambda form: Answer(w=np.zeros(3), slopes=np.full(40, np.nan)), "slopes"),
    "an overflow": (lambda form: Answer(w=np.full(3, 1e308), b=0.0), "finite objective"),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("name", LOST)
def test_invalid_answers_for_losses_are_refused(name: str) -> None:
    answer, words = LOST[name]
    with pytest.raises(SolverError, match=words):
        ucm.solve(ucm.Hinge() + 0.1 * ucm.L1(), APART, Y, solver=_solver(Composite, answer))


def test_answers_of_inner_solvers_are_validated() -> None:
    class Inner(Solver[Composite]):
        name = "inner"

        def refuse(self, form: Composite) -> str | None:
            return None

        def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Any:
            return np.zeros(3)

    with pytest.raises(SolverError, match=r"solver 'inner': expected .*Answer"):
        ucm.solve(models.rlsvmc1(0.1), APART, Y, solver=ucm.solvers.DCA(Inner()))


@pytest.mark.parametrize("length", [1e-200, 0.5, 1.0001, 100.0, 1e200])
def test_a_dual_vector_proves_nothing_by_its_length(length: float) -> None:
    best = ucm.solve(HULLS, APART, Y)
    same = _solver(MinNorm, lambda form: Answer(best.answer.q, length * best.w))
    assert ucm.solve(HULLS, APART, Y, solver=same).status == "optimal"

    def far(form: MinNorm) -> Answer:
        q = form.centers()
        return Answer(q, np.linalg.norm(form.matvec(q)) / -best.objective * best.w)

    worse = ucm.solve(HULLS, APART, Y, solver=_solver(MinNorm, far))
    assert worse.status == "converged" and worse.certificate.primal >= best.certificate.dual - 1e-9
    assert worse.certificate.relative_gap > 0.1


def test_a_point_outside_of_the_set_does_not_prove_zero_inside() -> None:
    nowhere = _solver(MinNorm, lambda form: Answer([0.0 * v for v in form.centers()], status="max_iter"))
    found = ucm.solve(HULLS, APART, Y, solver=nowhere)
    assert found.status == "max_iter" and found.certificate.violation == 1.0


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("columns", [1, 2])
def test_lines_and_planes_beside_0_are_certified(columns: int, norm: float) -> None:
    """Directions that are not orthogonal to a line have no finite height, which says nothing about 0."""
    A = np.array([[1.0, 0.5], [0.3, -1.1], [-0.2, 0.7]])[:, :columns]
    line = ucm.AffineImage(A, ucm.Box(-np.inf, np.inf), center=pos.mean - neg.mean)
    plan = ucm.compile(ucm.RobustMargin(line, norm), APART, Y)
    found = plan.solve()
    assert found.status == "optimal" and found.objective < -0.01
    assert np.abs(A.T @ found.w).max() <= 1e-14 and plan.verify().agrees
    no_bound = _solver(MinNorm, lambda form: _centers(form, w=np.array([0.0, 0.0, 1.0])))
    lost = ucm.solve(line, APART, Y, solver=no_bound)
    assert lost.status == "converged" and lost.certificate.relative_gap > 0.01


def test_weights_without_an_upper_bound() -> None:
    for k in range(10):
        A = np.random.default_rng(k).standard_normal((3, 2))
        U = ucm.AffineImage(A, ucm.Box(0.0, np.inf), center=[5.0, 4.0, 3.0])
        plan = ucm.compile(U, APART, Y)
        found = plan.solve()
        assert found.status == "optimal" and plan.verify().agrees


def test_0_in_a_set_without_bounds() -> None:
    for k in range(5):
        A = np.random.default_rng(k).standard_normal((3, 3))
        for norm in (1.0, 2.0, np.inf):
            cone = ucm.RobustMargin(ucm.AffineImage(A, ucm.Box(0.0, np.inf)), norm)
            found = ucm.solve(cone, APART, Y)
            assert found.status in ("optimal", "zero_in_set") and abs(found.objective) <= 1e-9
            assert (A.T @ found.w >= -1e-12).all() and np.isclose(np.linalg.norm(found.w, norm), 1.0)


def test_paths_and_starts_of_domains_without_a_projection() -> None:
    A, size = RNG.standard_normal((3, 4)), ucm.Param("t", 0.9)
    for domain in (ucm.KLBall(size), ucm.LossBall(ucm.SquaredHinge(), size)):
        U = ucm.AffineImage(A, domain, center=pos.mean - neg.mean)
        assert all(s.status == "optimal" for s in ucm.path(U, APART, Y, t=[0.8, 0.9]))
        plan = ucm.compile(U, APART, Y)
        assert plan.solve(warm_start=plan.solve()).status == "optimal"
    sums = ucm.Hull(neg, weights=ucm.LossBall(ucm.Logistic(), 1.0)) + ucm.Hull(ucm.signed)
    assert ucm.solve(sums, APART, Y).status == "optimal"


def test_answers_over_the_sphere() -> None:
    best = ucm.solve(HULLS, MIXED, Y)
    assert best.status == "optimal" and best.objective > 0.0

    def solved(model: Any, X: Any, answer: Callable[[UnitNorm], Any]) -> ucm.Solution:
        return ucm.solve(model, X, Y, solver=_solver(UnitNorm, answer))

    def at(form: UnitNorm, w: Any, **parts: Any) -> Answer:
        return Answer(form.image.centers(), w, **parts)

    proof = LowerBoundProof
    half = solved(HULLS, MIXED, lambda form: Answer(best.answer.q, 0.5 * best.w))
    assert half.objective == pytest.approx(best.objective)
    assert np.linalg.norm(half.w) == pytest.approx(1.0, rel=1e-12)
    flat = np.hstack([MIXED, np.zeros((40, 1))])
    aside = np.append(0.6 * best.w, 0.8)
    refused: list[tuple[Any, Callable[[UnitNorm], Any], str]] = [
        (MIXED, lambda form: at(form, np.zeros(3)), "got 0"),
        (MIXED, lambda form: Answer(w=best.w), "q with 2 blocks"),
        (MIXED, lambda form: best.w, "Answer"),
        (MIXED, lambda form: at(form, best.w, witness=proof("points", [[np.zeros(2)]])), "witness"),
        (MIXED, lambda form: at(form, best.w, witness=proof("vertices", [[]])), "2 blocks"),
        (MIXED, lambda form: at(form, best.w, witness=proof("vertices")), "among points, rule for p = 2"),
        (flat, lambda form: at(form, aside), "a part outside"),
    ]  # fmt: skip
    for X, answer, words in refused:
        with pytest.raises(SolverError, match=words):
            solved(HULLS, X, answer)
    cube = ucm.RobustMargin(HULLS, np.inf)
    with pytest.raises(SolverError, match="among points, rule, vertices"):
        solved(cube, MIXED, lambda form: at(form, np.ones(3), witness=LowerBoundProof("sphere")))


# --- the references ----------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(12, 3), (10, 10), (8, 12)])
def test_sparse_samples_have_the_references_of_dense_ones(shape: tuple[int, int]) -> None:
    y = Y[: shape[0]]
    X = RNG.standard_normal(shape) * (RNG.random(shape) < 0.7)
    for loss in (ucm.Hinge(), ucm.SquaredHinge(), ucm.Logistic()):
        values = []
        for samples in (X, sparse.csr_matrix(X), sparse.csr_array(X)):
            plan = ucm.compile(loss + 0.5 * ucm.L2(), samples, y, class_weight=(2.0, 0.5))
            found, dual = plan.solve(), plan.dual_reference()
            dual.solve(solver="CLARABEL")
            assert found.status == "optimal" and plan.verify().agrees
            values += [found.objective, dual.value]
        assert values == pytest.approx([values[0]] * len(values), rel=1e-5)


@pytest.mark.parametrize("model", [NU, models.mm_fda(0.3), models.svm(1.0), models.psvm(1.5, 1.0)], ids=repr)
def test_verify_knows_the_tolerance_of_the_solve(model: Any) -> None:
    for tol in (0.3, 1e-2, 1e-3):
        plan = ucm.compile(model, MIXED + 0.8 * Y[:, None], Y)
        found = plan.solve(tol=tol)
        assert found.certificate.relative_gap <= tol
        assert plan.verify().agrees, (tol, str(plan.verify()))


@pytest.mark.parametrize("lam", [1e-6, 1e-9])
def test_verification_allows_for_the_accuracy_of_the_reference(lam: float) -> None:
    """The smooth loss tends to 0: both values are far below the tolerance of the reference."""
    plan = ucm.compile(ucm.Logistic() + lam * ucm.L2(), MIXED + 3.0 * Y[:, None], Y)
    assert plan.solve().status == "optimal" and plan.verify().agrees


# --- fields of a node of one's own --------------------------------------------------------------------
def test_whole_numbers_stay_whole() -> None:
    class Sized(ucm.language.node.Node):  # type: ignore[name-defined, misc]
        k: int
        groups: tuple[int, ...] = (1, 2)
        anything: Any = 3
        share: float = 1.0

        def formula(self, notation: Any) -> str:
            return "k"

    found: Any = Sized(2, (0, np.int64(5)), 4, 2)  # type: ignore[arg-type]
    assert [type(x) for x in (found.k, *found.groups, found.anything, found.share)] == [
        int, int, int, int, float,
    ]  # fmt: skip
    again: Any = ucm.from_json(ucm.to_json(found))
    assert again == found and type(again.k) is int and type(again.groups[1]) is int
    assert type(Sized(3.0).k) is int  # type: ignore[arg-type, attr-defined]
    with pytest.raises(CompositionError, match=r"expected a whole number, got 2\.5"):
        Sized(2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("ragged", [[[1.0], [1.0, 2.0]], [1.0, [2.0]], [1j, 2.0]])
def test_ragged_lists_have_a_named_error(ragged: Any) -> None:
    class Table(ucm.language.node.Node):  # type: ignore[name-defined, misc]
        entries: Any

        def formula(self, notation: Any) -> str:
            return "entries"

    with pytest.raises(UCMError, match="real numbers"):
        Table(ragged)


@pytest.mark.parametrize("norm", [1.5, 3.0])
@pytest.mark.parametrize("solver", ["auto", "level-set"])
def test_couplings_whose_squares_overflow_prove_nothing(norm: float, solver: str) -> None:
    far = ucm.Ball([1.6, -1e300, 0.0], 1.4, 1.001) + ucm.Ball([-0.1, -0.1, 0.0], 1.0)
    with np.errstate(all="ignore"):
        solution = ucm.solve(
            ucm.RobustMargin(far & ucm.Ball([0.0, 0.0, 0.0], 2.0), norm), APART, Y, solver=solver
        )
    assert solution.status not in ("optimal", "converged")


@pytest.mark.parametrize("power", [-160, -153, 153, 160])
@pytest.mark.parametrize("solver", ["auto", "apg", "ssnal-cg", "clarabel"])
def test_powers_that_are_no_numbers_leak_no_warning(power: int, solver: str) -> None:
    """Warnings are errors here. An answer that is called one is that of the samples in other units."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), np.where(np.arange(12) < 6, 1.0, -1.0)
    X += 2.0 * y[:, None]
    hulls = ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg)
    declared = [
        hulls, ucm.RobustMargin(hulls, 1.5), ucm.models.l2_nu_svm(0.5), ucm.models.kl_svm(0.5),
        ucm.SquaredHinge() + ucm.L2(), ucm.Logistic() + 0.1 * ucm.L1(),
    ]  # fmt: skip
    for model in declared:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                sol = ucm.solve(model, X * 10.0**power, y, solver=solver)
            except UCMError:
                continue
        if sol.status == "optimal" and not isinstance(model, ucm.Objective):
            usual = ucm.solve(model, X, y)
            assert sol.objective == pytest.approx(usual.objective * 10.0**power, rel=1e-5), model


def test_squares_that_overflow_in_a_kernel_have_a_name() -> None:
    X, y = np.array([[1e160], [-1e160], [2e160]]), np.array([1.0, -1.0, 1.0])
    with pytest.raises(ucm.errors.DataError, match="squares overflow; scale the features"):
        ucm.solve(ucm.models.nu_svm(0.5), X, y, kernel="rbf")


def test_an_empty_intersection_names_larger_sizes() -> None:
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    with pytest.raises(ucm.EmptySetError, match="Make one of the sets that meet larger"):
        ucm.solve(ucm.Ball([1.0, 1.0], 0.5) & ucm.Ball([-1.0, -1.0], 0.5), X, y)


def test_ten_million_sparse_features_take_no_vectors_of_them() -> None:
    """A vector over the features is 80 MB, a system of that order more than there is."""
    rng = np.random.default_rng(0)
    entries = rng.normal(1.0, 1.0, 600), (np.repeat(np.arange(30), 20), rng.integers(0, 10**7, 600))
    X, y = sparse.csr_matrix(entries, shape=(30, 10**7)), np.where(np.arange(30) < 15, 1.0, -1.0)
    used = np.unique(X.indices)
    for model in (ucm.models.coherent_mm_mpm(0.3), ucm.models.mm_mpm(0.3)):
        sol, few = ucm.solve(model, X, y), ucm.solve(model, X[:, used].toarray(), y)
        assert sol.status == few.status == "optimal" and sol.w.shape == (10**7,)
        assert sol.objective == pytest.approx(few.objective, rel=1e-6)


@pytest.mark.parametrize("norm", [1.5, 2.0, 3.0])
def test_sums_that_cancel_to_rounding_contradict_nothing(norm: float) -> None:
    """All samples are one: half of it less half of it is 0, but for the rounding of nine weights."""
    X, y = np.full((10, 1), 1.5), np.where(np.arange(10) < 1, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sol = ucm.solve(ucm.RobustMargin(ucm.Hull(ucm.signed), norm), X, y)
    assert sol.status != "optimal" and abs(sol.objective) <= 1e-15
