//===- Options.cpp - tpc-ptx-run command line -----------------------------===//

#include "Options.h"
#include "Npy.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <sstream>

using namespace ptxrun;

const char *const ptxrun::help =
    R"(tpc-ptx-run: runs a kernel of a PTX text in the interpreter, and prints findings

  tpc-ptx-run kernels.ptx --list
  tpc-ptx-run kernels.ptx --kernel NAME --param … --param … [--grid 128] [--block 256]

Each --param is a buffer or a number, in the order of the kernel's parameters:

  x.npy                     a buffer with the contents of the file
  3072                      an unwritten buffer of this many bytes
  128x768:f32               an unwritten buffer of this shape and type
                            (f32, f64, f16, bf16, i8, u8, i32, u32, i64, u64)
  128x768:f32=0.5           the same, filled with a number
  128x768:f32=random        the same, filled with random numbers from the seed
  128x768:f32=index         the same, filled with 0, 1, 2, …
  u64:7, i32:-1, f32:0.5    a number (u32, u64, i32, i64, f32, f64)

A buffer may have options, each after a comma:

  ,out=y.npy                writes the buffer to a file after the last run
  ,ro                       makes the buffer read-only for the kernel
  ,name=x                   name in findings (default: the file, or p0, p1, …)
  ,align=2                  exact alignment of its address, in bytes (default: 256)
  ,offset=4                 the parameter points this many bytes into the buffer

Options:

  --grid X[,Y[,Z]]          number of blocks (default: 1)
  --block X[,Y[,Z]]         number of threads of a block (default: that of .reqntid, or 1)
  --shared BYTES            dynamic shared memory
  --seed N                  seed of the order of blocks, warps and lanes, and of errors of .approx
  --seeds N                 number of runs, with ascending seeds from --seed on
  --max-instructions N      maximum number of instructions of all warps (default: 2^30), which
                            ends endless loops
  --counters                prints instructions by class, sectors, bank conflicts
  --device                  also runs the kernel through libcuda.so.1, and compares the buffers
  --tolerance T             largest difference in this comparison, as a fraction of the largest
                            element of a buffer (default: 1e-5)
  --list                    prints the kernels with their parameters and shared memory
  --help                    prints this text

A layer norm of 128 rows, in 20 orders:

  tpc-ptx-run norm.ptx --kernel layer_norm --grid 128 --block 192 --seeds 20 --counters \
    --param x.npy,ro --param gamma.npy,ro --param beta.npy,ro --param 128x768:f32,out=y.npy \
    --param u32:768

The exit status is 0 without findings. It is 1 with findings, or if the device computes other
results. It is 2 if the command line, a file or the PTX text is invalid, or if --device finds no
driver.
)";

namespace {

struct ElementType {
  const char *numpy;
  unsigned bytes;
};
// NumPy has no bf16: files contain its bits.
const std::map<std::string, ElementType> types = {
    {"f32", {"<f4", 4}}, {"f64", {"<f8", 8}}, {"f16", {"<f2", 2}}, {"bf16", {"<u2", 2}},
    {"i8", {"|i1", 1}},  {"u8", {"|u1", 1}},  {"i32", {"<i4", 4}}, {"u32", {"<u4", 4}},
    {"i64", {"<i8", 8}}, {"u64", {"<u8", 8}}};

uint64_t toInteger(const std::string &text, const std::string &what) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw UserError(what + ": '" + text + "' is not a number");
  return value;
}

uint32_t toSmall(const std::string &text, const std::string &what) {
  uint64_t value = toInteger(text, what);
  if (value > UINT32_MAX)
    throw UserError(what + ": " + text + " is larger than 4294967295");
  return uint32_t(value);
}

double toDouble(const std::string &text, const std::string &what) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    throw UserError(what + ": '" + text + "' is not a number");
  return value;
}

std::vector<std::string> split(const std::string &text, char by) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, by);)
    parts.push_back(part);
  return parts;
}

