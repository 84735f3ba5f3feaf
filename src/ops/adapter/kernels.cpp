#include "ops/adapter/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adapter/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_ADAPTER_KERNELS_ONCE_
#define PLIMSOLL_OPS_ADAPTER_KERNELS_ONCE_
namespace plimsoll::cpu::adapter {

inline constexpr std::int64_t kColumns = 256;  // columns of a task
inline constexpr std::int64_t kPiece = 1024;   // elements of a row that are summed in fp32 lanes

struct Forward {
  MagnitudeRows shape;
  ConstElements x;
  const float* m;
  Elements y;
};
struct Backward {
  MagnitudeRows shape;
  ConstElements dy, x;
  bool accumulate;
  float* dm;
};
struct Part {
  const RowNorms& norms;
  BlockPieces w;  // numbers are codes, too
  std::int64_t count;
  double* sums;  // of each row
};

}  // namespace plimsoll::cpu::adapter
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void widen_piece(const T* p, std::int64_t count, float* HWY_RESTRICT out) {
  map_range(
      0, count, [](Floats v) HWY_ATTR { return v; }, out, p);
}

void sum_paths(std::int64_t n, ConstElements x, ConstElements y, Elements out) {
  const auto add = [](Floats a, Floats b) HWY_ATTR { return hn::Add(a, b); };
  with_type(out.type, [&]<class T>(T) HWY_ATTR { map_all<Work::much>(n, add, out.as<T>(), x.as<T>(), y.as<T>()); });
}

void scale_columns(const adapter::Forward& n, std::int64_t row, std::int64_t begin, std::int64_t end) {
  with_type(n.y.type, [&]<class T>(T) HWY_ATTR {
    const std::int64_t first = row * n.shape.width + begin;
    for_vectors(end - begin, [&](std::int64_t i, auto vector) HWY_ATTR {
      const float *bias = n.shape.bias, *m = n.m + begin, *norms = n.shape.norms + begin;
      const Floats offset = bias == nullptr ? hn::Zero(F32()) : load_at(bias + begin + i, vector);
      const Floats scale = hn::Div(load_at(m + i, vector), load_at(norms + i, vector));
      const Floats v = load_at(n.x.as<T>() + first + i, vector);
      store_at(hn::MulAdd(hn::Sub(v, offset), scale, offset), n.y.as<T>() + first + i, vector);
    });
  });
}

// Rows in their order, for columns [begin, end).
void sum_columns(const adapter::Backward& n, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = n.shape.width, count = end - begin;
  double sums[adapter::kColumns] = {};
  float dy[adapter::kColumns], x[adapter::kColumns];
  for (std::int64_t row = 0; row < n.shape.rows; ++row) {
    with_type(n.dy.type, [&]<class T>(T) HWY_ATTR { widen_piece(n.dy.as<T>() + row * width + begin, count, dy); });
    with_type(n.x.type, [&]<class T>(T) HWY_ATTR { widen_piece(n.x.as<T>() + row * width + begin, count, x); });
    for (std::int64_t i = 0; i < count; ++i) {
      const double offset = n.shape.bias == nullptr ? 0.0 : static_cast<double>(n.shape.bias[begin + i]);
      sums[i] += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - offset);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<float>(sums[i] / static_cast<double>(n.shape.norms[begin + i]));
    n.dm[begin + i] = n.accumulate ? n.dm[begin + i] + sum : sum;
  }
}

// Reads elements of W from `first` on.
void read_w(const adapter::Part& n, std::int64_t first, std::int64_t count, float* HWY_RESTRICT out) {
  const StoredMatrix& w = n.norms.w;
  if (w.blocks) return decode_blocks(*w.blocks, n.w, first, {out, static_cast<std::size_t>(count)});
  with_type(w.dtype,
            [&]<class T>(T) HWY_ATTR { widen_piece(reinterpret_cast<const T*>(n.w.codes) + (first - n.w.first), count, out); });
}

