#include "ops/convolution/kernels_weight.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/convolution/kernels_weight.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/map-inl.h"
#include "device/cpu/register_block-inl.h"
#include "hwy/highway.h"
#include "ops/convolution/tile-inl.h"

#ifndef PLIMSOLL_CONVOLUTION_WEIGHT_ONCE
#define PLIMSOLL_CONVOLUTION_WEIGHT_ONCE
namespace plimsoll::cpu::weight {

constexpr std::int64_t kLine = 16;            // channels of a packed piece of x
constexpr std::int64_t kPixels = 256;         // of a block, whose sums stay in registers
constexpr std::int64_t kRun = 128;            // pixels of a row that are enough
constexpr std::int64_t kMostImages = 4;       // of a block of rows: rows around them are packed as well
constexpr std::int64_t kStrip = 256;          // most outputs of a task
constexpr std::int64_t kFewChannels = 16;     // below, whole windows of x are copied
constexpr std::int64_t kMostParts = 4;        // parts of the pixels with sums of their own
constexpr std::int64_t kPartBytes = 2 << 20;  // most bytes of all their sums

// The cut of the sum. Blocks are rows of pixels of one image, or a few whole images; a packed block has its images innermost.
// Bits depend on the blocks and the parts, which the shape decides.
struct Cut {
  ops::WindowAxis rows, columns;        // of the image that is packed
  std::int64_t skip_h = 1, skip_w = 1;  // steps in x between rows and columns of that image
  std::int64_t block_rows, block_images;
  std::int64_t row_blocks, blocks;  // of an image, of all images
  std::int64_t part_blocks, parts;
  std::int64_t strip, strips;        // of a group's outputs
  bool windows;                      // whole windows of x are copied
  std::int64_t places, channels;     // the left operand: pieces of kLine channels for each place
  std::int64_t pieces, band, bands;  // of a place's channels

  Cut(const ConvolutionShape& shape, int threads) : rows(shape.axes().rows), columns(shape.axes().columns) {
    if (shape.places() == 1 && rows.before + rows.after + columns.before + columns.after == 0) {
      skip_h = rows.stride, skip_w = columns.stride;
      rows = {rows.outputs(), 1, 1, 0, 0}, columns = {columns.outputs(), 1, 1, 0, 0};
    }
    windows = shape.group_channels() < kFewChannels;
    const std::int64_t height = rows.outputs(), width = columns.outputs();
    const std::int64_t enough = windows ? 1 : std::clamp<std::int64_t>(kRun / width, 1, kMostImages);
    block_images = std::min(shape.batch, std::max(enough, kPixels / (height * width)));
    const std::int64_t most_rows = std::clamp<std::int64_t>(kPixels / (width * block_images), 1, height);
    block_rows = ceil_div(height, ceil_div(height, most_rows));
    row_blocks = ceil_div(height, block_rows);
    blocks = row_blocks * ceil_div(shape.batch, block_images);
    const std::int64_t bytes = 4 * shape.places() * shape.group_channels() * shape.outputs;
    parts = std::clamp<std::int64_t>(kPartBytes / bytes, 1, std::min(kMostParts, blocks));
    if (parts == 3) parts = 2;
    part_blocks = ceil_div(blocks, parts);
    parts = ceil_div(blocks, part_blocks);
    const std::int64_t outputs = shape.group_outputs();
    strip = std::min(outputs, round_up(ceil_div(outputs, ceil_div(outputs, kStrip)), kLine));
    strips = ceil_div(outputs, strip);
    places = windows ? 1 : shape.places();
    channels = windows ? shape.places() * shape.group_channels() : shape.group_channels();
    pieces = ceil_div(channels, kLine);
    const std::int64_t tasks = shape.groups * strips * parts;
    const std::int64_t most_bands = tasks % threads == 0 || tasks >= 4 * threads ? 1 : windows ? 1 : threads;
    band = ceil_div(pieces, std::min(pieces, most_bands));
    bands = ceil_div(pieces, band);
  }

  std::int64_t tasks(const ConvolutionShape& shape) const { return shape.groups * strips * bands * parts; }
  std::int64_t pixels() const { return block_rows * columns.outputs() * block_images; }
  std::int64_t packed_rows() const { return std::min(rows.size, (block_rows - 1) * rows.stride + rows.kernel); }
  // Columns of x by their remainder of the step.
  std::int64_t packed_columns() const { return columns.stride * ceil_div(columns.size, columns.stride); }
  std::int64_t packed_column(std::int64_t column) const {
    return column % columns.stride * ceil_div(columns.size, columns.stride) + column / columns.stride;
  }
  std::int64_t packed_strip() const { return round_up(strip, kLine); }
  // Floats of a packed piece: a place of an image, or the windows of a pixel.
  std::int64_t piece_stride() const { return windows ? pieces * kLine : kLine; }
  // A copy may write up to a line past its end.
  std::int64_t left_floats() const {
    const std::int64_t all = windows ? pixels() : packed_rows() * packed_columns() * block_images;
    return all * piece_stride() + kLine;
  }
  std::int64_t slot_floats() const { return pixels() * packed_strip() + left_floats(); }
};

struct Call {
  const ConvolutionShape& shape;
  const Cut& cut;
  ConstElements x, dy;
  float* sums;  // [parts] of dw, or dw itself
  bool overwrite;
};

}  // namespace plimsoll::cpu::weight
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using weight::Call;
using weight::Cut;
using weight::kLine;

