//===- Inputs.cpp - Reading, checking and completion of a step's inputs ---===//

#include "program/Inputs.h"
#include "program/Error.h"
#include "program/Npy.h"
#include "tpc/fnv1a.h"
#include "tpc/windows.h"
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

/// Converts between i32 and i64 if every value fits.
void convertIds(const Port &port, const std::string &what, Inputs &inputs, Tensor &tensor) {
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
      throw UserError("input '" + port.name + "' is i32, but " + std::to_string(value) + " in " +
                      what + " (i64) does not fit");
    converted.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
  inputs.notes.push_back("input '" + port.name + "': " + what + " is " + dtypeName(tensor.dtype) +
                         ", converted to " + dtypeName(port.dtype));
  tensor = std::move(converted);
}

/// Compares a shape with the manifest, and binds symbols that are a whole dimension. `boundBy`
/// records the input that bound each symbol.
void bindShape(const Port &port, const std::string &what, const Tensor &tensor,
               SymbolValues &symbols, std::map<std::string, std::string> &boundBy) {
  std::string expected = "input '" + port.name + "' has shape " + textOf(port.shape) + ", but " +
                         what + " is " + shapeText(tensor.shape);
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
      throw UserError(expected + ": '" + symbol + "' is " + std::to_string(it->second) +
                      " according to " + boundBy[symbol] + ", but " +
                      std::to_string(tensor.shape[d]) + " here");
  }
}

void requireBound(const Manifest &manifest, const SymbolValues &symbols) {
  std::vector<std::string> unbound;
  for (const std::string &symbol : manifest.symbols)
    if (!symbols.contains(symbol))
      unbound.push_back(symbol);
  if (unbound.empty())
    return;
  std::string example;
  for (const std::string &symbol : unbound)
    example += (example.empty() ? "" : ",") + symbol + "=N";
  throw UserError("no size is known for " + listOf(unbound) + ": give --shape " + example);
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

bool isInteger(tpc_dtype dtype) {
  return isId(dtype) || dtype == TPC_I16 || dtype == TPC_I8 || dtype == TPC_U8 || dtype == TPC_BOOL;
}

int64_t integerAt(const Tensor &tensor, int64_t i) {
  return tensor.dtype == TPC_I64   ? tensor.as<int64_t>()[i]
         : tensor.dtype == TPC_I32 ? tensor.as<int32_t>()[i]
                                   : static_cast<int64_t>(numberAt(tensor, i));
}

/// Returns the value after an integer cast.
int64_t wrap(int64_t value, tpc_dtype dtype) {
  switch (dtype) {
  case TPC_I32:
    return static_cast<int32_t>(value);
  case TPC_I16:
    return static_cast<int16_t>(value);
  case TPC_I8:
    return static_cast<int8_t>(value);
  case TPC_U8:
    return static_cast<uint8_t>(value);
  default:
    return value;
  }
}

void checkRange(const Port &port, const Tensor &tensor) {
  auto [low, high] = *port.range;
  int64_t count = tensor.count(), ignored = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    if (isInteger(tensor.dtype)) {
      int64_t given = integerAt(tensor, i), value = given;
      for (tpc_dtype dtype : port.rangeAfter)
        value = wrap(value, dtype);
      if (value == port.ignored) {
        ++ignored;
        continue;
      }
      if (value >= low && value <= high)
        continue;
      text = std::to_string(given);
      if (value != given)
        text += ", which is cast to " + std::to_string(value) + ",";
    } else {
      // The program casts the value, which drops fractions; NaN is not a valid row.
      double value = numberAt(tensor, i), row = std::trunc(value);
      if (row >= static_cast<double>(low) && row <= static_cast<double>(high))
        continue;
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.9g", value);
      text = digits;
    }
    throw UserError(
        "input '" + port.name + "' has " + text + " at " + shapeText(positionOf(i, tensor.shape)) +
        "; valid are " + std::to_string(low) + " to " + std::to_string(high) +
        (port.rangeOf.empty() ? "" : ", the rows of '" + port.rangeOf + "'") +
        (port.ignored ? ", and " + std::to_string(*port.ignored) + ", which is ignored" : ""));
  }
  if (port.ignored && ignored == count)
    throw UserError("input '" + port.name + "': all " + std::to_string(count) +
                    " labels are ignored, so the batch has no loss");
}

