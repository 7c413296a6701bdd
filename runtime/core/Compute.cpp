//===- Compute.cpp - Computation functions of the ABI ---------------------===//
//
// These functions check arguments, handle empty tensors, and pass the rest to the device.
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"
#include "core/DType.h"
#include "core/Device.h"
#include "core/Reduce.h"
#include "tpc/accumulate.h"
#include "tpc/attention_grad.h"
#include <algorithm>
#include <span>
#include <vector>

using namespace tpc::rt;

namespace {

/// Fails unless `index` is within one of the program's tables.
void checkIndex(tpc_context &ctx, const char *what, int32_t index, int32_t tpc_program::*count) {
  if (!ctx.code || index < 0 || index >= ctx.code->*count)
    fail(ctx,
         "internal error: the program has no " + std::string(what) + " " + std::to_string(index));
}

/// Fails unless the device supports `what` for this element type.
void checkType(tpc_context &ctx, const char *what, int32_t dtype) {
  if (!ctx.device->computes(dtype))
    fail(ctx, "internal error: " + std::string(what) + " of " + spellType(dtype) +
                  ", which this device does not compute");
}

} // namespace

extern "C" const void *tpc_constant(tpc_context *ctx, int32_t index) {
  checkIndex(*ctx, "constant", index, &tpc_program::num_constants);
  return ctx->device->constant(index);
}

extern "C" void tpc_copy(tpc_context *ctx, void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    ctx->device->copy(to, from, bytes);
}

extern "C" void tpc_accumulate(tpc_context *ctx, void *sum, const void *from, int64_t count,
                               int64_t micro_batch) {
  if (count <= 0)
    return;
  const auto bytes = count * static_cast<int64_t>(sizeof(float));
  Device &device = *ctx->device;
  if (micro_batch == 0)
    return device.copy(sum, from, bytes);
  if (device.accumulate(static_cast<float *>(sum), static_cast<const float *>(from), count))
    return;
  device.beginAccess();
  void *to = device.map(sum, bytes, Device::Use::ReadWrite);
  const void *in[] = {to, device.map(const_cast<void *>(from), bytes, Device::Use::Read)};
  if (to) // else a dry run
    reduce(TPC_F32, TPC_SUM, to, in, 2, count);
  device.endAccess();
}

extern "C" void tpc_set_env(tpc_context *ctx, int32_t index, int64_t value) {
  if (index < 0 || index >= ctx->envSize)
    fail(*ctx, "internal error: env has no entry " + std::to_string(index));
  ctx->device->setEnv(index, value);
}

extern "C" void tpc_launch(tpc_context *ctx, int32_t kernel, void *const *operands, int32_t count,
                           int64_t rows, int64_t grain) {
  checkIndex(*ctx, "kernel", kernel, &tpc_program::num_kernels);
  if (rows > 0)
    ctx->device->launch(kernel, operands, count, rows, std::max<int64_t>(grain, 1));
}

/// Returns the matmuls that are not empty. Fails if one does not match its parameter.
static std::vector<Product> listProducts(tpc_context *ctx, int64_t k, const tpc_product *products,
                                         int32_t count, int32_t dtype) {
  auto &matrices = ctx->data.matrices;
  std::vector<Product> list;
  checkType(*ctx, "a matmul", dtype);
  for (const tpc_product &p : std::span(products, static_cast<size_t>(count))) {
    if (p.n <= 0)
      continue;
    const Matrix *matrix = p.parameter >= 0 && static_cast<size_t>(p.parameter) < matrices.size()
                               ? matrices[p.parameter].get()
                               : nullptr;
    if (!matrix)
      fail(*ctx, "internal error: parameter " + std::to_string(p.parameter) +
                     " is not packed for matmuls");
    if (matrix->k != k || matrix->n != p.n)
      fail(*ctx, "internal error: parameter " + std::to_string(p.parameter) + " is [" +
                     std::to_string(matrix->k) + ", " + std::to_string(matrix->n) +
                     "], but a matmul expects [" + std::to_string(k) + ", " + std::to_string(p.n) +
                     "]");
    if (p.dtype != dtype || matrix->dtype != dtype)
      fail(*ctx, "internal error: parameter " + std::to_string(p.parameter) + " is of " +
                     spellType(matrix->dtype) + ", but a matmul of " + spellType(p.dtype) +
                     " is fused with one of " + spellType(dtype));
    if (p.out_dtype != dtype && p.out_dtype != TPC_F32)
      fail(*ctx, "internal error: a matmul of " + std::string(spellType(dtype)) +
                     " has a result of " + spellType(p.out_dtype));
    if (p.out_stride < p.n)
      fail(*ctx, "internal error: rows of a matmul's result have " + std::to_string(p.n) +
                     " elements, but begin every " + std::to_string(p.out_stride));
    if (p.out_stride != p.n && ctx->device->isHost())
      fail(*ctx, "internal error: rows of a matmul's result must be adjacent on CPUs");
    list.push_back({matrix, p.bias, p.residual, p.out, p.epilogue, p.out_dtype,
                    p.out_stride == p.n ? 0 : p.out_stride});
  }
  return list;
}

extern "C" void tpc_products(tpc_context *ctx, const float *x, int64_t m, int64_t k,
                             const tpc_product *products, int32_t count) {
  if (m <= 0)
    return;
  int32_t dtype = count > 0 ? products[0].dtype : TPC_F32;
  std::vector<Product> list = listProducts(ctx, k, products, count, dtype);
  if (!list.empty())
    ctx->device->multiply({x, m, k, list, dtype});
}

