// std::stable_sort without a warning: that of libstdc++ 12 calls a function that it deprecates.
#ifndef TPC_TOOLS_CMAKE_STABLESORT_H
#define TPC_TOOLS_CMAKE_STABLESORT_H

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#include <algorithm>
#pragma clang diagnostic pop

#endif // TPC_TOOLS_CMAKE_STABLESORT_H
