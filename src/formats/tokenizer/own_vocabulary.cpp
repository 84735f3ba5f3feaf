#include "formats/tokenizer/own_vocabulary.h"

#include <optional>

#include "formats/bpe_vocabulary.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer_folder.h"

namespace plimsoll {

bool has_vocabulary(const std::filesystem::path& folder) {
  if (is_gguf(folder)) return !tokenizer_file_in(folder).empty();
  const auto has = [&](const char* name) { return is_there(folder / name); };
  return has_sentencepiece_alone(folder) || has("tokenizer.json") || (has("vocab.json") && has("merges.txt")) ||
         (has("encoder.json") && has("vocab.bpe"));
}

std::string vocabulary_hash(const std::filesystem::path& folder) {
  if (folder.empty() || !has_vocabulary(folder)) return {};
  if (const std::optional<Tokenizer> tokenizer = tokenizer_beyond_gpt2(folder)) return tokenizer->hash();
  return BpeVocabulary::load(folder).hash();
}

}  // namespace plimsoll