/// Rejects NaN, which would make a loss and all gradients NaN.
void checkNumbers(const Port &port, const Tensor &tensor) {
  for (int64_t i = 0, count = isInteger(tensor.dtype) ? 0 : tensor.count(); i < count; ++i)
    if (std::isnan(numberAt(tensor, i)))
      throw UserError("input '" + port.name + "' has NaN at " +
                      shapeText(positionOf(i, tensor.shape)) + "; the loss would be NaN");
}

/// Sets an element of any type.
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
  case TPC_F16: // only 0 and 1 occur
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

/// Whether a mask hides the token.
bool isHidden(const Tensor &mask, int64_t i) {
  const std::byte *element = mask.data.data() + i * dtypeBytes(mask.dtype);
  return std::all_of(element, element + dtypeBytes(mask.dtype),
                     [](std::byte byte) { return byte == std::byte(0); });
}

/// Positions of the last `count` tokens in each row of a mask, with Hugging Face's convention: the
/// number of earlier visible tokens; 1 for a hidden token.
Tensor makePositions(const Port &port, const Port &maskPort, const Tensor &mask,
                     const SymbolValues &symbols) {
  Tensor tensor = makeTensor(port, symbols);
  int64_t count = tensor.shape.back(), rows = mask.shape[0], tokens = mask.shape[1];
  int64_t positionRows = count ? tensor.count() / count : 0;
  if (tokens < count || (positionRows != rows && positionRows != 1 && count))
    throw UserError("input '" + port.name + "' must be given: its shape is " +
                    shapeText(tensor.shape) + ", and that of '" + maskPort.name + "' is " +
                    shapeText(mask.shape));
  for (int64_t i = 0; rows == 0 && i < tensor.count(); ++i)
    put(tensor, i, static_cast<double>(tokens - count + i));
  for (int64_t row = 0; row < rows && count; ++row) {
    int64_t visible = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      bool hidden = isHidden(mask, row * tokens + i);
      int64_t at = std::min(row, positionRows - 1) * count + i - (tokens - count);
      int64_t position = hidden ? 1 : visible++;
      if (i < tokens - count)
        continue;
      // One row of positions serves all rows of tokens, so their masks must agree.
      if (row >= positionRows && integerAt(tensor, at) != position)
        throw UserError("input '" + port.name + "' must be given: it has one row, and rows of '" +
                        maskPort.name + "' hide different tokens");
      put(tensor, at, static_cast<double>(position));
    }
  }
  return tensor;
}

/// Default of an omitted input. Masks that the default depends on are already set.
Tensor makeDefault(const Manifest &manifest, const Port &port, const Inputs &inputs) {
  if (port.mask >= 0)
    return makePositions(port, manifest.inputs[port.mask], inputs.tensors[port.mask],
                         inputs.symbols);
  Tensor tensor = makeTensor(port, inputs.symbols);
  bool positions = port.fallback == Port::Default::Positions;
  int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  int64_t first = positions ? evaluateSize(port.past, inputs.symbols) : 0;
  for (int64_t i = 0, count = tensor.count(); i < count; ++i)
    put(tensor, i, positions ? static_cast<double>(first + i % row) : 1);
  return tensor;
}

/// Visits all inputs, first those whose defaults depend on no mask.
template <class Fn> void eachInDefaultOrder(const Manifest &manifest, Fn fn) {
  for (bool dependsOnMask : {false, true})
    for (size_t i = 0; i < manifest.inputs.size(); ++i)
      if ((manifest.inputs[i].mask >= 0) == dependsOnMask)
        fn(i);
}

