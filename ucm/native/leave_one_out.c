/* Every sample left out once: the nearest points of ellipsoids whose shape and centre lose one sample.

   With a sample z = mean + v of its class left out, the centre is d + shift v and the shape S - rho v v', S the same for
   all samples of the class. In the basis of the eigenvectors of S, with D = 1 / (1 + s e), the matrix
   I + s (S - rho v v') has the inverse

       y -> D y + D v  s rho (v'D y) / (1 - s rho v'D v),

   so that the nearest point x and its derivative in s take a dozen sums over the coordinates. */
#include "native.h"

/* vkv = v'D^k v, vkd = v'D^k d, dkd = d'D^k d; e.. : these with e D^2; hv = h'D v, hd = h'D d. */
typedef struct { double v1v, v2v, v3v, v1d, v2d, v3d, d2d, d3d, evv, evd, edd, hv, hd; } sums_t;

static inline sums_t sums_at(double s, int64_t n, const double *v, const double *d, const double *h, const double *e)
{
    double v1v = 0, v2v = 0, v3v = 0, v1d = 0, v2d = 0, v3d = 0, d2d = 0, d3d = 0, evv = 0, evd = 0, edd = 0, hv = 0, hd = 0;
    for (int64_t j = 0; j < n; j++) {
        const double D = 1.0 / (1.0 + s * e[j]), vD = v[j] * D, dD = d[j] * D, vDD = vD * D, dDD = dD * D;
        v1v += vD * v[j];
        v1d += vD * d[j];
        v2v += vD * vD;
        v2d += vD * dD;
        d2d += dD * dD;
        v3v += vDD * vD;
        v3d += vDD * dD;
        d3d += dDD * dD;
        evv += e[j] * vD * vD;
        evd += e[j] * vD * dD;
        edd += e[j] * dD * dD;
        hv += h[j] * vD;
        hd += h[j] * dD;
    }
    return (sums_t){v1v, v2v, v3v, v1d, v2d, v3d, d2d, d3d, evv, evd, edd, hv, hd};
}

/* out[i, k] = x'(own v_i + h) / |x|, x the nearest point for radius k with sample i left out; nan where 0 lies in the
   set.

   V, d, h : (m, n), (n,), (n,) in the basis; e : (n,) eigenvalues of S
   shift, rho : of the centre and of the shape, above
   radii, starts : (count,) and the s of S itself for each, where its root is sought; 0: none */
VECTORISED void leave_one_out(int64_t m, int64_t n, const double *V, const double *e, const double *d, const double *h,
                         double shift, double rho, double own, int64_t count, const double *radii, const double *starts,
                         double *out)
{
    double top_e = 0.0;
    for (int64_t j = 0; j < n; j++) top_e = larger(top_e, e[j]);
    for (int64_t i = 0; i < m; i++) {
        const double *v = V + i * n;
        for (int64_t k = 0; k < count; k++) {
            double *result = out + i * count + k;
            *result = NAN;
            if (!(starts[k] > 0.0)) {
                double top = 0.0, size = 0.0;
                for (int64_t j = 0; j < n; j++) {
                    const double x = d[j] + shift * v[j];
                    top += x * (own * v[j] + h[j]);
                    size += x * x;
                }
                if (radii[k] == 0.0 && size > 0.0) *result = top / sqrt(size);
                continue;
            }
            double low = -700.0, high = 700.0, u = log(starts[k]);
            for (int step = 0; step < 100; step++) {
                const double s = exp(u);
                const sums_t a = sums_at(s, n, v, d, h, e);
                const double rest = 1.0 - s * rho * a.v1v;
                if (!(rest > 1e-14)) break;
                /* v'D d_i and d_i'D d_i with d_i = d + shift v, then x = D (d + g v) */
                const double be = a.v1d + shift * a.v1v, g = shift + s * rho * be / rest;
                const double xx = a.d2d + 2.0 * g * a.v2d + g * g * a.v2v, vx = a.v1d + g * a.v1v;
                const double height = a.edd + 2.0 * g * a.evd + g * g * a.evv - rho * vx * vx; /* x'S_i x */
                if (!(height > 0.0) || !(xx > 0.0)) break;
                const double f = 2.0 * u + log(height) - 2.0 * log(radii[k]);
                if (f < 0.0) low = u;
                else high = u;
                const double vDx = a.v2d + g * a.v2v;
                const double inverse = a.d3d + 2.0 * g * a.v3d + g * g * a.v3v + s * rho * vDx * vDx / rest; /* x'M^-1 x */
                double slope = 2.0; /* of log s^2 x'S_i x in log s; below, the difference is rounding */
                if (s * top_e > 1e-9) slope = smaller(2.0, 2.0 * (xx - inverse) / (s * height));
                const double change = slope > 1e-13 ? f / slope : INFINITY;
                if (fabs(change) <= 1e-11) {
                    *result = (own * vx + a.hd + g * a.hv) / sqrt(xx);
                    break;
                }
                u = low < u - change && u - change < high ? u - change : 0.5 * (low + high);
                if (high - low <= 1e-13 * fabs(high) || u > 690.0) break;
            }
        }
    }
}