template <class T> void append(std::vector<uint8_t> &to, T value) {
  auto bytes = std::bit_cast<std::array<uint8_t, sizeof(T)>>(value);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void appendNumber(std::vector<uint8_t> &to, const std::string &type, double value) {
  if (type == "f32")
    append(to, float(value));
  else if (type == "f64")
    append(to, value);
  else if (type == "f16")
    append(to, std::bit_cast<uint16_t>(_Float16(float(value))));
  else if (type == "bf16")
    append(to, uint16_t((std::bit_cast<uint32_t>(float(value)) + 0x8000) >> 16));
  else
    for (unsigned byte = 0; byte < types.at(type).bytes; ++byte)
      to.push_back(uint8_t(uint64_t(int64_t(value)) >> (8 * byte)));
}

/// Parses a buffer, such as "128x768:f32=random".
void parseBuffer(Parameter &parameter, const std::string &text, uint64_t seed) {
  std::string fill, shape = text, type;
  if (size_t at = shape.find('='); at != shape.npos) {
    fill = shape.substr(at + 1);
    shape.resize(at);
  }
  if (size_t at = shape.find(':'); at != shape.npos) {
    type = shape.substr(at + 1);
    shape.resize(at);
    if (!types.contains(type))
      throw UserError("--param " + text + ": unknown type '" + type + "'");
  } else if (!fill.empty()) {
    throw UserError("--param " + text + ": a filled buffer needs a type, such as 128:f32=0");
  }
  parameter.type = type.empty() ? "u8" : type;
  parameter.size = type.empty() ? 1 : types.at(type).bytes;
  for (const std::string &size : split(shape, 'x')) {
    parameter.shape.push_back(toInteger(size, "--param " + text));
    if (__builtin_mul_overflow(parameter.size, parameter.shape.back(), &parameter.size))
      throw UserError("--param " + text + ": the size must be below 2^64 bytes");
  }
  if (fill.empty())
    return;
  parameter.filled = true;
  uint64_t state = seed * 2 + 1;
  double number = fill == "random" || fill == "index" ? 0 : toDouble(fill, "--param " + text);
  bool isFloat = type.find('f') != type.npos;
  if (!isFloat && !(std::fabs(number) < 9e18))
    throw UserError("--param " + text + ": the number is out of the range of its type");
  for (uint64_t i = 0, count = parameter.size / types.at(type).bytes; i < count; ++i) {
    if (fill == "index")
      number = double(i);
    if (fill == "random") {
      state = state * 6364136223846793005 + 1442695040888963407;
      number = isFloat ? double(state >> 40) / double(1 << 23) - 1 : double(state >> 57);
    }
    appendNumber(parameter.bytes, type, number);
  }
}

Parameter parseParameter(const std::string &text, size_t index, uint64_t seed) {
  Parameter parameter;
  parameter.text = text;
  parameter.name = "p" + std::to_string(index);
  std::vector<std::string> parts = split(text, ',');
  if (parts.empty())
    throw UserError("--param needs a buffer or a number");
  const std::string &what = parts[0];
  size_t colon = what.find(':');
  std::string kind = what.substr(0, colon);
  if (colon != what.npos && types.contains(kind)) {
    if (parts.size() > 1)
      throw UserError("--param " + text + ": numbers have no options");
    if (kind[0] == 'f')
      appendNumber(parameter.bytes, kind, toDouble(what.substr(colon + 1), "--param " + text));
    else {
      std::string digits = what.substr(colon + 1);
      bool minus = !digits.empty() && digits[0] == '-';
      uint64_t value = toInteger(digits.substr(minus), "--param " + text);
      unsigned bits = 8 * types.at(kind).bytes;
      uint64_t most = ~uint64_t(0) >> (64 - bits + (kind[0] == 'i'));
      if (minus ? kind[0] != 'i' || value > most + 1 : value > most)
        throw UserError("--param " + text + ": the number is out of the range of its type");
      value = minus ? -value : value;
      for (unsigned byte = 0; byte < types.at(kind).bytes; ++byte)
        parameter.bytes.push_back(uint8_t(value >> (8 * byte)));
    }
    return parameter;
  }
  parameter.isBuffer = true;
  if (what.ends_with(".npy")) {
    Array array = readArray(what);
    parameter.name = what;
    parameter.type = typeOfNumpy(array.type, what);
    parameter.shape = array.shape;
    parameter.bytes = std::move(array.data);
    parameter.size = parameter.bytes.size();
    parameter.filled = true;
  } else {
    parseBuffer(parameter, what, seed + index);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t equals = parts[i].find('=');
    std::string key = parts[i].substr(0, equals),
                value = equals == parts[i].npos ? "" : parts[i].substr(equals + 1);
    if (key == "out" && value.empty())
      throw UserError("--param " + text + ": out= needs a file name");
    if (key == "out")
      parameter.output = value;
    else if (key == "name")
      parameter.name = value;
    else if (key == "ro" && equals == parts[i].npos)
      parameter.readOnly = true;
    else if (key == "align")
      parameter.alignment = toInteger(value, "--param " + text);
    else if (key == "offset")
      parameter.offset = toInteger(value, "--param " + text);
    else
      throw UserError("--param " + text + ": unknown option '" + parts[i] + "'");
  }
  if (parameter.alignment == 0 || (parameter.alignment & (parameter.alignment - 1)))
    throw UserError("--param " + text + ": the alignment must be a power of two");
  if (parameter.alignment > uint64_t(1) << 30)
    throw UserError("--param " + text + ": the alignment must be at most 2^30");
  if (parameter.offset > parameter.size)
    throw UserError("--param " + text + ": the offset must not exceed the size of the buffer");
  return parameter;
}

ptx::Dim3 parseDim(const std::string &text, const std::string &option) {
  std::vector<std::string> parts = split(text, ',');
  if (parts.empty() || parts.size() > 3)
    throw UserError(option + " takes one to three numbers");
  ptx::Dim3 dim;
  uint32_t *sizes[] = {&dim.x, &dim.y, &dim.z};
  for (size_t i = 0; i < parts.size(); ++i) {
    *sizes[i] = toSmall(parts[i], option);
  }
  return dim;
}

} // namespace

