#include "ops/attention/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "ops/guarded_buffer.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

AttentionShape of_heads(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t head_size) {
  return {batch, tokens, heads, heads, head_size, 1.0f / std::sqrt(static_cast<float>(head_size))};
}

struct Inputs {
  AttentionShape shape;
  AttentionDropout dropout;
  std::vector<std::uint32_t> ids;
  GuardedBuffer qkv, d_out;

  Inputs(const AttentionShape& shape, float probability)
      : shape(shape), ids(static_cast<std::size_t>(2 * shape.batch)), qkv(3 * floats()), d_out(floats()) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(7 + 3 * i);
    dropout = {probability, philox_key(5, 9), ids.data()};
    fill_random(qkv, 1);
    fill_random(d_out, 2);
  }
  std::int64_t floats() const { return shape.batch * shape.tokens * shape.heads * shape.head_size; }
  std::int64_t rows() const { return shape.batch * shape.heads * shape.tokens; }
};

struct Results {
  GuardedBuffer out, lse, d_qkv;
};

// Runs both passes with poisoned scratch and outputs, on the given team, and checks every guard. `planned`: the number of threads
// that the scratch is for, if it is not the team's.
Results run(const Inputs& in, int team, int planned = 0) {
  set_thread_count(team);
  const int threads = planned == 0 ? team : planned;
  Results r{GuardedBuffer(in.floats()), GuardedBuffer(in.rows()), GuardedBuffer(3 * in.floats())};
  GuardedBuffer forward_scratch(attention_forward_scratch(in.shape, threads).n / 4);
  GuardedBuffer backward_scratch(attention_backward_scratch(in.shape, DType::f32, threads).n / 4);
  attention_forward(in.shape, in.dropout, packed_rows(in.shape, ConstElements(in.qkv.data())), r.out.data(), r.lse.data(),
                    threads, forward_scratch.bytes());
  attention_backward(in.shape, in.dropout, packed_rows(in.shape, ConstElements(in.qkv.data())), r.out.data(), r.lse.data(),
                     in.d_out.data(), packed_rows(in.shape, Elements(r.d_qkv.data())), threads, backward_scratch.bytes());
  const std::vector<const GuardedBuffer*> buffers{&r.out,  &r.lse,   &r.d_qkv, &forward_scratch, &backward_scratch,
                                                  &in.qkv, &in.d_out};
  for (const GuardedBuffer* buffer : buffers) EXPECT_TRUE(buffer->intact());
  EXPECT_TRUE(forward_scratch.last_line_written());
  EXPECT_TRUE(backward_scratch.last_line_written());
  return r;
}

std::uint16_t narrow(float x, DType type) { return type == DType::bf16 ? narrow_bf16(x) : narrow_f16(x); }
float widen(std::uint16_t x, DType type) { return type == DType::bf16 ? widen_bf16(x) : widen_f16(x); }

GuardedBuffer narrowed(const GuardedBuffer& from, DType type) {
  GuardedBuffer result((from.size() + 1) / 2);
  auto* to = reinterpret_cast<std::uint16_t*>(result.data());
  for (std::int64_t i = 0; i < from.size(); ++i) to[i] = narrow(from.data()[i], type);
  return result;
}

// With operands that 16 bits hold exactly, the 16-bit result has the bits of the fp32 result, rounded once.
void expect_rounded_once(const AttentionShape& shape, float dropout, DType type) {
  Inputs in(shape, dropout);
  for (GuardedBuffer* buffer : {&in.qkv, &in.d_out}) {
    for (std::int64_t i = 0; i < buffer->size(); ++i) buffer->data()[i] = widen(narrow(buffer->data()[i], type), type);
  }
  constexpr int kThreads = 2;
  const Results wide = run(in, kThreads);
  GuardedBuffer qkv = narrowed(in.qkv, type), d_out = narrowed(in.d_out, type), lse(in.rows());
  GuardedBuffer out((in.floats() + 1) / 2), d_qkv((3 * in.floats() + 1) / 2);
  GuardedBuffer forward_scratch(attention_forward_scratch(shape, kThreads).n / 4);
  GuardedBuffer backward_scratch(attention_backward_scratch(shape, type, kThreads).n / 4);
  attention_forward(shape, in.dropout, packed_rows(shape, ConstElements(qkv.bytes(), type)), {out.bytes(), type}, lse.data(),
                    kThreads, forward_scratch.bytes());
  attention_backward(shape, in.dropout, packed_rows(shape, ConstElements(qkv.bytes(), type)), wide.out.data(), lse.data(),
                     {d_out.bytes(), type}, packed_rows(shape, Elements(d_qkv.bytes(), type)), kThreads,
                     backward_scratch.bytes());
  for (const GuardedBuffer* buffer : {&out, &lse, &d_qkv, &forward_scratch, &backward_scratch, &qkv, &d_out}) {
    EXPECT_TRUE(buffer->intact());
  }
  EXPECT_TRUE(backward_scratch.last_line_written());
  EXPECT_TRUE(lse == wide.lse);
  EXPECT_TRUE(out == narrowed(wide.out, type));
  EXPECT_TRUE(d_qkv == narrowed(wide.d_qkv, type));
}

