// A model or an adapter as one GGUF file for llama.cpp and others. Tensors are written some rows at a time, so nothing of a
// tensor's size is allocated. Tokens and merges of the tokenizer are held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "formats/gguf/gguf_storage.h"

namespace plimsoll {

struct GgufExport {
  std::filesystem::path base;     // a folder of weights, or a GGUF file
  std::filesystem::path adapter;  // a PEFT folder to write alone; empty: the model is written
  std::filesystem::path out;
  // The format of matrices, one of written_gguf_formats. Vectors and position embeddings are F32; matrices without whole blocks
  // of Q8_0 in a row are F16.
  const GgufStorage* type = nullptr;
};

struct GgufExported {
  std::string architecture;
  std::int64_t tensors = 0, bytes = 0;
  std::int64_t in_f16 = 0;  // F16 matrices, because their rows are no whole blocks of Q8_0
  bool tokenizer = false, chat_template = false;
  std::string spaces;           // of the tokenizer (formats/gguf/gguf_tokenizer_keys.h)
  bool other_template = false;  // the adapter was trained with another chat template than the base's
};

// Replaces the file as a whole. E-EXPORT-MODEL, -TOKENIZER, -ADAPTER, -RANGE for content that GGUF cannot hold, and the errors of
// opening and reading (weights/model_source.h).
GgufExported export_gguf(const GgufExport& request);

}  // namespace plimsoll
