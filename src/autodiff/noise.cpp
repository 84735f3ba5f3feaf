#include "autodiff/noise.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/embedding/embedding.h"
#include "ops/update/update.h"

namespace plimsoll {

NoisePass add_noise_pass(Graph& graph) {
  GraphBuilder builder(graph);
  NoisePass pass{builder.begin_forward({"noise"}), {}};
  builder.set_role(Role::output);
  builder.set_line("noise");
  std::vector<ValueId> squares;
  for (const NodeId id : graph.section_order(Section::update)) {
    if (graph.nodes[id].op != &ops::kSumOfSquares) continue;
    const ValueId gradient = graph.nodes[id].inputs[0];
    const NodeId producer = graph.values[gradient].producer;
    const std::string name(graph.values[gradient].name);
    if (!producer.valid()) {
      squares.push_back(builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {gradient}, name));
      continue;
    }
    // The update adds rows to their table in place. Here the table stays as it is.
    const Node rows = graph.nodes[producer];  // a copy: the graph grows below
    ensure(rows.op == &ops::kAddRows, "noise", "a gradient that no accumulator holds");
    squares.push_back(builder.add1(ops::kSquaresWithRows, rows.attributes, rows.inputs, name));
  }
  std::vector<std::string> names(ops::ClipOperands::outputs);
  names[ops::ClipOperands::norm] = "norm";
  names[ops::ClipOperands::coefficient] = "coefficient";
  pass.norm = builder.add(ops::kClip, ops::ClipAttributes{}, std::move(squares), std::move(names))[ops::ClipOperands::norm];
  graph.results.push_back(pass.norm);
  sort_sections(graph);
  verify(graph);
  return pass;
}

}  // namespace plimsoll
