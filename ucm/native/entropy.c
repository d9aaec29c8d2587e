/* Projection on, and support of, the simplex intersected with a ball of relative entropy.

   With multipliers lam of sum q log(N q) = r and theta_o of the mass of each class,

       q_i + lam (log(N q_i) + 1) = v_i - theta_o,    q_i = lam omega((v_i - theta_o)/lam - 1 - log(N lam)),

   omega the Wright function. Newton's method for all three multipliers at once: with w = dq/dv = q / (q + lam),
   l = log(N q) + 1 and the sums W, A, B of w, w l, w l^2, the system is

       [W_o  A_o] [d theta_o]   [sum q - mass_o   ]
       [A_o'  B ] [d lam    ] = [sum q log(N q) - r].

   For lam the step is taken on (h - least)^(-1/2), h = sum q log(N q), which is nearly linear in lam; for theta, far
   from its root, on the logarithm of the mass, which is exact where q is exponential in v. */
#include "native.h"

enum { LIMIT = 60 };
static const double EPS = 0x1p-52;
static const double CLOSE = 1e-9; /* of the multipliers: after such a step the error is below rounding */

typedef struct { double q, w, wl, wll, entropy; } sums_t; /* of one class */

/* The root of x + log x = z, by the method of fourth order of Fritsch, Shafer and Crowley (1973). */
static double omega(double z)
{
    if (z < -40.0) return exp(z);
    double x;
    if (z > 2.0) {
        x = z - log(z);
    } else if (z > -2.0) {
        x = exp(0.6 * (z - 1.0) - 0.05 * (z - 1.0) * (z - 1.0));
    } else {
        x = exp(z);
        x = x / (1.0 + x);
    }
    for (int k = 0; k < 3; k++) {
        const double r = z - x - log(x), a = 1.0 + x, t = a * (a + (2.0 / 3.0) * r);
        x *= 1.0 + (r / a) * (t - 0.5 * r) / (t - r);
        if (fabs(r) < 1e-4) break; /* the error left is of the fourth order */
    }
    return x;
}

static int class_of(const double *classes, int64_t labelled, int64_t i) { return labelled && classes[i] <= 0.0; }

/* q at lam and theta = top + x, and the sums of each class. */
static void sweep(int64_t n, const double *v, int64_t labelled, const double *classes, double lam, const double *tops,
                  const double *x, double *out, sums_t *sums)
{
    const double shift = 1.0 + log((double)n) + log(lam);
    sums[0] = sums[1] = (sums_t){0.0, 0.0, 0.0, 0.0, 0.0};
    for (int64_t i = 0; i < n; i++) {
        const int c = class_of(classes, labelled, i);
        const double z = ((v[i] - tops[c]) - x[c]) / lam - shift, s = omega(z), q = lam * s;
        out[i] = q;
        if (q > 0.0) {
            const double l = z - s + shift, w = s / (s + 1.0);
            sums[c].q += q;
            sums[c].w += w;
            sums[c].wl += w * l;
            sums[c].wll += w * l * l;
            sums[c].entropy += q * (l - 1.0);
        }
    }
}

/* The point with sum q log(N q) = radius and mass 1, or 1/2 in each class, from a guess of lam. least is the
   entropy of the uniform vector. found: lam, theta of each class, and 1 where the residuals are rounding (else
   out has no meaning). */
