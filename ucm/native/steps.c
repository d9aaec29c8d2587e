/* Steps of the proximal augmented Lagrangian with semismooth Newton, whatever the problem: see ucm/solvers/augmented_lagrangian.py. */
#include "native.h"

static const int MOST_TRIALS = 40;
static const double FLAT = 0.2;        /* of the first slope: the slope at the end of a line search */
static const double SUFFICIENT = 1e-4; /* of the decrease that the first slope foretells (Armijo) */

/* t > 0 where a convex function with the slope start < 0 at 0 has decreased and its slope is small, or the last of
   MOST_TRIALS trials; the last call of slope is at the t returned. The rule is that of `line_search` in ucm/forms/steps.py. */
double line_search(along_t slope, void *on, double start)
{
    double low = 0.0, at_low = start, lowest = start, high = INFINITY, at_high = INFINITY, t = 1.0;
    for (int trial = 1; trial < MOST_TRIALS; trial++) {
        const double s = slope(t, on);
        if (s <= 0.0) {
            if (s >= FLAT * start) return t;
            low = t;
            at_low = lowest = s;
            at_high *= 0.5;
        } else {
            if (s <= -FLAT * start && low * lowest + (t - low) * s <= SUFFICIENT * t * start) return t;
            high = t;
            at_high = s;
            at_low *= 0.5;
        }
        t = high == INFINITY ? 2.0 * t : low - at_low * (high - low) / (at_high - at_low);
    }
    t = low > 0.0 ? low : t; /* the function has fallen there */
    slope(t, on);
    return t;
}

/* The factor of sigma after an outer step of so many Newton steps: the fewer, the larger. */
double growth(int64_t steps)
{
    static const double factors[] = {3.0, 9.0, 6.0, 4.2, 3.0, 3.0};
    return steps <= 5 ? factors[steps] : 2.1;
}
