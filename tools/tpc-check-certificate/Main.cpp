//===- Main.cpp - Entry point of tpc-check-certificate --------------------===//
//
//     tpc-check-certificate FILE [EXECUTABLE | staged.mlir]
//
// Checks a certificate. With a second file, also checks that the certificate belongs to that
// program.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "tpc/standard_output.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace certificate;

namespace {

/// Reads a file. Rejects devices and pipes, which may be endless.
std::string readFile(const std::string &path) {
  constexpr size_t maxBytes = size_t(1) << 30;
  std::error_code error;
  if (std::filesystem::file_type type = std::filesystem::status(path, error).type();
      type != std::filesystem::file_type::regular)
    refuse("cannot read '" + path + "': " +
           (error                                           ? error.message()
            : type == std::filesystem::file_type::not_found ? "there is no such file"
            : type == std::filesystem::file_type::directory ? "it is a folder"
                                                            : "it is a device or a pipe"));
  if (std::filesystem::file_size(path, error) > maxBytes)
    refuse("cannot read '" + path + "': it has more than " + std::to_string(maxBytes) + " bytes");
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || (file.peek() != std::char_traits<char>::eof() && !(text << file.rdbuf())))
    refuse("cannot read '" + path + "'");
  return text.str();
}

/// Checks that a program has this hash of its schedule. The hash is in the manifest of an
/// executable, and in the attributes of a staged program.
void compareProgram(const std::string &program, const std::string &hash) {
  for (std::string key : {"\"schedule\":\"", "tpc.schedule = \""})
    if (size_t at = program.find(key); at != std::string::npos) {
      if (program.compare(at + key.size(), hash.size() + 1, hash + "\"") != 0)
        refuse("the program has a different schedule: " + program.substr(at + key.size(), 16));
      return;
    }
  refuse("the program has no schedule");
}

} // namespace

int main(int argc, char **argv) {
  auto end = [](int status) { return tpc::finishStandardOutput("tpc-check-certificate", status); };
  if (argc < 2 || argc > 3 || std::string(argv[1]) == "--help") {
    std::puts("usage: tpc-check-certificate FILE [EXECUTABLE | staged.mlir]\n"
              "Checks a file of tpcc --certificate=FILE, and that it belongs to the program.");
    return end(argc == 2 ? 0 : 2);
  }
  try {
    json certificate = json::parse(readFile(argv[1]), [](int depth, auto, auto &) {
      return depth < 32 || (refuse("it is nested too deeply"), false);
    });
    checkCertificate(certificate);
    std::string hash = certificate["hash"];
    if (argc == 3)
      compareProgram(readFile(argv[2]), hash);
    std::printf("no deadlock: schedule %s\n", hash.c_str());
    return end(0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return 1;
  }
}
