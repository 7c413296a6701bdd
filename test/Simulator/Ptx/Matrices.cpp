//===- Matrices.cpp - Instructions mma, ldmatrix, stmatrix, movmatrix -----===//
//
// Fragments are as in the PTX manual, "Warp Level Matrix Instructions": lane l has group l / 4 and
// position l % 4 in it. All lanes of a warp execute these instructions together.
//
// The manual leaves the order of the sum of an mma unspecified, and its rounding. The seed chooses
// among rounded f32 additions in some order, and the sums of blocks of 4, 8 or 16 products that
// devices were seen to compute: terms are aligned with the largest, and truncated (M. Fasi et al.,
// "Numerical behavior of NVIDIA tensor cores").
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

namespace {

constexpr unsigned rows = 16, columns = 8, maxDepth = 16;

// ---- sums of products ----

uint64_t exponentOf(double value) { return std::bit_cast<uint64_t>(value) >> 52 & 0x7ff; }

float truncateToFloat(double value) {
  auto rounded = float(value);
  if (std::isfinite(rounded) && std::fabs(double(rounded)) > std::fabs(value))
    rounded = std::nextafter(rounded, 0.0f);
  return rounded;
}

/// Adds finite terms to a sum. Each is truncated to a multiple of 2^-(23 + extraBits) of the
/// largest power of two in a term.
float addTruncated(float sum, const double *terms, unsigned count, unsigned extraBits) {
  uint64_t largest = exponentOf(sum);
  for (unsigned i = 0; i < count; ++i)
    largest = std::max(largest, exponentOf(terms[i]));
  if (!largest)
    return sum;
  uint64_t exponent = largest - 23 - extraBits;
  double unit = std::bit_cast<double>(exponent << 52),
         inverse = std::bit_cast<double>((2046 - exponent) << 52);
  auto total = int32_t(double(sum) * inverse); // 17 terms below 2^26
  for (unsigned i = 0; i < count; ++i)
    total += int32_t(terms[i] * inverse);
  return truncateToFloat(double(total) * unit);
}

float addProducts(uint64_t seed, float sum, const double *products, unsigned depth) {
  uint64_t draw = (seed + 1) * 0x9e3779b97f4a7c15 >> 40;
  if (unsigned way = draw & 3) {
    unsigned size = 2u << way; // 4, 8 or 16
    for (unsigned from = 0; from < depth; from += size)
      sum = addTruncated(sum, products + from, std::min(size, depth - from), way - 1);
    return sum;
  }
  unsigned first = unsigned(draw >> 2) % depth, step = draw >> 8 & 1 ? 1 : depth - 1;
  for (unsigned i = 0; i < depth; ++i)
    sum = float(double(sum) + products[(first + i * step) % depth]);
  return sum;
}

/// A matrix product of a warp: D = A B + C, with A 16 x depth, B depth x 8.
struct Product {
  unsigned depth = 0;
  float a[rows][maxDepth], b[columns][maxDepth], c[rows][columns];

  /// Computes D in place of C.
  void run(uint64_t seed) {
    for (unsigned i = 0; i < rows; ++i)
      for (unsigned j = 0; j < columns; ++j) {
        double products[maxDepth], sum = c[i][j];
        for (unsigned k = 0; k < depth; ++k)
          sum += products[k] = double(a[i][k]) * double(b[j][k]);
        c[i][j] = canonical(std::isfinite(sum) ? addProducts(seed, c[i][j], products, depth)
                                               : float(sum));
      }
  }
};

// ---- mma ----

float widenTf32(uint32_t bits) { return toFloat(bits & ~0x1fffu); }

/// Widens element `half` of a register, which has one element of TF32 or two of 16 bits.
float elementOf(Type type, uint32_t bits, unsigned half) {
  auto own = uint16_t(bits >> 16 * half);
  return type == Type::TF32  ? widenTf32(bits)
         : type == Type::F16 ? F16::widen(own)
                             : BF16::widen(own);
}

// The instruction's list has the slots of D, A, B and C.
void runMma(Warp &warp, const Inst &inst, Mask mask) {
  const Slot *d = warp.kernel.lists.data() + inst.list, *a = d + 4;
  unsigned perRegister = inst.type == Type::TF32 ? 1 : 2, depth = inst.vector;
  unsigned aCount = rows * depth / warpSize / perRegister, bCount = aCount / 2;
  const Slot *b = a + aCount, *c = b + bCount;
  for (const Slot *slot = a; slot != c + 4; ++slot)
    if (Mask missing = mask & ~warp.defined(*slot))
      warp.machine.report(Check::Initialization, warp, unsigned(std::countr_zero(missing)),
                          "reads a register that this thread has not written");
  Product product;
  product.depth = depth;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    unsigned group = lane / 4, position = lane % 4;
    // A register of A has adjacent elements of one row. Registers alternate between the upper and
    // the lower 8 rows; each pair begins 4 registers later in the row. A register of B has adjacent
    // elements of one column; each begins 4 registers later in the column.
    for (unsigned i = 0; i < aCount; ++i)
      for (unsigned half = 0; half < perRegister; ++half)
        product.a[group + i % 2 * 8][(position + i / 2 * 4) * perRegister + half] =
            elementOf(inst.type, warp.data<uint32_t>(a[i])[lane], half);
    for (unsigned i = 0; i < bCount; ++i)
      for (unsigned half = 0; half < perRegister; ++half)
        product.b[group][(position + i * 4) * perRegister + half] =
            elementOf(inst.type, warp.data<uint32_t>(b[i])[lane], half);
    for (unsigned i = 0; i < 4; ++i)
      product.c[group + i / 2 * 8][position * 2 + i % 2] = warp.data<float>(c[i])[lane];
  }
  product.run(warp.machine.seed());
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      warp.data<float>(d[i])[lane] = product.c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    warp.defined(d[i]) |= mask;
  }
}

