// Training text through the tokenizer of a folder. A document is a text up to the text of the end token, or up to the end of the
// file: its tokens stand between what the tokenizer puts before and behind a text, and the end token follows.
// Text of any length is encoded in sections of 64 to 256 KiB, as the whole would be: a section ends behind a letter or digit and
// before a line end. Tokens depend on the text alone, not on the pieces that it comes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {

// The token that ends a document: eos_token_id (its first) of generation_config.json or config.json in one of the folders, else
// eos_token of tokenizer_config.json beside the tokenizer.
std::optional<Token> end_of_document(const Tokenizer& tokenizer, const std::filesystem::path& tokenizer_folder,
                                     const std::filesystem::path& weights_folder);

class DocumentEncoder {
 public:
  // encode_piece() may leave as many bytes.
  static constexpr std::size_t kMostLeft = (std::size_t{256} << 10) + (std::size_t{32} << 10);

  // Keeps a reference to the tokenizer. `name` of the text is for messages.
  DocumentEncoder(Tokenizer& tokenizer, std::optional<Token> end, std::string name);

  // Appends the tokens of the front of `text` and returns how many bytes they cover: all where this is the `last` piece. The next
  // call starts with the others. data_error E-DATA-TEXT: the text is not UTF-8.
  std::size_t encode_piece(std::string_view text, bool last, std::vector<Token>& tokens);

 private:
  struct Section {
    std::size_t size = 0, skip = 0;  // bytes to encode, and those of the end token behind them
  };
  // Nothing where more text is needed.
  std::optional<Section> next_section(std::string_view text, bool last) const;
  void begin(std::vector<Token>& tokens);
  void end(std::vector<Token>& tokens);

  Tokenizer& tokenizer_;
  std::optional<Token> end_;
  std::string end_text_, name_;
  std::uint64_t covered_ = 0;
  bool open_ = false;  // a document has begun
};

}  // namespace plimsoll
