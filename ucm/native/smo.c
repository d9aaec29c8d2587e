/* Sequential minimal optimisation: pairs of variables with the largest second-order decrease, shrinking, a cache of rows.

       min u'Q u / 2 + b'u + sum_i phi_i(u_i)   subject to   lo <= u <= hi,   sum of u over each group fixed,

   Q_ij = s_i s_j k(x_i, x_j). For two reduced convex hulls s = y, and each class is a group; for the dual (17) of Sun
   (2024) u = y a, s = 1, b = -y, and there is one group. F is the gradient. In each group i has the least F among the
   variables that can grow, j the largest (F_j - F_i)^2 / curvature among those that can fall (Fan, Chen and Lin 2005);
   the better pair of all groups moves. Variables at a bound that no pair would move are left out (Joachims 1999): all
   arrays, and the rows in the cache, are compacted in place. Rows are float32, the sums that make F float64, so F differs
   from the gradient by the rounding of the rows times how far u has moved; the caller recomputes it. */
#include <string.h>
#include "native.h"

enum { LANES = 8, BLOCK = 512, CHECK = 64, PERIOD = 1000 }; /* updates from one look at the gap to the next, and at what to leave out */
static const float OUT = 1e30f;         /* added to F where a variable cannot grow, subtracted where it cannot fall */
static const double NEGATIVE = -1e-4;   /* of the diagonal: a curvature below it is no rounding of float32 */
static const double FLAT = 0x1p-23;     /* of the diagonal: the least curvature that float32 resolves */
static const double WORTH = 0.2;        /* of the variables must leave for a compaction */
static const double FALL = 0.99;         /* of the least gap so far: a gap above it is no progress, */
enum { IDLE = 100000, IDLE_EACH = 100 }; /* and after so many updates without any, and for each variable, rounding is left */
static const double EPS = 0x1p-52;

/* --- terms of p > 1: phi(u) = C (p - 1) xi^p with xi = (|u| / (C p))^(1 / (p - 1)) ------------------------------ */

EXPORT double smo_slack(double a, double C, double p)
{
    if (p == 1.0 || a <= 0.0) return 0.0;
    const double r = a / (C * p);
    return p == 2.0 ? r : pow(r, 1.0 / (p - 1.0));
}

/* C p xi^(p - 1), the inverse. */
static double multiplier(double xi, double C, double p) { return C * p * pow(xi, p - 1.0); }

/* The slope of xi(a) over a move of size v in xi: a secant, as the tangent at a = 0 is infinite for p > 2 and 0 for
   p < 2. */
static double stiffness(double a, double xi, double C, double p, double v)
{
    const double width = multiplier(xi + v, C, p) - a;
    return width > 0.0 ? v / width : 0.0; /* width <= 0: v is below the rounding of xi */
}

/* What the bound on the step by one term alone is: y = +1 grows, -1 falls. */
static double room_of(double d, double a, double xi, double y, double C, double p, double hi)
{
    if (y > 0.0) return smaller(hi, larger(multiplier(xi + d, C, p) - a, 0.0) + 4.0 * EPS * a);
    if (xi > d) return smaller(hi, larger(a - multiplier(xi - d, C, p), 0.0) + 4.0 * EPS * a);
    return hi;
}

/* The t in (0, top] with eta t + y_i [xi_i(a_i + y_i t) - xi_i] - y_j [xi_j(a_j - y_j t) - xi_j] = d, or top: safeguarded
   Newton. The left side increases in t. */
static double root(double d, double eta, double ai, double yi, double Ci, double aj, double yj, double Cj, double p, double top)
{
    const double xi = smo_slack(ai, Ci, p), xj = smo_slack(aj, Cj, p), e = 1.0 / (p - 1.0);
    double hi = eta > 0.0 ? smaller(top, d / eta) : top, lo = 0.0;
    hi = room_of(d, aj, xj, -yj, Cj, p, room_of(d, ai, xi, yi, Ci, p, hi));
    double t = hi;
    for (int step = 0; step < 200; step++) {
        const double bi = ai + yi * t, bj = aj - yj * t, si = smo_slack(bi, Ci, p), sj = smo_slack(bj, Cj, p);
        const double g = eta * t - d + yi * (si - xi) - yj * (sj - xj);
        if (t == hi && g <= 0.0) return hi;
        if (fabs(g) <= 1e-15 * d) return t;
        if (g > 0.0) hi = t;
        else lo = t;
        const double slope = eta + (bi > 0.0 ? e * si / bi : 0.0) + (bj > 0.0 ? e * sj / bj : 0.0);
        double after = slope > 0.0 ? t - g / slope : -1.0;
        if (!(lo < after && after < hi)) {
            if (lo == 0.0) after = 0.03125 * hi;
            else after = hi > 4.0 * lo ? sqrt(lo) * sqrt(hi) : 0.5 * (lo + hi);
        }
        if (!(lo < after && after < hi) || fabs(after - t) <= EPS * t) return t;
        t = after;
    }
    return t;
}

