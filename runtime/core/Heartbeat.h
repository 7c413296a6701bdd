//===- Heartbeat.h - Periodic state message of a rank ---------------------===//

#ifndef TPC_RT_CORE_HEARTBEAT_H
#define TPC_RT_CORE_HEARTBEAT_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

struct Heartbeat {
  /// The rank has waited for other ranks for some milliseconds; false: it computes or transfers.
  bool waits = false;
  bool onDevice = false;    ///< its device waits for ranks in `awaited`
  bool left = false;        ///< it has reached the end of the run
  bool isMidLine = false;   ///< its standard output, shared with standard error, ends in mid-line
  uint64_t moves = 0;       ///< changes with every transfer
  std::vector<int> awaited; ///< ranks that it waits for, ascending; truncated if many
  /// For a collective that the device waits in: the group's axes (0: none), and the sequence number
  /// of the collective.
  uint32_t axes = 0;
  uint64_t number = 0;
  /// "in all_reduce of '/lm_head/MatMul' over 'tp'", "while weights are loaded,"
  std::string at;

  /// Serializes for a process of the same program. Long text is truncated.
  std::string encode() const;
  /// Returns false if the bytes are not an encoding in a world of `size` ranks.
  bool decode(std::string_view bytes, int size);
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_HEARTBEAT_H
