// Runs the sections of a graph through the executor without the planner. Every value has its own offset; only updated versions
// and views share bytes. All bytes are poisoned first.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "device/arena.h"
#include "device/cpu/parallel.h"
#include "ops/cases/cases.h"
#include "plan/simulation.h"
#include "run/cpu_device.h"
#include "run/executor.h"

namespace plimsoll::test {

class DenseRun {
 public:
  explicit DenseRun(const Graph& graph, int threads = 1, int loss_chunks = 1)
      : graph_(graph), threads_(threads), loss_chunks_(loss_chunks) {
    cpu::set_thread_count(threads);
    place_values();
    for (const NodeId node : graph.order) add_node(node);
    // The executor binds accumulating kernels only if a window has several micro-steps.
    program_.rounds = 2;
    program_.arena = end_;
    arena_ = std::make_unique<Arena>(end_);
    std::memset(arena_->base(), 0xFF, extent(end_.n));
    device_ = std::make_unique<CpuDevice>(*arena_);
    executor_ = std::make_unique<Executor>(graph, program_, *device_, threads, loss_chunks);
  }

  void set(ValueId value, const Numbers& numbers) {
    encode(numbers, graph_.values[value].type.dtype, executor_->view(value).data);
  }
  Numbers get(ValueId value) const { return decode(executor_->view(value).data, graph_.values[value].type); }
  void run(Section section, bool window_start) {
    executor_->run(section, window_start, [](Section) {});
  }

 private:
  Operand place(Bytes bytes, ValueId value) {
    const Operand operand{0, 0, end_, bytes, value};
    end_ = end_ + align_up(bytes, kAlignment) + kAlignment;
    return operand;
  }

  void place_values() {
    program_.operands.resize(graph_.values.size());
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      program_.operands[ValueId{i}] = place(graph_.values[ValueId{i}].bytes(), ValueId{i});
    for (const NodeId id : graph_.order) {
      for (const NodeAlias& alias : aliases_of(graph_, graph_.nodes[id])) {
        if (alias.kind != AliasKind::may_overwrite) program_.operands[alias.output] = program_.operands[alias.input];
      }
    }
  }

  Bytes scratch_of(const Node& node, bool overwrite) const {
    const NodeRequest request = request_for(graph_, node, threads_, loss_chunks_, overwrite);
    const CpuKernel* kernel = find_cpu_kernel(*node.op);
    return kernel->choose == nullptr ? Bytes{} : kernel->choose(request.request).scratch;
  }

  void add_node(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.op->view) return;
    RunKernel run{.node = id, .starts_window = starts_window(graph_, node)};
    for (const ValueId value : node.inputs) run.inputs.push_back(program_.operands[value]);
    for (const ValueId value : node.outputs) run.outputs.push_back(program_.operands[value]);
    run.scratch = place(std::max(scratch_of(node, false), scratch_of(node, run.starts_window)), {});
    instructions(node.section).push_back(run);
  }

  std::vector<Instruction>& instructions(Section section) {
    if (section == Section::micro) return program_.micro;
    if (section == Section::update) return program_.update;
    program_.forward.resize(graph_.forward.size());
    return program_.forward.at(static_cast<std::size_t>(section) - static_cast<std::size_t>(Section::forward));
  }

  const Graph& graph_;
  int threads_, loss_chunks_;
  Bytes end_;
  Program program_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace plimsoll::test
