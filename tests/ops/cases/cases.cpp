#include "ops/cases/cases.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/philox.h"
#include "device/cpu/tiles.h"
#include "graph/kernel_catalogue.h"
#include "ops/cases/smallest.h"
#include "tensor/half.h"

namespace plimsoll::test {
namespace {

std::vector<OpCases> gather() {
  std::vector<OpCases> all;
#define PLIMSOLL_CASES(NAME) NAME##_cases(),
  for (const auto& family : {PLIMSOLL_OP_FAMILIES(PLIMSOLL_CASES, PLIMSOLL_CASES)}) {
    all.insert(all.end(), family.begin(), family.end());
  }
#undef PLIMSOLL_CASES
  return all;
}

constexpr std::int64_t kTile = 64;

std::vector<OpCases>& gathered() {
  static std::vector<OpCases> all = gather();
  return all;
}

std::int64_t elements_of(const OpCase& a_case) {
  std::int64_t sum = 0;
  for (const CaseInput& input : a_case.inputs) sum += input.type.shape.elements();
  return sum;
}

// Attributes with "n" for each number other than zero: "[heads=n, dropout=0, output=bf16]".
std::string kinds_of_numbers(const std::string& attributes) {
  std::string text;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    text += attributes[i];
    if (attributes[i] != '=' || i + 1 == attributes.size() || std::isalpha(static_cast<unsigned char>(attributes[i + 1])) != 0)
      continue;
    const std::size_t end = std::min(attributes.find_first_of(",]", i), attributes.size());
    text += attributes.find_first_not_of("0.", i + 1) >= end ? '0' : 'n';
    i = end - 1;
  }
  return text;
}

// Cases with equal texts run the same kernel. Rows of 64 elements and more have tiles, which their length chooses.
std::string kernel_text(const OpCase& a_case) {
  std::string text = kinds_of_numbers(a_case.attributes.text_without_noise()) + (a_case.overwrite ? " overwrite" : "");
  for (const CaseInput& input : a_case.inputs) text += " " + std::string(name(input.type.dtype));
  if (a_case.inputs.empty() || a_case.inputs[0].type.shape.rank() == 0) return text;
  const std::int64_t last = a_case.inputs[0].type.shape.last();
  return text + (last % kTile == 0 ? " " + std::to_string(last) : last < kTile ? " short" : " long");
}

// Less is preferred: the fewest elements that keep some threads busy.
std::pair<bool, std::int64_t> order(const OpCase& a_case) {
  const std::int64_t elements = elements_of(a_case);
  return elements < kTile ? std::pair{true, -elements} : std::pair{false, elements};
}

double uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(mix64(mix64(seed) ^ index) >> 11) * 0x1p-53;
}

double draw(const CaseInput& input, std::uint64_t seed, std::uint64_t index) {
  const Fill& fill = input.fill;
  const double x = fill.low + (fill.high - fill.low) * uniform(seed, index);
  if (!is_float(input.type.dtype)) return std::floor(x);
  return std::abs(x) < fill.gap ? std::copysign(fill.gap, x) : x;
}

// Rounds to `digits` significant bits, no finer than `least`, to nearest even.
double round_significand(double x, int digits, int least) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x) + 1 - digits, least);
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

std::uint16_t bf16_bits(double x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(round_significand(x, 8, -133))) >> 16);
}

std::uint16_t f16_bits(double x) {
  const double rounded = round_significand(x, 11, -24);
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::abs(rounded);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  const auto fraction = static_cast<std::uint16_t>((std::ldexp(magnitude, -exponent) - 1) * 1024);
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | fraction);
}

template <class T, class Convert>
void store(const Numbers& numbers, std::byte* bytes, Convert convert) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T element = convert(numbers[i]);
    std::memcpy(bytes + i * sizeof(T), &element, sizeof(T));
  }
}

template <class T, class Convert>
void load(const std::byte* bytes, Numbers& numbers, Convert convert) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T element;
    std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
    numbers[i] = convert(element);
  }
}

template <class T>
T convert_to(double x) {
  return static_cast<T>(x);
}

template <class T>
double widen(T x) {
  return static_cast<double>(x);
}

}  // namespace

double sum_error(std::int64_t elements) {
  constexpr std::int64_t kFewestLanes = 4;
  const std::int64_t additions = ceil_div(std::min(elements, cpu::kElementTile), kFewestLanes) + kFewestLanes;
  return static_cast<double>(additions) * 0x1p-24;
}

const std::vector<OpCases>& all_cases() { return gathered(); }

