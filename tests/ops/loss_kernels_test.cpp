#include "ops/loss/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {
namespace {

struct Free {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

// 64-byte aligned floats, followed by a sentinel.
class Floats {
 public:
  explicit Floats(std::int64_t bytes, unsigned char fill = 0xFF)
      : bytes_(static_cast<std::size_t>(bytes)),
        memory_(static_cast<std::byte*>(::operator new[](bytes_ + kGuard, std::align_val_t{64}))) {
    std::memset(memory_.get(), fill, bytes_);
    std::memset(memory_.get() + bytes_, 0x5A, kGuard);
  }
  float* get() const { return reinterpret_cast<float*>(memory_.get()); }
  std::byte* bytes() const { return memory_.get(); }
  std::string content() const { return {reinterpret_cast<const char*>(memory_.get()), bytes_}; }
  bool intact() const {
    return std::all_of(memory_.get() + bytes_, memory_.get() + bytes_ + kGuard, [](std::byte b) { return b == std::byte{0x5A}; });
  }

 private:
  static constexpr std::size_t kGuard = 4096;
  std::size_t bytes_;
  std::unique_ptr<std::byte[], Free> memory_;
};

void fill(float* to, std::int64_t count, unsigned seed) {
  std::minstd_rand random(seed);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<double>(random()) / 2147483647.0 - 0.5);
}

struct Problem {
  LossShape shape;
  LossTerms terms;
  Floats h, w;
  std::vector<std::int32_t> targets;
  float inverse_units = 0.0F;

  explicit Problem(const LossShape& s, const LossTerms& t = {})
      : shape(s), terms(t), h(s.tokens * s.width * 4), w(s.vocab * s.width * 4) {
    fill(h.get(), s.tokens * s.width, 1);
    fill(w.get(), s.vocab * s.width, 2);
    for (std::int64_t i = 0; i < s.tokens * s.width; ++i) h.get()[i] *= 4.0F;
    std::minstd_rand random(3);
    int units = 0;
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      targets.push_back(i % 7 == 3 ? -1 : static_cast<std::int32_t>(random() % static_cast<unsigned>(s.vocab)));
      units += targets.back() >= 0;
    }
    targets[0] = static_cast<std::int32_t>(s.vocab - 1);
    inverse_units = 1.0F / static_cast<float>(std::max(units, 1));
  }
};

struct Outcome {
  Floats losses, dh, dw;
  explicit Outcome(const LossShape& s) : losses(s.tokens * 4), dh(s.tokens * s.width * 4), dw(s.vocab * s.width * 4) {}
  bool operator==(const Outcome& other) const {
    return losses.content() == other.losses.content() && dh.content() == other.dh.content() && dw.content() == other.dw.content();
  }
};

Outcome run(const Problem& p, int chunks, bool overwrite, unsigned char poison = 0xFF) {
  LossShape shape = p.shape;
  shape.chunks = chunks;
  const LinearCrossEntropy loss(shape, true, thread_count(), p.terms);
  Outcome out(shape);
  if (!overwrite) fill(out.dw.get(), shape.vocab * shape.width, 9);
  const Floats scratch(loss.plan().scratch.n, poison);
  loss.backward(p.h.get(), p.w.get(), p.targets.data(), p.inverse_units, out.losses.get(), out.dh.get(), out.dw.get(), overwrite,
                scratch.bytes());
  EXPECT_TRUE(scratch.intact() && out.losses.intact() && out.dh.intact() && out.dw.intact());
  return out;
}

struct Reference {
  std::vector<double> losses, dh, dw;
};

