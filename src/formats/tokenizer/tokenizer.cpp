#include "formats/tokenizer/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/bpe_model.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/post_processor.h"
#include "formats/tokenizer/pre_tokenizer.h"
#include "formats/tokenizer/token_decoder.h"
#include "formats/tokenizer/token_ranges.h"
#include "formats/tokenizer/tokenizer_error.h"
#include "formats/tokenizer/tokenizer_file.h"
#include "formats/tokenizer/vocab_merges.h"
#include "formats/tokenizer/word_piece.h"
#include "formats/tokenizer_folder.h"
#include "formats/utf8.h"

namespace plimsoll {

using Json = nlohmann::json;

struct Tokenizer::State {
  explicit State(TokenizerFile file);

  std::string where, hash;
  TokenTable tokens;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<std::variant<BpeModel, WordPieceModel>> model;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::filesystem::path vocab_folder;             // of GPT-2's two files
  std::optional<std::vector<AddedToken>> unread;  // of that folder; absent before the first call of unread()
  std::int64_t size = 0;

  void encode_piece(std::string_view piece, bool bytes, std::vector<Token>& out) {
    std::visit([&](auto& each) { each.encode(piece, bytes, out); }, *model);
  }

  void encode_fragment(Fragment fragment, std::vector<Token>& out) {
    const Pieces pieces = pre_tokenizer.cut(std::move(fragment));
    for (const Piece& piece : pieces.pieces) encode_piece(pieces.of(piece), pieces.bytes, out);
  }

  std::size_t encode_words(std::string_view text, bool ends, std::vector<Token>& out);

  std::vector<ByteRange> trace(std::string_view text, std::span<const Token> made) const {
    const Token unknown = std::visit([](const auto& each) { return each.unknown(); }, *model);
    std::vector<TokenTrace> traces;
    for (const Token token : made) traces.push_back({tokens.text(token), token == unknown});
    return trace_tokens(text, traces, pre_tokenizer.byte_level(), where);
  }

  // The places at which to cut a text so that no special token comes from ordinary bytes: after the first character of each such
  // token.
  std::vector<std::size_t> cuts_within_special(std::string_view text, std::span<const Token> made,
                                               const std::vector<ByteRange>& ranges, std::size_t begin,
                                               const std::vector<ByteRange>& ordinary) const {
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i < made.size() && !ordinary.empty(); ++i) {
      const AddedTokenEntry* entry = added.find(made[i]);
      if (entry == nullptr || !entry->special) continue;
      const auto range = std::ranges::upper_bound(ordinary, begin + ranges[i].begin, {}, &ByteRange::end);
      if (range == ordinary.end() || range->begin >= begin + ranges[i].end) continue;
      std::size_t cut = ranges[i].begin;
      next_character(text, cut);
      if (cut < ranges[i].end && (cuts.empty() || cuts.back() < cut)) cuts.push_back(cut);
    }
    return cuts;
  }

  // Leaves out spaces at the sides of a token, like the post-processor.
  void trim(Token token, bool first, ByteRange& range) const {
    const AddedTokenEntry* entry = added.find(token);
    const std::string_view text = entry != nullptr ? std::string_view(entry->content) : tokens.text(token);
    const char32_t mark = byte_character(' ');
    const auto is_space = [&](char32_t c) { return c == mark || is_white_space(c); };
    std::size_t leading = 0, trailing = 0;
    for (std::size_t at = 0; at < text.size() && is_space(next_character(text, at));) ++leading;
    for (std::size_t end = text.size(); end > 0;) {
      std::size_t at = end = character_before(text, end);
      if (!is_space(next_character(text, at))) break;
      ++trailing;
    }
    if (leading > 0 && (first || range.begin == 0) && post_processor.keeps_first_space()) --leading;
    range.begin = std::min(range.begin + leading, range.end);
    if (range.end >= trailing) range.end = std::max(range.end - trailing, range.begin);
  }

  std::string text_of(Token token) const {
    if (const AddedTokenEntry* entry = added.find(token)) return entry->decoded();
    return std::string(tokens.text(token));
  }
};

