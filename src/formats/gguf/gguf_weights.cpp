#include "formats/gguf/gguf_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/finite.h"

namespace plimsoll {

GgufWeights::GgufWeights(GgufFile file, const GgufLayout& layout) : file_(std::move(file)) {
  std::vector<std::pair<StoredTensor, Place>> all;
  for (std::size_t i = 0; i < file_.tensors().size(); ++i) {
    const GgufTensor& tensor = file_.tensors()[i];
    if (tensor.name == "rope_freqs.weight") continue;  // a part of the configuration
    const GgufName name = name_in_folder(tensor.name, layout);
    const GgufOrder order = gguf_order(name, layout, static_cast<std::size_t>(tensor.shape.rank()));
    StoredTensor stored{.name = name.name.empty() ? tensor.name : name.name,
                        .stored_as = std::string(tensor.stored_as),
                        .dtype = tensor.dtype,
                        .shape = tensor.shape,
                        .offset = tensor.offset,
                        .bytes = tensor.bytes};
    Place place{.tensor = i};
    if (order.heads > 0) {
      const std::int64_t count = order.heads, rows = tensor.shape[0];
      if (rows % (2 * count) != 0) {
        throw file_.malformed(fmt::format("{} has {} rows for {} heads", tensor.name, rows, count),
                              "an even number for each head");
      }
      place.head_size = rows / count;
    }
    if (order.turned) {
      place.turned = true;
      stored.shape = {tensor.shape[1], tensor.shape[0]};
    }
    all.emplace_back(std::move(stored), place);
  }
  std::ranges::sort(all, {}, [](const auto& each) -> const std::string& { return each.first.name; });
  for (auto& [stored, place] : all) {
    if (!tensors_.empty() && tensors_.back().name == stored.name) {
      throw file_.malformed(fmt::format("two tensors are {}", stored.name));
    }
    tensors_.push_back(std::move(stored));
    places_.push_back(place);
  }
}

const StoredTensor* GgufWeights::find(std::string_view name) const {
  const auto name_of = [](const StoredTensor& tensor) -> std::string_view { return tensor.name; };
  const auto found = std::ranges::lower_bound(tensors_, name, {}, name_of);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void GgufWeights::read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> out,
                           std::span<std::byte> staging) const {
  const Place& place = place_of(tensor);
  const GgufTensor& from = stored(place);
  if (place.turned) return read_turned(from, begin, out, staging);
  if (place.head_size == 0) return file_.read_f32(from, begin, out, staging);
  const std::int64_t columns = from.shape.elements() / from.shape[0];
  while (!out.empty()) {
    const std::int64_t row = begin / columns, skipped = begin % columns;
    const std::span<float> part = out.first(static_cast<std::size_t>(std::min<std::int64_t>(columns - skipped, std::ssize(out))));
    file_.read_f32(from, row_in_gguf(row, place.head_size) * columns + skipped, part, staging);
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

// Transposes while reading, strip by strip: rows of the model are columns of the file.
//   file  [outputs, inputs]   first  last
//         row 0               ..|====|....   a strip: kStrip columns of every row
//         row 1               ..|====|....
void GgufWeights::read_turned(const GgufTensor& from, std::int64_t begin, std::span<float> out,
                              std::span<std::byte> staging) const {
  constexpr std::int64_t kStrip = 4096;
  const std::int64_t outputs = from.shape[0], inputs = from.shape[1], end = begin + std::ssize(out);
  std::vector<float> strip;
  for (std::int64_t first = begin / outputs; first * outputs < end; first += kStrip) {
    const std::int64_t last = std::min({first + kStrip, (end + outputs - 1) / outputs, inputs});
    strip.resize(static_cast<std::size_t>(last - first));
    for (std::int64_t output = 0; output < outputs; ++output) {
      file_.read_f32(from, output * inputs + first, strip, staging);
      for (std::int64_t input = first; input < last; ++input) {
        const std::int64_t element = input * outputs + output;
        if (element >= begin && element < end) {
          out[static_cast<std::size_t>(element - begin)] = strip[static_cast<std::size_t>(input - first)];
        }
      }
    }
  }
}

std::optional<BlockMatrix> GgufWeights::blocks(const StoredTensor& tensor) const {
  const Place& place = place_of(tensor);
  const GgufTensor& from = stored(place);
  if (!from.blocks || place.turned) return {};
  const std::int64_t columns = from.shape.last();
  return BlockMatrix{*from.blocks, from.shape.elements() / columns, columns};
}

// Reads in pieces that stay in the processor's cache until their scales are checked.
void GgufWeights::read_stored(const GgufTensor& from, BlockFormat format, std::int64_t begin, std::span<std::byte> out) const {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  while (!out.empty()) {
    const std::span<std::byte> piece = out.first(std::min(kPiece, out.size()));
    file_.file().read_at(from.offset + begin, piece);
    if (const auto block = first_bad_scale(format, begin, piece)) {
      throw not_finite(file_.path(), from.name, fmt::format("has a scale in block {} that is NaN or infinite", *block));
    }
    out = out.subspan(piece.size());
    begin += std::ssize(piece);
  }
}

void GgufWeights::read_blocks(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> out) const {
  const auto matrix = blocks(tensor);
  ensure(matrix && begin >= 0 && begin + std::ssize(out) <= tensor.bytes, "GgufWeights::read_blocks",
         "bytes of a tensor that is not in blocks, or that it lacks");
  const Place& place = place_of(tensor);
  if (place.head_size == 0) return read_stored(stored(place), matrix->format, begin, out);
  const std::int64_t row_bytes = tensor.bytes / matrix->rows;
  while (!out.empty()) {
    const std::int64_t row = begin / row_bytes, skipped = begin % row_bytes;
    const auto part = out.first(static_cast<std::size_t>(std::min<std::int64_t>(row_bytes - skipped, std::ssize(out))));
    read_stored(stored(place), matrix->format, row_in_gguf(row, place.head_size) * row_bytes + skipped, part);
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

}  // namespace plimsoll
