#include "formats/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/replacement.h"

namespace plimsoll {

void split_parts(std::size_t size, const std::vector<Match>& matches, bool invert, std::vector<SplitPart>& parts) {
  parts.clear();
  std::size_t done = 0;
  for (const Match& match : matches) {
    if (done != match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done != size) parts.push_back({{done, size}, invert});
}

std::vector<Match> split_pieces(const std::vector<SplitPart>& parts, SplitBehavior behavior) {
  std::vector<Match> pieces;
  pieces.reserve(parts.size());
  bool before = false;  // the part before matched
  switch (behavior) {
    case SplitBehavior::removed:
      for (const SplitPart& part : parts) {
        if (!part.matched) pieces.push_back(part.range);
      }
      break;
    case SplitBehavior::isolated:
      for (const SplitPart& part : parts) pieces.push_back(part.range);
      break;
    case SplitBehavior::contiguous:
      for (const SplitPart& part : parts) {
        if (part.matched == before && !pieces.empty()) {
          pieces.back().end = part.range.end;
        } else {
          pieces.push_back(part.range);
        }
        before = part.matched;
      }
      break;
    case SplitBehavior::merged_with_previous:
      for (const SplitPart& part : parts) {
        if (part.matched && !before && !pieces.empty()) {
          pieces.back().end = part.range.end;
        } else {
          pieces.push_back(part.range);
        }
        before = part.matched;
      }
      break;
    case SplitBehavior::merged_with_next:
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->matched && !before && !pieces.empty()) {
          pieces.back().begin = part->range.begin;
        } else {
          pieces.push_back(part->range);
        }
        before = part->matched;
      }
      std::ranges::reverse(pieces);
      break;
  }
  return pieces;
}

namespace {

// GPT-2's, which ByteLevel uses.
constexpr std::string_view kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::uint32_t narrow(std::size_t offset) { return static_cast<std::uint32_t>(offset); }

// Cuts every piece; `find(text, matches)` finds in one.
template <class Find>
void split(Pieces& pieces, Find&& find, SplitBehavior behavior, bool invert) {
  std::vector<Piece> out;
  std::vector<Match> matches;
  std::vector<SplitPart> parts;
  out.reserve(pieces.pieces.size());
  for (const Piece& piece : pieces.pieces) {
    const std::string_view text = pieces.of(piece);
    find(text, matches);
    split_parts(text.size(), matches, invert, parts);
    const auto put = [&](const Match& range) {
      if (range.begin == range.end) return;
      const bool first = range.begin == 0;
      out.push_back({piece.begin + narrow(range.begin), piece.begin + narrow(range.end), piece.at_start && first,
                     piece.continues && first});
    };
    if (behavior == SplitBehavior::isolated) {
      for (const SplitPart& part : parts) put(part.range);
    } else {
      for (const Match& range : split_pieces(parts, behavior)) put(range);
    }
  }
  pieces.pieces = std::move(out);
}

// Finds single characters of a class.
template <class Is>
auto characters(Is is) {
  return [is](std::string_view text, std::vector<Match>& matches) {
    matches.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (is(next_character(text, at))) matches.push_back({begin, at});
    }
  };
}

// Writes every piece anew: write(piece, text, out) appends to `out`.
template <class Write>
void rewrite(Pieces& pieces, Write&& write) {
  std::string out;
  out.reserve(pieces.text.size() + pieces.text.size() / 4);
  for (Piece& piece : pieces.pieces) {
    const std::size_t begin = out.size();
    write(piece, pieces.of(piece), out);
    piece.begin = narrow(begin);
    piece.end = narrow(out.size());
  }
  pieces.text = std::move(out);
}

class BytesStep : public PreTokenizerStep {
 public:
  explicit BytesStep(const Component& component) : prefix_(component.flag("add_prefix_space")) {
    component.flag("trim_offsets", true);
    if (component.flag("use_regex", true)) words_.emplace(kWords, component.where());
  }

  void apply(Pieces& pieces) const override {
    if (prefix_) {
      rewrite(pieces, [](const Piece& piece, std::string_view text, std::string& out) {
        if (!text.starts_with(' ') && !piece.continues) out += ' ';
        out += text;
      });
    }
    if (words_) {
      split(
          pieces, [&](std::string_view text, std::vector<Match>& matches) { words_->find_all(text, matches); },
          SplitBehavior::isolated, false);
    }
    pieces.bytes = true;
  }

 private:
  bool prefix_;
  std::optional<Pattern> words_;
};

SplitBehavior behavior_of(const Component& component, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  component.refuse(fmt::format("its behavior is '{}'", name));
}

class SplitStep : public PreTokenizerStep {
 public:
  explicit SplitStep(const Component& component)
      : search_(component), behavior_(behavior_of(component, component.text("behavior"))), invert_(component.flag("invert")) {}
  void apply(Pieces& pieces) const override {
    split(
        pieces, [&](std::string_view text, std::vector<Match>& matches) { search_.find_all(text, matches); }, behavior_, invert_);
  }

 private:
  Search search_;
  SplitBehavior behavior_;
  bool invert_;
};

