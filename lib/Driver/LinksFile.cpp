//===- LinksFile.cpp - Reader of the --links file -------------------------===//

#include "LinksFile.h"

#include "tpc/Dialect/MakeError.h"
#include "tpc/Support/ReadFile.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/JSON.h"

using namespace tpc;
using llvm::Error;
using llvm::Expected;
namespace json = llvm::json;

using mlir::tpc::makeError;

/// Converts {"alpha": …, "beta": …} to [alpha, beta].
static Expected<mlir::Attribute> makeLink(mlir::Builder &builder, const json::Value &value,
                                          llvm::StringRef name) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return makeError("'" + name + R"(' must be {"alpha": seconds, "beta": seconds per byte})");
  for (const auto &[key, unused] : *object)
    if (key != "alpha" && key != "beta")
      return makeError("'" + name + "' has an entry '" + llvm::StringRef(key) +
                       "'; expected alpha and beta");
  mlir::SmallVector<double> numbers;
  for (llvm::StringRef key : {"alpha", "beta"}) {
    std::optional<double> number = object->getNumber(key);
    if (!number)
      return makeError("'" + name + "' has no number '" + key + "'");
    if (!(*number >= 0 && *number <= 1e9))
      return makeError("'" + key + "' of '" + name + "' must be from 0 to 1e9");
    numbers.push_back(*number);
  }
  return builder.getF64ArrayAttr(numbers);
}

Expected<mlir::DictionaryAttr> tpc::parseLinks(mlir::MLIRContext *context, llvm::StringRef text,
                                               const ShardSpec &spec) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  if (!object)
    return makeError("must be an object with intra_node, inter_node and axes");
  mlir::Builder builder(context);
  mlir::SmallVector<mlir::NamedAttribute> entries;
  for (const auto &[key, entry] : *object) {
    llvm::StringRef name = key;
    if (name == "intra_node" || name == "inter_node") {
      Expected<mlir::Attribute> link = makeLink(builder, entry, name);
      if (!link)
        return link.takeError();
      entries.push_back(builder.getNamedAttr(name, *link));
      continue;
    }
    if (name != "axes")
      return makeError("there is no link '" + name + "'; expected intra_node, inter_node or axes");
    const json::Object *axes = entry.getAsObject();
    if (!axes)
      return makeError("'axes' must be an object with a link for each axis");
    mlir::NamedAttrList links;
    for (const auto &[axisKey, axisEntry] : *axes) {
      llvm::StringRef axis = axisKey;
      std::string known;
      for (const ShardSpec::NamedAxis &namedAxis : spec.axes())
        known += (known.empty() ? "" : ", ") + namedAxis.name;
      std::vector<ShardSpec::NamedAxis> atoms = spec.getView(axis.str());
      if (atoms.empty())
        return makeError("'axes' names '" + axis + "', but the grid has " + known);
      Expected<mlir::Attribute> link = makeLink(builder, axisEntry, axis);
      if (!link)
        return link.takeError();
      for (const ShardSpec::NamedAxis &atom : atoms)
        links.set(atom.name, *link);
    }
    entries.push_back(builder.getNamedAttr("axes", links.getDictionary(context)));
  }
  return builder.getDictionaryAttr(entries);
}

Expected<mlir::DictionaryAttr> tpc::readLinksFile(mlir::MLIRContext *context, llvm::StringRef path,
                                                  const ShardSpec &spec) {
  constexpr uint64_t maxBytes = 1 << 20;
  std::string text;
  if (std::string problem = readFile(path.str(), maxBytes, text); !problem.empty())
    return makeError("cannot read '" + path + "': " + problem);
  Expected<mlir::DictionaryAttr> links = parseLinks(context, text, spec);
  if (!links)
    return makeError("'" + path + "': " + llvm::toString(links.takeError()));
  return links;
}
