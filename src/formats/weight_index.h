// model.safetensors.index.json, which names the file of each tensor. It is not trusted and read without a document tree. Every
// fault is data_error E-FORMAT-INDEX.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {

inline constexpr std::int64_t kMaxIndexBytes = 16 << 20;
inline constexpr std::size_t kMaxShards = 512, kMaxIndexTensors = 1 << 18;

struct WeightIndex {
  std::vector<std::string> files;                             // plain names, sorted
  std::vector<std::pair<std::string, std::uint32_t>> places;  // tensor and its place in `files`, sorted by name
};

// True for a file name without a folder.
bool is_plain_name(std::string_view name);

WeightIndex read_weight_index(const std::filesystem::path& path);
// The text of an index. `total_bytes`: the size of all tensors.
std::string weight_index_text(const WeightIndex& index, std::int64_t total_bytes);

Error index_error(const std::filesystem::path& path, std::string what);

}  // namespace plimsoll
