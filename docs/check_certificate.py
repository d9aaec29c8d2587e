"""Check a certificate of a classifier: python check_certificate.py certificate.json X.npy y.npy

The file of `Solution.save_certificate` of ucm holds a declaration, a classifier (w, b) and a dual point. This
program imports NumPy alone. It computes both bounds of the optimum by intervals that round outward; a sum of
n products counts its rounding error, in any order, by n u / (1 - n u), u = 2^-53 (Higham, 2002, section 3.1).
So the bounds hold for the real numbers. Factors in [0, 1], or a step to uniform weights, move a dual point
into its constraints. Exit code: 0 for a claim that holds, 1 for one that is not proven, 2 for an error.
"""

import hashlib
import json
import sys

import numpy as np

# fmt: off
U, TINY = 2.0**-53, 1e-300  # the unit of rounding, and more than any underflow
class Interval:  # Intervals [lo, hi] of real numbers, scalars or arrays; operations round outward
    def __init__(self, lo, hi=None):
        self.lo, self.hi = np.asarray(lo, float), np.asarray(lo if hi is None else hi, float)
    def __add__(self, x): return wide(self.lo + of(x).lo, self.hi + of(x).hi)
    def __sub__(self, x): return wide(self.lo - of(x).hi, self.hi - of(x).lo)
    def __mul__(self, x):
        ends = [a * b for a in (self.lo, self.hi) for b in (of(x).lo, of(x).hi)]
        return wide(np.minimum.reduce(ends), np.maximum.reduce(ends))
    def __truediv__(self, x):
        need((of(x).lo > 0.0).all(), "a positive divisor")
        return self * wide(1.0 / of(x).hi, 1.0 / of(x).lo)
    def __getitem__(self, rows): return Interval(self.lo[rows], self.hi[rows])
    def clip(self, lo, hi=np.inf): return Interval(np.clip(self.lo, lo, hi), np.clip(self.hi, lo, hi))
    def abs(self): return Interval(np.maximum(self.lo, -self.hi).clip(0), np.maximum(-self.lo, self.hi))
    def square(self): return (self.abs() * self.abs()).clip(0.0)
    def sqrt(self): return self.clip(0.0).map(np.sqrt).clip(0.0)
    def sum(self): return dot(np.ones((1, self.lo.size)), self)[0]
    def map(self, f):  # An increasing function, which NumPy computes to a few units in the last place
        return wide(f(self.lo), f(self.hi), 16.0)
    def power(self, p):  # x^p of x >= 0
        y = (self.clip(TINY).map(np.log) * p).map(np.exp)
        return Interval(np.where(self.lo > TINY, y.lo, 0.0), y.hi).clip(0.0)
    def entropy(self):  # x log x of x >= 0, with 0 at 0, at least -1 / e
        x, near = self.clip(TINY), self.lo <= TINY
        lo, hi = (x * x.map(np.log)).lo, (x * x.map(np.log)).hi
        return Interval(np.where(near, np.minimum(lo, -0.37), lo), np.where(near, np.maximum(hi, 0.0), hi))
def need(holds, what):
    if not holds:
        raise ValueError(f"expected {what}")
def of(x): return x if isinstance(x, Interval) else Interval(x)
def wide(lo, hi, ulps=1.0):
    return Interval(lo - (2.0 * ulps * U * abs(lo) + TINY), hi + (2.0 * ulps * U * abs(hi) + TINY))
def dot(A, x):  # A x, with gamma_n times the sum of the moduli as the rounding error of n products
    middle, n = 0.5 * of(x).lo + 0.5 * of(x).hi, A.shape[1]
    radius = np.maximum(of(x).hi - middle, middle - of(x).lo) * (1.0 + 4.0 * U) + TINY
    gamma = (n + 8) * U / (1.0 - (n + 8) * U)
    error = (abs(A) @ (gamma * abs(middle) + radius)) * (1.0 + 4.0 * gamma) + n * TINY
    return wide(A @ middle - error, A @ middle + error)
def norm(x, p):
    x = of(x).abs()
    if p == np.inf:
        return Interval(x.lo.max(), x.hi.max())
    return x.sum() if p == 1.0 else x.square().sum().sqrt() if p == 2.0 else x.power(p).sum().power(of(1) / p)
def conjugate(p):
    return {1.0: np.inf, 2.0: 2.0, np.inf: 1.0}[p] if p in (1.0, 2.0, np.inf) else of(p) / (of(p) - 1.0)
