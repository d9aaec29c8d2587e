/* Sums of outer products of sparse rows, and their products with vectors. */
#include "native.h"

/* s += sum_i d_i x_i over the m rows of a CSR matrix and, to H (n, n), of every pair of entries of sum_i d_i x_i x_i'
   one of both. */
EXPORT VECTORISED void add_outer(int64_t m, const double *values, const int32_t *columns, const int32_t *starts, const double *d,
                          int64_t n, double *restrict H, double *restrict s)
{
    for (int64_t i = 0; i < m; i++) {
        if (d[i] == 0.0) continue;
        for (int32_t e = starts[i]; e < starts[i + 1]; e++) {
            const double c = d[i] * values[e];
            double *row = H + (int64_t)columns[e] * n;
            s[columns[e]] += c;
            for (int32_t f = e; f < starts[i + 1]; f++) row[columns[f]] += c * values[f];
        }
    }
}

/* out += sum_i d_i (x_i'v) x_i over the m rows of a CSR matrix, which reads each entry once; returns
   sum_i d_i x_i'v. */
EXPORT VECTORISED double add_gram_product(int64_t m, const double *values, const int32_t *columns, const int32_t *starts,
                          const double *d, const double *v, double *restrict out)
{
    double total = 0.0;
    for (int64_t i = 0; i < m; i++) {
        if (d[i] == 0.0) continue;
        double u = 0.0;
        for (int32_t e = starts[i]; e < starts[i + 1]; e++) u += values[e] * v[columns[e]];
        u *= d[i];
        total += u;
        for (int32_t e = starts[i]; e < starts[i + 1]; e++) out[columns[e]] += u * values[e];
    }
    return total;
}
