// Text to tokens and back as a Hugging Face folder has it (formats/tokenizer/tokenizer_file.h).
// encode() and decode() give what the package `tokenizers` gives for the same file. The file is parsed as hostile: what is broken
// or not computed is data_error E-TOKENIZER.
// GPT-2's two files take any bytes, and decode() gives them back: bytes that are not valid UTF-8 belong to no class of the
// pattern, and each maximal run of them is a word of its own. A word longer than kMostWord is cut there (published tokenizers
// never cut). Memory: about 60 bytes a token and its merge, a word cache of 1 MiB; up to twice the tables while the file is read.
// A text between special tokens that is longer than 320 KiB is encoded in sections of 16 to 64 KiB, which end where tokens do:
// after a letter or digit and before a line end, or else before a space. So the memory between a long text and its tokens stays
// below 42 MiB.
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

// How a part of a longer text is encoded.
struct TextPart {
  bool at_start = true;    // it is the begin of a text
  bool continues = false;  // a text was cut right before it: nothing is put in front of it
};

struct TracedTokens {
  std::vector<Token> tokens;
  std::vector<ByteRange> ranges;  // of each
};

class Tokenizer {
 public:
  // The tokenizer of a folder, of the file tokenizer.json or tokenizer.model itself, or of a GGUF file.
  static Tokenizer load(const std::filesystem::path& path);
  // The same, but GPT-2's two files where tokenizer.json has nothing that these lack.
  static Tokenizer of_vocabulary(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // One past the highest id of a token.
  std::int64_t size() const;
  // Bytes that hold any of its tokens: 2 or 4.
  std::int64_t bytes_per_token() const { return size() <= std::int64_t{1} << 16 ? 2 : 4; }
  // Identifies the files.
  const std::string& hash() const;
  // It is of GPT-2's two files.
  bool takes_any_bytes() const;
  // Tokens that such a folder adds beyond them (formats/tokenizer/vocab_merges.h), read by the first call.
  const std::vector<AddedToken>& unread();

  // The tokens of a whole text. data_error E-DATA-TEXT where it is not UTF-8. `insert`: with what the post-processor puts before
  // and behind it.
  std::vector<Token> encode(std::string_view text, SpecialTokens special = SpecialTokens::insert);
  // Appends those of a part of a text, without inserted ones.
  void encode_part(std::string_view text, TextPart part, std::vector<Token>& out);
  // Appends the tokens of the front of `text`, which may be any bytes, and returns how many bytes they cover: all of them where
  // this is the `last` piece, else all but at most kMostLeft. The next call starts with the uncovered bytes. Only if
  // takes_any_bytes(); unread tokens are not looked for.
  std::size_t encode_bytes(std::string_view text, bool last, std::vector<Token>& out);
  static constexpr std::size_t kMostWord = std::size_t{256} << 10, kMostLeft = kMostWord + 16;
  // The tokens of a whole text without inserted ones, and the bytes that each comes from, as the package's offsets have them.
  // Special tokens that touch the bytes of `ordinary`, which are sorted and apart, are text like any other there.
  TracedTokens encode_traced(std::string_view text, std::span<const ByteRange> ordinary = {});
  // The same in stretches, in order: visit(tokens, ranges) gets the next ones.
  using TracedVisit = std::function<void(std::span<const Token>, std::span<const ByteRange>)>;
  void encode_traced(std::string_view text, std::span<const ByteRange> ordinary, const TracedVisit& visit);
  const std::vector<Token>& before() const;
  const std::vector<Token>& behind() const;

  // data_error E-DATA-TOKEN: an id that is no token.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;
  // The bytes that a token adds in the middle of a text; none of a special one, unless takes_any_bytes().
  std::string inside(Token token) const;
  // The text of one token, a special one, too.
  std::string text_of(Token token) const;
  bool has(Token token) const;
  bool is_special(Token token) const;
  // The text that is this token wherever it stands; empty where the token is no added one.
  std::string added_text(Token token) const;
  // The token of exactly this text, added ones first; the highest number there is where none is.
  Token find(std::string_view text) const;

 private:
  struct State;
  struct Trace;
  void encode_into(std::string_view text, TextPart part, std::vector<Token>& out, Trace* trace);
  void encode_between(std::string_view text, ByteRange raw, TextPart begins, std::vector<Token>& out, Trace* trace);
  explicit Tokenizer(TokenizerFile file);
  std::unique_ptr<State> state_;
};

// Identifies the tokens that the vocabulary of a folder, or of a GGUF file, makes of a text; empty where there is none. Reads the
// files.
std::string vocabulary_hash(const std::filesystem::path& folder);

}  // namespace plimsoll