double mask_factor(const Inputs& in, std::int64_t b, std::int64_t head, std::int64_t query, std::int64_t key) {
  if (in.dropout.probability == 0) return 1;
  const auto t = static_cast<std::uint64_t>(in.shape.tokens);
  const std::uint64_t e =
      (static_cast<std::uint64_t>(head) * t + static_cast<std::uint64_t>(query)) * t + static_cast<std::uint64_t>(key);
  const std::uint64_t group = e / 4;
  const PhiloxWords words =
      philox4x32(in.dropout.key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                                  in.ids[static_cast<std::size_t>(2 * b + 1)], in.ids[static_cast<std::size_t>(2 * b)]});
  return unit_float(words[e % 4]) >= in.dropout.probability ? 1 / (1 - double{in.dropout.probability}) : 0;
}

struct Reference {
  std::vector<double> out, lse, d_qkv;
};

// One head at a time in fp64, from the definition; d_qkv by the chain rule over the stored probabilities.
void reference_head(const Inputs& in, std::int64_t b, std::int64_t h, Reference& r) {
  const std::int64_t T = in.shape.tokens, H = in.shape.heads, D = in.shape.head_size;
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  const auto qkv = [&](std::int64_t t, int part, std::int64_t d) {
    return static_cast<std::size_t>((((b * T + t) * 3 + part) * H + h) * D + d);
  };
  const auto out = [&](std::int64_t t, std::int64_t d) { return static_cast<std::size_t>(((b * T + t) * H + h) * D + d); };
  const float *x = in.qkv.data(), *g = in.d_out.data();
  std::vector<double> p(static_cast<std::size_t>(T)), m(p.size()), dp(p.size());
  for (std::int64_t i = 0; i < T; ++i) {
    const std::size_t n = static_cast<std::size_t>(i) + 1;
    double top = -1e300, sum = 0, delta = 0;
    for (std::size_t j = 0; j < n; ++j) {
      p[j] = 0;
      for (std::int64_t d = 0; d < D; ++d) p[j] += double{x[qkv(i, 0, d)]} * x[qkv(static_cast<std::int64_t>(j), 1, d)];
      p[j] *= scale;
      top = std::max(top, p[j]);
    }
    for (std::size_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - top);
    r.lse[static_cast<std::size_t>((b * H + h) * T + i)] = top + std::log(sum);
    for (std::size_t j = 0; j < n; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      p[j] /= sum;
      m[j] = mask_factor(in, b, h, i, key);
      dp[j] = 0;
      for (std::int64_t d = 0; d < D; ++d) {
        r.out[out(i, d)] += p[j] * m[j] * x[qkv(key, 2, d)];
        r.d_qkv[qkv(key, 2, d)] += p[j] * m[j] * g[out(i, d)];
        dp[j] += m[j] * g[out(i, d)] * double{x[qkv(key, 2, d)]};
      }
      delta += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < n; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const double ds = p[j] * (dp[j] - delta) * scale;
      for (std::int64_t d = 0; d < D; ++d) {
        r.d_qkv[qkv(i, 0, d)] += ds * x[qkv(key, 1, d)];
        r.d_qkv[qkv(key, 1, d)] += ds * x[qkv(i, 0, d)];
      }
    }
  }
}

Reference reference(const Inputs& in) {
  Reference r{std::vector<double>(static_cast<std::size_t>(in.floats())),
              std::vector<double>(static_cast<std::size_t>(in.rows())),
              std::vector<double>(static_cast<std::size_t>(3 * in.floats()))};
  for (std::int64_t b = 0; b < in.shape.batch; ++b) {
    for (std::int64_t h = 0; h < in.shape.heads; ++h) reference_head(in, b, h, r);
  }
  return r;
}

