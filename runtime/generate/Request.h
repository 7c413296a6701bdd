//===- Request.h - Generation request -------------------------------------===//

#ifndef TPC_RT_GENERATE_REQUEST_H
#define TPC_RT_GENERATE_REQUEST_H

#include "generate/Settings.h"
#include "program/Manifest.h"
#include "program/Tensor.h"
#include "tpc/windows.h"
#include <memory>
#include <string>
#include <vector>

namespace tpc::rt {

/// Source that the tokens of an encoder-decoder attend to: ids, or states [tokens, …] of an
/// encoder. Or an image, whose features replace tokens of the prompt.
struct GenerationSource {
  std::vector<int64_t> ids;
  std::shared_ptr<const Tensor> states;
  int64_t each = 0;   ///< tokens of each source, if all have as many; else 0
  int64_t token = -1; ///< Generation::Source::token, or -1

  int64_t size() const { return each ? each : states ? states->shape[0] : std::ssize(ids); }
};

struct GenerationRequest {
  std::string id; ///< chosen by the client
  std::vector<int64_t> ids;
  GenerationSource source; ///< empty unless the program has Generation::source
  int64_t maxNewTokens = 64;
  SamplingSettings sampling;
  std::vector<int64_t> stopIds;
  /// Random stream of the request: two requests use the same random numbers only if seeds and
  /// streams are equal.
  uint64_t stream = 0;
};

/// Returns the prompt length plus maxNewTokens, saturated.
int64_t lengthOf(const GenerationRequest &request);

/// Spells all fields as text.
std::string textOf(const GenerationRequest &request);

enum class Finish { Stop, Length, Cancelled, Error };
/// "stop", "length", "cancelled", "error"
const char *spell(Finish why);

/// Limits that memory is allocated for.
struct GenerationLimits {
  int64_t slots = 1;             ///< sequences at a time
  int64_t capacity = 0;          ///< tokens per sequence
  int64_t chunk = kPrefillChunk; ///< prompt tokens per step
  int64_t source = 0;            ///< source tokens per sequence
};

/// Converts a temperature or penalty to the sampler's f32. Throws UserError, with the given number,
/// if it is finite and too large for f32.
float narrowSetting(const std::string &name, double value);

/// Returns the error of an invalid request, or an empty string.
std::string problemOf(const GenerationRequest &request, const Generation &generation,
                      int64_t capacity, int64_t sourceCapacity = 0);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_REQUEST_H
