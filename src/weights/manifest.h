// The manifest of a checkpoint: the counters of the training, and the files beside it. Its last member is the checksum of all
// bytes in front of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "weights/pieces.h"
#include "weights/progress.h"

namespace plimsoll {

inline constexpr const char *kManifestFile = "manifest.json", *kStateFile = "state.safetensors";
inline constexpr Bytes kMostManifest{1 << 14}, kMostPieces{64 << 20};  // written by one process, and by several
// The file of a rank.
std::string state_file_name(int rank);

struct ManifestFile {
  std::string name;  // plain
  Bytes bytes;
  std::string header_xxh128;  // of the bytes in front of the first tensor
};

struct Manifest {
  Progress progress;
  std::vector<ManifestFile> files;  // at least one
  std::int64_t ranks = 1;
  std::vector<Piece> pieces = {};  // of all tensors; empty: the first file has them whole
};

std::string manifest_text(const Manifest& manifest);
// data_error E-CKPT-CORRUPT if it is missing or not as it was written, E-CKPT-FORMAT if it is of another kind.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace plimsoll
