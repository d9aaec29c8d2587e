/* Clipped MDM (Lopez, Barbero and Dorronsoro 2011, equations (7), (13) and (14)) on a Gram matrix in float64: the least
   |fixed + sum q_k x_k| over 0 <= q <= cap with the sum of q in each group fixed. F_k = <x, x_k>. In the group with the
   largest F_U - F_L over U with q > 0 and L with q < cap, weight moves to L from the U that lowers the norm most. */
#include "native.h"

/* Steps until no pair violates by more than eps, `limit` at most: how many. low and high are (groups). */
EXPORT VECTORISED int64_t exchange(int64_t n, int64_t groups, const double *K, const int64_t *group, const double *cap, double eps,
                            int64_t limit, double *q, double *F, int64_t *low, int64_t *high)
{
    for (int64_t step = 0; step < limit; step++) {
        for (int64_t g = 0; g < groups; g++) low[g] = high[g] = -1;
        for (int64_t k = 0; k < n; k++) {
            const int64_t g = group[k];
            if (q[k] < cap[k] && (low[g] < 0 || F[k] < F[low[g]])) low[g] = k;
            if (q[k] > 0.0 && (high[g] < 0 || F[k] > F[high[g]])) high[g] = k;
        }
        int64_t L = -1, U = -1;
        double most = eps, best = 0.0, t = 0.0;
        for (int64_t g = 0; g < groups; g++)
            if (low[g] >= 0 && high[g] >= 0 && F[high[g]] - F[low[g]] > most) {
                most = F[high[g]] - F[low[g]];
                L = low[g];
            }
        if (L < 0) return step;
        for (int64_t k = 0; k < n; k++) {
            const double d = F[k] - F[L], room = smaller(cap[L] - q[L], q[k]);
            if (group[k] != group[L] || !(room > 0.0) || !(d > 0.0)) continue;
            const double eta = larger(K[L * n + L] + K[k * n + k] - 2.0 * K[L * n + k], 1e-12 * K[L * n + L]);
            const double move = eta > 0.0 ? smaller(room, d / eta) : room, fall = move * (d - 0.5 * move * eta);
            if (fall > best) best = fall, U = k, t = move;
        }
        if (U < 0) return step;
        q[L] = t >= cap[L] - q[L] ? cap[L] : q[L] + t;
        q[U] = t >= q[U] ? 0.0 : q[U] - t;
        for (int64_t k = 0; k < n; k++) F[k] += t * (K[L * n + k] - K[U * n + k]);
    }
    return limit;
}
