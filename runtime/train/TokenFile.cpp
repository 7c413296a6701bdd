//===- TokenFile.cpp - Token ids of a training run ------------------------===//

#include "train/TokenFile.h"
#include "generate/Random.h"
#include "program/Error.h"
#include "program/Npy.h"
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace tpc::rt {
namespace {

template <class T> T readAs(const std::byte *from) {
  T value; // tokens may be unaligned
  std::memcpy(&value, from, sizeof value);
  return value;
}

} // namespace

void TokenFile::refuse(const std::string &why) const {
  throw UserError("--data " + file.path() + ": " + why);
}

int64_t TokenFile::readHeader() {
  NpyHeader header = readNpyHeader(file);
  if (header.description == "<u2")
    type = Type::U16;
  else if (header.description == "<u4")
    type = Type::U32;
  else if (header.description == "<i4")
    type = Type::I32;
  else if (header.description == "<i8")
    type = Type::I64;
  else
    refuse("the elements are '" + header.description + "', but token ids are u16, u32, i32 or i64");
  if (header.shape.size() != 1)
    refuse("the array must have one dimension");
  count = header.shape.front();
  return header.end;
}

TokenFile::TokenFile(const std::string &path) : file(path) {
  auto endsWith = [&](std::string_view ending) { return path.ends_with(ending); };
  if (endsWith(".npy"))
    begin = readHeader();
  else if (endsWith(".u32"))
    type = Type::U32;
  else if (endsWith(".i32"))
    type = Type::I32;
  else if (endsWith(".i64"))
    type = Type::I64;
  int64_t bytes = file.size() - begin, stated = count;
  if (bytes % bytesOfToken() != 0)
    refuse("the file has " + std::to_string(bytes) +
           " bytes of token ids, which is no multiple of the " + std::to_string(bytesOfToken()) +
           " bytes of " + typeName() + "; name files of other integers .u32, .i32, .i64 or .npy");
  count = bytes / bytesOfToken();
  if (begin > 0 && stated != count)
    refuse("the header states " + std::to_string(stated) + " tokens, but the file has " +
           std::to_string(count));
  file.watch();
}

const char *TokenFile::typeName() const {
  switch (type) {
  case Type::U16:
    return "u16";
  case Type::U32:
    return "u32";
  case Type::I32:
    return "i32";
  case Type::I64:
    return "i64";
  }
  return "";
}

int64_t TokenFile::at(int64_t i) {
  if (i < blockBegin || i >= blockEnd) {
    constexpr int64_t tokensOfBlock = 8192;
    blockBegin = i;
    blockEnd = std::min(i + tokensOfBlock, count);
    block.resize(static_cast<size_t>((blockEnd - blockBegin) * bytesOfToken()));
    bool isRead = file.readAt(block.data(), block.size(),
                              static_cast<uint64_t>(begin + blockBegin * bytesOfToken()));
    if (std::string change = file.change(); !isRead || !change.empty())
      refuse((change.empty() ? "the file cannot be read" : "the file was changed: " + change) +
             ", while the run uses it");
  }
  const std::byte *from = block.data() + (i - blockBegin) * bytesOfToken();
  switch (type) {
  case Type::U16:
    return readAs<uint16_t>(from);
  case Type::U32:
    return readAs<uint32_t>(from);
  case Type::I32:
    return readAs<int32_t>(from);
  case Type::I64:
    return readAs<int64_t>(from);
  }
  return 0;
}

// A Fisher-Yates shuffle; number i of an epoch is a function of seed, epoch and i.
int64_t SampleOrder::at(int64_t position) {
  if (int64_t wanted = position / samples; wanted != epoch) {
    epoch = wanted;
    order.resize(static_cast<size_t>(samples));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = samples - 1; i > 0; --i) {
      PhiloxCounter bits =
          philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                  static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
      uint64_t number = uint64_t(bits[1]) << 32 | bits[0];
      std::swap(order[static_cast<size_t>(i)],
                order[static_cast<size_t>(number % static_cast<uint64_t>(i + 1))]);
    }
  }
  return order[static_cast<size_t>(position % samples)];
}

} // namespace tpc::rt
