#include "infer/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

constexpr std::uint64_t kDrawSite = 0x67656e6572617465;
constexpr std::int64_t kBucket = 64, kChunk = 64;
constexpr std::size_t kSorted = 64;  // number of likeliest tokens sorted first; usually enough

std::int64_t longest(const GenerationRequest& request) {
  std::size_t most = 0;
  for (const auto& prompt : request.prompts) most = std::max(most, prompt.size());
  return static_cast<std::int64_t>(most);
}

// Order by falling logit; ties go to the smaller token.
class ByLogit {
 public:
  explicit ByLogit(std::span<const float> logits) : logits_(logits) {}
  bool operator()(std::int32_t a, std::int32_t b) const {
    const float x = logits_[static_cast<std::size_t>(a)], y = logits_[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  }

 private:
  std::span<const float> logits_;
};

double unit_of(const Sampling& sampling, std::int64_t step, std::int64_t row) {
  const PhiloxWords words =
      philox4x32(philox_key(sampling.seed, kDrawSite), {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(row), 0, 0});
  return static_cast<double>(words[0]) * 0x1p-32;
}

}  // namespace

std::string_view name(Stopped stopped) {
  switch (stopped) {
    case Stopped::no: return "no";
    case Stopped::end: return "end";
    case Stopped::tokens: return "tokens";
    case Stopped::context: return "context";
    case Stopped::interrupt: return "interrupt";
  }
  return "";
}

std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::int64_t step, std::int64_t row,
                  std::span<std::int32_t> order) {
  const auto best = std::max_element(logits.begin(), logits.end());
  const auto likeliest = static_cast<std::int32_t>(best - logits.begin());
  if (sampling.temperature <= 0) return likeliest;
  const auto weight = [&](float logit) { return std::exp((logit - *best) / sampling.temperature); };
  double left = unit_of(sampling, step, row);
  if (!sampling.sorts()) {
    double total = 0;
    for (const float logit : logits) total += weight(logit);
    left *= total;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      left -= weight(logits[i]);
      if (left < 0) return static_cast<std::int32_t>(i);
    }
    return likeliest;
  }
  std::iota(order.begin(), order.end(), 0);
  std::size_t sorted = 0;  // length of the sorted prefix
  const auto sort_to = [&](std::size_t count) {
    const auto begin = order.begin();
    std::partial_sort(begin + static_cast<std::ptrdiff_t>(sorted), begin + static_cast<std::ptrdiff_t>(count), order.end(),
                      ByLogit(logits));
    sorted = count;
  };
  if (sampling.top_k > 0) {
    sort_to(std::min(order.size(), static_cast<std::size_t>(sampling.top_k)));
    order = order.first(sorted);
  }
  double total = 0;
  for (const std::int32_t token : order) total += weight(logits[static_cast<std::size_t>(token)]);
  double kept = 0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept < sampling.top_p * total)) {
    if (count == sorted) sort_to(std::min(order.size(), std::max(kSorted, 2 * sorted)));
    kept += weight(logits[static_cast<std::size_t>(order[count++])]);
  }
  left *= kept;
  for (const std::int32_t token : order.first(count)) {
    left -= weight(logits[static_cast<std::size_t>(token)]);
    if (left < 0) return token;
  }
  return likeliest;
}

GenerationShape generation_shape(const GenerationRequest& request) {
  const auto bucketed = [&](std::int64_t tokens) { return std::min(request.context, round_up(tokens, kBucket)); };
  const std::int64_t prompt = longest(request);
  return {.rows = static_cast<std::int64_t>(request.prompts.size()),
          .prompt = bucketed(prompt),
          .slots = bucketed(prompt + request.tokens),
          .chunk = 0};
}

GenerationShape chat_shape(std::int64_t context) {
  return {.rows = 1, .prompt = 0, .slots = context, .chunk = std::min(context, kChunk)};
}

Bytes generation_heap(const GenerationRequest& request) {
  const auto rows = static_cast<std::int64_t>(request.prompts.size());
  const std::int64_t kept = 4 * rows * (longest(request) + 2 * request.tokens);
  return Bytes{kept + (request.sampling.sorts() ? 4 * request.vocabulary : 0)};
}

