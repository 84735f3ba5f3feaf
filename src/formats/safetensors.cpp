#include "formats/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "formats/finite.h"
#include "formats/safetensors_header.h"
#include "tensor/half.h"

namespace plimsoll {
SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile result;
  result.file_ = File::open(path);
  SafetensorsHeader header = read_safetensors_header(result.file_);
  result.checksums_ = std::move(header.checksums);
  result.tensors_ = std::move(header.tensors);
  result.metadata_ = std::move(header.metadata);
  result.by_name_.resize(result.tensors_.size());
  std::iota(result.by_name_.begin(), result.by_name_.end(), 0u);
  const auto name_of = [&](std::uint32_t i) -> const std::string& { return result.tensors_[i].name; };
  std::ranges::sort(result.by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(result.by_name_, {}, name_of);
  if (twice != result.by_name_.end()) {
    throw data_error("E-FORMAT-SAFETENSORS", result.path(), fmt::format("tensor '{}' appears twice", name_of(*twice)),
                     "a complete safetensors file");
  }
  return result;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found != by_name_.end() && name_of(*found) == name ? &tensors_[*found] : nullptr;
}

std::string_view SafetensorsFile::checksum(const StoredTensor& tensor) const {
  ensure(has_checksums(), "SafetensorsFile::checksum", "the file has none");
  const auto index = static_cast<std::size_t>(&tensor - tensors_.data());
  return std::string_view(checksums_).substr(kChecksumDigits * (1 + index), kChecksumDigits);
}

void SafetensorsFile::read_into(const StoredTensor& tensor, std::span<std::byte> destination) const {
  ensure(std::ssize(destination) == tensor.bytes, "SafetensorsFile::read_into",
         "the destination does not have the tensor's size");
  file_.read_at(tensor.offset, destination);
}

void SafetensorsFile::read_part(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> destination) const {
  ensure(begin >= 0 && begin + std::ssize(destination) <= tensor.bytes, "SafetensorsFile::read_part",
         "the part leaves the tensor");
  file_.read_at(tensor.offset + begin, destination);
}

void require_readable(const SafetensorsFile& file, const StoredTensor& tensor) {
  if (tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16) return;
  throw data_error("E-FORMAT-TENSOR", file.path(), fmt::format("tensor '{}' is stored as {}", tensor.name, tensor.stored_as),
                   "F32, F16 or BF16");
}

void SafetensorsFile::read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> destination,
                               std::span<std::byte> staging) const {
  constexpr std::int64_t kHalf = 2;
  if (tensor.dtype == DType::f32) {
    return read_finite(path(), tensor.name, tensor.shape, begin, destination,
                       [&](std::int64_t at, std::span<std::byte> piece) { read_part(tensor, at, piece); });
  }
  require_readable(*this, tensor);
  ensure(0 <= begin && begin + std::ssize(destination) <= tensor.bytes / kHalf, "SafetensorsFile::read_f32",
         "the destination is not within the tensor");
  ensure(staging.size() >= 2, "SafetensorsFile::read_f32", "the staging buffer is smaller than one element");
  std::size_t done = 0;
  while (done < destination.size()) {
    const std::size_t count = std::min(staging.size() / 2, destination.size() - done);
    const std::span<std::byte> piece = staging.first(2 * count);
    file_.read_at(tensor.offset + kHalf * (begin + static_cast<std::int64_t>(done)), piece);
    widen(*tensor.dtype, piece.data(), destination.subspan(done, count));
    require_finite(path(), tensor.name, tensor.shape, begin + static_cast<std::int64_t>(done), destination.subspan(done, count));
    done += count;
  }
}

Bytes safetensors_bytes(const std::vector<TensorSpec>& tensors, Checksums checksums) {
  Bytes size{std::ssize(make_safetensors_header(tensors, checksums))};
  for (const TensorSpec& tensor : tensors) size += Bytes{dense_bytes(tensor.shape, tensor.dtype)};
  return size;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors, Checksums checksums)
    : tensors_(std::move(tensors)), file_(path) {
  const std::string header = make_safetensors_header(tensors_, checksums);
  if (checksums == Checksums::each) header_ = header;
  file_.write(header);
  file_bytes_ = static_cast<std::int64_t>(header.size());
  for (const TensorSpec& tensor : tensors_) file_bytes_ += dense_bytes(tensor.shape, tensor.dtype);
  if (!tensors_.empty()) remaining_ = dense_bytes(tensors_[0].shape, tensors_[0].dtype);
  skip_complete();
}

void SafetensorsWriter::skip_complete() {
  while (remaining_ == 0 && current_ < tensors_.size()) {
    if (!header_.empty()) checksums_ += std::exchange(hasher_, Hasher()).hex();
    ++current_;
    if (current_ < tensors_.size()) remaining_ = dense_bytes(tensors_[current_].shape, tensors_[current_].dtype);
  }
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  ensure(current_ < tensors_.size() && tensors_[current_].name == name, "SafetensorsWriter::append",
         "it is another tensor's turn");
  ensure(std::ssize(bytes) <= remaining_, "SafetensorsWriter::append", "the piece is longer than what the tensor lacks");
  file_.write(bytes);
  if (!header_.empty()) hasher_.add(bytes);
  remaining_ -= std::ssize(bytes);
  skip_complete();
}

void SafetensorsWriter::commit() {
  ensure(current_ == tensors_.size(), "SafetensorsWriter::commit", "a tensor is incomplete");
  if (!header_.empty()) {
    const std::size_t at = header_.find(std::string(kChecksumDigits * (1 + tensors_.size()), '0'));
    header_.replace(at + kChecksumDigits, checksums_.size(), checksums_);
    header_.replace(at, kChecksumDigits, header_checksum(header_.substr(kLengthBytes), at - kLengthBytes));
    file_.overwrite(static_cast<std::int64_t>(at), std::string_view(header_).substr(at, kChecksumDigits + checksums_.size()));
  }
  file_.commit();
}

}  // namespace plimsoll
