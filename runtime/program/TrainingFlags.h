//===- TrainingFlags.h - Training flags of a program ----------------------===//

#ifndef TPC_RT_PROGRAM_TRAININGFLAGS_H
#define TPC_RT_PROGRAM_TRAININGFLAGS_H

#include <cstdint>
#include <functional>
#include <string>

namespace tpc::rt {

struct TrainingOptions {
  std::string data; ///< file of token ids
  int64_t batch = 1, sequence = 0, steps = 0, warmup = 0;
  double rate = 0, lastRate = 0;     ///< learning rate after the warm-up, and at the last step
  std::string schedule = "constant"; ///< "constant", "linear" or "cosine"
  uint64_t seed = 0;
  std::string save, resume, log;
  int64_t saveEvery = 0;        ///< 0: only after the last step
  int64_t scaleInterval = 2000; ///< steps without overflow after which the loss scale doubles
  double scale = 65536;         ///< loss scale of the first step
  std::string firstFlag;        ///< the first training flag given; empty: none
};

/// Sets a flag of training; returns false for other flags. `trains`: whether the program trains;
/// otherwise flags that other programs have too (--seed, --warmup) are not training flags.
bool setTrainingFlag(TrainingOptions &options, const std::string &flag, bool trains,
                     const std::function<std::string()> &value);

/// Text of --help.
std::string trainingHelp(const std::string &program);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TRAININGFLAGS_H