// The prompt, the answer, and the tokens in the caches.
Bytes chat_heap(std::int64_t context, const GenerationRequest& request) {
  return Bytes{4 * (2 * context + request.tokens) + (request.sampling.sorts() ? 4 * request.vocabulary : 0)};
}

namespace {

class PassesOfRun final : public CachedPasses {
 public:
  explicit PassesOfRun(InferenceRun& run) : run_(run) {}
  const Graph& graph() const override { return run_.graph().model.graph; }
  const Pass& pass(std::string_view name) const override { return run_.graph().model.pass(name); }
  Executor& executor() override { return run_.executor(); }
  void run(const Pass& pass, const std::function<void()>& feed) override { run_.run(pass, feed); }

 private:
  InferenceRun& run_;
};

// The rows of a generation, up to the present token.
class Sequences {
 public:
  Sequences(CachedPasses& run, const GenerationRequest& request, const std::function<void(std::size_t, std::int32_t)>& on_token)
      : run_(run),
        request_(request),
        on_token_(on_token),
        decode_(run.pass("decode")),
        rows_(request.prompts.size()),
        order_(request.sampling.sorts() ? static_cast<std::size_t>(request.vocabulary) : 0) {
    for (const auto& prompt : request.prompts) {
      last_.push_back(prompt.back());
      length_.push_back(static_cast<std::int32_t>(prompt.size()));
    }
    for (GeneratedRow& row : rows_) row.tokens.reserve(static_cast<std::size_t>(request.tokens));
  }

  // Runs all prompts at once into empty caches.
  void prefill() {
    const Pass& pass = run_.pass("prefill");
    run_.run(pass, [&] { feed_prompts(pass); });
    take(pass, 0);
  }

  // Runs the rest of the one prompt that the caches do not hold. Returns the number of reused tokens.
  std::size_t extend(std::vector<std::int32_t>& held) {
    const Pass& pass = run_.pass("extend");
    const std::vector<std::int32_t>& prompt = request_.prompts.front();
    std::size_t begin = static_cast<std::size_t>(std::ranges::mismatch(prompt, held).in1 - prompt.begin());
    begin = std::min(begin, prompt.size() - 1);  // the last token is computed for its logits
    // A ring that has wrapped no longer holds the tokens visible to earlier positions.
    if (begin < held.size() && std::ssize(held) > least_slots()) begin = 0;
    held.resize(begin);
    const std::size_t chunk = numbers(pass, "tokens").size(), reused = begin;
    while (begin < prompt.size()) {
      if (interrupted()) return reused;
      const std::size_t end = std::min(begin + chunk, prompt.size());
      run_.run(pass, [&] { feed_chunk(pass, begin, end); });
      held.insert(held.end(), prompt.begin() + static_cast<std::ptrdiff_t>(begin),
                  prompt.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
    take(pass, 0);
    return reused;
  }

  // Generates token by token; `held` grows with the cache of the one row.
  std::vector<GeneratedRow> decode(std::vector<std::int32_t>* held) {
    for (std::int64_t step = 1; goes_on() && !interrupted(); ++step) {
      run_.run(decode_, [&] { feed_last(); });
      if (held != nullptr) held->push_back(last_.front());
      take(decode_, step);
    }
    return std::move(rows_);
  }

 private:
  std::span<std::int32_t> numbers(const Pass& pass, std::string_view field) {
    return run_.executor().view(pass.input(field)).as<std::int32_t>();
  }

  void feed_prompts(const Pass& pass) {
    const std::span<std::int32_t> tokens = numbers(pass, "tokens"), lengths = numbers(pass, "lengths"),
                                  last = numbers(pass, "last");
    std::fill(tokens.begin(), tokens.end(), 0);
    const std::size_t width = tokens.size() / rows_.size();
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      std::copy(request_.prompts[row].begin(), request_.prompts[row].end(),
                tokens.begin() + static_cast<std::ptrdiff_t>(row * width));
      lengths[row] = length_[row];
      last[row] = static_cast<std::int32_t>(row * width) + length_[row] - 1;
    }
    clear_samples(pass);
  }

  // Feeds tokens [begin, end) of the prompt; the last one repeats to the end of the chunk.
  void feed_chunk(const Pass& pass, std::size_t begin, std::size_t end) {
    const std::span<std::int32_t> tokens = numbers(pass, "tokens"), positions = numbers(pass, "positions");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t at = std::min(begin + i, end - 1);
      tokens[i] = request_.prompts.front()[at];
      positions[i] = static_cast<std::int32_t>(at);
    }
    clear_samples(pass);
  }

