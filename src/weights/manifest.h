// The manifest of a checkpoint: the counters of the training, and the files beside it. Its last member is the checksum of all
// bytes in front of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "weights/progress.h"

namespace plimsoll {

inline constexpr const char *kManifestFile = "manifest.json", *kStateFile = "state.safetensors";
inline constexpr Bytes kMostManifest{1 << 14};

struct ManifestFile {
  std::string name;  // plain
  Bytes bytes;
  std::string header_xxh128;  // of the bytes in front of the first tensor
};

struct Manifest {
  Progress progress;
  std::vector<ManifestFile> files;  // at least one
};

std::string manifest_text(const Manifest& manifest);
// data_error E-CKPT-CORRUPT if it is missing or not as it was written, E-CKPT-FORMAT if it is of another kind.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace plimsoll
