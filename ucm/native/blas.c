/* BLAS and LAPACK of SciPy. Python passes the addresses at the first call, and the width of their integers in bytes. */
#include "native.h"

typedef union { int32_t narrow; int64_t wide; } integer;
typedef void (*syrk_t)(char *, char *, integer *, integer *, double *, double *, integer *, double *, double *, integer *);
typedef void (*potrf_t)(char *, integer *, double *, integer *, integer *);
typedef void (*potrs_t)(char *, integer *, integer *, double *, integer *, double *, integer *, integer *);

static int32_t width;
static syrk_t syrk;
static potrf_t potrf;
static potrs_t potrs;

EXPORT void use_blas(int32_t width_, void *dsyrk, void *dpotrf, void *dpotrs)
{
    width = width_;
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
