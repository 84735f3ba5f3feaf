// An adapter taken into its base, file by file: W + s B A, or with DoRA its rows scaled to their magnitudes. Nothing of a
// tensor's size is allocated. Each tensor keeps its file, its name and, unless another one is asked for, its type. Of a base that
// is stored in blocks all becomes bf16, and a GGUF file becomes a folder.
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
  std::optional<DType> type;  // of all tensors; absent: as the base has them
  // What linear layers are rounded to before their changes are added: what a training that stores its base so multiplies with.
  BaseFormat as = BaseFormat::none;
};

struct MergeResult {
  std::int64_t layers = 0;    // that the adapter changed
  std::int64_t replaced = 0;  // tensors that came whole with it
  bool untied = false;        // the head has become a tensor of its own
  bool rounded = false;       // the sums were rounded to 16 bits
  DType type = DType::f32;    // of the sums
  std::string blocks;         // how the base is stored, where it is so in blocks: "q4_1, q8_0"
  Companions companions;      // what the folder has of the adapter beside the weights
};

// Replaces the folder `out` as a whole. E-ADAPTER-OUT, E-EXPORT-RANGE, and what opening and reading the two folders throws
// (weights/model_source.h).
MergeResult merge_adapter(const MergeRequest& request);

}  // namespace plimsoll
