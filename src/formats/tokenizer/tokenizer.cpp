#include "formats/tokenizer/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "base/error.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/temporary_folder.h"
#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/model.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/post_processor.h"
#include "formats/tokenizer/pre_tokenizer.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/token_decoder.h"
#include "formats/tokenizer/token_ranges.h"
#include "formats/tokenizer/tokenizer_error.h"
#include "formats/tokenizer/tokenizer_file.h"
#include "formats/tokenizer_folder.h"
#include "formats/utf8.h"

namespace plimsoll {

using Json = nlohmann::json;

struct Tokenizer::State {
  std::string where, hash;
  bool gpt2 = false;
  TokenTable tokens;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<std::variant<BpeModel, WordPieceModel>> model;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::vector<AddedToken> unread;  // of a folder without tokenizer.json
  std::int64_t size = 0;

  void encode_piece(std::string_view piece, std::vector<Token>& out) {
    std::visit([&](auto& each) { each.encode(piece, out); }, *model);
  }

  void encode_fragment(Fragment fragment, std::vector<Token>& out) {
    const Pieces pieces = pre_tokenizer.cut(std::move(fragment));
    for (const Piece& piece : pieces.pieces) encode_piece(pieces.of(piece), out);
  }

  std::vector<ByteRange> trace(std::string_view text, std::span<const Token> made) const {
    const Token unknown = std::visit([](const auto& each) { return each.unknown(); }, *model);
    std::vector<TokenTrace> traces;
    for (const Token token : made) traces.push_back({tokens.text(token), token == unknown});
    return trace_tokens(text, traces, pre_tokenizer.byte_level(), where);
  }

  // Where to cut a text so that the model makes no special token of bytes that are ordinary: behind the first character of each.
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

