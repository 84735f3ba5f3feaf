// The tensors of a GGUF file as those of a Hugging Face folder: with the names, shapes and order of elements of the model family.
// Interleaved rows of queries and keys return to the model's order, and matrices of some families are transposed. Elements are
// decoded to fp32 range by range; blocks are available unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_layout.h"
#include "formats/safetensors.h"
#include "tensor/block_format.h"

namespace plimsoll {

class GgufWeights {
 public:
  GgufWeights(GgufFile file, const GgufLayout& layout);

  const GgufFile& file() const { return file_; }
  // A tensor that the family does not know keeps its name. `dtype` is absent for tensors in blocks.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;

  // Elements [begin, begin + out.size()) as fp32. `staging`: at least 256 bytes.
  void read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

  // The storage of a tensor in blocks; absent for plain types and for transposed matrices.
  std::optional<BlockMatrix> blocks(const StoredTensor& tensor) const;
  // Bytes [begin, begin + out.size()) of such a tensor, in the model's order of rows.
  void read_blocks(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> out) const;

  // Drops the bytes of the tensor from the page cache.
  void forget(const StoredTensor& tensor) const noexcept { file_.file().forget(tensor.offset, tensor.bytes); }
  void forget() const noexcept { file_.file().forget(0, 0); }

 private:
  // The order of a tensor's elements in the file.
  struct Place {
    std::size_t tensor = 0;      // index into file_.tensors()
    std::int64_t head_size = 0;  // rows of each interleaved head; 0: plain order
    bool turned = false;         // transposed: [outputs, inputs] in the file
  };
  const Place& place_of(const StoredTensor& tensor) const { return places_[static_cast<std::size_t>(&tensor - tensors_.data())]; }
  const GgufTensor& stored(const Place& place) const { return file_.tensors()[place.tensor]; }
  void read_stored(const GgufTensor& stored, BlockFormat format, std::int64_t begin, std::span<std::byte> out) const;
  void read_turned(const GgufTensor& stored, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

  GgufFile file_;
  std::vector<StoredTensor> tensors_;  // sorted by name
  std::vector<Place> places_;          // of each tensor
};

}  // namespace plimsoll
