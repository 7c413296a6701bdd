//===- Alive.h - Live objects of a simulated library ----------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_ALIVE_H
#define TPC_TEST_SIMULATOR_CUDA_ALIVE_H

#include <mutex>
#include <set>
#include <utility>

namespace sim {

/// Registry of live objects of a type. A pointer that a program passes is looked up in the registry
/// before it is used.
template <class T> class Alive {
public:
  static Alive &get() {
    static auto *all = new Alive;
    return *all;
  }
  T *add(T value) {
    std::lock_guard lock(mutex);
    return *alive.insert(new T(std::move(value))).first;
  }
  bool has(const T *object) {
    std::lock_guard lock(mutex);
    return alive.contains(const_cast<T *>(object));
  }
  bool remove(T *object) {
    std::lock_guard lock(mutex);
    if (!alive.erase(object))
      return false;
    delete object;
    return true;
  }

private:
  std::mutex mutex;
  std::set<T *> alive;
};

} // namespace sim

#endif
