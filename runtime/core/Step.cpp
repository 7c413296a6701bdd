//===- Step.cpp - around a stage function ---------------------------------===//

#include "core/Step.h"

namespace tpc::rt {

static std::string describe(const tpc_status &status, const tpc_program &program) {
  std::string text = "node '" + std::string(program.nodes[status.node]) + "' looks up index " +
                     std::to_string(status.index) + " of " + std::to_string(status.size);
  if (status.size)
    text +=
        "; valid are " + std::to_string(-status.size) + " to " + std::to_string(status.size - 1);
  return text;
}

void runStage(tpc_context &ctx, const tpc_program &program, int stage,
              const std::vector<int64_t> &symbols) {
  std::vector<int64_t> env = symbols;
  env.insert(env.end(), ctx.coordinates.begin(), ctx.coordinates.end());
  env.push_back(0); // the micro-batch
  ctx.code = &program;
  ctx.envSize = static_cast<int32_t>(env.size());
  ctx.device->load(program);
  ctx.device->beginStep(env);
  program.stages[stage](&ctx, env.data());
  if (tpc_status status = ctx.device->endStep(); status.missing)
    fail(ctx, describe(status, program));
}

} // namespace tpc::rt
