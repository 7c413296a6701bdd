//===- Service.h - Line-based generation service --------------------------===//

#ifndef TPC_RT_GENERATE_SERVICE_H
#define TPC_RT_GENERATE_SERVICE_H

#include "generate/Client.h"
#include "generate/ServiceLines.h"
#include <map>

namespace tpc::rt {

/// Client that reads requests as lines and writes tokens as lines, in the process of rank 0. An
/// invalid line is answered by an error line and does not end the service; a closed connection
/// does.
class Service : public GenerationClient {
public:
  /// `in`, `out`: file descriptors.
  Service(int in, int out, const Manifest &manifest, const GenerationLimits &limits,
          const GenerationRequest &defaults);

  ClientInput pollInput(bool wait) override;
  void onToken(uint64_t request, int64_t token, int64_t index) override;
  void onFinish(uint64_t request, Finish why, const std::string &message) override;
  void afterStep() override { flush(); }

private:
  /// Reads available input; `wait`: blocks until there is some.
  void read(bool wait);
  /// Whether the requests that run or wait take so much memory that reading pauses.
  bool isFull() const { return queuedBytes > maxQueuedBytes; }
  void take(std::string text, ClientInput &input);
  void takeRequest(const ClientLine &line, const std::string &text, ClientInput &input);
  void flush();

  const int in, out;
  const Manifest &manifest;
  const GenerationLimits limits;
  const GenerationRequest defaults;
  LineCutter lines;
  bool isAtEnd = false;
  /// A request that is running or waiting.
  struct ActiveRequest {
    std::string id;
    size_t bytes; ///< approximate memory: the request's line and 1 KiB
  };
  static constexpr size_t maxQueuedBytes = size_t(64) << 20;
  uint64_t numRequests = 0;                 ///< number of requests so far
  std::map<uint64_t, ActiveRequest> active; ///< by number
  std::map<std::string, uint64_t> numbers;  ///< number of each active request, by its id
  size_t queuedBytes = 0;                   ///< bytes of the requests in `active`
  std::string output;                       ///< not yet written
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SERVICE_H
