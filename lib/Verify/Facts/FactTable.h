//===- FactTable.h - Facts of an executable and their checks ----*- C++ -*-===//
//
// Facts are the fields of the manifest and the discardable attributes: the executable depends on
// them, but they are not part of the computation. Each fact has a table row that names the check
// that covers it. docs/reference/facts.md is generated from this table (tpc-opt --print-facts).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_FACTS_FACTTABLE_H
#define TPC_LIB_VERIFY_FACTS_FACTTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::tpc::facts {

/// A key of the manifest. `[]` stands for each element of a list, `*` for each key of an object.
struct ManifestFact {
  llvm::StringRef key;
  llvm::StringRef source; // origin of the value in the program
  llvm::StringRef covered;
};

/// Reference with which an attribute of the module is compared before lowering. In a lowered
/// program, all attributes are also compared with the staged program.
enum class Reference {
  Model,  // must equal the model's attribute
  Choice, // chosen by the partitioner or the user; the program is proved for any choice
  None    // not an attribute of the module, or only of earlier levels
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