Reference reference(const Problem& p) {
  const std::int64_t tokens = p.shape.tokens, width = p.shape.width, vocab = p.shape.vocab;
  Reference r{.losses = std::vector<double>(static_cast<std::size_t>(tokens)),
              .dh = std::vector<double>(static_cast<std::size_t>(tokens * width)),
              .dw = std::vector<double>(static_cast<std::size_t>(vocab * width))};
  std::vector<double> x(static_cast<std::size_t>(vocab));
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (p.targets[static_cast<std::size_t>(t)] < 0) continue;
    const float* h = p.h.get() + t * width;
    double sum = 0, total = 0;
    for (std::int64_t v = 0; v < vocab; ++v) {
      double& logit = x[static_cast<std::size_t>(v)];
      logit = 0;
      for (std::int64_t c = 0; c < width; ++c) logit += static_cast<double>(h[c]) * static_cast<double>(p.w.get()[v * width + c]);
      sum += std::exp(logit);
      total += logit;
    }
    const double l = std::log(sum), size = static_cast<double>(vocab), s = p.terms.label_smoothing, z = p.terms.z_loss;
    const auto target = static_cast<std::size_t>(p.targets[static_cast<std::size_t>(t)]);
    r.losses[static_cast<std::size_t>(t)] = l - (1 - s) * x[target] - s * total / size + z * l * l;
    for (std::int64_t v = 0; v < vocab; ++v) {
      const auto at = static_cast<std::size_t>(v);
      const double wanted = s / size + (at == target ? 1 - s : 0);
      const double d = (std::exp(x[at]) / sum * (1 + 2 * z * l) - wanted) * static_cast<double>(p.inverse_units);
      for (std::int64_t c = 0; c < width; ++c) {
        r.dh[static_cast<std::size_t>(t * width + c)] += d * static_cast<double>(p.w.get()[v * width + c]);
        r.dw[static_cast<std::size_t>(v * width + c)] += d * static_cast<double>(h[c]);
      }
    }
  }
  return r;
}

// Largest difference over the largest element.
double error_of(const std::vector<double>& expected, const float* actual) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(expected[i] - static_cast<double>(actual[i])));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return difference / scale;
}

void expect_right(const Problem& p, const Outcome& out) {
  const Reference r = reference(p);
  EXPECT_LT(error_of(r.losses, out.losses.get()), 2e-6);
  EXPECT_LT(error_of(r.dh, out.dh.get()), 5e-6);
  EXPECT_LT(error_of(r.dw, out.dw.get()), 5e-6);
}

// With more chunks than tiles, nothing changes any more.
int tiles_of(const LossShape& shape) {
  return static_cast<int>(ceil_div(shape.tokens, loss_token_tile(shape.vocab)) * ceil_div(shape.vocab, kLossVocabTile));
}

TEST(LossKernels, MatchesTheReferenceOnRaggedTiles) {
  const Problem p({.tokens = 300, .width = 24, .vocab = 8195});
  expect_right(p, run(p, 1, true));
}

TEST(LossKernels, MatchesTheReferenceWithOtherTerms) {
  for (const LossTerms& terms : {LossTerms{0.1, 0}, LossTerms{0, 1e-3}, LossTerms{0.5, 1e-2}}) {
    const Problem p({.tokens = 300, .width = 24, .vocab = 2100}, terms);
    expect_right(p, run(p, 1, true));
  }
}

TEST(LossKernels, MatchesTheReferenceOnSmallVocabularies) {
  for (const std::int64_t vocab : {1, 2, 10, 256, 1023, 1024, 1025}) {
    SCOPED_TRACE(vocab);
    const Problem p({.tokens = 130, .width = 16, .vocab = vocab});
    if (vocab > 1) expect_right(p, run(p, 1, true));
  }
}

TEST(LossKernels, ChunksChangeNoBit) {
  for (const LossShape& shape :
       {LossShape{.tokens = 600, .width = 40, .vocab = 8195}, LossShape{.tokens = 9000, .width = 16, .vocab = 256},
        LossShape{.tokens = 70, .width = 33, .vocab = 3000}}) {
    const Problem p(shape, {0.1, 1e-3});
    for (const bool overwrite : {true, false}) {
      const Outcome whole = run(p, 1, overwrite);
      Bytes before{std::numeric_limits<std::int64_t>::max()};
      const int most = tiles_of(shape);
      for (int chunks = 1; chunks <= most + 1; chunks += chunks < 5 || chunks + 6 > most ? 1 : 5) {
        EXPECT_TRUE(run(p, chunks, overwrite, 0x7E) == whole) << chunks << " chunks";
        LossShape chunked = shape;
        chunked.chunks = chunks;
        const Bytes scratch = plan_loss(chunked, true, thread_count()).scratch;
        EXPECT_LE(scratch, before) << chunks << " chunks";
        before = scratch;
      }
    }
  }
}

