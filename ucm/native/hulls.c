/* Active-set semismooth Newton augmented Lagrangian for two hulls, or for two boxes.

   min |x|^2 / 2 over x = center + sum_c Z_c'q_c, 0 <= q_c <= cap_c, sum q_c = mass_c. From q, an outer step minimises
   over w

       |w|^2 / 2 - <center, w> + sum_c max over p_c of { -<Z_c w, p_c> - |p_c - q_c|^2 / (2 sigma) },

   whose gradient is w - x(p) and whose generalised Hessian is I + sigma (sum over free rows of z z' -
   sum_c s_c s_c' / f_c), s_c the sum and f_c the number of the free rows (0 < p < cap) of a class. Then q becomes p, and
   sigma grows. Rows far from their breakpoints are held at 0 or at the cap: only the others, the active rows, are
   looked at, until scores have moved so far that the rest may have reached theirs.

   The hinge loss is the same without masses: with margins t_i = a_i + y_i b, a = Z w, the dual of
   |w|^2 / 2 - <center, w> + sum_i cap_i max(0, o - t_i) - b excess is max o sum p - |x|^2 / 2 over the boxes
   0 <= p_i <= cap_i with sum y_i p_i = -excess, which falls away for a fixed b = 0. One multiplier b stands for both thetas, theta_c = o - y_c b, and s_1 - s_2 in
   the Hessian for both sums. A linear term <v, t> in the margins is center = Z'v, excess = y'v. Limits G w >= level add
   G'mu to x and <level, mu> to the dual, mu >= 0: rows with a theta of their own each, no cap and no part in the sum.

   Zhao, Sun and Toh (2010) give the method; Ito, Takeda and Toh (2015), equation (12), the problem. */
#include <string.h>

#include "native.h"

static const int64_t MOST_STEPS = 40;  /* Newton steps of one outer step */
static const int MOST_ROUNDS = 200;    /* of a root */
static const int64_t PATIENCE = 8;     /* outer steps in a row that gain nothing */
static const double GAINED = 0.99;     /* of the least gap so far: above, nothing is gained */
static const double USELESS = 0.1;     /* a gap that says nothing: sigma has to grow first */
static const int64_t REFUSED = 8;      /* times in a row that sigma shrinks */
static const double SHRINK = 0.1;      /* of sigma, where Newton steps did not suffice: breakpoints are too close */
static const double LARGEST = 1e16;    /* sigma, in caps over scores */
static const double ENOUGH = 0.8;      /* of the tolerance */
static const double SEPARATED = 1e-12; /* of the largest norm met: a longer distance from 0 is no rounding */
static const double FAR_SHIFT = 1e3;   /* caps: a longer shift leaves rounding in differences */
static const double ROUNDING = 1e-15;  /* of the sums that meet at a root */
static const int MOST_TRIALS = 40;     /* of a line search */
static const double CLOSE = 1e-2;      /* of the bracket of a line search */
static const double FLAT = 0.2;        /* of the first slope: the slope at the end of a line search */
static const double SUFFICIENT = 1e-4; /* of the decrease that the first slope foretells (Armijo) */
static const double WHOLE = 1e-11;     /* of a cap: a mass that is a whole number of caps, up to rounding */

enum { CENTRE, REFRESH, ACTIVATE, NEWTON };  /* phase: a new centre, a look at all rows, new active rows, Newton steps */
enum { HULLS, FREE, FIXED };               /* boxes: whether they stand for hulls, and b is free */
enum { UNDERWAY, PROVEN, EMPTY, STALLED };   /* status */
enum { GOES_ON, SMALL, EXHAUSTED, ENDED };   /* the outer step: why it ended; ENDED: the loop, with a status */

typedef struct {
    int64_t lo, m; /* the first active row, and how many */
    const double *caps;
    double cap;
} side_t;

static side_t side_of(const hulls_t *h, int c)
{
    const int64_t lo = h->first[c];
    return (side_t){lo, h->active[c] - lo, h->caps ? h->caps + lo : NULL, h->cap[c]};
}

static double widest(const hulls_t *h) { return larger(h->cap[0], h->cap[1]); }

static bool all_active(const hulls_t *h) { return h->active[0] == h->end[0] && h->active[1] == h->end[1]; }

/* --- the projection --- */

