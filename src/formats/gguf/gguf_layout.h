// The names of tensors in a GGUF file and in a Hugging Face folder, in both directions, and the order in which the file keeps
// their elements. A family describes its own (models/gguf.h); files that are read and files that are written share the
// description.
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
  std::string_view blocks;                      // "model.layers.": the folder's "blk."
  std::int64_t query_heads = 0, key_heads = 0;  // whose rows in attn_q and attn_k are interleaved halves; 0: they are not
  bool turned = false;  // matrices of blocks are [outputs, inputs] in the file, [inputs, outputs] in the folder
};

// A tensor's other name.
struct GgufName {
  std::string name;       // empty: the family has none
  std::string_view stem;  // "attn_q", "output_norm": in the file, without block and ending
  bool in_block = false, weight = false;
};
// From a name in the file to that in a folder, and back. `name` outlives the result.
GgufName name_in_folder(std::string_view name, const GgufLayout& layout);
GgufName name_in_gguf(std::string_view name, const GgufLayout& layout);

// The order of a tensor's elements in the file.
struct GgufOrder {
  std::int64_t heads = 0;  // rows of each of n heads are interleaved halves; 0: they are not
  bool turned = false;
};
GgufOrder gguf_order(const GgufName& name, const GgufLayout& layout, std::size_t rank);

// Element i of half h of a head lies at 2i + h: from the row of the model to that of the file, and back.
std::int64_t row_in_gguf(std::int64_t row, std::int64_t head_size);
std::int64_t row_in_folder(std::int64_t row, std::int64_t head_size);

}  // namespace plimsoll
