//===- TokenFile.h - Token ids of a training run --------------------------===//

#ifndef TPC_RT_TRAIN_TOKENFILE_H
#define TPC_RT_TRAIN_TOKENFILE_H

#include "program/File.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tpc::rt {

/// A file of token ids: .npy, or integers of one type. Blocks of it are read as needed.
class TokenFile {
public:
  /// Label of a token that the loss ignores.
  static constexpr int64_t ignored = -100;

  /// Throws UserError for a file that is not readable, or of another type.
  explicit TokenFile(const std::string &path);
  TokenFile(const TokenFile &) = delete;
  TokenFile &operator=(const TokenFile &) = delete;

  int64_t size() const { return count; }
  /// Throws UserError if the file has changed since it was opened.
  int64_t at(int64_t i);
  /// "u16", "i32", …
  const char *typeName() const;

private:
  enum class Type { U16, U32, I32, I64 };
  /// Reads the header of a .npy file. Returns its size, and sets the type and the count.
  int64_t readHeader();
  int64_t bytesOfToken() const { return type == Type::U16 ? 2 : type == Type::I64 ? 8 : 4; }
  [[noreturn]] void refuse(const std::string &why) const;

  File file;
  Type type = Type::U16;
  int64_t begin = 0, count = 0; ///< offset of the first token in bytes; number of tokens
  /// Tokens [blockBegin, blockEnd), as in the file.
  std::vector<std::byte> block;
  int64_t blockBegin = 0, blockEnd = 0;
};

/// Order in which a run reads samples: a permutation for each epoch, a function of the seed alone.
class SampleOrder {
public:
  SampleOrder(int64_t samples, uint64_t seed) : samples(samples), seed(seed) {}
  /// Returns the sample at a position of the run.
  int64_t at(int64_t position);

private:
  const int64_t samples;
  const uint64_t seed;
  int64_t epoch = -1;
  std::vector<int64_t> order;
};

} // namespace tpc::rt

#endif // TPC_RT_TRAIN_TOKENFILE_H