VECTORISED static clipped_t clipped_by_row(int64_t n, const double *v, double x, const double *caps)
{
    double total = 0.0;
    int64_t positive = 0, capped = 0;
    for (int64_t i = 0; i < n; i++) {
        double t = v[i] - x;
        const double cap = caps[i];
        positive += t > 0.0;
        capped += t >= cap;
        t = t > 0.0 ? t : 0.0;
        total += t < cap ? t : cap;
    }
    return (clipped_t){total, positive, capped};
}

static clipped_t clip_sum(const double *v, side_t of, double x)
{
    if (!v) return (clipped_t){0.0, 0, 0};
    return of.caps ? clipped_by_row(of.m, v, x, of.caps) : clipped(of.m, v, x, of.cap);
}

/* The root s of sum clip(v - s, 0, cap) - sum clip(u + s, 0, top) + rest, u NULL for none.
   The function is piecewise linear and does not grow with s: Newton's step is exact on a linear piece, which it is if
   the counts do not change. Bisection where steps leave the bracket or do not get shorter. */
static double balance(const double *v, side_t of_v, const double *u, side_t of_u, double rest, double far)
{
    double s = 0.0, low = -INFINITY, high = INFINITY, last = INFINITY;
    clipped_t up_before = {0.0, -1, 0}, down_before = up_before;
    bool direct = false;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const clipped_t up = clip_sum(v, of_v, s), down = clip_sum(u, of_u, -s);
        const double left = up.total - down.total + rest;
        const bool same = up.positive == up_before.positive && up.capped == up_before.capped &&
                          down.positive == down_before.positive && down.capped == down_before.capped;
        const int64_t free = up.positive - up.capped + down.positive - down.capped;
        if (fabs(left) <= ROUNDING * (up.total + down.total) || (direct && same)) break;
        up_before = up;
        down_before = down;
        if (left > 0.0) low = s;
        else high = s;
        double step = left > 0.0 ? far : -far;
        if (free > 0) step = left / (double)free;
        else far *= 2.0;
        const bool bounded = low > -INFINITY && high < INFINITY;
        double next = s + step;
        direct = free > 0 && low < next && next < high && (fabs(step) <= 0.7 * last || !bounded);
        last = direct ? fabs(step) : INFINITY;
        if (!direct && bounded) next = low + 0.5 * (high - low);
        if (!(low < next && next < high)) break;
        s = next;
    }
    return s;
}

/* v <- q - sigma (a + t b - theta) */
VECTORISED static void arguments(int64_t n, const double *q, const double *a, const double *b, double t, double sigma,
                                 double theta, double *restrict v)
{
    for (int64_t i = 0; i < n; i++) v[i] = q[i] - sigma * ((a[i] + t * b[i]) - theta);
}

/* v <- clip(v - s, 0, cap) */
VECTORISED static void clip(double *v, side_t of, double s)
{
    for (int64_t i = 0; i < of.m; i++) {
        const double t = v[i] - s, cap = of.caps ? of.caps[i] : of.cap, positive = t > 0.0 ? t : 0.0;
        v[i] = positive < cap ? positive : cap;
    }
}

VECTORISED static void subtract(int64_t n, double *v, double s)
{
    for (int64_t i = 0; i < n; i++) v[i] -= s;
}

/* p of one hull in v, which holds its arguments at theta; by how much theta falls, times sigma. A long shift is taken
   first: what is left of the arguments near the breakpoints is exact. */
static double project_hull(const hulls_t *h, int c, double *v)
{
    const side_t of = side_of(h, c);
    const double mass = h->mass[c] - h->held_mass[c];
    if (mass >= of.cap * (double)of.m - WHOLE * of.cap || mass <= WHOLE * of.cap) {
        for (int64_t i = 0; i < of.m; i++) v[i] = mass <= WHOLE * of.cap ? 0.0 : of.cap;
        return 0.0;
    }
    double s = balance(v, of, NULL, of, -mass, of.cap), before = 0.0;
    if (fabs(s) > FAR_SHIFT * of.cap) {
        before = s;
        subtract(of.m, v, before);
        s = balance(v, of, NULL, of, -mass, of.cap);
    }
    clip(v, of, s);
    return before + s;
}

