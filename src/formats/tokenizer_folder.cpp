#include "formats/tokenizer_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <istream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/json_stream.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxFileBytes = 64 << 20, kPieceBytes = 256 << 10;

constexpr std::array<std::string_view, 10> kTokenizerFiles{"vocab.json",
                                                           "vocab.txt",
                                                           "merges.txt",
                                                           "added_tokens.json",
                                                           "special_tokens_map.json",
                                                           "tokenizer.json",
                                                           "tokenizer_config.json",
                                                           "tokenizer.model",
                                                           "chat_template.jinja",
                                                           "chat_template.json"};
constexpr std::array<std::string_view, 1> kGenerationFiles{"generation_config.json"};
constexpr std::size_t kMostShown = 40, kMostAdded = 4096;

Error refused(const std::filesystem::path& path, std::string why) {
  return data_error("E-TOKENIZER", path.string(), std::move(why), "the files of a GPT-2 tokenizer that say the same",
                    {Remedy::of_changes({{"data.train", "TOKENS.bin"}, {"data.format", "u16"}},
                                        "or u32, with tokens of the tokenizer itself")});
}

std::string shown(std::string_view text) {
  return Json(std::string(text.substr(0, kMostShown))).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// tokenizer.json, compared with a vocabulary as it is read: no document tree.
class TokenizerEvents : public nlohmann::json_sax<Json> {
 public:
  explicit TokenizerEvents(const BpeVocabulary& vocabulary)
      : vocabulary_(vocabulary), seen_(static_cast<std::size_t>(vocabulary.size())) {}

  std::vector<std::string> added;
  std::string problem;

  // What only the whole file shows.
  void finish() {
    if (!problem.empty()) return;
    if (!byte_level_) problem = "its pre_tokenizer is not ByteLevel, which GPT-2's is";
    if (merges_ != vocabulary_.merges().size())
      problem = fmt::format("it has {} merges and merges.txt {}", merges_, vocabulary_.merges().size());
    const std::unordered_set<std::string_view> others(added.begin(), added.end());
    for (std::size_t id = 0; id < seen_.size() && problem.empty(); ++id) {
      const std::string_view text = vocabulary_.bytes_of(static_cast<Token>(id));
      if (!seen_[id] && !others.contains(text)) {
        problem = fmt::format("it lacks token {}, {} of vocab.json", id, shown(text));
      }
    }
  }

  bool start_object(std::size_t) override { return enter(""); }
  bool start_array(std::size_t) override { return enter("[]"); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& text) override {
    path_.back() = text;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool value) override {
    if (!value) return !at({"pre_tokenizer", "use_regex"}) || refuse("its pre_tokenizer uses no pattern");
    const bool prefix = at({"pre_tokenizer", "add_prefix_space"});
    return !(prefix || at({"model", "ignore_merges"}) || at({"model", "byte_fallback"})) || refuse(path_.back() + " is true");
  }
  bool number_unsigned(std::uint64_t value) override {
    if (path_.size() != 3 || path_[0] != "model" || path_[1] != "vocab") return number(static_cast<double>(value));
    const bool same = value < seen_.size() && vocabulary_.written(static_cast<Token>(value)) == path_[2];
    if (!same) return refuse(fmt::format("it has token {} as {}, which vocab.json has not", shown(path_[2]), value));
    seen_[value] = true;
    return true;
  }
  bool number_integer(std::int64_t value) override { return number(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) override { return number(value); }
  bool string(std::string& value) override {
    if (at({"added_tokens", "[]", "content"})) {
      if (added.size() == kMostAdded) return refuse(fmt::format("it adds more than {} tokens", kMostAdded));
      added.push_back(value);
    }
    if (at({"model", "merges", "[]"})) return merge(value);
    if (at({"model", "merges", "[]", "[]"})) return half_of_merge(value);
    if (at({"pre_tokenizer", "type"})) byte_level_ = value == "ByteLevel";
    if (at({"normalizer", "type"})) return refuse(fmt::format("its normalizer is {}", shown(value)));
    if (at({"model", "type"}) && value != "BPE") return refuse(fmt::format("its model is {}", shown(value)));
    const bool marks = at({"model", "continuing_subword_prefix"}) || at({"model", "end_of_word_suffix"});
    return !marks || value.empty() || refuse(fmt::format("{} is {}", path_.back(), shown(value)));
  }
  bool binary(Json::binary_t&) override { return refuse("it holds binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return refuse(fmt::format("it is not JSON at byte {}", position));
  }

 private:
  static constexpr std::size_t kMaxDepth = 32;

  bool enter(const char* first) {
    path_.emplace_back(first);
    return path_.size() <= kMaxDepth || refuse("it is nested too deeply");
  }
  bool leave() {
    path_.pop_back();
    return true;
  }
  bool at(std::initializer_list<std::string_view> path) const { return std::ranges::equal(path_, path); }
  bool number(double value) { return !at({"model", "dropout"}) || value == 0 || refuse("its model drops merges at random"); }
  bool half_of_merge(const std::string& half) {
    if (left_.empty()) {
      left_ = half;
      return true;
    }
    return merge(std::exchange(left_, {}) + " " + half);
  }
  bool merge(const std::string& text) {
    const bool same = merges_ < vocabulary_.merges().size() && vocabulary_.written_merge(merges_) == text;
    if (!same) return refuse(fmt::format("its merge {} is {}, which is not that of merges.txt", merges_ + 1, shown(text)));
    ++merges_;
    return true;
  }
  bool refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }

  const BpeVocabulary& vocabulary_;
  std::vector<bool> seen_;
  std::vector<std::string> path_;  // the keys that lead to a value; "[]" stands for a place in a list
  std::string left_;
  std::size_t merges_ = 0;
  bool byte_level_ = false;
};

std::vector<std::string> added_by_tokenizer(const std::filesystem::path& path, const BpeVocabulary& vocabulary) {
  const File file = File::open(path);
  if (file.size() > kMaxFileBytes) throw refused(path, fmt::format("it has more than {} bytes", kMaxFileBytes));
  TokenizerEvents events(vocabulary);
  JsonStream buffer(file, 0, file.size(), {.refuse = [&](std::string why) { return refused(path, std::move(why)); }});
  std::istream stream(&buffer);
  if (Json::sax_parse(stream, &events)) events.finish();
  if (!events.problem.empty()) throw refused(path, events.problem);
  return std::move(events.added);
}

Json parsed(const std::filesystem::path& path) { return read_json_object(path, kTokenizerConfigLimits, "E-TOKENIZER"); }

// A token as text, as an object with its content, or several of them in a list.
void add_contents(const Json& value, std::vector<std::string>& out) {
  if (value.is_string()) out.push_back(value);
  if (value.is_array()) {
    for (const Json& each : value) {
      if (!each.is_array()) add_contents(each, out);
    }
  }
  if (value.is_object() && value.contains("content") && value["content"].is_string()) out.push_back(value["content"]);
}

std::vector<std::string> added_by_map(const Json& map) {
  std::vector<std::string> out;
  for (auto at = map.begin(); at != map.end(); ++at) {
    const std::string& key = at.key();
    const Json& value = at.value();
    if (key.ends_with("_token") || key.ends_with("_special_tokens")) add_contents(value, out);
    if (key == "added_tokens_decoder" && value.is_object()) {
      for (const Json& each : value) add_contents(each, out);
    }
  }
  return out;
}

// Settings that change ids.
void check_settings(const std::filesystem::path& path, const Json& json) {
  for (const char* key : {"add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case"}) {
    if (json.value(key, Json()) == Json(true)) throw refused(path, fmt::format("{} is true", key));
  }
  const Json kind = json.value("tokenizer_class", Json());
  const bool known = kind.is_null() || kind == Json("GPT2Tokenizer") || kind == Json("GPT2TokenizerFast") ||
                     kind == Json("PreTrainedTokenizerFast");
  if (!known)
    throw refused(path,
                  fmt::format("its tokenizer_class is {}", shown(kind.is_string() ? kind.get<std::string>() : kind.dump())));
}

}  // namespace

std::vector<AddedToken> unread_tokens(const std::filesystem::path& folder, const BpeVocabulary& vocabulary) {
  std::vector<AddedToken> all;
  std::unordered_set<std::string> seen;
  const auto add = [&](const char* file, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (text.empty() || (text == kEndOfText && vocabulary.end_of_text()) || !seen.insert(text).second) continue;
      // Text is searched for each of them.
      if (all.size() == kMostAdded) throw refused(folder / file, fmt::format("more than {} tokens are added", kMostAdded));
      all.push_back({text, file});
    }
  };
  std::error_code ignored;
  const auto has = [&](const char* file) { return std::filesystem::exists(folder / file, ignored); };
  if (has("tokenizer.json")) add("tokenizer.json", added_by_tokenizer(folder / "tokenizer.json", vocabulary));
  if (has("added_tokens.json")) {
    std::vector<std::string> texts;
    const Json tokens = parsed(folder / "added_tokens.json");
    for (auto at = tokens.begin(); at != tokens.end(); ++at) texts.push_back(at.key());
    add("added_tokens.json", texts);
  }
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    if (!has(file)) continue;
    const Json map = parsed(folder / file);
    check_settings(folder / file, map);
    add(file, added_by_map(map));
  }
  return all;
}