EXPORT void project_entropy(int64_t n, const double *v, int64_t labelled, const double *classes, double radius, double least,
                     double lam, double *out, double *found)
{
    const int count = labelled ? 2 : 1;
    const double mass = 1.0 / count;
    sums_t sums[2];
    double tops[2] = {-INFINITY, -INFINITY}, x[2] = {0.0, 0.0}, mean[2] = {0.0, 0.0}, sizes[2] = {0.0, 0.0};
    for (int64_t i = 0; i < n; i++) {
        const int c = class_of(classes, labelled, i);
        tops[c] = larger(tops[c], v[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        const int c = class_of(classes, labelled, i);
        mean[c] += v[i] - tops[c];
        sizes[c] += 1.0;
    }
    for (int c = 0; c < count; c++) { /* as for the uniform vector */
        const double flat = mass / sizes[c];
        x[c] = mean[c] / sizes[c] - flat - lam * (1.0 + log((double)n * flat));
    }
    const double target = radius - least, good = 8.0 * EPS * larger(fabs(radius), fabs(target));
    bool done = false;
    for (int k = 0; k < LIMIT && !done; k++) {
        sweep(n, v, labelled, classes, lam, tops, x, out, sums);
        double height = -least, slope = 0.0;
        bool exact = true, near = true;
        for (int c = 0; c < count; c++) {
            const double off = sums[c].q - mass;
            exact = exact && fabs(off) <= 8.0 * EPS * mass;
            near = near && fabs(off) <= 0.5 * mass;
            if (!(sums[c].w > 0.0)) goto failed;
            height += sums[c].entropy - sums[c].wl * off / sums[c].w;
            slope += sums[c].wll - sums[c].wl * sums[c].wl / sums[c].w;
        }
        if (exact && fabs(height - target) <= good) {
            done = true;
            break;
        }
        double step = 0.0;
        if (near) {
            if (!(slope > 0.0 && target > 0.0)) goto failed;
            height = larger(height, 1e-3 * target);
            step = 2.0 * height * (sqrt(height / target) - 1.0) / slope;
            step = smaller(larger(step, -0.75 * lam), 3.0 * lam);
        }
        bool moved = !near || fabs(step) > CLOSE * lam;
        for (int c = 0; c < count; c++) {
            const double total = sums[c].q;
            double off = total - mass;
            if (!near) off = total > 0.0 ? log(total / mass) * total : NAN;
            const double move = (off - sums[c].wl * step) / sums[c].w;
            moved = moved || fabs(move) > CLOSE * (fabs(x[c]) + lam);
            x[c] += move;
        }
        lam += step;
        if (!moved) {
            sweep(n, v, labelled, classes, lam, tops, x, out, sums);
            done = true;
        }
    }
failed:
    found[0] = lam;
    found[1] = done ? tops[0] + x[0] : 0.0;
    found[2] = done ? tops[1] + x[1] : 0.0;
    found[3] = done;
}

/* The maximiser of <g, q> with sum q log(N q) = radius and mass 1, or 1/2 in each class. It is
   mass_o exp(g_i / lam) / sum_o exp(g_j / lam); lam by Newton's method on (h - least)^(-1/2) within a bracket.
   found: lam and, for each class, theta with lam (log(N q) + 1) = g - theta. */
EXPORT void support_entropy(int64_t n, const double *g, int64_t labelled, const double *classes, double radius, double least,
                     double *out, double *found)
{
    const int count = labelled ? 2 : 1;
    const double mass = 1.0 / count, size = (double)n;
    double tops[2] = {-INFINITY, -INFINITY}, bottom = INFINITY, total[2], first[2], second[2];
    for (int64_t i = 0; i < n; i++) {
        const int c = class_of(classes, labelled, i);
        tops[c] = larger(tops[c], g[i]);
        bottom = smaller(bottom, g[i]);
    }
    double lam = larger(tops[0], tops[1]) - bottom, low = 0.0, high = INFINITY;
    const double target = radius - least;
    for (int k = 0; k < 200; k++) {
        for (int c = 0; c < 2; c++) total[c] = first[c] = second[c] = 0.0; /* of exp(u), u exp(u), u^2 exp(u) */
        for (int64_t i = 0; i < n; i++) {
            const int c = class_of(classes, labelled, i);
            const double u = (g[i] - tops[c]) / lam, share = exp(u);
            out[i] = share;
            total[c] += share;
            first[c] += share * u;
            second[c] += share * u * u;
        }
        double height = -least, slope = 0.0;
        for (int c = 0; c < count; c++) {
            const double mean = first[c] / total[c];
            height += mass * (log(size * mass / total[c]) + mean);
            slope += mass * larger(second[c] / total[c] - mean * mean, 0.0) / lam;
        }
        const double excess = height - target;
        if (excess > 0.0) low = lam;
        else high = lam;
        const double step =
            slope > 0.0 && height > 0.0 ? 2.0 * height * (sqrt(height / target) - 1.0) / slope : NAN;
        if (fabs(excess) <= 4.0 * EPS * larger(1.0, fabs(radius)) || fabs(step) <= 4.0 * EPS * lam) break;
        double after = lam + step;
        if (!(low < after && after < high && lam / 64.0 <= after && after <= 64.0 * lam)) {
            if (high == INFINITY) after = 16.0 * lam;
            else if (low == 0.0) after = lam / 16.0;
            else after = high > 4.0 * low ? sqrt(low * high) : 0.5 * (low + high);
            if (!(low < after && after < high)) break;
        }
        lam = after;
    }
    for (int64_t i = 0; i < n; i++) out[i] *= mass / total[class_of(classes, labelled, i)];
    found[0] = lam;
    for (int c = 0; c < 2; c++) found[1 + c] = c < count ? tops[c] - lam * (1.0 + log(size * mass / total[c])) : 0.0;
}
