//===- WireReader.cpp - ONNX files without weights ------------------------===//

#include "tpc/Import/ONNX/WireReader.h"

#include "tpc/Dialect/MakeError.h"
#include "tpc/printable.h"

#include "llvm/ADT/Twine.h"

#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir::tpc::frontend;
using mlir::tpc::makeError;

namespace {

/// Limits on the structure that remains without weights. A model of 100 layers takes a few MiB.
constexpr uint64_t kMaxStructure = 256ull << 20;
constexpr uint64_t kMaxMessages = 4'000'000;
/// Maximum bytes of a node's metadata with its torch modules (kScopesKey).
constexpr uint64_t kMaxScope = 4096;
/// Maximum nesting of branches. Each level takes three messages, and protobuf reads 100.
constexpr int kMaxBranches = 28;

/// File with an in-memory window.
class Source {
public:
  ~Source() {
    if (fd >= 0)
      close(fd);
  }

  llvm::Error open(const std::string &path) {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
      return makeError(llvm::Twine("cannot open: ") + strerror(errno));
    struct stat info;
    if (fstat(fd, &info))
      return makeError(llvm::Twine("cannot read: ") + strerror(errno));
    if (!S_ISREG(info.st_mode))
      return makeError("not a regular file");
    bytes = info.st_size;
    return llvm::Error::success();
  }

  uint64_t size() const { return bytes; }

  llvm::Error read(uint64_t offset, void *to, uint64_t n) {
    char *out = static_cast<char *>(to);
    while (n) {
      if (offset < begin || offset >= begin + window.size())
        if (llvm::Error e = fill(offset))
          return e;
      uint64_t k = std::min<uint64_t>(n, begin + window.size() - offset);
      memcpy(out, window.data() + (offset - begin), k);
      out += k;
      offset += k;
      n -= k;
    }
    return llvm::Error::success();
  }

private:
  llvm::Error fill(uint64_t offset) {
    window.resize(64 << 10);
    ssize_t n;
    do
      n = pread(fd, window.data(), window.size(), offset);
    while (n < 0 && errno == EINTR);
    window.resize(n > 0 ? n : 0);
    begin = offset;
    if (n <= 0)
      return makeError("cannot read byte " + llvm::Twine(offset) + ": " +
                       (n ? strerror(errno) : "the file became shorter"));
    return llvm::Error::success();
  }

  int fd = -1;
  uint64_t bytes = 0, begin = 0;
  std::vector<char> window;
};

enum class Kind { Model, Graph, Node, Attribute, Tensor, Sparse, Function };

enum class Action { Copy, Drop, Descend, Range, Scope };

struct Rule {
  Action action = Action::Copy;
  Kind kind = Kind::Model;
};

/// Returns the rule for a length-delimited field. Field numbers are those of onnx.proto.
Rule ruleFor(Kind kind, uint64_t field) {
  auto is = [&](std::initializer_list<uint64_t> fields) {
    return std::find(fields.begin(), fields.end(), field) != fields.end();
  };
  switch (kind) {
  case Kind::Model:
    if (field == 7)
      return {Action::Descend, Kind::Graph};
    if (field == 25)
      return {Action::Descend, Kind::Function};
    if (is({6, 14, 20}))
      return {Action::Drop};
    break;
  case Kind::Graph:
    if (field == 1)
      return {Action::Descend, Kind::Node};
    if (field == 5)
      return {Action::Descend, Kind::Tensor};
    if (field == 15)
      return {Action::Descend, Kind::Sparse};
    if (is({10, 13, 14, 16}))
      return {Action::Drop};
    break;
  case Kind::Node:
    if (field == 5)
      return {Action::Descend, Kind::Attribute};
    if (field == 9)
      return {Action::Scope};
    if (field == 6)
      return {Action::Drop};
    break;
  case Kind::Attribute:
    if (is({5, 10}))
      return {Action::Descend, Kind::Tensor};
    if (is({6, 11}))
      return {Action::Descend, Kind::Graph};
    if (is({22, 23}))
      return {Action::Descend, Kind::Sparse};
    if (field == 13)
      return {Action::Drop};
    break;
  case Kind::Tensor:
    if (is({ByteRange::Raw, ByteRange::Float, ByteRange::Double}))
      return {Action::Range};
    if (is({12, 16}))
      return {Action::Drop};
    break;
  case Kind::Sparse:
    if (is({1, 2}))
      return {Action::Descend, Kind::Tensor};
    break;
  case Kind::Function:
    if (field == 7)
      return {Action::Descend, Kind::Node};
    if (field == 11)
      return {Action::Descend, Kind::Attribute};
    if (is({8, 12, 14}))
      return {Action::Drop};
    break;
  }
  return {};
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
}

void appendBytes(std::string &out, uint64_t field, llvm::StringRef bytes) {
  appendVarint(out, field << 3 | 2);
  appendVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}

class Stripper {
public:
  Stripper(Source &source) : source(source) {}

  llvm::Error run(StrippedModel &model) {
    ranges = &model.ranges;
    return message(Kind::Model, source.size(), model.message);
  }

private:
  llvm::Error malformed(const llvm::Twine &what) {
    return makeError("not a valid ONNX file: " + what + " at byte " + llvm::Twine(pos));
  }

  llvm::Error varint(uint64_t end, uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (pos >= end)
        return malformed("the data ends inside of a field");
      uint8_t byte;
      if (llvm::Error e = source.read(pos++, &byte, 1))
        return e;
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return llvm::Error::success();
    }
    return malformed("a number has more than 64 bits");
  }