// Pixels of dy: images [image, image + images), rows [begin, end).
struct PixelBlock {
  std::int64_t image, images, begin, end;

  HWY_INLINE PixelBlock(const Call& call, std::int64_t block) {
    const Cut& cut = call.cut;
    image = block / cut.row_blocks * cut.block_images;
    images = std::min(cut.block_images, call.shape.batch - image);
    begin = block % cut.row_blocks * cut.block_rows;
    end = std::min(cut.rows.outputs(), begin + cut.block_rows);
  }
};

// Pixels of a block that one place of the kernel adds: `rows` runs of `length` pixels, with the strides in floats of x, in pixels
// of dy.
struct Runs {
  std::int64_t rows, length;
  std::int64_t x_row, x_step, dy_row;
};

// out [kTileRows][N vectors] = the sum over the runs of x [pixel][channel] dy [pixel][N vectors].
template <int N>
HWY_NOINLINE void add_runs(const Runs& runs, const float* HWY_RESTRICT x, const float* HWY_RESTRICT dy, float* HWY_RESTRICT out) {
  Block<kTileRows, N> sums;
  sums.template start<Start::zero>(nullptr, 0, nullptr);
  for (std::int64_t row = 0; row < runs.rows; ++row) {
    const float* HWY_RESTRICT left = x + row * runs.x_row;
    const float* HWY_RESTRICT right = dy + row * runs.dy_row * N * kLanes;
    for (std::int64_t p = 0; p < runs.length; ++p, left += runs.x_step, right += N * kLanes) {
      RowBlock<N> pixel;
      pixel.load(right);
      sums.update(left, 1, pixel);
    }
  }
  sums.store(out, N * kLanes);
}

// Panels [pixel][width] of dy; columns past the strip are zero.
template <class T>
HWY_INLINE void pack_dy(const Call& call, const PixelBlock& block, std::int64_t column, std::int64_t columns,
                        float* HWY_RESTRICT to) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t height = shape.out_height(), width = shape.out_width();
  std::int64_t done = 0, vectors = 0;
  for (Panels panels(columns); panels.next(vectors); done += vectors * kLanes) {
    for (std::int64_t i = block.begin * width; i < block.end * width; ++i) {
      const T* from = call.dy.as<T>() + (block.image * height * width + i) * shape.outputs + column + done;
      for (std::int64_t image = 0; image < block.images;
           ++image, from += height * width * shape.outputs, to += vectors * kLanes) {
        for (std::int64_t v = 0; v < vectors * kLanes; v += kLanes) pack_vector(from + v, columns - done - v, to + v);
      }
    }
  }
}

// Rows [first, end) of the image that is packed: [row][packed column][image][kLine channels]; channels past the group are zero.
template <class T>
HWY_INLINE void pack_piece(const Call& call, const PixelBlock& block, std::int64_t first, std::int64_t end, std::int64_t channel,
                           std::int64_t channels, float* HWY_RESTRICT to) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t image_stride = shape.height * shape.width * shape.channels;
  const Cut& cut = call.cut;
  const std::int64_t row_floats = cut.packed_columns() * block.images * kLine;
  for (std::int64_t row = first; row < end; ++row, to += row_floats) {
    for (std::int64_t column = 0; column < cut.columns.size; ++column) {
      const std::int64_t pixel = row * cut.skip_h * shape.width + column * cut.skip_w;
      const T* from = call.x.as<T>() + block.image * image_stride + pixel * shape.channels + channel;
      float* HWY_RESTRICT out = to + cut.packed_column(column) * block.images * kLine;
      for (std::int64_t image = 0; image < block.images; ++image, from += image_stride, out += kLine) {
        for (std::int64_t i = 0; i < kLine; i += kLanes) pack_vector(from + i, channels - i, out + i);
      }
    }
  }
}

