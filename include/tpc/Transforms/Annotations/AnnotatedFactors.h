//===- AnnotatedFactors.h - Factor classes that match annotations ---------===//
//
// Annotations with several factors specify the exact elements of a rank's shard. With
// `#tpc.dim<2{tp} * 24>`, rank 0 has the first half of 48 columns; with `#tpc.dim<2 * 24{tp}>`, it
// has the first 12 of both groups of 24 columns. A factor class matches an annotation if its shards
// contain the same elements. If no class matches, classes are divided.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H
#define TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H

#include "tpc/Analysis/FactorClasses.h"

namespace mlir::tpc {

/// Whether an annotated dimension specifies the exact elements of a shard. An annotation with one
/// factor is instead applied to the outermost class that can be split.
inline bool isExact(DimAttr dim) { return dim && dim.getFactors().size() > 1; }

struct AnnotatedClass {
  int cls;
  unsigned dim; // of the value
};

class AnnotatedFactors {
public:
  AnnotatedFactors(FactorClasses &classes, MeshAttr grid) : classes(classes), grid(grid) {}

  /// Returns the class of `value` that matches factor `factor` of the annotation of dimension
  /// `dim`; nothing if no class matches.
  std::optional<AnnotatedClass> find(Value value, unsigned dim, DimAttr annotation,
                                     unsigned factor);
  /// Returns the class of `parameter` that matches factor `factor` of the annotation of the
  /// weight's dimension `dim`; nothing if no class matches.
  std::optional<AnnotatedClass> find(ParameterOp parameter, WeightOp weight, unsigned dim,
                                     DimAttr annotation, unsigned factor);
  /// Whether the parameter's view contains more than one index of a weight's dimension.
  static bool varies(ParameterOp parameter, WeightOp weight, unsigned dim);

  /// Returns the factor's axes with more than one rank.
  SmallVector<StringAttr> getAxes(FactorAttr factor) const;

  /// Divides classes of all annotated values in `module` if this creates a matching class.
  void divide(ModuleOp module);

private:
  void divide(ParameterOp parameter, WeightOp weight, ArrayAttr sharding);
  void divide(Value value, ArrayAttr sharding);
  int64_t countShards(FactorAttr factor) const;

  FactorClasses &classes;
  MeshAttr grid;
};

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_ANNOTATIONS_ANNOTATEDFACTORS_H
