//===- Sight.h - what can be seen of a process of this host ---------------===//

#ifndef TPC_RT_CORE_SIGHT_H
#define TPC_RT_CORE_SIGHT_H

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace tpc::rt {

struct Sight {
  /// 'T' stopped, 't' held by a debugger, another letter, or 0 if there is no such process.
  char state = 0;
  /// When it started: a number may be given to another process, later.
  uint64_t begin = 0;

  explicit Sight(int64_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    // The name may have anything in it.
    size_t at = line.rfind(')');
    if (at == std::string::npos)
      return;
    std::istringstream fields(line.substr(at + 1));
    std::string field;
    for (int number = 3; number <= 22 && fields >> field; ++number)
      if (number == 3)
        state = field[0];
      else if (number == 22)
        begin = std::strtoull(field.c_str(), nullptr, 10);
  }
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_SIGHT_H
