//===- ServiceLines.h - JSON lines of the generation service --------------===//
//
// Each line is a JSON object. Input: a request, or {"cancel": "a"}. Output: {"id": "a", "token": 5,
// "index": 0}, and at the end of each request {"id": "a", "finish": "stop"}, with a message where
// applicable.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SERVICELINES_H
#define TPC_RT_GENERATE_SERVICELINES_H

#include "generate/Request.h"
#include <optional>
#include <string>
#include <string_view>

namespace tpc::rt {

/// A source of floats: a file, or numbers in nested lists.
struct SourceNumbers {
  std::string file;
  std::vector<float> numbers;
  Shape shape;
};

/// A parsed input line: a request, a cancellation, or a problem.
struct ClientLine {
  std::optional<GenerationRequest> request;
  bool hasSeed = false; ///< whether the request gives a seed
  std::optional<SourceNumbers> source;
  std::optional<std::string> cancel;
  std::string problem;           ///< reason if the line is invalid
  std::optional<std::string> id; ///< id of the line, if it has one
};

/// Parses a line. Fields that a request omits are taken from `defaults`.
ClientLine parseClientLine(std::string_view line, const GenerationRequest &defaults);

/// Returns the line of a request with the numbers of its source in place of their file, so that
/// only one process reads it. Throws UserError.
std::string readSourceFile(std::string_view line, const std::string &file,
                           const Manifest &manifest);

/// Converts the source of a request to what the model's input takes. Sets `problem`.
void bindSource(ClientLine &line, const Manifest &manifest);

/// Returns the output line of a token, with its newline.
std::string tokenLine(const std::string &id, int64_t token, int64_t index);
/// Returns the output line for the end of a request. `id` is nullopt if the request has no id, and
/// if its id is that of a running request.
std::string finishLine(const std::optional<std::string> &id, Finish why,
                       const std::string &message);

/// Splits input into lines. A line that is too long is returned once, truncated.
class LineCutter {
public:
  static constexpr size_t maxBytes = size_t(16) << 20; ///< of a line
  void add(std::string_view text);
  /// Makes the remaining text a line.
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
