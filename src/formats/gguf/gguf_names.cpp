#include "formats/gguf/gguf_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace plimsoll {
namespace {

// In the file and in the folder.
using Names = std::pair<std::string_view, std::string_view>;

// Without ".weight" and ".bias".
constexpr Names kDecoderNames[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Names kDecoderBlockNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr Names kGpt2Names[] = {{"token_embd", "wte"}, {"position_embd", "wpe"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};
constexpr Names kGpt2BlockNames[] = {
    {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"},
};

// One side of a naming: where the names of a block begin, and the part of a pair that is this side's.
struct Side {
  std::string_view block;
  std::string_view Names::*part;
};

struct Naming {
  std::span<const Names> outside, in_block;
  Side file, folder;
};

Naming naming_of(std::string_view architecture) {
  const Side file{"blk.", &Names::first};
  if (architecture == "gpt2") return {kGpt2Names, kGpt2BlockNames, file, {"h.", &Names::second}};
  return {kDecoderNames, kDecoderBlockNames, file, {"model.layers.", &Names::second}};
}

GgufName renamed(std::string_view text, const Naming& naming, const Side& from, const Side& to) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view ending = text.substr(dot), whole = text.substr(0, dot);
  if (ending != ".weight" && ending != ".bias") return {};
  GgufName result{.name = "", .stem = whole, .in_block = false, .weight = ending == ".weight"};
  std::string prefix;
  if (whole.starts_with(from.block)) {
    const std::size_t begin = from.block.size(), end = whole.find('.', begin);
    const std::string_view layer = end == std::string_view::npos ? "" : whole.substr(begin, end - begin);
    const bool number = !layer.empty() && std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
    if (!number) return {};
    result.stem = whole.substr(end + 1);
    result.in_block = true;
    prefix = fmt::format("{}{}.", to.block, layer);
  }
  const std::span<const Names> names = result.in_block ? naming.in_block : naming.outside;
  const auto found = std::ranges::find(names, result.stem, from.part);
  if (found == names.end()) return result;
  result.stem = found->first;
  result.name = fmt::format("{}{}{}", prefix, (*found).*to.part, ending);
  return result;
}

}  // namespace

GgufName name_in_folder(std::string_view name, std::string_view architecture) {
  const Naming naming = naming_of(architecture);
  return renamed(name, naming, naming.file, naming.folder);
}

GgufName name_in_gguf(std::string_view name, std::string_view architecture) {
  const Naming naming = naming_of(architecture);
  return renamed(name, naming, naming.folder, naming.file);
}

GgufOrder gguf_order(const GgufName& name, std::string_view architecture, const GgufHeads& heads, std::int64_t rank) {
  const bool interleaves = architecture == "llama" || architecture == "mistral";
  GgufOrder order;
  if (interleaves && name.in_block && name.stem == "attn_q") order.heads = heads.queries;
  if (interleaves && name.in_block && name.stem == "attn_k") order.heads = heads.keys;
  order.turned = architecture == "gpt2" && name.in_block && name.weight && rank == 2;
  return order;
}

std::int64_t row_in_gguf(std::int64_t row, std::int64_t head_size) {
  const std::int64_t within = row % head_size, half = head_size / 2;
  return row - within + 2 * (within % half) + within / half;
}

std::int64_t row_in_folder(std::int64_t row, std::int64_t head_size) {
  const std::int64_t within = row % head_size, half = head_size / 2;
  return row - within + within % 2 * half + within / 2;
}

}  // namespace plimsoll