def shrink(size, limit):  # A factor in [0, 1] that brings a size below a limit for certain
    return 1.0 if size.hi <= limit.lo else max(0.0, float(limit.lo / size.hi) * (1.0 - 8.0 * U))
def total(intervals): return sum(intervals[1:], intervals[0])
def kind_of(node): return node.get("node") if isinstance(node, dict) else None
def number(x):
    if kind_of(x) == "Param":
        return number(fields(x, "name", "value")[1])
    for kind, read in (("float", float), ("array", np.asarray), ("tuple", list)):
        if isinstance(x, dict) and kind in x:
            return read(x[kind])
    return float(x) if type(x) in (int, float) else x
def fields(node, *names):
    """The named fields of a node, numbers in place of parameters; the other fields must have no value."""
    rest = {k: v for k, v in node["fields"].items() if k not in names and v is not None}
    more = [k for k, v in rest.items() if (k, v) != ("relative", False)]  # a label may be 0, or False
    need(not more, f"{node['node']} without {', '.join(more)}")
    return [number(node["fields"].get(name)) for name in names]
def vector(v, size):
    v = np.asarray(v, float)
    need(v.shape == (size,) and np.isfinite(v).all(), f"{size} finite numbers")
    return v
def terms_of(node, c=1.0):
    """The terms of a nested sum of multiples, each with its factor, in the order of the declaration."""
    kind, c = kind_of(node), of(c)
    if kind in ("LossSum", "PenaltySum"):
        return [pair for term in fields(node, "terms")[0] for pair in terms_of(term, c)]
    pairs = [fields(node, "factor", "term")] if kind in ("ScaledLoss", "ScaledPenalty") else None
    if kind in ("LinearCombination", "VectorSum", "MatrixSum"):
        pairs = [t["tuple"] for t in fields(node, "parts" if kind == "LinearCombination" else "terms")[0]]
    if pairs is None:
        need(c.hi >= 0.0 or kind in ("Hull", "Ball", "Ellipsoid", "Mean"), "multiples that are not negative")
        return [(c, node)]
    return [pair for f, term in pairs for pair in terms_of(term, c * vector([number(f)], 1)[0])]
def members(node, y): return {"pos": y > 0.0, "neg": y < 0.0, "signed": y != 0.0}[fields(node, "kind")[0]]
def samples(node, X, y):
    """The rows x_i of pos or neg, or y_i x_i of signed, and the rows of each class that has a mass."""
    need(kind_of(node) == "Samples", f"samples in place of {kind_of(node)}")
    rows, signed = members(node, y), node["fields"]["kind"] == "signed"
    groups = [y > 0.0, y < 0.0] if signed else [np.ones(rows.sum(), bool)]
    need(all(g.any() for g in groups), "samples of each class")
    return (y[:, None] * X if signed else X[rows]), groups
