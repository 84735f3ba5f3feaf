#include "formats/tokenizer/vocab_merges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/json_stream.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMostBytes = 64 << 20;
constexpr std::size_t kMostText = 64 << 10, kMostShown = 40, kMostAdded = 4096;
constexpr std::size_t kLeastEntryBytes = 6;  // of one entry: "a":0 and a comma

Error malformed(const fs::path& path, std::string why) {
  return data_error("E-FORMAT-VOCABULARY", path.string(), std::move(why), "the files of a GPT-2 vocabulary");
}

Error refused(const fs::path& path, std::string why) {
  return data_error("E-TOKENIZER", path.string(), std::move(why), "the files of a GPT-2 tokenizer that say the same",
                    {Remedy::of_changes({{"data.train", "TOKENS.bin"}, {"data.format", "u16"}},
                                        "or u32, with tokens of the tokenizer itself")});
}

std::string shown(std::string_view text) {
  return Json(std::string(text.substr(0, kMostShown))).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// One flat JSON object of text -> id, without a document tree.
class VocabularyEvents : public nlohmann::json_sax<Json> {
 public:
  // `bytes`: the size of the file, which limits the ids.
  VocabularyEvents(const fs::path& path, std::int64_t bytes, TokenTable& tokens)
      : path_(path), most_(static_cast<std::size_t>(bytes) / kLeastEntryBytes), tokens_(tokens) {}

  void finish() const {
    const auto gap = std::ranges::find(seen_, false);
    if (gap != seen_.end()) refuse(fmt::format("no token has the id {}", gap - seen_.begin()));
  }

  bool start_object(std::size_t) override { return !std::exchange(open_, true) || refuse("an object inside the object"); }
  bool end_object() override { return true; }
  bool key(std::string& text) override {
    if (from_byte_characters(text).value_or("").empty())
      refuse(fmt::format("token '{}' is not made of GPT-2's byte characters", text));
    current_ = std::move(text);
    return true;
  }
  bool number_unsigned(std::uint64_t id) override {
    if (!open_) refuse("it is a number");
    if (id >= kMostTokens) refuse(fmt::format("token id {} passes {}", id, kMostTokens - 1));
    if (id >= most_) refuse(fmt::format("token id {} leaves gaps: the file has room for {} tokens", id, most_));
    if (id >= seen_.size()) seen_.resize(id + 1);
    if (seen_[id]) refuse(fmt::format("token id {} appears twice", id));
    seen_[id] = true;
    tokens_.add(current_, id, path_.string());
    return true;
  }
  bool number_integer(std::int64_t) override { return refuse("a negative id"); }
  bool number_float(double, const std::string&) override { return refuse("an id with a fraction"); }
  bool string(std::string&) override { return refuse("a text in place of an id"); }
  bool start_array(std::size_t) override { return refuse("a list"); }
  bool end_array() override { return refuse("a list"); }
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a truth value"); }
  bool binary(Json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return refuse(fmt::format("it is not JSON at byte {}", position));
  }

 private:
  [[noreturn]] bool refuse(std::string why) const { throw malformed(path_, std::move(why)); }

  const fs::path& path_;
  std::size_t most_;
  TokenTable& tokens_;
  std::vector<bool> seen_;
  bool open_ = false;
  std::string current_;
};

void read_tokens(const fs::path& path, TokenTable& tokens) {
  const File file = File::open(path);
  if (file.size() > kMostBytes) {
    throw malformed(path, fmt::format("it has {} bytes, and at most {} are read", file.size(), kMostBytes));
  }
  VocabularyEvents events(path, file.size(), tokens);
  JsonStream buffer(file, 0, file.size(),
                    {.longest = kMostText, .refuse = [&](std::string why) { return malformed(path, std::move(why)); }});
  std::istream stream(&buffer);
  Json::sax_parse(stream, &events);
  events.finish();
  const Token same = tokens.index(path.string());
  if (same != kNoToken) throw malformed(path, fmt::format("token id {} repeats the text of another one", same));
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (tokens.find(in_byte_characters(std::string(1, static_cast<char>(byte)))) == kNoToken)
      throw malformed(path, fmt::format("no token stands for the byte {}", byte));
  }
}

void read_merges(const fs::path& path, const TokenTable& tokens, MergeTable& merges) {
  const std::string text = read_text(path, kMostBytes, "E-FORMAT-VOCABULARY");
  std::string_view rest = text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = next_line(rest);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    if (line.size() > 2 * kMostText) throw malformed(path, fmt::format("line {} has {} bytes", number, line.size()));
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view left = line.substr(0, space), right = line.substr(std::min(space + 1, line.size()));
    const Token l = tokens.find(left), r = tokens.find(right), both = tokens.find(std::string(left).append(right));
    if (l == kNoToken || r == kNoToken || both == kNoToken) {
      throw malformed(path, fmt::format("line {} does not merge two tokens into a third one", number));
    }
    if (merges.rank(l, r) != MergeTable::kNoRank) {
      throw malformed(path, fmt::format("the merge of rank {} repeats an earlier one", merges.size()));
    }
    merges.add(l, r, both);
    if (merges.size() > kMostTokens) throw malformed(path, "it has more merges than there can be tokens");
  }
}