/// Values for benchmarks.
Tensor makeExample(const Port &port, const SymbolValues &symbols) {
  Tensor tensor = makeTensor(port, symbols);
  int64_t high = port.range ? std::max<int64_t>(port.range->second, 0) : 0;
  if (!isId(port.dtype))
    high = std::min<int64_t>(high, 1); // representable in every type
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

/// Checks the constraints and the sizes of outputs, once the symbols are bound.
void checkSizes(const Manifest &manifest, const Inputs &inputs) {
  checkConstraints(manifest, inputs.symbols);
  for (const Port &output : manifest.outputs)
    shapeOf(output, inputs.symbols);
}

void checkRanges(const Manifest &manifest, const Inputs &inputs) {
  bool hasLoss = std::any_of(manifest.inputs.begin(), manifest.inputs.end(),
                             [](const Port &port) { return port.ignored.has_value(); });
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (manifest.inputs[i].range)
      checkRange(manifest.inputs[i], inputs.tensors[i]);
    if (hasLoss)
      checkNumbers(manifest.inputs[i], inputs.tensors[i]);
  }
}

void refuseUnknown(const Manifest &manifest, const std::vector<std::string> &inputs,
                   const SymbolValues &given) {
  for (const std::string &name : inputs) {
    std::vector<std::string> names;
    bool known = false;
    for (const Port &port : manifest.inputs) {
      names.push_back(port.name);
      known |= port.name == name;
    }
    if (!known)
      throw UserError("there is no input '" + name + "'; the program " +
                      (names.empty() ? "has no inputs" : "takes " + listOf(names)));
  }
  checkSizeNames(given, manifest);
}

} // namespace

void checkSizeNames(const SymbolValues &sizes, const Manifest &manifest) {
  for (const auto &[symbol, value] : sizes)
    if (std::find(manifest.symbols.begin(), manifest.symbols.end(), symbol) ==
        manifest.symbols.end())
      throw UserError("--shape: there is no size '" + symbol + "'" +
                      (manifest.symbols.empty() ? "; the program's shapes are fixed"
                                                : "; the program has " + listOf(manifest.symbols)));
}

std::string Inputs::digest() const {
  std::string text;
  for (const auto &[symbol, value] : symbols)
    text += symbol + "=" + std::to_string(value) + " ";
  for (const Tensor &tensor : tensors) {
    uint64_t hash = fnv1a({reinterpret_cast<const char *>(tensor.data.data()),
                           static_cast<size_t>(tensor.data.size())});
    text += shapeText(tensor.shape) + std::to_string(hash) + " ";
  }
  return text;
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

Inputs completeInputs(const Manifest &manifest, const std::vector<std::string> &names,
                      const std::function<Given(const Port &)> &take, const char *instruction,
                      const SymbolValues &given) {
  refuseUnknown(manifest, names, given);
  Inputs inputs;
  inputs.symbols = given;
  inputs.tensors.resize(manifest.inputs.size());
  std::map<std::string, std::string> boundBy;
  for (const auto &[symbol, value] : given)
    boundBy[symbol] = "--shape";
  std::vector<std::string> missing;
  std::map<std::string, std::string> specified; // its name in messages, by input
  std::string why;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Port &port = manifest.inputs[i];
    if (std::find(names.begin(), names.end(), port.name) == names.end()) {
      if (port.fallback == Port::Default::None) {
        missing.push_back(port.name);
        if (!port.required.empty())
          why += "; '" + port.name + "' has no default, because " + port.required;
      }
      continue;
    }
    auto [what, tensor] = take(port);
    if (tensor.dtype != port.dtype && isId(tensor.dtype) && isId(port.dtype))
      convertIds(port, what, inputs, tensor);
    if (tensor.dtype != port.dtype)
      throw UserError("input '" + port.name + "' is " + dtypeName(port.dtype) + ", but " + what +
                      " is " + dtypeName(tensor.dtype));
    bindShape(port, what, tensor, inputs.symbols, boundBy);
    inputs.tensors[i] = std::move(tensor);
    specified[port.name] = what;
  }
  if (!missing.empty()) {
    std::string how = instruction;
    if (size_t at = how.find("NAME"); at != std::string::npos)
      how.replace(at, 4, missing[0]);
    throw UserError("missing input " + listOf(missing) + how + why);
  }
  requireBound(manifest, inputs.symbols);
  eachInDefaultOrder(manifest, [&](size_t i) {
    const Port &port = manifest.inputs[i];
    auto what = specified.find(port.name);
    Shape shape = shapeOf(port, inputs.symbols);
    if (what == specified.end())
      inputs.tensors[i] = makeDefault(manifest, port, inputs);
    else if (shape != inputs.tensors[i].shape)
      throw UserError("input '" + port.name + "' has shape " + textOf(port.shape) + ", here " +
                      shapeText(shape) + ", but " + what->second + " is " +
                      shapeText(inputs.tensors[i].shape));
  });
  checkSizes(manifest, inputs);
  checkRanges(manifest, inputs);
  return inputs;
}

