//===- Values.cpp - Tensors of a file as program values -------------------===//

#include "Importer.h"
#include "tpc/Dialect/Elements.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

std::string mlir::tpc::frontend::str(ArrayRef<SymExpr> sizes) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(sizes))
    text += (i ? ", " : "") + size.str();
  return text + "]";
}

bool mlir::tpc::frontend::isReasonable(const SymExpr &e) {
  return !e.isOverflow() && e.getTerms().size() <= 64 && e.str().size() <= 1000;
}

std::string mlir::tpc::frontend::findFault(ArrayRef<SymExpr> sizes) {
  if (sizes.size() > 32)
    return "has " + std::to_string(sizes.size()) + " dimensions; at most 32 are supported";
  int64_t bytes = 8, terms = 1;
  for (const SymExpr &size : sizes) {
    if (!isReasonable(size) || (terms *= std::max<int64_t>(1, size.getTerms().size())) > 4096)
      return "has a size whose expression is too complex";
    int64_t constant = size.asConstant().value_or(1);
    if (constant < 0)
      return "is of negative size, " + str(sizes);
    if (constant && __builtin_mul_overflow(bytes, constant, &bytes))
      return "is too large for any machine, " + str(sizes);
  }
  return "";
}

/// Returns true for tensors that become constants of the program instead of weights:
/// * tensors without a byte range in a file (TensorSource::memory),
/// * integers and booleans up to 64 KiB (tables, masks),
/// * single numbers,
/// * floats up to 64 KiB of at least 3 dimensions, the first of size 1 (many of them are masks),
/// * Constant nodes of up to 64 elements (likewise).
static bool isConstant(const TensorSource &source, bool isInitializer) {
  constexpr uint64_t limit = 64 << 10;
  if (source.elements() <= 1 || source.file.empty())
    return true;
  if (source.bytes > limit)
    return false;
  if (isa<IntegerType>(source.type.getElementType()))
    return true;
  return (source.type.getRank() >= 3 && source.type.getDimSize(0) == 1) ||
         (!isInitializer && source.elements() <= 64);
}

FailureOr<Tensor> Importer::readTensor(const ::onnx::TensorProto &proto, const Twine &what,
                                       Location loc, bool isInitializer) {
  llvm::Expected<TensorSource> read = reader.read(proto);
  if (!read)
    return emitError(loc) << what << " " << llvm::toString(read.takeError());
  auto source = std::make_shared<TensorSource>(std::move(*read));
  if (!source->fileExists && missingFiles.insert(source->file).second) {
    if (!options.allowMissingData)
      return emitError(loc) << "the data file '" << source->file << "' of " << what
                            << " does not exist";
    emitRemark(loc)
        << "the data file '" << source->file << "' does not exist (pass its location "
        << "with tpcc's --weights=); the program needs it, or other weights, at run time";
  }
  if (source->file.empty() && source->memory.size() > (64 << 10))
    return emitError(loc) << what << " has " << source->elements()
                          << " elements in a field for numbers of variable length; store it as raw "
                             "data (save the model once more with the onnx package)";
  Tensor tensor;
  tensor.element = source->type.getElementType();
  tensor.packedBits = source->packedBits;
  if (source->unalignedShape)
    tensor.unalignedShape =
        llvm::map_to_vector<8>(*source->unalignedShape, [](int64_t size) { return SymExpr(size); });
  for (int64_t size : source->type.getShape())
    tensor.shape.push_back(SymExpr(size));
  bool known = isConstant(*source, isInitializer) && source->elements() <= kMaxContents;
  tensor.source = source;
  if (!known || !source->fileExists)
    return tensor;

  FailureOr<DenseElementsAttr> elements = load(*source, loc);
  if (failed(elements))
    return failure();
  auto contents = std::make_shared<Contents>();
  if (isa<FloatType>(tensor.element)) {
    contents->isFloat = true;
    for (const APFloat &value : elements->getValues<APFloat>())
      contents->floats.push_back(value.convertToDouble());
  } else {
    bool hasNoSign = isUnsigned(tensor.element);
    for (const APInt &value : elements->getValues<APInt>())
      contents->ints.push_back(
          SymExpr(hasNoSign ? (int64_t)value.getZExtValue() : value.getSExtValue()));
  }
  tensor.contents = contents;
  return tensor;
}

FailureOr<DenseElementsAttr> Importer::load(const TensorSource &source, Location loc) {
  llvm::Expected<DenseElementsAttr> elements = reader.load(source);
  if (!elements)
    return emitError(loc) << "'" << source.name << "': " << llvm::toString(elements.takeError());
  return *elements;
}

