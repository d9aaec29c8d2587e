/* Products with some rows of a dense or CSR matrix, whose z is `factor` times the row.

   A tag is 2 k + f: row k, and whether it counts among the free ones in H. */
#include "native.h"

static inline int64_t row_of(uint32_t tag) { return (int64_t)(tag >> 1); }

/* out_k = z_k'w */
VECTORISED void rows_dot(const rows_t *X, int64_t count, const uint32_t *tags, const double *w, double *out)
{
    const int64_t n = X->n;
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = row_of(tags[k]);
        double total = 0.0;
        if (X->starts) {
            for (int64_t e = X->starts[i]; e < X->starts[i + 1]; e++) total += X->values[e] * w[X->columns[e]];
        } else {
            const double *row = X->values + i * n;
            for (int64_t j = 0; j < n; j++) total += row[j] * w[j];
        }
        out[k] = X->factor * total;
    }
}

/* p <- target and x <- x + sum_k (target_k - p_k) z_k; how many rows changed. */
VECTORISED int64_t rows_move(const rows_t *X, int64_t count, const uint32_t *tags, const double *target, double *p,
                             double *restrict x)
{
    const int64_t n = X->n;
    int64_t changed = 0;
    for (int64_t k = 0; k < count; k++) {
        const double c = X->factor * (target[k] - p[k]);
        if (c == 0.0) continue;
        changed++;
        p[k] = target[k];
        const int64_t i = row_of(tags[k]);
        if (X->starts) {
            for (int64_t e = X->starts[i]; e < X->starts[i + 1]; e++) x[X->columns[e]] += c * X->values[e];
        } else {
            const double *row = X->values + i * n;
            for (int64_t j = 0; j < n; j++) x[j] += c * row[j];
        }
    }
    return changed;
}

/* H <- H + sign sum z z' (upper triangle), s <- s + sign sum z over the rows that enter (sign = 1) or leave (-1) the
   set 0 < p < cap, and their tags; how many. chunk is (CHUNK, n) scratch. */
VECTORISED int64_t rows_exchange(const rows_t *X, int64_t count, uint32_t *tags, const double *p, const double *caps,
                                 double cap, double sign, double *restrict H, double *restrict s, double *chunk)
{
    const int64_t n = X->n;
    int64_t exchanged = 0, held = 0;
    for (int64_t k = 0; k < count; k++) {
        const bool inside = 0.0 < p[k] && p[k] < (caps ? caps[k] : cap);
        if (inside == (tags[k] & 1u) || inside != (sign > 0.0)) continue;
        tags[k] ^= 1u;
        exchanged++;
        const int64_t i = row_of(tags[k]);
        if (X->starts) {
            const int64_t end = X->starts[i + 1];
            for (int64_t e = X->starts[i]; e < end; e++) {
                const double c = X->factor * X->values[e], signed_c = sign * c;
                double *row = H + (int64_t)X->columns[e] * n;
                s[X->columns[e]] += signed_c;
                for (int64_t f = e; f < end; f++) row[X->columns[f]] += signed_c * X->factor * X->values[f];
            }
            continue;
        }
        const double *row = X->values + i * n;
        double *copy = chunk + held * n;
        for (int64_t j = 0; j < n; j++) {
            copy[j] = X->factor * row[j];
            s[j] += sign * copy[j];
        }
        if (++held == CHUNK) {
            add_rows(n, held, chunk, sign, H);
            held = 0;
        }
    }
    add_rows(n, held, chunk, sign, H);
    return exchanged;
}
