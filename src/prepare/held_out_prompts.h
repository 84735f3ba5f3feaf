// Prompts from the validation data, which a training answers at each evaluation, with the texts that people compare answers with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/data_set.h"

namespace plimsoll {

inline constexpr std::int64_t kMostAnswered = 64;        // tokens of an answer
inline constexpr std::int64_t kMostShownText = 3 << 10;  // bytes of a text; three of them, escaped, are a valid line of a run

struct HeldOutPrompt {
  std::vector<std::int32_t> tokens;
  std::string text, expected;  // UTF-8; `expected`: the text of the sample after the prompt, as far as an answer could go
};

struct HeldOutPrompts {
  std::vector<HeldOutPrompt> prompts;
  std::vector<std::int64_t> ends;  // tokens that end an answer
  Bytes vocabulary;                // heap of the texts of all tokens
};

nlohmann::json to_json(const HeldOutPrompts& prompts);
HeldOutPrompts prompts_from(const nlohmann::json& object);

// The folder or the GGUF file with the vocabulary of the training's tokens; empty: tokens are bytes, or have no texts.
std::filesystem::path vocabulary_of(const Config& config);

// The prompts of the first samples that have one, up to shown_samples(config): a conversation up to its last trained turn, or the
// beginning of any other sample. May be fewer, or none. `validation`: null if the data are not there. Loads the tokenizer.
HeldOutPrompts find_prompts(const Config& config, const DataSet* validation);

// A text, or its beginning with "…" if it has more than kMostShownText bytes.
std::string beginning_of(std::string text);

// Heap bytes of prompts and texts in the process that trains.
Bytes prompts_heap(const Config& config, const HeldOutPrompts& prompts);

}  // namespace plimsoll
