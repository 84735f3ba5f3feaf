#include "formats/tokenizer/token_decoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
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

// A token that is not in byte characters stays as it is.
std::string unwritten(const std::string& token) { return from_byte_characters(token).value_or(token); }

class BytesStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += unwritten(token);
    tokens = {utf8_repaired(bytes)};
  }
  void apply_inside(std::string& token) const override { token = unwritten(token); }
};

class FallbackStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
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
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
  void apply_inside(std::string& token) const override {
    if (const int byte = byte_of(token); byte >= 0) token = static_cast<char>(byte);
  }

 private:
  // "<0x0A>"; -1: another token. A plus sign may stand for the first digit.
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const auto digit = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    };
    const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
  }
};

class FuseStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  }
  void apply_inside(std::string&) const override {}
};

class ReplaceStep : public DecoderStep {
 public:
  explicit ReplaceStep(const Component& component) : search_(component), content_(component.text("content")) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) apply_inside(token);
  }
  void apply_inside(std::string& token) const override { token = search_.replaced(token, content_); }

 private:
  Search search_;
  std::string content_;
};

class StripStep : public DecoderStep {
 public:
  explicit StripStep(const Component& component) : start_(component.count("start")), stop_(component.count("stop")) {
    append_character(content_, component.character("content"));
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) apply_inside(token);
  }
  void apply_inside(std::string& token) const override {
    std::string_view left = token;
    for (std::uint64_t i = 0; i < start_ && left.starts_with(content_); ++i) left.remove_prefix(content_.size());
    for (std::uint64_t i = 0; i < stop_ && left.ends_with(content_); ++i) left.remove_suffix(content_.size());
    token = std::string(left);
  }

 private:
  std::uint64_t start_, stop_;
  std::string content_;
};

class MetaspaceStep : public DecoderStep {
 public:
  explicit MetaspaceStep(const Component& component) {
    append_character(mark_, component.character("replacement"));
    const bool never = component.maybe("add_prefix_space") == false || component.text("prepend_scheme", "always") == "never";
    prefixed_ = !never;
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], mark_, i == 0 && prefixed_ ? "" : " ");
  }
  void apply_inside(std::string& token) const override { replace_all(token, mark_, " "); }

 private:
  std::string mark_;
  bool prefixed_;
};

class WordPieceStep : public DecoderStep {
 public:
  explicit WordPieceStep(const Component& component) : prefix_(component.text("prefix")), cleanup_(component.flag("cleanup")) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) join(tokens[i]);
      if (cleanup_) clean(tokens[i]);
    }
  }
  void apply_inside(std::string& token) const override {
    join(token);
    if (cleanup_) clean(token);
  }

 private:
  void join(std::string& token) const {
    if (token.starts_with(prefix_)) {
      token.erase(0, prefix_.size());
    } else {
      token.insert(0, " ");
    }
  }
  static void clean(std::string& token) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kChanges{{{" .", "."},
                                                                                      {" ?", "?"},
                                                                                      {" !", "!"},
                                                                                      {" ,", ","},
                                                                                      {" ' ", "'"},
                                                                                      {" n't", "n't"},
                                                                                      {" 'm", "'m"},
                                                                                      {" do not", " don't"},
                                                                                      {" 's", "'s"},
                                                                                      {" 've", "'ve"},
                                                                                      {" 're", "'re"}}};
    for (const auto& [what, with] : kChanges) replace_all(token, what, with);
  }
  std::string prefix_;
  bool cleanup_;
};

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
  for (const auto& step : steps_) {
    step->apply(tokens);
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
    steps_[i]->apply_inside(token);
    check_grown(token.size(), most, where_);
  }
  return token;
}

void TokenDecoder::add(const Component& component) {
  const std::string& type = component.type();
  if (steps_.size() == kMostSteps) component.refuse(fmt::format("more than {} steps", kMostSteps));
  const auto whole = [&] {  // what follows sees one text
    if (!std::exchange(fused_, true)) separate_ = steps_.size();
  };
  if (type == "Sequence") {
    for (const Component& part : component.list("decoders")) add(part);
  } else if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<BytesStep>());
    whole();
  } else if (type == "ByteFallback") {
    steps_.push_back(std::make_unique<FallbackStep>());
  } else if (type == "Fuse") {
    steps_.push_back(std::make_unique<FuseStep>());
    whole();
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<ReplaceStep>(component));
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<StripStep>(component));
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<MetaspaceStep>(component));
  } else if (type == "WordPiece") {
    steps_.push_back(std::make_unique<WordPieceStep>(component));
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