/* The best step t in (0, top] for a pair with F_j - F_i = d > 0 and curvature eta of Q. */
EXPORT double smo_step(double d, double eta, double ai, double yi, double Ci, double aj, double yj, double Cj, double p, double top)
{
    if (p == 1.0) return eta > 0.0 ? smaller(top, d / eta) : top;
    eta = larger(eta, 0.0);
    if (p == 2.0) return smaller(top, d / (eta + 0.5 / Ci + 0.5 / Cj));
    return root(d, eta, ai, yi, Ci, aj, yj, Cj, p, top);
}

/* --- passes over the variables of a group ------------------------------------------------------------------------ */

typedef struct { double least, most; } levels_t; /* of F over the variables that can grow, and over those that can fall */

/* F += s (ti K_i + tj K_j), and the levels after it. */
VECTORISED static levels_t update(int64_t n, double *restrict F, const float *restrict s, const float *restrict grows,
                                  const float *restrict falls, double ti, double tj, const float *restrict Ki,
                                  const float *restrict Kj)
{
    double least[LANES], most[LANES], up[BLOCK], down[BLOCK];
    for (int l = 0; l < LANES; l++) least[l] = INFINITY, most[l] = -INFINITY;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t size = n - start < BLOCK ? n - start : BLOCK, even = size - size % LANES;
        double *restrict f = F + start;
        const float *restrict own = s + start, *restrict up_out = grows + start, *restrict down_out = falls + start;
        const float *restrict row = Ki + start, *restrict other = Kj + start;
        for (int64_t k = 0; k < size; k++) {
            const double x = f[k] + (double)own[k] * (ti * (double)row[k] + tj * (double)other[k]);
            f[k] = x;
            up[k] = x + (double)up_out[k];
            down[k] = x - (double)down_out[k];
        }
        for (int64_t k = 0; k < even; k += LANES)
            for (int l = 0; l < LANES; l++) least[l] = up[k + l] < least[l] ? up[k + l] : least[l];
        for (int64_t k = 0; k < even; k += LANES)
            for (int l = 0; l < LANES; l++) most[l] = down[k + l] > most[l] ? down[k + l] : most[l];
        for (int64_t k = even; k < size; k++) least[0] = smaller(up[k], least[0]), most[0] = larger(down[k], most[0]);
    }
    for (int l = 1; l < LANES; l++) least[0] = smaller(least[l], least[0]), most[0] = larger(most[l], most[0]);
    return (levels_t){least[0], most[0]};
}

typedef struct { float gain; int64_t index; } partner_t;

/* The j with the largest (F_j - least)^2 / curvature among the variables that can fall; scale is 1 / (most - least). */
VECTORISED static partner_t partner(int64_t n, const double *restrict F, const float *restrict falls, const float *restrict s,
                                    const float *restrict curve, const float *restrict K, double least, double scale,
                                    float own_curve, float own_s, float flat)
{
    partner_t best = {0.0f, -1};
    const float twice = -2.0f * own_s;
    float gain[BLOCK], top[2 * LANES];
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t size = n - start < BLOCK ? n - start : BLOCK, even = size - size % (2 * LANES);
        const double *restrict f = F + start;
        const float *restrict out = falls + start, *restrict other = s + start, *restrict bend = curve + start, *restrict row = K + start;
        for (int64_t k = 0; k < size; k++) {
            float d = (float)((f[k] - (double)out[k] - least) * scale);
            d = d > 0.0f ? d : 0.0f;
            float eta = own_curve + bend[k] + twice * other[k] * row[k];
            eta = eta > flat ? eta : flat;
            gain[k] = d * d / eta;
        }
        for (int l = 0; l < 2 * LANES; l++) top[l] = 0.0f;
        for (int64_t k = 0; k < even; k += 2 * LANES)
            for (int l = 0; l < 2 * LANES; l++) top[l] = gain[k + l] > top[l] ? gain[k + l] : top[l];
        for (int64_t k = even; k < size; k++) top[0] = gain[k] > top[0] ? gain[k] : top[0];
        for (int l = 1; l < 2 * LANES; l++) top[0] = top[l] > top[0] ? top[l] : top[0];
        if (!(top[0] > best.gain)) continue;
        int64_t k = 0;
        while (k + 1 < size && gain[k] != top[0]) k++;
        best = (partner_t){top[0], start + k};
    }
    return best;
}

