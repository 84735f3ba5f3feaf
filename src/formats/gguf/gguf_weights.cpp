#include "formats/gguf/gguf_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/gguf/gguf_config.h"

namespace plimsoll {
namespace {

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

std::string_view find_name(std::span<const Names> names, std::string_view stem) {
  const auto found = std::ranges::find(names, stem, &Names::first);
  return found == names.end() ? std::string_view() : found->second;
}

struct Named {
  std::string name;       // in a Hugging Face folder; empty: no family has it
  std::string_view stem;  // "attn_q"
  bool in_block = false, weight = false;
};

Named named(std::string_view text, bool gpt2) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view ending = text.substr(dot), whole = text.substr(0, dot);
  if (ending != ".weight" && ending != ".bias") return {};
  Named result{.stem = whole, .weight = ending == ".weight"};
  std::string prefix;
  if (whole.starts_with("blk.")) {
    const std::size_t end = whole.find('.', 4);
    const std::string_view layer = end == std::string_view::npos ? "" : whole.substr(4, end - 4);
    const bool number = !layer.empty() && std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
    if (!number) return {};
    result.stem = whole.substr(end + 1);
    result.in_block = true;
    prefix = fmt::format("{}.{}.", gpt2 ? "h" : "model.layers", layer);
  }
  const std::string_view name =
      gpt2 ? find_name(result.in_block ? std::span<const Names>(kGpt2BlockNames) : kGpt2Names, result.stem)
           : find_name(result.in_block ? std::span<const Names>(kDecoderBlockNames) : kDecoderNames, result.stem);
  if (!name.empty()) result.name = fmt::format("{}{}{}", prefix, name, ending);
  return result;
}

// The row of the file that holds a row of the model: element i of half h of a head lies at 2i + h.
std::int64_t interleaved(std::int64_t row, std::int64_t head_size) {
  const std::int64_t within = row % head_size, half = head_size / 2;
  return row - within + 2 * (within % half) + within / half;
}

}  // namespace

GgufWeights GgufWeights::open(const std::filesystem::path& path) {
  GgufWeights result;
  result.file_ = GgufFile::open(path);
  const GgufFile& file = result.file_;
  const std::string architecture = gguf_architecture(file);
  const bool gpt2 = architecture == "gpt2", interleaves = architecture == "llama" || architecture == "mistral";
  const GgufHeads heads = gguf_heads(file, architecture);
  std::vector<std::pair<StoredTensor, Place>> all;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor& tensor = file.tensors()[i];
    if (tensor.name == "rope_freqs.weight") continue;  // the configuration says it
    const Named name = named(tensor.name, gpt2);
    StoredTensor stored{.name = name.name.empty() ? tensor.name : name.name,
                        .stored_as = std::string(tensor.stored_as),
                        .dtype = tensor.dtype,
                        .shape = tensor.shape,
                        .offset = tensor.offset,
                        .bytes = tensor.bytes};
    Place place{.tensor = i};
    if (interleaves && name.in_block && (name.stem == "attn_q" || name.stem == "attn_k")) {
      const std::int64_t count = name.stem == "attn_q" ? heads.queries : heads.keys, rows = tensor.shape[0];
      if (rows % (2 * count) != 0) {
        throw file.malformed(fmt::format("{} has {} rows for {} heads", tensor.name, rows, count),
                             "an even number for each head");
      }
      place.head_size = rows / count;
    }
    if (gpt2 && name.in_block && name.weight && tensor.shape.rank() == 2) {
      place.turned = true;
      stored.shape = {tensor.shape[1], tensor.shape[0]};
    }
    all.emplace_back(std::move(stored), place);
  }
  std::ranges::sort(all, {}, [](const auto& each) -> const std::string& { return each.first.name; });
  for (auto& [stored, place] : all) {
    if (!result.tensors_.empty() && result.tensors_.back().name == stored.name) {
      throw file.malformed(fmt::format("two tensors are {}", stored.name));
    }
    result.tensors_.push_back(std::move(stored));
    result.places_.push_back(place);
  }
  return result;
}

const StoredTensor* GgufWeights::find(std::string_view name) const {
  const auto name_of = [](const StoredTensor& tensor) -> std::string_view { return tensor.name; };
  const auto found = std::ranges::lower_bound(tensors_, name, {}, name_of);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void GgufWeights::read_f32(const StoredTensor& tensor, std::int64_t begin, std::span<float> out,
                           std::span<std::byte> staging) const {
  const Place& place = place_of(tensor);
  const GgufTensor& from = stored(place);
  if (place.turned) return read_turned(from, begin, out, staging);
  if (place.head_size == 0) return file_.read_f32(from, begin, out, staging);
  const std::int64_t columns = from.shape.elements() / from.shape[0];
  while (!out.empty()) {
    const std::int64_t row = begin / columns, skipped = begin % columns;
    const std::span<float> part = out.first(static_cast<std::size_t>(std::min<std::int64_t>(columns - skipped, std::ssize(out))));
    file_.read_f32(from, interleaved(row, place.head_size) * columns + skipped, part, staging);
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

// Rows of the model are columns of the file: strips of them, each from every row of the file.
void GgufWeights::read_turned(const GgufTensor& from, std::int64_t begin, std::span<float> out,
                              std::span<std::byte> staging) const {
  constexpr std::int64_t kStrip = 4096;
  const std::int64_t outputs = from.shape[0], inputs = from.shape[1], end = begin + std::ssize(out);
  std::vector<float> strip;
  for (std::int64_t first = begin / outputs; first * outputs < end; first += kStrip) {
    const std::int64_t last = std::min({first + kStrip, (end + outputs - 1) / outputs, inputs});
    strip.resize(static_cast<std::size_t>(last - first));
    for (std::int64_t output = 0; output < outputs; ++output) {
      file_.read_f32(from, output * inputs + first, strip, staging);
      for (std::int64_t input = first; input < last; ++input) {
        const std::int64_t element = input * outputs + output;
        if (element >= begin && element < end) {
          out[static_cast<std::size_t>(element - begin)] = strip[static_cast<std::size_t>(input - first)];
        }
      }
    }
  }
}

std::optional<BlockMatrix> GgufWeights::blocks(const StoredTensor& tensor) const {
  const Place& place = place_of(tensor);
  const GgufTensor& from = stored(place);
  if (!from.blocks || place.turned) return {};
  const std::int64_t columns = from.shape.last();
  return BlockMatrix{*from.blocks, from.shape.elements() / columns, columns};
}

void GgufWeights::read_blocks(const StoredTensor& tensor, std::int64_t begin, std::span<std::byte> out) const {
  const auto matrix = blocks(tensor);
  ensure(matrix && begin >= 0 && begin + std::ssize(out) <= tensor.bytes, "GgufWeights::read_blocks",
         "bytes of a tensor that is not in blocks, or that it lacks");
  const Place& place = place_of(tensor);
  if (place.head_size == 0) return file_.file().read_at(tensor.offset + begin, out);
  const std::int64_t row_bytes = tensor.bytes / matrix->rows;
  while (!out.empty()) {
    const std::int64_t row = begin / row_bytes, skipped = begin % row_bytes;
    const auto part = out.first(static_cast<std::size_t>(std::min<std::int64_t>(row_bytes - skipped, std::ssize(out))));
    file_.file().read_at(tensor.offset + interleaved(row, place.head_size) * row_bytes + skipped, part);
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

}  // namespace plimsoll
