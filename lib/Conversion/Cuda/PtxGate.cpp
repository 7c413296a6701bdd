//===- PtxGate.cpp - Check of float rounding in PTX -----------------------===//
//
// `add.f32` leaves the rounding to ptxas, which contracts it with a preceding multiplication to
// `fma`. `add.rn.f32` prevents that. The result of `.approx` is only as accurate as the hardware's
// tables.
//
// Tensor cores sum in an order of their own, in f32. Kernels split f32 into TF32 parts. Kernels
// that multiply 16-bit elements with `mma.sync` may compute powers by `ex2.approx.ftz.f32`: its
// error, 2 ulp of f32, is 2^-11 of the maximum error of rounding the powers to f16, which follows.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"

using namespace mlir;
using namespace mlir::tpc;

static bool isFloat(StringRef type) {
  return type == "f16" || type == "bf16" || type == "f32" || type == "f64" || type == "f16x2" ||
         type == "bf16x2" || type == "f32x2" || type == "tf32";
}

static unsigned getFloatBits(StringRef type) {
  return type == "f64" ? 64 : type == "f32" ? 32 : 16;
}

/// Returns why an instruction is rejected; empty if it is allowed.
static std::string refuse(StringRef opcode) {
  SmallVector<StringRef> parts;
  opcode.split(parts, '.');
  auto has = [&](StringRef part) { return llvm::is_contained(parts, part); };
  if (llvm::none_of(parts, isFloat))
    return "";
  if (parts.front() == "mma")
    return opcode.ends_with(".f32.f16.f16.f32") || opcode.ends_with(".f32.bf16.bf16.f32") ||
                   opcode.ends_with(".f32.tf32.tf32.f32")
               ? ""
               : "does not multiply 16-bit or TF32 elements and sum in f32";
  if (has("approx") || has("full") || has("ftz"))
    return "is approximate";
  bool rounds = has("rn") || has("rz") || has("rm") || has("rp");
  StringRef op = parts.front();
  if (llvm::is_contained({"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"}, op))
    return rounds ? "" : "has no rounding mode";
  if (op == "cvt") {
    // To a narrower float, or from an integer: `cvt.rn.f16.f32`, `cvt.rn.f32.s32`. To an integer:
    // `cvt.rzi.s32.f32`.
    StringRef from = parts.back(), to = parts[parts.size() - 2];
    bool toInteger = has("rni") || has("rzi") || has("rmi") || has("rpi");
    if (isFloat(from) && isFloat(to) && getFloatBits(to) > getFloatBits(from))
      return "";
    return rounds || toInteger ? "" : "has no rounding mode";
  }
  if (llvm::is_contained({"abs", "neg", "min", "max", "setp", "set", "selp", "slct", "copysign",
                          "testp", "mov", "ld", "st", "ldu"},
                         op))
    return "";
  return "is not a float instruction that kernels use";
}

/// Returns the instruction of a statement, after braces, labels and predicates.
static StringRef getOpcode(StringRef statement) {
  for (;;) {
    statement = statement.ltrim(" \t\r{}");
    StringRef word =
        statement.take_until([](char c) { return isspace(static_cast<unsigned char>(c)); });
    if (!word.starts_with("@") && !word.ends_with(":"))
      return word.starts_with(".") ? StringRef() : word;
    statement = statement.drop_front(word.size());
  }
}

/// Returns whether the entry point whose body begins at `rest` multiplies 16-bit elements on tensor
/// cores.
static bool multipliesHalves(StringRef rest) {
  StringRef body = rest.take_front(rest.find(".entry"));
  for (StringRef type : {".f32.f16.f16.f32", ".f32.bf16.bf16.f32"})
    for (size_t at = body.find(type); at != StringRef::npos; at = body.find(type, at + 1))
      if (body.take_front(at).rsplit('\n').second.contains("mma.sync."))
        return true;
  return false;
}

llvm::Error cuda::checkRounding(StringRef ptx) {
  bool isExact = true; // the kernel multiplies no 16-bit elements on tensor cores
  for (unsigned number = 1; !ptx.empty(); ++number) {
    StringRef line;
    std::tie(line, ptx) = ptx.split('\n');
    if (line.contains(".entry"))
      isExact = !multipliesHalves(ptx);
    SmallVector<StringRef> statements;
    line.split("//").first.split(statements, ';');
    for (StringRef statement : statements) {
      StringRef opcode = getOpcode(statement);
      if (!isExact && opcode == "ex2.approx.ftz.f32")
        continue;
      if (std::string why = refuse(opcode); !why.empty())
        return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                       "line " + llvm::Twine(number) + " of the PTX: '" +
                                           statement.trim() + "' " + why);
    }
  }
  return llvm::Error::success();
}