std::vector<OpCase> smallest_cases(const std::vector<OpCase>& cases) {
  std::map<std::string, const OpCase*> kept;
  for (const OpCase& each : cases) {
    if (each.benchmark) continue;
    const OpCase*& least = kept[kernel_text(each)];
    if (least == nullptr || order(each) < order(*least)) least = &each;
  }
  std::vector<OpCase> result;
  for (const auto& [text, each] : kept) result.push_back(*each);
  return result;
}

void keep_smallest_cases() {
  for (OpCases& each : gathered()) each.cases = smallest_cases(each.cases);
}

const OpCases* find_cases(const OpDef& op) {
  const auto& all = all_cases();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OpCases& cases) { return cases.op == &op; });
  return found == all.end() ? nullptr : &*found;
}

std::string describe(const OpDef& op, const OpCase& a_case) {
  const std::vector<ValueType> inputs = input_types(a_case);
  return kernel_key({&op, &a_case.attributes, inputs, {}, 1, a_case.chunks, a_case.overwrite});
}

void encode(const Numbers& numbers, DType dtype, std::byte* bytes) {
  switch (dtype) {
    case DType::f64: return store<double>(numbers, bytes, convert_to<double>);
    case DType::f32: return store<float>(numbers, bytes, convert_to<float>);
    case DType::f16: return store<std::uint16_t>(numbers, bytes, f16_bits);
    case DType::bf16: return store<std::uint16_t>(numbers, bytes, bf16_bits);
    case DType::i32: return store<std::int32_t>(numbers, bytes, convert_to<std::int32_t>);
    case DType::i64: return store<std::int64_t>(numbers, bytes, convert_to<std::int64_t>);
    case DType::u8: return store<std::uint8_t>(numbers, bytes, convert_to<std::uint8_t>);
    case DType::u16: return store<std::uint16_t>(numbers, bytes, convert_to<std::uint16_t>);
    case DType::u32: return store<std::uint32_t>(numbers, bytes, convert_to<std::uint32_t>);
  }
}

Numbers decode(const std::byte* bytes, const ValueType& type) {
  Numbers numbers(elements(type));
  switch (type.dtype) {
    case DType::f64: load<double>(bytes, numbers, widen<double>); break;
    case DType::f32: load<float>(bytes, numbers, widen<float>); break;
    case DType::f16: load<std::uint16_t>(bytes, numbers, widen_f16); break;
    case DType::bf16: load<std::uint16_t>(bytes, numbers, widen_bf16); break;
    case DType::i32: load<std::int32_t>(bytes, numbers, widen<std::int32_t>); break;
    case DType::i64: load<std::int64_t>(bytes, numbers, widen<std::int64_t>); break;
    case DType::u8: load<std::uint8_t>(bytes, numbers, widen<std::uint8_t>); break;
    case DType::u16: load<std::uint16_t>(bytes, numbers, widen<std::uint16_t>); break;
    case DType::u32: load<std::uint32_t>(bytes, numbers, widen<std::uint32_t>); break;
  }
  return numbers;
}

Numbers round_to(const Numbers& numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() * extent(size_of(dtype)));
  encode(numbers, dtype, bytes.data());
  return decode(bytes.data(), {dtype, Shape{static_cast<std::int64_t>(numbers.size())}});
}

std::vector<Numbers> fill_inputs(const OpCase& a_case, std::uint64_t seed) {
  std::vector<Numbers> values;
  for (const CaseInput& input : a_case.inputs) {
    Numbers numbers(elements(input.type));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = draw(input, seed + values.size() * 1000, i);
    values.push_back(round_to(numbers, input.type.dtype));
  }
  if (a_case.derive) a_case.derive(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ensure(values[i].size() == elements(a_case.inputs[i].type), "cases", "a derived input has another size than its type");
    values[i] = round_to(values[i], a_case.inputs[i].type.dtype);
  }
  return values;
}

std::vector<ValueType> input_types(const OpCase& a_case) {
  std::vector<ValueType> types;
  for (const CaseInput& input : a_case.inputs) types.push_back(input.type);
  return types;
}

std::vector<ValueType> output_types(const OpDef& op, const OpCase& a_case) {
  return op.infer(a_case.attributes, input_types(a_case));
}

void make_token_ids(Numbers& ids, std::size_t tokens) {
  const auto run = [&](std::size_t token) { return token * 3 / tokens; };
  for (std::size_t i = 0; i < ids.size() / 3; ++i) {
    const std::size_t row = i / tokens, token = i % tokens;
    std::size_t begin = token;
    while (begin > 0 && run(begin - 1) == run(token)) --begin;
    ids[3 * i] = static_cast<double>(row + 2);
    ids[3 * i + 1] = static_cast<double>(500 - 3 * row - run(token));
    ids[3 * i + 2] = static_cast<double>(token - begin);
  }
}

}  // namespace plimsoll::test
