#include "ops/convolution/kernels_gathered.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "device/cpu/tiles.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/convolution/kernels_gathered.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/register_block-inl.h"
#include "device/cpu/transpose-inl.h"
#include "hwy/highway.h"
#include "ops/convolution/tile-inl.h"

#ifndef PLIMSOLL_CONVOLUTION_GATHERED_ONCE
#define PLIMSOLL_CONVOLUTION_GATHERED_ONCE
namespace plimsoll::cpu::gathered {

constexpr std::int64_t kMostRows = 8;        // rows of a tile on any instruction set
constexpr std::int64_t kMostColumns = 48;    // columns of a panel: three of the widest vectors
constexpr std::int64_t kLine = 16;           // floats of a cache line
constexpr std::int64_t kDepth = 1152;        // terms of a sum that stays in registers
constexpr std::int64_t kBlock = 1152 * 128;  // floats of a block of weights: half of a second-level cache
constexpr std::int64_t kTaskRows = 2048;     // most pixels of a task
constexpr std::int64_t kFewChannels = 16;    // below, the sources of a tile are copied side by side
constexpr std::int64_t kSmallImage = 8 * 8;  // up to this many pixels, tiles are the same pixel of several images

// The cut of a phase. A block of weights has all taps of `depth` channels of the source and `strip` columns of the target. Bits
// depend on `depth` alone, which the shape decides.
struct Cut {
  std::int64_t depth, strip, strips, rows, bands;
  bool copies;        // the sources of a tile are copied (and widened) to scratch
  bool images_first;  // neighbours in a tile are the same pixel of consecutive images

  Cut(const Gathered& product, const Phase& phase, int threads) {
    const std::int64_t taps = static_cast<std::int64_t>(phase.taps.size()), channels = product.source_channels();
    const std::int64_t columns = product.target_channels(), batch = product.shape.batch;
    const bool whole = product.shape.result != DType::f32;  // a rounded sum is not added to
    const std::int64_t most = whole ? channels : std::max(kLine, kDepth / std::max<std::int64_t>(1, taps) / kLine * kLine);
    depth = std::min(channels, round_up(ceil_div(channels, ceil_div(channels, most)), kLine));
    const std::int64_t widest = std::max(kMostColumns, kBlock / std::max<std::int64_t>(1, depth * taps) / kLine * kLine);
    strip = std::min(columns, round_up(ceil_div(columns, ceil_div(columns, widest)), kLine));
    strips = ceil_div(columns, strip);
    copies = product.shape.operands != DType::f32 || channels < kFewChannels;
    images_first = batch >= kMostRows && phase.rows * phase.columns <= kSmallImage;
    const std::int64_t all = batch * phase.rows * phase.columns;
    bands = std::max<std::int64_t>(1, ceil_div(all, kTaskRows));
    while (product.shape.groups * strips * bands % threads != 0 && bands < threads) ++bands;
    rows = round_up(ceil_div(all, bands), kMostRows);
    bands = std::max<std::int64_t>(1, ceil_div(all, rows));
  }

  std::int64_t tasks(const Gathered& product) const { return product.shape.groups * strips * bands; }
  static std::int64_t padded(std::int64_t columns) { return round_up(columns, kLine); }
};

// Floats of a thread's slot: weights, then the copied sources of a tile or else their addresses, then zeros for padding.
struct Slot {
  std::int64_t sources, zeros, end;

  Slot(const Gathered& product, const Phase& phase, const Cut& cut) {
    const std::int64_t taps = static_cast<std::int64_t>(phase.taps.size());
    sources = cut.depth * taps * Cut::padded(cut.strip);
    const std::int64_t copied = kMostRows * copied_stride(taps * cut.depth), addresses = 2 * kMostRows * taps;
    zeros = sources + round_up(cut.copies ? copied : addresses, kLine);
    end = zeros + round_up(std::max(kLine, product.source_channels()), kLine);
  }
  // A copy may write up to a line past its end.
  static std::int64_t copied_stride(std::int64_t depth) { return round_up(depth, kLine) + kLine; }
};

struct Call {
  const Gathered& product;
  const Phase& phase;
  const Cut& cut;
  ConstElements source, weight;
  const float* bias;
  Elements target;
  const float* zeros;  // as many as a pixel of the source has channels
};

}  // namespace plimsoll::cpu::gathered
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using gathered::Call;
using gathered::Cut;
using gathered::kLine;
using gathered::Slot;

// A part of a task: the weights of some channels of the source.
struct Part {
  std::int64_t group, column, columns;  // of the target, within its group
  std::int64_t channel, depth;          // of the source, within its group
};

