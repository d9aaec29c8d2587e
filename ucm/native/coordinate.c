/* Quadratic functions plus the support function of a box: coordinate descent, and Newton steps on the coordinates
   that are not 0.

   min over x of x'Hx / 2 + <r0, x> + ridge |x|^2 / 2 + sup over lower <= s <= upper of <x, s>, lower <= 0 <= upper: an l1
   norm, weighted or of one sign, with or without a squared l2 norm. H is given as a matrix, or by the weighted columns
   it is of, H = X' diag(h) X - mass mean mean': then products with columns take the place of its rows, and there are no
   Newton steps. */
#include "native.h"

static const int SWEEPS = 6;              /* over the coordinates that are not 0, before a step on all of them */
static const int LONG_SWEEPS = 60;        /* the same where there are no such steps */
static const int STEPS_IN_A_ROW = 20;     /* on the support, each of which loses a coordinate at least */
static const double RIDGE = 1e-13;        /* of the diagonal */
static const double ENOUGH = 0.1;         /* of the tolerance, on the coordinates that are not 0 */

/* The slope of the quadratic part at coordinate j, without its ridge. */
static inline double slope_at(const quadratic_t *q, int64_t j)
{
    if (q->H) return q->r[j];
    double total = 0.0;
    if (q->starts) {
        for (int64_t e = q->starts[j]; e < q->starts[j + 1]; e++)
            total += q->values[e] * q->h[q->rows[e]] * q->v[q->rows[e]];
    } else {
        const double *column = q->values + j * q->m;
        for (int64_t i = 0; i < q->m; i++) total += column[i] * q->h[i] * q->v[i];
    }
    return q->r[j] + total - q->mass * q->mean[j] * q->shift;
}

static inline void move_by(quadratic_t *q, int64_t j, double step)
{
    q->x[j] += step;
    if (q->H) {
        const double *row = q->H + j * q->n;
        for (int64_t i = 0; i < q->n; i++) q->r[i] += step * row[i];
        return;
    }
    q->shift += step * q->mean[j];
    if (q->starts) {
        for (int64_t e = q->starts[j]; e < q->starts[j + 1]; e++) q->v[q->rows[e]] += step * q->values[e];
    } else {
        const double *column = q->values + j * q->m;
        for (int64_t i = 0; i < q->m; i++) q->v[i] += step * column[i];
    }
}

/* The best x_j with the others fixed; by how much its slope left its walls before. */
static inline double coordinate(quadratic_t *q, int64_t j)
{
    const double x = q->x[j], low = q->lower[j], high = q->upper[j], slope = slope_at(q, j) + q->ridge * x;
    const double a = (q->H ? q->H[j * q->n + j] : q->diagonal[j]) + q->ridge;
    double over = larger(0.0, larger(-slope - high, slope + low)), best = 0.0;
    if (x != 0.0) over = fabs(slope + (x > 0.0 ? high : low));
    if (over == 0.0) return 0.0;
    if (a > 0.0) {
        const double v = a * x - slope;
        best = v > high ? (v - high) / a : (v < low ? (v - low) / a : 0.0);
    } else if (x * (slope + (x > 0.0 ? high : low)) <= 0.0) {
        return over; /* it falls for ever */
    }
    if (best != x) {
        move_by(q, j, best - x);
        q->x[j] = best;
    }
    return over;
}

/* A sweep over all coordinates, or those that are not 0: the largest of these. */
VECTORISED static double sweep(quadratic_t *q, bool all)
{
    double worst = 0.0;
    for (int64_t j = 0; j < q->n; j++)
        if (all || q->x[j] != 0.0) {
            worst = larger(worst, coordinate(q, j));
            q->work += q->H ? q->n : 2 * (q->starts ? q->starts[j + 1] - q->starts[j] : q->m);
        }
    return worst;
}

static bool walled(const quadratic_t *q, int64_t j) { return q->lower[j] != 0.0 || q->upper[j] != 0.0; }

/* A Newton step on the coordinates that are not 0 or have no wall, up to the first change of a sign; whether it was a
   whole one. Where their columns depend on each other, that first change is the end of the step: a ridge near rounding
   leaves the step along the null space of the quadratic part. */
VECTORISED static bool on_support(quadratic_t *q)
{
    const int64_t n = q->n;
    int64_t k = 0, first = -1;
    for (int64_t j = 0; j < n; j++)
        if (q->x[j] != 0.0 || !walled(q, j)) q->support[k++] = j;
    double more = RIDGE, t = 1.0;
    for (;; more *= 100.0) {
        for (int64_t i = 0; i < k; i++) {
            const int64_t row = q->support[i];
            const double x = q->x[row], wall = x > 0.0 ? q->upper[row] : (x < 0.0 ? q->lower[row] : 0.0);
            for (int64_t j = i; j < k; j++) q->system[i * k + j] = q->H[row * n + q->support[j]];
            q->system[i * k + i] = (q->system[i * k + i] + q->ridge) * (1.0 + more);
            q->d[i] = -(q->r[row] + q->ridge * x + wall);
        }
        q->work += k * k * k / 6;
        if (cholesky_solve(k, 1, q->system, q->d)) break;
        if (more > 0.01) return true;
    }
    for (int64_t i = 0; i < k; i++) {
        const double x = q->x[q->support[i]];
        if (walled(q, q->support[i]) && x * (x + q->d[i]) < 0.0 && -x / q->d[i] < t) {
            t = -x / q->d[i];
            first = i;
        }
    }
    for (int64_t i = 0; i < k; i++) {
        const int64_t j = q->support[i];
        const double x = q->x[j];
        double step = t * q->d[i];
        /* by rounding several signs may change at once */
        const bool ends = i == first || (walled(q, j) && x * (x + step) < 0.0);
        move_by(q, j, ends ? -x : step);
        if (ends) q->x[j] = 0.0;
    }
    q->work += k * n;
    return first < 0;
}

/* Rounds of a sweep over all coordinates, sweeps over those that are not 0 and Newton steps on them, from x on, with r the
   gradient of the quadratic part there. Ends when no slope leaves its walls by more than tol, or after q->left rounds:
   true; false where `budget` multiplications are spent, and the next call goes on. */
EXPORT uint8_t minimise_quadratic(quadratic_t *q, double budget)
{
    q->work = 0;
    while (q->left > 0) {
        if ((double)q->work > budget) return false;
        q->left--;
        double here = sweep(q, true);
        if (here <= q->tol) break;
        for (int s = 0; s < (q->H ? SWEEPS : LONG_SWEEPS) && here > ENOUGH * q->tol; s++) here = sweep(q, false);
        for (int s = 0; q->H && here > ENOUGH * q->tol && s < STEPS_IN_A_ROW; s++)
            if (on_support(q)) break;
    }
    return true;
}
