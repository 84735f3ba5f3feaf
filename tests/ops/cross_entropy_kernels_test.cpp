#include "ops/cross_entropy/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "ops/guarded_buffer.h"

namespace plimsoll::cpu {
namespace {

struct Problem {
  ClassRows shape;
  GuardedBuffer logits;
  std::vector<std::int32_t> labels;

  Problem(const ClassRows& of, float spread, float offset) : shape(of), logits(of.rows * of.classes) {
    fill_random(logits, 1);
    for (std::int64_t i = 0; i < logits.size(); ++i) logits.data()[i] = logits.data()[i] * spread + offset;
    for (std::int64_t row = 0; row < of.rows; ++row) {
      const std::int64_t label = row % 5 == 3 ? -1 - row : row * 7919 % of.classes;
      labels.push_back(static_cast<std::int32_t>(label));
    }
  }
};

struct Reference {
  std::vector<double> losses, gradient;
};

Reference reference(const Problem& problem, double scale) {
  const auto classes = static_cast<std::size_t>(problem.shape.classes);
  const double s = problem.shape.label_smoothing, size = static_cast<double>(classes);
  Reference r{std::vector<double>(problem.labels.size()), std::vector<double>(problem.labels.size() * classes)};
  for (std::size_t row = 0; row < problem.labels.size(); ++row) {
    if (problem.labels[row] < 0) continue;
    const auto label = static_cast<std::size_t>(problem.labels[row]);
    const float* x = problem.logits.data() + row * classes;
    const double top = *std::max_element(x, x + classes);
    double sum = 0, below = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp(x[i] - top), below += x[i] - top;
    const double l = top + std::log(sum);
    r.losses[row] = std::log(sum) - (1 - s) * (x[label] - top) - s * below / size;
    for (std::size_t i = 0; i < classes; ++i) {
      r.gradient[row * classes + i] = scale * (std::exp(x[i] - l) - s / size - (i == label ? 1 - s : 0));
    }
  }
  return r;
}

void expect_reference(Problem& problem) {
  constexpr float kScale = 0.125f;
  const Reference expected = reference(problem, kScale);
  GuardedBuffer losses(problem.shape.rows), gradient(problem.logits.size()), losses2(losses.size()), gradient2(gradient.size());
  set_thread_count(1);
  cross_entropy_forward(problem.shape, problem.logits.data(), problem.labels.data(), losses.data());
  cross_entropy_backward(problem.shape, problem.logits.data(), problem.labels.data(), kScale, gradient.data());
  set_thread_count(2);
  cross_entropy_forward(problem.shape, problem.logits.data(), problem.labels.data(), losses2.data());
  cross_entropy_backward(problem.shape, problem.logits.data(), problem.labels.data(), kScale, gradient2.data());
  EXPECT_LT(largest_error(losses, expected.losses), 1e-6);
  EXPECT_LT(largest_difference(gradient, expected.gradient), 1e-6 * kScale);  // probabilities are at most 1
  EXPECT_TRUE(losses == losses2 && gradient == gradient2);
  cross_entropy_backward(problem.shape, problem.logits.data(), problem.labels.data(), kScale, problem.logits.data());
  EXPECT_TRUE(problem.logits == gradient);
  EXPECT_TRUE(losses.intact() && losses2.intact() && gradient.intact() && gradient2.intact() && problem.logits.intact());
}

TEST(CrossEntropy, AgreesWithFp64OnEveryInstructionSet) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const std::int64_t classes : {1, 2, 10, 33, 1000, 1024, 1025, 50257}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        SCOPED_TRACE(std::string(hwy::TargetName(left & -left)) + ", " + std::to_string(classes) + " classes, smoothing " +
                     std::to_string(smoothing));
        Problem near({7, classes, smoothing}, 5, 0);
        expect_reference(near);
        Problem far({7, classes, smoothing}, 1e4f, 0);
        expect_reference(far);
        Problem high({7, classes, smoothing}, 5, 30000);
        expect_reference(high);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(CrossEntropy, OfManyRowsIsTheSameForAnyTeam) {
  Problem problem({4000, 10, 0.1}, 5, 0);
  expect_reference(problem);
}

// As PyTorch defines it: the cross-entropy against a distribution q that has 1 - s of the label and s / classes of every class.
TEST(CrossEntropy, SmoothedLabelsAreADistribution) {
  const float logits[] = {0.5f, -1.25f, 2.0f, 0.0f};
  const std::int32_t label = 2;
  const double s = 0.1, sum = std::exp(0.5) + std::exp(-1.25) + std::exp(2.0) + 1;
  double expected = 0;
  for (int i = 0; i < 4; ++i) expected -= (s / 4 + (i == label ? 1 - s : 0)) * (double{logits[i]} - std::log(sum));
  float loss = 0;
  cross_entropy_forward({1, 4, s}, logits, &label, &loss);
  EXPECT_NEAR(loss, expected, 1e-6);
  EXPECT_NEAR(loss, 0.5032486, 1e-6);
}

TEST(CrossEntropy, OfOneClassIsZero) {
  const float logits[] = {123.0f, -7.0f};
  const std::int32_t labels[] = {0, 0};
  float losses[2], gradient[2];
  cross_entropy_forward({2, 1}, logits, labels, losses);
  cross_entropy_backward({2, 1}, logits, labels, 3, gradient);
  for (const float x : {losses[0], losses[1], gradient[0], gradient[1]}) EXPECT_EQ(x, 0);
}

TEST(CrossEntropy, NanIsNotHiddenAndIgnoredRowsAreNotRead) {
  Problem problem({2, 40}, 1, 0);
  problem.labels = {3, -1};
  problem.logits.data()[11] = problem.logits.data()[51] = std::nanf("");
  GuardedBuffer losses(2), gradient(80);
  cross_entropy_forward(problem.shape, problem.logits.data(), problem.labels.data(), losses.data());
  cross_entropy_backward(problem.shape, problem.logits.data(), problem.labels.data(), 1, gradient.data());
  EXPECT_TRUE(std::isnan(losses.data()[0]) && std::isnan(gradient.data()[0]) && std::isnan(gradient.data()[39]));
  EXPECT_EQ(losses.data()[1], 0);
  for (int i = 40; i < 80; ++i) EXPECT_EQ(gradient.data()[i], 0);
}

TEST(CrossEntropy, ALabelThatIsNoClassIsNamed) {
  Problem problem({3, 10}, 1, 0);
  problem.labels = {0, 9, 10};
  GuardedBuffer losses(3), gradient(30);
  const auto expect_error = [&](auto run) {
    try {
      run();
      ADD_FAILURE() << "label 10 of 10 classes passes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-DATA-LABEL");
      EXPECT_EQ(error.message, "label 10 of row 2 is no class");
      EXPECT_EQ(error.expected, "0 to 9, or below 0 for a row that is ignored");
    }
  };
  expect_error([&] { cross_entropy_forward(problem.shape, problem.logits.data(), problem.labels.data(), losses.data()); });
  expect_error([&] { cross_entropy_backward(problem.shape, problem.logits.data(), problem.labels.data(), 1, gradient.data()); });
}

}  // namespace
}  // namespace plimsoll::cpu
