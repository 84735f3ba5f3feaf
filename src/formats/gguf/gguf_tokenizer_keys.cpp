#include "formats/gguf/gguf_tokenizer_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_cutting.h"
#include "formats/gguf/scored_merges.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/tokenizer_file.h"
#include "formats/utf8.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMostTemplate = 1 << 20;

Json read_json_if_there(const fs::path& path) {
  return is_there(path) ? read_json_object(path, kTokenizerConfigLimits, "E-TOKENIZER") : Json::object();
}

std::string kind_of(const Json& part) { return part.is_object() ? part.value("type", std::string()) : std::string(); }

// The steps of a part of tokenizer.json; none for null.
std::vector<Json> steps_of(const Json& part, const char* list) {
  if (part.is_null()) return {};
  if (kind_of(part) != "Sequence") return {part};
  std::vector<Json> steps;
  for (const Json& each : part.value(list, Json::array())) {
    for (Json& step : steps_of(each, list)) steps.push_back(std::move(step));
  }
  return steps;
}

std::string with_marks(std::string_view text) {
  std::string result;
  for (const char c : text) c == ' ' ? result += kSpaceMark : result += c;
  return result;
}

// One text for a token and the place of its split.
std::string split_text(std::string_view text, std::size_t left) { return fmt::format("{}:{}", left, text); }

// Turns a tokenizer into keys.
class TokenizerKeys {
 public:
  TokenizerKeys(const fs::path& folder, std::int64_t vocab)
      : folder_(folder), vocab_(vocab), config_(read_json_if_there(folder / "tokenizer_config.json")) {}

  GgufTokenizerKeys run(std::string_view architecture) {
    GgufTokenizerKeys result;
    find_tokenizer();
    result.tokenizer = !where_.empty();
    if (result.tokenizer) put_tokenizer(architecture);
    put_ids();
    if (result.tokenizer) put_ends();
    if (result.tokenizer) result.chat_template = put_template();
    result.spaces = spaces_;
    result.keys = std::move(keys_);
    return result;
  }

 private:
  Error refuse(const std::string& what, std::string expected) const {
    return data_error("E-EXPORT-TOKENIZER", where_, what, std::move(expected));
  }
  Error broken(const std::string& what, std::string expected) const {
    return data_error("E-TOKENIZER", where_, what, std::move(expected));
  }

  void find_tokenizer() {
    const bool pair = is_there(folder_ / "vocab.json") && is_there(folder_ / "merges.txt");
    const bool json = is_there(folder_ / "tokenizer.json");
    if (!json && !pair && !has_sentencepiece_alone(folder_)) return;
    where_ = (folder_ / (json ? "tokenizer.json" : pair ? "vocab.json" : kSentencePieceFile)).string();
    file_.emplace(read_tokenizer(folder_));
    if (json || !pair) return;
    const Json more = read_json_if_there(folder_ / "added_tokens.json");
    for (const auto& [token, id] : more.items()) {
      if (!id.is_number_unsigned()) throw broken(fmt::format("the id of '{}' is {}", token, id.dump()), "a whole number");
      if (id >= vocab_ || std::ranges::find(file_->added, token, &AddedTokenEntry::content) != file_->added.end()) continue;
      file_->added.push_back({.content = token, .id = id.get<Token>()});
    }
  }

  Json part(const char* key) const {
    const Json* found = file_->part(key);
    return found != nullptr ? *found : Json();
  }

  void put_tokenizer(std::string_view architecture) {
    const Json model = part("model");
    if (kind_of(model) != "BPE") throw refuse(fmt::format("its model is '{}'", kind_of(model)), "BPE");
    const Json dropout = model.value("dropout", Json());
    if (!dropout.is_null()) throw refuse(fmt::format("model.dropout is {}", dropout.dump()), "no such key");
    scored_ = model.value("byte_fallback", Json()) == Json(true);
    read_tokens(model);
    if (scored_) {
      keys_.put("tokenizer.ggml.model", kGgufScored);
      keys_.put("tokenizer.ggml.pre", "default");
      keys_.put_flag("tokenizer.ggml.add_space_prefix", adds_space());
      if (!spaces_.empty()) keys_.put(kGgufSpaces, spaces_);
    } else {
      keys_.put("tokenizer.ggml.model", kGgufByteLevel);
      keys_.put("tokenizer.ggml.pre", cutting(model, architecture));
    }
    put_tokens();
  }

