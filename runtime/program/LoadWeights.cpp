//===- LoadWeights.cpp - Loading of a rank's shard of a weight file -------===//
//
// Source tensors are mapped one at a time and unmapped after the copy. File pages belong to the
// page cache, so a rank's own memory contains only its shard. A shard is gathered in blocks of rows
// of its first dimension: dense parameters at their final address, packed ones through a small
// buffer. If the device loads weights itself (UploadWeights.cpp), one allocation contains all of
// them.
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"
#include "core/Half.h"
#include "core/OutOfMemory.h"
#include "program/Error.h"
#include "program/RandomWeights.h"
#include "program/SourceBytes.h"
#include "program/UploadWeights.h"
#include "program/View.h"
#include "program/Weights.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace tpc::rt {
namespace {

/// Size of the buffer between a file and a packed matrix.
constexpr int64_t blockBytes = 4 << 20;

struct LoadedWeights : RankState {
  std::vector<DeviceMemory> dense;

  std::byte *add(Device &device, int64_t bytes) {
    try {
      return static_cast<std::byte *>(dense.emplace_back(device, bytes).data());
    } catch (const std::bad_alloc &) {
      throw OutOfMemory("weights take " + std::to_string(bytes) +
                        " bytes, more than is available; split the model over more ranks");
    }
  }
};

template <class T> T readAs(const std::byte *from) {
  T value; // the offset in the file may be unaligned
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A mapped tensor of the requested type.
struct SameType {
  const std::byte *data;
  int64_t elementBytes;
  void copy(std::byte *to, int64_t index, int64_t count, int64_t stride) const {
    if (stride == 1) {
      std::memcpy(to, data + index * elementBytes, count * elementBytes);
      return;
    }
    if (elementBytes == 4) {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * 4, data + (index + i * stride) * 4, 4);
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * elementBytes, data + (index + i * stride) * elementBytes, elementBytes);
  }
};

/// A mapped tensor of another type, converted to f32.
struct Converted {
  const std::byte *data;
  tpc_dtype dtype;
  void copy(std::byte *to, int64_t index, int64_t count, int64_t stride) const {
    for (int64_t i = 0; i < count; ++i) {
      float value = at(index + i * stride);
      std::memcpy(to + i * 4, &value, 4);
    }
  }
  float at(int64_t i) const {
    switch (dtype) {
    case TPC_F64:
      return static_cast<float>(readAs<double>(data + i * 8));
    case TPC_F16:
      return halfToFloat(readAs<uint16_t>(data + i * 2));
    case TPC_BF16:
      return bfloatToFloat(readAs<uint16_t>(data + i * 2));
    case TPC_I64:
      return static_cast<float>(readAs<int64_t>(data + i * 8));
    case TPC_I32:
      return static_cast<float>(readAs<int32_t>(data + i * 4));
    case TPC_I16:
      return static_cast<float>(readAs<int16_t>(data + i * 2));
    case TPC_I8:
      return static_cast<float>(readAs<int8_t>(data + i));
    case TPC_U8:
    case TPC_BOOL:
      return static_cast<float>(readAs<uint8_t>(data + i));
    case TPC_F32:
      break;
    }
    return readAs<float>(data + i * 4);
  }
};

/// Random values, rounded to the source's type; only floats of up to 32 bits are random, other
/// types are zero.
struct Drawn {
  RandomSource source;
  tpc_dtype dtype, sourceDtype;
  void copy(std::byte *to, int64_t index, int64_t count, int64_t stride) const {
    bool isHalf = sourceDtype == TPC_F16, isBfloat = sourceDtype == TPC_BF16;
    int64_t elementBytes = dtypeBytes(dtype);
    if (dtype != TPC_F32 && !isHalf && !isBfloat) {
      std::memset(to, 0, count * elementBytes);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      float value = source.at(index + i * stride);
      uint16_t bits = isHalf ? floatToHalf(value) : isBfloat ? floatToBfloat(value) : 0;
      if (isHalf || isBfloat)
        value = isHalf ? halfToFloat(bits) : bfloatToFloat(bits);
      std::memcpy(to + i * elementBytes,
                  dtype == TPC_F32 ? static_cast<const void *>(&value) : &bits, elementBytes);
    }
  }
};

/// State that is 0 before the first step.
struct Zeros {
  int64_t elementBytes;
  void copy(std::byte *to, int64_t, int64_t count, int64_t) const {
    std::memset(to, 0, count * elementBytes);
  }
};

/// For dry-run devices: copies nothing.
struct Nothing {
  void copy(std::byte *, int64_t, int64_t, int64_t) const {}
};

/// Makes the last factor, which one copy covers, evenly spaced: if necessary, a single element.
void endEvenly(std::vector<ViewFactor> &factors) {
  if (!factors.empty() && !factors.back().offsets.empty())
    factors.push_back({1, 1, {}, {}});
}

/// Merges factors that form one run of equal strides.
std::vector<ViewFactor> merged(std::vector<ViewFactor> factors) {
  std::vector<ViewFactor> result;
  for (const ViewFactor &factor : factors) {
    if (factor.size == 1)
      continue;
    if (!result.empty() && result.back().offsets.empty() && factor.offsets.empty() &&
        result.back().stride == factor.size * factor.stride)
      result.back() = {result.back().size * factor.size, factor.stride, {}, {}};
    else
      result.push_back(factor);
  }
  endEvenly(result);
  return result;
}

/// Copies slices of a view to dense, row-major memory.
template <class Source> class Gather {
public:
  Gather(const Source &source, const LocalView &view, int64_t elementBytes)
      : source(source), offset(view.offset), elementBytes(elementBytes) {
    if (view.dims.empty())
      return;
    rows = view.dims[0];
    endEvenly(rows);
    for (size_t d = 1; d < view.dims.size(); ++d)
      columns.insert(columns.end(), view.dims[d].begin(), view.dims[d].end());
    columns = merged(std::move(columns));
    for (const ViewFactor &factor : columns)
      rowElements *= factor.size;
  }

  /// Copies rows [row0, row1) of the first dimension.
  void copy(int64_t row0, int64_t row1, std::byte *to) const {
    if (rowElements == 0 || std::is_same_v<Source, Nothing>)
      return;
    if (columns.empty()) // one element per row
      return copyColumn(row0, row1, offset, to, 1);
    if (columns.back().stride != 1 && !rows.empty() && rows.back().stride == 1)
      return copyTransposed(row0, row1, to);
    for (int64_t row = row0; row < row1; ++row, to += rowElements * elementBytes)
      copyRow(offset + rowOffset(row), columns.data(), to, rowElements);
  }

private:
  int64_t rowOffset(int64_t row) const {
    int64_t result = 0;
    for (size_t f = rows.size(); f-- > 0;) {
      result += rows[f].at(row % rows[f].size);
      row /= rows[f].size;
    }
    return result;
  }

  /// Copies `count` elements of one row, from factor `factor` on.
  void copyRow(int64_t from, const ViewFactor *factor, std::byte *to, int64_t count) const {
    if (factor->size == count && factor->offsets.empty())
      return source.copy(to, from, count, factor->stride);
    int64_t inner = count / factor->size;
    for (int64_t i = 0; i < factor->size; ++i)
      copyRow(from + factor->at(i), factor + 1, to + i * inner * elementBytes, inner);
  }

  /// Copies one element of each row, `step` elements apart in `to`, in runs along the rows' last
  /// factor.
  void copyColumn(int64_t row0, int64_t row1, int64_t from, std::byte *to, int64_t step) const {
    int64_t run = rows.empty() ? 1 : rows.back().size,
            stride = rows.empty() ? 1 : rows.back().stride;
    for (int64_t row = row0; row < row1;) {
      int64_t count = std::min(row1 - row, run - row % run);
      std::byte *at = to + (row - row0) * step * elementBytes;
      if (step == 1) {
        source.copy(at, from + rowOffset(row), count, stride);
      } else {
        // Reads the file forward; the destination is small.
        std::byte piece[64 * 8];
        for (int64_t done = 0; done < count; done += 64) {
          int64_t length = std::min<int64_t>(64, count - done);
          source.copy(piece, from + rowOffset(row + done), length, stride);
          for (int64_t i = 0; i < length; ++i)
            std::memcpy(at + (done + i) * step * elementBytes, piece + i * elementBytes,
                        elementBytes);
        }
      }
      row += count;
    }
  }

  /// For transposed sources: column by column.
  void copyTransposed(int64_t row0, int64_t row1, std::byte *to) const {
    std::vector<int64_t> index(columns.size(), 0);
    for (int64_t column = 0; column < rowElements; ++column) {
      int64_t from = offset;
      for (size_t f = 0; f < columns.size(); ++f)
        from += columns[f].at(index[f]);
      copyColumn(row0, row1, from, to + column * elementBytes, rowElements);
      for (size_t f = columns.size(); f-- > 0 && ++index[f] == columns[f].size;)
        index[f] = 0;
    }
  }

  const Source &source;
  int64_t offset, elementBytes;
  std::vector<ViewFactor> rows, columns;
  int64_t rowElements = 1;
};

/// Loads elements of type `stored` from a source of this type.
template <class Source>
void load(tpc_context &ctx, const Parameter &parameter, tpc_dtype stored, const LocalView &view,
          int index, const Source &source, LoadedWeights &loaded) {
  Device &device = *ctx.device;
  Shape shape = view.shape();
  int64_t elementBytes = dtypeBytes(stored);
  Gather gather(source, view, elementBytes);
  int64_t numRows = shape.empty() ? 1 : shape[0];
  if (!parameter.matmulRhs) {
    int64_t bytes = *byteCount(shape, stored);
    std::byte *data = loaded.add(device, bytes);
    int64_t rowBytes = bytes / std::max<int64_t>(numRows, 1);
    int64_t step = std::max<int64_t>(device.writeBytes() / std::max<int64_t>(rowBytes, 1), 1);
    if (parameter.isExperts) // each expert is packed while it is in the cache
      step = 1;
    for (int64_t row = 0; bytes > 0 && row < numRows; row += std::min(step, numRows - row)) {
      int64_t end = row + std::min(step, numRows - row);
      gather.copy(row, end, device.beginWrite(data + row * rowBytes, (end - row) * rowBytes));
      device.endWrite();
      if (parameter.isExperts &&
          device.packExperts(data + row * rowBytes, end - row, shape[1], shape[2], stored))
        ctx.data.packedExperts.insert(data);
    }
    ctx.data.parameters[index] = data;
    return;
  }
  Matrix &matrix = *ctx.data.matrices[index];
  int64_t rowBytes = std::max<int64_t>(shape[1] * elementBytes, 1);
  int64_t step = std::clamp<int64_t>(blockBytes / rowBytes, 1, std::max<int64_t>(numRows, 1));
  Buffer block(step * rowBytes);
  for (int64_t row = 0; row < numRows; row += step) {
    int64_t end = std::min(row + step, numRows);
    gather.copy(row, end, block.data());
    device.setRows(matrix, row, end, block.data());
  }
}

Shape shapeOf(const tpc_context &ctx, const Parameter &parameter) {
  return localView(parameter, ctx.grid, ctx.coordinates).shape();
}

/// Returns a parameter and those next to it: matrices of as many rows, or vectors, of one type.
/// typeOf returns the type of a parameter's elements in memory.
template <typename TypeOf>
std::vector<int> groupOf(const tpc_context &ctx, const Manifest &manifest, int first,
                         TypeOf typeOf) {
  std::vector<int> group{first};
  const Parameter &parameter = manifest.parameters[first];
  int64_t k = parameter.matmulRhs ? shapeOf(ctx, parameter)[0] : 0;
  for (int i = first + 1, count = static_cast<int>(manifest.parameters.size()); i < count; ++i) {
    const Parameter &other = manifest.parameters[i];
    if (other.beside == group.back() && !other.isShared() && typeOf(other) == typeOf(parameter) &&
        (!parameter.matmulRhs || shapeOf(ctx, other)[0] == k))
      group.push_back(i);
  }
  return group;
}

std::vector<int64_t> widthsOf(const tpc_context &ctx, const Manifest &manifest,
                              const std::vector<int> &group) {
  std::vector<int64_t> widths;
  for (int index : group)
    widths.push_back(shapeOf(ctx, manifest.parameters[index]).back());
  return widths;
}

/// Makes the matrix of a parameter, and the matrices that are packed next to it.
template <typename TypeOf>
void makeMatrices(tpc_context &ctx, const Manifest &manifest, int first, TypeOf typeOf) {
  std::vector<int> group = groupOf(ctx, manifest, first, typeOf);
  std::vector<int64_t> widths = widthsOf(ctx, manifest, group);
  int64_t k = shapeOf(ctx, manifest.parameters[first])[0];
  std::vector<std::shared_ptr<Matrix>> matrices =
      ctx.device->makeMatrices(k, widths, typeOf(manifest.parameters[first]));
  for (size_t i = 0; i < group.size(); ++i)
    ctx.data.matrices[group[i]] = std::move(matrices[i]);
}

/// Makes a shared parameter refer to its existing memory.
void share(tpc_context &ctx, const Manifest &manifest, int index, bool isDryRun) {
  const Parameter &parameter = manifest.parameters[index];
  if (parameter.transposeOf >= 0) {
    Shape shape = localView(parameter, ctx.grid, ctx.coordinates).shape();
    tpc_dtype dtype = isDryRun ? parameter.dtype : manifest.parameters[parameter.transposeOf].dtype;
    ctx.data.matrices[index] = ctx.device->transposeOf(ctx.data.parameters[parameter.transposeOf],
                                                       shape[0], shape[1], dtype);
  } else if (parameter.sameAs >= 0 && parameter.matmulRhs) {
    ctx.data.matrices[index] = ctx.data.matrices[parameter.sameAs];
  } else if (parameter.sameAs >= 0) {
    ctx.data.parameters[index] = ctx.data.parameters[parameter.sameAs];
  }
}

/// Device memory of a parameter.
struct ParameterMemory {
  void *data = nullptr;
  int64_t rowStride = 0; ///< elements between the rows of columns of a matrix; else 0
};

/// Allocates one block for the rank's parameters, for a device that loads them. Matrices of
/// one matmul are columns of one matrix, and their biases are one vector; others are dense.
std::vector<ParameterMemory> allocateParameters(tpc_context &ctx, const Manifest &manifest,
                                                WeightLoader &loader, LoadedWeights &loaded) {
  std::vector<std::vector<int>> groups;
  std::vector<bool> isGrouped(manifest.parameters.size(), false);
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const Parameter &parameter = manifest.parameters[i];
    if (parameter.stage != manifest.stageOf(ctx.rank) || parameter.isShared() || isGrouped[i])
      continue;
    groups.push_back(groupOf(ctx, manifest, static_cast<int>(i),
                             [](const Parameter &one) { return one.dtype; }));
    for (int index : groups.back())
      isGrouped[index] = true;
  }
  auto bytesOf = [&](int index) {
    const Parameter &parameter = manifest.parameters[index];
    return *byteCount(shapeOf(ctx, parameter), parameter.dtype);
  };
  size_t total = 0;
  std::vector<size_t> offsets;
  for (const std::vector<int> &group : groups) {
    offsets.push_back(total);
    int64_t bytes = 0;
    for (int index : group)
      bytes += bytesOf(index);
    total += Arena::alignUp(static_cast<size_t>(bytes));
  }
  std::byte *base = loaded.add(*ctx.device, static_cast<int64_t>(total));
  std::vector<ParameterMemory> memory(manifest.parameters.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<int> &group = groups[g];
    const Parameter &parameter = manifest.parameters[group[0]];
    std::byte *at = base + offsets[g];
    if (!parameter.matmulRhs) {
      for (int index : group) {
        memory[index].data = at;
        ctx.data.parameters[index] = at;
        at += bytesOf(index);
      }
      continue;
    }
    std::vector<int64_t> widths = widthsOf(ctx, manifest, group);
    auto matrices = loader.matricesOf(at, shapeOf(ctx, parameter)[0], widths, parameter.dtype);
    int64_t stride = std::accumulate(widths.begin(), widths.end(), int64_t(0));
    for (size_t i = 0; i < group.size(); ++i) {
      ctx.data.matrices[group[i]] = std::move(matrices[i]);
      memory[group[i]] = {at, group.size() > 1 ? stride : 0};
      at += widths[i] * dtypeBytes(parameter.dtype);
    }
  }
  return memory;
}

} // namespace

