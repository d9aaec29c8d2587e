/* Reduced hulls seen from one direction: the threshold score, a line, the samples tied at it.

   A group of samples has scores s, caps c and a mass; max <q, s> over 0 <= q <= c, sum q = mass fills the samples from
   the top. The score at which the mass runs out is the threshold; samples above it weigh their cap, those below it
   nothing, those at it (tied) share the rest. */
#include "native.h"

static const double ROUNDING = 1e-12; /* of a mass: 1/eta may be a whole number */

static void swap(double *a, double *b)
{
    const double c = *a;
    *a = *b;
    *b = c;
}

/* The score at which the caps, taken from the largest score down, reach the mass: quickselect, in which a and w are
   permuted. n >= 1; NaN ends it, with any score. */
static double select_threshold(int64_t n, double *a, double *w, double mass)
{
    int64_t low = 0, high = n;
    double need = mass * (1.0 - ROUNDING);
    for (;;) {
        const double x = a[low], y = a[(low + high) / 2], z = a[high - 1];
        const double pivot = larger(smaller(x, y), smaller(larger(x, y), z));
        int64_t i = low, j = low, k = high;
        double above = 0.0, equal = 0.0;
        while (j < k) {
            if (a[j] > pivot) {
                above += w[j];
                swap(a + i, a + j);
                swap(w + i, w + j);
                i++;
                j++;
            } else if (a[j] < pivot) {
                k--;
                swap(a + j, a + k);
                swap(w + j, w + k);
            } else {
                equal += w[j];
                j++;
            }
        }
        if (i > low && need <= above) {
            high = i;
        } else if (need <= above + equal || k >= high) {
            return pivot;
        } else {
            need -= above + equal;
            low = k;
        }
    }
}

/* work is (2 n,). */
double top_threshold(int64_t n, const double *s, const double *c, double mass, double *work)
{
    if (n == 0) return NAN;
    for (int64_t i = 0; i < n; i++) {
        work[i] = s[i];
        work[n + i] = c[i];
    }
    return select_threshold(n, work, work + n, mass);
}

typedef struct {
    const double *s, *d, *c;
    int64_t groups;
    const int64_t *bounds;
    const double *masses;
    double c0, c1;
    double *work; /* u, and what select_threshold permutes: (3 n,) */
} line_t;

typedef struct { double t, value, slope; } point_t;

/* Value and a slope of c0 + c1 t + sum over groups of max <q, s + t d>. */
static point_t at(const line_t *f, double t)
{
    point_t p = {t, f->c0 + f->c1 * t, f->c1};
    for (int64_t g = 0; g < f->groups; g++) {
        const int64_t a = f->bounds[g], n = f->bounds[g + 1] - a;
        if (n == 0) continue;
        double *u = f->work;
        for (int64_t i = 0; i < n; i++) u[i] = f->s[a + i] + t * f->d[a + i];
        const double theta = top_threshold(n, u, f->c + a, f->masses[g], u + n);
        double rest = f->masses[g];
        for (int64_t i = 0; i < n; i++)
            if (u[i] > theta) {
                rest -= f->c[a + i];
                p.value += f->c[a + i] * u[i];
                p.slope += f->c[a + i] * f->d[a + i];
            }
        rest = larger(rest, 0.0);
        p.value += rest * theta;
        for (int64_t i = 0; i < n && rest > 0.0; i++)
            if (u[i] == theta) {
                const double part = smaller(rest, f->c[a + i]);
                p.slope += part * f->d[a + i];
                rest -= part;
            }
    }
    return p;
}

/* The t > 0 where the convex, piecewise linear function of `at` is least. Tangents of both sides meet above, or at, the
   minimum; where they meet at the graph it is found. bounds is (groups + 1,), work (3 bounds[groups],). */
double line_minimum(const double *s, const double *d, const double *c, int64_t groups, const int64_t *bounds,
                    const double *masses, double c0, double c1, double first, double *work)
{
    const line_t f = {s, d, c, groups, bounds, masses, c0, c1, work};
    point_t low = at(&f, 0.0), high = at(&f, first);
    for (int k = 0; k < 60 && !(high.slope >= 0.0); k++) {
        low = high;
        high = at(&f, 4.0 * high.t);
    }
    if (low.slope >= 0.0) /* ties at t = 0: any slope of the left may have come */
        low.slope = smaller(low.slope, (high.value - low.value) / (high.t - low.t));
    for (int k = 0; k < 100 && !(high.slope <= low.slope); k++) {
        const double t = (low.value - high.value + high.slope * high.t - low.slope * low.t) / (high.slope - low.slope);
        if (!(low.t < t && t < high.t)) break;
        const point_t middle = at(&f, t);
        const double meet = low.value + low.slope * (t - low.t);
        if (middle.value <= meet + 1e-14 * fabs(meet)) return t;
        if (middle.slope < 0.0) low = middle;
        else high = middle;
    }
    return low.value <= high.value && low.t > 0.0 ? low.t : high.t;
}
