"""Plain models of LIBLINEAR and LIBSVM, as text files or of their Python packages, in scikit-learn's terms.

A model has its labels in the order of the samples, and a positive score means the first of two. A file has no
C and no weights of classes, which are given beside it. Support vectors stand there with 8 digits.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from ucm.audits.reading import Estimator, Options, dense
from ucm.data.linear_map import Matrix
from ucm.errors import DataError, ParameterError, unknown_option

_OPTIONS = ("C", "nu", "class_weight")
_LOSSES = {"L2LOSS_SVC": "squared_hinge", "L1LOSS_SVC": "hinge", "LR": "log"}
_KERNELS = {"polynomial": "poly"}
_ROUNDING = 1e-6  # of support vectors in a file, relative to the largest entry


def _named(kind: str, **attributes: object) -> SimpleNamespace:
    """Return an object with the attributes of a fitted estimator, whose class has the name `kind`."""
    return type(kind, (SimpleNamespace,), {})(**attributes)


def of_package(model: Estimator, X: Matrix, params: Options) -> Estimator:
    """Return a model of the package `libsvm` or `liblinear` by its saved text, and the weights of classes."""
    p, kind = model.param, type(model).__name__
    package = sys.modules[type(model).__module__]
    save = package.libsvm.svm_save_model if kind == "svm_model" else package.liblinear.save_model
    if p.nr_weight and "class_weight" not in params:
        raise ParameterError(
            f"audit: {kind}: expected the {p.nr_weight} weights of classes, which its package frees after "
            "the training, got none; write audit(model, X, y, class_weight={label: weight})"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        if save(str(path).encode(), model):
            raise DataError(f"audit: {kind}: expected a model that its package can save, got an error")
        return of_file(path, X, {"C": p.C, "nu": p.nu, **params})


def of_file(path: str | Path, X: Matrix, params: Options) -> Estimator:
    """Return the model of a text file over the samples X; `params` has C or nu, and class_weight."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"audit: {path}: expected a text file of a model, got {error}; name one") from error
    at = next((k for k, line in enumerate(lines) if line.strip() in ("w", "SV")), len(lines))
    head = {name: rest for name, _, rest in (line.partition(" ") for line in lines[:at])}
    if not {"solver_type", "svm_type"} & set(head):
        raise DataError(f"audit: {path}: expected a model file of LIBLINEAR or LIBSVM, got another format")
    if unknown := set(params) - {*_OPTIONS}:
        raise unknown_option("audit", unknown, _OPTIONS)
    needed = "nu" if head.get("svm_type") == "nu_svc" else "C"
    if needed not in params:
        raise ParameterError(
            f"audit: {path}: expected {needed}, which the file does not hold, got none; write "
            f"audit(path, X, y, {needed}=...) with the value of the training"
        )
    read = _liblinear if "solver_type" in head else _libsvm
    labels = np.array(head.get("label", "").split(), dtype=float)
    labels = labels.astype(int) if (labels == np.round(labels)).all() else labels
    common = {"class_weight": None, **params, "classes_": labels}
    return read(head, [line.split() for line in lines[at + 1 :] if line.strip()], X, common)


def _liblinear(head: dict[str, str], rows: list[list[str]], X: Matrix, common: Options) -> Estimator:
    penalty, _, name = head["solver_type"].partition("R_")
    loss, bias = _LOSSES.get(name.removesuffix("_DUAL"), ""), float(head["bias"])
    if not loss or penalty not in ("L1", "L2"):
        raise ParameterError(
            f"audit: {head['solver_type']}: expected a classifier of two classes "
            "at a time, got another problem; certify it by ucm.compile(model, X, y).certify(w=, b=)"
        )
    W = np.array(rows, dtype=float).T
    if len(W) == 1:
        W = -W  # scikit-learn's scores are positive for the second label
    W, b = (W[:, :-1], bias * W[:, -1]) if bias >= 0.0 else (W, np.zeros(len(W)))
    W = np.pad(W, ((0, 0), (0, max(0, X.shape[1] - W.shape[1]))))  # features that are 0 in all samples
    return _named(
        "LiblinearLogistic" if loss == "log" else "LiblinearSVC",
        loss=loss, penalty=penalty.lower(), solver="liblinear", multi_class="ovr", fit_intercept=bias > 0.0,
        intercept_scaling=bias, l1_ratio=0.0, coef_=W, intercept_=b, **common,
    )  # fmt: skip


def _libsvm(head: dict[str, str], rows: list[list[str]], X: Matrix, common: Options) -> Estimator:
    kind = {"c_svc": "LibsvmSVC", "nu_svc": "LibsvmNuSVC"}.get(head["svm_type"])
    if kind is None:
        raise ParameterError(
            f"audit: svm_type: expected c_svc or nu_svc, got {head['svm_type']}; train a classifier"
        )
    kernel, k = _KERNELS.get(head["kernel_type"], head["kernel_type"]), common["classes_"].size
    given = kernel == "precomputed"
    V = np.zeros((len(rows), 1 if given else X.shape[1]))
    for v, row in zip(V, rows, strict=True):
        for index, _, number in (entry.partition(":") for entry in row[k - 1 :]):
            if int(index) - (not given) >= v.size:
                raise DataError(f"audit: X: expected feature {index} of the model, got {v.size} features")
            v[int(index) - (not given)] = float(number)
    C, b = np.array([row[: k - 1] for row in rows], dtype=float).T, -np.array(head["rho"].split(), float)
    sign = -1.0 if k == 2 else 1.0  # as above
    support = V[:, 0].astype(int) - 1 if given else _places(V, dense(X))
    return _named(
        kind, kernel=kernel, gamma=float(head.get("gamma", 0.0)), coef0=float(head.get("coef0", 0.0)),
        degree=int(head.get("degree", 0)), support_=support, support_vectors_=X[support],
        n_support_=np.array(head["nr_sv"].split(), int), dual_coef_=sign * C, intercept_=sign * b, **common,
    )  # fmt: skip


def _places(V: NDArray[np.float64], X: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the sample of each support vector, each sample once; raise `DataError` if there is none."""
    free, found = np.ones(len(X), dtype=bool), np.empty(len(V), dtype=np.intp)
    for k, v in enumerate(V):
        away = np.where(free, np.abs(X - v).max(axis=1), np.inf)
        found[k] = np.argmin(away)
        if not away[found[k]] <= _ROUNDING * float(np.abs(V).max()):
            raise DataError(
                f"audit: X: expected the samples of the training, got none that is support vector {k}; give "
                "them as they were trained, scaled or not"
            )
        free[found[k]] = False
    return found
