//===- LinkWatch.h - what becomes of the links of a process's ranks -------===//
//
// A thread that asks the links of this process, ten times a second, whether something has happened
// to them (a device has failed, a rank of another process is gone), and ends the world if so. Ranks
// that are processes are watched by core/Watch.h, which also hears what their devices wait for.
// Where ranks are threads this is the one to find out that all of them have waited, on devices or
// on the host, for the world's timeout.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_LINKS_LINKWATCH_H
#define TPC_RT_TRANSPORT_LINKS_LINKWATCH_H

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace tpc::rt {

class LinkTransport;
class World;

class LinkWatch {
public:
  explicit LinkWatch(World &world);
  LinkWatch(const LinkWatch &) = delete;
  LinkWatch &operator=(const LinkWatch &) = delete;
  ~LinkWatch();

  /// The one of a world, as long as somebody has it.
  static std::shared_ptr<LinkWatch> of(World &world);

  void add(LinkTransport &transport, int rank);
  void remove(int rank);
  /// Nobody of this process waits for a device any longer.
  void abortLinks();

private:
  void run();
  /// Of one look, `seconds` after the last. Empty: all is well.
  std::string judge(double seconds, int &rank);
  std::string describeStandstill(int first) const;

  World &world;
  mutable std::mutex mutex;                  // of what follows
  std::map<int, LinkTransport *> transports; ///< by rank
  bool ending = false;
  bool ends = false; ///< the world, by an error, just now
  std::condition_variable changed;
  uint64_t moves = 0;
  double idle = 0;   ///< seconds in which everybody has waited
  double broken = 0; ///< seconds for which a link has failed
  double stuck = 0;  ///< seconds for which the world has failed, and goes on
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_LINKS_LINKWATCH_H