/* p of both boxes in v, as above. */
static double project_boxes(const hulls_t *h, double *v)
{
    const side_t plus = side_of(h, 0), minus = side_of(h, 1);
    double *up = v + plus.lo, *down = v + minus.lo, before = 0.0;
    const double rest = h->held_mass[0] - h->held_mass[1] + h->excess;
    double s = balance(up, plus, down, minus, rest, widest(h));
    if (fabs(s) > FAR_SHIFT * widest(h)) {
        before = s;
        subtract(plus.m, up, before);
        subtract(minus.m, down, -before);
        s = balance(up, plus, down, minus, rest, widest(h));
    }
    clip(up, plus, s);
    clip(down, minus, -s);
    return before + s;
}

/* p at the scores a + t b of the active rows in v; theta, from the one given. */
static void project(const hulls_t *h, const double *b, double t, double *theta, double *v)
{
    if (h->boxes) {
        const double bias = h->boxes == FIXED ? 0.0 : 0.5 * (theta[1] - theta[0]);
        theta[0] = h->offset - bias;
        theta[1] = h->offset + bias;
    }
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        arguments(h->active[c] - lo, h->q + lo, h->a + lo, b + lo, t, h->sigma, theta[c], v + lo);
        if (!h->boxes) theta[c] -= project_hull(h, c, v + lo) / h->sigma;
    }
    if (h->boxes == FIXED) {
        for (int c = 0; c < 2; c++) clip(v + h->first[c], side_of(h, c), 0.0);
    } else if (h->boxes) {
        const double s = project_boxes(h, v) / h->sigma;
        theta[0] -= s;
        theta[1] += s;
    }
}

/* The multipliers of the limits at the scores a + t b, into `next`. */
static void price(const hulls_t *h, double t)
{
    const limits_t *l = &h->limits;
    for (int64_t k = 0; k < l->count; k++)
        l->next[k] = larger(l->center[k] - h->sigma * (l->a[k] + t * l->b[k] - l->level[k]), 0.0);
}

/* a <- G w */
static void limit_scores(const hulls_t *h, const double *w, double *a)
{
    for (int64_t k = 0; k < h->limits.count; k++) a[k] = dot(h->n, h->limits.G + k * h->n, w);
}

/* p <- target, and the multipliers of the limits; x with them. */
static void move(hulls_t *h, const double *target)
{
    for (int64_t k = 0; k < h->limits.count; k++) {
        add(h->n, h->x, h->limits.next[k] - h->limits.mu[k], h->limits.G + k * h->n);
        h->limits.mu[k] = h->limits.next[k];
    }
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c], m = h->active[c] - lo;
        const int64_t changed = rows_move(&h->rows[c], m, h->tags + lo, target + lo, h->p + lo, h->x);
        h->passes += 0.5 * (double)changed / (double)h->end[1];
    }
}

/* theta and p at the scores a; x with them. */
static void settle(hulls_t *h)
{
    double *target = h->work + h->end[1];
    project(h, h->a, 0.0, h->theta, target);
    price(h, 0.0);
    move(h, target);
}

/* --- the gap --- */

VECTORISED static double sum(int64_t n, const double *v)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += v[i];
    return total;
}

/* theta mass - sum cap max(theta - a, 0) - <a, p>, mass that of p: a lower bound of <a, p'> - <a, p> over the p' of the
   hull, at any theta. */
VECTORISED static double beneath(side_t of, const double *a, const double *p, double mass, double theta)
{
    double total = 0.0;
    for (int64_t i = 0; i < of.m; i++) {
        const double below = theta - a[i], cap = of.caps ? of.caps[i] : of.cap;
        total += (below > 0.0 ? cap * below : 0.0) + p[i] * a[i];
    }
    return theta * mass - total;
}

/* (|x| - bound) / |x|, the bound from w and theta: at most the least <x', w> / |w| over the set.

   For boxes |w - x|^2 / 2 + sum cap max(theta - a, 0) - (theta - a) p + mu |G w - level| over the objective: w may lie
   outside of the limits by a rounding. */
