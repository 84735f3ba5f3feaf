#include "formats/bpe_vocabulary.h"

#include <fmt/core.h>

#include <array>
#include <istream>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "formats/byte_alphabet.h"
#include "formats/file.h"
#include "formats/json_stream.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMaxFileBytes = 64 << 20;
constexpr std::size_t kMaxTokens = 1 << 20, kMaxTokenText = 64 << 10;
constexpr std::size_t kLeastEntryBytes = 6;  // of a token and its id: "a":0 and what parts it from the next one

Error malformed(const std::string& where, std::string why) {
  return data_error("E-FORMAT-VOCABULARY", where, std::move(why), "the files of a GPT-2 vocabulary");
}

constexpr ByteAlphabet kAlphabet;

// The bytes that a written token stands for; empty where a character is outside the alphabet.
std::string unwritten(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    if (code >= 0xC2 && code <= 0xDF && i + 1 < text.size())
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F);
    if (code >= kAlphabet.byte.size() || kAlphabet.byte[code] < 0) return {};
    bytes += static_cast<char>(kAlphabet.byte[code]);
  }
  return bytes;
}

std::string in_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const unsigned code = kAlphabet.character[static_cast<unsigned char>(byte)];
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return text;
}

// One flat JSON object of text -> id, without a document tree.
class EncoderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit EncoderEvents(std::size_t bytes) : most_(bytes / kLeastEntryBytes) {}

  std::vector<std::string> tokens;  // bytes by id
  std::vector<bool> seen;
  std::string problem;

  bool start_object(std::size_t) override { return !std::exchange(open_, true) || refuse("an object inside the object"); }
  bool end_object() override { return true; }
  bool key(std::string& text) override {
    current_ = unwritten(text);
    return !current_.empty() || refuse(fmt::format("token '{}' is not made of GPT-2's byte characters", text));
  }
  bool number_unsigned(std::uint64_t id) override {
    if (!open_) return refuse("it is a number");
    if (id >= kMaxTokens) return refuse(fmt::format("token id {} passes {}", id, kMaxTokens - 1));
    if (id >= most_) return refuse(fmt::format("token id {} leaves gaps: the file has room for {} tokens", id, most_));
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      seen.resize(id + 1);
    }
    if (seen[id]) return refuse(fmt::format("token id {} appears twice", id));
    seen[id] = true;
    tokens[id] = std::move(current_);
    return true;
  }
  bool number_integer(std::int64_t) override { return refuse("a negative id"); }
  bool number_float(double, const std::string&) override { return refuse("an id with a fraction"); }
  bool string(std::string&) override { return refuse("a text in place of an id"); }
  bool start_array(std::size_t) override { return refuse("a list"); }
  bool end_array() override { return refuse("a list"); }
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse(fmt::format("it is not JSON at byte {}", position));
  }

 private:
  bool refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }
  std::size_t most_;  // as many tokens as a file of this size can hold
  bool open_ = false;
  std::string current_;
};

std::vector<std::string> read_tokens(const std::filesystem::path& path) {
  const File file = File::open(path);
  if (file.size() > kMaxFileBytes) {
    throw malformed(path.string(), fmt::format("it has {} bytes, and at most {} are read", file.size(), kMaxFileBytes));
  }
  EncoderEvents events(static_cast<std::size_t>(file.size()));
  JsonStream buffer(file, 0, file.size(), {.longest = kMaxTokenText, .refuse = [&](std::string why) {
                                             return malformed(path.string(), std::move(why));
                                           }});
  std::istream stream(&buffer);
  if (!nlohmann::json::sax_parse(stream, &events)) throw malformed(path.string(), events.problem);
  for (std::size_t id = 0; id < events.seen.size(); ++id) {
    if (!events.seen[id]) throw malformed(path.string(), fmt::format("no token has the id {}", id));
  }
  return std::move(events.tokens);
}

std::pair<std::filesystem::path, std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "vocab.json", ignored)) return {folder / "vocab.json", folder / "merges.txt"};
  if (std::filesystem::exists(folder / "encoder.json", ignored)) return {folder / "encoder.json", folder / "vocab.bpe"};
  if (std::filesystem::exists(folder / "tokenizer.json", ignored)) {
    throw data_error("E-TOKENIZER", folder.string(), "it holds tokenizer.json alone, which is not read",
                     "vocab.json and merges.txt beside it",
                     {"python3 -c \"from transformers import GPT2TokenizerFast as T; "
                      "T.from_pretrained('FOLDER').save_vocabulary('FOLDER')\""});
  }
  throw data_error("E-IO-MISSING", folder.string(), "it holds no vocabulary",
                   "a folder with tokenizer.json, tokenizer.model, vocab.json and merges.txt, or encoder.json and vocab.bpe");
}

}  // namespace

