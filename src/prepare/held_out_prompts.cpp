#include "prepare/held_out_prompts.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "data/chat_encoder.h"
#include "data/dialogue.h"
#include "data/document_encoder.h"
#include "formats/chat_template.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer_folder.h"
#include "formats/utf8.h"
#include "formats/weights_folder.h"
#include "models/family.h"
#include "prepare/data_files.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::int64_t kLooked = 1000;       // samples that are searched for a prompt
constexpr std::int64_t kTextPrompt = 32;     // tokens of a prompt from plain text
constexpr std::int64_t kLineHeap = 1 << 16;  // for the lines of an evaluation and their JSON
constexpr std::int64_t kTexts = 16;          // copies of texts while answers are recorded and shown

// The tokens of a sample. `trained`: true for those that count as targets.
struct Row {
  std::vector<std::int32_t> tokens;
  std::vector<bool> trained;

  std::int64_t size() const { return std::ssize(tokens); }
};

class Rows {
 public:
  Rows(const DataSet& data, std::int64_t context)
      : source_(data.source({.row = context})),
        tokens_(static_cast<std::size_t>(context)),
        targets_(tokens_.size()),
        staging_(static_cast<std::size_t>(source_->staging_bytes(1))) {}

  std::int64_t count() const { return source_->count(); }

  Row read(std::int64_t sample) {
    const std::array placed{PlacedSample{.ref = {.sample = static_cast<std::uint32_t>(sample)}}};
    std::array<std::uint32_t, 2> ids{};
    const Shape shape{1, std::ssize(tokens_)};
    const auto view = [](auto& values, DType dtype, Shape of) {
      return TensorView{std::as_writable_bytes(std::span(values)).data(), dtype, std::move(of), {}};
    };
    const std::array fields{FieldBuffer{"tokens", view(tokens_, DType::i32, shape)},
                            FieldBuffer{"targets", view(targets_, DType::i32, shape)},
                            FieldBuffer{"sample_ids", view(ids, DType::u32, Shape{1, 2})}};
    source_->read(placed, staging_);
    source_->fill(placed, staging_, fields);
    const auto positions = static_cast<std::size_t>(source_->size(sample).positions);
    Row row{{tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(positions)}, {false}};
    for (std::size_t i = 0; i < positions; ++i) row.trained.push_back(targets_[i] != kIgnoredTarget);
    if (row.trained.back()) row.tokens.push_back(targets_[positions - 1]);
    row.trained.resize(row.tokens.size());
    return row;
  }

 private:
  std::unique_ptr<SampleSource> source_;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<std::byte> staging_;
};

// The tokens of a prompt, [0, prompt), and of the answer that the sample has, [prompt, end).
struct Cut {
  std::int64_t prompt = 0, end = 0;
};

// The last trained turn, if something stands before it. `whole`: all tokens are trained, so turns do not show.
std::optional<Cut> cut_of(const Row& row, bool whole) {
  if (!whole) {
    std::int64_t end = row.size();
    while (end > 0 && !row.trained[static_cast<std::size_t>(end) - 1]) --end;
    std::int64_t begin = end;
    while (begin > 0 && row.trained[static_cast<std::size_t>(begin) - 1]) --begin;
    if (begin > 1) return Cut{begin, end};
  }
  const std::int64_t prompt = std::min(kTextPrompt, row.size() / 2);
  if (prompt < 1) return {};
  return Cut{prompt, std::min(row.size(), prompt + kMostAnswered)};
}

// The texts of tokens: bytes, or those of a tokenizer.
class Texts {
 public:
  explicit Texts(const std::filesystem::path& vocabulary) {
    if (!vocabulary.empty()) tokenizer_.emplace(Tokenizer::of_vocabulary(vocabulary));
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::string whole(std::span<const std::int32_t> tokens) const {
    if (!tokenizer_) return answer(tokens);
    return tokenizer_->decode(std::vector<Token>(tokens.begin(), tokens.end()), /*skip_special=*/false);
  }
  std::string answer(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) {
      text += tokenizer_ ? tokenizer_->inside(static_cast<Token>(token)) : std::string(1, static_cast<char>(token));
    }
    return utf8_repaired(text);
  }
  Bytes heap() const {
    if (!tokenizer_) return {};
    std::int64_t bytes = 4 * tokenizer_->size();
    for (std::int64_t i = 0; i < tokenizer_->size(); ++i) bytes += std::ssize(tokenizer_->inside(static_cast<Token>(i)));
    return Bytes{bytes};
  }

