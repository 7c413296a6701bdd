//===- AttentionVariants.cpp - Variants of attention that tests cover -----===//

#include "AttentionCases.h"

#include "tpc/runtime.h"

using namespace attention;

std::vector<Variant> attention::getVariants() {
  constexpr int32_t F32 = TPC_F32, F16 = TPC_F16, BF16 = TPC_BF16;
  return {
      {.headSize = 8, .valueSize = 8},
      {.headSize = 17, .valueSize = 17, .causal = true, .keyMask = true},
      {.bias = F32, .headSize = 40, .valueSize = 24, .causal = true, .mask = true},
      {.headSize = 64, .valueSize = 64, .causal = true},
      {.headSize = 33, .valueSize = 65, .softcap = true, .uniformRows = true},
      {.headSize = 80, .valueSize = 80, .causal = true, .windowed = true},
      {.slopes = F32, .headSize = 96, .valueSize = 96, .causal = true},
      {.sinks = F32, .headSize = 24, .valueSize = 24, .causal = true, .keyMask = true},
      {.headSize = 128, .valueSize = 128, .causal = true, .uniformRows = true},
      {.headSize = 255, .valueSize = 256, .causal = true},
      {.bias = F32,
       .slopes = F32,
       .headSize = 12,
       .valueSize = 12,
       .causal = true,
       .windowed = true,
       .keyMask = true,
       .mask = true,
       .softcap = true,
       .uniformRows = true},
      {.element = F16, .headSize = 64, .valueSize = 64, .causal = true, .keyMask = true},
      {.element = F16, .bias = F16, .headSize = 17, .valueSize = 31, .mask = true},
      {.element = F16, .headSize = 128, .valueSize = 128, .windowed = true, .uniformRows = true},
      {.element = BF16, .slopes = BF16, .headSize = 64, .valueSize = 64, .causal = true},
      {.element = BF16, .headSize = 96, .valueSize = 40, .causal = true, .windowed = true},
      {.element = BF16, .bias = F32, .headSize = 7, .valueSize = 7, .keyMask = true},
      {.headSize = 64, .valueSize = 64, .causal = true, .cached = true},
      {.slopes = F32,
       .headSize = 20,
       .valueSize = 36,
       .causal = true,
       .windowed = true,
       .softcap = true,
       .cached = true},
      {.element = F16, .headSize = 128, .valueSize = 128, .causal = true, .cached = true},
      {.element = BF16,
       .sinks = BF16,
       .headSize = 64,
       .valueSize = 64,
       .causal = true,
       .windowed = true,
       .cached = true},
      {.element = BF16,
       .headSize = 33,
       .valueSize = 33,
       .causal = true,
       .windowed = true,
       .cached = true},
  };
}
