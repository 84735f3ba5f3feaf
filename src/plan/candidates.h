// All candidates of one micro-batch size, exactly and cheaply. Uniform plans (every block keeps, recomputes some values, all, or
// all in pieces) are simulated in full; since a block's values live from its forward to its backward pass and nowhere else, the
// live bytes of any mixture follow from what each block adds in each mode. Where that does not hold (blocks_compose), there are
// uniform plans only. The full simulator judges whatever is chosen in the end.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "plan/block_lanes.h"
#include "plan/block_options.h"
#include "plan/block_replays.h"
#include "plan/plan.h"
#include "plan/region_plans.h"
#include "plan/simulation.h"

namespace plimsoll {

// So many blocks do something, and the seconds that an update then takes; infinite where a tier has no room for it.
struct SomeBlocks {
  int blocks;
  double seconds;
};
// The number between that is worth a look: where the slower one has no room, or is slower by more than a step of 8 %. Steps of
// half that gave plans that were up to 3 % faster, for a fifth more planning.
std::optional<int> middle_of(const SomeBlocks& faster, const SomeBlocks& slower);

// What all plans of one micro-batch size start from.
struct BatchModel {
  // The catalogue outlives this.
  BatchModel(Graph training, std::int64_t micro_batch, std::int64_t accumulation, int threads, KernelCatalogue& catalogue);
  BatchModel(const BatchModel&) = delete;

  Graph graph;
  std::int64_t micro_batch, accumulation;
  std::vector<GraphBlock> blocks;
  NodeKernels kernels;
  std::vector<BlockOption> curve;  // of a block; empty where there is none
};

class BatchCandidates {
 public:
  // What only little memory needs: plans in which several blocks share one kept input or each node is decided on by itself, and
  // the bound, as far as it is not enough.
  struct Floor {
    bool counts = false;
    Bytes enough{std::numeric_limits<std::int64_t>::max()};
  };
  // Looks at the ends: what is fastest and what holds least. The model outlives this.
  BatchCandidates(BatchModel& model, const Paging& paging, std::int64_t group, const PlanRequest& request, const Machine& machine,
                  Floor floor);
  // All that lies between.
  void complete(const PlanRequest& request, const Machine& machine);

  BatchModel& model() const { return *model_; }
  const Paging& paging() const { return paging_; }
  const WindowOrder& window() const { return window_; }
  std::vector<NodeReplay> replays(const Candidate& candidate) const;
  Paging paging(const Candidate& candidate) const;
  // Every block does what is fastest, or what holds least, and what leaves memory as far as it can; where activations need not.
  std::vector<Candidate> ends(std::size_t batch_index) const;
  // After complete: every combination of chunks and modes that the request allows.
  std::vector<Candidate> all(std::size_t batch_index) const;
  // No schedule of these ops needs less arena (plan/bound.h).
  Bytes arena_bound() const { return arena_bound_; }
  // Every plan of this batch has the instructions and generated kernels of the smallest one; a GPU may keep no graph of them.
  Bytes least_reserve(const Machine& machine, Bytes arena) const;
  // No plan of these candidates needs less of a process.
  Bytes bound(const Machine& machine) const { return arena_bound_ + least_reserve(machine, arena_bound_) + outside_; }
  // Of an update in which every node runs once and waits for nothing; of its loss, over all numbers of chunks.
  double kernel_seconds() const { return kernel_seconds_; }
  Bytes least_loss_scratch() const { return Bytes{chunks_.back().least}; }
  // Whether mixtures of what blocks do are exact to the byte; else every block does the same, and bytes are an upper bound where
  // there are several losses.
  bool composes() const { return regions_ ? regions_->exact() : composes_; }

 private:
  struct BlockProfile {
    std::int64_t saved = 0;  // bytes held from forward to backward
    std::int64_t peak = 0;   // most live bytes of its own steps, less what earlier blocks hold
    double seconds = 0;      // of its clones
  };
  struct MixtureProfile {
    std::int64_t peak = 0, loss_base = 0;  // most live bytes of all steps but the loss; at the loss, less scratch
    double seconds = 0;                    // of all clones
    double stall = 0;
  };
  // What a block can do whatever its neighbours do, and what follows from it, by block.
  struct Option {
    BlockChoice choice;
    std::vector<BlockProfile> profiles;
    std::vector<BlockLanes> lanes;
    // Where blocks do not compose: what follows if every block does it.
    std::optional<MixtureProfile> uniform;
    bool looked_at() const { return !profiles.empty() || uniform.has_value(); }
  };

