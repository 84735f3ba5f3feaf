// Writes a GGUF file (version 3) in one pass: keys and the table of tensors first, then the tensors in that order, each in one or
// more pieces of fp32 numbers, which are stored as the table says. The file appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/atomic_file.h"
#include "formats/gguf/gguf_keys.h"
#include "formats/gguf/gguf_storage.h"
#include "tensor/shape.h"

namespace plimsoll {

struct GgufTensorSpec {
  std::string name;
  const GgufStorage* storage = nullptr;  // F32, F16, BF16 or Q8_0
  Shape shape;                           // outermost axis first
};

class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& path, const GgufKeys& keys, std::vector<GgufTensorSpec> tensors);

  // The next numbers of tensor `name`, whose turn it is; of Q8_0 whole blocks. E-EXPORT-RANGE where the format cannot hold one.
  void append(std::string_view name, std::span<const float> numbers);
  // Every tensor must be complete. Before this the target is untouched.
  void commit();
  std::int64_t written() const { return file_.written(); }

 private:
  void pad();

  std::vector<GgufTensorSpec> tensors_;
  std::size_t current_ = 0;
  std::int64_t left_ = 0;  // numbers that the current tensor lacks
  std::vector<std::byte> piece_;
  AtomicFile file_;
};

}  // namespace plimsoll
