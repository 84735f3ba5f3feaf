#include "models/vit/vit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "models/timm.h"
#include "models/vision_config.h"

namespace plimsoll {
namespace {

const VitConfig& of(const ModelConfig& config) { return config.as<VitConfig>(); }

// "vit_base_patch16_224": a size, a patch and a size of images, without further words, which stand for other computations.
bool of_timm(std::string_view architecture) {
  constexpr std::array<std::string_view, 7> kSizes{"tiny", "small", "base", "large", "huge", "giant", "gigantic"};
  const auto take = [&](std::string_view prefix) {
    if (!architecture.starts_with(prefix)) return false;
    architecture.remove_prefix(prefix.size());
    return true;
  };
  const auto take_number = [&] {
    const auto end = std::ranges::find_if(architecture, [](char c) { return c < '0' || c > '9'; }) - architecture.begin();
    architecture.remove_prefix(static_cast<std::size_t>(end));
    return end > 0;
  };
  return take("vit_") && std::ranges::any_of(kSizes, take) && take("_patch") && take_number() && take("_") && take_number() &&
         architecture.empty();
}

struct Renamed {
  std::string_view old, now;
};
// The modules of transformers 5, which loads and writes the names of version 4.
constexpr std::array<Renamed, 7> kModules{{{"vit.encoder.layer.", "vit.layers."},
                                           {".attention.attention.query.", ".attention.q_proj."},
                                           {".attention.attention.key.", ".attention.k_proj."},
                                           {".attention.attention.value.", ".attention.v_proj."},
                                           {".attention.output.dense.", ".attention.o_proj."},
                                           {".intermediate.dense.", ".mlp.fc1."},
                                           {".output.dense.", ".mlp.fc2."}}};

std::string in_modules(std::string_view parameter) {
  std::string name(parameter);
  for (const Renamed& each : kModules) {
    if (const auto at = name.find(each.old); at != std::string::npos) name.replace(at, each.old.size(), each.now);
  }
  return name;
}

// Files of the model without a head have no prefix.
std::vector<std::string> stored(const ModelConfig& config, std::string_view parameter) {
  std::vector<std::string> names{std::string(parameter)};
  if (of(config).timm) return names;
  if (std::string module = in_modules(parameter); module != parameter) names.push_back(std::move(module));
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (names[i].starts_with("vit.")) names.push_back(names[i].substr(4));
  }
  return names;
}

bool ignored(std::string_view name) { return name.starts_with("vit.pooler.") || name.starts_with("pooler."); }

ModelFacts facts(const ModelConfig& config) {
  const VitConfig& c = of(config);
  const double layers = static_cast<double>(c.layers), width = static_cast<double>(c.width);
  const double mlp = static_cast<double>(c.mlp_width), patches = static_cast<double>(c.patches() + 1);
  const double pixels = static_cast<double>(c.patch * c.patch * c.channels);
  return {
      .positions = 1,
      .classes = c.classes,
      .channels = c.channels,
      .image_size = c.size,
      .head = c.timm ? "head" : "classifier",
      .new_head = c.head == Head::fresh,
      .chance_loss = std::log(static_cast<double>(c.classes)),
      .parameters = layers * (4 * width * width + 2 * width * mlp) + width * (pixels + patches + static_cast<double>(c.classes)),
      .values_per_token = patches * layers * (8 * width + 2 * mlp)};
}

}  // namespace

const Family kVit{
    .kind = "vit",
    .title = "ViT",
    .defaults = [] { return ModelConfig(kVit, VitConfig{}); },
    .keys = vit_keys,
    .read = [](const ConfigReader& reader) { return ModelConfig(kVit, read_vit_config(reader)); },
    .of_timm = of_timm,
    .read_timm = [](const TimmModel& model) { return ModelConfig(kVit, read_timm_vit(model)); },
    .write = [](const ModelConfig& config, const std::filesystem::path& folder) { write_vit_config(of(config), folder); },
    .build = [](const ModelConfig& config, const BatchShape& shape,
                const BuildOptions& options) { return build_vit(of(config), shape, options); },
    .stored = stored,
    .ignored = ignored,
    .in_modules = in_modules,
    .facts = facts,
    .describe =
        [](const ModelConfig& config) { return fmt::format("vit of {} layers, width {}", of(config).layers, of(config).width); },
    .fault = vit_fault,
    .with_new_head = with_new_head<VitConfig>};

}  // namespace plimsoll
