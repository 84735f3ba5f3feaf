#include "weights/state_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/finite.h"
#include "ops/update/update.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBlock = ops::kCodedBlock;
constexpr std::string_view kScale = ".scale";

// Magnitudes of 8-bit codes (device/cpu/coded-inl.h): numbers of at most 1.875 with three bits of mantissa.
struct Code {
  int exponents;        // bits
  float smallest_step;  // of subnormal numbers
  std::uint32_t most;   // the largest magnitude
  std::uint32_t bias;   // fp32 bits of 2^(the smallest exponent - 1)
  static constexpr int kDigits = 3, kShift = 23 - kDigits;
  static constexpr float kLargest = 1.875f;

  constexpr explicit Code(bool is_signed)
      : exponents(is_signed ? 4 : 5),
        smallest_step(is_signed ? 0x1p-17f : 0x1p-33f),
        most((1u << (kDigits + exponents)) - 1),
        bias((127u - ((1u << exponents) - 1)) << 23) {}

  float decode(std::uint32_t magnitude) const {
    if (magnitude < 1u << kDigits) return static_cast<float>(magnitude) * smallest_step;
    return std::bit_cast<float>((magnitude << kShift) + bias);
  }
  std::uint32_t encode(float scaled) const {
    if (scaled < smallest_step * (1 << kDigits)) return static_cast<std::uint32_t>(scaled / smallest_step + 0.5f);
    return std::min((std::bit_cast<std::uint32_t>(scaled) - bias + (1u << (kShift - 1))) >> kShift, most);
  }
};

// The suffix of a state's name is the optimizer's; the second moment alone is never negative.
bool is_signed_state(std::string_view name) { return !name.ends_with(".v"); }

bool is_precision(std::optional<DType> dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::u8; }

}  // namespace

std::optional<StoredState> StoredState::in_other_precision(const Graph& graph, ValueId id, const SafetensorsFile& file) {
  const Value& value = graph.values[id];
  if (value.role != Role::optimizer_state || value.parameter) return {};
  std::string name = value.name.text();
  DType wanted = value.type.dtype;
  Shape shape = value.type.shape;
  const bool for_scales = name.ends_with(kScale) && wanted == DType::f32 && file.find(name) == nullptr;
  if (for_scales) {
    name.resize(name.size() - kScale.size());
    const auto of = std::ranges::find_if(graph.values, [&](const Value& each) { return each.name.text() == name; });
    if (of == graph.values.end() || of->type.dtype != DType::u8) return {};
    wanted = DType::u8, shape = of->type.shape;
  }
  const StoredTensor* numbers = file.find(name);
  if (numbers == nullptr || numbers->dtype == wanted || !is_precision(numbers->dtype) || !is_precision(wanted)) return {};
  if (numbers->shape != shape) return {};
  const StoredTensor* scales = nullptr;
  if (numbers->dtype == DType::u8) {
    scales = file.find(name + std::string(kScale));
    const Shape blocks{ceil_div(shape.elements(), kBlock)};
    if (scales == nullptr || scales->dtype != DType::f32 || scales->shape != blocks) return {};
  }
  return StoredState(file, *numbers, scales, for_scales, is_signed_state(name));
}

std::vector<const StoredTensor*> StoredState::tensors() const {
  if (scales_ == nullptr) return {numbers_};
  return {numbers_, scales_};
}

// Reads numbers from `begin`, a multiple of kBlock, on.
void StoredState::read(std::int64_t begin, std::span<float> numbers) const {
  std::array<std::byte, kBlock * sizeof(float)> bytes;
  if (numbers_->dtype != DType::u8) return file_->read_f32(*numbers_, begin, numbers, bytes);
  const Code code(signed_);
  for (std::int64_t at = 0; at < std::ssize(numbers); at += kBlock) {
    const std::int64_t count = std::min(kBlock, std::ssize(numbers) - at);
    const std::span<std::byte> codes = std::span(bytes).first(static_cast<std::size_t>(count));
    file_->read_part(*numbers_, begin + at, codes);
    float scale = 0;
    file_->read_part(*scales_, (begin + at) / kBlock * std::int64_t{sizeof scale}, std::as_writable_bytes(std::span(&scale, 1)));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto stored = std::to_integer<std::uint32_t>(codes[static_cast<std::size_t>(i)]);
      const float size = code.decode(stored & code.most) * scale;
      numbers[static_cast<std::size_t>(at + i)] = signed_ && (stored & 0x80) != 0 ? -size : size;
    }
  }
}

// Encodes the block from `begin` on. Returns its scale.
float StoredState::encode(std::int64_t begin, std::span<std::uint8_t> codes) const {
  std::array<float, kBlock> block;
  const std::span<float> numbers = std::span(block).first(codes.size());
  read(begin, numbers);
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) throw not_finite(file_->path(), numbers_->name, "holds NaN or an infinite number");
    largest = std::max(largest, std::abs(number));
  }
  const Code code(signed_);
  const float inverse = largest > 0 ? Code::kLargest / largest : 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t magnitude = code.encode(std::min(std::abs(numbers[i]) * inverse, Code::kLargest));
    // Others are divided by a number without a sign, so only 0 becomes 0.
    const std::uint32_t least = !signed_ && numbers[i] > 0 ? 1 : 0;
    const std::uint32_t sign = signed_ && std::signbit(numbers[i]) ? 0x80 : 0;
    codes[i] = static_cast<std::uint8_t>(std::max(magnitude, least) | sign);
  }
  return largest / Code::kLargest;
}

void StoredState::load(ValueId id, const Value& value, Executor& executor) const {
  const std::int64_t all = numbers_->shape.elements();
  std::int64_t done = 0;  // elements of the value
  executor.write(id, [&](std::span<std::byte> part) {
    const std::int64_t count = std::ssize(part) / size_of(value.type.dtype);
    std::array<std::uint8_t, kBlock> codes;
    std::array<float, kBlock> numbers;
    for (std::int64_t at = 0; at < count;) {
      std::byte* out = part.data() + at * size_of(value.type.dtype);
      const std::int64_t block = for_scales_ ? done + at : (done + at) / kBlock, begin = block * kBlock;
      const auto size = static_cast<std::size_t>(std::min(kBlock, all - begin));
      if (for_scales_) {
        const float scale = encode(begin, std::span(codes).first(size));
        std::memcpy(out, &scale, sizeof scale);
        ++at;
        continue;
      }
      const std::int64_t skipped = done + at - begin;  // a part may begin within a block
      const auto taken = static_cast<std::size_t>(std::min(static_cast<std::int64_t>(size) - skipped, count - at));
      if (value.type.dtype == DType::u8) {
        encode(begin, std::span(codes).first(size));
        std::memcpy(out, codes.data() + skipped, taken);
      } else {
        read(begin, std::span(numbers).first(size));
        narrow(value.type.dtype, std::span(numbers).subspan(static_cast<std::size_t>(skipped), taken), out);
      }
      at += static_cast<std::int64_t>(taken);
    }
    done += count;
  });
}

}  // namespace plimsoll
