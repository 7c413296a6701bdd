//===- Diagnostics.cpp - Messages for the person who runs tpcc -------------===//

#include "Diagnostics.h"

#include "tpc/printable.h"

#include "llvm/Support/WithColor.h"

using namespace tpc;

static constexpr int kMaxRemarks = 8;

std::string tpc::describeLocation(mlir::Location loc) {
  std::string node, file;
  // The first name and the first place in a file that occur, outermost first.
  loc->walk([&](mlir::Location part) {
    if (auto name = llvm::dyn_cast<mlir::NameLoc>(part); name && node.empty())
      node = ("node '" + name.getName().getValue() + "'").str();
    if (auto place = llvm::dyn_cast<mlir::FileLineColLoc>(part); place && file.empty())
      file = place.getLine() == 0 // the file as a whole
                 ? place.getFilename().str()
                 : (place.getFilename().getValue() + ":" + llvm::Twine(place.getLine()) + ":" +
                    llvm::Twine(place.getColumn()))
                       .str();
    return mlir::WalkResult::advance();
  });
  return node.empty() ? file : node;
}

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os,
                                     std::function<void(mlir::DiagnosticSeverity)> onMessage)
    : ScopedDiagnosticHandler(context), os(os), onMessage(std::move(onMessage)) {
  // Messages name the ONNX node. The op would be a whole function where one is to blame.
  context->printOpOnDiagnostic(false);
  setHandler([this](mlir::Diagnostic &diagnostic) {
    print(diagnostic, 0);
    return mlir::success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() {
  if (remarks > kMaxRemarks)
    llvm::WithColor::remark(os, "tpcc")
        << remarks - kMaxRemarks << " more of these (tpc-opt prints them all)\n";
}

void DiagnosticPrinter::print(mlir::Diagnostic &diagnostic, unsigned indent) {
  using Severity = mlir::DiagnosticSeverity;
  std::string text = describeLocation(diagnostic.getLocation()), message = diagnostic.str();
  llvm::StringRef rest = message;
  // Many messages begin with the node's name, for those who see no locations.
  if (!llvm::StringRef(text).starts_with("node ") ||
      !rest.consume_front(llvm::StringRef(text).drop_front(5)))
    text += text.empty() ? "" : ": ";
  text += rest;
  if (indent == 0) {
    bool isNew = printed.insert(text).second;
    if (diagnostic.getSeverity() == Severity::Remark && (!isNew || ++remarks > kMaxRemarks))
      return;
    onMessage(diagnostic.getSeverity());
    if (!isNew)
      return;
  }
  os.indent(indent);
  switch (diagnostic.getSeverity()) {
  case Severity::Error:
    llvm::WithColor::error(os, "tpcc");
    break;
  case Severity::Warning:
    llvm::WithColor::warning(os, "tpcc");
    break;
  case Severity::Note:
    llvm::WithColor::note(os);
    break;
  case Severity::Remark:
    llvm::WithColor::remark(os, "tpcc");
    break;
  }
  os << printable(text, /*lines=*/true) << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    print(note, indent + 2);
}
