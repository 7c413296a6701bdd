//===- Quantized.cpp - Operators on quantized weights ---------------------===//
//
// Quantized weights stay packed in the file's bytes. tpc.dequantize computes their numbers, which a
// reshape and a transpose convert to the matrix of a matmul:
//
//   bytes [N, blocks, bytes per block], scales [N, blocks]  ->  matrix [K, N]
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"

#include "onnx.pb.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Blocks of numbers along a row of a matrix: sizes that the attributes of a node give.
struct Blocks {
  int64_t rows, width, bits, block;

  int64_t count() const { return llvm::divideCeil(width, block); }
  int64_t bytes() const { return block * bits / 8; }
  int64_t perByte() const { return 8 / bits; }
  int64_t zeroBytes() const { return llvm::divideCeil(count(), perByte()); }
};
} // namespace

static bool hasSize(const Tensor &t, int64_t size) { return product(t.shape).isConstant(size); }

/// Reports an error unless `bits` and `block` describe blocks that are supported.
static LogicalResult checkBlocks(Node &n, int64_t bits, int64_t block) {
  if ((bits == 2 || bits == 4 || bits == 8) && block >= 16 && block <= (1 << 20) &&
      llvm::isPowerOf2_64(block))
    return success();
  return n.error() << "has bits = " << bits << " and block_size = " << block
                   << "; supported are 2, 4 and 8 bits in blocks of a power of two from 16 to 2^20";
}

/// Reports an error if numbers that the file has are not finite: they make all results NaN.
static LogicalResult checkFinite(Node &n, unsigned input, StringRef what) {
  const Tensor &numbers = n.in(input);
  if (!numbers.source || !numbers.source->fileExists || !numbers.isFloat() ||
      numbers.source->elements() == 0)
    return success();
  FailureOr<DenseElementsAttr> elements = n.importer.load(*numbers.source, n.loc);
  if (failed(elements))
    return failure();
  for (auto [i, number] : llvm::enumerate(elements->getValues<APFloat>()))
    if (!number.isFinite())
      return n.error() << "has the " << what << " " << number.convertToDouble() << " at element "
                       << i << " of '" << n.proto.input(input) << "'; " << what
                       << "s must be finite";
  return success();
}

LogicalResult mlir::tpc::frontend::checkScales(Node &n, unsigned input) {
  return checkFinite(n, input, "scale");
}

/// Returns zero points [rows, blocks, 1, 1]; null after an error.
static Value makeZeroPoints(Node &n, unsigned input, const Blocks &q, Type element) {
  const Tensor &given = n.in(input);
  SymExpr rows(q.rows), blocks(q.count()), one(1);
  bool isPacked = given.element.isInteger(8);
  if (!hasSize(given, q.rows * (isPacked ? q.zeroBytes() : q.count())) ||
      (!isPacked && given.element != element)) {
    n.error() << "has zero points " << str(given.shape) << " of " << given.element
              << "; they must be [" << q.rows << ", " << q.zeroBytes() << "] of bytes, or ["
              << q.rows << ", " << q.count() << "] of " << element;
    return {};
  }
  if (failed(checkFinite(n, input, "zero point")))
    return {};
  Value zero = n.weight(input);
  if (!isPacked || q.bits == 8)
    return n.reshape(zero, {rows, blocks, one, one});
  zero = n.dequantize(n.reshape(zero, {rows, SymExpr(q.zeroBytes())}), n.constant(element, 1), {},
                      q.bits);
  SymExpr all(q.zeroBytes() * q.perByte());
  zero = n.reshape(zero, {rows, all});
  if (all != blocks)
    zero = n.slice(zero, 1, SymExpr(0), blocks);
  return n.reshape(zero, {rows, blocks, one, one});
}

