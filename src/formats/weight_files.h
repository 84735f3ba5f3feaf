// The weights in a folder of a model: model.safetensors, or where that is absent the files that model.safetensors.index.json
// names. transformers looks in this order too. The index says which tensors there are; a file that holds others, or fewer, is
// refused (E-FORMAT-INDEX). A GGUF file stands for such a folder (models/gguf.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/gguf/gguf_weights.h"
#include "formats/safetensors.h"

namespace plimsoll {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

class WeightFiles {
 public:
  // E-FORMAT-WEIGHTS where there are none, with what lies there in their place. Reads headers alone.
  static WeightFiles open(const std::filesystem::path& folder);
  static WeightFiles of_gguf(GgufWeights weights);

  struct Found {
    std::size_t file = 0;  // index into files(); 0 of a GGUF file
    const StoredTensor* tensor = nullptr;
  };
  std::optional<Found> find(std::string_view name) const;
  // In the order of the files.
  std::vector<Found> all() const;
  // E-FORMAT-TENSOR where read_f32 would refuse the tensor's type.
  void require_readable(const Found& found) const;
  // The elements from `begin` on as fp32, as many as `out` has. `staging`: at least 256 bytes.
  void read_f32(const Found& found, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;
  // Bytes that were read of a tensor leave the page cache.
  void forget(const Found& found) const noexcept;
  const std::string& path_of(const Found& found) const;

  // Null where the weights are in safetensors.
  const GgufWeights* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  // Empty where they are a GGUF file.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Their names in the folder.
  const std::vector<std::string>& names() const { return names_; }
  bool has_index() const { return has_index_; }
  // model.safetensors, the index, or the GGUF file.
  const std::string& path() const { return path_; }
  // All bytes that were read leave the page cache.
  void forget() const noexcept;

 private:
  void read_index(const std::filesystem::path& folder);

  std::string path_;
  bool has_index_ = false;
  std::vector<std::string> names_;
  std::vector<SafetensorsFile> files_;
  std::optional<GgufWeights> gguf_;
};

// True if WeightFiles::open finds one of the two files.
bool has_weights(const std::filesystem::path& folder);
// True if a file of that name holds weights, or names the files that do. A new set of weights replaces such files.
bool is_weights_name(std::string_view name);
// The bytes of such files in the folder.
Bytes weights_in(const std::filesystem::path& folder);

}  // namespace plimsoll
