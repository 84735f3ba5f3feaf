#include "data/source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/cache_folders.h"
#include "data/conversions.h"
#include "data/data_formats.h"
#include "data/document_encoder.h"
#include "data/file_kind.h"
#include "data/file_pieces.h"
#include "data/text_bytes.h"
#include "data/token_cache.h"
#include "formats/tokenizer_folder.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostNarrow = 1 << 16;  // tokens of two bytes

Error malformed(const File& file, std::string why, std::string expected, Remedies remedies = {}) {
  return data_error("E-DATA-FORMAT", file.path(), std::move(why), std::move(expected), std::move(remedies));
}

bool holds_tokens(std::string_view format) { return format == "u16" || format == "u32" || format == "llmc"; }

bool named_tokens(const std::filesystem::path& path) { return path.extension() == ".bin"; }

std::string format_by_name(const SourceRequest& request, const std::filesystem::path& path) {
  if (named_tokens(path)) return "u16";
  if (!request.vocabulary.empty() && (request.vocab > 256 || !request.trained.empty())) return "bpe";
  if (request.trained.empty()) return "bytes";
  const std::string tokenizer = tokenizer_file_in(request.trained);
  const std::string what = tokenizer.empty() ? "which holds no vocabulary" : fmt::format("whose {} alone is not read", tokenizer);
  throw data_error(
      "E-TOKENIZER", path.string(),
      fmt::format("it is text, and the model knows the tokens of {}, {}", request.trained.string(), what),
      "tokenizer.json in that folder, or vocab.json and merges.txt, or tokens: the bytes of text mean nothing to the model",
      {Remedy(Change("data.vocabulary", "FOLDER"), "of tokenizer.json, or of vocab.json and merges.txt"),
       Remedy(Change("data.format", "bytes"), "to train on bytes anyway")});
}

// True if the file is read as tokens, false for text.
bool reads_tokens(const SourceRequest& request, const File& file) {
  return request.format == "auto" ? named_tokens(file.path()) : holds_tokens(request.format);
}

// Judges a file by its first bytes, with "auto" by its name, too.
void refuse_other_kinds(const SourceRequest& request, const File& file) {
  const bool given = request.format != "auto", tokens = reads_tokens(request, file);
  const std::int64_t vocab = request.format == "u32" ? std::int64_t{1} << 32 : request.vocab;  // u32 has any token
  const std::optional<ForeignKind> foreign = foreign_kind(file, tokens, vocab, given ? KindBy::bytes : KindBy::all);
  if (!foreign) return;
  Remedies remedies{foreign->remedy, Remedy(Change("data.format", "bytes"), "to read it unchanged")};
  if (!given && tokens) remedies.back() = Remedy(Change("data.format", "u16"), "to read it unchanged");
  if (foreign->json)
    remedies.insert(remedies.begin(), Remedy(Change("data.format", "chat"), "for conversations and other samples"));
  const std::string expected = given ? fmt::format("{}, as data.format = \"{}\" says", tokens ? "tokens" : "text", request.format)
                               : tokens ? "uint16 tokens, as .bin says"
                                        : "text";
  throw data_error("E-DATA-FORMAT", file.path(), fmt::format("it looks like {}", foreign->what),
                   expected + (foreign->json ? ", or samples with data.format = \"chat\"" : ""), std::move(remedies));
}

std::string detected_format(const SourceRequest& request, const File& file) {
  if (begins_like_llmc(file)) return "llmc";
  refuse_other_kinds(request, file);
  return format_by_name(request, file.path());
}

struct OpenPart {
  TokenPart part;
  std::int64_t bytes_per_token = 1;
};

OpenPart part_of(File file, std::int64_t offset, std::int64_t bytes_per_token) {
  TokenPart part;
  part.stamp = stamp_of(file);
  part.name = file.path();
  part.offset = offset;
  part.tokens = (file.size() - offset) / bytes_per_token;
  part.file = std::move(file);
  return {std::move(part), bytes_per_token};
}

