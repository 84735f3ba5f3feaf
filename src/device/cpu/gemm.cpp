#include "device/cpu/gemm.h"

#include <fmt/format.h>
#ifndef PLIMSOLL_STD_THREADS
#include <omp.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/gemm_tiled.h"
#include "device/cpu/parallel.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// The one place where the library's failures become ours.
template <class Call>
auto checked(const char* where, Call&& call) {
  try {
    return call();
  } catch (const dnnl::error& error) {
    throw internal_error(where, fmt::format("oneDNN failed with status {}: {}", static_cast<int>(error.status), error.what()));
  }
}

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  Library() { dnnl::set_primitive_cache_capacity(0); }
};

Library& library() {
  static Library instance = checked("onednn", [] { return Library(); });
  return instance;
}

// oneDNN runs on the team of OpenMP. Where that is not ours, every product runs on our own kernel.
#ifdef PLIMSOLL_STD_THREADS
constexpr bool kTeamOfOpenMp = false;
void set_team(int) {}
#else
constexpr bool kTeamOfOpenMp = true;
void set_team(int threads) { omp_set_num_threads(threads); }
#endif

// The library reads the size of the team when it describes a primitive. Setting it starts no thread.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(thread_count()) { set_team(threads); }
  ~ThreadCount() { set_team(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

memory::data_type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return memory::data_type::f32;
    case DType::bf16: return memory::data_type::bf16;
    case DType::f16: return memory::data_type::f16;
    default: throw internal_error("gemm", "a product of what are no numbers");
  }
}

memory::desc matrix(const GemmShape& shape, std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
  const memory::data_type type = type_of(dtype);
  if (shape.batch == 1) return {{rows, columns}, type, transposed ? Tag::ba : Tag::ab};
  return {{shape.batch, rows, columns}, type, transposed ? Tag::acb : Tag::abc};
}

memory::desc bias_row(const GemmShape& shape) {
  if (shape.batch == 1) return {{1, shape.n}, memory::data_type::f32, Tag::ab};
  return {{1, 1, shape.n}, memory::data_type::f32, Tag::abc};
}

dnnl::matmul::primitive_desc describe(const GemmShape& shape, bool packed) {
  const memory::desc a = matrix(shape, shape.m, shape.k, shape.transpose_a, shape.operands);
  const memory::desc b = packed ? memory::desc({shape.k, shape.n}, memory::data_type::f32, Tag::any)
                                : matrix(shape, shape.k, shape.n, shape.transpose_b, shape.operands);
  const memory::desc c = matrix(shape, shape.m, shape.n, false, shape.result);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  const auto operation = shape.bias ? dnnl::matmul::desc(a, b, bias_row(shape), c) : dnnl::matmul::desc(a, b, c);
  return {operation, attributes, library().engine};
}

// These report no scratch and allocate it instead.
bool hides_memory(std::string_view implementation) {
  return implementation.starts_with("gemm") || implementation.starts_with("ref") || implementation.starts_with("x64:gemm");
}

bool intel_core() {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// On Intel cores with AVX-512 our own kernel is 2-12 % faster than oneDNN wherever it has rows or steps of k enough to pay for
// packing, most where C is large, and needs megabytes less of scratch where the library packs (docs/speed.md).
bool own_kernel_pays(const GemmShape& shape) {
#ifdef __x86_64__
  if (shape.operands != DType::f32) return false;
  if (!intel_core() || !__builtin_cpu_supports("avx512dq") || shape.batch != 1) return false;
  return std::min(shape.n, shape.k) >= 64 && (shape.transpose_a || shape.m >= 512);
#else
  return false;
#endif
}

// Of what is left to the library. Rows of B of 4 KiB multiples (1024 columns) map to the same few sets of the first-level cache,
// and products over a long k that read B as it lies lose as much to the many rows of B per block. Both cost oneDNN 10-30 % on Zen
// 5; packing pays for itself from 512 rows of A on. On Intel cores wide rows of 2 KiB multiples (512 columns) already do so, and
// cost up to 2.4 times the time unless n is a power of two, where the library copies B by itself: there packing pays from 64 rows
// on (docs/speed.md).
bool packing_pays(const GemmShape& shape) {
  if (shape.operands != DType::f32) return false;  // the library packs pairs of rows by itself
  if (shape.batch != 1 || shape.transpose_b || shape.m < 64 || shape.n < 64) return false;
  const bool power_of_two = (shape.n & (shape.n - 1)) == 0;
  if (intel_core()) return shape.n >= 2560 && shape.n % 512 == 0 && !power_of_two;
  return shape.m >= 512 && (shape.n % 1024 == 0 || (!shape.transpose_a && shape.k >= 1536));
}

// The width of the column panels where `desc` is stored as [n / width][k rounded up to 16][width]; 0 for any other layout.
std::int64_t panel_width(const memory::desc& desc) {
  const auto& data = desc.data;
  const auto& blocking = data.format_desc.blocking;
  if (data.format_kind != dnnl_blocked || data.ndims != 2 || blocking.inner_nblks != 2) return 0;
  if (blocking.inner_idxs[0] != 0 || blocking.inner_blks[0] != 16 || blocking.inner_idxs[1] != 1) return 0;
  const std::int64_t width = blocking.inner_blks[1], depth = data.padded_dims[0];
  const bool panels = blocking.strides[0] == 16 * width && blocking.strides[1] == depth * width;
  return panels || depth == 16 ? width : 0;
}

// Copies B (k x n) into such panels; what pads them is zero.
void pack_panels(const GemmShape& shape, std::int64_t width, const float* b, float* to) {
  constexpr std::int64_t kTaskRows = 128;
  const std::int64_t depth = round_up(shape.k, 16), panels = ceil_div(shape.n, width);
  parallel_for(ceil_div(depth, kTaskRows), [&](std::int64_t task) {
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t columns = std::min(width, shape.n - panel * width);
      for (std::int64_t row = task * kTaskRows; row < std::min(depth, (task + 1) * kTaskRows); ++row) {
        float* out = to + (panel * depth + row) * width;
        const std::int64_t copied = row < shape.k ? columns : 0;
        if (copied > 0) std::memcpy(out, b + row * shape.n + panel * width, static_cast<std::size_t>(copied) * sizeof(float));
        std::fill(out + copied, out + width, 0.0F);
      }
    }
  });
}

