"""`Data`: validated samples and labels, with weights, statistics by class and the feature space."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import get_blas_funcs

from ucm.data.gram import Gram
from ucm.data.linear_map import (
    IdentityMap,
    LinearMap,
    Matrix,
    MatrixMap,
    RowMap,
    SampleMap,
    Vec,
    centered_map,
    column_sizes,
    psd_root,
    stored_entries,
)
from ucm.data.moments import Moments, exact_mean, without_constant
from ucm.data.source import RowSource, as_double, mapped_features
from ucm.data.validation import (
    Fingerprint,
    bad_entry,
    library_of,
    read,
    read_groups,
    read_quantities,
    read_weights,
    refuse,
    signs_of,
    vector,
)
from ucm.data.weights import UNWEIGHTED, EffectiveWeights, members, sample_weights_of
from ucm.errors import DataError, SolverError, UCMError, brief

T = TypeVar("T")
_NRM2: Any = get_blas_funcs("nrm2", dtype=np.float64)  # of BLAS: no square over- or underflows
_LARGE = 1 << 28  # bytes in double precision: smaller memory maps are bound like other arrays
_FAR = 10.0  # times the range of a feature: a distance from 0 that costs digits
_SAMPLE = 64  # most samples that show features not to be far from 0
_SQUARABLE = 1e-152  # entries below it, or above its inverse, make covariances 0 or inf


class Space:
    """The Euclidean space R^n, with its inner product, q-norms and dual vectors.

    resolution : relative size, to the summands of a vector, below which its norm is rounding error
    """

    resolution: ClassVar[float] = 1e-9
    gram: Gram | None = None

    def inner(self, w: Vec, x: Vec) -> float:
        """Return the inner product `<w, x>` of a dual vector w and a vector x."""
        return float(w @ x)

    def norm(self, x: Vec, q: float = 2.0) -> float:
        """Return `||x||_q` without overflow or underflow in the powers of entries."""
        if q == 2.0 and x.size:
            return float(_NRM2(x))
        top = float(np.abs(x).max(initial=0.0))
        return top * float(np.linalg.norm(x / top, q)) if top != 0.0 else 0.0

    def size(self, x: Vec) -> float:
        """Return `||x||_2`, or in a subclass a cheaper upper bound of the norm."""
        return self.norm(x)

    def direction(self, w: Vec, p: float) -> Vec | None:
        """Return `w / ||w||_p`, or w if its norm is 1 to rounding; None if the norm is 0 or unknown."""
        length = self.norm(w, p)
        if length == 0.0:
            return None
        return w if abs(length - 1.0) <= 1e-14 else w / length

    def dual_vector(self, x: Vec, q: float) -> Vec:
        """Return w with ||w||_p = 1 and <w, x> = ||x||_q, where 1/p + 1/q = 1; return 0 for x = 0.

        The vector is not unique for q in {1, inf}.

        For 1 < q < inf it is `sign(x) |x|^(q-1) / ||x||_q^(q-1)`.
        """
        top = float(np.abs(x).max(initial=0.0))
        if top == 0.0:
            return np.zeros_like(x)
        v = np.abs(x) / top
        if q == np.inf:
            w = np.zeros_like(x)
            k = int(np.argmax(v))
            w[k] = np.sign(x[k])
            return w
        w = v ** (q - 1.0)
        return np.sign(x) * w / float(np.linalg.norm(v, q)) ** (q - 1.0)


def _origin(X: Matrix, longest: float = 0.0) -> Vec:
    """Return the middle of the values of each feature far from 0, relative to their range; 0 for others.

    A constant feature is far relative to the longest range, at least `longest`: it cancels in differences.
    """
    if sparse.issparse(X):
        origin, stored = np.zeros(X.shape[1]), np.bincount(X.indices, minlength=X.shape[1])
        full = np.flatnonzero(stored >= X.shape[0])
        if full.size:  # the others have a zero
            longest = float(np.abs(X.data[stored[X.indices] < X.shape[0]]).max(initial=0.0))
            origin[full] = _origin(X[:, full].toarray(), longest)
        return origin
    low, high = X.min(axis=0), X.max(axis=0)
    if not ((low > 0.0) | (high < 0.0)).any():  # every feature has 0 within its range
        return np.zeros(X.shape[1])
    ranges = high - low
    middle = low + 0.5 * ranges
    unit = np.where(ranges > 0.0, ranges, max(longest, float(ranges.max())))
    return np.where(np.abs(middle) > _FAR * unit, middle, 0.0)


def refuse_squares(scale: float, statistic: str) -> None:
    """Raise `DataError` unless 1e-152 < `scale` < 1e152, where squares neither over- nor underflow."""
    if not _SQUARABLE < scale < 1.0 / _SQUARABLE:
        raise DataError(
            f"X: expected entries whose squares are numbers, as {statistic} need them, got entries up to "
            f"{scale:.3g}; scale the features"
        )


class GramSpace(Space):
    """The feature space of a kernel: coefficients c stand for `sum_i c_i phi(x_i)`, scores for dual vectors.

    `<w, c> = sum_i w_i c_i`, `||c||^2 = c'K c`, and the dual vector of c is `K c / ||c||`: only the
    Euclidean norm of the feature space has a meaning.
    """

    resolution: ClassVar[float] = 1e-7  # a norm is the root of a difference

    def __init__(self, gram: Gram) -> None:
        self.gram: Gram = gram  # pyright: ignore[reportIncompatibleVariableOverride]

    def scores(self, c: Vec) -> Vec:
        """Return `K c`, the inner products of `sum_i c_i phi(x_i)` with the samples."""
        return self.gram.times(c)

    def norm(self, x: Vec, q: float = 2.0) -> float:
        support = np.flatnonzero(x)
        square = float(x[support] @ self.scores(x)[support]) if support.size else 0.0
        return math.sqrt(max(square, 0.0))

    def size(self, x: Vec) -> float:
        """Return `sum_i |x_i| ||phi(x_i)||`, an upper bound of the norm of x."""
        return float(np.abs(x) @ np.sqrt(np.maximum(self.gram.diagonal, 0.0)))

    def dual_vector(self, x: Vec, q: float) -> Vec:
        return self.scores(x) / self.norm(x, q)

    def direction(self, w: Vec, p: float) -> Vec | None:
        return None  # scores do not determine the length of w


def _once(method: Callable[..., T]) -> Callable[..., T]:
    """Decorate a method of `Data` to cache its result for each kind and group."""

    @functools.wraps(method)
    def cached(self: Data, kind: str, group: Hashable = None) -> T:
        return self.once((method.__name__, kind, group), lambda: method(self, kind, group))

    return cached


class Data:
    """Bound samples of two classes, with cached statistics by kind and group.

    Methods such as `rows(kind, group)`, `samples(kind, group)` and `mean(kind, group)` are of the samples of
    one kind, `pos`, `neg` or `signed` (all samples, each times its label), and of one group, if given.
    """

    def __init__(
        self,
        X: Matrix,
        y: Vec,
        weighing: EffectiveWeights = UNWEIGHTED,
        gram: Gram | None = None,
        space: Space | None = None,
        seal: Fingerprint | None = None,
        groups: np.ndarray | None = None,
        source: RowSource | None = None,
        moments: Mapping[tuple[str, Hashable], Moments] | None = None,
        per_sample: Mapping[str, Vec] = MappingProxyType({}),
    ) -> None:
        self.X = as_double(X)
        self.y = y  # (m,) array of +1.0 and -1.0
        self.m, self.n = X.shape
        self.weighing, self.groups, self.seal = weighing, groups, seal
        self.per_sample = per_sample  # the values of quantities of each sample, (m,), by name
        # Of rows that are read block by block; X then holds the means, or a sample of the rows.
        self.source = source
        self.counts: tuple[float, float] = (0.0, 0.0)  # the total weights of class +1 and class -1
        self.moments = moments  # by kind and group, if they are given in place of the samples
        self.gram = gram  # of a kernel, in whose feature space X holds coordinates of the samples
        self.space = Space() if space is None else space
        self.approx: Any = None  # the fitted transformer to the features that X holds
        self.factor: NDArray[np.float64] | None = None  # of the Gram matrix, where samples are unit vectors
        self.as_given, self.origin = self, np.zeros(0)  # the samples before `centred`, and what it subtracts
        self.cache: dict[Hashable, Any] = {}  # of `once`, and of `Node.once` for these samples

    def with_coordinates(self, X: Matrix, gram: Gram | None = None, space: Space | None = None) -> Data:
        """Return new `Data` with coordinates X and the same labels, weights and groups."""
        weighed = self.y, self.weighing
        data = Data(X, *weighed, gram, space, self.seal, self.groups, per_sample=self.per_sample)
        if self.origin.any():
            data.as_given, data.origin = self.as_given, self.origin
        return data

    @functools.cached_property
    def centred(self) -> Data:
        """The samples minus one vector, `origin`, which is 0 in features near 0; else this `Data`.

        A feature with a zero, as most of sparse samples, is near 0. The differences x - c are exact, since
        x/2 <= c <= 2x (Sterbenz 1974): a set that does not move with all samples is the same set.
        """
        if self.gram is not None or self.moments is not None or self.source is not None:
            return self
        some = self.X[:: -(-self.m // _SAMPLE)]
        if not _origin(some).any() or not (origin := _origin(self.X)).any():
            return self
        X = self.X - origin if not sparse.issparse(self.X) else self.X.copy()
        if sparse.issparse(X):
            X.data -= origin[X.indices]
            X.eliminate_zeros()
        data = self.with_coordinates(X)
        data.as_given, data.origin, data.approx = self, origin, self.approx
        return data

    def with_column(self, value: float | Vec) -> Data:
        """Return the samples with one more feature, a number for all samples or one for each."""
        return self.once(
            ("column", np.asarray(value).tobytes()),
            lambda: self.with_coordinates(with_column(self.X, value), self.gram),
        )

    def in_gram_space(self, gram: Gram) -> Data:
        """Return the samples as unit vectors e_i of `GramSpace`; no coordinates are computed."""
        return self.once(
            ("rows", gram),
            lambda: self.with_coordinates(sparse.eye_array(self.m, format="csr"), gram, GramSpace(gram)),
        )

    @functools.cached_property
    def in_coordinates(self) -> Data:
        """The samples in feature-space coordinates if `space` is a `GramSpace`, else this `Data`."""
        return self if self.space.gram is None else self.in_feature_space(self.space.gram)

    def in_feature_space(self, gram: Gram) -> Data:
        """Return the samples in an orthonormal basis of their span in the feature space of a kernel."""
        return self.once(("features", gram), lambda: self.with_coordinates(gram.factor(), gram))

    def in_features(self, transformer: Any) -> Data:
        """Return the samples mapped by a fitted transformer; raise `DataError` for NaN and inf."""
        features = mapped_features(transformer.transform, self.X)
        refuse(bad_entry(features))
        data = self.with_coordinates(features)
        data.approx = transformer
        return data

    @property
    def kernel(self) -> str:
        """A description of the kernel or feature map; "" for the linear kernel, or without either."""
        if self.approx is not None:
            return brief(self.approx)
        if self.gram is not None:
            return self.gram.description
        return "" if self.source is None else self.source.mapping

    @functools.cached_property
    def over_samples(self) -> Data:
        """The samples as unit vectors e_i, so that a combination of samples is its coefficient vector."""
        if self.space.gram is not None:
            return self
        data = self.with_coordinates(sparse.eye_array(self.m, format="csr"), self.gram)
        data.factor = self.X
        return data

    def from_orthonormal(self, n: int) -> LinearMap:
        """Return the map from n orthonormal coordinates to the coordinates of the samples.

        Where the samples are unit vectors, it gives the coefficients of a point over the samples.
        """
        if self.factor is None or self.gram is None:
            return IdentityMap(n)
        return MatrixMap(self.gram.combination(self.factor, np.eye(self.factor.shape[1])))

    @functools.cached_property
    def by_spectrum(self) -> Data:
        """The samples as rows of the symmetric root of the Gram matrix, if there is one, for references."""
        return self if self.gram is None else self.with_coordinates(self.gram.spectral(), self.gram)

    @functools.cached_property
    def factors(self) -> Vec:
        """The effective weight of each sample, (m,): its sample weight times the factor of its class."""
        factors = np.where(self.y > 0.0, *self.weighing.classes)
        return factors if self.weighing.samples is None else factors * self.weighing.samples

    @property
    def weights(self) -> Vec | None:
        """The effective weights `factors`, (m,); None if every weight is 1."""
        return None if self.weighing.is_uniform else self.factors

    @property
    def given(self) -> int:
        """The number of input samples, including samples of weight 0."""
        return self.m if self.weighing.nonzero is None else self.weighing.n_input

    @functools.cached_property
    def total(self) -> float:
        """The sum of the sample weights, without class factors; m without sample weights."""
        samples = self.weighing.samples
        return float(self.m if samples is None else samples.sum())

    @_once
    def copies(self, kind: str, group: Hashable = None) -> Vec | None:
        """Return the effective weights of a kind and group; None if every weight in the data is 1."""
        return None if self.weighing.is_uniform else self.factors[self.rows(kind, group)]

    def count(self, kind: str, group: Hashable = None) -> float:
        """Return the sum of the effective weights of the samples of a kind and group."""
        copies = self.copies(kind, group)
        return float(self.rows(kind, group).size if copies is None else copies.sum())

    def number(self, kind: str, group: Hashable = None) -> float:
        """Return the sum of the sample weights of a kind and group, without class factors."""
        rows, samples = self.rows(kind, group), self.weighing.samples
        return float(rows.size if samples is None else samples[rows].sum())

    @functools.cached_property
    def population(self) -> tuple[float, float, float]:
        """The total weight of all samples without class weights, and of each class with class weights."""
        return self.total, self.count("pos"), self.count("neg")

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of `make()`, which is called at the first use of the key."""
        found = self.cache.get(key, MISSING)
        return self.cache.setdefault(key, make()) if found is MISSING else found  # threads share the first

    @_once
    def _matrix(self, kind: str, group: Hashable = None) -> Matrix:
        """Return the samples of a kind and group in rows; a view of X for contiguous dense rows."""
        rows = self.rows(kind, group)
        if rows.size == self.m:
            return self.X
        together = rows.size > 0 and rows[-1] - rows[0] == rows.size - 1
        return self.X[rows[0] : rows[-1] + 1] if together else self.X[rows]

    @_once
    def rows(self, kind: str, group: Hashable = None) -> NDArray[np.intp]:
        """Return the indices of the samples of a kind and group; raise `DataError` if the group has none."""
        if group is not None:
            return members(self.groups, kind, group, self.rows(kind))
        if kind == "signed":
            return np.arange(self.m)
        return np.flatnonzero(self.y == (1.0 if kind == "pos" else -1.0))

    @_once
    def signs(self, kind: str, group: Hashable = None) -> Vec | None:
        """Return the labels y_i of the samples for kind `signed`; None for `pos` and `neg`."""
        if kind != "signed":
            return None
        return self.y if group is None else self.y[self.rows(kind, group)]

    @_once
    def samples(self, kind: str, group: Hashable = None) -> LinearMap:
        """Return the linear map `q -> sum q_i x_i`, with y_i x_i in place of x_i for kind `signed`."""
        of_rows = SampleMap if self.space.gram is None else RowMap
        return of_rows(self._matrix(kind, group), self.signs(kind, group))

    def _counts(self, kind: str, group: Hashable) -> Vec | None:
        """Return the effective weights for means and covariances of a kind; None if known to be equal."""
        one_class = kind != "signed" and self.weighing.samples is None
        return None if one_class else self.copies(kind, group)

    @_once
    def mean(self, kind: str, group: Hashable = None) -> Vec:
        """Return the weighted mean (n,) of a kind and group.

        For `pos` and `neg` it is exact in the constant features of a dense table.
        """
        if self.moments is not None:
            return self.moments[kind, group].mean
        count, counts = self.rows(kind, group).size, self._counts(kind, group)
        q = np.ones(count) if counts is None else counts
        q = np.ldexp(q, -np.frexp(q.sum())[1])  # by a power of 2: sums of 0 and 1 are exact, none overflows
        mean = self.samples(kind, group).matvec(q) / q.sum()
        exact = self.space.gram is None and kind != "signed" and not sparse.issparse(self.X)
        return exact_mean(self._matrix(kind, group), mean) if exact else mean

    @_once
    def covariance_factor(self, kind: str, group: Hashable = None) -> LinearMap:
        """Return a linear map F such that `F F'` is the weighted 1/m covariance of a kind and group.

        The covariance is formed only where moments are given in place of samples.

        Raises `DataError` if squares of the entries over- or underflow.
        """
        if self.moments is not None:
            return MatrixMap(psd_root(self.covariance(kind, group)))
        refuse_squares(self.scale, "covariances")
        X, signs = self._matrix(kind, group), self.signs(kind, group)
        if signs is not None:
            X = X.multiply(signs[:, None]).tocsr() if sparse.issparse(X) else X * signs[:, None]
        return centered_map(X, self.mean(kind, group), self._counts(kind, group))

    @_once
    def covariance(self, kind: str, group: Hashable = None) -> NDArray[np.float64]:
        """Return the weighted 1/m covariance of a kind and group, dense (n, n).

        Its entries are exactly 0 for a feature that varies by rounding only.
        """
        if self.moments is not None:
            return self.moments[kind, group].covariance
        F = self.covariance_factor(kind, group)
        return without_constant(F.weighted_gram(np.ones(F.shape[1])), self.mean(kind, group))

    def check_unchanged(self) -> None:
        """Raise `DataError` if X or y has been changed since binding; no effect within `unchecked`."""
        if self.seal is not None:
            self.seal.check()

    @contextlib.contextmanager
    def unchecked(self) -> Iterator[None]:
        """Context in which `check_unchanged` computes no checksums."""
        if self.seal is None:
            yield
            return
        self.seal.unchecked = True
        try:
            yield
        finally:
            self.seal.unchecked = False

    @contextlib.contextmanager
    def overflow_guard(self) -> Iterator[None]:
        """Context that turns arithmetic errors of extreme entries into `SolverError`, and hides warnings."""
        if 1e-100 < self.scale < 1e100:
            yield
            return
        try:
            with np.errstate(all="ignore"):
                yield
        except UCMError:
            raise
        except (ArithmeticError, ValueError) as error:  # of NumPy's linear algebra, too
            raise SolverError(
                f"powers of features of size {self.scale:.3g} over- or underflow ({error}); scale "
                "the features"
            ) from error

    @functools.cached_property
    def stored(self) -> int:
        """The number of stored entries of X: all entries if dense, explicit entries if CSR."""
        return stored_entries(self.X)

    @functools.cached_property
    def sizes(self) -> Vec:
        """The largest absolute entry of each feature, (n,); 1 for a feature whose entries are all 0."""
        return column_sizes(self.X)

    @functools.cached_property
    def scale(self) -> float:
        """The largest absolute entry of X, or in `GramSpace` the largest sample norm; 1 if all are 0."""
        if self.space.gram is not None:
            return math.sqrt(max(float(self.space.gram.diagonal.max(initial=0.0)), 0.0)) or 1.0
        if self.seal is not None and self.seal.X is self.X:
            top = self.seal.largest
        else:
            entries = self.X.data if sparse.issparse(self.X) else self.X
            top = max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
        return top if top > 0.0 else 1.0


