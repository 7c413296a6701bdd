//===- Options.h - tpc-ptx-run command line -------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTXRUN_OPTIONS_H
#define TPC_TEST_SIMULATOR_PTXRUN_OPTIONS_H

#include "Ptx/Ptx.h"

#include <stdexcept>

namespace ptxrun {

/// Error in the command line, or in a file that it names.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One kernel parameter: a buffer, or a number.
struct Parameter {
  std::string text; // spelling on the command line
  bool isBuffer = false;
  std::string name;
  std::vector<uint8_t> bytes; // value of a number, or initial contents of a buffer
  bool filled = false;        // whether the buffer is initialized
  uint64_t size = 0;          // bytes of a buffer
  uint64_t alignment = 256;
  uint64_t offset = 0;   // offset of the pointer into it
  bool readOnly = false; // kernels may not write it
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
  double tolerance = 1e-5; // relative to the largest element, on a device
};

extern const char *const help;

/// Convert between the name of a type, such as "f32", and NumPy's. Names that do not exist are
/// empty.
std::string numpyType(const std::string &type);
std::string typeOfNumpy(const std::string &numpy);

Options parseOptions(const std::vector<std::string> &arguments);

} // namespace ptxrun

#endif
