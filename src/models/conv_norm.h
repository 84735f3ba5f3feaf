// A convolution and its batch normalisation, as networks of images have them: no bias, and the activation in the norm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "models/model_graph.h"
#include "models/vision_model.h"
#include "nn/layers.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/convolution/convolution.h"

namespace plimsoll {

struct ConvNormShape {
  std::int64_t channels = 1, outputs = 1;
  std::int64_t kernel = 1, stride = 1;
  bool depthwise = false;  // each channel by itself
  bool uneven = false;     // padding of TensorFlow: outputs are inputs / stride, rounded up; else kernel / 2 on each side
  double epsilon = 1e-5;
};

// The names of a layer's parameters: "conv1" and "bn1", "layer.0.convolution" and "layer.0.normalization".
struct ConvNormNames {
  std::string convolution, norm;
};

class ConvNorm {
 public:
  ConvNorm(GraphBuilder& builder, ConvNormNames names, const ConvNormShape& shape, const NormOptions& norm);

  // x [b, h, w, channels] -> activation(norm(convolution(x)) [+ residual]). An invalid residual: none.
  ValueId operator()(GraphBuilder& builder, ValueId x, const ImageStep& step, ops::NormActivation activation,
                     ValueId residual = {}) const;

 private:
  // Throws E-BATCH-NORM if a group has one value for each channel.
  void require_values(const Shape& x) const;

  ConvNormNames names_;
  ConvNormShape shape_;
  NormOptions norm_;
  bool fixed_ = false;
  ValueId weight_;
  ops::BatchNormLayer layer_;
};

// The parameters of a norm in a module tree of PyTorch: the norm's name and these.
inline constexpr const char* kRunningMean = ".running_mean";
inline constexpr const char* kRunningVariance = ".running_var";
inline constexpr const char* kWindows = ".num_batches_tracked";

// The last layer as PyTorch begins it (torch.nn.Linear): uniform within 1 / sqrt(inputs).
nn::Projection class_head(GraphBuilder& builder, const std::string& name, std::int64_t inputs, std::int64_t classes, bool fresh);

}  // namespace plimsoll
