/* Values of a kernel between one sample and a block of columns, for one type REAL of numbers; kernels.c includes it for
   float and for double. */

/* out += sum over four features of c_k r_k, or of (c_k - r_k)^2: fewer loads and stores of out than one by one. */
INLINED void NAME(add_products)(int64_t n, const REAL *const *r, const REAL *c, REAL *restrict out)
{
    const REAL *restrict p = r[0], *restrict q = r[1], *restrict s = r[2], *restrict t = r[3];
    const REAL a = c[0], b = c[1], d = c[2], e = c[3];
    for (int64_t j = 0; j < n; j++) out[j] += (a * p[j] + b * q[j]) + (d * s[j] + e * t[j]);
}

INLINED void NAME(add_squares)(int64_t n, const REAL *const *r, const REAL *c, REAL *restrict out)
{
    const REAL *restrict p = r[0], *restrict q = r[1], *restrict s = r[2], *restrict t = r[3];
    for (int64_t j = 0; j < n; j++) {
        const REAL a = c[0] - p[j], b = c[1] - q[j], d = c[2] - s[j], e = c[3] - t[j];
        out[j] += (a * a + b * b) + (d * d + e * e);
    }
}

/* The inner products, or squared distances, of a and x_j for j < n. a and x hold one feature a row, `apart` and `stride`
   entries from one to the next. Inner products pass over the features where a is 0. */
INLINED void NAME(products_of)(bool away, int64_t n, int64_t features, const REAL *a, int64_t apart, const REAL *x, int64_t stride,
                            REAL *restrict out)
{
    const REAL *row[4];
    REAL c[4];
    int64_t held = 0;
    for (int64_t j = 0; j < n; j++) out[j] = 0;
    for (int64_t k = 0; k < features; k++) {
        const REAL v = a[k * apart];
        if (v != 0 || away) {
            row[held] = x + k * stride;
            c[held++] = v;
        }
        if (held < 4) continue;
        if (away) NAME(add_squares)(n, row, c, out);
        else NAME(add_products)(n, row, c, out);
        held = 0;
    }
    for (int64_t k = 0; k < held; k++) {
        const REAL *restrict r = row[k], v = c[k];
        if (away)
            for (int64_t j = 0; j < n; j++) out[j] += (v - r[j]) * (v - r[j]);
        else
            for (int64_t j = 0; j < n; j++) out[j] += v * r[j];
    }
}

/* k(a, x_j) in place of these, for j < n; own and squares are gamma |a|^2 and gamma |x_j|^2. */
INLINED void NAME(values)(const kernel_t *kernel, int64_t n, REAL own, const REAL *restrict squares, REAL *restrict out)
{
    const REAL gamma = (REAL)kernel->gamma, coef0 = (REAL)kernel->coef0;
    if (kernel->kind == RBF_PRODUCTS) {
        for (int64_t j = 0; j < n; j++) {
            const REAL e = 2 * gamma * out[j] - (own + squares[j]);
            out[j] = EXP(e > 0 ? 0 : e);
        }
    } else if (kernel->kind == RBF_DISTANCES) {
        for (int64_t j = 0; j < n; j++) out[j] = EXP(-gamma * out[j]);
    } else if (kernel->kind == POLYNOMIAL) {
        for (int64_t j = 0; j < n; j++) out[j] = gamma * out[j] + coef0;
        REAL base[COLUMNS];
        for (int64_t j = 0; j < n; j++) base[j] = out[j], out[j] = 1;
        for (int64_t k = 0; k < kernel->degree; k++)
            for (int64_t j = 0; j < n; j++) out[j] *= base[j];
    }
}

#undef NAME
#undef REAL
#undef EXP
