// Checkpoints that a training with another precision of the optimizer state loads, against conversions written here.
#include "weights/state_conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/safetensors.h"
#include "run/session.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

constexpr ModelShape kSmall{1, 20, 2, 8, 61};
constexpr std::size_t kBlock = 256;

class StateConversion : public testing::Test {
 protected:
  Config config(DType state) const {
    Config config = config_for(kSmall, 4);
    config.train.micro_batch = 2;
    config.train.accumulation = 2;
    config.precision.optimizer_state = state;
    return config;
  }
  Plan plan(const Config& config) const {
    OpCatalogue catalogue = round_catalogue();
    const GraphSource source = [&](std::int64_t micro) { return build_training_graph(config, data_.facts(), micro).graph; };
    PlanSpace space(source, plan_request(config), round_machine(), catalogue);
    return std::get<Plan>(space.best({space.ceiling(), {}, {}}));
  }
  // Trains for three updates with one precision.
  std::filesystem::path trained(DType state) const {
    const Config config = this->config(state);
    const Plan plan = this->plan(config);
    Session session(config, plan, data_.files);
    session.train(3);
    return saved(session, "trained");
  }
  // Loads the checkpoint with another precision, and saves it again.
  std::filesystem::path converted(const std::filesystem::path& checkpoint, DType state) const {
    const Config config = this->config(state);
    const Plan plan = this->plan(config);
    Session session(config, plan, data_.files);
    session.trainer().load(&checkpoint);
    return saved(session, "converted");
  }
  std::filesystem::path saved(Session& session, const char* name) const {
    session.trainer().save_checkpoint_to(folder_ / name);
    return folder_ / name;
  }

  TokenData data_{kSmall.vocab, 400, 0};
  ScratchFolder folder_;
};

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) throw std::out_of_range(name);
  std::vector<T> elements(static_cast<std::size_t>(tensor->bytes) / sizeof(T));
  file.read_into(*tensor, std::as_writable_bytes(std::span(elements)));
  return elements;
}

// The magnitude of a code: a floating-point number with three bits of mantissa whose largest exponent is 0.
double magnitude(int code, int exponents) {
  const int bias = (1 << exponents) - 1, exponent = code >> 3, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(mantissa, -2 - bias) : std::ldexp(8 + mantissa, exponent - bias - 3);
}

std::vector<float> decoded(const SafetensorsFile& file, const std::string& name, bool is_signed) {
  const auto codes = read<std::uint8_t>(file, name);
  const auto scales = read<float>(file, name + ".scale");
  EXPECT_EQ(scales.size(), (codes.size() + kBlock - 1) / kBlock);
  std::vector<float> numbers;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int code = is_signed ? codes[i] & 127 : codes[i];
    const float number = static_cast<float>(magnitude(code, is_signed ? 4 : 5)) * scales[i / kBlock];
    numbers.push_back(is_signed && (codes[i] & 128) != 0 ? -number : number);
  }
  return numbers;
}

std::vector<float> widened(const std::vector<std::uint16_t>& narrow) {
  std::vector<float> numbers;
  for (const std::uint16_t bits : narrow) numbers.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16));
  return numbers;
}

// The states of the parameter with the most elements, which does not end with a block, and of a small one.
const std::array<std::string, 4> kStates{"wte.weight.m", "wte.weight.v", "ln_f.bias.m", "ln_f.bias.v"};

TEST_F(StateConversion, SixteenBitsAreTheNearestOnes) {
  const SafetensorsFile wide = SafetensorsFile::open(state_file(trained(DType::f32)));
  const SafetensorsFile narrow = SafetensorsFile::open(state_file(converted(folder_ / "trained", DType::bf16)));
  for (const std::string& name : kStates) {
    const auto numbers = read<float>(wide, name);
    const auto bits = read<std::uint16_t>(narrow, name);
    ASSERT_EQ(bits.size(), numbers.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const double error = std::abs(widened({bits[i]})[0] - double{numbers[i]});
      for (const int step : {-1, 1}) {
        const double other = std::abs(widened({static_cast<std::uint16_t>(bits[i] + step)})[0] - double{numbers[i]});
        EXPECT_TRUE(error < other || (error == other && bits[i] % 2 == 0)) << name << " " << i;
      }
    }
  }
}

