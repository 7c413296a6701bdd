//===- Activity.h - what a rank is doing ----------------------------------===//
//
// Kept for the message of a run that stands still. Written by the rank's thread, read by any.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ACTIVITY_H
#define TPC_RT_CORE_ACTIVITY_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tpc::rt {

class Activity {
public:
  struct Seen {
    /// "all_reduce", "receive", …: text that lives for ever; null: none, the rank computes.
    const char *what = nullptr;
    /// The last that was not null, the axes it was over (0: of start-up or of outputs), and the
    /// ONNX node that it was of, if the program had said so.
    const char *last = nullptr;
    uint32_t axes = 0;
    const char *node = nullptr;
  };

  /// The next that begins is of this node.
  void setNode(const char *node) { nextNode = node; }
  void begin(const char *what, uint32_t axes) {
    change([&] {
      seen.axes.store(axes, std::memory_order_release);
      seen.node.store(nextNode, std::memory_order_release);
      seen.last.store(what, std::memory_order_release);
      seen.what.store(what, std::memory_order_release);
    });
  }
  void end() {
    change([&] { seen.what.store(nullptr, std::memory_order_release); });
  }

  /// What belongs together, also while it changes.
  Seen read() const {
    Seen result;
    // Who has lost its processor within a change is waited for, but not for ever.
    for (int i = 0; i < 1000; ++i) {
      if (i > 100)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      uint32_t before = changes.load(std::memory_order_acquire);
      result = {
          seen.what.load(std::memory_order_acquire), seen.last.load(std::memory_order_acquire),
          seen.axes.load(std::memory_order_acquire), seen.node.load(std::memory_order_acquire)};
      if (before % 2 == 0 && before == changes.load(std::memory_order_relaxed))
        break;
    }
    return result;
  }

private:
  template <typename Fn> void change(const Fn &fn) {
    uint32_t before = changes.load(std::memory_order_relaxed);
    changes.store(before + 1, std::memory_order_relaxed);
    fn();
    changes.store(before + 2, std::memory_order_release);
  }

  const char *nextNode = nullptr;   // the rank's thread alone reads it
  std::atomic<uint32_t> changes{0}; // odd within one
  struct {
    std::atomic<const char *> what{nullptr}, last{nullptr};
    std::atomic<uint32_t> axes{0};
    std::atomic<const char *> node{nullptr};
  } seen;
};

/// Says it, until the end of the scope.
class Doing {
public:
  Doing(Activity &activity, const char *what, uint32_t axes) : activity(activity) {
    activity.begin(what, axes);
  }
  ~Doing() { activity.end(); }
  Doing(const Doing &) = delete;
  Doing &operator=(const Doing &) = delete;

private:
  Activity &activity;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ACTIVITY_H
