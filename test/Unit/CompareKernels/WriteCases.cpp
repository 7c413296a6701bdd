//===- WriteCases.cpp - Kernel cases as files -----------------------------===//
//
// Writes the files that tpc-ptx-run needs to run cases on a GPU: the PTX text, operands as NumPy
// files, and cases.txt with a line of tab-separated arguments per case.
//
//===----------------------------------------------------------------------===//

#include "Modes.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace compare;
using llvm::formatv;
using llvm::StringRef;

/// Returns the name of a type in tpc-ptx-run. Booleans are bytes.
static std::string spell(mlir::Type type) {
  if (type.isBF16())
    return "bf16";
  unsigned bits = type.getIntOrFloatBitWidth();
  if (bits < 8)
    return "u8";
  return (mlir::isa<mlir::FloatType>(type) ? "f" : "i") + std::to_string(bits);
}

static std::string spellNumpy(mlir::Type type) {
  std::string name = spell(type);
  if (name == "bf16") // NumPy has no such type: its bits
    return "<u2";
  int64_t bytes = mlir::tpc::getElementBytes(type);
  return (bytes == 1 ? "|" : "<") + name.substr(0, 1) + std::to_string(bytes);
}

static bool write(const std::string &path, StringRef bytes, bool append = false) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error, append ? llvm::sys::fs::OF_Append : llvm::sys::fs::OF_None);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error)
    llvm::errs() << "cannot write '" << path << "': " << error.message() << "\n";
  return !error;
}

static bool writeArray(const std::string &path, const std::string &type, int64_t elements,
                       StringRef bytes) {
  std::string header =
      formatv("{{'descr': '{0}', 'fortran_order': False, 'shape': ({1},), }", type, elements);
  // The data begins at a multiple of 64 bytes.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += char(header.size() & 0xff);
  start += char(header.size() >> 8);
  return write(path, start + header + bytes.str());
}

bool compare::writeCases(const Program &program, const Kernel &kernel, const Options &options,
                         const std::string &folder, unsigned number) {
  std::string text = std::to_string(number) + ".ptx";
  if (!llvm::sys::fs::exists(folder + "/" + text) && !write(folder + "/" + text, program.getPtx()))
    return false;
  for (Sizes sizes : {Sizes::Even, Sizes::Odd}) {
    std::optional<Case> c =
        draw(program, kernel, sizes, Indices::Present, options.from, options.limits);
    if (!c)
      continue;
    std::string name = formatv("{0}.{1}.{2}", number, kernel.name, int(sizes));
    std::string env = name + ".env.npy";
    if (!writeArray(folder + "/" + env, "<i8", c->env.size(),
                    StringRef(reinterpret_cast<const char *>(c->env.data()),
                              c->env.size() * sizeof(int64_t))))
      return false;
    std::string line =
        formatv("{0}\t--kernel\t{1}\t--grid\t{2}\t--block\t{3}\t--param\t{4},ro"
                "\t--param\t{5}:u8=0",
                text, kernel.name, c->blocks, kernel.launch.threads, env, sizeof(tpc_status));
    for (auto [i, operand] : llvm::enumerate(c->operands)) {
      std::string file = formatv("{0}.{1}.npy", name, i);
      StringRef bytes(reinterpret_cast<const char *>(operand.content.memory->bytes.data()),
                      operand.bytes());
      if (!writeArray(folder + "/" + file, spellNumpy(operand.type), operand.elements, bytes))
        return false;
      line += formatv("\t--param\t{0},ro,align={1}", file, operand.alignment).str();
    }
    for (const Tensor &result : c->results)
      line += formatv("\t--param\t{0}:{1},align={2}", result.elements, spell(result.type),
                      result.alignment)
                  .str();
    if (!write(folder + "/cases.txt", line + "\n", /*append=*/true))
      return false;
  }
  return true;
}