// tokens, heads, head_size, dropout
using Parameters = std::tuple<std::int64_t, std::int64_t, std::int64_t, float>;

class Attention : public testing::TestWithParam<Parameters> {
 protected:
  Attention()
      : shape_(of_heads(std::get<0>(GetParam()) > 100 ? 1 : 2, std::get<0>(GetParam()), std::get<1>(GetParam()),
                        std::get<2>(GetParam()))) {}
  Inputs inputs() const { return Inputs(shape_, std::get<3>(GetParam())); }
  AttentionShape shape_;
};

TEST_P(Attention, AgreesWithFp64Reference) {
  const Inputs in = inputs();
  const Results r = run(in, 2);
  const Reference expected = reference(in);
  EXPECT_LT(largest_error(r.out, expected.out), 3e-6);
  EXPECT_LT(largest_error(r.lse, expected.lse), 2e-6);
  EXPECT_LT(largest_error(r.d_qkv, expected.d_qkv), 1e-5);
}

TEST_P(Attention, BitsDoNotDependOnThreads) {
  const Inputs in = inputs();
  const Results one = run(in, 1), two = run(in, 2), three = run(in, 3);
  EXPECT_TRUE(one.out == two.out && one.lse == two.lse && one.d_qkv == two.d_qkv);
  EXPECT_TRUE(one.out == three.out && one.lse == three.lse && one.d_qkv == three.d_qkv);
}

TEST_P(Attention, NarrowNumbersAreThoseOfFp32RoundedOnce) {
  for (const DType type : {DType::bf16, DType::f16}) expect_rounded_once(shape_, std::get<3>(GetParam()), type);
}

// The scratch of one slot, between guards, serves a larger team too.
TEST_P(Attention, TakesTheSlotsThatWerePlanned) {
  const Inputs in = inputs();
  EXPECT_TRUE(run(in, 1).d_qkv == run(in, 3, /*planned=*/1).d_qkv);
}

std::string name_of(const testing::TestParamInfo<Parameters>& test) {
  const auto [tokens, heads, head_size, dropout] = test.param;
  return "t" + std::to_string(tokens) + "h" + std::to_string(heads) + "d" + std::to_string(head_size) + "p" +
         std::to_string(static_cast<int>(100 * dropout));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Parameters{1, 1, 4, 0.0f}, Parameters{1, 2, 64, 0.3f}, Parameters{7, 3, 16, 0.0f},
                                         Parameters{7, 2, 80, 0.5f}, Parameters{64, 12, 64, 0.0f}, Parameters{65, 2, 4, 0.1f},
                                         Parameters{65, 3, 80, 0.0f}, Parameters{96, 1, 48, 0.2f}, Parameters{97, 2, 96, 0.1f},
                                         Parameters{256, 2, 64, 0.1f}, Parameters{256, 1, 128, 0.0f},
                                         Parameters{300, 2, 64, 0.0f}, Parameters{300, 1, 128, 0.1f},
                                         Parameters{300, 2, 16, 0.1f}, Parameters{301, 1, 25, 0.1f}, Parameters{600, 1, 32, 0.1f},
                                         Parameters{50, 1, 256, 0.0f}, Parameters{50, 2, 1, 0.1f}, Parameters{40, 1, 112, 0.0f},
                                         Parameters{40, 1, 144, 0.0f}, Parameters{30, 1, 272, 0.1f}),
                         name_of);

// A row sees only the tokens before it, so a longer sequence begins with the same bits.
TEST(AttentionForward, PrefixHasTheSameBits) {
  constexpr std::int64_t kHeads = 3, kHead = 64, kLong = 300;
  const Inputs whole(of_heads(1, kLong, kHeads, kHead), 0);
  const Results expected = run(whole, 2);
  for (const std::int64_t tokens : {1, 17, 48, 65, 96, 200, 289}) {
    Inputs prefix(of_heads(1, tokens, kHeads, kHead), 0);
    std::memcpy(prefix.qkv.data(), whole.qkv.data(), static_cast<std::size_t>(3 * prefix.floats()) * 4);
    const Results r = run(prefix, 2);
    EXPECT_EQ(0, std::memcmp(r.out.data(), expected.out.data(), static_cast<std::size_t>(prefix.floats()) * 4)) << tokens;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      EXPECT_EQ(0, std::memcmp(r.lse.data() + h * tokens, expected.lse.data() + h * kLong, static_cast<std::size_t>(tokens) * 4));
    }
  }
}

