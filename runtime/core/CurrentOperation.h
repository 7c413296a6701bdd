//===- CurrentOperation.h - Current operation of a rank -------------------===//
//
// Messages about hangs contain the current operation. The rank's thread writes it, and any thread
// may read it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_CURRENTOPERATION_H
#define TPC_RT_CORE_CURRENTOPERATION_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tpc::rt {

class CurrentOperation {
public:
  struct Snapshot {
    /// "all_reduce", "receive", …: a static string; null: the rank computes.
    const char *what = nullptr;
    /// The last non-null `what`, its axes (0: start-up or outputs), and its ONNX node if the
    /// program set one.
    const char *last = nullptr;
    uint32_t axes = 0;
    const char *node = nullptr;
  };

  /// Sets the ONNX node of the next operation.
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

  /// Returns a consistent snapshot, also during a change.
  Snapshot read() const {
    Snapshot result;
    // Waits for a writer that was preempted during a change, but only for a bounded time.
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

  const char *nextNode = nullptr;   // read only by the rank's thread
  std::atomic<uint32_t> changes{0}; // odd during a change
  struct {
    std::atomic<const char *> what{nullptr}, last{nullptr};
    std::atomic<uint32_t> axes{0};
    std::atomic<const char *> node{nullptr};
  } seen;
};

/// Records an operation until the end of the scope.
class OperationScope {
public:
  OperationScope(CurrentOperation &activity, const char *what, uint32_t axes) : activity(activity) {
    activity.begin(what, axes);
  }
  ~OperationScope() { activity.end(); }
  OperationScope(const OperationScope &) = delete;
  OperationScope &operator=(const OperationScope &) = delete;

private:
  CurrentOperation &activity;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_CURRENTOPERATION_H
