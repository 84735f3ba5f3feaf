#include "device/cpu/library_gemm.h"

#include <utility>

#ifdef PLIMSOLL_ONEDNN
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/cpu/processor.h"
#endif

namespace plimsoll::cpu {

#ifdef PLIMSOLL_ONEDNN

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// Turns failures of the library into errors.
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

// The library reads the size of OpenMP's team when it describes a primitive. Setting it starts no thread.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(thread_count()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
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

// True if packing pays for a product of the library (docs/speed.md). Two cases cost oneDNN 10-30 % on Zen 5, where packing pays
// from 512 rows of A on: rows of B of 4 KiB multiples (1024 columns), which map to the same few sets of the first-level cache,
// and a long k, with many rows of B per block. On Intel cores wide rows of 2 KiB multiples (512 columns) take up to 2.4 times the
// time, and packing pays from 64 rows on. If n is a power of two, the library copies B by itself.
bool packing_pays(const GemmShape& shape) {
  if (shape.operands != DType::f32) return false;  // the library packs pairs of rows by itself
  if (shape.batch != 1 || shape.transpose_b || shape.m < 64 || shape.n < 64) return false;
  const bool power_of_two = (shape.n & (shape.n - 1)) == 0;
  if (intel_core()) return shape.n >= 2560 && shape.n % 512 == 0 && !power_of_two;
  return shape.m >= 512 && (shape.n % 1024 == 0 || (!shape.transpose_a && shape.k >= 1536));
}

// The width of the column panels if `desc` is stored as [n / width][k rounded up to 16][width]; 0 for any other layout.
std::int64_t panel_width(const memory::desc& desc) {
  const auto& data = desc.data;
  const auto& blocking = data.format_desc.blocking;
  if (data.format_kind != dnnl_blocked || data.ndims != 2 || blocking.inner_nblks != 2) return 0;
  if (blocking.inner_idxs[0] != 0 || blocking.inner_blks[0] != 16 || blocking.inner_idxs[1] != 1) return 0;
  const std::int64_t width = blocking.inner_blks[1], depth = data.padded_dims[0];
  const bool panels = blocking.strides[0] == 16 * width && blocking.strides[1] == depth * width;
  return panels || depth == 16 ? width : 0;
}

// Copies B (k x n) into such panels; their padding is zero.
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

// The implementation that oneDNN will run, or nothing if it offers only implementations that hide memory.
struct Choice {
  dnnl::matmul::primitive_desc descriptor;
  std::int64_t panel = 0;  // width of the panels of a packed B; 0: B is not packed
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

// The library uses 32-bit numbers in places; larger extents overflow there and make it divide by zero.
bool counts_in_32_bits(const GemmShape& shape) {
  return std::max({shape.m, shape.n, shape.k}) <= std::numeric_limits<std::int32_t>::max();
}

std::optional<Choice> choose(const GemmShape& shape, int threads) {
  if (!counts_in_32_bits(shape)) return std::nullopt;
  return checked("gemm", [&] {
    const ThreadCount scope(threads);
    std::optional<Choice> choice = choose_form(shape, packing_pays(shape));
    return choice || !packing_pays(shape) ? choice : choose_form(shape, false);
  });
}

std::string version_text() {
  const dnnl_version_t& version = *dnnl::version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

std::string_view instruction_set() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_all: return "any";
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx512_mic: return "avx512_mic";
    case dnnl_cpu_isa_avx512_mic_4ops: return "avx512_mic_4ops";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
  }
  return "unknown";
}

LibraryGemm::Plan planned(const Choice& choice) {
  return {
      fmt::format("onednn-{} {} {}", version_text(), choice.descriptor.impl_info_str(), choice.panel > 0 ? "packed_b" : "plain"),
      choice.foreign_scratch + choice.packed};
}

}  // namespace

std::optional<LibraryFacts> library_facts() {
  const auto isa = dnnl_get_effective_cpu_isa();
  const bool bf16 = isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx || isa == dnnl_cpu_isa_all;
  return LibraryFacts{fmt::format("oneDNN {}", version_text()), std::string(instruction_set()), bf16};
}

void limit_library(std::string_view most) {
  const dnnl_status_t status = dnnl_set_max_cpu_isa(most == "avx2" ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
  ensure(status == dnnl_success, "onednn", "it takes no limit on the instruction set, or too late");
}

struct LibraryGemm::Bound {
  Bound(const Choice& choice, int team)
      : plan(planned(choice)),
        threads(team),
        panel(choice.panel),
        foreign_scratch(choice.foreign_scratch),
        primitive(choice.descriptor),
        a(choice.descriptor.src_desc(), library().engine, DNNL_MEMORY_NONE),
        b(choice.descriptor.weights_desc(), library().engine, DNNL_MEMORY_NONE),
        bias(choice.descriptor.bias_desc(), library().engine, DNNL_MEMORY_NONE),
        c(choice.descriptor.dst_desc(), library().engine, DNNL_MEMORY_NONE),
        scratch(choice.descriptor.scratchpad_desc(), library().engine, DNNL_MEMORY_NONE) {}

  Plan plan;
  int threads;
  std::int64_t panel;
  Bytes foreign_scratch;
  dnnl::matmul primitive;
  memory a, b, bias, c, scratch;
};

namespace {

void point_at(const memory& object, const void* data) {
  dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(object.get(), const_cast<void*>(data)), "setting a data handle");
}

}  // namespace

std::optional<LibraryGemm::Plan> LibraryGemm::plan_of(const GemmShape& shape, int threads) {
  const std::optional<Choice> choice = choose(shape, threads);
  return choice ? std::optional(planned(*choice)) : std::nullopt;
}

// Each primitive is some 160 KiB of generated code.
std::optional<LibraryGemm> LibraryGemm::make(const GemmShape& shape, int threads) {
  static std::map<std::pair<GemmShape, int>, std::weak_ptr<const Bound>> registry;
  auto& known = registry[{shape, threads}];
  std::shared_ptr<const Bound> bound = known.lock();
  if (!bound) {
    const std::optional<Choice> choice = choose(shape, threads);
    if (!choice) return {};
    bound = checked("gemm", [&] {
      const ThreadCount scope(threads);
      return std::make_shared<const Bound>(*choice, threads);
    });
    known = bound;
  }
  return LibraryGemm(shape, std::move(bound));
}

void LibraryGemm::run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const {
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

#else

struct LibraryGemm::Bound {
  Plan plan;
};

std::optional<LibraryFacts> library_facts() { return {}; }
void limit_library(std::string_view) {}
std::optional<LibraryGemm::Plan> LibraryGemm::plan_of(const GemmShape&, int) { return {}; }
std::optional<LibraryGemm> LibraryGemm::make(const GemmShape&, int) { return {}; }
void LibraryGemm::run(const void*, const void*, const float*, void*, std::byte*) const {}

#endif

const LibraryGemm::Plan& LibraryGemm::plan() const { return bound_->plan; }
LibraryGemm::LibraryGemm(const GemmShape& shape, std::shared_ptr<const Bound> bound) : shape_(shape), bound_(std::move(bound)) {}
LibraryGemm::~LibraryGemm() = default;
LibraryGemm::LibraryGemm(LibraryGemm&&) noexcept = default;
LibraryGemm& LibraryGemm::operator=(LibraryGemm&&) noexcept = default;

}  // namespace plimsoll::cpu
