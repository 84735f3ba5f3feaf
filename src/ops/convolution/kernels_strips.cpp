#include "ops/convolution/kernels_strips.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/ceil_div.h"
#include "device/cpu/library_gemm.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {
namespace {

constexpr std::int64_t kStripBytes = 3 << 19;  // of copied sources
constexpr std::int64_t kSumBytes = 1 << 20;    // of the part of dw to which strips add
constexpr std::int64_t kTaskRows = 32;         // pixels whose sources are copied at a time

std::int64_t pixels_of(const Gathered& product, const Phase& phase) { return product.shape.batch * phase.rows * phase.columns; }

// Even strips of whole tasks.
std::int64_t strip_rows(std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max(kTaskRows, kStripBytes / row_bytes);
  return std::min(rows, round_up(ceil_div(rows, ceil_div(rows, most)), kTaskRows));
}

// The extents of the last piece.
std::int64_t last_of(std::int64_t all, std::int64_t piece) { return (all - 1) % piece + 1; }

// Copies the sources of pixels [first, first + rows) of a phase, for taps [begin, end): [pixel][tap][channel].
void copy_strip(const Gathered& product, const Phase& phase, std::size_t begin, std::size_t end, std::int64_t first,
                std::int64_t rows, const std::byte* source, std::byte* to) {
  const ImageShape& from = product.source;
  const std::int64_t pixel = from.channels * size_of(product.shape.operands);
  const std::int64_t stride = static_cast<std::int64_t>(end - begin) * pixel;
  const auto copy_pixel = [&](std::int64_t index, std::byte* out) {
    const std::int64_t j = index % phase.columns, i = index / phase.columns % phase.rows,
                       image = index / phase.columns / phase.rows;
    for (std::size_t t = begin; t < end;) {
      const Tap& tap = phase.taps[t];
      const std::int64_t run = run_of(phase.taps, t, end);
      const std::int64_t row = i * product.move_h + tap.row, column = j * product.move_w + tap.column;
      const ops::IndexRange inside = inside_of(from, row, column, run);
      if (inside.begin > 0) std::memset(out, 0, static_cast<std::size_t>(inside.begin * pixel));
      if (inside.count() > 0) {
        std::memcpy(out + inside.begin * pixel,
                    source + ((image * from.height + row) * from.width + column + inside.begin) * pixel,
                    static_cast<std::size_t>(inside.count() * pixel));
      }
      if (run > inside.end) {
        std::memset(out + inside.end * pixel, 0, static_cast<std::size_t>((run - inside.end) * pixel));
      }
      out += run * pixel, t += static_cast<std::size_t>(run);
    }
  };
  parallel_for(ceil_div(rows, kTaskRows), [&](std::int64_t task) {
    for (std::int64_t k = task * kTaskRows; k < std::min(rows, (task + 1) * kTaskRows); ++k)
      copy_pixel(first + k, to + k * stride);
  });
}

// True if the pixels of the only phase are the target, one after the other.
bool is_dense(const Gathered& product) { return product.step_h == 1 && product.step_w == 1; }

std::int64_t depth_of(const Gathered& product, const Phase& phase) {
  return static_cast<std::int64_t>(phase.taps.size()) * product.source.channels;
}

std::int64_t rows_of(const Gathered& product, const Phase& phase) {
  return strip_rows(pixels_of(product, phase), depth_of(product, phase) * size_of(product.shape.operands));
}

// The products of a phase: for whole strips, for the last one.
std::array<GemmShape, 2> products_of(const Gathered& product, const Phase& phase) {
  const std::int64_t rows = rows_of(product, phase);
  GemmShape shape{.m = rows,
                  .n = product.target.channels,
                  .k = depth_of(product, phase),
                  .transpose_b = product.gradient,
                  .bias = product.shape.bias,
                  .operands = product.shape.operands,
                  .result = product.shape.result};
  GemmShape last = shape;
  last.m = last_of(pixels_of(product, phase), rows);
  return {shape, last};
}

std::vector<GemmShape> all_products(const Gathered& product) {
  std::vector<GemmShape> shapes;
  for (const Phase& phase : product.phases) {
    if (phase.taps.empty()) continue;
    for (const GemmShape& shape : products_of(product, phase)) shapes.push_back(shape);
  }
  return shapes;
}

// Offsets in bytes: the weights of a gradient, by target channel; a strip; its results if they are scattered; the library's.
struct Layout {
  std::int64_t strip = 0, results = 0, gemm = 0;

