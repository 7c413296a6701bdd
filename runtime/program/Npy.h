//===- Npy.h - Reader and writer of NumPy's .npy files --------------------===//
//
// Format versions 1 to 3, little endian, C or Fortran order. Format: NumPy's NEP 1 and
// numpy.lib.format.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_NPY_H
#define TPC_RT_PROGRAM_NPY_H

#include "program/File.h"
#include "program/Tensor.h"
#include <string>

namespace tpc::rt {

struct NpyHeader {
  std::string description; ///< of the elements, as NumPy writes it: "<f4"
  bool isFortran = false;
  Shape shape;
  int64_t end = 0; ///< bytes before the data
};

/// Throws UserError, with the file's name, for a file that is not a .npy file.
NpyHeader readNpyHeader(const File &file);

/// Reads a whole file; Fortran order is converted. NumPy stores bfloat16 as two-byte "void"
/// elements; these become bf16. Throws UserError, with the file's name, for incomplete files and
/// unsupported dtypes.
Tensor readNpy(const std::string &path);

/// Writes `path` completely or not at all: writes a temporary file and renames it.
void writeNpy(const std::string &path, const Tensor &tensor);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_NPY_H
