#include "models/vision_model.h"

#include <string>
#include <utility>

#include "ops/accuracy/accuracy.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

class PassBuilder {
 public:
  PassBuilder(ModelGraph& graph, GraphBuilder& builder, const VisionModel& model, const BatchShape& shape,
              const ImageShape& image)
      : graph_(graph), builder_(builder), model_(model), shape_(shape), channels_(image.channels) {
    constexpr std::int64_t kAny = 64;  // where nobody runs the graph
    size_ = shape.image_size > 0 ? shape.image_size : image.size > 0 ? image.size : kAny;
  }

  void evaluate() {
    builder_.begin_forward({"evaluate", /*sums=*/true});
    Pass pass = begin("evaluate", shape_.evaluate);
    pass.correct = builder_.add_persistent("evaluate.correct", {DType::f64, Shape{ops::kTopClasses.size()}}, Role::output);
    const ValueId total = builder_.add_persistent("evaluate.total", {DType::f64, Shape{1}}, Role::output);
    const ValueId rows = add_loss(pass, /*training=*/false);
    LossTerm& loss = pass.losses.back();
    loss.total = total;
    builder_.add1(ops::kSumLosses, ops::NoAttributes{}, {loss.losses, total}, "evaluate.total");
    builder_.add1(ops::kCountCorrect, ops::NoAttributes{}, {rows, pass.input("targets"), pass.correct}, "evaluate.correct");
    graph_.passes.push_back(std::move(pass));
  }

  void train(const ops::LossAttributes& attributes) {
    builder_.set_section(Section::micro);
    Pass pass = begin("batch", shape_.micro);
    add_loss(pass, /*training=*/true, {attributes.label_smoothing});
    graph_.passes.push_back(std::move(pass));
  }

  void forward() {
    builder_.begin_forward({"forward"});
    Pass pass = begin("forward", shape_.forward.samples);
    const ValueId result = model_.logits(builder_, step_of(pass, /*training=*/false));
    pass.results.push_back(result);
    graph_.graph.values[result].role = Role::output;
    graph_.graph.results.push_back(result);
    graph_.passes.push_back(std::move(pass));
  }

 private:
  ValueId add_input(Pass& pass, const std::string& name, ValueType type) {
    const ValueId value = builder_.add_input(prefix_ + "." + name, std::move(type));
    pass.inputs.push_back({name, Scope::pass, value});
    return value;
  }

  Pass begin(const std::string& prefix, std::int64_t batch) {
    prefix_ = prefix;
    Pass pass{.section = builder_.section(), .inputs = {}, .losses = {}, .results = {}};
    add_input(pass, "pixels", {DType::f32, {batch, size_, size_, channels_}});
    add_input(pass, "sample_ids", {DType::u32, {batch, 2}});
    return pass;
  }
  ImageStep step_of(const Pass& pass, bool training) const { return {pass.input("pixels"), pass.input("sample_ids"), training}; }

  // Adds the cross-entropy. Returns the logits [b, 1, classes], as targets are [b, 1].
  ValueId add_loss(Pass& pass, bool training, const ops::CrossEntropyAttributes& attributes = {}) {
    const ImageStep step = step_of(pass, training);
    const std::int64_t batch = builder_.shape(step.pixels)[0];
    const ValueId targets = add_input(pass, "targets", {DType::i32, {batch, 1}});
    LossTerm& loss = pass.losses.emplace_back();
    loss.scale = builder_.add_input(prefix_ + ".inverse_units", {DType::f32, Shape{1}});
    const ValueId logits = model_.logits(builder_, step);
    const ValueId rows = ops::reshape(builder_, logits, {batch, 1, builder_.shape(logits)[1]}, "logits.rows");
    loss.losses = ops::cross_entropy(builder_, rows, targets, loss.scale, attributes);
    return rows;
  }

  ModelGraph& graph_;
  GraphBuilder& builder_;
  const VisionModel& model_;
  const BatchShape& shape_;
  std::int64_t channels_, size_;
  std::string prefix_;
};

}  // namespace

// The training pass comes last: training appends and removes nodes, and the ids above stay valid.
void add_vision_passes(ModelGraph& graph, GraphBuilder& builder, const VisionModel& model, const BatchShape& shape,
                       const ImageShape& image, const BuildOptions& options) {
  PassBuilder passes(graph, builder, model, shape, image);
  if (shape.evaluate > 0) passes.evaluate();
  if (shape.forward.samples > 0) passes.forward();
  if (shape.micro > 0) passes.train(options.loss);
  sort_sections(graph.graph);
}

}  // namespace plimsoll
