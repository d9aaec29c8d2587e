/* Projection on, and support of, the simplex intersected with a Euclidean ball.

   Both are q(t) = P_simplex(t v) with ||q(t)|| = radius: the projection has t in (0, 1], the support function t in
   (0, inf]. On a fixed set of n_o positive entries in each class o, with mean a_o and sum of squared deviations S_o
   of v,

       q_i = mass_o / n_o + t (v_i - a_o),        ||q||^2 = sum_o (mass_o^2 / n_o + t^2 S_o),

   so t has a closed form once the sets are right. The sets shrink as t grows, so equal counts at two t mean equal
   sets. q(t) does not change with a constant added to the v of a class: its largest entry is subtracted first, since
   t may be as large as the inverse of the differences of v. */
#include "native.h"

static const double FAR = 1e250;

/* The largest entry, and how many are equal to it (inf: there is none). */
typedef struct { double high, count; } ties_t;

static ties_t ties(int64_t n, const double *v)
{
    if (n == 0) return (ties_t){0.0, INFINITY};
    const double high = range(n, v).high;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += v[i] == high;
    return (ties_t){high, (double)count};
}

/* Of the entries that are positive in P_simplex(t v): mass / n, mean, squared deviations, n. */
typedef struct { double share, mean, squares, count; } piece_t;

static piece_t piece(int64_t n, const double *v, double mass, double t, double *work)
{
    if (n == 0) return (piece_t){0.0, 0.0, 0.0, 0.0};
    root_t root = {-INFINITY, 0.0};
    if (t != 0.0) root = capped_root(n, v, INFINITY, mass / t, work);
    const deviations_t d = deviations(n, v, root.ref, root.shift);
    return (piece_t){mass / d.count, d.mean, d.squares, d.count};
}

typedef struct { double t; piece_t pos, neg; } scale_t;

/* t and the pieces of both classes (the second may be empty) at which the norm is the radius. */
static scale_t scale(int64_t m, const double *pos, int64_t k, const double *neg, double mass, double radius, double limit,
                     double *work)
{
    double lo = 0.0, hi = INFINITY;
    piece_t a = piece(m, pos, mass, 0.0, work), b = piece(k, neg, mass, 0.0, work);
    double excess = radius * radius - mass * (a.share + b.share);
    if (excess <= 0.0) return (scale_t){0.0, a, b};
    const double all = a.squares + b.squares;
    if (!(all < FAR) || (limit == INFINITY && all < 1.0 / FAR)) return (scale_t){NAN, a, b};
    double t = limit == 1.0 ? 1.0 : sqrt(excess / all);
    bool direct = false;
    for (;;) {
        const double count = a.count + b.count;
        a = piece(m, pos, mass, t, work);
        b = piece(k, neg, mass, t, work);
        excess = radius * radius - mass * (a.share + b.share);
        const double squares = a.squares + b.squares;
        if (t * t * squares > excess) hi = t;
        else if (t == limit) return (scale_t){t, a, b};
        else lo = t;
        double after = excess > 0.0 && squares > 0.0 ? sqrt(excess / squares) : 0.0;
        if (direct && a.count + b.count == count) return (scale_t){after, a, b};
        direct = lo < after && after < hi;
        if (!direct) {
            after = lo == 0.0 ? 0.125 * hi : hi == INFINITY ? 8.0 * lo : sqrt(lo * hi);
            if (!(lo < after && after < hi)) return (scale_t){t, a, b};
        }
        t = after;
    }
}

/* q(t) of the largest t <= limit with ||q(t)|| <= radius; limit is 1 (projection) or inf. Mass 1, or 1/2 in each class.
   found: t and, for each class, tau with q = t (v - tau)_+. t = 0 is the uniform vector, t = inf the entries
   equal to the largest, t = nan says that the squares of v overflow or vanish. out may be v; work is (2 n,). */
EXPORT VECTORISED void project_ball_simplex(int64_t n, const double *v, int64_t labelled, const double *classes, double radius,
                                     double limit, double *out, double *found, double *work)
{
    const double mass = labelled ? 0.5 : 1.0;
    int64_t m = n;
    if (labelled) m = pack(n, v, classes, work);
    else for (int64_t i = 0; i < n; i++) work[i] = v[i];
    const ties_t top = ties(m, work), bottom = ties(n - m, work + m);
    for (int64_t i = 0; i < n; i++) work[i] -= i < m ? top.high : bottom.high;
    scale_t at;
    if (limit == INFINITY && mass * mass * (1.0 / top.count + 1.0 / bottom.count) <= radius * radius) {
        at.t = limit;
        at.pos = (piece_t){mass / top.count, 0.0, 0.0, top.count};
        at.neg = (piece_t){mass / bottom.count, 0.0, 0.0, bottom.count};
    } else {
        at = scale(m, work, n - m, work + m, mass, radius, limit, work + n);
    }
    for (int64_t i = 0; i < n; i++) {
        const bool positive = !labelled || classes[i] > 0.0;
        const double high = positive ? top.high : bottom.high, mean = positive ? at.pos.mean : at.neg.mean;
        const double d = (v[i] - high) - mean;
        double q = positive ? at.pos.share : at.neg.share;
        q += d != 0.0 ? at.t * d : 0.0;
        out[i] = q < 0.0 ? 0.0 : q; /* NaN stays */
    }
    found[0] = at.t;
    found[1] = top.high + at.pos.mean - at.pos.share / at.t;
    found[2] = bottom.high + at.neg.mean - at.neg.share / at.t;
}
