//===- RandomWeights.h - Random weights as a function of a seed -----------===//
//
// --weights=random:SEED. The value of an element depends only on the seed, the parameter's name,
// and the element's index in the source tensor: the model is the same for every partitioning. The
// counter-based generator uses 64-bit integers:
//
//   key   = mix(seed + golden * (1 + FNV-1a hash of the name))
//   bits  = mix(key + golden * (index + 1)),    mix being the finalizer of SplitMix64
//   z     = (sum of the four 16-bit fields of bits - 131070) / 37837.227
//           z is about N(0, 1), within ±3.47
//   value = z / sqrt(rows) for "normal" of two or more dimensions, 0.2 z of one dimension,
//           1 + 0.2 z for "ones", 0.2 z for "zeros"
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_RANDOMWEIGHTS_H
#define TPC_RT_PROGRAM_RANDOMWEIGHTS_H

#include "core/WeightLoader.h"
#include "program/Manifest.h"

namespace tpc::rt {

class RandomSource {
public:
  RandomSource(uint64_t seed, const Parameter &parameter);
  // GPUs compute the same bits (cuda/library/WeightKernels.cpp), because each operation is rounded
  // separately.
  float at(int64_t index) const {
#pragma STDC FP_CONTRACT OFF
    uint64_t bits = mix(own.key + golden * (static_cast<uint64_t>(index) + 1));
    int64_t sum = static_cast<int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                       (bits >> 32 & 0xffff) + (bits >> 48));
    return own.mean + own.scale * static_cast<float>(sum - 131070);
  }
  const Generator &generator() const { return own; }

private:
  static constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  Generator own;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_RANDOMWEIGHTS_H