namespace {

constexpr std::size_t kMostText = std::size_t{256} << 20;
constexpr std::uint64_t kMostWordCharacters = 1000;

BpeRules bpe_rules(const Component& model) {
  const auto dropout = model.json().find("dropout");
  if (dropout != model.json().end() && !dropout->is_null() && !(dropout->is_number() && dropout->get<double>() == 0))
    model.refuse("its dropout drops merges at random");
  BpeRules rules;
  rules.unknown = model.text("unk_token", "");
  rules.fuse_unknown = model.flag("fuse_unk", false);
  rules.byte_fallback = model.flag("byte_fallback", false);
  rules.ignore_merges = model.flag("ignore_merges", false);
  return rules;
}

}  // namespace

Tokenizer::State::State(TokenizerFile file)
    : where(file.where), hash(file.hash), tokens(std::move(file.tokens)), vocab_folder(file.vocab_folder) {
  const auto component = [&](const char* name) -> std::optional<Component> {
    const Json* part = file.part(name);
    if (part == nullptr) return {};
    return Component(*part, fmt::format("{}, {}", where, name));
  };
  const Component rules = *component("model");
  if (rules.type() == "BPE") {
    model.emplace(std::in_place_type<BpeModel>, tokens, std::move(file.merges), bpe_rules(rules), rules.where());
  } else {
    if (rules.count("max_input_chars_per_word") > kMostWordCharacters) {
      rules.refuse(fmt::format("its max_input_chars_per_word passes {}", kMostWordCharacters));
    }
    model.emplace(std::in_place_type<WordPieceModel>, tokens, rules.text("unk_token"), rules.text("continuing_subword_prefix"),
                  rules.count("max_input_chars_per_word"), rules.where());
  }
  if (const auto part = component("normalizer")) normalizer = Normalizer(*part);
  if (const auto part = component("pre_tokenizer")) pre_tokenizer = PreTokenizer(*part);
  if (const auto part = component("post_processor")) post_processor = PostProcessor(*part);
  if (const auto part = component("decoder")) decoder = TokenDecoder(*part);
  added.build(std::move(file.added), tokens, normalizer, where);
  size = static_cast<std::int64_t>(tokens.size());
  for (const AddedTokenEntry& token : added.entries()) size = std::max<std::int64_t>(size, token.id + std::int64_t{1});
  for (const auto* inserted : {&post_processor.before(), &post_processor.behind()}) {
    for (const Token token : *inserted) {
      if (token >= size) throw tokenizer_error(where, fmt::format("its post_processor inserts token {}, which it lacks", token));
    }
  }
}

Tokenizer::Tokenizer(TokenizerFile file) : state_(std::make_unique<State>(std::move(file))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  Tokenizer tokenizer(read_tokenizer(path));
  tokenizer.unread();
  return tokenizer;
}

Tokenizer Tokenizer::of_vocabulary(const std::filesystem::path& path) { return Tokenizer(read_vocabulary(path)); }

const std::vector<AddedToken>& Tokenizer::unread() {
  State& state = *state_;
  if (!state.unread) {
    state.unread.emplace();
    if (takes_any_bytes()) {
      state.unread = unread_tokens(state.vocab_folder, state.tokens, std::get<BpeModel>(*state.model).merges());
    }
  }
  return *state.unread;
}

bool Tokenizer::takes_any_bytes() const { return !state_->vocab_folder.empty(); }
std::int64_t Tokenizer::size() const { return state_->size; }
const std::string& Tokenizer::hash() const { return state_->hash; }
const std::vector<Token>& Tokenizer::before() const { return state_->post_processor.before(); }
const std::vector<Token>& Tokenizer::behind() const { return state_->post_processor.behind(); }

std::vector<Token> Tokenizer::encode(std::string_view text, SpecialTokens special) {
  std::vector<Token> out;
  if (special == SpecialTokens::insert) out = before();
  encode_part(text, {}, out);
  if (special == SpecialTokens::insert) out.insert(out.end(), behind().begin(), behind().end());
  return out;
}

void Tokenizer::encode_part(std::string_view text, TextPart part, std::vector<Token>& out) {
  encode_into(text, part, out, nullptr);
}

