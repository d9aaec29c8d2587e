"""
Rows on a cluster
=================

Fit a nu-SVM to a Dask array that is larger than the memory of any machine: the workers keep their blocks, a
pass is one message to each worker, and the certificate covers all rows. Needs
`pip install 'ucm-classifiers[dask]'`. On a cluster replace LocalCluster by its address: `Client("tcp://scheduler:8786")`.
"""

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import ucm

ROWS, BLOCKS = 25_000, 8


def block(number: int) -> np.ndarray:
    """Labels and samples; of a file its part."""
    rng = np.random.default_rng(number)
    y = np.where(rng.random(ROWS) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((ROWS, 10))
    X[:, 0] += 1.5 * y
    return np.column_stack([y, X])


def main() -> None:
    parts = [dask.delayed(block)(k) for k in range(BLOCKS)]
    table = da.concatenate([da.from_delayed(part, (ROWS, 11), float) for part in parts])
    X, y = table[:, 1:], table[:, 0]

    solution = ucm.solve(ucm.models.nu_svm(0.4), X, y)
    print(solution.certificate)
    print(solution.stats.reads, "rounds over", X.shape[0], "rows")

    classifier = ucm.Classifier(ucm.models.nu_svm(0.4)).fit(X, y)
    answers = classifier.predict(X)  # a Dask array, not computed yet
    print(answers)
    print("accuracy", float(classifier.score(X, y)))


if __name__ == "__main__":
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        main()
