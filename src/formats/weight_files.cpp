#include "formats/weight_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "formats/file.h"
#include "formats/weight_index.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string convert_command(const fs::path& folder) {
  return fmt::format(
      "python3 -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('{}').save_pretrained('{}')\"",
      folder.string(), "NEW_FOLDER");
}

// The error of a folder without weights. It names the first file of another kind of weights.
Error no_weights(const fs::path& folder) {
  std::error_code ignored;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  const auto first = [&](std::initializer_list<std::string_view> endings) {
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
      return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
    });
    return found == names.end() ? std::string() : *found;
  };
  if (std::ranges::find(names, kAdapterConfig) != names.end()) {
    return data_error("E-ADAPTER-FOLDER", folder.string(), "it holds an adapter, not a model",
                      "the folder of a model; adapters have separate options",
                      {Change("command.adapter", folder.string()),
                       Remedy::of_changes({{"model.init", "BASE"}, {"adapter.init", folder.string()}})});
  }
  std::string why = fmt::format("there is no {} and no {}", kWeightsFile, kWeightsIndex);
  Remedies remedies;
  if (const std::string shard = first({".safetensors.index.json", ".safetensors"}); !shard.empty()) {
    why += fmt::format(", but {}, which is read if one of the two names it", shard);
  } else if (const std::string other = first({".bin", ".bin.index.json", ".pt", ".pth", ".h5", ".msgpack", ".gguf"});
             !other.empty()) {
    const bool gguf = other.ends_with(".gguf");
    why += fmt::format(", but {}, which is not read{}", other, gguf ? " unless its own path is given" : "");
    remedies.push_back(gguf ? fmt::format("name {} in place of the folder", (folder / other).string()) : convert_command(folder));
  }
  return data_error("E-FORMAT-WEIGHTS", folder.string(), why, "weights in safetensors: one file, or several with their index",
                    remedies);
}

// True for a link out of the folder. Links may lead to other files of the folder, or to the files of a hub's cache, where
// snapshots/X/ and blobs/ have the same parent.
bool leads_outside(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  if (!fs::is_symlink(file, error)) return false;
  const fs::path home = fs::canonical(folder, error), real = fs::canonical(file, error);
  if (error) return false;  // opening it reports a link that leads nowhere
  return real.parent_path() != home && real.parent_path() != home.parent_path().parent_path() / "blobs";
}

}  // namespace

WeightFiles WeightFiles::open(const fs::path& folder) {
  WeightFiles result;
  if (is_there(folder / kWeightsFile)) {
    result.path_ = (folder / kWeightsFile).string();
    result.names_ = {kWeightsFile};
    result.files_.push_back(SafetensorsFile::open(folder / kWeightsFile));
    return result;
  }
  if (!is_there(folder / kWeightsIndex)) throw no_weights(folder);
  result.path_ = (folder / kWeightsIndex).string();
  result.has_index_ = true;
  result.read_index(folder);
  return result;
}

WeightFiles WeightFiles::of_gguf(GgufWeights weights) {
  WeightFiles result;
  result.path_ = weights.file().path();
  result.gguf_ = std::move(weights);
  return result;
}

// Checks that all files and the index agree, tensor by tensor, in both directions.
void WeightFiles::read_index(const fs::path& folder) {
  WeightIndex index = read_weight_index(path_);
  for (const std::string& name : index.files) {
    if (!is_there(folder / name)) throw index_error(path_, fmt::format("it names {}, which is missing", name));
    if (leads_outside(folder, folder / name)) {
      throw index_error(
          path_, fmt::format("it names {}, a link to {} outside of the folder", name, fs::canonical(folder / name).string()));
    }
    files_.push_back(SafetensorsFile::open(folder / name));
  }
  names_ = std::move(index.files);
  for (const auto& [tensor, file] : index.places) {
    if (files_[file].find(tensor) == nullptr) {
      throw index_error(path_, fmt::format("tensor '{}' is not in {}, as it says", tensor, names_[file]));
    }
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const StoredTensor& tensor : files_[i].tensors()) {
      const auto name_of = [](const auto& place) -> const std::string& { return place.first; };
      const auto found = std::ranges::lower_bound(index.places, tensor.name, {}, name_of);
      if (found == index.places.end() || found->first != tensor.name) {
        throw index_error(path_, fmt::format("it does not name tensor '{}', which is in {}", tensor.name, names_[i]));
      }
      if (found->second != i) {
        throw index_error(path_, fmt::format("tensor '{}' is in {} and in {}", tensor.name, names_[found->second], names_[i]));
      }
    }
  }
}

std::optional<WeightFiles::Found> WeightFiles::find(std::string_view name) const {
  if (gguf_) {
    const StoredTensor* tensor = gguf_->find(name);
    return tensor == nullptr ? std::nullopt : std::optional(Found{0, tensor});
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (const StoredTensor* tensor = files_[i].find(name)) return Found{i, tensor};
  }
  return {};
}

std::vector<WeightFiles::Found> WeightFiles::all() const {
  std::vector<Found> result;
  if (gguf_) {
    for (const StoredTensor& tensor : gguf_->tensors()) result.push_back({0, &tensor});
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const StoredTensor& tensor : files_[i].tensors()) result.push_back({i, &tensor});
  }
  return result;
}

void WeightFiles::require_readable(const Found& found) const {
  if (!gguf_) plimsoll::require_readable(files_[found.file], *found.tensor);
}

void WeightFiles::read_f32(const Found& found, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const {
  if (gguf_) return gguf_->read_f32(*found.tensor, begin, out, staging);
  files_[found.file].read_f32(*found.tensor, begin, out, staging);
}

void WeightFiles::forget(const Found& found) const noexcept {
  if (gguf_) return gguf_->forget(*found.tensor);
  files_[found.file].forget(*found.tensor);
}

const std::string& WeightFiles::path_of(const Found& found) const { return gguf_ ? path_ : files_[found.file].path(); }

void WeightFiles::forget() const noexcept {
  if (gguf_) gguf_->forget();
  for (const SafetensorsFile& file : files_) file.forget();
}

bool has_weights(const fs::path& folder) { return is_there(folder / kWeightsFile) || is_there(folder / kWeightsIndex); }

bool is_weights_name(std::string_view name) {
  if (name == kWeightsFile || name == kWeightsIndex) return true;
  return name.starts_with("model-") && name.ends_with(".safetensors") && name.find("-of-") != std::string_view::npos;
}

Bytes weights_in(const fs::path& folder) {
  Bytes bytes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors") && name != kWeightsIndex) continue;
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += Bytes{static_cast<std::int64_t>(size)};
  }
  return bytes;
}

}  // namespace plimsoll