def with_column(X: Matrix, value: float | Vec) -> Matrix:
    """Return X with one more column, which holds one number or the entries of a vector."""
    column = np.broadcast_to(value, X.shape[0])[:, None]
    return sparse.hstack([X, column], format="csr") if sparse.issparse(X) else np.hstack([X, column])


def is_stored(X: object) -> bool:
    """True if X is a row source, a path, a large memory map, or an object of Dask, h5py, Zarr or pyarrow."""
    if isinstance(X, RowSource | str | Path):
        return True
    if isinstance(X, np.memmap):
        return 8 * X.size > _LARGE
    return library_of(X) in ("dask", "h5py", "zarr", "pyarrow")


def known_by(moments: Mapping[str, Moments]) -> Data:
    """Return `Data` without samples, from the moments of each kind."""
    n = next(iter(moments.values())).mean.size
    return Data(np.empty((0, n)), np.empty(0), moments={(kind, None): of for kind, of in moments.items()})


def bind(
    X: object,
    y: object,
    class_weight: object = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
    per_sample: object = None,
    *,
    square: bool = False,
    alone: Callable[[], tuple[float, ...]] = tuple,
) -> Data:
    """Validate samples and what is given for each, drop samples of weight 0, and return `Data`.

    The arguments are those of `ucm.compile`; X is `square` if it holds inner products of the samples, so that
    its columns are samples too. Labels in `alone()`, of +1 and -1, may be those of all samples.

    Raises `DataError` for NaN or inf, no samples or features, lengths that differ, labels of more or less
    than two classes, invalid weights or groups, and `ParameterError` for an invalid `class_weight`.
    """
    if isinstance(X, RowSource):
        raise DataError(
            f"X: expected samples in memory here, got rows read block by block, {X.m} x {X.n}; bring all "
            f"of them, {X.nbytes / 1e9:.3g} GB, with X, y = rows.gather()"
        )
    table = read(X)
    weights = read_weights(sample_weight, table.shape[0])
    label_column = np.asarray(y)
    y = label_column.ravel() if label_column.ndim == 2 and label_column.shape[1] == 1 else y
    values, labels = signs_of(vector("label", y, table.shape[0]), pos_label, alone)
    groups = None if subgroup is None else read_groups(subgroup, values.size).copy()
    quantities = read_quantities(per_sample, values.size)
    weighing = UNWEIGHTED
    if weights is not None or class_weight is not None:
        weighing = sample_weights_of(values, weights, class_weight, labels)
    if weighing.nonzero is not None:
        table, values = table[weighing.nonzero], values[weighing.nonzero]
        table = np.ascontiguousarray(table[:, weighing.nonzero]) if square else table
        groups = None if groups is None else groups[weighing.nonzero]
        quantities = {name: v[weighing.nonzero] for name, v in quantities.items()}
    seal = Fingerprint(table, values)
    if not seal.finite:
        refuse(bad_entry(table))
    if np.may_share_memory(values, label_column):  # the caller may change it
        values = values.copy()
    values.flags.writeable = False
    return Data(table, values, weighing, seal=seal, groups=groups, per_sample=quantities)