// The hash names cached token files. It depends on tokens and merges alone, not on their form in the files.
std::string hash_of(const TokenTable& tokens, const MergeTable& merges) {
  std::string bytes;
  std::vector<std::uint32_t> begin{0};
  for (Token id = 0; id < tokens.size(); ++id) {
    bytes += from_byte_characters(tokens.text(id)).value_or("");
    begin.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  Hasher hasher;
  hasher.add(bytes).add(std::as_bytes(std::span(begin)));
  if (tokens.size() > std::size_t{1} << 16) return hasher.add(std::as_bytes(std::span(merges.all()))).hex();
  std::vector<std::uint16_t> narrow;
  for (const MergeTable::Merge& merge : merges.all()) {
    for (const Token token : {merge.left, merge.right, merge.result}) narrow.push_back(static_cast<std::uint16_t>(token));
  }
  return hasher.add(std::as_bytes(std::span(narrow))).hex();
}

std::pair<fs::path, fs::path> files_in(const fs::path& folder) {
  if (is_there(folder / "vocab.json")) return {folder / "vocab.json", folder / "merges.txt"};
  if (is_there(folder / "encoder.json")) return {folder / "encoder.json", folder / "vocab.bpe"};
  throw data_error("E-IO-MISSING", folder.string(), "it holds no vocabulary",
                   "a folder with tokenizer.json, tokenizer.model, vocab.json and merges.txt, or encoder.json and vocab.bpe");
}

// The added tokens of a tokenizer.json, which is compared with the two files.
std::vector<std::string> added_by_tokenizer(const fs::path& path, const TokenTable& tokens, const MergeTable& merges) {
  const TokenizerFile file = read_tokenizer_json(path);
  std::vector<std::string> added;
  for (const AddedTokenEntry& token : file.added) added.push_back(token.content);
  for (Token id = 0; id < file.tokens.size(); ++id) {
    if (!file.tokens.has(id) || tokens.find(file.tokens.text(id)) == id) continue;
    throw refused(path, fmt::format("it has token {} as {}, and vocab.json does not", shown(file.tokens.text(id)), id));
  }
  for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
    const auto [left, right, result] = file.merges.all()[rank];
    if (rank < merges.size() && merges.all()[rank].left == left && merges.all()[rank].right == right) continue;
    const std::string merge = fmt::format("{} {}", file.tokens.text(left), file.tokens.text(right));
    throw refused(path, fmt::format("its merge {} is {}, which is not that of merges.txt", rank + 1, shown(merge)));
  }
  if (file.merges.size() != merges.size()) {
    throw refused(path, fmt::format("it has {} merges and merges.txt {}", file.merges.size(), merges.size()));
  }
  for (Token id = 0; id < tokens.size(); ++id) {
    const std::string text = from_byte_characters(tokens.text(id)).value_or("");
    if (file.tokens.has(id) || std::ranges::find(added, text) != added.end()) continue;
    throw refused(path, fmt::format("it lacks token {}, {} of vocab.json", id, shown(text)));
  }
  return added;
}

Json parsed(const fs::path& path) { return read_json_object(path, kTokenizerConfigLimits, "E-TOKENIZER"); }

// Collects a token given as a text, as an object with its content, or in a list of these.
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
  for (const auto& [key, value] : map.items()) {
    if (key.ends_with("_token") || key.ends_with("_special_tokens")) add_contents(value, out);
    if (key == "added_tokens_decoder" && value.is_object()) {
      for (const Json& each : value) add_contents(each, out);
    }
  }
  return out;
}

// Refuses settings that change ids.
void check_settings(const fs::path& path, const Json& json) {
  for (const char* key : {"add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case"}) {
    if (json.value(key, Json()) == Json(true)) throw refused(path, fmt::format("{} is true", key));
  }
  const Json kind = json.value("tokenizer_class", Json());
  const bool known = kind.is_null() || kind == Json("GPT2Tokenizer") || kind == Json("GPT2TokenizerFast") ||
                     kind == Json("PreTrainedTokenizerFast");
  if (known) return;
  throw refused(path, fmt::format("its tokenizer_class is {}", shown(kind.is_string() ? kind.get<std::string>() : kind.dump())));
}

}  // namespace

TokenizerFile read_vocab_merges(const fs::path& folder) {
  const auto [tokens, merges] = files_in(folder);
  TokenizerFile file;
  file.where = folder.string();
  file.vocab_folder = folder;
  read_tokens(tokens, file.tokens);
  read_merges(merges, file.tokens, file.merges);
  file.hash = hash_of(file.tokens, file.merges);
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  *file.parts = {{"pre_tokenizer", byte_level}, {"decoder", byte_level}, {"model", {{"type", "BPE"}}}};
  if (const Token end = file.tokens.find(kEndOfText); end != kNoToken) {
    file.added.push_back({.content = std::string(kEndOfText), .id = end, .normalized = false, .special = true});
  }
  return file;
}

std::vector<AddedToken> unread_tokens(const fs::path& folder, const TokenTable& tokens, const MergeTable& merges) {
  std::vector<AddedToken> all;
  std::unordered_set<std::string> seen;
  const auto add = [&](const char* file, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const bool own = text == kEndOfText && tokens.find(text) != kNoToken;
      if (text.empty() || own || !seen.insert(text).second) continue;
      // Texts are searched for each of them.
      if (all.size() == kMostAdded) throw refused(folder / file, fmt::format("more than {} tokens are added", kMostAdded));
      all.push_back({text, file});
    }
  };
  if (is_there(folder / "tokenizer.json")) {
    add("tokenizer.json", added_by_tokenizer(folder / "tokenizer.json", tokens, merges));
  }
  if (is_there(folder / "added_tokens.json")) {
    std::vector<std::string> texts;
    const Json added = parsed(folder / "added_tokens.json");
    for (const auto& [text, id] : added.items()) texts.push_back(text);
    add("added_tokens.json", texts);
  }
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    if (!is_there(folder / file)) continue;
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

}  // namespace plimsoll
