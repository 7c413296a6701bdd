//===- Products.cpp - how fast products are, beside oneDNN ----------------===//
//
//   tpc-products-bench [THREADS]
//
// Best times of f32 products of GPT-2's shapes: tpc_matmul, and oneDNN's matmul with weights in the
// layout that it asks for (format_tag::any, reordered once), where it was found when this was
// built. Both are tried in turns, so that other load on the machine meets both.
//
//===----------------------------------------------------------------------===//

#include "core/World.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#ifdef TPC_HAS_DNNL
#include <oneapi/dnnl/dnnl.hpp>
extern "C" void omp_set_num_threads(int);
#endif

using namespace tpc::rt;

namespace {

double secondsOf(const std::function<void()> &work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

#ifdef TPC_HAS_DNNL
/// One product of oneDNN, ready to run.
class DnnlProduct {
public:
  DnnlProduct(int64_t m, int64_t k, int64_t n, float *x, float *w, float *out)
      : engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    using dnnl::memory;
    auto f32 = memory::data_type::f32;
    memory::desc xDesc({m, k}, f32, memory::format_tag::ab);
    memory::desc outDesc({m, n}, f32, memory::format_tag::ab);
    memory::desc anyDesc({k, n}, f32, memory::format_tag::any);
    dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(xDesc, anyDesc, outDesc), engine);
    product = dnnl::matmul(primitive);
    memory weights(primitive.weights_desc(), engine);
    memory plain({{k, n}, f32, memory::format_tag::ab}, engine, w);
    dnnl::reorder(plain, weights).execute(stream, plain, weights);
    stream.wait();
    arguments = {{DNNL_ARG_SRC, memory(xDesc, engine, x)},
                 {DNNL_ARG_WEIGHTS, weights},
                 {DNNL_ARG_DST, memory(outDesc, engine, out)}};
  }
  void run() {
    product.execute(stream, arguments);
    stream.wait();
  }

private:
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::matmul product;
  std::unordered_map<int, dnnl::memory> arguments;
};
#endif

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  auto world = World::threads(Grid({{"tp", 1}}), threads);
  tpc_context *ctx = &world->local(0);
  std::printf("%s kernels, %d threads; GFLOP/s of the best of some runs\n", kernels().name,
              threads);
  std::printf("%6s %6s %6s %10s %10s\n", "M", "K", "N", "tpc", "oneDNN");
  for (auto [k, n] : {std::pair<int64_t, int64_t>{768, 2304},
                      {768, 768},
                      {768, 3072},
                      {3072, 768},
                      {768, 50257}}) {
    std::vector<float> w(k * n);
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>(i % 7) - 3;
    auto matrix = std::make_shared<PackedMatrix>(k, n);
    matrix->setRows(0, k, w.data());
    ctx->data.matrices = {matrix};
    for (int64_t m : {1, 8, 128, 512}) {
      std::vector<float> x(m * k, 0.5f), out(m * n);
      double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
      double own = 1e9, other = 1e9;
#ifdef TPC_HAS_DNNL
      omp_set_num_threads(threads);
      DnnlProduct product(m, k, n, x.data(), w.data(), out.data());
#endif
      for (int i = std::clamp(static_cast<int>(3e9 / flops), 5, 200); i > 0; --i) {
        own = std::min(own, secondsOf([&] {
                         tpc_matmul(ctx, 0, x.data(), nullptr, nullptr, out.data(), m, k, n,
                                    TPC_EPILOGUE_NONE);
                       }));
#ifdef TPC_HAS_DNNL
        other = std::min(other, secondsOf([&] { product.run(); }));
#endif
      }
      std::printf("%6lld %6lld %6lld %10.1f", static_cast<long long>(m), static_cast<long long>(k),
                  static_cast<long long>(n), flops / own / 1e9);
      std::printf(other < 1e9 ? " %10.1f\n" : "          -\n", flops / other / 1e9);
    }
  }
}
