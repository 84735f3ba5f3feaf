// The names of tensors in a GGUF file and in a Hugging Face folder, in both directions, and the order of their elements in the
// file. Each family describes its own layout (models/gguf.h), for reading and for writing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

// A name in the file and in the folder, without ".weight" and ".bias".
using GgufNamePair = std::pair<std::string_view, std::string_view>;

struct GgufLayout {
  std::span<const GgufNamePair> names, block_names;
  std::string_view blocks;                      // prefix of blocks in the folder, "model.layers."; it is "blk." in the file
  std::int64_t query_heads = 0, key_heads = 0;  // heads with interleaved rows in attn_q and attn_k; 0: plain order
  bool turned = false;  // matrices of blocks are [outputs, inputs] in the file, [inputs, outputs] in the folder
};

// The name of a tensor on the other side.
struct GgufName {
  std::string name;       // empty: the family has none
  std::string_view stem;  // its name in the file without block and ending: "attn_q", "output_norm"
  bool in_block = false, weight = false;
};
// From a name in the file to that in a folder, and back. `name` outlives the result.
GgufName name_in_folder(std::string_view name, const GgufLayout& layout);
GgufName name_in_gguf(std::string_view name, const GgufLayout& layout);

// The order of a tensor's elements in the file.
struct GgufOrder {
  std::int64_t heads = 0;  // heads whose rows are interleaved; 0: plain order
  bool turned = false;
};
GgufOrder gguf_order(const GgufName& name, const GgufLayout& layout, std::size_t rank);

// The row in the file of a row of the model, and back, for interleaved heads. Row i of half h of a head is row 2i + h in the
// file:
//   model  a0 a1 a2 b0 b1 b2
//   file   a0 b0 a1 b1 a2 b2
std::int64_t row_in_gguf(std::int64_t row, std::int64_t head_size);
std::int64_t row_in_folder(std::int64_t row, std::int64_t head_size);

}  // namespace plimsoll
