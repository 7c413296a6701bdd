//===- DeviceWatch.h - what becomes of a process's devices ----------------===//
//
// A thread that asks the devices of this process's ranks, ten times a second, whether something has
// happened to what they communicate by (a device has failed, a rank of another process is gone),
// and ends the world if so. Ranks that are processes are watched by core/Watch.h, which also hears
// what their devices wait for. Where ranks are threads, or there is one, this is who finds out that
// devices have done nothing that was waited for, for the world's timeout.
//
// Who waits in a driver or a library, for a device that hangs or for ranks that have gone, may not
// come back: a world that has failed and does not end is ended with the process.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DEVICEWATCH_H
#define TPC_RT_CORE_DEVICEWATCH_H

#include "core/Heartbeat.h"
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tpc::rt {

class World;

class DeviceWatch {
public:
  /// Of a world all of whose ranks have transports.
  explicit DeviceWatch(World &world);
  DeviceWatch(const DeviceWatch &) = delete;
  DeviceWatch &operator=(const DeviceWatch &) = delete;
  ~DeviceWatch();

  /// The world ends: from now on nobody of it is asked for anything.
  void leave();

private:
  void run();
  /// Of one look, `seconds` after the last, which rank has failed; empty: all is well.
  std::string judge(double seconds, int &rank);
  std::string judgeWaits(double seconds, int &rank);
  Heartbeat heartbeatOf(int rank) const;

  World &world;
  std::mutex mutex; // of what follows
  std::condition_variable changed;
  bool ending = false, hasLeft = false;
  bool ends = false; ///< the world, by an error, just now
  uint64_t moves = 0;
  double idle = 0;   ///< seconds in which everybody has waited
  double broken = 0; ///< seconds for which communication has failed
  double stuck = 0;  ///< seconds for which the world has failed, and goes on
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_DEVICEWATCH_H
