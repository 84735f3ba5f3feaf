#include "data/token_source.h"

#include <fcntl.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {
namespace {

template <class T>
std::span<T> field(std::span<const FieldBuffer> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &FieldBuffer::name);
  ensure(found != fields.end(), "TokenSource", "a pass over tokens lacks a field");
  return found->view.as<T>();
}

// One row: inputs and targets are the tokens without the last and without the first. Returns the largest token.
template <class Raw>
std::uint32_t unpack_row(const std::byte* raw, std::int64_t length, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) {
  const auto* tokens = reinterpret_cast<const Raw*>(raw);
  std::uint32_t largest = tokens[0];
  // The last token of a short sample has a place among the inputs, but none among the targets.
  const std::int64_t read = std::min(length, std::ssize(inputs));
  for (std::int64_t t = 0; t < read; ++t) inputs[t] = static_cast<std::int32_t>(tokens[t]);
  for (std::int64_t t = 0; t + 1 < length; ++t) {
    targets[t] = static_cast<std::int32_t>(tokens[t + 1]);
    largest = std::max<std::uint32_t>(largest, tokens[t + 1]);
  }
  std::fill(inputs.begin() + read, inputs.end(), 0);
  std::fill(targets.begin() + (length - 1), targets.end(), kIgnoredTarget);
  return largest;
}

std::uint32_t unpack_row(std::int64_t bytes_per_token, const std::byte* raw, std::int64_t length, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) {
  switch (bytes_per_token) {
    case 1: return unpack_row<std::uint8_t>(raw, length, inputs, targets);
    case 2: return unpack_row<std::uint16_t>(raw, length, inputs, targets);
    case 4: return unpack_row<std::uint32_t>(raw, length, inputs, targets);
  }
  throw internal_error("TokenSource", "tokens of another width than 1, 2 or 4 bytes");
}

[[noreturn]] void refuse_token(const TokenFile& source, std::int64_t first, std::int64_t length, const std::byte* raw) {
  std::int64_t position = 0;
  std::uint32_t token = 0;
  for (; position < length; ++position) {
    token = stored_token(raw + position * source.bytes_per_token, source.bytes_per_token);
    if (token >= source.vocab) break;
  }
  throw token_error(source, first + position, token);
}

}  // namespace

std::int64_t staging_bytes(std::int64_t micro_batch, std::int64_t context, std::int64_t bytes_per_token) {
  return align_up(Bytes{micro_batch * (context + 1) * bytes_per_token}, kCacheLine).n;
}

TokenSource::TokenSource(const TokenFile& file, std::int64_t context)
    : file_(file), samples_(make_samples(file.tokens, context, file.name)) {}

std::int64_t TokenSource::staging_bytes(std::int64_t rows) const {
  return plimsoll::staging_bytes(rows, samples_.context, file_.bytes_per_token);
}

std::size_t TokenSource::row_bytes() const { return static_cast<std::size_t>((samples_.context + 1) * file_.bytes_per_token); }

void TokenSource::read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const {
  for (const PlacedSample& each : samples) {
    const auto begin = static_cast<std::size_t>(each.row) * row_bytes();
    const auto bytes = static_cast<std::size_t>(samples_.length(each.ref.sample) * file_.bytes_per_token);
    ensure(each.begin == 0 && begin + bytes <= staging.size(), "TokenSource", "a sample lies in no row of the staging buffer");
    file_.read(samples_.first_token(each.ref.sample), staging.subspan(begin, bytes));
  }
}

// Consecutive samples cost one call. Scattered ones drop the whole file, at a cost that grows with the cached part, not with the
// length of the file.
void TokenSource::drop(std::span<const PlacedSample> samples) const {
  const auto next = [](const PlacedSample& a, const PlacedSample& b) { return b.ref.sample != a.ref.sample + 1; };
  const bool one_run = std::ranges::adjacent_find(samples, next) == samples.end();
  if (samples.empty() || !one_run) {
    for (const TokenPart& part : file_.parts) ::posix_fadvise(part.file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    return;
  }
  const std::int64_t first = samples_.first_token(samples.front().ref.sample);
  const std::int64_t last = samples_.first_token(samples.back().ref.sample) + samples_.length(samples.back().ref.sample);
  std::int64_t before = 0;
  for (const TokenPart& part : file_.parts) {
    const auto place = [&](std::int64_t token) {
      const std::int64_t within = std::clamp<std::int64_t>(token - before, 0, part.tokens);
      return (part.offset + within * file_.bytes_per_token) / kPage.n * kPage.n;
    };
    const std::int64_t begin = place(first), end = place(last);
    if (end > begin) ::posix_fadvise(part.file.fd(), begin, end - begin, POSIX_FADV_DONTNEED);
    before += part.tokens;
  }
}

void TokenSource::fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                       std::span<const FieldBuffer> fields) const {
  ensure(fields.size() == 3, "TokenSource", "tokens, targets and sample_ids are all that there is");
  const auto inputs = field<std::int32_t>(fields, "tokens"), targets = field<std::int32_t>(fields, "targets");
  const auto ids = field<std::uint32_t>(fields, "sample_ids");
  const auto context = static_cast<std::size_t>(samples_.context);
  const std::size_t rows = ids.size() / 2;
  ensure(inputs.size() == rows * context && targets.size() == rows * context, "TokenSource",
         "the buffers do not have the shape of the micro-batch");
  if (samples.size() < rows) {
    std::ranges::fill(inputs, 0);
    std::ranges::fill(targets, kIgnoredTarget);
  }
  fill_sample_ids(samples, ids);
  for (const PlacedSample& each : samples) {
    const auto i = static_cast<std::size_t>(each.row);
    const std::int64_t length = samples_.length(each.ref.sample);
    const std::byte* raw = staging.data() + i * row_bytes();
    const std::uint32_t largest = unpack_row(file_.bytes_per_token, raw, length, inputs.subspan(i * context, context),
                                             targets.subspan(i * context, context));
    if (largest >= file_.vocab) refuse_token(file_, samples_.first_token(each.ref.sample), length, raw);
  }
}

}  // namespace plimsoll
