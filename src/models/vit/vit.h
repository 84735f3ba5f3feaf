// Vision transformers (Dosovitskiy et al., 2020): patches, a class token, learned positions, pre-norm blocks, a linear head on
// the class token. Parameters carry the names of a file: of transformers (ViTForImageClassification) or of timm (vit_*_patch*).
#pragma once

#include <cstdint>
#include <span>

#include "models/family.h"
#include "ops/gated/gated.h"

namespace plimsoll {

struct VitConfig {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t mlp_width = 3072;
  std::int64_t patch = 16;  // height and width of a patch
  std::int64_t size = 224;  // height and width of an image, a multiple of the patch
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  double norm_epsilon = 1e-12;
  double dropout = 0;  // of embeddings and both branches of a block
  double attention_dropout = 0;
  double initializer_range = 0.02;
  ops::Activation activation = ops::Activation::gelu_erf;
  bool qkv_bias = true;
  bool timm = false;  // names of timm, and one matrix for queries, keys and values
  Head head = Head::keep;

  std::int64_t patches() const { return (size / patch) * (size / patch); }
  const VitConfig& settled() const { return *this; }  // no size stands for a rule

  friend bool operator==(const VitConfig&, const VitConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("layers", layers), v("width", width), v("heads", heads), v("mlp_width", mlp_width), v("patch", patch), v("size", size);
    v("channels", channels), v("classes", classes), v("norm_epsilon", norm_epsilon), v("dropout", dropout);
    v("attention_dropout", attention_dropout), v("initializer_range", initializer_range), v("activation", activation);
    v("qkv_bias", qkv_bias), v("timm", timm), v("head", head);
  }
};

extern const Family kVit;

VitConfig read_vit_config(const ConfigReader& reader);
VitConfig read_timm_vit(const TimmModel& model);
void write_vit_config(const VitConfig& config, const std::filesystem::path& folder);
ModelGraph build_vit(const VitConfig& config, const BatchShape& shape, const BuildOptions& options);
std::span<const ModelKey> vit_keys();
std::optional<ModelRemark> vit_fault(const ModelConfig& config);

}  // namespace plimsoll