// The record that encode_traced() keeps of a text.
struct Tokenizer::Trace {
  std::span<const ByteRange> ordinary;
  std::vector<ByteRange> ranges;
  std::function<void()> made;  // called after each section with its tokens and ranges

  // The ordinary ranges that touch [begin, end), counted from `begin`.
  std::vector<ByteRange> ordinary_in(std::size_t begin, std::size_t end) const {
    std::vector<ByteRange> found;
    auto range = std::ranges::upper_bound(ordinary, begin, {}, &ByteRange::end);
    for (; range != ordinary.end() && range->begin < end; ++range) {
      found.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
    }
    return found;
  }
};

namespace {

// Longer texts are encoded in sections: encoding takes up to 130 bytes of memory for each byte of text.
constexpr std::size_t kLongPart = 320 << 10, kLeastSection = 16 << 10, kMostSection = 64 << 10;

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

// Bytes of the next section: up to a line end after a letter or digit, which no tokenizer joins; else up to a space between two
// of them; else up to the limit.
std::size_t section_of(std::string_view text) {
  if (text.size() <= kMostSection) return text.size();
  for (std::size_t cut = kLeastSection; cut < kMostSection; ++cut) {
    if (text[cut] == '\n' && is_letter_or_digit(text[cut - 1])) return cut;
  }
  for (std::size_t cut = kMostSection; cut > kLeastSection; --cut) {
    if (text[cut] == ' ' && is_letter_or_digit(text[cut - 1]) && is_letter_or_digit(text[cut + 1])) return cut;
  }
  std::size_t cut = kMostSection;
  while (cut > kMostSection - 4 && is_utf8_continuation(text[cut])) --cut;
  return cut;
}

}  // namespace

void Tokenizer::encode_into(std::string_view text, TextPart part, std::vector<Token>& out, Trace* trace) {
  State& state = *state_;
  if (text.size() > kMostText) {
    throw data_error("E-DATA-TEXT", "text", fmt::format("it has {} bytes", text.size()),
                     fmt::format("at most {} at once", kMostText));
  }
  if (const std::size_t valid = utf8_valid_prefix(text); valid != text.size()) {
    throw data_error("E-DATA-TEXT", "text", fmt::format("byte {} is not UTF-8", valid), "text in UTF-8",
                     {"iconv -f LATIN1 -t UTF-8 FILE > text.txt  # if it is Latin-1"});
  }
  refuse_unread(text, unread(), "text");
  for (const CutPart& raw : state.added.cut(text, false, trace != nullptr ? trace->ordinary : std::span<const ByteRange>())) {
    if (raw.token != kNoToken) {
      out.push_back(raw.token);
      if (trace != nullptr) trace->ranges.push_back({raw.begin, raw.end});
      continue;
    }
    const bool first = raw.begin == 0, is_long = raw.end - raw.begin > kLongPart;
    for (std::size_t begin = raw.begin, end = raw.end; begin < raw.end; begin = end) {
      end = is_long ? begin + section_of(text.substr(begin, raw.end - begin)) : raw.end;
      const bool whole = begin == raw.begin;
      encode_between(text, {begin, end}, {part.at_start && first && whole, (part.continues && first) || !whole}, out, trace);
      if (trace != nullptr && trace->made) trace->made();
    }
  }
}

namespace {

// A word of GPT-2's pattern depends on at most this many bytes after it.
constexpr std::size_t kLookAhead = 16;
// The window for the search of words. If it holds no whole word, the window grows to kMostWord bytes.
//   text    |== encoded ==|==== window ====|....
//                           word word wo     the last word is encoded with the next window,
//                                            unless the text ends there
constexpr std::size_t kWindow = std::size_t{64} << 10;

}  // namespace