OpenPart open_raw(File file, std::int64_t bytes_per_token) {
  if (file.size() % bytes_per_token != 0) {
    const bool narrow = bytes_per_token == 2;
    throw malformed(file, fmt::format("it has {} bytes, {}", file.size(), narrow ? "an odd number" : "no multiple of 4"),
                    narrow ? "raw little-endian uint16 tokens; for text set data.format = \"bytes\""
                           : "raw little-endian uint32 tokens; for those of two bytes set data.format = \"u16\"");
  }
  return part_of(std::move(file), 0, bytes_per_token);
}

OpenPart open_llmc(File file) {
  const LlmcHeader header = read_llmc_header(file);
  const std::int64_t width = bytes_per_token(header);
  const bool whole = file.size() >= kLlmcHeaderBytes;
  if (width == 0 || !whole) {
    throw malformed(
        file,
        fmt::format("its header has the magic number {} and version {}{}", header.magic, header.version,
                    whole ? "" : fmt::format(", and the file ends after {} bytes", file.size())),
        fmt::format("llm.c's header of {} bytes: {} and version {} before uint16 tokens, {} and version {} before uint32 tokens",
                    kLlmcHeaderBytes, kLlmcNarrow.magic, kLlmcNarrow.version, kLlmcWide.magic, kLlmcWide.version),
        {Remedy(Change("data.format", "u16"), "or u32, if it is raw tokens")});
  }
  const std::int64_t expected = kLlmcHeaderBytes + width * header.tokens;
  if (header.tokens < 0 || expected != file.size()) {
    throw malformed(file,
                    fmt::format("its header claims {} tokens of {} bytes and it has {} bytes", header.tokens, width, file.size()),
                    fmt::format("{} bytes; the file is cut or was extended", expected));
  }
  return part_of(std::move(file), kLlmcHeaderBytes, width);
}

// Streams text through an encoder into `out`: encode_piece(buffer, last, tokens) returns the number of bytes covered. The buffer
// keeps the rest, at most `most_left`, in front of the next piece. Returns the hash of the bytes read.
template <class Encode>
std::string tokenise(const File& text, bool narrow, std::size_t most_left, TokenCacheWriter& out, Encode&& encode_piece) {
  Hasher read;
  std::string buffer;
  std::vector<Token> tokens;
  std::vector<std::uint16_t> halves;
  buffer.reserve(most_left + 2 * static_cast<std::size_t>(kPieceBytes));
  const auto encode = [&](bool last) {
    tokens.clear();
    buffer.erase(0, encode_piece(std::string_view(buffer), last, tokens));
    if (narrow) halves.assign(tokens.begin(), tokens.end());
    out.write(narrow ? std::as_bytes(std::span(halves)) : std::as_bytes(std::span(tokens)));
  };
  for_each_piece(text, 0, text.size(), [&](std::span<const std::byte> piece) {
    read.add(piece);
    buffer.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    encode(false);
  });
  encode(true);
  return read.hex();
}

void require_vocabulary(const SourceRequest& request) {
  if (!request.vocabulary.empty()) return;
  const std::string tokenizer = request.trained.empty() ? "" : tokenizer_file_in(request.trained);
  if (!tokenizer.empty()) {
    throw data_error(
        "E-TOKENIZER", "data.vocabulary",
        fmt::format("data.format is \"bpe\", and {} holds {} alone, which is not read", request.trained.string(), tokenizer),
        "tokenizer.json, or vocab.json and merges.txt, in that folder or in that of data.vocabulary");
  }
  throw config_error("E-CONFIG-VALUE", "data.vocabulary", "data.format is \"bpe\" and no vocabulary is given",
                     "a folder with tokenizer.json, with vocab.json and merges.txt, or with encoder.json and vocab.bpe");
}

