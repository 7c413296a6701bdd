//===- AnnotatedFactors.h - Factor classes of annotated dimensions --------===//
//
// `#tpc.dim<2{tp} * 24>` are two contiguous halves of 48 columns, `#tpc.dim<2 * 24{tp}>` the first
// half of each of two: annotations specify the exact elements of a rank. A class matches an
// annotation if its shards contain the same elements. If no class matches, classes are divided.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H
#define TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H

#include "tpc/Analysis/FactorClasses.h"

namespace mlir::tpc {

/// Whether an annotated dimension specifies the exact elements of a rank. A single factor is
/// instead split at the outermost class that can be split.
inline bool isExact(DimAttr dim) { return dim && dim.getFactors().size() > 1; }

struct AnnotatedClass {
  int cls;
  unsigned dim; // of the value
};

class AnnotatedFactors {
public:
  AnnotatedFactors(FactorClasses &classes, GridAttr grid) : classes(classes), grid(grid) {}

  /// Returns the class of `value` whose shards over the axes of factor `factor` of its dimension
  /// `dim`, annotated as `annotation`, match the annotation.
  std::optional<AnnotatedClass> find(Value value, unsigned dim, DimAttr annotation,
                                     unsigned factor);
  /// The same for a view of a weight whose dimension `dim` is annotated.
  std::optional<AnnotatedClass> find(ParameterOp parameter, WeightOp weight, unsigned dim,
                                     DimAttr annotation, unsigned factor);
  /// Whether a view contains more than one index of a weight's dimension.
  static bool varies(ParameterOp parameter, WeightOp weight, unsigned dim);

  /// Returns the axes with more than one rank.
  SmallVector<StringAttr> getAxes(FactorAttr factor) const;

  /// Divides classes of all annotated values in `module` where this creates a matching class.
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
