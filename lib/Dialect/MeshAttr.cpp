//===- MeshAttr.cpp - Text, checks and views of #tpc.mesh -----------------===//
//
//   #tpc.mesh<tp = 2, dp = 1, pp = 2, mb = 4, gpus_per_node = 8>
//   #tpc.mesh<atoms = [tp_ep = 2, dp = 3], views = {ep = [tp_ep], tp = [tp_ep]}, mb = 1>
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Support/Mesh.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Parser of the entries between < and >.
class MeshParser {
public:
  explicit MeshParser(AsmParser &parser) : parser(parser) {}

  Attribute parse() {
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                       [&] { return parseEntry(); }))
      return {};
    return MeshAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                                ArrayRef<StringAttr>(order), ArrayRef<int64_t>(sizes),
                                views.getDictionary(parser.getContext()), microBatches, gpusPerNode,
                                chunksPerRank);
  }

private:
  ParseResult parseName(StringRef &name) {
    return failure(parser.parseKeyword(&name) || parser.parseEqual());
  }
  ParseResult parseAtom(StringRef name) {
    int64_t size;
    if (parser.parseInteger(size))
      return failure();
    order.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  }
  ParseResult parseAtoms() {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
      StringRef name;
      return failure(parseName(name) || parseAtom(name));
    });
  }
  ParseResult parseView() {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    SmallVector<Attribute> atoms;
    auto parseMember = [&]() -> ParseResult {
      StringRef atom;
      if (parser.parseKeyword(&atom))
        return failure();
      atoms.push_back(StringAttr::get(parser.getContext(), atom));
      return success();
    };
    if (parseName(name) ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseMember))
      return failure();
    if (views.set(name, ArrayAttr::get(parser.getContext(), atoms)))
      return parser.emitError(loc) << "view '" << name << "' is given twice";
    return success();
  }
  ParseResult parseEntry() {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parseName(name))
      return failure();
    if (!entries.insert(name).second)
      return parser.emitError(loc) << "'" << name << "' of the mesh is given twice";
    if (name == "atoms")
      return parseAtoms();
    if (name == "views")
      return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces,
                                            [&] { return parseView(); });
    if (name == kMicroBatchAxis)
      return parser.parseInteger(microBatches);
    if (name == "vpp")
      return parser.parseInteger(chunksPerRank);
    if (name != "gpus_per_node")
      return parseAtom(name);
    if (parser.parseInteger(gpusPerNode))
      return failure();
    return gpusPerNode > 0 ? success() : parser.emitError(loc, "gpus_per_node must be at least 1");
  }

  AsmParser &parser;
  SmallVector<StringAttr> order;
  SmallVector<int64_t> sizes;
  NamedAttrList views;
  llvm::StringSet<> entries;
  int64_t microBatches = 1, gpusPerNode = 0, chunksPerRank = 1;
};
} // namespace

Attribute MeshAttr::parse(AsmParser &parser, Type) { return MeshParser(parser).parse(); }

