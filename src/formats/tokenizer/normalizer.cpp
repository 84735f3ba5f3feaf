#include "formats/tokenizer/normalizer.h"

#include <fmt/core.h>

#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/replacement.h"

namespace plimsoll {
namespace {

// Keeps the characters that `keep` says.
template <class Keep>
void filter(Fragment& fragment, Keep&& keep) {
  std::string out;
  out.reserve(fragment.text.size());
  for (std::size_t at = 0; at < fragment.text.size();) {
    const std::size_t begin = at;
    const bool kept = keep(next_character(fragment.text, at));
    if (kept) out.append(fragment.text, begin, at - begin);
    if (!kept && begin == 0) fragment.at_start = false;
  }
  fragment.text = std::move(out);
}

class FormStep : public NormalizerStep {
 public:
  explicit FormStep(NormalForm form) : form_(form) {}
  void apply(Fragment& fragment) const override { fragment.text = normalized(form_, fragment.text); }

 private:
  NormalForm form_;
};

void lowercase(Fragment& fragment) {
  std::string out;
  out.reserve(fragment.text.size());
  for (std::size_t at = 0; at < fragment.text.size();) append_lowercase(out, next_character(fragment.text, at));
  fragment.text = std::move(out);
}

class LowercaseStep : public NormalizerStep {
 public:
  void apply(Fragment& fragment) const override { lowercase(fragment); }
};

class PrependStep : public NormalizerStep {
 public:
  explicit PrependStep(std::string text) : text_(std::move(text)) {}
  void apply(Fragment& fragment) const override {
    if (!fragment.text.empty() && !fragment.continues) fragment.text.insert(0, text_);
  }

 private:
  std::string text_;
};

class ReplaceStep : public NormalizerStep {
 public:
  explicit ReplaceStep(const Component& component) : search_(component), content_(component.text("content")) {}
  void apply(Fragment& fragment) const override {
    std::vector<Match> matches;
    search_.find_all(fragment.text, matches);
    if (matches.empty()) return;
    // A replacement of several characters comes from the last of them.
    const Match& first = matches.front();
    if (first.begin == 0 && (content_.empty() || count_characters(std::string_view(fragment.text).substr(0, first.end)) > 1)) {
      fragment.at_start = false;
    }
    fragment.text = search_.replaced(fragment.text, content_, matches);
  }

 private:
  Search search_;
  std::string content_;
};

class StripStep : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  void apply(Fragment& fragment) const override {
    std::string& text = fragment.text;
    std::size_t begin = 0, end = text.size();
    if (left_) {
      for (std::size_t at = 0; at < end && is_white_space(next_character(text, at)); begin = at) {
      }
    }
    if (right_) {
      while (end > begin) {
        const std::size_t before = character_before(text, end);
        std::size_t at = before;
        if (!is_white_space(next_character(text, at))) break;
        end = before;
      }
    }
    if (begin > 0) fragment.at_start = false;
    text = text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class BytesStep : public NormalizerStep {
 public:
  void apply(Fragment& fragment) const override { fragment.text = in_byte_characters(fragment.text); }
};

class BertStep : public NormalizerStep {
 public:
  explicit BertStep(const Component& component)
      : clean_(component.flag("clean_text")),
        ideographs_(component.flag("handle_chinese_chars")),
        lowercase_(component.flag("lowercase")),
        accents_(component.maybe("strip_accents").value_or(lowercase_)) {}

  void apply(Fragment& fragment) const override {
    if (clean_) clean(fragment);
    if (ideographs_) part_ideographs(fragment);
    if (accents_) {
      fragment.text = normalized(NormalForm::nfd, fragment.text);
      filter(fragment, [](char32_t c) { return !is_bert_accent(c); });
    }
    if (lowercase_) lowercase(fragment);
  }

 private:
  static void clean(Fragment& fragment) {
    filter(fragment, [](char32_t c) { return c != 0 && c != 0xFFFD && !is_bert_control(c); });
    std::string out;
    out.reserve(fragment.text.size());
    for (std::size_t at = 0; at < fragment.text.size();) {
      const char32_t c = next_character(fragment.text, at);
      append_character(out, is_white_space(c) ? U' ' : c);
    }
    fragment.text = std::move(out);
  }

  static void part_ideographs(Fragment& fragment) {
    std::string out;
    out.reserve(fragment.text.size());
    for (std::size_t at = 0; at < fragment.text.size();) {
      const std::size_t begin = at;
      const bool parted = is_bert_ideograph(next_character(fragment.text, at));
      if (parted) out += ' ';
      out.append(fragment.text, begin, at - begin);
      if (parted) out += ' ';
    }
    fragment.text = std::move(out);
  }

  bool clean_, ideographs_, lowercase_, accents_;
};

}  // namespace

void Normalizer::apply(Fragment& fragment) const {
  const std::size_t most = most_grown(fragment.text.size());
  for (const auto& step : steps_) {
    step->apply(fragment);
    check_grown(fragment.text.size(), most, where_);
  }
}

void Normalizer::add(const Component& component) {
  const std::string& type = component.type();
  if (steps_.size() == kMostSteps) component.refuse(fmt::format("more than {} steps", kMostSteps));
  if (type == "Sequence") {
    for (const Component& part : component.list("normalizers")) add(part);
  } else if (type == "NFC") {
    steps_.push_back(std::make_unique<FormStep>(NormalForm::nfc));
  } else if (type == "NFD") {
    steps_.push_back(std::make_unique<FormStep>(NormalForm::nfd));
  } else if (type == "NFKC") {
    steps_.push_back(std::make_unique<FormStep>(NormalForm::nfkc));
  } else if (type == "NFKD") {
    steps_.push_back(std::make_unique<FormStep>(NormalForm::nfkd));
  } else if (type == "Lowercase") {
    steps_.push_back(std::make_unique<LowercaseStep>());
  } else if (type == "Prepend") {
    steps_.push_back(std::make_unique<PrependStep>(component.text("prepend")));
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<ReplaceStep>(component));
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<StripStep>(component.flag("strip_left"), component.flag("strip_right")));
  } else if (type == "BertNormalizer") {
    steps_.push_back(std::make_unique<BertStep>(component));
  } else if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<BytesStep>());
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
