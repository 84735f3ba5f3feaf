// The normalisation of pixels that a model was made for, in the files of its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace plimsoll {

inline constexpr const char* kPreprocessor = "preprocessor_config.json";

// A pixel v in [0, 255] becomes (v / 255 - mean) / std; one number for each channel, or one for all.
struct PixelNorm {
  std::vector<double> mean{0.5}, std{0.5};

  friend bool operator==(const PixelNorm&, const PixelNorm&) = default;
};

// From preprocessor_config.json of transformers, or pretrained_cfg of timm's config.json; 0.5 if neither says anything.
// E-FORMAT-CONFIG for anything but lists of numbers, for a standard deviation of 0, and for another scale of pixels.
PixelNorm pixel_norm_of(const std::filesystem::path& folder);

// Writes preprocessor_config.json for images of this size, 0: of any size. Other keys of a file that is there stay.
void write_preprocessor(const PixelNorm& norm, std::int64_t size, const std::filesystem::path& folder);

}  // namespace plimsoll