// Panels [tap][channel][width] of weights [place][channels][outputs]; columns past the strip are zero.
template <class T>
HWY_INLINE void pack_forward(const Call& call, const Part& part, float* HWY_RESTRICT to) {
  const Gathered& product = call.product;
  const std::int64_t outputs = product.shape.outputs, channels = product.source_channels();
  const T* const weight = call.weight.as<T>() + part.group * product.target_channels() + part.column;
  std::int64_t column = 0, vectors = 0;
  for (Panels panels(part.columns); panels.next(vectors); column += vectors * kLanes) {
    const std::int64_t count = std::min(vectors * kLanes, part.columns - column);
    for (const Tap& tap : call.phase.taps) {
      const T* from = weight + (tap.place * channels + part.channel) * outputs + column;
      for (std::int64_t c = 0; c < part.depth; ++c, from += outputs, to += vectors * kLanes) {
        for (std::int64_t i = 0; i < vectors * kLanes; i += kLanes) pack_vector(from + i, count - i, to + i);
      }
    }
  }
}

// The same for the gradient, whose columns are channels and whose sources are outputs.
template <class T>
HWY_INLINE void pack_gradient(const Call& call, const Part& part, float* HWY_RESTRICT to) {
  const Gathered& product = call.product;
  const std::int64_t outputs = product.shape.outputs, channels = product.target_channels();
  const T* const weight = call.weight.as<T>() + part.group * product.source_channels() + part.channel;
  std::int64_t column = 0, vectors = 0;
  for (Panels panels(part.columns); panels.next(vectors); column += vectors * kLanes) {
    const std::int64_t width = vectors * kLanes, count = std::min(width, part.columns - column);
    for (const Tap& tap : call.phase.taps) {
      const T* from = weight + (tap.place * channels + part.column + column) * outputs;
      if constexpr (std::is_same_v<T, float>) {
        transpose(from, outputs, count, part.depth, to, width);
      } else {
        for (std::int64_t row = 0; row < count; ++row) {
          for (std::int64_t c = 0; c < part.depth; ++c) {
            to[c * width + row] = widen(from[row * outputs + c]);
          }
        }
      }
      for (std::int64_t c = 0; count < width && c < part.depth; ++c) {
        std::fill(to + c * width + count, to + (c + 1) * width, 0.0F);
      }
      to += part.depth * width;
    }
  }
}

template <int M>
struct Rows {
  const float* first;
  Rows<M - 1> rest;
  HWY_INLINE void load(const float* const* from) {
    first = *from;
    rest.load(from + 1);
  }
};
template <>
struct Rows<0> {
  HWY_INLINE void load(const float* const*) {}
};

template <int M, int N>
HWY_INLINE void add_products(Block<M, N>& sums, const Rows<M>& rows, std::int64_t p, const RowBlock<N>& right) {
  if constexpr (M > 0) {
    sums.row.multiply_add(hn::Set(F32(), rows.first[p]), right);
    add_products<M - 1, N>(sums.rest, rows.rest, p, right);
  }
}

// The sums of a tile: out [kTileRows][N vectors] = the sum over taps and channels. The addresses of a tap are those of its source
// for each row of the tile; a first address of null: padding for all of them.
template <int N>
HWY_NOINLINE void multiply_tile(std::int64_t taps, std::int64_t depth, const float* const* addresses,
                                const float* HWY_RESTRICT weights, float* HWY_RESTRICT out) {
  Block<kTileRows, N> sums;
  sums.template start<Start::zero>(nullptr, 0, nullptr);
  for (std::int64_t tap = 0; tap < taps; ++tap, addresses += kTileRows) {
    const float* HWY_RESTRICT right = weights + tap * depth * N * kLanes;
    if (*addresses == nullptr) continue;
    Rows<kTileRows> rows;
    rows.load(addresses);
    for (std::int64_t p = 0; p < depth; ++p, right += N * kLanes) {
      RowBlock<N> row;
      row.load(right);
      add_products<kTileRows, N>(sums, rows, p, row);
    }
  }
  sums.store(out, N * kLanes);
}

// The pixels of a tile; those past the band repeat its last one and are not written.
struct Tile {
  std::int64_t count;                                 // pixels that are written
  std::int64_t row[kTileRows], column[kTileRows];     // of the source at offset 0
  std::int64_t source[kTileRows], target[kTileRows];  // the first element of the pixels

