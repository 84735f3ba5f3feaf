// The gradient of a window does not depend on how it is cut into micro-batches: accumulators are read between the last micro-step
// and the update and compared with the window in one piece and with a sum over single samples in fp64. Wrong ways to accumulate
// fail the same comparison.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "models/gpt2/gpt2.h"
#include "run/session.h"

namespace plimsoll {
namespace {

using Gradients = std::map<std::string, std::vector<double>>;

double squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

double norm(const Gradients& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients) sum += squares(values);
  return std::sqrt(sum);
}

// The largest relative L2 error of a tensor; tensors that vanish in exact arithmetic are measured against the whole gradient.
double worst_error(const Gradients& got, const Gradients& want) {
  const double whole = norm(want);
  double worst = 0;
  for (const auto& [name, values] : want) {
    std::vector<double> difference = got.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    worst = std::max(worst, std::sqrt(squares(difference)) / std::max(std::sqrt(squares(values)), 1e-3 * whole));
  }
  return worst;
}

double tolerance(std::int64_t k) { return 1e-6 * std::sqrt(static_cast<double>(k)); }

// Runs the sections of a plan by hand. References outlive this.
class ByHand {
 public:
  ByHand(const Config& config, const Plan& plan, const TokenFile& source)
      : config_(config),
        plan_(plan),
        source_(source, config.model.context),
        model_(build_training_graph(config, {.row = {RowBytes::of_stream(source.bytes_per_token)}}, plan.decisions.micro_batch)),
        program_(lower(plan)),
        arena_(plan.arena),
        device_(arena_),
        executor_(plan.graph, program_, device_, plan.threads, plan.decisions.loss_chunks),
        order_{config.data.order, static_cast<std::uint64_t>(config.seed), source_.count()} {
    initialize_parameters(plan.graph, 3, executor_);
    // Larger weights than a fresh model's, so that gradients of all tensors matter.
    for (const ValueId id : plan.graph.parameters()) {
      for (float& weight : executor_.view(id).as<float>()) weight *= 4;
    }
  }

  Window window(std::int64_t first, std::int64_t count) const {
    Window window;
    cut_window(order_, source_, {.samples = count, .row = config_.model.context}, first, window);
    return window;
  }
  std::int64_t micro_count(const Window& window) const {
    return (window.rows + plan_.decisions.micro_batch - 1) / plan_.decisions.micro_batch;
  }
  void micro_step(const Window& window, std::int64_t micro, double inverse_units, bool starts) {
    executor_.run(Section::micro, starts, [&](Section) {
      std::vector<PlacedSample> placed;
      const std::int64_t rows = plan_.decisions.micro_batch;
      for (PlacedSample each : window.placed) {
        each.row -= static_cast<std::int32_t>(micro * rows);
        if (each.row >= 0 && each.row < rows) placed.push_back(each);
      }
      std::vector<FieldBuffer> fields;
      for (const Field& field : model_.micro.inputs) fields.push_back({field.name, executor_.view(field.value)});
      source_.read(placed, bytes(model_.staging[0]));
      source_.fill(placed, bytes(model_.staging[0]), fields);
      *executor_.view(model_.micro.losses.front().scale).as_pointer<float>() = static_cast<float>(inverse_units);
    });
  }
  void run(const Window& window, double inverse_units) {
    for (std::int64_t micro = 0; micro < micro_count(window); ++micro) micro_step(window, micro, inverse_units, micro == 0);
  }
  double loss_total() const { return *executor_.view(model_.training.loss_totals.front()).as_pointer<double>(); }
  Gradients gradients() const {
    Gradients result;
    for (std::size_t i = 0; i < plan_.graph.values.size(); ++i) {
      const Value& value = plan_.graph.values[ValueId{i}];
      if (value.role != Role::accumulator || !value.persistent()) continue;
      if (value.type.dtype != DType::f32) continue;
      const auto data = executor_.view(ValueId{i}).as<float>();
      result[value.name].assign(data.begin(), data.end());
    }
    add_rows(result);
    return result;
  }

 private:
  // Adds the separate rows of lookups to the table's gradient.
  void add_rows(Gradients& gradients) const {
    const auto rows = gradients.extract("wte.weight.grad.rows");
    if (rows.empty()) return;
    std::vector<double>& sum = gradients.at("wte.weight.grad");
    const ValueId map = plan_.graph.find("wte.weight.grad.slots");
    const std::size_t width = static_cast<std::size_t>(config_.model.config.as<Gpt2Config>().width);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      std::size_t row = i / width + 1;
      if (map.valid()) row = static_cast<std::size_t>(executor_.view(map).as<std::int32_t>()[i / width]);
      if (row > 0) sum[i] += rows.mapped()[(row - 1) * width + i % width];
    }
  }

