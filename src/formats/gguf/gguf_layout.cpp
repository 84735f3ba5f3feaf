#include "formats/gguf/gguf_layout.h"

#include <fmt/core.h>

#include <algorithm>

namespace plimsoll {
namespace {

// One side of a pair of names: the prefix of its blocks, and its part of the pair.
struct Side {
  std::string_view blocks;
  std::string_view GgufNamePair::*part;
};

Side file_side() { return {"blk.", &GgufNamePair::first}; }
Side folder_side(const GgufLayout& layout) { return {layout.blocks, &GgufNamePair::second}; }

GgufName renamed(std::string_view text, const GgufLayout& layout, const Side& from, const Side& to) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view ending = text.substr(dot), whole = text.substr(0, dot);
  if (ending != ".weight" && ending != ".bias") return {};
  GgufName result{.name = "", .stem = whole, .in_block = false, .weight = ending == ".weight"};
  std::string prefix;
  if (whole.starts_with(from.blocks)) {
    const std::size_t begin = from.blocks.size(), end = whole.find('.', begin);
    const std::string_view layer = end == std::string_view::npos ? "" : whole.substr(begin, end - begin);
    const bool number = !layer.empty() && std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
    if (!number) return {};
    result.stem = whole.substr(end + 1);
    result.in_block = true;
    prefix = fmt::format("{}{}.", to.blocks, layer);
  }
  const std::span<const GgufNamePair> names = result.in_block ? layout.block_names : layout.names;
  const auto found = std::ranges::find(names, result.stem, from.part);
  if (found == names.end()) return result;
  result.stem = found->first;
  result.name = fmt::format("{}{}{}", prefix, (*found).*to.part, ending);
  return result;
}

}  // namespace

GgufName name_in_folder(std::string_view name, const GgufLayout& layout) {
  return renamed(name, layout, file_side(), folder_side(layout));
}

GgufName name_in_gguf(std::string_view name, const GgufLayout& layout) {
  return renamed(name, layout, folder_side(layout), file_side());
}

GgufOrder gguf_order(const GgufName& name, const GgufLayout& layout, std::size_t rank) {
  GgufOrder order;
  if (name.in_block && name.stem == "attn_q") order.heads = layout.query_heads;
  if (name.in_block && name.stem == "attn_k") order.heads = layout.key_heads;
  order.turned = layout.turned && name.in_block && name.weight && rank == 2;
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