/// Appends the slots of an operand that is a vector of `count` registers to the kernel's lists.
void addVector(Decoder &decoder, size_t i, unsigned count, Type type, bool isDestination) {
  const Operand &operand = decoder.operand(i);
  size_t has = operand.kind == Operand::Vector ? operand.elements.size() : 1;
  if (has != count)
    decoder.fail("operand " + std::to_string(i) + " must have " + std::to_string(count) +
                 " registers");
  for (unsigned at = 0; at < count; ++at) {
    const Operand &each = operand.kind == Operand::Vector ? operand.elements[at] : operand;
    decoder.kernel.kernel.lists.push_back(isDestination ? decoder.destinationOf(each, type)
                                                        : decoder.sourceOf(each, type));
  }
}

/// Decodes what these instructions have in common.
void beginWarpWide(Decoder &decoder) {
  Inst &inst = decoder.inst;
  if (!decoder.take("sync") || !decoder.take("aligned"))
    decoder.fail("the instruction must have .sync.aligned");
  inst.flow = Flow::Warp;
  inst.aligned = true;
  inst.src[3] = decoder.kernel.constant(4, allLanes);
  inst.list = uint32_t(decoder.kernel.kernel.lists.size());
}

void decodeMma(Decoder &decoder) {
  Inst &inst = decoder.inst;
  beginWarpWide(decoder);
  decoder.expectCount(4);
  inst.cls = Class::Matrix;
  int shape = decoder.takeOneOf({"m16n8k4", "m16n8k8", "m16n8k16"});
  if (shape < 0 || !decoder.take("row") || !decoder.take("col"))
    decoder.fail("mma must have .m16n8k4, .m16n8k8 or .m16n8k16, and .row.col");
  Type d = decoder.takeType();
  inst.type = decoder.takeType();
  Type b = decoder.takeType(), c = decoder.takeType();
  bool wide = inst.type == Type::TF32;
  if (d != Type::F32 || c != Type::F32 || b != inst.type ||
      (inst.type != Type::F16 && inst.type != Type::BF16 && !wide) || shape == (wide ? 2 : 0))
    decoder.fail("no such mma");
  inst.vector = uint8_t(4 << shape);
  unsigned registers = inst.vector / (wide ? 2 : 4); // of A
  addVector(decoder, 0, 4, Type::F32, true);
  addVector(decoder, 1, registers, Type::B32, false);
  addVector(decoder, 2, registers / 2, Type::B32, false);
  addVector(decoder, 3, 4, Type::F32, false);
  inst.run = runMma;
}

// ---- matrices of 8 x 8 elements of 16 bits ----

constexpr uint8_t narrowAddress = 1, transposed = 2;

/// Returns the element in half `half` of lane `lane`'s register of a matrix, as an index in memory.
unsigned elementIndex(unsigned lane, unsigned half, bool isTransposed) {
  unsigned row = lane / 4, column = lane % 4 * 2 + half;
  return isTransposed ? column * 8 + row : row * 8 + column;
}

/// Accesses `inst.vector` matrices in shared memory: the rows of 16 bytes of matrix i are at the
/// addresses that lanes 8 i to 8 i + 7 have. Calls f(matrix, row, bytes of the row).
template <class F> void accessRows(Warp &warp, const Inst &inst, AccessKind kind, F f) {
  uint64_t addresses[warpSize];
  addressesOf(warp, inst.src[0], inst.flags & narrowAddress, uint64_t(inst.offset), addresses);
  unsigned lanes = 8u * inst.vector;
  Request whole{.lanes = lanes == warpSize ? allLanes : (Mask(1) << lanes) - 1,
                .kind = kind,
                .bytes = 16,
                .addresses = addresses,
                .tracked = false};
  warp.machine.access(
      warp, inst, whole, [&](const Region &region, Mask some, const uint64_t *offsets) {
        forLanes(some, [&](unsigned lane) { f(lane / 8, lane % 8, region.data + offsets[lane]); });
      });
  // A word counts as accessed by the lanes that have its elements, not by the one that has the
  // address.
  for (unsigned matrix = 0; matrix < inst.vector; ++matrix)
    for (unsigned half = 0; half < (inst.flags & transposed ? 2u : 1u); ++half) {
      uint64_t own[warpSize];
      for (unsigned lane = 0; lane < warpSize; ++lane) {
        unsigned element = elementIndex(lane, half, inst.flags & transposed);
        own[lane] = addresses[8 * matrix + element / 8] +
                    (kind == AccessKind::Write ? element % 8 : element % 8 / 2 * 2) * 2;
      }
      Request part{.lanes = allLanes,
                   .kind = kind,
                   .bytes = kind == AccessKind::Write && (inst.flags & transposed) ? 2u : 4u,
                   .addresses = own,
                   .counted = false};
      warp.machine.access(warp, inst, part, [](const Region &, Mask, const uint64_t *) {});
    }
}

