#include "weights/stored_blocks.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/ceil_div.h"
#include "base/error.h"
#include "formats/bounded_json.h"
#include "formats/finite.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::string_view kState = ".quant_state.bitsandbytes__";

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// "p" of "p.weight".
std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

Error StoredBlocks::refuse(const std::string& tensor, const std::string& what, std::string expected) const {
  return data_error("E-FORMAT-QUANT", files_->path(), fmt::format("{} {}", tensor, what), std::move(expected));
}

WeightFiles::Found StoredBlocks::need(const std::string& name, std::string_view stored_as, std::int64_t elements) {
  const auto found = files_->find(name);
  if (!found) throw refuse(name, "is missing", "the tensors that bitsandbytes stores with a quantised matrix");
  const StoredTensor& tensor = *found->tensor;
  if (tensor.stored_as != stored_as || (elements > 0 && tensor.shape.elements() != elements)) {
    throw refuse(name, fmt::format("is {} {}", tensor.stored_as, to_text(tensor.shape)),
                 fmt::format("{} of {} elements", stored_as, elements));
  }
  others_.push_back(name);
  return *found;
}

std::vector<float> StoredBlocks::floats(const WeightFiles::Found& found) const {
  std::vector<float> numbers(count_of(found.tensor->shape.elements()));
  file(found).read_f32(*found.tensor, 0, numbers, {});
  return numbers;
}

std::optional<StoredBlocks> StoredBlocks::find(const WeightFiles& files, const WeightFiles::Found& weight) {
  StoredBlocks stored(files, weight);
  if (const GgufWeights* gguf = files.gguf()) {
    const auto matrix = gguf->blocks(*weight.tensor);
    if (!matrix) return {};
    stored.matrix_ = *matrix;
  } else if (weight.tensor->stored_as == "I8") {
    stored.find_int8();
  } else if (weight.tensor->stored_as == "U8") {
    stored.find_nf4();
  } else {
    return {};
  }
  return stored;
}

void StoredBlocks::find_int8() {
  const std::string& name = weight_.tensor->name;
  const Shape& shape = weight_.tensor->shape;
  if (shape.rank() != 2) throw refuse(name, "is I8 " + to_text(shape), "a matrix of int8");
  matrix_ = {BlockFormat::int8, shape[0], shape[1]};
  of_scales_ = need(stem_of(name) + ".SCB", "F32", matrix_.rows);
  const std::string format = stem_of(name) + ".weight_format";
  if (const auto found = files_->find(format)) {
    std::vector<std::byte> row(count_of(found->tensor->bytes));
    file(*found).read_into(*found->tensor, row);
    const bool rows = std::ranges::all_of(row, [](std::byte each) { return each == std::byte{0}; });
    if (!rows) throw refuse(format, "names an order of another device", "0: row by row");
    others_.push_back(format);
  }
}

void StoredBlocks::read_state(const WeightFiles::Found& found) {
  constexpr std::int64_t kMost = 1 << 12;
  const std::string& name = found.tensor->name;
  if (found.tensor->bytes > kMost) throw refuse(name, fmt::format("has {} bytes", found.tensor->bytes), "a JSON object");
  std::string text(count_of(found.tensor->bytes), '\0');
  file(found).read_into(*found.tensor, std::as_writable_bytes(std::span(text)));
  std::string fault;
  const json state = parse_json(text, {.bytes = kMost}, fault);
  try {
    const auto demand = [&](const char* key, const json& expected) {
      if (state.at(key) == expected) return;
      throw refuse(name, fmt::format("has {} {}", key, state.at(key).dump()), fmt::format("{} {}", key, expected.dump()));
    };
    demand("quant_type", "nf4");
    demand("blocksize", kNf4Block);
    const auto shape = state.at("shape").get<std::vector<std::int64_t>>();
    const bool sane = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 && shape[0] < (1 << 30) && shape[1] < (1 << 30);
    if (!sane) throw refuse(name, "has shape " + state.at("shape").dump(), "two extents");
    matrix_ = {BlockFormat::nf4, shape[0], shape[1]};
    if (!state.contains("nested_offset")) return;
    demand("nested_blocksize", kNestedBlock);
    matrix_.format = BlockFormat::nf4_nested;
    offset_ = static_cast<float>(state.at("nested_offset").get<double>());
    if (!std::isfinite(offset_)) throw not_finite(file(found).path(), name, "has a nested_offset that is infinite");
  } catch (const json::exception& error) {
    throw refuse(name, fmt::format("is not what bitsandbytes writes: {}", error.what()),
                 "quant_type, blocksize, dtype and shape");
  }
}

