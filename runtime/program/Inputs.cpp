//===- Inputs.cpp - reads, checks and completes a step's inputs -----------===//

#include "program/Inputs.h"
#include "program/Error.h"
#include "program/Npy.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tpc::rt {
namespace {

std::string textOf(const std::vector<std::string> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + shape[i];
  return text + "]";
}

std::string listOf(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

bool isId(tpc_dtype dtype) { return dtype == TPC_I32 || dtype == TPC_I64; }

/// Between i32 and i64, where every value survives.
void convertIds(const Port &port, const std::string &path, Inputs &inputs, Tensor &tensor) {
  Tensor converted;
  converted.dtype = port.dtype;
  converted.shape = tensor.shape;
  int64_t count = tensor.count();
  converted.data = Buffer(count * dtypeBytes(port.dtype));
  for (int64_t i = 0; i < count; ++i) {
    if (tensor.dtype == TPC_I32) {
      converted.as<int64_t>()[i] = tensor.as<int32_t>()[i];
      continue;
    }
    int64_t value = tensor.as<int64_t>()[i];
    if (value != static_cast<int32_t>(value))
      throw UserError("input '" + port.name + "' is i32, and " + std::to_string(value) + " in '" +
                      path + "' (i64) does not fit");
    converted.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
  inputs.notes.push_back("input '" + port.name + "': '" + path + "' is " + dtypeName(tensor.dtype) +
                         ", converted to " + dtypeName(port.dtype));
  tensor = std::move(converted);
}

/// Compares with the manifest and binds the symbols that are a dimension by themselves. `boundBy`
/// says which input did.
void bindShape(const Port &port, const std::string &path, const Tensor &tensor,
               SymbolValues &symbols, std::map<std::string, std::string> &boundBy) {
  std::string expected = "input '" + port.name + "' has shape " + textOf(port.shape) + ", but '" +
                         path + "' is " + shapeText(tensor.shape);
  if (tensor.shape.size() != port.shape.size())
    throw UserError(expected);
  for (size_t d = 0; d < port.shape.size(); ++d) {
    std::string symbol = soleSymbol(port.shape[d]);
    if (symbol.empty())
      continue;
    auto [it, fresh] = symbols.emplace(symbol, tensor.shape[d]);
    if (fresh)
      boundBy[symbol] = "input '" + port.name + "'";
    else if (it->second != tensor.shape[d])
      throw UserError(expected + ": '" + symbol + "' is " + std::to_string(it->second) + " by " +
                      boundBy[symbol] + " and " + std::to_string(tensor.shape[d]) + " here");
  }
}

void requireBound(const Manifest &manifest, const SymbolValues &symbols) {
  std::vector<std::string> open;
  for (const std::string &symbol : manifest.symbols)
    if (!symbols.contains(symbol))
      open.push_back(symbol);
  if (open.empty())
    return;
  std::string example;
  for (const std::string &symbol : open)
    example += (example.empty() ? "" : ",") + symbol + "=N";
  throw UserError("no size is known for " + listOf(open) + ": give --shape " + example);
}

void checkConstraints(const Manifest &manifest, const SymbolValues &symbols) {
  for (const Constraint &constraint : manifest.constraints) {
    int64_t value = evaluateSize(constraint.expr, symbols);
    bool low = constraint.min && value < *constraint.min,
         high = constraint.max && value > *constraint.max;
    if (!low && !high)
      continue;
    throw UserError("'" + constraint.expr + "' is " + std::to_string(value) + ", but must be " +
                    (low ? "at least " + std::to_string(*constraint.min)
                         : "at most " + std::to_string(*constraint.max)) +
                    (constraint.why.empty() ? "" : ": " + constraint.why));
  }
}

/// An element of a type other than i32 and i64, which has no more digits than this.
double numberAt(const Tensor &tensor, int64_t i) {
  switch (tensor.dtype) {
  case TPC_F32:
    return tensor.as<float>()[i];
  case TPC_F16:
    return halfToFloat(tensor.as<uint16_t>()[i]);
  case TPC_BF16:
    return bfloatToFloat(tensor.as<uint16_t>()[i]);
  case TPC_I16:
    return tensor.as<int16_t>()[i];
  case TPC_I8:
    return tensor.as<int8_t>()[i];
  case TPC_U8:
  case TPC_BOOL:
    return tensor.as<uint8_t>()[i];
  default:
    return tensor.as<double>()[i];
  }
}

void checkRange(const Port &port, const Tensor &tensor) {
  auto [low, high] = *port.range;
  int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    if (isId(tensor.dtype)) {
      int64_t value = tensor.dtype == TPC_I32 ? tensor.as<int32_t>()[i] : tensor.as<int64_t>()[i];
      if (value >= low && value <= high)
        continue;
      text = std::to_string(value);
    } else {
      // The program casts it, which cuts off fractions; what is not a number is no row.
      double value = numberAt(tensor, i), row = std::trunc(value);
      if (row >= static_cast<double>(low) && row <= static_cast<double>(high))
        continue;
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.9g", value);
      text = digits;
    }
    Shape position(tensor.shape.size());
    int64_t rest = i;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      position[d] = rest % tensor.shape[d];
      rest /= tensor.shape[d];
    }
    throw UserError("input '" + port.name + "' has " + text + " at " + shapeText(position) +
                    "; valid are " + std::to_string(low) + " to " + std::to_string(high) +
                    (port.rangeOf.empty() ? "" : ", the rows of '" + port.rangeOf + "'"));
  }
}

/// Fills one element of any dtype.
void put(Tensor &tensor, int64_t index, double value) {
  switch (tensor.dtype) {
  case TPC_F32:
    tensor.as<float>()[index] = static_cast<float>(value);
    break;
  case TPC_F64:
    tensor.as<double>()[index] = value;
    break;
  case TPC_I64:
    tensor.as<int64_t>()[index] = static_cast<int64_t>(value);
    break;
  case TPC_I32:
    tensor.as<int32_t>()[index] = static_cast<int32_t>(value);
    break;
  case TPC_I16:
    tensor.as<int16_t>()[index] = static_cast<int16_t>(value);
    break;
  case TPC_I8:
  case TPC_U8:
  case TPC_BOOL:
    tensor.as<int8_t>()[index] = static_cast<int8_t>(value);
    break;
  case TPC_F16: // 0 and 1 are all that is asked for
    tensor.as<uint16_t>()[index] = value != 0 ? 0x3c00 : 0;
    break;
  case TPC_BF16:
    tensor.as<uint16_t>()[index] = value != 0 ? 0x3f80 : 0;
    break;
  }
}

Tensor makeTensor(const Port &port, const SymbolValues &symbols) {
  Tensor tensor;
  tensor.dtype = port.dtype;
  tensor.shape = shapeOf(port, symbols);
  tensor.data = Buffer(*byteCount(tensor.shape, tensor.dtype));
  return tensor;
}

Tensor makeDefault(const Port &port, const SymbolValues &symbols) {
  Tensor tensor = makeTensor(port, symbols);
  int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  for (int64_t i = 0, count = tensor.count(); i < count; ++i)
    put(tensor, i, port.fallback == Port::Default::Positions ? static_cast<double>(i % row) : 1);
  return tensor;
}

/// Values for measuring.
Tensor makeExample(const Port &port, const SymbolValues &symbols) {
  Tensor tensor = makeTensor(port, symbols);
  int64_t high = port.range ? std::max<int64_t>(port.range->second, 0) : 0;
  if (!isId(port.dtype))
    high = std::min<int64_t>(high, 1); // which every type holds
  uint64_t state = 1;
  for (int64_t i = 0, count = tensor.count(); i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double unit = static_cast<double>(state >> 40) / (1 << 24);
    if (isId(port.dtype) || port.range)
      put(tensor, i,
          static_cast<double>(static_cast<int64_t>(unit * (static_cast<double>(high) + 1))));
    else
      put(tensor, i, port.dtype == TPC_F32 || port.dtype == TPC_F64 ? unit - 0.5 : 1);
  }
  return tensor;
}

/// What all inputs have in common once the symbols are bound.
void checkAll(const Manifest &manifest, const Inputs &inputs) {
  checkConstraints(manifest, inputs.symbols);
  for (const Port &output : manifest.outputs)
    shapeOf(output, inputs.symbols);
}

void checkRanges(const Manifest &manifest, const Inputs &inputs) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i)
    if (manifest.inputs[i].range)
      checkRange(manifest.inputs[i], inputs.tensors[i]);
}

