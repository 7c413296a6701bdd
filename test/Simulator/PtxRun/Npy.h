//===- Npy.h - NumPy files ------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTXRUN_NPY_H
#define TPC_TEST_SIMULATOR_PTXRUN_NPY_H

#include <cstdint>
#include <string>
#include <vector>

namespace ptxrun {

struct Array {
  std::string type; // "<f4"
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;
};

/// Reads a whole file. Throws UserError, like the functions below.
std::string readFile(const std::string &path);
/// Reads an array, which must be in C order and little endian.
Array readArray(const std::string &path);
void writeArray(const std::string &path, const Array &array);

/// Returns the size of an element, such as 4 for "<f4".
unsigned elementBytes(const std::string &type);

} // namespace ptxrun

#endif