/// Returns the numbers of all blocks: [rows, blocks, bytes, numbers of a byte]. If a row uses only
/// a part of its last block, blocks are divided into equal parts, so that unused parts can be
/// omitted. This requires that parts end at bytes.
static Value makeNumbers(Node &n, unsigned bytes, unsigned scales, unsigned zeros, const Blocks &q,
                         int64_t zeroPoint) {
  SymExpr rows(q.rows), blocks(q.count()), one(1);
  Type element = n.in(scales).element;
  Value zero, scale = n.reshape(n.weight(scales), {rows, blocks, one, one}),
              packed = n.reshape(n.weight(bytes), {rows, blocks, SymExpr(q.bytes())});
  if (n.has(zeros) && !(zero = makeZeroPoints(n, zeros, q, element)))
    return {};
  int64_t part = std::gcd(q.width, q.block), used = q.width * q.bits / 8;
  if (part != q.block && part * q.bits % 8 == 0) {
    SmallVector<int64_t> blockOf;
    for (int64_t i = 0; i < q.width; i += part)
      blockOf.push_back(i / q.block);
    int64_t count = blockOf.size();
    auto type = RankedTensorType::get({count}, n.b.getI64Type());
    auto repeat = [&](Value v) -> Value {
      if (!v)
        return {};
      Value index = ConstantOp::create(n.b, n.loc, type,
                                       DenseElementsAttr::get(type, ArrayRef<int64_t>(blockOf)));
      return GatherOp::create(n.b, n.loc, n.type(elementOf(v), {rows, SymExpr(count), one, one}), v,
                              index, 1);
    };
    scale = repeat(scale);
    zero = repeat(zero);
    packed = n.slice(n.reshape(packed, {rows, SymExpr(q.count() * q.bytes())}), 1, SymExpr(0),
                     SymExpr(used));
    packed = n.reshape(packed, {rows, SymExpr(count), SymExpr(used / count)});
  }
  return n.dequantize(packed, scale, zero, q.bits, zero ? 0 : zeroPoint);
}

static LogicalResult importMatMulNBits(Node &n) {
  enum : unsigned { A, B, Scales, ZeroPoints, GroupIndex, Bias };
  if (failed(n.expectInputs(3, 6)) || failed(n.expectFloat(A)))
    return failure();
  int64_t bits = n.getInt("bits", 4), block = n.getInt("block_size", 0), k = n.getInt("K", 0),
          columns = n.getInt("N", 0), packing = n.getInt("weight_prepacked", 0);
  n.ignore("accuracy_level"); // a lower bound
  if (n.failed())
    return failure();
  if (n.has(GroupIndex))
    return n.error() << "has group indices (g_idx): rows of one block are anywhere in the matrix, "
                        "so that no split of rows has whole blocks; quantize the model without "
                        "reordering of rows (desc_act = false)";
  if (packing)
    return n.error() << "has weights in the layout of a GPU (weight_prepacked = " << packing
                     << "); store them with weight_prepacked = 0";
  constexpr int64_t largest = int64_t(1) << 31;
  if (failed(checkBlocks(n, bits, block)))
    return failure();
  if (k < 1 || columns < 1 || k > largest || columns > largest)
    return n.error() << "has K = " << k << " and N = " << columns << "; both must be 1 to 2^31";
  Blocks q{columns, k, bits, block};
  Type element = n.in(A).element;
  if (!n.in(B).element.isUnsignedInteger(8))
    return n.error() << "has packed weights of " << n.in(B).element << "; they must be bytes";
  if (!hasSize(n.in(B), columns * q.count() * q.bytes()) ||
      !hasSize(n.in(Scales), columns * q.count()) || n.in(Scales).element != element)
    return n.error() << "has packed weights " << str(n.in(B).shape) << " and scales "
                     << str(n.in(Scales).shape) << " of " << n.in(Scales).element << "; K = " << k
                     << " in blocks of " << block << " needs [" << columns << ", " << q.count()
                     << ", " << q.bytes() << "] and [" << columns << ", " << q.count() << "] of "
                     << element;
  if (failed(checkScales(n, Scales)))
    return failure();
  Value matrix = makeNumbers(n, B, Scales, ZeroPoints, q, int64_t(1) << (bits - 1));
  matrix = n.transpose(matrix, {1, 2, 3, 0});
  if (!matrix)
    return failure();
  SymExpr rows(k), all = product(ArrayRef(getSizes(matrix)).drop_back());
  matrix = n.reshape(matrix, {all, SymExpr(columns)});
  if (all != rows)
    matrix = n.slice(matrix, 0, SymExpr(0), rows);
  Value bias;
  if (n.has(Bias)) {
    if (n.in(Bias).element != element || !hasSize(n.in(Bias), columns))
      return n.error() << "has a bias " << str(n.in(Bias).shape) << " of " << n.in(Bias).element
                       << "; it must be [" << columns << "] of " << element;
    bias = n.reshape(n.operand(Bias), {SymExpr(columns)});
  }
  return n.result(n.matmul(n.operand(A), matrix, bias));
}

