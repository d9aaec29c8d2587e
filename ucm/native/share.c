/* The shares of a mixture of points, balls and capped simplices: see ucm/language/domains/mixture.py. */
#include "native.h"

static const double EPS = 0x1p-52;

static int64_t least_index(double r, int64_t n) { return r < (double)n ? (int64_t)floor(r) : n - 1; }

typedef struct { double r, top; } pivoted_t;

/* In sums[j] that of v_i - v_k over k <= i < j, below k minus that over j <= i < k, where k is the first entry that is
   not filled at the largest <v, q> of the capped simplex. r: 1 / cap, rounded where it is a whole number; top:
   that largest <v, q>. v is descending, sums is (n + 1,). */
static pivoted_t pivoted(int64_t n, const double *v, double cap, double *sums)
{
    sums[0] = 0.0;
    if (n == 0) return (pivoted_t){0.0, -INFINITY};
    double r = 1.0 / cap;
    if (fabs(r - rint(r)) <= 1e-12 * r) r = rint(r);
    r = smaller(r, (double)n);
    const int64_t k = least_index(r, n);
    const double pivot = v[k];
    sums[k] = 0.0;
    for (int64_t j = k; j < n; j++) sums[j + 1] = sums[j] + (v[j] - pivot);
    for (int64_t j = k - 1; j >= 0; j--) sums[j] = sums[j + 1] - (v[j] - pivot);
    return (pivoted_t){r, pivot - sums[0] / r};
}

typedef struct { double theta, most, t, slope; } share_t; /* most is t / r, slope is dt/dmu */

/* argmin over (q, t) of ||q - v||^2 / 2 + mu t with 0 <= q <= t / r, sum q = t.

   The minimiser is q = clip(v - theta, 0, t / r). With G(x) = sum_i max(0, v_i - x) + r x, convex and piecewise
   linear, sum q = t says that theta and psi = theta + t / r lie at one level, G(theta) = G(psi) = L, and the
   derivative in t vanishes where L / r - (psi - theta) = mu. The width of a level set is concave in L, and the left side
   convex and decreasing: Newton's steps from the lowest level rise to the root, and the last one is exact.
   Levels are counted from the lowest, v from its pivot, so that nothing large cancels. */
static share_t capped_share(int64_t n, const double *v, const double *sums, double r, double top, double mu)
{
    if (mu >= top) return (share_t){mu, 0.0, 0.0, 0.0};
    if (r >= (double)n) { /* all weights are equal */
        const double t = (double)n * (top - mu);
        return (share_t){-INFINITY, t / (double)n, t, -(double)n};
    }
    const int64_t k0 = least_index(r, n);
    const double pivot = v[k0];
    if (r <= 1.0) { /* no cap */
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t k = (low + high) / 2;
            if (v[k] > mu) low = k + 1;
            else high = k;
        }
        return (share_t){mu, INFINITY, sums[low] - sums[0] + (double)low * (pivot - mu), -(double)low};
    }
    const double need = top - mu;
    double level = 0.0, theta = 0.0, width = 0.0, slope = 0.0;
    int64_t left = k0, right = k0;
    for (int step = 0; step < 200; step++) {
        int64_t low = left, high = n - 1; /* the last breakpoint of the falling branch that is not above the level */
        while (low < high) {
            const int64_t j = (low + high + 1) / 2;
            if (sums[j] + (v[j] - pivot) * (r - (double)j) <= level) low = j;
            else high = j - 1;
        }
        const int64_t j = low + 1;
        const double fall = 1.0 / (r - (double)j);
        theta = (level - sums[j]) * fall;
        low = 0; /* the first one of the rising branch */
        high = right;
        while (low < high) {
            const int64_t i = (low + high) / 2;
            if (sums[i] + (v[i] - pivot) * (r - (double)i) <= level) high = i;
            else low = i + 1;
        }
        const int64_t i = low;
        const bool same = step > 0 && i == right && j == left + 1;
        right = i;
        left = j - 1;
        const double rise = r > (double)i ? 1.0 / (r - (double)i) : 0.0;
        const double psi = r > (double)i ? (level - sums[i]) * rise : v[i - 1] - pivot;
        width = psi - theta;
        slope = rise - fall;
        const double excess = need + level / r - width;
        if (step == 0 && excess <= 0.0) return (share_t){pivot + theta, need, need * r, -r}; /* the lowest level may be flat */
        if (same) break;
        level += excess / (slope - 1.0 / r);
    }
    return (share_t){pivot + theta, width, width * r, -(slope * r) / (slope - 1.0 / r)};
}

/* The share of ||p|| <= radius t beside unit t, p inside of the ball or on it, and dt/dmu. */
static share_t ball_share(double radius, double unit, double length, double at, double mu)
{
    const double square = unit * unit, inner = (unit * at - mu) / square;
    if (inner > 0.0 && length <= radius * inner) return (share_t){0.0, 0.0, inner, -1.0 / square};
    const double t = (unit * at - mu + radius * length) / (square + radius * radius);
    if (t <= 0.0) return (share_t){0.0, 0.0, 0.0, 0.0};
    return (share_t){0.0, 0.0, t, -1.0 / (square + radius * radius)};
}

/* The shares t_g at the price mu with sum t_g(mu) = 1, by Newton's method in a bracket.

   v, ends : the scores of capped simplices, each descending, one after the other, and where each ends
   caps : of each simplex; of a ball or a point nothing counts
   units : 0 for a simplex
   radii, lengths, at : of a ball; its scores by their length, and that of the coordinate of the share
   found : (count, 3) theta, the cap times t, and t, where a ball has only t
   work : (ends[-1] + 3 count,) */
void shares(const double *v, int64_t count, const int64_t *ends, const double *caps, const double *units,
            const double *radii, const double *lengths, const double *at, double *found, double *work)
{
    double *r = work, *tops = work + count, *sums = work + 2 * count;
    double high = -INFINITY; /* no share is positive from there on */
    for (int64_t g = 0, first = 0; g < count; first = ends[g++]) {
        if (units[g] == 0.0) {
            const pivoted_t p = pivoted(ends[g] - first, v + first, caps[g], sums + first + g);
            r[g] = p.r;
            tops[g] = p.top;
        } else {
            tops[g] = radii[g] * lengths[g] + units[g] * at[g];
        }
        high = larger(high, tops[g]);
    }
    double low = -INFINITY, step = larger(1.0, 4.0 * EPS * fabs(high)), mu = high - step;
    for (int k = 0; k < 200; k++) {
        double total = 0.0, slope = 0.0;
        for (int64_t g = 0, first = 0; g < count; first = ends[g++]) {
            share_t s;
            if (units[g] == 0.0) {
                s = capped_share(ends[g] - first, v + first, sums + first + g, r[g], tops[g], mu);
                found[3 * g] = s.theta;
                found[3 * g + 1] = s.most;
            } else {
                s = ball_share(radii[g], units[g], lengths[g], at[g], mu);
            }
            found[3 * g + 2] = s.t;
            total += s.t;
            slope += s.slope;
        }
        if (fabs(total - 1.0) <= EPS) break;
        if (total > 1.0) low = larger(low, mu);
        else high = smaller(high, mu);
        double after = slope < 0.0 ? mu + (1.0 - total) / slope : NAN;
        if (fabs(after - mu) <= 2.0 * EPS * larger(fabs(mu), fabs(high))) break;
        if (!(low < after && after < high)) {
            if (low == -INFINITY) {
                step *= 2.0;
                after = mu - step;
            } else {
                after = 0.5 * (low + high);
            }
        }
        if (after == mu || after == low || after == high) break;
        mu = after;
    }
}
