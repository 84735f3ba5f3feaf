#include "formats/tokenizer/normalizer.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/replacement.h"

namespace plimsoll {
namespace {

// Replaces the text character by character: write(character, its bytes, out) appends to `out`.
template <class Write>
void rewrite(Fragment& fragment, Write&& write) {
  std::string out;
  out.reserve(fragment.text.size());
  for (std::size_t at = 0; at < fragment.text.size();) {
    const std::size_t begin = at;
    const char32_t character = next_character(fragment.text, at);
    write(character, std::string_view(fragment.text).substr(begin, at - begin), out);
  }
  fragment.text = std::move(out);
}

// Keeps the characters that `keep` accepts.
template <class Keep>
void filter(Fragment& fragment, Keep&& keep) {
  bool first = true;
  rewrite(fragment, [&](char32_t c, std::string_view bytes, std::string& out) {
    const bool kept = keep(c);
    if (kept) out += bytes;
    if (!kept && first) fragment.at_start = false;
    first = false;
  });
}

void lowercase(Fragment& fragment) {
  rewrite(fragment, [](char32_t c, std::string_view, std::string& out) { append_lowercase(out, c); });
}

void replace(Fragment& fragment, const Search& search, const std::string& content) {
  std::vector<Match> matches;
  search.find_all(fragment.text, matches);
  if (matches.empty()) return;
  // The result of replacing several characters counts as coming from the last of them.
  const Match& first = matches.front();
  if (first.begin == 0 && (content.empty() || count_characters(std::string_view(fragment.text).substr(0, first.end)) > 1)) {
    fragment.at_start = false;
  }
  fragment.text = search.replaced(fragment.text, content, matches);
}

void strip(Fragment& fragment, bool left, bool right) {
  std::string& text = fragment.text;
  const std::size_t begin = left ? run_end(text, 0, is_white_space) : 0;
  const std::size_t end = right ? run_begin(text, text.size(), begin, is_white_space) : text.size();
  if (begin > 0) fragment.at_start = false;
  text = text.substr(begin, end - begin);
}

// BERT's clean_text and handle_chinese_chars.
void clean(Fragment& fragment) {
  filter(fragment, [](char32_t c) { return c != 0 && c != 0xFFFD && !is_bert_control(c); });
  rewrite(fragment, [](char32_t c, std::string_view, std::string& out) { append_character(out, is_white_space(c) ? U' ' : c); });
}

void part_ideographs(Fragment& fragment) {
  rewrite(fragment, [](char32_t c, std::string_view bytes, std::string& out) {
    const std::string_view space = is_bert_ideograph(c) ? " " : "";
    out.append(space).append(bytes).append(space);
  });
}

void remove_accents(Fragment& fragment) {
  fragment.text = normalized(NormalForm::nfd, fragment.text);
  filter(fragment, [](char32_t c) { return !is_bert_accent(c); });
}

std::optional<NormalForm> form_named(std::string_view type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return {};
}

}  // namespace

void Normalizer::apply(Fragment& fragment) const {
  const std::size_t most = most_grown(fragment.text.size());
  for (const auto& step : steps_) {
    step(fragment);
    check_grown(fragment.text.size(), most, where_);
  }
}

void Normalizer::add(const Component& component) {
  const std::string& type = component.type();
  if (steps_.size() == kMostSteps) component.refuse(fmt::format("more than {} steps", kMostSteps));
  if (type == "Sequence") {
    for (const Component& part : component.list("normalizers")) add(part);
  } else if (const auto form = form_named(type)) {
    steps_.emplace_back([form](Fragment& fragment) { fragment.text = normalized(*form, fragment.text); });
  } else if (type == "Lowercase") {
    steps_.emplace_back(lowercase);
  } else if (type == "Prepend") {
    steps_.emplace_back([text = component.text("prepend")](Fragment& fragment) {
      if (!fragment.text.empty() && !fragment.continues) fragment.text.insert(0, text);
    });
  } else if (type == "Replace") {
    steps_.emplace_back([search = Search(component), content = component.text("content")](Fragment& fragment) {
      replace(fragment, search, content);
    });
  } else if (type == "Strip") {
    steps_.emplace_back([left = component.flag("strip_left"), right = component.flag("strip_right")](Fragment& fragment) {
      strip(fragment, left, right);
    });
  } else if (type == "BertNormalizer") {
    const bool cleans = component.flag("clean_text"), ideographs = component.flag("handle_chinese_chars");
    const bool lowers = component.flag("lowercase"), accents = component.maybe("strip_accents").value_or(lowers);
    steps_.emplace_back([=](Fragment& fragment) {
      if (cleans) clean(fragment);
      if (ideographs) part_ideographs(fragment);
      if (accents) remove_accents(fragment);
      if (lowers) lowercase(fragment);
    });
  } else if (type == "ByteLevel") {
    steps_.emplace_back([](Fragment& fragment) { fragment.text = in_byte_characters(fragment.text); });
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