TEST_F(StateConversion, CodesAreTheNearestOnes) {
  const SafetensorsFile wide = SafetensorsFile::open(state_file(trained(DType::f32)));
  const SafetensorsFile coded = SafetensorsFile::open(state_file(converted(folder_ / "trained", DType::u8)));
  for (const std::string& name : kStates) {
    const bool is_signed = name.ends_with(".m");
    const auto numbers = read<float>(wide, name);
    const auto scales = read<float>(coded, name + ".scale");
    const auto rounded = decoded(coded, name, is_signed);
    ASSERT_EQ(rounded.size(), numbers.size());
    EXPECT_TRUE(std::ranges::any_of(numbers, [](float number) { return number != 0; }));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t begin = i / kBlock * kBlock, end = std::min(begin + kBlock, numbers.size());
      float largest = 0;
      for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(numbers[k]));
      ASSERT_EQ(scales[i / kBlock], largest / 1.875f);
      double nearest = std::numeric_limits<double>::infinity();
      for (int code = !is_signed && numbers[i] > 0 ? 1 : 0; code < (is_signed ? 128 : 256); ++code) {
        const double number = magnitude(code, is_signed ? 4 : 5) * scales[i / kBlock];
        nearest = std::min(nearest, std::abs(number - std::abs(double{numbers[i]})));
      }
      const double error = std::abs(double{rounded[i]} - double{numbers[i]});
      EXPECT_LE(error, nearest + 1e-6 * std::abs(numbers[i])) << name << " " << i << ": " << numbers[i] << " " << rounded[i];
    }
  }
}

TEST_F(StateConversion, WideNumbersAreExact) {
  const SafetensorsFile coded = SafetensorsFile::open(state_file(trained(DType::u8)));
  const SafetensorsFile wide = SafetensorsFile::open(state_file(converted(folder_ / "trained", DType::f32)));
  for (const std::string& name : kStates) EXPECT_EQ(read<float>(wide, name), decoded(coded, name, name.ends_with(".m"))) << name;
  EXPECT_EQ(wide.find("wte.weight.m.scale"), nullptr);
  EXPECT_EQ(read<float>(wide, "wte.weight"), read<float>(coded, "wte.weight"));
}

TEST_F(StateConversion, SixteenBitsGetCodesAndBack) {
  const SafetensorsFile narrow = SafetensorsFile::open(state_file(trained(DType::bf16)));
  const std::filesystem::path coded = converted(folder_ / "trained", DType::u8);
  std::filesystem::rename(coded, folder_ / "coded");
  const SafetensorsFile codes = SafetensorsFile::open(state_file(folder_ / "coded"));
  const SafetensorsFile back = SafetensorsFile::open(state_file(converted(folder_ / "coded", DType::bf16)));
  for (const std::string& name : kStates) {
    const bool is_signed = name.ends_with(".m");
    const auto before = widened(read<std::uint16_t>(narrow, name)), between = decoded(codes, name, is_signed);
    const auto after = widened(read<std::uint16_t>(back, name));
    for (std::size_t i = 0; i < before.size(); ++i) {
      // Half a step of the codes, then half a step of bf16.
      const float largest = read<float>(codes, name + ".scale")[i / kBlock] * 1.875f;
      EXPECT_NEAR(between[i], before[i], std::abs(before[i]) / 16 + largest * 0x1p-17) << name << " " << i;
      EXPECT_NEAR(after[i], between[i], std::abs(between[i]) / 256) << name << " " << i;
    }
  }
}

TEST_F(StateConversion, TheFileIsCheckedAllTheSame) {
  const std::filesystem::path checkpoint = trained(DType::u8);
  const SafetensorsFile file = SafetensorsFile::open(state_file(checkpoint));
  std::string whole = read_text(state_file(checkpoint), 1 << 24, "E-TEST");
  const auto at = static_cast<std::size_t>(file.find("wte.weight.v.scale")->offset);
  whole[at] = static_cast<char>(whole[at] ^ 1);
  write_raw(state_file(checkpoint), whole);
  EXPECT_ERROR(converted(checkpoint, DType::f32), "E-CKPT-CORRUPT", "wte.weight.v.scale");
}

TEST_F(StateConversion, NumbersThatAreNotFiniteHaveNoCode) {
  const std::filesystem::path checkpoint = trained(DType::f32);
  Config config = this->config(DType::f32);
  const Plan plan = this->plan(config);
  Session session(config, plan, data_.files);
  session.trainer().load(&checkpoint);
  const_cast<Executor&>(session.executor())  // NOLINT: the test alone plants a number
      .write(plan.graph.find("wte.weight.v"), [](std::span<std::byte> part) {
        std::ranges::fill(std::span(reinterpret_cast<float*>(part.data()), part.size() / 4),
                          std::numeric_limits<float>::infinity());
      });
  const std::filesystem::path planted = saved(session, "planted");
  EXPECT_ERROR(converted(planted, DType::u8), "E-FORMAT-NAN", "wte.weight.v");
}

}  // namespace
}  // namespace plimsoll
