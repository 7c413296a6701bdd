//===- Npy.cpp - NumPy files ----------------------------------------------===//

#include "Npy.h"
#include "Options.h"

#include <charconv>
#include <fstream>
#include <iterator>

using namespace ptxrun;

unsigned ptxrun::elementBytes(const std::string &type) {
  if (type.size() < 3)
    return 0;
  return unsigned(std::strtoul(type.c_str() + 2, nullptr, 10));
}

/// Returns the value of 'key' in the header's dictionary, up to `end`.
static std::string valueOf(const std::string &header, const std::string &key, char begin,
                           char end) {
  size_t at = header.find("'" + key + "'");
  at = at == header.npos ? at : header.find(begin, header.find(':', at));
  size_t stop = at == header.npos ? at : header.find(end, at + 1);
  return stop == header.npos ? "" : header.substr(at + 1, stop - at - 1);
}

std::string ptxrun::readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError("cannot open '" + path + "'");
  try { // opening a folder succeeds
    return std::string(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure &) {
    throw UserError("cannot read '" + path + "'");
  }
}

Array ptxrun::readArray(const std::string &path) {
  std::string content = readFile(path);
  auto fail = [&](const std::string &what) { throw UserError("'" + path + "' " + what); };
  if (content.size() < 12 || content.compare(0, 6, "\x93NUMPY") != 0)
    fail("is not a .npy file");
  auto byte = [&](size_t i) { return size_t(uint8_t(content[i])); };
  bool first = content[6] == 1;
  size_t begin = first ? 10 : 12;
  size_t length =
      first ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (begin + length > content.size())
    fail("is truncated");
  std::string header = content.substr(begin, length);
  Array array;
  array.type = valueOf(header, "descr", '\'', '\'');
  typeOfNumpy(array.type, path);
  if (header.find("'fortran_order': False") == header.npos)
    fail("is not in C order: convert it by np.ascontiguousarray");
  uint64_t bytes = elementBytes(array.type);
  bool tooMany = false;
  std::string shape = valueOf(header, "shape", '(', ')');
  for (size_t at = 0; at < shape.size();) {
    uint64_t size = 0;
    auto [end, error] = std::from_chars(shape.data() + at, shape.data() + shape.size(), size);
    if (error != std::errc())
      fail("has an invalid shape: (" + shape + ")");
    array.shape.push_back(size);
    tooMany |= __builtin_mul_overflow(bytes, size, &bytes);
    at = shape.find_first_of("0123456789", size_t(end - shape.data()));
  }
  if (tooMany || content.size() - begin - length < bytes)
    fail("has fewer bytes than its shape requires");
  array.data.assign(content.begin() + int64_t(begin + length),
                    content.begin() + int64_t(begin + length + bytes));
  return array;
}

void ptxrun::writeArray(const std::string &path, const Array &array) {
  std::string header = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (uint64_t size : array.shape)
    header += std::to_string(size) + ", ";
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\1' << '\0' << char(header.size() & 0xff) << char(header.size() >> 8)
       << header;
  file.write(reinterpret_cast<const char *>(array.data.data()), std::streamsize(array.data.size()));
  if (!file.flush())
    throw UserError("cannot write '" + path + "'");
}