  llvm::Error copy(std::string &out, uint64_t n) {
    spent += n;
    if (spent > kMaxStructure)
      return makeError(
          "the structure of the file, without its weights, exceeds 256 MiB, the limit of "
          "tpc; are there tensors in fields for numbers of variable length? Store them as "
          "raw data (onnx.numpy_helper.from_array)");
    size_t old = out.size();
    out.resize(old + n);
    llvm::Error e = source.read(pos, out.data() + old, n);
    pos += n;
    return e;
  }

  /// Whether the metadata at `pos` has the key kScopesKey.
  llvm::Expected<bool> findScope(uint64_t length) {
    std::string start;
    appendBytes(start, 1, kScopesKey);
    std::string found(start.size(), 0);
    if (length < start.size() || length > kMaxScope)
      return false;
    if (llvm::Error e = source.read(pos, found.data(), found.size()))
      return e;
    return found == start;
  }

  /// Node being read, with the fields known so far.
  struct NodeName {
    std::string name, type;

    std::string str() const {
      std::string text = name.empty() ? "a node" : "node '" + ::tpc::printable(name) + "'";
      return type.empty() ? text : text + " (" + ::tpc::printable(type) + ")";
    }
  };

  /// Reads a message. A graph inside an attribute is a branch of the current node.
  llvm::Error message(Kind kind, uint64_t end, std::string &out) {
    if (kind == Kind::Graph && nodes.size() > kMaxBranches)
      return makeError(nodes.back().str() + " is in " + llvm::Twine(kMaxBranches) +
                       " nested branches, the outermost of " + nodes.front().str() +
                       "; tpc reads at most " + llvm::Twine(kMaxBranches) +
                       " levels: move the node out of some branches, or fold their conditions");
    if (++messages > kMaxMessages)
      return makeError(
          "the file has more than 4 million nodes, attributes and tensors, the limit of "
          "tpc");
    if (kind != Kind::Node)
      return fields(kind, end, out);
    nodes.emplace_back();
    llvm::Error error = fields(kind, end, out);
    nodes.pop_back();
    return error;
  }

  llvm::Error fields(Kind kind, uint64_t end, std::string &out) {
    int range = -1;
    while (pos < end) {
      uint64_t tag, length = 0;
      if (llvm::Error e = varint(end, tag))
        return e;
      uint64_t field = tag >> 3, wire = tag & 7;
      if (field == 0 || field >= 1u << 29)
        return malformed("a field has number " + llvm::Twine(field));
      if (wire == 0) {
        uint64_t value;
        if (llvm::Error e = varint(end, value))
          return e;
        appendVarint(out, tag);
        appendVarint(out, value);
        spent += 2;
        continue;
      }
      if (wire == 1 || wire == 5)
        length = wire == 1 ? 8 : 4;
      else if (wire != 2)
        return malformed("a field has wire type " + llvm::Twine(wire));
      else if (llvm::Error e = varint(end, length))
        return e;
      if (length > end - pos)
        return malformed("field " + llvm::Twine(field) + " of " + llvm::Twine(length) +
                         " bytes goes beyond its end (is the file truncated?)");
      Rule rule = wire == 2 ? ruleFor(kind, field) : Rule();
      switch (rule.action) {
      case Action::Drop:
        pos += length;
        break;
      case Action::Scope: {
        llvm::Expected<bool> isScope = findScope(length);
        if (!isScope)
          return isScope.takeError();
        if (!*isScope) {
          pos += length;
          break;
        }
        [[fallthrough]];
      }
      case Action::Copy:
        appendVarint(out, tag);
        if (wire == 2)
          appendVarint(out, length);
        if (llvm::Error e = copy(out, length))
          return e;
        if (kind == Kind::Node && wire == 2 && (field == 3 || field == 4))
          (field == 3 ? nodes.back().name : nodes.back().type) = out.substr(out.size() - length);
        break;
      case Action::Descend: {
        std::string inner;
        if (llvm::Error e = message(rule.kind, pos + length, inner))
          return e;
        appendBytes(out, field, inner);
        break;
      }
      case Action::Range:
        if (range >= 0)
          return makeError("a tensor has its data in several fields, the second at byte " +
                           llvm::Twine(pos) +
                           "; tpc reads one: store it as raw data "
                           "(onnx.numpy_helper.from_array)");
        range = ranges->size();
        ranges->push_back({ByteRange::Field(field), pos, length});
        pos += length;
        break;
      }
    }
    if (range >= 0) {
      std::string entry;
      appendBytes(entry, 1, kRangeKey);
      appendBytes(entry, 2, std::to_string(range));
      appendBytes(out, 13, entry);
    }
    return llvm::Error::success();
  }

  Source &source;
  std::vector<ByteRange> *ranges = nullptr;
  std::vector<NodeName> nodes; // innermost last
  uint64_t pos = 0, spent = 0, messages = 0;
};

} // namespace

llvm::Expected<StrippedModel> mlir::tpc::frontend::readStrippedModel(llvm::StringRef path) {
  Source source;
  if (llvm::Error e = source.open(path.str()))
    return e;
  if (!source.size())
    return makeError("the file is empty");
  StrippedModel model;
  if (llvm::Error e = Stripper(source).run(model))
    return e;
  return model;
}
