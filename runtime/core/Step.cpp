//===- Step.cpp - around a stage function ---------------------------------===//

#include "core/Step.h"
#include <cstring>

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
  ctx.code = &program;
  ctx.status = {};
  ctx.env = symbols;
  ctx.env.insert(ctx.env.end(), ctx.coordinates.begin(), ctx.coordinates.end());
  ctx.env.push_back(0); // the micro-batch
  const std::vector<int64_t> env = ctx.env;
  program.stages[stage](&ctx, env.data());
  if (ctx.status.missing)
    fail(ctx, describe(ctx.status, program));
}

} // namespace tpc::rt

using namespace tpc::rt;

extern "C" const void *tpc_constant(tpc_context *ctx, int32_t index) {
  if (index < 0 || !ctx->code || index >= ctx->code->num_constants)
    fail(*ctx, "internal error: there is no constant " + std::to_string(index));
  return ctx->code->constants[index].data;
}

extern "C" void tpc_copy(tpc_context *, void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

extern "C" void tpc_set_env(tpc_context *ctx, int32_t place, int64_t value) {
  if (place < 0 || static_cast<size_t>(place) >= ctx->env.size())
    fail(*ctx, "internal error: env has no place " + std::to_string(place));
  ctx->env[place] = value;
}
