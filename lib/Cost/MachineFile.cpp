//===- MachineFile.cpp - Reader of machine files --------------------------===//
//
//     {"name": "h100-sxm", "target": "cuda", "source": "…", "launch": 1e-6,
//      "memory": {"bytes": 85e9, "reserved": 5e8},
//      "matmul": [{"type": "bf16", "peak": 989e12, "bandwidth": 3.35e12, "floor": 4e-6,
//                  "times": [[m, n, k, seconds], …]}],
//      "attention": [{"type": "bf16", "few": [[bytes, seconds], …],
//                     "many": [[operations, seconds], …]}],
//      "kernel": [{"times": [[bytes, seconds], …]}],
//      "collective": [{"kind": "all_reduce", "ranks": 8, "times": [[bytes, seconds], …]}, …],
//      "network": {"latency": 1e-5, "bandwidth": 5e10},
//      "error": {"compute": 0.1, "memory": 0.1, "launch": 0.2, "tensor": 0.2, "pipeline": 0.2}}
//
// Times are in seconds; "peak" is operations and "bandwidth" bytes per second. Machines whose ranks
// share cores have "cores"; entries of their matmul, attention and kernel have "threads". Optional:
//
//   * "network": without it, grids over several nodes are errors;
//   * "price" of a device for one hour;
//   * "collective_launch": time of the call of a collective in addition to its table.
//
// Entries of "collective" whose times are not measured have "derived", the rule that they follow,
// and "error", their relative error.
//
//===----------------------------------------------------------------------===//

#include "tpc/Cost/Machine.h"

#include "tpc/Dialect/MakeError.h"
#include "tpc/Support/ReadFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <set>
#include <sys/stat.h>

using namespace tpc;
using llvm::Error;
using llvm::Expected;
namespace json = llvm::json;

namespace {
struct Shipped {
  llvm::StringLiteral name, text;
};
} // namespace

static constexpr Shipped shipped[] = {
#include "Machines.inc"
};

namespace tpc {

/// Reads a machine. Records the first error; later reads have no effect.
class MachineReader {
public:
  explicit MachineReader(Machine &machine) : machine(machine) {}
  std::string error;

  void read(const json::Object &file);

private:
  void fail(const llvm::Twine &message) {
    if (error.empty())
      error = message.str();
  }
  void checkKeys(const json::Object &object, llvm::StringRef where,
                 llvm::ArrayRef<llvm::StringRef> keys);
  double getNumber(const json::Object &object, llvm::StringRef key, llvm::StringRef where,
                   double min, double max = 1e18);
  int64_t getInteger(const json::Object &object, llvm::StringRef key, llvm::StringRef where,
                     int64_t min, int64_t max) {
    double number = getNumber(object, key, where, double(min), double(max));
    if (error.empty() && number != std::floor(number))
      fail("'" + key + "' of " + where + " must be an integer");
    return int64_t(number);
  }
  std::string getString(const json::Object &object, llvm::StringRef key, llvm::StringRef where);
  std::vector<std::vector<double>> getRows(const json::Object &object, llvm::StringRef key,
                                           llvm::StringRef where, size_t width);
  Curve getCurve(const json::Object &object, llvm::StringRef key, llvm::StringRef where);
  void forEach(const json::Object &file, llvm::StringRef key,
               llvm::function_ref<void(const json::Object &, llvm::StringRef where)> visit);
  int64_t getThreads(const json::Object &object, llvm::StringRef where);

