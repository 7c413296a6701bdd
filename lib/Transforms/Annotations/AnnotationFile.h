//===- AnnotationFile.h - Text format of --annotations ----------*- C++ -*-===//
//
//     # two of GPT-2's weights
//     transformer.wte.weight:  [tp, -]
//     h.*.mlp.c_fc.weight:     [-, tp]
//
// A line has a pattern, a colon, and one entry per dimension: `-` (not split), axes joined by `+`
// (split over the first, then over the next), or `?` (unconstrained). In a pattern, `*` matches any
// characters, `?` matches one, and `\` quotes the next character. `#` starts a comment at the
// beginning of a line or after a blank.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONFILE_H
#define TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONFILE_H

#include "mlir/Support/LLVM.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::tpc {

struct AnnotationLine {
  struct Axis {
    std::string name;
    unsigned column;
  };
  struct Entry {
    bool open = false;      // '?'
    std::vector<Axis> axes; // empty: '-'
    unsigned column;
  };
  std::string pattern;
  unsigned line, column, listColumn;
  std::vector<Entry> entries;

  bool matches(StringRef name) const;
};

struct AnnotationFault {
  unsigned line, column;
  std::string what;
};

/// Parses all lines. Returns the first error, or nothing.
std::optional<AnnotationFault> parseAnnotations(StringRef text, std::vector<AnnotationLine> &lines);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONFILE_H
