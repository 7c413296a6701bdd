//===- TensorSource.cpp - Tensors of an ONNX file -------------------------===//

#include "tpc/Import/ONNX/TensorSource.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/MakeError.h"

#include "tpc/Support/ReadFile.h"

#include "onnx.pb.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fcntl.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using ::onnx::TensorProto;

Type mlir::tpc::frontend::getElementType(MLIRContext *context, int32_t dataType) {
  Builder b(context);
  switch (dataType) {
  case TensorProto::FLOAT:
    return b.getF32Type();
  case TensorProto::FLOAT16:
    return b.getF16Type();
  case TensorProto::BFLOAT16:
    return b.getBF16Type();
  case TensorProto::DOUBLE:
    return b.getF64Type();
  case TensorProto::BOOL:
    return b.getI1Type();
  case TensorProto::INT8:
    return b.getI8Type();
  case TensorProto::INT16:
    return b.getIntegerType(16);
  case TensorProto::INT32:
    return b.getI32Type();
  case TensorProto::INT64:
    return b.getI64Type();
  case TensorProto::UINT8:
    return b.getIntegerType(8, /*isSigned=*/false);
  }
  return {};
}

/// Returns the bits of an element if several elements share a byte, 8 for 8-bit floats, else 0.
static int64_t getPackedBits(int32_t dataType) {
  switch (dataType) {
  case TensorProto::INT4:
  case TensorProto::UINT4:
    return 4;
  case 25: // UINT2 and INT2 of opset 25
  case 26:
    return 2;
  case TensorProto::FLOAT8E4M3FN:
    return 8;
  }
  return 0;
}

/// Returns the type of the bytes of packed elements.
static Type getPackedType(MLIRContext *context, int32_t dataType) {
  bool noSign =
      dataType == TensorProto::UINT4 || dataType == 25 || dataType == TensorProto::FLOAT8E4M3FN;
  return noSign ? IntegerType::get(context, 8, IntegerType::Unsigned)
                : IntegerType::get(context, 8);
}

std::string mlir::tpc::frontend::getDataTypeName(int64_t dataType) {
  if (dataType > 0 && dataType <= INT32_MAX && ::onnx::TensorProto_DataType_IsValid(dataType)) {
    static const char *names[] = {
        "undefined",      "float32",  "uint8",        "int8",           "uint16",
        "int16",          "int32",    "int64",        "string",         "bool",
        "float16",        "float64",  "uint32",       "uint64",         "complex64",
        "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
        "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
        "uint2",          "int2"};
    if (dataType < (int)std::size(names))
      return names[dataType];
  }
  return "data type " + std::to_string(dataType);
}

TensorReader::TensorReader(MLIRContext *context, StringRef path, std::vector<ByteRange> ranges,
                           StringRef weights)
    : context(context), path(path), fileName(llvm::sys::path::filename(path)), weights(weights),
      ranges(std::move(ranges)) {}

llvm::Expected<TensorSource> TensorReader::read(const TensorProto &proto) {
  if (auto it = replacements.find(&proto); it != replacements.end())
    return it->second;
  TensorSource source;
  source.name = proto.name();
  source.packedBits = getPackedBits(proto.data_type());
  Type element = source.packedBits ? getPackedType(context, proto.data_type())
                                   : getElementType(context, proto.data_type());
  if (!element)
    return makeError(
        "has elements of type " + getDataTypeName(proto.data_type()) +
        "; tpc has float16, bfloat16, float32, float64, bool, int8 to int64, uint8, and "
        "int2, int4, uint2, uint4, float8e4m3fn for quantized weights");
  if (proto.has_segment())
    return makeError("is stored in segments, which no exporter writes");

  if (proto.dims_size() > 32)
    return makeError("has " + llvm::Twine(proto.dims_size()) +
                     " dimensions; at most 32 are supported");
  SmallVector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  // The product of non-zero sizes must fit, so that later computations cannot overflow.
  int64_t largest = getElementBytes(element);
  for (int64_t size : shape) {
    if (size < 0)
      return makeError("has a negative size, " + llvm::Twine(size));
    if (size && __builtin_mul_overflow(largest, size, &largest))
      return makeError("is too large");
  }
  if (source.packedBits) {
    int64_t each = 8 / source.packedBits;
    if (!shape.empty() && shape.back() % each == 0) {
      shape.back() /= each;
    } else {
      source.unalignedShape = shape;
      shape = {int64_t(llvm::divideCeil(ShapedType::getNumElements(shape), each))};
    }
  }
  source.type = RankedTensorType::get(shape, element);
  source.bytes = source.elements() * getElementBytes(element);

  llvm::StringRef range;
  for (const auto &entry : proto.external_data())
    if (entry.key() == kRangeKey)
      range = entry.value();
  bool external = proto.data_location() == TensorProto::EXTERNAL;
  if (external && !range.empty())
    return makeError("has data in the model and in an external file");
  llvm::Error error = external         ? readExternal(proto, source)
                      : !range.empty() ? readRange(proto, range, source)
                                       : readFields(proto, source);
  if (error)
    return error;
  return source;
}

