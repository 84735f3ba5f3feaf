#include "models/gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "models/all.h"
#include "models/family.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 30;

// A key with one supported value: the value of files without it.
struct NeutralKey {
  std::string_view name;
  double value;
};
constexpr NeutralKey kNeutral[] = {{"expert_count", 0},
                                   {"expert_used_count", 0},
                                   {"expert_shared_count", 0},
                                   {"expert_feed_forward_length", 0},
                                   {"leading_dense_block_count", 0},
                                   {"nextn_predict_layers", 0},
                                   {"logit_scale", 1},
                                   {"residual_scale", 1},
                                   {"embedding_scale", 1},
                                   {"attention.scale", 0},
                                   {"attention.clamp_kqv", 0},
                                   {"attention.max_alibi_bias", 0},
                                   {"attn_logit_softcapping", 0},
                                   {"final_logit_softcapping", 0},
                                   {"rope.scaling.attn_factor", 1},
                                   {"rope.scaling.yarn_attn_factor", 1},
                                   {"rope.scaling.yarn_log_multiplier", 0}};
// Keys that are read or change no logits: the token table gives the size of the vocabulary, pooling comes after the last layer,
// and all files have the layout of the first ones.
constexpr std::string_view kOfAll[] = {"block_count",          "context_length",
                                       "embedding_length",     "feed_forward_length",
                                       "attention.head_count", "attention.head_count_kv",
                                       "attention.key_length", "attention.value_length",
                                       "attention.causal",     "attention.layer_norm_epsilon",
                                       "vocab_size",           "pooling_type",
                                       "tensor_data_layout"};

std::string architecture_of(const GgufFile& file) {
  const auto architecture = file.text("general.architecture");
  if (!architecture) throw file.malformed("there is no key general.architecture", "a model");
  return *architecture;
}

const GgufForm& form_of(const GgufFile& file) {
  const std::string architecture = architecture_of(file);
  std::string known;
  for (const Family* family : families()) {
    if (family->gguf == nullptr) continue;
    if (family->kind == architecture) return *family->gguf;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->kind);
  }
  throw file.malformed(fmt::format("its architecture is '{}', and Plimsoll has no such model", architecture), "one of " + known);
}

}  // namespace

GgufModelKeys::GgufModelKeys(const GgufFile& file)
    : file_(file), architecture_(architecture_of(file)), prefix_(architecture_ + ".") {}

std::optional<std::int64_t> GgufModelKeys::size(std::string_view name) const {
  const std::string key = prefix_ + std::string(name);
  const auto values = file_.wholes(key, 4096);
  if (!values) return {};
  if (std::ranges::any_of(*values, [&](std::int64_t value) { return value != values->front(); })) {
    throw file_.malformed(fmt::format("{} differs between layers", key), "the same number for each layer");
  }
  if (values->front() < 1 || values->front() > kMostSize) {
    throw file_.malformed(fmt::format("{} is {}", key, values->front()), fmt::format("a number from 1 to {}", kMostSize));
  }
  return values->front();
}

std::int64_t GgufModelKeys::required(std::string_view name) const {
  if (const auto value = size(name)) return *value;
  throw file_.malformed(fmt::format("there is no key {}{}", prefix_, name), "the shape of the model");
}

std::int64_t GgufModelKeys::blocks() const {
  const std::int64_t count = required("block_count");
  if (count <= std::ssize(file_.tensors())) return count;
  throw file_.malformed(fmt::format("{}block_count is {}, and the file has {} tensors", prefix_, count, file_.tensors().size()),
                        "a tensor for each block, at least");
}

double GgufModelKeys::number(std::string_view name, double fallback) const {
  const std::string key = prefix_ + std::string(name);
  const double value = file_.number(key).value_or(fallback);
  if (!(value > 0 && std::isfinite(value))) throw file_.malformed(fmt::format("{} is {}", key, value), "a number above 0");
  return value;
}

