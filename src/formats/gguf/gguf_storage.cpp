#include "formats/gguf/gguf_storage.h"

#include <algorithm>
#include <iterator>

namespace plimsoll {
namespace {

// All formats of ggml. Those with neither a dtype nor a block format are refused by name.
constexpr GgufStorage kStorages[] = {
    {0, "F32", DType::f32, {}, 0},
    {1, "F16", DType::f16, {}, 1},
    {2, "Q4_0", {}, BlockFormat::q4_0},
    {3, "Q4_1", {}, BlockFormat::q4_1},
    {6, "Q5_0", {}, BlockFormat::q5_0},
    {7, "Q5_1", {}, BlockFormat::q5_1},
    {8, "Q8_0", {}, BlockFormat::q8_0, 7},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K", {}, BlockFormat::q4_k},
    {13, "Q5_K", {}, BlockFormat::q5_k},
    {14, "Q6_K", {}, BlockFormat::q6_k},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {30, "BF16", DType::bf16, {}, 32},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
    {41, "Q1_0"},
};

}  // namespace

const GgufStorage* gguf_storage(std::uint32_t number) {
  const auto* found = std::ranges::find(kStorages, number, &GgufStorage::number);
  return found == std::end(kStorages) ? nullptr : found;
}

const GgufStorage* gguf_storage(std::string_view name) {
  const auto* found = std::ranges::find(kStorages, name, &GgufStorage::name);
  return found == std::end(kStorages) ? nullptr : found;
}

std::string written_gguf_formats() {
  std::string names;
  for (const GgufStorage& each : kStorages) {
    if (each.file_type) names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

Bytes stored_bytes(const GgufStorage& storage, const Shape& shape) {
  const std::int64_t elements = shape.elements();
  if (storage.dtype) return Bytes{elements * size_of(*storage.dtype)};
  return stored_bytes(BlockMatrix{*storage.blocks, elements / shape.last(), shape.last()});
}

}  // namespace plimsoll
