//===- DeviceMonitor.h - Error detection on a process's devices -----------===//
//
// A thread polls the devices of this process's ranks ten times a second. The thread ends the world
// if communication between devices has failed: a device failed, or a rank of another process is
// gone. For ranks that are processes, core/Watchdog.h also monitors the waits of their devices.
// Where all ranks are threads, or there is only one, this class detects that devices made no
// progress for the world's timeout.
//
// A rank that waits in a driver or a library, for a hung device or for ranks that are gone, may not
// return. If a failed world does not end, the process is ended.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DEVICEMONITOR_H
#define TPC_RT_CORE_DEVICEMONITOR_H

#include "core/Heartbeat.h"
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tpc::rt {

class World;

class DeviceMonitor {
public:
  /// Monitors a world all of whose ranks have transports.
  explicit DeviceMonitor(World &world);
  DeviceMonitor(const DeviceMonitor &) = delete;
  DeviceMonitor &operator=(const DeviceMonitor &) = delete;
  ~DeviceMonitor();

  /// Stops monitoring before the world ends.
  void leave();

private:
  void run();
  /// Checks the devices, `seconds` after the last check. Returns the error and sets `rank`; empty:
  /// no error.
  std::string judge(double seconds, int &rank);
  std::string judgeWaits(double seconds, int &rank);
  Heartbeat heartbeatOf(int rank) const;

  World &world;
  std::mutex mutex; // guards the members below
  std::condition_variable changed;
  bool isDestroyed = false, hasLeft = false;
  bool isAborting = false; ///< the world is ending with an error
  uint64_t moves = 0;
  double idle = 0;   ///< seconds during which all ranks have waited
  double broken = 0; ///< seconds since communication failed
  double stuck = 0;  ///< seconds since the world failed, while it has not ended
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_DEVICEMONITOR_H
