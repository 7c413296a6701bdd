//===- CpuDevice.h - CPU device -------------------------------------------===//
//
// Memory is host memory. Calls complete their work before they return, on the rank's threads.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_CPUDEVICE_H
#define TPC_RT_CPU_CPUDEVICE_H

#include "core/Arena.h"
#include "core/Device.h"
#include "cpu/Kernels.h"
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace tpc::rt {

inline int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Right operand of matmuls: panels (GemmJob), or the transpose of a dense matrix in place. Matmuls
/// pack panels of the latter on the fly, which is cheap for more than a few rows. Matmuls compute
/// in f32; elements are stored as f32, f16 or bf16.
class PackedMatrix : public Matrix {
public:
  /// Throws std::bad_alloc.
  PackedMatrix(int64_t k, int64_t n, int32_t stored = TPC_F32)
      : PackedMatrix(k, n, stored, allocate(bytesFor(k, n, stored))) {}
  /// Makes a matrix of existing panels.
  PackedMatrix(int64_t k, int64_t n, int32_t stored, std::shared_ptr<std::byte> panels)
      : Matrix(k, n), stored(stored), panels(std::move(panels)) {}
  PackedMatrix(const void *transposed, int64_t k, int64_t n, int32_t stored)
      : Matrix(k, n), transposed(transposed), stored(stored) {}

  /// Sets rows [row0, row1) from dense rows of type `stored`.
  void setRows(int64_t row0, int64_t row1, const void *rows);
  const void *data() const { return panels.get(); }
  /// As DeviceKind::storedType.
  static int32_t storedType(int32_t dtype, int32_t sourceDtype);
  static int64_t bytesFor(int64_t k, int64_t n, int32_t stored);
  /// Throws std::bad_alloc.
  static std::shared_ptr<std::byte> allocate(int64_t bytes);

  const void *const transposed = nullptr; ///< [n, k] of type `stored`, or null
  const int32_t stored;

private:
  template <typename T> void pack(int64_t row0, int64_t row1, const void *rows);

  std::shared_ptr<std::byte> panels; // shared by matrices of merged matmuls
};

/// Scratch memory of an operation. Throws std::bad_alloc.
class Scratch {
public:
  Scratch(Arena &arena, int64_t floats)
      : arena(arena),
        data(static_cast<float *>(arena.push(floats * static_cast<int64_t>(sizeof(float))))) {
    if (!data)
      throw std::bad_alloc();
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() { arena.pop(data); }

private:
  Arena &arena;

public:
  float *const data;
};

/// Computes the columns of panels [panel0, panel1), at most maxGemmPanels, which `packed` contains
/// in f32. Ignores `job.packed`.
void multiplyPanels(const KernelTable &kernel, const GemmJob &job, const float *packed,
                    int64_t panel0, int64_t panel1);

class CpuDevice : public Device {
public:
  explicit CpuDevice(tpc_context &ctx) : ctx(ctx), scratch(*this) {}

  void *allocate(int64_t bytes) override;
  void release(void *memory) override;
  const void *share(const void *host, int64_t) override { return host; }
  void unshare(const void *) override {}
  std::byte *beginWrite(void *to, int64_t) override { return static_cast<std::byte *>(to); }
  void endWrite() override {}
  const std::byte *beginRead(const void *from, int64_t) override {
    return static_cast<const std::byte *>(from);
  }
  void endRead() override {}
  bool isSynchronous() const override { return true; }
  void beginAccess() override {}
  void endAccess() override {}

  void load(const tpc_program &loaded) override { program = &loaded; }
  const void *constant(int32_t index) override { return program->constants[index].data; }
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override;
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) override;
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                      int32_t dtype) override;
  /// Transposes as many rows of each matrix [n, k] as fill panels (GemmJob), at the same offset and
  /// without padding. The other rows remain dense.
  bool packExperts(void *matrices, int64_t experts, int64_t n, int64_t k, int32_t dtype) override;

  void beginStep(const std::vector<int64_t> &values) override { env = values; }
  void setEnv(int32_t index, int64_t value) override { env[index] = value; }
  void copy(void *to, const void *from, int64_t bytes) override;
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              int64_t grain) override;
  void multiply(const Products &products) override;
  void batchProduct(const BatchProduct &product) override;
  void quantizedProduct(const tpc_quantized_args &args) override;
  void attention(const tpc_attention_args &args) override;
  void attentionGrad(const tpc_attention_args &args, const float *dout, float *dq, float *dk,
                     float *dv) override;
  void experts(const tpc_experts_args &args) override;
  void append(const tpc_append_args &args) override;
  tpc_status endStep() override;

protected:
  tpc_context &ctx;
  Arena scratch;

private:
  const tpc_program *program = nullptr;
  std::vector<int64_t> env;
  tpc_status status = {};
};

} // namespace tpc::rt

#endif // TPC_RT_CPU_CPUDEVICE_H
