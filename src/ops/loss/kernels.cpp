#include "ops/loss/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/cast.h"
#include "device/cpu/parallel.h"
#include "ops/elementwise/kernels.h"
#include "ops/loss/kernels_rows.h"

namespace plimsoll::cpu {
namespace {

constexpr std::int64_t kTaskRows = 16;  // rows of a task of the row-wise passes

// The tiles, and the number of them that `chunks` holds at once.
struct Tiling {
  std::int64_t tokens, vocab, token_tile, token_tiles, vocab_tiles;
  std::int64_t group;  // tiles of tokens that are processed together
  std::int64_t held;   // tiles of logits held per tile of tokens

  std::int64_t rows(std::int64_t t) const { return std::min(token_tile, tokens - t * token_tile); }
  std::int64_t columns(std::int64_t v) const { return std::min(kLossVocabTile, vocab - v * kLossVocabTile); }
  bool holds_all() const { return held == vocab_tiles; }
  std::int64_t group_rows() const { return std::min(tokens, group * token_tile); }
  std::int64_t held_columns() const { return holds_all() ? vocab : held * kLossVocabTile; }
};

Tiling tiling_of(const LossShape& shape, bool backward) {
  Tiling tiling{.tokens = shape.tokens, .vocab = shape.vocab, .token_tile = loss_token_tile(shape.vocab)};
  tiling.token_tiles = ceil_div(shape.tokens, tiling.token_tile);
  tiling.vocab_tiles = ceil_div(shape.vocab, kLossVocabTile);
  if (shape.in_ranges) {
    tiling.group = tiling.token_tiles;
    tiling.held = backward ? ceil_div(tiling.vocab_tiles, shape.chunks) : 1;
    return tiling;
  }
  const bool whole_rows = backward && shape.chunks <= tiling.token_tiles;
  tiling.group = whole_rows ? ceil_div(tiling.token_tiles, shape.chunks) : 1;
  const std::int64_t shared = ceil_div(tiling.token_tiles * tiling.vocab_tiles, shape.chunks);
  tiling.held = whole_rows ? tiling.vocab_tiles : backward ? std::clamp<std::int64_t>(shared, 1, tiling.vocab_tiles) : 1;
  return tiling;
}

// Offsets in the scratch; the states of the softmax are at 0. There is a converted tile of w unless w has the operands' type, and
// for 16-bit operands a rounded tile of the logits' gradient.
struct ScratchLayout {
  std::int64_t logits, weights, slopes, gemm, end;
};

ScratchLayout layout_of(const Tiling& tiling, const LossShape& shape, bool backward, Bytes library) {
  const std::int64_t rows = tiling.group_rows(), columns = std::min(shape.vocab, kLossVocabTile);
  const std::int64_t of_weights = shape.converts_table() ? size_of(shape.operands) : 0;
  const std::int64_t of_slopes = shape.operands == DType::f32 ? 0 : size_of(shape.operands);
  ScratchLayout layout{};
  Bytes at;
  const auto add = [&](std::int64_t bytes) { return at = align_up(at + Bytes{bytes}, kCacheLine), at.n; };
  layout.logits = add(rows * static_cast<std::int64_t>(sizeof(SoftmaxState)));
  layout.weights = add(rows * tiling.held_columns() * 4);
  layout.slopes = add(columns * shape.width * of_weights);
  layout.gemm = add(backward ? std::min(shape.tokens, tiling.token_tile) * columns * of_slopes : 0);
  layout.end = (at + library).n;
  return layout;
}

// The products of a pair of tile sizes: logits and, with `backward`, the requested ones of dh and dw.
std::vector<GemmShape> products_of(std::int64_t rows, std::int64_t columns, const LossShape& shape, bool backward) {
  const std::int64_t width = shape.width;
  std::vector<GemmShape> shapes = {{.m = rows, .n = columns, .k = width, .transpose_b = true, .operands = shape.operands}};
  if (!backward) return shapes;
  if (shape.dh) shapes.push_back({.m = rows, .n = width, .k = columns, .accumulate = true, .operands = shape.operands});
  if (!shape.dw) return shapes;
  shapes.push_back({.m = columns, .n = width, .k = rows, .transpose_a = true, .accumulate = true, .operands = shape.operands});
  return shapes;
}

// The sizes of tiles by [last tile of tokens][last tile of the vocabulary]: four pairs, some possibly equal.
std::vector<std::vector<GemmShape>> all_products(const LossShape& shape, const Tiling& tiling, bool backward) {
  std::vector<std::vector<GemmShape>> all;
  for (const std::int64_t t : {std::int64_t{0}, tiling.token_tiles - 1}) {
    for (const std::int64_t v : {std::int64_t{0}, tiling.vocab_tiles - 1}) {
      all.push_back(products_of(tiling.rows(t), tiling.columns(v), shape, backward));
    }
  }
  return all;
}

void check_targets(const std::int32_t* targets, const LossShape& shape) {
  for (std::int64_t i = 0; i < shape.tokens; ++i) {
    if (targets[i] >= -1 && targets[i] < shape.vocab) continue;
    throw data_error("E-DATA-TARGET", "loss", fmt::format("target {} of token {} is outside the vocabulary", targets[i], i),
                     fmt::format("-1 (ignored) or 0 to {}", shape.vocab - 1));
  }
}

}  // namespace

std::int64_t loss_token_tile(std::int64_t vocab) {
  return 256 * std::clamp<std::int64_t>(8192 / std::clamp<std::int64_t>(vocab, 1, 8192), 1, 32);
}

LossPlan plan_loss(const LossShape& shape, bool backward, int threads, bool library) {
  ensure(shape.tokens > 0 && shape.width > 0 && shape.vocab > 0 && shape.chunks > 0, "loss", "a dimension is not positive");
  ensure(!backward || shape.dh || shape.dw, "loss", "a backward loss makes no gradient");
  const Tiling tiling = tiling_of(shape, backward);
  std::set<GemmShape> products;
  for (const auto& shapes : all_products(shape, tiling, backward)) products.insert(shapes.begin(), shapes.end());
  LossPlan plan{.products = {products.begin(), products.end()}};
  std::set<std::string> implementations;
  Bytes scratch;
  for (const GemmShape& product : plan.products) {
    const GemmPlan gemm = plan_gemm(product, threads, library);
    implementations.insert(gemm.implementation);
    scratch = std::max(scratch, gemm.scratch);
    plan.primitives += gemm.primitives;
  }
  plan.implementation = fmt::format("tiles-{}x{} {}", tiling.token_tile, kLossVocabTile, fmt::join(implementations, ", "));
  plan.scratch = Bytes{layout_of(tiling, shape, backward, align_up(scratch, kCacheLine)).end};
  if (backward && !tiling.holds_all()) {
    const double twice = static_cast<double>(tiling.vocab_tiles - tiling.held + 1) / static_cast<double>(tiling.vocab_tiles);
    const double once = 1 + int{shape.dh} + int{shape.dw};
    plan.work = (once + twice) / once;
  }
  return plan;
}

// One pass over the operands of a call.
struct LinearCrossEntropy::Run {
  const LinearCrossEntropy& loss;
  Tiling tiling;
  const std::byte *h, *w;
  const std::int32_t* targets;
  float* losses;
  SoftmaxState* states;
  float* logits;
  std::byte* weights;  // the present tile of w, converted
  std::byte* slopes;   // the present tile of the logits' gradient, rounded
  std::byte* library;
  float of_target, of_each;     // the weights of the target's logit, and of every one
  std::int64_t v_begin, v_end;  // the tiles of the vocabulary in this call

