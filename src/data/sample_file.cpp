#include "data/sample_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "data/cache_seal.h"
#include "data/file_pieces.h"

namespace plimsoll {
namespace {

struct Header {
  std::array<char, 16> magic{};
  std::uint64_t version = 0, samples = 0, tokens = 0, largest = 0;
  SampleCounts counts;
  std::uint64_t seal = 0;
};
constexpr std::array<char, 16> kMagic{'p', 'l', 'i', 'm', 's', 'o', 'l', 'l', '.', 's', 'a', 'm', 'p', 'l', 'e', 's'};
constexpr std::uint64_t kVersion = 3;
constexpr std::int64_t kTokensAt = 256, kTokenBytes = 4;
static_assert(sizeof(Header) <= kTokensAt);

Error broken(const std::string& path, std::string why) {
  return data_error("E-DATA-FORMAT", path, std::move(why), "a file of samples as plimsoll writes it into its cache",
                    {"rm '" + path + "', and the same command again"});
}

template <class T>
std::span<std::byte> bytes_of(T& object) {
  return {reinterpret_cast<std::byte*>(&object), sizeof object};
}

// One field of a pass; empty if the pass lacks it.
template <class T>
std::span<T> field(std::span<const FieldBuffer> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &FieldBuffer::name);
  return found == fields.end() ? std::span<T>() : found->view.as<T>();
}

}  // namespace

SampleFileWriter::SampleFileWriter(const std::filesystem::path& target) : target_(target), file_(target, Aside::named) {
  file_.write(std::string(kTokensAt, '\0'));
}

void SampleFileWriter::add(std::span<const Token> tokens, std::span<const std::uint8_t> trained) {
  ensure(tokens.size() >= 2 && tokens.size() == trained.size() && tokens.size() < kTrainedToken, "sample file",
         "a sample of fewer than two tokens");
  row_.assign(tokens.begin(), tokens.end());
  std::uint32_t units = 0;
  for (std::size_t i = 0; i < row_.size(); ++i) {
    largest_ = std::max<std::uint64_t>(largest_, row_[i]);
    if (i == 0 || trained[i] == 0) continue;
    row_[i] |= kTrainedToken;
    ++units;
  }
  ensure(units > 0, "sample file", "a sample without a target that counts");
  records_.push_back({tokens_, static_cast<std::uint32_t>(row_.size()), units});
  tokens_ += row_.size();
  file_.write(std::as_bytes(std::span(row_)));
  hasher_.add(std::as_bytes(std::span(row_)));
}

void SampleFileWriter::commit(const SampleCounts& counts) {
  ensure(!records_.empty(), "sample file", "there is no sample");
  if (tokens_ % 2 != 0) file_.write(std::string(kTokenBytes, '\0'));
  file_.write(std::as_bytes(std::span(records_)));
  hasher_.add(std::as_bytes(std::span(records_)));
  Header header{kMagic, kVersion, records_.size(), tokens_, largest_, counts};
  header.seal = cache_seal(target_, header, hasher_);
  file_.overwrite(0, text_of_bytes(header));
  file_.commit();
}

TokenFile open_sample_file(File file, std::string name, std::int64_t vocab, bool verify, bool keeps_vocab) {
  const FileStamp stamp = stamp_of(file);
  Header header;
  if (file.size() < kTokensAt) throw broken(file.path(), fmt::format("it has {} bytes", file.size()));
  file.read_at(0, bytes_of(header));
  if (header.magic != kMagic || header.version != kVersion) throw broken(file.path(), "it does not begin like a file of samples");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;
  const std::uint64_t padded = header.tokens + header.tokens % 2;
  const std::uint64_t end = kTokensAt + kTokenBytes * padded + sizeof(SampleRecord) * header.samples;
  const bool counts = header.samples > 0 && header.samples < kAbsentSample && header.tokens < kMost;
  if (!counts || end != static_cast<std::uint64_t>(file.size())) {
    throw broken(file.path(),
                 fmt::format("it has {} bytes for {} samples of {} tokens", file.size(), header.samples, header.tokens));
  }
  if (verify) {
    Hasher hasher;
    const auto add = [&](std::span<const std::byte> piece) { hasher.add(piece); };
    for_each_piece(file, kTokensAt, kTokensAt + kTokenBytes * static_cast<std::int64_t>(header.tokens), add);
    for_each_piece(file, kTokensAt + kTokenBytes * static_cast<std::int64_t>(padded), file.size(), add);
    if (header.seal != cache_seal(file.path(), header, hasher)) {
      throw broken(file.path(), "its seal is that of another file, or of other content");
    }
  }
  if (header.largest >= static_cast<std::uint64_t>(vocab)) {
    throw data_error("E-DATA-TOKEN", name, fmt::format("a token is {}", header.largest),
                     fmt::format("tokens below the model's vocabulary of {}", vocab),
                     keeps_vocab ? Remedies{} : Remedies{Change("model.vocab", static_cast<std::int64_t>(header.largest) + 1)});
  }
  TokenFile source;
  source.name = name;
  source.tokens = static_cast<std::int64_t>(header.tokens);
  source.bytes_per_token = kTokenBytes;
  source.vocab = vocab;
  source.keeps_vocab = keeps_vocab;
  source.format = "samples";
  source.samples = static_cast<std::int64_t>(header.samples);
  source.counts = header.counts;
  source.table = kTokensAt + kTokenBytes * static_cast<std::int64_t>(padded);
  source.parts.push_back({std::move(file), std::move(name), kTokensAt, source.tokens, stamp});
  return source;
}