  HWY_INLINE Tile(const Call& call, const Part& part, std::int64_t begin, std::int64_t end)
      : count(std::min<std::int64_t>(kTileRows, end - begin)) {
    const Gathered& product = call.product;
    const Phase& phase = call.phase;
    const ImageShape &from = product.source, &to = product.target;
    const bool images_first = call.cut.images_first;
    const std::int64_t batch = product.shape.batch, pixels = phase.rows * phase.columns;
    std::int64_t image = images_first ? begin % batch : begin / pixels;
    const std::int64_t pixel = images_first ? begin / batch : begin % pixels;
    std::int64_t i = pixel / phase.columns, j = pixel % phase.columns;
    for (std::int64_t k = 0; k < kTileRows; ++k) {
      row[k] = i * product.move_h, column[k] = j * product.move_w;
      source[k] = ((image * from.height + row[k]) * from.width + column[k]) * from.channels +
                  part.group * product.source_channels() + part.channel;
      const std::int64_t y = phase.first_row + i * product.step_h, x = phase.first_column + j * product.step_w;
      target[k] = ((image * to.height + y) * to.width + x) * to.channels + part.group * product.target_channels() + part.column;
      if (k + 1 >= count) continue;
      if (images_first && ++image < batch) continue;
      if (images_first) image = 0;
      if (++j < phase.columns) continue;
      j = 0;
      if (++i < phase.rows) continue;
      i = 0;
      if (!images_first) ++image;
    }
  }
};

// The addresses of the sources of a tile, by tap.
HWY_INLINE void find_sources(const Call& call, const Tile& tile, const float* zeros, const float** addresses) {
  const ImageShape& from = call.product.source;
  const float* const base = call.source.as<float>();
  for (const Tap& tap : call.phase.taps) {
    const std::int64_t offset = (tap.row * from.width + tap.column) * from.channels;
    bool any = false;
    for (int k = 0; k < kTileRows; ++k) {
      const bool inside = static_cast<std::uint64_t>(tile.row[k] + tap.row) < static_cast<std::uint64_t>(from.height) &&
                          static_cast<std::uint64_t>(tile.column[k] + tap.column) < static_cast<std::uint64_t>(from.width);
      addresses[k] = inside ? base + (tile.source[k] + offset) : zeros;
      any |= inside;
    }
    if (!any) addresses[0] = nullptr;
    addresses += kTileRows;
  }
}

// Copies the sources of a tile side by side, [row][tap][channel], with zeros for padding.
template <class T>
HWY_INLINE void copy_sources(const Call& call, const Part& part, const Tile& tile, float* to) {
  const ImageShape& from = call.product.source;
  const T* const base = call.source.as<T>();
  const std::vector<Tap>& taps = call.phase.taps;
  const bool dense = part.depth == from.channels;  // neighbouring pixels are contiguous
  const std::int64_t stride = Slot::copied_stride(static_cast<std::int64_t>(taps.size()) * part.depth);
  for (std::int64_t k = 0; k < kTileRows; ++k) {
    float* out = to + k * stride;
    for (std::size_t t = 0; t < taps.size();) {
      const std::int64_t run = dense ? run_of(taps, t, taps.size()) : 1;
      const ops::IndexRange inside = inside_of(from, tile.row[k] + taps[t].row, tile.column[k] + taps[t].column, run);
      const std::int64_t offset = (taps[t].row * from.width + taps[t].column + inside.begin) * from.channels;
      float* const next = out + run * part.depth;
      clear(out, out + inside.begin * part.depth);
      copy_wide(base + (tile.source[k] + offset), inside.count() * part.depth, out + inside.begin * part.depth);
      clear(out + inside.end * part.depth, next);
      out = next, t += static_cast<std::size_t>(run);
    }
  }
}

// Writes the sums of a panel to the target.
template <class T>
HWY_INLINE void put_tile(const Tile& tile, std::int64_t columns, std::int64_t stride, const float* sums, const float* bias,
                         bool add, std::int64_t column, T* target) {
  for (std::int64_t k = 0; k < tile.count; ++k, sums += stride) {
    T* const to = target + tile.target[k] + column;
    for_vectors(columns, [&](std::int64_t i, auto vector) HWY_ATTR {
      Floats sum = hn::Load(F32(), sums + i);
      if (bias != nullptr) sum = hn::Add(sum, load_at(bias + i, vector));
      if (add) sum = hn::Add(sum, load_at(to + i, vector));
      store_at(sum, to + i, vector);
    });
  }
}

