/* The root theta of sum clip(v - theta, 0, cap) = mass.

   The sum is piecewise linear and non-increasing in theta, and both its sets, {v > theta} and {v >= theta + cap}, shrink
   as theta grows: equal counts at two points mean equal sets, hence one linear piece, on which Newton's step is
   exact. Every pass over the data is branch-free, so that it vectorises; sorting would cost more than all passes
   together.

   theta is an unevaluated sum ref + shift: with entries near 1e12 a single double would leave an error of 1e-4 in
   every v - theta, while (v - ref) - shift is exact where it matters. So this file is not compiled with
   -fassociative-math, which turns that into v - (ref + shift); its sums stand in sums.c. */
#include "native.h"

static const double LOST = 1e3; /* an excess above LOST mass holds rounding errors of the size of the mass */
static const double EPS = 0x1p-52;

typedef struct {
    double x, step; /* the last point, and Newton's step from there */
    bool exact;     /* x + step is the root */
    double lo, hi;
} newton_t;

/* Safeguarded Newton for the root in [lo, hi], from x. */
static newton_t newton(int64_t n, const double *v, double lo, double hi, double x, double cap, double mass)
{
    clipped_t last = {0.0, -1, -1};
    double before = INFINITY;
    bool direct = false;
    for (;;) {
        const clipped_t sums = clipped(n, v, x, cap);
        const double excess = sums.total - mass;
        const int64_t free = sums.positive - sums.capped;
        const double step = free > 0 ? excess / (double)free : 0.0;
        const bool same = sums.positive == last.positive && sums.capped == last.capped && fabs(excess) <= LOST * mass;
        if (excess == 0.0 || (direct && same)) return (newton_t){x, step, true, lo, hi};
        last = sums;
        if (excess > 0.0) lo = larger(lo, x);
        else hi = smaller(hi, x);
        double after = x + step;
        if (free > 0 && after == x) return (newton_t){x, step, false, lo, hi};
        direct = free > 0 && lo <= after && after <= hi && fabs(step) <= 0.7 * before;
        if (direct) {
            before = fabs(step);
        } else {
            after = lo + 0.5 * (hi - lo);
            if (!(lo < after && after < hi)) return (newton_t){x, 0.0, false, lo, hi}; /* also when v holds NaN */
            before = INFINITY;
        }
        x = after;
    }
}

/* The entry of v nearest to x. */
static double nearest(int64_t n, const double *v, double x)
{
    double best = v[0], least = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double far = fabs(v[i] - x);
        if (far < least) {
            least = far;
            best = v[i];
        }
    }
    return best;
}

/* The root, sought from guess where that lies in the bracket (NaN: from its middle); ref = -inf: all are capped.
   work is (n,). */
root_t solve_root(int64_t n, const double *v, double cap, double mass, double guess, double *work)
{
    if (n == 0 || cap * (double)n <= mass) return (root_t){-INFINITY, 0.0};
    /* At min v - mass/n no clipped entry is below mass/n, at max v - mass/n none above it. */
    const range_t of = range(n, v);
    double lo = of.low - mass / (double)n, hi = of.high - mass / (double)n;
    if (cap >= mass) lo = larger(lo, hi + mass / (double)n - mass); /* the largest entry alone would reach the mass */
    const double x = lo < guess && guess < hi ? guess : lo + 0.5 * (hi - lo);
    newton_t at = newton(n, v, lo, hi, x, cap, mass);
    if (at.exact) return (root_t){at.x, at.step};
    /* No double near x is the root: solve for the rest, relative to the entry next to x; near it the rests are exact. */
    const double near = nearest(n, v, at.x), slack = 4.0 * EPS * larger(fabs(at.lo), fabs(at.hi)) + fabs(at.step);
    for (int64_t i = 0; i < n; i++) work[i] = v[i] - near;
    at = newton(n, work, (at.lo - near) - slack, (at.hi - near) + slack, (at.x - near) + at.step, cap, mass);
    return (root_t){near, at.x + at.step};
}