// Cuts at characters of a class.
template <class Is>
class CharacterStep : public PreTokenizerStep {
 public:
  CharacterStep(Is is, SplitBehavior behavior) : is_(is), behavior_(behavior) {}
  void apply(Pieces& pieces) const override { split(pieces, characters(is_), behavior_, false); }

 private:
  Is is_;
  SplitBehavior behavior_;
};

template <class Is>
std::unique_ptr<PreTokenizerStep> at_characters(Is is, SplitBehavior behavior) {
  return std::make_unique<CharacterStep<Is>>(is, behavior);
}

// Words and runs of other characters; white space goes.
class WordStep : public PreTokenizerStep {
 public:
  explicit WordStep(const Component& component) : words_(word_or_symbols(), component.where()) {}
  void apply(Pieces& pieces) const override {
    split(
        pieces, [&](std::string_view text, std::vector<Match>& matches) { words_.find_all(text, matches); },
        SplitBehavior::removed, true);
  }

 private:
  // \w of Rust, which Whitespace uses: joiners belong to it, superscript digits do not.
  static std::string word_or_symbols() {
    const std::string word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";
    return fmt::format(R"([{0}]+|[^{0}\s]+)", word);
  }
  Pattern words_;
};

class MetaspaceStep : public PreTokenizerStep {
 public:
  explicit MetaspaceStep(const Component& component) : split_(component.flag("split", true)) {
    mark_character_ = component.character("replacement");
    append_character(mark_, mark_character_);
    std::string scheme = component.text("prepend_scheme", "always");
    if (component.maybe("add_prefix_space") == false) {
      if (component.text("prepend_scheme", "never") != "never")
        component.refuse("its add_prefix_space and prepend_scheme disagree");
      scheme = "never";
    }
    if (scheme != "always" && scheme != "first" && scheme != "never")
      component.refuse(fmt::format("its prepend_scheme is '{}'", scheme));
    always_ = scheme == "always";
    first_ = scheme == "first";
  }

  void apply(Pieces& pieces) const override {
    rewrite(pieces, [&](const Piece& piece, std::string_view text, std::string& out) {
      const std::size_t begin = out.size();
      const bool prefixed = (always_ || (first_ && piece.at_start)) && !piece.continues;
      if (prefixed && !text.starts_with(' ') && !text.starts_with(mark_)) out += mark_;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t space = std::min(text.find(' ', at), text.size());
        out += text.substr(at, space - at);
        if (space < text.size()) out += mark_;
        at = space + 1;
      }
      ensure(out.size() > begin, "MetaspaceStep", "a piece is empty");
    });
    if (!split_) return;
    split(pieces, characters([mark = mark_character_](char32_t c) { return c == mark; }), SplitBehavior::merged_with_next, false);
  }

 private:
  std::string mark_;
  char32_t mark_character_ = 0;
  bool always_ = false, first_ = false, split_;
};

}  // namespace

Pieces PreTokenizer::cut(Fragment fragment) const {
  ensure(fragment.text.size() < std::size_t{1} << 30, "PreTokenizer", "a text of 1 GiB");
  Pieces pieces;
  pieces.text = std::move(fragment.text);
  if (pieces.text.empty()) return pieces;
  pieces.pieces.push_back({0, narrow(pieces.text.size()), fragment.at_start, fragment.continues});
  const std::size_t most = std::min(most_grown(pieces.text.size()), std::size_t{1} << 30);
  for (const auto& step : steps_) {
    if (std::exchange(pieces.bytes, false)) {
      rewrite(pieces, [](const Piece&, std::string_view text, std::string& out) { out += in_byte_characters(text); });
    }
    step->apply(pieces);
    check_grown(pieces.text.size(), most, where_);
  }
  return pieces;
}

void PreTokenizer::add(const Component& component) {
  const std::string& type = component.type();
  if (steps_.size() >= kMostSteps) component.refuse(fmt::format("more than {} steps", kMostSteps));
  if (type == "Sequence") {
    for (const Component& part : component.list("pretokenizers")) add(part);
  } else if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<BytesStep>(component));
    byte_level_ = true;
  } else if (type == "Split") {
    steps_.push_back(std::make_unique<SplitStep>(component));
  } else if (type == "Digits") {
    const bool single = component.flag("individual_digits");
    steps_.push_back(at_characters(is_numeric, single ? SplitBehavior::isolated : SplitBehavior::contiguous));
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<MetaspaceStep>(component));
  } else if (type == "Whitespace") {
    steps_.push_back(std::make_unique<WordStep>(component));
  } else if (type == "WhitespaceSplit") {
    steps_.push_back(at_characters(is_white_space, SplitBehavior::removed));
  } else if (type == "Punctuation") {
    steps_.push_back(at_characters(is_punctuation, behavior_of(component, component.text("behavior", "Isolated"))));
  } else if (type == "BertPreTokenizer") {
    steps_.push_back(at_characters(is_white_space, SplitBehavior::removed));
    steps_.push_back(at_characters(is_punctuation, SplitBehavior::isolated));
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