// Appends the tokens of the words at the front of a text without added tokens. Returns the encoded bytes: all of them if the text
// `ends`.
std::size_t Tokenizer::State::encode_words(std::string_view text, bool ends, std::vector<Token>& out) {
  std::size_t done = 0;
  for (std::size_t most = kWindow; done < text.size();) {
    const std::string_view left = text.substr(done);
    const std::string_view window = left.substr(0, utf8_valid_prefix(left.substr(0, most)));
    if (window.empty()) {
      // A run of invalid bytes is one word.
      std::size_t size = 1;
      while (size < std::min(left.size(), kMostWord) && utf8_length(left.substr(size)) == 0) ++size;
      if (!ends && size < kMostWord && left.size() - size < kLookAhead) return done;
      encode_piece(left.substr(0, size), true, out);
      done += size;
      continue;
    }
    const std::string_view rest = left.substr(window.size());
    // True if the last word ends with the window: the text ends there, or invalid bytes follow.
    const bool closed = rest.empty() ? ends : utf8_length(rest) == 0 && (ends || rest.size() >= kLookAhead);
    const bool largest = most == kMostWord && window.size() + 4 > most;
    const Pieces words = pre_tokenizer.cut({std::string(window), false, false});
    const std::size_t before = done;
    for (const Piece& word : words.pieces) {
      if (!closed && word.end + kLookAhead > window.size() && !(largest && word.begin == 0)) break;
      encode_piece(words.of(word), true, out);
      done = before + word.end;
    }
    if (done == before && (most == kMostWord || rest.empty())) return done;
    most = done == before ? kMostWord : kWindow;
  }
  return done;
}

std::size_t Tokenizer::encode_bytes(std::string_view text, bool last, std::vector<Token>& out) {
  ensure(takes_any_bytes(), "Tokenizer::encode_bytes", "a tokenizer of text alone");
  std::size_t done = 0;
  for (const CutPart& part : state_->added.cut(text, false)) {
    if (part.token != kNoToken) {
      out.push_back(part.token);
      done = part.end;
      continue;
    }
    const bool ends = last || part.end < text.size();
    done = part.begin + state_->encode_words(text.substr(part.begin, part.end - part.begin), ends, out);
  }
  return done;
}

// Encodes the text between two added tokens that are cut out of the raw text.
void Tokenizer::encode_between(std::string_view text, ByteRange raw, TextPart begins, std::vector<Token>& out, Trace* trace) {
  State& state = *state_;
  const std::string_view raw_text = text.substr(raw.begin, raw.end - raw.begin);
  Fragment fragment{std::string(raw_text), begins.at_start, begins.continues};
  state.normalizer.apply(fragment);
  std::vector<ByteRange> from, ordinary;  // of the normalised text; `from` is empty if it equals the raw text
  if (trace != nullptr) {
    if (fragment.text != raw_text) from = origins(state.normalizer, raw_text, {fragment.text, begins.at_start, begins.continues});
    ordinary = trace->ordinary_in(raw.begin, raw.end);
    if (!from.empty()) ordinary = carried_over(ordinary, from);
  }
  const auto keep_range = [&](std::size_t begin, std::size_t end) {
    if (!from.empty() && begin < end) {
      trace->ranges.push_back({raw.begin + from[begin].begin, raw.begin + from[end - 1].end});
    } else {
      const std::size_t at = from.empty() ? begin : begin < from.size() ? from[begin].begin : raw_text.size();
      trace->ranges.push_back({raw.begin + at, raw.begin + at + (end - begin)});
    }
  };
  const auto encode_fragment = [&](Fragment each, std::size_t begin) {
    if (trace == nullptr) return state.encode_fragment(std::move(each), out);
    std::vector<std::pair<Fragment, std::size_t>> left;  // parts to encode and their begins, the next one last
    left.emplace_back(std::move(each), begin);
    while (!left.empty()) {
      auto [part_of, at] = std::move(left.back());
      left.pop_back();
      const std::size_t before = out.size();
      state.encode_fragment(part_of, out);
      const std::span<const Token> made = std::span(out).subspan(before);
      const std::vector<ByteRange> ranges = state.trace(part_of.text, made);
      const std::vector<std::size_t> cuts = state.cuts_within_special(part_of.text, made, ranges, at, ordinary);
      if (cuts.empty()) {
        for (const ByteRange& range : ranges) keep_range(at + range.begin, at + range.end);
        continue;
      }
      out.resize(before);
      std::size_t end = part_of.text.size();
      for (auto at_cut = cuts.rbegin(); at_cut != cuts.rend(); ++at_cut) {
        left.emplace_back(Fragment{part_of.text.substr(*at_cut, end - *at_cut), false, true}, at + *at_cut);
        end = *at_cut;
      }
      left.emplace_back(Fragment{part_of.text.substr(0, end), part_of.at_start, part_of.continues}, at);
    }
  };
  const std::vector<CutPart> cut = state.added.cut(fragment.text, true, ordinary);
  if (cut.size() == 1 && cut.front().token == kNoToken) return encode_fragment(std::move(fragment), 0);
  for (const CutPart& each : cut) {
    if (each.token != kNoToken) {
      out.push_back(each.token);
      if (trace != nullptr) keep_range(each.begin, each.end);
    } else {
      encode_fragment({fragment.text.substr(each.begin, each.end - each.begin), fragment.at_start && each.begin == 0,
                       fragment.continues && each.begin == 0},
                      each.begin);
    }
  }
}