// With q = 0 every visible key has the same probability, and with v_j = e_j the output shows the mask itself.
TEST(AttentionDropout, MaskIsTheScalarDefinition) {
  for (const std::int64_t tokens : {5, 64, 77, 256}) {
    for (const float probability : {0.1f, 0.5f, 0.9f}) {
      Inputs in(of_heads(2, tokens, 2, tokens), probability);
      for (std::int64_t row = 0; row < 2 * tokens; ++row) {
        float* const qkv = in.qkv.data() + row * 6 * tokens;
        std::fill(qkv, qkv + 6 * tokens, 0.0f);
        for (std::int64_t h = 0; h < 2; ++h) qkv[(4 + h) * tokens + row % tokens] = 1;
      }
      const Results r = run(in, 2);
      for (std::int64_t i = 0; i < in.floats(); ++i) {
        const std::int64_t key = i % tokens, head = i / tokens % 2, query = i / (2 * tokens) % tokens,
                           b = i / (2 * tokens * tokens);
        const double mask = key > query ? 0 : mask_factor(in, b, head, query, key) / static_cast<double>(query + 1);
        ASSERT_NEAR(r.out.data()[i], mask, 1e-6) << b << ' ' << head << ' ' << query << ' ' << key;
      }
    }
  }
}

TEST(AttentionForward, LargeScoresStayFinite) {
  Inputs in(of_heads(1, 200, 1, 64), 0);
  for (std::int64_t i = 0; i < 3 * in.floats(); ++i) in.qkv.data()[i] *= 100;
  const Results r = run(in, 2);
  const Reference expected = reference(in);
  EXPECT_LT(largest_error(r.out, expected.out), 2e-3);  // scores near 1e5 are rounded at 1e-2 before exp
  EXPECT_LT(largest_error(r.lse, expected.lse), 1e-6);
}

TEST(AttentionForward, NanReachesTheRowsThatSeeIt) {
  Inputs in(of_heads(1, 120, 1, 16), 0);
  in.qkv.data()[100 * 48 + 16 + 3] = std::nanf("");
  const Results r = run(in, 2);
  EXPECT_TRUE(std::isnan(r.out.data()[100 * 16]) && std::isnan(r.out.data()[119 * 16]) && std::isnan(r.lse.data()[110]));
  EXPECT_FALSE(std::isnan(r.lse.data()[99]));
}

TEST(AttentionScratch, GrowsWithTheSequenceByFourBytesForEachTokenAndByNarrowSums) {
  const AttentionShape shorter = of_heads(1, 1024, 12, 64), longer = of_heads(1, 8192, 12, 64);
  EXPECT_EQ(attention_forward_scratch(shorter, 2), attention_forward_scratch(longer, 2));
  EXPECT_EQ(attention_backward_scratch(longer, DType::f32, 2) - attention_backward_scratch(shorter, DType::f32, 2),
            Bytes{2 * 4 * (8192 - 1024)});
  for (const AttentionShape& shape : {shorter, longer}) {
    const Bytes sums = attention_backward_scratch(shape, DType::bf16, 2) - attention_backward_scratch(shape, DType::f32, 2);
    EXPECT_EQ(sums, Bytes{2 * 4 * shape.tokens * shape.head_size});
  }
}

// Every instruction set that was compiled and that this processor has.
TEST(AttentionTargets, AllAgreeWithFp64Reference) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (std::int64_t left = supported & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(left & -left));
    for (const AttentionShape shape : {of_heads(1, 130, 2, 20), of_heads(1, 70, 1, 64)}) {
      const Inputs in(shape, 0.2f);
      const Results r = run(in, 2);
      const Reference expected = reference(in);
      EXPECT_LT(largest_error(r.out, expected.out), 3e-6);
      EXPECT_LT(largest_error(r.lse, expected.lse), 2e-6);
      EXPECT_LT(largest_error(r.d_qkv, expected.d_qkv), 1e-5);
      for (const DType type : {DType::bf16, DType::f16}) expect_rounded_once(shape, 0.2f, type);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace plimsoll::cpu