class Hull:
    def __init__(self, node, X, y):
        part, domain = fields(node, "samples", "weights")
        (self.X, self.groups), kind = samples(part, X, y), kind_of(domain)
        self.mass, self.m = 1.0 / len(self.groups), float(len(self.X))
        names = {"CappedSimplex": ("nu", "cap"), "NormBall": ("p", "radius"), "KLBall": ("alpha", "alpha")}
        x, size = (None, 2.0 * self.mass) if kind is None else fields(domain, *names[kind])
        need(kind != "NormBall" or x == 2.0, "NormBall with p = 2")
        self.p = {"NormBall": 2.0, "KLBall": None}.get(kind, np.inf)
        self.limit = of(0.0) - of(size).map(np.log) if kind == "KLBall" else of(size)
        if kind == "CappedSimplex" and x is not None:
            self.limit = of(2.0) / (of(x) * y.size)
    def size(self, q):  # The convex function of the weights that the domain limits
        return (q * self.m).entropy().sum() / self.m if self.p is None else norm(q, self.p)
    def point(self, q):
        """The point of weights (1 - t) q / sum q + t / m in each class, with a t inside of the domain."""
        self.q = q = np.maximum(vector(q, int(self.m)), 0.0)
        near, even, x, center = Interval(0.0 * q, 0.0 * q), Interval(0.0 * q, 0.0 * q), of(0.0), of(0.0)
        for g in self.groups:
            for weights, v in ((near, of(q[g])), (even, of(np.ones(g.sum())))):
                part = v * self.mass / v.sum()
                weights.lo[g], weights.hi[g] = part.lo, part.hi
            x, center = dot(self.X[g].T, near[g]) + x, dot(self.X[g].T, even[g]) + center
        here, there, t = self.size(near).hi, self.size(even).hi, 0.0
        while not (of(here) * (of(1.0) - t) + of(there) * t).hi <= self.limit.lo:
            t = max(2.0 * t, float((here - self.limit.lo) / max(here - there, TINY)), 1e-17)
            need(t < 1e-3, "weights of a hull inside of their domain")
        return x * (of(1.0) - t) + center * t
    def support(self, d):
        """An upper bound of max <d, x>, by duality with any multipliers; these fit the weights q."""
        g, bounds = dot(self.X, d), []
        mid, top = 0.5 * (g.lo + g.hi), [g.hi[k].max() for k in self.groups]
        used = [k & (self.q > 0.0) for k in self.groups]  # in a ball g is affine in q there, or in log q
        v = self.q if self.p == 2.0 else np.log(np.maximum(self.q, TINY))
        pairs = [(v[k] - v[k].mean(), mid[k] - mid[k].mean()) for k in used]
        slope = sum(a @ b for a, b in pairs) / max(sum(a @ a for a, b in pairs), TINY)
        levels = [[(mid - slope * v)[k].mean() for k in used], top]
        if self.p == np.inf:
            mass, cap = self.mass, self.limit.hi
            levels = [[np.sort(mid[k])[::-1][int(min(mass / cap, k.sum() - 1))] for k in self.groups]]
        for level in levels if self.p else ():  # sum q g <= mass h + limit |(g - h)_+|, the dual norm
            over = [(g[k] - h).clip(0.0) for k, h in zip(self.groups, level)]
            over = Interval(np.concatenate([o.lo for o in over]), np.concatenate([o.hi for o in over]))
            over = self.limit * norm(over, conjugate(self.p))
            bounds.append(total([of(h) * self.mass for h in level]) + over)
        for t in (slope, 1e-9 * float(abs(mid).max())) if self.p is None else ():
            if t > 0.0:  # sum q g <= t limit + t mass log(sum exp(g / t) / (m mass))
                sums = [((g[k] - h) / t).map(np.exp).clip(0.0).sum() for k, h in zip(self.groups, top)]
                logs = [(e / (of(self.mass) * self.m)).clip(TINY).map(np.log) for e in sums]
                bounds.append(self.limit * t + total([(x * t + h) * self.mass for x, h in zip(logs, top)]))
        return min(bounds, key=lambda b: b.hi)
class Ellipsoid:  # c + {S d : d'S d <= r^2}, S a sum of multiples of covariances; S = I of a ball
    def __init__(self, node, X, y):
        ball = kind_of(node) == "Ball"
        center, shape, r = fields(node, "center", "p" if ball else "shape", "radius")
        need((not ball or shape == 2.0) and r >= 0.0, "a radius that is not negative, and p = 2")
        self.r, self.center, self.parts = of(r), of(np.zeros(X.shape[1])), None if ball else []
        for c, x in [] if kind_of(center) == "Origin" else terms_of(center):
            need(kind_of(x) == "Mean", "a center of means")
            A = samples(*fields(x, "samples"), X, y)[0]
            self.center = dot(A.T, np.ones(len(A))) / float(len(A)) * c + self.center
        for c, x in [] if ball else terms_of(shape):
            need(kind_of(x) == "Covariance" and c.lo > 0.0, "a shape of covariances")
            self.parts.append((c, samples(*fields(x, "samples"), X, y)[0]))
    def image(self, d):  # S d, and the root of d'S d
        if self.parts is None:
            return of(d), norm(d, 2.0)
        z, square = of(np.zeros(self.center.lo.size)), of(0.0)
        for c, A in self.parts:
            scores = dot(A, d) - dot(A, d).sum() / float(len(A))
            z = dot(A.T, scores - scores.sum() / float(len(A))) * c / float(len(A)) + z
            square = scores.square().sum() * c / float(len(A)) + square
        return z, square.sqrt()
    def point(self, d):
        z, size = self.image(vector(d, self.center.lo.size))
        return z * shrink(size, self.r) + self.center
    def support(self, d): return (self.center * d).sum() + self.r * self.image(d)[1]