void refuseUnknown(const Manifest &manifest, const std::map<std::string, std::string> &files,
                   const SymbolValues &given) {
  for (const auto &[name, path] : files) {
    std::vector<std::string> names;
    bool known = false;
    for (const Port &port : manifest.inputs) {
      names.push_back(port.name);
      known |= port.name == name;
    }
    if (!known)
      throw UserError("there is no input '" + name + "'; the program takes " +
                      (names.empty() ? "none" : listOf(names)));
  }
  for (const auto &[symbol, value] : given)
    if (std::find(manifest.symbols.begin(), manifest.symbols.end(), symbol) ==
        manifest.symbols.end())
      throw UserError("--shape: there is no size '" + symbol + "'" +
                      (manifest.symbols.empty() ? "; the program's shapes are fixed"
                                                : "; the program has " + listOf(manifest.symbols)));
}

} // namespace

std::string Inputs::digest() const {
  std::string text;
  for (const auto &[symbol, value] : symbols)
    text += symbol + "=" + std::to_string(value) + " ";
  for (const Tensor &tensor : tensors) {
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (int64_t i = 0; i < tensor.data.size(); ++i)
      hash = (hash ^ static_cast<uint8_t>(tensor.data.data()[i])) * 0x100000001b3u;
    text += shapeText(tensor.shape) + std::to_string(hash) + " ";
  }
  return text;
}