static double relative_gap(hulls_t *h)
{
    const int64_t n = h->n;
    const double ww = dot(n, h->w, h->w), xx = dot(n, h->x, h->x), wx = dot(n, h->w, h->x);
    if (h->boxes) {
        double apart = 0.5 * (ww + xx) - wx, total = 0.0;
        for (int c = 0; c < 2; c++) {
            const side_t of = side_of(h, c);
            const double mass = sum(of.m, h->p + of.lo);
            apart -= beneath(of, h->a + of.lo, h->p + of.lo, mass, h->theta[c]);
            total += mass + h->held_mass[c];
        }
        double prices = 0.0;
        for (int64_t k = 0; k < h->limits.count; k++) {
            const double mu = h->limits.mu[k], level = h->limits.level[k];
            apart += mu * fabs(h->limits.a[k] - level);
            prices += mu * level;
        }
        h->value = h->offset * total + prices - 0.5 * xx + apart;
        return apart / fabs(h->value);
    }
    const double size = sqrt(xx), length = sqrt(ww);
    h->value = size;
    if (!(size > 0.0 && length > 0.0)) return INFINITY;
    double bound = wx;
    for (int c = 0; c < 2; c++) {
        const side_t of = side_of(h, c);
        bound += beneath(of, h->a + of.lo, h->p + of.lo, h->mass[c] - h->held_mass[c], h->theta[c]);
    }
    return (size - bound / length) / size;
}

/* Whether the gap meets the tolerance; held rows may have to confirm it. */
static bool small_enough(const hulls_t *h) { return reached(h->gap, ENOUGH * h->tol); }

/* Whether the loop ends, with its status: the gap is proven, 0 lies in the set, or numbers overflow. */
static bool ends(hulls_t *h)
{
    h->gap = relative_gap(h);
    h->nearest = smaller(h->nearest, fabs(h->gap));
    const bool apart = (1.0 - h->gap) * h->value > SEPARATED * h->largest;
    if (!isfinite(h->sigma) || isnan(h->gap)) h->status = STALLED; /* an overflow: no step helps */
    else if (!h->boxes && h->value <= h->zero * h->largest && !apart) h->status = EMPTY;
    else if (small_enough(h) && all_active(h)) h->status = PROVEN;
    return h->status != UNDERWAY;
}

/* --- the active rows --- */

/* a = Z w on all rows, which all become active. */
static void score(hulls_t *h)
{
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        h->active[c] = h->end[c];
        h->held_mass[c] = h->held_step[c] = 0.0;
        rows_dot(&h->rows[c], h->end[c] - lo, h->tags + lo, h->w, h->a + lo);
    }
    limit_scores(h, h->w, h->limits.a);
    h->passes += 0.5;
    h->slack = INFINITY;
}

VECTORISED static double farthest(int64_t n, const double *v, const double *w)
{
    double far = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double apart = fabs(v[i] - w[i]);
        far = apart > far ? apart : far;
    }
    return far;
}

/* How far scores, and theta with them, have moved since they were last compared. */
static double moved(const hulls_t *h)
{
    double far = 0.0;
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        const double own = farthest(h->active[c] - lo, h->a + lo, h->reference + lo);
        far = larger(far, own + fabs(h->theta[c] - h->old_theta[c]));
    }
    return far;
}

/* The marked entries in front, all orders kept; rest is scratch. */
#define SIFT(name, type)                                                                 \
    static void name(int64_t n, type *v, const double *marks, type *rest)                \
    {                                                                                    \
        int64_t front = 0, back = 0;                                                     \
        for (int64_t i = 0; i < n; i++) {                                                \
            const type each = v[i];                                                      \
            const bool in = marks[i] != 0.0;                                             \
            v[front] = rest[back] = each;                                                \
            front += in;                                                                 \
            back += !in;                                                                 \
        }                                                                                \
        memcpy(v + front, rest, (size_t)back * sizeof *v);                               \
    }
SIFT(sift, double)
SIFT(sift_tags, uint32_t)

/* Bring the active rows of a class whose argument of the projection comes within sigma reach of [0, cap] to the front,
   all orders kept; how many they are. */
static int64_t compact(hulls_t *h, int c, double reach)
{
    const side_t of = side_of(h, c);
    double *marks = h->work + of.lo, *rest = marks + h->end[1];
    const double wide = h->sigma * reach;
    int64_t size = 0;
    for (int64_t i = 0; i < of.m; i++) {
        const double v = h->q[of.lo + i] - h->sigma * (h->a[of.lo + i] - h->theta[c]);
        const bool near = -wide < v && v < (of.caps ? of.caps[i] : of.cap) + wide;
        marks[i] = near ? 1.0 : 0.0;
        size += near;
    }
    if (size == of.m) return size;
    sift(of.m, h->q + of.lo, marks, rest);
    sift(of.m, h->p + of.lo, marks, rest);
    sift(of.m, h->a + of.lo, marks, rest);
    if (h->caps) sift(of.m, h->caps + of.lo, marks, rest);
    sift_tags(of.m, h->tags + of.lo, marks, (uint32_t *)rest);
    return size;
}