template <class T, class Out>
HWY_INLINE void run_part(const Call& call, const Part& part, std::int64_t begin, std::int64_t end, float* scratch) {
  const Slot slot(call.product, call.phase, call.cut);
  const std::int64_t taps = static_cast<std::int64_t>(call.phase.taps.size());
  float *const weights = scratch, *const sources = scratch + slot.sources;
  auto** const addresses = reinterpret_cast<const float**>(sources);
  if (call.product.gradient) {
    pack_gradient<T>(call, part, weights);
  } else {
    pack_forward<T>(call, part, weights);
  }
  const float* copied[kTileRows];
  for (int k = 0; k < kTileRows; ++k) copied[k] = sources + k * Slot::copied_stride(taps * part.depth);
  alignas(64) float sums[kTileRows * kVectors * kLanes];
  const float* const bias =
      call.bias == nullptr || part.channel > 0 ? nullptr : call.bias + part.group * call.product.target_channels() + part.column;
  for (std::int64_t row = begin; row < end; row += kTileRows) {
    const Tile tile(call, part, row, end);
    const bool copies = call.cut.copies;
    if (copies) {
      copy_sources<T>(call, part, tile, sources);
    } else {
      find_sources(call, tile, call.zeros, addresses);
    }
    const float* const* from = copies ? copied : addresses;
    const std::int64_t terms = copies ? 1 : taps, depth = copies ? taps * part.depth : part.depth;
    std::int64_t column = 0, vectors = 0;
    for (Panels panels(part.columns); panels.next(vectors); column += vectors * kLanes) {
      const float* const right = weights + column * taps * part.depth;
      switch (vectors) {
        case 3: multiply_tile<3>(terms, depth, from, right, sums); break;
        case 2: multiply_tile<2>(terms, depth, from, right, sums); break;
        default: multiply_tile<1>(terms, depth, from, right, sums);
      }
      put_tile(tile, std::min(vectors * kLanes, part.columns - column), vectors * kLanes, sums,
               bias == nullptr ? nullptr : bias + column, part.channel > 0, column, call.target.as<Out>());
    }
  }
}

template <class T, class Out>
HWY_INLINE void run_task_of(const Call& call, std::int64_t task, float* scratch) {
  const Cut& cut = call.cut;
  const Gathered& product = call.product;
  const std::int64_t all = product.shape.batch * call.phase.rows * call.phase.columns;
  const std::int64_t begin = task % cut.bands * cut.rows, end = std::min(all, begin + cut.rows);
  const std::int64_t strip = task / cut.bands % cut.strips, group = task / cut.bands / cut.strips;
  for (std::int64_t channel = 0; channel < product.source_channels(); channel += cut.depth) {
    const Part part{group, strip * cut.strip, std::min(cut.strip, product.target_channels() - strip * cut.strip), channel,
                    std::min(cut.depth, product.source_channels() - channel)};
    run_part<T, Out>(call, part, begin, end, scratch);
  }
}

void run_task(const Call& call, std::int64_t task, float* scratch) {
  with_type(call.source.type, [&]<class T>(T) HWY_ATTR {
    if (call.target.type == DType::f32) return run_task_of<T, float>(call, task, scratch);
    run_task_of<T, T>(call, task, scratch);
  });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(run_task);

// All slots have the size of the largest one. Each begins with zeros at its end.
struct Slots {
  std::int64_t floats = 0, zeros = 0, count = 0;

  Slots(const Gathered& product, int threads) {
    for (const Phase& phase : product.phases) {
      if (phase.taps.empty()) continue;
      const gathered::Cut cut(product, phase, threads);
      const gathered::Slot slot(product, phase, cut);
      floats = std::max(floats, slot.zeros), zeros = slot.end - slot.zeros;
      count = std::max(count, std::min<std::int64_t>(cut.tasks(product), threads));
    }
  }
  std::int64_t stride() const { return floats + zeros; }
};

Gathered base_of(const ConvolutionShape& shape) {
  Gathered product;
  product.shape = shape;
  return product;
}

// The runs of a depthwise convolution. Pixels that are three or more steps apart share none.
void find_runs(Gathered& product) {
  if (!product.shape.depthwise()) return;
  const ImageShape& from = product.source;
  for (Phase& phase : product.phases) {
    for (const Tap& tap : phase.taps) {
      TapRun* const last = phase.runs.empty() ? nullptr : &phase.runs.back();
      const bool next = last != nullptr && product.move_w <= 2 && last->count < TapRun::kMost && last->row == tap.row &&
                        last->column + last->count == tap.column;
      if (!next) phase.runs.push_back({tap.row, tap.column, 0, (tap.row * from.width + tap.column) * from.channels});
      TapRun& run = phase.runs.back();
      run.weight[run.count++] = tap.place * from.channels;
    }
  }
}

}  // namespace

