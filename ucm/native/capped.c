/* Projection on the capped simplex {q : 0 <= q <= cap, sum q = mass}: q = clip(v - theta, 0, cap), theta from root.c. */
#include "native.h"

enum { SAMPLE = 4096 };
#define ROUNDING 1e-12 /* of a mass: the inverse of a cap may be a whole number */

/* The root, from that of a strided sample with its share of the mass where v is long; work is (n,). */
root_t capped_root(int64_t n, const double *v, double cap, double mass, double *work)
{
    double guess = NAN;
    if (n >= 4 * SAMPLE) {
        double sample[SAMPLE];
        const int64_t stride = n / SAMPLE;
        for (int64_t i = 0; i < SAMPLE; i++) sample[i] = v[i * stride];
        const root_t root = solve_root(SAMPLE, sample, cap, mass * SAMPLE / (double)n, NAN, work);
        guess = root.ref + root.shift;
    }
    return solve_root(n, v, cap, mass, guess, work);
}

EXPORT void threshold(int64_t n, const double *v, double cap, double mass, double *root, double *work)
{
    const root_t found = capped_root(n, v, cap, mass, work);
    root[0] = found.ref;
    root[1] = found.shift;
}

/* Entries of class +1 first, then those of class -1 in reverse; the number of those of class +1. */
int64_t pack(int64_t n, const double *v, const double *classes, double *out)
{
    int64_t head = 0, tail = n - 1;
    for (int64_t i = 0; i < n; i++) {
        out[head] = v[i];
        out[tail] = v[i];
        const bool positive = classes[i] > 0.0;
        head += positive;
        tail -= !positive;
    }
    return head;
}

/* The nearest q with 0 <= q <= cap and mass 1, or mass 1/2 in each class; out may be v, work is (2 n,). */
EXPORT VECTORISED void project_capped(int64_t n, const double *v, int64_t labelled, const double *classes, double cap_pos,
                               double cap_neg, double *out, double *work)
{
    const int64_t m = labelled ? pack(n, v, classes, work) : n;
    const root_t pos = capped_root(m, labelled ? work : v, cap_pos, labelled ? 0.5 : 1.0, work + n);
    const root_t neg = labelled ? capped_root(n - m, work + m, cap_neg, 0.5, work + n) : pos;
    const double *side = labelled ? classes : v; /* without labels both sides are one; a test of both does not vectorise */
    cap_neg = labelled ? cap_neg : cap_pos;
    for (int64_t i = 0; i < n; i++) {
        const bool positive = side[i] > 0.0;
        const double ref = positive ? pos.ref : neg.ref, shift = positive ? pos.shift : neg.shift;
        const double cap = positive ? cap_pos : cap_neg;
        double t = (v[i] - ref) - shift;
        t = t < 0.0 ? 0.0 : t; /* NaN stays */
        out[i] = t > cap ? cap : t;
    }
}

/* A maximiser q of <g, q> over 0 <= q <= caps, sum q = mass: the largest entries first, ties in proportion to their
 * caps. `each` says whether there is a cap for each entry or one, which may be inf. found: <g, q>, and the ends of the
 * interval of multipliers of the mass; work is (2 n,). Found by quickselect. */
EXPORT void fill_to_mass(int64_t n, const double *g, int64_t each, const double *caps, double mass, double *q, double *found,
                  double *work)
{
    double *a = work, *w = work + n, theta = NAN;
    const double unit = each ? 1.0 : caps[0], whole = mass / unit;
    for (int64_t i = 0; i < n; i++) {
        a[i] = g[i];
        w[i] = each ? caps[i] : 1.0;
    }
    double need = whole * (1.0 - ROUNDING);
    for (int64_t low = 0, high = n; low < high;) {
        const double x = a[low], y = a[(low + high) / 2], z = a[high - 1];
        theta = fmax(fmin(x, y), fmin(fmax(x, y), z));
        int64_t i = low, j = low, k = high;
        double above = 0.0, equal = 0.0;
        while (j < k) {
            const double v = a[j], c = w[j];
            if (v > theta) {
                above += c;
                a[j] = a[i], w[j++] = w[i];
                a[i] = v, w[i++] = c;
            } else if (v < theta) {
                k--;
                a[j] = a[k], w[j] = w[k];
                a[k] = v, w[k] = c;
            } else {
                equal += c;
                j++;
            }
        }
        if (i > low && need <= above) {
            high = i;
        } else if (need <= above + equal || k >= high) {
            break;
        } else {
            need -= above + equal;
            low = k;
        }
    }
    double left = whole, room = 0.0, below = -INFINITY, height = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double c = each ? caps[i] : 1.0;
        if (g[i] > theta) left -= c;
        if (g[i] == theta) room += c;
        if (g[i] < theta && g[i] > below) below = g[i];
    }
    left = fmax(left, 0.0);
    const double part = isinf(unit) ? mass / room : unit * fmin(left / room, 1.0);
    for (int64_t i = 0; i < n; i++) {
        const double c = each ? caps[i] : 1.0;
        q[i] = g[i] > theta ? unit * c : g[i] == theta ? part * c : 0.0;
        height += g[i] * q[i];
    }
    found[0] = height;
    found[1] = left < room * (1.0 - ROUNDING) ? theta : below;
    found[2] = theta;
}
