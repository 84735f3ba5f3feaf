// Writes a GGUF file (version 3) in one pass and atomically: the keys, the table of tensors, then the tensors in this order. Each
// tensor comes in one or more pieces of fp32 numbers, which are converted to its type.
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

  // The next numbers of `name`, which must be the current tensor; whole blocks for Q8_0. E-EXPORT-RANGE: the type cannot hold a
  // number.
  void append(std::string_view name, std::span<const float> numbers);
  // Puts the file in place. All tensors must be complete; before this call the target is untouched.
  void commit();
  std::int64_t written() const { return file_.written(); }

 private:
  void pad();

  std::vector<GgufTensorSpec> tensors_;
  std::size_t current_ = 0;
  std::int64_t left_ = 0;  // missing numbers of the current tensor
  std::vector<std::byte> piece_;
  AtomicFile file_;
};

}  // namespace plimsoll
