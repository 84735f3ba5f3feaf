// Every op there is. Tests walk this list and demand a type rule, a gradient or the reason why there is none, a cost, a kernel
// and test cases of each.
#pragma once

#include <array>

#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/factored/factored.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape_ops.h"
#include "ops/softmax/softmax.h"
#include "ops/update/update.h"

namespace plimsoll::ops {

inline constexpr std::array kAllOps{
    &kMatmul,
    &kAdd,
    &kMultiply,
    &kScale,
    &kGelu,
    &kGeluBackward,
    &kRelu,
    &kReluBackward,
    &kAccumulate,
    &kAccumulateRounded,
    &kLayerNorm,
    &kLayerNormBackward,
    &kSoftmax,
    &kSoftmaxBackward,
    &kAttention,
    &kAttentionBackward,
    &kEmbedding,
    &kTokenGradient,
    &kPositionGradient,
    &kTokenSlots,
    &kAddRows,
    &kSelectRow,
    &kReduce,
    &kBroadcastLast,
    &kSumRows,
    &kSumLosses,
    &kCountSmall,
    &kReshape,
    &kTranspose,
    &kCast,
    &kDropout,
    &kLinearCrossEntropy,
    &kLinearCrossEntropyBackward,
    &kSumOfSquares,
    &kClip,
    &kReport,
    &kAdamW,
    &kLion,
    &kSgd,
    &kUpdateVariance,
    &kUpdateSize,
    &kAdafactor,
};

}  // namespace plimsoll::ops