  // As the post-processor does it: spaces at the sides of a token do not count.
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

const Json* part_of(const TokenizerFile& file, const char* name) {
  const auto found = file.parts->find(name);
  return found == file.parts->end() || found->is_null() ? nullptr : &*found;
}

bool says(const Json* part, const char* key, std::string_view text) {
  const auto found = part->is_object() ? part->find(key) : part->end();
  return found != part->end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

// A truth value that a part has or that it is taken to have.
bool is_true(const Json* part, const char* key, bool fallback) {
  const auto found = part->find(key);
  return found != part->end() && found->is_boolean() ? found->get<bool>() : fallback;
}

bool is_gpt2_file(const TokenizerFile& file) {
  const Json *cut = part_of(file, "pre_tokenizer"), *post = part_of(file, "post_processor"), *decoder = part_of(file, "decoder");
  const Json* model = part_of(file, "model");
  const auto absent = [&](const char* key) {
    const auto value = model->find(key);
    return value == model->end() || value->is_null() || (value->is_boolean() && !value->get<bool>()) || says(model, key, "");
  };
  const bool plain = says(model, "type", "BPE") && absent("ignore_merges") && absent("byte_fallback") &&
                     absent("continuing_subword_prefix") && absent("end_of_word_suffix");
  const bool words = cut != nullptr && says(cut, "type", "ByteLevel") && !is_true(cut, "add_prefix_space", true) &&
                     is_true(cut, "use_regex", true);
  return plain && words && part_of(file, "normalizer") == nullptr && (post == nullptr || says(post, "type", "ByteLevel")) &&
         (decoder == nullptr || says(decoder, "type", "ByteLevel")) &&
         std::ranges::all_of(file.added, [](const AddedTokenEntry& token) { return token.content == kEndOfText; });
}

BpeRules bpe_rules(const Component& model) {
  const auto dropout = model.json().find("dropout");
  if (dropout != model.json().end() && !dropout->is_null() && !(dropout->is_number() && dropout->get<double>() == 0))
    model.refuse("its dropout drops merges at random");
  BpeRules rules;
  rules.unknown = model.text("unk_token", "");
  rules.continuing_prefix = model.text("continuing_subword_prefix", "");
  rules.end_suffix = model.text("end_of_word_suffix", "");
  rules.fuse_unknown = model.flag("fuse_unk", false);
  rules.byte_fallback = model.flag("byte_fallback", false);
  rules.ignore_merges = model.flag("ignore_merges", false);
  return rules;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

namespace {

template <class State>
void build_from_file(State& state, TokenizerFile file) {
  const auto component = [&](const char* name) -> std::optional<Component> {
    const Json* part = part_of(file, name);
    if (part == nullptr) return {};
    return Component(*part, fmt::format("{}, {}", file.where, name));
  };
  state.where = file.where;
  state.hash = file.hash;
  state.gpt2 = is_gpt2_file(file);
  state.tokens = std::move(file.tokens);
  const Component model = *component("model");
  if (model.type() == "BPE") {
    state.model.emplace(std::in_place_type<BpeModel>, state.tokens, std::move(file.merges), bpe_rules(model), model.where());
  } else {
    if (model.count("max_input_chars_per_word") > kMostWordCharacters) {
      model.refuse(fmt::format("its max_input_chars_per_word passes {}", kMostWordCharacters));
    }
    state.model.emplace(std::in_place_type<WordPieceModel>, state.tokens, model.text("unk_token"),
                        model.text("continuing_subword_prefix"), model.count("max_input_chars_per_word"), model.where());
  }
  if (const auto part = component("normalizer")) state.normalizer = Normalizer(*part);
  if (const auto part = component("pre_tokenizer")) state.pre_tokenizer = PreTokenizer(*part);
  if (const auto part = component("post_processor")) state.post_processor = PostProcessor(*part);
  if (const auto part = component("decoder")) state.decoder = TokenDecoder(*part);
  state.added.build(std::move(file.added), state.tokens, state.normalizer, file.where);
}

// GPT-2's files, as if a tokenizer.json said the same.
template <class State>
void build_from_gpt2(State& state, const std::filesystem::path& folder) {
  const BpeVocabulary vocabulary = BpeVocabulary::load(folder);
  state.where = folder.string();
  state.hash = vocabulary.hash();
  state.gpt2 = true;
  state.unread = unread_tokens(folder, vocabulary);
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) {
    state.tokens.add(vocabulary.written(static_cast<Token>(id)), static_cast<std::uint64_t>(id), state.where);
  }
  state.tokens.finish(state.where);
  state.model.emplace(std::in_place_type<BpeModel>, state.tokens, vocabulary.merges(), BpeRules(), state.where);
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  state.pre_tokenizer = PreTokenizer(Component(byte_level, state.where));
  state.decoder = TokenDecoder(Component(byte_level, state.where));
  if (const auto end = vocabulary.end_of_text()) {
    state.added.build({{std::string(kEndOfText), *end, false, false, false, false, true, {}}}, state.tokens, state.normalizer,
                      state.where);
  }
}

}  // namespace

namespace {

// As a folder would have it that was made of the file.
template <class Write>
TokenizerFile made_tokenizer(const std::filesystem::path& path, const Write& write) {
  const TemporaryFolder folder;
  write(folder.path());
  TokenizerFile file = read_tokenizer_file(folder / "tokenizer.json");
  file.where = path.string();
  return file;
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  const bool alone = file != path && has_sentencepiece_alone(path);
  if (is_gguf(path)) {
    build_from_file(*state, made_tokenizer(path, [&](const std::filesystem::path& folder) {
      write_tokenizer_json(GgufFile::open(path), folder);
    }));
  } else if (alone || path.filename() == kSentencePieceFile) {
    const std::filesystem::path model = alone ? path / kSentencePieceFile : path;
    build_from_file(*state, made_tokenizer(model, [&](const std::filesystem::path& folder) {
      write_sentencepiece_json(model, folder / "tokenizer.json");
    }));
  } else if (file == path || std::filesystem::exists(file, ignored)) {
    build_from_file(*state, read_tokenizer_file(file));
  } else {
    build_from_gpt2(*state, path);
  }
  state->size = static_cast<std::int64_t>(state->tokens.size());
  for (const AddedTokenEntry& token : state->added.entries())
    state->size = std::max<std::int64_t>(state->size, token.id + std::int64_t{1});
  for (const auto* inserted : {&state->post_processor.before(), &state->post_processor.behind()}) {
    for (const Token token : *inserted) {
      if (token < state->size) continue;
      throw tokenizer_error(state->where, fmt::format("its post_processor inserts token {}, which it lacks", token));
    }
  }
  return Tokenizer(std::move(state));
}

std::int64_t Tokenizer::size() const { return state_->size; }
const std::string& Tokenizer::hash() const { return state_->hash; }
bool Tokenizer::is_gpt2() const { return state_->gpt2; }
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

// What encode_traced() keeps of a text.
struct Tokenizer::Trace {
  std::span<const ByteRange> ordinary;
  std::vector<ByteRange> ranges;
  std::function<void()> made;  // some tokens and ranges are there

  // Those that touch [begin, end), counted from `begin`.
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

// A text that is longer is encoded in sections: what lies between text and tokens takes up to 130 bytes for each byte.
constexpr std::size_t kLongPart = 320 << 10, kLeastSection = 16 << 10, kMostSection = 64 << 10;

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

// Bytes of the next section: up to a line end behind a letter or digit, where no tokenizer joins the two; else up to a space
// between two of them; else up to the limit.
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
                     {"iconv -f LATIN1 -t UTF-8 FILE > text.txt  # where it is Latin-1"});
  }
  refuse_unread(text, state.unread, "text");
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

// A stretch of text between added tokens that are found before it is normalised.
void Tokenizer::encode_between(std::string_view text, ByteRange raw, TextPart begins, std::vector<Token>& out, Trace* trace) {
  State& state = *state_;
  const std::string_view raw_text = text.substr(raw.begin, raw.end - raw.begin);
  Fragment fragment{std::string(raw_text), begins.at_start, begins.continues};
  state.normalizer.apply(fragment);
  std::vector<ByteRange> from, ordinary;  // of the normalised text; `from` is empty where it is the raw one
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
    std::vector<std::pair<Fragment, std::size_t>> left;  // to be encoded, the next one last, and where each begins
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

std::string Tokenizer::added_text(Token token) const {
  const AddedTokenEntry* entry = state_->added.find(token);
  return entry != nullptr ? entry->content : std::string();
}

std::string Tokenizer::inside(Token token) const {
  return !has(token) || is_special(token) ? std::string() : state_->decoder.inside(state_->text_of(token));
}

std::optional<Tokenizer> tokenizer_beyond_gpt2(const std::filesystem::path& folder) {
  if (is_gguf(folder)) return Tokenizer::load(folder);
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, ignored); };
  if (has_sentencepiece_alone(folder)) return Tokenizer::load(folder);
  if (!has("tokenizer.json")) return {};
  std::optional<Tokenizer> tokenizer = Tokenizer::load(folder);
  if (tokenizer->is_gpt2() && has("vocab.json") && has("merges.txt")) tokenizer.reset();
  return tokenizer;
}

}  // namespace plimsoll
