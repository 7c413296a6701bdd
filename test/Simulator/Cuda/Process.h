//===- Process.h - Liveness of other processes ----------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_PROCESS_H
#define TPC_TEST_SIMULATOR_CUDA_PROCESS_H

#include <fstream>
#include <string>

namespace sim {

/// Returns whether there is no such process, or it is a zombie.
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