// Refuses files that are hardly text. A vocabulary with all bytes encodes any file, and another encoding or packed bytes would be
// trained on as noise.
void refuse_other_text(const File& text, const Utf8Count& count) {
  constexpr std::int64_t kFew = 16, kShare = 200;
  if (count.invalid < kFew || count.invalid * kShare < count.bytes) return;
  throw data_error("E-DATA-TEXT", text.path(), fmt::format("{} of its {} bytes are no UTF-8", count.invalid, count.bytes),
                   "text in UTF-8",
                   {conversion("iconv -f LATIN1 -t UTF-8 FILE > OUT.txt  # if it is Latin-1", text.path()),
                    Remedy(Change("data.format", "bytes"), "to read it unchanged")});
}

void add(const SampleCounts& more, SampleCounts& to) {
  for (const auto& [name, count] : kSampleCounts) to.*count += more.*count;
}

// Finds tokens that may lie across two pieces of a text.
class UnreadSearch {
 public:
  UnreadSearch(const std::string& name, std::span<const AddedToken> tokens) : name_(name), tokens_(tokens) {
    for (const AddedToken& token : tokens) longest_ = std::max(longest_, token.text.size());
  }

  void look_at(std::span<const std::byte> piece) {
    if (tokens_.empty()) return;
    window_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    for (const AddedToken& token : tokens_) {
      const std::size_t at = window_.find(token.text);
      if (at != std::string::npos) throw unread_token_error(token, name_, begin_ + at);
    }
    const std::size_t done = window_.size() - std::min(window_.size(), longest_ - 1);
    window_.erase(0, done);
    begin_ += done;
  }

 private:
  const std::string& name_;
  std::span<const AddedToken> tokens_;
  std::size_t longest_ = 1, begin_ = 0;
  std::string window_;
};

// Text through a vocabulary, which is read once for all files.
class Tokeniser {
 public:
  explicit Tokeniser(const SourceRequest& request) : request_(request) {}

  OpenPart open(const File& text, TokenFile& source) {
    if (!tokenizer_) load();
    const TextFacts facts = facts_of(text);
    TokenCacheFile cached = tokens_of(text, facts);
    add(cached.counts, source.counts);
    source.counts.not_utf8 += facts.not_utf8;
    OpenPart opened = part_of(std::move(cached.file), cached.offset, tokenizer_->bytes_per_token());
    opened.part.stamp = cached.stamp;
    opened.part.name = text.path();
    check_rows(opened);
    return opened;
  }

 private:
  // The file may come from the cache, written for a model with more rows.
  void check_rows(const OpenPart& opened) const {
    const std::int64_t width = opened.bytes_per_token;
    if (tokenizer_->size() <= request_.vocab) return;
    const std::int64_t begin = opened.part.offset, end = begin + opened.part.tokens * width;
    for_each_piece(opened.part.file, begin, end, [&](std::span<const std::byte> piece) {
      for (std::size_t at = 0; at < piece.size(); at += static_cast<std::size_t>(width)) {
        const Token token = stored_token(piece.data() + at, width);
        if (token < request_.vocab) continue;
        throw rowless_token_error(opened.part.name, tokenizer_->text_of(token), token, request_.vocab);
      }
    });
  }

  void load() {
    require_vocabulary(request_);
    tokenizer_ = Tokenizer::of_vocabulary(request_.vocabulary);
    tokenizer_->unread();
    if (!tokenizer_->takes_any_bytes()) end_ = end_of_document(*tokenizer_, request_.vocabulary, request_.trained);
    const std::int64_t size = tokenizer_->size();
    if (size > request_.vocab && !request_.keeps_vocab) {
      throw data_error("E-DATA-TOKEN", request_.vocabulary.string(),
                       fmt::format("it has {} tokens and the model has {}", size, request_.vocab),
                       "a model whose vocabulary is at least as large", {Change("model.vocab", size)});
    }
  }

  struct TextFacts {
    std::string hash;           // of all bytes
    std::int64_t not_utf8 = 0;  // bytes; counted if the vocabulary takes any byte
  };

