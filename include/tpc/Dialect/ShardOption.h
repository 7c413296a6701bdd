//===- ShardOption.h - Pass option with a value of --megatron-shard -------===//
//
// Passes have an option of type ShardSpec, so that pipelines pass the parsed specification, and
// the text is parsed only where a user writes it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_SHARDOPTION_H
#define TPC_DIALECT_SHARDOPTION_H

#include "tpc/Support/ShardSpec.h"

#include "llvm/Support/CommandLine.h"

namespace llvm::cl {

template <> class parser<::tpc::ShardSpec> : public basic_parser<::tpc::ShardSpec> {
public:
  using basic_parser::basic_parser;

  /// Returns true on an error, which is reported.
  bool parse(Option &option, StringRef, StringRef text, ::tpc::ShardSpec &value) {
    std::string error;
    std::optional<::tpc::ShardSpec> spec =
        ::tpc::ShardSpec::parse(std::string_view(text.data(), text.size()), error);
    if (!spec)
      return option.error(error);
    value = *spec;
    return false;
  }
  static void print(raw_ostream &os, const ::tpc::ShardSpec &value) { os << value.str(); }
  void printOptionDiff(const Option &, const ::tpc::ShardSpec &, const OptVal &, size_t) const {}
  StringRef getValueName() const override { return "grid"; }
};

} // namespace llvm::cl

#endif // TPC_DIALECT_SHARDOPTION_H
