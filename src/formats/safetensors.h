// The safetensors format: an 8-byte header length, a JSON table of tensors, then their bytes without holes.
// The reader parses it as hostile and hands out ranges of the file; tensor bytes go straight into the caller's memory, so neither
// side allocates anything that grows with them. Every malformed file is data_error E-FORMAT-SAFETENSORS.
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
  std::string stored_as;       // the format's word: "F32", "BOOL"
  std::optional<DType> dtype;  // empty for types that files may hold and Plimsoll does not compute with
  Shape shape;
  std::int64_t offset = 0;  // of the first byte, from the start of the file
  std::int64_t bytes = 0;
};

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  // In the order of their bytes in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The file carries a checksum of each tensor; that of the header has been compared.
  bool has_checksums() const { return !checksums_.empty(); }
  // XXH3-128 of the tensor's bytes, in 32 hex digits.
  std::string_view checksum(const StoredTensor& tensor) const;
  const std::string& path() const { return file_.path(); }

  // The tensor's bytes as they are stored. `destination` has exactly tensor.bytes bytes.
  void read_into(const StoredTensor& tensor, std::span<std::byte> destination) const;
  // The bytes from `begin` on, as many as the destination has; they lie within the tensor.
  void read_part(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> destination) const;
  // The elements of F32, F16 or BF16 from `begin` on as fp32, as many as the destination has; they lie within the tensor. F16 and
  // BF16 pass through `staging` (any size of at least 2 bytes; larger means fewer reads), F32 does not touch it.
  void read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> destination, std::span<std::byte> staging) const;
  // Bytes that were read of the tensor, or of the whole file, leave the page cache.
  void forget(const StoredTensor& tensor) const noexcept { file_.forget(tensor.offset, tensor.bytes); }
  void forget() const noexcept { file_.forget(0, 0); }

 private:
  File file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
  std::string checksums_;  // of the header and of each of tensors_; empty: none
};

// E-FORMAT-TENSOR where read_f32 would refuse the tensor's type.
void require_readable(const SafetensorsFile& file, const StoredTensor& tensor);

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// `each`: the header's metadata gets checksums of the header and of each tensor, made as the bytes go by.
enum class Checksums { none, each };

// The size of a file of these tensors.
Bytes safetensors_bytes(const std::vector<TensorSpec>& tensors, Checksums checksums = Checksums::none);

// Writes a file in one pass: the table first, then the tensors in the order of the table, each in one or more pieces.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors, Checksums checksums = Checksums::none);

  // The next bytes of tensor `name`, which must be the one whose turn it is.
  void append(std::string_view name, std::span<const std::byte> bytes);
  // Every tensor must be complete. Before this the target is untouched.
  void commit();
  // The size of the whole file.
  std::int64_t file_bytes() const { return file_bytes_; }

 private:
  void skip_complete();

  std::vector<TensorSpec> tensors_;
  std::string header_;     // where there are checksums: as it will be
  std::string checksums_;  // of the tensors that are complete
  Hasher hasher_;          // of the current tensor
  std::size_t current_ = 0;
  std::int64_t remaining_ = 0;  // bytes that the current tensor still lacks
  std::int64_t file_bytes_ = 0;
  AtomicFile file_;
};

}  // namespace plimsoll
