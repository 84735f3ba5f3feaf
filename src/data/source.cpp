#include "data/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "formats/bpe.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kLlmcHeaderBytes = 1024;
constexpr std::int32_t kLlmcMagic = 20240520;
constexpr std::int64_t kPieceBytes = 256 << 10;

struct LlmcHeader {
  std::int32_t magic = 0, version = 0, tokens = 0;
};

LlmcHeader read_llmc_header(const File& file) {
  LlmcHeader header;
  if (file.size() >= kLlmcHeaderBytes) file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  return header;
}

Error malformed(const File& file, std::string why, std::string expected) {
  return data_error("E-DATA-FORMAT", file.path(), std::move(why), std::move(expected));
}

// Calls visit(piece) for the bytes [begin, end) of a file, and drops them from the page cache.
template <class Visit>
void for_each_piece(const File& file, std::int64_t begin, std::int64_t end, Visit&& visit) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kPieceBytes, end - begin)));
  for (std::int64_t at = begin; at < end; at += kPieceBytes) {
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, end - at)));
    file.read_at(at, piece);
    visit(std::span<const std::byte>(piece));
    ::posix_fadvise(file.fd(), at, kPieceBytes, POSIX_FADV_DONTNEED);
  }
}

std::string format_by_name(const SourceRequest& request) {
  if (request.path.extension() == ".bin") return "u16";
  return request.vocab > 256 && !request.vocabulary.empty() ? "bpe" : "bytes";
}

std::string detected_format(const SourceRequest& request, const File& file) {
  return read_llmc_header(file).magic == kLlmcMagic ? "llmc" : format_by_name(request);
}

TokenFile fixed_width(File file, std::int64_t offset, std::int64_t bytes_per_token, const SourceRequest& request) {
  TokenFile source;
  source.tokens = (file.size() - offset) / bytes_per_token;
  source.file = std::move(file);
  source.name = request.path.string();
  source.offset = offset;
  source.bytes_per_token = bytes_per_token;
  source.vocab = request.vocab;
  return source;
}

TokenFile open_u16(File file, const SourceRequest& request) {
  if (file.size() % 2 != 0) {
    throw malformed(file, fmt::format("it has {} bytes, an odd number", file.size()),
                    "raw little-endian uint16 tokens; for text set data.format = \"bytes\"");
  }
  return fixed_width(std::move(file), 0, 2, request);
}

TokenFile open_llmc(File file, const SourceRequest& request) {
  const LlmcHeader header = read_llmc_header(file);
  if (header.magic != kLlmcMagic || header.version != 1) {
    throw malformed(file, fmt::format("its header has the magic number {} and version {}", header.magic, header.version),
                    fmt::format("llm.c's header of 1024 bytes with {} and version 1", kLlmcMagic));
  }
  const std::int64_t expected = kLlmcHeaderBytes + 2 * std::int64_t{header.tokens};
  if (header.tokens < 0 || expected != file.size()) {
    throw malformed(file, fmt::format("its header claims {} tokens and it has {} bytes", header.tokens, file.size()),
                    fmt::format("{} bytes; the file is cut or was extended", expected));
  }
  return fixed_width(std::move(file), kLlmcHeaderBytes, 2, request);
}

// Streams text through the encoder into `target`. The buffer keeps what the encoder has not covered yet in front of the next
// piece.
void tokenise(const File& text, const BpeVocabulary& vocabulary, const std::filesystem::path& target) {
  AtomicFile out(target);
  BpeEncoder encoder(vocabulary);
  std::string buffer;
  std::vector<Token> tokens;
  buffer.reserve(kBpeLookAhead + 2 * static_cast<std::size_t>(kPieceBytes));
  const auto encode = [&](bool last) {
    tokens.clear();
    buffer.erase(0, encoder.encode_piece(buffer, last, tokens));
    out.write(std::as_bytes(std::span(tokens)));
  };
  for_each_piece(text, 0, text.size(), [&](std::span<const std::byte> piece) {
    buffer.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    encode(false);
  });
  encode(true);
  out.commit();
}

std::string token_file_name(const File& text, const BpeVocabulary& vocabulary) {
  Hasher hasher;
  hasher.add("tokens/1").add(vocabulary.hash());
  for_each_piece(text, 0, text.size(), [&](std::span<const std::byte> piece) { hasher.add(piece); });
  return fmt::format("tokens-{}.bin", hasher.hex());
}

