"""`audit` and `from_estimator`: the answer of another solver beside the proven optimum of its problem."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.audits.reading import Answer, Options, Statement
from ucm.audits.registry import Part, family_of, innermost, not_fitted, parts_of
from ucm.audits.report import Audit, AuditedProblem
from ucm.compiler.compile import compile
from ucm.data.gram import Expansion
from ucm.data.kernels import kernel_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import TOLERANCE
from ucm.data.validation import part_of, read_weights, table
from ucm.data.weights import class_factors
from ucm.errors import ConvergenceWarning, DataError, ParameterError, brief, silenced
from ucm.language.contracts import SampleWeights, UncertaintySet
from ucm.language.domains import CappedSimplex
from ucm.language.objective import Objective
from ucm.language.terms import ConvexLoss

_COMPARED = 50  # samples whose scores are compared with decision_function
_NOTHING = 1e-6  # of the value of an answer, an optimum that counts as 0
_OUTSIDE = 1e-6  # of the largest multiplier, beyond which one breaks its constraints
_SAME = 1e-3  # relative difference of scores in single precision
_USED = 1e-6  # of the largest entry of w: a feature that is in use
_MEETING = (
    "the reduced hulls of the classes meet, so that the optimum is w = 0, and the answer a direction left by "
    "rounding; raise nu, to the interval of ucm.admissible"
)
_ENDLESS = (
    "no minimum is attained, as the samples are separated and the loss falls towards 0 as w grows; add a "
    "penalty, as a finite C"
)


def audit(
    estimator: object,
    X: object,
    y: object,
    sample_weight: object = None,
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
    **params: object,
) -> Audit:
    """Compare the answer of a fitted estimator with the proven optimum of its problem.

    The parameters of the estimator give the declaration, its fitted attributes the answer. The value of the
    answer is an upper bound of the optimum, its multipliers, if it has any, give a lower bound, and a solve
    proves the interval of the optimum. It knows `LinearSVC`, `SVC`, `NuSVC`, `LogisticRegression`,
    `SGDClassifier`, `RidgeClassifier` and the CV variants of scikit-learn, classes of the same names and
    attributes (scikit-learn-intelex, cuML, thundersvm), skglm's classifiers, models of LIBLINEAR and LIBSVM,
    and pipelines, searches, `OneVsRestClassifier` and `OneVsOneClassifier` of these.

    Parameters
    ----------
    estimator : object
        A fitted estimator, a model of the packages `liblinear` or `libsvm`, or the path of its text file.
    X, y : (m, n) table, (m,) labels
        Those of the fit, before the transforms of a pipeline.
    sample_weight : (m,) array, optional
        The weights of the fit.
    tol : float, optional
        The relative gap up to which an answer is optimal.
    time_limit : float, optional
        Seconds for the solve of each two-class problem.
    **params
        Of a file: C or nu, which it does not hold; of a plain model and a file also class_weight.

    Raises
    ------
    ParameterError
        An unknown class, or a parameter whose problem has no declaration; the remedy is `Plan.certify`.
    DataError
        The estimator is not fitted, or X and y are not the samples and labels of its fit.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.svm import LinearSVC
    >>> X, y = ucm.datasets.load("wine")
    >>> report = ucm.audit(LinearSVC(tol=1e-10, dual=False, max_iter=10_000).fit(X, y), X, y)
    >>> report.optimal, report[0].loose
    (True, 'none')
    """
    TOLERANCE.check("audit", "tol", tol, "leave it out for 1e-6")
    y = np.asarray(y)
    weights = read_weights(sample_weight, y.size)
    parts = parts_of(estimator, X, y, params)
    found, notes = [], []
    for part in parts:
        weigh = None if weights is None else weights[part.rows]
        rows, note = _audited(part, weigh, tol, time_limit)
        found, notes = found + rows, [*notes, note]
    text = str(estimator) if isinstance(estimator, str) else brief(estimator).partition(" object at ")[0]
    return Audit(text, tuple(found), next(filter(None, notes), ""))


def from_estimator(estimator: object, m: float | None = None) -> Objective | UncertaintySet:
    """Return the declaration of the problem that the parameters of an estimator state.

    Kernels and weights of classes are options of `ucm.compile` and `ucm.Classifier` by the same names, not
    parts of a declaration. The set of `NuSVC` has a w of length 1; LIBSVM divides w and b by the margin rho,
    so that its scores are those of a `Classifier` divided by `solution_.rho`. If m nu / 2 is an integer, an
    interval of values of b may be optimal, of which the two solvers may return different ones.

    Parameters
    ----------
    estimator : object
        As in `audit`, fitted or not.
    m : float, optional
        The number of samples, which divides the mean loss of `SGDClassifier` and of skglm. A fitted
        `SGDClassifier` knows it; after `partial_fit` it is that of all calls.

    Raises
    ------
    ParameterError
        An unknown class, a parameter whose problem has no declaration, or a mean loss without m.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.svm import SVC
    >>> ucm.from_estimator(SVC(C=10.0))
    10 * Hinge() + 0.5 * L2()
    >>> ucm.from_estimator(LogisticRegression(C=0.5, l1_ratio=1.0, solver="saga"))
    0.5 * Logistic() + L1()
    """
    inner = innermost(estimator)
    statement = family_of(inner).state(inner)
    if m is None and hasattr(inner, "t_"):
        m = round((inner.t_ - 1.0) / np.max(inner.n_iter_))  # updates, one a sample and an epoch
    if statement.mean and m is None:
        raise ParameterError(
            f"from_estimator: m: expected the number of samples, by which {type(inner).__name__} divides its "
            "loss, got none; write from_estimator(estimator, m=len(y))"
        )
    return statement.declared(1.0 if m is None else m)


def _audited(
    part: Part, weights: Vec | None, tol: float, time_limit: float | None
) -> tuple[list[AuditedProblem], str]:
    """Return the problems of one estimator, and a note on its fit."""
    estimator, X, y = part.estimator, table(part.X), part.y
    family = family_of(estimator)
    statement = family.state(estimator)
    for name in (family.fitted, "classes_"):
        if not hasattr(estimator, name):
            raise not_fitted(estimator, name)
    if X.shape[0] != y.size:
        raise DataError(f"audit: y: expected a label for each of {X.shape[0]} samples, got {y.size} labels")
    classes = np.asarray(estimator.classes_)
    if set(np.unique(y).tolist()) != set(classes.tolist()):
        raise DataError(
            f"audit: y: expected the labels of the fit, {brief(classes.tolist())}, got "
            f"{brief(np.unique(y).tolist())}; give the labels that the estimator saw"
        )
    if weights is None or weights.all() or not family.drops:
        answers = family.answers(estimator, X)
    else:
        kept = np.flatnonzero(weights)
        answers = [answer.among(kept, y.size) for answer in family.answers(estimator, X[kept])]
    if len(answers) == 1:
        answers = [_oriented(answers[0], part, statement, X)]
    options = dict(statement.kernel)
    if isinstance(options.get("gamma"), str):
        options["gamma"] = kernel_of(options["kernel"], X, gamma=options["gamma"])[0].gamma  # of all classes
    problems = []
    for answer in answers:
        rows, signs, factors = _problem(answer, statement, classes, y, weights)
        name = part.name
        if len(answers) > 1:
            against = "the rest" if answer.negative < 0 else str(classes[answer.negative])
            name = f"{name} {classes[answer.positive]} against {against}".strip()
        model = statement.declared(float(y.size))
        inside = X if rows.size == y.size else X[rows]
        if options.get("kernel") == "precomputed":
            inside = inside[:, rows]
        problems.append(
            _compared(name, model, answer.over(rows), inside, signs, factors, options, tol, time_limit)
        )
    most, done = getattr(estimator, "max_iter", None), getattr(estimator, "n_iter_", None)
    used = most is not None and done is not None and np.max(done) >= most > 0
    return problems, f"the fit used up max_iter={most}" if used else statement.note


def _problem(
    answer: Answer, statement: Statement, classes: NDArray, y: NDArray, weights: Vec | None
) -> tuple[NDArray[np.intp], Vec, Vec | None]:
    """Return the samples of a two-class problem, their signs, and their weights with those of the classes."""
    positive = y == classes[answer.positive]
    inside = (
        np.ones(y.size, dtype=bool) if answer.negative < 0 else positive | (y == classes[answer.negative])
    )
    rows, factors = np.flatnonzero(inside), weights
    if statement.class_weight is not None:
        counted = weights if statement.weighted and weights is not None else np.ones(y.size)
        totals = [float(counted[y == label].sum()) for label in classes]
        each = class_factors(statement.class_weight, classes.tolist(), totals)
        c = np.select([y == label for label in classes], each)
        if answer.negative < 0 and not statement.rest:
            c = np.where(positive, c, 1.0)
        factors = c if weights is None else c * weights
    return rows, np.where(positive, 1.0, -1.0)[rows], None if factors is None else factors[rows]


def _compared(
    name: str, model: Any, answer: Answer, X: Matrix, y: Vec, weights: Vec | None, options: Options,
    tol: float, time_limit: float | None,
) -> AuditedProblem:  # fmt: skip
    """Return an answer beside the optimum: certify it, solve the problem, and compare."""
    plan = compile(model, X, y, sample_weight=weights, **options)
    name_of_w, w = answer.unknowns
    given: dict[str, Any] = {name_of_w: w}
    c, multipliers = answer.coefficients, answer.multipliers
    if multipliers is None and c is not None:
        multipliers = y * c
    scores, is_set = _scores(answer, X, options), isinstance(model, UncertaintySet)
    if is_set and c is not None:
        certificate = plan.certify(**given, weights=_normalised(multipliers, y))
        norm = np.sqrt(max(float(c @ (scores - answer.b)), 1e-300))
        counted = slice(None) if weights is None else weights > 0.0
        losses = (-y * scores / norm)[counted]
        samples = SampleWeights(losses.size, None if weights is None else weights[counted])
        cap = CappedSimplex(1.0 / (samples.total * model.params()["nu"])).bind(samples)
        height = 2.0 * cap.support(losses)[0]
        primal = max(certificate.primal, height)  # the certificate has the best b, this is its own
    else:
        certificate = plan.certify(**given, b=answer.b, weights=multipliers)
        primal = certificate.primal
    bound = None
    if multipliers is not None:  # a certificate repairs a point outside; here it is part of the answer
        bound = certificate.dual if _feasible(multipliers, model, y, weights) else -np.inf
    with silenced(ConvergenceWarning):
        solution = plan.solve(tol=tol / 10.0, time_limit=time_limit, bound=False)
    proof, message = solution.certificate, "" if solution.status == "optimal" else solution.message
    lower, upper = max(proof.dual, certificate.dual), min(proof.primal, primal)
    if is_set:
        if upper >= 0.0 or (message and -upper < _NOTHING * abs(primal)):
            lower, message = -np.inf, _MEETING  # of LIBSVM's convex problem, which has w = 0 as a point
    elif solution.status == "unattained" or (upper < _NOTHING * primal and not model.penalty.value(w)):
        lower, message = -np.inf, _ENDLESS
    v: Any = solution.coefficients if solution.w is None else solution.w
    return AuditedProblem(
        name, model, primal, bound, lower, upper, tol, _count(w), _count(v), w.size,
        _accuracy(y, scores), _accuracy(y, solution.decision(X)), message,
    )  # fmt: skip


def _scores(answer: Answer, X: Matrix, options: Options) -> Vec:
    """Return the scores of an answer at the samples X of its problem."""
    if answer.w is not None:
        return np.asarray(X @ answer.w).ravel() + answer.b
    kernel = kernel_of(options["kernel"], X, **{k: v for k, v in options.items() if k != "kernel"})[0]
    return Expansion.of(kernel, X, answer.unknowns[1]).scores(X) + answer.b


def _oriented(answer: Answer, part: Part, statement: Statement, X: Matrix) -> Answer:
    """Return the answer with the signs of `decision_function`, positive for `classes_[1]`."""
    estimator, given = part.estimator, part.X
    if not hasattr(estimator, "decision_function"):
        return answer
    scores = _scores(replace(answer, b=0.0), X, statement.kernel)[:_COMPARED]
    wanted = np.ravel(estimator.decision_function(part_of(given, np.arange(scores.size))))
    for sign, turned in product((1.0, -1.0), repeat=2):
        if np.allclose(
            sign * scores + turned * answer.b, wanted, rtol=_SAME, atol=_SAME * np.abs(wanted).max()
        ):
            w, c = (None if v is None else sign * v for v in (answer.w, answer.coefficients))
            return replace(answer, b=turned * answer.b, w=w, coefficients=c)
    raise DataError(
        f"audit: {type(estimator).__name__}: expected coefficients and intercept that give "
        "decision_function, got other scores; give the samples of the fit, or restore its attributes"
    )


def _feasible(multipliers: Vec, model: Objective | UncertaintySet, y: Vec, weights: Vec | None) -> bool:
    """True if the multipliers are between 0 and the largest slope of the loss, and balanced for a free b.

    The caps of a set are tested by its certificate.
    """
    top, balance = float(np.abs(multipliers).max(initial=0.0)), abs(float(y @ multipliers))
    slack, free, slope = _OUTSIDE * top, True, None
    if isinstance(model, Objective):
        free = model.intercept == "free"
        slope = model.loss.slope() if isinstance(model.loss, ConvexLoss) else None
    caps = np.inf if slope is None else slope * (1.0 if weights is None else weights)
    inside = (multipliers >= -slack) & (multipliers <= caps + slack)
    return bool(inside.all()) and not (free and balance > slack * np.sqrt(y.size))


def _normalised(multipliers: Vec | None, y: Vec) -> Vec | None:
    """Return the multipliers with the sum 1 for each class, the weights of reduced hulls."""
    if multipliers is None:
        return None
    totals = [multipliers[y == sign].sum() for sign in (1.0, -1.0)]
    return multipliers / np.where(y > 0.0, *totals) if all(totals) else multipliers


def _accuracy(y: Vec, scores: Vec) -> float:
    return float(np.mean((scores > 0.0) == (y > 0.0)))


def _count(v: Vec) -> int:
    return int(np.count_nonzero(np.abs(v) > _USED * np.abs(v).max(initial=0.0)))
