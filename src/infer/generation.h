// Continues token sequences: one prefill of all prompts, then one token of each row at a time from the cache. A row stops at an
// end token, after a maximum of new tokens or at the end of the context. A chat continues one row repeatedly: tokens already in
// the cache are reused, and the rest goes through the model in chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "infer/inference_run.h"

namespace plimsoll {

// The distribution of a token: softmax(logits / temperature) over the `top_k` likeliest, then over the fewest of these that reach
// probability `top_p`. Each row and step has its own random number. Temperature 0 takes the likeliest token.
struct Sampling {
  double temperature = 0.8;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  std::uint64_t seed = 1;

  bool sorts() const { return temperature > 0 && (top_k > 0 || top_p < 1); }
};

// The reason for the end of a row.
enum class Stopped : std::uint8_t { no, end, tokens, context, interrupt };
std::string_view name(Stopped stopped);

struct GenerationRequest {
  std::vector<std::vector<std::int32_t>> prompts;  // token sequences, none empty
  std::int64_t tokens = 0;                         // maximum new tokens of a row
  std::int64_t context = 0;                        // maximum tokens of a row, prompt included
  std::int64_t vocabulary = 0;                     // only tokens below it are drawn
  std::vector<std::int64_t> ends;                  // end tokens
  Sampling sampling;
  std::int64_t first_row = 0;   // number of the first row in the sampling; differs between the answers of a chat
  std::function<bool()> stops;  // optional; asked before each pass; true ends all rows
};

// Rounds shapes up to buckets: prompts of similar length share a plan.
GenerationShape generation_shape(const GenerationRequest& request);
// The shape of a chat with this context in tokens.
GenerationShape chat_shape(std::int64_t context);
// Bytes of heap.
Bytes generation_heap(const GenerationRequest& request);
Bytes chat_heap(std::int64_t context, const GenerationRequest& request);

// The passes of a graph that keep earlier tokens in caches, and their run.
class CachedPasses {
 public:
  virtual ~CachedPasses() = default;
  virtual const Graph& graph() const = 0;
  virtual const Pass& pass(std::string_view name) const = 0;
  virtual Executor& executor() = 0;
  // Runs a pass; `feed` writes its inputs.
  virtual void run(const Pass& pass, const std::function<void()>& feed) = 0;
};

struct GeneratedRow {
  std::vector<std::int32_t> tokens;  // after the prompt, without an end token
  Stopped stopped = Stopped::no;
};
// Calls on_token(row, token) for each new token.
std::vector<GeneratedRow> generate(InferenceRun& run, const GenerationRequest& request,
                                   const std::function<void(std::size_t, std::int32_t)>& on_token);

// The answer to one prompt on a graph of chat_shape(). `held`: tokens in the caches, empty at the start.
struct ChatRow {
  GeneratedRow row;
  std::size_t reused = 0;  // tokens of the prompt found in the caches
};
ChatRow continue_chat(InferenceRun& run, const GenerationRequest& request, std::vector<std::int32_t>& held,
                      const std::function<void(std::size_t, std::int32_t)>& on_token);
ChatRow continue_chat(CachedPasses& passes, const GenerationRequest& request, std::vector<std::int32_t>& held,
                      const std::function<void(std::size_t, std::int32_t)>& on_token);

// Draws one token. `order` has logits.size() elements if the sampling sorts, else it may be empty.
std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::int64_t step, std::int64_t row,
                  std::span<std::int32_t> order);

}  // namespace plimsoll
