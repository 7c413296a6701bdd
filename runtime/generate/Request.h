//===- Request.h - what is asked for --------------------------------------===//

#ifndef TPC_RT_GENERATE_REQUEST_H
#define TPC_RT_GENERATE_REQUEST_H

#include "generate/Settings.h"
#include "program/Manifest.h"
#include "tpc/windows.h"
#include <string>
#include <vector>

namespace tpc::rt {

struct GenerationRequest {
  std::string id; ///< the client's name for it
  std::vector<int64_t> ids;
  int64_t maxNewTokens = 64;
  SamplingSettings sampling;
  std::vector<int64_t> stopIds;
  /// Which stream of random numbers is its own: two requests with one seed draw alike only if they
  /// have the same.
  uint64_t stream = 0;
};

/// Tokens of the prompt and all that may follow; the largest number where it is more than that.
int64_t lengthOf(const GenerationRequest &request);

/// All that it asks for, as text.
std::string textOf(const GenerationRequest &request);

enum class Finish { Stop, Length, Cancelled, Error };
/// "stop", "length", "cancelled", "error"
const char *spell(Finish why);

/// What memory is there for.
struct GenerationLimits {
  int64_t slots = 1;             ///< sequences at a time
  int64_t capacity = 0;          ///< tokens of each
  int64_t chunk = kPrefillChunk; ///< tokens of a prompt in one step
};

/// Returns a temperature or a penalty as the sampler has it, in 32 bits. Throws UserError with the
/// number as it was given where it is finite and too large for that.
float narrowSetting(const std::string &name, double value);

/// Empty, or what is wrong with it.
std::string problemOf(const GenerationRequest &request, const Generation &generation,
                      int64_t capacity);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_REQUEST_H