  void tokenise_into(const File& text, const TextFacts& facts, const std::filesystem::path& target) {
    const bool narrow = tokenizer_->bytes_per_token() == 2;
    TokenCacheWriter out(target, tokenizer_->bytes_per_token());
    SampleCounts counts;
    std::string read;
    if (!tokenizer_->takes_any_bytes()) {
      DocumentEncoder encoder(*tokenizer_, end_, text.path(), Documents::many);
      read = tokenise(text, narrow, DocumentEncoder::kMostLeft, out,
                      [&](std::string_view piece, bool last, std::vector<Token>& tokens) {
                        return encoder.encode_piece(piece, last, tokens);
                      });
      counts.own_begins = encoder.began_itself() ? 1 : 0;
    } else {
      read =
          tokenise(text, narrow, Tokenizer::kMostLeft, out, [&](std::string_view piece, bool last, std::vector<Token>& tokens) {
            return tokenizer_->encode_bytes(piece, last, tokens);
          });
    }
    // The tokens would get the name of the previous content.
    if (read != facts.hash) throw changed_data(text.path());
    out.commit(counts);
  }

  // The tokens of a text, from one of the two folders or made now.
  TokenCacheFile tokens_of(const File& text, const TextFacts& facts) {
    const std::string name = token_file_name(facts);
    const CacheFolders folders{request_.cache, request_.elsewhere};
    if (std::optional<File> found = folders.find(name)) {
      try {
        return open_token_cache(*std::move(found), tokenizer_->bytes_per_token());
      } catch (const Error&) {
        // Cut or damaged: made again.
      }
    }
    const std::filesystem::path folder =
        folders.fill({name}, [&](const std::filesystem::path& to) { tokenise_into(text, facts, to / name); });
    return open_token_cache(File::open(folder / name, "E-DATA-MISSING"), tokenizer_->bytes_per_token());
  }

  // Cache files are named by content, so the text is read once in any case.
  TextFacts facts_of(const File& text) {
    Hasher hasher;
    UnreadSearch search(text.path(), tokenizer_->unread());
    Utf8Meter meter;
    for_each_piece(text, 0, text.size(), [&](std::span<const std::byte> piece) {
      hasher.add(piece);
      search.look_at(piece);
      if (tokenizer_->takes_any_bytes()) meter.add(piece);
    });
    refuse_other_text(text, meter.finish());
    return {hasher.hex(), meter.finish().invalid};
  }

  std::string token_file_name(const TextFacts& facts) const {
    Hasher hasher;
    hasher.add(tokenizer_->takes_any_bytes() ? "tokens/2" : "documents/2").add(tokenizer_->hash());
    if (!tokenizer_->takes_any_bytes()) hasher.add(end_ ? fmt::format("{}", *end_) : "");
    return fmt::format("tokens-{}.bin", hasher.add(facts.hash).hex());
  }

  const SourceRequest& request_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<Token> end_;  // of a document
};

bool is_stream_format(std::string_view format) { return std::ranges::find(kStreamFormats, format) != kStreamFormats.end(); }

Error unknown_format(const std::string& format) {
  std::vector<std::string> names{"auto"};
  names.insert(names.end(), kStreamFormats.begin(), kStreamFormats.end());
  const std::string nearest = nearest_name(format, names);
  return config_error("E-CONFIG-VALUE", "data.format", fmt::format("'{}' is no format of training data", format),
                      fmt::format("one of {}", fmt::join(names, ", ")),
                      nearest.empty() ? Remedies{} : Remedies{Change("data.format", nearest)});
}

// The part that holds a token, and the position of its first token in the stream.
std::pair<const TokenPart*, std::int64_t> part_at(const TokenFile& source, std::int64_t token) {
  std::int64_t begin = 0;
  for (const TokenPart& part : source.parts) {
    if (token < begin + part.tokens) return {&part, begin};
    begin += part.tokens;
  }
  throw internal_error("TokenFile", "a token past the end");
}