void GgufModelKeys::demand(std::string_view name, double neutral) const {
  const std::string key = prefix_ + std::string(name);
  const auto value = file_.number(key);
  if (!value || *value == neutral) return;
  throw file_.malformed(fmt::format("{} is {}, which is not supported", key, *value), fmt::format("{}, or no such key", neutral));
}

void GgufModelKeys::refuse_unknown(std::initializer_list<std::string_view> more) const {
  for (const std::string_view key : file_.keys_under(prefix_)) {
    const std::string_view name = key.substr(prefix_.size());
    const bool known = std::ranges::find(kOfAll, name) != std::end(kOfAll) ||
                       std::ranges::find(kNeutral, name, &NeutralKey::name) != std::end(kNeutral) ||
                       std::ranges::find(more, name) != more.end();
    if (known) continue;
    throw file_.malformed(fmt::format("there is a key {}, which is not known", key),
                          fmt::format("supported keys of {} models", architecture_));
  }
  for (const auto& [name, value] : kNeutral) demand(name, value);
  if (!file_.flag(prefix_ + "attention.causal").value_or(true)) {
    throw file_.malformed(fmt::format("{}attention.causal is false, which is not supported", prefix_),
                          "true, or no such key: a token sees those before it");
  }
  const std::int64_t parts = file_.whole("split.count").value_or(1);
  if (parts > 1) {
    throw file_.malformed(fmt::format("it is one of {} parts of a model", parts),
                          "one file, which llama-gguf-split merges from the parts");
  }
}

std::int64_t gguf_vocabulary(const GgufFile& file) { return gguf_table(file).shape[0]; }

nlohmann::ordered_json gguf_config(const GgufFile& file) {
  nlohmann::ordered_json json;
  form_of(file).config(GgufModelKeys(file), json);
  put_gguf_tokens(file, json);
  return json;
}

void write_gguf_config(const GgufFile& file, const std::filesystem::path& folder, bool replace) {
  const auto wanted = [&](const char* name) { return replace || !is_there(folder / name); };
  if (wanted("config.json")) write_config(folder, gguf_config(file));
  if (wanted("generation_config.json")) write_json(folder / "generation_config.json", gguf_generation_config(file));
}

namespace {

// The lines that convert a file of PyTorch, such as torchvision's, to a folder.
Error pickled(const std::filesystem::path& file) {
  const std::string name = file.string(), folder = file.stem().string();
  return data_error(
      "E-FORMAT-WEIGHTS", name, "it is a file of PyTorch, which may run any program when it is opened", "a folder of safetensors",
      {fmt::format(
           "mkdir {0} && python3 -c 'import torch; from safetensors.torch import save_file; "
           "save_file({{n: t.contiguous() for n, t in torch.load(\"{1}\", map_location=\"cpu\", weights_only=True).items()}}, "
           "\"{0}/model.safetensors\")'",
           folder, name),
       fmt::format("then {0}/config.json, of timm's names {{\"architecture\": \"resnet18\", \"pretrained_cfg\": "
                   "{{\"input_size\": [3, 224, 224]}}}}",
                   folder)});
}

}  // namespace

ConfigReader config_of_model(const std::filesystem::path& model) {
  constexpr std::array<std::string_view, 3> kPickles{".pth", ".pt", ".bin"};
  if (std::ranges::find(kPickles, model.extension().string()) != kPickles.end() && is_there(model)) throw pickled(model);
  if (!is_gguf(model)) return ConfigReader(model / "config.json");
  return {model.string(), gguf_config(GgufFile::open(model))};
}

WeightFiles weights_of_model(const std::filesystem::path& model) {
  if (!is_gguf(model)) return WeightFiles::open(model);
  GgufFile file = GgufFile::open(model);
  const GgufLayout layout = form_of(file).layout(GgufModelKeys(file));
  return WeightFiles::of_gguf(GgufWeights(std::move(file), layout));
}

}  // namespace plimsoll