  Machine &machine;
};

void MachineReader::checkKeys(const json::Object &object, llvm::StringRef where,
                              llvm::ArrayRef<llvm::StringRef> keys) {
  for (const auto &[key, unused] : object)
    if (!llvm::is_contained(keys, llvm::StringRef(key)))
      fail(where + " has an entry '" + llvm::StringRef(key) + "'; expected " +
           llvm::join(keys, ", "));
}

double MachineReader::getNumber(const json::Object &object, llvm::StringRef key,
                                llvm::StringRef where, double min, double max) {
  std::optional<double> number = object.getNumber(key);
  if (!number)
    fail(where + " has no number '" + key + "'");
  else if (!(*number >= min && *number <= max))
    fail(llvm::formatv("'{0}' of {1} must be from {2:e} to {3:e}", key, where, min, max).str());
  return error.empty() ? *number : 1;
}

std::string MachineReader::getString(const json::Object &object, llvm::StringRef key,
                                     llvm::StringRef where) {
  std::optional<llvm::StringRef> text = object.getString(key);
  if (!text || text->empty()) {
    fail(where + " has no text '" + key + "'");
    return "";
  }
  return text->str();
}

std::vector<std::vector<double>> MachineReader::getRows(const json::Object &object,
                                                        llvm::StringRef key, llvm::StringRef where,
                                                        size_t width) {
  std::vector<std::vector<double>> rows;
  const json::Array *array = object.getArray(key);
  if (!array || array->empty()) {
    fail(where + " has no list '" + key + "'");
    return rows;
  }
  for (const auto &[index, value] : llvm::enumerate(*array)) {
    const json::Array *row = value.getAsArray();
    std::vector<double> numbers;
    if (row)
      for (const json::Value &item : *row)
        if (std::optional<double> number = item.getAsNumber())
          numbers.push_back(*number);
    bool valid = row && row->size() == width && numbers.size() == width && numbers.back() > 0;
    for (double number : numbers)
      valid &= std::isfinite(number) && number >= 0;
    if (!valid) {
      fail("row " + llvm::Twine(index) + " of '" + key + "' of " + where + " must have " +
           llvm::Twine(width) + " numbers, of which the last, seconds, is greater than 0");
      return rows;
    }
    rows.push_back(std::move(numbers));
  }
  return rows;
}

Curve MachineReader::getCurve(const json::Object &object, llvm::StringRef key,
                              llvm::StringRef where) {
  std::vector<std::pair<double, double>> points;
  std::set<double> works;
  for (const std::vector<double> &row : getRows(object, key, where, 2)) {
    points.push_back({row[0], row[1]});
    if (!works.insert(row[0]).second)
      fail(llvm::formatv("'{0}' of {1} has two times of {2:f0}", key, where, row[0]).str());
  }
  if (points.size() == 1 && points[0].first == 0)
    fail("'" + key + "' of " + where + " has only a time of 0");
  return error.empty() ? Curve(std::move(points), &machine.raised) : Curve();
}

void MachineReader::forEach(
    const json::Object &file, llvm::StringRef key,
    llvm::function_ref<void(const json::Object &, llvm::StringRef where)> visit) {
  const json::Array *array = file.getArray(key);
  if (!array || array->empty())
    return fail("there is no list '" + key + "'");
  for (const auto &[index, value] : llvm::enumerate(*array)) {
    std::string where = key.str() + "[" + std::to_string(index) + "]";
    const json::Object *object = value.getAsObject();
    if (!object)
      return fail(where + " must be an object");
    if (error.empty())
      visit(*object, where);
  }
}

int64_t MachineReader::getThreads(const json::Object &object, llvm::StringRef where) {
  if (machine.cores > 0)
    return getInteger(object, "threads", where, 1, machine.cores);
  if (object.get("threads"))
    fail(where + " has 'threads', but the machine has no 'cores'");
  return 1;
}

void MachineReader::read(const json::Object &file) {
  checkKeys(file, "the machine",
            {"name", "target", "source", "cores", "price", "launch", "collective_launch", "memory",
             "matmul", "attention", "kernel", "collective", "network", "error"});
  machine.name = getString(file, "name", "the machine");
  machine.target = getString(file, "target", "the machine");
  machine.source = getString(file, "source", "the machine");
  if (file.get("cores"))
    machine.cores = getInteger(file, "cores", "the machine", 1, 65536);
  if (file.get("price"))
    machine.price = getNumber(file, "price", "the machine", 0, 1e6);
  machine.launch = getNumber(file, "launch", "the machine", 0, 1);
  if (file.get("collective_launch"))
    machine.collectiveLaunch = getNumber(file, "collective_launch", "the machine", 0, 1);
  if (const json::Object *memory = file.getObject("memory")) {
    checkKeys(*memory, "memory", {"bytes", "reserved"});
    machine.memoryBytes = getInteger(*memory, "bytes", "memory", 1, int64_t(1) << 60);
    machine.reservedBytes = getInteger(*memory, "reserved", "memory", 0, machine.memoryBytes);
  } else {
    fail("there is no object 'memory'");
  }
  if (const json::Object *errors = file.getObject("error")) {
    Machine::Errors &to = machine.errors;
    checkKeys(*errors, "error", {"compute", "memory", "launch", "tensor", "pipeline"});
    to.compute = getNumber(*errors, "compute", "error", 0, 10);
    to.memory = getNumber(*errors, "memory", "error", 0, 10);
    to.launch = getNumber(*errors, "launch", "error", 0, 10);
    to.tensor = getNumber(*errors, "tensor", "error", 0, 10);
    to.pipeline = getNumber(*errors, "pipeline", "error", 0, 10);
  } else {
    fail("there is no object 'error'");
  }

  forEach(file, "matmul", [&](const json::Object &entry, llvm::StringRef where) {
    checkKeys(entry, where, {"type", "threads", "peak", "bandwidth", "floor", "times"});
    std::string type = getString(entry, "type", where);
    MatmulTable table;
    table.elementBytes = type == "f32" ? 4 : type == "f16" || type == "bf16" ? 2 : 0;
    if (table.elementBytes == 0)
      fail("'type' of " + where + " must be f32, f16 or bf16");
    table.peak = getNumber(entry, "peak", where, 1);
    table.bandwidth = getNumber(entry, "bandwidth", where, 1);
    table.floor = getNumber(entry, "floor", where, 0, 1);
    int64_t threads = getThreads(entry, where);
    for (const std::vector<double> &row : getRows(entry, "times", where, 4)) {
      if (row[0] < 1 || row[1] < 1 || row[2] < 1)
        return fail("m, n and k in 'times' of " + where + " must be at least 1");
      table.add(int64_t(row[0]), int64_t(row[1]), int64_t(row[2]), row[3]);
    }
    if (!machine.matmuls.insert({{type, threads}, std::move(table)}).second)
      fail(where + " has the type and threads of another entry");
  });
  forEach(file, "attention", [&](const json::Object &entry, llvm::StringRef where) {
    checkKeys(entry, where, {"type", "threads", "few", "many"});
    std::pair<std::string, int64_t> key = {getString(entry, "type", where),
                                           getThreads(entry, where)};
    AttentionTable table = {getCurve(entry, "few", where), getCurve(entry, "many", where)};
    if (!machine.attentions.insert({key, std::move(table)}).second)
      fail(where + " has the type and threads of another entry");
  });
  forEach(file, "kernel", [&](const json::Object &entry, llvm::StringRef where) {
    checkKeys(entry, where, {"threads", "times"});
    if (!machine.kernels.insert({getThreads(entry, where), getCurve(entry, "times", where)}).second)
      fail(where + " has the threads of another entry");
  });
  forEach(file, "collective", [&](const json::Object &entry, llvm::StringRef where) {
    checkKeys(entry, where, {"kind", "ranks", "derived", "error", "times"});
    std::string kind = getString(entry, "kind", where);
    int64_t ranks = getInteger(entry, "ranks", where, 2, 1 << 20);
    Machine::CollectiveTable table = {getCurve(entry, "times", where)};
    if (entry.get("derived")) {
      getString(entry, "derived", where);
      table.derivedError = getNumber(entry, "error", where, 1e-3, 10);
    } else if (entry.get("error")) {
      fail(where + " has 'error', which needs 'derived': the rule of its times");
    }
    if (!machine.collectives[kind].insert({ranks, std::move(table)}).second)
      fail(where + " has the kind and ranks of another entry");
  });
  if (const json::Value *network = file.get("network")) {
    const json::Object *object = network->getAsObject();
    if (!object)
      return fail("network must be an object");
    checkKeys(*object, "network", {"latency", "bandwidth"});
    machine.network = {getNumber(*object, "latency", "network", 0, 1),
                       getNumber(*object, "bandwidth", "network", 1)};
  }
}

} // namespace tpc

