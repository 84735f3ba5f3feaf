#include "verify/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/update/kernels.h"
#include "ops/update/update.h"
#include "tensor/half.h"

namespace plimsoll::verification {
namespace {

constexpr std::size_t kElements = 4096, kBlock = ops::kCodedBlock;
constexpr double kMostUpdates = 1000;
constexpr double kLeastLeft = 0x1p-10;  // least remaining share: far above the smallest 8-bit number of a block

// Moments of momentum SGD with rate 0, which keeps the parameters: v = decay v + g.
struct Moments {
  explicit Moments(DType dtype)
      : coded(dtype == DType::u8), p(kElements), g(kElements), narrow(kElements), codes(kElements), scales(kElements / kBlock) {}

  void update(double decay, std::uint64_t number) {
    const cpu::StochasticRounding rounding{{3, 9}, number, 0};
    const cpu::StateNumbers state = coded ? cpu::StateNumbers(codes.data(), scales.data()) : cpu::StateNumbers(narrow.data());
    cpu::sgd(kElements, p.data(), state, g.data(), {.lr = 0, .momentum = decay}, {}, rounding);
  }

  // The stored moments, read by an update that moves them into the parameters.
  std::vector<float> numbers() const {
    std::vector<float> read(kElements);
    const std::vector<float> zeros(kElements);
    auto copy_of_codes = codes;
    auto copy_of_scales = scales;
    auto copy = narrow;
    const cpu::StateNumbers state =
        coded ? cpu::StateNumbers(copy_of_codes.data(), copy_of_scales.data()) : cpu::StateNumbers(copy.data());
    cpu::sgd(kElements, read.data(), state, zeros.data(), {.lr = -1, .momentum = 1});
    return read;
  }

  bool coded;
  std::vector<float> p, g;
  std::vector<std::uint16_t> narrow;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

// Mean square relative error of one rounding, averaged over a binade of log-uniform numbers. A rounding has the variance
// p (1 - p) times the squared distance of neighbours; p is the position of the decayed number between them.
double variance_of_one(double decay, double distance) {
  constexpr int kSteps = 100000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double number = std::exp2((i + 0.5) / kSteps), lost = (1 - decay) * number / distance, p = lost - std::floor(lost);
    sum += p * (1 - p) * distance * distance / (number * number);
  }
  return sum / kSteps;
}

}  // namespace

RoundingError rounding_error(DType state, double decay, bool one_seed) {
  const int updates = static_cast<int>(std::clamp(std::log(kLeastLeft) / std::log(decay), 1.0, kMostUpdates));
  Moments moments(state);
  // The first element of each block stays constant, and with it the scale of the block.
  for (std::size_t i = 0; i < kElements; ++i) {
    moments.g[i] = i % kBlock == 0 ? 2.0F : static_cast<float>(std::exp2(static_cast<double>(i) / kElements));
  }
  moments.update(0, 0);
  const std::vector<float> start = moments.numbers();
  for (std::size_t i = 0; i < kElements; ++i) moments.g[i] = i % kBlock == 0 ? static_cast<float>(2 * (1 - decay)) : 0.0F;
  for (int update = 1; update <= updates; ++update) moments.update(decay, static_cast<std::uint64_t>(one_seed ? 1 : update));
  const std::vector<float> end = moments.numbers();
  double sum = 0, squares = 0, count = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    if (i % kBlock == 0) continue;
    const double error = end[i] / (start[i] * std::pow(double{static_cast<float>(decay)}, updates)) - 1;
    sum += error;
    squares += error * error;
    ++count;
  }
  const double distance = moments.coded ? 0x1p-3 : 0x1p-7;
  const double theory = std::sqrt(std::expm1(updates * std::log1p(variance_of_one(decay, distance))));
  return {sum / count / (theory / std::sqrt(count)), std::sqrt(squares / count) / theory};
}

RoundingError sum_error(bool one_seed) {
  constexpr std::uint32_t kSteps = 1000;
  constexpr float kPart = 0x1p-10F;  // an eighth of the distance of numbers between 1 and 2
  constexpr double kDistance = 0x1p-7, kShare = kPart / kDistance;
  std::vector<std::uint16_t> sums(kElements, narrow_bf16(1));
  const std::vector<float> parts(kElements, kPart);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    cpu::accumulate_rounded(kElements, parts.data(), /*add=*/true, sums.data(), {{3, 9}, one_seed ? 0 : step, 0});
  }
  double sum = 0, squares = 0;
  for (const std::uint16_t each : sums) {
    const double error = widen_bf16(each) - (1 + kSteps * double{kPart});
    sum += error;
    squares += error * error;
  }
  const double theory = kDistance * std::sqrt(kSteps * kShare * (1 - kShare)), count = static_cast<double>(kElements);
  return {sum / count / (theory / std::sqrt(count)), std::sqrt(squares / count) / theory};
}

}  // namespace plimsoll::verification