/* sum_i max over v in [lo, hi] of (u_i - v) (F_i - theta); with p > 1, where C is given, the gap between phi, its conjugate
   and their product. */
static double gap_of(const smo_t *S, int64_t from, int64_t to, double theta)
{
    double gap = 0.0;
    for (int64_t k = from; k < to; k++) {
        const double r = S->F[k] - theta;
        if (S->p == 1.0) {
            gap += r > 0.0 ? r * (S->u[k] - S->lo[k]) : r * (S->u[k] - S->hi[k]);
            continue;
        }
        const double y = S->hi[k] > 0.0 ? 1.0 : -1.0, a = y * S->u[k], slack = S->xi[k] - y * r;
        gap += (S->p - 1.0) / S->p * a * S->xi[k] - a * slack;
        if (slack > 0.0) gap += S->C[k] * (S->p == 2.0 ? slack * slack : pow(slack, S->p));
    }
    return gap;
}

/* --- the cache ----------------------------------------------------------------------------------------------------- */

/* The slot of row i, computed where it is not there; -1 where the caller has to. The row that was not used for longest
   gives way: never one of this update, as there are more slots than groups. */
static int64_t row_of(smo_t *S, int64_t i)
{
    int64_t slot = S->where[i];
    if (slot < 0) {
        if (S->kind == GIVEN) return -1;
        if (S->filled < S->slots) {
            slot = S->filled++;
        } else {
            slot = 0;
            for (int64_t r = 1; r < S->slots; r++)
                if (S->used[r] < S->used[slot]) slot = r;
            if (S->owner[slot] >= 0) S->where[S->owner[slot]] = -1;
        }
        S->owner[slot] = (int32_t)i;
        S->where[i] = (int32_t)slot;
        S->entries += S->n;
        kernel_row(S->kind, S->degree, S->gamma, S->coef0, S->n, S->features, S->stride, S->X, S->squares, i,
                   S->store + slot * S->n);
    }
    S->used[slot] = S->clock++;
    return slot;
}

/* --- shrinking --------------------------------------------------------------------------------------------------------- */

static void mark(smo_t *S, int64_t k)
{
    S->grows[k] = S->u[k] < S->hi[k] ? 0.0f : OUT;
    S->falls[k] = S->u[k] > S->lo[k] ? 0.0f : OUT;
}

#define COMPACT(array) \
    for (int64_t k = 0; k < count; k++) S->array[k] = S->array[kept[k]]

/* Leave all variables but the `count` in `kept`, increasing, out of every array. */
static void compact(smo_t *S, const int32_t *kept, int64_t count)
{
    int64_t slots = 0;
    for (int64_t r = 0; r < S->filled; r++) { /* rows of variables that stay move forward, so nothing is overwritten unread */
        const int64_t owner = S->owner[r];
        if (owner < 0 || S->keep[owner] < 0) continue;
        const float *from = S->store + r * S->n;
        float *to = S->store + slots * count;
        for (int64_t k = 0; k < count; k++) to[k] = from[kept[k]];
        S->owner[slots] = S->keep[owner];
        S->used[slots++] = S->used[r];
    }
    COMPACT(index);
    COMPACT(u);
    COMPACT(F);
    COMPACT(lo);
    COMPACT(hi);
    COMPACT(s);
    COMPACT(diagonal);
    COMPACT(curve);
    COMPACT(grows);
    COMPACT(falls);
    if (S->p != 1.0) {
        COMPACT(C);
        COMPACT(xi);
    }
    if (S->features > 0) COMPACT(squares);
    for (int64_t k = 0; k < count && S->kind == GIVEN; k++) /* of samples; else of features */
        memmove(S->X + k * S->features, S->X + kept[k] * S->features, (size_t)S->features * sizeof *S->X);
    for (int64_t f = 0; f < S->features && S->kind != GIVEN; f++) {
        float *row = S->X + f * S->stride;
        for (int64_t k = 0; k < count; k++) row[k] = row[kept[k]];
    }
    for (int64_t k = 0; k < count; k++) S->where[k] = -1;
    for (int64_t r = 0; r < slots; r++) S->where[S->owner[r]] = (int32_t)r;
    S->n = count;
    S->filled = slots;
    S->slots = S->capacity / count < S->most ? S->capacity / count : S->most;
}

