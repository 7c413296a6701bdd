//===- ToyTest.cpp - Process harness of the toy program -------------------===//

#include "ToyTest.h"
#include "ReferenceSampler.h"
#include "conformance/LimitTime.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tpc::rt::toy {

std::string Ranks::text() const {
  const char *ways[] = {"threads", "mpi", "tcp"};
  return "tp" + std::to_string(tp) + " dp" + std::to_string(dp) + " pp" + std::to_string(pp) +
         " mb" + std::to_string(mb) + " " + ways[static_cast<int>(way)];
}

Process::Process(const Ranks &run, const std::vector<std::string> &arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  std::string ranks = std::to_string(run.ranks());
  std::vector<std::string> command;
  if (run.way == Ranks::Way::Mpi)
    command = {TPC_MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", ranks};
  if (run.way == Ranks::Way::Tcp)
    command = {"python3", TPC_LAUNCH, "-n", ranks, "--as", "plain"};
  command.push_back(TPC_TEST_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> environment = {
      {"TEST_TP", std::to_string(run.tp)},       {"TEST_DP", std::to_string(run.dp)},
      {"TEST_PP", std::to_string(run.pp)},       {"TEST_MB", std::to_string(run.mb)},
      {"TEST_ALL", run.allTokens ? "1" : "0"},   {"TEST_MOST", std::to_string(run.maxSequence)},
      {"TEST_WIDE", std::to_string(run.wide)},   {"TEST_DIES", std::to_string(run.diesAt)},
      {"TPC_RUNTIME_DIR", TPC_TEST_RUNTIME_DIR}, {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  errorFile = (std::filesystem::temp_directory_path() / "tpc-generate-XXXXXX").string();
  close(mkstemp(errorFile.data()));
  int toChild[2], fromChild[2];
  if (pipe2(toChild, O_CLOEXEC) || pipe2(fromChild, O_CLOEXEC))
    throw std::runtime_error("no pipe");
  child = fork();
  if (child == 0) {
    for (const auto &[name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
    dup2(toChild[0], 0);
    dup2(fromChild[1], 1);
    dup2(open(errorFile.c_str(), O_WRONLY), 2);
    std::vector<char *> list;
    for (const std::string &argument : command)
      list.push_back(const_cast<char *>(argument.c_str()));
    list.push_back(nullptr);
    limitTime();
    std::signal(SIGPIPE, SIG_DFL);
    execvp(list[0], list.data());
    _exit(127);
  }
  close(toChild[0]);
  close(fromChild[1]);
  in = toChild[1];
  out = fromChild[0];
}

Process::~Process() {
  if (child > 0)
    wait();
  std::filesystem::remove(errorFile);
}

void Process::write(const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    ssize_t count = ::write(in, text.data() + at, text.size() - at);
    if (count < 0)
      return; // the process has ended; the reader detects it
    at += static_cast<size_t>(count);
  }
}

void Process::closeInput() {
  if (in >= 0)
    close(in);
  in = -1;
}

void Process::closeOutput() {
  if (out >= 0)
    close(out);
  out = -1;
}

std::string Process::readLine() {
  while (true) {
    if (size_t end = rest.find('\n'); end != std::string::npos) {
      std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      return line;
    }
    pollfd file{out, POLLIN, 0};
    if (poll(&file, 1, 30000) <= 0) {
      ADD_FAILURE() << "no output for half a minute";
      return "";
    }
    char buffer[4096];
    ssize_t count = read(out, buffer, sizeof(buffer));
    if (count <= 0)
      return std::exchange(rest, "");
    rest.append(buffer, static_cast<size_t>(count));
  }
}

Outcome Process::wait() {
  closeInput();
  Outcome outcome;
  if (out >= 0) {
    char buffer[4096];
    for (ssize_t count; (count = read(out, buffer, sizeof(buffer))) > 0;)
      rest.append(buffer, static_cast<size_t>(count));
  }
  closeOutput();
  outcome.out = rest;
  int status = 0;
  waitpid(std::exchange(child, -1), &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream file(errorFile);
  std::stringstream text;
  text << file.rdbuf();
  outcome.err = text.str();
  return outcome;
}

Outcome runToy(const Ranks &run, const std::vector<std::string> &arguments,
               const std::string &input) {
  Process process(run, arguments);
  process.write(input);
  return process.wait();
}

void expectError(const Outcome &outcome, const std::vector<std::string> &parts) {
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  for (const std::string &part : parts)
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "no \"" << part << "\" in\n"
                                                         << outcome.err;
  size_t first = outcome.err.find("error: ");
  EXPECT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
}

std::vector<int64_t> expectedTokens(const GenerationRequest &request, int64_t capacity) {
  std::vector<int64_t> tokens = request.ids, made;
  while (std::ssize(made) < request.maxNewTokens && std::ssize(tokens) <= capacity) {
    std::set<int64_t> seen(tokens.begin(), tokens.end());
    std::vector<int64_t> list(seen.begin(), seen.end());
    int64_t token = referenceToken(logitsOf(tokens),
                                   {request.sampling, list, request.stream, std::ssize(tokens)});
    made.push_back(token);
    tokens.push_back(token);
    if (std::find(request.stopIds.begin(), request.stopIds.end(), token) != request.stopIds.end())
      break;
  }
  return made;
}

std::string joined(const std::vector<int64_t> &tokens, const char *between) {
  std::string text;
  for (int64_t token : tokens)
    text += (text.empty() ? "" : between) + std::to_string(token);
  return text;
}

} // namespace tpc::rt::toy
