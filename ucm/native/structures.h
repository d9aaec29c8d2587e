/* Structures that C shares with Python. No preprocessor here: native.h includes this file, and cffi reads it. "const" is checked:
   other arrays must be writable. */

/* hulls.c */
typedef struct {
    int64_t n;
    double factor;
    const double *values;
    const uint32_t *columns, *starts; /* NULL: dense, row after row */
} rows_t;

typedef struct {
    int64_t count;             /* of limits G w >= level */
    const double *G, *level;   /* (count, n), (count,) */
    double *center, *mu, *next; /* proximal centre, multipliers and those of the trial point */
    double *a, *b;             /* scores of w and of a direction */
} limits_t;

typedef struct {
    /* The problem. In V, tags and the like, class c has the rows first[c] to end[c], those to active[c] in front. */
    int64_t n, boxes;          /* the order of the systems; 1: boxes in place of hulls, 2: for a fixed b */
    rows_t rows[2];
    limits_t limits;           /* of boxes */
    int64_t first[2], active[2], end[2];
    double cap[2], mass[2];
    double offset, excess;     /* of boxes */
    double tol, entries;       /* relative gap to reach; entries of all rows */
    double zero, largest;      /* |x| counts as 0 at `zero` of the largest norm met */
    double *w, *x;             /* (n,) the dual vector and the point */
    double *q, *p, *a;         /* proximal centre, trial point, scores */
    double *reference, *caps;  /* scores when last compared; caps of the rows, or NULL */
    uint32_t *tags;            /* the samples in this order, see rows.c */
    double *H, *S;             /* (n, n), (2, n) sums over the free rows, of which there are `free` */
    double *scratch;           /* 2 rows + n (n + 66), where the next five stand */
    double *work, *system, *chunk, *g, *d;
    double theta[2], sigma;    /* multipliers; proximal parameter, 0: chosen from the gap of the start */
    double free[2];
    double reach, slack;       /* how far active rows go beyond the breakpoints; how far scores may still move */
    double held_mass[2], held_step[2], old_theta[2]; /* of held rows: sum p, |p - q|^2; theta when last compared */
    double look, before, travel; /* the next reach; how far scores have moved in this outer step */
    double nearest, best;      /* the least gap, and before the last outer step */
    int64_t phase, steps, refused, idle;
    /* The outcome: 0 under way, 1 proven, 2 x is 0, 3 the gap falls no more; |x| or the objective of boxes. */
    int64_t status, systems;
    double gap, value, passes, forming;
} hulls_t;

/* coordinate.c */
typedef struct {
    int64_t n, m, left;             /* coordinates; samples behind H; rounds that are left */
    const double *H;                /* (n, n), or NULL: that of the columns */
    const double *values;           /* of the columns, dense (n, m), or CSC with row indices */
    const uint32_t *rows, *starts;  /* NULL: dense */
    const double *h, *mean, *diagonal; /* weights, the mean by them, the diagonal of H */
    double mass, shift;             /* the sum of the weights; <mean, x - x0> */
    double *v;                      /* (m,) the columns times x - x0 */
    double *r, *x;                  /* gradient of the quadratic part without ridge (of columns at x0), and the point */
    const double *lower, *upper;
    double ridge, tol;
    double *system, *d;             /* (n, n), (n,) scratch */
    int64_t *support;               /* (n,) scratch */
    int64_t work;                   /* multiplications of the last call */
} quadratic_t;

/* dense_newton.c */
typedef struct {
    int64_t m, n, squared;               /* the squared hinge, or the logistic loss */
    const double *X, *y, *c;             /* (m, n), (m,), (m,) what the samples weigh */
    const uint32_t *columns, *starts;    /* of CSR, each row in ascending order; NULL: X is dense */
    const double *v, *u, *lower, *upper; /* tilts, (m,) and (n,), and walls, (n,) */
    double ridge, tol;
    double *z, *t, *a;                   /* (n + 1,) point, (m,) margins, (m,) dual point */
    /* The matrix of the last problem over the same samples, (n, n), their mean with the sum of the weights behind it, and
       these weights; a sum of 0: there is none. */
    double *H, *mean, *h;
    double *scratch;                     /* 7 m + n (n + 69), where the next ones stand */
    double *s, *curve, *t_next, *s_next, *curve_next, *beta, *move; /* (m,) */
    double *g, *r, *next, *d, *pulled, *system, *chunk;
    int64_t *support;                    /* (n,) */
    double value, smooth, fixed, gap, before, passes;
    int64_t most;                        /* steps for one problem */
    int64_t begun, stale, stuck, steps, systems, status; /* status: 0 under way, 1 proven, 2 nothing is gained any more */
} dense_newton_t;

/* smo.c */
typedef struct {
    int64_t n, groups, features, stride, kind, degree; /* variables at hand; features and entries of a row of X */
    int64_t capacity, most, slots, filled;             /* floats of the store; rows at most, for now, so far */
    int64_t fresh;                                     /* 1: the arrays are new */
    int64_t clock;                                     /* of the cache */
    int64_t updates, check, next, entries;             /* so far; those at which to look again; kernel values */
    int64_t since;                                     /* the updates at which the gap was `least` */
    double gamma, coef0, p;
    double least;                 /* the least gap so far */
    double reference;             /* the violation that the curvatures of phi are for */
    double fall, value, rate, share; /* of the objective so far; what the gap is relative to, see smo */
    double move;
    int64_t *ends;                     /* (groups) where they end */
    int32_t *index;                    /* (n) the variable of all that each is */
    double *u, *F, *lo, *hi, *diagonal, *C, *xi, *levels, *all; /* C, xi: p > 1 only; levels: (2 groups); all: every u */
    float *s, *curve, *grows, *falls;  /* curve: diagonal of Q, with phi's; grows, falls: 0 or infinite */
    float *X, *squares, *store;
    int32_t *where, *owner, *keep;     /* slot of each row, or -1; its variable; (2n) scratch */
    int64_t *used;                     /* when each slot was */
} smo_t;
