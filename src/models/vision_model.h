// The passes of a model that classifies images, over the logits that its family builds. Their fields:
//   train, evaluate  pixels f32 [batch, size, size, channels], normalised; targets i32 [batch, 1] (negative: no sample);
//                    sample_ids u32 [batch, 2] (epoch, sample)
//   forward          pixels, sample_ids (may hold anything); results: logits f32 [batch, classes]
// An evaluation also counts the correct classes (ops/accuracy).
#pragma once

#include "graph/builder.h"
#include "models/model_graph.h"

namespace plimsoll {

struct ImageStep {
  ValueId pixels;         // f32 [b, h, w, c]
  ValueId sample_ids;     // u32 [b, 2]
  bool training = false;  // with noise, and with statistics of the batch
};

class VisionModel {
 public:
  virtual ~VisionModel() = default;
  // [b, classes]
  virtual ValueId logits(GraphBuilder& builder, const ImageStep& step) const = 0;
};

// The images that a model takes.
struct ImageShape {
  std::int64_t channels = 3;  // of a pixel
  std::int64_t size = 0;      // height and width; 0: any
};

// Appends the passes to a graph that holds only the parameters of `model`.
void add_vision_passes(ModelGraph& graph, GraphBuilder& builder, const VisionModel& model, const BatchShape& shape,
                       const ImageShape& image, const BuildOptions& options);

}  // namespace plimsoll