using mlir::tpc::makeError;

Expected<Machine> Machine::parse(llvm::StringRef text) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  if (!object)
    return makeError("a machine must be an object");
  Machine machine;
  MachineReader reader(machine);
  reader.read(*object);
  if (!reader.error.empty())
    return makeError(reader.error);
  return machine;
}

std::vector<std::string> Machine::getNames() {
  std::vector<std::string> names;
  for (const Shipped &one : shipped)
    names.push_back(one.name.str());
  return names;
}

Expected<Machine> Machine::load(const std::string &nameOrPath) {
  for (const Shipped &one : shipped)
    if (one.name == nameOrPath)
      return parse(one.text);
  struct stat status = {};
  if (stat(nameOrPath.c_str(), &status) != 0)
    return makeError("there is no file and no machine '" + nameOrPath +
                     "'; machines: " + llvm::join(getNames(), ", "));
  std::string text;
  constexpr uint64_t maxBytes = 16 << 20;
  if (std::string problem = readFile(nameOrPath, maxBytes, text); !problem.empty())
    return makeError("cannot read '" + nameOrPath + "': " + problem);
  Expected<Machine> machine = parse(text);
  if (!machine)
    return makeError("'" + nameOrPath + "': " + llvm::toString(machine.takeError()));
  return machine;
}
