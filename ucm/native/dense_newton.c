/* Proximal Newton steps for a smooth loss with the squared l2 norm, the support function of a box of slopes (an l1 norm,
   weighted or of one sign), or both, in few features.

   min sum_i c_i l(t_i) + ridge |w|^2 + sup over lower <= s <= upper of <w, s> - <v, t> - <u, w>, l the logistic loss or the
   squared hinge, t_i = y_i (w'x_i + b), z = (w, b). The method of ucm/solvers/objective/proximal_step.py: a step minimises
   the quadratic model of the losses, with the bias eliminated, by coordinate.c, and is halved until it has gained enough.
   The matrix of an earlier point serves again while steps gain. */
#include <string.h>

#include "native.h"

static const double SUFFICIENT = 1e-4; /* of the decrease that the model foretells */
static const int HALVINGS = 40;
static const double ROUNDING = 1e-14;  /* of the objective */
static const int64_t ROUNDS = 50;      /* of a quadratic program */
static const double FEASIBLE = 1e-10;  /* of the walls, to which its slopes keep */
static const double AGAIN = 1e-2;      /* ratio of two gains below which a matrix serves once more */
static const double NEAR = 1e-2;       /* of the objective, the gain of a step after which the gap is looked at */
static const int64_t STUCK = 3;        /* steps in a row that gain nothing */
static const double NAMED = 1e-7;      /* over a wall, where the slopes of the tilt are at it: named, not pulled back */

enum { UNDERWAY, PROVEN, ENDED };

/* The sum of the losses at the margins t; s minus the slopes, h the second derivatives. */
static double losses(const dense_newton_t *p, const double *t, double *s, double *h)
{
    double total = 0.0;
    for (int64_t i = 0; i < p->m; i++) {
        const double c = p->c[i];
        if (p->squared) {
            const double miss = larger(0.0, 1.0 - t[i]);
            total += c * miss * miss;
            s[i] = 2.0 * c * miss;
            h[i] = miss > 0.0 ? 2.0 * c : 0.0;
        } else {
            const double e = exp(-fabs(t[i])), share = (t[i] > 0.0 ? e : 1.0) / (1.0 + e);
            total += c * (log1p(e) - smaller(t[i], 0.0));
            s[i] = c * share;
            h[i] = c * share * (1.0 - share);
        }
    }
    return total;
}

/* c l*(a / c), less the offset times a */
static double conjugate(const dense_newton_t *p, double a, double c)
{
    if (c == 0.0) return 0.0;
    const double s = a / c;
    if (p->squared) return c * (0.25 * s * s - s);
    const double low = s > 0.0 ? s * log(s) : 0.0;
    return c * (s < 1.0 ? low + (1.0 - s) * log1p(-s) : low);
}

/* z = sum_i beta_i y_i x_i; sum_i beta_i y_i. */
VECTORISED static double pull(const dense_newton_t *p, const double *beta, double *restrict z)
{
    const int64_t n = p->n;
    double total = 0.0;
    memset(z, 0, (size_t)n * sizeof *z);
    for (int64_t i = 0; i < p->m; i++) {
        const double b = p->y[i] * beta[i], *row = p->X + i * n;
        if (b == 0.0) continue;
        total += b;
        if (p->starts)
            for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) z[p->columns[e]] += b * p->X[e];
        else
            for (int64_t j = 0; j < n; j++) z[j] += b * row[j];
    }
    return total;
}

/* Fenchel's bound at the dual point a, as `Composite.lower_bound`; what it misses of its constraints in *missed. */
static double bound(const dense_newton_t *p, double *missed)
{
    const int64_t m = p->m, n = p->n;
    double *beta = p->beta, *z = p->pulled, up = 0.0, down = 0.0;
    for (int64_t i = 0; i < m; i++) {
        beta[i] = p->a[i] + p->v[i];
        up += larger(p->y[i] * beta[i], 0.0);
        down -= smaller(p->y[i] * beta[i], 0.0);
    }
    const bool both = up > 0.0 && down > 0.0;
    const double less_up = both ? smaller(1.0, down / up) : 0.0, less_down = both ? smaller(1.0, up / down) : 0.0;
    for (int64_t i = 0; i < m; i++) beta[i] *= p->y[i] * beta[i] > 0.0 ? less_up : less_down;
    pull(p, beta, z);
    double share = 1.0, over = -1.0, before = 0.0, total = 0.0;
    for (int64_t j = 0; j < n; j++) {
        const double at = p->u[j] + z[j], wall = z[j] > 0.0 ? p->upper[j] : p->lower[j];
        if (p->ridge > 0.0) {
            const double out = larger(at - p->upper[j], 0.0) + smaller(at - p->lower[j], 0.0);
            total -= 0.25 * out * out / p->ridge;
            continue;
        }
        over = larger(over, at / (at > 0.0 ? p->upper[j] : p->lower[j]) - 1.0);
        before = larger(before, p->u[j] / (p->u[j] > 0.0 ? p->upper[j] : p->lower[j]));
        if (fabs(at) > fabs(wall) && at * z[j] > 0.0) share = smaller(share, (wall - p->u[j]) / z[j]);
    }
    const bool named = 0.0 < over && over <= NAMED && before >= 1.0 - 1e-6;
    *missed = named ? over : 0.0;
    share = named ? 1.0 : larger(share, 0.0);
    for (int64_t i = 0; i < m; i++) {
        const double top = p->squared ? INFINITY : p->c[i], still = smaller(larger(-p->v[i], 0.0), top);
        const double a = still + share * (beta[i] - p->v[i] - still);
        total -= conjugate(p, smaller(larger(a, 0.0), top), p->c[i]);
    }
    return total;
}