Bytes bytes_of(const memory::desc& desc) { return Bytes{static_cast<std::int64_t>(desc.get_size())}; }

// What oneDNN will run, or nothing where it offers only implementations that hide memory.
struct Choice {
  dnnl::matmul::primitive_desc descriptor;
  std::int64_t panel = 0;  // B is packed into panels of this width; 0: read as it lies
  Bytes foreign_scratch, packed;
};

std::optional<Choice> choose_form(const GemmShape& shape, bool packed) {
  try {
    Choice choice;
    choice.descriptor = describe(shape, packed);
    if (hides_memory(choice.descriptor.impl_info_str())) return std::nullopt;
    const memory::desc b = choice.descriptor.weights_desc();
    if (packed && b != matrix(shape, shape.k, shape.n, false, DType::f32)) {
      choice.panel = panel_width(b);
      if (choice.panel == 0) return std::nullopt;
      choice.packed = align_up(bytes_of(b), kCacheLine);
    }
    choice.foreign_scratch = align_up(bytes_of(choice.descriptor.scratchpad_desc()), kCacheLine);
    return choice;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
}

std::optional<Choice> choose(const GemmShape& shape, int threads) {
  ensure(shape.batch > 0 && shape.m > 0 && shape.n > 0 && shape.k > 0, "gemm", "a dimension is not positive");
  if (!kTeamOfOpenMp || own_kernel_pays(shape)) return std::nullopt;
  return checked("gemm", [&] {
    const ThreadCount scope(threads);
    std::optional<Choice> choice = choose_form(shape, packing_pays(shape));
    return choice || !packing_pays(shape) ? choice : choose_form(shape, false);
  });
}

// Where nothing multiplies 16-bit operands as they are.
GemmShape widened(GemmShape shape) {
  shape.operands = shape.result = DType::f32;
  return shape;
}
// Of A, of B, and of C where it is rounded.
std::array<std::int64_t, 3> wide_elements(const GemmShape& shape) {
  const std::int64_t c = shape.result == DType::f32 ? 0 : shape.batch * shape.m * shape.n;
  return {shape.batch * shape.m * shape.k, shape.batch * shape.k * shape.n, c};
}
Bytes wide_bytes(std::int64_t elements) { return align_up(Bytes{elements * size_of(DType::f32)}, kCacheLine); }

void widen(DType from, std::int64_t n, const void* x, float* y) {
  constexpr std::int64_t kTask = 1 << 14;
  const auto* bits = static_cast<const std::uint16_t*>(x);
  parallel_for(ceil_div(n, kTask), [&](std::int64_t task) {
    const std::int64_t end = std::min(n, (task + 1) * kTask);
    for (std::int64_t i = task * kTask; i < end; ++i) y[i] = from == DType::bf16 ? widen_bf16(bits[i]) : widen_f16(bits[i]);
  });
}

void narrow(DType to, std::int64_t n, const float* x, void* y) {
  constexpr std::int64_t kTask = 1 << 14;
  auto* bits = static_cast<std::uint16_t*>(y);
  parallel_for(ceil_div(n, kTask), [&](std::int64_t task) {
    const std::int64_t end = std::min(n, (task + 1) * kTask);
    for (std::int64_t i = task * kTask; i < end; ++i) bits[i] = to == DType::bf16 ? narrow_bf16(x[i]) : narrow_f16(x[i]);
  });
}

GemmPlan plan_of(const GemmShape& shape, int threads, const std::optional<Choice>& choice, bool library) {
  if (!choice && shape.operands != DType::f32) {
    GemmPlan plan = plan_gemm(widened(shape), threads, library);
    plan.implementation = fmt::format("widened {}", plan.implementation);
    for (const std::int64_t elements : wide_elements(shape)) plan.scratch += wide_bytes(elements);
    return plan;
  }
  if (!choice) return {.implementation = "tiled", .scratch = tiled_gemm_scratch(shape, threads)};
  const dnnl_version_t& version = *dnnl::version();
  return {.implementation = fmt::format("onednn-{}.{}.{} {} {}", version.major, version.minor, version.patch,
                                        choice->descriptor.impl_info_str(), choice->panel > 0 ? "packed_b" : "plain"),
          .scratch = choice->foreign_scratch + choice->packed,
          .primitives = 1};
}

}  // namespace