llvm::Error TensorReader::readExternal(const TensorProto &proto, TensorSource &source) {
  llvm::StringRef location;
  std::optional<uint64_t> length;
  for (const auto &entry : proto.external_data()) {
    llvm::StringRef value = entry.value();
    uint64_t number;
    if (entry.key() == "location") {
      location = value;
    } else if (entry.key() == "offset" || entry.key() == "length") {
      if (value.getAsInteger(10, number) || number > (uint64_t)INT64_MAX)
        return makeError("has external data with a malformed " + entry.key() + " '" + value + "'");
      if (entry.key() == "offset")
        source.offset = number;
      else
        length = number;
    }
  }
  if (length && *length != source.bytes)
    return makeError("needs " + llvm::Twine(source.bytes) + " bytes, but its external data has " +
                     llvm::Twine(*length));
  if (source.offset + source.bytes > (uint64_t)INT64_MAX)
    return makeError("has external data beyond any file's end");
  if (llvm::Error e =
          resolveDataFile(path, location, source.file, source.path, source.fileExists, weights))
    return e;
  // A single --weights file cannot replace several data files.
  if (!weights.empty() && !llvm::sys::fs::is_directory(weights) && !this->location.empty() &&
      this->location != location)
    return makeError("is in '" + location + "', and other data in '" + this->location +
                     "': --weights= must name the folder of both");
  this->location = location.str();
  if (!source.fileExists)
    return llvm::Error::success();
  uint64_t size;
  if (std::error_code e = llvm::sys::fs::file_size(source.path, size))
    return makeError("has external data that cannot be read: " + e.message());
  if (::tpc::isLfsPointer(source.path))
    return makeError("has its data in '" + location +
                     "', which is a pointer of Git LFS: run `git lfs pull` in its folder");
  if (source.offset + source.bytes > size)
    return makeError("needs bytes " + llvm::Twine(source.offset) + " to " +
                     llvm::Twine(source.offset + source.bytes) + " of '" + location +
                     "', which has " + llvm::Twine(size));
  return llvm::Error::success();
}

llvm::Error TensorReader::readRange(const TensorProto &proto, llvm::StringRef index,
                                    TensorSource &source) {
  unsigned i;
  if (index.getAsInteger(10, i) || i >= ranges.size())
    return makeError("has malformed data");
  const ByteRange &range = ranges[i];
  Type element = source.type.getElementType();
  if ((range.field == ByteRange::Float && !element.isF32()) ||
      (range.field == ByteRange::Double && !element.isF64()))
    return makeError("has its data in a field that is not for " +
                     getDataTypeName(proto.data_type()));
  if (proto.float_data_size() || proto.double_data_size() || proto.int32_data_size() ||
      proto.int64_data_size())
    return makeError("has its data twice");
  if (range.size != source.bytes)
    return makeError("needs " + llvm::Twine(source.bytes) + " bytes, but has " +
                     llvm::Twine(range.size));
  source.file = fileName;
  source.path = path;
  source.offset = range.offset;
  return llvm::Error::success();
}

/// Reads elements from repeated number fields, whose encoded size depends on the value.
llvm::Error TensorReader::readFields(const TensorProto &proto, TensorSource &source) {
  Type element = source.type.getElementType();
  int64_t count = element.isF32()         ? proto.float_data_size()
                  : element.isF64()       ? proto.double_data_size()
                  : element.isInteger(64) ? proto.int64_data_size()
                                          : proto.int32_data_size();
  if (count != source.elements())
    return makeError("needs " + llvm::Twine(source.elements()) + " elements, but has " +
                     llvm::Twine(count));
  auto append = [&](uint64_t value) {
    for (unsigned i = 0; i < getElementBytes(element); ++i)
      source.memory += char(value >> (8 * i));
  };
  for (int64_t i = 0; i < count; ++i) {
    if (element.isF32())
      append(llvm::bit_cast<uint32_t>(proto.float_data(i)));
    else if (element.isF64())
      append(llvm::bit_cast<uint64_t>(proto.double_data(i)));
    else if (element.isInteger(64))
      append(proto.int64_data(i));
    else
      append(proto.int32_data(i));
  }
  return llvm::Error::success();
}

/// Reads a range of a file.
static llvm::Error readRangeOfFile(const std::string &path, uint64_t offset, uint64_t size,
                                   char *to) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return makeError("cannot open '" + path + "': " + strerror(errno));
  for (uint64_t done = 0; done < size;) {
    ssize_t n = pread(fd, to + done, size - done, offset + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      close(fd);
      return makeError("cannot read '" + path + "'");
    }
    done += n;
  }
  close(fd);
  return llvm::Error::success();
}

static llvm::APFloat decode(FloatType type, const char *bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, getElementBytes(type));
  return llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits));
}

llvm::Expected<double> TensorReader::readNumber(const TensorSource &source, int64_t index) {
  auto type = cast<FloatType>(source.getStoredType().getElementType());
  int64_t size = getElementBytes(type);
  char bytes[8];
  if (llvm::Error e = readRangeOfFile(source.path, source.offset + index * size, size, bytes))
    return e;
  return decode(type, bytes).convertToDouble();
}

