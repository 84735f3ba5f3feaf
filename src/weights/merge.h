// Merges an adapter into its base, file by file: W + s B A, with DoRA also scaled row by row to the magnitudes. Nothing of a
// tensor's size is allocated. Each tensor keeps its file, its name and its type, unless the request has another type. A base
// stored in blocks becomes bf16 as a whole, and a GGUF file becomes a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "autodiff/frozen_base.h"
#include "tensor/dtype.h"
#include "weights/companions.h"

namespace plimsoll {

struct MergeRequest {
  std::filesystem::path base, adapter, out;
  std::optional<DType> type;  // of all tensors; absent: the types of the base
  // The format in which the training kept the base. Linear layers are rounded to it before the changes are added.
  BaseFormat as = BaseFormat::none;
};

struct MergeResult {
  std::int64_t layers = 0;    // changed by the adapter
  std::int64_t replaced = 0;  // tensors taken whole from the adapter
  bool untied = false;        // the head is now a separate tensor
  bool rounded = false;       // the sums were rounded to 16 bits
  DType type = DType::f32;    // of the sums
  std::string blocks;         // the block formats of the base, for example "q4_1, q8_0"; empty: none
  Companions companions;      // other files taken from the adapter
};

// Replaces the folder `out` as a whole. E-ADAPTER-OUT, E-EXPORT-RANGE, and the errors of opening and reading the two folders
// (weights/model_source.h).
MergeResult merge_adapter(const MergeRequest& request);

}  // namespace plimsoll
