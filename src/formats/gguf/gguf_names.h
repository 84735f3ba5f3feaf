// The names of tensors in a GGUF file beside those in a Hugging Face folder, in both directions, and in which order the file
// keeps their elements. One table for files that are read and files that are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/gguf/gguf_config.h"

namespace plimsoll {

// A tensor's other name, and what both say of it.
struct GgufName {
  std::string name;       // empty: no family has it
  std::string_view stem;  // "attn_q", "output_norm": in the file, without block and ending
  bool in_block = false, weight = false;
};
// From a name in the file to that in a folder, and back. `name` outlives what is returned.
GgufName name_in_folder(std::string_view name, std::string_view architecture);
GgufName name_in_gguf(std::string_view name, std::string_view architecture);

// How the elements of a tensor lie in the file.
struct GgufOrder {
  std::int64_t heads = 0;  // rows of each of so many heads are interleaved halves; 0: they are not
  bool turned = false;     // [outputs, inputs] in the file, [inputs, outputs] in the folder
};
GgufOrder gguf_order(const GgufName& name, std::string_view architecture, const GgufHeads& heads, std::int64_t rank);

// Element i of half h of a head lies at 2i + h: from the row of the model to that of the file, and back.
std::int64_t row_in_gguf(std::int64_t row, std::int64_t head_size);
std::int64_t row_in_folder(std::int64_t row, std::int64_t head_size);

}  // namespace plimsoll