/* Leave out variables at a bound that violate with none. */
static void shrink(smo_t *S, const levels_t *levels)
{
    int64_t count = 0, from = 0;
    int32_t *kept = S->keep + S->n; /* keep holds the new place of each variable, then the list of those that stay */
    for (int64_t g = 0; g < S->groups; from = S->ends[g++])
        for (int64_t k = from; k < S->ends[g]; k++) {
            const bool low = S->falls[k] > 0.0f && S->F[k] > levels[g].most;
            const bool high = S->grows[k] > 0.0f && S->F[k] < levels[g].least;
            S->keep[k] = low || high ? -1 : (int32_t)count;
            if (!(low || high)) kept[count++] = (int32_t)k;
        }
    if (count < 2 || (double)(S->n - count) < WORTH * (double)S->n) return;
    for (int64_t k = 0; k < S->n; k++) S->all[S->index[k]] = S->u[k];
    from = 0;
    int64_t end = 0;
    for (int64_t g = 0; g < S->groups; g++) {
        const int64_t to = S->ends[g];
        for (int64_t k = from; k < to; k++) end += S->keep[k] >= 0;
        from = to;
        S->ends[g] = end;
    }
    compact(S, kept, count);
}

/* F += s sum_k moved_k K_k over the columns from `from` to `to`, K_k the row in the slot slots_k: after a working set has moved. */
EXPORT VECTORISED void smo_add(smo_t *S, int64_t count, const int64_t *slots, const double *moved, int64_t from, int64_t to)
{
    double total[BLOCK];
    for (int64_t start = from; start < to; start += BLOCK) {
        const int64_t size = to - start < BLOCK ? to - start : BLOCK;
        for (int64_t j = 0; j < size; j++) total[j] = 0.0;
        for (int64_t k = 0; k < count; k++) {
            const float *restrict row = S->store + slots[k] * S->n + start;
            const double t = moved[k];
            for (int64_t j = 0; j < size; j++) total[j] += t * (double)row[j];
        }
        for (int64_t j = 0; j < size; j++) S->F[start + j] += (double)S->s[start + j] * total[j];
    }
}

/* out_kj = the entry of the row in the slot slots_k at the column columns_j, for k from `from` to `to`; out is (., size). */
EXPORT void smo_gather(const smo_t *S, int64_t size, const int64_t *slots, const int64_t *columns, int64_t from, int64_t to, float *out)
{
    for (int64_t k = from; k < to; k++) {
        const float *row = S->store + slots[k] * S->n;
        for (int64_t j = 0; j < size; j++) out[k * size + j] = row[columns[j]];
    }
}

/* --- the loop ------------------------------------------------------------------------------------------------------------ */

/* Move along u_i += t, u_j -= t. */
static bool move(smo_t *S, int64_t i, int64_t j, float Kij)
{
    const double si = S->s[i], sj = S->s[j], diagonal = S->diagonal[i] + S->diagonal[j];
    double eta = diagonal - 2.0 * si * sj * (double)Kij;
    if (eta < NEGATIVE * (fabs(diagonal) + fabs(2.0 * si * sj * (double)Kij))) return false;
    eta = larger(eta, FLAT * diagonal);
    const double room_i = S->hi[i] - S->u[i], room_j = S->u[j] - S->lo[j], d = S->F[j] - S->F[i];
    double t;
    if (S->p == 1.0) {
        t = smo_step(d, eta, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, smaller(room_i, room_j));
    } else {
        const double yi = S->hi[i] > 0.0 ? 1.0 : -1.0, yj = S->hi[j] > 0.0 ? 1.0 : -1.0;
        t = smo_step(d, eta, yi * S->u[i], yi, S->C[i], yj * S->u[j], yj, S->C[j], S->p, smaller(room_i, room_j));
    }
    S->u[i] = t >= room_i ? S->hi[i] : S->u[i] + t; /* a bound that is met is met exactly */
    S->u[j] = t >= room_j ? S->lo[j] : S->u[j] - t;
    S->move = t;
    S->fall += t * (d - 0.5 * t * eta);
    if (S->p != 1.0)
        for (int side = 0; side < 2; side++) {
            const int64_t k = side ? j : i;
            const double y = S->hi[k] > 0.0 ? 1.0 : -1.0, a = y * S->u[k], step = side ? -y * t : y * t;
            const double before = S->xi[k];
            S->xi[k] = smo_slack(a, S->C[k], S->p);
            S->F[k] += y * (S->xi[k] - before);
            /* d holds the slope of phi, so what is left of its fall is of second order: phi = (p - 1) a xi / p */
            S->fall += before * step - (S->p - 1.0) / S->p * (a * S->xi[k] - (a - step) * before);
            S->curve[k] = (float)(S->diagonal[k] + stiffness(a, S->xi[k], S->C[k], S->p, S->reference));
        }
    mark(S, i);
    mark(S, j);
    return true;
}

