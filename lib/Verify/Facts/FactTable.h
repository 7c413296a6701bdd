//===- FactTable.h - Facts of an executable, and what covers them -*- C++ -*-===//
//
// The manifest and the discardable attributes are facts: the executable acts on them, and no
// expression of the program contains them. Each has a row here that names the check which shows it
// right. docs/reference/facts.md is printed from these rows (tpc-opt --print-facts).
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
  llvm::StringRef source; // the fact of the program that it is made of
  llvm::StringRef covered;
};

/// What an attribute of the module is compared with, from the staged program on. On lowered text
/// each is compared with the staged program's as well.
enum class Reference {
  Model,  // the model has the same
  Choice, // the partitioner or the user chose it; other verifiers prove the program for any choice
  None    // it is no attribute of the module, or belongs to earlier levels
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