void Tokenizer::encode_traced(std::string_view text, std::span<const ByteRange> ordinary, const TracedVisit& visit) {
  constexpr std::size_t kEnough = 4096;
  TracedTokens part;
  Trace trace{ordinary, {}, {}};
  bool first = true;
  const auto hand_out = [&] {
    if (state_->post_processor.trims_spaces()) {
      for (std::size_t i = 0; i < part.tokens.size(); ++i) {
        state_->trim(part.tokens[i], first && i == 0, trace.ranges[i]);
      }
    }
    first = first && part.tokens.empty();
    visit(part.tokens, trace.ranges);
    part.tokens.clear();
    trace.ranges.clear();
  };
  trace.made = [&] {
    if (part.tokens.size() >= kEnough) hand_out();
  };
  encode_into(text, {}, part.tokens, &trace);
  hand_out();
}

TracedTokens Tokenizer::encode_traced(std::string_view text, std::span<const ByteRange> ordinary) {
  TracedTokens result;
  encode_traced(text, ordinary, [&](std::span<const Token> tokens, std::span<const ByteRange> ranges) {
    result.tokens.insert(result.tokens.end(), tokens.begin(), tokens.end());
    result.ranges.insert(result.ranges.end(), ranges.begin(), ranges.end());
  });
  return result;
}

bool Tokenizer::has(Token token) const { return state_->added.find(token) != nullptr || state_->tokens.has(token); }

bool Tokenizer::is_special(Token token) const {
  const AddedTokenEntry* entry = state_->added.find(token);
  return entry != nullptr && entry->special && entry->decoded() == entry->content;
}

Token Tokenizer::find(std::string_view text) const {
  const AddedTokenEntry* entry = state_->added.find(text);
  return entry != nullptr ? entry->id : state_->tokens.find(text);
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool skip_special) const {
  std::vector<std::string> texts;
  for (const Token token : tokens) {
    if (!has(token)) {
      throw data_error("E-DATA-TOKEN", state_->where, fmt::format("token {} is not in the vocabulary", token),
                       fmt::format("tokens from 0 to {}", size() - 1));
    }
    if (!skip_special || !is_special(token)) texts.push_back(state_->text_of(token));
  }
  return state_->decoder.decode(std::move(texts));
}

std::string Tokenizer::text_of(Token token) const {
  return takes_any_bytes() ? inside(token) : decode(std::vector<Token>{token}, /*skip_special=*/false);
}

std::string Tokenizer::added_text(Token token) const {
  const AddedTokenEntry* entry = state_->added.find(token);
  return entry != nullptr ? entry->content : std::string();
}

std::string Tokenizer::inside(Token token) const {
  // The special tokens of GPT-2's files count as text.
  const bool shown = has(token) && (takes_any_bytes() || !is_special(token));
  return shown ? state_->decoder.inside(state_->text_of(token)) : std::string();
}

std::string vocabulary_hash(const std::filesystem::path& folder) {
  return !folder.empty() && has_vocabulary(folder) ? Tokenizer::of_vocabulary(folder).hash() : std::string();
}

}  // namespace plimsoll
