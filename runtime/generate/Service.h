//===- Service.h - serves a client that writes and reads lines ------------===//

#ifndef TPC_RT_GENERATE_SERVICE_H
#define TPC_RT_GENERATE_SERVICE_H

#include "generate/Client.h"
#include "generate/ServiceLines.h"
#include <map>

namespace tpc::rt {

/// On the process of rank 0. What is wrong with a line is an answer to it, and no error; that the
/// client has gone away is one.
class Service : public GenerationClient {
public:
  /// `in`, `out`: descriptors.
  Service(int in, int out, const Manifest &manifest, const GenerationLimits &limits,
          const GenerationRequest &defaults);

  News news(bool wait) override;
  void onToken(uint64_t request, int64_t token, int64_t index) override;
  void onFinish(uint64_t request, Finish why, const std::string &message) override;
  void afterStep() override { flush(); }

private:
  /// Reads what is there; with `wait` waits for it.
  void read(bool wait);
  /// So much waits that nothing more is read until some of it is done.
  bool isFull() const { return held > mostHeld; }
  void take(const std::string &line, News &news);
  void takeRequest(const ClientLine &line, const std::string &text, News &news);
  void flush();

  const int in, out;
  const Manifest &manifest;
  const GenerationLimits limits;
  const GenerationRequest defaults;
  LineCutter lines;
  bool isAtEnd = false;
  /// A request that runs or waits.
  struct Known {
    std::string id;
    size_t bytes; ///< that it takes, about
  };
  static constexpr size_t mostHeld = size_t(64) << 20;
  uint64_t taken = 0; ///< requests
  std::map<uint64_t, Known> known;
  std::map<std::string, uint64_t> numbers;
  size_t held = 0;     ///< bytes of those that are known
  std::string answers; ///< that are not written
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SERVICE_H
