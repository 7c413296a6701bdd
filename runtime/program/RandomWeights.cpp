//===- RandomWeights.cpp - Random weights as a function of a seed ---------===//

#include "program/RandomWeights.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <cmath>

namespace tpc::rt {

RandomSource::RandomSource(uint64_t seed, const Parameter &parameter) {
  own.key = mix(seed + golden * (1 + fnv1a(parameter.name)));
  // 37837.227 is the standard deviation of the sum of four numbers from 0 to 65535.
  double deviation = 0.2;
  if (parameter.init == Parameter::Init::Normal && parameter.sourceShape.size() > 1)
    deviation = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(parameter.sourceShape[0], 1)));
  own.mean = parameter.init == Parameter::Init::Ones ? 1.0f : 0.0f;
  own.scale = static_cast<float>(deviation / 37837.227);
}

} // namespace tpc::rt