  struct ChunkChoice {
    int chunks;
    std::int64_t scratch;  // of the loss that needs most
    std::int64_t least;    // of the one that needs least
    double seconds;        // of all losses of a micro-step
    int primitives;
    double stall;  // more than in the simulation of the options, where the loss streams
  };
  // What no mixture of options is: several blocks with one kept input, single nodes that run again, inputs that rest elsewhere.
  struct Whole {
    std::vector<NodeReplay> replays;
    int activations = 0;
    Bytes outside;
    MixtureProfile profile;
  };

  std::vector<NodeReplay> replays_of(const std::vector<BlockChoice>& choices) const;
  Graph with_replays(const std::vector<NodeReplay>& replays, int activations) const;
  Simulation simulate_window(Graph graph) const;
  void list_options(RecomputePolicy policy);
  void look_at(const Simulation& keep, const PlanRequest& request, const Machine& machine, Floor floor);
  Bytes find_bound(const Simulation& keep, Floor floor) const;
  void profile(Option& option, const Simulation& simulation);
  std::vector<const Option*> options_of(const Candidate& candidate) const;
  void find_chunks(const PlanRequest& request, const Simulation& simulation, const Machine& machine);
  MixtureProfile profile_whole(const Simulation& simulation) const;
  MixtureProfile profile_of(const Candidate& candidate) const;
  void add_joined(const PlanRequest& request, const Machine& machine);
  bool offloads(const PlanRequest& request) const;
  int most_offloaded() const { return static_cast<int>(blocks().size()) - 1; }
  std::size_t again() const;  // the option to make everything again
  Candidate uniform(std::size_t option) const;
  Candidate candidate_of(std::size_t batch_index, std::size_t chain) const;
  double add_offloaded(int activations, const BlockChoice& later, const PlanRequest& request, const Machine& machine);
  void add_more_offloaded(const PlanRequest& request, const Machine& machine);
  void add_replays(const PlanRequest& request, const Machine& machine);
  Simulation simulate_uniform(const Option& option) const;
  void look_at_option(Option& option, const Simulation& simulation, const Machine& machine);
  void look_at_option(Option& option, const Machine& machine);  // once
  bool add_whole(Whole whole, const PlanRequest& request, const Machine& machine);
  double seconds_of(const MixtureProfile& mixture, const ChunkChoice& chunks) const;
  double seconds_of(const MixtureProfile& mixture) const;
  void add_mixtures(std::size_t batch_index, std::vector<Candidate>& to) const;
  void add_candidates(Candidate candidate, std::vector<Candidate>& to) const;
  const std::vector<GraphBlock>& blocks() const { return model_->blocks; }

  BatchModel* model_;
  Paging paging_;
  WindowOrder window_;
  int chunks_simulated_;
  bool saves_;
  bool only_offloaded_;  // activations have to leave memory
  bool looks_for_floor_;
  bool composes_ = true;
  Graph paged_;  // while candidates are simulated
  OuterLanes outer_lanes_;
  std::vector<Option> options_;    // to keep everything first, then by what they keep; pieces last
  std::size_t first_allowed_ = 0;  // the request may not want to keep everything
  std::vector<Whole> wholes_;
  std::optional<RegionPlans> regions_;  // where everything stays in memory
  std::int64_t outside_peak_ = 0;       // of steps that hold no block's values
  std::int64_t loss_base_ = 0;          // live bytes at the loss, less scratch and what blocks hold
  std::int64_t between_peak_ = 0;       // of the other steps between the last block's forward and backward, likewise
  std::vector<ChunkChoice> chunks_;
  double base_seconds_ = 0;  // of an update that keeps everything, without the loss
  double kernel_seconds_ = 0;
  Bytes arena_bound_;
  Bytes outside_;  // for transfers
  std::size_t least_steps_ = 0;
  int least_primitives_ = 0;
};

}  // namespace plimsoll
