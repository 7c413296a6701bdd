//===- Npy.h - reads and writes NumPy's .npy files ------------------------===//
//
// Format versions 1 to 3, little endian, C or Fortran order. Format: NumPy's NEP 1 and
// numpy.lib.format.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_NPY_H
#define TPC_RT_PROGRAM_NPY_H

#include "program/Tensor.h"
#include <string>

namespace tpc::rt {

/// Reads a whole file; Fortran order is converted. Two-byte "void" elements, which is how NumPy
/// stores bfloat16, are bf16. Throws UserError, naming the file, for anything that is not a
/// complete .npy file of a dtype of ours.
Tensor readNpy(const std::string &path);

/// Writes `path` completely or not at all: to a file beside it that is then renamed.
void writeNpy(const std::string &path, const Tensor &tensor);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_NPY_H
