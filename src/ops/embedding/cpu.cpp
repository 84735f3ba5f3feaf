#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/elementwise/kernels.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::EmbeddingShape shape_of(const Shape& y) { return {y[0], y[1], y[2]}; }

cpu::TableRows rows_of(const NodeRange& range, std::int64_t all, std::int64_t width) {
  if (range.whole()) return {0, all};
  return {range.begin / width, range.elements / width};
}

std::unique_ptr<Kernel> bind_blocks(const KernelRequest& request, const BlockMatrix& blocks) {
  const cpu::StoredMatrix matrix{request.inputs[1].dtype, blocks};
  return make_kernel([shape = shape_of(request.outputs[0].shape), matrix](const KernelCall& call) {
    cpu::embedding_forward(shape, call.in<std::int32_t>(0), matrix, call.in<std::byte>(1), call.out(0));
  });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  if (const auto& blocks = request.attributes->as<ops::EmbeddingAttributes>().blocks) return bind_blocks(request, *blocks);
  std::vector<DType> types;
  for (const ValueType& input : request.inputs) types.push_back(input.dtype);
  return make_kernel(
      [shape = shape_of(request.outputs[0].shape), all = request.inputs[1].shape[0], types](const KernelCall& call) {
        cpu::AddedPositions positions;
        if (types.size() > 2) positions.table = {call.inputs[2], types[2]};
        if (types.size() > 3) positions.rows = call.in<std::int32_t>(3);
        cpu::embedding_forward(shape, rows_of(call.range, all, shape.width), call.in<std::int32_t>(0), {call.inputs[1], types[1]},
                               positions, call.out(0));
      });
}

std::unique_ptr<Kernel> bind_tokens(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::EmbeddingBackwardAttributes>();
  const std::int64_t all = attributes.rows, padding = attributes.padding;
  const bool accumulate = accumulates<ops::EmbeddingBackwardAttributes>(request);
  return make_kernel([shape = shape_of(request.inputs[1].shape), all, padding, accumulate](const KernelCall& call) {
    cpu::embedding_token_gradient(shape, rows_of(call.range, all, shape.width), call.in<std::int32_t>(0), call.in(1), accumulate,
                                  call.out(0), padding);
  });
}

std::unique_ptr<Kernel> bind_positions(const KernelRequest& request) {
  const std::int64_t rows = request.attributes->as<ops::EmbeddingBackwardAttributes>().rows;
  const bool accumulate = accumulates<ops::EmbeddingBackwardAttributes>(request);
  return make_kernel([shape = shape_of(request.inputs[0].shape), rows, accumulate](const KernelCall& call) {
    cpu::embedding_position_gradient(shape, rows, call.in(0), accumulate, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_slots(const KernelRequest& request) {
  const std::int64_t tokens = request.inputs[0].shape.elements(), rows = request.inputs[1].shape.elements() - 1;
  const auto attributes = request.attributes->as<ops::TokenSlotsAttributes>();
  const std::int64_t slots = attributes.slots;
  const bool begins = request.overwrite;
  return make_kernel([tokens, rows, slots, padding = attributes.padding, begins](const KernelCall& call) {
    auto* map = call.out<std::int32_t>(1);
    if (begins) std::fill_n(map, rows + 1, 0);
    const std::int64_t used =
        cpu::give_slots(tokens, rows, slots, call.in<std::int32_t>(0), map, call.out<std::int32_t>(0), padding);
    ensure(used <= slots, "token_slots", "a window looks up more rows than it has slots");
  });
}

std::unique_ptr<Kernel> bind_add_rows(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const bool slots = request.attributes->as<ops::AddRowsAttributes>().slots;
  return make_kernel([all = shape.elements(), width = shape.last(), slots](const KernelCall& call) {
    const std::int64_t begin = call.range.begin, count = call.range.whole() ? all : call.range.elements;
    if (slots) {
      cpu::add_rows(begin, count, width, call.in(1), call.in<std::int32_t>(2), call.out(0));
    } else {
      cpu::add(count, call.in(0), call.in(1), call.out(0));
    }
  });
}

KernelChoice choose_squares(const KernelRequest& request) {
  return own_kernel(cpu::squares_with_rows_scratch(request.inputs[0].shape.elements()));
}

std::unique_ptr<Kernel> bind_squares(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const bool slots = request.attributes->as<ops::AddRowsAttributes>().slots;
  return make_kernel([all = shape.elements(), width = shape.last(), slots](const KernelCall& call) {
    const std::int64_t count = call.range.whole() ? all : call.range.elements;
    double* sum = call.out<double>(0);
    *sum = cpu::squares_with_rows(call.range.begin, count, width, call.in(0), call.in(1),
                                  slots ? call.in<std::int32_t>(2) : nullptr, call.range.first() ? 0 : *sum, call.scratch);
  });
}

}  // namespace

CpuKernels embedding_cpu_kernels() {
  return {{&ops::kEmbedding, nullptr, bind},
          {&ops::kTokenGradient, nullptr, bind_tokens},
          {&ops::kPositionGradient, nullptr, bind_positions},
          {&ops::kTokenSlots, nullptr, bind_slots},
          {&ops::kAddRows, nullptr, bind_add_rows},
          {&ops::kSquaresWithRows, choose_squares, bind_squares}};
}

}  // namespace plimsoll