// Calls visit(piece, first) for the bytes of the first `tokens` tokens; no piece holds tokens of two parts.
template <class Visit>
void for_each_token_piece(const TokenFile& source, std::int64_t tokens, Visit&& visit) {
  std::int64_t first = 0;
  for (const TokenPart& part : source.parts) {
    const std::int64_t count = std::min(part.tokens, tokens - first);
    if (count <= 0) continue;
    std::int64_t at = first;
    for_each_piece(part.file, part.offset, part.offset + count * source.bytes_per_token, [&](std::span<const std::byte> piece) {
      visit(piece, at);
      at += std::ssize(piece) / source.bytes_per_token;
    });
    require_unchanged(part.file, part.stamp);
    first += count;
  }
}

std::string format_of(const SourceRequest& request, const File& file) {
  if (request.format == "auto") return detected_format(request, file);
  if (!is_stream_format(request.format)) throw unknown_format(request.format);
  if (request.format != "bytes" && request.format != "llmc") refuse_other_kinds(request, file);
  return request.format;
}

OpenPart open_part(File file, std::string_view format, Tokeniser& tokeniser, TokenFile& source) {
  if (format == "u16") return open_raw(std::move(file), 2);
  if (format == "u32") return open_raw(std::move(file), 4);
  if (format == "llmc") return open_llmc(std::move(file));
  if (format == "bpe") return tokeniser.open(file, source);
  return part_of(std::move(file), 0, 1);
}

}  // namespace

void TokenFile::read(std::int64_t first, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto [part, begin] = part_at(*this, first);
    const std::int64_t count = std::min(std::ssize(bytes) / bytes_per_token, begin + part->tokens - first);
    const auto piece = bytes.first(static_cast<std::size_t>(count * bytes_per_token));
    part->file.read_at(part->offset + (first - begin) * bytes_per_token, piece);
    require_unchanged(part->file, part->stamp);
    first += count;
    bytes = bytes.subspan(piece.size());
  }
}

Error token_error(const TokenFile& source, std::int64_t position, std::int64_t token) {
  constexpr std::int64_t kLargest = 1 << 24;  // vocabulary of a model
  const auto [part, begin] = part_at(source, position);
  if (source.keeps_vocab) {
    return data_error("E-DATA-TOKEN", part->name, fmt::format("token {} is {}", position - begin, token),
                      fmt::format("tokens below the {} rows of the model, if data.format is right", source.vocab));
  }
  return data_error("E-DATA-TOKEN", part->name, fmt::format("token {} is {}", position - begin, token),
                    fmt::format("tokens below the model's vocabulary of {}, if data.format is right", source.vocab),
                    {token < kLargest ? Remedy(Change("model.vocab", token + 1))
                                      : Remedy(Change("data.format", "u16"), "if tokens have two bytes")});
}

Error rowless_token_error(std::string where, std::string_view text, std::int64_t token, std::int64_t vocab) {
  return data_error("E-DATA-TOKEN", std::move(where),
                    fmt::format("it has '{}', which is token {}, and the model has {} rows", text, token, vocab),
                    "data without this token, or weights that have a row for it");
}

