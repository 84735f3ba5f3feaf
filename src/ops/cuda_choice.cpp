#include <unordered_map>

#include "ops/attention/cuda.h"
#include "ops/cuda_kernel.h"
#include "ops/embedding/cuda.h"
#include "ops/factored/cuda.h"
#include "ops/loss/cuda.h"
#include "ops/matmul/cuda.h"
#include "ops/norm/cuda.h"
#include "ops/op_kernels.h"
#include "ops/reduce/cuda.h"
#include "ops/update/cuda.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// Of the ops whose kernels need scratch; all others work in their outputs.
struct Needs {
  Bytes (*scratch)(const KernelRequest&);
  bool cublas = false;  // products are cuBLASLt's, which need not write all of it
  bool whole = false;   // no operand comes in ranges
};
const std::unordered_map<const OpDef*, Needs>& needs() {
  static const std::unordered_map<const OpDef*, Needs> rules = {
      {&ops::kMatmul, {cuda_matmul_scratch, true}},
      {&ops::kLinearCrossEntropy, {cuda_loss_scratch, true, true}},
      {&ops::kLinearCrossEntropyBackward, {cuda_loss_scratch, true, true}},
      {&ops::kAttentionBackward, {cuda_attention_backward_scratch}},
      {&ops::kLayerNormBackward, {cuda_layer_norm_scratch}},
      {&ops::kTokenGradient, {cuda_token_gradient_scratch}},
      {&ops::kTokenSlots, {cuda_token_slots_scratch}},
      {&ops::kSumRows, {cuda_sum_rows_scratch}},
      {&ops::kCountSmall, {cuda_count_small_scratch}},
      {&ops::kSumOfSquares, {cuda_sum_of_squares_scratch}},
      {&ops::kAdamW, {cuda_update_scratch}},
      {&ops::kLion, {cuda_update_scratch}},
      {&ops::kSgd, {cuda_update_scratch}},
      {&ops::kUpdateVariance, {cuda_update_variance_scratch}},
      {&ops::kUpdateSize, {cuda_update_size_scratch}},
      {&ops::kAdafactor, {cuda_adafactor_scratch}},
  };
  return rules;
}

}  // namespace

KernelChoice choose_cuda(const KernelRequest& request) {
  const auto found = needs().find(request.op);
  if (found == needs().end()) return own_kernel();
  KernelChoice choice = own_kernel(found->second.scratch(request));
  if (!found->second.cublas) return choice;
  choice.implementation = "cublaslt";
  choice.primitives = 1;
  return choice;
}

// The loss works on the whole vocabulary at once: a table that does not fit beside its tile fits no GPU.
bool cuda_takes_ranges(const OpDef& op) {
  const auto found = needs().find(&op);
  return found == needs().end() || !found->second.whole;
}

const OpKernels kCudaKernels{choose_cuda, cuda_takes_ranges, true};

}  // namespace plimsoll
