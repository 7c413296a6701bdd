//===- ModelTest.cpp - Program loaded into another process ----------------===//

#include "program/Model.h"
#include "core/Context.h"
#include "program/Error.h"
#include "program/Worker.h"
#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>
#include <thread>

using namespace tpc::rt;

namespace {

constexpr const char *text = R"({"format": 1, "name": "double", "symbols": ["n"],
  "grid": {"sizes": {"tp": 2}, "order": ["tp"]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["n"]}],
  "outputs": [{"name": "y", "dtype": "f32", "shape": ["n"]}],
  "files": [], "parameters": []})";

/// y = 2 x, on the first rank. A negative element is an error of the second rank, while the first
/// waits.
void stage(tpc_context *ctx, const int64_t *env) {
  int64_t count = env[0], zero = 0;
  auto *x = static_cast<const float *>(tpc_input(ctx, 0));
  if (env[1] == 1 && count > 0 && x[0] < 0)
    fail(*ctx, "a negative number");
  ctx->transport->barrier(*ctx);
  if (env[1] != 0)
    return;
  auto *y = static_cast<float *>(tpc_frame_push(ctx, count * static_cast<int64_t>(sizeof(float))));
  for (int64_t i = 0; i < count; ++i)
    y[i] = 2 * x[i];
  tpc_output(ctx, 0, y, 1, &count, &zero, &count);
  tpc_frame_pop(ctx, y);
}

class ModelTest : public testing::Test {
protected:
  ModelTest() {
    program.abi_version = TPC_ABI_VERSION;
    program.num_stages = 1;
    program.manifest = text;
    program.stages = &function;
  }

  static std::vector<float> run(Model &model, const std::vector<float> &x) {
    auto take = [&](const Port &port) {
      Tensor tensor;
      tensor.dtype = port.dtype;
      tensor.shape = {std::ssize(x)};
      tensor.data = Buffer::borrow(x.data(), std::ssize(x) * static_cast<int64_t>(sizeof(float)));
      return Given{"x", std::move(tensor)};
    };
    std::vector<Tensor> outputs = model.run({"x"}, take);
    const auto *y = outputs.at(0).as<float>();
    return {y, y + outputs.at(0).count()};
  }

  tpc_stage_fn function = stage;
  tpc_program program{};
  Manifest manifest = parseManifest(text);
};

} // namespace

TEST_F(ModelTest, RunsAgainAfterErrors) {
  Model model(program, manifest, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(model, {1, 2, 3}), (std::vector<float>{2, 4, 6}));
    try {
      run(model, {-1});
      ADD_FAILURE() << "nothing is wrong";
    } catch (const BrokenStep &error) {
      EXPECT_STREQ(error.what(), "rank 1: a negative number");
    }
    EXPECT_THROW(model.run({}, nullptr), UserError);
  }
  EXPECT_EQ(run(model, {}), std::vector<float>());
}

TEST_F(ModelTest, ServesManyThreadsAndModels) {
  Model models[] = {{program, manifest, {"--threads-per-rank=1"}}, {program, manifest, {}}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        auto value = static_cast<float>(100 * i + j);
        if (j % 7 == 6)
          EXPECT_THROW(run(models[i % 2], {-1}), BrokenStep);
        else
          EXPECT_EQ(run(models[i % 2], {value, 1}), (std::vector<float>{2 * value, 2}));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(ModelTest, RejectsFlagsOfExecutables) {
  for (const char *flag : {"--help", "--bench", "--describe", "--input=x=y", "--output=y", "file"})
    EXPECT_THROW(Model(program, manifest, {flag}), UserError) << flag;
  Model open(program, manifest, {});
  EXPECT_THROW(Model(program, manifest, {"--deterministic"}), UserError);
}

TEST_F(ModelTest, AcceptsOtherFlagsAfterAllAreClosed) {
  {
    Model first(program, manifest, {});
  }
  Model second(program, manifest, {"--deterministic"});
  EXPECT_EQ(run(second, {4}), std::vector<float>{8});
}

TEST(WorkerTest, KeepsOrderAndExceptions) {
  std::vector<int> order;
  {
    Worker worker;
    std::future<void> thrown = worker.post([] { throw std::runtime_error("no"); });
    for (int i = 0; i < 100; ++i)
      (void)worker.post([&, i] { order.push_back(i); });
    EXPECT_THROW(thrown.get(), std::runtime_error);
    EXPECT_THROW(worker.call([] { throw UserError("never"); }), UserError);
    EXPECT_EQ(order.size(), 100u);
    (void)worker.post([&] { order.push_back(100); });
  } // the destructor waits for all work
  ASSERT_EQ(order.size(), 101u);
  for (int i = 0; i <= 100; ++i)
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkerTest, BlocksSignalsOfTheProcess) {
  Worker worker;
  sigset_t there, here;
  worker.call([&] { pthread_sigmask(SIG_BLOCK, nullptr, &there); });
  pthread_sigmask(SIG_BLOCK, nullptr, &here);
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_TRUE(sigismember(&there, number)) << number;
    EXPECT_FALSE(sigismember(&here, number)) << number;
  }
  // Fault signals go to the handlers of the process.
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    EXPECT_FALSE(sigismember(&there, number)) << number;
}