HWY_INLINE double dot(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, std::int64_t count) {
  Floats even = hn::Zero(F32()), odd = even;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even = hn::MulAdd(load(x + i), load(y + i), even);
    odd = hn::MulAdd(load(x + i + kLanes), load(y + i + kLanes), odd);
  }
  for (; i < count; i += kLanes) {
    const std::int64_t rest = std::min<std::int64_t>(kLanes, count - i);
    even = hn::MulAdd(load_part(x + i, rest), load_part(y + i, rest), even);
  }
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(F32(), hn::Add(even, odd))));
}

// Adds the elements [begin, end) of one row, in stored order, cut at the ends of tiles and then into pieces.
void add_row(const adapter::Part& n, std::int64_t row, std::int64_t begin, std::int64_t end) {
  const RowNorms& norms = n.norms;
  const float* b = norms.b + row * norms.rank;
  float piece[adapter::kPiece];
  while (begin < end) {
    const std::int64_t tile_end = (begin / RowNorms::kTile + 1) * RowNorms::kTile;
    const std::int64_t count = std::min({end - begin, adapter::kPiece, tile_end - begin});
    read_w(n, begin, count, piece);
    const std::int64_t column = begin - row * norms.columns;
    double products = 0;
    for (std::int64_t k = 0; k < norms.rank; ++k) {
      products += static_cast<double>(b[k]) * dot(piece, norms.a + k * norms.columns + column, count);
    }
    n.sums[row] += dot(piece, piece, count) + 2 * norms.scale * products;
    begin += count;
  }
}

// Adds rows [begin, end) of the norms for a W stored as [columns, rows], line by line of W.
void add_lines(const adapter::Part& n, std::int64_t begin, std::int64_t end) {
  const RowNorms& norms = n.norms;
  const std::int64_t first = n.w.first, last = first + n.count;
  float piece[adapter::kColumns], change[adapter::kColumns];
  for (std::int64_t line = first / norms.rows; line * norms.rows < last; ++line) {
    const std::int64_t from = std::max(begin, first - line * norms.rows), to = std::min(end, last - line * norms.rows);
    if (from >= to) continue;
    const std::int64_t count = to - from;
    read_w(n, line * norms.rows + from, count, piece);
    for (std::int64_t i = 0; i < count; ++i) {
      const float* b = norms.b + (from + i) * norms.rank;
      float sum = 0;
      for (std::int64_t k = 0; k < norms.rank; ++k) sum += b[k] * norms.a[k * norms.columns + line];
      change[i] = sum;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const double w = static_cast<double>(piece[i]);
      n.sums[from + i] += w * (w + 2 * norms.scale * static_cast<double>(change[i]));
    }
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(sum_paths);
HWY_EXPORT(scale_columns);
HWY_EXPORT(sum_columns);
HWY_EXPORT(add_row);
HWY_EXPORT(add_lines);

}  // namespace

void sum_paths(std::int64_t n, ConstElements x, ConstElements y, Elements out) { HWY_DYNAMIC_DISPATCH(sum_paths)(n, x, y, out); }

void magnitude(const MagnitudeRows& shape, ConstElements x, const float* m, Elements y) {
  const adapter::Forward forward{shape, x, m, y};
  const auto scale = HWY_DYNAMIC_DISPATCH(scale_columns);
  for_row_tiles(shape.rows, shape.width,
                [&](std::int64_t row, std::int64_t begin, std::int64_t end) { scale(forward, row, begin, end); });
}

void magnitude_backward(const MagnitudeRows& shape, ConstElements dy, ConstElements x, bool accumulate, float* dm) {
  const adapter::Backward backward{shape, dy, x, accumulate, dm};
  const auto sum = HWY_DYNAMIC_DISPATCH(sum_columns);
  for_tiles(
      shape.width, [&](std::int64_t begin, std::int64_t end) { sum(backward, begin, end); }, adapter::kColumns);
}

void RowNorms::begin(std::byte* scratch) const {
  auto* sums = reinterpret_cast<double*>(scratch);
  std::fill_n(sums, rows, 0.0);
  double* gram = sums + rows;
  parallel_for(rank, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < rank; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        sum += static_cast<double>(a[i * columns + k]) * static_cast<double>(a[j * columns + k]);
      }
      gram[i * rank + j] = sum;
    }
  });
}

