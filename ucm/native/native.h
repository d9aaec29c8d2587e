/* What the C files share: types, function multiversioning, and the functions that Python does not see. */
#ifndef UCM_NATIVE_H
#define UCM_NATIVE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "structures.h"

/* A function that Python calls; the rest of the library is hidden (-fvisibility=hidden). The build takes its prototype from
   the definition: sizes come before the arrays that have them, and "const" is for arrays that are only read. */
#define EXPORT __attribute__((visibility("default")))

/* VECTORISED compiles a function for AVX2 and FMA in the library that is built with UCM_AVX2, beside one for the baseline of
   its target; the binding loads the first where the processor has both (cpu.c). Two libraries take no loader that chooses
   (ifunc, which musl, macOS and Windows have not). Put it before functions with loops over samples or features; what they
   call must be static inline, else it stays at the baseline. */
#if defined(UCM_AVX2) && defined(__x86_64__)
#define VECTORISED __attribute__((target("avx2,fma,bmi,bmi2")))
#else
#define VECTORISED
#endif

static inline double larger(double a, double b) { return b > a ? b : a; } /* a where one is NaN */
static inline double smaller(double a, double b) { return b < a ? b : a; }

/* Whether a relative gap proves a tolerance. One below 0 by more than rounding proves nothing: see forms/monitor.py. */
static inline bool reached(double gap, double tol) { return -1e-9 <= gap && gap <= tol; }

/* blas.c: matrices are row-major here and column-major there, so the upper triangle here is the lower one there. */
void products_float(int64_t n, int64_t count, int64_t features, const float *x, const float *a, float *out);
void products_double(int64_t n, int64_t count, int64_t features, const double *x, const double *a, double *out);
void add_rows(int64_t n, int64_t count, const double *rows, double factor, double *H);
bool cholesky_solve(int64_t n, int64_t sides, double *H, double *d);

/* coordinate.c */
uint8_t minimise_quadratic(quadratic_t *q, double budget);

/* kernels.c; GIVEN: Python computes the rows */
enum { GIVEN, LINEAR, POLYNOMIAL, RBF_PRODUCTS, RBF_DISTANCES };
void kernel_row(int64_t kind, int64_t degree, double gamma, double coef0, int64_t n, int64_t features, int64_t stride, const float *X, const float *squares, int64_t i, float *out);

/* sums.c */
typedef struct { double total; int64_t positive, capped; } clipped_t;
typedef struct { double low, high; } range_t;
clipped_t clipped(int64_t n, const double *v, double x, double cap);
range_t range(int64_t n, const double *v);
typedef struct { double count, mean, squares; } deviations_t;
deviations_t deviations(int64_t n, const double *v, double ref, double shift);
double dot(int64_t n, const double *v, const double *w);
void add(int64_t n, double *v, double t, const double *d);

/* root.c: theta = ref + shift with sum clip(v - theta, 0, cap) = mass */
typedef struct { double ref, shift; } root_t;
root_t solve_root(int64_t n, const double *v, double cap, double mass, double guess, double *work);

/* capped.c */
root_t capped_root(int64_t n, const double *v, double cap, double mass, double *work);
int64_t pack(int64_t n, const double *v, const double *classes, double *out);

/* rows.c */
enum { CHUNK = 64 }; /* dense rows that one product of BLAS adds to H */
void rows_dot(const rows_t *X, int64_t count, const uint32_t *tags, const double *w, double *out);
int64_t rows_move(const rows_t *X, int64_t count, const uint32_t *tags, const double *target, double *p, double *x);
int64_t rows_exchange(const rows_t *X, int64_t count, uint32_t *tags, const double *p, const double *caps, double cap,
                      double sign, double *H, double *s, double *chunk);

#endif
