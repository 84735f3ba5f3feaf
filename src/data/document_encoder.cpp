#include "data/document_encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/conversions.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/utf8.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

constexpr std::size_t kLeastSection = std::size_t{64} << 10, kMostSection = std::size_t{256} << 10;

constexpr std::string_view kSpace = " \t\r\n";

bool is_word(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

}  // namespace

std::optional<Token> end_of_document(const Tokenizer& tokenizer, const std::filesystem::path& tokenizer_folder,
                                     const std::filesystem::path& weights_folder) {
  for (const std::filesystem::path& folder : std::array{tokenizer_folder, weights_folder}) {
    if (folder.empty()) continue;
    const std::vector<std::int64_t> ends = end_tokens(folder);
    if (!ends.empty() && ends.front() >= 0 && ends.front() < tokenizer.size()) return static_cast<Token>(ends.front());
  }
  const std::filesystem::path path = tokenizer_folder / "tokenizer_config.json";
  if (!is_there(path)) return {};
  nlohmann::json text = ConfigReader(path).json().value("eos_token", nlohmann::json());
  if (text.is_object()) text = nlohmann::json(text.value("content", nlohmann::json()));
  if (!text.is_string()) return {};
  const Token token = tokenizer.find(text.get_ref<const std::string&>());
  return tokenizer.has(token) ? std::optional(token) : std::nullopt;
}

TextEdges::TextEdges(const Tokenizer& tokenizer, std::optional<Token> end)
    : before_(tokenizer.before()), behind_(tokenizer.behind()) {
  for (const Token token : before_) {
    const std::string text = tokenizer.added_text(token);
    if (text.empty()) {
      begin_text_.clear();
      break;
    }
    begin_text_ += text;
  }
  if (!end) return;
  end_text_ = tokenizer.added_text(*end);
  if (behind_.empty() || behind_.back() != *end) behind_.push_back(*end);
}

bool TextEdges::ends(std::string_view text) const {
  text.remove_suffix(text.size() - (text.find_last_not_of(kSpace) + 1));
  return !end_text_.empty() && text.ends_with(end_text_);
}

void TextEdges::put_before(std::vector<Token>& tokens) const { tokens.insert(tokens.end(), before_.begin(), before_.end()); }
void TextEdges::put_behind(std::vector<Token>& tokens) const { tokens.insert(tokens.end(), behind_.begin(), behind_.end()); }

DocumentEncoder::DocumentEncoder(Tokenizer& tokenizer, std::optional<Token> end, std::string name, Documents documents)
    : tokenizer_(tokenizer), edges_(tokenizer, end), name_(std::move(name)), splits_(documents == Documents::many) {}

std::optional<DocumentEncoder::Section> DocumentEncoder::next_section(std::string_view text, bool last) const {
  const std::string_view end_text = splits_ ? std::string_view(edges_.end_text()) : std::string_view();
  const std::string_view seen = text.substr(0, kMostSection + end_text.size());
  const std::size_t end = end_text.empty() ? std::string_view::npos : seen.find(end_text);
  std::size_t cut = kLeastSection;
  while (cut < std::min(seen.size(), kMostSection) && !(seen[cut] == '\n' && is_word(seen[cut - 1]))) ++cut;
  // An end token's text may begin before the cut and end in text that is not here yet.
  const bool known = last || cut + end_text.size() <= seen.size();
  if (end != std::string_view::npos && (!known || end < cut)) return Section{end, end_text.size()};
  if (!known) return {};
  if (cut < std::min(seen.size(), kMostSection)) return Section{cut, 0};
  if (text.size() <= kMostSection) return last ? std::optional(Section{text.size(), 0}) : std::nullopt;
  cut = kMostSection;
  while (cut > kMostSection - 4 && is_utf8_continuation(text[cut])) --cut;
  return Section{cut, 0};
}

void DocumentEncoder::encode_part(std::string_view part, bool last, std::vector<Token>& tokens) {
  const bool space = part.find_first_not_of(kSpace) == std::string_view::npos;
  // White space after the last end token is no document.
  const bool begins = !open_ && !(ended_ && last && space);
  if (begins && !own_begin_) edges_.put_before(tokens);
  open_ = open_ || begins;
  if (!part.empty()) tokenizer_.encode_part(part, {begins, !begins}, tokens);
  ended_ = edges_.ends(part) || (ended_ && space);
}

std::size_t DocumentEncoder::encode_piece(std::string_view text, bool last, std::vector<Token>& tokens) {
  if (covered_ == 0 && edges_.begins(text)) {
    own_begin_ = true;
    splits_ = false;
  }
  std::size_t at = 0;
  while (at < text.size()) {
    const std::optional<Section> section = next_section(text.substr(at), last);
    if (!section) break;
    const std::string_view part = text.substr(at, section->size);
    if (const std::size_t valid = utf8_valid_prefix(part); valid != part.size()) {
      throw data_error("E-DATA-TEXT", name_, fmt::format("byte {} is not UTF-8", covered_ + at + valid), "text in UTF-8",
                       {conversion("iconv -f LATIN1 -t UTF-8 FILE > OUT.txt  # if it is Latin-1", name_)});
    }
    at += section->size + section->skip;
    if (last && at < text.size() && tokens.size() == tokens.capacity()) {
      // Reserves room by estimate, so that the tokens of a long text move once.
      tokens.reserve(tokens.size() + tokens.size() / 16 + tokens.size() * ((text.size() - at) / at + 1));
    }
    encode_part(part, last && at == text.size() && section->skip == 0, tokens);
    if (section->skip == 0) continue;
    edges_.put_behind(tokens);
    open_ = false;
    ended_ = true;
  }
  covered_ += at;
  if (last && open_ && !ended_) edges_.put_behind(tokens);
  own_end_ = last && open_ && ended_;
  return at;
}

}  // namespace plimsoll