  // A row that has stopped repeats its last token.
  void feed_last() {
    const std::span<std::int32_t> tokens = numbers(decode_, "tokens"), positions = numbers(decode_, "positions");
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      tokens[row] = last_[row];
      positions[row] = length_[row] - 1;
    }
    clear_samples(decode_);
  }

  void clear_samples(const Pass& pass) {
    const std::span<std::uint32_t> ids = run_.executor().view(pass.input("sample_ids")).as<std::uint32_t>();
    std::fill(ids.begin(), ids.end(), 0u);
  }

  // The fewest slots of a cache: the smallest sliding window.
  std::int64_t least_slots() const {
    std::int64_t least = request_.context;
    for (const Value& value : run_.graph().values) {
      if (value.role == Role::cache) least = std::min(least, value.type.shape[1]);
    }
    return least;
  }

  void take(const Pass& pass, std::int64_t step) {
    const std::span<const float> logits = run_.executor().view(pass.results.front()).as<float>();
    const std::size_t width = logits.size() / rows_.size();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].stopped != Stopped::no) continue;
      const auto of_row = logits.subspan(i * width, static_cast<std::size_t>(request_.vocabulary));
      if (!std::ranges::all_of(of_row, [](float logit) { return std::isfinite(logit); })) {
        throw Error(ErrorKind::user, ExitCode::diverged, "E-DIVERGED", "generate", "the model's logits are not finite",
                    "weights of a training that has not diverged", {});
      }
      add(i, draw(of_row, request_.sampling, step, request_.first_row + static_cast<std::int64_t>(i), order_));
    }
  }

  void add(std::size_t i, std::int32_t token) {
    GeneratedRow& row = rows_[i];
    if (std::ranges::find(request_.ends, std::int64_t{token}) != request_.ends.end()) {
      row.stopped = Stopped::end;
      return;
    }
    row.tokens.push_back(token);
    on_token_(i, token);
    last_[i] = token;
    ++length_[i];
    if (length_[i] >= request_.context) {
      row.stopped = Stopped::context;
    } else if (std::ssize(row.tokens) >= request_.tokens) {
      row.stopped = Stopped::tokens;
    }
  }

  bool goes_on() const {
    return std::ranges::any_of(rows_, [](const GeneratedRow& row) { return row.stopped == Stopped::no; });
  }

  // Ends all active rows on request.
  bool interrupted() {
    if (!request_.stops || !request_.stops()) return false;
    for (GeneratedRow& row : rows_) {
      if (row.stopped == Stopped::no) row.stopped = Stopped::interrupt;
    }
    return true;
  }

  CachedPasses& run_;
  const GenerationRequest& request_;
  const std::function<void(std::size_t, std::int32_t)>& on_token_;
  const Pass& decode_;
  std::vector<GeneratedRow> rows_;
  std::vector<std::int32_t> last_, length_;
  std::vector<std::int32_t> order_;
};

}  // namespace

std::vector<GeneratedRow> generate(InferenceRun& run, const GenerationRequest& request,
                                   const std::function<void(std::size_t, std::int32_t)>& on_token) {
  PassesOfRun passes(run);
  Sequences sequences(passes, request, on_token);
  sequences.prefill();
  return sequences.decode(nullptr);
}

ChatRow continue_chat(InferenceRun& run, const GenerationRequest& request, std::vector<std::int32_t>& held,
                      const std::function<void(std::size_t, std::int32_t)>& on_token) {
  PassesOfRun passes(run);
  return continue_chat(passes, request, held, on_token);
}

ChatRow continue_chat(CachedPasses& passes, const GenerationRequest& request, std::vector<std::int32_t>& held,
                      const std::function<void(std::size_t, std::int32_t)>& on_token) {
  Sequences sequences(passes, request, on_token);
  ChatRow result;
  result.reused = sequences.extend(held);
  result.row = std::move(sequences.decode(&held).front());
  return result;
}

}  // namespace plimsoll
