//===- Client.h - who wants tokens ----------------------------------------===//

#ifndef TPC_RT_GENERATE_CLIENT_H
#define TPC_RT_GENERATE_CLIENT_H

#include "generate/Request.h"
#include <string>
#include <vector>

namespace tpc::rt {

/// On the process of rank 0, on its thread. Requests have numbers, in the order in which they are
/// added.
class GenerationClient {
public:
  virtual ~GenerationClient();

  struct News {
    std::vector<std::string>
        requests; ///< lines of JSON, as of the service, that are known to be valid
    std::vector<uint64_t> cancelled;
    bool isLast = false; ///< nothing will follow
  };
  /// Asked before each step, on all processes or on none (GenerationMode::asks). `wait`: nothing
  /// runs, and there is nothing to do before there is something new.
  virtual News news(bool wait);

  virtual void onToken(uint64_t request, int64_t token, int64_t index) = 0;
  virtual void onFinish(uint64_t request, Finish why, const std::string &message) = 0;
  /// All that a step has given was said.
  virtual void afterStep() {}
  /// Logits of one position, where they are asked for.
  virtual void onLogits(std::vector<float>) {}
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_CLIENT_H