std::vector<const void *> Inputs::pointers() const {
  std::vector<const void *> result;
  for (const Tensor &tensor : tensors)
    result.push_back(tensor.data.data());
  return result;
}

std::vector<int64_t> Inputs::symbolList(const Manifest &manifest) const {
  std::vector<int64_t> values;
  for (const std::string &symbol : manifest.symbols)
    values.push_back(symbols.at(symbol));
  return values;
}

Shape shapeOf(const Port &port, const SymbolValues &symbols) {
  Shape shape;
  for (const std::string &size : port.shape) {
    shape.push_back(evaluateSize(size, symbols));
    if (shape.back() < 0)
      throw UserError("'" + port.name + "': the size " + size + " would be " +
                      std::to_string(shape.back()));
  }
  if (!byteCount(shape, port.dtype))
    throw UserError("'" + port.name + "': the shape " + shapeText(shape) + " is too large");
  return shape;
}

Inputs readInputs(const Manifest &manifest, const std::map<std::string, std::string> &files,
                  const SymbolValues &given) {
  refuseUnknown(manifest, files, given);
  Inputs inputs;
  inputs.symbols = given;
  inputs.tensors.resize(manifest.inputs.size());
  std::map<std::string, std::string> boundBy;
  for (const auto &[symbol, value] : given)
    boundBy[symbol] = "--shape";
  std::vector<std::string> missing;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Port &port = manifest.inputs[i];
    auto file = files.find(port.name);
    if (file == files.end()) {
      if (port.fallback == Port::Default::None)
        missing.push_back(port.name);
      continue;
    }
    Tensor tensor = readNpy(file->second);
    if (tensor.dtype != port.dtype && isId(tensor.dtype) && isId(port.dtype))
      convertIds(port, file->second, inputs, tensor);
    if (tensor.dtype != port.dtype)
      throw UserError("input '" + port.name + "' is " + dtypeName(port.dtype) + ", but '" +
                      file->second + "' is " + dtypeName(tensor.dtype));
    bindShape(port, file->second, tensor, inputs.symbols, boundBy);
    inputs.tensors[i] = std::move(tensor);
  }
  if (!missing.empty())
    throw UserError("missing input " + listOf(missing) + ": give --input " + missing[0] +
                    "=FILE.npy");
  requireBound(manifest, inputs.symbols);
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Port &port = manifest.inputs[i];
    auto file = files.find(port.name);
    Shape shape = shapeOf(port, inputs.symbols);
    if (file == files.end())
      inputs.tensors[i] = makeDefault(port, inputs.symbols);
    else if (shape != inputs.tensors[i].shape)
      throw UserError("input '" + port.name + "' has shape " + textOf(port.shape) + ", here " +
                      shapeText(shape) + ", but '" + file->second + "' is " +
                      shapeText(inputs.tensors[i].shape));
  }
  checkAll(manifest, inputs);
  checkRanges(manifest, inputs);
  return inputs;
}

Inputs makeInputs(const Manifest &manifest, const SymbolValues &given) {
  refuseUnknown(manifest, {}, given);
  Inputs inputs;
  inputs.symbols = given;
  requireBound(manifest, inputs.symbols);
  checkAll(manifest, inputs);
  for (const Port &port : manifest.inputs)
    inputs.tensors.push_back(port.fallback == Port::Default::None
                                 ? makeExample(port, inputs.symbols)
                                 : makeDefault(port, inputs.symbols));
  checkRanges(manifest, inputs);
  return inputs;
}

int64_t tokensOf(const Inputs &inputs) {
  for (const Tensor &tensor : inputs.tensors)
    if (tensor.shape.size() >= 2)
      return tensor.shape[0] * tensor.shape[1];
  return inputs.tensors.empty() || inputs.tensors[0].shape.empty() ? 1 : inputs.tensors[0].shape[0];
}

} // namespace tpc::rt
