//===- Kernels.cpp - Selection of the instruction set ---------------------===//

#include "cpu/Kernels.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace tpc::rt {
namespace {

#ifdef __x86_64__
/// Reads CPUID directly: __builtin_cpu_supports needs a compiler library that executables are not
/// linked with.
struct Features {
  bool avx2 = false, avx512 = false, vnni = false;

  Features() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
      return;
    bool fma = c >> 12 & 1, f16c = c >> 29 & 1, saves = c >> 27 & 1, avx = c >> 28 & 1;
    if (!saves || !avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
      return;
    // Registers that the operating system saves: bits 1 and 2 for AVX, and 5 to 7 for AVX-512.
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    avx2 = fma && f16c && (b >> 5 & 1) && (low & 6) == 6;
    bool foundation = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1;
    vnni = c >> 11 & 1;
    avx512 = avx2 && foundation && dq && bw && vl && (low & 0xe6) == 0xe6;
  }
};
#endif

const KernelTable &best() {
  if (const char *wanted = std::getenv("TPC_CPU"))
    if (const KernelTable *table = kernelsNamed(wanted))
      return *table;
#ifdef __x86_64__
  static const Features features;
  if (features.avx512)
    return avx512Kernels;
  if (features.avx2)
    return avx2Kernels;
#endif
  return genericKernels;
}

} // namespace

const KernelTable *kernelsNamed(const char *name) {
  if (!std::strcmp(name, genericKernels.name))
    return &genericKernels;
#ifdef __x86_64__
  static const Features features;
  if (features.avx2 && !std::strcmp(name, avx2Kernels.name))
    return &avx2Kernels;
  if (features.avx512 && !std::strcmp(name, avx512Kernels.name))
    return &avx512Kernels;
#endif
  return nullptr;
}

static std::atomic<bool> forgotten{false};

bool hasByteProducts() {
#ifdef __x86_64__
  static const Features features;
  return features.vnni && !forgotten.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

void forgetByteProducts(bool forget) { forgotten.store(forget); }

static std::atomic<const KernelTable *> chosen{nullptr};

const KernelTable &kernels() {
  static const KernelTable &table = best();
  const KernelTable *other = chosen.load(std::memory_order_relaxed);
  return other ? *other : table;
}

void chooseKernels(const KernelTable &table) { chosen.store(&table); }

} // namespace tpc::rt