std::int64_t RowNorms::code_bytes() const {
  return w.blocks ? plimsoll::code_bytes(*w.blocks).n : rows * columns * size_of(w.dtype);
}

std::int64_t RowNorms::tile_bytes() const {
  return w.blocks ? plimsoll::code_bytes({w.blocks->format, 1, kTile}).n : kTile * size_of(w.dtype);
}

std::int64_t RowNorms::behind_bytes() const { return w.blocks ? stored_bytes(*w.blocks).n - code_bytes() : 0; }

// The scratch: sums and A A^T, then the parts after the codes, then a tile.
Bytes RowNorms::scratch(bool in_parts) const {
  const Bytes sums{8 * (rows + rank * rank)};
  return in_parts ? sums + Bytes{behind_bytes() + tile_bytes()} : sums;
}

void RowNorms::add(const std::byte* stored, std::byte* scratch) const {
  add_elements({stored, 0, stored + code_bytes()}, rows * columns, scratch);
}

void RowNorms::add_part(int pass, std::int64_t at, std::span<const std::byte> part, std::byte* scratch) const {
  std::byte* const behind = scratch + 8 * (rows + rank * rank);
  const std::int64_t codes = code_bytes(), tile = tile_bytes();
  const auto of_codes = static_cast<std::size_t>(std::clamp<std::int64_t>(codes - at, 0, std::ssize(part)));
  if (pass + 1 < passes()) {
    const std::span<const std::byte> rest = part.subspan(of_codes);
    if (!rest.empty()) std::memcpy(behind + (at + static_cast<std::int64_t>(of_codes) - codes), rest.data(), rest.size());
    return;
  }
  std::byte* const kept = behind + behind_bytes();
  for (part = part.first(of_codes); !part.empty();) {
    const std::int64_t within = at % tile, left = std::min(tile - within, codes - at);
    std::int64_t count = std::ssize(part);
    const std::byte* from = part.data();
    if (within > 0 || count < left) {
      count = std::min(count, left);
      std::memcpy(kept + within, from, static_cast<std::size_t>(count));
      from = kept;
    } else if (at + count < codes) {
      count -= count % tile;
    }
    const std::int64_t first = at / tile * kTile, end = at + count;
    at = end, part = part.subspan(static_cast<std::size_t>(count));
    if (end % tile != 0 && end != codes) return;  // the tile continues in the next part
    const std::int64_t last = end == codes ? rows * columns : end / tile * kTile;
    add_elements({from, first, behind}, last - first, scratch);
  }
}

void RowNorms::add_elements(const BlockPieces& pieces, std::int64_t count, std::byte* scratch) const {
  const adapter::Part part{*this, pieces, count, reinterpret_cast<double*>(scratch)};
  const std::int64_t first = pieces.first, last = first + count;
  if (inputs_first) {
    const auto add = HWY_DYNAMIC_DISPATCH(add_lines);
    return for_tiles(
        rows, [&](std::int64_t begin, std::int64_t end) { add(part, begin, end); }, adapter::kColumns);
  }
  const auto add = HWY_DYNAMIC_DISPATCH(add_row);
  const std::int64_t first_row = first / columns;
  for_rows(ceil_div(last, columns) - first_row, columns, [&](std::int64_t i) {
    const std::int64_t row = first_row + i;
    add(part, row, std::max(first, row * columns), std::min(last, (row + 1) * columns));
  });
}

void RowNorms::end(std::byte* scratch, float* norms) const {
  const auto* sums = reinterpret_cast<const double*>(scratch);
  const double* gram = sums + rows;
  for_rows(rows, rank * rank, [&](std::int64_t row) {
    double square = 0;
    for (std::int64_t i = 0; i < rank; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < rank; ++j) sum += gram[i * rank + j] * static_cast<double>(b[row * rank + j]);
      square += sum * static_cast<double>(b[row * rank + i]);
    }
    norms[row] = static_cast<float>(std::sqrt(std::max(0.0, sums[row] + scale * scale * square)));
  });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