/* H = (X - 1 mean')' diag(h) (X - 1 mean'), mean that of the samples by h; behind it the sum of h. */
VECTORISED static void form(dense_newton_t *p)
{
    const int64_t n = p->n;
    double *H = p->H, *mean = p->mean, mass = 0.0;
    int64_t held = 0;
    memset(H, 0, (size_t)(n * n) * sizeof *H);
    memset(mean, 0, (size_t)(n + 1) * sizeof *mean);
    for (int64_t i = 0; i < p->m; i++) {
        const double h = p->h[i], root = sqrt(h), *row = p->X + i * n;
        if (h == 0.0) continue;
        mass += h;
        if (p->starts) {
            const int64_t end = p->starts[i + 1];
            for (int64_t e = p->starts[i]; e < end; e++) {
                const double c = h * p->X[e];
                double *restrict to = H + (int64_t)p->columns[e] * n;
                mean[p->columns[e]] += c;
                for (int64_t f = e; f < end; f++) to[p->columns[f]] += c * p->X[f];
            }
            continue;
        }
        double *copy = p->chunk + held * n;
        for (int64_t j = 0; j < n; j++) {
            mean[j] += h * row[j];
            copy[j] = root * row[j];
        }
        if (++held == CHUNK) {
            add_rows(n, held, p->chunk, 1.0, H);
            held = 0;
        }
    }
    add_rows(n, held, p->chunk, 1.0, H);
    mean[n] = mass > 0.0 ? mass : 1.0;
    for (int64_t j = 0; j < n; j++) mean[j] /= mean[n];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) H[j * n + i] = H[i * n + j] -= mean[n] * mean[i] * mean[j];
}

/* The penalty less the tilt. */
static double penalty(const dense_newton_t *p, const double *w)
{
    double total = p->ridge * dot(p->n, w, w) - dot(p->n, p->u, w);
    for (int64_t j = 0; j < p->n; j++) total += (w[j] > 0.0 ? p->upper[j] : p->lower[j]) * w[j];
    return total;
}

/* t_i = y_i (w'x_i + b) */
VECTORISED static void margins(const dense_newton_t *p, const double *w, double b, double *t)
{
    for (int64_t i = 0; i < p->m; i++) {
        const double *row = p->X + i * p->n;
        double total = b;
        if (p->starts)
            for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) total += p->X[e] * w[p->columns[e]];
        else
            for (int64_t j = 0; j < p->n; j++) total += w[j] * row[j];
        t[i] = p->y[i] * total;
    }
}

/* The losses at t, less their tilt; slopes and curvatures there. */
static double smooth(const dense_newton_t *p, const double *t, double *s, double *h)
{
    return losses(p, t, s, h) - dot(p->m, p->v, t);
}

/* The step d of the model from w, e that of the bias; what it is foretold to gain. */
static double model_step(dense_newton_t *p, double bend, double *e)
{
    const int64_t n = p->n;
    const double *w = p->z;
    double wide = 0.0, gain;
    for (int64_t j = 0; j < n; j++) {
        wide = larger(wide, larger(p->upper[j], -p->lower[j]));
        p->r[j] = p->g[j] - bend * p->mean[j];
        p->next[j] = w[j];
    }
    quadratic_t q = {.n = n, .H = p->H, .r = p->r, .x = p->next, .lower = p->lower, .upper = p->upper,
                     .ridge = 2.0 * p->ridge, .tol = FEASIBLE * wide,
                     .left = wide > 0.0 ? ROUNDS : 1, /* without walls one system solves it */
                     .system = p->system, .d = p->d, .support = p->support};
    minimise_quadratic(&q, INFINITY);
    *e = -bend / p->mean[n];
    for (int64_t j = 0; j < n; j++) {
        p->d[j] = p->next[j] - w[j];
        *e -= p->mean[j] * p->d[j];
    }
    gain = p->fixed - penalty(p, p->next) - bend * *e;
    for (int64_t j = 0; j < n; j++) gain -= (p->g[j] + p->u[j]) * p->d[j];
    return gain;
}

