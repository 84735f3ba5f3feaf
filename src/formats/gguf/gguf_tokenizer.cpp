#include "formats/gguf/gguf_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/atomic_file.h"
#include "formats/config_json.h"
#include "formats/gguf/gguf_cursor.h"
#include "formats/gguf/gguf_cutting.h"
#include "formats/gguf/gguf_tokenizer_keys.h"
#include "formats/gguf/scored_merges.h"
#include "formats/tokenizer/post_processor.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/token_table.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostScoredBytes = 512;

const GgufCutting& cutting_of(const GgufFile& file) {
  const auto name = file.text("tokenizer.ggml.pre");
  // Files without the key are older than it and are of GPT-2.
  if (!name && file.text("general.architecture") == kGgufByteLevel) return gguf_cuttings().front();
  if (!name) throw file.malformed("there is no key tokenizer.ggml.pre", "how text is cut before its merges");
  const std::span<const GgufCutting> all = gguf_cuttings();
  const auto found = std::ranges::find(all, *name, &GgufCutting::name);
  if (found != all.end()) return *found;
  std::string known;
  for (const GgufCutting& each : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  throw file.malformed(fmt::format("its tokenizer cuts text as '{}', which is not known", *name), "one of " + known);
}

// A buffered writer of the file.
class Out {
 public:
  explicit Out(const std::filesystem::path& path) : file_(path) {}

  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBlock) flush();
  }
  void put_text(std::string_view text) {
    buffer_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        buffer_ += '\\';
        buffer_ += c;
      } else if (byte < 0x20) {
        buffer_ += fmt::format("\\u{:04x}", byte);
      } else {
        buffer_ += c;
      }
    }
    put("\"");
  }
  void commit() {
    flush();
    file_.commit();
  }

 private:
  static constexpr std::size_t kBlock = 64 << 10;
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::string buffer_;
};

// The tokens with their kinds, in order.
class Tokens {
 public:
  explicit Tokens(const GgufFile& file) : file_(file), texts_(GgufCursor::texts(file, kGgufTokens)) {
    if (texts_.count() > kMostTokens) {
      throw file.malformed(fmt::format("it has {} tokens", texts_.count()), fmt::format("at most {}", kMostTokens));
    }
    if (file.has(kGgufTokenTypes)) {
      kinds_.emplace(GgufCursor::numbers(file, kGgufTokenTypes));
      if (kinds_->count() != texts_.count()) {
        throw file.malformed(fmt::format("it has {} tokens and the types of {}", texts_.count(), kinds_->count()));
      }
    }
  }

  std::uint64_t count() const { return texts_.count(); }
  bool next() {
    if (texts_.at_end()) return false;
    text = texts_.next_text();
    id = next_++;
    if (utf8_valid_prefix(text) != text.size())
      throw file_.malformed(fmt::format("token {} is not UTF-8", id), "tokens in UTF-8");
    const double number = kinds_ ? kinds_->next_number() : 1;
    if (!(number >= 0 && number <= 6))
      throw file_.malformed(fmt::format("token {} is of type {}", id, number), "a type from 1 to 6");
    kind = number == 0 ? GgufTokenKind::normal : static_cast<GgufTokenKind>(static_cast<int>(number));
    return true;
  }
  // True for a token that only fills a row of the model's table.
  bool is_padding() const { return kind == GgufTokenKind::unused && text == fmt::format("[PAD{}]", id); }
  bool is_added() const {
    return !text.empty() && (kind == GgufTokenKind::unknown || kind == GgufTokenKind::control || kind == GgufTokenKind::user);
  }

  std::string_view text;
  std::uint64_t id = 0;
  GgufTokenKind kind = GgufTokenKind::normal;

 private:
  const GgufFile& file_;
  GgufCursor texts_;
  std::optional<GgufCursor> kinds_;
  std::uint64_t next_ = 0;
};

// The text of the token under a key; absent without the key.
std::optional<std::string> token_of(const GgufFile& file, const char* key) {
  const auto id = file.whole(key);
  if (!id) return {};
  Tokens tokens(file);
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens.count()) {
    throw file.malformed(fmt::format("{} is {}", key, *id), fmt::format("a token below {}", tokens.count()));
  }
  while (tokens.next()) {
    if (tokens.id == static_cast<std::uint64_t>(*id)) break;
  }
  return std::string(tokens.text);
}

void put_added_tokens(const GgufFile& file, bool scored, Out& out) {
  Tokens tokens(file);
  bool first = true;
  out.put("[");
  while (tokens.next()) {
    if (!tokens.is_added()) continue;
    out.put(fmt::format("{}\n    {{\"id\": {}, \"content\": ", first ? "" : ",", tokens.id));
    const bool user = tokens.kind == GgufTokenKind::user;
    out.put_text(user && scored ? without_marks(tokens.text) : std::string(tokens.text));
    out.put(fmt::format(R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": {}}})",
                        user ? "false" : "true"));
    first = false;
  }
  out.put("\n  ]");
}

