#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "device/cpu/few_rows.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/cpu/stored_matrix.h"
#include "ops/kernel.h"
#include "ops/score/score.h"

namespace plimsoll {
namespace {

cpu::StoredMatrix table_of(const KernelRequest& request) {
  return {request.inputs[1].dtype, request.attributes->as<ops::ScoreAttributes>().blocks};
}

std::int64_t rows_of_table(const KernelRequest& request) { return request.outputs[0].shape[1]; }

// The product with a tile of the table: a full tile or the last one.
GemmShape tile_shape(const KernelRequest& request, bool last) {
  const std::int64_t rows = rows_of_table(request), rest = rows % ops::kTableRows;
  const std::int64_t n = last && rest > 0 ? rest : std::min(rows, ops::kTableRows);
  return {.m = request.inputs[0].shape[0], .n = n, .k = request.inputs[0].shape[1], .transpose_b = true};
}

// Bytes of a tile of logits.
Bytes tile_bytes(const KernelRequest& request) {
  return align_up(Bytes{4 * request.inputs[0].shape[0] * tile_shape(request, false).n}, kCacheLine);
}

// Bytes of a tile of the table as fp32, if it is of another type.
Bytes wide_bytes(const KernelRequest& request) {
  if (request.inputs[1].dtype == DType::f32) return Bytes{0};
  return align_up(Bytes{4 * tile_shape(request, false).n * request.inputs[0].shape[1]}, kCacheLine);
}

// Few rows need no tiles: their logits come straight from the table.
bool has_few_rows(const KernelRequest& request) { return cpu::has_few_rows(tile_shape(request, false)); }

KernelChoice choose(const KernelRequest& request) {
  if (has_few_rows(request)) return {.implementation = cpu::few_rows_name(table_of(request))};
  const cpu::GemmPlan full = cpu::plan_gemm(tile_shape(request, false), request.threads, request.with_library);
  const cpu::GemmPlan last = cpu::plan_gemm(tile_shape(request, true), request.threads, request.with_library);
  const bool one = tile_shape(request, false) == tile_shape(request, true);
  KernelChoice choice;
  choice.implementation = full.implementation;
  choice.scratch = tile_bytes(request) + wide_bytes(request) + std::max(full.scratch, last.scratch);
  choice.primitives = full.primitives + (one ? 0 : last.primitives);
  return choice;
}

class Score {
 public:
  explicit Score(const KernelRequest& request)
      : full_(tile_shape(request, false), request.threads),
        last_(tile_shape(request, true), request.threads),
        wide_(tile_bytes(request)),
        library_(tile_bytes(request) + wide_bytes(request)),
        rows_(rows_of_table(request)),
        width_(request.inputs[0].shape[1]),
        table_(table_of(request)) {}

  void operator()(const KernelCall& call) const {
    const std::int64_t begin = call.range.begin / width_;
    const std::int64_t rows = call.range.whole() ? rows_ : std::min(call.range.elements / width_, rows_ - begin);
    for (std::int64_t row = 0; row < rows; row += ops::kTableRows) tile(call, row, begin + row);
  }

 private:
  // `row`: first row within this call's part of the table; `column`: first column of the logits.
  void tile(const KernelCall& call, std::int64_t row, std::int64_t column) const {
    const cpu::Gemm& gemm = rows_ - column >= full_.shape().n ? full_ : last_;
    auto* const logits = reinterpret_cast<float*>(call.scratch);
    const std::int64_t n = gemm.shape().n;
    const float* of_table = call.in(1) + row * width_;
    if (table_.dtype != DType::f32) {
      auto* const wide = reinterpret_cast<float*>(call.scratch + wide_.n);
      cpu::read_part(table_, call.in<std::byte>(1), {row, n, 0, width_, width_}, DType::f32, wide);
      of_table = wide;
    }
    gemm.run(call.in(0), of_table, nullptr, logits, call.scratch + library_.n);
    cpu::parallel_for(ceil_div(gemm.shape().m, kCopyRows), [&](std::int64_t task) {
      const std::int64_t end = std::min(gemm.shape().m, (task + 1) * kCopyRows);
      for (std::int64_t i = task * kCopyRows; i < end; ++i) {
        std::memcpy(call.out(0) + i * rows_ + column, logits + i * n, static_cast<std::size_t>(n) * 4);
      }
    });
  }

  static constexpr std::int64_t kCopyRows = 16;
  cpu::Gemm full_, last_;
  Bytes wide_, library_;  // offsets of a tile of the table and of the scratch of the product
  std::int64_t rows_, width_;
  cpu::StoredMatrix table_;
};

std::unique_ptr<Kernel> bind_few_rows(const KernelRequest& request) {
  GemmShape shape = tile_shape(request, false);
  shape.n = rows_of_table(request);
  return make_kernel([rows = cpu::FewRows(shape, table_of(request))](const KernelCall& call) {
    cpu::FewRows part = rows;
    const std::int64_t begin = call.range.begin / rows.k;
    if (!call.range.whole()) part.n = std::min(call.range.elements / rows.k, rows.n - begin);
    cpu::multiply_few_rows(part, call.in(0), call.in<std::byte>(1), nullptr, call.out(0) + begin);
  });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  if (has_few_rows(request)) return bind_few_rows(request);
  struct Bound final : Kernel {
    explicit Bound(const KernelRequest& request) : score(request) {}
    void run(const KernelCall& call) const override { score(call); }
    Score score;
  };
  return std::make_unique<Bound>(request);
}

}  // namespace

CpuKernels score_cpu_kernels() { return {{&ops::kScore, choose, bind}}; }

}  // namespace plimsoll
