// Training text through the tokenizer of a folder. A document is a text up to the text of the end token, or up to the end of the
// file. Its tokens stand between the tokens that the tokenizer puts before and after a text; the end token follows. Tokens that a
// text already has are not added again.
// Text is encoded in sections of 64 to 256 KiB with the tokens that the whole would have: a section ends between a letter or
// digit and a line end. The tokens depend on the text alone, not on its division into pieces.
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
// eos_token of tokenizer_config.json next to the tokenizer.
std::optional<Token> end_of_document(const Tokenizer& tokenizer, const std::filesystem::path& tokenizer_folder,
                                     const std::filesystem::path& weights_folder);

// The tokens that the tokenizer and training put around a text. A text may have them already, for example after rendering by a
// chat template.
class TextEdges {
 public:
  TextEdges(const Tokenizer& tokenizer, std::optional<Token> end);

  // True if `text` begins with the texts of the tokens that the tokenizer puts before a text.
  bool begins(std::string_view text) const { return !begin_text_.empty() && text.starts_with(begin_text_); }
  // True if `text` ends with the text of the end token; white space may follow it.
  bool ends(std::string_view text) const;
  // Empty if there is no such token.
  const std::string& begin_text() const { return begin_text_; }
  const std::string& end_text() const { return end_text_; }
  void put_before(std::vector<Token>& tokens) const;
  // Appends the tokens that the tokenizer puts after a text, and the end token.
  void put_behind(std::vector<Token>& tokens) const;

 private:
  std::vector<Token> before_, behind_;
  std::string begin_text_, end_text_;
};

// The content of a text: one document, or a file of several. A file that begins with the begin token marks its documents itself
// and counts as one.
enum class Documents { one, many };

class DocumentEncoder {
 public:
  // The most bytes that encode_piece() leaves.
  static constexpr std::size_t kMostLeft = (std::size_t{256} << 10) + (std::size_t{32} << 10);

  // Keeps a reference to the tokenizer. `name`: of the text, for messages.
  DocumentEncoder(Tokenizer& tokenizer, std::optional<Token> end, std::string name, Documents documents);

  // Appends the tokens of the front of `text` and returns the number of bytes that they cover: all if this is the `last` piece.
  // The next call starts with the rest. data_error E-DATA-TEXT: the text is not UTF-8.
  std::size_t encode_piece(std::string_view text, bool last, std::vector<Token>& tokens);

  // After the first token: true if the text has its own begin token, so that none was added.
  bool began_itself() const { return own_begin_; }
  // After the last piece: true if the text ends with its own end token, so that none was added.
  bool ended_itself() const { return own_end_; }

 private:
  struct Section {
    std::size_t size = 0, skip = 0;  // bytes to encode, and bytes of the end token after them
  };
  // Nothing if more text is needed.
  std::optional<Section> next_section(std::string_view text, bool last) const;
  void encode_part(std::string_view part, bool last, std::vector<Token>& tokens);

  Tokenizer& tokenizer_;
  TextEdges edges_;
  std::string name_;
  bool splits_;  // at end tokens
  std::uint64_t covered_ = 0;
  bool open_ = false;   // a document has begun
  bool ended_ = false;  // the encoded text ends with an end token and white space
  bool own_begin_ = false, own_end_ = false;
};

}  // namespace plimsoll
