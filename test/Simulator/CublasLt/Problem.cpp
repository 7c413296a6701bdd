//===- Problem.cpp - Supported matmuls and their algorithms ---------------===//

#include "Matmul.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace sim::lt {

static bool known(DataType type) { return type == F32 || type == F16 || type == Bf16; }

Status Problem::make(const Desc &desc, const Layout &a, const Layout &b, const Layout &c,
                     const Layout &d, Problem &made, std::string &why) {
  made = {};
  made.desc = desc;
  made.layouts = {a, b, c, d};
  auto refuse = [&](Status status, const std::string &what) {
    why = what;
    return status;
  };
  const char *names[] = {"A", "B", "C", "D"};
  for (unsigned i = 0; i < 4; ++i) {
    const Layout &one = made.layouts[i];
    std::string name = names[i];
    if (!known(one.type))
      return refuse(NOT_SUPPORTED, "the type of " + name);
    if (!one.rows || !one.cols)
      return refuse(INVALID_VALUE, name + " is empty");
    uint64_t length = one.order == Col ? one.rows : one.cols;
    if (one.ld < 0 || uint64_t(one.ld) < length)
      return refuse(INVALID_VALUE, "the leading dimension of " + name + " is " +
                                       std::to_string(one.ld) + ", less than " +
                                       std::to_string(length));
    if (one.batches < 1 || one.batches != d.batches)
      return refuse(INVALID_VALUE, "the batches of " + name + " and D are " +
                                       std::to_string(one.batches) + " and " +
                                       std::to_string(d.batches));
    uint64_t lines = one.order == Col ? one.cols : one.rows;
    if (i == 3 && one.batches > 1 &&
        uint64_t(one.stride) < (lines - 1) * uint64_t(one.ld) + length &&
        uint64_t(one.stride) < length)
      return refuse(INVALID_VALUE, "batches of D overlap");
  }
  auto rows = [](const Layout &layout, Operation op) {
    return op == OpN ? layout.rows : layout.cols;
  };
  auto cols = [](const Layout &layout, Operation op) {
    return op == OpN ? layout.cols : layout.rows;
  };
  made.m = rows(a, desc.transA);
  made.k = cols(a, desc.transA);
  made.n = cols(b, desc.transB);
  if (rows(b, desc.transB) != made.k)
    return refuse(INVALID_VALUE, "op(A) has " + std::to_string(made.k) + " columns and op(B) " +
                                     std::to_string(rows(b, desc.transB)) + " rows");
  for (const Layout *one : {&c, &d})
    if (one->rows != made.m || one->cols != made.n)
      return refuse(INVALID_VALUE, "op(A) op(B) is " + std::to_string(made.m) + "x" +
                                       std::to_string(made.n) + ", and C or D " +
                                       std::to_string(one->rows) + "x" + std::to_string(one->cols));
  if (desc.transC != OpN)
    return refuse(NOT_SUPPORTED, "C cannot be transposed");
  if (a.type != b.type || c.type != d.type || (a.type == F32 && d.type != F32) ||
      (d.type != F32 && d.type != a.type))
    return refuse(NOT_SUPPORTED, "these types together");
  if (desc.scale != F32)
    return refuse(NOT_SUPPORTED, "a scale type other than f32");
  if (a.type != F32 && desc.compute != Compute32F && desc.compute != Compute32FPedantic)
    return refuse(NOT_SUPPORTED, "this compute type for 16 bits");
  if ((desc.epilogue & Bias) && !desc.bias)
    return refuse(INVALID_VALUE, "the epilogue needs a bias, but none is set");
  if ((desc.epilogue & Bias) && desc.biasType >= 0 && desc.biasType != int(d.type))
    return refuse(NOT_SUPPORTED, "a bias of another type than D");
  // The documentation requires column order: a bias is added to rows, whose elements are
  // contiguous.
  if (desc.epilogue != Default && d.order != Col)
    return refuse(NOT_SUPPORTED, "an epilogue with D in row order");
  return SUCCESS;
}

std::string Problem::name() const {
  char digits[20];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash()));
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + digits;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 33;
}

uint64_t Problem::hash() const {
  uint64_t hash = 0;
  for (uint64_t value : {m, n, k, uint64_t(desc.compute), uint64_t(desc.transA),
                         uint64_t(desc.transB), uint64_t(desc.epilogue)})
    hash = mix(hash, value);
  for (const Layout &layout : layouts)
    for (uint64_t value : {uint64_t(layout.type), uint64_t(layout.order), uint64_t(layout.ld),
                           uint64_t(layout.batches)})
      hash = mix(hash, value);
  return hash;
}

AlgorithmChoice choose(const Problem &problem, const Preference &preference, uint64_t seed,
                       unsigned n) {
  uint64_t random = mix(mix(problem.hash(), seed), n);
  auto draw = [&](uint64_t below) {
    random = mix(random, below);
    return (random >> 11) % below;
  };
  AlgorithmChoice made{};
  made.magic = choiceMagic;
  made.problem = problem.hash();
  made.id = n;
  // Some algorithms use all of the maximum workspace.
  uint64_t workspaces[] = {0, 0, 4096, 65536, 1 << 20, preference.maxWorkspace};
  uint64_t wanted = workspaces[draw(std::size(workspaces))];
  made.workspace = wanted <= preference.maxWorkspace ? wanted : 0;
  for (unsigned i = 0; i < 4; ++i) {
    // An alignment is at most the preferences', and at least the size of an element.
    uint32_t limit = std::max(preference.alignment[i], bytesOf(problem.layouts[i].type));
    made.alignment[i] = std::min<uint32_t>(limit, 4u << draw(7));
    made.alignment[i] = std::max(made.alignment[i], bytesOf(problem.layouts[i].type));
  }
  constexpr uint32_t chunks[] = {1u << 30, 16, 32, 64, 100, 256};
  made.chunk = chunks[draw(std::size(chunks))];
  // The heuristic recommends some algorithms that the call then rejects. For one of three seeds,
  // the first algorithm is one of these.
  made.refused = n ? draw(4) == 0 : draw(3) == 0;
  // The first algorithm need not be the fastest, because heuristics only estimate.
  made.pace = 1 + double(draw(12)) / 4;
  return made;
}

} // namespace sim::lt
