//===- Heartbeat.h - what a process says of its rank, again and again ----------===//

#ifndef TPC_RT_CORE_HEARTBEAT_H
#define TPC_RT_CORE_HEARTBEAT_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

struct Heartbeat {
  bool waits = false; ///< for other ranks, and has for a moment; otherwise it computes or transfers
  bool onDevice = false;    ///< its device waits, for some of `missing`
  bool left = false;        ///< is at the end of a run
  bool isMidLine = false;   ///< its standard output, to which errors go too, ends amid a line
  uint64_t moves = 0;       ///< another number whenever something was transferred
  std::vector<int> missing; ///< whom it waits for, ascending; of many, the first
  /// Of a collective that its device waits in: the group's axes, 0 of none, and the number in it.
  uint32_t axes = 0;
  uint64_t number = 0;
  /// "in all_reduce of '/lm_head/MatMul' over 'tp'", "while weights are loaded,"
  std::string at;

  /// As bytes for a process of the same program. The text is cut where it is long.
  std::string encode() const;
  /// False if these are no bytes of `encode` in a world of `size` ranks.
  bool decode(std::string_view bytes, int size);
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_HEARTBEAT_H
