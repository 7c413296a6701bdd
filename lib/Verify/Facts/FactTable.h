//===- FactTable.h - Facts of an executable and their checks ----*- C++ -*-===//
//
// The manifest and the discardable attributes are facts: the executable depends on them, but they
// are no expressions of the program. Each has a row here with the check that covers it.
// docs/reference/facts.md is generated from these rows (tpc-opt --print-facts).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_FACTS_FACTTABLE_H
#define TPC_LIB_VERIFY_FACTS_FACTTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::tpc::facts {

/// A key of the manifest. `[]` is each element of a list, `*` each key of an object.
struct ManifestFact {
  llvm::StringRef key;
  llvm::StringRef source; // origin of the value in the program
  llvm::StringRef covered;
};

/// Reference of an attribute of the module, up to the staged program. On lowered text, each is
/// compared with the staged program's as well.
enum class Reference {
  Model,  // must equal the model's
  Choice, // chosen by the partitioner or the user; the program is proved for any choice
  None    // not an attribute of the module, or one of earlier levels
};

/// An attribute tpc.* (lib/Dialect/DiscardableAttrs.cpp).
struct AttributeFact {
  llvm::StringRef name;
  Reference reference;
  llvm::StringRef covered;
};

llvm::ArrayRef<ManifestFact> getManifestFacts();
llvm::ArrayRef<AttributeFact> getAttributeFacts();

} // namespace mlir::tpc::facts

#endif // TPC_LIB_VERIFY_FACTS_FACTTABLE_H
