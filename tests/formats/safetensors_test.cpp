#include "formats/safetensors.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "expect_error.h"
#include "scratch_folder.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + std::string(rest);
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  return with_length(header.size(), std::string(header) + std::string(data_bytes, '\1'));
}

constexpr std::string_view kGood = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                   R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Safetensors, WritesAndReadsBack) {
  ScratchFolder folder;
  const std::vector<float> a{1, -2, 3.5, 0, 1e-40f, 6};
  const std::vector<std::uint16_t> h{0x3C00, 0x0001, 0xFBFF};
  const std::vector<std::int64_t> i{1, -1};
  SafetensorsWriter writer(folder / "x", {{"a", DType::f32, {2, 3}},
                                          {"none", DType::f32, {0, 7}},
                                          {"half \"q\"\n", DType::f16, {3}},
                                          {"brain", DType::bf16, {3}},
                                          {"scalar", DType::i64, {}},
                                          {"i", DType::i64, {2}}});
  writer.append("a", bytes_of(a).first(8));
  writer.append("a", bytes_of(a).subspan(8));
  writer.append("half \"q\"\n", bytes_of(h));
  writer.append("brain", bytes_of(h));
  writer.append("scalar", bytes_of(i).first(8));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  writer.append("i", bytes_of(i));
  writer.commit();
  EXPECT_EQ(static_cast<std::int64_t>(std::filesystem::file_size(folder / "x")), writer.file_bytes());

  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  ASSERT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("a")->offset % 8, 0);
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.find("scalar")->shape, Shape{});
  EXPECT_EQ(file.find("nothing"), nullptr);
  std::vector<float> back(6);
  file.read_f32(*file.find("a"), 0, back, {});
  EXPECT_EQ(back, a);
  std::vector<std::byte> raw(16);
  file.read_into(*file.find("i"), raw);
  EXPECT_TRUE(std::ranges::equal(raw, bytes_of(i)));
  file.read_into(*file.find("none"), {});
  for (const std::size_t staging_bytes : {2, 3, 4, 64}) {
    std::vector<std::byte> staging(staging_bytes);
    std::vector<float> three(3);
    file.read_f32(*file.find("half \"q\"\n"), 0, three, staging);
    EXPECT_EQ(three, (std::vector<float>{1, 0x1p-24f, -65504}));
    file.read_f32(*file.find("brain"), 0, three, staging);
    EXPECT_EQ(three[0], 0x1.0p-7f);
  }
  EXPECT_ERROR(file.read_f32(*file.find("i"), 0, back, {}), "E-FORMAT-TENSOR", "stored as I64");
  EXPECT_ERROR(file.read_into(*file.find("a"), raw), "E-INTERNAL", "size");
}

TEST(Safetensors, WriterRefusesDisorder) {
  ScratchFolder folder;
  const std::vector<float> two{1, 2};
  SafetensorsWriter writer(folder / "x", {{"a", DType::f32, {1}}, {"b", DType::f32, {1}}});
  EXPECT_ERROR(writer.append("b", bytes_of(two).first(4)), "E-INTERNAL", "turn");
  EXPECT_ERROR(writer.append("a", bytes_of(two)), "E-INTERNAL", "longer");
  EXPECT_ERROR(writer.commit(), "E-INTERNAL", "incomplete");
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  ScratchFolder folder;
  const auto opens = [&](const std::string& bytes) {
    write_raw(folder / "x", bytes);
    return SafetensorsFile::open(folder / "x").tensors().size();
  };
  EXPECT_EQ(opens(file_of(kGood, 32)), 2u);
  EXPECT_EQ(opens(file_of(std::string(kGood) + "    ", 32)), 2u) << "padding";
  EXPECT_EQ(opens(file_of("{}", 0)), 0u);
  EXPECT_EQ(opens(file_of(R"({"__metadata__":{}})", 0)), 0u);
  EXPECT_EQ(opens(file_of(R"({"m":{"dtype":"BOOL","shape":[1,1,2,2],"data_offsets":[0,4]}})", 4)), 1u);
  EXPECT_EQ(
      opens(file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"},)"
                    R"("e":{"dtype":"F32","shape":[0],"data_offsets":[1,1]}})",
                    2)),
      3u)
      << "any order of names and keys";
}

struct Malformed {
  std::string bytes;
  const char* fragment;
};

std::string one(std::string_view entry, std::size_t data_bytes) {
  return file_of(fmt::format(R"({{"a":{}}})", entry), data_bytes);
}