  Run(const LinearCrossEntropy& owner, bool backward, const void* h_in, const void* w_in, const std::int32_t* targets_in,
      float* losses_out, std::byte* scratch, const VocabRange& range)
      : loss(owner),
        tiling(tiling_of(owner.shape_, backward)),
        h(static_cast<const std::byte*>(h_in)),
        w(static_cast<const std::byte*>(w_in)),
        targets(targets_in),
        losses(losses_out),
        of_target(static_cast<float>(1 - owner.terms_.label_smoothing)),
        of_each(static_cast<float>(owner.terms_.label_smoothing / static_cast<double>(tiling.vocab))),
        v_begin(range.begin / kLossVocabTile),
        v_end(ceil_div(range.begin + range.rows, kLossVocabTile)) {
    const bool whole = range.begin == 0 && range.rows == tiling.vocab;
    ensure(range.begin % kLossVocabTile == 0 && range.begin + range.rows <= tiling.vocab, "loss", "a range is no whole tiles");
    ensure(range.rows % kLossVocabTile == 0 || v_end == tiling.vocab_tiles, "loss", "a range is no whole tiles");
    ensure(whole || owner.shape_.in_ranges, "loss", "this loss was built for the whole vocabulary");
    const ScratchLayout layout = layout_of(tiling, owner.shape_, backward, Bytes{0});
    states = reinterpret_cast<SoftmaxState*>(scratch);
    logits = reinterpret_cast<float*>(scratch + layout.logits);
    weights = scratch + layout.weights;
    slopes = scratch + layout.slopes;
    library = scratch + layout.gemm;
  }

