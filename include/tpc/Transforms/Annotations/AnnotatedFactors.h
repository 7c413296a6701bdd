//===- AnnotatedFactors.h - Factors that an annotation names ----*- C++ -*-===//
//
// `#tpc.dim<2{tp} * 24>` are two contiguous halves of 48 columns, `#tpc.dim<2 * 24{tp}>` the first
// half of each of two: what a rank holds is said exactly. A class says the same if its parts are
// the same elements; where none does, classes are divided.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H
#define TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H

#include "tpc/Analysis/FactorClasses.h"

namespace mlir::tpc {

/// Whether an annotated dimension says exactly which elements a rank holds. One factor is split at
/// the outermost class that can be.
inline bool isExact(DimAttr dim) { return dim && dim.getFactors().size() > 1; }

struct AnnotatedClass {
  int cls;
  unsigned dim; // of the value
};

class AnnotatedFactors {
public:
  AnnotatedFactors(FactorClasses &classes, GridAttr grid) : classes(classes), grid(grid) {}

  /// The class of `value` whose parts over the axes of factor `factor` of its dimension `dim`,
  /// annotated as `annotation`, are those that the annotation says.
  std::optional<AnnotatedClass> find(Value value, unsigned dim, DimAttr annotation,
                                     unsigned factor);
  /// The same for a view of a weight of which dimension `dim` is annotated.
  std::optional<AnnotatedClass> find(ParameterOp parameter, WeightOp weight, unsigned dim,
                                     DimAttr annotation, unsigned factor);
  /// Whether a view has more than one index of a weight's dimension.
  static bool varies(ParameterOp parameter, WeightOp weight, unsigned dim);

  /// Axes of more than one rank.
  SmallVector<StringAttr> getAxes(FactorAttr factor) const;

  /// Divides classes of all that is annotated in `module`, where that makes what is said a class.
  void divide(ModuleOp module);

private:
  void divide(ParameterOp parameter, WeightOp weight, ArrayAttr sharding);
  void divide(Value value, ArrayAttr sharding);
  int64_t countParts(FactorAttr factor) const;

  FactorClasses &classes;
  GridAttr grid;
};

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H