Gathered gathered_forward(const ConvolutionShape& shape) {
  Gathered product = base_of(shape);
  product.source = {shape.height, shape.width, shape.channels};
  product.target = {shape.out_height(), shape.out_width(), shape.outputs};
  product.move_h = shape.window.stride_h, product.move_w = shape.window.stride_w;
  Phase phase{.rows = product.target.height, .columns = product.target.width};
  for (std::int64_t ky = 0; ky < shape.kernel_h; ++ky) {
    for (std::int64_t kx = 0; kx < shape.kernel_w; ++kx) {
      phase.taps.push_back({ky * shape.kernel_w + kx, ky - shape.window.top, kx - shape.window.left});
    }
  }
  product.phases.push_back(std::move(phase));
  find_runs(product);
  return product;
}

Gathered gathered_gradient(const ConvolutionShape& shape) {
  Gathered product = base_of(shape);
  product.gradient = true;
  product.source = {shape.out_height(), shape.out_width(), shape.outputs};
  product.target = {shape.height, shape.width, shape.channels};
  const auto& window = shape.window;
  product.step_h = window.stride_h, product.step_w = window.stride_w;
  for (std::int64_t row = 0; row < std::min(window.stride_h, shape.height); ++row) {
    for (std::int64_t column = 0; column < std::min(window.stride_w, shape.width); ++column) {
      Phase phase{.first_row = row,
                  .first_column = column,
                  .rows = ceil_div(shape.height - row, window.stride_h),
                  .columns = ceil_div(shape.width - column, window.stride_w)};
      for (std::int64_t ky = shape.kernel_h - 1; ky >= 0; --ky) {
        for (std::int64_t kx = shape.kernel_w - 1; kx >= 0; --kx) {
          const std::int64_t y = row + window.top - ky, x = column + window.left - kx;
          if (y % window.stride_h != 0 || x % window.stride_w != 0) continue;
          phase.taps.push_back({ky * shape.kernel_w + kx, y / window.stride_h, x / window.stride_w});
        }
      }
      product.phases.push_back(std::move(phase));
    }
  }
  find_runs(product);
  return product;
}

void clear_untapped(const Gathered& product, Elements target) {
  const auto untapped = [](const Phase& phase) { return phase.taps.empty(); };
  if (std::ranges::none_of(product.phases, untapped)) return;
  const ImageShape& to = product.target;
  const std::int64_t pixel = size_of(target.type) * to.channels;
  for_rows(product.shape.batch * to.height, to.width * to.channels, [&](std::int64_t row) {
    std::byte* const first = target.data + row * to.width * pixel;
    const std::int64_t phase_row = row % to.height % product.step_h;
    const auto of_row = [&](const Phase& phase) { return phase.first_row == phase_row; };
    if (std::ranges::all_of(product.phases, [&](const Phase& phase) { return !of_row(phase) || untapped(phase); })) {
      std::memset(first, 0, static_cast<std::size_t>(to.width * pixel));
      return;
    }
    for (const Phase& phase : product.phases) {
      if (!of_row(phase) || !untapped(phase)) continue;
      for (std::int64_t x = phase.first_column; x < to.width; x += product.step_w) {
        std::memset(first + x * pixel, 0, static_cast<std::size_t>(pixel));
      }
    }
  });
}

Bytes gathered_scratch(const Gathered& product, int threads) {
  const Slots slots(product, threads);
  return Bytes{4 * slots.stride() * slots.count};
}

void run_gathered(const Gathered& product, int threads, ConstElements source, ConstElements weight, const float* bias,
                  Elements target, std::byte* scratch) {
  const Slots slots(product, threads);
  const auto run = HWY_DYNAMIC_DISPATCH(run_task);
  clear_untapped(product, target);
  for (const Phase& phase : product.phases) {
    if (phase.taps.empty()) continue;
    const gathered::Cut cut(product, phase, threads);
    parallel_slots(cut.tasks(product), threads, [&](const SlotTask& task) {
      float *const slot = reinterpret_cast<float*>(scratch) + task.slot * slots.stride(), *const zeros = slot + slots.floats;
      std::fill_n(zeros, slots.zeros, 0.0F);
      run({product, phase, cut, source, weight, bias, target, zeros}, task.task, slot);
    });
  }
}

}  // namespace plimsoll::cpu
#endif