static void begin(dense_newton_t *p)
{
    double **rows[] = {&p->s, &p->curve, &p->t_next, &p->s_next, &p->curve_next, &p->beta, &p->move};
    double **features[] = {&p->g, &p->r, &p->next, &p->d, &p->pulled}, *at = p->scratch;
    for (int k = 0; k < 7; k++, at += p->m) *rows[k] = at;
    for (int k = 0; k < 5; k++, at += p->n) *features[k] = at;
    p->system = at;
    p->chunk = at + p->n * p->n;
    p->smooth = smooth(p, p->t, p->s, p->curve);
    p->fixed = penalty(p, p->z);
    p->value = p->smooth + p->fixed;
    p->before = p->gap = INFINITY;
    p->stale = p->mean[p->n] == 0.0;
    p->passes = 0.0;
    p->systems = p->steps = p->stuck = p->status = 0;
    p->begun = 1;
}

static void swap(double **a, double **b)
{
    double *t = *a;
    *a = *b;
    *b = t;
}

/* One step. */
static void step(dense_newton_t *p)
{
    const int64_t m = p->m, n = p->n;
    double *w = p->z, e = 0.0, gain, height = 0.0, after = 0.0, share = 1.0;
    bool kept, taken = false;
    for (int64_t i = 0; i < m; i++) p->beta[i] = p->s[i] + p->v[i];
    const double bend = -pull(p, p->beta, p->g), slack = ROUNDING * fabs(p->value);
    p->passes += 0.5;
    for (int64_t j = 0; j < n; j++) p->g[j] = -(p->g[j] + p->u[j]);
    for (;;) {
        kept = !p->stale;
        if (p->stale) {
            memcpy(p->h, p->curve, (size_t)m * sizeof *p->h);
            form(p);
            p->systems++;
            p->stale = 0;
        }
        gain = model_step(p, bend, &e);
        if (!(kept && (gain > AGAIN * p->before || !(gain > -slack)))) break;
        p->stale = 1;
    }
    p->status = ENDED;
    if (!(gain > -slack)) return;
    p->before = gain;
    margins(p, p->d, e, p->move);
    p->passes += 0.5;
    for (int halving = 0; halving < HALVINGS && !taken; halving++) {
        if (halving) share *= 0.5;
        for (int64_t i = 0; i < m; i++) p->t_next[i] = p->t[i] + share * p->move[i];
        for (int64_t j = 0; j < n; j++) p->next[j] = w[j] + share * p->d[j];
        after = smooth(p, p->t_next, p->s_next, p->curve_next);
        height = penalty(p, p->next);
        taken = after + height <= p->value - SUFFICIENT * share * gain + slack;
    }
    if (!taken) {
        if (!kept) return;
        p->stale = 1;
        p->gap = INFINITY;
        p->status = UNDERWAY;
        p->steps++;
        return;
    }
    p->stuck = after + height < p->value - slack ? 0 : p->stuck + 1;
    const bool near = share == 1.0 && gain <= NEAR * fabs(p->value);
    for (int64_t i = 0; near && i < m; i++) {
        const double top = p->squared ? INFINITY : p->c[i];
        p->a[i] = smaller(larger(p->s[i] - p->h[i] * p->move[i], 0.0), top);
    }
    memcpy(w, p->next, (size_t)n * sizeof *w);
    w[n] += share * e;
    memcpy(p->t, p->t_next, (size_t)m * sizeof *p->t);
    swap(&p->s, &p->s_next);
    swap(&p->curve, &p->curve_next);
    p->smooth = after;
    p->fixed = height;
    p->value = after + height;
    p->gap = INFINITY;
    if (near) {
        double missed;
        const double least = bound(p, &missed);
        p->passes += 0.5;
        if (missed <= p->tol) p->gap = (p->value - least) / larger(fabs(p->value), 1e-300);
    }
    p->steps++;
    if (reached(p->gap, p->tol)) p->status = PROVEN;
    else if (p->stuck < STUCK) p->status = UNDERWAY;
}

/* Multiplications since the problem began, roughly. */
static double work(const dense_newton_t *p)
{
    const double m = (double)p->m, n = (double)p->n, each = p->starts ? (double)p->starts[p->m] / m : n;
    const double system = 0.5 * m * each * each + n * n * n;
    return 2.0 * m * each * p->passes + (double)p->systems * system + 40.0 * m * (double)p->steps;
}

/* Solve a problem from z, with its margins in t; return true if the tolerance is proven, with the dual point in a. In log
   stand the objective, the gap (inf where it was not looked at), passes, systems and steps. Stops after `most` steps, or
   when `budget` multiplications are spent: then the next call goes on where this one stopped. */
EXPORT int64_t newton_solve(dense_newton_t *p, const double *lower, const double *upper, double ridge, double *z, double *a,
                            double *log, double budget)
{
    p->lower = lower;
    p->upper = upper;
    p->ridge = ridge;
    p->z = z;
    p->a = a;
    if (!p->begun) begin(p);
    const double before = work(p);
    while (p->status == UNDERWAY && p->steps < p->most && work(p) - before <= budget) step(p);
    const double entry[] = {p->value, p->gap, p->passes, (double)p->systems, (double)p->steps};
    memcpy(log, entry, sizeof entry);
    return p->status == PROVEN;
}
