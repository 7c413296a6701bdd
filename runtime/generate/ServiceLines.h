//===- ServiceLines.h - what clients and the service say to each other ----===//
//
// A line of JSON each. In: a request, or {"cancel": "a"}. Out: {"id": "a", "token": 5, "index": 0},
// and at the end of each request {"id": "a", "finish": "stop"}, with a message where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SERVICELINES_H
#define TPC_RT_GENERATE_SERVICELINES_H

#include "generate/Request.h"
#include <optional>
#include <string>
#include <string_view>

namespace tpc::rt {

/// A line that a client has written: one of these.
struct ClientLine {
  std::optional<GenerationRequest> request;
  bool hasSeed = false; ///< of the request
  std::optional<std::string> cancel;
  std::string problem;           ///< why it is neither
  std::optional<std::string> id; ///< of whatever it is, where it has one
};

/// What a request does not say is as in `defaults`.
ClientLine parseClientLine(std::string_view line, const GenerationRequest &defaults);

/// With the end of the line.
std::string tokenLine(const std::string &id, int64_t token, int64_t index);
/// Without an id for what has none, or that of a request that goes on.
std::string finishLine(const std::optional<std::string> &id, Finish why,
                       const std::string &message);

/// Cuts what is read into lines. One that is too long is given as far as it is kept, once.
class LineCutter {
public:
  static constexpr size_t longest = size_t(16) << 20;
  void add(std::string_view text);
  /// What remains is a line as well.
  void close();
  struct Line {
    std::string text;
    bool isTooLong = false;
  };
  std::optional<Line> take();

private:
  std::string rest;
  size_t begin = 0;
  bool isClosed = false, isSkipping = false;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SERVICELINES_H
