// Written GGUF files: the reader finds the same content, and names and orders of tensors can be mapped back.
#include "formats/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/gguf/gguf_cursor.h"
#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_layout.h"
#include "formats/scratch_folder.h"
#include "tensor/block_encode.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

std::vector<float> waves(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 7);
  return values;
}

std::vector<float> read(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(static_cast<std::size_t>(tensor->shape.elements()));
  std::vector<std::byte> staging(1024);
  file.read_f32(*tensor, 0, values, staging);
  return values;
}

class GgufWriting : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_ / "model.gguf";
};

TEST_F(GgufWriting, TheReaderFindsKeysAndTensors) {
  GgufKeys keys;
  keys.put("text", "a \"text\"");
  keys.put_flag("flag", true);
  keys.put_whole("whole", 7);
  keys.put_number("number", 1e-5);
  keys.put_texts("texts", std::vector<std::string>{"one", "", "three"});
  GgufKeys more;
  more.put_wholes("wholes", std::vector<std::int32_t>{1, -2});
  more.put_numbers("numbers", std::vector<float>{0.5f});
  keys.append(more);
  const std::vector<float> values = waves(96);
  GgufWriter writer(path_, keys,
                    {{"a", gguf_storage("F32"), {3}},
                     {"b", gguf_storage("F16"), {2, 48}},
                     {"c", gguf_storage("BF16"), {3, 32}},
                     {"d", gguf_storage("Q8_0"), {3, 32}}});
  writer.append("a", std::span(values).first(3));
  writer.append("b", std::span(values).first(48));
  writer.append("b", std::span(values).subspan(48));
  writer.append("c", values);
  writer.append("d", std::span(values).first(32));
  writer.append("d", std::span(values).subspan(32));
  EXPECT_FALSE(std::filesystem::exists(path_));
  writer.commit();
  const GgufFile file = GgufFile::open(path_);
  EXPECT_EQ(file.text("text"), "a \"text\"");
  EXPECT_EQ(file.flag("flag"), true);
  EXPECT_EQ(file.whole("whole"), 7);
  EXPECT_EQ(file.number("number"), 1e-5);
  EXPECT_EQ(file.wholes("wholes", 2), (std::vector<std::int64_t>{1, -2}));
  GgufCursor texts = GgufCursor::texts(file, "texts");
  EXPECT_EQ(texts.next_text(), "one");
  EXPECT_EQ(texts.next_text(), "");
  EXPECT_EQ(texts.next_text(), "three");
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.find("b")->shape, (Shape{2, 48}));
  EXPECT_EQ(read(file, "a"), std::vector<float>(values.begin(), values.begin() + 3));
  std::vector<float> narrow = values;
  for (float& x : narrow) x = widen_f16(narrow_f16(x));
  EXPECT_EQ(read(file, "b"), narrow);
  narrow = values;
  for (float& x : narrow) x = widen_bf16(narrow_bf16(x));
  EXPECT_EQ(read(file, "c"), narrow);
  const std::vector<float> blocks = read(file, "d");
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(blocks[i], values[i], 6.0 / 127 * 0.51) << i;
}

TEST_F(GgufWriting, WhatATypeCannotHoldIsRefused) {
  for (const auto& [type, value] : {std::pair("F16", 7e4f), {"BF16", 3.4e38f}, {"Q8_0", 1e7f}, {"Q8_0", std::nanf("")}}) {
    std::vector<float> values(32, 1);
    values[9] = value;
    GgufWriter writer(path_, {}, {{"x", gguf_storage(type), {1, 32}}});
    EXPECT_ERROR(writer.append("x", values), "E-EXPORT-RANGE", type);
  }
  std::vector<float> values(32, 1);  // an infinite number stays, and hides no other
  values[3] = HUGE_VALF;
  GgufWriter writer(path_, {}, {{"x", gguf_storage("F16"), {1, 32}}, {"y", gguf_storage("F16"), {1, 32}}});
  writer.append("x", values);
  values[9] = 7e4f;
  EXPECT_ERROR(writer.append("y", values), "E-EXPORT-RANGE", "F16");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Codes are rounded with halves away from zero, and divided by the scale before its rounding to fp16.
TEST(GgufBlocks, Q8IsThatOfGgml) {
  std::vector<float> values(64, 0);
  values[0] = 127, values[1] = 0.5f, values[2] = -0.5f, values[3] = 2.5f, values[4] = -126.4f;
  std::vector<std::byte> blocks(68);
  encode_q8_0(values, blocks.data());
  EXPECT_EQ(blocks[0], std::byte{0x00});
  EXPECT_EQ(blocks[1], std::byte{0x3c});  // 1
  const int want[] = {127, 1, -1, 3, -126, 0};
  for (std::size_t i = 0; i < std::size(want); ++i) EXPECT_EQ(static_cast<std::int8_t>(blocks[2 + i]), want[i]) << i;
  for (std::size_t i = 34; i < 68; ++i) EXPECT_EQ(blocks[i], std::byte{0}) << i;
}

TEST(GgufLayout, NamesLeadBack) {
  const GgufNamePair names[] = {{"token_embd", "model.embed_tokens"}}, block_names[] = {{"attn_q", "self_attn.q_proj"}};
  const GgufLayout layout{.names = names, .block_names = block_names, .blocks = "model.layers."};
  for (const auto& [folder, file] : {std::pair("model.layers.11.self_attn.q_proj.weight", "blk.11.attn_q.weight"),
                                     std::pair("model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias"),
                                     std::pair("model.embed_tokens.weight", "token_embd.weight")}) {
    EXPECT_EQ(name_in_gguf(folder, layout).name, file);
    EXPECT_EQ(name_in_folder(file, layout).name, folder);
    EXPECT_EQ(name_in_gguf(folder, layout).stem, name_in_folder(file, layout).stem);
  }
  EXPECT_EQ(name_in_gguf("model.layers.x.self_attn.q_proj.weight", layout).name, "");
  EXPECT_EQ(name_in_gguf("model.layers.1.self_attn.rotary", layout).name, "");
}

TEST(GgufLayout, RowsLeadBack) {
  for (std::int64_t row = 0; row < 24; ++row) EXPECT_EQ(row_in_folder(row_in_gguf(row, 8), 8), row);
  EXPECT_EQ(row_in_gguf(8 + 1, 8), 8 + 2);  // element 1 of the first half
  EXPECT_EQ(row_in_gguf(8 + 5, 8), 8 + 3);  // and of the second
}

}  // namespace
}  // namespace plimsoll
