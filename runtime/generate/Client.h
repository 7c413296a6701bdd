//===- Client.h - Interface to the consumer of generated tokens -----------===//

#ifndef TPC_RT_GENERATE_CLIENT_H
#define TPC_RT_GENERATE_CLIENT_H

#include "generate/Request.h"
#include <string>
#include <vector>

namespace tpc::rt {

/// Consumer of the generated tokens. Its functions are called in the process of rank 0, on that
/// rank's thread. Requests are numbered in the order in which they are added.
class GenerationClient {
public:
  virtual ~GenerationClient();

  struct ClientInput {
    std::vector<std::string> requests; ///< valid request lines of the service, in JSON
    std::vector<uint64_t> cancelled;   ///< numbers of requests
    bool isLast = false;               ///< no requests follow
  };
  /// Called before each step if GenerationMode::pollsClient. `wait`: no request is running, so the
  /// call blocks until input arrives.
  virtual ClientInput pollInput(bool wait);

  virtual void onToken(uint64_t request, int64_t token, int64_t index) = 0;
  virtual void onFinish(uint64_t request, Finish why, const std::string &message) = 0;
  /// Called after all tokens of a step were delivered.
  virtual void afterStep() {}
  /// Receives the logits of one position, if they were requested.
  virtual void onLogits(std::vector<float>) {}
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_CLIENT_H
