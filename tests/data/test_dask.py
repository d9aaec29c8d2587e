"""Dask arrays and frames, beside the same samples in memory."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from row_samples import ObservedSource, samples
from scipy import sparse

import ucm
from ucm import neg, pos

dask: Any = pytest.importorskip("dask", reason="needs pip install 'ucm-classifiers[dask]'")
da: Any = pytest.importorskip("dask.array", reason="needs pip install 'ucm-classifiers[dask]'")
distributed: Any = pytest.importorskip("distributed", reason="needs pip install 'ucm-classifiers[dask]'")

NU = ucm.models.nu_svm(0.4)
MODELS = {
    "nu": NU,
    "factors": 2.0 * ucm.ReducedHull(pos, nu=0.4) - 0.5 * ucm.ReducedHull(neg, nu=0.4),
    "mm-mpm": ucm.models.mm_mpm(0.5),
}


# without a network the scheduler asks in vain for the own address, and takes the name of the machine
pytestmark = pytest.mark.filterwarnings("ignore:Couldn't detect a suitable IP address:RuntimeWarning")


def lazy(X: Any, y: Any, rows: Any = 300) -> tuple[Any, Any]:
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers that are threads of this process."""
    options = {"processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster


@pytest.fixture(params=["workers", "here"])
def client(request: Any) -> Iterator[Any]:
    """The current client, or that there is none."""
    if request.param == "here":
        yield None
        return
    with distributed.Client(request.getfixturevalue("cluster")) as client:
        yield client


@pytest.fixture
def workers(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("name", MODELS)
def test_answers_agree_with_memory(name: str, client: Any) -> None:
    X, y = samples(2000)
    memory, rows = ucm.solve(MODELS[name], X, y), ucm.solve(MODELS[name], *lazy(X, y))
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.b == pytest.approx(memory.b, abs=3e-3)
    assert rows.w == pytest.approx(memory.w, abs=3e-3)


def test_weights_are_in_the_order_of_the_rows(client: Any) -> None:
    X, y = samples(2000)
    rows = ucm.solve(NU, *lazy(X, y, (700, 0, 300, 1000)))
    assert "weights" not in vars(rows)
    weights: Any = rows.weights
    assert rows.x == pytest.approx(X.T @ (y * weights), abs=1e-12)
    again = pickle.loads(pickle.dumps(ucm.solve(NU, *lazy(X, y))))
    assert again.status == "optimal"


def test_folds_do_not_move_the_samples(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search over an array of Dask, whose samples never come whole."""
    X, y = samples(1200)
    lazy_X, lazy_y = lazy(X, y)

    def whole(*_: Any, **__: Any) -> None:
        raise AssertionError("the samples were computed in this process")

    monkeypatch.setattr(type(lazy_X), "__array__", whole)
    monkeypatch.setattr(type(lazy_X), "compute", whole)
    values = [1e-4, 1.0]
    search = ucm.ClassifierCV(ucm.models.svm(1.0), param_range=values, cv=3).fit(lazy_X, lazy_y)
    svm = [ucm.models.svm(1.0)]
    found = ucm.compare(svm, lazy_X, lazy_y, cv=3, progress=False)
    monkeypatch.undo()
    memory = ucm.ClassifierCV(ucm.models.svm(1.0), param_range=values, cv=3).fit(X, y)
    assert search.n_splits_ == 3
    means = [s.cv_results_["mean_test_score"] for s in (search, memory)]
    assert means[0] == pytest.approx(means[1], abs=0.02)
    assert float(search.score(lazy_X, lazy_y)) == pytest.approx(memory.score(X, y), abs=0.01)
    assert found[0].score == pytest.approx(ucm.compare(svm, X, y, cv=3, progress=False)[0].score, abs=0.02)


def test_scores_of_frames_from_files(client: Any, tmp_path: Any) -> None:
    """A column read by itself has other blocks than the columns of the features."""
    frames: Any = pytest.importorskip("dask.dataframe")
    pandas: Any = pytest.importorskip("pandas")
    X, y = samples(900)
    names = ["p", "q", "r", "s"]
    table = pandas.DataFrame(X, columns=names).assign(grade=y, w=np.arange(900) % 3 + 1.0)
    for k in range(3):
        table[300 * k : 300 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    frame = frames.read_parquet(tmp_path)
    clf = ucm.Classifier(ucm.models.psvm()).fit(frame[names], frame["grade"])
    right = np.sign(X @ clf.coef_[0] + clf.intercept_) == y
    for X_of, y_of in (
        (frame, "grade"),
        (frame, frame["grade"]),
        (frame[names], frame["grade"]),
        (lazy(X, y)[0], y),
    ):
        assert float(clf.score(X_of, y_of)) == right.mean()
    weighed = np.average(right, weights=table["w"])
    for w in ("w", frame["w"]):
        assert float(clf.score(frame, "grade", sample_weight=w)) == pytest.approx(weighed, rel=1e-12)
    logistic = ucm.Classifier(ucm.Logistic() + ucm.L2()).fit(X, y)
    found: Any = logistic.predict_proba(lazy(X, y)[0])
    assert found.compute() == pytest.approx(logistic.predict_proba(X))


def test_few_columns_of_wide_files(tmp_path: Any) -> None:
    """Dask joins blocks of files of which it reads few columns: there are fewer than the frame says."""
    frames: Any = pytest.importorskip("dask.dataframe")
    pandas: Any = pytest.importorskip("pandas")
    X, y = samples(900)
    names = ["p", "q", "r", "s"]
    others = {name: np.arange(900) * 1.0 for name in "tuv"}
    table = pandas.DataFrame(X, columns=names).assign(grade=y, **others)
    for k in range(2):
        table[450 * k : 450 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    frame = frames.read_parquet(tmp_path)
    clf = ucm.Classifier(ucm.models.psvm()).fit(frame[names], frame["grade"])
    right = np.sign(X @ clf.coef_[0] + clf.intercept_) == y
    assert float(clf.score(frame[names], frame["grade"])) == right.mean() > 0.5


def test_a_source_tells_and_gathers(client: Any) -> None:
    X, y = samples(500)
    source = ucm.open_rows(*lazy(X, y, 70))
    assert (source.m, source.n, source.nbytes) == (500, 4, 16000)
    assert source.labels().tolist() == [-1.0, 1.0]
    found = source.gather()
    assert np.array_equal(found[0], X) and np.array_equal(found[1], y)


def test_parts_of_blocks_change_nothing(workers: Any) -> None:
    X, y = samples(2000)
    whole = ucm.solve(NU, *lazy(X, y, 1000))
    parts = ucm.solve(NU, ucm.open_rows(*lazy(X, y, 1000), block=77))
    assert parts.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize("kind", ["memory", "other chunks", "unknown", "csr", "float32", "words"])
def test_kinds_of_samples_and_labels(kind: str, client: Any) -> None:
    X, y = samples(2000)
    lazy_X, lazy_y = lazy(X, y)
    if kind == "memory":
        lazy_y = y.tolist()
    elif kind == "other chunks":
        lazy_y = da.from_array(y, chunks=450)
    elif kind == "unknown":
        keep = da.from_array(np.arange(y.size) % 3 > 0, chunks=300)
        lazy_X, lazy_y = lazy_X[keep], lazy_y[keep]
        X, y = X[np.arange(y.size) % 3 > 0], y[np.arange(y.size) % 3 > 0]
        assert np.isnan(lazy_X.shape[0])
    elif kind == "csr":
        X = np.where(np.abs(X) > 0.3, X, 0.0)
        lazy_X = da.from_array(X, chunks=(300, 4)).map_blocks(sparse.csr_matrix)
    elif kind == "float32":
        lazy_X, X = lazy_X.astype(np.float32), X.astype(np.float32).astype(np.float64)
    memory = ucm.solve(NU, X, y)
    if kind == "words":
        words = da.where(lazy_y > 0, "yes", "no")
        classifier = ucm.Classifier(NU).fit(lazy_X, words)
        assert classifier.classes_.tolist() == ["no", "yes"]
        assert -classifier.solution_.objective == pytest.approx(-memory.objective, rel=2e-6)
        return
    rows = ucm.solve(NU, lazy_X, lazy_y)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_labels_in_one_block_only(client: Any) -> None:
    X, y = samples(2000)
    order = np.argsort(-y, kind="stable")
    rows = ucm.solve(NU, *lazy(X[order], y[order]))
    assert rows.objective == pytest.approx(ucm.solve(NU, X, y).objective, rel=2e-6)


@pytest.mark.parametrize("kind", ["lazy", "in memory", "frame", "other chunks"])
def test_weights_and_groups_agree_with_memory(kind: str, client: Any) -> None:
    X, y = samples(2000)
    rng = np.random.default_rng(1)
    c, g = rng.integers(0, 3, y.size).astype(float), rng.integers(0, 2, y.size)
    model = ucm.ReducedHull(pos.group(1), eta=0.01) - ucm.ReducedHull(neg, nu=0.3)
    memory = ucm.solve(model, X, y, sample_weight=c, subgroup=g)
    tags: dict[str, Any] = {"sample_weight": c, "subgroup": g}
    lazy_X, lazy_y = lazy(X, y)
    if kind == "frame":
        pd = pytest.importorskip("pandas", reason="needs pandas")
        dd = pytest.importorskip("dask.dataframe", reason="needs pip install 'ucm-classifiers[dask]'")
        table = pd.DataFrame(X, columns=list("uvwx")).assign(label=y, c=c, g=g)
        rows = ucm.solve(
            model, dd.from_pandas(table, npartitions=3), "label", sample_weight="c", subgroup="g"
        )
    else:
        chunks = 450 if kind == "other chunks" else 300
        if kind != "in memory":
            tags = {name: da.from_array(v, chunks=chunks) for name, v in tags.items()}
        rows = ucm.solve(model, lazy_X, lazy_y, **tags)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert not np.asarray(rows.weights)[c == 0.0].any()


def test_lazy_labels_of_samples_in_memory(client: Any) -> None:
    X, y = samples(2000)
    rows = ucm.solve(NU, X, lazy(X, y)[1])
    assert rows.objective == pytest.approx(ucm.solve(NU, X, y).objective, rel=2e-6)


def frame(X: Any, y: Any, npartitions: int = 4) -> Any:
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe", reason="needs pip install 'dask[dataframe]'")
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["label"] = y
    return dd.from_pandas(table, npartitions=npartitions)


def test_frames_agree_with_memory(client: Any) -> None:
    X, y = samples(2000)
    table, memory = frame(X, y), ucm.solve(NU, X, y)
    given: list[Any] = [(table,), (table, "label")]
    features = table.drop(columns="label")
    given += [(features, table["label"]), (features, table["label"].repartition(npartitions=3))]
    for own in given:
        rows = ucm.solve(NU, *own) if len(own) == 2 else ucm.solve(NU, own[0], None)
        assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    classifier = ucm.Classifier(NU).fit(table, "label")
    assert classifier.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    answers = classifier.predict(table)
    assert dask.is_dask_collection(answers)
    plain = ucm.Classifier(NU).fit(X, y)
    assert np.mean(np.asarray(answers) == plain.predict(X)) > 0.998
    assert float(classifier.score(table, "label")) == np.mean(np.asarray(answers) == y)
    with pytest.raises(ucm.DataError, match="none named x3"):
        classifier.predict(features.drop(columns="x3"))
    table["town"] = table["label"].map(
        {1.0: "a", -1.0: "b"}, meta=("town", "object")
    ).astype("category")  # fmt: skip
    with pytest.raises(ucm.DataError, match="'town' of the type Categorical"):
        ucm.solve(NU, table, "label")
    with pytest.raises(ucm.DataError, match="beside blocks of unknown length"):
        ucm.solve(NU, features, y)


def test_the_classifier_answers_lazily(client: Any) -> None:
    X, y = samples(2000)
    lazy_X, lazy_y = lazy(X, y)
    classifier = ucm.Classifier(NU).fit(lazy_X, lazy_y)
    lazily: Any = classifier.predict(lazy_X), classifier.decision_function(lazy_X)
    for own, plain in zip(lazily, (classifier.predict(X), classifier.decision_function(X)), strict=True):
        assert dask.is_dask_collection(own) and own.chunks == lazy_y.chunks
        assert np.asarray(own) == pytest.approx(plain, rel=1e-12)
    w = np.linspace(0.0, 1.0, y.size)
    for labels in (y, lazy_y, lazy_y.rechunk(999)):
        score = classifier.score(lazy_X, labels)
        assert dask.is_dask_collection(score)
        assert float(score) == pytest.approx(classifier.score(X, y), rel=1e-12)
        weighed = classifier.score(lazy_X, labels, w)
        assert float(weighed) == pytest.approx(classifier.score(X, y, w), rel=1e-12)
    rbf = ucm.Classifier(ucm.models.psvm(2.0, 1.0), kernel="rbf").fit(X[:100], y[:100])
    lazily = np.asarray(rbf.predict(lazy(X[:200], y[:200], (90, 0, 110))[0]))
    assert np.array_equal(lazily, rbf.predict(X[:200]))
    for own in (lazy_X[:, :3], lazy_y):
        with pytest.raises(ucm.DataError, match="expected 4 features"):
            classifier.predict(own)
    with pytest.raises(ucm.DataError, match="one per row"):
        classifier.score(lazy_X, y[:-1])
    with pytest.raises(ucm.DataError, match="rechunk"):
        classifier.predict(lazy_X.rechunk((300, 2)))
    X[-1, 0] = np.nan
    with pytest.raises(ucm.DataError, match="NaN"):
        np.asarray(classifier.predict(lazy(X, y)[0]))


def test_a_pickle_leaves_the_samples_out(client: Any) -> None:
    X, y = samples(2000)
    classifier = ucm.Classifier(NU).fit(*lazy(X, y))
    text = pickle.dumps(classifier)
    assert len(text) < 0.7 * X.nbytes
    again = pickle.loads(text)
    assert np.array_equal(again.predict(X), classifier.predict(X))


def test_a_path_agrees_with_memory(client: Any) -> None:
    X, y = samples(2000)
    model = ucm.ReducedHull(pos, nu=ucm.Param("nu", 0.4)) - ucm.ReducedHull(neg, nu=ucm.Param("nu", 0.4))
    rows, memory = (ucm.path(model, *own, nu=[0.4, 0.5]) for own in (lazy(X, y), (X, y)))
    for one, other in zip(rows, memory, strict=True):
        assert one.status == "optimal"
        assert one.objective == pytest.approx(other.objective, rel=2e-6)


# --- bad input ---------------------------------------------------------------------------------
def with_nan(X: Any, y: Any) -> tuple[Any, Any]:
    X[-1, 2] = np.nan
    return lazy(X, y)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (with_nan, r"entry \(1999, 2\) is nan"),
        (lambda X, y: (lazy(X, y)[0].rechunk((300, 2)), y), r"rechunk\(\{1: -1\}\)"),
        (lambda X, y: (lazy(X, y)[0], y[:-1]), "expected 2000 labels.*got 1999"),
        (lambda X, y: (lazy(X, y)[0], lazy(X, y)[1][:-1]), "expected 2000 labels.*got 1999"),
        (lambda X, y: (lazy(X, y)[0], None), "expected one label per row"),
        (lambda X, y: (lazy(X, y)[0], np.ones(2000)), "two classes, got one"),
        (lambda X, y: (lazy(X, y)[0], X), "expected one label per sample"),
        (
            lambda X, y: (lazy(X, y)[0], lazy(X, y)[0]),
            r"one label per sample, got shape \(\d+, 4\)",
        ),
        (lambda X, y: (lazy(X, y)[0].astype(str), y), "real numbers"),
        (lambda X, y: (lazy(X, y)[1], y), "expected a table"),
        (lambda X, y: (lazy(X, y)[0][lazy(X, y)[1] > -2], y), "beside blocks of unknown length"),
        (
            lambda X, y: (lazy(X, y)[0][lazy(X, y)[1] > -2], da.from_array(y, chunks=500)),
            "7 blocks",
        ),
        (lambda X, y: (lazy(X, y)[0][:0], lazy(X, y)[1][:0]), "0 rows"),
        (lambda X, y: (lazy(X, y)[0].map_blocks(broken, dtype=float), y), "cannot be computed"),
    ],
)
def test_bad_input_is_refused(change: Any, match: str, client: Any) -> None:
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(NU, *change(*samples(2000)))


def broken(X: Any) -> Any:
    raise OSError("the disk is gone")


def test_methods_that_need_all_samples_are_refused(client: Any) -> None:
    X, y = lazy(*samples(2000))
    for call in (
        lambda: ucm.solve(ucm.models.nu_svm(0.4), X, y, kernel="rbf"),
        lambda: ucm.path(NU, X, y, n_values=3),
        lambda: ucm.admissible(NU, X, y),
        lambda: ucm.Classifier(NU, kernel="rbf").fit(X, y),
    ):
        with pytest.raises(ucm.DataError, match=r"2000 x 4 samples in memory.*gather\(\)"):
            call()


def test_bad_timeouts_are_refused() -> None:
    X, y = lazy(*samples(2000))
    for timeout in (0.0, -1.0):
        with pytest.raises(ucm.ParameterError, match="timeout"):
            ucm.open_rows(X, y, timeout=timeout)


# --- faults ------------------------------------------------------------------------------------
def test_a_closed_client_is_refused(cluster: Any) -> None:
    X, y = samples(2000)
    with distributed.Client(cluster):
        plan = ucm.compile(NU, *lazy(X, y))
    with pytest.raises(ucm.DataError, match="client that is connected"):
        plan.solve()
    assert ucm.solve(NU, *lazy(X, y)).status == "optimal"  # here


def test_an_asynchronous_client_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with distributed.Client(cluster) as client:
        monkeypatch.setattr(client, "_asynchronous", True, raising=False)
        monkeypatch.setattr(type(client), "asynchronous", True)
        with pytest.raises(ucm.DataError, match="client that waits"):
            ucm.open_rows(*lazy(*samples(2000)))
        monkeypatch.undo()


def test_two_clients_do_not_disturb_each_other(cluster: Any) -> None:
    X, y = samples(2000)
    objective = ucm.solve(NU, X, y).objective
    with distributed.Client(cluster) as one, distributed.Client(cluster) as other:
        with one.as_current():
            first = ucm.compile(NU, *lazy(X, y))
        with other.as_current():
            second = ucm.compile(ucm.models.nu_svm(0.5), *lazy(X, y))
        assert first.solve().objective == pytest.approx(objective, rel=2e-6)
        with other.as_current():
            assert second.solve().status == "optimal"
        passes = [(ucm.open_rows(*lazy(X, y)), dict[int, Any]()) for _ in range(2)]
        for k in range(3):
            for source, states in passes:
                assert sum(source.map_reduce(counted, states=states)) == 7 * k


def counted(X: Any, y: Any, state: Any) -> tuple[int, int]:
    return (state or 0) + 1, state or 0


def slow(X: Any, y: Any) -> int:
    time.sleep(0.4)
    return 0


def test_a_task_has_a_limit(workers: Any) -> None:
    source = ucm.open_rows(*lazy(*samples(2000), rows=1000), timeout=0.2)
    assert sum(source.map_reduce(counted, states={})) == 0
    with pytest.raises(ucm.DataError, match=r"no task was finished for 0.2 s"):
        source.map_reduce(slow)


def test_samples_that_cannot_be_computed_again(workers: Any) -> None:
    X, y = samples(600)
    futures = workers.scatter([X[:300], X[300:]])
    parts = [da.from_delayed(dask.delayed(f), (300, 4), float) for f in futures]
    source = ucm.open_rows(da.concatenate(parts), y)
    assert ucm.solve(NU, source).status == "optimal"
    workers.cancel(source.futures, force=True)  # type: ignore[attr-defined]
    # Dask's scheduler may fail at a key that is gone, and close the connection of the client
    with pytest.raises(ucm.DataError, match=r"cannot be computed again|make a new client"):
        source.map_reduce(counted, states={})


def test_limits_and_interrupts_end_between_rounds(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((20_000, 4))
    X[:, 0] += 1.5 * y
    X *= np.abs(np.random.default_rng(0).standard_t(1.5, (20_000, 1)))
    plan = ucm.compile(ucm.models.nu_svm(0.6), *lazy(X, y, 3000))
    with pytest.warns(ucm.ConvergenceWarning):
        timed_out = plan.solve(time_limit=1e-6)
    assert timed_out.status == "time_limit" and timed_out.certificate.primal < 0.0
    with pytest.warns(ucm.ConvergenceWarning):
        stopped = plan.solve(callback=lambda record: True)
    assert stopped.status == "interrupted" and stopped.certificate.relative_gap < 0.1
    seen: list[Any] = []
    begun, stopped_once = [True], list[Any]()

    def interrupt(*waiting: Any, **options: Any) -> Any:
        if begun.pop() or (seen and not stopped_once):
            stopped_once.extend(seen)  # the pass of the certificate comes after it
            raise KeyboardInterrupt
        begun.append(False)
        return wait(*waiting, **options)

    wait = distributed.wait
    with monkeypatch.context() as patch:
        patch.setattr(distributed, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):  # nothing is proven yet
            plan.solve()
        begun[:] = [False] * 99
        with pytest.warns(ucm.ConvergenceWarning, match="Ctrl-C"):
            broken = plan.solve(tol=1e-13, callback=seen.append)
    assert broken.status == "interrupted"
    assert 0.0 <= broken.certificate.relative_gap <= seen[-1]["gap"] + 1e-9 < 1.0
    assert plan.solve().status == "optimal"


@pytest.mark.skipif(os.name != "posix", reason="kills a process by its signal")
def test_a_killed_worker_does_not_change_the_answer() -> None:
    """A worker is killed in the first and in the last round; others compute its blocks again."""
    X, y = samples(20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        )
    with cluster, distributed.Client(cluster) as client:
        given = lazy(X, y, 2500)
        whole = ucm.solve(NU, *given)
        for number in (1, whole.stats.reads):
            client.wait_for_workers(2, timeout=30)

            def kill(at: int, number: int = number) -> None:
                if at == number:
                    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

            source = ObservedSource(ucm.open_rows(*given), kill)
            found = ucm.solve(NU, source)
            assert found.status == "optimal" and found.stats.reads == whole.stats.reads
            assert found.objective == pytest.approx(whole.objective, rel=1e-12)
            assert np.asarray(found.weights) == pytest.approx(np.asarray(whole.weights), abs=1e-12)
        rows = ucm.solve(NU, ucm.open_rows(*given, timeout=3.0))
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.05)
        with pytest.raises(ucm.DataError, match=r"[01] workers; start workers"):
            np.asarray(rows.weights)