void loadWeights(tpc_context &ctx, const Manifest &manifest, const WeightSources &sources) {
  auto loaded = std::make_unique<LoadedWeights>();
  ctx.data.parameters.assign(manifest.parameters.size(), nullptr);
  ctx.data.matrices.assign(manifest.parameters.size(), nullptr);
  ctx.data.packedExperts.clear();
  std::unique_ptr<WeightLoader> loader = ctx.device->makeWeightLoader();
  // Dry-run devices only check that matrices have the type of the matmul.
  auto typeOf = [&](const Parameter &parameter) {
    return sources.isNothing ? parameter.dtype : storedType(parameter);
  };
  std::vector<ParameterMemory> memory;
  if (loader)
    memory = allocateParameters(ctx, manifest, *loader, *loaded);
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const Parameter &parameter = manifest.parameters[i];
    int index = static_cast<int>(i);
    if (parameter.stage != manifest.stageOf(ctx.rank) || parameter.isShared())
      continue;
    LocalView view = localView(parameter, ctx.grid, ctx.coordinates);
    if (parameter.matmulRhs && !ctx.data.matrices[index])
      makeMatrices(ctx, manifest, index, typeOf);
    tpc_dtype stored = typeOf(parameter);
    if (sources.isNothing) {
      if (!loader)
        load(ctx, parameter, stored, view, index, Nothing{}, *loaded);
      continue;
    }
    if (parameter.file < 0) {
      if (loader)
        loader->clear(memory[i].data, *byteCount(view.shape(), stored));
      else
        load(ctx, parameter, stored, view, index, Zeros{dtypeBytes(stored)}, *loaded);
      continue;
    }
    if (sources.seed) {
      RandomSource random(*sources.seed, parameter);
      if (loader)
        uploadRandom(*loader, view, parameter.dtype, parameter.sourceDtype, random.generator(),
                     memory[i].data, memory[i].rowStride);
      else
        load(ctx, parameter, stored, view, index, Drawn{random, stored, parameter.sourceDtype},
             *loaded);
      continue;
    }
    SourceBytes bytes(*sources.files[parameter.file], parameter, view);
    if (loader)
      upload(*ctx.device, *loader, view, parameter.dtype, parameter.sourceDtype, bytes.data(),
             memory[i].data, memory[i].rowStride);
    else if (stored == parameter.sourceDtype)
      load(ctx, parameter, stored, view, index, SameType{bytes.data(), dtypeBytes(stored)},
           *loaded);
    else
      load(ctx, parameter, stored, view, index, Converted{bytes.data(), parameter.sourceDtype},
           *loaded);
    bytes.check();
  }
  for (size_t i = 0; i < manifest.parameters.size(); ++i)
    if (manifest.parameters[i].stage == manifest.stageOf(ctx.rank))
      share(ctx, manifest, static_cast<int>(i), sources.isNothing);
  ctx.program = std::move(loaded);
}

} // namespace tpc::rt
