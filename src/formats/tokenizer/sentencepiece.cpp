#include "formats/tokenizer/sentencepiece.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/gguf/scored_merges.h"
#include "formats/tokenizer/post_processor.h"
#include "formats/tokenizer/token_table.h"
#include "formats/tokenizer/tokenizer_error.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostBytes = 64 << 20;

// The fields of a protobuf message, one after the other. The reader knows their meaning.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}

  std::uint32_t number = 0;
  std::uint64_t value = 0;  // of an integer; the bits of a fixed-width number
  std::string_view bytes;   // of a text or a message

  bool next() {
    if (left_.empty()) return false;
    const std::uint64_t tag = varint();
    number = static_cast<std::uint32_t>(tag >> 3);
    bytes = {};
    switch (tag & 7) {
      case 0: value = varint(); return true;
      case 1: value = fixed(8); return true;
      case 2: bytes = take(varint()); return true;
      case 5: value = fixed(4); return true;
      default: throw broken("a field has no known type");
    }
  }

  Error broken(const std::string& why) const {
    return tokenizer_error(where_, "it is no model of SentencePiece: " + why,
                           "the whole file as it was published, or a tokenizer.json");
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) throw broken("it ends within a field");
    const std::string_view part = left_.substr(0, count);
    left_.remove_prefix(count);
    return part;
  }
  std::uint64_t varint() {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return result;
    }
    throw broken("a number has no end");
  }
  std::uint64_t fixed(std::size_t width) {
    std::uint64_t result = 0;
    const std::string_view raw = take(width);
    for (std::size_t i = 0; i < width; ++i) result |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
    return result;
  }

  std::string_view left_;
  const std::string& where_;
};

enum class PieceKind : std::uint8_t { normal = 1, unknown, control, user, unused, byte };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

struct Model {
  std::vector<Piece> pieces;
  std::uint64_t type = 1;  // 1: Unigram, 2: BPE
  bool suffix = false;     // the mark of a space stands after a word
  std::int64_t unknown = 0, begin = 1, end = 2;
  bool has_table = false;  // a table of normalisation
  bool prefix = true, squeezes = true, escapes = true;
};

Piece piece_of(Fields fields, const std::string& where) {
  Piece piece;
  while (fields.next()) {
    if (fields.number == 1) piece.text = fields.bytes;
    if (fields.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(fields.value));
    if (fields.number != 3) continue;
    if (fields.value < 1 || fields.value > 6) throw fields.broken(fmt::format("a piece is of the type {}", fields.value));
    piece.kind = static_cast<PieceKind>(fields.value);
  }
  if (utf8_valid_prefix(piece.text) != piece.text.size()) throw tokenizer_error(where, "a piece is not UTF-8");
  if (std::isnan(piece.score)) throw tokenizer_error(where, "the score of a piece is not a number");
  return piece;
}

// Unused ids are -1, which protobuf writes as a large number.
std::int64_t id_of(std::uint64_t value) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(value)); }

Model read_model(std::string_view bytes, const std::string& where) {
  Model model;
  Fields all(bytes, where);
  while (all.next()) {
    if (all.number == 1) {
      if (model.pieces.size() >= kMostTokens) throw all.broken(fmt::format("it has more than {} pieces", kMostTokens));
      model.pieces.push_back(piece_of(Fields(all.bytes, where), where));
    } else if (all.number == 2) {
      Fields trainer(all.bytes, where);
      while (trainer.next()) {
        if (trainer.number == 3) model.type = trainer.value;
        if (trainer.number == 24) model.suffix = trainer.value != 0;
        if (trainer.number == 40) model.unknown = id_of(trainer.value);
        if (trainer.number == 41) model.begin = id_of(trainer.value);
        if (trainer.number == 42) model.end = id_of(trainer.value);
      }
    } else if (all.number == 3) {
      Fields normalizer(all.bytes, where);
      while (normalizer.next()) {
        if (normalizer.number == 2) model.has_table = !normalizer.bytes.empty();
        if (normalizer.number == 3) model.prefix = normalizer.value != 0;
        if (normalizer.number == 4) model.squeezes = normalizer.value != 0;
        if (normalizer.number == 5) model.escapes = normalizer.value != 0;
      }
    }
  }
  if (model.pieces.empty()) throw all.broken("it has no pieces");
  return model;
}