def bounds_of_set(model, file, X, y):
    model, p = fields(model, "set", "norm") if kind_of(model) == "RobustMargin" else (model, 2.0)
    body, points = terms_of(model), file["dual"]["generators"]
    need(file["weights"] is None and p >= 1.0, "a set of samples without weights")
    x, w, height = of(np.zeros(X.shape[1])), vector(file["primal"]["w"], X.shape[1]), of(0.0)
    for (c, node), q in zip(body, points, strict=True):
        V = {"Hull": Hull, "Ellipsoid": Ellipsoid, "Ball": Ellipsoid}[kind_of(node)](node, X, y)
        x, height = V.point(q) * c + x, V.support(of(-w) * c) + height
    return -norm(x, conjugate(p)).hi, (height / norm(w, p)).hi
def loss_of(node):  # A loss l of u = o - t: whose samples, o, the end of its slopes, l, and l*
    kind, end = kind_of(node), np.inf
    if kind == "Hinge":
        p, o, on = fields(node, "p", "start", "on")
        need(p >= 1.0, "p >= 1")
        if p == 1.0:
            return on, o, 1.0, lambda u: u.clip(0.0), lambda s: s * 0.0
        return on, o, end, lambda u: u.clip(0.0).power(p), lambda s: (s / p).power(conjugate(p)) * (of(p) - 1)
    if kind == "HuberHinge":  # l(u) = v^2 / (2 delta) + u - v with v = min(u, delta)
        delta, on = fields(node, "delta", "on")
        return (on, 1.0, 1.0, lambda u: u.clip(0.0, delta).square() / (2.0 * delta) + (u - delta).clip(0.0),
                lambda s: s.square() * (of(delta) * 0.5))
    if kind == "Logistic":
        return (*fields(node, "on"), 0.0, 1.0, lambda u: u.map(lambda x: np.logaddexp(0.0, x)),
                lambda s: s.entropy() + (of(1.0) - s).clip(0.0, 1.0).entropy())
    if kind == "Exponential":
        return *fields(node, "on"), 0.0, end, lambda u: u.map(np.exp), lambda s: s.entropy() - s
    need(kind == "LeastSquares", f"another loss than {kind}")
    return *fields(node, "on"), 1.0, None, lambda u: u.square(), lambda s: s.square() * 0.25
class Penalty:  # sum_k v_k ||w_k||_p over groups of features, plus c ||w||_2^2
    def __init__(self, node, n):
        self.groups, self.ridge, kinds = [], of(0.0), []
        for c, term in terms_of(node):
            kind = kind_of(term)
            need(kind in ("L2", "L1", "GroupLasso", "Norm"), f"another penalty than {kind}")
            kinds += [kind] if kind != "L2" else []
            if kind == "L2":
                self.ridge = c if self.ridge.hi == 0.0 else self.ridge + c
            elif kind == "Norm":
                self.groups = [(np.ones(n, bool), c, *fields(term, "p"))]
                need(self.groups[0][2] >= 1.0, "p >= 1")
            else:
                label, v = fields(term, "groups", "weights")
                label = np.arange(n) if kind == "L1" else vector(label, n)
                v = np.ones(np.unique(label).size) if v is None else vector(v, np.unique(label).size)
                need((v >= 0.0).all(), "weights that are not negative")
                self.groups = [(label == k, c * x, 2.0) for k, x in zip(np.unique(label), v)]
        need(len(kinds) < 2 and (kinds != ["Norm"] or self.ridge.hi == 0.0), "one norm, or L1 and L2")
    def value(self, w):
        return total([v * norm(w[g], p) for g, v, p in self.groups] + [self.ridge * of(w).square().sum()])
    def factor(self, z):  # A factor in [0, 1] that brings z into the domain of R*
        sizes = [(norm(z[g], conjugate(p)), v) for g, v, p in self.groups]
        return 1.0 if self.ridge.lo > 0.0 else min(shrink(size, v) for size, v in sizes)
    def conjugate(self, z):
        if self.ridge.lo > 0.0:
            over = [(norm(z[g], p) - v).clip(0.0) for g, v, p in self.groups] or [norm(z, 2.0)]
            return total([x.square() for x in over]) / (self.ridge * 4.0)
        return of(0.0) if self.factor(z) == 1.0 else of(np.inf)
