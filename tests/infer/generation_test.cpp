// Generation with a cache gives the results of the passes without one, for every family; and the drawing of tokens.
#include "infer/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/scratch_folder.h"
#include "models/all.h"
#include "models/decoder/decoder.h"
#include "models/gpt2/gpt2.h"
#include "plan/small_models.h"
#include "program/program.h"
#include "run/cpu_device.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kVocab = 61, kContext = 80;

DecoderConfig small() {
  DecoderConfig config{.layers = 3, .width = 32, .heads = 4, .kv_heads = 2, .head_size = 8, .mlp_width = 48};
  config.context = kContext;
  config.vocab = kVocab;
  config.initializer_range = 0.4;  // so that tokens differ and attention is sharp
  return config;
}

template <class Change>
ModelConfig decoder(const Family& family, const Change& change) {
  DecoderConfig config = small();
  change(config);
  return {family, config};
}

struct Kind {
  std::string name;
  ModelConfig config;
};

std::vector<Kind> kinds() {
  const auto scaled = [](ops::RotaryScaling scaling) {
    return decoder(kLlama, [&](DecoderConfig& c) {
      c.rope.scaling = scaling;
      c.rope.factor = 4;
      c.rope.original = 16;
    });
  };
  return {{"gpt2", {kGpt2, Gpt2Config{.layers = 2, .width = 32, .heads = 4, .context = kContext, .vocab = kVocab}}},
          {"gpt2_untied",
           {kGpt2, Gpt2Config{.layers = 2, .width = 32, .heads = 4, .context = kContext, .vocab = kVocab, .tied = false}}},
          {"llama", decoder(kLlama, [](DecoderConfig&) {})},
          {"llama_tied", decoder(kLlama, [](DecoderConfig& c) { c.tied = true, c.kv_heads = 1; })},
          {"llama_dynamic", scaled(ops::RotaryScaling::dynamic)},
          {"llama_yarn", scaled(ops::RotaryScaling::yarn)},
          {"mistral_window", decoder(kMistral, [](DecoderConfig& c) { c.window = 11; })},
          {"qwen2", decoder(kQwen2, [](DecoderConfig& c) { c.qkv_bias = true, c.window = 9, c.windowed = "fsf"; })},
          {"qwen3", decoder(kQwen3, [](DecoderConfig& c) { c.head_norms = true, c.head_size = 16; })}};
}

// Runs of weights that are random numbers.
class Model {
 public:
  explicit Model(ModelConfig config) : config_(std::move(config)) {
    room_.memory = Bytes{std::int64_t{1} << 32};
    room_.machine.machine = round_machine();
    room_.machine.machine.libraries = {"the executor's"};
    InferencePlan planned = plan([&] { return build_evaluation_graph(config_, 8, {}, 1); });
    const Program program = lower(planned.plan);
    const Arena arena(planned.plan.arena);
    CpuDevice device(arena);
    Executor executor(planned.plan.graph, program, device, planned.plan.threads, 1);
    initialize_parameters(planned.plan.graph, 7, executor);
    save_weights(planned.plan.graph, config_, {}, folder_.path(), executor);
  }

  template <class Build>
  InferencePlan plan(const Build& build) const {
    return plan_inference({[&](std::int64_t, const FrozenBase&) { return build(); }}, room_);
  }
  InferenceRun run(InferencePlan plan) const {
    return {std::move(plan), room_, ModelSource{.folder = folder_.path(), .model = config_, .adapter = {}},
            /*audit=*/true};
  }
  const ModelConfig& config() const { return config_; }

 private:
  ModelConfig config_;
  InferenceRoom room_;
  ScratchFolder folder_;
};

using Logits = std::vector<float>;