// The same with weights that come range by range, twice, and every time to the same place; so do their gradients.
void expect_ranges_give(const Outcome& whole, const Problem& p, const LossShape& shape, int chunks, bool overwrite) {
  LossShape in_ranges = shape;
  in_ranges.chunks = chunks;
  in_ranges.in_ranges = true;
  const LinearCrossEntropy loss(in_ranges, true, thread_count(), p.terms), forward(in_ranges, false, thread_count(), p.terms);
  const Floats scratch(loss.plan().scratch.n), other(forward.plan().scratch.n), losses(shape.tokens * 4);
  Outcome out(shape);
  if (!overwrite) fill(out.dw.get(), shape.vocab * shape.width, 9);
  const std::int64_t step = chunks % 2 == 0 ? kLossVocabTile : 2 * kLossVocabTile;
  const Floats w(step * shape.width * 4), dw(step * shape.width * 4);
  for (const int pass : {0, 1}) {
    for (std::int64_t begin = 0; begin < shape.vocab; begin += step) {
      const VocabRange range{begin, std::min(step, shape.vocab - begin), pass == 0, pass == 1};
      const auto bytes = static_cast<std::size_t>(range.rows * shape.width * 4);
      float* all = out.dw.get() + begin * shape.width;
      std::memcpy(w.get(), p.w.get() + begin * shape.width, bytes);
      if (pass == 1) std::memcpy(dw.get(), all, bytes);
      loss.backward(p.h.get(), w.get(), p.targets.data(), p.inverse_units, out.losses.get(), out.dh.get(), dw.get(), overwrite,
                    scratch.bytes(), range);
      if (pass == 1) std::memcpy(all, dw.get(), bytes);
      if (pass == 0) forward.forward(p.h.get(), w.get(), p.targets.data(), losses.get(), other.bytes(), range);
    }
  }
  EXPECT_TRUE(scratch.intact() && other.intact() && out.dh.intact());
  EXPECT_TRUE(out == whole) << chunks << " chunks";
  EXPECT_EQ(losses.content(), whole.losses.content());
}

TEST(LossKernels, RangesOfTheVocabularyChangeNoBit) {
  for (const LossShape& shape :
       {LossShape{.tokens = 600, .width = 40, .vocab = 8195}, LossShape{.tokens = 70, .width = 33, .vocab = 3000},
        LossShape{.tokens = 50, .width = 16, .vocab = 4096}}) {
    const Problem p(shape, {0.1, 1e-3});
    const Outcome written = run(p, 1, /*overwrite=*/true), added = run(p, 1, /*overwrite=*/false);
    for (const int chunks : {1, 2, 3, 100}) {
      expect_ranges_give(written, p, shape, chunks, /*overwrite=*/true);
      expect_ranges_give(added, p, shape, chunks, /*overwrite=*/false);
    }
  }
}

// The work contains the repeated computation for each amount of held logits.
TEST(LossKernels, RangesHoldWhatTheChunksSay) {
  const auto plan = [](int chunks) {
    return plan_loss({.tokens = 512, .width = 64, .vocab = 10240, .chunks = chunks, .in_ranges = true}, true, 2);
  };
  EXPECT_DOUBLE_EQ(plan(1).work, 1);
  EXPECT_DOUBLE_EQ(plan(2).work, (3 + 0.6) / 3);
  EXPECT_DOUBLE_EQ(plan(10).work, 4.0 / 3);
  EXPECT_GT(plan(1).scratch, Bytes{512 * 10240 * 4});
  EXPECT_LT(plan(10).scratch, Bytes{512 * 1024 * 4} + kMiB);
}

TEST(LossKernels, RefusesRangesOfPartsOfTiles) {
  const Problem p({.tokens = 20, .width = 16, .vocab = 3000, .in_ranges = true});
  const LinearCrossEntropy loss(p.shape, false, thread_count());
  const Floats losses(20 * 4), scratch(loss.plan().scratch.n);
  for (const VocabRange& wrong :
       {VocabRange{.begin = 0, .rows = 1000}, VocabRange{.begin = 5, .rows = 1024}, VocabRange{.begin = 2048, .rows = 1024}}) {
    EXPECT_THROW(loss.forward(p.h.get(), p.w.get(), p.targets.data(), losses.get(), scratch.bytes(), wrong), Error);
  }
}

TEST(LossKernels, AddsToTheGradientOfTheWeights) {
  const Problem p({.tokens = 300, .width = 24, .vocab = 2100});
  const Outcome written = run(p, 1, true), added = run(p, 1, false);
  Floats before(p.shape.vocab * p.shape.width * 4);
  fill(before.get(), p.shape.vocab * p.shape.width, 9);
  for (std::int64_t i = 0; i < p.shape.vocab * p.shape.width; ++i) {
    ASSERT_NEAR(added.dw.get()[i], written.dw.get()[i] + before.get()[i], 1e-6);
  }
  EXPECT_EQ(written.dh.content(), added.dh.content());
}

