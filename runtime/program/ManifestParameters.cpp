//===- ManifestParameters.cpp - Reads the manifest's parameters -----------===//

#include "program/ManifestNode.h"
#include "program/View.h"
#include <algorithm>
#include <map>

namespace tpc::rt {

namespace {

/// Rejects a view that exceeds its source tensor.
void checkView(const Node &node, const Parameter &parameter) {
  int64_t low = parameter.viewOffset, high = parameter.viewOffset, count = 1;
  bool overflow = false, empty = false;
  for (const auto &dim : parameter.dims)
    for (const ViewFactor &factor : dim) {
      int64_t reach = 0;
      if (!factor.offsets.empty()) { // the first offset is 0
        auto [smallest, largest] =
            std::minmax_element(factor.offsets.begin(), factor.offsets.end());
        overflow |= __builtin_add_overflow(low, *smallest, &low);
        overflow |= __builtin_add_overflow(high, *largest, &high);
        overflow |= __builtin_mul_overflow(count, factor.size, &count);
        continue;
      }
      overflow |=
          __builtin_mul_overflow(std::max<int64_t>(factor.size - 1, 0), factor.stride, &reach);
      overflow |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
      overflow |= __builtin_mul_overflow(count, factor.size, &count);
      empty |= factor.size == 0;
    }
  int64_t elements = parameter.bytes / dtypeBytes(parameter.sourceDtype);
  if (!empty && (overflow || low < 0 || high >= elements || count > INT64_MAX / 8))
    refuse(node.where, "the view of '" + parameter.name + "' exceeds its " +
                           std::to_string(elements) + " elements");
}

/// Returns the offset of each element of a compound factor: `of` lists sizes and strides, major to
/// minor.
std::vector<int64_t> readOffsets(const Node &of, int64_t size) {
  std::vector<int64_t> offsets{0};
  of.each([&](const Node &entry) {
    int64_t count = entry["size"].integerIn(1, 1 << 20), stride = entry["stride"].integer();
    int64_t reach = 0;
    if (static_cast<int64_t>(offsets.size()) * count > 1 << 20 ||
        __builtin_mul_overflow(count - 1, stride, &reach))
      refuse(entry.where, "the factor has too many parts");
    std::vector<int64_t> next;
    for (int64_t outer : offsets)
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        if (__builtin_add_overflow(outer, i * stride, &at))
          refuse(entry.where, "an offset of the factor does not fit in 64 bits");
        next.push_back(at);
      }
    offsets = std::move(next);
  });
  if (static_cast<int64_t>(offsets.size()) != size)
    refuse(of.where, "the parts have " + std::to_string(offsets.size()) +
                         " elements, but the factor has " + std::to_string(size));
  return offsets;
}

} // namespace