// The logits of the last token, without a cache, from a plan for `planned` tokens.
Logits uncached(const Model& model, const std::vector<std::int32_t>& tokens, std::int64_t planned) {
  InferenceRun run = model.run(
      model.plan([&] { return build_forward_graph(model.config(), {.tokens = planned, .forward = {.samples = 1, .rows = 1}}); }));
  const Pass &forward = run.graph().model.pass("forward"), &logits = run.graph().model.pass("logits");
  const auto numbers = [&](const Pass& pass, const char* field) {
    return run.executor().view(pass.input(field)).as<std::int32_t>();
  };
  run.run(forward, [&] {
    std::ranges::fill(numbers(forward, "tokens"), 0);
    std::ranges::copy(tokens, numbers(forward, "tokens").begin());
    std::ranges::fill(numbers(forward, "segments"), 1);
    std::ranges::fill(numbers(forward, "lengths"), static_cast<std::int32_t>(planned));
    std::ranges::fill(run.executor().view(forward.input("sample_ids")).as<std::uint32_t>(), 0U);
  });
  run.run(logits, [&] { numbers(logits, "index")[0] = static_cast<std::int32_t>(tokens.size()) - 1; });
  const std::span<const float> result = run.executor().view(logits.results.front()).as<float>();
  const Logits copy(result.begin(), result.end());
  run.check();
  return copy;
}

double relative_distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class EveryKind : public testing::TestWithParam<Kind> {};

// Prompts of different lengths, and enough steps for windows to turn their rings. The tokens are the likeliest, so each row can
// be checked from outside.
TEST_P(EveryKind, CachedLogitsAreThoseWithoutACache) {
  const Model model(GetParam().config);
  GenerationRequest request;
  request.prompts = {{3, 14, 15, 9, 26}, {5}, {5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8}};
  request.tokens = 30;
  request.context = kContext;
  request.vocabulary = kVocab;
  request.sampling.temperature = 0;
  const GenerationShape shape = generation_shape(request);
  InferenceRun run = model.run(model.plan([&] { return build_generation_graph(model.config(), shape); }));
  std::vector<std::vector<std::int32_t>> texts = request.prompts;
  const std::string prefill = "prefill", decode = "decode";
  std::vector<std::vector<Logits>> seen(texts.size());
  const auto look = [&](std::size_t row, std::int32_t) {
    const std::string& name = seen[row].empty() ? prefill : decode;
    const Pass& pass = run.graph().model.pass(name);
    const std::span<const float> logits = run.executor().view(pass.results.front()).as<float>();
    const auto of_row = logits.subspan(row * kVocab, kVocab);
    seen[row].emplace_back(of_row.begin(), of_row.end());
  };
  const std::vector<GeneratedRow> rows = generate(run, request, look);
  run.check();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(rows[row].stopped, Stopped::tokens);
    ASSERT_EQ(rows[row].tokens.size(), 30U);
    for (std::size_t step = 0; step < 30; step += step < 12 ? 1 : 6) {
      std::vector<std::int32_t> text = request.prompts[row];
      text.insert(text.end(), rows[row].tokens.begin(), rows[row].tokens.begin() + static_cast<std::ptrdiff_t>(step));
      const Logits expected = uncached(model, text, shape.slots);
      EXPECT_LE(relative_distance(seen[row][step], expected), 1e-5) << "row " << row << ", step " << step;
    }
  }
}

// A row does not depend on the other rows.
TEST_P(EveryKind, RowsGoTheirOwnWays) {
  const Model model(GetParam().config);
  const auto generated = [&](std::vector<std::vector<std::int32_t>> prompts) {
    GenerationRequest request;
    request.prompts = std::move(prompts);
    request.tokens = 12, request.context = kContext, request.vocabulary = kVocab;
    request.sampling.temperature = 0;
    const auto build = [&] { return build_generation_graph(model.config(), generation_shape(request)); };
    InferenceRun run = model.run(model.plan(build));
    return generate(run, request, [](std::size_t, std::int32_t) {});
  };
  const std::vector<GeneratedRow> together = generated({{1, 2, 3}, {44, 4}});
  EXPECT_EQ(together[0].tokens, generated({{1, 2, 3}})[0].tokens);
  EXPECT_EQ(together[1].tokens, generated({{44, 4}})[0].tokens);
}

