// The instructions of a whole run as one axis of time. Lifetimes, layout and program use its steps as their time. Loops
// (micro-steps of a window, batches of an evaluation) appear once.
//
//   steps    load | feed, nodes of the micro-step | nodes of the update, fetch | feed, nodes, fetch | ... | save
//   phases   load | first ........................|                            | forward            | ... | save
//                 | steady ....................................................|
//
// A forward pass that reads accumulators runs within windows, after the first micro-step. Its steps precede those of the
// micro-step, so that all phases are ranges, and accumulators live in a range.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// The phases that a user sees. `first`: the first micro-step of a window, which writes the accumulators; with one round per
// window the update belongs to it. `steady`: a later micro-step, which adds to them, and the update. `forward`: the first
// forward pass; the other passes have the next numbers.
enum class Phase : std::uint8_t { load, first, steady, forward, save = 255 };
// The phase of a forward section.
Phase phase_of(Section section);
// The section of a forward phase.
Section section_of(Phase phase);
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

// True for a forward pass that reads accumulators. It has no steps if a window has one round.
bool reads_window(const Graph& graph, Section section);
// The same for the phase of the pass; false for all other phases.
bool reads_window(const Graph& graph, Phase phase);

struct Timeline {
  std::vector<Step> steps;
  StepRange load, micro, update, save;
  std::vector<StepRange> forward;  // one per forward pass of the graph
  std::int64_t rounds = 1;         // runs of the range `micro` per window
  int window = 0;                  // the first step in which accumulators live
  bool early_updates = false;      // the range `micro` changes parameters

  bool trains() const { return !micro.empty(); }
  // All phases in the order of display. Those that the run does without are empty.
  std::vector<Phase> phases() const;
  // The steps of a phase. A forward phase has to be one of the graph's.
  StepRange of(Phase phase) const;
  // The steps of a section.
  StepRange of(Section section) const;
};

// The step of each node; views have none.
std::map<NodeId, int> steps_of_nodes(const Timeline& timeline);

// The forms in which a section's steps run. `first`: the first round of a window or of a summing pass, which writes the sums.
// `later`: the other rounds. A device that keeps graphs keeps one per form.
struct Forms {
  bool first = false, later = false;
};
Forms forms_of(const Graph& graph, Section section, std::int64_t rounds);

// With one round per window, nodes of the update section run within the micro-step unless they need the last gradient. Each
// runs as soon as the values that it reads are final and no later node of the micro-step reads the values that it changes. So
// sums of squares run early, and so do updates that no clipping makes wait for the norm. `saves`: true if the run writes
// weights or checkpoints.
Timeline make_timeline(const Graph& graph, std::int64_t rounds, bool saves);

// The steps that stream together with this one: those of the replicas of its node, which take turns on each range. A step
// that does not stream is alone.
StepRange streams_with(const Graph& graph, const Timeline& timeline, int step);

}  // namespace plimsoll
