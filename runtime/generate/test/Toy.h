//===- Toy.h - Toy model with computable outputs --------------------------===//
//
// Its logits are a function of all tokens of a sequence, in order. A step that drops a token, uses
// a token of another sequence, or reads beyond the end changes the logits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_TEST_TOY_H
#define TPC_RT_GENERATE_TEST_TOY_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tpc::rt::toy {

constexpr int64_t vocabulary = 101;
/// After this token, the logit of token 7 is NaN. The model never generates it.
constexpr int64_t poison = 66;

inline uint64_t mix(uint64_t x) {
  x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
  return x ^ x >> 33;
}

/// State after a token, from the state before it; 2 after `poison`.
inline uint64_t readToken(uint64_t state, int64_t position, int64_t token) {
  return token == poison ? 2
         : state == 2    ? 2
                         : mix(state * 31 + static_cast<uint64_t>(position * 1000 + token)) | 4;
}

inline float logit(uint64_t state, int64_t token) {
  if (state == 2 && token == 7)
    return std::numeric_limits<float>::quiet_NaN();
  if (token == poison)
    return -1000;
  uint64_t bits = mix(state ^ static_cast<uint64_t>(token + 1) * 0x9e3779b97f4a7c15u);
  return static_cast<float>(bits >> 52) / 512 - 4;
}

inline std::vector<float> logitsOf(const std::vector<int64_t> &tokens) {
  uint64_t state = 1;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    state = readToken(state, static_cast<int64_t>(i), tokens[i]);
  std::vector<float> logits;
  for (int64_t token = 0; token < vocabulary; ++token)
    logits.push_back(logit(state, token));
  return logits;
}

} // namespace tpc::rt::toy

#endif // TPC_RT_GENERATE_TEST_TOY_H