// Turns that continue the last one, that change earlier tokens, and that are longer than a chunk. With any content of the caches,
// the logits are those without a cache.
TEST_P(EveryKind, ChatsReuseWhatTheCachesHold) {
  const Model model(GetParam().config);
  const std::int64_t context = kContext;
  InferenceRun run = model.run(model.plan([&] { return build_generation_graph(model.config(), chat_shape(context)); }));
  GenerationRequest request;
  request.tokens = 4, request.context = context, request.vocabulary = kVocab;
  request.sampling.temperature = 0;
  std::vector<std::int32_t> held;
  const auto turn = [&](std::vector<std::int32_t> prompt) {
    request.prompts = {prompt};
    Logits first;
    const ChatRow result = continue_chat(run, request, held, [&](std::size_t, std::int32_t) {
      if (!first.empty()) return;
      const std::span<const float> logits = run.executor().view(run.graph().model.pass("extend").results.front()).as<float>();
      first.assign(logits.begin(), logits.end());
    });
    EXPECT_LE(relative_distance(first, uncached(model, prompt, context)), 1e-5) << "prompt of " << prompt.size();
    prompt.insert(prompt.end(), result.row.tokens.begin(), result.row.tokens.end());
    EXPECT_EQ(result.row.tokens.size(), 4U);
    EXPECT_EQ(held, std::vector<std::int32_t>(prompt.begin(), prompt.end() - 1));  // the last one has not been through the model
    return std::pair(prompt, result.reused);
  };
  auto [text, reused] = turn({3, 14, 15, 9, 26, 5, 35});
  EXPECT_EQ(reused, 0U);
  text.insert(text.end(), {8, 9, 7, 9});
  std::tie(text, reused) = turn(text);
  EXPECT_EQ(reused, 10U);
  // Back to the fifth token. A ring that has turned has lost the tokens that the fifth one saw.
  std::vector<std::int32_t> other(text.begin(), text.begin() + 5);
  other.insert(other.end(), {11, 12});
  const bool turned = GetParam().name == "mistral_window" || GetParam().name == "qwen2";
  EXPECT_EQ(turn(other).second, turned ? 0U : 5U);
  for (std::int32_t i = 0; i < 66; ++i) other.push_back((7 * i) % kVocab);
  EXPECT_EQ(turn(other).second, GetParam().name == "qwen2" ? 0U : 7U);  // a window of 9, and 10 tokens
  run.check();
}

INSTANTIATE_TEST_SUITE_P(Families, EveryKind, testing::ValuesIn(kinds()), [](const auto& kind) { return kind.param.name; });

TEST(Generation, StopsAtTheContextAndAtEndTokens) {
  const Model model(kinds()[2].config);
  GenerationRequest request;
  request.prompts = {{1, 2, 3, 4}};
  request.tokens = 500, request.context = 20, request.vocabulary = kVocab;
  request.sampling.temperature = 0;
  const auto generated = [&] {
    InferenceRun run = model.run(model.plan([&] { return build_generation_graph(model.config(), generation_shape(request)); }));
    return generate(run, request, [](std::size_t, std::int32_t) {})[0];
  };
  const GeneratedRow row = generated();
  EXPECT_EQ(row.stopped, Stopped::context);
  EXPECT_EQ(row.tokens.size(), 16U);
  request.ends = {row.tokens[5]};
  const GeneratedRow ended = generated();
  EXPECT_EQ(ended.stopped, Stopped::end);
  const auto first = std::ranges::find(row.tokens, row.tokens[5]);
  EXPECT_EQ(ended.tokens, std::vector<std::int32_t>(row.tokens.begin(), first));
}

std::vector<int> counts_of(const Sampling& sampling, const std::vector<float>& logits, int draws) {
  std::vector<int> counts(logits.size());
  std::vector<std::int32_t> order(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(draw(logits, sampling, i, 0, order))];
  return counts;
}

