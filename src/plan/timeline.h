// The instructions of a whole run as one axis of time: load, one micro-step, the update, each forward pass, saving.
// Lifetimes, layout and program all count on it. Loops (micro-steps of a window, batches of an evaluation) appear once.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// What a user sees: `first` is the first micro-step of a window (it writes the accumulators; with one round a window it also
// updates), `steady` a later micro-step (it adds) with the update.
// `forward` is that of the first forward pass; those of the others follow it.
enum class Phase : std::uint8_t { load, first, steady, forward, save = 255 };
// Of a section that is a forward pass.
Phase phase_of(Section section);
// "first", or the name of the forward pass.
std::string_view name(const Graph& graph, Phase phase);

struct Step {
  enum class Kind : std::uint8_t {
    load,   // writes every persistent value, from random numbers, files or zero
    feed,   // writes the fed inputs of a section from staging and host scalars
    node,   // runs a kernel
    fetch,  // reads the results of a section
    save,   // reads persistent values into files
  } kind = Kind::node;
  Section section = Section::micro;
  NodeId node;
};

// Half-open range of steps.
struct StepRange {
  int begin = 0, end = 0;
  bool contains(int step) const { return begin <= step && step < end; }
  bool empty() const { return begin == end; }
};

struct Timeline {
  std::vector<Step> steps;
  StepRange load, micro, update, save;
  std::vector<StepRange> forward;  // of each forward pass of the graph
  std::int64_t rounds = 1;         // of the range `micro` in a window
  bool early_updates = false;      // the range `micro` changes parameters

  // In the order in which a user reads them; those of load, micro-step, update and saving may be empty.
  std::vector<Phase> phases() const;
  // The steps that a phase runs; empty where the run has no such phase.
  StepRange of(Phase phase) const;
};

// Whether steps of a section run as the first round of a window or of a pass that sums, which writes what is summed, and as a
// later one. A device that keeps what it was given keeps each.
struct Forms {
  bool first = false, later = false;
};
Forms forms_of(const Graph& graph, Section section, std::int64_t rounds);

// With one round a window, a node of the update section that need not wait for the last gradient runs within the micro-step,
// as soon as all that it reads is final and nothing there reads any more what it changes: sums of squares always, updates where
// no clipping makes them wait for the norm. `saves`: whether the run writes weights or checkpoints.
Timeline make_timeline(const Graph& graph, std::int64_t rounds, bool saves);

// The steps that stream together with this one: of one node for each micro-batch that goes with the others, which take turns on
// each range. Only the step itself for all that does not stream.
StepRange streams_with(const Graph& graph, const Timeline& timeline, int step);

}  // namespace plimsoll
