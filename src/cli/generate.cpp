#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/philox.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "config/config.h"
#include "device/cpu/parallel.h"
#include "device/machine_facts.h"
#include "formats/bpe.h"
#include "formats/bpe_vocabulary.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer_folder.h"
#include "formats/weights_folder.h"
#include "measure/calibrate.h"
#include "models/all.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "session/probe.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

constexpr std::uint64_t kDrawSite = 0x67656e6572617465;
constexpr std::int64_t kTokenBucket = 64, kMostTokens = 1 << 24;

// The prompt as tokens, and the bytes of every token: all that generating needs of a vocabulary. Its merges, the text of its
// files and the encoder stay in a child process; what comes back is charged to the plan.
class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const std::string& prompt) {
    if (model.bytes) {
      check_size(folder, kBytes, model.vocab);
      for (const char letter : prompt) prompt_.push_back(static_cast<unsigned char>(letter));
      return;
    }
    unpack(run_in_child([&] {
      if (std::optional<Tokenizer> tokenizer = tokenizer_beyond_gpt2(folder)) {
        check_size(folder, tokenizer->size(), model.vocab);
        std::vector<Token> tokens = tokenizer->before();
        tokenizer->encode_part(prompt, {}, tokens);
        return packed(tokenizer->size(), tokens, [&](Token token) { return tokenizer->inside(token); });
      }
      const BpeVocabulary vocabulary = BpeVocabulary::load(folder);
      check_size(folder, vocabulary.size(), model.vocab);
      refuse_unread(prompt, unread_tokens(folder, vocabulary), "--prompt");
      return packed(vocabulary.size(), BpeEncoder(vocabulary).encode(prompt),
                    [&](Token token) { return vocabulary.bytes_of(token); });
    }));
  }

  const std::vector<std::int32_t>& prompt() const { return prompt_; }
  std::int64_t size() const { return ends_.empty() ? kBytes : std::ssize(ends_); }
  Bytes heap() const { return Bytes{std::ssize(text_) + 4 * std::ssize(ends_) + 4 * std::ssize(prompt_)}; }

  std::string decode(std::int32_t token) const {
    if (ends_.empty()) return std::string(1, static_cast<char>(token));
    const auto index = static_cast<std::size_t>(token);
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return text_.substr(begin, ends_[index] - begin);
  }

 private:
  static constexpr std::int64_t kBytes = 256;

  // A model may have more rows than the vocabulary has tokens (padding); the other way round, a prompt would read past them.
  static void check_size(const std::filesystem::path& folder, std::int64_t tokens, std::int64_t rows) {
    if (tokens <= rows) return;
    throw data_error("E-DATA-TOKEN", folder.string(), fmt::format("the vocabulary has {} tokens and the model {}", tokens, rows),
                     "a model with at least as many", {"the tokenizer that the model was trained with"});
  }

  static void put(std::string& to, std::uint32_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

  // Two counts, the prompt, the end of each token's bytes, the bytes.
  template <class BytesOf>
  static std::string packed(std::int64_t size, const std::vector<Token>& prompt, BytesOf&& bytes_of) {
    std::string out, text;
    put(out, static_cast<std::uint32_t>(prompt.size()));
    put(out, static_cast<std::uint32_t>(size));
    for (const Token token : prompt) put(out, token);
    for (std::int64_t i = 0; i < size; ++i) {
      text += bytes_of(static_cast<Token>(i));
      put(out, static_cast<std::uint32_t>(text.size()));
    }
    return out + text;
  }

  void unpack(const std::string& answer) {
    std::uint32_t counts[2];
    std::memcpy(counts, answer.data(), sizeof counts);
    prompt_.resize(counts[0]);
    ends_.resize(counts[1]);
    const char* at = answer.data() + sizeof counts;
    std::memcpy(prompt_.data(), at, 4 * prompt_.size());
    at += 4 * prompt_.size();
    std::memcpy(ends_.data(), at, 4 * ends_.size());
    at += 4 * ends_.size();
    text_.assign(at, answer.data() + answer.size());
  }

  std::vector<std::int32_t> prompt_;
  std::vector<std::uint32_t> ends_;  // empty: tokens are bytes
  std::string text_;
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
  if (arguments.threads < 0 || arguments.threads > kMaxThreads) {
    throw config_error("E-USAGE", "--threads", fmt::format("it is {}", arguments.threads),
                       fmt::format("from 1 to {}, or 0 for all cores", kMaxThreads));
  }
  if (!(arguments.temperature >= 0)) {
    throw config_error("E-USAGE", "--temperature", fmt::format("it is {}", arguments.temperature), "0 or more");
  }
}

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  check(arguments);
  const MemorySettings memory = load_budgets(arguments.budgets);
  const std::filesystem::path folder = weights_folder(arguments.weights);
  const ModelConfig model = read_model(folder);
  const ModelFacts facts = facts_of(model);
  const std::vector<std::int64_t> ends = arguments.ignore_end ? std::vector<std::int64_t>() : end_tokens(folder);
  const Vocabulary vocabulary(folder, facts, arguments.prompt);
  const auto wanted = std::ssize(vocabulary.prompt()) + arguments.tokens;
  const std::int64_t window = std::min(facts.positions, (wanted + kTokenBucket - 1) / kTokenBucket * kTokenBucket);
  const int threads = arguments.threads > 0 ? arguments.threads : usable_cores();
  const MachineRecord machine = calibrated_machine(threads, cache_folder(), probe_shape, say_line);

  const Bytes budget = inference_budget(memory);
  const InferencePlan plan = plan_inference(build_generation_graph(model, window), 1, machine, budget, vocabulary.heap());
  require_fit(plan, budget);
  cpu::set_thread_count(threads);
  const Program program = lower(plan.plan);
  verify(program, plan.plan.graph);
  const Arena arena(plan.plan.arena);
  CpuDevice device(arena);
  Executor executor(plan.plan.graph, program, device, threads, 1);
  load_weights(plan.plan.graph, model, folder, executor);

  const Pass& pass = plan.graph.model.pass("generate");
  const ValueId tokens = pass.input("tokens"), sample_ids = pass.input("sample_ids"), position = pass.input("position");
  const ValueId drawn_from = pass.results.front();
  // The last tokens of the text, as many as the model sees.
  std::vector<std::int32_t> seen;
  seen.reserve(static_cast<std::size_t>(window) + 1);
  const auto prompt = std::span(vocabulary.prompt()).last(std::min(vocabulary.prompt().size(), static_cast<std::size_t>(window)));
  seen.assign(prompt.begin(), prompt.end());
  std::fputs(arguments.prompt.c_str(), stdout);
  for (std::int64_t step = 0; step < arguments.tokens; ++step) {
    executor.run(pass.section, false, [&](Section) {
      const std::span<std::int32_t> input = executor.view(tokens).as<std::int32_t>();
      std::fill(input.begin(), input.end(), 0);
      std::copy(seen.begin(), seen.end(), input.begin());
      const std::span<std::uint32_t> ids = executor.view(sample_ids).as<std::uint32_t>();
      std::fill(ids.begin(), ids.end(), 0u);
      *executor.view(position).as_pointer<std::int32_t>() = static_cast<std::int32_t>(seen.size()) - 1;
    });
    const std::span<const float> logits = executor.view(drawn_from).as<float>();
    seen.push_back(draw(logits.first(static_cast<std::size_t>(vocabulary.size())), arguments.temperature, arguments.seed, step));
    if (std::find(ends.begin(), ends.end(), seen.back()) != ends.end()) break;
    const std::string text = vocabulary.decode(seen.back());
    if (std::ssize(seen) > window) seen.erase(seen.begin());
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  std::fputs("\n", stdout);
  return 0;
}

}  // namespace plimsoll
