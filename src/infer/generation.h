// Continues token sequences: one prefill of all prompts, then a token of each row at a time from the cache. A row stops at an end
// token, after so many tokens, or where the context is full. A chat continues one row again and again: what its prompt has in
// common with what the cache holds is not computed again, and the rest goes through the model in chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "infer/inference_run.h"

namespace plimsoll {

// What a token is drawn from: softmax(logits / temperature), of the `top_k` likeliest, of these the fewest whose probabilities
// reach `top_p`. Each row and step has a number of its own. Temperature 0 takes the likeliest token.
struct Sampling {
  double temperature = 0.8;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  std::uint64_t seed = 1;

  bool sorts() const { return temperature > 0 && (top_k > 0 || top_p < 1); }
};

// Why a row has stopped.
enum class Stopped : std::uint8_t { no, end, tokens, context, interrupt };
std::string_view name(Stopped stopped);

struct GenerationRequest {
  std::vector<std::vector<std::int32_t>> prompts;  // of tokens, none empty
  std::int64_t tokens = 0;                         // new ones of each row, at most
  std::int64_t context = 0;                        // tokens of a row, at most
  std::int64_t vocabulary = 0;                     // tokens below it are drawn
  std::vector<std::int64_t> ends;                  // tokens that end a row
  Sampling sampling;
  std::int64_t first_row = 0;   // the number of the first row for the sampling: answers of a chat differ in it
  std::function<bool()> stops;  // asked before each pass, if there is one; true ends all rows
};

// Shapes are multiples of a bucket, so that prompts of about one length have one plan.
GenerationShape generation_shape(const GenerationRequest& request);
// Of a chat in so many tokens.
GenerationShape chat_shape(std::int64_t context);
// The heap that they take.
Bytes generation_heap(const GenerationRequest& request);
Bytes chat_heap(std::int64_t context, const GenerationRequest& request);

struct GeneratedRow {
  std::vector<std::int32_t> tokens;  // behind the prompt, without an end token
  Stopped stopped = Stopped::no;
};
// Calls on_token(row, token) for each token as it comes.
std::vector<GeneratedRow> generate(InferenceRun& run, const GenerationRequest& request,
                                   const std::function<void(std::size_t, std::int32_t)>& on_token);

// Of the one prompt, on a graph of chat_shape(). `held` are the tokens in the caches, none in the beginning.
struct ChatRow {
  GeneratedRow row;
  std::size_t reused = 0;  // tokens of the prompt that the caches held
};
ChatRow continue_chat(InferenceRun& run, const GenerationRequest& request, std::vector<std::int32_t>& held,
                      const std::function<void(std::size_t, std::int32_t)>& on_token);

// Draws one token; `order` holds logits.size() numbers where the sampling sorts, else may be empty.
std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::int64_t step, std::int64_t row,
                  std::span<std::int32_t> order);

}  // namespace plimsoll