bool made_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return !error && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// The tokens of a text, from one of the two folders or made now.
std::filesystem::path tokens_of(const File& text, const BpeVocabulary& vocabulary, const SourceRequest& request) {
  const std::string name = token_file_name(text, vocabulary);
  for (const std::filesystem::path& folder : {request.cache, request.elsewhere}) {
    std::error_code ignored;
    if (!folder.empty() && std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  const bool cached = made_writable(request.cache);
  if (!cached && (request.elsewhere.empty() || !made_writable(request.elsewhere))) {
    throw data_error("E-IO-WRITE", request.cache.string(), "the folder for token files cannot be written",
                     "a folder that can be written, in XDG_CACHE_HOME",
                     {"export XDG_CACHE_HOME=/tmp/cache, and the same command again"});
  }
  const std::filesystem::path& folder = cached ? request.cache : request.elsewhere;
  remove_abandoned_partials(folder);
  try {
    tokenise(text, vocabulary, folder / name);
  } catch (Error& error) {
    if (cached) error.remedies = {"export XDG_CACHE_HOME=FOLDER, one with more space, and the same command again"};
    throw;
  }
  return folder / name;
}

void require_vocabulary(const SourceRequest& request) {
  if (!request.vocabulary.empty()) return;
  throw config_error("E-CONFIG-VALUE", "data.vocabulary", "data.format is \"bpe\" and no vocabulary is given",
                     "a folder with encoder.json and vocab.bpe, or with vocab.json and merges.txt");
}

TokenFile open_bpe(File text, const SourceRequest& request) {
  require_vocabulary(request);
  const BpeVocabulary vocabulary = BpeVocabulary::load(request.vocabulary);
  if (vocabulary.size() > request.vocab) {
    throw data_error("E-DATA-TOKEN", request.vocabulary.string(),
                     fmt::format("it has {} tokens and the model has {}", vocabulary.size(), request.vocab),
                     "a model whose vocabulary is at least as large", {fmt::format("--set model.vocab={}", vocabulary.size())});
  }
  const std::filesystem::path tokens = tokens_of(text, vocabulary, request);
  return open_u16(File::open(tokens, "E-DATA-MISSING"), request);
}

using Opener = TokenFile (*)(File, const SourceRequest&);
constexpr std::array<std::pair<std::string_view, Opener>, 4> kFormats{
    {{"bytes", [](File file, const SourceRequest& request) { return fixed_width(std::move(file), 0, 1, request); }},
     {"u16", open_u16},
     {"llmc", open_llmc},
     {"bpe", open_bpe}}};

Error unknown_format(const std::string& format) {
  std::vector<std::string> names{"auto"};
  for (const auto& [name, opener] : kFormats) names.emplace_back(name);
  const std::string nearest = nearest_name(format, names);
  return config_error("E-CONFIG-VALUE", "data.format", fmt::format("'{}' is no format of training data", format),
                      "\"auto\", \"bytes\", \"u16\", \"llmc\" or \"bpe\"",
                      nearest.empty() ? std::vector<std::string>{} : std::vector{"--set data.format=" + nearest});
}

}  // namespace

Error token_error(const TokenFile& source, std::int64_t position, std::int64_t token) {
  return data_error("E-DATA-TOKEN", source.name, fmt::format("token {} is {}", position, token),
                    fmt::format("tokens below the model's vocabulary of {}, if data.format is what the file is", source.vocab),
                    {fmt::format("--set model.vocab={}", token + 1)});
}

TokenFile open_source(const SourceRequest& request) {
  File file = File::open(request.path, "E-DATA-MISSING");
  if (file.size() == 0) throw data_error("E-DATA-EMPTY", file.path(), "it is empty", "text or tokens to train on");
  const std::string format = request.format == "auto" ? detected_format(request, file) : request.format;
  const auto found = std::ranges::find(kFormats, format, &std::pair<std::string_view, Opener>::first);
  if (found == kFormats.end()) throw unknown_format(format);
  TokenFile source = found->second(std::move(file), request);
  if (source.tokens < 2) {
    throw data_error("E-DATA-SHORT", source.name, fmt::format("it has {} token(s)", source.tokens),
                     "at least 2: one to read and one to predict");
  }
  return source;
}

AssumedSource assume_source(const SourceRequest& request) {
  const std::string format = request.format == "auto" ? format_by_name(request) : request.format;
  const auto found = std::ranges::find(kFormats, format, &std::pair<std::string_view, Opener>::first);
  if (found == kFormats.end()) throw unknown_format(format);
  if (format == "bpe") require_vocabulary(request);
  return {format, format == "bytes" ? 1 : 2};
}

void check_tokens(const TokenFile& source, std::int64_t context, std::int64_t samples) {
  if (source.vocab >= std::int64_t{1} << (8 * source.bytes_per_token)) return;
  const std::int64_t tokens = samples > 0 && samples < source.tokens / context ? samples * context + 1 : source.tokens;
  std::int64_t position = 0;
  for_each_piece(
      source.file, source.offset, source.offset + tokens * source.bytes_per_token, [&](std::span<const std::byte> piece) {
        for (std::size_t at = 0; at < piece.size(); at += static_cast<std::size_t>(source.bytes_per_token), ++position) {
          std::uint16_t token = 0;
          std::memcpy(&token, piece.data() + at, static_cast<std::size_t>(source.bytes_per_token));
          if (token >= source.vocab) throw token_error(source, position, token);
        }
      });
}

std::string content_hash(const TokenFile& source) {
  Hasher hasher;
  hasher.add(fmt::format("{} x {}", source.tokens, source.bytes_per_token));
  for_each_piece(source.file, source.offset, source.offset + source.tokens * source.bytes_per_token,
                 [&](std::span<const std::byte> piece) { hasher.add(piece); });
  return hasher.hex();
}

}  // namespace plimsoll