void StoredBlocks::find_nf4() {
  const std::string name = weight_.tensor->name, state = name + std::string(kState) + "nf4";
  read_state(need(state, "U8", 0));
  const std::int64_t elements = matrix_.rows * matrix_.columns, blocks = ceil_div(elements, kNf4Block);
  if (weight_.tensor->bytes != ceil_div(elements, 2)) {
    throw refuse(name, fmt::format("has {} bytes", weight_.tensor->bytes),
                 fmt::format("{} bytes, of {} x {} elements", ceil_div(elements, 2), matrix_.rows, matrix_.columns));
  }
  const std::vector<float> map = floats(need(name + ".quant_map", "F32", std::ssize(kNf4)));
  if (!std::ranges::equal(map, kNf4)) throw refuse(name + ".quant_map", "is another map", "that of nf4");
  if (matrix_.format == BlockFormat::nf4) {
    of_scales_ = need(name + ".absmax", "F32", blocks);
    return;
  }
  of_scales_ = need(name + ".absmax", "U8", blocks);
  of_nested_ = need(name + ".nested_absmax", "F32", ceil_div(blocks, kNestedBlock));
  of_map_ = need(name + ".nested_quant_map", "F32", 256);
}

void StoredBlocks::load_scales() {
  if (gguf() != nullptr) return;
  const BlockParts parts = block_parts(matrix_);
  const std::int64_t codes = weight_.tensor->bytes;
  behind_.assign(count_of(parts.end.n - codes), std::byte{0});
  const auto put = [&](Bytes at, const WeightFiles::Found& found) {
    const std::span<std::byte> part = std::span(behind_).subspan(count_of(at.n - codes), count_of(found.tensor->bytes));
    file(found).read_into(*found.tensor, part);
    if (const auto bad = first_not_finite(found.tensor->dtype.value_or(DType::u8), part)) {
      throw not_finite(file(found).path(), found.tensor->name,
                       fmt::format("holds a scale at [{}] that is NaN or infinite", *bad));
    }
  };
  put(parts.scales, of_scales_);
  if (matrix_.format == BlockFormat::nf4_nested) {
    put(parts.nested_scales, of_nested_);
    put(parts.map, of_map_);
    std::memcpy(behind_.data() + (parts.offset.n - codes), &offset_, sizeof offset_);
  }
}

void StoredBlocks::read_stored(std::int64_t begin, std::span<std::byte> out) const {
  if (gguf() != nullptr) return gguf()->read_blocks(*weight_.tensor, begin, out);
  const std::int64_t codes = weight_.tensor->bytes;
  const auto of_codes = std::clamp<std::int64_t>(codes - begin, 0, std::ssize(out));
  if (of_codes > 0) file(weight_).read_part(*weight_.tensor, begin, out.first(count_of(of_codes)));
  out = out.subspan(count_of(of_codes));
  if (!out.empty()) std::memcpy(out.data(), behind_.data() + (begin + of_codes - codes), out.size());
}

// Reads some whole blocks at a time.
void StoredBlocks::read(std::int64_t first, std::span<float> out) const {
  constexpr std::int64_t kPiece = 1 << 16;
  if (gguf() != nullptr) {
    std::array<std::byte, 1 << 12> staging;
    return gguf()->read_f32(*weight_.tensor, first, out, staging);
  }
  const auto bytes_of = [&](std::int64_t elements) { return code_bytes({matrix_.format, 1, elements}).n; };
  const std::int64_t block = block_elements(matrix_.format);
  std::vector<std::byte> codes;
  for (std::int64_t at = first, end = first + std::ssize(out); at < end;) {
    const std::int64_t begin = at / block * block, last = std::min(end, begin + kPiece);
    codes.resize(count_of(bytes_of(last - begin)));
    file(weight_).read_part(*weight_.tensor, bytes_of(begin), codes);
    decode_blocks(matrix_, {codes.data(), begin, behind_.data()}, at, out.subspan(count_of(at - first), count_of(last - at)));
    at = last;
  }
}

}  // namespace plimsoll