TokenFile open_source(const SourceRequest& request) {
  TokenFile source;
  source.vocab = request.vocab;
  source.keeps_vocab = request.keeps_vocab;
  Tokeniser tokeniser(request);
  for (const std::filesystem::path& path : data_files(request.paths)) {
    File file = File::open(path, "E-DATA-MISSING");
    if (file.size() == 0) throw data_error("E-DATA-EMPTY", file.path(), "it is empty", "text or tokens to train on");
    const std::string format = format_of(request, file);
    if (format == "bpe" && looks_like_json(file)) {
      source.notes.push_back(
          fmt::format("{} looks like JSON, and its text is trained on as it stands, keys and brackets included; "
                      "data.format = \"chat\" reads samples",
                      file.path()));
    }
    if (const auto foreign =
            format == "bytes" ? foreign_kind(file, /*tokens=*/false, request.vocab, KindBy::bytes) : std::nullopt) {
      source.notes.push_back(
          fmt::format("{} looks like {}; data.format = \"bytes\" trains on its bytes as they stand", file.path(), foreign->what));
    }
    if (!source.parts.empty() && format != source.format) {
      throw data_error("E-DATA-FORMAT", file.path(),
                       fmt::format("it is taken for {} and {} for {}", format, source.parts.front().name, source.format),
                       "files of one format", {Remedy(Change("data.format", source.format), "if all files have it")});
    }
    OpenPart opened = open_part(std::move(file), format, tokeniser, source);
    if (!source.parts.empty() && opened.bytes_per_token != source.bytes_per_token) {
      throw data_error("E-DATA-FORMAT", opened.part.name,
                       fmt::format("its tokens have {} bytes and those of {} {}", opened.bytes_per_token,
                                   source.parts.front().name, source.bytes_per_token),
                       "files of one width in data.train, and in data.validation");
    }
    source.format = format;
    source.bytes_per_token = opened.bytes_per_token;
    source.tokens += opened.part.tokens;
    source.parts.push_back(std::move(opened.part));
  }
  if (source.counts.own_begins > 0) {
    source.notes.push_back(
        fmt::format("{} begins with the begin token of its tokenizer: documents begin and end where its text "
                    "says so, and no token is added",
                    request.paths.text()));
  }
  if (source.counts.not_utf8 > 0) {
    source.notes.push_back(fmt::format("{} byte(s) of {} are no UTF-8: they become tokens of single bytes",
                                       source.counts.not_utf8, request.paths.text()));
  }
  source.name = source.parts.size() == 1 ? source.parts.front().name : request.paths.text();
  if (source.tokens < 2) {
    throw data_error("E-DATA-SHORT", source.name, fmt::format("it has {} token(s)", source.tokens),
                     "at least 2: one to read and one to predict");
  }
  return source;
}

AssumedSource assume_source(const SourceRequest& request) {
  const std::filesystem::path& first = request.paths.names.at(0);
  const std::string format = request.format == "auto" ? format_by_name(request, first) : request.format;
  if (!is_stream_format(format)) throw unknown_format(format);
  if (format == "bpe") require_vocabulary(request);
  if (format == "bytes") return {format, 1};
  if (format == "u16") return {format, 2};
  if (format == "u32") return {format, 4};
  return {format, request.vocab <= kMostNarrow ? 2 : 4};
}

void require_one_kind(const TokenFile& train, const TokenFile& validation) {
  if (train.format == validation.format || (holds_tokens(train.format) && holds_tokens(validation.format))) return;
  throw data_error(
      "E-DATA-FORMAT", validation.name,
      fmt::format("it is taken for {} and the training data ({}) for {}", validation.format, train.name, train.format),
      "validation data of the same format: a loss over other tokens says nothing of this training",
      {Remedy(Change("data.format", train.format), "if both have it")});
}

void check_tokens(const TokenFile& source, std::int64_t context, std::int64_t samples) {
  if (source.vocab >= std::int64_t{1} << (8 * source.bytes_per_token)) return;
  const std::int64_t tokens = samples > 0 && samples < source.tokens / context ? samples * context + 1 : source.tokens;
  const auto width = static_cast<std::size_t>(source.bytes_per_token);
  for_each_token_piece(source, tokens, [&](std::span<const std::byte> piece, std::int64_t position) {
    for (std::size_t at = 0; at < piece.size(); at += width, ++position) {
      const std::uint32_t token = stored_token(piece.data() + at, source.bytes_per_token);
      if (token >= source.vocab) throw token_error(source, position, token);
    }
  });
}

std::string content_hash(const TokenFile& source) {
  Hasher hasher;
  hasher.add(fmt::format("{} x {}", source.tokens, source.bytes_per_token));
  for_each_token_piece(source, source.tokens, [&](std::span<const std::byte> piece, std::int64_t) { hasher.add(piece); });
  return hasher.hex();
}

}  // namespace plimsoll
