/* Projection on the capped simplex {q : 0 <= q <= cap, sum q = mass}: q = clip(v - theta, 0, cap), theta from root.c. */
#include "native.h"

enum { SAMPLE = 4096 };

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

void threshold(int64_t n, const double *v, double cap, double mass, double *root, double *work)
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
VECTORISED void project_capped(int64_t n, const double *v, int64_t labelled, const double *classes, double cap_pos,
                               double cap_neg, double *out, double *work)
{
    if (labelled == 0) {
        const root_t root = capped_root(n, v, cap_pos, 1.0, work);
        for (int64_t i = 0; i < n; i++) {
            double t = (v[i] - root.ref) - root.shift;
            t = t > 0.0 ? t : 0.0;
            out[i] = t < cap_pos ? t : cap_pos;
        }
        return;
    }
    const int64_t m = pack(n, v, classes, work);
    const root_t pos = capped_root(m, work, cap_pos, 0.5, work + n);
    const root_t neg = capped_root(n - m, work + m, cap_neg, 0.5, work + n);
    for (int64_t i = 0; i < n; i++) {
        const bool positive = classes[i] > 0.0;
        const double ref = positive ? pos.ref : neg.ref, shift = positive ? pos.shift : neg.shift;
        const double cap = positive ? cap_pos : cap_neg;
        double t = (v[i] - ref) - shift;
        t = t > 0.0 ? t : 0.0;
        out[i] = t < cap ? t : cap;
    }
}
