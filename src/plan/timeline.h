// The instructions of a whole run as one axis of time: load, one micro-step, the update, each forward pass, saving.
// Lifetimes, layout and program all count on it. Loops (micro-steps of a window, batches of an evaluation) appear once.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// The phases that a user sees: `first` is the first micro-step of a window (it writes the accumulators; with one round per window
// it also updates), `steady` a later micro-step (it adds) with the update.
// `forward` is the first forward pass; the others follow it.
enum class Phase : std::uint8_t { load, first, steady, forward, save = 255 };
// The phase of a forward section.
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
  std::vector<StepRange> forward;  // one per forward pass of the graph
  std::int64_t rounds = 1;         // runs of the range `micro` per window
  bool early_updates = false;      // the range `micro` changes parameters

  bool trains() const { return !micro.empty(); }
  // In the order of display; load, micro-step, update and saving may be empty.
  std::vector<Phase> phases() const;
  // The steps of a phase; empty if the run has no such phase.
  StepRange of(Phase phase) const;
};

// The forms of a section's steps: `first` in the first round of a window or of a summing pass, which writes the sums, and `later`
// in the other rounds. A device that keeps graphs keeps one per form.
struct Forms {
  bool first = false, later = false;
};
Forms forms_of(const Graph& graph, Section section, std::int64_t rounds);

// With one round a window, a node of the update section that need not wait for the last gradient runs within the micro-step,
// as soon as all that it reads is final and nothing there reads any more what it changes: sums of squares always, updates where
// no clipping makes them wait for the norm. `saves`: whether the run writes weights or checkpoints.
Timeline make_timeline(const Graph& graph, std::int64_t rounds, bool saves);

// The steps that stream together with this one: those of one node for each micro-batch of a group, which take turns on each
// range. Only the step itself if it does not stream.
StepRange streams_with(const Graph& graph, const Timeline& timeline, int step);

}  // namespace plimsoll