/// Imports a lookup of rows in a quantized table as a lookup in the dequantized table, so that the
/// table stays packed and its rows can be split.
static LogicalResult importGatherBlockQuantized(Node &n) {
  enum : unsigned { Data, Indices, Scales, ZeroPoints };
  if (failed(n.expectInputs(3, 4)))
    return failure();
  const Tensor &data = n.in(Data), &indices = n.in(Indices);
  int64_t block = n.getInt("block_size", 128), axis = n.getInt("gather_axis", 0),
          quantized = n.getInt("quantize_axis", 1), bits = n.getInt("bits", 4);
  if (n.failed())
    return failure();
  if (data.packedBits)
    bits = data.packedBits;
  if (!indices.isInt())
    return n.error() << "has indices of type " << indices.element << "; they must be integers";
  if (data.unalignedShape)
    return n.error() << "has a table " << str(*data.unalignedShape) << " of " << bits
                     << "-bit integers, whose rows must end at a byte";
  std::optional<int64_t> rows, bytes;
  if (data.rank() == 2) {
    rows = data.shape[0].asConstant();
    bytes = data.shape[1].asConstant();
  }
  if (!data.element.isInteger(8) || !rows || !bytes || axis != 0 ||
      (quantized != 1 && quantized != -1))
    return n.error() << "has a table " << str(data.shape) << " of " << data.element
                     << ", gather_axis = " << axis << " and quantize_axis = " << quantized
                     << "; supported are rows of a matrix of bytes, quantized along the rows";
  if (failed(checkBlocks(n, bits, block)))
    return failure();
  Blocks q{*rows, *bytes * (8 / bits), bits, block};
  Type element = n.in(Scales).element;
  if (!isa<FloatType>(element) || !hasSize(n.in(Scales), q.rows * q.count()) || q.width % block)
    return n.error() << "has a table [" << q.rows << ", " << q.width << "] and scales "
                     << str(n.in(Scales).shape) << " of " << element << "; blocks of " << block
                     << " need [" << q.rows << ", " << q.count() << "] of floats, and whole blocks";
  if (failed(checkScales(n, Scales)) || failed(checkIndices(n, indices, data, 0)))
    return failure();
  // The default zero point of integers that are packed in uint8 is the middle of their range; for
  // other types (int4, uint4, int8), it is 0.
  bool isSigned = !data.element.isUnsignedInteger(8);
  Value numbers = makeNumbers(n, Data, Scales, ZeroPoints, q,
                              data.packedBits || isSigned ? 0 : int64_t(1) << (bits - 1));
  Value ids = n.operand(Indices);
  if (!numbers || !ids)
    return failure();
  Sizes sizes(indices.shape), table = getSizes(numbers);
  sizes.append(table.begin() + 1, table.end());
  Value found = GatherOp::create(n.b, n.loc, n.type(element, sizes), numbers, ids, 0);
  sizes.truncate(indices.shape.size());
  sizes.push_back(SymExpr(q.width));
  return n.result(n.reshape(found, sizes));
}

void mlir::tpc::frontend::addQuantizedOps(OpTable &t) {
  t.addMicrosoft("MatMulNBits", importMatMulNBits, "2, 4 or 8 bits; no g_idx, no weight_prepacked");
  t.addMicrosoft("GatherBlockQuantized", importGatherBlockQuantized,
                 "gather_axis = 0; a matrix quantized along its rows in whole blocks");
  t.unpacks("com.microsoft", "GatherBlockQuantized");
}
