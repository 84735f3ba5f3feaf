// What an op's rules for training see and may do. The gradient rule emits backward nodes through the builder and hands back, for
// each input that wants one, the gradient of the loss. A parameter's gradient is added straight into its accumulator.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace plimsoll {

// Where the gradient of looked-up rows adds up apart from that of a table's other readers.
struct RowAccumulators {
  ValueId rows;  // all of the table, or as many as a window can look up
  ValueId map;   // then: the slot of each row (ops/embedding); else invalid
};

// A node of the section `micro` at the end of a window, for the rule OpDef::at_update. The builder is in the section `update`.
struct WindowEnd {
  GraphBuilder& builder;
  const Node& node;
  ValueId coefficient;  // f32[1]: where it is no finite number, the update changes nothing; invalid where all windows count
};

class GradientContext {
 public:
  virtual ~GradientContext() = default;

  virtual GraphBuilder& builder() = 0;
  virtual const Node& node() const = 0;
  // The gradient that flows into an output; invalid where none does.
  virtual ValueId gradient(std::size_t output) const = 0;
  virtual bool wants(std::size_t input) const = 0;
  // For a trained parameter: the accumulator's present version, into which the gradient op has to add (it writes on the first
  // micro-step of a window). Invalid for anything else: there the op returns a plain gradient.
  virtual ValueId accumulator(std::size_t input) const = 0;
  // Whether something has added into that accumulator already.
  virtual bool shared(std::size_t input) const = 0;
  // Accumulators that the update adds to a table's own; none from the second time on.
  virtual RowAccumulators rows_apart(std::size_t input) = 0;
  // Hands over a contribution to the gradient of an input (for a parameter: the accumulator's new version).
  virtual void contribute(std::size_t input, ValueId gradient) = 0;
  // The backward node also yields this output of the forward node, which may then be dead.
  virtual void replace(std::size_t output, ValueId value) = 0;

  ValueId input(std::size_t i) const { return node().inputs.at(i); }
  ValueId output(std::size_t i) const { return node().outputs.at(i); }

  // Emits a one-output gradient op whose attributes have a flag `accumulate` and, with it, a last input to add into. The gradient
  // of a parameter is named after it, any other after the line.
  template <class A>
  void contribute(std::size_t to, const OpDef& op, A attributes, std::vector<ValueId> inputs) {
    const ValueId into = accumulator(to);
    attributes.accumulate = into.valid();
    if (into.valid()) inputs.push_back(into);
    const ValueId gradient = builder().add1(op, attributes, std::move(inputs), "grad");
    const Value& of = builder().value(input(to));
    if (of.parameter) builder().rename(gradient, of.name + ".grad");
    contribute(to, gradient);
  }
};

}  // namespace plimsoll
