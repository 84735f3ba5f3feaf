#include "ops/class_token/class_token.h"
#include "ops/class_token/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::TokenShape shape_of(const Shape& tokens) { return {tokens[0], tokens[1], tokens[2]}; }

std::unique_ptr<Kernel> bind_place(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request.outputs[0].shape)](const KernelCall& call) {
    cpu::place_tokens(shape, call.in(0), call.in(1), call.in(2), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_first(const KernelRequest& request) {
  return make_kernel(
      [shape = shape_of(request.inputs[0].shape)](const KernelCall& call) { cpu::first_tokens(shape, call.in(0), call.out(0)); });
}

std::unique_ptr<Kernel> bind_first_backward(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request.outputs[0].shape)](const KernelCall& call) {
    cpu::spread_first_tokens(shape, call.in(0), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_others(const KernelRequest& request) {
  return make_kernel(
      [shape = shape_of(request.inputs[0].shape)](const KernelCall& call) { cpu::other_tokens(shape, call.in(0), call.out(0)); });
}

}  // namespace

CpuKernels class_token_cpu_kernels() {
  return {{&ops::kPlaceTokens, nullptr, bind_place},
          {&ops::kClassToken, nullptr, bind_first},
          {&ops::kClassTokenBackward, nullptr, bind_first_backward},
          {&ops::kOtherTokens, nullptr, bind_others}};
}

}  // namespace plimsoll