  // llama.cpp's name for the tokenizer's way to cut text.
  std::string_view cutting(const Json& model, std::string_view architecture) const {
    GgufCutting found;
    for (const Json& step : steps_of(part("normalizer"), "normalizers")) {
      if (kind_of(step) != "NFC") throw refuse(fmt::format("a normalizer is {}", kind_of(step)), "none, or NFC");
      found.composes = true;
    }
    std::vector<Json> steps = steps_of(part("pre_tokenizer"), "pretokenizers");
    if (steps.empty() || kind_of(steps.back()) != "ByteLevel" || steps.back().value("add_prefix_space", true)) {
      throw refuse("pre_tokenizer does not end with ByteLevel without add_prefix_space", "a byte-level BPE");
    }
    const bool words = steps.back().value("use_regex", true);
    steps.pop_back();
    std::string pattern;
    for (const Json& step : steps) {
      const std::string kind = kind_of(step);
      const Json regex = step.value("pattern", Json::object()).value("Regex", Json());
      if (kind == "Digits" && step.value("individual_digits", false) && words) {
        found.digits = true;
      } else if (kind == "Split" && regex.is_string() && pattern.empty() && !words && step.value("behavior", "") == "Isolated" &&
                 !step.value("invert", false)) {
        pattern = regex.get<std::string>();
        found.pattern = pattern.c_str();
      } else {
        throw refuse(fmt::format("pre_tokenizer has the step {}", step.dump().substr(0, 200)),
                     "a way to cut that llama.cpp knows");
      }
    }
    found.whole_pieces = model.value("ignore_merges", Json()) == Json(true);
    if (!words && pattern.empty())
      throw refuse("pre_tokenizer does not cut text into words", "a way to cut that llama.cpp knows");
    for (const GgufCutting& each : gguf_cuttings()) {
      if (each.digits == found.digits && each.composes == found.composes && each.whole_pieces == found.whole_pieces &&
          (each.pattern == nullptr ? pattern.empty() : pattern == each.pattern)) {
        return each.name;
      }
    }
    throw refuse(fmt::format("llama.cpp has no name for how it cuts text{}{}", pattern.empty() ? "" : ": ", pattern),
                 fmt::format("the tokenizer of a model of {} that llama.cpp knows", architecture));
  }

  // True if SentencePiece puts a space before a text.
  bool adds_space() {
    std::optional<bool> prefix;
    bool marks = false;
    for (const Json& step : steps_of(part("normalizer"), "normalizers")) {
      const Json pattern = step.value("pattern", Json::object()).value("String", Json());
      if (kind_of(step) == "Prepend" && step.value("prepend", "") == kSpaceMark && !marks) {
        prefix = true;
      } else if (kind_of(step) == "Replace" && pattern == Json(" ") && step.value("content", "") == kSpaceMark) {
        marks = true;
      } else {
        throw refuse(fmt::format("a normalizer is {}", step.dump().substr(0, 200)), "the treatment of spaces in SentencePiece");
      }
    }
    for (const Json& step : steps_of(part("pre_tokenizer"), "pretokenizers")) {
      const std::string scheme = step.value("prepend_scheme", "");
      const bool known = scheme == "always" || scheme == "first" || scheme == "never";
      if (kind_of(step) != "Metaspace" || step.value("split", true) || marks || !known) {
        throw refuse(fmt::format("pre_tokenizer has the step {}", step.dump().substr(0, 200)),
                     "spaces as SentencePiece has them: before a whole text, or nowhere");
      }
      prefix = scheme != "never";
      if (*prefix) spaces_ = scheme;
      marks = true;
    }
    if (!marks) throw refuse("spaces are no marks of SentencePiece", "a normalizer that writes U+2581 for a space");
    return prefix.value_or(false);
  }

  struct OneToken {
    std::string text;
    GgufTokenKind kind = GgufTokenKind::unused;
    bool there = false;
  };

  // True if the model has a row for the token. No text of the model has other tokens, and the file has a token for each row.
  bool has_row(Token id) const { return id < static_cast<std::uint64_t>(vocab_); }

