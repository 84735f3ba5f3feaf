#include "formats/tokenizer/tokenizer_json.h"

#include <fmt/core.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/hash.h"
#include "formats/file.h"
#include "formats/json_stream.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostBytes = 256 << 20;
constexpr std::size_t kMostText = 1 << 20, kMostDepth = 32, kMostValues = 100'000;

// The position of the parser in the tree, for both passes over the file.
class Events : public nlohmann::json_sax<Json> {
 public:
  explicit Events(std::string where) : where_(std::move(where)) {}

  bool start_object(std::size_t) override {
    begin(Json::value_t::object);
    enter("");
    return true;
  }
  bool start_array(std::size_t) override {
    begin(Json::value_t::array);
    enter("[]");
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& text) override {
    path_.back() = text;
    return true;
  }
  bool null() override { return value(Json()); }
  bool boolean(bool truth) override { return value(Json(truth)); }
  bool number_unsigned(std::uint64_t number) override { return value(Json(number)); }
  bool number_integer(std::int64_t number) override { return value(Json(number)); }
  bool number_float(double number, const std::string&) override { return value(Json(number)); }
  bool binary(Json::binary_t&) override { refuse("it holds binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    refuse(fmt::format("it is not JSON at byte {}", position));
  }

 protected:
  // begin(): a list or an object begins. value(): any other value that is no text.
  virtual void begin(Json::value_t kind) = 0;
  virtual bool value(Json&& json) = 0;
  virtual void end() {}

  std::size_t depth() const { return path_.size(); }
  // The key at this depth of the open list or object; "[]" for an element of a list.
  const std::string& key_at(std::size_t depth) const { return path_[depth]; }
  bool at_model(std::size_t depth, const char* key) const {
    return path_.size() == depth && path_[0] == "model" && path_[1] == key;
  }
  [[noreturn]] void refuse(const std::string& why) const { throw tokenizer_error(where_, why); }
  const std::string& where() const { return where_; }

 private:
  void enter(const char* first) {
    if (path_.size() == kMostDepth) refuse("it is nested too deeply");
    path_.emplace_back(first);
  }
  bool leave() {
    path_.pop_back();
    end();
    return true;
  }

  std::string where_;
  std::vector<std::string> path_;
};

// The first pass: all parts but the merges.
class PartEvents : public Events {
 public:
  PartEvents(TokenizerFile& file) : Events(file.where), file_(file) {}

  bool has_tokens = false, has_merges = false;

  bool string(std::string& text) override { return in_merges() || value(Json(std::move(text))); }
  bool key(std::string& text) override {
    if (depth() == 1 && text != "added_tokens" && file_.parts->contains(text)) refuse(fmt::format("it has {} twice", text));
    return Events::key(text);
  }

 protected:
  void begin(Json::value_t kind) override {
    if (depth() == 0 && kind != Json::value_t::object) refuse("it is no object");
    if (depth() == 2 && at_model(2, "vocab")) {
      if (kind != Json::value_t::object) refuse("its model is a Unigram, which is not supported");
      if (std::exchange(has_tokens, true)) refuse("it has model.vocab twice");
      return;
    }
    if (depth() == 2 && at_model(2, "merges")) {
      if (kind != Json::value_t::array) refuse("its merges are no list");
      if (std::exchange(has_merges, true)) refuse("it has model.merges twice");
      return;
    }
    if (depth() == 1 && key_at(0) == "added_tokens") {
      if (kind != Json::value_t::array) refuse("its added_tokens are no list");
      return;
    }
    if (depth() == 2 && key_at(0) == "added_tokens") {
      if (kind != Json::value_t::object) refuse("one of its added_tokens is no object");
      if (file_.added.size() == AddedTokens::kMost) refuse(fmt::format("it adds more than {} tokens", AddedTokens::kMost));
      file_.added.emplace_back();
      return;
    }
    if (is_streamed()) {
      if (in_merges()) return;
      refuse(fmt::format("{} holds a list or an object", key_at(0)));
    }
    if (depth() > 0) open_.push_back(put(Json(kind)));
  }

