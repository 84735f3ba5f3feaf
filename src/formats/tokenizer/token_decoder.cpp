#include "formats/tokenizer/token_decoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/replacement.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(with);
    done = at + what.size();
  }
  if (done > 0) text = out.append(text, done);
}

// The bytes of a token in byte characters; any other token stays unchanged.
std::string unwritten(const std::string& token) { return from_byte_characters(token).value_or(token); }

// The byte of a token such as "<0x0A>"; -1: any other token. A plus sign may stand for the first digit.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

void put_fallback_byte(std::string& token) {
  if (const int byte = fallback_byte(token); byte >= 0) token = static_cast<char>(byte);
}

// Joins each run of fallback bytes into one text, or into a replacement character for each byte if the run is not UTF-8.
void join_fallback_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (utf8_valid_prefix(bytes) == bytes.size()) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = fallback_byte(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

std::string joined(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

// Removes the prefix of a continued word; puts a space before any other token.
void join_word(std::string& token, const std::string& prefix) {
  token.starts_with(prefix) ? token.erase(0, prefix.size()) : token.insert(0, " ");
}

void clean_up(std::string& token) {
  constexpr std::pair<std::string_view, std::string_view> kChanges[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kChanges) replace_all(token, what, with);
}

}  // namespace

TokenDecoder::TokenDecoder(const Component& component) : where_(component.where()), given_(true) {
  add(component);
  if (!fused_) separate_ = steps_.size();
}

std::string TokenDecoder::decode(std::vector<std::string> tokens) const {
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const std::string& token : tokens) sum += token.size();
    return sum;
  };
  const std::size_t most = most_grown(bytes());
  for (const Step& step : steps_) {
    step.apply(tokens);
    check_grown(bytes(), most, where_);
  }
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!given_ && i > 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::string TokenDecoder::inside(std::string token) const {
  if (!given_) return " " + token;
  const std::size_t most = 4096 + 16 * token.size();
  for (std::size_t i = 0; i < separate_; ++i) {
    steps_[i].apply_inside(token);
    check_grown(token.size(), most, where_);
  }
  return token;
}

void TokenDecoder::add_each(std::function<void(std::string&)> change) {
  steps_.push_back({[change](std::vector<std::string>& tokens) { std::ranges::for_each(tokens, change); }, change});
}

void TokenDecoder::add(const Component& component) {
  const std::string& type = component.type();
  if (steps_.size() == kMostSteps) component.refuse(fmt::format("more than {} steps", kMostSteps));
  const auto whole = [&] {  // later steps see one text
    if (!std::exchange(fused_, true)) separate_ = steps_.size();
  };
  if (type == "Sequence") {
    for (const Component& part : component.list("decoders")) add(part);
  } else if (type == "ByteLevel") {
    const auto change = [](std::string& token) { token = unwritten(token); };
    const auto change_all = [change](std::vector<std::string>& tokens) {
      std::ranges::for_each(tokens, change);
      tokens = {utf8_repaired(joined(tokens))};
    };
    steps_.push_back({change_all, change});
    whole();
  } else if (type == "ByteFallback") {
    steps_.push_back({join_fallback_bytes, put_fallback_byte});
  } else if (type == "Fuse") {
    steps_.push_back({[](std::vector<std::string>& tokens) { tokens = {joined(tokens)}; }, [](std::string&) {}});
    whole();
  } else if (type == "Replace") {
    add_each([search = Search(component), content = component.text("content")](std::string& token) {
      token = search.replaced(token, content);
    });
  } else if (type == "Strip") {
    std::string content;
    append_character(content, component.character("content"));
    add_each([content, start = component.count("start"), stop = component.count("stop")](std::string& token) {
      std::string_view left = token;
      for (std::uint64_t i = 0; i < start && left.starts_with(content); ++i) left.remove_prefix(content.size());
      for (std::uint64_t i = 0; i < stop && left.ends_with(content); ++i) left.remove_suffix(content.size());
      token = std::string(left);
    });
  } else if (type == "Metaspace") {
    std::string mark;
    append_character(mark, component.character("replacement"));
    const bool never = component.maybe("add_prefix_space") == false || component.text("prepend_scheme", "always") == "never";
    const auto change_all = [mark, never](std::vector<std::string>& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], mark, i == 0 && !never ? "" : " ");
    };
    steps_.push_back({change_all, [mark](std::string& token) { replace_all(token, mark, " "); }});
  } else if (type == "WordPiece") {
    const std::string prefix = component.text("prefix");
    const bool cleans = component.flag("cleanup");
    const auto change_all = [prefix, cleans](std::vector<std::string>& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) join_word(tokens[i], prefix);
        if (cleans) clean_up(tokens[i]);
      }
    };
    const auto change = [prefix, cleans](std::string& token) {
      join_word(token, prefix);
      if (cleans) clean_up(token);
    };
    steps_.push_back({change_all, change});
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
