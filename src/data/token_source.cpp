#include "data/token_source.h"

#include <fcntl.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {
namespace {

const TensorView& view_of(std::span<const FieldBuffer> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &FieldBuffer::name);
  ensure(found != fields.end(), "TokenSource", "a pass over tokens lacks a field");
  return found->view;
}

}  // namespace

TokenSource::TokenSource(const TokenFile& file, std::int64_t context)
    : file_(file), samples_(make_samples(file.tokens, context, file.name)) {}

std::int64_t TokenSource::staging_bytes(std::int64_t rows) const {
  return plimsoll::staging_bytes(rows, samples_.context, file_.bytes_per_token);
}

void TokenSource::read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const {
  read_samples(file_, samples_, samples, staging);
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
  unpack_samples(file_, samples_, samples, staging,
                 {view_of(fields, "tokens").as<std::int32_t>(), view_of(fields, "targets").as<std::int32_t>(),
                  view_of(fields, "sample_ids").as<std::uint32_t>()});
}

}  // namespace plimsoll
