#include "formats/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/temporary_folder.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/tokenizer_json.h"
#include "formats/tokenizer/vocab_merges.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Reads the tokenizer.json that write(folder) makes from the file `path`.
template <class Write>
TokenizerFile made_tokenizer(const fs::path& path, const Write& write) {
  const TemporaryFolder folder;
  write(folder.path());
  TokenizerFile file = read_tokenizer_json(folder / "tokenizer.json");
  file.where = path.string();
  return file;
}

bool is_text(const Json* part, const char* key, std::string_view text) {
  const auto found = part->is_object() ? part->find(key) : part->end();
  return found != part->end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

bool is_true(const Json* part, const char* key, bool fallback) {
  const auto found = part->find(key);
  return found != part->end() && found->is_boolean() ? found->get<bool>() : fallback;
}

// True if GPT-2's two files can hold all of a tokenizer.json.
bool is_vocab_merges(const TokenizerFile& file) {
  const Json *cut = file.part("pre_tokenizer"), *post = file.part("post_processor"), *decoder = file.part("decoder");
  const Json* model = file.part("model");
  const auto absent = [&](const char* key) {
    const auto value = model->find(key);
    return value == model->end() || value->is_null() || *value == Json(false) || *value == Json("") || *value == Json(0);
  };
  const bool plain = is_text(model, "type", "BPE") && absent("ignore_merges") && absent("byte_fallback") && absent("dropout") &&
                     absent("continuing_subword_prefix") && absent("end_of_word_suffix");
  const bool words = cut != nullptr && is_text(cut, "type", "ByteLevel") && !is_true(cut, "add_prefix_space", true) &&
                     is_true(cut, "use_regex", true);
  return plain && words && file.part("normalizer") == nullptr && (post == nullptr || is_text(post, "type", "ByteLevel")) &&
         (decoder == nullptr || is_text(decoder, "type", "ByteLevel")) &&
         std::ranges::all_of(file.added, [&](const AddedTokenEntry& token) {
           const Token own = file.tokens.find(kEndOfText);
           return token.content == kEndOfText && token.id == (own != kNoToken ? own : file.tokens.count());
         });
}

}  // namespace

TokenizerFile::TokenizerFile() : parts(std::make_unique<Json>(Json::object())) {}
TokenizerFile::~TokenizerFile() = default;
TokenizerFile::TokenizerFile(TokenizerFile&&) noexcept = default;

const Json* TokenizerFile::part(const char* name) const {
  const auto found = parts->find(name);
  return found == parts->end() || found->is_null() ? nullptr : &*found;
}

TokenizerFile read_tokenizer(const fs::path& path) {
  if (is_gguf(path)) {
    return made_tokenizer(path, [&](const fs::path& folder) { write_tokenizer_json(GgufFile::open(path), folder); });
  }
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  const bool alone = file != path && has_sentencepiece_alone(path);
  if (alone || path.filename() == kSentencePieceFile) {
    const fs::path model = alone ? path / kSentencePieceFile : path;
    return made_tokenizer(model, [&](const fs::path& folder) { write_sentencepiece_json(model, folder / "tokenizer.json"); });
  }
  return file == path || is_there(file) ? read_tokenizer_json(file) : read_vocab_merges(path);
}

TokenizerFile read_vocabulary(const fs::path& path) {
  if (!is_gguf(path) && !has_sentencepiece_alone(path)) {
    if (!is_there(path / "tokenizer.json")) return read_vocab_merges(path);
    if (is_there(path / "vocab.json") && is_there(path / "merges.txt")) {
      TokenizerFile file = read_tokenizer_json(path / "tokenizer.json");
      return is_vocab_merges(file) ? read_vocab_merges(path) : std::move(file);
    }
  }
  return read_tokenizer(path);
}

}  // namespace plimsoll
