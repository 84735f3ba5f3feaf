#include "formats/gguf/gguf_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "formats/finite.h"
#include "tensor/block_encode.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kTensorAlignment = 32;
constexpr std::uint32_t kVersion = 3;

// False if the format cannot hold a number.
bool encode(const GgufStorage& storage, std::span<const float> numbers, std::vector<std::byte>& out) {
  out.resize(static_cast<std::size_t>(stored_bytes(storage, Shape{std::ssize(numbers)}).n));
  if (storage.dtype) {
    const auto width = static_cast<std::size_t>(size_of(*storage.dtype));
    narrow(*storage.dtype, numbers, out.data());
    for (std::span<const std::byte> rest = out;;) {
      const auto bad = first_not_finite(*storage.dtype, rest);
      if (!bad) return true;
      if (std::isfinite(numbers[numbers.size() - rest.size() / width + static_cast<std::size_t>(*bad)])) return false;
      rest = rest.subspan((static_cast<std::size_t>(*bad) + 1) * width);
    }
  }
  ensure(storage.blocks == BlockFormat::q8_0, "GgufWriter", "a format that is not written");
  encode_q8_0(numbers, out.data());
  return !first_bad_scale(*storage.blocks, 0, out);
}

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufKeys& keys, std::vector<GgufTensorSpec> tensors)
    : tensors_(std::move(tensors)), file_(path) {
  ensure(!tensors_.empty(), "GgufWriter", "a file without tensors");
  std::string header = "GGUF";
  append_gguf_number(header, kVersion);
  append_gguf_number(header, std::uint64_t{tensors_.size()});
  append_gguf_number(header, keys.count());
  header += keys.bytes();
  std::uint64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors_) {
    append_gguf_text(header, tensor.name);
    append_gguf_number(header, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (std::size_t axis = tensor.shape.rank(); axis-- > 0;) {
      append_gguf_number(header, static_cast<std::uint64_t>(tensor.shape[axis]));
    }
    append_gguf_number(header, tensor.storage->number);
    append_gguf_number(header, offset);
    offset += static_cast<std::uint64_t>(round_up(stored_bytes(*tensor.storage, tensor.shape).n, kTensorAlignment));
  }
  file_.write(header);
  pad();
  left_ = tensors_.front().shape.elements();
}

void GgufWriter::pad() {
  constexpr std::array<std::byte, kTensorAlignment> kZeros{};
  file_.write(std::span(kZeros).first(static_cast<std::size_t>(round_up(file_.written(), kTensorAlignment) - file_.written())));
}

void GgufWriter::append(std::string_view name, std::span<const float> numbers) {
  ensure(current_ < tensors_.size() && tensors_[current_].name == name && std::ssize(numbers) <= left_, "GgufWriter",
         "numbers of a tensor whose turn it is not");
  const GgufStorage& storage = *tensors_[current_].storage;
  if (!encode(storage, numbers, piece_)) {
    throw data_error("E-EXPORT-RANGE", std::string(name), fmt::format("it has numbers that {} cannot hold", storage.name),
                     "finite numbers within the range of the type",
                     {Change("command.type", "BF16"), Change("command.type", "F32")});
  }
  file_.write(piece_);
  left_ -= std::ssize(numbers);
  if (left_ > 0) return;
  pad();
  if (++current_ < tensors_.size()) left_ = tensors_[current_].shape.elements();
}

void GgufWriter::commit() {
  ensure(current_ == tensors_.size(), "GgufWriter", "a tensor is not complete");
  file_.commit();
}

}  // namespace plimsoll
