// The tensors of a GGUF file as those of a Hugging Face folder: under the names, in the shapes and in the order of elements that
// a model family expects. Rows of queries and keys that llama.cpp keeps in another order come back to theirs, and matrices of
// some families are turned. Elements are decoded to fp32 range by range; raw blocks are handed out as they are.
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
  // A tensor that no family has keeps its name. `dtype` is empty for those in blocks.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;

  // The elements from `begin` on, as many as `out` has. `staging`: at least 256 bytes.
  void read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

  // How the tensor is stored, where its rows are whole rows of blocks. Nothing for plain types and for turned matrices.
  std::optional<BlockMatrix> blocks(const StoredTensor& tensor) const;
  // Bytes [begin, begin + out.size()) of such a tensor, in the order of the model's rows.
  void read_blocks(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> out) const;

  // Bytes that were read of it leave the page cache.
  void forget(const StoredTensor& tensor) const noexcept { file_.file().forget(tensor.offset, tensor.bytes); }
  void forget() const noexcept { file_.file().forget(0, 0); }

 private:
  // How the elements of a tensor lie in the file.
  struct Place {
    std::size_t tensor = 0;      // index into file_.tensors()
    std::int64_t head_size = 0;  // rows of each head are interleaved halves; 0: they are not
    bool turned = false;         // [outputs, inputs] in the file
  };
  const Place& place_of(const StoredTensor& tensor) const { return places_[static_cast<std::size_t>(&tensor - tensors_.data())]; }
  const GgufTensor& stored(const Place& place) const { return file_.tensors()[place.tensor]; }
  void read_stored(const GgufTensor& stored, BlockFormat format, std::int64_t begin, std::span<std::byte> out) const;
  void read_turned(const GgufTensor& stored, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

  GgufFile file_;
  std::vector<StoredTensor> tensors_;  // sorted by name
  std::vector<Place> places_;          // of each
};

}  // namespace plimsoll