extern "C" int32_t tpc_fused_products(tpc_context *ctx, const tpc_fusion *fusion, const float *x,
                                      int64_t m, int64_t k, const tpc_product *products,
                                      int32_t count) {
  if (m <= 0)
    return 0;
  int32_t dtype = count > 0 ? products[0].dtype : TPC_F32;
  std::vector<Product> list = listProducts(ctx, k, products, count, dtype);
  return list.size() == static_cast<size_t>(count) && count > 0 &&
         ctx->device->multiplyFused({x, m, k, list, dtype}, *fusion);
}

extern "C" void tpc_batch_matmul(tpc_context *ctx, int32_t dtype, const float *a, const float *b,
                                 float *out, int64_t batch, int64_t m, int64_t k, int64_t n,
                                 int64_t aBatchStride, int64_t bBatchStride) {
  checkType(*ctx, "a matmul", dtype);
  if (batch > 0 && m > 0 && n > 0)
    ctx->device->batchProduct({a, b, out, batch, m, k, n, aBatchStride, bBatchStride, dtype});
}

extern "C" void tpc_quantized_product(tpc_context *ctx, const tpc_quantized_args *args) {
  tpc_quantized_args a = *args;
  if (a.k <= 0) // blocks may be empty
    a.block = std::max<int64_t>(a.block, 1);
  if (a.m <= 0 || a.n <= 0)
    return;
  auto isWidth = [](int32_t bits) { return bits == 2 || bits == 4 || bits == 8; };
  if (!isWidth(a.bits) || (a.zero_bits && !isWidth(a.zero_bits)) || a.block < 1)
    fail(*ctx, "internal error: a matmul by numbers of " + std::to_string(a.bits) +
                   " bits, with zero points of " + std::to_string(a.zero_bits) +
                   " bits, in blocks of " + std::to_string(a.block));
  int64_t numbers = a.by_rows ? a.n : a.k;
  if (numbers > a.row_bytes * (8 / a.bits))
    fail(*ctx, "internal error: a matmul by rows of " + std::to_string(numbers) + " numbers of " +
                   std::to_string(a.bits) + " bits in " + std::to_string(a.row_bytes) + " bytes");
  if (a.scale_dtype != TPC_F32 && a.scale_dtype != TPC_F16 && a.scale_dtype != TPC_BF16)
    fail(*ctx, "internal error: a matmul by numbers with scales of " +
                   std::string(spellType(a.scale_dtype)));
  ctx->device->quantizedProduct(a);
}

/// Fails if there is a page table: devices support one page per sequence only.
static void checkPages(tpc_context &ctx, const char *what, const int64_t *pages) {
  if (pages)
    fail(ctx, std::string("internal error: ") + what +
                  " has a table of pages, but each sequence must have one page");
}

extern "C" void tpc_attention(tpc_context *ctx, const tpc_attention_args *args) {
  const tpc_attention_args &a = *args;
  if (a.batch <= 0 || a.seq_q <= 0 || a.heads_q <= 0 || a.value_size <= 0)
    return;
  if (a.heads_kv <= 0 || a.heads_q % a.heads_kv != 0)
    fail(*ctx, "internal error: attention: " + std::to_string(a.heads_kv) +
                   " kv heads cannot serve " + std::to_string(a.heads_q) + " query heads");
  if (a.lengths && !a.causal)
    fail(*ctx, "internal error: attention with lengths must be causal");
  checkPages(*ctx, "attention", a.pages);
  checkType(*ctx, "attention", a.dtype);
  if (a.bias)
    checkType(*ctx, "attention with a bias", a.bias_dtype);
  if (a.slopes)
    checkType(*ctx, "attention with slopes", a.slopes_dtype);
  if (a.sinks)
    checkType(*ctx, "attention with sinks", a.sinks_dtype);
  ctx->device->attention(a);
}

extern "C" void tpc_attention_grad(tpc_context *ctx, const tpc_attention_args *args,
                                   const float *dout, float *dq, float *dk, float *dv) {
  const tpc_attention_args &a = *args;
  if (a.batch <= 0 || a.heads_q <= 0)
    return;
  if (a.heads_kv <= 0 || a.heads_q % a.heads_kv != 0)
    fail(*ctx, "internal error: the gradient of attention: " + std::to_string(a.heads_kv) +
                   " kv heads cannot serve " + std::to_string(a.heads_q) + " query heads");
  if (a.lengths || a.sinks)
    fail(*ctx, "internal error: attention on caches or with sinks has no gradient");
  checkType(*ctx, "the gradient of attention", a.dtype);
  ctx->device->attentionGrad(a, dout, dq, dk, dv);
}

extern "C" void tpc_experts(tpc_context *ctx, const tpc_experts_args *args) {
  const tpc_experts_args &a = *args;
  if (a.first < 0 || a.experts < 0 || a.first + a.experts > a.all)
    fail(*ctx, "internal error: experts " + std::to_string(a.first) + " to " +
                   std::to_string(a.first + a.experts) + " of " + std::to_string(a.all));
  if (a.dtype != TPC_F32 && a.dtype != TPC_F16 && a.dtype != TPC_BF16)
    fail(*ctx, std::string("internal error: matrices of experts of ") + spellType(a.dtype));
  if (a.tokens > 0 && a.outputs > 0)
    ctx->device->experts(a);
}

extern "C" void tpc_append(tpc_context *ctx, const tpc_append_args *args) {
  const tpc_append_args &a = *args;
  checkPages(*ctx, "an append to a cache", a.pages);
  if (a.batch > 0 && a.heads > 0 && a.sequence > 0 && a.capacity > 0 && a.size > 0)
    ctx->device->append(a);
}
