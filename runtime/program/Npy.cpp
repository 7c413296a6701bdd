//===- Npy.cpp - Reader and writer of NumPy's .npy files ------------------===//

#include "program/Npy.h"
#include "program/Error.h"
#include "program/File.h"
#include <cstring>
#include <string_view>
#include <utility>

namespace tpc::rt {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
/// NumPy writes headers of about 100 bytes and rejects more than 10,000 unless the file is trusted.
constexpr uint32_t maxHeader = 1 << 16;
constexpr size_t maxRank = 32;

/// NumPy's descriptions, by the values of tpc_dtype.
constexpr const char *descriptions[] = {"<f4", "<f8", "<f2", "<V2", "|i1",
                                        "<i2", "<i4", "<i8", "|b1", "|u1"};

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string &path) : text(text), path(path) {}

  /// Returns all fields but `end`.
  NpyHeader run() {
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      std::string key = quoted();
      expect(':');
      int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which])
        refuse("an unexpected key '" + key.substr(0, 40) + "'");
      seen[which] = true;
      if (which == 0)
        parseDescription();
      else if (which == 1)
        parseOrder();
      else
        parseShape();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2])
      refuse("no 'descr', 'fortran_order' or 'shape'");
    skipSpace();
    if (at != text.size())
      refuse("text after its end");
    return std::move(header);
  }

private:
  [[noreturn]] void refuse(const std::string &what) {
    throw UserError("'" + path + "' is not a valid .npy file: its header has " + what);
  }
  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n'))
      ++at;
  }
  bool take(char c) {
    skipSpace();
    if (at == text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      refuse(std::string("no '") + c + "' where one must be");
  }
  std::string quoted() {
    skipSpace();
    char quote = at < text.size() ? text[at] : 0;
    if (quote != '\'' && quote != '"')
      refuse("no quoted text where one must be");
    size_t end = text.find(quote, at + 1);
    if (end == std::string_view::npos)
      refuse("unfinished text");
    std::string result(text.substr(at + 1, end - at - 1));
    at = end + 1;
    return result;
  }
  void parseDescription() {
    skipSpace();
    if (at < text.size() && text[at] == '[')
      throw UserError("'" + path + "' has records; a tensor must have one dtype");
    header.description = quoted();
  }
  void parseOrder() {
    skipSpace();
    if (text.substr(at, 4) == "True") {
      header.isFortran = true;
      at += 4;
    } else if (text.substr(at, 5) == "False") {
      at += 5;
    } else {
      refuse("a 'fortran_order' that is neither True nor False");
    }
  }
  void parseShape() {
    expect('(');
    while (!take(')')) {
      skipSpace();
      int64_t size = 0;
      size_t begin = at;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, text[at] - '0', &size))
          refuse("a size that does not fit in 64 bits");
      if (at == begin)
        refuse("a 'shape' that is not a tuple of sizes");
      if (at < text.size() && text[at] == 'L') // NumPy on Python 2 wrote long integers
        ++at;
      header.shape.push_back(size);
      if (header.shape.size() > maxRank)
        refuse("more than " + std::to_string(maxRank) + " dimensions");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text;
  const std::string &path;
  size_t at = 0;
  NpyHeader header;
};

tpc_dtype dtypeOf(const std::string &description, const std::string &path) {
  for (int i = TPC_F32; i <= TPC_U8; ++i) {
    std::string_view known = descriptions[i];
    // One-byte types have no byte order; NumPy writes '|', others may write '<' or '='.
    bool sameOrder =
        description.size() == 3 && (description[0] == known[0] || description[0] == '=' ||
                                    known[2] == '1' || (known == "<V2" && description[0] == '|'));
    if (sameOrder && known.substr(1) == std::string_view(description).substr(1))
      return static_cast<tpc_dtype>(i);
  }
  if (!description.empty() && description[0] == '>')
    throw UserError("'" + path + "' is big endian ('" + description +
                    "'): save it with array.astype(array.dtype.newbyteorder('<'))");
  throw UserError("'" + path + "' has dtype '" + description.substr(0, 40) +
                  "'; supported are bool, i8, i16, i32, i64, u8, f16, bf16, f32 and f64");
}

