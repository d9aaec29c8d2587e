/* BLAS and LAPACK of SciPy. Python passes the addresses at the first call, and the width of their integers in bytes. */
#include "native.h"

typedef union { int32_t narrow; int64_t wide; } integer;
typedef void (*sgemm_t)(char *, char *, integer *, integer *, integer *, float *, float *, integer *, float *, integer *, float *, float *, integer *);
typedef void (*dgemm_t)(char *, char *, integer *, integer *, integer *, double *, double *, integer *, double *, integer *, double *, double *, integer *);
typedef void (*syrk_t)(char *, char *, integer *, integer *, double *, double *, integer *, double *, double *, integer *);
typedef void (*potrf_t)(char *, integer *, double *, integer *, integer *);
typedef void (*potrs_t)(char *, integer *, integer *, double *, integer *, double *, integer *, integer *);

static int32_t width;
static sgemm_t gemm_float;
static dgemm_t gemm_double;
static syrk_t syrk;
static potrf_t potrf;
static potrs_t potrs;

EXPORT void use_blas(int32_t width_, void *sgemm, void *dgemm, void *dsyrk, void *dpotrf, void *dpotrs)
{
    width = width_;
    gemm_float = (sgemm_t)sgemm;
    gemm_double = (dgemm_t)dgemm;
    syrk = (syrk_t)dsyrk;
    potrf = (potrf_t)dpotrf;
    potrs = (potrs_t)dpotrs;
}

static integer integer_of(int64_t value)
{
    integer i = {.wide = 0};
    if (width == 8) i.wide = value;
    else i.narrow = (int32_t)value;
    return i;
}

static bool is_zero(integer i) { return width == 8 ? i.wide == 0 : i.narrow == 0; }

/* out_ij = <a_i, x_j>, (count, n); a is (count, features), x (n, features). */
void products_float(int64_t n, int64_t count, int64_t features, const float *x, const float *a, float *out)
{
    char as_is = 'N', transposed = 'T';
    integer columns = integer_of(n), rows = integer_of(count), terms = integer_of(features);
    float one = 1.0f, zero = 0.0f;
    gemm_float(&transposed, &as_is, &columns, &rows, &terms, &one, (float *)x, &terms, (float *)a, &terms, &zero, out, &columns);
}

void products_double(int64_t n, int64_t count, int64_t features, const double *x, const double *a, double *out)
{
    char as_is = 'N', transposed = 'T';
    integer columns = integer_of(n), rows = integer_of(count), terms = integer_of(features);
    double one = 1.0, zero = 0.0;
    gemm_double(&transposed, &as_is, &columns, &rows, &terms, &one, (double *)x, &terms, (double *)a, &terms, &zero, out, &columns);
}

/* The upper triangle of H + factor R'R, R the (count, n) rows. */
void add_rows(int64_t n, int64_t count, const double *rows, double factor, double *H)
{
    if (count == 0 || n == 0) return;
    char lower = 'L', as_is = 'N';
    integer order = integer_of(n), terms = integer_of(count);
    double one = 1.0;
    syrk(&lower, &as_is, &order, &terms, &factor, (double *)rows, &order, &one, H, &order);
}

/* d <- H^-1 d by the upper triangle of H, which its factor replaces; false when H is not positive definite.
   d holds one right-hand side or several, one after the other. */
bool cholesky_solve(int64_t n, int64_t sides, double *H, double *d)
{
    if (n == 0) return true;
    char lower = 'L';
    integer order = integer_of(n), columns = integer_of(sides), info = integer_of(0);
    potrf(&lower, &order, H, &order, &info);
    if (!is_zero(info)) return false;
    potrs(&lower, &order, &columns, H, &order, d, &order, &info);
    return true;
}
