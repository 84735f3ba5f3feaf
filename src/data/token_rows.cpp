#include "data/token_rows.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {
namespace {

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
  throw internal_error("unpack_samples", "tokens of another width than 1, 2 or 4 bytes");
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

std::size_t row_bytes(const TokenFile& source, const Samples& samples) {
  return static_cast<std::size_t>((samples.context + 1) * source.bytes_per_token);
}

}  // namespace

std::int64_t staging_bytes(std::int64_t micro_batch, std::int64_t context, std::int64_t bytes_per_token) {
  return align_up(Bytes{micro_batch * (context + 1) * bytes_per_token}, kCacheLine).n;
}

void read_samples(const TokenFile& source, const Samples& samples, std::span<const PlacedSample> placed,
                  std::span<std::byte> staging) {
  const std::size_t row = row_bytes(source, samples);
  for (const PlacedSample& each : placed) {
    const auto begin = static_cast<std::size_t>(each.row) * row;
    const auto bytes = static_cast<std::size_t>(samples.length(each.ref.sample) * source.bytes_per_token);
    ensure(each.begin == 0 && begin + bytes <= staging.size(), "read_samples", "a sample lies in no row of the staging buffer");
    source.read(samples.first_token(each.ref.sample), staging.subspan(begin, bytes));
  }
}

void unpack_samples(const TokenFile& source, const Samples& samples, std::span<const PlacedSample> placed,
                    std::span<const std::byte> staging, const MicroBatch& out) {
  const auto context = static_cast<std::size_t>(samples.context);
  const std::size_t rows = out.sample_ids.size() / 2;
  ensure(out.inputs.size() == rows * context && out.targets.size() == rows * context, "unpack_samples",
         "the buffers do not have the shape of the micro-batch");
  if (placed.size() < rows) {
    std::ranges::fill(out.inputs, 0);
    std::ranges::fill(out.targets, kIgnoredTarget);
  }
  fill_sample_ids(placed, out.sample_ids);
  const std::size_t row = row_bytes(source, samples);
  for (const PlacedSample& each : placed) {
    const auto i = static_cast<std::size_t>(each.row);
    const std::int64_t length = samples.length(each.ref.sample);
    const std::byte* raw = staging.data() + i * row;
    const auto inputs = out.inputs.subspan(i * context, context);
    const auto targets = out.targets.subspan(i * context, context);
    const std::uint32_t largest = unpack_row(source.bytes_per_token, raw, length, inputs, targets);
    if (largest >= source.vocab) refuse_token(source, samples.first_token(each.ref.sample), length, raw);
  }
}

}  // namespace plimsoll
