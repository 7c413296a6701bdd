//===- MatmulPlan.h - cuBLASLt descriptors of a GEMM ----------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_MATMULPLAN_H
#define TPC_RT_CUDA_LIBRARY_MATMULPLAN_H

#include "cuda/library/Matmuls.h"

namespace tpc::rt::cuda {

/// An owned cuBLASLt descriptor.
template <class T> class Owned {
public:
  explicit Owned(blas::Status (*destroy)(T)) : destroy(destroy) {}
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    if (value)
      destroy(value);
  }
  operator T() const { return value; }
  T *operator&() { return &value; }

private:
  blas::Status (*destroy)(T);
  T value = nullptr;
};

struct Matmuls::Plan {
  Plan(const blas::Library &library, const MatmulShape &shape)
      : shape(shape), operation(library.MatmulDescDestroy), a(library.MatrixLayoutDestroy),
        b(library.MatrixLayoutDestroy), d(library.MatrixLayoutDestroy) {}

  const MatmulShape shape;
  Owned<blas::MatmulDesc> operation;
  Owned<blas::Layout> a, b, d;
  std::vector<blas::Algorithm> algorithms; // best first; rejected ones are removed
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_MATMULPLAN_H