Error unread_token_error(const AddedToken& token, const std::string& where, std::size_t byte) {
  return data_error("E-TOKENIZER", where,
                    fmt::format("byte {} begins {}, a token that {} adds to the vocabulary and that would be split", byte,
                                shown(token.text), token.file),
                    "text without such tokens: those of vocab.json and merges.txt alone are read",
                    {Remedy::of_changes({{"data.train", "TOKENS.bin"}, {"data.format", "u16"}},
                                        "or u32, with tokens of the tokenizer itself")});
}

void refuse_unread(std::string_view text, std::span<const AddedToken> tokens, const std::string& where) {
  for (const AddedToken& token : tokens) {
    const std::size_t at = text.find(token.text);
    if (at != std::string_view::npos) throw unread_token_error(token, where, at);
  }
}

std::string tokenizer_file_in(const std::filesystem::path& folder) {
  if (is_gguf(folder)) {
    return is_there(folder) && has_tokenizer(GgufFile::open(folder)) ? "tokenizer.ggml.tokens" : "";
  }
  std::error_code ignored;
  for (const std::string_view name : {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return std::string(name);
  }
  return {};
}

std::span<const std::string_view> tokenizer_files() { return kTokenizerFiles; }
std::span<const std::string_view> generation_files() { return kGenerationFiles; }

void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const std::string_view> names,
                bool replace) {
  std::error_code ignored;
  if (std::filesystem::equivalent(from, to, ignored)) return;
  std::vector<std::byte> buffer;
  for (const std::string_view name : names) {
    if (!std::filesystem::exists(from / name, ignored)) continue;
    if (!replace && std::filesystem::exists(to / name, ignored)) continue;
    const File file = File::open(from / name);
    AtomicFile out(to / name);
    buffer.resize(static_cast<std::size_t>(std::min(kPieceBytes, file.size())));
    for (std::int64_t at = 0; at < file.size(); at += kPieceBytes) {
      const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, file.size() - at)));
      file.read_at(at, piece);
      out.write(piece);
    }
    out.commit();
  }
}

}  // namespace plimsoll
