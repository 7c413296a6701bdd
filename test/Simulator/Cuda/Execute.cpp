//===- Execute.cpp - Checked memory effects of operations -----------------===//

#include "Execute.h"
#include "Ptx/Program.h"
#include "Ptx/Text.h"

#include <algorithm>
#include <sys/mman.h>

using namespace sim;
using ptx::text;

void sim::reserveAddresses(uint64_t first) {
  // The mapping fails if the range is in use or addresses are limited. Then a stray access may not
  // crash, but nothing else changes.
  mmap(reinterpret_cast<void *>(first), uint64_t(1) << 40, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

ptx::Allocation &Executing::find(uint64_t address, uint64_t bytes, const char *what,
                                 const char *verb) {
  lockMemory();
  ptx::Allocation *found = context.memory.find(address);
  if (!found || found->freed || bytes > found->end() - address)
    throw Fault{ERROR_ILLEGAL_ADDRESS, text("{} {} bytes of {} at {}: {}", verb, bytes, what,
                                            ptx::hex(address), context.memory.describe(address))};
  return *found;
}

void Executing::note(uint64_t address, uint64_t bytes, bool write, const char *what,
                     const Clock &clock) {
  auto other = context.races.note(address, address + bytes, write, operation.access, clock);
  if (other)
    throw Fault{ERROR_LAUNCH_FAILED,
                text("race: {} {} ({}), which no event orders after {}", write ? "writes" : "reads",
                     what, context.memory.describe(address),
                     other->name ? *other->name : "another operation")};
}

const uint8_t *Executing::read(uint64_t address, uint64_t bytes, const char *what) {
  if (!bytes)
    return nullptr;
  ptx::Allocation &in = find(address, bytes, what, "reads");
  if (in.unwritten)
    if (uint64_t missing = context.memory.countUnwritten(address, bytes)) {
      const uint8_t *written = in.written.data() + (address - in.base);
      auto first = uint64_t(std::find(written, written + bytes, 0) - written);
      throw Fault{ERROR_LAUNCH_FAILED,
                  text("initialization: reads {} bytes of {} that are unwritten, the first at {}",
                       missing, what, context.memory.describe(address + first))};
    }
  note(address, bytes, false, what);
  return context.memory.read(address, bytes);
}

uint8_t *Executing::write(uint64_t address, uint64_t bytes, const char *what) {
  if (!bytes)
    return nullptr;
  find(address, bytes, what, "writes");
  note(address, bytes, true, what);
  return context.memory.beginWrite(address, bytes);
}

void Executing::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (!bytes)
    return;
  find(from, bytes, "the source", "reads");
  find(to, bytes, "the destination", "writes");
  if (from < to + bytes && to < from + bytes)
    throw Fault{ERROR_LAUNCH_FAILED, "source and destination overlap"};
  note(from, bytes, false, "the source");
  note(to, bytes, true, "the destination");
  context.memory.copy(to, from, bytes);
}

static Result resultOf(const ptx::Finding &finding) {
  switch (finding.check) {
  case ptx::Check::Memory:
    return finding.message.find("not aligned") != std::string::npos ? ERROR_MISALIGNED_ADDRESS
                                                                    : ERROR_ILLEGAL_ADDRESS;
  case ptx::Check::Trap:
    return ERROR_ILLEGAL_INSTRUCTION;
  case ptx::Check::Limit:
    return ERROR_LAUNCH_TIMEOUT;
  case ptx::Check::Launch:
    return ERROR_INVALID_VALUE;
  case ptx::Check::Initialization:
  case ptx::Check::Race:
  case ptx::Check::Synchronization:
    break;
  }
  return ERROR_LAUNCH_FAILED;
}

void Executing::launch(const ptx::Module &module, const std::string &kernel,
                       const std::vector<ptx::Argument> &arguments, ptx::LaunchConfig config) {
  lockMemory();
  config.seed = next();
  ptx::Result result = ptx::launch(module, kernel, arguments, context.memory, config);
  if (!result.clean()) {
    std::string message = result.str();
    message.erase(message.find_last_not_of('\n') + 1);
    throw Fault{result.findings.empty() ? ERROR_LAUNCH_FAILED : resultOf(result.findings[0]),
                message};
  }
  // Early accesses may happen before the end of the previous kernel, and of those before it up to
  // one that waited for all earlier work.
  for (const ptx::EarlyAccess &one : result.early)
    if (const ptx::Allocation *in = context.memory.find(one.from); in && !in->readOnly)
      note(one.from, one.to - one.from, one.written, "memory before griddepcontrol.wait",
           operation.early);
  // The interpreter detects races between threads of one launch. For races between operations, a
  // launch counts as one access.
  struct Piece {
    uint64_t from, to;
    bool written;
  };
  std::vector<Piece> pieces;
  context.memory.forTouched(
      [&](const ptx::Allocation &in, uint64_t from, uint64_t to, bool, bool written) {
        if (!in.readOnly)
          pieces.push_back({in.base + from, in.base + to, written});
      });
  context.memory.trim();
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece &a, const Piece &b) { return a.from < b.from; });
  for (size_t i = 0; i < pieces.size();) {
    Piece piece = pieces[i++];
    while (i < pieces.size() && pieces[i].from == piece.to && pieces[i].written == piece.written)
      piece.to = pieces[i++].to;
    note(piece.from, piece.to - piece.from, piece.written, "memory");
  }
}