void runLoadMatrix(Warp &warp, const Inst &inst, Mask mask) {
  const Slot *list = warp.kernel.lists.data() + inst.list;
  uint16_t elements[4][64];
  accessRows(warp, inst, AccessKind::Read, [&](unsigned matrix, unsigned row, const uint8_t *from) {
    std::memcpy(elements[matrix] + 8 * row, from, 16);
  });
  for (unsigned matrix = 0; matrix < inst.vector; ++matrix) {
    auto *to = warp.data<uint16_t>(list[matrix]);
    for (unsigned i = 0; i < 64; ++i)
      to[i] = elements[matrix][elementIndex(i / 2, i % 2, inst.flags & transposed)];
    warp.defined(list[matrix]) |= mask;
  }
}

void runStoreMatrix(Warp &warp, const Inst &inst, Mask mask) {
  const Slot *list = warp.kernel.lists.data() + inst.list;
  uint16_t elements[4][64];
  for (unsigned matrix = 0; matrix < inst.vector; ++matrix) {
    if (Mask missing = mask & ~warp.defined(list[matrix]))
      warp.machine.report(Check::Initialization, warp, unsigned(std::countr_zero(missing)),
                          "writes a register that this thread has not written");
    const auto *from = warp.data<uint16_t>(list[matrix]);
    for (unsigned i = 0; i < 64; ++i)
      elements[matrix][elementIndex(i / 2, i % 2, inst.flags & transposed)] = from[i];
  }
  accessRows(warp, inst, AccessKind::Write, [&](unsigned matrix, unsigned row, uint8_t *to) {
    std::memcpy(to, elements[matrix] + 8 * row, 16);
  });
}

void decodeMatrixAccess(Decoder &decoder) {
  Inst &inst = decoder.inst;
  bool load = decoder.statement.opcode == "ldmatrix";
  beginWarpWide(decoder);
  decoder.expectCount(2);
  inst.cls = Class::Shared;
  inst.space = Space::Shared;
  int count = decoder.takeOneOf({"x1", "x2", "x4"});
  if (!decoder.take("m8n8") || count < 0 || decoder.takeOneOf({"shared", "shared::cta"}) < 0 ||
      decoder.takeType() != Type::B16)
    decoder.fail("no such access to matrices");
  inst.vector = uint8_t(1 << count);
  const Operand &address = decoder.operand(load ? 1 : 0);
  bool narrow = false;
  inst.src[0] = decoder.addressBase(address, Space::Shared, narrow);
  inst.offset = address.offset;
  inst.flags = uint8_t((narrow ? narrowAddress : 0) | (decoder.take("trans") ? transposed : 0));
  addVector(decoder, load ? 0 : 1, inst.vector, Type::B32, load);
  inst.run = load ? runLoadMatrix : runStoreMatrix;
}

void runMoveMatrix(Warp &warp, const Inst &inst, Mask) {
  uint16_t elements[64];
  std::memcpy(elements, warp.data<uint16_t>(inst.src[0]), sizeof(elements));
  auto *to = warp.data<uint16_t>(inst.dst);
  for (unsigned i = 0; i < 64; ++i)
    to[i] = elements[elementIndex(i / 2, i % 2, true)];
}

void decodeMoveMatrix(Decoder &decoder) {
  Inst &inst = decoder.inst;
  beginWarpWide(decoder);
  decoder.expectCount(2);
  inst.cls = Class::Shuffle;
  if (!decoder.take("m8n8") || !decoder.take("trans") || decoder.takeType() != Type::B16)
    decoder.fail("only movmatrix.m8n8.trans.b16 exists");
  decoder.sources(Type::B32, 1, 1);
  inst.dst = decoder.destination(0, Type::B32);
  inst.run = runMoveMatrix;
}

} // namespace

void ptx::addMatrices(OpcodeTable &table) {
  table["mma"] = decodeMma;
  table["ldmatrix"] = decodeMatrixAccess;
  table["stmatrix"] = decodeMatrixAccess;
  table["movmatrix"] = decodeMoveMatrix;
}
