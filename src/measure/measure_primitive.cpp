#include "measure/measure_primitive.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/child.h"
#include "base/memory_limit.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "measure/calibrate.h"

namespace plimsoll {

Bytes measure_primitive(int threads) {
  // Widths of GPT-2s, whole tiles and ragged ones; forward, gradients of inputs and of weights.
  const auto shapes = [](std::int64_t rows) {
    std::vector<GemmShape> all;
    for (const std::int64_t width : {192, 384, 768, 1600}) {
      const std::int64_t wide = 3 * width;
      all.push_back({.m = rows, .n = wide, .k = width, .bias = true});
      all.push_back({.m = rows, .n = width, .k = wide, .transpose_b = true});
      all.push_back({.m = width, .n = wide, .k = rows, .transpose_a = true});
      all.push_back({.m = width, .n = wide, .k = rows, .transpose_a = true, .accumulate = true});
    }
    return all;
  };
  const std::string answer = run_in_child([&] {
    settle_process();
    MemoryLimit::release();
    cpu::set_thread_count(threads);
    std::vector<cpu::Gemm> bound;
    const auto bind = [&](std::int64_t rows) {
      int primitives = 0;
      for (const GemmShape& shape : shapes(rows)) {
        bound.emplace_back(shape, threads);
        primitives += bound.back().plan().primitives;
      }
      return primitives;
    };
    bind(128);  // loads library code that all primitives share
    const Bytes before = anonymous_resident();
    const int primitives = bind(100) + bind(1024);
    return std::to_string((anonymous_resident() - before).n / std::max(1, primitives));
  });
  return Bytes{std::stoll(answer)};
}

}  // namespace plimsoll