TEST(LossKernels, ForwardGivesTheSameLosses) {
  for (const int chunks : {1, 2, 9}) {
    const Problem p({.tokens = 300, .width = 24, .vocab = 4100, .chunks = chunks});
    const LinearCrossEntropy forward(p.shape, false, thread_count());
    const Floats losses(p.shape.tokens * 4), scratch(forward.plan().scratch.n);
    forward.forward(p.h.get(), p.w.get(), p.targets.data(), losses.get(), scratch.bytes());
    EXPECT_TRUE(scratch.intact());
    EXPECT_EQ(losses.content(), run(p, chunks, true).losses.content());
    EXPECT_EQ(losses.get()[3], 0.0F);
  }
}

TEST(LossKernels, AllIgnoredGivesZeros) {
  Problem p({.tokens = 20, .width = 16, .vocab = 50});
  std::fill(p.targets.begin(), p.targets.end(), -1);
  const Outcome out = run(p, 1, true);
  for (std::int64_t i = 0; i < 20 * 16; ++i) EXPECT_EQ(out.dh.get()[i], 0.0F);
  for (std::int64_t i = 0; i < 50 * 16; ++i) EXPECT_EQ(out.dw.get()[i], 0.0F);
}

TEST(LossKernels, LargeLogitsStayFinite) {
  Problem p({.tokens = 40, .width = 16, .vocab = 2100});
  for (std::int64_t i = 0; i < 40 * 16; ++i) p.h.get()[i] *= 1000.0F;
  const Outcome out = run(p, 1, true);
  for (std::int64_t i = 0; i < 40; ++i) EXPECT_TRUE(std::isfinite(out.losses.get()[i]));
  for (std::int64_t i = 0; i < 40 * 16; ++i) EXPECT_TRUE(std::isfinite(out.dh.get()[i]));
}

// The NaN may be in a lane that the maximum keeps or loses, and in the first tile of the vocabulary or a later one.
TEST(LossKernels, ANanStaysANan) {
  for (const std::int64_t row : {0, 5, 1023, 1024, 2050, 2099}) {
    SCOPED_TRACE(row);
    Problem p({.tokens = 40, .width = 16, .vocab = 2100});
    for (std::int32_t& target : p.targets) target = target < 0 ? target : 77;
    p.w.get()[row * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
    const Outcome out = run(p, 1, true);
    for (std::int64_t i = 0; i < 40; ++i) {
      const bool counts = p.targets[static_cast<std::size_t>(i)] >= 0;
      EXPECT_EQ(std::isnan(out.losses.get()[i]), counts) << i;
      EXPECT_TRUE(std::isnan(out.dh.get()[i * 16]) || !counts) << i;
    }
    EXPECT_TRUE(std::isnan(out.dw.get()[row * 16]));
  }
  Problem p({.tokens = 40, .width = 16, .vocab = 2100});
  p.h.get()[16 * 7] = std::numeric_limits<float>::quiet_NaN();
  const Outcome out = run(p, 1, true);
  for (std::int64_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(out.losses.get()[i]), i == 7) << i;
}

TEST(LossKernels, TargetsOutsideTheVocabularyAreNamed) {
  for (const std::int32_t wrong : {-2, 50}) {
    Problem p({.tokens = 20, .width = 16, .vocab = 50});
    p.targets[7] = wrong;
    try {
      run(p, 1, true);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-DATA-TARGET");
      EXPECT_EQ(error.message, "target " + std::to_string(wrong) + " of token 7 is outside the vocabulary");
    }
  }
}

TEST(LossKernels, ScratchFallsToOneTile) {
  const LossShape gpt2{.tokens = 1024, .width = 768, .vocab = 50257};
  EXPECT_EQ(tiles_of(gpt2), 4 * 50);
  const auto scratch = [&](int chunks) {
    LossShape shape = gpt2;
    shape.chunks = chunks;
    return plan_loss(shape, true, 2).scratch;
  };
  EXPECT_GT(scratch(1), Bytes{1024 * 50257 * 4});
  EXPECT_LT(scratch(4), Bytes{256 * 50257 * 4} + kMiB * 4);
  EXPECT_LT(scratch(28), kMiB * 12);
  EXPECT_LT(scratch(200), kMiB * 5);
  EXPECT_EQ(plan_loss(gpt2, true, 2).products.size(), 6U);
}

}  // namespace
}  // namespace plimsoll::cpu