TEST(Safetensors, RefusesMalformedFiles) {
  const std::string good = file_of(kGood, 32);
  const Malformed table[] = {
      {"", "0 bytes"},
      {"1234567", "7 bytes"},
      {with_length(0, ""), "does not start with '{'"},
      {with_length(1, ""), "at most 0"},
      {with_length(100'000'001, std::string(1000, ' ')), "at most 1000"},
      {with_length(~0ull, kGood), "18446744073709551615"},
      {with_length(1ull << 63, kGood), "at most"},
      {good.substr(0, good.size() - 1), "of 31 data bytes"},
      {good + "x", "cover 32 of 33"},
      {with_length(kGood.size() - 1, std::string(kGood.substr(0, kGood.size() - 1)) + std::string(33, 'x')), "not JSON"},
      {file_of(" {}", 0), "start with '{'"},
      {file_of("[]", 0), "start with '{'"},
      {file_of("{}x", 0), "not JSON"},
      {file_of("{}{}", 0), "not JSON"},
      {file_of(std::string("{}\0{", 4), 0), "zero byte"},
      {file_of("{\"\xff\":1}", 0), "not JSON"},
      {file_of(R"({"a":1})", 0), "a number where none"},
      {file_of(R"({"a":null})", 0), "null"},
      {file_of(R"({"a":[]})", 0), "a list where none"},
      {file_of(R"({"a":"b"})", 0), "text where none"},
      {file_of(R"({"a":true})", 0), "truth value"},
      {file_of(R"({"a":{"dtype":{}}})", 0), "an object where none"},
      {file_of("{\"a\":" + std::string(100000, '['), 0), "a list where none"},
      {file_of("{\"a\":{\"shape\":" + std::string(100000, '['), 0), "list"},
      {file_of(std::string(50000, '{'), 0), "not JSON"},
      {file_of(R"({"__metadata__":1})", 0), "number"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "number"},
      {file_of(R"({"__metadata__":{"a":{}}})", 0), "an object where none"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"},
      {one(R"({"dtype":"F32","shape":[1]})", 4), "is missing"},
      {one(R"({"dtype":"F32","data_offsets":[0,4]})", 4), "is missing"},
      {one(R"({"shape":[1],"data_offsets":[0,4]})", 4), "is missing"},
      {one("{}", 0), "is missing"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1})", 4), "unknown key"},
      {one(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4), "twice"},
      {one(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})", 4), "twice"},
      {one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})", 4), "unknown dtype 'F33'"},
      {one(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})", 4), "number"},
      {one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", 4), "number"},
      {one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), "negative"},
      {one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", 4), "whole number"},
      {one(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})", 4), "text where none"},
      {one(R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})", 4), "a list where none"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4), "needs 8 bytes"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", 8), "needs 4 bytes"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0), "more bytes than"},
      {one(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})", 0), "more bytes than"},
      {one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})", 4), "more than 8 axes"},
      {one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]})", 0), "passes 2^63"},
      {one(R"({"dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,0]})", 0), "whole number"},
      {one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})",
           1),
       "axes"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4), "two numbers"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4), "two numbers"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), "lies at [4, 0)"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 4), "lies at [4, 8)"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8), "starts at data byte 4"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]})", 4), "of 4 data bytes"},
      {file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
       "starts at data byte 1"},
      {file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2),
       "starts at data byte 0"},
      {file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 3),
       "starts at data byte 2"},
      {file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2),
       "appears twice"},
      {file_of("{\"" + std::string(5000, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "a name of 5000"},
  };
  ScratchFolder folder;
  for (const Malformed& row : table) {
    SCOPED_TRACE(row.bytes.substr(0, 160));
    write_raw(folder / "x", row.bytes);
    EXPECT_ERROR(SafetensorsFile::open(folder / "x"), "E-FORMAT-SAFETENSORS", row.fragment);
  }
  EXPECT_GE(std::size(table), 25u);
}

// Every file either opens, with all tensors readable, or is refused with the format's code.
TEST(Safetensors, SurvivesRandomMutations) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  const std::string good = file_of(kGood, 32);
  const std::string alphabet = "{}[]\",:0123456789-.eE \\ \x80\xff";
  ScratchFolder folder;
  int opened = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (std::uint64_t edits = random() % 4; edits-- > 0 && !bytes.empty();) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = alphabet[random() % alphabet.size()]; break;
        case 2: bytes.erase(at, 1 + random() % 5); break;
        default: bytes.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
    }
    if (random() % 8 == 0) bytes.resize(random() % 40, static_cast<char>(random()));
    write_raw(folder / "x", bytes);
    try {
      const SafetensorsFile file = SafetensorsFile::open(folder / "x");
      for (const StoredTensor& tensor : file.tensors()) {
        std::vector<std::byte> data(static_cast<std::size_t>(tensor.bytes));
        file.read_into(tensor, data);
      }
      ++opened;
    } catch (const Error& error) {
      ASSERT_EQ(error.code, "E-FORMAT-SAFETENSORS") << error.what() << " seed " << seed;
    }
  }
  EXPECT_GT(opened, 100);
}

TEST(Half, WidensEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    const float wide = widen_f16(half);
    EXPECT_EQ(std::signbit(wide), bits >= 0x8000);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(wide), fraction != 0);
      EXPECT_EQ(std::isinf(wide), fraction == 0);
    } else {
      EXPECT_EQ(std::abs(wide), magnitude);
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(widen_bf16(half)), bits << 16);
  }
}

}  // namespace
}  // namespace plimsoll