std::string ptxrun::numpyType(const std::string &type) { return types.at(type).numpy; }

std::string ptxrun::typeOfNumpy(const std::string &numpy, const std::string &path) {
  if (numpy == "|b1")
    return "u8";
  std::string all = "|b1";
  for (const auto &[name, type] : types) {
    if (type.numpy == numpy)
      return name;
    all += std::string(", ") + type.numpy;
  }
  throw UserError("'" + path + "' has elements of type '" + numpy + "'; supported are " + all);
}

Options ptxrun::parseOptions(const std::vector<std::string> &arguments) {
  Options options;
  options.config.block = {0, 1, 1};
  options.config.maxInstructions = uint64_t(1) << 30; // at most one minute
  std::vector<std::string> parameters;
  std::map<std::string, std::function<void(const std::string &)>> withValue = {
      {"--kernel", [&](const std::string &value) { options.kernel = value; }},
      {"--param", [&](const std::string &value) { parameters.push_back(value); }},
      {"--grid",
       [&](const std::string &value) { options.config.grid = parseDim(value, "--grid"); }},
      {"--block",
       [&](const std::string &value) { options.config.block = parseDim(value, "--block"); }},
      {"--shared",
       [&](const std::string &value) { options.config.sharedBytes = toSmall(value, "--shared"); }},
      {"--seed",
       [&](const std::string &value) { options.config.seed = toInteger(value, "--seed"); }},
      {"--seeds", [&](const std::string &value) { options.seeds = toInteger(value, "--seeds"); }},
      {"--max-instructions",
       [&](const std::string &value) {
         options.config.maxInstructions = toInteger(value, "--max-instructions");
       }},
      {"--tolerance",
       [&](const std::string &value) { options.tolerance = toDouble(value, "--tolerance"); }}};
  std::map<std::string, bool *> flags = {{"--list", &options.list},
                                         {"--counters", &options.counters},
                                         {"--device", &options.device},
                                         {"--help", &options.help}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    size_t equals = name.starts_with("--") ? name.find('=') : name.npos;
    if (equals != name.npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (auto flag = flags.find(name); flag != flags.end() && equals == name.npos) {
      *flag->second = true;
    } else if (auto known = withValue.find(name); known != withValue.end()) {
      if (equals == std::string::npos) {
        if (++i == arguments.size())
          throw UserError(name + " needs a value");
        value = arguments[i];
      }
      known->second(value);
    } else if (name.starts_with("-")) {
      throw UserError("unknown option '" + arguments[i] + "': see --help");
    } else if (!options.file.empty()) {
      throw UserError("only one PTX file is allowed, but there are '" + options.file + "' and '" +
                      name + "'");
    } else {
      options.file = name;
    }
  }
  if (options.help)
    return options;
  if (options.file.empty())
    throw UserError("the PTX file is missing: see --help");
  if (!options.list && options.kernel.empty())
    throw UserError("--kernel NAME is missing; --list prints the names");
  if (options.seeds == 0)
    throw UserError("--seeds must be at least 1");
  for (size_t i = 0; i < parameters.size(); ++i)
    options.parameters.push_back(parseParameter(parameters[i], i, options.config.seed));
  return options;
}