  std::span<std::byte> bytes(ValueId id) const {
    const TensorView view = executor_.view(id);
    return {view.data, static_cast<std::size_t>(view.bytes())};
  }

  const Config& config_;
  const Plan& plan_;
  TokenSource source_;
  TrainingGraph model_;
  Program program_;
  Arena arena_;
  CpuDevice device_;
  Executor executor_;
  SampleOrder order_;
};

struct WindowResult {
  Gradients gradients;
  double loss = 0;
};

struct Case {
  ModelShape shape;
  std::int64_t effective;
  int tokens;          // of the file: the last sample is short
  std::int64_t first;  // position of the window
  std::int64_t count;  // samples of the window, at most `effective`
  double dropout;
};
void PrintTo(const Case& c, std::ostream* out) {
  PrintTo(c.shape, out);
  *out << ", " << c.count << " of " << c.effective << " samples at " << c.first << ", dropout " << c.dropout;
}

class Factorisation : public ::testing::TestWithParam<Case> {
 protected:
  Factorisation()
      : config(config_for(GetParam().shape, GetParam().effective, GetParam().dropout)),
        data(GetParam().shape.vocab, GetParam().tokens, 0) {
    config.data.order = OrderKind::sequential;
  }

  Plan plan(std::int64_t micro) const { return plan_with(config, micro, {BlockMode::cheap, BlockMode::keep}, 2, data.facts()); }
  WindowResult run(std::int64_t micro) const {
    const Plan planned = plan(micro);
    ByHand hand(config, planned, data.train());
    const Window window = hand.window(GetParam().first, GetParam().count);
    hand.run(window, 1.0 / static_cast<double>(window.units));
    return {hand.gradients(), hand.loss_total() / static_cast<double>(window.units)};
  }
  // Each sample alone, with the weight that it has in the window; summed in fp64.
  WindowResult reference() const {
    const Plan planned = plan(1);
    ByHand hand(config, planned, data.train());
    const Window window = hand.window(GetParam().first, GetParam().count);
    WindowResult sum;
    for (std::int64_t sample = 0; sample < hand.micro_count(window); ++sample) {
      hand.micro_step(window, sample, 1.0 / static_cast<double>(window.units), true);
      for (const auto& [name, values] : hand.gradients()) {
        auto& total = sum.gradients[name];
        total.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) total[i] += values[i];
      }
      sum.loss += hand.loss_total() / static_cast<double>(window.units);
    }
    return sum;
  }
  std::vector<std::int64_t> micros() const {
    std::vector<std::int64_t> result;
    for (std::int64_t b = 1; b <= GetParam().effective; ++b) {
      if (GetParam().effective % b == 0) result.push_back(b);
    }
    return result;
  }

  Config config;
  TokenData data;
};

TEST_P(Factorisation, GivesTheSameGradientsAndLoss) {
  const WindowResult exact = reference(), whole = run(GetParam().effective);
  double worst = 0;
  for (const std::int64_t micro : micros()) {
    const std::int64_t k = GetParam().effective / micro;
    const WindowResult split = run(micro);
    EXPECT_LE(worst_error(split.gradients, whole.gradients), tolerance(k)) << micro << " x " << k << " against one piece";
    EXPECT_LE(worst_error(split.gradients, exact.gradients), tolerance(k))
        << micro << " x " << k << " against single samples in fp64";
    EXPECT_NEAR(split.loss, exact.loss, 1e-6 * std::abs(exact.loss));
    worst = std::max(worst, worst_error(split.gradients, exact.gradients) / tolerance(k));
  }
  printf("worst error: %.3f of the tolerance\n", worst);
}

TEST_P(Factorisation, MeanOfMeansIsCaught) {
  const Plan planned = plan(1);
  ByHand hand(config, planned, data.train());
  const Window window = hand.window(GetParam().first, GetParam().count);
  const Samples samples = make_samples(data.train().tokens, config.model.context, "tokens");
  bool ragged = false;
  for (std::int64_t i = 0; i < hand.micro_count(window); ++i) {
    const std::int64_t units = samples.valid_units(window.placed[static_cast<std::size_t>(i)].ref.sample);
    ragged = ragged || units != config.model.context;
    hand.micro_step(window, i, 1.0 / static_cast<double>(units * hand.micro_count(window)), i == 0);
  }
  ASSERT_TRUE(ragged) << "the window holds the short sample";
  EXPECT_GT(worst_error(hand.gradients(), reference().gradients), 100 * tolerance(hand.micro_count(window)));
}