VECTORISED static double square_of_step(int64_t n, const double *p, const double *q)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += (p[i] - q[i]) * (p[i] - q[i]);
    return total;
}

/* Hold the active rows that are farther than `reach` from their breakpoints; at least two rows of each class stay.
   Movement is counted from here. */
static void shrink(hulls_t *h, double reach)
{
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c], m = h->active[c] - lo;
        double own = reach;
        int64_t kept = compact(h, c, own);
        while (kept < (m < 2 ? m : 2) && own < INFINITY) {
            own = own > 0.0 ? 4.0 * own : INFINITY; /* 4 times 0 reaches no further */
            kept = compact(h, c, own);
        }
        h->active[c] = lo + kept;
        h->held_mass[c] += sum(m - kept, h->p + lo + kept);
        h->held_step[c] += square_of_step(m - kept, h->p + lo + kept, h->q + lo + kept);
        memcpy(h->reference + lo, h->a + lo, (size_t)kept * sizeof *h->a);
        h->old_theta[c] = h->theta[c];
    }
    h->reach = reach;
    h->slack = all_active(h) ? INFINITY : smaller(h->slack, reach);
}

/* --- Newton steps --- */

/* sigma for a start: breakpoints 0.2 times as far apart as the scores are off in the mean, which its gap says. Most of
   that gap is of q, and w is nearer (along paths 0.1 to 0.8 cost the same). */
static void first_sigma(hulls_t *h)
{
    double gap = larger(relative_gap(h), 0.1 * h->tol), mass = h->mass[0] + h->mass[1];
    if (h->boxes) {
        mass = sum(h->end[1], h->p);
        gap *= fabs(h->value);
    } else {
        gap *= sqrt(dot(h->n, h->x, h->x) * dot(h->n, h->w, h->w));
    }
    h->sigma = widest(h) * mass / (0.4 * gap);
    h->reach = 20.0 * gap / mass;
}

/* Bring H and S up to date with the free active rows. */
static void count_free(hulls_t *h)
{
    for (int c = 0; c < 2; c++) {
        const side_t of = side_of(h, c);
        double *s = h->S + c * h->n;
        int64_t count[2];
        for (int came = 0; came < 2; came++)
            count[came] = rows_exchange(&h->rows[c], of.m, h->tags + of.lo, h->p + of.lo, of.caps, of.cap,
                                        came ? 1.0 : -1.0, h->H, s, h->chunk);
        h->free[c] += (double)(count[1] - count[0]);
        h->forming += 0.25 * (double)h->n * (double)(count[0] + count[1]) / (double)h->end[1];
    }
}

/* The upper triangle of ridge I + sigma (H - sum_c s_c s_c' / f_c); of boxes (s_1 - s_2) over f_1 + f_2 in their place, and
   nothing for a fixed b. */
VECTORISED static void hessian(const hulls_t *h, double ridge, double *restrict work)
{
    const int64_t n = h->n;
    const double *H = h->H, *s = h->S, *t = h->S + n, sigma = h->sigma, both = larger(h->free[0] + h->free[1], 1.0);
    const double own[2] = {larger(h->free[0], 1.0), larger(h->free[1], 1.0)};
    for (int64_t i = 0; i < n; i++) {
        const double first = h->boxes == FIXED ? 0.0 : h->boxes ? (s[i] - t[i]) / both : s[i] / own[0];
        const double second = h->boxes ? -first : t[i] / own[1];
        for (int64_t j = i; j < n; j++) work[i * n + j] = sigma * (H[i * n + j] - first * s[j] - second * t[j]);
        work[i * n + i] += ridge;
    }
    for (int64_t k = 0; k < h->limits.count; k++) {
        const double *g = h->limits.G + k * n;
        if (h->limits.mu[k] > 0.0)
            for (int64_t i = 0; i < n; i++) add(n - i, work + i * n + i, sigma * g[i], g + i);
    }
}

