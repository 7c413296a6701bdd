//===- QuantizeWeights.h - Quantization of a model's weights ----*- C++ -*-===//

#ifndef TPC_TRANSFORMS_MODEL_QUANTIZEWEIGHTS_H
#define TPC_TRANSFORMS_MODEL_QUANTIZEWEIGHTS_H

#include "tpc/Transforms/Model/Passes.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir::tpc {

/// Number format of quantized weights: "int8", "int4", "int4:64", "fp8".
struct WeightFormat {
  int64_t bits = 8;
  bool isFloat = false; ///< E4M3 of weights and activations; see Float8.h
  int64_t block = 0;    ///< numbers of a column that share a scale; 0: the whole column

  /// Returns nothing, and an error, if the text is not a format.
  static std::optional<WeightFormat> parse(llvm::StringRef text, std::string &error);
  /// Returns the block size for columns of `rows` numbers: the largest power of two, at most
  /// `block` and at least 16, that divides `rows`; the whole column if there is none.
  int64_t getBlock(int64_t rows) const;
};

/// Result of tpc-quantize-weights.
struct QuantizationReport {
  struct Matrix {
    std::string node, weight; ///< the first matmul that reads the weight
    int64_t rows, columns, block;
    int64_t bytes, originalBytes;
    /// |x W' - x W| / |x W| for rows x that are drawn from a normal distribution, where W' is the
    /// quantized matrix. With fp8, also x is rounded.
    double error;
  };
  std::vector<Matrix> matrices;
  /// Names of matmuls whose weights are not quantized, with the reason.
  std::vector<std::pair<std::string, std::string>> kept;

  /// Returns the matrix with the largest error. There must be one.
  const Matrix &getWorst() const;
};

std::unique_ptr<Pass> createQuantizeWeights(QuantizeWeightsOptions options,
                                            std::shared_ptr<QuantizationReport> report);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_MODEL_QUANTIZEWEIGHTS_H
