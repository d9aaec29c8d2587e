/* The scalar equation behind every p-norm, q + c q^e = u, and the projection on its ball. */
#include "native.h"

static const double SQUARABLE = 1e300;
static const double EPS = 0x1p-52;
static const double NORMAL = 0x1p-1022; /* the least number of full precision */

/* Newton for x + c x^e = u, e >= 1: convex and increasing, so from a point right of the root it descends;
   min(u, (u/c)^(1/e)) is one, within a factor 2 of the root. For e = 2 in closed form. */
static double root_of(double u, double c, double e)
{
    if (e == 2.0 && c * u < SQUARABLE) return 2.0 * u / (1.0 + sqrt(1.0 + 4.0 * c * u));
    double x = smaller(u, pow(u / c, 1.0 / e));
    for (int k = 0; k < 200; k++) {
        const double power = pow(x, e - 1.0);
        const double after = x - (x + c * power * x - u) / (1.0 + c * e * power);
        if (!(after < x)) break;
        x = after;
    }
    return x;
}

static double entry(double u, double c, double e)
{
    if (!(u > 0.0)) return 0.0;
    if (c == 0.0) return u;
    if (e >= 1.0) return root_of(u, c, e);
    /* z = q^e: z + z^(1/e) / c = u / c. Rounding of z is 1 / e times as large in q: Newton's step in q takes that away */
    const double q = pow(root_of(u / c, 1.0 / c, 1.0 / e), 1.0 / e);
    if (!(q >= NORMAL)) return q;
    const double power = c * pow(q, e - 1.0);
    const double after = q - (q + power * q - u) / (1.0 + e * power);
    return after > 0.0 ? after : q; /* also where c q^(e - 1) overflows */
}

/* q >= 0 with q + c q^e = max(u, 0) elementwise, c >= 0 (one, or one for each) and e > 0. */
void power_root(int64_t n, const double *u, int64_t many, const double *c, double e, double *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = entry(u[i], c[many > 1 ? i : 0], e);
}

typedef struct { double total, slope; } level_t;

/* The entries s at lam and their derivatives w; sum c s^p, and its slope over p in -lam. */
static level_t level(double lam, int64_t n, const double *u, const double *c, double p, double *s, double *w)
{
    level_t sums = {0.0, 0.0};
    for (int64_t i = 0; i < n; i++) {
        s[i] = entry(u[i] / c[i], lam / c[i], p - 1.0);
        const double k = lam / c[i] * (p - 1.0);
        double first = 0.0; /* s^(p-1) */
        if (p >= 2.0) {
            const double second = pow(s[i], p - 2.0);
            first = second * s[i];
            w[i] = (u[i] > 0.0 ? 1.0 : 0.0) / (1.0 + k * second);
        } else {
            const double smooth = pow(s[i], 2.0 - p);
            if (s[i] > 0.0) first = s[i] / smooth;
            w[i] = smooth / (smooth + k);
        }
        sums.total += c[i] * first * s[i];
        sums.slope += w[i] * first * first;
    }
    return sums;
}

/* The q nearest to u >= 0 with sum c (q / c)^p = 1, 1 < p < inf, u outside; w is dq of a change of u - lam normal, and
   normal = (q / c)^(p-1). With s = q / c the equations are s + (lam / c) s^(p-1) = u / c. As (sum c s^p)^(-1/2) is
   nearly linear in lam, Newton's method is applied to that, in a bracket. work is (2 n,). */
void project_power(int64_t n, const double *u, const double *c, double p, double *q, double *w, double *normal, double *work)
{
    double *s = work, *beyond = work + n; /* the entries at lam, and at lo */
    const double close = 8.0 * EPS * p;
    double lo = 0.0, hi = INFINITY, above = NAN, below = NAN, before = INFINITY;
    double lam = n > 0 ? range(n, u).high : 0.0;
    const double least = EPS * EPS * lam; /* below it a change of u is far below rounding */
    for (int k = 0; k < 300 && n > 0; k++) {
        const level_t at = level(lam, n, u, c, p, s, w);
        const double excess = at.total - 1.0;
        if (fabs(excess) <= close) break;
        if (lo == 0.0 && excess < 0.0 && lam <= least) { /* u is on the sphere but for rounding */
            for (int64_t i = 0; i < n; i++) s[i] = u[i] / c[i];
            break;
        }
        if (excess > 0.0) {
            lo = lam;
            above = excess;
            for (int64_t i = 0; i < n; i++) beyond[i] = s[i];
        } else {
            hi = lam;
            below = excess;
        }
        const double step = at.slope > 0.0 ? 2.0 * at.total * (sqrt(at.total) - 1.0) / (p * at.slope) : INFINITY;
        double after = lam + step;
        if (lo < after && after < hi && fabs(step) <= 0.5 * before && lam <= 64.0 * after && after <= 64.0 * lam) {
            before = fabs(step);
        } else {
            after = hi == INFINITY ? 16.0 * lam : lo == 0.0 ? 0.0625 * lam : sqrt(lo) * sqrt(hi);
            before = INFINITY;
        }
        if (!(lo < after && after < hi)) { /* lo and hi are neighbours, and lam one of them */
            if (lam == lo) level(hi, n, u, c, p, s, w);
            const double share = -below / (above - below);
            for (int64_t i = 0; i < n; i++) s[i] = share * beyond[i] + (1.0 - share) * s[i];
            break;
        }
        lam = after;
    }
    for (int64_t i = 0; i < n; i++) {
        q[i] = c[i] * s[i];
        normal[i] = pow(s[i], p - 1.0);
    }
}