StoredSamples::StoredSamples(const TokenFile& file, std::int64_t row, bool packs) : file_(file), row_(row), packs_(packs) {
  ensure(file.samples > 0, "StoredSamples", "the file has no samples of their own lengths");
}

SampleRecord StoredSamples::record(std::int64_t sample) const {
  const TokenPart& part = file_.parts.front();
  SampleRecord record;
  part.file.read_at(file_.table + sample * static_cast<std::int64_t>(sizeof record), bytes_of(record));
  const auto all = static_cast<std::uint64_t>(file_.tokens);
  if (record.tokens < 2 || record.units == 0 || record.units >= record.tokens || record.first > all ||
      record.tokens > all - record.first) {
    throw broken(part.file.path(), fmt::format("sample {} lies outside of it", sample));
  }
  if (record.tokens - 1 > static_cast<std::uint64_t>(row_)) {
    throw data_error("E-DATA-LONG", file_.name,
                     fmt::format("sample {} takes {} positions, and a row has {}", sample, record.tokens - 1, row_),
                     "samples that fit model.context", {Change("model.context", record.tokens - 1)});
  }
  return record;
}

SampleSize StoredSamples::size(std::int64_t sample) const {
  const SampleRecord at = record(sample);
  return {std::int64_t{at.tokens} - 1, at.units};
}

// The tokens of the samples of a row. Each sample has one token more than positions.
std::int64_t StoredSamples::staging_bytes_per_row(std::int64_t row, bool packs) {
  return kTokenBytes * (packs ? 2 * row : row + 1);
}

std::int64_t StoredSamples::staging_bytes(std::int64_t rows) const {
  return align_up(Bytes{rows * staging_bytes_per_row(row_, packs_)}, kCacheLine).n;
}

void StoredSamples::read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const {
  const TokenPart& part = file_.parts.front();
  for (const PlacedSample& each : samples) {
    const SampleRecord at = record(each.ref.sample);
    const std::size_t bytes = std::size_t{kTokenBytes} * at.tokens;
    ensure(staging.size() >= bytes, "StoredSamples", "the staging buffer is too small");
    part.file.read_at(part.offset + kTokenBytes * static_cast<std::int64_t>(at.first), staging.first(bytes));
    staging = staging.subspan(bytes);
  }
  require_unchanged(part.file, part.stamp);
}

void StoredSamples::drop(std::span<const PlacedSample>) const { file_.parts.front().file.forget(0, 0); }

void StoredSamples::fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                         std::span<const FieldBuffer> fields) const {
  const auto tokens = field<std::int32_t>(fields, "tokens"), targets = field<std::int32_t>(fields, "targets");
  const auto segments = field<std::int32_t>(fields, "segments"), positions = field<std::int32_t>(fields, "positions");
  const auto ids = field<std::uint32_t>(fields, "sample_ids");
  const auto row = static_cast<std::size_t>(row_);
  ensure(!tokens.empty() && tokens.size() % row == 0 && targets.size() == tokens.size() && segments.size() == positions.size() &&
             segments.size() == (packs_ ? tokens.size() : 0),
         "StoredSamples", "a pass over samples lacks a field");
  std::ranges::fill(tokens, 0);
  std::ranges::fill(targets, kIgnoredTarget);
  std::ranges::fill(positions, 0);
  std::ranges::fill(segments, 0);
  std::ranges::fill(ids, kAbsentSample);
  if (!packs_) fill_sample_ids(samples, ids);
  for (std::size_t i = 2; packs_ && i < ids.size(); i += 3) ids[i] = 0;  // no noise lies before its sample
  std::int32_t segment = 0, last_row = -1;
  for (const PlacedSample& each : samples) {
    const std::uint32_t count = record(each.ref.sample).tokens;
    const auto stored = staging.first(std::size_t{kTokenBytes} * count);
    staging = staging.subspan(stored.size());
    segment = each.row == last_row ? segment + 1 : 0;
    last_row = each.row;
    const std::size_t begin = static_cast<std::size_t>(each.row) * row + static_cast<std::size_t>(each.begin);
    ensure(static_cast<std::size_t>(each.begin) + count - 1 <= row, "StoredSamples", "a sample passes the end of its row");
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const std::uint32_t input = stored_token(stored.data() + kTokenBytes * i, kTokenBytes) & ~kTrainedToken;
      const std::uint32_t target = stored_token(stored.data() + kTokenBytes * (i + 1), kTokenBytes);
      tokens[begin + i] = static_cast<std::int32_t>(input);
      if ((target & kTrainedToken) != 0) targets[begin + i] = static_cast<std::int32_t>(target & ~kTrainedToken);
      if (static_cast<std::int64_t>(std::max(input, target & ~kTrainedToken)) >= file_.vocab) {
        throw broken(file_.parts.front().file.path(), "a token is past the vocabulary");
      }
      if (!packs_) continue;
      positions[begin + i] = static_cast<std::int32_t>(i);
      const std::size_t id = 3 * (begin + i);
      ids[id] = each.ref.epoch, ids[id + 1] = each.ref.sample, ids[id + 2] = static_cast<std::uint32_t>(i);
    }
    if (!packs_) continue;
    // The rest of the row belongs to the next segment until a further sample takes its part.
    const auto here = segments.subspan(begin);
    std::ranges::fill(here.first(count - 1), segment);
    std::ranges::fill(segments.subspan(begin + count - 1, row - static_cast<std::size_t>(each.begin) - (count - 1)), segment + 1);
  }
}

}  // namespace plimsoll