TEST(Generation, ChatsStopWhereTheyAreAskedTo) {
  const Model model(kinds()[2].config);
  GenerationRequest request;
  request.prompts = {{1, 2, 3, 4}};
  request.tokens = 50, request.context = kContext, request.vocabulary = kVocab;
  request.sampling.temperature = 0;
  InferenceRun run = model.run(model.plan([&] { return build_generation_graph(model.config(), chat_shape(kContext)); }));
  std::vector<std::int32_t> held;
  int tokens = 0;
  request.stops = [&] { return tokens == 3; };
  const auto count = [&](std::size_t, std::int32_t) { ++tokens; };
  const ChatRow some = continue_chat(run, request, held, count);
  EXPECT_EQ(some.row.stopped, Stopped::interrupt);
  EXPECT_EQ(some.row.tokens.size(), 3U);
  const ChatRow none = continue_chat(run, request, held, count);
  EXPECT_EQ(none.row.stopped, Stopped::interrupt);
  EXPECT_TRUE(none.row.tokens.empty());
  request.stops = {};
  request.tokens = 3;
  EXPECT_EQ(continue_chat(run, request, held, count).row.tokens, some.row.tokens);
}

TEST(Draw, FollowsTheProbabilities) {
  const std::vector<float> logits{0, std::log(2.0F), std::log(5.0F), -100};
  const std::vector<int> counts = counts_of({.temperature = 1}, logits, 8000);
  EXPECT_NEAR(counts[0], 1000, 100);
  EXPECT_NEAR(counts[1], 2000, 130);
  EXPECT_NEAR(counts[2], 5000, 150);
  EXPECT_EQ(counts[3], 0);
}

TEST(Draw, TopKAndTopPLeaveTheUnlikelyOut) {
  const std::vector<float> logits{0, std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  const std::vector<int> two = counts_of({.temperature = 1, .top_k = 2}, logits, 7000);
  EXPECT_EQ(two[0] + two[3], 0);  // of equals the smaller token counts as likelier
  EXPECT_NEAR(two[1], 2000, 130);
  EXPECT_NEAR(two[2], 5000, 130);
  // 0.5 and 0.2 reach 0.65, not 0.75.
  const std::vector<int> most = counts_of({.temperature = 1, .top_p = 0.65}, logits, 7000);
  EXPECT_EQ(most[0] + most[3], 0);
  EXPECT_EQ(counts_of({.temperature = 1, .top_p = 0.75}, logits, 7000)[0], 0);
  EXPECT_GT(counts_of({.temperature = 1, .top_p = 0.75}, logits, 7000)[3], 1000);
  EXPECT_EQ(counts_of({.temperature = 1, .top_p = 1e-9}, logits, 50)[2], 50);
  EXPECT_EQ(counts_of({.temperature = 0, .top_k = 3}, logits, 50)[2], 50);
}

// The share takes far more tokens than are sorted at first. Each candidate is likelier than each other token.
TEST(Draw, TopPTakesTheLikeliestOfManyTokens) {
  std::vector<float> logits;
  for (std::int64_t i = 0; i < 400; ++i) logits.push_back(static_cast<float>((i * 7919) % 400) * 5e-3F);
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater());
  double total = 0, kept = 0;
  for (const float logit : sorted) total += std::exp(double{logit} - double{sorted[0]});
  std::size_t count = 0;
  while (kept < 0.6 * total) kept += std::exp(double{sorted[count++]} - double{sorted[0]});
  ASSERT_GT(count, 100U);
  const std::vector<int> counts = counts_of({.temperature = 1, .top_p = 0.6}, logits, 4000);
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (counts[i] > 0) EXPECT_GE(logits[i], sorted[count - 1]);
    drawn += counts[i] > 0;
  }
  EXPECT_GT(drawn, count * 95 / 100);
}

TEST(Draw, RowsAndStepsHaveNumbersOfTheirOwn) {
  const std::vector<float> logits(50, 0.0F);
  const Sampling sampling{.temperature = 1};
  std::vector<std::int32_t> rows, steps;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(draw(logits, sampling, 0, i, {}));
    steps.push_back(draw(logits, sampling, i, 0, {}));
  }
  EXPECT_NE(rows, std::vector<std::int32_t>(8, rows[0]));
  EXPECT_NE(rows, steps);
}

}  // namespace
}  // namespace plimsoll