FlatSymbolRefAttr Importer::weightFor(const TensorSource &source, Location loc) {
  FlatSymbolRefAttr &symbol = weights[&source];
  if (symbol)
    return symbol;
  // Two graphs of one file may use the same name.
  std::string base = source.name.empty() ? "weight" : source.name, name = base;
  for (int i = 1; !symbolNames.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(main);
  WeightOp::create(builder, NameLoc::get(builder.getStringAttr(base), fileLoc()), name, source.file,
                   source.offset, source.getStoredType());
  symbol = FlatSymbolRefAttr::get(context, name);
  return symbol;
}

Value Importer::createParameter(const Tensor &tensor, Location loc) {
  const TensorSource &source = *tensor.source;
  keptSources.push_back(tensor.source);
  if (!source.storedType)
    return ParameterOp::create(builder, loc, makeTensorType(tensor.element, tensor.shape),
                               weightFor(source, loc), ViewAttr());
  RankedTensorType stored = source.storedType;
  Value value = ParameterOp::create(builder, loc, stored, weightFor(source, loc), ViewAttr());
  Type element = stored.getElementType();
  SmallVector<int64_t> shape(source.type.getShape()), permutation;
  int64_t rank = shape.size();
  if (source.isTransposed)
    std::swap(shape[rank - 2], shape[rank - 1]);
  if (auto type = RankedTensorType::get(shape, element); type != stored)
    value = ReshapeOp::create(builder, loc, type, value);
  if (source.isTransposed) {
    for (int64_t i = 0; i < rank; ++i)
      permutation.push_back(i < rank - 2 ? i : 2 * rank - 3 - i);
    value = TransposeOp::create(
        builder, loc, RankedTensorType::get(source.type.getShape(), element), value, permutation);
  }
  return element == tensor.element ? value
                                   : Value(CastOp::create(builder, loc, source.type, value));
}

/// Returns element `i` as an attribute of a float or integer type.
static Attribute numberAttr(Type type, const Contents &contents, size_t i) {
  if (isa<FloatType>(type))
    return FloatAttr::get(type, roundTo(type, contents.floats[i]));
  return IntegerAttr::get(type, APInt(type.getIntOrFloatBitWidth(),
                                      (uint64_t)*contents.ints[i].asConstant(),
                                      /*isSigned=*/false, /*implicitTrunc=*/true));
}

Value Importer::materialize(const Tensor &tensor, Location loc) {
  if (tensor.value)
    return tensor.value;
  RankedTensorType type = makeTensorType(tensor.element, tensor.shape);
  if (const Contents *contents = tensor.contents.get()) {
    bool constant = contents->isFloat ||
                    llvm::all_of(contents->ints, [](const SymExpr &e) { return e.isConstant(); });
    if (constant) {
      SmallVector<Attribute> elements;
      for (size_t i = 0; i < contents->size(); ++i)
        elements.push_back(numberAttr(tensor.element, *contents, i));
      return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, elements));
    }
    // Sizes used as numbers.
    RankedTensorType scalar = makeTensorType(tensor.element, ArrayRef<SymExpr>());
    RankedTensorType one = makeTensorType(tensor.element, {SymExpr(1)});
    SmallVector<Value> parts;
    for (const SymExpr &e : contents->ints)
      parts.push_back(SizeOp::create(builder, loc, scalar, e));
    if (tensor.shape.empty())
      return parts[0];
    for (Value &part : parts)
      part = ReshapeOp::create(builder, loc, one, part);
    Value whole = parts[0];
    if (parts.size() > 1)
      whole = ConcatOp::create(
          builder, loc, makeTensorType(tensor.element, {SymExpr((int64_t)parts.size())}), parts, 0);
    return whole.getType() == type ? whole : Value(ReshapeOp::create(builder, loc, type, whole));
  }
  const TensorSource &source = *tensor.source;
  // The initializer flag matters only for tensors with known contents.
  if (isConstant(source, /*isInitializer=*/true) && source.fileExists) {
    FailureOr<DenseElementsAttr> elements = load(source, loc);
    if (failed(elements))
      return {};
    return ConstantOp::create(builder, loc, type, *elements);
  }
  if (std::optional<Band> band = reader.findBand(source)) {
    // A band mask made by ops costs no memory, and analyses can derive the visible keys from it.
    Attribute inside =
        IntegerAttr::get(tensor.element, APInt(tensor.element.getIntOrFloatBitWidth(),
                                               tensor.isBool() ? 1 : band->value));
    Value all = ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, inside));
    for (bool upper : {true, false})
      if (std::optional<int64_t> k = upper ? band->first : band->last)
        all = TriluOp::create(builder, loc, type, all, upper, SymExpr(*k));
    return all;
  }
  if (std::optional<::tpc::Ramp> ramp = reader.findRamp(source)) {
    // The product of slopes and columns equals the table bit by bit, and analyses recognize its
    // factors.
    Sizes slopes = tensor.shape, columns(tensor.shape.size(), SymExpr(1));
    slopes.back() = 1;
    columns.back() = tensor.shape.back();
    Type single = builder.getF32Type();
    RankedTensorType numbers = makeTensorType(single, slopes);
    Value slope = ConstantOp::create(
        builder, loc, numbers, DenseElementsAttr::get(numbers, ArrayRef<float>(ramp->slopes)));
    RankedTensorType whole = makeTensorType(builder.getI64Type(), columns);
    RankedTensorType scalar = makeTensorType(builder.getI64Type(), ArrayRef<SymExpr>());
    Value start = ConstantOp::create(builder, loc, scalar,
                                     DenseElementsAttr::get(scalar, int64_t(ramp->start)));
    Value column = IotaOp::create(builder, loc, whole, columns.size() - 1);
    column = AddOp::create(builder, loc, whole, column, start);
    column = CastOp::create(builder, loc, makeTensorType(single, columns), column);
    Value table = MulOp::create(builder, loc, makeTensorType(single, tensor.shape), slope, column);
    return tensor.element == single ? table : CastOp::create(builder, loc, type, table);
  }
  return createParameter(tensor, loc);
}

Value Importer::materializeWeight(const Tensor &tensor, Location loc) {
  if (tensor.value || !tensor.source || tensor.source->file.empty() ||
      tensor.source->elements() <= 1)
    return materialize(tensor, loc);
  return createParameter(tensor, loc);
}