  explicit Layout(const Gathered& product) {
    Bytes weights, strips, sums;
    const std::int64_t size = size_of(product.shape.operands);
    for (const Phase& phase : product.phases) {
      const std::int64_t depth = depth_of(product, phase);
      if (depth == 0) continue;
      const std::int64_t rows = rows_of(product, phase);
      if (product.gradient) weights = std::max(weights, Bytes{depth * product.target.channels * size});
      strips = std::max(strips, Bytes{rows * depth * size});
      if (!is_dense(product)) sums = std::max(sums, Bytes{rows * product.target.channels * size_of(product.shape.result)});
    }
    Bytes at = align_up(weights, kCacheLine);
    strip = at.n;
    results = (at = align_up(at + strips, kCacheLine)).n;
    gemm = align_up(at + sums, kCacheLine).n;
  }
};

// The plan of all products; absent if the library does not run one of them directly.
std::optional<GemmPlan> plan_of(const std::vector<GemmShape>& shapes, std::int64_t before, int threads) {
  GemmPlan plan;
  std::set<std::string> names;
  for (const GemmShape& shape : std::set<GemmShape>(shapes.begin(), shapes.end())) {
    const auto product = LibraryGemm::plan_of(shape, threads);
    if (!product) return {};
    plan.scratch = std::max(plan.scratch, align_up(product->scratch, kCacheLine));
    names.insert(product->implementation);
    ++plan.primitives;
  }
  if (names.empty()) return {};
  plan.implementation = "strips";
  for (const std::string& name : names) plan.implementation += " " + name;
  plan.scratch += Bytes{before};
  return plan;
}

std::vector<Gemm> bind_all(const std::vector<GemmShape>& shapes, int threads) {
  std::vector<Gemm> gemms;
  for (const GemmShape& shape : shapes) gemms.emplace_back(shape, threads);
  return gemms;
}

// The end of the scratch is the library's, which need not write all of it; an audit looks for the highest changed byte.
void touch_end(std::byte* scratch, std::int64_t bytes) { std::memset(scratch + bytes - kCacheLine.n, 0, kCacheLine.n); }

// [target channel][tap][source channel] of weights [place][target channel][source channel].
void arrange_weights(const Gathered& product, const Phase& phase, const std::byte* weight, std::byte* to) {
  const std::int64_t channels = product.target.channels, run = product.source.channels * size_of(product.shape.operands);
  parallel_for(channels, [&](std::int64_t channel) {
    std::byte* out = to + channel * static_cast<std::int64_t>(phase.taps.size()) * run;
    for (const Tap& tap : phase.taps) {
      std::memcpy(out, weight + (tap.place * channels + channel) * run, static_cast<std::size_t>(run));
      out += run;
    }
  });
}

// Writes the results of pixels [first, first + rows) of a phase to their places.
void scatter(const Gathered& product, const Phase& phase, std::int64_t first, std::int64_t rows, const std::byte* results,
             std::byte* target) {
  const ImageShape& to = product.target;
  const std::int64_t pixel = to.channels * size_of(product.shape.result);
  parallel_for(ceil_div(rows, kTaskRows), [&](std::int64_t task) {
    for (std::int64_t k = task * kTaskRows; k < std::min(rows, (task + 1) * kTaskRows); ++k) {
      const std::int64_t index = first + k, image = index / phase.columns / phase.rows;
      const std::int64_t y = phase.first_row + index / phase.columns % phase.rows * product.step_h;
      const std::int64_t x = phase.first_column + index % phase.columns * product.step_w;
      std::memcpy(target + ((image * to.height + y) * to.width + x) * pixel, results + k * pixel,
                  static_cast<std::size_t>(pixel));
    }
  });
}

// The cut of dw: taps whose sums stay in the caches while all strips of pixels add to them.
struct WeightCut {
  std::int64_t taps, rows, all_taps, pixels;