/* d = -H^-1 g; false when the system is not definite even with a ridge. */
static bool direction(hulls_t *h)
{
    double top = 0.0, ridge = 1.0;
    count_free(h);
    for (int64_t i = 0; i < h->n; i++) top = larger(top, h->H[i * h->n + i]);
    for (int attempt = 0; attempt < 4; attempt++) {
        hessian(h, ridge, h->system);
        for (int64_t i = 0; i < h->n; i++) h->d[i] = -h->g[i];
        if (cholesky_solve(h->n, 1, h->system, h->d)) {
            h->systems++;
            return true;
        }
        ridge = larger(100.0 * ridge, 1e-14 * h->sigma * top);
    }
    return false;
}

typedef struct {
    hulls_t *h;
    double start, square, theta[2];
} ray_t;

/* <p' - p, b>, p' the trial point */
VECTORISED static double slope_of(int64_t n, const double *target, const double *p, const double *b)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += (target[i] - p[i]) * b[i];
    return total;
}

/* The slope of the augmented Lagrangian at w + t d; theta and p' are those there. */
static double slope_along(ray_t *r, double t)
{
    hulls_t *h = r->h;
    const double *b = h->work;
    double *target = h->work + h->end[1], slope = r->start + t * r->square;
    project(h, b, t, r->theta, target);
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        slope -= slope_of(h->active[c] - lo, target + lo, h->p + lo, b + lo);
    }
    price(h, t);
    return slope - slope_of(h->limits.count, h->limits.next, h->limits.mu, h->limits.b);
}

/* t > 0 where the augmented Lagrangian has decreased and its slope is small, or the last of MOST_TRIALS trials; the last
   call of slope_along is at the t returned. The rule is that of `line_search` in ucm/numerics/newton_steps.py. */
static double line_search(ray_t *r)
{
    const double start = r->start;
    double low = 0.0, at_low = start, lowest = start, high = INFINITY, at_high = INFINITY, t = 1.0;
    bool close = false;
    for (int trial = 1; trial < MOST_TRIALS; trial++) {
        const double s = slope_along(r, t);
        if (s <= 0.0) {
            if (s >= FLAT * start) return t;
            low = t;
            at_low = lowest = s;
            at_high *= 0.5;
        } else {
            if (s <= -FLAT * start && low * lowest + (t - low) * s <= SUFFICIENT * t * start) return t;
            high = t;
            at_high = s;
            at_low *= 0.5;
        }
        if (high == INFINITY) {
            t *= 2.0;
        } else if (close) {
            t = 0.5 * (low + high);
            close = false;
        } else {
            t = low - at_low * (high - low) / (at_high - at_low);
            close = t - low < CLOSE * (high - low);
        }
    }
    t = low > 0.0 ? low : t; /* the function has fallen there */
    slope_along(r, t);
    return t;
}

/* Move along d to where the slope is small; p and x follow. False where d is no direction of descent. */
static bool descend(hulls_t *h)
{
    double *b = h->work;
    ray_t r = {h, dot(h->n, h->g, h->d), dot(h->n, h->d, h->d), {h->theta[0], h->theta[1]}};
    if (!(r.start < 0.0)) return false;
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c], m = h->active[c] - lo;
        rows_dot(&h->rows[c], m, h->tags + lo, h->d, b + lo);
        h->passes += 0.5 * (double)m / (double)h->end[1];
    }
    limit_scores(h, h->d, h->limits.b);
    const double t = line_search(&r);
    add(h->n, h->w, t, h->d);
    add(h->limits.count, h->limits.a, t, h->limits.b);
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        h->theta[c] = r.theta[c];
        add(h->active[c] - lo, h->a + lo, t, b + lo);
    }
    move(h, b + h->end[1]);
    return true;
}

/* Look at all rows before the next step, and keep those active that come within `look` of their breakpoints. */
static void refresh(hulls_t *h, double look)
{
    h->look = look;
    h->phase = REFRESH;
}