  void read_tokens(const Json& model) {
    tokens_.resize(static_cast<std::size_t>(vocab_));
    const Json unknown = model.value("unk_token", Json());
    for (Token id = 0; id < file_->tokens.size() && has_row(id); ++id) {
      if (!file_->tokens.has(id)) continue;
      const std::string text(file_->tokens.text(id));
      const bool byte = scored_ && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
      tokens_[id] = {text, byte ? GgufTokenKind::byte : GgufTokenKind::normal, true};
    }
    for (const AddedTokenEntry& each : file_->added) {
      if (!has_row(each.id)) continue;
      for (const auto& [key, value] :
           {std::pair("lstrip", each.lstrip), {"rstrip", each.rstrip}, {"single_word", each.single_word}}) {
        if (value) throw refuse(fmt::format("token '{}' has {}", each.content, key), "added tokens without it");
      }
      OneToken& token = tokens_[each.id];
      const std::string text = scored_ && !each.special ? with_marks(each.content) : each.content;
      if (token.there && token.text != text) {
        throw broken(fmt::format("token {} is '{}' and '{}'", each.id, token.text, text), "one text for each id");
      }
      token = {text, each.special ? GgufTokenKind::control : GgufTokenKind::user, true};
    }
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      OneToken& token = tokens_[id];
      if (!token.there) token.text = fmt::format("[PAD{}]", id);
      if (token.there && scored_ && unknown == Json(token.text)) token.kind = GgufTokenKind::unknown;
      if (!by_text_.emplace(token.text, id).second) {
        throw refuse(fmt::format("two tokens are '{}'", token.text), "texts that differ");
      }
    }
  }

  void put_tokens() {
    std::vector<std::string> texts;
    std::vector<std::int32_t> kinds;
    for (const OneToken& token : tokens_) {
      texts.push_back(token.text);
      kinds.push_back(static_cast<std::int32_t>(token.kind));
    }
    keys_.put_texts(kGgufTokens, texts);
    keys_.put_wholes(kGgufTokenTypes, kinds);
    if (scored_) return keys_.put_numbers("tokenizer.ggml.scores", scores());
    std::vector<std::string> merges;
    for (const auto& [left, right, result] : file_->merges.all()) {
      if (!has_row(result)) continue;
      const std::string_view first = file_->tokens.text(left), second = file_->tokens.text(right);
      if (file_->tokens.text(result).find(' ') != std::string_view::npos) {
        throw broken(fmt::format("a merge is of '{}' and '{}'", first, second), "two texts without spaces");
      }
      merges.push_back(fmt::format("{} {}", first, second));
    }
    if (!merges.empty()) keys_.put_texts("tokenizer.ggml.merges", merges);
  }

  // SentencePiece has scores instead of merges: tokens that are merged earlier get higher ones. The scores are right only if they
  // imply exactly these merges.
  std::vector<float> scores() {
    std::vector<float> result(tokens_.size(), 0);
    std::vector<bool> merged(tokens_.size(), false);
    std::vector<std::pair<Token, std::size_t>> groups;  // a token, and the number of its merges
    std::unordered_set<std::string> pairs;
    for (const auto& [left, right, whole] : file_->merges.all()) {
      // The text of an added token is cut out before the merges.
      if (!has_row(whole)) continue;
      const GgufTokenKind kind = tokens_[whole].kind;
      if (kind != GgufTokenKind::normal && kind != GgufTokenKind::byte) continue;
      if (groups.empty() || groups.back().first != whole) groups.emplace_back(whole, 0);
      ++groups.back().second;
      pairs.insert(split_text(file_->tokens.text(whole), file_->tokens.text(left).size()));
    }
    TokenTable table;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      table.add(tokens_[id].text, id, where_);
      merged[id] = tokens_[id].kind == GgufTokenKind::normal;
      if (merged[id]) result[id] = -static_cast<float>(groups.size());
    }
    table.finish(where_);
    for (std::size_t i = 0; i < groups.size(); ++i) result[groups[i].first] = -static_cast<float>(i);
    const std::vector<ScoredMerge> all = scored_merges(table, result, merged);
    bool same = all.size() == pairs.size();
    std::size_t next = 0;
    for (const auto& [token, count] : groups) {
      for (std::size_t i = 0; same && i < count; ++i, ++next) {
        const std::string_view text = table.text(all[next].token);
        same = all[next].token == token && pairs.contains(split_text(text, all[next].left_bytes));
      }
    }
    if (!same) throw refuse("no scores of tokens mean its merges", "a tokenizer of SentencePiece, with all merges in its order");
    return result;
  }

  // The id of a special token from tokenizer_config.json, else from config.json.
  std::optional<std::int64_t> id_of(const char* name, const Json& model_config) const {
    const Json value = config_.value(std::string(name) + "_token", Json());
    const Json text = value.is_object() ? value.value("content", Json()) : value;
    if (text.is_string()) {
      const auto found = by_text_.find(text.get<std::string>());
      if (found != by_text_.end()) return static_cast<std::int64_t>(found->second);
    }
    Json id = model_config.value(std::string(name) + "_token_id", Json());
    if (id.is_array() && !id.empty()) id = Json(id[0]);
    if (id.is_number_integer() && id >= 0 && id < vocab_) return id.get<std::int64_t>();
    return {};
  }

  void put_ids() {
    const Json model_config = read_json_if_there(folder_ / "config.json");
    for (const auto& [name, key] : {std::pair("bos", "bos"), {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}}) {
      const auto id = id_of(name, model_config);
      if (!id) continue;
      ids_[name] = *id;
      keys_.put_whole(fmt::format("tokenizer.ggml.{}_token_id", key), *id);
    }
    // A further token that ends generation: the end of a turn.
    for (const std::int64_t end : end_tokens(folder_)) {
      if (ids_.contains("eos") && end != ids_["eos"] && end >= 0 && end < vocab_) {
        return keys_.put_whole("tokenizer.ggml.eot_token_id", end);
      }
    }
  }

  // The tokens before and after a text.
  void put_ends() {
    bool before = false, behind = false;
    for (const Json& step : steps_of(part("post_processor"), "processors")) {
      if (kind_of(step) == "ByteLevel") continue;
      if (kind_of(step) != "TemplateProcessing") throw refuse(fmt::format("post_processor is {}", kind_of(step)), "a template");
      bool text = false;
      for (const Json& each : step.value("single", Json::array())) {
        if (each.contains("Sequence")) {
          text = true;
          continue;
        }
        const std::string token = each.value("SpecialToken", Json::object()).value("id", std::string());
        const auto found = by_text_.find(token);
        const char* wanted = text ? "eos" : "bos";
        bool& there = text ? behind : before;
        if (found == by_text_.end() || !ids_.contains(wanted) || ids_[wanted] != static_cast<std::int64_t>(found->second) ||
            there) {
          throw refuse(fmt::format("it puts '{}' {} a text", token, text ? "after" : "before"),
                       "bos_token before a text, eos_token after it, or nothing");
        }
        there = true;
      }
    }
    keys_.put_flag("tokenizer.ggml.add_bos_token", before);
    keys_.put_flag("tokenizer.ggml.add_eos_token", behind);
  }

  // Puts the default template and those with other names.
  bool put_template() {
    std::map<std::string, std::string> templates;
    if (is_there(folder_ / "chat_template.jinja")) {
      templates["default"] = read_text(folder_ / "chat_template.jinja", kMostTemplate, "E-CHAT-TEMPLATE");
    }
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_ / "chat_templates", ignored)) {
      if (entry.path().extension() != ".jinja") continue;
      templates[entry.path().stem().string()] = read_text(entry.path(), kMostTemplate, "E-CHAT-TEMPLATE");
    }
    const Json key = config_.value("chat_template", Json());
    if (templates.empty() && key.is_string()) templates["default"] = key.get<std::string>();
    if (templates.empty() && key.is_array()) {
      for (const Json& each : key) {
        if (each.is_object()) templates[each.value("name", "")] = each.value("template", "");
      }
    }
    std::vector<std::string> names;
    for (const auto& [name, text] : templates) {
      const bool first = name == "default";
      keys_.put(first ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, text);
      if (!first) names.push_back(name);
    }
    if (!names.empty()) keys_.put_texts("tokenizer.chat_templates", names);
    return templates.contains("default");
  }

  fs::path folder_;
  std::int64_t vocab_;
  Json config_;
  std::optional<TokenizerFile> file_;
  std::string where_;  // the file of the tokenizer; empty: none
  bool scored_ = false;
  std::string spaces_;  // prepend_scheme of Metaspace if it puts spaces, else empty
  std::vector<OneToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_text_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
  GgufKeys keys_;
};

}  // namespace

GgufTokenizerKeys gguf_tokenizer_keys(const fs::path& folder, std::int64_t vocab, std::string_view architecture) {
  try {
    return TokenizerKeys(folder, vocab).run(architecture);
  } catch (const Json::exception& error) {
    throw data_error("E-TOKENIZER", folder.string(), fmt::format("a file of the tokenizer is malformed: {}", error.what()),
                     "tokenizer.json and tokenizer_config.json as transformers writes them");
  }
}

}  // namespace plimsoll