 private:
  std::optional<Tokenizer> tokenizer_;
};

// Chats use the tokenizer of Tokenizer::load, as their data do; `texts` has that of a vocabulary.
std::vector<std::int64_t> ends_of(const Config& config, const std::filesystem::path& vocabulary, const Texts& texts) {
  std::vector<std::int64_t> ends;
  if (!config.model.init.empty()) ends = end_tokens(config.model.init);
  if (vocabulary.empty()) return ends;
  if (data_kind(config).renders) {
    if (const std::optional<ChatTemplates> templates = load_chat_templates(vocabulary, config.data.chat_template)) {
      Tokenizer tokenizer = Tokenizer::load(vocabulary);
      return ends_of_answers(tokenizer, *templates, std::move(ends));
    }
  }
  if (const std::optional<Token> end = end_of_document(texts.tokenizer(), vocabulary, config.model.init)) ends.push_back(*end);
  return ends;
}

// The end of a prompt tells most about it.
std::string end_of(const std::string& text) {
  if (std::ssize(text) <= kMostShownText) return text;
  std::size_t begin = text.size() - static_cast<std::size_t>(kMostShownText);
  while (is_utf8_continuation(text[begin])) ++begin;
  return "…" + text.substr(begin);
}

}  // namespace

json to_json(const HeldOutPrompts& prompts) {
  json list = json::array();
  for (const HeldOutPrompt& each : prompts.prompts) {
    list.push_back({{"tokens", each.tokens}, {"text", each.text}, {"expected", each.expected}});
  }
  return {{"prompts", std::move(list)}, {"ends", prompts.ends}};
}

HeldOutPrompts prompts_from(const json& object) {
  HeldOutPrompts prompts;
  prompts.ends = object.at("ends").get<std::vector<std::int64_t>>();
  for (const json& each : object.at("prompts"))
    prompts.prompts.push_back({each.at("tokens"), each.at("text"), each.at("expected")});
  return prompts;
}

std::string beginning_of(std::string text) {
  if (std::ssize(text) <= kMostShownText) return text;
  text.resize(static_cast<std::size_t>(kMostShownText));
  text.resize(utf8_valid_prefix(text));
  return text + "…";
}

std::filesystem::path vocabulary_of(const Config& config) {
  if (facts_of(config.model.config).bytes) return {};
  const std::filesystem::path& folder = config.data.vocabulary.empty() ? config.model.init : config.data.vocabulary;
  return !folder.empty() && has_vocabulary(folder) ? folder : std::filesystem::path();
}

HeldOutPrompts find_prompts(const Config& config, const DataSet* validation) {
  const std::filesystem::path vocabulary = vocabulary_of(config);
  const Texts texts(vocabulary);
  HeldOutPrompts found{{}, ends_of(config, vocabulary, texts), texts.heap()};
  if (validation == nullptr) return found;
  const std::int64_t context = config.model.context;
  const bool whole = !data_kind(config).renders || config.data.loss == TrainedTurns::all;
  Rows rows(*validation, context);
  for (std::int64_t i = 0; i < std::min(rows.count(), kLooked) && std::ssize(found.prompts) < shown_samples(config); ++i) {
    const Row row = rows.read(i);
    const std::optional<Cut> cut = cut_of(row, whole);
    if (!cut || cut->prompt >= context) continue;
    const std::span tokens(row.tokens);
    const auto prompt = tokens.first(static_cast<std::size_t>(cut->prompt));
    const auto expected = tokens.subspan(prompt.size(), static_cast<std::size_t>(cut->end - cut->prompt));
    found.prompts.push_back({{prompt.begin(), prompt.end()}, end_of(texts.whole(prompt)), beginning_of(texts.answer(expected))});
  }
  return found;
}

Bytes prompts_heap(const Config& config, const HeldOutPrompts& prompts) {
  const std::int64_t each = 2 * 4 * config.model.context + kTexts * kMostShownText;
  return prompts.vocabulary + Bytes{shown_samples(config) * each + kLineHeap};
}

}  // namespace plimsoll
