#include "data/document_encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/utf8.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

constexpr std::size_t kLeastSection = std::size_t{64} << 10, kMostSection = std::size_t{256} << 10;

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

DocumentEncoder::DocumentEncoder(Tokenizer& tokenizer, std::optional<Token> end, std::string name)
    : tokenizer_(tokenizer), end_(end), name_(std::move(name)) {
  if (end_) end_text_ = tokenizer_.added_text(*end_);
}

std::optional<DocumentEncoder::Section> DocumentEncoder::next_section(std::string_view text, bool last) const {
  const std::string_view seen = text.substr(0, kMostSection + end_text_.size());
  const std::size_t end = end_text_.empty() ? std::string_view::npos : seen.find(end_text_);
  std::size_t cut = kLeastSection;
  while (cut < std::min(seen.size(), kMostSection) && !(seen[cut] == '\n' && is_word(seen[cut - 1]))) ++cut;
  // What follows may be the rest of the end token's text, which begins earlier.
  const bool known = last || cut + end_text_.size() <= seen.size();
  if (end != std::string_view::npos && (!known || end < cut)) return Section{end, end_text_.size()};
  if (!known) return {};
  if (cut < std::min(seen.size(), kMostSection)) return Section{cut, 0};
  if (text.size() <= kMostSection) return last ? std::optional(Section{text.size(), 0}) : std::nullopt;
  cut = kMostSection;
  while (cut > kMostSection - 4 && is_utf8_continuation(text[cut])) --cut;
  return Section{cut, 0};
}

void DocumentEncoder::begin(std::vector<Token>& tokens) {
  tokens.insert(tokens.end(), tokenizer_.before().begin(), tokenizer_.before().end());
  open_ = true;
}

void DocumentEncoder::end(std::vector<Token>& tokens) {
  const std::vector<Token>& behind = tokenizer_.behind();
  tokens.insert(tokens.end(), behind.begin(), behind.end());
  if (end_ && (behind.empty() || behind.back() != *end_)) tokens.push_back(*end_);
  open_ = false;
}

std::size_t DocumentEncoder::encode_piece(std::string_view text, bool last, std::vector<Token>& tokens) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::optional<Section> section = next_section(text.substr(at), last);
    if (!section) break;
    const std::string_view part = text.substr(at, section->size);
    if (const std::size_t valid = utf8_valid_prefix(part); valid != part.size()) {
      throw data_error("E-DATA-TEXT", name_, fmt::format("byte {} is not UTF-8", covered_ + at + valid), "text in UTF-8",
                       {fmt::format("iconv -f LATIN1 -t UTF-8 {} > train.txt, where it is Latin-1", name_)});
    }
    const bool first = !open_;
    if (first) begin(tokens);
    if (!part.empty()) tokenizer_.encode_part(part, {first, !first}, tokens);
    if (section->skip > 0) end(tokens);
    at += section->size + section->skip;
  }
  covered_ += at;
  if (last && open_) end(tokens);
  return at;
}

}  // namespace plimsoll
