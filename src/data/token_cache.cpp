#include "data/token_cache.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "data/cache_seal.h"
#include "data/file_pieces.h"

namespace plimsoll {
namespace {

struct Header {
  std::array<char, 16> magic{};
  std::uint64_t version = 0, width = 0, tokens = 0;
  SampleCounts counts;
  std::uint64_t seal = 0;
};
constexpr std::array<char, 16> kMagic{'p', 'l', 'i', 'm', 's', 'o', 'l', 'l', '.', 't', 'o', 'k', 'e', 'n', 's', '\0'};
constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kTokensAt = 256;
static_assert(sizeof(Header) <= kTokensAt);

}  // namespace

TokenCacheWriter::TokenCacheWriter(const std::filesystem::path& target, std::int64_t width)
    : target_(target), file_(target, Aside::named), width_(width) {
  file_.write(std::string(kTokensAt, '\0'));
}

void TokenCacheWriter::write(std::span<const std::byte> tokens) {
  file_.write(tokens);
  content_.add(tokens);
  bytes_ += std::ssize(tokens);
}

void TokenCacheWriter::commit(const SampleCounts& counts) {
  Header header{kMagic, kVersion, static_cast<std::uint64_t>(width_), static_cast<std::uint64_t>(bytes_ / width_), counts};
  header.seal = cache_seal(target_, header, content_);
  file_.overwrite(0, text_of_bytes(header));
  file_.commit();
}

TokenCacheFile open_token_cache(File file, std::int64_t width) {
  const auto refuse = [&](std::string why) {
    return data_error("E-DATA-FORMAT", file.path(), std::move(why), "a file of tokens as plimsoll writes it into its cache",
                      {"rm '" + file.path() + "', and the same command again"});
  };
  const FileStamp stamp = stamp_of(file);
  Header header;
  if (file.size() < kTokensAt) throw refuse(fmt::format("it has {} bytes", file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  const bool known = header.magic == kMagic && header.version == kVersion;
  if (!known || header.width != static_cast<std::uint64_t>(width)) throw refuse("it does not begin like a file of tokens");
  if (header.tokens != static_cast<std::uint64_t>((file.size() - kTokensAt) / width) || (file.size() - kTokensAt) % width != 0) {
    throw refuse(fmt::format("it has {} bytes for {} tokens", file.size(), header.tokens));
  }
  Hasher content;
  for_each_piece(file, kTokensAt, file.size(), [&](std::span<const std::byte> piece) { content.add(piece); });
  if (header.seal != cache_seal(file.path(), header, content))
    throw refuse("its seal is that of another file, or of other content");
  return {std::move(file), kTokensAt, header.counts, stamp};
}

}  // namespace plimsoll