void put_vocabulary(const GgufFile& file, Out& out) {
  Tokens tokens(file);
  bool first = true;
  out.put("{");
  while (tokens.next()) {
    if (tokens.is_padding()) continue;
    out.put(first ? "\n      " : ",\n      ");
    out.put_text(tokens.text);
    out.put(fmt::format(": {}", tokens.id));
    first = false;
  }
  out.put("\n    }");
}

void put_stored_merges(const GgufFile& file, Out& out) {
  GgufCursor merges = GgufCursor::texts(file, "tokenizer.ggml.merges");
  if (merges.count() > kMostTokens) {
    throw file.malformed(fmt::format("it has {} merges", merges.count()), fmt::format("at most {}", kMostTokens));
  }
  for (bool first = true; !merges.at_end(); first = false) {
    const std::string_view merge = merges.next_text();
    if (utf8_valid_prefix(merge) != merge.size()) throw file.malformed("a merge is not UTF-8", "merges in UTF-8");
    out.put(first ? "\n      " : ",\n      ");
    out.put_text(merge);
  }
}

void put_scored_merges(const GgufFile& file, Out& out) {
  TokenTable table;
  std::vector<float> scores;
  std::vector<bool> merged;
  Tokens tokens(file);
  GgufCursor numbers = GgufCursor::numbers(file, "tokenizer.ggml.scores");
  if (numbers.count() != tokens.count()) {
    throw file.malformed(fmt::format("it has {} tokens and the scores of {}", tokens.count(), numbers.count()));
  }
  while (tokens.next()) {
    // Limits the search, which tries to split a token at each place.
    if (tokens.text.size() > kMostScoredBytes) {
      throw file.malformed(fmt::format("token {} has {} bytes", tokens.id, tokens.text.size()),
                           fmt::format("at most {}", kMostScoredBytes));
    }
    table.add(tokens.text, tokens.id, file.path());
    scores.push_back(static_cast<float>(numbers.next_number()));
    merged.push_back(tokens.kind == GgufTokenKind::normal);
    if (std::isnan(scores.back())) throw file.malformed(fmt::format("the score of token {} is not a number", tokens.id));
  }
  table.finish(file.path());
  bool first = true;
  for (const ScoredMerge& each : scored_merges(table, scores, merged)) {
    const std::string_view text = table.text(each.token);
    out.put(first ? "\n      [" : ",\n      [");
    out.put_text(text.substr(0, each.left_bytes));
    out.put(", ");
    out.put_text(text.substr(each.left_bytes));
    out.put("]");
    first = false;
  }
}

// The post-processor with the tokens before and after a text; null if there are none.
OrderedJson post_processor(const GgufFile& file, bool begins) {
  const auto token = [&](const char* flag, bool usual, const char* key) -> std::optional<InsertedToken> {
    if (!file.flag(flag).value_or(usual)) return {};
    const auto text = token_of(file, key);
    if (!text) throw file.malformed(fmt::format("there is no key {}", key), "the token that texts begin or end with");
    return InsertedToken{*text, *file.whole(key)};
  };
  return template_processing(token("tokenizer.ggml.add_bos_token", begins, "tokenizer.ggml.bos_token_id"),
                             token("tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id"));
}

OrderedJson byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", regex}};
}

OrderedJson bpe_rules(const std::optional<std::string>& unknown, bool scored, bool whole_pieces) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown ? OrderedJson(*unknown) : OrderedJson()},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", scored},
          {"byte_fallback", scored},
          {"ignore_merges", whole_pieces}};
}

struct Parts {
  OrderedJson normalizer, pre_tokenizer, post_processor, decoder, model;
};

