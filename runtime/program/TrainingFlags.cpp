//===- TrainingFlags.cpp - Training flags of a program --------------------===//

#include "program/TrainingFlags.h"
#include "program/Error.h"
#include <charconv>
#include <cmath>
#include <limits>

namespace tpc::rt {
namespace {

template <typename Number>
Number numberOf(const std::string &flag, const std::string &text, Number minimum,
                const char *expected) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= minimum) ||
      std::isinf(static_cast<double>(value)))
    throw UserError(flag + " " + text + ": expected " + expected);
  return value;
}

std::string pathOf(const std::string &flag, const std::string &text) {
  if (text.empty())
    throw UserError(flag + "=: expected a path");
  return text;
}

} // namespace

bool setTrainingFlag(TrainingOptions &options, const std::string &flag, bool trains,
                     const std::function<std::string()> &value) {
  constexpr const char *positive = "a positive integer";
  constexpr const char *count = "an integer that is not negative";
  constexpr const char *rate = "a number that is not negative, such as 3e-4";
  auto rateOf = [&] {
    double number = numberOf<double>(flag, value(), 0, rate);
    if (number > std::numeric_limits<float>::max())
      throw UserError(flag +
                      ": the number exceeds the range of f32, in which updates are computed");
    return number;
  };
  bool isOther = flag == "--seed" || flag == "--warmup";
  if (isOther && !trains)
    return false;
  if (flag == "--data")
    options.data = pathOf(flag, value());
  else if (flag == "--batch")
    options.batch = numberOf<int64_t>(flag, value(), 1, positive);
  else if (flag == "--sequence")
    options.sequence = numberOf<int64_t>(flag, value(), 1, positive);
  else if (flag == "--steps")
    options.steps = numberOf<int64_t>(flag, value(), 1, positive);
  else if (flag == "--warmup")
    options.warmup = numberOf<int64_t>(flag, value(), 0, count);
  else if (flag == "--lr")
    options.rate = rateOf();
  else if (flag == "--last-lr")
    options.lastRate = rateOf();
  else if (flag == "--schedule") {
    options.schedule = value();
    if (options.schedule != "constant" && options.schedule != "linear" &&
        options.schedule != "cosine")
      throw UserError(flag + " " + options.schedule + ": expected constant, linear or cosine");
  } else if (flag == "--seed")
    options.seed = numberOf<uint64_t>(flag, value(), 0, count);
  else if (flag == "--save")
    options.save = pathOf(flag, value());
  else if (flag == "--save-every")
    options.saveEvery = numberOf<int64_t>(flag, value(), 1, positive);
  else if (flag == "--loss-scale") {
    options.scale = numberOf<double>(flag, value(), 1, "a power of two, 1 or more");
    if (int exponent = 0; std::frexp(options.scale, &exponent) != 0.5 || exponent > 100)
      throw UserError(flag + ": expected a power of two from 1 to 2^99");
  } else if (flag == "--loss-scale-interval")
    options.scaleInterval = numberOf<int64_t>(flag, value(), 1, positive);
  else if (flag == "--resume")
    options.resume = pathOf(flag, value());
  else if (flag == "--log")
    options.log = pathOf(flag, value());
  else
    return false;
  if (options.firstFlag.empty())
    options.firstFlag = flag;
  return true;
}

std::string trainingHelp(const std::string &program) {
  return "Train:\n  " + program +
         R"( --data tokens.bin --batch 16 --sequence 512 --steps 1000 --lr 3e-4 --save checkpoints

Flags of training:
  --data FILE              token ids: .npy, or raw little-endian integers in a file .u16, .i32, .i64, or of another name
                           (u16). -100 in a signed file is a label that the loss ignores
  --batch N                samples per step, on all replicas together (1)
  --sequence N             tokens of a sample. Sample i is tokens i*N to (i+1)*N - 1; its labels are the tokens after them
  --steps N                number of the last step
  --lr X                   learning rate, reached after --warmup N steps (0)
  --schedule NAME          constant (default), linear or cosine: from --lr at the end of the warm-up to --last-lr X (0)
  --seed N                 seed of the order of samples (0), which is the same for every grid
  --save DIR               write checkpoints to DIR/step-N: every --save-every N steps, after the last one, and on SIGTERM
  --resume DIR             continue from the last checkpoint in DIR, with the same flags
  --loss-scale X           of f16 matmuls: factor of the loss's cotangent at the first step, a power of two (65536). It
                           doubles after --loss-scale-interval N steps (2000), and halves if gradients overflow
  --log FILE.jsonl         append a line for each step, as on standard output
)";
}

} // namespace tpc::rt