def bounds_of_objective(model, file, X, y):
    loss, penalty, intercept, scaling = fields(model, "loss", "penalty", "intercept", "scaling")
    w, (b,) = vector(file["primal"]["w"], X.shape[1]), vector([file["primal"]["b"]], 1)
    weights = np.ones(y.size) if file["weights"] is None else vector(file["weights"], y.size)
    need((weights >= 0.0).all() and intercept in ("free", "penalised", None), "weights that are not negative")
    need(b == 0.0 or intercept, "b = 0 of a model without intercept")
    if intercept == "penalised":
        X, w, b = np.column_stack([X, np.full(y.size, scaling)]), np.append(w, b / scaling), 0.0
    R, slopes, parts, used = Penalty(penalty, X.shape[1]), vector(file["dual"]["slopes"], y.size), [], 0
    margin, upper = (dot(X, w) + b) * y, R.value(w)
    for c, node in terms_of(loss):
        on, o, end, value, star = loss_of(node)
        rows = np.ones(y.size, bool) if on is None else members(on, y)
        each, used = c * weights[rows], used + 1 * rows
        s = np.divide(slopes[rows], each.hi, out=np.zeros(rows.sum()), where=each.lo > 0.0)
        parts.append((rows, each, s if end is None else np.clip(s, 0.0, end), o, end, star))
        upper = upper + (each * value(of(o) - margin[rows])).sum()
    need(np.max(used) == 1, "one loss of each sample")
    def dual_point(keep, f):  # c s y and the gain, of slopes s times real factors f and keep
        beta, gain = Interval(np.zeros(y.size), np.zeros(y.size)), of(0.0)
        for rows, each, s, o, end, star in parts:
            part = of(s) * f * Interval(*np.array([[k.lo, k.hi] for k in keep])[1 * (y[rows] * s < 0.0)].T)
            part = part if end is None else part.clip(0.0, end)
            beta.lo[rows], beta.hi[rows] = (at := each * part).lo, at.hi
            gain = gain + (each * (part * o - star(part))).sum()
        return beta * y, gain
    keep, f = [of(1.0), of(1.0)], 1.0
    if intercept == "free":  # the sums over both signs of y s become equal, by one real factor
        signed = dual_point(keep, f)[0]
        up, down = signed.clip(0.0).sum(), (signed * -1.0).clip(0.0).sum()
        small, large, heavy = (down, up, 0) if up.hi > down.hi else (up, down, 1)
        keep[heavy] = small / large if small.lo > 0.0 else of(0.0)
        f = (1.0 - 1e-14) / max(1.0, float(keep[heavy].hi)) if small.lo > 0.0 else 0.0
    for _ in range(5):
        beta, gain = dual_point(keep, f)
        z = dot(X.T, beta)
        f *= (further := R.factor(z)) * (1.0 if further == 1.0 else 1.0 - 1e-15)
    return (gain - R.conjugate(z)).lo, upper.hi
def digest(a): return hashlib.sha256(np.ascontiguousarray(a, dtype="<f8").tobytes()).hexdigest()
def check(file, X, y):  # The proven interval of the optimum, (lower, upper); an error if it is not known
    need((file["format"], file["version"]) == ("ucm certificate", 1), "a certificate of version 1")
    X, labels, model = np.asarray(X, float), np.unique(y), file["declaration"]["model"]
    need(X.ndim == 2 and np.isfinite(X).all() and np.shape(y) == (len(X),), "a table of finite numbers")
    y = np.where(np.asarray(y) == labels[-1], 1.0, -1.0)
    y = y if digest(y) == file["data"]["y"] else -y
    need((digest(X), digest(y)) == (file["data"]["X"], file["data"]["y"]), "the samples of the certificate")
    with np.errstate(all="ignore"):
        bounds = (bounds_of_objective if kind_of(model) == "Objective" else bounds_of_set)(model, file, X, y)
    return tuple(map(float, bounds))
def main(certificate, X, y):
    try:
        with open(certificate, encoding="utf-8") as stream:
            file = json.load(stream)
        claim, (lower, upper) = file["bounds"], check(file, np.load(X), np.load(y))
        accepted = claim["lower"] <= lower <= upper <= claim["upper"]
    except Exception as error:  # whatever is wrong with a file, it proves nothing
        print(f"REFUSED: {type(error).__name__}: {error}")
        return 2
    print(f"{'ACCEPTED' if accepted else 'NOT PROVEN'}: {lower!r} <= optimum <= {upper!r}, claimed: {claim}")
    print(f"declaration: {json.dumps(file['declaration']['model'])}, sample weights: {bool(file['weights'])}")
    return 0 if accepted else 1
if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]) if len(sys.argv) == 4 else print(__doc__) or 2)