// The windows of all pixels of a block: [pixel][place][channel], filled with zeros to whole pieces.
template <class T>
HWY_INLINE void pack_windows(const Call& call, const PixelBlock& block, std::int64_t channel, float* HWY_RESTRICT to) {
  const ConvolutionShape& shape = call.shape;
  const Cut& cut = call.cut;
  const std::int64_t channels = shape.group_channels(), stride = cut.piece_stride();
  const bool dense = shape.groups == 1;
  for (std::int64_t i = block.begin; i < block.end; ++i) {
    for (std::int64_t j = 0; j < cut.columns.outputs(); ++j) {
      const ops::IndexRange inside = cut.columns.inside(j);
      const std::int64_t x0 = std::min(inside.begin, cut.columns.kernel), x1 = std::max(x0, inside.end);
      for (std::int64_t image = block.image; image < block.image + block.images; ++image, to += stride) {
        float* out = to;
        for (std::int64_t ky = 0; ky < cut.rows.kernel; ++ky) {
          const std::int64_t row = cut.rows.first(i) + ky;
          float* const next = out + cut.columns.kernel * channels;
          if (row < 0 || row >= cut.rows.size) {
            clear(out, next);
            out = next;
            continue;
          }
          const std::int64_t pixel =
              (image * shape.height + row * cut.skip_h) * shape.width + (cut.columns.first(j) + x0) * cut.skip_w;
          const T* from = call.x.as<T>() + pixel * shape.channels + channel;
          clear(out, out + x0 * channels);
          if (dense) {
            copy_wide(from, (x1 - x0) * channels, out + x0 * channels);
          } else {
            for (std::int64_t kx = x0; kx < x1; ++kx, from += shape.channels) copy_wide(from, channels, out + kx * channels);
          }
          clear(out + x1 * channels, next);
          out = next;
        }
        std::fill(out, to + stride, 0.0F);
      }
    }
  }
}

// The runs of a place of the kernel in a block, and the first pixels of x and dy.
struct PlaceRuns {
  Runs runs;
  std::int64_t x, dy;  // x in floats, dy in pixels

  HWY_INLINE PlaceRuns(const Call& call, const PixelBlock& block, std::int64_t first_row, std::int64_t place) {
    const Cut& cut = call.cut;
    const std::int64_t images = block.images, width = cut.columns.outputs();
    if (cut.windows) {
      runs = {1, (block.end - block.begin) * width * images, 0, cut.piece_stride(), 0};
      x = dy = 0;
      return;
    }
    const std::int64_t ky = place / cut.columns.kernel, kx = place % cut.columns.kernel;
    const ops::IndexRange inside = cut.rows.outputs_inside(ky), columns = cut.columns.outputs_inside(kx);
    const std::int64_t begin = std::max(inside.begin, block.begin), end = std::min(inside.end, block.end);
    const std::int64_t pixel = images * kLine, row = cut.packed_columns() * pixel;
    runs = {0, 0, cut.rows.stride * row, kLine, width * images};
    x = dy = 0;
    if (begin >= end || columns.begin >= columns.end) return;
    runs.rows = end - begin, runs.length = columns.count() * images;
    x = (cut.rows.first(begin) + ky - first_row) * row + cut.packed_column(cut.columns.first(columns.begin) + kx) * pixel;
    dy = ((begin - block.begin) * width + columns.begin) * images;
  }
};

// Adds a tile to rows of dw, or writes them.
HWY_INLINE void put_sums(std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* sums, bool add,
                         std::int64_t outputs, float* to) {
  for (std::int64_t row = 0; row < rows; ++row, sums += stride, to += outputs) {
    for_vectors(columns, [&](std::int64_t i, auto vector) HWY_ATTR {
      Floats sum = hn::Load(F32(), sums + i);
      if (add) sum = hn::Add(sum, load_at(to + i, vector));
      store_at(sum, to + i, vector);
    });
  }
}