void check(const Model& model, const std::string& where) {
  if (model.type != 2) {
    const char* name = model.type == 1 ? "Unigram" : model.type == 3 ? "of words" : "of characters";
    throw tokenizer_error(where, fmt::format("it is a model of SentencePiece that is {}; BPE is computed", name));
  }
  if (model.has_table) throw tokenizer_error(where, "its table for normalising text is not supported");
  if (model.suffix || !model.escapes) throw tokenizer_error(where, "its way to write spaces is not supported");
}

Json read_json(const fs::path& path) {
  if (!is_there(path)) return Json::object();
  return read_ordered_json_object(path, kTokenizerConfigLimits, "E-TOKENIZER");
}

// The text of a piece in the vocabulary. A piece of the user is compared with the text before spaces become marks.
std::string vocabulary_text(const Piece& piece) {
  return piece.kind == PieceKind::user ? without_marks(piece.text) : std::string(piece.text);
}

class Writer {
 public:
  Writer(const Model& model, const fs::path& folder, std::string where)
      : model_(model),
        where_(std::move(where)),
        config_(read_json(folder / "tokenizer_config.json")),
        more_(read_json(folder / "added_tokens.json")) {}

  void write(const fs::path& path) {
    find_added();
    AtomicFile file(path);
    const Json parts = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", added_list()},
                        {"normalizer", normalizer()},
                        {"pre_tokenizer", pre_tokenizer()},
                        {"post_processor", post_processor()},
                        {"decoder", marks_decoder(model_.prefix)}};
    std::string text = dump(parts);
    text.pop_back();  // the closing brace
    std::string model = dump(rules());
    model.pop_back();
    file.write(text + ",\n\"model\": " + model + ",\n\"vocab\": {");
    put_vocabulary(file);
    file.write("},\n\"merges\": [");
    put_merges(file);
    file.write("]}}\n");
    file.commit();
  }

 private:
  static std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

  std::string content(const char* key, std::int64_t piece) const {
    const Json value = config_.value(key, Json());
    const Json text = value.is_object() ? value.value("content", Json()) : value;
    if (text.is_string()) return text.get<std::string>();
    const bool there = piece >= 0 && piece < std::ssize(model_.pieces);
    return there ? std::string(model_.pieces[static_cast<std::size_t>(piece)].text) : std::string();
  }

  static Json entry(std::int64_t id, const std::string& text, bool special) {
    return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", special}};
  }

  void find_added() {
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const Piece& piece = model_.pieces[id];
      const bool special = piece.kind == PieceKind::unknown || piece.kind == PieceKind::control;
      if (piece.text.empty() || (!special && piece.kind != PieceKind::user)) continue;
      const auto number = static_cast<std::int64_t>(id);
      added_[number] = entry(number, special ? std::string(piece.text) : without_marks(piece.text), special);
    }
    for (const auto& [text, id] : more_.items()) {
      if (!id.is_number_integer()) throw tokenizer_error(where_, fmt::format("added_tokens.json has '{}' as {}", text, dump(id)));
      added_[id.get<std::int64_t>()] = entry(id.get<std::int64_t>(), text, false);
    }
    const Json listed = config_.value("added_tokens_decoder", Json::object());
    if (!listed.is_object()) return;
    for (const auto& [id, token] : listed.items()) {
      const bool whole = !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
      if (!whole || !token.is_object() || !token.value("content", Json()).is_string()) {
        throw tokenizer_error(where_, fmt::format("added_tokens_decoder of tokenizer_config.json has the key '{}'", id));
      }
      Json& known = added_[std::stoll(id)];
      known = entry(std::stoll(id), token["content"].get<std::string>(), false);
      for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
        if (token.value(key, Json()).is_boolean()) known[key] = token[key];
      }
    }
  }

  Json added_list() const {
    Json list = Json::array();
    for (const auto& [id, token] : added_) list.push_back(token);
    return list;
  }

  // True if only a whole text gets a space before it: tokenizer_config.json says that the tokenizer is not `legacy`.
  bool before_texts() const { return model_.prefix && config_.value("legacy", Json()) == Json(false); }

  Json normalizer() const {
    Json steps = Json::array();
    const auto replace = [&](Json pattern, std::string_view by) {
      steps.push_back({{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", by}});
    };
    if (model_.squeezes) {
      for (const auto& [pattern, by] : {std::pair("^ +| +$", ""), {" {2,}", " "}}) replace({{"Regex", pattern}}, by);
    }
    if (before_texts()) return steps.empty() ? Json() : Json{{"type", "Sequence"}, {"normalizers", steps}};
    if (model_.prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    replace({{"String", " "}}, kSpaceMark);
    return {{"type", "Sequence"}, {"normalizers", steps}};
  }

  Json pre_tokenizer() const {
    if (!before_texts()) return {};
    return {{"type", "Metaspace"}, {"replacement", kSpaceMark}, {"prepend_scheme", "first"}, {"split", false}};
  }

  // By default a token stands before a text and none after it, as in the classes of Llama and Gemma. tokenizer_config.json may
  // change both.
  Json post_processor() const {
    const auto token = [&](const char* flag, bool usual, const char* key, std::int64_t piece) -> std::optional<InsertedToken> {
      const Json said = config_.value(flag, Json());
      const std::string text = (said.is_boolean() ? said.get<bool>() : usual) ? content(key, piece) : std::string();
      const auto id = id_by_text(text);
      return id ? std::optional(InsertedToken{text, *id}) : std::nullopt;
    };
    return template_processing(token("add_bos_token", true, "bos_token", model_.begin),
                               token("add_eos_token", false, "eos_token", model_.end));
  }

  std::optional<std::int64_t> id_by_text(const std::string& text) const {
    if (text.empty()) return {};
    for (const auto& [id, token] : added_) {
      if (token["content"] == Json(text)) return id;
    }
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      if (model_.pieces[id].text == text) return static_cast<std::int64_t>(id);
    }
    return {};
  }

  Json rules() const {
    bool bytes = false;
    for (const Piece& piece : model_.pieces) bytes = bytes || piece.kind == PieceKind::byte;
    const bool unknown = model_.unknown >= 0 && model_.unknown < std::ssize(model_.pieces);
    const Json token = unknown ? Json(model_.pieces[static_cast<std::size_t>(model_.unknown)].text) : Json();
    return {{"type", "BPE"},          {"dropout", nullptr},
            {"unk_token", token},     {"continuing_subword_prefix", nullptr},
            {"fuse_unk", true},       {"end_of_word_suffix", nullptr},
            {"byte_fallback", bytes}, {"ignore_merges", false}};
  }

  void put_vocabulary(AtomicFile& file) const {
    std::string text;
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      text += fmt::format("{}\n{}: {}", id == 0 ? "" : ",", dump(Json(vocabulary_text(model_.pieces[id]))), id);
    }
    file.write(text);
  }

  void put_merges(AtomicFile& file) const {
    TokenTable table;
    std::vector<float> scores;
    std::vector<bool> merged;
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const Piece& piece = model_.pieces[id];
      table.add(vocabulary_text(piece), id, where_);
      scores.push_back(piece.score);
      merged.push_back(piece.kind == PieceKind::normal);
    }
    table.finish(where_);
    std::string text;
    for (const ScoredMerge& each : scored_merges(table, scores, merged)) {
      const std::string_view whole = table.text(each.token);
      text += fmt::format("{}\n[{}, {}]", text.empty() ? "" : ",", dump(Json(whole.substr(0, each.left_bytes))),
                          dump(Json(whole.substr(each.left_bytes))));
    }
    file.write(text);
  }

  const Model& model_;
  std::string where_;
  Json config_, more_;
  std::map<std::int64_t, Json> added_;  // by id
};

}  // namespace

std::string without_marks(std::string_view text) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(kSpaceMark, at)) != std::string::npos; ++at)
    result.replace(at, kSpaceMark.size(), " ");
  return result;
}

Json marks_decoder(bool prefix) {
  Json steps = Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                            Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

bool has_sentencepiece_alone(const fs::path& folder) {
  for (const char* other : {"tokenizer.json", "vocab.json", "encoder.json"}) {
    if (is_there(folder / other)) return false;
  }
  return is_there(folder / kSentencePieceFile);
}

void write_sentencepiece_json(const fs::path& model, const fs::path& tokenizer_json) {
  const std::string bytes = read_text(model, kMostBytes, "E-TOKENIZER"), where = model.string();
  const Model read = read_model(bytes, where);
  check(read, where);
  Writer(read, model.parent_path(), where).write(tokenizer_json);
}

}  // namespace plimsoll
