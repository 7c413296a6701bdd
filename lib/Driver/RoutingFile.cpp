//===- RoutingFile.cpp - Routing of tokens in a NumPy file ----------------===//

#include "RoutingFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using llvm::StringRef;

llvm::Expected<mlir::tpc::Routing> tpc::readRouting(const std::string &path) {
  auto fail = [&](const llvm::Twine &what) {
    return llvm::createStringError(std::make_error_code(std::errc::invalid_argument),
                                   "--routing=" + path + ": " + what);
  };
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return fail(file.getError().message());
  StringRef bytes = (*file)->getBuffer();
  // Magic, version, length of the header (2 or 4 bytes), and the header, a Python dictionary.
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < 12)
    return fail("is not a .npy file");
  size_t lengthBytes = bytes[6] == 1 ? 2 : 4, length = 0;
  for (size_t i = lengthBytes; i-- > 0;)
    length = length << 8 | uint8_t(bytes[8 + i]);
  StringRef header = bytes.substr(8 + lengthBytes, length);
  StringRef data = bytes.drop_front(std::min(bytes.size(), 8 + lengthBytes + length));
  auto getEntry = [&](StringRef key) {
    return header.split(("'" + key + "':").str()).second.ltrim();
  };
  StringRef type = getEntry("descr").drop_front().split('\'').first;
  if (!getEntry("fortran_order").starts_with("False"))
    return fail("must be in row-major order");
  llvm::SmallVector<StringRef> texts;
  getEntry("shape").drop_front().split(')').first.split(texts, ',', -1, /*KeepEmpty=*/false);
  llvm::SmallVector<int64_t> shape;
  for (StringRef text : texts)
    if (int64_t size; !text.trim().getAsInteger(10, size))
      shape.push_back(size);
  if (shape.size() < 2 || shape.size() > 3)
    return fail("must be [tokens, experts] or [layers, tokens, experts]");
  unsigned width = 0;
  if (type.size() != 3 || !StringRef("|<").contains(type[0]) ||
      !StringRef("biuf").contains(type[1]) || type.drop_front(2).getAsInteger(10, width))
    return fail("has elements of type '" + type + "', not numbers or booleans");
  mlir::tpc::Routing routing;
  routing.experts = shape.back();
  routing.tokens = shape[shape.size() - 2];
  routing.layers = shape.size() == 3 ? shape[0] : 1;
  uint64_t count = uint64_t(routing.layers) * routing.tokens * routing.experts;
  if (data.size() != count * width)
    return fail("has " + llvm::Twine(data.size()) + " bytes of data, not " +
                llvm::Twine(count * width));
  for (uint64_t i = 0; i < count; ++i) {
    StringRef element = data.substr(i * width, width);
    bool isNegativeZero = type[1] == 'f' && element.back() == '\x80';
    if (isNegativeZero)
      element = element.drop_back();
    routing.selected.push_back(element.find_first_not_of('\0') != StringRef::npos);
  }
  return routing;
}
