/* Kernel values: rows in float32 for the SMO cache, weighted sums in float64. */
#include <string.h>
#include "native.h"

#define INLINED static inline __attribute__((always_inline)) /* into both versions of what calls it */
enum { COLUMNS = 512, NEAR = 1 << 15 }; /* columns of a block; its entries, which stay in the cache of a processor */

/* exp in float32 without a branch, at most 2 ulp off in [-87.3, 88.3], at whose ends other arguments are cut off; NaN
   stays. exp(x) = 2^k exp(r), k the integer nearest to x / log 2, log 2 in two parts so that r is exact: this file must
   not be compiled with -fassociative-math. */
INLINED float exp_float(float x)
{
    x = x < -87.3f ? -87.3f : x;
    x = x > 88.3f ? 88.3f : x;
    const union { float value; int32_t bits; } k = {.value = x * 1.44269504f + 0x1.8p23f};
    const float whole = k.value - 0x1.8p23f;
    const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const union { int32_t bits; float value; } power = {.bits = (int32_t)((uint32_t)k.bits << 23) + 0x3f800000};
    return p * power.value;
}

/* exp in float64, x <= 0: 2^k by the bits of its exponent, exp(r) by its series to the twelfth power. */
INLINED double exp_double(double x)
{
    double t = x * 1.4426950408889634;
    t = t < -1022.0 ? -1022.0 : t;
    const union { double value; int64_t bits; } k = {.value = t + 0x1.8p52};
    const double r = (t - (k.value - 0x1.8p52)) * 0.6931471805599453;
    double p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0);
    p = 1.0 / 3628800.0 + r * p;
    p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * p);
    p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r * p));
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * p))));
    const union { int64_t bits; double value; } power = {.bits = (int64_t)((uint64_t)k.bits << 52) + 0x3ff0000000000000};
    return p * power.value;
}

/* G <- exp(-gamma |x_i - z_j|^2) in place of inner products; a, b hold the squares. */
EXPORT VECTORISED void rbf_values(int64_t rows, int64_t columns, double *G, const double *a, const double *b, double gamma)
{
    for (int64_t i = 0; i < rows; i++) {
        double *restrict row = G + i * columns;
        const double own = a[i];
        for (int64_t j = 0; j < columns; j++) {
            const double e = gamma * (2.0 * row[j] - (own + b[j]));
            row[j] = exp_double(e > 0.0 ? 0.0 : e);
        }
    }
}

typedef struct { int64_t kind, degree; double gamma, coef0; } kernel_t;

#define REAL float
#define EXP exp_float
#define NAME(name) name##_float
#include "kernels.h"

#define REAL double
#define EXP exp_double
#define NAME(name) name##_double
#include "kernels.h"

/* The inner product of two vectors in eight sums: this file must not be compiled with -fassociative-math. */
INLINED double product_of(int64_t n, const double *restrict x, const double *restrict z)
{
    double sums[8] = {0.0}, total = 0.0;
    const int64_t even = n - n % 8;
    for (int64_t j = 0; j < even; j += 8)
        for (int l = 0; l < 8; l++) sums[l] += x[j + l] * z[j + l];
    for (int64_t j = even; j < n; j++) total += x[j] * z[j];
    for (int l = 0; l < 8; l++) total += sums[l];
    return total;
}

/* out_j += sum_i c_i k(a_i, x_(first + j)) over the count rows a_i, (count, features). `height` rows at a time have their
   products by BLAS, and x is (., features); one alone has not, and x holds one feature a row, `stride` entries apart.
   part is (height, COLUMNS) scratch. Where the first `shared` = count columns are the
   rows, and `first` is a multiple of COLUMNS, a value between two blocks of columns is computed with the later one, for
   out_j and, by symmetry, for mirror_i, (shared,); shared is 0 otherwise. */
EXPORT VECTORISED void kernel_sums(int64_t kind, int64_t degree, double gamma, double coef0, int64_t height, int64_t count,
                                   int64_t features, const double *a, const double *own, const double *c, int64_t stride,
                                   const double *x, const double *squares, int64_t first, int64_t n, int64_t shared,
                                   double *restrict out, double *restrict mirror, double *part)
{
    const kernel_t kernel = {kind, degree, gamma, coef0};
    double total[COLUMNS];
    const int64_t most = height == 1 && features * 128 > NEAR ? 256 : COLUMNS;
    for (int64_t start = 0; start < n; start += most) {
        const int64_t size = n - start < most ? n - start : most, at = first + start;
        const int64_t last = at + size < shared ? at + size : count, twice = shared - at < size ? shared - at : size;
        const double *columns = x + (height > 1 ? at * features : at);
        for (int64_t j = 0; j < size; j++) total[j] = 0;
        for (int64_t top = 0; top < last; top += height) {
            const int64_t rows = last - top < height ? last - top : height;
            if (height > 1) products_double(size, rows, features, columns, a + top * features, part);
            else products_of_double(false, size, features, a + top * features, 1, columns, stride, part);
            for (int64_t i = 0; i < rows; i++) {
                double *restrict row = part + i * size;
                const double weight = c[top + i];
                values_double(&kernel, size, own[top + i], squares + at, row);
                for (int64_t j = 0; j < size; j++) total[j] += weight * row[j];
                if (top < at && twice > 0) mirror[top + i] += product_of(twice, row, c + at);
            }
        }
        for (int64_t j = 0; j < size; j++) out[start + j] += total[j];
    }
}

/* Row i of the kernel over the columns of X. */
VECTORISED void kernel_row(int64_t kind, int64_t degree, double gamma, double coef0, int64_t n, int64_t features,
                           int64_t stride, const float *X, const float *squares, int64_t i, float *out)
{
    const kernel_t kernel = {kind, degree, gamma, coef0};
    for (int64_t start = 0; start < n; start += COLUMNS) {
        const int64_t size = n - start < COLUMNS ? n - start : COLUMNS;
        products_of_float(kind == RBF_DISTANCES, size, features, X + i, stride, X + start, stride, out + start);
        values_float(&kernel, size, squares[i], squares + start, out + start);
    }
}

/* The rows of `count` samples a_i, (count, features), over the n samples from x_first on, x (., features), in the given
   slots of the store, whose rows are `width` long; part is (count, COLUMNS) scratch. */
EXPORT VECTORISED void kernel_block(int64_t kind, int64_t degree, double gamma, double coef0, int64_t count, int64_t features,
                                    const float *a, const float *own, const int64_t *slots, const float *x,
                                    const float *squares, int64_t first, int64_t n, int64_t width, float *store, float *part)
{
    const kernel_t kernel = {kind, degree, gamma, coef0};
    for (int64_t start = first; start < first + n; start += COLUMNS) {
        const int64_t left = first + n - start, size = left < COLUMNS ? left : COLUMNS;
        products_float(size, count, features, x + start * features, a, part);
        for (int64_t i = 0; i < count; i++) {
            float *restrict row = part + i * size;
            values_float(&kernel, size, own[i], squares + start, row);
            memcpy(store + slots[i] * width + start, row, (size_t)size * sizeof *row);
        }
    }
}
