// Text to tokens and back, for any kind of file (formats/tokenizer/tokenizer_file.h). encode() and decode() agree with the
// package `tokenizers` on the same file. The file is not trusted: broken or unsupported parts are data_error E-TOKENIZER.
// GPT-2's two files encode any bytes (encode_bytes()), and inside() gives the bytes of each token. Bytes that are not valid UTF-8
// belong to no class of the pattern, and each maximal run of them is a word. A word longer than kMostWord is cut there, while
// published tokenizers never cut. Memory: about 60 bytes for a token and its merge, a word cache of 1 MiB; up to twice the tables
// while the file is read.
// A text between special tokens that is longer than 320 KiB is encoded in sections of 16 to 64 KiB. A section ends between two
// tokens: after a letter or digit and before a line end, or else before a space. So the memory for encoding a long text stays
// below 42 MiB, in addition to the text and its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_range.h"
#include "formats/tokenizer/tokenizer_file.h"
#include "formats/tokenizer/vocab_merges.h"

namespace plimsoll {

enum class SpecialTokens { insert, leave_out };

// The place of a part in a longer text.
struct TextPart {
  bool at_start = true;    // the begin of the text
  bool continues = false;  // continues a text that was cut: gets no prefix
};

struct TracedTokens {
  std::vector<Token> tokens;
  std::vector<ByteRange> ranges;  // of each token
};

class Tokenizer {
 public:
  // The tokenizer of a folder, of a file tokenizer.json or tokenizer.model, or of a GGUF file.
  static Tokenizer load(const std::filesystem::path& path);
  // The tokenizer of a folder or of a GGUF file. GPT-2's two files take precedence over a tokenizer.json that adds nothing to
  // them.
  static Tokenizer of_vocabulary(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // One past the highest id of a token.
  std::int64_t size() const;
  // Bytes for storing a token: 2 or 4.
  std::int64_t bytes_per_token() const { return size() <= std::int64_t{1} << 16 ? 2 : 4; }
  // Identifies the content of the files.
  const std::string& hash() const;
  // True for GPT-2's two files.
  bool takes_any_bytes() const;
  // The tokens that their folder adds (formats/tokenizer/vocab_merges.h), read by the first call. Empty for any other kind.
  const std::vector<AddedToken>& unread();

  // The tokens of a whole text. `insert`: with the tokens of the post-processor before and after it. data_error E-DATA-TEXT: the
  // text is not UTF-8.
  std::vector<Token> encode(std::string_view text, SpecialTokens special = SpecialTokens::insert);
  // Appends the tokens of a part of a text, without inserted ones.
  void encode_part(std::string_view text, TextPart part, std::vector<Token>& out);
  // Appends the tokens of the front of `text`, which may be any bytes. Returns the number of encoded bytes: all if `last`, else
  // all but at most kMostLeft. The next call starts with the rest. Only if takes_any_bytes(). Unread tokens are not searched.
  std::size_t encode_bytes(std::string_view text, bool last, std::vector<Token>& out);
  static constexpr std::size_t kMostWord = std::size_t{256} << 10, kMostLeft = kMostWord + 16;
  // The tokens of a whole text without inserted ones, and the bytes from which each comes, like the package's offsets. Special
  // tokens that touch the bytes of `ordinary` are ordinary text; the ranges are sorted and do not touch.
  TracedTokens encode_traced(std::string_view text, std::span<const ByteRange> ordinary = {});
  // The same in parts, in order: visit(tokens, ranges) gets the next ones.
  using TracedVisit = std::function<void(std::span<const Token>, std::span<const ByteRange>)>;
  void encode_traced(std::string_view text, std::span<const ByteRange> ordinary, const TracedVisit& visit);
  const std::vector<Token>& before() const;
  const std::vector<Token>& behind() const;

  // The text of tokens; invalid UTF-8 becomes U+FFFD. data_error E-DATA-TOKEN: an id is no token.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;
  // The bytes that a token adds in the middle of a text. A special token adds none, unless takes_any_bytes().
  std::string inside(Token token) const;
  // The text of one token, also of a special one.
  std::string text_of(Token token) const;
  bool has(Token token) const;
  bool is_special(Token token) const;
  // The text of an added token, which is this token wherever it occurs; empty for any other token.
  std::string added_text(Token token) const;
  // The token with this text, added tokens first; kNoToken if there is none.
  Token find(std::string_view text) const;

 private:
  struct State;
  struct Trace;
  void encode_into(std::string_view text, TextPart part, std::vector<Token>& out, Trace* trace);
  void encode_between(std::string_view text, ByteRange raw, TextPart begins, std::vector<Token>& out, Trace* trace);
  explicit Tokenizer(TokenizerFile file);
  std::unique_ptr<State> state_;
};

// A hash of everything that determines the tokens of a text, for a folder or a GGUF file; empty without a vocabulary. Reads the
// files.
std::string vocabulary_hash(const std::filesystem::path& folder);

}  // namespace plimsoll