  std::int64_t width() const { return loss.shape_.width; }
  DType operands() const { return loss.shape_.operands; }
  const void* h_tile(std::int64_t t) const { return h + t * tiling.token_tile * width() * size_of(operands()); }
  std::int64_t w_offset(std::int64_t v) const { return (v - v_begin) * kLossVocabTile * width(); }

  const Products& products(std::int64_t t, std::int64_t v) const {
    return loss.products_[static_cast<std::size_t>(2 * (t == tiling.token_tiles - 1) + (v == tiling.vocab_tiles - 1))];
  }

  // The tiles of one tile of tokens have consecutive slots; all tiles past the last slot use the last one in turn.
  float* tile(std::int64_t t, std::int64_t v) const {
    const std::int64_t before = t % tiling.group * tiling.token_tile * tiling.held_columns();
    return logits + before + tiling.rows(t) * std::min(v, tiling.held - 1) * kLossVocabTile;
  }
  bool kept(std::int64_t v) const { return tiling.holds_all() || v < tiling.held - 1; }

  // Operands of the products with a tile of the vocabulary: the tile of w, once for all tiles of tokens, and the gradient.
  const void* w_tile(std::int64_t v) const {
    const StoredMatrix& table = loss.shape_.table;
    const std::int64_t columns = tiling.columns(v);
    if (!loss.shape_.converts_table()) return w + w_offset(v) * size_of(operands());
    if (table.dtype == DType::f32) {
      const std::byte* tile = w + w_offset(v) * size_of(table.dtype);
      return rounded(columns * width(), reinterpret_cast<const float*>(tile), weights);
    }
    read_part(table, w, {w_offset(v) / width(), columns, 0, width(), width()}, operands(), weights);
    return weights;
  }
  const void* slope_tile(std::int64_t t, std::int64_t v) const {
    if (operands() == DType::f32) return tile(t, v);
    return rounded(tiling.rows(t) * tiling.columns(v), tile(t, v), slopes);
  }
  const void* rounded(std::int64_t n, const float* x, std::byte* y) const {
    cast(n, x, {y, operands()});
    return y;
  }

  void multiply(std::int64_t t, std::int64_t v, const void* of_w) const {
    products(t, v).logits.run(h_tile(t), of_w, nullptr, tile(t, v), library);
  }

  // Calls body(row within the group, token, logits of its row, number of columns) for the rows of tiles [t0, t1).
  template <class Body>
  void for_rows(std::int64_t t0, std::int64_t t1, std::int64_t v, Body&& body) const {
    const std::int64_t first = t0 * tiling.token_tile, rows = std::min(tiling.tokens, t1 * tiling.token_tile) - first;
    const std::int64_t columns = tiling.columns(v);
    parallel_for(ceil_div(rows, kTaskRows), [&](std::int64_t task) {
      for (std::int64_t row = task * kTaskRows; row < std::min(rows, (task + 1) * kTaskRows); ++row) {
        const std::int64_t t = t0 + row / tiling.token_tile;
        body(row, first + row, tile(t, v) + row % tiling.token_tile * columns, columns);
      }
    });
  }

  void take_statistics(std::int64_t t0, std::int64_t t1, std::int64_t v) const {
    for_rows(t0, t1, v, [&](std::int64_t row, std::int64_t token, const float* x, std::int64_t columns) {
      SoftmaxState& state = states[row];
      if (v == 0) state = SoftmaxState{};
      if (targets[token] >= 0) {
        const std::int64_t at = targets[token] - v * kLossVocabTile;
        if (at >= 0 && at < columns) state.target += of_target * x[at];
        if (of_each != 0) state.target += of_each * sum_of(x, columns);
        add_logits(x, columns, state);
      }
      if (v == tiling.vocab_tiles - 1) losses[token] = targets[token] < 0 ? 0.0F : loss_of(state);
    });
  }

  static double log_of_sum(const SoftmaxState& state) {
    return static_cast<double>(state.max) + std::log(static_cast<double>(state.sum));
  }

  float loss_of(const SoftmaxState& state) const {
    const double l = log_of_sum(state);
    return static_cast<float>(l - static_cast<double>(state.target) + loss.terms_.z_loss * l * l);
  }

