//===- CudaTuning.cpp - GEMM tuning on a GPU ------------------------------===//
//
// A tuning key names the machine and the GEMM, such as "NVIDIA H100, sm_90, 132 multiprocessors,
// driver 13000, cuBLASLt 13.1.0: f32 1 8 768 2304 …". A tuning result is the bytes of an algorithm
// (valid for equal library versions), "own" for a GEMV kernel, or "first" if there is at most one
// method.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/CudaDevice.h"
#include "cuda/library/CudaMatrix.h"
#include <cstring>
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

constexpr const char *onlyTuning = "first", *gemvTuning = "own", *separator = ": ";

std::string spell(const MatmulMethod &method) {
  if (method.isGemv)
    return gemvTuning;
  constexpr const char *digits = "0123456789abcdef";
  std::string text;
  for (uint64_t word : method.algorithm.data)
    for (int shift = 60; shift >= 0; shift -= 4)
      text += digits[word >> shift & 15];
  return text;
}

std::optional<MatmulMethod> methodOf(const std::string &text) {
  if (text == gemvTuning)
    return MatmulMethod{.isGemv = true};
  blas::Algorithm algorithm{};
  constexpr size_t width = 16;
  if (text.size() != width * std::size(algorithm.data) ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  for (size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(text.substr(i * width, width), nullptr, 16);
  return MatmulMethod{.algorithm = algorithm};
}

} // namespace

std::string CudaDevice::machine() const {
  return queue.gpu.name + ", sm_" + std::to_string(queue.gpu.architecture) + ", " +
         std::to_string(queue.gpu.multiprocessors) + " multiprocessors, driver " +
         std::to_string(driver.version) + ", " + library.describe();
}

std::optional<MatmulShape> CudaDevice::shapeOf(const std::string &tuningKey) const {
  std::string prefix = machine() + separator;
  return tuningKey.starts_with(prefix) ? MatmulShape::parse(tuningKey.substr(prefix.size()))
                                       : std::nullopt;
}

std::vector<Address> CudaDevice::matricesOf(const MatmulShape &shape) {
  std::vector<Address> found;
  std::erase_if(matrices, [](const auto &one) { return one.expired(); });
  if (shape.batch == 1)
    for (const auto &one : matrices)
      if (auto matrix = one.lock();
          matrix && matrix->k == shape.k && matrix->n == shape.n && matrix->dtype == shape.dtype &&
          matrix->transposed == shape.transposed && matrix->rows % shape.alignW == 0 &&
          (shape.wRow ? matrix->rowStride == shape.wRow
                      : matrix->rowStride == (shape.transposed ? shape.k : shape.n)))
        found.push_back(matrix->rows);
  return found;
}

std::vector<std::string> CudaDevice::pendingTunings() {
  std::vector<std::string> all;
  if (measures)
    for (const MatmulShape &shape : products.shapes())
      all.push_back(machine() + separator + shape.text());
  return all;
}

int64_t CudaDevice::tuningBytes(const std::string &tuningKey) {
  std::optional<MatmulShape> shape = shapeOf(tuningKey);
  return shape ? cuda::Matmuls::bytesToMeasure(*shape, !matricesOf(*shape).empty()) : 0;
}

std::string CudaDevice::tune(const std::string &tuningKey, void *memory) {
  enter();
  std::optional<MatmulShape> shape = shapeOf(tuningKey);
  if (!shape)
    throw std::logic_error("internal error: a tuning key of another GPU");
  auto best = products.measure(*shape, addressOf(memory), matricesOf(*shape));
  return best ? spell(*best) : onlyTuning;
}

bool CudaDevice::applyTuning(const std::string &tuningKey, const std::string &tuning) {
  enter();
  std::optional<MatmulShape> shape = shapeOf(tuningKey);
  if (!shape)
    return false;
  if (tuning == onlyTuning)
    return true;
  std::optional<MatmulMethod> method = methodOf(tuning);
  return method && products.applyTuning(*shape, *method);
}

} // namespace tpc::rt::cuda
