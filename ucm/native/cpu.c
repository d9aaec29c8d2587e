/* Processor features as the resolvers of target_clones read them. libgcc and compiler-rt define these symbols; the
   runtime that zig links does not. Intel SDM volume 2A, CPUID; x86-64 psABI, micro-architecture levels. */
#include "native.h"

#if defined(UCM_ZIG) && defined(__x86_64__) && defined(__GLIBC__)
#include <cpuid.h>

struct { uint32_t vendor, type, subtype, features[1]; } __cpu_model;
uint32_t __cpu_features2[4];

int __cpu_indicator_init(void)
{
    const uint32_t avx = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE, avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* whether the system saves the upper halves of registers */
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & avx2) != avx2) return 0;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LZCNT)) return 0;
    __cpu_model.features[0] |= 1u << 10;  /* AVX2 */
    __cpu_features2[(97 - 32) / 32] |= 1u << 97 % 32; /* x86-64-v3 */
    return 0;
}
#endif