Inputs readInputs(const Manifest &manifest, const std::map<std::string, std::string> &files,
                  const SymbolValues &given) {
  std::vector<std::string> names;
  for (const auto &[name, path] : files)
    names.push_back(name);
  auto read = [&](const Port &port) {
    const std::string &path = files.at(port.name);
    return Given{"'" + path + "'", readNpy(path)};
  };
  return completeInputs(manifest, names, read, ": give --input NAME=FILE.npy", given);
}

/// For a generating step: all tokens are valid, and caches contain as many earlier tokens as fit.
static void fillSteps(const Generation &generation, Inputs &inputs) {
  int64_t sequence = inputs.symbols.at(generation.sequence),
          capacity = inputs.symbols.at(generation.capacity);
  std::vector<std::pair<int, int64_t>> values = {
      {generation.counts, std::min(sequence, capacity)},
      {generation.lengths, std::max<int64_t>(capacity - sequence, 0)}};
  if (const auto &windowed = generation.windowed)
    values.emplace_back(windowed->lengths,
                        std::max<int64_t>(inputs.symbols.at(windowed->capacity) - sequence, 0));
  if (const auto &source = generation.source)
    values.emplace_back(source->lengths, std::max<int64_t>(inputs.symbols.at(source->capacity) -
                                                               inputs.symbols.at(source->tokens) *
                                                                   source->each.value_or(1),
                                                           0));
  for (auto [input, value] : values) {
    Tensor &tensor = inputs.tensors[static_cast<size_t>(input)];
    for (int64_t i = 0, count = tensor.count(); i < count; ++i)
      put(tensor, i, static_cast<double>(value));
  }
}

/// Derives the capacity of sliding-window caches from the other symbols, unless given.
static void bindWindowCapacity(const Generation &generation, SymbolValues &symbols) {
  auto capacity = symbols.find(generation.capacity), tokens = symbols.find(generation.sequence);
  if (generation.windowed && capacity != symbols.end() && tokens != symbols.end())
    symbols.try_emplace(generation.windowed->capacity,
                        windowCapacity(generation.windowed->window, capacity->second,
                                       std::max<int64_t>(kPrefillChunk, tokens->second)));
}

Inputs makeInputs(const Manifest &manifest, const SymbolValues &given) {
  refuseUnknown(manifest, {}, given);
  Inputs inputs;
  inputs.symbols = given;
  if (manifest.generation)
    bindWindowCapacity(*manifest.generation, inputs.symbols);
  requireBound(manifest, inputs.symbols);
  checkSizes(manifest, inputs);
  inputs.tensors.resize(manifest.inputs.size());
  eachInDefaultOrder(manifest, [&](size_t i) {
    const Port &port = manifest.inputs[i];
    inputs.tensors[i] = port.fallback == Port::Default::None ? makeExample(port, inputs.symbols)
                                                             : makeDefault(manifest, port, inputs);
  });
  if (manifest.generation)
    fillSteps(*manifest.generation, inputs);
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