/// Converts from Fortran to C order.
Buffer fromFortran(const Buffer &source, const Shape &shape, int64_t elementBytes) {
  Buffer result(source.size());
  Shape stride(shape.size()), index(shape.size(), 0);
  int64_t step = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    stride[d] = step;
    step *= shape[d];
  }
  for (int64_t at = 0; at < source.size(); at += elementBytes) {
    int64_t from = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      from += index[d] * stride[d];
    std::memcpy(result.data() + at, source.data() + from * elementBytes, elementBytes);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];)
      index[d] = 0;
  }
  return result;
}

UserError notNpy(const std::string &path, const std::string &why) {
  return UserError("'" + path + "' is not a valid .npy file: " + why +
                   "; write it with numpy.save");
}

} // namespace

NpyHeader readNpyHeader(const File &file) {
  const std::string &path = file.path();
  unsigned char start[12] = {};
  uint64_t startBytes = std::min<uint64_t>(file.size(), sizeof start);
  if (startBytes < 10 || !file.readAt(start, startBytes, 0) ||
      std::memcmp(start, magic.data(), magic.size()) != 0)
    throw notNpy(path, "it does not begin like an .npy file");
  int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    throw notNpy(path, "format version " + std::to_string(version) + "." +
                           std::to_string(start[7]) + " is unknown");
  uint32_t textBegin = version == 1 ? 10 : 12;
  uint32_t textBytes = start[8] | start[9] << 8;
  if (version > 1)
    textBytes |= static_cast<uint32_t>(start[10]) << 16 | static_cast<uint32_t>(start[11]) << 24;
  if (textBytes > maxHeader)
    throw notNpy(path, "its header claims " + std::to_string(textBytes) + " bytes");
  std::string text(textBytes, '\0');
  if (!file.readAt(text.data(), textBytes, textBegin))
    throw notNpy(path, "it ends inside its header");
  NpyHeader header = HeaderParser(text, path).run();
  header.end = textBegin + textBytes;
  return header;
}

Tensor readNpy(const std::string &path) {
  File file(path);
  NpyHeader header = readNpyHeader(file);
  Tensor tensor;
  tensor.dtype = dtypeOf(header.description, path);
  tensor.shape = header.shape;
  // Sizes are compared with the file's before allocation.
  auto bytes = byteCount(tensor.shape, tensor.dtype);
  int64_t dataBytes = file.size() - header.end;
  if (!bytes || *bytes != dataBytes)
    throw notNpy(path, "shape " + shapeText(tensor.shape) + " of " + dtypeName(tensor.dtype) +
                           " takes " + (bytes ? std::to_string(*bytes) : "too many") +
                           " bytes, but the file has " + std::to_string(dataBytes));
  tensor.data = Buffer(*bytes);
  if (!file.readAt(tensor.data.data(), *bytes, header.end))
    throw notNpy(path, "its data could not be read");
  // NumPy treats any nonzero byte as true; programs require 0 and 1, which may be an index.
  if (tensor.dtype == TPC_BOOL)
    for (int64_t i = 0; i < *bytes; ++i)
      tensor.data.data()[i] = std::byte(tensor.data.data()[i] != std::byte(0));
  if (header.isFortran && tensor.shape.size() > 1)
    tensor.data = fromFortran(tensor.data, tensor.shape, dtypeBytes(tensor.dtype));
  return tensor;
}

void writeNpy(const std::string &path, const Tensor &tensor) {
  std::string header = std::string("{'descr': '") + descriptions[tensor.dtype] +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.shape)
    header += std::to_string(size) + (tensor.shape.size() == 1 ? "," : ", ");
  if (tensor.shape.size() > 1)
    header.resize(header.size() - 2);
  header += "), }";
  // Magic, version, length and header together fill whole lines of 64 bytes; the last character is
  // a newline.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';

  OutputFile file(path);
  char length[4] = {1, 0, static_cast<char>(header.size() & 255),
                    static_cast<char>(header.size() >> 8)};
  file.write(magic.data(), magic.size());
  file.write(length, sizeof length);
  file.write(header.data(), header.size());
  file.write(tensor.data.data(), tensor.data.size());
  file.commit();
}

} // namespace tpc::rt
