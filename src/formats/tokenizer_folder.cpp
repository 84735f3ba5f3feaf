#include "formats/tokenizer_folder.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "formats/atomic_file.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/tokenizer/sentencepiece.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kPieceBytes = 256 << 10;

constexpr std::string_view kTokenizerFiles[] = {"vocab.json",
                                                "vocab.txt",
                                                "merges.txt",
                                                "added_tokens.json",
                                                "special_tokens_map.json",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "tokenizer.model",
                                                "chat_template.jinja",
                                                "chat_template.json"};
constexpr std::string_view kGenerationFiles[] = {"generation_config.json"};

}  // namespace

bool has_vocabulary(const std::filesystem::path& folder) {
  if (is_gguf(folder)) return !tokenizer_file_in(folder).empty();
  const auto has = [&](const char* name) { return is_there(folder / name); };
  return has_sentencepiece_alone(folder) || has("tokenizer.json") || (has("vocab.json") && has("merges.txt")) ||
         (has("encoder.json") && has("vocab.bpe"));
}

std::string tokenizer_file_in(const std::filesystem::path& folder) {
  if (is_gguf(folder)) {
    return is_there(folder) && has_tokenizer(GgufFile::open(folder)) ? "tokenizer.ggml.tokens" : "";
  }
  for (const std::string_view name : {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json"}) {
    if (is_there(folder / name)) return std::string(name);
  }
  return {};
}

std::span<const std::string_view> tokenizer_files() { return kTokenizerFiles; }
std::span<const std::string_view> generation_files() { return kGenerationFiles; }

void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const std::string_view> names,
                bool replace) {
  std::error_code ignored;
  if (std::filesystem::equivalent(from, to, ignored)) return;
  for (const std::string_view name : names) {
    if (is_there(from / name) && (replace || !is_there(to / name))) copy_whole(from / name, to / name);
  }
}

void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to) {
  const File file = File::open(from);
  AtomicFile out(to);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kPieceBytes, file.size())));
  for (std::int64_t at = 0; at < file.size(); at += kPieceBytes) {
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, file.size() - at)));
    file.read_at(at, piece);
    out.write(piece);
  }
  out.commit();
}

}  // namespace plimsoll