/* One Newton step, unless the gradient is small against the proximal step; how the outer step goes on. */
static int newton_step(hulls_t *h)
{
    double step = square_of_step(h->limits.count, h->limits.mu, h->limits.center);
    for (int c = 0; c < 2; c++) {
        const int64_t lo = h->first[c];
        step += h->held_step[c] + square_of_step(h->active[c] - lo, h->p + lo, h->q + lo);
    }
    for (int64_t i = 0; i < h->n; i++) h->g[i] = h->w[i] - h->x[i];
    const double small = larger(step / h->sigma, 1e-32 * dot(h->n, h->w, h->w));
    if (dot(h->n, h->g, h->g) <= small) return SMALL;
    if (h->steps == MOST_STEPS || !direction(h)) return EXHAUSTED;
    if (!descend(h)) return SMALL; /* rounding */
    h->steps++;
    const double far = moved(h);
    h->travel = h->before + far;
    if (far > h->slack) { /* held rows may have crossed a breakpoint: the same q and sigma, more rows */
        h->before = h->travel;
        refresh(h, 4.0 * far);
    }
    return GOES_ON;
}

/* --- the outer steps --- */

/* The first p from a new centre, and whether the active rows still serve. */
static void begin(hulls_t *h)
{
    h->steps = 0;
    h->travel = h->before = 0.0;
    if (h->sigma == 0.0) first_sigma(h);
    settle(h);
    h->slack -= h->slack < INFINITY ? moved(h) : 0.0;
    h->look = h->reach;
    h->phase = h->slack < h->reach ? REFRESH : ACTIVATE;
}

/* One step in the phase; how the outer step goes on. A gap of the active rows alone is confirmed by all rows. */
static int step(hulls_t *h)
{
    if (h->phase == CENTRE) begin(h);
    if (h->phase == REFRESH) {
        score(h);
        settle(h);
        h->phase = ACTIVATE;
    }
    if (ends(h)) return ENDED;
    if (small_enough(h)) {
        refresh(h, 2.0 * h->reach);
        return GOES_ON;
    }
    if (h->phase == ACTIVATE) {
        count_free(h);
        shrink(h, h->look);
        h->phase = NEWTON;
    }
    return newton_step(h);
}

/* The factor of sigma after an outer step of so many Newton steps: the fewer, the larger. */
static double growth(int64_t steps)
{
    static const double factors[] = {3.0, 9.0, 6.0, 4.2, 3.0, 3.0};
    return steps <= 5 ? factors[steps] : 2.1;
}

/* p becomes the centre and sigma grows. Where the Newton steps did not suffice p is no proximal point: then the centre
   stays, and sigma shrinks. */
static void advance(hulls_t *h, int ended)
{
    const double scores = larger(fabs(h->theta[0]), fabs(h->theta[1]));
    if (ended == EXHAUSTED && h->refused < REFUSED) {
        h->refused++;
        h->sigma *= SHRINK;
    } else {
        h->refused = 0;
        memcpy(h->q, h->p, (size_t)h->end[1] * sizeof *h->q);
        memcpy(h->limits.center, h->limits.mu, (size_t)h->limits.count * sizeof *h->limits.mu);
        h->held_step[0] = h->held_step[1] = 0.0;
        h->sigma *= growth(h->steps);
        if (scores > 0.0) h->sigma = smaller(h->sigma, LARGEST * widest(h) / scores);
    }
    h->reach = larger(0.3 * h->travel, 2.0 * widest(h) / h->sigma);
    h->idle = h->nearest < GAINED * h->best || h->nearest >= USELESS ? 0 : h->idle + 1;
    h->best = smaller(h->best, h->nearest);
    if (h->idle >= PATIENCE) h->status = STALLED;
}

/* Outer steps, one for each of `count` rows of log, fewer when done or when `budget` multiplications are spent: then the
   next call goes on where this one stopped. How many were completed. A row of log has passes, relative gap and value. */
EXPORT int64_t solve_hulls(hulls_t *h, int64_t count, double *log, double budget)
{
    const double passes = h->passes + h->forming, systems = (double)h->systems, n = (double)h->n;
    int64_t done = 0;
    double work = 0.0;
    h->work = h->scratch;
    h->system = h->work + 2 * h->end[1];
    h->chunk = h->system + h->n * h->n;
    h->g = h->chunk + CHUNK * h->n;
    h->d = h->g + h->n;
    while (done < count && h->status == UNDERWAY && work <= budget) {
        const int ended = step(h);
        if (ended != GOES_ON) {
            double *row = log + 3 * done++;
            row[0] = h->passes;
            row[1] = h->gap;
            row[2] = h->value;
            h->phase = CENTRE;
            if (ended != ENDED) advance(h, ended);
        }
        work = 2.0 * h->entries * (h->passes + h->forming - passes) + n * n * n / 3.0 * ((double)h->systems - systems);
    }
    return done;
}
