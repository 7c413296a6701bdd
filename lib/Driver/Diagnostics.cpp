//===- Diagnostics.cpp - Messages for users of tpcc -----------------------===//

#include "Diagnostics.h"

#include "tpc/printable.h"

#include "llvm/Support/WithColor.h"

using namespace tpc;

static constexpr int kMaxRemarks = 8;

std::string tpc::describeLocation(mlir::Location loc) {
  std::string node, file;
  // Finds the outermost name and the outermost file position.
  loc->walk([&](mlir::Location part) {
    if (auto name = llvm::dyn_cast<mlir::NameLoc>(part); name && node.empty())
      node = ("node '" + name.getName().getValue() + "'").str();
    if (auto position = llvm::dyn_cast<mlir::FileLineColLoc>(part); position && file.empty())
      file = position.getLine() == 0 // no line: only the file name
                 ? position.getFilename().str()
                 : (position.getFilename().getValue() + ":" + llvm::Twine(position.getLine()) +
                    ":" + llvm::Twine(position.getColumn()))
                       .str();
    return mlir::WalkResult::advance();
  });
  return node.empty() ? file : node;
}

using Severity = mlir::DiagnosticSeverity;

static llvm::StringRef getName(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  case Severity::Remark:
    return "remark";
  }
  llvm_unreachable("there are four severities");
}

/// Prints in color if the stream is a terminal.
static llvm::raw_ostream &printPrefix(llvm::raw_ostream &os, Severity severity,
                                      llvm::StringRef tool) {
  switch (severity) {
  case Severity::Error:
    return llvm::WithColor::error(os, tool);
  case Severity::Warning:
    return llvm::WithColor::warning(os, tool);
  case Severity::Note:
    return llvm::WithColor::note(os, tool);
  case Severity::Remark:
    return llvm::WithColor::remark(os, tool);
  }
  llvm_unreachable("there are four severities");
}

/// Converts messages to UTF-8 for JSON, because names in files may have arbitrary bytes.
static llvm::json::Object makeJson(Severity severity, llvm::StringRef message) {
  llvm::json::Object object;
  object["severity"] = getName(severity);
  object["message"] = llvm::json::fixUTF8(message);
  object["notes"] = llvm::json::Array();
  return object;
}

static llvm::json::Object makeJson(mlir::Diagnostic &diagnostic) {
  llvm::json::Object object = makeJson(diagnostic.getSeverity(), diagnostic.str());
  diagnostic.getLocation()->walk([&](mlir::Location part) {
    if (auto name = llvm::dyn_cast<mlir::NameLoc>(part))
      object.try_emplace("node", llvm::json::fixUTF8(name.getName().getValue()));
    auto position = llvm::dyn_cast<mlir::FileLineColLoc>(part);
    if (position &&
        object.try_emplace("file", llvm::json::fixUTF8(position.getFilename().getValue())).second &&
        position.getLine() > 0) {
      object["line"] = position.getLine();
      object["column"] = position.getColumn();
    }
    return mlir::WalkResult::advance();
  });
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    object.getArray("notes")->push_back(makeJson(note));
  return object;
}

void tpc::printMessage(llvm::raw_ostream &os, DiagnosticFormat format, Severity severity,
                       llvm::StringRef message) {
  if (format == DiagnosticFormat::Json)
    os << llvm::json::Value(makeJson(severity, message)) << "\n";
  else
    printPrefix(os, severity, "tpcc") << printable(message.str(), /*lines=*/true) << "\n";
}

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os,
                                     std::function<void(mlir::DiagnosticSeverity)> onMessage,
                                     DiagnosticFormat format)
    : ScopedDiagnosticHandler(context), os(os), onMessage(std::move(onMessage)), format(format) {
  // Disables printing of the op, which may be an entire function; messages name the ONNX node.
  context->printOpOnDiagnostic(false);
  setHandler([this](mlir::Diagnostic &diagnostic) {
    print(diagnostic, 0);
    return mlir::success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() {
  if (remarks > kMaxRemarks)
    printMessage(os, format, Severity::Remark,
                 std::to_string(remarks - kMaxRemarks) + " more remarks (tpc-opt prints them all)");
}

void DiagnosticPrinter::print(mlir::Diagnostic &diagnostic, unsigned indent) {
  std::string text = describeLocation(diagnostic.getLocation()), message = diagnostic.str();
  llvm::StringRef rest = message;
  // Does not repeat the location if the message begins with the node's name.
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
  if (format == DiagnosticFormat::Json) {
    os << llvm::json::Value(makeJson(diagnostic)) << "\n";
    return;
  }
  os.indent(indent);
  bool isNote = diagnostic.getSeverity() == Severity::Note;
  printPrefix(os, diagnostic.getSeverity(), isNote ? "" : "tpcc")
      << printable(text, /*lines=*/true) << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    print(note, indent + 2);
}
