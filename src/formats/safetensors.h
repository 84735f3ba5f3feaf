// The safetensors format: a header length of 8 bytes, a JSON table of tensors, then their bytes without gaps. Files are not
// trusted. Tensor bytes go directly between the file and the caller's memory, so nothing of a tensor's size is allocated. Every
// malformed file is data_error E-FORMAT-SAFETENSORS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

struct StoredTensor {
  std::string name;
  std::string stored_as;       // the name of the type in the format: "F32", "BOOL"
  std::optional<DType> dtype;  // absent for types of the format that Plimsoll does not support
  Shape shape;
  std::int64_t offset = 0;  // of the first byte, from the start of the file
  std::int64_t bytes = 0;
};

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  // The tensors in the order of their bytes in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // True if the file has a checksum of each tensor. The checksum of the header has been compared.
  bool has_checksums() const { return !checksums_.empty(); }
  // XXH3-128 of the tensor's bytes, in 32 hex digits.
  std::string_view checksum(const StoredTensor& tensor) const;
  const std::string& path() const { return file_.path(); }

  // Reads the stored bytes. `destination` has exactly tensor.bytes bytes.
  void read_into(const StoredTensor& tensor, std::span<std::byte> destination) const;
  // Reads bytes [begin, begin + destination.size()) of the tensor.
  void read_part(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> destination) const;
  // Reads elements [begin, begin + destination.size()) of an F32, F16 or BF16 tensor as fp32. `staging`: for F16 and BF16, at
  // least 2 bytes; a larger one means fewer reads.
  void read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> destination, std::span<std::byte> staging) const;
  // Drops the bytes of the tensor, or of the whole file, from the page cache.
  void forget(const StoredTensor& tensor) const noexcept { file_.forget(tensor.offset, tensor.bytes); }
  void forget() const noexcept { file_.forget(0, 0); }

 private:
  File file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
  std::string checksums_;  // of the header and of each of tensors_; empty: none
};

// E-FORMAT-TENSOR if read_f32 does not support the tensor's type.
void require_readable(const SafetensorsFile& file, const StoredTensor& tensor);

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// `each`: the metadata has checksums of the header and of each tensor, computed during writing.
enum class Checksums { none, each };

// The size of a file with these tensors.
Bytes safetensors_bytes(const std::vector<TensorSpec>& tensors, Checksums checksums = Checksums::none);

// Writes a file in one pass: the table first, then the tensors in the order of the table, each in one or more pieces.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors, Checksums checksums = Checksums::none);

  // The next bytes of `name`, which must be the current tensor.
  void append(std::string_view name, std::span<const std::byte> bytes);
  // Puts the file in place. All tensors must be complete; before this call the target is untouched.
  void commit();
  // Bytes of the whole file.
  std::int64_t file_bytes() const { return file_bytes_; }

 private:
  void skip_complete();

  std::vector<TensorSpec> tensors_;
  std::string header_;     // the final header; only with checksums
  std::string checksums_;  // of the complete tensors
  Hasher hasher_;          // of the current tensor
  std::size_t current_ = 0;
  std::int64_t remaining_ = 0;  // missing bytes of the current tensor
  std::int64_t file_bytes_ = 0;
  AtomicFile file_;
};

}  // namespace plimsoll