/* At most `limit` pair updates, until no pair violates by more than eps, or the gap of these variables is at most `gap` of
   |value + rate fall + share gap|, fall what the objective has fallen by; where that says that a square has become
   negative, or the gap falls no more, the rows are too rounded to go on. Returns 0 then, 1 at the limit, 2 where the kernel
   is indefinite, 3 where a row is needed. */
EXPORT int32_t smo(smo_t *S, double eps, double gap, int64_t limit)
{
    levels_t *const levels = (levels_t *)S->levels;
    int64_t from = 0;
    if (S->fresh) { /* F, u or the variables are new */
        for (int64_t k = 0; k < S->n; k++) mark(S, k);
        S->reference = -1.0;
        S->least = INFINITY;
        S->fresh = 0;
    }
    for (int64_t g = 0; g < S->groups; from = S->ends[g++]) /* t = 0: any finite row does */
        levels[g] = update(S->ends[g] - from, S->F + from, S->s + from, S->grows + from, S->falls + from, 0.0, 0.0, S->s + from, S->s + from);
    for (int64_t done = 0; ; done++, S->updates++) {
        double violation = 0.0;
        for (int64_t g = 0; g < S->groups; g++) violation = larger(violation, levels[g].most - levels[g].least);
        if (!(violation > eps)) return 0;
        if (S->p != 1.0 && (S->reference < 0.0 || violation < 0.25 * S->reference)) {
            S->reference = violation;
            for (int64_t k = 0; k < S->n; k++)
                S->curve[k] = (float)(S->diagonal[k] + stiffness(fabs(S->u[k]), S->xi[k], S->C[k], S->p, violation));
        }
        if (S->updates >= S->check) {
            double left = 0.0;
            from = 0;
            for (int64_t g = 0; g < S->groups; from = S->ends[g++])
                left += gap_of(S, from, S->ends[g], 0.5 * (levels[g].least + levels[g].most));
            const double scale = S->value + S->rate * S->fall + S->share * left;
            if (left <= gap * fabs(scale) || (S->rate < 0.0 && scale <= 0.0)) return 0;
            if (!(left >= FALL * S->least)) {
                S->least = left;
                S->since = S->updates;
            } else if (S->updates - S->since > IDLE + IDLE_EACH * S->n) {
                return 0;
            }
            if (S->updates >= S->next) {
                shrink(S, levels);
                S->next = S->updates + (S->n / 8 < PERIOD ? S->n / 8 : PERIOD);
            }
            S->check = S->updates + CHECK;
        }
        if (done >= limit) return 1;
        int64_t i = -1, j = -1;
        double best = -1.0;
        from = 0;
        for (int64_t g = 0; g < S->groups; from = S->ends[g++]) {
            const double least = levels[g].least, width = levels[g].most - least;
            if (!(width > eps)) continue;
            int64_t k = from;
            while (k + 1 < S->ends[g] && S->F[k] + (double)S->grows[k] != least) k++;
            const int64_t slot = row_of(S, k);
            if (slot < 0) return 3;
            const float *K = S->store + slot * S->n + from;
            const partner_t found = partner(S->ends[g] - from, S->F + from, S->falls + from, S->s + from, S->curve + from, K, least,
                                            1.0 / width, S->curve[k], S->s[k], (float)(FLAT * S->diagonal[k]));
            const double gain = (double)found.gain * width * width;
            if (found.index >= 0 && gain > best) best = gain, i = k, j = from + found.index;
        }
        if (i < 0) return 0;
        const int64_t second = row_of(S, j);
        if (second < 0) return 3;
        const float *Ki = S->store + S->where[i] * S->n, *Kj = S->store + second * S->n;
        if (!move(S, i, j, Ki[j])) return 2;
        const double ti = S->move * (double)S->s[i], tj = -S->move * (double)S->s[j];
        from = 0;
        for (int64_t g = 0; g < S->groups; from = S->ends[g++])
            levels[g] = update(S->ends[g] - from, S->F + from, S->s + from, S->grows + from, S->falls + from, ti, tj, Ki + from, Kj + from);
    }
}
