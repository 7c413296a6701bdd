// Standard headers, precompiled once for code without LLVM (see TPCBuild.cmake).
#ifndef TPC_TOOLS_CMAKE_PCHPLAIN_H
#define TPC_TOOLS_CMAKE_PCHPLAIN_H

#include "StableSort.h"

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#endif // TPC_TOOLS_CMAKE_PCHPLAIN_H
