#include <fmt/core.h>

#include "base/philox.h"
#include "ops/dropout/dropout.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 2, "dropout");
  const double p = any.as<DropoutAttributes>().probability;
  require(p >= 0 && p < 1, "dropout", fmt::format("the probability is {}", p), "it lies in [0, 1)");
  require_dtype(inputs.first(1), DType::f32, "dropout");
  require(inputs[0].shape.rank() >= 1, "dropout", "x is a scalar", "its first axis is the batch");
  require_sample_ids(inputs[1], inputs[0].shape, "dropout");
  return {inputs[0]};
}

void gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  const Node& node = context.node();
  const auto outputs =
      context.builder().add_random(kDropout, node.attributes, {context.gradient(0), context.input(1)}, {"grad"}, node.site);
  context.contribute(0, outputs[0]);
}

}  // namespace

const OpDef kDropout{.name = "dropout",
                     .infer = infer,
                     .cost = cost_per_element<30>,
                     .gradient = gradient,
                     .aliases = over<0>,
                     .elementwise = true,
                     .random = true};

OpList dropout_ops() { return {{&kDropout}}; }

ValueId dropout(GraphBuilder& builder, ValueId x, ValueId sample_ids, double probability, std::uint64_t seed) {
  if (probability == 0) return x;
  const std::uint64_t site = random_site(builder.full_name("dropped"));
  return builder.add_random(kDropout, DropoutAttributes{probability, philox_key(seed, site)}, {x, sample_ids}, {"dropped"}, site)
      .front();
}

}  // namespace plimsoll::ops
