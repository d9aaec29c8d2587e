"""Probabilities of the classes, by scikit-learn's calibration of decision values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from ucm.errors import DataError

__all__ = ["agreeing", "calibrated"]

_HAIR = 1e-6


def calibrated(classifier: Any, X: Any, y: NDArray[Any], of_samples: dict[str, Any]) -> Any:
    """Sigmoids of the decision values, by cross-validation over at most five folds; one for each class,
    so that for two classes probabilities are in the order of the decision values. What each sample
    has goes to every fit, its weight also to the sigmoids.

    Raises
    ------
    DataError
        A class has a single sample, which no fold can leave out.
    """
    from sklearn.calibration import CalibratedClassifierCV  # half a second, of few users

    rarest = int(np.unique(y, return_counts=True)[1].min())
    if rarest < 2:
        raise DataError(
            "Classifier: probability=True holds samples of every class back to calibrate on, and a "
            f"class has 1 sample (n_samples={y.size}, n_features={X.shape[1]}); add samples, or leave "
            "probability out"
        )
    one: Any = False  # sigmoid for a class, which the stubs of scikit-learn take for a string
    calibration = CalibratedClassifierCV(classifier, cv=min(5, rarest), ensemble=one)
    given = {name: of for name, of in of_samples.items() if of is not None}
    if not given:
        return calibration.fit(X, y)
    with config_context(enable_metadata_routing=True):
        classifier.set_fit_request(**dict.fromkeys(given, True))
        return calibration.fit(X, y, **given)


def agreeing(probabilities: NDArray[np.float64], answer: NDArray[np.intp]) -> NDArray[np.float64]:
    """Probabilities whose largest entry is the answer: where it is not, the answer and all that are
    above it get their mean, the answer a hair more; the less, the further it was below.

    scikit-learn asks this of every classifier: `check_classifiers_train` compares `predict` with the
    largest of `predict_proba`. A sigmoid crosses 1/2 near 0, not at 0, so calibration alone fails that
    check on its two overlapping clusters, as scikit-learn's own `SVC(kernel="linear",
    probability=True)` does.
    """
    P = probabilities.copy()
    other = np.flatnonzero(P.argmax(axis=1) != answer)
    k, part = answer[other], P[other]
    own = part[np.arange(k.size), k][:, None]
    above = part >= own
    count = above.sum(axis=1, keepdims=True)
    mean = (part * above).sum(axis=1, keepdims=True) / count
    hair = _HAIR * own
    part = np.where(above, mean - hair, part)
    part[np.arange(k.size), k] = (mean + (count - 1) * hair)[:, 0]
    P[other] = part
    return P
