//===- Activity.h - what a rank is doing ----------------------------------===//
//
// Kept for the message of a run that stands still. Written by the rank's thread, read by any.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ACTIVITY_H
#define TPC_RT_CORE_ACTIVITY_H

#include <atomic>
#include <cstdint>

namespace tpc::rt {

struct Activity {
  /// "all_reduce", "receive", …: text that lives for ever; null: none, the rank computes.
  std::atomic<const char *> what{nullptr};
  std::atomic<uint32_t> axes{0};
  /// The last that was not null.
  std::atomic<const char *> last{nullptr};
  /// The ONNX node that the communication is of, if the program has said so.
  std::atomic<const char *> node{nullptr};
};

/// Says it, until the end of the scope.
class Doing {
public:
  Doing(Activity &activity, const char *what, uint32_t axes) : activity(activity) {
    activity.axes.store(axes, std::memory_order_relaxed);
    activity.last.store(what, std::memory_order_relaxed);
    activity.what.store(what, std::memory_order_relaxed);
  }
  ~Doing() { activity.what.store(nullptr, std::memory_order_relaxed); }
  Doing(const Doing &) = delete;
  Doing &operator=(const Doing &) = delete;

private:
  Activity &activity;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ACTIVITY_H