  bool value(Json&& json) override {
    if (depth() == 0) refuse("it is no object");
    if (is_streamed()) {
      if (in_merges()) return true;
      if (key_at(0) == "added_tokens") return added(json);
      if (!json.is_number_unsigned()) refuse(fmt::format("token '{}' has no id", key_at(2).substr(0, 40)));
      file_.tokens.add(key_at(2), json.get<std::uint64_t>(), where());
      return true;
    }
    if (depth() == 1 && key_at(0) == "added_tokens") refuse("its added_tokens are no list");
    put(std::move(json));
    return true;
  }

  void end() override {
    if (!is_streamed() && !open_.empty() && depth() > 0 && open_.size() == depth()) open_.pop_back();
  }

 private:
  bool in_merges() const { return depth() >= 3 && key_at(0) == "model" && key_at(1) == "merges"; }
  // True inside a list or object that goes into a table.
  bool is_streamed() const {
    if (depth() >= 3 && key_at(0) == "model") return key_at(1) == "vocab" || key_at(1) == "merges";
    return depth() >= 2 && key_at(0) == "added_tokens";
  }

  // Puts a value into the JSON that is kept.
  Json* put(Json&& json) {
    if (++values_ > kMostValues) refuse(fmt::format("it has more than {} values in addition to tokens and merges", kMostValues));
    Json& parent = open_.empty() ? *file_.parts : *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(json));
      return &parent.back();
    }
    const std::string& name = key_at(depth() - 1);
    if (parent.contains(name)) refuse(fmt::format("it has {} twice", name.substr(0, 40)));
    Json& place = parent[name];
    place = std::move(json);
    return &place;
  }

  bool added(const Json& json) {
    if (depth() != 3) refuse("one of its added_tokens is no object");
    AddedTokenEntry& token = file_.added.back();
    const std::string& name = key_at(2);
    if (name == "content") {
      if (!json.is_string()) refuse("an added token has no text");
      token.content = json.get<std::string>();
      if (token.content.size() > AddedTokens::kMostBytes) {
        refuse(fmt::format("an added token has {} bytes, and {} are the most", token.content.size(), AddedTokens::kMostBytes));
      }
      return true;
    }
    if (name == "id") {
      if (!json.is_number_unsigned() || json.get<std::uint64_t>() >= kMostTokens)
        refuse("an added token has no id below 1048576");
      token.id = json.get<Token>();
      return true;
    }
    for (const auto& [flag, place] : {std::pair("single_word", &AddedTokenEntry::single_word),
                                      {"lstrip", &AddedTokenEntry::lstrip},
                                      {"rstrip", &AddedTokenEntry::rstrip},
                                      {"normalized", &AddedTokenEntry::normalized},
                                      {"special", &AddedTokenEntry::special}}) {
      if (name != flag) continue;
      if (!json.is_boolean()) refuse(fmt::format("{} of an added token is neither true nor false", name));
      token.*place = json.get<bool>();
    }
    return true;
  }

  TokenizerFile& file_;
  std::vector<Json*> open_;  // the open lists and objects of the kept JSON, outermost first
  std::size_t values_ = 0;
};

// The second pass: the merges. Their tokens are known by then.
class MergeEvents : public Events {
 public:
  explicit MergeEvents(TokenizerFile& file) : Events(file.where), file_(file) {}

