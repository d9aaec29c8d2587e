/* Checksums of arrays, at the speed of memory.

   sum_i w_i + low(w_i + k_i) high(w_i + k_i), the halves of the word at place i and k_i = i odd: sums alone do not see an
   exchange, nor two changed signs. As one of XXH3 it vectorises. And the bits of the largest absolute value, the
   words read as numbers of double precision. */
#include "native.h"

#define ODD UINT64_C(0x5851F42D4C957F2D)
#define LOW UINT64_C(0xFFFFFFFF)
#define MAGNITUDE INT64_C(0x7FFFFFFFFFFFFFFF) /* all but the sign */

#define CHECKSUM                                                          \
    {                                                                     \
        uint64_t total = 0;                                               \
        int64_t top = 0;                                                  \
        for (int64_t i = 0; i < n; i++) {                                 \
            const int64_t word = words[i], size = word & MAGNITUDE;       \
            const uint64_t moved = (uint64_t)word + (uint64_t)i * ODD;    \
            top = size > top ? size : top;                                \
            total += (uint64_t)word + (moved & LOW) * (moved >> 32);      \
        }                                                                 \
        found[0] = (int64_t)total;                                        \
        found[1] = top;                                                   \
    }
EXPORT VECTORISED void checksum_long(int64_t n, const int64_t *words, int64_t *found) CHECKSUM
EXPORT VECTORISED void checksum_short(int64_t n, const int32_t *words, int64_t *found) CHECKSUM
