//===- Options.h - tpc-ptx-run command line -------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTXRUN_OPTIONS_H
#define TPC_TEST_SIMULATOR_PTXRUN_OPTIONS_H

#include "Ptx/Ptx.h"

#include <stdexcept>

namespace ptxrun {

/// An error in the command line or a file, or of the driver.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One kernel parameter: a buffer, or a number.
struct Parameter {
  std::string text; // spelling on the command line
  bool isBuffer = false;
  std::string name;
  std::vector<uint8_t> bytes; // value of a number, or initial contents of a buffer
  bool filled = false;        // whether the buffer has initial contents
  uint64_t size = 0;          // bytes of a buffer
  uint64_t alignment = 256;
  uint64_t offset = 0;   // of the pointer into the buffer, in bytes
  bool readOnly = false; // kernels must not write it
  std::string output;    // .npy file to write
  std::string type;      // spelling of its element type on the command line
  std::vector<uint64_t> shape;
};

struct Options {
  std::string file, kernel;
  std::vector<Parameter> parameters;
  ptx::LaunchConfig config;
  uint64_t seeds = 1;
  bool list = false, counters = false, device = false, help = false;
  double tolerance = 1e-5; // of a device's results, relative to the largest element
};

extern const char *const help;

/// Returns NumPy's name of a type, such as "<f4" for "f32".
std::string numpyType(const std::string &type);
/// Returns the type for a NumPy type in the file `path`. Throws UserError with the NumPy types that
/// buffers can have if it is none of them.
std::string typeOfNumpy(const std::string &numpy, const std::string &path);

Options parseOptions(const std::vector<std::string> &arguments);

} // namespace ptxrun

#endif