template <class T>
HWY_INLINE void run_weight_task_of(const Call& call, std::int64_t task, float* scratch) {
  const Cut& cut = call.cut;
  const ConvolutionShape& shape = call.shape;
  const std::int64_t part = task % cut.parts, band = task / cut.parts % cut.bands,
                     strip = task / cut.parts / cut.bands % cut.strips, group = task / cut.parts / cut.bands / cut.strips;
  const std::int64_t channel = group * shape.group_channels(), column = group * shape.group_outputs() + strip * cut.strip;
  const std::int64_t columns = std::min(cut.strip, shape.group_outputs() - strip * cut.strip);
  float* const dw = call.sums + (cut.parts == 1 ? 0 : part * shape.places() * shape.group_channels() * shape.outputs) + column;
  float *const right = scratch, *const left = scratch + cut.pixels() * cut.packed_strip();
  alignas(64) float sums[kTileRows * kVectors * kLanes];
  const std::int64_t first_block = part * cut.part_blocks, end_block = std::min(cut.blocks, first_block + cut.part_blocks);
  for (std::int64_t b = first_block; b < end_block; ++b) {
    const PixelBlock block(call, b);
    const bool add = b > first_block || (cut.parts == 1 && !call.overwrite);
    pack_dy<T>(call, block, column, columns, right);
    if (cut.windows) pack_windows<T>(call, block, channel, left);
    const std::int64_t pixels = (block.end - block.begin) * cut.columns.outputs() * block.images;
    const std::int64_t first_row = std::max<std::int64_t>(0, cut.rows.first(block.begin));
    const std::int64_t end_row = std::min(cut.rows.size, cut.rows.first(block.end - 1) + cut.rows.kernel);
    for (std::int64_t piece = band * cut.band; piece < std::min(cut.pieces, (band + 1) * cut.band); ++piece) {
      const std::int64_t c = piece * kLine, count = std::min(kLine, cut.channels - c);
      if (!cut.windows) pack_piece<T>(call, block, first_row, end_row, channel + c, count, left);
      std::int64_t done = 0, vectors = 0;
      for (Panels panels(columns); panels.next(vectors); done += vectors * kLanes) {
        for (std::int64_t place = 0; place < cut.places; ++place) {
          const PlaceRuns of(call, block, first_row, place);
          const float* const dy = right + pixels * done + of.dy * vectors * kLanes;
          const float* const x = left + of.x + (cut.windows ? c : 0);
          for (std::int64_t row = 0; row < count; row += kTileRows) {
            switch (vectors) {
              case 3: add_runs<3>(of.runs, x + row, dy, sums); break;
              case 2: add_runs<2>(of.runs, x + row, dy, sums); break;
              default: add_runs<1>(of.runs, x + row, dy, sums);
            }
            put_sums(std::min<std::int64_t>(kTileRows, count - row), std::min(vectors * kLanes, columns - done), vectors * kLanes,
                     sums, add, shape.outputs, dw + (place * cut.channels + c + row) * shape.outputs + done);
          }
        }
      }
    }
  }
}

void run_weight_task(const Call& call, std::int64_t task, float* scratch) {
  with_type(call.x.type, [&]<class T>(T) HWY_ATTR { run_weight_task_of<T>(call, task, scratch); });
}

void add_parts(std::int64_t n, std::int64_t parts, const float* from, bool overwrite, float* out) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for_vectors(end - begin, [&](std::int64_t from_begin, auto vector) HWY_ATTR {
      const std::int64_t i = begin + from_begin;
      Floats sum = load_at(from + i, vector);
      for (std::int64_t part = 1; part < parts; ++part) sum = hn::Add(sum, load_at(from + part * n + i, vector));
      if (!overwrite) sum = hn::Add(sum, load_at(out + i, vector));
      store_at(sum, out + i, vector);
    });
  });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(run_weight_task);
HWY_EXPORT(add_parts);

std::int64_t weights(const ConvolutionShape& shape) { return shape.places() * shape.group_channels() * shape.outputs; }

// Sums of the parts, then the slots.
std::int64_t sums_floats(const ConvolutionShape& shape, const weight::Cut& cut) {
  return cut.parts == 1 ? 0 : round_up(cut.parts * weights(shape), weight::kLine);
}
std::int64_t slot_stride(const weight::Cut& cut) { return round_up(cut.slot_floats(), weight::kLine); }

}  // namespace

void add_parts(std::int64_t n, std::int64_t parts, const float* from, bool overwrite, float* out) {
  HWY_DYNAMIC_DISPATCH(add_parts)(n, parts, from, overwrite, out);
}

Bytes weight_gradient_scratch(const ConvolutionShape& shape, int threads) {
  const weight::Cut cut(shape, threads);
  const std::int64_t slots = std::min<std::int64_t>(cut.tasks(shape), threads);
  return Bytes{4 * (sums_floats(shape, cut) + slots * slot_stride(cut))};
}

void weight_gradient(const ConvolutionShape& shape, int threads, ConstElements x, ConstElements dy, bool overwrite, float* dw,
                     std::byte* scratch) {
  const weight::Cut cut(shape, threads);
  float *const sums = reinterpret_cast<float*>(scratch), *const slots = sums + sums_floats(shape, cut);
  const weight::Call call{shape, cut, x, dy, cut.parts == 1 ? dw : sums, overwrite};
  const auto run = HWY_DYNAMIC_DISPATCH(run_weight_task);
  const std::int64_t stride = slot_stride(cut);
  parallel_slots(cut.tasks(shape), threads, [&](const SlotTask& task) {
    float* const slot = slots + task.slot * stride;
    std::fill(slot + stride - weight::kLine, slot + stride, 0.0F);  // the end of the scratch is written with any shape
    run(call, task.task, slot);
  });
  if (cut.parts > 1) add_parts(weights(shape), cut.parts, sums, overwrite, dw);
}

}  // namespace plimsoll::cpu
#endif