void MeshAttr::print(AsmPrinter &printer) const {
  bool full = !getViews().empty();
  printer << (full ? "<atoms = [" : "<");
  for (auto [i, atom] : llvm::enumerate(llvm::zip(getOrder(), getSizes())))
    printer << (i ? ", " : "") << std::get<0>(atom).getValue() << " = " << std::get<1>(atom);
  if (full)
    printer << "], views = {";
  for (auto [i, view] : llvm::enumerate(getViews())) {
    printer << (i ? ", " : "") << view.getName().getValue() << " = [";
    llvm::interleaveComma(cast<ArrayAttr>(view.getValue()).getAsValueRange<StringAttr>(),
                          printer.getStream());
    printer << "]";
  }
  printer << (full ? "}, " : getOrder().empty() ? "" : ", ") << "mb = " << getMicroBatches();
  if (getChunksPerRank() != 1)
    printer << ", vpp = " << getChunksPerRank();
  if (getGpusPerNode())
    printer << ", gpus_per_node = " << getGpusPerNode();
  printer << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> order, ArrayRef<int64_t> sizes,
                               DictionaryAttr views, int64_t microBatches, int64_t gpusPerNode,
                               int64_t chunksPerRank) {
  if (order.size() != sizes.size())
    return emitError() << "a mesh needs one size for each atom";
  llvm::StringSet<> atoms;
  int64_t world = 1;
  for (auto [name, size] : llvm::zip(order, sizes)) {
    if (!atoms.insert(name.getValue()).second)
      return emitError() << "atom '" << name.getValue() << "' of the mesh is given twice";
    if (name.getValue() == kMicroBatchAxis)
      return emitError() << "'mb' is the number of micro-batches, not an atom of the mesh";
    if (size < 1)
      return emitError() << "size of atom '" << name.getValue()
                         << "' of the mesh must be at least 1, not " << size;
    if (__builtin_mul_overflow(world, size, &world) || world > (1 << 24))
      return emitError() << "the mesh has more than 16777216 ranks";
  }
  for (NamedAttribute view : views) {
    StringRef name = view.getName().getValue();
    auto list = dyn_cast<ArrayAttr>(view.getValue());
    if (!list)
      return emitError() << "view '" << name << "' must be a list of atoms";
    if (atoms.contains(name))
      return emitError() << "view '" << name << "' is also an atom of the mesh";
    llvm::SmallDenseSet<Attribute> seen;
    for (Attribute member : list) {
      auto atom = dyn_cast<StringAttr>(member);
      if (!atom || !atoms.contains(atom.getValue()))
        return emitError() << "view '" << name << "' has the atom " << member
                           << ", which the mesh does not have";
      if (!seen.insert(member).second)
        return emitError() << "view '" << name << "' has the atom " << member << " twice";
    }
  }
  if (microBatches < 1)
    return emitError() << "number of micro-batches must be at least 1, not " << microBatches;
  if (chunksPerRank < 1)
    return emitError() << "number of chunks on a rank of pp (vpp) must be at least 1, not "
                       << chunksPerRank;
  if (gpusPerNode < 0)
    return emitError() << "number of GPUs of a node must not be negative, but is " << gpusPerNode;
  return success();
}

int64_t MeshAttr::getAxisSize(StringRef axis) const {
  if (axis == kMicroBatchAxis)
    return getMicroBatches();
  for (auto [name, size] : llvm::zip(getOrder(), getSizes()))
    if (name.getValue() == axis)
      return size;
  return 1;
}

bool MeshAttr::hasAxis(StringRef axis) const {
  return axis == kMicroBatchAxis ||
         llvm::any_of(getOrder(), [&](StringAttr name) { return name.getValue() == axis; });
}

bool MeshAttr::isInView(StringAttr atom, StringRef view) const {
  if (auto atoms = getViews().getAs<ArrayAttr>(view))
    return llvm::is_contained(atoms, atom);
  return llvm::is_contained(getOrder(), atom) &&
         (atom == view || llvm::any_of(::tpc::getDenseAxes(view), [&](std::string_view dense) {
            return isInView(atom, dense);
          }));
}

SmallVector<StringAttr> MeshAttr::getView(StringRef view) const {
  return llvm::filter_to_vector(getOrder(), [&](StringAttr atom) { return isInView(atom, view); });
}

int64_t MeshAttr::getViewSize(StringRef view) const {
  int64_t size = 1;
  for (StringAttr atom : getView(view))
    size *= getAxisSize(atom);
  return size;
}

int64_t MeshAttr::getWorldSize() const {
  int64_t world = 1;
  for (int64_t size : getSizes())
    world *= size;
  return world;
}

MeshAttr MeshAttr::lookup(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto mesh = op->getAttrOfType<MeshAttr>(kMeshAttr))
      return mesh;
  return {};
}