TEST_P(Factorisation, MissingClearIsCaught) {
  const Plan planned = plan(1);
  ByHand hand(config, planned, data.train());
  const Window before = hand.window(0, 1), window = hand.window(GetParam().first, GetParam().count);
  hand.micro_step(before, 0, 1.0 / static_cast<double>(before.units), true);
  for (std::int64_t i = 0; i < hand.micro_count(window); ++i)
    hand.micro_step(window, i, 1.0 / static_cast<double>(window.units), false);
  EXPECT_GT(worst_error(hand.gradients(), reference().gradients), 100 * tolerance(hand.micro_count(window)));
}

TEST_P(Factorisation, ClippingEachMicroStepIsCaught) {
  const WindowResult exact = reference();
  const double limit = 0.5 * norm(exact.gradients);
  Gradients right = exact.gradients, wrong;
  for (auto& [name, values] : right) {
    for (double& value : values) value *= 0.5;
  }
  const Plan planned = plan(1);
  ByHand hand(config, planned, data.train());
  const Window window = hand.window(GetParam().first, GetParam().count);
  for (std::int64_t i = 0; i < hand.micro_count(window); ++i) {
    hand.micro_step(window, i, 1.0 / static_cast<double>(window.units), true);
    Gradients one = hand.gradients();
    const double coefficient = std::min(1.0, limit / static_cast<double>(hand.micro_count(window)) / norm(one));
    for (const auto& [name, values] : one) {
      wrong[name].resize(values.size());
      for (std::size_t j = 0; j < values.size(); ++j) wrong[name][j] += coefficient * values[j];
    }
  }
  EXPECT_GT(worst_error(wrong, right), 100 * tolerance(hand.micro_count(window)));
}

// Files of 12 samples and a short one; windows that hold the short one, cross into the next epoch, or are not filled.
INSTANTIATE_TEST_SUITE_P(Windows, Factorisation,
                         ::testing::Values(Case{{2, 32, 4, 16, 101}, 12, 12 * 16 + 1 + 5, 4, 12, 0.1},
                                           Case{{2, 32, 4, 16, 101}, 12, 12 * 16 + 1 + 5, 4, 12, 0.0},
                                           Case{{1, 24, 3, 7, 257}, 8, 12 * 7 + 1 + 3, 6, 8, 0.2},
                                           Case{{3, 16, 1, 5, 2003}, 6, 12 * 5 + 1 + 1, 8, 6, 0.1},
                                           Case{{2, 32, 4, 16, 101}, 12, 12 * 16 + 1 + 5, 4, 10, 0.1},
                                           Case{{2, 32, 4, 16, 101}, 8, 12 * 16 + 1 + 5, 8, 5, 0.1}),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return "L" + std::to_string(c.shape.layers) + "B" + std::to_string(c.effective) + "of" +
                                  std::to_string(c.count) + "at" + std::to_string(c.first) + (c.dropout > 0 ? "" : "plain");
                         });

// Whole updates: logs and weights agree between factorisations, including clip and optimizer.
TEST(Splits, LoggedLossesAgreeOverUpdates) {
  const ModelShape shape{2, 32, 4, 16, 101};
  const TokenData data(shape.vocab, 13 * 16 + 6, 60);
  const Config config = config_for(shape, 8);
  std::vector<std::vector<double>> losses, evaluations;
  for (const std::int64_t micro : {1, 2, 4, 8}) {
    const Plan plan = plan_with(config, micro, {BlockMode::keep}, 1, data.facts());
    Session session(config, plan, data.files);
    session.trainer().load(nullptr);
    losses.emplace_back();
    evaluations.emplace_back();
    for (int i = 0; i < 5; ++i) {
      losses.back().push_back(session.trainer().update().loss);
      const EvaluationResult result = session.trainer().evaluate_now();
      EXPECT_EQ(result.units, 59);
      evaluations.back().push_back(result.loss);
    }
  }
  for (std::size_t i = 1; i < losses.size(); ++i) {
    // The first loss comes before any update: rounding of the forward pass alone.
    EXPECT_NEAR(losses[i][0], losses[0][0], 1e-6 * losses[0][0]);
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(losses[i][j], losses[0][j], 1e-4 * losses[0][j]);
      EXPECT_NEAR(evaluations[i][j], evaluations[0][j], 1e-4 * evaluations[0][j]);
    }
  }
}

}  // namespace
}  // namespace plimsoll
