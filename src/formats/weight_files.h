// The weights in the folder of a model: model.safetensors, or without it the files in model.safetensors.index.json, in the order
// of transformers. Each file must have exactly the tensors that the index gives it (E-FORMAT-INDEX). A GGUF file may take the
// place of such a folder (models/gguf.h).
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
  // Reads headers alone. E-FORMAT-WEIGHTS if there are no weights; it names similar files in the folder.
  static WeightFiles open(const std::filesystem::path& folder);
  static WeightFiles of_gguf(GgufWeights weights);

  struct Found {
    std::size_t file = 0;  // index into files(); 0 for a GGUF file
    const StoredTensor* tensor = nullptr;
  };
  std::optional<Found> find(std::string_view name) const;
  // All tensors, in the order of the files.
  std::vector<Found> all() const;
  // E-FORMAT-TENSOR if read_f32 does not support the tensor's type.
  void require_readable(const Found& found) const;
  // Elements [begin, begin + out.size()) as fp32. `staging`: at least 256 bytes.
  void read_f32(const Found& found, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;
  // Drops the bytes of a tensor from the page cache.
  void forget(const Found& found) const noexcept;
  const std::string& path_of(const Found& found) const;

  // Null for weights in safetensors.
  const GgufWeights* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  // Empty for a GGUF file.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // The names of files() in the folder.
  const std::vector<std::string>& names() const { return names_; }
  bool has_index() const { return has_index_; }
  // model.safetensors, the index, or the GGUF file.
  const std::string& path() const { return path_; }
  // Drops the bytes of all tensors from the page cache.
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
// True for the name of a file with weights or of their index. New weights replace such files.
bool is_weights_name(std::string_view name);
// The size of all such files in the folder.
Bytes weights_in(const std::filesystem::path& folder);

}  // namespace plimsoll
