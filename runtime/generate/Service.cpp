//===- Service.cpp - Line-based generation service ------------------------===//

#include "generate/Service.h"
#include "program/Error.h"
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <unistd.h>

namespace tpc::rt {

Service::Service(int in, int out, const Manifest &manifest, const GenerationLimits &limits,
                 const GenerationRequest &defaults)
    : in(in), out(out), manifest(manifest), limits(limits), defaults(defaults) {}

[[noreturn]] static void failGone() {
  throw UserError("the client is gone: standard output is closed");
}

void Service::read(bool wait) {
  // While waiting for requests, this also detects that the reader of the output is gone.
  pollfd files[] = {{isFull() ? -1 : in, POLLIN, 0}, {out, 0, 0}};
  int ready;
  do
    ready = poll(files, 2, wait ? -1 : 0);
  while (ready < 0 && errno == EINTR);
  if (ready < 0)
    throw UserError(std::string("cannot wait for standard input: ") + std::strerror(errno));
  if (files[1].revents & (POLLERR | POLLHUP))
    failGone();
  if (!(files[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)))
    return;
  char buffer[1 << 16];
  ssize_t count = ::read(in, buffer, sizeof(buffer));
  if (count < 0 && errno != EINTR && errno != EAGAIN)
    throw UserError(std::string("cannot read standard input: ") + std::strerror(errno));
  if (count > 0)
    lines.add({buffer, static_cast<size_t>(count)});
  if (count == 0) {
    isAtEnd = true;
    lines.close();
  }
}

GenerationClient::ClientInput Service::pollInput(bool wait) {
  ClientInput input;
  while (true) {
    if (!isAtEnd)
      read(wait && input.requests.empty() && input.cancelled.empty());
    while (std::optional<LineCutter::Line> line = lines.take())
      if (line->isTooLong)
        output += finishLine(std::nullopt, Finish::Error,
                             "a line of more than " + std::to_string(LineCutter::maxBytes) +
                                 " bytes: '" + line->text.substr(0, 40) + "…'");
      else
        take(line->text, input);
    flush();
    input.isLast = isAtEnd;
    if (isAtEnd || !wait || !input.requests.empty() || !input.cancelled.empty())
      return input;
  }
}

void Service::take(std::string text, ClientInput &input) {
  ClientLine line = parseClientLine(text, defaults);
  if (line.request && line.source && !line.source->file.empty() && manifest.generation->source) {
    try {
      text = readSourceFile(text, line.source->file, manifest);
      text.pop_back(); // the newline
      line = parseClientLine(text, defaults);
    } catch (const UserError &error) {
      line.problem = error.what();
      line.request.reset();
    }
  }
  bindSource(line, manifest);
  if (line.request) {
    takeRequest(line, text, input);
  } else if (line.cancel) {
    auto number = numbers.find(*line.cancel);
    if (number != numbers.end())
      input.cancelled.push_back(number->second);
    else
      output += finishLine(std::nullopt, Finish::Error,
                           "cancel: no request '" + *line.cancel + "' is running or waiting");
  } else {
    // The id of a running request is omitted: the line would look like that request's end.
    bool isActive = line.id && numbers.contains(*line.id);
    output += finishLine(isActive ? std::nullopt : line.id, Finish::Error, line.problem);
  }
}

void Service::takeRequest(const ClientLine &line, const std::string &text, ClientInput &input) {
  const std::string &id = line.request->id;
  if (numbers.contains(id)) {
    output += finishLine(std::nullopt, Finish::Error,
                         "a request '" + id + "' is already running or waiting: give another id");
    return;
  }
  std::string problem =
      problemOf(*line.request, *manifest.generation, limits.capacity, limits.source);
  if (!problem.empty()) {
    output += finishLine(id, Finish::Error, problem);
    return;
  }
  constexpr size_t overhead = 1 << 10; // overhead of a short request
  numbers[id] = numRequests;
  queuedBytes += text.size() + overhead;
  active[numRequests++] = {id, text.size() + overhead};
  input.requests.push_back(text);
}

void Service::onToken(uint64_t request, int64_t token, int64_t index) {
  output += tokenLine(active.at(request).id, token, index);
}

void Service::onFinish(uint64_t request, Finish why, const std::string &message) {
  auto ended = active.find(request);
  output += finishLine(ended->second.id, why, message);
  numbers.erase(ended->second.id);
  queuedBytes -= ended->second.bytes;
  active.erase(ended);
}

void Service::flush() {
  for (size_t at = 0; at < output.size();) {
    ssize_t count = write(out, output.data() + at, output.size() - at);
    if (count > 0) {
      at += static_cast<size_t>(count);
      continue;
    }
    if (errno == EPIPE)
      failGone();
    if (errno == EAGAIN) {
      pollfd file{out, POLLOUT, 0};
      poll(&file, 1, -1);
    } else if (errno != EINTR) {
      throw UserError(std::string("cannot write to standard output: ") + std::strerror(errno));
    }
  }
  output.clear();
}

} // namespace tpc::rt