  bool string(std::string& text) override {
    if (!in_merges()) return true;
    if (depth() == 4) {
      if (paired_ == 2) refuse_merge();
      (paired_ == 0 ? left_ : right_) = std::move(text);
      ++paired_;
      return true;
    }
    if (depth() != 3) refuse_merge();
    if (text.starts_with("#version")) return true;
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) refuse_merge();
    merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
    return true;
  }

 protected:
  void begin(Json::value_t kind) override {
    if (!in_merges()) return;
    if (depth() != 3 || kind != Json::value_t::array) refuse_merge();
    paired_ = 0;
  }
  bool value(Json&&) override {
    if (in_merges()) refuse_merge();
    return true;
  }
  void end() override {
    if (!in_merges() || depth() != 3) return;
    if (paired_ != 2) refuse_merge();
    merge(left_, right_);
  }

 private:
  bool in_merges() const { return depth() >= 3 && key_at(0) == "model" && key_at(1) == "merges"; }
  [[noreturn]] void refuse_merge() const { refuse(fmt::format("its merge {} is no pair of texts", file_.merges.size() + 1)); }

  void merge(std::string_view left, std::string_view right) {
    const auto refuse_tokens = [&] {
      refuse(fmt::format("its merge {}, of '{}' and '{}', does not join two tokens to a third one", file_.merges.size() + 1,
                         left.substr(0, 40), right.substr(0, 40)));
    };
    if (file_.merges.size() == kMostTokens) refuse("it has more merges than there can be tokens");
    if (left.empty() || right.empty()) refuse_tokens();
    both_ = left;
    both_ += right;
    const Token l = file_.tokens.find(left), r = file_.tokens.find(right), result = file_.tokens.find(both_);
    if (l == kNoToken || r == kNoToken || result == kNoToken) refuse_tokens();
    file_.merges.add(l, r, result);
  }

  TokenizerFile& file_;
  std::string left_, right_, both_;
  int paired_ = 0;
};

void parse(const File& file, Hasher* hasher, Events& events) {
  JsonStream::Options options{.longest = kMostText};
  options.refuse = [&](const std::string& why) { return tokenizer_error(file.path(), why); };
  if (hasher != nullptr) options.see = [&](std::span<const char> bytes) { hasher->add(std::as_bytes(bytes)); };
  JsonStream buffer(file, 0, file.size(), std::move(options));
  std::istream stream(&buffer);
  Json::sax_parse(stream, &events);
}

}  // namespace

TokenizerFile read_tokenizer_json(const std::filesystem::path& path) {
  const File file = File::open(path, "E-IO-MISSING");
  TokenizerFile result;
  result.where = path.string();
  if (file.size() > kMostBytes) {
    throw tokenizer_error(result.where, fmt::format("it has {} bytes", file.size()), fmt::format("at most {}", kMostBytes));
  }
  Hasher hasher;
  PartEvents parts(result);
  parse(file, &hasher, parts);
  result.hash = hasher.hex();
  if (const auto version = result.parts->find("version"); version != result.parts->end()) {
    const bool known = version->is_string() && version->get_ref<const std::string&>() == "1.0";
    if (!known) throw tokenizer_error(result.where, fmt::format("its version is {}", version->dump()), "version \"1.0\"");
  }
  const Json model = result.parts->value("model", Json());
  const std::string type =
      model.is_object() && model.contains("type") && model["type"].is_string() ? model["type"].get<std::string>() : "";
  if (type != "BPE" && type != "WordPiece") {
    throw tokenizer_error(result.where, type.empty() ? "its model has no type"
                                                     : fmt::format("its model is {}, which is not supported", Json(type).dump()));
  }
  if (!parts.has_tokens || (type == "BPE" && !parts.has_merges))
    throw tokenizer_error(result.where, "its model lacks vocab or merges");
  for (const AddedTokenEntry& token : result.added) {
    if (token.id == kNoToken) throw tokenizer_error(result.where, "an added token has no id");
  }
  result.tokens.finish(result.where);
  if (type == "BPE") {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json mark = model.value(key, Json());
      if (mark.is_null() || mark == Json("")) continue;
      throw tokenizer_error(result.where, fmt::format("its {} is {}, which is not supported", key, mark.dump()));
    }
    MergeEvents merges(result);
    parse(file, nullptr, merges);
  }
  return result;
}

}  // namespace plimsoll
