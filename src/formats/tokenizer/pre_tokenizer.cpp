#include "formats/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/replacement.h"

namespace plimsoll {

namespace {

// GPT-2's pattern of words, for ByteLevel.
constexpr std::string_view kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Runs of Rust's \w and runs of other characters except white space, for Whitespace. Joiners belong to \w, superscript digits do
// not.
#define PLIMSOLL_WORD R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})"
constexpr const char* kWordOrSymbols = "[" PLIMSOLL_WORD "]+|[^" PLIMSOLL_WORD R"(\s]+)";
#undef PLIMSOLL_WORD

std::uint32_t narrow(std::size_t offset) { return static_cast<std::uint32_t>(offset); }

using Step = std::function<void(Pieces&)>;
// Finds the matches in a text; overwrites `matches`.
using Find = std::function<void(std::string_view text, std::vector<Match>& matches)>;

// The treatment of matches, named as in tokenizer.json. For the matches of "-" in "a-b":
//   removed               a  b
//   isolated              a  -  b
//   merged_with_previous  a-  b
//   merged_with_next      a  -b
//   contiguous            like isolated, but neighbouring matches are one part
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// A match, or the text between two matches.
struct SplitPart {
  Match range;
  bool matched = false;
};

// Divides a text of `size` bytes into the matches and the parts between them; `invert` swaps their roles.
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

// Merges the parts in place according to `behavior`. Some results may be empty.
void merge_parts(std::vector<SplitPart>& parts, SplitBehavior behavior) {
  const bool next = behavior == SplitBehavior::merged_with_next;
  const bool merges = next || behavior == SplitBehavior::merged_with_previous;
  if (behavior == SplitBehavior::removed) std::erase_if(parts, [](const SplitPart& part) { return part.matched; });
  if (next) std::ranges::reverse(parts);
  std::size_t kept = 0;
  bool before = false;  // `matched` of the previous part
  for (const SplitPart part : parts) {
    const bool joins = behavior == SplitBehavior::contiguous ? part.matched == before : merges && part.matched && !before;
    before = part.matched;
    if (kept == 0 || !joins) {
      parts[kept++] = part;
    } else if (Match& last = parts[kept - 1].range; next) {
      last.begin = part.range.begin;
    } else {
      last.end = part.range.end;
    }
  }
  parts.resize(kept);
  if (next) std::ranges::reverse(parts);
}

// Cuts every piece at the matches of `find`.
Step split_at(Find find, SplitBehavior behavior, bool invert = false) {
  return [=](Pieces& pieces) {
    std::vector<Piece> out;
    std::vector<Match> matches;
    std::vector<SplitPart> parts;
    out.reserve(pieces.pieces.size());
    for (const Piece& piece : pieces.pieces) {
      const std::string_view text = pieces.of(piece);
      find(text, matches);
      split_parts(text.size(), matches, invert, parts);
      merge_parts(parts, behavior);
      for (const auto& [range, matched] : parts) {
        if (range.begin == range.end) continue;
        const bool first = range.begin == 0;
        out.push_back({piece.begin + narrow(range.begin), piece.begin + narrow(range.end), piece.at_start && first,
                       piece.continues && first});
      }
    }
    pieces.pieces = std::move(out);
  };
}

// Finds single characters of a class.
template <class Is>
Find characters(Is is) {
  return [is](std::string_view text, std::vector<Match>& matches) {
    matches.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (is(next_character(text, at))) matches.push_back({begin, at});
    }
  };
}

Find matches_of(std::string_view pattern, const Component& component) {
  return [pattern = Pattern(pattern, component.where())](std::string_view text, std::vector<Match>& matches) {
    pattern.find_all(text, matches);
  };
}

// Replaces the text of every piece: write(piece, text, out) appends to `out`.
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

// Puts a space before every piece that does not begin with one.
void add_spaces(Pieces& pieces) {
  rewrite(pieces, [](const Piece& piece, std::string_view text, std::string& out) {
    if (!text.starts_with(' ') && !piece.continues) out += ' ';
    out += text;
  });
}

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

// Replaces spaces by marks and puts a mark before some pieces.
struct Metaspace {
  std::string mark;
  bool always = false, first = false;  // the pieces with a mark before them: all, or only the one at the begin of a text

  explicit Metaspace(const Component& component) {
    append_character(mark, component.character("replacement"));
    std::string scheme = component.text("prepend_scheme", "always");
    if (component.maybe("add_prefix_space") == false) {
      if (component.text("prepend_scheme", "never") != "never")
        component.refuse("its add_prefix_space and prepend_scheme disagree");
      scheme = "never";
    }
    if (scheme != "always" && scheme != "first" && scheme != "never")
      component.refuse(fmt::format("its prepend_scheme is '{}'", scheme));
    always = scheme == "always";
    first = scheme == "first";
  }

  void operator()(Pieces& pieces) const {
    rewrite(pieces, [&](const Piece& piece, std::string_view text, std::string& out) {
      const std::size_t begin = out.size();
      const bool prefixed = (always || (first && piece.at_start)) && !piece.continues;
      if (prefixed && !text.starts_with(' ') && !text.starts_with(mark)) out += mark;
      for (const char c : text) c == ' ' ? out += mark : out += c;
      ensure(out.size() > begin, "Metaspace", "a piece is empty");
    });
  }
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
    step(pieces);
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
    if (component.flag("add_prefix_space")) steps_.emplace_back(add_spaces);
    component.flag("trim_offsets", true);
    if (component.flag("use_regex", true)) {
      steps_.push_back(split_at(matches_of(kWords, component), SplitBehavior::isolated));
    }
    steps_.emplace_back([](Pieces& pieces) { pieces.bytes = true; });
    byte_level_ = true;
  } else if (type == "Split") {
    const auto find = [search = Search(component)](std::string_view text, std::vector<Match>& matches) {
      search.find_all(text, matches);
    };
    const SplitBehavior behavior = behavior_of(component, component.text("behavior"));
    steps_.push_back(split_at(find, behavior, component.flag("invert")));
  } else if (type == "Digits") {
    const bool single = component.flag("individual_digits");
    steps_.push_back(split_at(characters(is_numeric), single ? SplitBehavior::isolated : SplitBehavior::contiguous));
  } else if (type == "Metaspace") {
    const bool splits = component.flag("split", true);
    const char32_t mark = component.character("replacement");
    steps_.emplace_back(Metaspace(component));
    if (splits) {
      steps_.push_back(split_at(characters([mark](char32_t c) { return c == mark; }), SplitBehavior::merged_with_next));
    }
  } else if (type == "Whitespace") {
    steps_.push_back(split_at(matches_of(kWordOrSymbols, component), SplitBehavior::removed, /*invert=*/true));
  } else if (type == "WhitespaceSplit") {
    steps_.push_back(split_at(characters(is_white_space), SplitBehavior::removed));
  } else if (type == "Punctuation") {
    steps_.push_back(split_at(characters(is_punctuation), behavior_of(component, component.text("behavior", "Isolated"))));
  } else if (type == "BertPreTokenizer") {
    steps_.push_back(split_at(characters(is_white_space), SplitBehavior::removed));
    steps_.push_back(split_at(characters(is_punctuation), SplitBehavior::isolated));
  } else {
    component.refuse_type();
  }
}

}  // namespace plimsoll