Parameter readParameter(const Node &node, const Manifest &manifest) {
  Parameter parameter;
  parameter.name = node["name"].name();
  parameter.stage = static_cast<int>(node["stage"].integerIn(0, manifest.numStages() - 1));
  parameter.dtype = readDtype(node["dtype"]);
  parameter.sourceDtype =
      node.has("source_dtype") ? readDtype(node["source_dtype"]) : parameter.dtype;
  if (parameter.dtype != parameter.sourceDtype && parameter.dtype != TPC_F32)
    refuse(node.where, "weights can be converted only to f32");
  parameter.file =
      static_cast<int>(node["file"].integerIn(-1, static_cast<int64_t>(manifest.files.size()) - 1));
  parameter.offset = node["offset"].integerIn(0, INT64_MAX / 4);
  parameter.bytes = node["bytes"].integerIn(0, INT64_MAX / 4);
  node.eachIfPresent("parts", [&](const Node &part) {
    parameter.parts.push_back(part.integerIn(0, INT64_MAX / 4));
  });
  if (auto count = static_cast<int64_t>(parameter.parts.size());
      count > 0 &&
      (parameter.bytes % (count * dtypeBytes(parameter.sourceDtype)) || parameter.bytes == 0))
    refuse(node.where, std::to_string(parameter.bytes) + " bytes of '" + parameter.name +
                           "' cannot have " + std::to_string(count) + " equal parts");
  parameter.viewOffset = node.integerOr("view_offset", 0);
  node["dims"].each([&](const Node &dim) {
    std::vector<ViewFactor> factors;
    dim.each([&](const Node &entry) {
      ViewFactor factor;
      factor.size = entry["size"].integerIn(0, INT64_MAX / 8);
      if (entry.has("of"))
        factor.offsets = readOffsets(entry["of"], factor.size);
      else
        factor.stride = entry["stride"].integer();
      if (entry.has("axes"))
        factor.axes = readAxes(entry["axes"], manifest);
      factors.push_back(std::move(factor));
    });
    parameter.dims.push_back(std::move(factors));
  });
  node.eachIfPresent("source_shape", [&](const Node &size) {
    parameter.sourceShape.push_back(size.integerIn(0, INT64_MAX / 8));
  });
  std::string use = node.textOr("use", "dense"), init = node.textOr("init", "normal");
  if (use != "dense" && use != "matmul_rhs" && use != "experts")
    refuse(node.where, "unknown use '" + use + "'");
  parameter.matmulRhs = use == "matmul_rhs";
  parameter.isExperts = use == "experts";
  bool isMultiplied =
      parameter.dtype == TPC_F32 || parameter.dtype == TPC_F16 || parameter.dtype == TPC_BF16;
  if (parameter.matmulRhs && (parameter.dims.size() != 2 || !isMultiplied))
    refuse(node.where, "a matmul_rhs must have two dimensions, and be f32, f16 or bf16");
  if (parameter.isExperts && (parameter.dims.size() != 3 || !isMultiplied))
    refuse(node.where, "matrices of experts must have three dimensions, and be f32, f16 or bf16");
  if (node.has("beside")) {
    auto count = static_cast<int64_t>(manifest.parameters.size());
    parameter.beside = static_cast<int>(node["beside"].integerIn(0, count - 1));
    const Parameter &other = manifest.parameters[parameter.beside];
    bool areVectors = parameter.dims.size() == 1 && other.dims.size() == 1;
    if (parameter.matmulRhs != other.matmulRhs || !(parameter.matmulRhs || areVectors) ||
        other.stage != parameter.stage)
      refuse(node.where, "both parameters of a fused pair must be a matmul_rhs, or both a bias, of "
                         "one stage");
  }
  if (init != "normal" && init != "ones" && init != "zeros")
    refuse(node.where, "unknown init '" + init + "'");
  parameter.init = init == "ones"    ? Parameter::Init::Ones
                   : init == "zeros" ? Parameter::Init::Zeros
                                     : Parameter::Init::Normal;
  if (parameter.file < 0 && (parameter.init != Parameter::Init::Zeros || parameter.matmulRhs))
    refuse(node.where, "a parameter without a file must be dense, and zeros");
  parameter.isUpdated = node.has("updated") && node["updated"].flag();
  if (parameter.isExperts && (parameter.isUpdated || parameter.file < 0))
    refuse(node.where, "matrices of experts must have a file, and not be updated");
  checkView(node, parameter);
  return parameter;
}

void findShared(std::vector<Parameter> &parameters) {
  auto sameSource = [](const Parameter &a, const Parameter &b) {
    return a.stage == b.stage && a.file == b.file && a.offset == b.offset && a.bytes == b.bytes &&
           a.viewOffset == b.viewOffset && a.sourceDtype == b.sourceDtype && a.name == b.name &&
           a.init == b.init && a.sourceShape == b.sourceShape && a.parts == b.parts;
  };
  auto isTable = [](const Parameter &table, const Parameter &matrix) {
    return table.dtype == matrix.dtype || table.dtype == storedType(matrix);
  };
  // Indexed by position in the file, because a model has thousands of parameters, and a tensor has
  // few uses.
  std::map<std::pair<int, int64_t>, std::vector<int>> bySource;
  for (size_t i = 0; i < parameters.size(); ++i)
    bySource[{parameters[i].file, parameters[i].offset}].push_back(static_cast<int>(i));
  for (const auto &[source, uses] : bySource)
    for (int index : uses) {
      Parameter &parameter = parameters[index];
      for (int other : uses) {
        const Parameter &candidate = parameters[other];
        if (other == index || !sameSource(parameter, candidate))
          continue;
        if (other < index && parameter.sameAs < 0 && candidate.dtype == parameter.dtype &&
            candidate.matmulRhs == parameter.matmulRhs && candidate.dims == parameter.dims &&
            !candidate.isShared()) {
          parameter.sameAs = other;
          parameters[other].isExperts &= parameter.isExperts; // else other ops read it too
        }
        if (parameter.transposeOf < 0 && parameter.matmulRhs && !candidate.matmulRhs &&
            isTable(candidate, parameter) && candidate.dims.size() == 2 && candidate.sameAs < 0 &&
            candidate.dims[0] == parameter.dims[1] && candidate.dims[1] == parameter.dims[0])
          parameter.transposeOf = other;
      }
    }
}

} // namespace tpc::rt
