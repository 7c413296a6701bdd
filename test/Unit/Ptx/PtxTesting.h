//===- PtxTesting.h - Helpers of PTX interpreter tests --------------------===//

#ifndef TPC_TEST_UNIT_PTX_PTXTESTING_H
#define TPC_TEST_UNIT_PTX_PTXTESTING_H

#include "Ptx/Ptx.h"

#include <gtest/gtest.h>

namespace ptx {

inline std::string header() { return ".version 7.0\n.target sm_80\n.address_size 64\n"; }

inline Module parsed(const std::string &text) {
  std::string error;
  std::optional<Module> module = parse(text, error);
  EXPECT_TRUE(module) << error << "\n" << text;
  return module.value_or(Module());
}

/// An entry `k` with pointers p0, p1, …, which are loaded into %rd0, %rd1, … before its body.
inline std::string entry(unsigned pointers, const std::string &body,
                         const std::string &before = "") {
  std::string text = header() + before + ".visible .entry k(";
  for (unsigned i = 0; i < pointers; ++i)
    text += (i ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
  text += ") {\n.reg .pred %p<10>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>;\n";
  for (unsigned i = 0; i < pointers; ++i)
    text += "ld.param.u64 %rd" + std::to_string(i) + ", [p" + std::to_string(i) + "];\n";
  return text + body + "\nret;\n}\n";
}

template <class T> uint64_t upload(Memory &memory, const std::vector<T> &values, std::string name) {
  uint64_t address = memory.allocate(values.size() * sizeof(T), std::move(name));
  EXPECT_TRUE(memory.copyIn(address, values.data(), values.size() * sizeof(T)));
  return address;
}

template <class T> std::vector<T> download(const Memory &memory, uint64_t address, size_t count) {
  std::vector<T> values(count);
  EXPECT_TRUE(memory.copyOut(values.data(), address, count * sizeof(T)));
  return values;
}

} // namespace ptx

#endif
