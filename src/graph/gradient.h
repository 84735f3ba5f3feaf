// The interface of an op's rules for training. The gradient rule emits backward nodes through the builder and contributes the
// gradient of the loss for each input that wants one. A parameter's gradient is added directly into its accumulator.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace plimsoll {

// The accumulators for the gradient of looked-up rows, separate from that of a table's other readers.
struct RowAccumulators {
  ValueId rows;  // all rows of the table, or the most that a window can look up
  ValueId map;   // in the second case the slot of each row (ops/embedding), else invalid
};

// A node of the section `micro` at the end of a window, for the rule OpDef::at_update. The builder is in the section `update`.
struct WindowEnd {
  GraphBuilder& builder;
  const Node& node;
  ValueId coefficient;  // f32[1]: if not finite, the update changes nothing; invalid if all windows count
};

class GradientContext {
 public:
  virtual ~GradientContext() = default;

  virtual GraphBuilder& builder() = 0;
  virtual const Node& node() const = 0;
  // The gradient of an output; invalid if there is none.
  virtual ValueId gradient(std::size_t output) const = 0;
  virtual bool wants(std::size_t input) const = 0;
  // The present version of a trained parameter's accumulator, into which the gradient op must add (it writes on the first
  // micro-step of a window). Invalid for any other input, for which the op returns a plain gradient.
  virtual ValueId accumulator(std::size_t input) const = 0;
  // True if a node has added into that accumulator already.
  virtual bool shared(std::size_t input) const = 0;
  // Separate accumulators that the update adds to the table's own; none after the first call.
  virtual RowAccumulators rows_apart(std::size_t input) = 0;
  // Contributes to the gradient of an input (for a parameter: the accumulator's new version).
  virtual void contribute(std::size_t input, ValueId gradient) = 0;
  // Turns the forward node, whose outputs nothing else reads, into a backward node. Its first outputs are those of the forward
  // node.
  virtual std::vector<ValueId> replace(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                       std::vector<std::string> names) = 0;

  ValueId input(std::size_t i) const { return node().inputs.at(i); }
  ValueId output(std::size_t i) const { return node().outputs.at(i); }

  // Emits a one-output gradient op and contributes its result; does nothing if the input wants no gradient.
  void contribute_if_wanted(std::size_t to, const OpDef& op, Attributes attributes, std::vector<ValueId> inputs) {
    if (wants(to)) contribute(to, builder().add1(op, std::move(attributes), std::move(inputs), "grad"));
  }

  // Emits a one-output gradient op with an attribute `accumulate` which, if set, adds into a last input. The gradient of a
  // parameter is named after the parameter, any other after the line.
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