/// Converts elements from their format in the file to `source.type`.
static std::string convert(const TensorSource &source, const std::string &stored) {
  ArrayRef<int64_t> shape = source.type.getShape();
  Type from = source.storedType.getElementType(), to = source.type.getElementType();
  int64_t size = getElementBytes(from);
  int64_t rows = source.isTransposed ? shape[shape.size() - 2] : 1,
          columns = source.isTransposed ? shape.back() : 1, block = rows * columns;
  std::string result;
  for (int64_t i = 0; i < source.elements(); ++i) {
    int64_t within = i % block, index = i - within + within % columns * rows + within / columns;
    const char *element = stored.data() + index * size;
    if (from == to) {
      result.append(element, size);
      continue;
    }
    llvm::APFloat number = decode(cast<FloatType>(from), element);
    bool inexact;
    number.convert(cast<FloatType>(to).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &inexact);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    result.append(reinterpret_cast<const char *>(&bits), getElementBytes(to));
  }
  return result;
}

llvm::Expected<std::string> TensorReader::readBytes(const TensorSource &source) {
  std::string bytes = source.memory;
  if (source.file.empty())
    return bytes;
  bytes.resize(source.bytes);
  if (llvm::Error e = readRangeOfFile(source.path, source.offset, source.bytes, bytes.data()))
    return e;
  return source.storedType ? convert(source, bytes) : bytes;
}

llvm::Expected<DenseElementsAttr> TensorReader::load(const TensorSource &source) {
  llvm::Expected<std::string> read = readBytes(source);
  if (!read)
    return read.takeError();
  const std::string &bytes = *read;
  if (source.type.getElementType().isInteger(1)) {
    // A boolean is one byte in the file; any non-zero byte is true.
    SmallVector<bool> values;
    for (char c : bytes)
      values.push_back(c != 0);
    return DenseElementsAttr::get(source.type, values);
  }
  return DenseElementsAttr::getFromRawBuffer(source.type,
                                             llvm::ArrayRef<char>(bytes.data(), bytes.size()));
}

std::optional<Band> TensorReader::findBand(const TensorSource &source) {
  constexpr uint64_t limit = 64 << 20;
  ArrayRef<int64_t> shape = source.type.getShape();
  if (getElementBytes(source.type.getElementType()) != 1 || source.bytes > limit ||
      shape.size() < 2 || !source.fileExists ||
      !llvm::all_of(shape.drop_back(2), [](int64_t size) { return size == 1; }))
    return std::nullopt;
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows < 2 || columns < 2)
    return std::nullopt;
  llvm::Expected<std::string> read = readBytes(source);
  if (!read) {
    llvm::consumeError(read.takeError()); // reported when the weight is used
    return std::nullopt;
  }
  const auto *elements = reinterpret_cast<const uint8_t *>(read->data());
  // All elements of a diagonal must equal its first element, in row 0 or column 0.
  auto onDiagonal = [&](int64_t distance) {
    return distance < 0 ? elements[-distance * columns] : elements[distance];
  };
  Band band{std::nullopt, std::nullopt, 0};
  for (int64_t distance = 1 - rows; distance < columns; ++distance)
    if (uint8_t value = onDiagonal(distance)) {
      if (!band.first)
        band.first = distance;
      band.last = distance;
      band.value = value;
    }
  if (!band.first || (*band.first == 1 - rows && *band.last == columns - 1))
    return std::nullopt;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      bool inside = *band.first <= column - row && column - row <= *band.last;
      if (*elements++ != (inside ? band.value : 0))
        return std::nullopt;
    }
  if (*band.first == 1 - rows)
    band.first = std::nullopt;
  else if (*band.last == columns - 1)
    band.last = std::nullopt;
  return band;
}

std::optional<::tpc::Ramp> TensorReader::findRamp(const TensorSource &source) {
  constexpr uint64_t limit = 64 << 20;
  ArrayRef<int64_t> shape = source.type.getShape();
  // Reads only tables of shape [.., 1, columns], not other large tensors.
  auto type = dyn_cast<FloatType>(source.type.getElementType());
  if (!type || !(type.isF32() || type.isF16() || type.isBF16()) || source.bytes > limit ||
      shape.size() < 3 || shape[shape.size() - 2] != 1 || !source.fileExists ||
      llvm::count_if(shape.drop_back(), [](int64_t size) { return size != 1; }) > 1)
    return std::nullopt;
  llvm::Expected<std::string> read = readBytes(source);
  if (!read) {
    llvm::consumeError(read.takeError()); // reported when the weight is used
    return std::nullopt;
  }
  int64_t width = type.getWidth() / 8;
  std::vector<float> table(read->size() / width);
  for (auto [i, number] : llvm::enumerate(table))
    number = float(decode(type, read->data() + i * width).convertToDouble());
  if (type.isF32())
    return ::tpc::findRamp(table, shape.back());
  return ::tpc::findRamp(table, shape.back(), {int(type.getFPMantissaWidth()), [&](float number) {
                                                 return float(roundTo(type, number));
                                               }});
}
