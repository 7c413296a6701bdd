//===- Process.h - Liveness of other processes ----------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_PROCESS_H
#define TPC_TEST_SIMULATOR_CUDA_PROCESS_H

#include <fstream>
#include <string>

namespace sim {

/// No such process, or one that has ended and that nobody has waited for.
inline bool isGone(int process) {
  std::string text;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  if (!std::getline(file, text))
    return true;
  size_t name = text.rfind(") ");
  return name != std::string::npos && name + 2 < text.size() &&
         (text[name + 2] == 'Z' || text[name + 2] == 'X');
}

} // namespace sim

#endif