  // d loss / d L.
  float slope_of(const SoftmaxState& state) const {
    return loss.terms_.z_loss == 0 ? 1.0F : static_cast<float>(1 + 2 * loss.terms_.z_loss * log_of_sum(state));
  }

  // First pass: computes the losses and keeps the logits of held tiles.
  void measure(std::int64_t t0, std::int64_t t1) const {
    for (std::int64_t v = v_begin; v < v_end; ++v) {
      const void* of_w = w_tile(v);
      for (std::int64_t t = t0; t < t1; ++t) multiply(t, v, of_w);
      take_statistics(t0, t1, v);
    }
  }

  // Turns logits into their gradients.
  void differentiate(std::int64_t t0, std::int64_t t1, std::int64_t v, float inverse_units) const {
    for_rows(t0, t1, v, [&](std::int64_t row, std::int64_t token, float* x, std::int64_t columns) {
      if (targets[token] < 0) return static_cast<void>(std::fill(x, x + columns, 0.0F));
      const SoftmaxState& state = states[row];
      scale_softmax(x, columns, state.max, inverse_units * slope_of(state) / state.sum, inverse_units * of_each);
      const std::int64_t at = targets[token] - v * kLossVocabTile;
      if (at >= 0 && at < columns) x[at] -= inverse_units * of_target;
    });
  }

  // Second pass: sums dh over ascending tiles of the vocabulary, dw over ascending tiles of tokens.
  void propagate(std::int64_t t0, std::int64_t t1, float inverse_units, float* dh, float* dw, bool overwrite) const {
    const std::int64_t first = t0 * tiling.token_tile, end = std::min(tiling.tokens, t1 * tiling.token_tile);
    const bool makes_dh = loss.shape_.dh, makes_dw = loss.shape_.dw;
    if (makes_dh && v_begin == 0) fill((end - first) * width(), 0, dh + first * width());
    for (std::int64_t v = v_begin; v < v_end; ++v) {
      const void* of_w = w_tile(v);
      for (std::int64_t t = t0; t < t1 && !kept(v); ++t) multiply(t, v, of_w);
      differentiate(t0, t1, v, inverse_units);
      if (makes_dw && overwrite && t0 == 0) fill(tiling.columns(v) * width(), 0, dw + w_offset(v));
      for (std::int64_t t = t0; t < t1; ++t) {
        const std::vector<Gemm>& gradients = products(t, v).gradients;
        const void* slope = slope_tile(t, v);
        if (makes_dh) gradients.front().run(slope, of_w, nullptr, dh + t * tiling.token_tile * width(), library);
        if (makes_dw) gradients.back().run(slope, h_tile(t), nullptr, dw + w_offset(v), library);
      }
    }
  }
};

LinearCrossEntropy::LinearCrossEntropy(const LossShape& shape, bool backward, int threads, const LossTerms& terms)
    : shape_(shape), terms_(terms), plan_(plan_loss(shape, backward, threads)) {
  for (const std::vector<GemmShape>& shapes : all_products(shape, tiling_of(shape, backward), backward)) {
    Products products{.logits = Gemm(shapes[0], threads)};
    for (std::size_t i = 1; i < shapes.size(); ++i) products.gradients.emplace_back(shapes[i], threads);
    products_.push_back(std::move(products));
  }
}

void LinearCrossEntropy::forward(const void* h, const void* w, const std::int32_t* targets, float* losses, std::byte* scratch,
                                 const VocabRange& range) const {
  if (range.begin == 0) check_targets(targets, shape_);
  const Run run(*this, false, h, w, targets, losses, scratch, range);
  for (std::int64_t t = 0; t < run.tiling.token_tiles; t += run.tiling.group) {
    run.measure(t, std::min(run.tiling.token_tiles, t + run.tiling.group));
  }
}

void LinearCrossEntropy::backward(const void* h, const void* w, const std::int32_t* targets, float inverse_units, float* losses,
                                  float* dh, float* dw, bool overwrite, std::byte* scratch, const VocabRange& range) const {
  ensure(!products_.front().gradients.empty(), "loss", "this loss was built without its gradient");
  if (range.begin == 0 && range.losses) check_targets(targets, shape_);
  const Run run(*this, true, h, w, targets, losses, scratch, range);
  for (std::int64_t t = 0; t < run.tiling.token_tiles; t += run.tiling.group) {
    const std::int64_t end = std::min(run.tiling.token_tiles, t + run.tiling.group);
    if (range.losses) run.measure(t, end);
    if (range.gradients) run.propagate(t, end, inverse_units, dh, dw, overwrite);
  }
}

}  // namespace plimsoll::cpu
