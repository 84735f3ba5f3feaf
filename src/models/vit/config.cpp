#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/timm.h"
#include "models/vision_config.h"
#include "models/vit/vit.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using ops::Activation;

constexpr std::array<std::pair<std::string_view, Activation>, 5> kActivations{{{"gelu", Activation::gelu_erf},
                                                                               {"gelu_new", Activation::gelu_tanh},
                                                                               {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                                               {"silu", Activation::silu},
                                                                               {"swish", Activation::silu}}};

Activation read_activation(const ConfigReader& reader) {
  const Json value = reader.json().value("hidden_act", Json("gelu"));
  for (const auto& [name, activation] : kActivations) {
    if (value == name) return activation;
  }
  throw reader.refuse(fmt::format("hidden_act is {}", ConfigReader::shown(value)),
                      R"(one of "gelu", "gelu_new", "gelu_pytorch_tanh", "silu")");
}

void check(const ConfigReader& reader, const VitConfig& c) {
  if (c.width % c.heads != 0) {
    throw reader.refuse(fmt::format("{} heads share a width of {}", c.heads, c.width), "heads that divide the width");
  }
  if (c.size % c.patch != 0) {
    throw reader.refuse(fmt::format("patches of {} cut an image of {}", c.patch, c.size),
                        "a size that is a multiple of the patch");
  }
}

}  // namespace

VitConfig read_vit_config(const ConfigReader& reader) {
  reader.demand("model_type", {"vit"});
  VitConfig c;  // transformers omits keys that equal the defaults of the class
  c.layers = reader.count("num_hidden_layers", c.layers, kMaxLayers);
  c.width = reader.count("hidden_size", c.width, kMaxWidth);
  c.heads = reader.count("num_attention_heads", c.heads, kMaxHeads);
  c.mlp_width = reader.count("intermediate_size", c.mlp_width, kMaxWidth);
  c.patch = read_side(reader, "patch_size", c.patch, kMaxImage);
  c.size = read_side(reader, "image_size", c.size, kMaxImage);
  c.channels = reader.count("num_channels", c.channels, kMaxChannels);
  c.classes = read_classes(reader);
  c.norm_epsilon = reader.number("layer_norm_eps", c.norm_epsilon, 1e-20, 1);
  c.dropout = reader.number("hidden_dropout_prob", 0, 0, 1);
  c.attention_dropout = reader.number("attention_probs_dropout_prob", 0, 0, 1);
  c.initializer_range = reader.number("initializer_range", c.initializer_range, 0, 1e3);
  c.activation = read_activation(reader);
  c.qkv_bias = reader.flag("qkv_bias", true);
  reader.demand("quantization_config", {nullptr});
  check(reader, c);
  return c;
}

VitConfig read_timm_vit(const TimmModel& model) {
  // Heads do not follow from the tensors.
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 7> kHeadsOf{{{"vit_tiny_", 3},
                                                                               {"vit_small_", 6},
                                                                               {"vit_base_", 12},
                                                                               {"vit_large_", 16},
                                                                               {"vit_huge_", 16},
                                                                               {"vit_giant_", 16},
                                                                               {"vit_gigantic_", 16}}};
  const auto* const of_name =
      std::ranges::find_if(kHeadsOf, [&](const auto& each) { return model.architecture().starts_with(each.first); });
  VitConfig c;
  c.timm = true;
  c.heads = of_name->second;
  c.layers = model.blocks("blocks");
  const Shape& patches = model.shape("patch_embed.proj.weight", 4);
  c.width = patches[0], c.channels = patches[1], c.patch = patches[2];
  c.mlp_width = model.shape("blocks.0.mlp.fc1.weight", 2)[0];
  c.qkv_bias = model.has("blocks.0.attn.qkv.bias");
  c.size = model.input_size();
  c.norm_epsilon = 1e-6;
  c.classes = model.classes("head");
  model.demand_pool("token");
  check(model.config(), c);
  return c;
}

void write_vit_config(const VitConfig& c, const std::filesystem::path& folder) {
  if (c.timm) return write_timm_config(folder, c.classes);
  OrderedJson json = config_that_is_there(folder);
  const bool is_new = json.empty();
  json["model_type"] = "vit";
  const auto put = [&](const char* key, auto value, auto fallback) {
    if (is_new || json.contains(key) || value != fallback) json[key] = value;
  };
  const VitConfig absent;
  put("num_hidden_layers", c.layers, absent.layers);
  put("hidden_size", c.width, absent.width);
  put("num_attention_heads", c.heads, absent.heads);
  put("intermediate_size", c.mlp_width, absent.mlp_width);
  if (is_new) json["patch_size"] = c.patch, json["image_size"] = c.size;
  put("num_channels", c.channels, absent.channels);
  put("layer_norm_eps", c.norm_epsilon, absent.norm_epsilon);
  put("hidden_dropout_prob", c.dropout, absent.dropout);
  put("attention_probs_dropout_prob", c.attention_dropout, absent.attention_dropout);
  put("initializer_range", c.initializer_range, absent.initializer_range);
  put("qkv_bias", c.qkv_bias, absent.qkv_bias);
  if (is_new) {
    const auto* const named = std::ranges::find(kActivations, c.activation, &std::pair<std::string_view, Activation>::second);
    json["hidden_act"] = named->first;
  }
  write_classes(json, "ViTForImageClassification", c.classes, c.head);
  write_config(folder, json);
}

}  // namespace plimsoll