Parts byte_level_parts(const GgufFile& file) {
  const GgufCutting& cutting = cutting_of(file);
  Parts parts;
  if (cutting.composes) parts.normalizer = {{"type", "NFC"}};
  parts.pre_tokenizer = byte_level(cutting.pattern == nullptr);
  if (cutting.pattern != nullptr || cutting.digits) {
    const OrderedJson before =
        cutting.digits
            ? OrderedJson{{"type", "Digits"}, {"individual_digits", true}}
            : OrderedJson{
                  {"type", "Split"}, {"pattern", {{"Regex", cutting.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    const OrderedJson both = OrderedJson::array({before, parts.pre_tokenizer});
    parts.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", both}};
  }
  parts.post_processor = post_processor(file, cutting.begins);
  parts.decoder = byte_level(true);
  parts.model = bpe_rules({}, /*scored=*/false, cutting.whole_pieces);
  return parts;
}

Parts scored_parts(const GgufFile& file) {
  for (const char* key : {"tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.remove_extra_whitespaces"}) {
    if (!file.has(key) || (file.value(key)->type == GgufType::flag && file.flag(key) == false)) continue;
    throw file.malformed(fmt::format("its tokenizer has the key {}, which is not supported", key), "no such key");
  }
  const bool prefix = file.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  const OrderedJson mark = std::string(kSpaceMark);
  const OrderedJson to_marks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
  const auto spaces = file.text(kGgufSpaces);
  if (spaces && *spaces != "first" && *spaces != "always") {
    throw file.malformed(fmt::format("{} is '{}'", kGgufSpaces, *spaces), "first or always");
  }
  Parts parts;
  if (spaces) {
    parts.pre_tokenizer = {{"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", *spaces}, {"split", false}};
  } else {
    parts.normalizer = to_marks;
  }
  if (prefix && !spaces) {
    const OrderedJson both = OrderedJson::array({OrderedJson{{"type", "Prepend"}, {"prepend", mark}}, to_marks});
    parts.normalizer = {{"type", "Sequence"}, {"normalizers", both}};
  }
  parts.post_processor = post_processor(file, true);
  parts.decoder = marks_decoder(prefix);
  parts.model = bpe_rules(token_of(file, "tokenizer.ggml.unknown_token_id"), /*scored=*/true, /*whole_pieces=*/false);
  return parts;
}

std::string dump(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

OrderedJson tokenizer_config(const GgufFile& file, const std::optional<std::string>& chat) {
  OrderedJson json = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  constexpr std::pair<const char*, const char*> kSpecials[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                               {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                               {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                               {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kSpecials) {
    if (const auto token = token_of(file, key)) json[name] = *token;
  }
  const std::string architecture = file.text("general.architecture").value_or("");
  if (const auto context = file.whole(architecture + ".context_length")) json["model_max_length"] = *context;
  if (chat) json["chat_template"] = *chat;
  return json;
}

}  // namespace

bool has_tokenizer(const GgufFile& file) { return file.has("tokenizer.ggml.model"); }

const GgufTensor& gguf_table(const GgufFile& file) {
  const GgufTensor* table = file.find("token_embd.weight");
  if (table == nullptr || table->shape.rank() != 2)
    throw file.malformed("there is no matrix token_embd.weight", "a model of tokens");
  return *table;
}

void put_gguf_tokens(const GgufFile& file, OrderedJson& json) {
  const std::int64_t vocab = gguf_table(file).shape[0];
  constexpr std::pair<const char*, const char*> kTokens[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"},
  };
  for (const auto& [name, key] : kTokens) {
    const auto token = file.whole(key);
    if (token && (*token < 0 || *token >= vocab)) {
      throw file.malformed(fmt::format("{} is {}", key, *token), fmt::format("a token from 0 to {}", vocab - 1));
    }
    json[name] = token ? OrderedJson(*token) : OrderedJson();
  }
}

OrderedJson gguf_generation_config(const GgufFile& file) {
  OrderedJson json = OrderedJson::object();
  put_gguf_tokens(file, json);
  const auto turn = file.whole("tokenizer.ggml.eot_token_id");
  if (turn && *turn >= 0 && *turn < gguf_table(file).shape[0] && json["eos_token_id"] != OrderedJson(*turn)) {
    json["eos_token_id"] = json["eos_token_id"].is_null() ? OrderedJson(*turn) : OrderedJson{json["eos_token_id"], *turn};
  }
  return json;
}

void write_tokenizer_json(const GgufFile& file, const std::filesystem::path& folder) {
  const auto kind = file.text("tokenizer.ggml.model");
  if (kind != kGgufByteLevel && kind != kGgufScored) {
    throw file.malformed(kind ? fmt::format("its tokenizer is '{}', which is not supported", *kind) : "it has no tokenizer",
                         "tokenizer.ggml.model gpt2 or llama");
  }
  const bool scored = kind == kGgufScored;
  const Parts parts = scored ? scored_parts(file) : byte_level_parts(file);
  Out out(folder / "tokenizer.json");
  out.put("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ");
  put_added_tokens(file, scored, out);
  out.put(fmt::format(",\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n",
                      dump(parts.normalizer), dump(parts.pre_tokenizer), dump(parts.post_processor), dump(parts.decoder)));
  const std::string model = dump(parts.model);
  out.put("  \"model\": " + model.substr(0, model.size() - 1) + ",\n    \"vocab\": ");
  put_vocabulary(file, out);
  out.put(",\n    \"merges\": [");
  scored ? put_scored_merges(file, out) : put_stored_merges(file, out);
  out.put("\n    ]\n  }\n}\n");
  out.commit();
}

void write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, bool replace) {
  if (!has_tokenizer(file)) return;
  const auto wanted = [&](const char* name) { return replace || !is_there(folder / name); };
  const auto chat = file.text("tokenizer.chat_template");
  if (wanted("tokenizer.json")) write_tokenizer_json(file, folder);
  if (wanted("tokenizer_config.json")) write_json(folder / "tokenizer_config.json", tokenizer_config(file, chat));
  if (chat && wanted("chat_template.jinja")) write_file_atomically(folder / "chat_template.jinja", *chat);
}

}  // namespace plimsoll
