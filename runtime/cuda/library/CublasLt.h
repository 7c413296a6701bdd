//===- CublasLt.h - Declarations of the cuBLASLt functions in use ---------===//
//
// Functions of libcublasLt.so.13 or .12. VendorHeaders.cpp compares them with NVIDIA's header where
// that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUBLASLT_H
#define TPC_RT_CUDA_LIBRARY_CUBLASLT_H

#include "cuda/library/Driver.h"

namespace tpc::rt::cuda::blas {

using Status = int;
using Handle = struct HandleImpl *;
using MatmulDesc = struct MatmulDescImpl *;
using Layout = struct LayoutImpl *;
using Preference = struct PreferenceImpl *;
struct Algorithm {
  uint64_t data[8];
  bool operator==(const Algorithm &) const = default;
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};

// Enumerators in use.
constexpr Status success = 0, notSupported = 15;
constexpr int compute32F = 68, computeTf32 = 77, real32F = 0, real16F = 2, real16BF = 14;
constexpr int32_t transposed = 1;
constexpr uint32_t epilogueNone = 1, epilogueBias = 4;
constexpr int descTransA = 3, descEpilogue = 7, descBias = 8;
constexpr int layoutBatch = 5, layoutStride = 6;
constexpr int preferWorkspace = 1, preferAlignA = 5, preferAlignB = 6, preferAlignC = 7,
              preferAlignD = 8;

/// FUNCTION(name, arguments); all return a Status.
#define TPC_CUBLASLT_FUNCTIONS(FUNCTION)                                                           \
  FUNCTION(Create, (Handle *))                                                                     \
  FUNCTION(Destroy, (Handle))                                                                      \
  FUNCTION(MatmulDescCreate, (MatmulDesc *, int, int))                                             \
  FUNCTION(MatmulDescDestroy, (MatmulDesc))                                                        \
  FUNCTION(MatmulDescSetAttribute, (MatmulDesc, int, const void *, size_t))                        \
  FUNCTION(MatrixLayoutCreate, (Layout *, int, uint64_t, uint64_t, int64_t))                       \
  FUNCTION(MatrixLayoutDestroy, (Layout))                                                          \
  FUNCTION(MatrixLayoutSetAttribute, (Layout, int, const void *, size_t))                          \
  FUNCTION(MatmulPreferenceCreate, (Preference *))                                                 \
  FUNCTION(MatmulPreferenceDestroy, (Preference))                                                  \
  FUNCTION(MatmulPreferenceSetAttribute, (Preference, int, const void *, size_t))                  \
  FUNCTION(MatmulAlgoGetHeuristic, (Handle, MatmulDesc, Layout, Layout, Layout, Layout,            \
                                    Preference, int, Heuristic *, int *))                          \
  FUNCTION(MatmulAlgoCheck,                                                                        \
           (Handle, MatmulDesc, Layout, Layout, Layout, Layout, const Algorithm *, Heuristic *))   \
  FUNCTION(Matmul, (Handle, MatmulDesc, const void *, const void *, Layout, const void *, Layout,  \
                    const void *, const void *, Layout, void *, Layout, const Algorithm *, void *, \
                    size_t, Stream))

/// The loaded library of this process.
struct Library {
#define TPC_DECLARE_POINTER(name, arguments) Status(*name) arguments = nullptr;
  TPC_CUBLASLT_FUNCTIONS(TPC_DECLARE_POINTER)
#undef TPC_DECLARE_POINTER
  size_t (*GetVersion)() = nullptr;
  std::string file;

  /// Throws unless `status` is success. `what` completes the message: "to ...".
  static void check(Status status, const char *what);
  /// "cuBLASLt 13.1.0"
  std::string describe() const;
  /// Loads the library once. Returns null and sets `problem` on failure.
  static const Library *load(std::string &problem);
};

} // namespace tpc::rt::cuda::blas

#endif // TPC_RT_CUDA_LIBRARY_CUBLASLT_H
