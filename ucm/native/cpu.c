/* Whether processor and system have what the library for AVX2 needs. Intel SDM volume 2A, CPUID. */
#include "native.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

EXPORT uint8_t has_avx2(void)
{
#if defined(__x86_64__) && (!defined(_WIN32) || defined(__clang__)) /* gcc there spills to an unaligned stack */
    const uint32_t avx = bit_OSXSAVE | bit_AVX | bit_FMA, avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* whether the system saves the upper halves of registers */
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & avx2) == avx2;
#else
    return 0;
#endif
}
