// Token files for tests: written to a scratch folder and opened as in a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/token_source.h"
#include "data/window.h"
#include "formats/scratch_folder.h"

namespace plimsoll {

inline std::string u16_bytes(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes += static_cast<char>(token & 255);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

inline std::string u32_bytes(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) bytes += u16_bytes({token & 0xffff, token >> 16});
  return bytes;
}

inline std::string llmc_bytes(const std::vector<int>& tokens, std::int32_t magic = 20240520, std::int32_t version = 1,
                              std::int32_t extra = 0) {
  const std::int32_t head[3] = {magic, version, static_cast<std::int32_t>(tokens.size()) + extra};
  std::string bytes(reinterpret_cast<const char*>(head), sizeof head);
  bytes.resize(1024);
  return bytes + (magic == 20240801 ? u32_bytes(tokens) : u16_bytes(tokens));
}
inline std::string wide_llmc_bytes(const std::vector<int>& tokens, std::int32_t extra = 0) {
  return llmc_bytes(tokens, 20240801, 7, extra);
}

inline std::vector<int> counting(int count, int modulus = 60000) {
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i % modulus);
  return tokens;
}

// The buffers of one micro-batch, filled with a value that no source produces.
struct Buffers {
  std::vector<std::int32_t> inputs, targets;
  std::vector<std::uint32_t> ids;

  Buffers(std::size_t rows, std::size_t context) : inputs(rows * context, -77), targets(rows * context, -77), ids(2 * rows, 77) {}
  std::vector<FieldBuffer> fields() {
    const auto view = [](auto& items, DType dtype) {
      return TensorView{reinterpret_cast<std::byte*>(items.data()), dtype, Shape{std::ssize(items)}, {}};
    };
    return {{"tokens", view(inputs, DType::i32)}, {"targets", view(targets, DType::i32)}, {"sample_ids", view(ids, DType::u32)}};
  }
  friend bool operator==(const Buffers&, const Buffers&) = default;
};

// One sample per row.
inline std::vector<PlacedSample> in_rows(const std::vector<SampleRef>& samples) {
  std::vector<PlacedSample> placed;
  for (const SampleRef& ref : samples) placed.push_back({ref, static_cast<std::int32_t>(placed.size()), 0});
  return placed;
}

}  // namespace plimsoll
