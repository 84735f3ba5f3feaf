// A model, or an adapter, as one GGUF file that llama.cpp and others open. Tensors pass some rows at a time, so nothing of a
// tensor's size is allocated; of the tokenizer, its tokens and merges are held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "formats/gguf/gguf_storage.h"

namespace plimsoll {

struct GgufExport {
  std::filesystem::path base;     // a folder of weights, or a GGUF file
  std::filesystem::path adapter;  // a PEFT folder, which alone is written then; empty: the model is
  std::filesystem::path out;
  // The type of matrices: F32, F16, BF16 or Q8_0. Vectors and position embeddings are F32; rows that are no whole blocks of Q8_0
  // are F16.
  const GgufStorage* type = nullptr;
};

struct GgufExported {
  std::string architecture;
  std::int64_t tensors = 0, bytes = 0;
  std::int64_t in_f16 = 0;  // matrices that are F16 because Q8_0 does not divide their rows
  bool tokenizer = false, chat_template = false;
  std::string spaces;           // of its tokenizer (formats/gguf/gguf_tokenizer_keys.h)
  bool other_template = false;  // of an adapter: it was trained with another chat template than that of the base
};

// Replaces the file as a whole. E-EXPORT-MODEL, -TOKENIZER, -ADAPTER, -RANGE for what GGUF cannot hold, and what opening and
// reading throws (weights/model_source.h).
GgufExported export_gguf(const GgufExport& request);

}  // namespace plimsoll
