//===- ReportText.cpp - A report as JSON and as text ----------------------===//

#include "tpc/Analysis/Report.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;

llvm::json::Value CollectiveRow::toJSON() const {
  return llvm::json::Object{
      {"stage", stage}, {"axis", axis}, {"kind", kind}, {"count", count}, {"bytes", bytes}};
}

llvm::json::Value Report::toJSON() const {
  llvm::json::Object shape;
  for (const auto &[name, value] : symbols)
    shape[name] = value;
  llvm::json::Array rows, stageRows, functionRows, rankRows;
  for (const CollectiveRow &row : collectives)
    rows.push_back(row.toJSON());
  for (const StageRow &row : stages) {
    llvm::json::Array parameters;
    for (const ParameterRow &parameter : row.parameters)
      parameters.push_back(llvm::json::Object{{"weight", parameter.weight},
                                              {"shape", llvm::json::Array(parameter.shape)},
                                              {"held", llvm::json::Array(parameter.localShape)},
                                              {"bytes", parameter.bytes}});
    llvm::json::Array chunks;
    for (const ChunkRow &chunk : row.chunks)
      chunks.push_back(llvm::json::Object{{"chunk", chunk.chunk}, {"layers", chunk.layers}});
    stageRows.push_back(llvm::json::Object{{"stage", row.stage},
                                           {"chunks", std::move(chunks)},
                                           {"layers", row.layers},
                                           {"seconds", row.seconds},
                                           {"layer_seconds", row.layerSeconds},
                                           {"recomputed_seconds", row.recomputedSeconds},
                                           {"transfer_seconds", row.transferSeconds},
                                           {"weight_bytes", row.weightBytes},
                                           {"held_bytes", row.prologueBytes},
                                           {"cache_bytes", row.cacheBytes},
                                           {"micro_batches", row.microBatches},
                                           {"parameters", std::move(parameters)}});
  }
  for (const FunctionRow &row : functions)
    functionRows.push_back(llvm::json::Object{{"function", row.function},
                                              {"layer", row.isLayer},
                                              {"calls", row.calls},
                                              {"products", row.matmuls},
                                              {"attentions", row.attentions},
                                              {"kernels", row.kernels}});
  for (const RankRow &row : ranks)
    rankRows.push_back(llvm::json::Object{{"rank", row.rank},
                                          {"stage", row.stage},
                                          {"weight_bytes", row.weightBytes},
                                          {"cache_bytes", row.cacheBytes}});
  return llvm::json::Object{{"shape", std::move(shape)},
                            {"collectives", std::move(rows)},
                            {"stages", std::move(stageRows)},
                            {"schedule", llvm::json::Object{{"policy", schedule.policy},
                                                            {"busy", schedule.busy},
                                                            {"idle", schedule.idle},
                                                            {"bubble", schedule.getBubble()}}},
                            {"functions", std::move(functionRows)},
                            {"weights", std::move(rankRows)},
                            {"splits", llvm::json::Array(splits)},
                            {"warnings", llvm::json::Array(warnings)}};
}

void Report::print(llvm::raw_ostream &os) const {
  auto printBytes = [&](int64_t bytes) {
    const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = double(bytes);
    unsigned unit = 0;
    while (value >= 1024 && unit < 4) {
      value /= 1024;
      ++unit;
    }
    os << llvm::format(unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  };
  os << "Split:\n";
  for (const std::string &split : splits)
    os << "  " << split << "\n";
  if (splits.empty())
    os << "  nothing\n";
  os << "Stages:\n";
  for (const StageRow &row : stages) {
    os << "  " << row.stage << ": " << row.layers << (row.layers == 1 ? " layer" : " layers");
    if (row.chunks.size() > 1) {
      os << " (";
      llvm::interleaveComma(row.chunks, os, [&](const ChunkRow &chunk) {
        os << chunk.layers << " in chunk " << chunk.chunk;
      });
      os << ")";
    }
    os << ", weights ";
    printBytes(row.weightBytes);
    os << " per rank, ";
    if (row.cacheBytes > 0) {
      os << "caches ";
      printBytes(row.cacheBytes);
      os << ", ";
    }
    if (row.prologueBytes > 0) {
      printBytes(row.prologueBytes);
      os << " live during ";
    }
    os << row.microBatches << (row.microBatches == 1 ? " micro-batch" : " micro-batches");
    os << llvm::format(", estimated %.3f ms each\n", row.seconds * 1e3);
  }
  if (schedule.ranks > 1)
    os << "  schedule " << schedule.policy << ": each rank computes in " << schedule.busy
       << " slots and waits in " << schedule.idle
       << llvm::format(", bubble %.1f%%\n", 100 * schedule.getBubble());
  for (const std::string &warning : warnings)
    os << "  warning: " << warning << "\n";
  os << "Communication of one rank in one step:\n";
  for (const CollectiveRow &row : collectives) {
    os << "  stage " << row.stage << ", " << row.axis << ": " << row.count << " x " << row.kind
       << ", ";
    printBytes(row.bytes);
    os << "\n";
  }
  if (collectives.empty())
    os << "  none\n";
}