struct Gemm::Bound {
  Bound(const Choice& choice, int team)
      : threads(team),
        panel(choice.panel),
        foreign_scratch(choice.foreign_scratch),
        primitive(choice.descriptor),
        a(choice.descriptor.src_desc(), library().engine, DNNL_MEMORY_NONE),
        b(choice.descriptor.weights_desc(), library().engine, DNNL_MEMORY_NONE),
        bias(choice.descriptor.bias_desc(), library().engine, DNNL_MEMORY_NONE),
        c(choice.descriptor.dst_desc(), library().engine, DNNL_MEMORY_NONE),
        scratch(choice.descriptor.scratchpad_desc(), library().engine, DNNL_MEMORY_NONE) {}

  int threads;
  std::int64_t panel;
  Bytes foreign_scratch;
  dnnl::matmul primitive;
  memory a, b, bias, c, scratch;
};

namespace {

using Registry = std::map<std::pair<GemmShape, int>, std::weak_ptr<const Gemm::Bound>>;

// Equal shapes share one primitive: each is some 160 KiB of generated code.
std::shared_ptr<const Gemm::Bound> bind(const GemmShape& shape, int threads, const Choice& choice) {
  static Registry registry;
  auto& known = registry[{shape, threads}];
  if (auto bound = known.lock()) return bound;
  auto bound = checked("gemm", [&] {
    const ThreadCount scope(threads);
    return std::make_shared<const Gemm::Bound>(choice, threads);
  });
  known = bound;
  return bound;
}

void point_at(const memory& object, const void* data) {
  dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(object.get(), const_cast<void*>(data)), "setting a data handle");
}

}  // namespace

GemmPlan plan_gemm(const GemmShape& shape, int threads, bool library) {
  return plan_of(shape, threads, library ? choose(shape, threads) : std::nullopt, library);
}

Gemm::Gemm(const GemmShape& shape, int threads) : shape_(shape), threads_(threads) {
  const std::optional<Choice> choice = choose(shape, threads);
  plan_ = plan_of(shape, threads, choice, /*library=*/true);
  if (choice) bound_ = bind(shape, threads, *choice);
  if (!choice && shape.operands != DType::f32) wide_ = std::make_unique<const Gemm>(widened(shape), threads);
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run_widened(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const {
  const auto [of_a, of_b, of_c] = wide_elements(shape_);
  const auto take = [&](std::int64_t elements) {
    std::byte* room = std::exchange(scratch, scratch + wide_bytes(elements).n);
    return reinterpret_cast<float*>(room);
  };
  float *wide_a = take(of_a), *wide_b = take(of_b), *wide_c = take(of_c);
  widen(shape_.operands, of_a, a, wide_a);
  widen(shape_.operands, of_b, b, wide_b);
  if (of_c == 0) return wide_->run(wide_a, wide_b, bias, c, scratch);
  wide_->run(wide_a, wide_b, bias, wide_c, scratch);
  narrow(shape_.result, of_c, wide_c, c);
}

void Gemm::run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const {
  if (wide_) return run_widened(a, b, bias, c, scratch);
  if (!bound_) {
    return run_tiled_gemm(shape_, threads_, static_cast<const float*>(a), static_cast<const float*>(b), bias,
                          static_cast<float*>(c), scratch);
  }
  const Bound& bound = *bound_;
  ensure(thread_count() == bound.threads, "gemm", "the number of threads is not the one that was planned");
  if (bound.panel > 0) {
    float* packed = reinterpret_cast<float*>(scratch + bound.foreign_scratch.n);
    pack_panels(shape_, bound.panel, static_cast<const float*>(b), packed);
    b = packed;
  }
  checked("gemm", [&] {
    point_at(bound.a, a);
    point_at(bound.b, b);
    point_at(bound.c, c);
    point_at(bound.scratch, scratch);
    if (shape_.bias) point_at(bound.bias, bias);
    const std::array<dnnl_exec_arg_t, 5> arguments = {{{DNNL_ARG_SRC, bound.a.get()},
                                                       {DNNL_ARG_WEIGHTS, bound.b.get()},
                                                       {DNNL_ARG_DST, bound.c.get()},
                                                       {DNNL_ARG_SCRATCHPAD, bound.scratch.get()},
                                                       {DNNL_ARG_BIAS, bound.bias.get()}}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(bound.primitive.get(), library().stream.get(), shape_.bias ? 5 : 4, arguments.data()),
        "running a product");
  });
}

}  // namespace plimsoll::cpu
