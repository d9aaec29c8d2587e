/* Sums over one vector, each a branch-free pass that vectorises because its sums may be reassociated
   (-fassociative-math, see build_native.py). Nothing here may rely on the order of two subtractions. */
#include "native.h"

/* Sum of clip(v - x, 0, cap), the number of positive entries and that of capped ones; cap may be inf. */
VECTORISED clipped_t clipped(int64_t n, const double *v, double x, double cap)
{
    double total = 0.0;
    int64_t positive = 0, capped = 0;
    for (int64_t i = 0; i < n; i++) {
        double t = v[i] - x;
        positive += t > 0.0;
        capped += t >= cap;
        t = t > 0.0 ? t : 0.0;
        total += t < cap ? t : 0.0;
    }
    return (clipped_t){capped > 0 ? total + (double)capped * cap : total, positive, capped};
}

/* The least and the largest entry of v, n >= 1. */
VECTORISED range_t range(int64_t n, const double *v)
{
    double low = v[0], high = v[0];
    for (int64_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    return (range_t){low, high};
}

VECTORISED double dot(int64_t n, const double *v, const double *w)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += v[i] * w[i];
    return total;
}

/* v <- v + t d */
VECTORISED void add(int64_t n, double *v, double t, const double *d)
{
    for (int64_t i = 0; i < n; i++) v[i] += t * d[i];
}

/* Count, mean, and sum of squared deviations of the entries with v - ref > shift. */
VECTORISED deviations_t deviations(int64_t n, const double *v, double ref, double shift)
{
    int64_t count = 0;
    double total = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const bool free = v[i] - ref > shift;
        count += free;
        total += free ? v[i] : 0.0;
    }
    const double mean = total / (double)(count > 1 ? count : 1);
    for (int64_t i = 0; i < n; i++) {
        const double u = v[i] - mean;
        squares += v[i] - ref > shift ? u * u : 0.0;
    }
    return (deviations_t){(double)count, mean, squares};
}