  explicit WeightCut(const Gathered& product) {
    const std::int64_t sums = 4 * product.source.channels * product.target.channels;
    const Phase& phase = product.phases.front();
    all_taps = static_cast<std::int64_t>(phase.taps.size());
    pixels = pixels_of(product, phase);
    const std::int64_t most = std::clamp<std::int64_t>(kSumBytes / sums, 1, all_taps);
    taps = ceil_div(all_taps, ceil_div(all_taps, most));
    rows = strip_rows(pixels, taps * product.source.channels * size_of(product.shape.operands));
  }
};

std::vector<GemmShape> weight_products(const Gathered& product) {
  const WeightCut cut(product);
  std::vector<GemmShape> shapes;
  for (const std::int64_t taps : {cut.taps, last_of(cut.all_taps, cut.taps)}) {
    for (const std::int64_t rows : {cut.rows, last_of(cut.pixels, cut.rows)}) {
      for (const bool adds : {false, true}) {
        shapes.push_back({.m = taps * product.source.channels,
                          .n = product.target.channels,
                          .k = rows,
                          .transpose_a = true,
                          .accumulate = adds,
                          .operands = product.shape.operands});
      }
    }
  }
  return shapes;
}

std::int64_t weight_strip_bytes(const Gathered& product) {
  const WeightCut cut(product);
  return align_up(Bytes{cut.rows * cut.taps * product.source.channels * size_of(product.shape.operands)}, kCacheLine).n;
}

bool may_be_in_strips(const ConvolutionShape& shape) { return shape.operands != DType::f32 && shape.groups == 1; }

}  // namespace

std::optional<GemmPlan> plan_strips(const Gathered& product, int threads) {
  if (!may_be_in_strips(product.shape)) return {};
  return plan_of(all_products(product), Layout(product).gemm, threads);
}

StripConvolution::StripConvolution(Gathered product, int threads)
    : product_(std::move(product)),
      scratch_(plan_strips(product_, threads).value().scratch.n),
      gemms_(bind_all(all_products(product_), threads)) {}

void StripConvolution::run(const std::byte* source, const std::byte* weight, const float* bias, std::byte* target,
                           std::byte* scratch) const {
  const Layout layout(product_);
  touch_end(scratch, scratch_);
  clear_untapped(product_, {target, product_.shape.result});
  std::size_t gemm = 0;
  for (const Phase& phase : product_.phases) {
    if (phase.taps.empty()) continue;
    if (product_.gradient) arrange_weights(product_, phase, weight, scratch);
    const std::int64_t all = pixels_of(product_, phase), rows = rows_of(product_, phase);
    const std::int64_t row_bytes = product_.target.channels * size_of(product_.shape.result);
    for (std::int64_t first = 0; first < all; first += rows) {
      const std::int64_t count = std::min(rows, all - first);
      copy_strip(product_, phase, 0, phase.taps.size(), first, count, source, scratch + layout.strip);
      std::byte* const to = is_dense(product_) ? target + first * row_bytes : scratch + layout.results;
      gemms_[gemm + (count < rows)].run(scratch + layout.strip, product_.gradient ? scratch : weight, bias, to,
                                        scratch + layout.gemm);
      if (!is_dense(product_)) scatter(product_, phase, first, count, to, target);
    }
    gemm += 2;
  }
}

std::optional<GemmPlan> plan_weight_strips(const ConvolutionShape& shape, int threads) {
  if (!may_be_in_strips(shape)) return {};
  const Gathered product = gathered_forward(shape);
  return plan_of(weight_products(product), weight_strip_bytes(product), threads);
}

StripWeights::StripWeights(const ConvolutionShape& shape, int threads)
    : product_(gathered_forward(shape)),
      scratch_(plan_weight_strips(shape, threads).value().scratch.n),
      gemms_(bind_all(weight_products(product_), threads)) {}

void StripWeights::run(const std::byte* x, const std::byte* dy, bool overwrite, float* dw, std::byte* scratch) const {
  const WeightCut cut(product_);
  const std::int64_t dy_row = product_.target.channels * size_of(product_.shape.operands);
  touch_end(scratch, scratch_);
  for (std::int64_t tap = 0; tap < cut.all_taps; tap += cut.taps) {
    const std::int64_t taps = std::min(cut.taps, cut.all_taps - tap);
    for (std::int64_t first = 0; first < cut.pixels; first += cut.rows) {
      const std::int64_t rows = std::min(cut.rows, cut.pixels - first);
      copy_strip(product_, product_.phases.front(), static_cast<std::size_t>(tap), static_cast<std::size_t>(tap + taps), first,
                 rows, x, scratch);
      const std::size_t gemm =
          4 * std::size_t{taps < cut.taps} + 2 * std::size_t{rows < cut.rows} + std::size_t{!overwrite || first > 0};
      gemms_[gemm].run(scratch, dy + first * dy_row, nullptr, dw + tap * product_.source.channels * product_.target.channels,
                       scratch + weight_strip_bytes(product_));
    }
  }
}

}  // namespace plimsoll::cpu
