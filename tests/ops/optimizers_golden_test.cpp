// A hundred updates of each optimizer against PyTorch's in fp64 (tests/golden/optimizers.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/factored/kernels.h"
#include "ops/update/kernels.h"

namespace plimsoll::cpu {
namespace {

constexpr int kUpdates = 100;
constexpr std::int64_t kElements = 60;

using Update = std::function<void(int update, float* p, const float* g)>;

// fp32 rounds at each of a hundred updates: errors of a few 1e-7, which momentum may carry on.
void expect_golden(const std::string& name, const Update& update) {
  std::ifstream stream(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests" / "golden" / "optimizers.json");
  const auto want = nlohmann::json::parse(stream).at(name).get<std::vector<double>>();
  std::vector<float> p(kElements), g(kElements);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<float>(std::cos(static_cast<double>(i)));
  for (int t = 1; t <= kUpdates; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) g[i] = static_cast<float>(std::sin(static_cast<double>(i) + t) + 0.3 * p[i]);
    update(t, p.data(), g.data());
  }
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], want[i], 3e-6) << name << " element " << i;
}

void expect_adamw(const std::string& name, AdamWStep step) {
  std::vector<float> m(kElements), v(kElements);
  expect_golden(name, [&](int t, float* p, const float* g) {
    step.bias_correction1 = 1 - std::pow(step.beta1, t);
    step.bias_correction2 = 1 - std::pow(step.beta2, t);
    adamw(kElements, p, m.data(), v.data(), g, step);
  });
}

void expect_sgd(const std::string& name, SgdStep step) {
  std::vector<float> buffer(kElements);
  expect_golden(name, [&](int t, float* p, const float* g) {
    step.first = t == 1;
    sgd(kElements, p, step.momentum > 0 ? StateNumbers(buffer.data()) : StateNumbers(nullptr), g, step);
  });
}

TEST(Optimizers, AdamWIsPyTorchs) {
  expect_adamw("adamw", {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1});
  expect_adamw("adamw_long", {.lr = 3e-3, .beta1 = 0.8, .beta2 = 0.999, .epsilon = 1e-3});
}

TEST(Optimizers, SgdIsPyTorchs) {
  expect_sgd("sgd", {.lr = 1e-2, .weight_decay = 0.1});
  expect_sgd("sgd_momentum", {.lr = 1e-2, .momentum = 0.9, .weight_decay = 0.1});
  expect_sgd("sgd_nesterov", {.lr = 1e-2, .momentum = 0.9, .nesterov = true});
}

TEST(Optimizers, LionIsThatOfItsPaper) {
  std::vector<float> m(kElements);
  expect_golden("lion", [&](int, float* p, const float* g) {
    lion(kElements, p, m.data(), g, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1});
  });
}

void expect_adafactor(const std::string& name, const FactoredShape& shape) {
  std::vector<float> rows(static_cast<std::size_t>(shape.rows)), columns(static_cast<std::size_t>(shape.columns));
  std::vector<std::byte> scratch(1 << 16);
  const FactoredRange all{0, kElements};
  const Variance variance{rows.data(), columns.data()};
  expect_golden(name, [&](int t, float* p, const float* g) {
    AdafactorStep step{.lr = 1e-2, .weight_decay = 0.1, .update = t};
    update_variance(shape, all, variance, {g}, std::pow(t, -0.8), scratch.data());
    step.sizes = update_size(shape, all, p, variance, {g}, {}, scratch.data());
    adafactor(shape, all, p, nullptr, variance, {g}, step);
  });
}

TEST(Optimizers, AdafactorIsPyTorchs) {
  expect_adafactor("adafactor", {6, 10, true});
  expect_adafactor("adafactor_vector", {1, kElements, false});
}

}  // namespace
}  // namespace plimsoll::cpu