BpeVocabulary BpeVocabulary::load(const std::filesystem::path& folder) {
  const auto [tokens_path, merges_path] = files_in(folder);
  BpeVocabulary vocabulary;
  std::unordered_map<std::string_view, Token> id_of;
  const std::vector<std::string> tokens = read_tokens(tokens_path);
  id_of.reserve(tokens.size());
  vocabulary.token_begin_.reserve(tokens.size() + 1);
  vocabulary.token_begin_.push_back(0);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!id_of.emplace(tokens[id], static_cast<Token>(id)).second) {
      throw malformed(tokens_path.string(), fmt::format("token id {} repeats the text of another one", id));
    }
    vocabulary.token_bytes_ += tokens[id];
    vocabulary.token_begin_.push_back(static_cast<std::uint32_t>(vocabulary.token_bytes_.size()));
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = id_of.find(std::string_view(&text, 1));
    if (found == id_of.end()) throw malformed(tokens_path.string(), fmt::format("no token stands for the byte {}", byte));
    vocabulary.byte_token_[byte] = found->second;
  }
  if (const auto found = id_of.find(kEndOfText); found != id_of.end()) vocabulary.end_of_text_ = found->second;

  const std::string text = read_text(merges_path, kMaxFileBytes, "E-FORMAT-VOCABULARY");
  std::string_view rest = text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = next_line(rest);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    if (line.size() > 2 * kMaxTokenText) {
      throw malformed(merges_path.string(), fmt::format("line {} has {} bytes", number, line.size()));
    }
    const std::size_t space = line.find(' ');
    const std::string left = unwritten(line.substr(0, space));
    const std::string right = space == std::string_view::npos ? "" : unwritten(line.substr(space + 1));
    const auto l = id_of.find(left), r = id_of.find(right), m = id_of.find(left + right);
    if (l == id_of.end() || r == id_of.end() || m == id_of.end()) {
      throw malformed(merges_path.string(), fmt::format("line {} does not merge two tokens into a third one", number));
    }
    if (vocabulary.merges_.rank(l->second, r->second) != MergeTable::kNoRank) {
      throw malformed(merges_path.string(),
                      fmt::format("the merge of rank {} repeats an earlier one", vocabulary.merges_.size()));
    }
    vocabulary.merges_.add(l->second, r->second, m->second);
    if (vocabulary.merges_.size() > kMaxTokens)
      throw malformed(merges_path.string(), "it has more merges than there can be tokens");
  }
  return vocabulary;
}

std::string BpeVocabulary::written(Token token) const { return in_characters(bytes_of(token)); }

std::string BpeVocabulary::written_merge(std::size_t rank) const {
  return written(merges_.all()[rank].left) + " " + written(merges_.all()[rank].right);
}

void BpeVocabulary::save(const std::filesystem::path& folder) const {
  std::string tokens = "{";
  for (std::int64_t id = 0; id < size(); ++id) {
    const std::string text = nlohmann::json(written(static_cast<Token>(id))).dump(-1, ' ', true);
    tokens += fmt::format("{}{}: {}", id == 0 ? "" : ", ", text, id);
  }
  write_file_atomically(folder / "vocab.json", tokens + "}\n");
  std::string merges = "#version: 0.2\n";
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) merges += written_merge(rank) + "\n";
  write_file_atomically(folder / "merges.txt", merges);
}

std::string BpeVocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw data_error("E-DATA-TOKEN", "vocabulary", fmt::format("token {} is outside the vocabulary", token),
                       fmt::format("tokens from 0 to {}", size() - 1));
    }
    text += bytes_of(static_cast<Token>(token));
  }
  return text;
}

std::string BpeVocabulary::decode(std::span<const Token> tokens) const {
  return decode(std::span<const std::int32_t>(std::vector<std::int32_t>(tokens.begin(), tokens.end())));
}

std::string BpeVocabulary::hash() const {
  Hasher hasher;
  hasher.add(token_bytes_).add(std::as_bytes(std::span(token_begin_)));
  if (bytes_per_token() == 4) return hasher.add(std::as_bytes(std::span(merges_.all()))).hex();
  std::vector<std::uint16_t> narrow;
  narrow.reserve(3 * merges_.size());
  for (const MergeTable::Merge& merge : merges_.all()) {
    for (const Token token : {merge.left, merge.right, merge.result}) narrow.push_back(static_cast<std::uint16_t>(token));
  }
  return hasher.add(std::as_bytes(std::span(narrow))).hex();
}

}  // namespace plimsoll
