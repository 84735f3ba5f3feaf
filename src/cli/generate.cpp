#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/inference.h"
#include "cli/settings.h"
#include "device/cpu/parallel.h"
#include "formats/bpe.h"
#include "formats/bpe_vocabulary.h"
#include "run/executor.h"
#include "train/calibrate.h"
#include "train/config.h"
#include "train/weights.h"

namespace plimsoll {
namespace {

constexpr std::uint64_t kDrawSite = 0x67656e6572617465;
constexpr std::int64_t kTokenBucket = 64, kMostTokens = 1 << 24;

// Text to tokens and back, for the vocabulary that lies beside the weights.
class Tokenizer {
 public:
  Tokenizer(const std::filesystem::path& folder, const Gpt2Config& model) {
    if (!model.byte_vocabulary) vocabulary_.emplace(BpeVocabulary::load(folder));
  }

  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> tokens;
    if (vocabulary_) {
      for (const Token token : BpeEncoder(*vocabulary_).encode(text)) tokens.push_back(token);
    } else {
      for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
    }
    return tokens;
  }

  std::string decode(std::int32_t token) const {
    return vocabulary_ ? vocabulary_->decode(std::span<const std::int32_t>(&token, 1)) : std::string(1, static_cast<char>(token));
  }

 private:
  std::optional<BpeVocabulary> vocabulary_;
};

// One token from softmax(logits / temperature), by a number of its own for each step; temperature 0 takes the likeliest.
std::int32_t draw(std::span<const float> logits, double temperature, std::uint64_t seed, std::int64_t step) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(best - logits.begin());
  double total = 0;
  for (const float logit : logits) total += std::exp((logit - *best) / temperature);
  const PhiloxWords words = philox4x32(philox_key(seed, kDrawSite), {static_cast<std::uint32_t>(step), 0, 0, 0});
  double left = static_cast<double>(words[0]) * 0x1p-32 * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= std::exp((logits[i] - *best) / temperature);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(best - logits.begin());
}

void check(const GenerateArguments& arguments) {
  if (arguments.prompt.empty()) throw config_error("E-USAGE", "--prompt", "the prompt is empty", "at least one character");
  if (arguments.tokens < 1 || arguments.tokens > kMostTokens) {
    throw config_error("E-USAGE", "--tokens", fmt::format("it is {}", arguments.tokens),
                       fmt::format("from 1 to {}", kMostTokens));
  }
  if (!(arguments.temperature >= 0)) {
    throw config_error("E-USAGE", "--temperature", fmt::format("it is {}", arguments.temperature), "0 or more");
  }
}

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  check(arguments);
  const std::optional<Bytes> budget = load_budgets(arguments.budgets).budget;
  const Gpt2Config model = read_gpt2_config(arguments.weights);
  const Tokenizer tokenizer(arguments.weights, model);
  std::vector<std::int32_t> tokens = tokenizer.encode(arguments.prompt);
  const auto wanted = static_cast<std::int64_t>(tokens.size()) + arguments.tokens;
  const std::int64_t window = std::min(model.context, (wanted + kTokenBucket - 1) / kTokenBucket * kTokenBucket);
  const int threads = arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency());
  const MachineRecord machine =
      calibrated_machine(threads, cache_folder(), [](const std::string& line) { fmt::print(stderr, "{}\n", line); });

  const InferencePlan plan = plan_inference(build_generation_graph(model, window), 1, machine, budget);
  require_fit(plan, budget);
  cpu::set_thread_count(threads);
  const Program program = lower(plan.plan);
  verify(program, plan.plan.graph);
  const Arena arena(plan.plan.arena);
  Executor executor(plan.plan.graph, program, arena.base(), threads, 1);
  load_weights(plan.plan.graph, arguments.weights, [&](ValueId id) { return executor.view(id); });

  const GenerateValues& values = plan.graph.model.generate;
  std::fputs(arguments.prompt.c_str(), stdout);
  for (std::int64_t step = 0; step < arguments.tokens; ++step) {
    const std::size_t used = std::min(tokens.size(), static_cast<std::size_t>(window));
    executor.run(Section::generate, false, [&] {
      const std::span<std::int32_t> input = executor.view(values.tokens).as<std::int32_t>();
      std::fill(input.begin(), input.end(), 0);
      std::copy(tokens.end() - static_cast<std::ptrdiff_t>(used), tokens.end(), input.begin());
      const std::span<std::uint32_t> ids = executor.view(values.sample_ids).as<std::uint32_t>();
      std::fill(ids.begin(), ids.end(), 0u);
      *executor.view(values.position).as_pointer<std::int32_t>() = static_cast<std::int32_t>(used) - 1;
    });
    tokens.push_back(draw(executor.view(values.logits).as<float>(), arguments.temperature, arguments.seed, step));
    const std::string text = tokenizer.decode(tokens.back());
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  std::fputs("\n", stdout);
  return 0;
}

}  // namespace plimsoll
